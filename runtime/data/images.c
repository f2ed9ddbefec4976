/* Folders of images: DIR/CLASS/..., or DIR/train/CLASS/... with DIR/val or DIR/test beside it,
 * as PyTorch's ImageFolder has them. Two passes, as of all readers: the first reads the head of
 * each image, so that all sizes are known before memory is taken; the second decodes each once,
 * to where the data set keeps it, on several threads. */
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "runtime/data/image_internal.h"
#include "runtime/data/loader.h"
#include "runtime/data/reader.h"
#include "runtime/base/structs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAIN, TEST, PARTS };
#define DEFAULT_SHARE 0.2
#define SIDE_MAX 4096 /* of images that are resized */
/* Work of decoding, in pixels of a compressed image, about 10 ns each: opening a file is as
 * much as 4,096 (28 us for one of 32 x 32). A thread has 2.5 ms of it, so that starting it
 * costs less than it brings: 64 such files are read by one thread, 128 by two, in 0.7 of the
 * time. */
#define WORK_OF_FILE 4096
#define WORK_OF_THREAD ((int64_t)1 << 18)

typedef struct {
    const char *dir;
    sw_images_opts opts;
    bool wants_test, split; /* split: the test part is a share of the training one */
    char *root[PARTS];      /* DIR/train, DIR/val; of one block */
    size_t root_bytes;
    swi_image_list list[PARTS];
    size_t path_bytes;
    uint32_t *label;      /* of the classes for testing: their labels among those of training */
    swi_image_head first; /* of the first image, while all are alike */
    int64_t w, h;
    int channels;
    int64_t n[PARTS];
    int64_t before, all; /* looks: those of passes that ended; in both */
    int64_t work;        /* of decoding all, in pixels */
    sw_dataset *part[PARTS];
} reader;

/* ---- which folders ----------------------------------------------------------------------- */

/* DIR/train is for training where DIR/val or DIR/test is beside it: else it is a class. */
static sw_status find_roots(reader *r)
{
    static const char *const beside[] = {"val", "test", NULL};
    const size_t bytes = strlen(r->dir) + sizeof "/train";
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, PARTS * bytes));
    r->root_bytes = PARTS * bytes;
    r->root[TRAIN] = block;
    r->root[TEST] = r->root[TRAIN] + bytes;
    snprintf(r->root[TRAIN], bytes, "%s/train", r->dir);
    bool is_there = false;
    for (int i = 0; beside[i] != NULL && !is_there; i++) {
        snprintf(r->root[TEST], bytes, "%s/%s", r->dir, beside[i]);
        is_there = sw_folder_there(r->root[TEST]) && sw_folder_there(r->root[TRAIN]);
    }
    if (is_there && r->opts.test_share > 0.0)
        SW_FAIL(SW_INVALID, "%s is there: a share of %s for testing has no effect",
                r->root[TEST], r->root[TRAIN]);
    if (!is_there)
        snprintf(r->root[TRAIN], bytes, "%s", r->dir);
    r->split = !is_there && r->wants_test;
    return SW_OK;
}

/* The classes of the test part by those of training, which have them all. */
static sw_status match_classes(reader *r)
{
    const swi_image_list *train = &r->list[TRAIN], *test = &r->list[TEST];
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, test->n_classes * sizeof(uint32_t)));
    r->label = block;
    for (uint32_t i = 0, k = 0; i < test->n_classes; i++) {
        const char *name = test->text + test->classes[i];
        while (k < train->n_classes && strcmp(train->text + train->classes[k], name) < 0)
            k++;
        if (k == train->n_classes || strcmp(train->text + train->classes[k], name) != 0)
            SW_FAIL(SW_FORMAT, "%s: class '%s' is not in %s", test->root, name, train->root);
        r->label[i] = k;
    }
    return SW_OK;
}

/* Each class of training has an image, and one that is called "train" is a part without the
 * other. */
static sw_status check_classes(const reader *r)
{
    const swi_image_list *list = &r->list[TRAIN];
    uint32_t next = 0;
    if (list->n_classes == 1 && strcmp(list->text + list->classes[0], "train") == 0)
        SW_FAIL(SW_FORMAT,
                "%s: 'train' is its only folder: val or test must be beside it, or "
                "name the folder with the classes",
                list->root);
    for (uint32_t i = 0; i < list->n; i++)
        next += list->images[i].label == next;
    if (next < list->n_classes)
        SW_FAIL(SW_FORMAT, "%s/%s: no image in it (.png, .jpg or .jpeg)", list->root,
                list->text + list->classes[next]);
    return SW_OK;
}

static sw_status list_images(reader *r)
{
    SW_TRY(find_roots(r));
    const bool unlabelled = r->opts.unlabelled != 0 && strcmp(r->root[TRAIN], r->dir) == 0;
    SW_TRY(swi_image_list_open(&r->list[TRAIN], r->root[TRAIN], unlabelled));
    if (r->list[TRAIN].n_classes == 0) { /* only where that is allowed */
        r->split = r->wants_test = false;
        r->n[TRAIN] = r->list[TRAIN].n;
        if (r->opts.batch < r->opts.test_batch) /* the caller may test all of them */
            r->opts.batch = r->opts.test_batch;
        return SW_OK;
    }
    SW_TRY(check_classes(r));
    if (!r->split && r->wants_test) {
        SW_TRY(swi_image_list_open(&r->list[TEST], r->root[TEST], false));
        SW_TRY(match_classes(r));
    }
    r->n[TRAIN] = r->list[TRAIN].n;
    r->n[TEST] = r->list[TEST].n;
    if (!r->split && r->wants_test && r->n[TEST] == 0)
        SW_FAIL(SW_FORMAT, "%s: no image in it (.png, .jpg or .jpeg)", r->root[TEST]);
    return SW_OK;
}

/* ---- images ------------------------------------------------------------------------------ */

/* Room for the longest path. */
static void find_path_bytes(reader *r)
{
    for (int list = 0; list < PARTS; list++)
        for (uint32_t i = 0; i < r->list[list].n; i++) {
            const swi_image_list *l = &r->list[list];
            const size_t bytes = strlen(l->root) + strlen(l->text + l->images[i].path) + 2;
            r->path_bytes = bytes > r->path_bytes ? bytes : r->path_bytes;
        }
}

/* Image k of all, those of the first list in front; its path comes to the hand. */
static const swi_image_entry *image_at(const reader *r, int64_t k, int *list,
                                       swi_image_hand *hand)
{
    *list = k < r->list[TRAIN].n ? TRAIN : TEST;
    const swi_image_list *l = &r->list[*list];
    const swi_image_entry *image = &l->images[*list == TRAIN ? k : k - r->list[TRAIN].n];
    snprintf(hand->path, r->path_bytes, "%s/%s", l->root, l->text + image->path);
    return image;
}

static sw_status tell(void *reader_, int64_t k)
{
    const reader *r = reader_;
    const int64_t done = r->before + k;
    if (r->opts.progress != NULL && r->opts.progress(r->opts.user, done, r->all) != 0)
        SW_FAIL(SW_STOPPED, "%s: stopped after %lld of %lld looks at images", r->dir,
                (long long)done, (long long)r->all);
    return SW_OK;
}

/* A pass over all of them. */
static sw_status each_image(reader *r, int threads,
                            sw_status (*read)(void *reader_, int64_t k, swi_image_hand *hand))
{
    const swi_image_work work = {.n = (int64_t)r->list[TRAIN].n +
                                      r->list[TEST].n, /* at least 1 */
                                 .threads = threads,
                                 .path_bytes = r->path_bytes,
                                 .context = r,
                                 .tell = tell,
                                 .read = read};
    SW_TRY(swi_images_each(&work));
    r->before += work.n;
    return SW_OK;
}

/* Images that are not resized must be alike. */
static sw_status look_at(void *reader_, int64_t k, swi_image_hand *hand)
{
    static const swi_image_to head_alone = {NULL, NULL, NULL};
    reader *r = reader_;
    swi_image_head head;
    int list;
    (void)image_at(r, k, &list, hand);
    SW_TRY(swi_image_read(&hand->image, hand->path, &head, &head_alone));
    if (r->first.w == 0) {
        r->first = head;
        r->channels = 1;
    }
    r->channels = head.channels > r->channels ? head.channels : r->channels;
    r->work += head.w * head.h + WORK_OF_FILE;
    if (r->opts.side == 0 && (head.w != r->first.w || head.h != r->first.h))
        SW_FAIL(SW_FORMAT,
                "%s: %lld x %lld, and images before it are %lld x %lld: resize them (--resize "
                "SIDE, in a program with side)",
                hand->path, (long long)head.w, (long long)head.h, (long long)r->first.w,
                (long long)r->first.h);
    return SW_OK;
}

/* On one thread: each is held against those before it, and little of it is read. */
static sw_status look_at_all(reader *r)
{
    find_path_bytes(r);
    SW_TRY(each_image(r, 1, look_at));
    r->w = r->opts.side > 0 ? r->opts.side : r->first.w;
    r->h = r->opts.side > 0 ? r->opts.side : r->first.h;
    r->channels = r->opts.channels > 0 ? r->opts.channels : r->channels;
    return SW_OK;
}

/* ---- memory ------------------------------------------------------------------------------ */

static sw_status count_parts(reader *r)
{
    if (!r->split)
        return SW_OK;
    const int64_t all = r->n[TRAIN];
    const double share = r->opts.test_share > 0.0 ? r->opts.test_share : DEFAULT_SHARE;
    if (all < 2)
        SW_FAIL(SW_FORMAT, "%s: one image cannot be split into parts for training and testing",
                r->dir);
    const int64_t test = llround(share * (double)all);
    r->n[TEST] = test < 1 ? 1 : test > all - 1 ? all - 1 : test;
    r->n[TRAIN] = all - r->n[TEST];
    return SW_OK;
}

/* Images that batches hold beside the data set: slots, and the larger batch as F32. */
static size_t in_batches(const reader *r, size_t each)
{
    const int64_t batch[PARTS] = {r->opts.batch, r->opts.test_batch};
    size_t images = 0, most = 0;
    for (int p = 0; p < PARTS; p++) {
        const size_t rows = (size_t)(batch[p] < r->n[p] ? batch[p] : r->n[p]);
        images += rows * (swi_loader_fills_inline(rows * each, 0) ? 1 : SWI_SLOTS);
        most = rows > most ? rows : most;
    }
    return images + most * sw_dtype_bytes(SW_F32);
}

/* All of it is known before any is taken. */
static sw_status check_bytes(const reader *r)
{
    const size_t limit = r->opts.unpack_bytes > 0 ? r->opts.unpack_bytes : SWI_UNPACK_BYTES;
    const size_t each = (size_t)(r->w * r->h * r->channels);
    const size_t own = (size_t)(r->n[TRAIN] + r->n[TEST]), held = in_batches(r, each);
    char batches[80] = "";
    size_t all;
    if (!sw_size_mul(each, own + held, &all))
        all = SIZE_MAX;
    if (all <= limit)
        return SW_OK;
    if (held > 0)
        (void)sw_message(batches, sizeof batches, ", and their batches %zu more", each * held);
    SW_FAIL(
        SW_NOMEM,
        "%s: %lld images of %d x %lld x %lld take %zu bytes%s; the limit is %zu: --data-limit "
        "%zu would do (in a program unpack_bytes), or make them smaller with --resize%s",
        r->dir, (long long)(r->n[TRAIN] + r->n[TEST]), r->channels, (long long)r->h,
        (long long)r->w, each * own, batches, limit, all, held > 0 ? ", or --batch" : "");
}

static sw_status name_classes(const reader *r, sw_dataset *part)
{
    const swi_image_list *list = &r->list[TRAIN];
    size_t bytes = 0, at = 0;
    void *text;
    for (uint32_t i = 0; i < list->n_classes; i++)
        bytes += strlen(list->text + list->classes[i]) + 1;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    for (uint32_t i = 0; i < list->n_classes; i++) {
        const char *name = list->text + list->classes[i];
        memcpy((char *)text + at, name, strlen(name) + 1);
        at += strlen(name) + 1;
    }
    const sw_status status = swi_dataset_name_classes(part, text, bytes);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status make_part(reader *r, int p)
{
    const sw_shape image = {3, {r->channels, r->h, r->w}}, label = {0, {0}};
    sw_dataset *part;
    SW_TRY(swi_dataset_check_count(r->dir, (uint64_t)r->n[p]));
    SW_TRY(swi_dataset_new(&part, r->dir, r->n[p]));
    r->part[p] = part;
    part->n_classes = r->list[TRAIN].n_classes;
    part->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_dataset_field(part, SW_U8, image));
    if (part->n_classes == 0)
        return SW_OK;
    SW_TRY(swi_dataset_field(part, part->n_classes > 256 ? SW_I32 : SW_U8, label));
    return name_classes(r, part);
}

/* ---- decoding ---------------------------------------------------------------------------- */

/* Which sample each image becomes; of a split the numbers of the test part are after those of
 * the training one. */
static void number_samples(reader *r)
{
    for (int list = 0; list < PARTS; list++)
        for (uint32_t i = 0; i < r->list[list].n; i++)
            r->list[list].images[i].sample = i;
    const uint32_t all = r->list[TRAIN].n;
    uint32_t next[PARTS] = {0, (uint32_t)r->n[TRAIN]};
    for (uint32_t i = 0; i < all && r->split; i++) {
        const bool moves = swi_split_takes(r->opts.seed, i, all - i, all - next[TEST]);
        r->list[TRAIN].images[i].sample = next[moves ? TEST : TRAIN]++;
    }
}

static void put_label(const sw_dataset *part, int64_t sample, uint32_t label)
{
    if (part->n_fields == 1)
        return;
    if (part->field[1].dtype == SW_U8)
        part->field[1].data[sample] = (unsigned char)label;
    else
        ((int32_t *)(void *)part->field[1].data)[sample] = (int32_t)label;
}

static sw_status fill_image(void *reader_, int64_t k, swi_image_hand *hand)
{
    const reader *r = reader_;
    int list;
    const swi_image_entry *image = image_at(r, k, &list, hand);
    const bool moves = r->split && image->sample >= r->n[TRAIN];
    const sw_dataset *part = r->part[moves ? TEST : list];
    const int64_t sample = image->sample - (moves ? r->n[TRAIN] : 0);
    const size_t bytes = part->field[0].sample_bytes;
    swi_image_fit fit = {.path = hand->path,
                         .side = r->opts.side,
                         .channels = r->channels,
                         .out = part->field[0].data + (size_t)sample * bytes,
                         .most = bytes};
    const swi_image_to there = {&fit, swi_image_fit_begin, swi_image_fit_row};
    swi_image_head head;
    const sw_status status = swi_image_read(&hand->image, hand->path, &head, &there);
    swi_image_fit_end(&fit);
    SW_TRY(status);
    put_label(part, sample, list == TEST ? r->label[image->label] : image->label);
    return SW_OK;
}

/* As many threads as there is work for. */
static sw_status fill(reader *r)
{
    const int64_t asked = r->opts.threads > 0 ? r->opts.threads : 1;
    const int64_t useful = r->work / WORK_OF_THREAD;
    number_samples(r);
    return each_image(r, (int)(useful < asked ? useful + (useful == 0) : asked), fill_image);
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_all(reader *r)
{
    SW_TRY(list_images(r));
    r->all = (r->n[TRAIN] + r->n[TEST]) * (r->opts.shapes_only != 0 ? 1 : 2);
    SW_TRY(look_at_all(r));
    SW_TRY(count_parts(r));
    SW_TRY(check_bytes(r));
    for (int p = 0; p < (r->wants_test ? PARTS : TEST); p++)
        SW_TRY(make_part(r, p));
    return r->opts.shapes_only == 0 ? fill(r) : SW_OK;
}

static void close_reader(reader *r)
{
    sw_heap_free(r->label, SW_HEAP_FILES, r->list[TEST].n_classes * sizeof(uint32_t));
    for (int list = 0; list < PARTS; list++)
        swi_image_list_close(&r->list[list]);
    sw_heap_free(r->root[TRAIN], SW_HEAP_FILES, r->root_bytes);
}

static sw_status check_opts(const sw_images_opts *o)
{
    static const char call[] = "sw_dataset_images";
    if (o->side < 0 || o->side > SIDE_MAX)
        SW_FAIL(SW_INVALID, "%s: side must be 0 to %d (got %d)", call, SIDE_MAX, o->side);
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        SW_FAIL(SW_INVALID, "%s: channels must be 0, 1 or 3 (got %d)", call, o->channels);
    if (o->unlabelled < 0 || o->unlabelled > 1)
        SW_FAIL(SW_INVALID, "%s: unlabelled must be 0 or 1 (got %lld)", call,
                (long long)o->unlabelled);
    if (o->batch < 0 || o->test_batch < 0)
        SW_FAIL(SW_INVALID, "%s: batch and test_batch must be at least 0 (got %lld and %lld)",
                call, (long long)o->batch, (long long)o->test_batch);
    if (o->threads < 0 || o->threads > 256)
        SW_FAIL(SW_INVALID, "%s: threads must be 0 to 256 (got %lld)", call,
                (long long)o->threads);
    if (!(o->test_share >= 0.0 && o->test_share < 1.0))
        SW_FAIL(SW_INVALID, "%s: test_share must be above 0 and below 1 (got %g)", call,
                o->test_share);
    return SW_OK;
}

sw_status sw_dataset_images(sw_dataset **train, sw_dataset **test, const char *dir,
                            const sw_images_opts *given)
{
    reader r = {.dir = dir, .wants_test = test != NULL};
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_images_opts, &r.opts, given, "sw_dataset_images"));
    if (train == NULL || dir == NULL || dir[0] == '\0')
        SW_FAIL(SW_INVALID, "sw_dataset_images: train and dir must not be NULL, dir not empty");
    SW_TRY(check_opts(&r.opts));
    const sw_status status = read_all(&r);
    close_reader(&r);
    if (status != SW_OK) {
        sw_dataset_destroy(r.part[TRAIN]);
        sw_dataset_destroy(r.part[TEST]);
        return status;
    }
    *train = r.part[TRAIN];
    if (test != NULL)
        *test = r.part[TEST];
    return SW_OK;
}

/* ---- as a reader ------------------------------------------------------------------------- */

static sw_status read_named(sw_dataset **train, sw_dataset **test, const char *dir,
                            const swi_reader_opts *o)
{
    sw_images_opts opts = SW_OPTS(sw_images_opts);
    if (o->images != NULL)
        opts = *o->images;
    opts.shapes_only = o->shapes_only;
    opts.unpack_bytes = o->unpack_bytes;
    return sw_dataset_images(train, test, dir, &opts);
}

const swi_reader swi_reader_images = {.name = "images",
                                      .path = "DIR",
                                      .about = "for folders of PNG and JPEG, one a class",
                                      .takes = SWI_TAKES_SHARE | SWI_TAKES_IMAGES,
                                      .both = read_named};
