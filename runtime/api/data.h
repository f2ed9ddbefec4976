/* Data: data sets from files and from the caller's arrays, loaders, feeds, and the results of
 * each class.
 *
 *     SW_TRY(sw_dataset_idx(&dataset, "data/mnist", "train"));
 *     sw_loader_opts opts = SW_OPTS(sw_loader_opts, .batch = 64, .shuffle = 1);
 *     SW_TRY(sw_loader_create(&loader, dataset, &opts));
 *     SW_TRY(sw_loader_epoch(loader, 0));
 *     SW_TRY(sw_loader_next(loader, &args.inputs, &args.n_inputs));
 */

/* Digits drawn by this program, 28 x 28 grey, 10 classes: the same bytes everywhere for a
 * seed. */
SW_MUST_USE SW_API sw_status sw_dataset_synthetic(sw_dataset **out, int64_t n, uint64_t seed);
/* Random numbers, normal, by Philox: field 0 (width) F32, field 1 the same, n_classes 0. For
 * what depends on sizes alone. */
SW_MUST_USE SW_API sw_status sw_dataset_vectors(sw_dataset **out, int64_t n, int64_t width,
                                                uint64_t seed);
/* MNIST and its relatives: DIR/train-images-idx3-ubyte and its fellows, with or without ".gz".
 * `part` is "train" or "t10k". Errors name the file. */
SW_MUST_USE SW_API sw_status sw_dataset_idx(sw_dataset **out, const char *dir,
                                            const char *part);
typedef struct {
    size_t size;
    int shapes_only;     /* 1: shapes and classes for sw_dataset_describe, without samples; no
                          * loader takes it. Of compressed images the header alone is
                          * read; labels are read all the same, for their classes */
    size_t unpack_bytes; /* the most that a compressed file may unpack to; more is SW_NOMEM,
                          * before memory is taken where the file says its size; 0: 1 GiB */
} sw_idx_opts;
/* The same with options; NULL: all zero. */
SW_MUST_USE SW_API sw_status sw_dataset_idx_with(sw_dataset **out, const char *dir,
                                                 const char *part, const sw_idx_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;     /* 1: shapes and classes for sw_dataset_describe, without samples; no
                          * loader takes it */
    size_t unpack_bytes; /* as above */
} sw_cifar_opts;
/* CIFAR-10's binary batches, with or without ".gz": `part` "train" is DIR/data_batch_1.bin to
 * 5, all of them, or data_batch_mini.bin, "test" is test_batch.bin or test_batch_mini.bin, each
 * of any number of records. Images (3, 32, 32) U8, labels () U8; class names from
 * batches.meta.txt where it is there. opts NULL: all zero. Errors name the file. */
SW_MUST_USE SW_API sw_status sw_dataset_cifar(sw_dataset **out, const char *dir,
                                              const char *part, const sw_cifar_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;       /* as above; the lines are read all the same, to count them */
    const char *label;     /* name of the label column, or its position: 1 is the first, -1 the
                            * last; NULL: the last */
    int header;            /* 0: the first line is one where it has no number; 1: it is; -1: not
                            */
    char separator;        /* ',', ';' or '\t'; 0: as the first line says */
    const char *test_path; /* the test part; NULL: a share of PATH */
    double test_share;     /* above 0, below 1; 0: 0.2 */
    uint64_t seed;         /* which samples that share is */
    int standardise;       /* 1: mean 0 and deviation 1 over the training part, for both parts
                            */
    size_t unpack_bytes;   /* as above, of each file */
    int64_t unlabelled; /* n: PATH may have features alone, which are n columns, where there is
                         * no test part yet; -1: test_path may have a column less than PATH,
                         * the label's; 0: each line has its label */
} sw_csv_opts;
/* Lines of numbers, with a decimal point in every locale, and a label: features (columns - 1)
 * F32, label () U8, I32 from 257 classes on. Labels are whole numbers or words; the sorted list
 * of them gives classes and class names. PATH, or PATH.gz. `test` NULL: all is for training.
 * A number that is missing, not finite or out of range is SW_FORMAT, with file, line and
 * column. A file without labels has field 0 alone; where PATH is one, all of it is in `train`,
 * without classes, and `test` receives NULL. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_csv(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_csv_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;     /* as above */
    int64_t context;     /* tokens of a sample; 0: 128 */
    size_t unpack_bytes; /* as above */
} sw_text_opts;
/* The bytes of PATH, or PATH.gz: a sample is the tokens (context) U8 of a window and those that
 * follow each (context) U8; 256 classes. The first 90 % are for training, the rest for
 * validation; `validation` NULL: all is. An epoch has each window once, side by side. Where a
 * loader shuffles, the first begins elsewhere in each epoch of the training part, 0 to context
 * - 1 bytes after the beginning, by Philox from seed and epoch. */
SW_MUST_USE SW_API sw_status sw_dataset_text(sw_dataset **train, sw_dataset **validation,
                                             const char *path, const sw_text_opts *opts);

typedef struct {
    size_t size;
    int shapes_only; /* as above; without a vocabulary the ids are read all the same, for the
                      * largest of them */
    int bits;        /* of an id: 16 or 32; 0: 16 */
    int64_t context; /* tokens of a sample; 0: 128 */
    const char *vocabulary;      /* FILE; NULL: as many ids as the largest one says */
    const char *validation_path; /* the validation part; NULL: see below */
    size_t unpack_bytes;         /* as above, of each file */
} sw_tokens_opts;
/* Ids of tokens, little-endian numbers of 16 or 32 bits, one after the other and nothing else:
 * what numpy's tofile() writes. PATH is a file, or PATH.gz, of which the first 90 % are for
 * training and the rest for validation; or a folder with train.bin and val.bin; or the training
 * part alone, with validation_path. A sample is the ids (context) of a window and those that
 * follow each (context), U16 of 16 bits and I32 of 32; windows are those of sw_dataset_text.
 *
 * The vocabulary gives n_classes, and names them. Its file is a JSON object {token: id} of all
 * ids from 0 on, as GPT-2's vocab.json, where it begins with '{'; else it has a token in each
 * line, that of id 0 first. An id that is not in it is SW_FORMAT, with file, offset, id and
 * size. `validation` NULL: all is for training. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_tokens(sw_dataset **train, sw_dataset **validation,
                                               const char *path, const sw_tokens_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;       /* as above; targets that are ids are read all the same */
    const char *test_path; /* the test part, in the same form as the other; NULL: what an
                            * archive has of its own, else a share of the samples */
    double test_share;     /* above 0, below 1; 0: 0.2 */
    uint64_t seed;         /* which samples that share is */
    size_t unpack_bytes;   /* as above, of each array in an archive */
    int64_t unlabelled;    /* 1: PATH may be without targets; 0: not */
} sw_npy_opts;
/* Arrays of NumPy (.npy, versions 1 to 3), little-endian, in C or Fortran order. The first axis
 * is the samples'. Types: f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1; others are refused by name. PATH is
 * "INPUTS.npy,TARGETS.npy".
 *
 * Inputs: u1 stay bytes (U8); other numbers become F32. (n, rows, columns) are images of one
 * channel; (n, rows, columns, channels) with 1, 3 or 4 channels on the last axis, and not on
 * the second, become (channels, rows, columns). Targets: floats are values, F32; integers (n)
 * or (n, 1) are classes from 0 on, of U8, U16 or I32 as their type or, of i4, i8, u4 and u8,
 * their number asks for. Integers of the inputs' own shape are ids, and the inputs are ids too
 * then. A number that is not finite or out of range is SW_FORMAT, with file and sample. `test`
 * NULL: all is for training. Without targets, "INPUTS.npy", there is field 0 alone, all of it
 * is in `train`, and `test` receives NULL. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_npy(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_npy_opts *opts);
/* The same from an archive (.npz), stored or deflated: PATH is "FILE" or "FILE:INPUTS,TARGETS"
 * with names of its arrays. Without names: x_train and y_train, with x_test and y_test for
 * testing; train_images and train_labels, with test_images and test_labels; x and y; or arr_0
 * and arr_1. Without targets it is "FILE:INPUTS", or a file of one array. */
SW_MUST_USE SW_API sw_status sw_dataset_npz(sw_dataset **train, sw_dataset **test,
                                            const char *path, const sw_npy_opts *opts);

/* How numbers of the caller's memory are written, in the machine's byte order. */
typedef enum {
    SW_NUMBER_F32,
    SW_NUMBER_F64,
    SW_NUMBER_U8,
    SW_NUMBER_I8,
    SW_NUMBER_BOOL, /* a byte: 0, or anything else, which is 1 */
    SW_NUMBER_U16,
    SW_NUMBER_I16,
    SW_NUMBER_U32,
    SW_NUMBER_I32,
    SW_NUMBER_U64,
    SW_NUMBER_I64
} sw_number;
/* One field of all samples. */
typedef struct {
    const void *data; /* the first number of sample 0 */
    sw_number type;
    sw_shape shape; /* of one sample: SW_SCALAR a number each, SW_SHAPE(1, 28, 28) an image */
    int64_t strides[1 + SW_MAX_RANK]; /* bytes from a sample to the next, then from a number to
                                       * the next along each axis; may be negative. All 0: side
                                       * by side, in the order of the axes */
    float scale, shift;               /* scale not 0: numbers become F32, x * scale + shift */
} sw_samples;
typedef struct {
    size_t size;
    const char *name;               /* in messages and profiles; NULL: "arrays" */
    int64_t n_classes;              /* 0: the largest class or id, plus 1 */
    const char *const *class_names; /* n_classes, copied; NULL: none */
    int64_t context; /* above 0: the only field is a row of n ids, of which samples are windows
                      * of so many, as sw_dataset_text makes them of bytes */
} sw_arrays_opts;
/* A data set of the caller's own arrays: n samples, 1 to 4 fields, field 0 what a model reads
 * and field 1 what it is to give.
 *
 * Floats become F32, which must be finite. U8 stays U8. Integers without a scale: field 1 has
 * classes (a number each) or ids (of several each), which must be 0 or more and below
 * n_classes. Field 0 has ids too where field 1 has ids and both have one shape and whole
 * numbers. They are U8, U16 or I32 as wide as they are written; I64 and U64 become the
 * narrowest that n_classes allows, or I32. All numbers are read once and checked; what is wrong
 * is SW_INVALID with its sample.
 *
 * A field is used where it lies, without a copy, when its numbers need no conversion and those
 * of one sample lie side by side: F32; U8, BOOL of 0 and 1, I8; U16, I16; I32, U32. The samples
 * themselves may be anywhere, so that an array of structs or every second row are used as they
 * are. Everything else is copied. Numbers that are used where they lie stay the caller's:
 * they must be there and unchanged until the data set and all its loaders and feeds are
 * destroyed. sw_dataset_describe says which fields these are: their `data` is the caller's own.
 * On failure nothing is kept. */
SW_MUST_USE SW_API sw_status sw_dataset_arrays(sw_dataset **out, int64_t n,
                                               const sw_samples *fields, int n_fields,
                                               const sw_arrays_opts *opts);

typedef struct {
    size_t size;
    int shapes_only;   /* as above; the head of each image is read all the same */
    int side;          /* images are resized so that the shorter side is `side`, and a square is
                        * cut out of the middle: 1 to 4096; 0: they stay, and must be alike */
    int channels;      /* 1: gray; 3: red, green, blue; 0: gray where all images are, else 3 */
    double test_share; /* of the images, for testing, where there is no folder for it: above 0,
                        * below 1; 0: 0.2 */
    uint64_t seed;     /* which images that share is */
    size_t unpack_bytes; /* the most that the images may take in memory, all of them, and what
                          * batches of them become (below); more is SW_NOMEM, before it is
                          * taken, with shapes_only too; 0: 1 GiB */
    /* Called before each look at an image with the looks so far and in all: two for each image,
     * with shapes_only one. SW_STOPPED where it does not return 0. NULL: none. */
    int (*progress)(void *user, int64_t done, int64_t all);
    void *user;
    int64_t unlabelled; /* 1: where images lie in DIR itself, all below it are samples without a
                         * class; 0: they are passed over */
    int64_t threads;    /* that decode, 1 to 256; 0: 1. The same for every number: bytes, the
                         * failure that is reported, the calls of progress, on the caller's
                         * thread */
    int64_t batch, test_batch; /* of each part, as they will be run, at most all there are: the
                                * slots of a loader that shuffles the first (two; one where a
                                * batch has at most 256 KiB) and the larger batch as F32 count
                                * to unpack_bytes; 0: none */
} sw_images_opts;
/* Images in folders, PNG and JPEG: DIR/CLASS/... with folders in folders, or
 * DIR/train/CLASS/... where DIR/val or DIR/test is beside it. Images (channels, h, w) U8,
 * labels () U8, I32 from 257 classes on: the sorted names of the folders are the classes.
 * Samples are in the order of class and path, whatever order the file system has; names that
 * begin with a dot are passed over. Each image is decoded once, row by row. Bilinear with
 * antialiasing, with the bits of Pillow's resize; 16 bits are cut to 8, transparency is left
 * out, Exif is not looked at. `test` NULL: all of DIR, or of DIR/train, is for training. Errors
 * name the file: SW_FORMAT where it is damaged, cut or has more than 65536 pixels on a side or
 * 2^26 in all, SW_UNSUPPORTED in a library without libpng or libjpeg. On failure neither is
 * made. Without classes there is field 0 alone, samples are in the order of path, all of them
 * are in `train`, and `test` receives NULL. */
SW_MUST_USE SW_API sw_status sw_dataset_images(sw_dataset **train, sw_dataset **test,
                                               const char *dir, const sw_images_opts *opts);

/* Copies of the samples in two parts: n_second of them, which seed chooses, in *second, all
 * others in *first, each in the order that they had. A function of its arguments alone. Windows
 * of a text do not move any more. On failure neither is made. */
SW_MUST_USE SW_API sw_status sw_dataset_split(sw_dataset **first, sw_dataset **second,
                                              const sw_dataset *dataset, int64_t n_second,
                                              uint64_t seed);

/* A checksum (XXH3) of the samples: types, shapes, number and all bytes. SW_INVALID for shapes
 * alone. */
SW_MUST_USE SW_API sw_status sw_dataset_hash(const sw_dataset *dataset, uint64_t *out);
SW_API void sw_dataset_destroy(sw_dataset *dataset);
/* One sample: shapes without the batch axis. Field 0 is what a model reads, an image, features
 * or tokens, field 1 the label, or one label for each token. */
typedef struct {
    size_t size; /* set by the caller */
    int64_t n, n_classes;
    int n_fields;
    sw_array field[4];              /* data: the first sample; NULL with shapes_only */
    const char *name;               /* "synthetic", the directory or the file */
    const char *const *class_names; /* n_classes, in the order of the labels; NULL: none */
    size_t bytes;                   /* of memory that the samples take; none where they lie in
                                     * the caller's arrays */
} sw_dataset_info;
/* Fills `size` bytes of *out, with zeros where there is no dataset. A size that cannot be
 * leaves *out as it was; sw_last_error() says so. */
SW_API void sw_dataset_describe(const sw_dataset *dataset, sw_dataset_info *out);
/* Mean and deviation of the bytes of a U8 field over all samples, as shares of 255: of each of
 * n channels (the first dim of a sample, 1 to 4), or with n 1 of all. Both have 4 significant
 * digits, so that what is written down is what is used (MNIST: 0.1307 and 0.3081); a deviation
 * of 0 is given as 1. sw_to_f32 with 1 / (255 deviation) and -mean / deviation makes mean 0 and
 * deviation 1 of them. SW_INVALID where there are no bytes, or shapes alone. */
SW_MUST_USE SW_API sw_status sw_dataset_moments(const sw_dataset *dataset, int field, int n,
                                                float *mean, float *deviation);

/* The results of the samples of a class, or of all. 0 by 0 is NaN. */
typedef struct {
    size_t size;        /* set by the caller */
    uint64_t support;   /* samples that have the label */
    uint64_t predicted; /* samples that were taken for it */
    uint64_t right;     /* both */
    double precision;   /* right / predicted */
    double recall;      /* right / support */
    double f1;          /* 2 right / (support + predicted) */
} sw_class_score;
/* Count a batch of results: counts (classes, classes) of the caller's, zeros at first, has at
 * [label][prediction] how many samples of `label` were taken for `prediction`, the class with
 * the largest score: the first of equals, and a NaN is the largest, as in sw_accuracy. scores
 * (rows, classes) F32, what sw_output_get gives of logits or probabilities; labels (rows) U8,
 * U16 or I32. A label that is no class is SW_INVALID, with its row, and nothing is counted. */
SW_MUST_USE SW_API sw_status sw_confusion_add(uint64_t *counts, int64_t classes,
                                              const sw_array *scores, const sw_array *labels);
/* Class k of the counts, 0 to classes - 1. */
SW_MUST_USE SW_API sw_status sw_confusion_class(const uint64_t *counts, int64_t classes,
                                                int64_t k, sw_class_score *out);
/* Of all samples: support and predicted are their number and right / support is the accuracy.
 * precision, recall and f1 are means over the classes that occur, as label or as prediction,
 * each with one weight, where NaN counts as 0: macro means, as scikit-learn has them. */
SW_MUST_USE SW_API sw_status sw_confusion_mean(const uint64_t *counts, int64_t classes,
                                               sw_class_score *out);

typedef struct {
    size_t size;
    int64_t batch;
    int slots; /* of the ring that the thread fills ahead, 1 to 1024; 0: 2. Without a thread
                  there is one, or none, whatever stands here (see inline_fill) */
    uint64_t seed;
    int shuffle;       /* by Philox from seed and epoch; moves the windows of a text too */
    int drop_last;     /* leave a smaller last batch out */
    sw_budget *budget; /* NULL: none */
    int inline_fill;   /* 1: fill in sw_loader_next, without a thread; 0: so where a batch has
                          at most 256 KiB (each field rounded up to 64 bytes), since waking a
                          thread takes as long; -1: never */
    uint64_t keyed;    /* 1: with shuffle, in the order of a sw_feed, which takes no memory */
    /* Of each `of` batches in a row those from `first` on, `share` of them, as one of several
     * ranks has them; with drop_last fewer than `of` at the end are left out. 0: all */
    uint32_t of, first, share;
    uint32_t reserved_word; /* must be zero */
} sw_loader_opts;
/* A ring of batch slots, and a thread that fills it ahead (see inline_fill); neither without
 * shuffle where samples lie side by side, as in every data set that is not of the caller's
 * arrays: a batch is then where the data set has it, aligned as its numbers are. The samples
 * stay until the last loader of a dataset has ended. */
SW_MUST_USE SW_API sw_status sw_loader_create(sw_loader **out, const sw_dataset *dataset,
                                              const sw_loader_opts *opts);
SW_API void sw_loader_destroy(sw_loader *loader);
/* Begin epoch `epoch`; the order depends on seed and epoch alone. */
SW_MUST_USE SW_API sw_status sw_loader_epoch(sw_loader *loader, uint64_t epoch);
/* The next batch: inputs as the dataset's fields with a batch axis before the others, valid
 * until the next call. *n_inputs is 0 at the end of the epoch. */
SW_MUST_USE SW_API sw_status sw_loader_next(sw_loader *loader, const sw_array **inputs,
                                            int *n_inputs);
/* Go on in epoch `epoch` with batch `batch` (0 to sw_loader_batches) as the next one: it costs
 * as much as beginning an epoch, whatever the batch. Here and below the batches of all ranks
 * count (`of`). */
SW_MUST_USE SW_API sw_status sw_loader_seek(sw_loader *loader, uint64_t epoch, int64_t batch);
/* The epoch, and how many of its batches were given away; either may be NULL. SW_INVALID before
 * the first epoch. */
SW_MUST_USE SW_API sw_status sw_loader_position(const sw_loader *loader, uint64_t *epoch,
                                                int64_t *batch);
SW_API size_t sw_loader_bytes(const sw_loader *loader);    /* all slots, the one, or 0 */
SW_API int64_t sw_loader_batches(const sw_loader *loader); /* of an epoch, for all ranks */

typedef struct {
    size_t size;
    int64_t batch;
    int shuffle;   /* 1: each stream and epoch has an order of its own, by a keyed bijection of
                      the samples; 0: as stored */
    int drop_last; /* leave a smaller last batch out */
} sw_feed_opts;
/* Nothing is kept for a stream, whatever their number: the order of epoch e of stream s is a
 * function of s, e and the number of samples. The samples are borrowed as by a loader. A loader
 * with `keyed` gives out the same batches. */
SW_MUST_USE SW_API sw_status sw_feed_create(sw_feed **out, const sw_dataset *dataset,
                                            const sw_feed_opts *opts);
SW_API void sw_feed_destroy(sw_feed *feed);
SW_API int64_t sw_feed_batches(const sw_feed *feed); /* of an epoch */
SW_API size_t sw_feed_bytes(const sw_feed *feed);    /* of one batch, as it is counted */
/* Which sample is number i (0 to n - 1) of an epoch of a stream. */
SW_MUST_USE SW_API sw_status sw_feed_sample(const sw_feed *feed, uint64_t stream,
                                            uint64_t epoch, int64_t i, int64_t *out);
