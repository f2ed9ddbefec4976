/* Reads a data set with the public header and writes what it has as plain numbers, for
 * compare_readers.py.
 *
 *     reader_peer OUT cifar DIR train|test
 *     reader_peer OUT csv FILE LABEL TEST|- STANDARDISE SEED
 *     reader_peer OUT text FILE CONTEXT
 *     reader_peer OUT npy|npz PATH TEST|-
 *
 * OUT: for each part n, classes, fields; for each field dtype, rank, dims and the data; of a
 * text all epochs 0 to 3 of a shuffling loader with seed 3 follow for the training part. Whole
 * numbers are int64. */
#include <stepwell.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;

static void check(sw_status status)
{
    if (status == SW_OK)
        return;
    fprintf(stderr, "%s: %s\n", sw_status_name(status), sw_last_error());
    exit(1);
}

static void put(const void *from, size_t bytes)
{
    if (fwrite(from, 1, bytes, out) != bytes)
        exit(1);
}

static void put_number(int64_t x)
{
    put(&x, sizeof x);
}

static void put_set(const sw_dataset *set, bool windows)
{
    sw_dataset_info info = SW_OPTS(sw_dataset_info);
    sw_dataset_describe(set, &info);
    put_number(info.n);
    put_number(info.n_classes);
    put_number(info.n_fields);
    for (int i = 0; i < info.n_fields; i++) {
        size_t bytes = (size_t)info.n * sw_dtype_bytes(info.field[i].dtype);
        put_number(info.field[i].dtype);
        put_number(info.field[i].shape.rank);
        for (int d = 0; d < info.field[i].shape.rank; d++) {
            put_number(info.field[i].shape.dim[d]);
            bytes *= (size_t)info.field[i].shape.dim[d];
        }
        put(info.field[i].data, bytes);
    }
    for (int64_t c = 0; c < info.n_classes && info.class_names != NULL && !windows; c++)
        put(info.class_names[c], strlen(info.class_names[c]) + 1);
}

static void put_epochs(const sw_dataset *set)
{
    const sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 8, .seed = 3, .shuffle = 1);
    sw_loader *loader;
    check(sw_loader_create(&loader, set, &opts));
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        const sw_array *in;
        int n;
        check(sw_loader_epoch(loader, epoch));
        for (;;) {
            check(sw_loader_next(loader, &in, &n));
            if (n == 0)
                break;
            for (int64_t i = 0; i < in[0].shape.dim[0]; i++)
                for (int f = 0; f < 2; f++)
                    put((const char *)in[f].data + i * in[f].shape.dim[1],
                        (size_t)in[f].shape.dim[1]);
        }
    }
    sw_loader_destroy(loader);
}

static void read_csv(sw_dataset *part[2], char **word)
{
    const sw_csv_opts opts = SW_OPTS(
        sw_csv_opts, .label = word[1], .test_path = strcmp(word[2], "-") == 0 ? NULL : word[2],
        .standardise = atoi(word[3]), .seed = strtoull(word[4], NULL, 10));
    check(sw_dataset_csv(&part[0], &part[1], word[0], &opts));
}

static void read_arrays(sw_dataset *part[2], char **word)
{
    const sw_npy_opts opts =
        SW_OPTS(sw_npy_opts, .test_path = strcmp(word[2], "-") == 0 ? NULL : word[2]);
    sw_dataset **test = opts.test_path != NULL ? &part[1] : NULL;
    check(strcmp(word[0], "npy") == 0 ? sw_dataset_npy(&part[0], test, word[1], &opts)
                                      : sw_dataset_npz(&part[0], test, word[1], &opts));
}

int main(int argc, char **argv)
{
    sw_dataset *part[2] = {NULL, NULL};
    if (argc < 5 || (out = fopen(argv[1], "wb")) == NULL)
        return 2;
    const bool text = strcmp(argv[2], "text") == 0;
    if (strcmp(argv[2], "cifar") == 0)
        check(sw_dataset_cifar(&part[0], argv[3], argv[4], NULL));
    else if (text) {
        const sw_text_opts opts = SW_OPTS(sw_text_opts, .context = atoll(argv[4]));
        check(sw_dataset_text(&part[0], &part[1], argv[3], &opts));
    } else if (strncmp(argv[2], "np", 2) == 0) {
        read_arrays(part, argv + 2);
    } else if (argc == 8)
        read_csv(part, argv + 3);
    else
        return 2;
    for (int i = 0; i < 2; i++)
        if (part[i] != NULL)
            put_set(part[i], text);
    if (text)
        put_epochs(part[0]);
    sw_dataset_destroy(part[0]);
    sw_dataset_destroy(part[1]);
    return fclose(out) == 0 ? 0 : 1;
}
