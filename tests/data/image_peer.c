/* Reads a folder of images with the public header and writes what it has as plain numbers, for
 * compare_images.py.
 *
 *     image_peer OUT DIR SIDE CHANNELS
 *
 * OUT, for the training part and the one for testing: n, classes, channels, height, width
 * (int64), the names of the classes, each ended by a zero, the images, the labels. */
#include <stepwell.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(FILE *out, const void *from, size_t bytes)
{
    if (fwrite(from, 1, bytes, out) != bytes)
        exit(1);
}

static void put_set(FILE *out, const sw_dataset *set)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(set, &info);
    const int64_t *dim = info.field[0].shape.dim;
    const int64_t head[] = {info.n, info.n_classes, dim[0], dim[1], dim[2]};
    put(out, head, sizeof head);
    for (int64_t i = 0; i < info.n_classes; i++)
        put(out, info.class_names[i], strlen(info.class_names[i]) + 1);
    put(out, info.field[0].data, (size_t)(info.n * dim[0] * dim[1] * dim[2]));
    put(out, info.field[1].data, (size_t)info.n * sw_dtype_bytes(info.field[1].dtype));
}

int main(int argc, char **argv)
{
    sw_images_opts opts = SW_OPTS(sw_images_opts);
    sw_dataset *train, *test;
    if (argc != 5)
        return 2;
    opts.side = atoi(argv[3]);
    opts.channels = atoi(argv[4]);
    if (sw_dataset_images(&train, &test, argv[2], &opts) != SW_OK) {
        fprintf(stderr, "%s\n", sw_last_error());
        return 1;
    }
    FILE *out = fopen(argv[1], "wb");
    if (out == NULL)
        return 1;
    put_set(out, train);
    put_set(out, test);
    sw_dataset_destroy(train);
    sw_dataset_destroy(test);
    return fclose(out) != 0;
}
