/* See asking.h. */
#include "tests/system/asking.h"
#include <stdarg.h>

sw_outcome asked;

static void drop_json(void *object)
{
    json_decref(object);
}

int ask(const char *format, ...)
{
    char words[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    program_run(&asked, words, "LC_ALL=C");
    return asked.status;
}

/* The one object that the last answer was. */
const json_t *answer(void)
{
    json_t *object = json_loads(asked.out);
    SW_CHECK(json_is_object(object), "status %d: %s%s", asked.status, asked.out, asked.err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(object);
    sw_after(drop_json, object);
    return object;
}

const json_t *report_of(const char *path)
{
    CU_ASSERT_EQUAL(ask("report --json %s", path), 0);
    return answer();
}

/* The member at "a.b.c"; names with a dot in them are not asked for. */
const json_t *at(const json_t *o, const char *path)
{
    char name[64];
    for (const char *p = path; o != NULL && *p != '\0';) {
        const size_t n = strcspn(p, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        o = json_object_get(o, name);
        p += n + (p[n] == '.');
    }
    SW_CHECK(o != NULL, "there is no %s", path);
    return o;
}

int64_t number_at(const json_t *o, const char *path)
{
    const json_t *x = at(o, path);
    SW_CHECK(json_is_integer(x), "%s is no whole number", path);
    return json_integer_value(x);
}

void check(const json_t *o, const char *path, int64_t wanted)
{
    const int64_t is = number_at(o, path);
    SW_CHECK(is == wanted, "%s is %lld, not %lld", path, (long long)is, (long long)wanted);
}

void check_text(const json_t *o, const char *path, const char *wanted)
{
    const char *is = json_string_value(at(o, path));
    SW_CHECK(is != NULL && strcmp(is, wanted) == 0, "%s is %s, not %s", path,
             is != NULL ? is : "no text", wanted);
}

int64_t sum_of(const json_t *object, const char *member)
{
    const char *key;
    json_t *x;
    int64_t sum = 0;
    json_object_foreach(object, key, x) sum +=
        json_integer_value(member != NULL ? at(x, member) : x);
    return sum;
}

const layer_scene net[NET] = {{{"block1", "conv"}, 4000},
                              {{"block1", "norm"}, 100},
                              {{"block2", "conv"}, 9000},
                              {{"head"}, 17}};

const char *net_profile(const char *name, int layers)
{
    const char *path = sw_temp_path(name);
    scene *s = scene_open(path, (sw_profile_opts){0});
    scene_layers(s, net, layers);
    scene_layers(s, net, layers);
    scene_close(s);
    return path;
}
