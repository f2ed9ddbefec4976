/* Folders of images: DIR/CLASS/..., or DIR/train/CLASS/... with DIR/val or DIR/test beside it,
 * as PyTorch's ImageFolder has them. Two passes, as of all readers: the first reads the head of
 * each image, so that all sizes are known before memory is taken; the second decodes each once,
 * to where the data set keeps it, on several threads. */
#include "alloc/base/assert.h"
#include "alloc/base/message.h"
#include "alloc/base/size.h"
#include "runtime/base/common.h"
#include "runtime/base/structs.h"
#include "runtime/data/image_internal.h"
#include "runtime/data/loader.h"
#include "runtime/data/reader.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static sw_status images_each(const swi_image_work *w);

/* The images below a folder: ROOT/CLASS/..., with folders in folders. Names are sorted by their
 * bytes, so that labels and order are the same on every file system. */

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
        SW_TRY(sw_heap_resize(&list->text, SW_HEAP_FILES, list->room, room));
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
    size_t at;
    if (*n == UINT32_MAX)
        SW_FAIL(SW_FORMAT, "%s: must have at most %u images", list->root, UINT32_MAX);
    SW_TRY(sw_heap_reserve(entries, SW_HEAP_FILES, room, *n + 1));
    SW_TRY(add_text(list, path, &at));
    (*entries)[(*n)++] = (swi_image_entry){.path = at, .label = label};
    return SW_OK;
}

/* ---- sorting ----------------------------------------------------------------------------- */

static int by_label_and_path(const void *a, const void *b, void *text)
{
    const swi_image_entry *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return strcmp((const char *)text + x->path, (const char *)text + y->path);
}

static void sort(const swi_image_list *list, swi_image_entry *entries, uint32_t n)
{
    if (n > 0)
        qsort_r(entries, n, sizeof *entries, by_label_and_path, list->text);
}

/* ---- the walk ---------------------------------------------------------------------------- */

/* ROOT/INSIDE/NAME into the walk's room; "" for no `inside`. */
static const char *path_of(walk *w, const char *inside, const char *name)
{
    const int n = snprintf(w->path, PATH_BYTES, "%s/%s%s%s", w->list->root, inside,
                           *inside != '\0' ? "/" : "", name);
    return n >= 0 && n < PATH_BYTES ? w->path : NULL;
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
    int depth = 0;
    for (const char *c = w->path + root; *c != '\0'; c++)
        depth += *c == '/';
    if (depth > DEPTH)
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
    w->in_root = true;
    SW_TRY(list_folder(w, ""));
    w->in_root = false;
    if (list->n > 0) /* its folders have no meaning: all labels are 0 */
        return SW_OK;
    if (w->n_folders == 0)
        SW_FAIL(SW_FORMAT,
                "%s: a folder for each class is needed, with its images in it (%zu files and "
                "no folder are there)",
                list->root, w->n_others);
    sort(list, w->folders, w->n_folders);
    SW_TRY(sw_heap_reserve(&list->classes, SW_HEAP_FILES, &list->classes_room, w->n_folders));
    list->n_classes = w->n_folders;
    for (uint32_t i = 0; i < list->n_classes; i++) {
        list->classes[i] = w->folders[i].path;
        w->folders[i].label = i;
    }
    return SW_OK;
}

/* Fill `list`, zeros before, with what is below `root`; it is to be given back after failures
 * too. With `unlabelled` and images in the root itself there are no classes. */
static sw_status image_list_open(swi_image_list *list, const char *root, bool unlabelled)
{
    walk w = {.list = list, .unlabelled = unlabelled};
    list->root = root;
    SW_TRY(sw_heap_alloc(&w.path, SW_HEAP_FILES, PATH_BYTES));
    sw_status status = list_classes(&w);
    for (; status == SW_OK && w.at < w.n_folders; w.at++) {
        char inside[PATH_BYTES]; /* the text may move while it grows */
        snprintf(inside, sizeof inside, "%s", list->text + w.folders[w.at].path);
        status = list_folder(&w, inside);
    }
    if (status == SW_OK)
        sort(list, list->images, list->n);
    sw_heap_free(w.path, SW_HEAP_FILES, PATH_BYTES);
    sw_heap_free(w.folders, SW_HEAP_FILES, w.folders_room * sizeof *w.folders);
    return status;
}

enum { TRAIN, TEST, PARTS };
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
    SW_TRY(sw_heap_alloc(&r->root[TRAIN], SW_HEAP_FILES, PARTS * bytes));
    r->root_bytes = PARTS * bytes;
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

static sw_status list_images(reader *r)
{
    SW_TRY(find_roots(r));
    const bool unlabelled = r->opts.unlabelled != 0 && strcmp(r->root[TRAIN], r->dir) == 0;
    SW_TRY(image_list_open(&r->list[TRAIN], r->root[TRAIN], unlabelled));
    if (r->list[TRAIN].n_classes == 0) { /* only where that is allowed */
        r->split = r->wants_test = false;
        r->n[TRAIN] = r->list[TRAIN].n;
        if (r->opts.batch < r->opts.test_batch) /* the caller may test all of them */
            r->opts.batch = r->opts.test_batch;
        return SW_OK;
    }
    /* Each class of training has an image, and one that is called "train" is a part without the
     * other. */
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

    if (!r->split && r->wants_test) {
        SW_TRY(image_list_open(&r->list[TEST], r->root[TEST], false));
        /* The classes of the test part by those of training, which have them all. */
        const swi_image_list *train = &r->list[TRAIN], *test = &r->list[TEST];
        SW_TRY(sw_heap_alloc(&r->label, SW_HEAP_FILES, test->n_classes * sizeof(uint32_t)));
        for (uint32_t i = 0, k = 0; i < test->n_classes; i++) {
            const char *name = test->text + test->classes[i];
            while (k < train->n_classes && strcmp(train->text + train->classes[k], name) < 0)
                k++;
            if (k == train->n_classes || strcmp(train->text + train->classes[k], name) != 0)
                SW_FAIL(SW_FORMAT, "%s: class '%s' is not in %s", test->root, name,
                        train->root);
            r->label[i] = k;
        }
    }
    r->n[TRAIN] = r->list[TRAIN].n;
    r->n[TEST] = r->list[TEST].n;
    if (!r->split && r->wants_test && r->n[TEST] == 0)
        SW_FAIL(SW_FORMAT, "%s: no image in it (.png, .jpg or .jpeg)", r->root[TEST]);
    return SW_OK;
}

/* ---- images ------------------------------------------------------------------------------ */

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
    SW_TRY(images_each(&work));
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

/* ---- memory ------------------------------------------------------------------------------ */

/* Images that batches hold beside the data set: slots for training, and the larger batch as
 * F32.
 */
static size_t in_batches(const reader *r, size_t each)
{
    const int64_t batch[PARTS] = {r->opts.batch, r->opts.test_batch};
    size_t rows[PARTS];
    for (int p = 0; p < PARTS; p++)
        rows[p] = (size_t)(batch[p] < r->n[p] ? batch[p] : r->n[p]);
    const size_t most = rows[TRAIN] > rows[TEST] ? rows[TRAIN] : rows[TEST];
    return rows[TRAIN] * (swi_loader_fills_inline(rows[TRAIN] * each, 0) ? 1 : SWI_SLOTS) +
           most * sw_dtype_bytes(SW_F32);
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

static sw_status make_part(reader *r, int p)
{
    const sw_shape image = {3, {r->channels, r->h, r->w}};
    sw_dataset *part;
    SW_TRY(swi_dataset_check_count(r->dir, (uint64_t)r->n[p]));
    SW_TRY(swi_dataset_new(&part, r->dir, r->n[p]));
    r->part[p] = part;
    part->n_classes = r->list[TRAIN].n_classes;
    part->shapes_only = r->opts.shapes_only != 0;
    SW_TRY(swi_dataset_field(part, SW_U8, image));
    if (part->n_classes == 0)
        return SW_OK;
    SW_TRY(swi_labels_field(part));
    const swi_image_list *list = &r->list[TRAIN];
    size_t bytes = 0;
    char *text, *to;
    for (uint32_t i = 0; i < list->n_classes; i++)
        bytes += strlen(list->text + list->classes[i]) + 1;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    to = text;
    for (uint32_t i = 0; i < list->n_classes; i++)
        to = stpcpy(to, list->text + list->classes[i]) + 1;
    const sw_status status = swi_dataset_name_classes(part, text, bytes);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}

/* ---- decoding ---------------------------------------------------------------------------- */

static sw_status fill_image(void *reader_, int64_t k, swi_image_hand *hand)
{
    const reader *r = reader_;
    int list;
    const swi_image_entry *image = image_at(r, k, &list, hand);
    const bool moves = r->split && image->sample >= r->n[TRAIN];
    const sw_dataset *part = r->part[moves ? TEST : list];
    const int64_t sample = image->sample - (moves ? r->n[TRAIN] : 0);
    const size_t bytes = part->field[0].sample_bytes;
    swi_image_fit fit =
        SW_INIT(.path = hand->path, .side = r->opts.side, .channels = r->channels,
                .out = part->field[0].data + (size_t)sample * bytes, .most = bytes);
    const swi_image_to there = {&fit, swi_image_fit_begin, swi_image_fit_row};
    swi_image_head head;
    const sw_status status = swi_image_read(&hand->image, hand->path, &head, &there);
    swi_image_fit_end(&fit);
    SW_TRY(status);
    const uint32_t label = list == TEST ? r->label[image->label] : image->label;
    if (part->n_fields > 1)
        swi_labels_put(part, (size_t)sample, label);
    return SW_OK;
}

/* As many threads as there is work for. */
static sw_status fill(reader *r)
{
    const int64_t asked = r->opts.threads > 0 ? r->opts.threads : 1;
    const int64_t useful = r->work / WORK_OF_THREAD;
    /* Which sample each image becomes; of a split the numbers of the test part are after
     * those of the training one. */
    for (int list = 0; list < PARTS; list++)
        for (uint32_t i = 0; i < r->list[list].n; i++)
            r->list[list].images[i].sample = i;
    const uint32_t all = r->list[TRAIN].n;
    uint32_t next[PARTS] = {0, (uint32_t)r->n[TRAIN]};
    for (uint32_t i = 0; i < all && r->split; i++) {
        const bool moves = swi_split_takes(r->opts.seed, i, all - i, all - next[TEST]);
        r->list[TRAIN].images[i].sample = next[moves ? TEST : TRAIN]++;
    }
    return each_image(r, (int)(useful < asked ? useful + (useful == 0) : asked), fill_image);
}

/* ---- the whole --------------------------------------------------------------------------- */

static sw_status read_all(reader *r)
{
    SW_TRY(list_images(r));
    r->all = (r->n[TRAIN] + r->n[TEST]) * (r->opts.shapes_only != 0 ? 1 : 2);
    /* On one thread: each is held against those before it, and little of it is read. */
    /* Room for the longest path. */
    for (int list = 0; list < PARTS; list++)
        for (uint32_t i = 0; i < r->list[list].n; i++) {
            const swi_image_list *l = &r->list[list];
            const size_t bytes = strlen(l->root) + strlen(l->text + l->images[i].path) + 2;
            r->path_bytes = bytes > r->path_bytes ? bytes : r->path_bytes;
        }
    SW_TRY(each_image(r, 1, look_at));
    r->w = r->opts.side > 0 ? r->opts.side : r->first.w;
    r->h = r->opts.side > 0 ? r->opts.side : r->first.h;
    r->channels = r->opts.channels > 0 ? r->opts.channels : r->channels;

    if (r->split)
        SW_TRY(swi_split_sizes(r->dir, "image", r->opts.test_share, r->n[TRAIN], &r->n[TRAIN],
                               &r->n[TEST]));
    SW_TRY(check_bytes(r));
    for (int p = 0; p < (r->wants_test ? PARTS : TEST); p++)
        SW_TRY(make_part(r, p));
    return r->opts.shapes_only == 0 ? fill(r) : SW_OK;
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
    return swi_reader_check_share(call, o->test_share);
}

sw_status sw_dataset_images(sw_dataset **train, sw_dataset **test, const char *dir,
                            const sw_images_opts *given)
{
    reader r = {.dir = dir, .wants_test = test != NULL};
    SW_TRY(swi_struct_read(SWI_STRUCT_sw_images_opts, &r.opts, given, "sw_dataset_images"));
    SW_TRY(swi_reader_check("sw_dataset_images", train != NULL, "train", dir, "dir"));
    SW_TRY(check_opts(&r.opts));
    const sw_status status = read_all(&r);
    sw_heap_free(r.label, SW_HEAP_FILES, r.list[TEST].n_classes * sizeof(uint32_t));
    for (int p = 0; p < PARTS; p++) {
        const swi_image_list *list = &r.list[p];
        sw_heap_free(list->text, SW_HEAP_FILES, list->room);
        sw_heap_free(list->classes, SW_HEAP_FILES, list->classes_room * sizeof *list->classes);
        sw_heap_free(list->images, SW_HEAP_FILES, list->images_room * sizeof *list->images);
    }
    sw_heap_free(r.root[TRAIN], SW_HEAP_FILES, r.root_bytes);
    return swi_parts_give(status, r.part, train, test);
}

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

/* Images one after the other, on several threads, with what one thread would tell.
 *
 * Images are taken by number, each by a thread that has nothing to do, with a hand of its
 * own to read it. From the first that fails on none is begun; those before it were begun, and
 * are read to their end. So the reported failure is that of the first bad image, and its
 * message is carried to the caller's thread.
 *
 * Progress is reported on the caller's thread, between the images that it reads itself: image k
 * when all before it are read, as one thread does it. Each number is reported once and in
 * order, up to the first bad image; the caller is asked neither more nor less often.
 *
 * One mutex guards all that threads share; pixels and labels are each written by one thread. */

#define REGION (1 << 20) /* images that the pool has at once: it counts by int */

typedef struct hand_over {
    swi_image_hand is; /* first: threads give it back */
    int64_t at;        /* image that is being read; -1: none */
} hand_over;

typedef struct {
    const swi_image_work *work;
    pthread_t caller;
    pthread_mutex_t mutex;
    hand_over *hands;
    int n_hands;
    int64_t next;     /* image that is taken next */
    int64_t end;      /* from here on none is begun: the first that failed, or all of them */
    int64_t told;     /* numbers of progress, by the caller's thread alone */
    sw_status status; /* of `end` */
    char why[512];    /* as long as a message can be */
} run;

/* ---- under the mutex --------------------------------------------------------------------- */

/* Image i failed, or is not to be begun, for the reason that the calling thread has said. */
static void end_at(run *r, int64_t i, sw_status status)
{
    r->end = i;
    r->status = status;
    snprintf(r->why, sizeof r->why, "%s", sw_last_error());
}

/* All images before it are read. */
static int64_t read_until(const run *r)
{
    int64_t first = r->next;
    for (int i = 0; i < r->n_hands; i++)
        if (r->hands[i].at >= 0 && r->hands[i].at < first)
            first = r->hands[i].at;
    return first;
}

/* By the caller's thread; the mutex is open meanwhile. Image k is reported where it is begun,
 * or about to be, also the bad one. */
static void tell_threads(run *r)
{
    const swi_image_work *w = r->work;
    while (r->told < w->n && r->told <= r->end && r->told <= read_until(r)) {
        const int64_t k = r->told++;
        pthread_mutex_unlock(&r->mutex);
        const sw_status status = w->tell(w->context, k);
        pthread_mutex_lock(&r->mutex);
        if (status == SW_OK)
            continue;
        end_at(r, k, status); /* all before it are sound */
        r->told = w->n;
    }
}

/* ---- without it -------------------------------------------------------------------------- */

/* The pool's numbers are left alone: a thread may be late with one. */
static void read_next(void *run_, int part)
{
    run *r = run_;
    (void)part;
    pthread_mutex_lock(&r->mutex);
    if (pthread_equal(pthread_self(), r->caller))
        tell_threads(r);
    if (r->next >= r->end) {
        pthread_mutex_unlock(&r->mutex);
        return;
    }
    hand_over *own = r->hands;
    while (own->at >= 0)
        own++;
    SW_ASSERT(own < r->hands + r->n_hands); /* as many as threads */
    own->at = r->next++;
    pthread_mutex_unlock(&r->mutex);
    const uint32_t fp = swi_fp_enter(); /* weights are the same on all threads */
    const sw_status status = r->work->read(r->work->context, own->at, &own->is);
    swi_fp_leave(fp);
    pthread_mutex_lock(&r->mutex);
    if (status != SW_OK && own->at < r->end)
        end_at(r, own->at, status);
    own->at = -1;
    pthread_mutex_unlock(&r->mutex);
}

static sw_status read_all_threads(run *r, int threads)
{
    sw_pool *pool = NULL;
    if (threads > 1)
        SW_TRY(swi_pool_create(&pool, threads, 1));
    while (r->next < r->end) {
        const int64_t left = r->work->n - r->next;
        const int n = left < REGION ? (int)left : REGION;
        for (int i = 0; i < n && pool == NULL; i++)
            read_next(r, i);
        if (pool != NULL)
            swi_pool_par(pool)->run(swi_pool_par(pool), read_next, r, n);
    }
    swi_pool_destroy(pool);
    pthread_mutex_lock(&r->mutex);
    tell_threads(r); /* what others read last */
    pthread_mutex_unlock(&r->mutex);
    if (r->status != SW_OK)
        SW_FAIL(r->status, "%s", r->why);
    return SW_OK;
}

/* Images 0 to n - 1. Pixels, progress and status are the same for any number of threads: on
 * failure those of the first image that fails. SW_IO where threads cannot be started. */
static sw_status images_each(const swi_image_work *w)
{
    const int processors = w->threads > 1 ? sw_thread_processors() : 1;
    int threads = w->threads < processors ? w->threads : processors;
    threads = w->n < threads ? (int)w->n : threads;
    const size_t bytes = sizeof(hand_over) * (size_t)threads,
                 paths = w->path_bytes * (size_t)threads;
    run r = {.work = w, .caller = pthread_self(), .n_hands = threads, .end = w->n};
    SW_TRY(sw_heap_alloc(&r.hands, SW_HEAP_FILES, bytes + paths));
    for (int i = 0; i < threads; i++) {
        r.hands[i].at = -1;
        r.hands[i].is.path = (char *)r.hands + bytes + (size_t)i * w->path_bytes;
    }
    pthread_mutex_init(&r.mutex, NULL);
    const sw_status status = read_all_threads(&r, threads);
    pthread_mutex_destroy(&r.mutex);
    sw_heap_free(r.hands, SW_HEAP_FILES, bytes + paths);
    return status;
}
