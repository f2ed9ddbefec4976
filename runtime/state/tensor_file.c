/* Opening a file of tensors: its header becomes a list of tensors, by offset, and of notes, and
 * is held against its checksum. Announced sizes are held against the file's size before memory
 * is taken, and what the file has against bounds, so a hostile file takes little. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/json_read.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file_kind.h"
#include "runtime/state/tensor_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The header of a safetensors file: a JSON object {"NAME": {"dtype": "F32", "shape": [2, 3],
 * "data_offsets": [0, 24]}, "__metadata__": {"KEY": "TEXT"}}.
 *
 * The reader takes this one shape of JSON and nothing else. Its texts are UTF-8 without zero
 * characters, terminated, and go into room of the file: none is longer than what it was read
 * from, quotes included, so a header of n bytes needs no more than n. */

/* Of those digits alone. */
static bool st_unhex(const char *from, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        const char c = from[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
        *out = *out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

typedef struct {
    sw_json_in json;
    char *room; /* what is left of it */
    size_t left;
    swi_tensors *file;
    bool metadata; /* was there */
    size_t own;    /* where the digits of the header's checksum end in the text; 0: none */
} reader;

/* A tensor, whose checksum is its number of elements until it is looked at: UINT64_MAX where
 * they are too many to count. Its rank is 9 where it has more than 8 dims. */
typedef struct {
    swi_tensors_entry is;
    unsigned seen; /* a bit for each of its three members */
} tensor_read;

static sw_status bad(const reader *r, const char *what)
{
    return sw_json_bad(&r->json, what);
}

static sw_status expect(reader *r, int c)
{
    return sw_json_expect(&r->json, c);
}

static sw_status accept(reader *r, int c, bool *there)
{
    return sw_json_accept(&r->json, c, there);
}

/* The next string, terminated, in the room. */
static sw_status get_text(reader *r, const char **out)
{
    sw_json_text text = {.to = r->room, .cap = r->left};
    SW_TRY(sw_json_get_string(&r->json, &text));
    if (text.length >= r->left) /* cannot be: it was read from more bytes than that */
        return bad(r, "more text than the header has");
    text.to[text.length] = '\0';
    *out = text.to;
    r->room += text.length + 1;
    r->left -= text.length + 1;
    return SW_OK;
}

/* The members of an object, one after the other. */
static sw_status read_object(reader *r, sw_status (*member)(reader *r, void *to), void *to)
{
    bool end, more = true;
    SW_TRY(expect(r, '{'));
    SW_TRY(accept(r, '}', &end));
    while (!end && more) {
        SW_TRY(member(r, to));
        SW_TRY(accept(r, ',', &more));
    }
    return end ? SW_OK : expect(r, '}');
}

static sw_status read_shape(reader *r, swi_tensors_entry *entry)
{
    bool more, zero = false;
    SW_TRY(expect(r, '['));
    entry->checksum = 1;
    SW_TRY(accept(r, ']', &more));
    if (more)
        return SW_OK;
    do {
        uint64_t dim = 0;
        SW_TRY(sw_json_get_count(&r->json, &dim));
        if (entry->rank < SW_MAX_RANK)
            entry->dim[entry->rank] = (int64_t)dim;
        if (entry->rank <= SW_MAX_RANK)
            entry->rank++;
        zero |= dim == 0;
        if (dim > 0 && __builtin_mul_overflow(entry->checksum, dim, &entry->checksum))
            entry->checksum = UINT64_MAX;
        SW_TRY(accept(r, ',', &more));
    } while (more);
    if (zero)
        entry->checksum = 0;
    return expect(r, ']');
}

static sw_status read_member(reader *r, void *to)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    tensor_read *tensor = to;
    char word[16];
    sw_json_text key = {.to = word, .cap = sizeof word};
    SW_TRY(sw_json_get_string(&r->json, &key));
    unsigned which = 0;
    while (which < 3 &&
           (key.length != strlen(names[which]) || memcmp(word, names[which], key.length) != 0))
        which++;
    if (which == 3)
        return bad(r, "an unknown member of a tensor");
    if (tensor->seen & 1u << which)
        return bad(r, "a member of a tensor twice");
    tensor->seen |= 1u << which;
    SW_TRY(expect(r, ':'));
    if (which < 2)
        return which == 0 ? get_text(r, &tensor->is.dtype) : read_shape(r, &tensor->is);
    SW_TRY(expect(r, '['));
    SW_TRY(sw_json_get_count(&r->json, &tensor->is.begin));
    SW_TRY(expect(r, ','));
    SW_TRY(sw_json_get_count(&r->json, &tensor->is.end));
    return expect(r, ']');
}

static sw_status read_note(reader *r, void *unused)
{
    swi_tensors *file = r->file;
    const char *key = NULL, *text = NULL;
    (void)unused;
    SW_TRY(get_text(r, &key));
    SW_TRY(expect(r, ':'));
    SW_TRY(get_text(r, &text));
    if (file->n_notes == SWI_ST_NOTES_MAX)
        SW_FAIL(SW_FORMAT, "%s: more than %d texts of metadata", swi_tensors_path(file),
                SWI_ST_NOTES_MAX);
    SW_TRY(sw_heap_reserve(&file->notes, SW_HEAP_FILES, &file->cap_notes, file->n_notes + 1));
    file->notes[file->n_notes++] = (swi_tensors_note){key, text};
    if (strcmp(key, SWI_KEY_HEADER) == 0)
        r->own = r->json.at - 1;
    return SW_OK;
}

static sw_status read_entry(reader *r, void *unused)
{
    swi_tensors *file = r->file;
    tensor_read tensor = {.seen = 0};
    (void)unused;
    SW_TRY(get_text(r, &tensor.is.name));
    SW_TRY(expect(r, ':'));
    if (strcmp(tensor.is.name, "__metadata__") == 0) {
        if (r->metadata)
            return bad(r, "__metadata__ twice");
        r->metadata = true;
        return read_object(r, read_note, NULL);
    }
    SW_TRY(read_object(r, read_member, &tensor));
    if (tensor.seen != 7)
        return bad(r, "a tensor without dtype, shape or data_offsets");
    if (file->n == SWI_ST_TENSORS_MAX)
        SW_FAIL(SW_FORMAT, "%s: more than %d tensors", swi_tensors_path(file),
                SWI_ST_TENSORS_MAX);
    SW_TRY(sw_heap_reserve(&file->entries, SW_HEAP_FILES, &file->cap, file->n + 1));
    file->entries[file->n++] = tensor.is;
    return SW_OK;
}

/* Files of other programs: what to do where parameters are read. */

#define TORCH                                                                                  \
    "; in Python, safetensors.torch.save_file(torch.load(FILE, map_location=\"cpu\"), "        \
    "\"params.safetensors\") converts its state dict"
#define NUMPY                                                                                  \
    "; in Python, safetensors.numpy.save_file(dict, \"params.safetensors\") writes one"

static const char *const is_a[SWI_FILE_KINDS] = {
    [SWI_FILE_NPY] = "a NumPy array (.npy)" NUMPY,
    [SWI_FILE_NPZ] = "a zip file of NumPy arrays (.npz)" NUMPY,
    [SWI_FILE_ZIP] = "a zip file; one that torch.save wrote is converted in Python by "
                     "safetensors.torch.save_file(torch.load(FILE), \"params.safetensors\")",
    [SWI_FILE_TORCH] = "a zip file that torch.save wrote" TORCH,
    [SWI_FILE_TORCH_PICKLE] = "a pickle that torch.save wrote" TORCH,
    [SWI_FILE_PICKLE] =
        "a Python pickle; in Python, safetensors.torch.save_file writes the tensors of a dict",
    [SWI_FILE_GZIP] = "compressed by gzip: unpack it first",
    [SWI_FILE_PNG] = "a PNG image",
    [SWI_FILE_JPEG] = "a JPEG image",
    [SWI_FILE_PARQUET] = "a Parquet file, which is not read",
    [SWI_FILE_HDF5] = "an HDF5 file (Keras), which is not read",
    [SWI_FILE_GGUF] = "a GGUF file, which is not read",
    [SWI_FILE_SQLITE] = "an SQLite file, which is not read",
    [SWI_FILE_IDX] = "an IDX file, which has samples (--data idx:DIR) and no parameters",
    [SWI_FILE_PROFILE] = "a profile of stepwell, for 'stepwell report'",
    [SWI_FILE_EVOLUTION] = "a file that 'stepwell evolve --resume' goes on from; the "
                           "parameters of the best net are in best.safetensors",
};

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little endian, and their bytes are copied as they are"
#endif

/* ---- the text ---------------------------------------------------------------------------- */

sw_status swi_tensors_get(swi_tensors *file, void *to, size_t bytes)
{
    size_t got;
    SW_TRY(sw_file_read(file->file, to, bytes, &got));
    if (got < bytes)
        SW_FAIL(SW_FORMAT, "%s: changed while it was read", swi_tensors_path(file));
    return SW_OK;
}

/* The length of the header cannot be: is it another kind of file? */
static sw_status refuse_length(swi_tensors *file, uint64_t length)
{
    const char *path = swi_tensors_path(file);
    const uint64_t behind = file->file_bytes - sizeof length;
    unsigned char first[SWI_FILE_HEAD];
    size_t got;
    SW_TRY(sw_file_seek(file->file, 0));
    SW_TRY(sw_file_read(file->file, first, sizeof first, &got));
    /* The kind of a file that is no safetensors file, by its first `n` bytes, and how its
     * tensors become one: "a GGUF file, ...". NULL: not known. */
    const char *what = is_a[swi_file_kind_of(first, got)];
    if (what != NULL)
        SW_FAIL(SW_FORMAT, "%s must be a safetensors file: it is %s", path, what);
    if (length <= behind)
        SW_FAIL(SW_FORMAT, "%s: the header must have at most %zu bytes (got %" PRIu64 ")", path,
                SWI_ST_HEADER_MAX, length);
    SW_FAIL(SW_FORMAT,
            "%s: not a safetensors file, or cut: a header of %" PRIu64
            " bytes is announced, %" PRIu64 " bytes are there",
            path, length, behind);
}

/* The header's length, held against the file's. */
static sw_status read_length(swi_tensors *file, size_t *header_bytes)
{
    const char *path = swi_tensors_path(file);
    uint64_t length = 0;
    SW_TRY(sw_file_size(file->file, &file->file_bytes));
    const uint64_t size = file->file_bytes;
    if (size < sizeof length)
        SW_FAIL(SW_FORMAT,
                "%s: %" PRIu64 " bytes are not a safetensors file: the length of its header "
                "alone takes 8",
                path, size);
    SW_TRY(swi_tensors_get(file, &length, sizeof length));
    if (length > size - sizeof length || length > SWI_ST_HEADER_MAX)
        return refuse_length(file, length);
    *header_bytes = (size_t)length;
    file->data_begin = sizeof length + length;
    file->data_bytes = size - file->data_begin;
    return SW_OK;
}

/* ---- names ------------------------------------------------------------------------------- */

const char *swi_name_shown(char to[SWI_NAME_SHOWN], const char *name)
{
    sw_utf8_clean(to, SWI_NAME_SHOWN, name);
    return to;
}

/* Add the names of all tensors; the first that is there already, or NULL. */
static const char *add_names(swi_tensors *file)
{
    sw_map_clear(&file->names);
    for (uint32_t i = 0; i < file->n; i++)
        if (!sw_map_add(&file->names, file->entries[i].name, strlen(file->entries[i].name), i))
            return file->entries[i].name;
    return NULL;
}

/* No key twice, no name twice; the table of names stays. */
static sw_status check_names(swi_tensors *file)
{
    char text[SWI_NAME_SHOWN];
    sw_map keys = {NULL, 0, 0};
    const char *twice = NULL;
    SW_TRY(sw_map_room(&keys, SW_HEAP_FILES, file->n_notes));
    for (uint32_t i = 0; i < file->n_notes && twice == NULL; i++)
        if (!sw_map_add(&keys, file->notes[i].key, strlen(file->notes[i].key), i))
            twice = file->notes[i].key;
    sw_map_free(&keys, SW_HEAP_FILES);
    if (twice == NULL) {
        SW_TRY(sw_map_room(&file->names, SW_HEAP_FILES, file->n));
        twice = add_names(file);
    }
    if (twice != NULL)
        SW_FAIL(SW_FORMAT, "%s: '%s' is there twice", swi_tensors_path(file),
                swi_name_shown(text, twice));
    return SW_OK;
}

const swi_tensors_entry *swi_tensors_find(const swi_tensors *file, const char *name)
{
    const sw_map_slot *slot = sw_map_find(&file->names, name, strlen(name));
    return slot != NULL ? &file->entries[slot->thing] : NULL;
}

/* ---- checksums --------------------------------------------------------------------------- */

/* The digits of the header's own checksum stand in `text` as they are, and are zeros in what
 * they are of. `text` has zeros afterwards. */
static sw_status check_header(const swi_tensors *file, char *text, size_t bytes, size_t end)
{
    const char *said = swi_tensors_text(file, SWI_KEY_HEADER);
    char digits[17];
    if (strlen(said) != 16 || memcmp(text + end - 16, said, 16) != 0 || text[end - 17] != '"')
        SW_FAIL(SW_FORMAT, "%s: the header's checksum must be 16 digits: it is damaged",
                swi_tensors_path(file));
    memset(text + end - 16, '0', 16);
    snprintf(digits, sizeof digits, "%016" PRIx64, swi_checksum_of(text, bytes));
    if (strcmp(said, digits) != 0)
        SW_FAIL(SW_FORMAT,
                "%s: bytes 8 to %" PRIu64 ", the header, are damaged: checksum %s, must be %s",
                swi_tensors_path(file), file->data_begin, digits, said);
    return SW_OK;
}

static sw_status take_checksums(swi_tensors *file)
{
    const char *digits = swi_tensors_text(file, SWI_KEY_CHECKSUMS);
    const size_t n = strlen(digits);
    bool whole = n == 16 * (size_t)file->n;
    for (uint32_t i = 0; whole && i < file->n; i++)
        whole = st_unhex(digits + 16 * (size_t)i, &file->entries[i].checksum);
    if (!whole)
        SW_FAIL(SW_FORMAT,
                "%s: '" SWI_KEY_CHECKSUMS "' must have 16 digits for each of %u "
                "tensors (%zu are there): it is damaged",
                swi_tensors_path(file), file->n, n);
    file->has_checksums = true;
    return SW_OK;
}

/* A checkpoint has both marks. */
static sw_status check_marks(swi_tensors *file)
{
    const char *version = swi_tensors_text(file, SWI_TENSORS_MARK);
    const bool run = swi_tensors_find(file, SWI_TENSORS_RUN) != NULL;
    if ((version != NULL) != run)
        SW_FAIL(SW_FORMAT, "%s: '%s' is there, '%s' is not: it is damaged",
                swi_tensors_path(file), run ? SWI_TENSORS_RUN : SWI_TENSORS_MARK,
                run ? SWI_TENSORS_MARK : SWI_TENSORS_RUN);
    if (run && strcmp(version, SWI_TENSORS_VERSION) != 0)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: a checkpoint of version '%.20s'; this library reads "
                "version " SWI_TENSORS_VERSION,
                swi_tensors_path(file), version);
    file->is_checkpoint = run;
    return SW_OK;
}

/* With one name of ours there must be all: a flipped bit in the name of one thing cannot hide
 * the others. */
static sw_status check_own(swi_tensors *file, const reader *r, char *text, size_t bytes)
{
    static const char *const keys[] = {SWI_KEY_HEADER, SWI_KEY_CHECKSUMS};
    for (int i = 0; i < 2; i++)
        if (swi_tensors_text(file, keys[i]) == NULL)
            SW_FAIL(SW_FORMAT,
                    "%s: has names that begin with '" SWI_OWN_PREFIX
                    "', and no '%s': its header is damaged",
                    swi_tensors_path(file), keys[i]);
    SW_TRY(check_header(file, text, bytes, r->own));
    return check_marks(file);
}

/* ---- where the data lie ------------------------------------------------------------------ */

/* Bytes of an element of what other programs write too; 0: not known, and not looked at. */
static unsigned width_of(const char *dtype)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } known[] = {{"F32", 4}, {"U8", 1},  {"F64", 8},     {"BF16", 2},   {"I32", 4}, {"F16", 2},
                 {"I64", 8}, {"I16", 2}, {"I8", 1},      {"BOOL", 1},   {"U16", 2}, {"U32", 4},
                 {"U64", 8}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, dtype) == 0)
            return known[i].bytes;
    return 0;
}

/* The place of each is in the data and as large as its shape. Takes the number of elements,
 * which is kept in `checksum` so far. */
static sw_status check_places(swi_tensors *file)
{
    char text[SWI_NAME_SHOWN];
    for (uint32_t i = 0; i < file->n; i++) {
        swi_tensors_entry *entry = &file->entries[i];
        const unsigned width = width_of(entry->dtype);
        uint64_t bytes = 0;
        const bool fits = entry->checksum != UINT64_MAX &&
                          !__builtin_mul_overflow(entry->checksum, (uint64_t)width, &bytes);
        entry->checksum = 0;
        if (!fits)
            SW_FAIL(SW_FORMAT, "%s: '%s' has a shape of too many elements",
                    swi_tensors_path(file), swi_name_shown(text, entry->name));
        if (entry->begin > entry->end || entry->end > file->data_bytes ||
            (width > 0 && entry->end - entry->begin != bytes))
            SW_FAIL(SW_FORMAT,
                    "%s: '%s' lies at %" PRIu64 " to %" PRIu64 "; it has %" PRIu64
                    " bytes, the file's data %" PRIu64,
                    swi_tensors_path(file), swi_name_shown(text, entry->name), entry->begin,
                    entry->end, width > 0 ? bytes : entry->end - entry->begin,
                    file->data_bytes);
    }
    return SW_OK;
}

/* By offset; of empty ones, by their place in the text. */
static bool is_behind(const swi_tensors_entry *a, const swi_tensors_entry *b)
{
    return a->begin != b->begin ? a->begin > b->begin
           : a->end != b->end   ? a->end > b->end
                                : a->name > b->name;
}

/* Shell's sort: no memory, no recursion. */
static void sort_entries(swi_tensors *file)
{
    for (uint32_t gap = file->n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < file->n; i++) {
            const swi_tensors_entry moved = file->entries[i];
            uint32_t k = i;
            for (; k >= gap && is_behind(&file->entries[k - gap], &moved); k -= gap)
                file->entries[k] = file->entries[k - gap];
            file->entries[k] = moved;
        }
}

/* Every byte of the data belongs to one tensor. */
static sw_status check_cover(const swi_tensors *file)
{
    char text[SWI_NAME_SHOWN];
    uint64_t at = 0;
    for (uint32_t i = 0; i < file->n; i++) {
        const swi_tensors_entry *entry = &file->entries[i];
        if (entry->begin != at)
            SW_FAIL(SW_FORMAT, "%s: '%s' must begin at %" PRIu64 " (got %" PRIu64 "): %s",
                    swi_tensors_path(file), swi_name_shown(text, entry->name), at, entry->begin,
                    entry->begin < at ? "tensors overlap" : "a hole");
        at = entry->end;
    }
    if (at != file->data_bytes)
        SW_FAIL(SW_FORMAT, "%s: %" PRIu64 " bytes after its last tensor",
                swi_tensors_path(file), file->data_bytes - at);
    return SW_OK;
}

/* ---- opening ----------------------------------------------------------------------------- */

/* The header's checksum comes before what it says. The table of names is filled again when
 * the tensors are sorted. */
static sw_status read_text(swi_tensors *file, char *text, size_t bytes)
{
    reader r = {sw_json_in_text(text, bytes, swi_tensors_path(file)),
                file->texts,
                bytes,
                file,
                false,
                0};
    int c;
    r.json.of = " of its header";
    r.json.strict = true;
    SW_TRY(read_object(&r, read_entry, NULL));
    SW_TRY(sw_json_peek(&r.json, &c));
    if (c != -1)
        return bad(&r, "text after the header's end");
    SW_TRY(check_names(file));
    bool own = false;
    for (uint32_t i = 0; i < file->n_notes; i++)
        own |= swi_is_own(file->notes[i].key);
    for (uint32_t i = 0; i < file->n; i++)
        own |= swi_is_own(file->entries[i].name);
    if (own)
        SW_TRY(check_own(file, &r, text, bytes));
    SW_TRY(check_places(file));
    if (own)
        SW_TRY(take_checksums(file));
    sort_entries(file);
    (void)add_names(file);
    return check_cover(file);
}

static sw_status read_header(swi_tensors *file)
{
    size_t bytes = 0;
    void *text;
    SW_TRY(read_length(file, &bytes));
    SW_TRY(sw_heap_alloc(&file->texts, SW_HEAP_FILES, bytes));
    file->text_bytes = bytes;
    SW_TRY(sw_heap_alloc(&text, SW_HEAP_FILES, bytes));
    sw_status status = swi_tensors_get(file, text, bytes);
    if (status == SW_OK)
        status = read_text(file, text, bytes);
    sw_heap_free(text, SW_HEAP_FILES, bytes);
    return status;
}

sw_status swi_tensors_open(swi_tensors **out, const char *path)
{
    swi_tensors *file;
    SW_TRY(sw_heap_alloc(&file, SW_HEAP_FILES, sizeof(swi_tensors)));
    sw_status status = sw_file_open(&file->file, path, SW_FILE_READ);
    if (status == SW_OK && sw_file_waits(file->file))
        status = sw_error_set(
            SW_FORMAT, __FILE__, __LINE__,
            "%s: parameters must be a regular file (this is a pipe or terminal)", path);
    if (status == SW_OK)
        status = read_header(file);
    return SW_GIVE(status, out, file, swi_tensors_close);
}

void swi_tensors_close(swi_tensors *file)
{
    if (file == NULL)
        return;
    sw_map_free(&file->names, SW_HEAP_FILES);
    sw_heap_free(file->notes, SW_HEAP_FILES, file->cap_notes * sizeof *file->notes);
    sw_heap_free(file->entries, SW_HEAP_FILES, file->cap * sizeof *file->entries);
    sw_heap_free(file->texts, SW_HEAP_FILES, file->text_bytes);
    sw_file_drop(file->file); /* nothing was written: closing has nothing to say */
    sw_heap_free(file, SW_HEAP_FILES, sizeof *file);
}

/* ---- questions --------------------------------------------------------------------------- */

const char *swi_tensors_path(const swi_tensors *file)
{
    return sw_file_path(file->file);
}

uint32_t swi_tensors_count(const swi_tensors *file)
{
    return file->n;
}

const swi_tensors_entry *swi_tensors_at(const swi_tensors *file, uint32_t i)
{
    return &file->entries[i];
}

bool swi_tensors_has_checksums(const swi_tensors *file)
{
    return file->has_checksums;
}

bool swi_tensors_is_checkpoint(const swi_tensors *file)
{
    return file->is_checkpoint;
}

const char *swi_tensors_text(const swi_tensors *file, const char *key)
{
    for (uint32_t i = 0; i < file->n_notes; i++)
        if (strcmp(file->notes[i].key, key) == 0)
            return file->notes[i].text;
    return NULL;
}

bool swi_tensors_note_at(const swi_tensors *file, uint32_t i, swi_tensors_note *out)
{
    if (i < file->n_notes)
        *out = file->notes[i];
    return i < file->n_notes;
}

uint64_t swi_tensors_file_bytes(const swi_tensors *file)
{
    return file->file_bytes;
}
