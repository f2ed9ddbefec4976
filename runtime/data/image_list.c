/* The images below a folder: ROOT/CLASS/..., with folders in folders. Names are sorted by their
 * bytes, so that labels and order are the same on every file system. */
#include "runtime/data/image_internal.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DEPTH 16 /* folders below one another: more are a link in a circle */

/* A walk through the folders: each is listed when its turn comes, and adds its own. */
typedef struct {
    swi_image_list *list;
    swi_image_entry *folders; /* to look at; labels as of images */
    uint32_t n_folders, folders_room;
    uint32_t at;     /* the folder at hand */
    bool in_root;    /* it is the root */
    bool unlabelled; /* images in the root are taken */
    size_t n_others; /* files that are no images */
    char *path;      /* room of PATH_BYTES */
    sw_status status;
} walk;

#define PATH_BYTES 4096

static const char *const endings[] = {".png", ".jpg", ".jpeg", NULL};
/* Of images that are not read: better said than passed over. */
static const char *const foreign[] = {".bmp", ".gif",  ".webp", ".tif", ".tiff", ".ppm",
                                      ".pgm", ".avif", ".heic", ".jp2", NULL};

static bool ends_in(const char *name, const char *const *list)
{
    const size_t n = strlen(name);
    for (; *list != NULL; list++)
        if (n > strlen(*list) && strcasecmp(name + n - strlen(*list), *list) == 0)
            return true;
    return false;
}

/* ---- growing ----------------------------------------------------------------------------- */

static sw_status add_text(swi_image_list *list, const char *text, size_t *at)
{
    const size_t bytes = strlen(text) + 1;
    if (bytes > list->room - list->used) {
        const size_t room = 2 * (list->room + bytes);
        void *block = list->text;
        SW_TRY(sw_heap_resize(&block, SW_HEAP_FILES, list->room, room));
        list->text = block;
        list->room = room;
    }
    memcpy(list->text + list->used, text, bytes);
    *at = list->used;
    list->used += bytes;
    return SW_OK;
}

static sw_status add_entry(swi_image_list *list, swi_image_entry **entries, uint32_t *n,
                           uint32_t *room, const char *path, uint32_t label)
{
    void *block = *entries;
    size_t at;
    if (*n == UINT32_MAX)
        SW_FAIL(SW_FORMAT, "%s: must have at most %u images", list->root, UINT32_MAX);
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_FILES, room, *n + 1, sizeof **entries));
    *entries = block;
    SW_TRY(add_text(list, path, &at));
    (*entries)[(*n)++] = (swi_image_entry){.path = at, .label = label};
    return SW_OK;
}

/* ---- sorting ----------------------------------------------------------------------------- */

static bool is_below(const swi_image_list *list, const swi_image_entry *a,
                     const swi_image_entry *b)
{
    if (a->label != b->label)
        return a->label < b->label;
    return strcmp(list->text + a->path, list->text + b->path) < 0;
}

static void sink(const swi_image_list *list, swi_image_entry *heap, int64_t root, int64_t n)
{
    const swi_image_entry moved = heap[root];
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && is_below(list, &heap[child], &heap[child + 1]))
            child++;
        if (!is_below(list, &moved, &heap[child]))
            break;
        heap[root] = heap[child];
    }
    heap[root] = moved;
}

static void sort(const swi_image_list *list, swi_image_entry *heap, int64_t n)
{
    for (int64_t root = n / 2; root-- > 0;)
        sink(list, heap, root, n);
    for (; n-- > 1;) {
        const swi_image_entry largest = heap[0];
        heap[0] = heap[n];
        heap[n] = largest;
        sink(list, heap, 0, n);
    }
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* ROOT/INSIDE/NAME into the walk's room; "" for no `inside`. */
static const char *path_of(walk *w, const char *inside, const char *name)
{
    const int n = snprintf(w->path, PATH_BYTES, "%s/%s%s%s", w->list->root, inside,
                           *inside != '\0' ? "/" : "", name);
    return n >= 0 && n < PATH_BYTES ? w->path : NULL;
}

static int depth_of(const char *path)
{
    int n = 0;
    for (; *path != '\0'; path++)
        n += *path == '/';
    return n;
}

static sw_status take_name(walk *w, const char *name)
{
    swi_image_list *list = w->list;
    const bool top = w->in_root;
    const char *inside = top ? "" : list->text + w->folders[w->at].path;
    const uint32_t label = top ? 0 : w->folders[w->at].label;
    const size_t root = strlen(list->root) + 1;
    if (name[0] == '.') /* hidden, as what systems put beside images */
        return SW_OK;
    if (path_of(w, inside, name) == NULL)
        SW_FAIL(SW_FORMAT, "%s: a path in it is longer than %d bytes", list->root, PATH_BYTES);
    if ((!top || w->unlabelled) && ends_in(name, endings))
        return add_entry(list, &list->images, &list->n, &list->images_room, w->path + root,
                         label);
    if ((!top || w->unlabelled) && ends_in(name, foreign))
        SW_FAIL(SW_FORMAT,
                "%s: images must be .png, .jpg or .jpeg: convert it, or take it away", w->path);
    if (!sw_folder_there(w->path)) {
        w->n_others++;
        return SW_OK;
    }
    if (depth_of(w->path + root) > DEPTH)
        SW_FAIL(SW_FORMAT, "%s: folders must be at most %d deep in one another", w->path,
                DEPTH);
    return add_entry(list, &w->folders, &w->n_folders, &w->folders_room, w->path + root, label);
}

static bool take(void *context, const char *name)
{
    walk *w = context;
    w->status = take_name(w, name);
    return w->status == SW_OK;
}

static sw_status list_folder(walk *w, const char *inside)
{
    const char *path = *inside != '\0' ? path_of(w, inside, "") : w->list->root;
    if (path == NULL)
        SW_FAIL(SW_FORMAT, "%s: a path in it is too long", w->list->root);
    w->status = SW_OK;
    SW_TRY(sw_folder_for_each(path, take, w));
    return w->status;
}

/* The folders of the root are the classes. */
static sw_status list_classes(walk *w)
{
    swi_image_list *list = w->list;
    void *block = NULL;
    w->in_root = true;
    SW_TRY(list_folder(w, ""));
    w->in_root = false;
    if (list->n > 0) /* its folders have no meaning: all labels are 0 */
        return SW_OK;
    if (w->n_folders == 0)
        SW_FAIL(
            SW_FORMAT,
            "%s: a folder for each class is needed, with its images in it (%zu files and no "
            "folder are there)",
            list->root, w->n_others);
    sort(list, w->folders, w->n_folders);
    SW_TRY(sw_heap_reserve(&block, SW_HEAP_FILES, &list->classes_room, w->n_folders,
                           sizeof *list->classes));
    list->classes = block;
    list->n_classes = w->n_folders;
    for (uint32_t i = 0; i < list->n_classes; i++) {
        list->classes[i] = w->folders[i].path;
        w->folders[i].label = i;
    }
    return SW_OK;
}

static sw_status walk_all(walk *w)
{
    SW_TRY(list_classes(w));
    for (w->at = 0; w->at < w->n_folders; w->at++) {
        char inside[PATH_BYTES];
        snprintf(inside, sizeof inside, "%s", w->list->text + w->folders[w->at].path);
        SW_TRY(list_folder(w, inside)); /* the text may move while it grows */
    }
    sort(w->list, w->list->images, w->list->n);
    return SW_OK;
}

sw_status swi_image_list_open(swi_image_list *list, const char *root, bool unlabelled)
{
    walk w = {.list = list, .unlabelled = unlabelled};
    void *block;
    list->root = root;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, PATH_BYTES));
    w.path = block;
    const sw_status status = walk_all(&w);
    sw_heap_free(block, SW_HEAP_FILES, PATH_BYTES);
    sw_heap_free(w.folders, SW_HEAP_FILES, w.folders_room * sizeof *w.folders);
    return status;
}

void swi_image_list_close(swi_image_list *list)
{
    sw_heap_free(list->text, SW_HEAP_FILES, list->room);
    sw_heap_free(list->classes, SW_HEAP_FILES, list->classes_room * sizeof *list->classes);
    sw_heap_free(list->images, SW_HEAP_FILES, list->images_room * sizeof *list->images);
    *list = (swi_image_list){0};
}
