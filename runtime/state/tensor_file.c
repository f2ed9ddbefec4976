/* Opening a file of tensors: its header becomes a list of tensors, by offset, and of notes, and
 * is held against its checksum. Announced sizes are held against the file's size before memory
 * is taken, and what the file has against bounds, so a hostile file takes little. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file_kind.h"
#include "runtime/state/foreign_file.h"
#include "runtime/state/tensor_internal.h"
#include <inttypes.h>
#include <string.h>

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
    const char *what = swi_foreign_file(first, got);
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

/* ---- what the header says ---------------------------------------------------------------- */

typedef struct {
    swi_tensors *file;
    size_t own; /* where the digits of the header's checksum end in the text; 0: none */
} parsing;

static sw_status take_tensor(void *context, const swi_st_tensor *tensor)
{
    swi_tensors *file = ((parsing *)context)->file;
    if (file->n == SWI_ST_TENSORS_MAX)
        SW_FAIL(SW_FORMAT, "%s: more than %d tensors", swi_tensors_path(file),
                SWI_ST_TENSORS_MAX);
    void *array = file->entries;
    SW_TRY(
        sw_heap_reserve(&array, SW_HEAP_FILES, &file->cap, file->n + 1, sizeof *file->entries));
    file->entries = array;
    swi_tensors_entry *entry = &file->entries[file->n++];
    *entry = (swi_tensors_entry){.name = tensor->name,
                                 .dtype = tensor->dtype,
                                 .rank = tensor->rank,
                                 .begin = tensor->begin,
                                 .end = tensor->end,
                                 .checksum = tensor->elements}; /* until it is looked at */
    memcpy(entry->dim, tensor->dim, sizeof entry->dim);
    return SW_OK;
}

static sw_status take_note(void *context, const char *key, const char *text, size_t end)
{
    parsing *p = context;
    swi_tensors *file = p->file;
    if (file->n_notes == SWI_ST_NOTES_MAX)
        SW_FAIL(SW_FORMAT, "%s: more than %d texts of metadata", swi_tensors_path(file),
                SWI_ST_NOTES_MAX);
    void *array = file->notes;
    SW_TRY(sw_heap_reserve(&array, SW_HEAP_FILES, &file->cap_notes, file->n_notes + 1,
                           sizeof *file->notes));
    file->notes = array;
    file->notes[file->n_notes++] = (swi_tensors_note){key, text};
    if (strcmp(key, SWI_KEY_HEADER) == 0)
        p->own = end;
    return SW_OK;
}

/* ---- names ------------------------------------------------------------------------------- */

/* A name for a message: cut, without what is not printable. */
#define NAME_SHOWN 160
static const char *shown(char *to, const char *name)
{
    sw_utf8_clean(to, NAME_SHOWN, name);
    return to;
}

/* Add n names; the first that is there already, or NULL. */
static const char *add_names(const swi_tensors *file, swi_name_table *names, uint32_t n,
                             swi_name_of *name_of)
{
    for (uint32_t i = 0; i < n; i++)
        if (!swi_names_add(names, i, name_of, file))
            return name_of(file, i);
    return NULL;
}

static const char *tensor_name(const void *file, uint32_t i)
{
    return ((const swi_tensors *)file)->entries[i].name;
}

static const char *note_key(const void *file, uint32_t i)
{
    return ((const swi_tensors *)file)->notes[i].key;
}

/* No key twice, no name twice; the table of names stays. */
static sw_status check_names(swi_tensors *file)
{
    char text[NAME_SHOWN];
    swi_name_table keys = {0};
    bool emptied;
    SW_TRY(swi_names_room(&keys, file->n_notes, &emptied));
    const char *twice = add_names(file, &keys, file->n_notes, note_key);
    swi_names_free(&keys);
    if (twice == NULL) {
        SW_TRY(swi_names_room(&file->names, file->n, &emptied));
        twice = add_names(file, &file->names, file->n, tensor_name);
    }
    if (twice != NULL)
        SW_FAIL(SW_FORMAT, "%s: '%s' is there twice", swi_tensors_path(file),
                shown(text, twice));
    return SW_OK;
}

const swi_tensors_entry *swi_tensors_find(const swi_tensors *file, const char *name)
{
    const uint32_t i = swi_names_find(&file->names, name, tensor_name, file);
    return i < file->n ? &file->entries[i] : NULL;
}

/* ---- checksums --------------------------------------------------------------------------- */

/* The digits of the header's own checksum stand in `text` as they are, and are zeros in what
 * they are of. `text` has zeros afterwards. */
static sw_status check_header(const swi_tensors *file, char *text, size_t bytes, size_t end)
{
    const char *said = swi_tensors_text(file, SWI_KEY_HEADER);
    char digits[16];
    if (strlen(said) != sizeof digits || memcmp(text + end - sizeof digits, said, 16) != 0 ||
        text[end - sizeof digits - 1] != '"')
        SW_FAIL(SW_FORMAT, "%s: the header's checksum must be 16 digits: it is damaged",
                swi_tensors_path(file));
    if (!swi_checksum_there())
        return SW_OK;
    memset(text + end - sizeof digits, '0', sizeof digits);
    swi_st_hex(digits, swi_checksum_of(text, bytes));
    if (memcmp(said, digits, sizeof digits) != 0)
        SW_FAIL(SW_FORMAT,
                "%s: bytes 8 to %" PRIu64
                ", the header, are damaged: checksum %.16s, must be %s",
                swi_tensors_path(file), file->data_begin, digits, said);
    return SW_OK;
}

static sw_status take_checksums(swi_tensors *file)
{
    const char *digits = swi_tensors_text(file, SWI_KEY_CHECKSUMS);
    const size_t n = strlen(digits);
    bool whole = n == 16 * (size_t)file->n;
    for (uint32_t i = 0; whole && i < file->n; i++)
        whole = swi_st_unhex(digits + 16 * (size_t)i, &file->entries[i].checksum);
    if (!whole)
        SW_FAIL(SW_FORMAT,
                "%s: '" SWI_KEY_CHECKSUMS "' must have 16 digits for each of %u "
                "tensors (%zu are there): it is damaged",
                swi_tensors_path(file), file->n, n);
    file->has_checksums = true;
    return SW_OK;
}

static bool has_own_names(const swi_tensors *file)
{
    bool own = false;
    for (uint32_t i = 0; i < file->n_notes; i++)
        own |= swi_is_own(file->notes[i].key);
    for (uint32_t i = 0; i < file->n; i++)
        own |= swi_is_own(file->entries[i].name);
    return own;
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
    if (run && !swi_checksum_there())
        SW_FAIL(SW_UNSUPPORTED, "%s: a checkpoint, and the library was built without libxxhash",
                swi_tensors_path(file));
    file->is_checkpoint = run;
    return SW_OK;
}

/* With one name of ours there must be all: a flipped bit in the name of one thing cannot hide
 * the others. */
static sw_status check_own(swi_tensors *file, const parsing *p, char *text, size_t bytes)
{
    static const char *const keys[] = {SWI_KEY_HEADER, SWI_KEY_CHECKSUMS};
    for (int i = 0; i < 2; i++)
        if (swi_tensors_text(file, keys[i]) == NULL)
            SW_FAIL(SW_FORMAT,
                    "%s: has names that begin with '" SWI_OWN_PREFIX
                    "', and no '%s': its header is damaged",
                    swi_tensors_path(file), keys[i]);
    SW_TRY(check_header(file, text, bytes, p->own));
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
    char text[NAME_SHOWN];
    for (uint32_t i = 0; i < file->n; i++) {
        swi_tensors_entry *entry = &file->entries[i];
        const unsigned width = width_of(entry->dtype);
        uint64_t bytes = 0;
        const bool fits = entry->checksum != UINT64_MAX &&
                          !__builtin_mul_overflow(entry->checksum, (uint64_t)width, &bytes);
        entry->checksum = 0;
        if (!fits)
            SW_FAIL(SW_FORMAT, "%s: '%s' has a shape of too many elements",
                    swi_tensors_path(file), shown(text, entry->name));
        if (entry->begin > entry->end || entry->end > file->data_bytes ||
            (width > 0 && entry->end - entry->begin != bytes))
            SW_FAIL(SW_FORMAT,
                    "%s: '%s' lies at %" PRIu64 " to %" PRIu64 "; it has %" PRIu64
                    " bytes, the file's data %" PRIu64,
                    swi_tensors_path(file), shown(text, entry->name), entry->begin, entry->end,
                    width > 0 ? bytes : entry->end - entry->begin, file->data_bytes);
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
    char text[NAME_SHOWN];
    uint64_t at = 0;
    for (uint32_t i = 0; i < file->n; i++) {
        const swi_tensors_entry *entry = &file->entries[i];
        if (entry->begin != at)
            SW_FAIL(SW_FORMAT, "%s: '%s' must begin at %" PRIu64 " (got %" PRIu64 "): %s",
                    swi_tensors_path(file), shown(text, entry->name), at, entry->begin,
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
    parsing p = {file, 0};
    const swi_st_visit visit = {take_tensor, take_note, &p};
    SW_TRY(swi_st_parse(text, bytes, swi_tensors_path(file), file->texts, &visit));
    SW_TRY(check_names(file));
    const bool own = has_own_names(file);
    if (own)
        SW_TRY(check_own(file, &p, text, bytes));
    SW_TRY(check_places(file));
    if (own)
        SW_TRY(take_checksums(file));
    sort_entries(file);
    swi_names_clear(&file->names);
    (void)add_names(file, &file->names, file->n, tensor_name);
    return check_cover(file);
}

static sw_status read_header(swi_tensors *file)
{
    size_t bytes = 0;
    void *text, *texts;
    SW_TRY(read_length(file, &bytes));
    SW_TRY(sw_heap_alloc(&texts, SW_HEAP_FILES, bytes));
    file->texts = texts;
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
    void *block;
    SW_TRY(sw_heap_alloc(&block, SW_HEAP_FILES, sizeof(swi_tensors)));
    swi_tensors *file = block;
    sw_status status = sw_file_open(&file->file, path, SW_FILE_READ);
    if (status == SW_OK && sw_file_waits(file->file))
        status = sw_error_set(
            SW_FORMAT, __FILE__, __LINE__,
            "%s: parameters must be a regular file (this is a pipe or terminal)", path);
    if (status == SW_OK)
        status = read_header(file);
    if (status == SW_OK)
        *out = file;
    else
        swi_tensors_close(file);
    return status;
}

void swi_tensors_close(swi_tensors *file)
{
    if (file == NULL)
        return;
    swi_names_free(&file->names);
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
