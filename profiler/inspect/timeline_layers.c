/* Layers of models among the scopes that they are called in. */
#include "profiler/inspect/timeline_layers.h"
#include "alloc/base/mem.h"
#include <string.h>

#define FORWARD 1       /* phase */
#define LAYERS_MAX 4096 /* more are left as they are */

/* A layer of a program; the address identifies a string of a timeline. */
typedef struct {
    const char *path, *home; /* home: where it belongs; NULL: here */
    bool forward;            /* an op of the forward pass is in it */
} layer;

typedef struct {
    layer *at;
    uint32_t n, cap, last; /* last: found last, most ops follow one of their own layer */
} layers;

static sw_status find(layers *x, const char *path, layer **out)
{
    *out = NULL;
    if (x->n > 0 && x->at[x->last].path == path) {
        *out = &x->at[x->last];
        return SW_OK;
    }
    for (x->last = 0; x->last < x->n && x->at[x->last].path != path; x->last++)
        ;
    if (x->last == x->n) {
        SW_TRY(sw_heap_reserve(&x->at, SW_HEAP_PROFILE, &x->cap, x->n + 1, sizeof *x->at));
        x->at[x->n++] = (layer){.path = path};
    }
    *out = &x->at[x->last];
    return SW_OK;
}

static sw_status collect(layers *x, const sw_tl_program *p)
{
    layer *found;
    for (uint32_t i = 0; i < p->n_ops && x->n <= LAYERS_MAX; i++) {
        SW_TRY(find(x, p->ops[i].layer, &found));
        found->forward |= p->ops[i].phase == FORWARD;
    }
    for (uint32_t i = 0; i < p->n_values && x->n <= LAYERS_MAX; i++)
        SW_TRY(find(x, p->values[i].layer, &found));
    return SW_OK;
}

/* Bytes of the path of a scope of that name in another one, 0: there is none. */
static size_t scope_in(const char *path, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = path; (at = strchr(at, '/')) != NULL;) {
        at++;
        if (strncmp(at, name, n) == 0 && (at[n] == '/' || at[n] == '\0'))
            return (size_t)(at - path) + n;
    }
    return 0;
}

/* The only scope of that name in others; *n: how many there are. */
static const char *only_scope(const layers *x, const char *name, size_t *bytes, uint32_t *n)
{
    const char *home = NULL;
    *n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const size_t here = scope_in(x->at[i].path, name);
        if (here == 0 ||
            (home != NULL && here == *bytes && strncmp(home, x->at[i].path, here) == 0))
            continue;
        home = x->at[i].path;
        *bytes = here;
        ++*n;
    }
    return home;
}

static bool has_inner(const layers *x, const char *path)
{
    const size_t n = strlen(path);
    for (uint32_t i = 0; i < x->n; i++)
        if (strncmp(x->at[i].path, path, n) == 0 && x->at[i].path[n] == '/')
            return true;
    return false;
}

static sw_status find_home(sw_timeline *t, const layers *x, layer *l)
{
    size_t bytes = 0;
    uint32_t n;
    void *path;
    if (*l->path == '\0' || l->forward || strchr(l->path, '/') != NULL || has_inner(x, l->path))
        return SW_OK;
    const char *home = only_scope(x, l->path, &bytes, &n);
    if (n != 1)
        return SW_OK;
    SW_TRY(sw_timeline_alloc(t, &path, bytes + 1, 1));
    memcpy(path, home, bytes);
    return sw_timeline_string(t, &l->home, path);
}

static sw_status move(layers *x, const char **path)
{
    layer *l;
    SW_TRY(find(x, *path, &l));
    if (l->home != NULL)
        *path = l->home;
    return SW_OK;
}

static sw_status assign(sw_timeline *t, sw_tl_program *p, layers *x)
{
    SW_TRY(collect(x, p));
    if (x->n > LAYERS_MAX)
        return SW_OK;
    uint32_t homes = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        SW_TRY(find_home(t, x, &x->at[i]));
        homes += x->at[i].home != NULL;
    }
    for (uint32_t i = 0; i < p->n_ops && homes > 0; i++)
        SW_TRY(move(x, &p->ops[i].layer));
    for (uint32_t i = 0; i < p->n_values && homes > 0; i++)
        SW_TRY(move(x, &p->values[i].layer));
    return SW_OK;
}

sw_status timeline_assign_layers(sw_timeline *t, sw_tl_program *p)
{
    layers x = {0};
    const sw_status status = assign(t, p, &x);
    sw_heap_free(x.at, SW_HEAP_PROFILE, x.cap * sizeof *x.at);
    return status;
}
