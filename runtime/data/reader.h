/* Files that data sets are read from, by the names of `--data NAME:PATH`. A reader is one file,
 * NAME.c, and one line in readers.def. */
#pragma once

#include "runtime/data/data_internal.h"
#include "runtime/stepwell.h"

typedef struct swi_reader_opts {
    bool shapes_only;       /* as much is read as tells how many samples there are, and how one
                               looks */
    size_t unpack_bytes;    /* of a compressed file; 0: the library's bound */
    int64_t context;        /* of a text: tokens of a sample; 0: the library's */
    const sw_csv_opts *csv; /* of a table */
    int64_t n_ids;          /* of documents: ids are below it; 0: any */
    const char *vocabulary; /* file of the tokens' names; NULL: none */
    const char *test_path;  /* the part for testing; NULL: of the same source */
    double test_share;      /* of the samples; 0: the library's */
    uint64_t seed;          /* that chooses them */
    const sw_images_opts *images; /* of a folder of images; NULL: the library's */
    int unlabelled;               /* of arrays: 1: they may be without targets */
    /* Add the documents of a file of texts, made ids; NULL: texts are not read. */
    sw_status (*chat)(struct swi_documents *to, const char *path,
                      const struct swi_reader_opts *opts);
    void *user; /* of `chat` */
} swi_reader_opts;

/* Options that not every reader has, as bits. */
enum {
    SWI_TAKES_TEST = 1,       /* test_path */
    SWI_TAKES_SHARE = 2,      /* test_share, seed */
    SWI_TAKES_TABLE = 4,      /* of csv: label, header, standardise */
    SWI_TAKES_VOCABULARY = 8, /* vocabulary */
    SWI_TAKES_IMAGES = 16     /* of images: their side and channels */
};

typedef struct {
    const char *name;         /* "idx" */
    const char *path;         /* "DIR" or "FILE", in help */
    const char *about;        /* a phrase after it: "for MNIST and its relatives" */
    const char *const *files; /* that may be in the folder, NULL-terminated; NULL: of a file */
    unsigned takes;           /* SWI_TAKES_... */
    /* The i-th file that PATH may mean, each with or without ".gz"; false past the last. NULL:
     * PATH itself. */
    bool (*name_file)(const char *path, int i, char *to, size_t bytes);
    /* Of a folder: read one part. */
    sw_status (*part)(sw_dataset **out, const char *path, bool test,
                      const swi_reader_opts *opts);
    /* Do both parts go together? NULL: always. */
    sw_status (*agree)(const sw_dataset *train, const sw_dataset *test, const char *path);
    /* Of a file: read both parts. */
    sw_status (*both)(sw_dataset **train, sw_dataset **test, const char *path,
                      const swi_reader_opts *opts);
} swi_reader;

#define SW_READER(name) extern const swi_reader swi_reader_##name;
#include "runtime/data/readers.def"
#undef SW_READER

/* The kind of a file that was given as data, so that a message can say what to do: by its first
 * bytes, "a .npy file"; NULL where they are not known. */
const char *swi_identify_bytes(const unsigned char *head, size_t n);
/* Say what stands at PATH by its bytes, and how to read it: "is a folder of tokens: give
 * tokens:PATH". `text` has room for `bytes`. NULL where nothing is known. Takes no memory. */
const char *swi_identify(const char *path, char *text, size_t bytes);

/* The i-th reader; NULL after the last. */
const swi_reader *swi_reader_at(size_t i);
/* The reader of "NAME:PATH", and where its path begins; NULL: there is none of that name. */
const swi_reader *swi_reader_of(const char *source, const char **path);

/* Files of vocabularies: which token an id stands for. */

typedef struct {
    int64_t n;
    char *text; /* the tokens in the order of their ids, each ended by a zero byte */
    size_t used, room;
} swi_vocabulary;

/* Read PATH, or PATH.gz: a JSON object {token: id} with every id from 0 on once, where it
 * begins with '{'; else a token in each line. On failure nothing is kept. */
SW_MUST_USE sw_status swi_vocabulary_read(swi_vocabulary *out, const char *path,
                                          size_t unpack_bytes);
void swi_vocabulary_free(swi_vocabulary *vocabulary); /* all zero is fine */
