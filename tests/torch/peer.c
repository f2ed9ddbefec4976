/* Files that the comparisons read: peer.h. */
#include "peer.h"
#include <string.h>

FILE *peer_create(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

void peer_put(FILE *to, const void *from, size_t bytes)
{
    if (fwrite(from, 1, bytes, to) != bytes)
        exit(1);
}

void peer_save(const sw_model *model, const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    CHECK(sw_model_save(model, path));
}

void peer_put_gradients(sw_model *model, FILE *to)
{
    for (size_t i = 0; i < sw_param_count(model); i++) {
        const sw_param p = sw_param_at(model, i);
        const sw_shape shape = sw_param_shape(p);
        size_t bytes = sizeof(float);
        for (int k = 0; k < shape.rank; k++)
            bytes *= (size_t)shape.dim[k];
        if (strstr(sw_param_name(p), "running_") != NULL)
            continue;
        float *values = malloc(bytes);
        if (values == NULL)
            exit(1);
        CHECK(sw_param_gradient(p, values, bytes));
        peer_put(to, values, bytes);
        free(values);
    }
}
