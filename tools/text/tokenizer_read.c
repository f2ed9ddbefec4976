/* tokenizer.json. The text is read once for where values lie, then the vocabulary, which merges
 * and added tokens need, and then the rest; objects may come in any order. */
#include "alloc/base/sys.h"
#include "profiler/record/json_read.h"
#include "profiler/record/utf8.h"
#include "runtime/base/text_file.h"
#include "runtime/stepwell.h"
#include "tools/text/tokenizer_internal.h"
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)256 << 20)
#define IDS_MAX (1u << 22)
#define NAME 64 /* bytes of names that are looked at; longer ones are none that is built */
#define ELSEWHERE "; ids that were made elsewhere are read: ids:FILE.jsonl"
/* The pattern of tokenizers where the file has none. */
#define GPT2_PATTERN                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* ---- where values lie -------------------------------------------------------------------- */

typedef struct {
    const char *text, *path;
    size_t bytes;
    tokenizer *t;
    size_t end;      /* of what texts has */
    bool bytes_read; /* a pre-tokenizer made bytes of the text: the last one */
} reader;

enum { SPOTS_MAX = 12 };
typedef struct {
    const char *const *names;             /* NULL-terminated */
    size_t at[SPOTS_MAX], end[SPOTS_MAX]; /* 0: not there */
} spots;

static sw_json_in at_spot(const reader *r, size_t at)
{
    sw_json_in in = sw_json_in_text(r->text, r->bytes, r->path);
    in.strict = true;
    in.at = at;
    return in;
}

static sw_status note_spot(sw_json_in *in, const char *name, void *context)
{
    spots *s = context;
    int c, i = 0;
    SW_TRY(sw_json_peek(in, &c));
    while (s->names[i] != NULL && strcmp(name, s->names[i]) != 0)
        i++;
    if (s->names[i] == NULL)
        return sw_json_skip(in);
    if (s->at[i] > 0)
        return sw_json_bad(in, "a key that is there twice");
    s->at[i] = in->at;
    SW_TRY(sw_json_skip(in));
    s->end[i] = in->at;
    return SW_OK;
}

/* The object that `in` comes to; `in` is then after it. */
static sw_status find_spots(sw_json_in *in, const char *const *names, spots *out)
{
    *out = (spots){.names = names};
    return sw_json_get_object(in, note_spot, out);
}

static bool is_null(const reader *r, size_t at)
{
    return at == 0 || strncmp(r->text + at, "null", 4) == 0;
}

/* A text at a place, or "" where there is none; longer ones are cut. */
static sw_status get_name(const reader *r, size_t at, char to[NAME])
{
    sw_json_in in = at_spot(r, at);
    to[0] = '\0';
    return is_null(r, at) ? SW_OK : sw_json_get_text(&in, to, NAME);
}

static sw_status get_flag(const reader *r, size_t at, bool other, bool *out)
{
    sw_json_in in = at_spot(r, at);
    sw_json_word word;
    *out = other;
    if (is_null(r, at))
        return SW_OK;
    SW_TRY(sw_json_get_word(&in, &word));
    *out = word == SW_JSON_TRUE;
    return word == SW_JSON_NULL ? sw_json_bad(&in, "true or false was expected") : SW_OK;
}

static sw_status refuse(const reader *r, const char *what, const char *is)
{
    char clean[NAME];
    sw_utf8_clean(clean, sizeof clean, is);
    SW_FAIL(SW_UNSUPPORTED, "%s: %s '%s' is not built" ELSEWHERE, r->path, what, clean);
}

/* The object at a place, and in a Sequence those of its list, one after the other. */
static sw_status each_part(reader *r, size_t at, const char *what, const char *list,
                           sw_status (*part)(reader *r, size_t at, const char *type))
{
    char type[NAME];
    spots s;
    bool more;
    sw_json_in in = at_spot(r, at);
    SW_TRY(find_spots(&in, (const char *const[]){"type", list, NULL}, &s));
    SW_TRY(get_name(r, s.at[0], type));
    if (strcmp(type, "Sequence") != 0 || s.at[1] == 0)
        return part(r, at, type);
    in = at_spot(r, s.at[1]);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more;) {
        int c;
        SW_TRY(sw_json_peek(&in, &c));
        SW_TRY(each_part(r, in.at, what, list, part));
        SW_TRY(sw_json_skip(&in));
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    return SW_OK;
}

/* ---- the vocabulary ---------------------------------------------------------------------- */

/* Characters of Latin-1 that can be seen stay; the other bytes are U+0100 to U+0143 in their
 * order. */
static bool stays(int code)
{
    return (code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code != 173);
}

int byte_character(int byte)
{
    return stays(byte) ? byte : byte <= 32 ? byte + 256 : byte < 173 ? byte - 127 + 289 : 323;
}

int character_byte(int code)
{
    if (stays(code))
        return code;
    if (code < 256 || code > 323)
        return -1;
    return code < 289 ? code - 256 : code < 323 ? code - 289 + 127 : 173;
}

/* The bytes that `from` stands for; false: it has another character, and they are its own. */
static bool take_bytes(char *to, const char *from, size_t n, uint32_t *n_bytes)
{
    uint32_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)from[i];
        const int code = c < 0x80                ? c
                         : c < 0xe0 && i + 1 < n ? (c & 31) << 6 | (from[++i] & 63)
                                                 : -1;
        const int byte = character_byte(code);
        if (byte < 0) {
            memcpy(to, from, n);
            *n_bytes = (uint32_t)n;
            return false;
        }
        to[bytes++] = (char)byte;
    }
    *n_bytes = bytes;
    return true;
}

static sw_status put_token(reader *r, uint64_t id, const char *text, size_t n, bool *plain,
                           token **out)
{
    tokenizer *t = r->t;
    if (id >= IDS_MAX)
        SW_FAIL(SW_FORMAT, "%s: ids must be below %u (got %llu)", r->path, IDS_MAX,
                (unsigned long long)id);
    if (id >= t->n_tokens) {
        SW_TRY(sw_heap_reserve(&t->tokens, SW_HEAP_RECORDS, &t->cap_tokens, (uint32_t)id + 1));
        t->n_tokens = (uint32_t)id + 1;
    }
    token *is = &t->tokens[id];
    if (is->text != NULL)
        SW_FAIL(SW_FORMAT, "%s: two tokens have the id %llu", r->path, (unsigned long long)id);
    is->text = t->texts + r->end;
    *plain = take_bytes(t->texts + r->end, text, n, &is->n);
    r->end += is->n;
    *out = is;
    return SW_OK;
}

static sw_status count_one(sw_json_in *in, const char *key, void *context)
{
    (void)key;
    ++*(uint32_t *)context;
    return sw_json_skip(in);
}

static sw_status take_token(sw_json_in *in, const char *key, void *context)
{
    reader *r = context;
    tokenizer *t = r->t;
    uint64_t id;
    bool plain;
    token *is;
    SW_TRY(sw_json_get_count(in, &id));
    SW_TRY(put_token(r, id, key, strlen(key), &plain, &is));
    if (!plain || is->n == 0)
        return SW_OK; /* no text is cut into it */
    if (!sw_map_add(&t->vocabulary, is->text, is->n, (uint32_t)id))
        return sw_json_bad(in, "a token that is there twice");
    if (is->n == 1)
        t->of_byte[(unsigned char)is->text[0]] = (uint32_t)id;
    return SW_OK;
}

/* ---- merges ------------------------------------------------------------------------------ */

typedef struct {
    sw_json_text is; /* first: grow_piece goes back from it */
    char *block;
} piece;

static sw_status grow_piece(sw_json_text *text)
{
    piece *p = (piece *)(void *)text;
    const size_t cap = text->cap > 0 ? 2 * text->cap : 256;
    SW_TRY(sw_heap_resize(&p->block, SW_HEAP_FILES, text->cap, cap));
    text->to = p->block;
    text->cap = cap;
    return SW_OK;
}

/* Its two parts, as bytes in place; false where one is no token of bytes. */
static sw_status get_merge(const reader *r, sw_json_in *in, piece pieces[2], uint32_t ids[3])
{
    const tokenizer *t = r->t;
    char *both;
    const char *part[2];
    size_t n[2];
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c == '[') {
        SW_TRY(sw_json_expect(in, '['));
        SW_TRY(sw_json_get_string(in, &pieces[0].is));
        SW_TRY(sw_json_expect(in, ','));
        SW_TRY(sw_json_get_string(in, &pieces[1].is));
        SW_TRY(sw_json_expect(in, ']'));
        for (int i = 0; i < 2; i++) {
            part[i] = pieces[i].is.to;
            n[i] = pieces[i].is.length;
        }
    } else {
        SW_TRY(sw_json_get_string(in, &pieces[0].is));
        const size_t length = pieces[0].is.length;
        const char *space = length > 0 ? memchr(pieces[0].is.to, ' ', length) : NULL;
        if (space == NULL)
            return sw_json_bad(in, "a merge must be two tokens with a blank between");
        part[0] = pieces[0].is.to;
        n[0] = (size_t)(space - part[0]);
        part[1] = space + 1;
        n[1] = length - n[0] - 1;
    }
    if (n[0] == 0 || n[1] == 0)
        return sw_json_bad(in, "a merge with an empty token");
    const size_t room = n[0] + n[1];
    SW_TRY(sw_heap_alloc(&both, SW_HEAP_FILES, room));
    uint32_t first, second;
    bool plain = take_bytes(both, part[0], n[0], &first);
    plain = take_bytes(both + first, part[1], n[1], &second) && plain;
    const char *text[3] = {both, both + first, both};
    const uint32_t bytes[3] = {first, second, first + second};
    for (int i = 0; i < 3 && plain; i++) {
        const sw_map_slot *slot = sw_map_find(&t->vocabulary, text[i], bytes[i]);
        plain = slot != NULL;
        ids[i] = plain ? slot->thing : 0;
    }
    sw_heap_free(both, SW_HEAP_FILES, room);
    return plain ? SW_OK : sw_json_bad(in, "a merge of tokens that are not in the vocabulary");
}

static sw_status take_merges(reader *r, size_t at, piece pieces[2])
{
    tokenizer *t = r->t;
    uint32_t n = 0;
    bool more;
    sw_json_in in = at_spot(r, at);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more; n++) {
        SW_TRY(sw_json_skip(&in));
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    uint32_t slots = 8;
    while (slots < n + n / 2)
        slots *= 2;
    SW_TRY(sw_heap_alloc(&t->merges, SW_HEAP_RECORDS, slots * sizeof *t->merges));
    t->n_merges = slots;
    for (uint32_t i = 0; i < slots; i++)
        t->merges[i].pair = UINT64_MAX;
    in = at_spot(r, at);
    SW_TRY(sw_json_expect(&in, '['));
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t ids[3];
        SW_TRY(get_merge(r, &in, pieces, ids));
        const uint64_t of = (uint64_t)ids[0] << 32 | ids[1];
        *tokenizer_merge_slot(t, of) = (merge){of, rank, ids[2]}; /* the last one holds */
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    return SW_OK;
}

/* ---- the model --------------------------------------------------------------------------- */

static sw_status take_model(reader *r, size_t at, size_t added_bytes)
{
    static const char *const names[] = {"type",
                                        "vocab",
                                        "merges",
                                        "ignore_merges",
                                        "byte_fallback",
                                        "dropout",
                                        "fuse_unk",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        NULL};
    enum { TYPE, VOCAB, MERGES, WHOLE, FALLBACK, DROPOUT, FUSE, UNKNOWN, PREFIX, SUFFIX };
    tokenizer *t = r->t;
    spots s;
    char name[NAME];
    bool flag;
    uint32_t n = 0;
    sw_json_in in = at_spot(r, at);
    if (at == 0)
        SW_FAIL(SW_FORMAT, "%s: 'model' is missing", r->path);
    SW_TRY(find_spots(&in, names, &s));
    SW_TRY(get_name(r, s.at[TYPE], name));
    if (s.at[TYPE] > 0 && strcmp(name, "BPE") != 0)
        return refuse(r, "model", name);
    if (s.at[VOCAB] == 0 || s.at[MERGES] == 0)
        SW_FAIL(SW_FORMAT, "%s: 'model' must have 'vocab' and 'merges'", r->path);
    SW_TRY(get_flag(r, s.at[FALLBACK], false, &flag));
    if (flag)
        return refuse(r, "model with", "byte_fallback");
    if (!is_null(r, s.at[DROPOUT])) {
        sw_json_number x;
        in = at_spot(r, s.at[DROPOUT]);
        SW_TRY(sw_json_get_number(&in, &x));
        if (x.real > 0.0)
            return refuse(r, "model with", "dropout");
    }
    for (int i = PREFIX; i <= SUFFIX; i++) {
        SW_TRY(get_name(r, s.at[i], name));
        if (name[0] != '\0')
            return refuse(r, "model with", names[i]);
    }
    SW_TRY(get_flag(r, s.at[WHOLE], false, &t->whole_words));
    SW_TRY(get_flag(r, s.at[FUSE], false, &flag));

    /* Bytes take at most what the file has for them. An added token is there as text, as bytes
     * and normalized, which may be three times as long. */
    t->texts_bytes = s.end[VOCAB] - s.at[VOCAB] + 5 * added_bytes;
    SW_TRY(sw_heap_alloc(&t->texts, SW_HEAP_RECORDS, t->texts_bytes));
    in = at_spot(r, s.at[VOCAB]);
    SW_TRY(sw_json_get_object(&in, count_one, &n));
    if (n > IDS_MAX)
        SW_FAIL(SW_FORMAT, "%s: a vocabulary has at most %u tokens (got %u)", r->path, IDS_MAX,
                n);
    SW_TRY(sw_map_room(&t->vocabulary, SW_HEAP_RECORDS, n));
    in = at_spot(r, s.at[VOCAB]);
    SW_TRY(sw_json_get_object(&in, take_token, r));
    SW_TRY(get_name(r, s.at[UNKNOWN], name));
    for (int byte = 0; byte < 256 && name[0] != '\0'; byte++) {
        /* Of bytes that UTF-8 has. */
        if (t->of_byte[byte] != TOKEN_NONE || byte == 0xc0 || byte == 0xc1 || byte > 0xf4)
            continue;
        const sw_map_slot *slot = sw_map_find(&t->vocabulary, name, strlen(name));
        if (flag || slot == NULL)
            return refuse(r, "a vocabulary without all bytes, and the unk_token", name);
        t->of_byte[byte] = slot->thing;
    }
    piece pieces[2] = {{.is = {.grow = grow_piece}}, {.is = {.grow = grow_piece}}};
    const sw_status status = take_merges(r, s.at[MERGES], pieces);
    for (int i = 0; i < 2; i++)
        sw_heap_free(pieces[i].block, SW_HEAP_FILES, pieces[i].is.cap);
    return status;
}

/* ---- added tokens ------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    const added_token *x = a, *y = b;
    const int is = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);
    return is != 0 ? is : x->n < y->n ? -1 : x->n > y->n;
}

/* `in` comes to it, and is then after it. */
static sw_status take_added(reader *r, sw_json_in *in)
{
    static const char *const names[] = {"id",     "content",    "special",     "lstrip",
                                        "rstrip", "normalized", "single_word", NULL};
    enum { ID, CONTENT, SPECIAL, LSTRIP, RSTRIP, NORMALIZED, SINGLE };
    tokenizer *t = r->t;
    spots s;
    added_token added = {NULL, 0, 0, false, false, false};
    bool special, normalized, plain;
    uint64_t id;
    token *is;
    SW_TRY(find_spots(in, names, &s));
    if (s.at[ID] == 0 || s.at[CONTENT] == 0)
        return sw_json_bad(in, "an added token must have 'id' and 'content'");
    SW_TRY(get_flag(r, s.at[SPECIAL], false, &special));
    SW_TRY(get_flag(r, s.at[LSTRIP], false, &added.lstrip));
    SW_TRY(get_flag(r, s.at[RSTRIP], false, &added.rstrip));
    SW_TRY(get_flag(r, s.at[NORMALIZED], !special, &normalized));
    SW_TRY(get_flag(r, s.at[SINGLE], false, &added.single_word));
    sw_json_in part = at_spot(r, s.at[ID]);
    SW_TRY(sw_json_get_count(&part, &id));
    part = at_spot(r, s.at[CONTENT]);
    sw_json_text content = {.to = t->texts + r->end, .cap = t->texts_bytes - r->end};
    SW_TRY(sw_json_get_string(&part, &content));
    const char *text = content.to, *same;
    size_t n = content.length;
    r->end += n;
    if (n == 0)
        return SW_OK; /* in no text */
    const bool known = id < t->n_tokens && t->tokens[id].text != NULL;
    if (!known)
        SW_TRY(put_token(r, id, text, n, &plain, &is));
    is = &t->tokens[id];
    char *bytes = t->texts + r->end;
    uint32_t n_bytes;
    (void)take_bytes(bytes, text, n, &n_bytes);
    if (is->n != n_bytes || memcmp(is->text, bytes, n_bytes) != 0)
        SW_FAIL(SW_FORMAT, "%s: an added token has the id %llu of another token", r->path,
                (unsigned long long)id);
    is->special |= special;
    if (normalized) {
        SW_TRY(tokenizer_normalize(t, text, n, &same, &n));
        if (same != text) {
            memcpy(bytes, same, n); /* at most three times as long */
            r->end += n;
            text = bytes;
        }
    }
    added.text = text;
    added.n = (uint32_t)n;
    added.id = (uint32_t)id;
    if (added.single_word && t->word == NULL) {
        static const char word[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";
        SW_TRY(splitter_new(&t->word, word, sizeof word - 1, r->path));
    }
    added_tokens *of = normalized ? &t->normal : &t->raw;
    SW_TRY(sw_heap_reserve(&of->at, SW_HEAP_RECORDS, &of->cap, of->n + 1));
    of->at[of->n++] = added;
    return SW_OK;
}

static sw_status take_all_added(reader *r, size_t at)
{
    tokenizer *t = r->t;
    bool more;
    sw_json_in in = at_spot(r, at);
    if (is_null(r, at))
        return SW_OK;
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more;) {
        SW_TRY(take_added(r, &in));
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    for (int i = 0; i < 2; i++) {
        added_tokens *of = i == 0 ? &t->raw : &t->normal;
        if (of->n > 0)
            qsort(of->at, of->n, sizeof *of->at, by_text);
        for (uint32_t k = 1; k < of->n; k++)
            if (by_text(&of->at[k - 1], &of->at[k]) == 0)
                SW_FAIL(SW_FORMAT, "%s: two added tokens are one text: ids %u and %u", r->path,
                        of->at[k - 1].id, of->at[k].id);
    }
    return SW_OK;
}

/* ---- what is before and after the model -------------------------------------------------- */

static sw_status take_normalizer(reader *r, size_t at, const char *type)
{
    (void)at;
    if (strcmp(type, "NFC") != 0)
        return refuse(r, "normalizer", type);
#if !SW_HAVE_UTF8PROC
    SW_FAIL(SW_UNSUPPORTED,
            "%s: normalizer NFC: this build has none (utf8proc is off): build with "
            "-Dutf8proc=enabled" ELSEWHERE,
            r->path);
#endif
    r->t->nfc = true;
    return SW_OK;
}

static sw_status add_stage(reader *r, const char *pattern, size_t n)
{
    tokenizer *t = r->t;
    if (t->n_stages == STAGES_MAX)
        SW_FAIL(SW_UNSUPPORTED,
                "%s: a pre_tokenizer of more than %d parts is not built" ELSEWHERE, r->path,
                STAGES_MAX);
    if (pattern != NULL)
        SW_TRY(splitter_new(&t->stages[t->n_stages], pattern, n, r->path));
    t->n_stages++;
    return SW_OK;
}

static sw_status take_split(reader *r, const spots *s)
{
    static const char *const names[] = {"Regex", NULL};
    char name[NAME];
    bool invert;
    spots pattern;
    SW_TRY(get_name(r, s->at[1], name));
    if (strcmp(name, "Isolated") != 0)
        return refuse(r, "pre_tokenizer Split with the behavior", name);
    SW_TRY(get_flag(r, s->at[2], false, &invert));
    if (invert)
        return refuse(r, "pre_tokenizer Split with", "invert");
    sw_json_in in = at_spot(r, s->at[0]);
    SW_TRY(find_spots(&in, names, &pattern));
    if (pattern.at[0] == 0)
        return refuse(r, "pre_tokenizer Split with a pattern that is no", "Regex");
    piece text = {.is = {.grow = grow_piece}};
    in = at_spot(r, pattern.at[0]);
    sw_status status = sw_json_get_string(&in, &text.is);
    if (status == SW_OK)
        status = add_stage(r, text.block != NULL ? text.block : "", text.is.length);
    sw_heap_free(text.block, SW_HEAP_FILES, text.is.cap);
    return status;
}

static sw_status take_pre_tokenizer(reader *r, size_t at, const char *type)
{
    static const char *const names[] = {
        "pattern",   "behavior",          "invert", "add_prefix_space",
        "use_regex", "individual_digits", NULL};
    enum { PATTERN, BEHAVIOR, INVERT, PREFIX, USE_REGEX, INDIVIDUAL };
    tokenizer *t = r->t;
    bool flag;
    spots s;
    sw_json_in in = at_spot(r, at);
    if (r->bytes_read)
        return refuse(r, "pre_tokenizer ByteLevel before", type);
    SW_TRY(find_spots(&in, names, &s));
    if (strcmp(type, "Split") == 0 && s.at[PATTERN] > 0)
        return take_split(r, &s);
    if (strcmp(type, "Digits") == 0) {
        SW_TRY(get_flag(r, s.at[INDIVIDUAL], false, &flag));
        return add_stage(r, "\\p{N}+", flag ? 5 : 6);
    }
    if (strcmp(type, "ByteLevel") != 0)
        return refuse(r, "pre_tokenizer", type);
    r->bytes_read = true;
    SW_TRY(get_flag(r, s.at[PREFIX], true, &t->prefix_space));
    SW_TRY(get_flag(r, s.at[USE_REGEX], true, &flag));
    if (flag)
        return add_stage(r, GPT2_PATTERN, sizeof GPT2_PATTERN - 1);
    return t->prefix_space ? add_stage(r, NULL, 0) : SW_OK;
}

static sw_status take_decoder(reader *r, size_t at, const char *type)
{
    (void)at;
    return strcmp(type, "ByteLevel") == 0 ? SW_OK : refuse(r, "decoder", type);
}

/* The ids of a special token of a template, which `special_tokens` has by its name. */
static sw_status take_special(const reader *r, size_t all, const char *name, uint32_t *to,
                              uint32_t *n)
{
    spots s;
    bool more;
    sw_json_in in = at_spot(r, all);
    if (all > 0)
        SW_TRY(find_spots(&in, (const char *const[]){name, NULL}, &s));
    if (all == 0 || s.at[0] == 0)
        SW_FAIL(SW_FORMAT, "%s: the template's token '%s' is not in its special_tokens",
                r->path, name);
    in = at_spot(r, s.at[0]);
    SW_TRY(find_spots(&in, (const char *const[]){"ids", NULL}, &s));
    if (s.at[0] == 0)
        SW_FAIL(SW_FORMAT, "%s: the template's token '%s' has no ids", r->path, name);
    in = at_spot(r, s.at[0]);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more;) {
        uint64_t id;
        size_t bytes;
        SW_TRY(sw_json_get_count(&in, &id));
        if (*n == STAGES_MAX || id >= IDS_MAX ||
            tokenizer_token(r->t, (int32_t)id, &bytes) == NULL)
            SW_FAIL(SW_FORMAT,
                    "%s: the template's token '%s' has the id %llu: it must be one "
                    "of the vocabulary, and they must be at most %d",
                    r->path, name, (unsigned long long)id, STAGES_MAX);
        to[(*n)++] = (uint32_t)id;
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    return SW_OK;
}

/* Around what the processors before it have made. */
static sw_status take_template(reader *r, size_t list, size_t all)
{
    tokenizer *t = r->t;
    uint32_t before[STAGES_MAX], n_before = 0;
    bool more, text = false;
    sw_json_in in = at_spot(r, list);
    SW_TRY(sw_json_expect(&in, '['));
    SW_TRY(sw_json_accept(&in, ']', &more));
    for (more = !more; more;) {
        spots s, part;
        char name[NAME];
        SW_TRY(find_spots(&in, (const char *const[]){"Sequence", "SpecialToken", NULL}, &s));
        if ((s.at[0] > 0) == (s.at[1] > 0))
            return sw_json_bad(&in, "a template has a Sequence or a SpecialToken");
        sw_json_in of = at_spot(r, s.at[0] > 0 ? s.at[0] : s.at[1]);
        SW_TRY(find_spots(&of, (const char *const[]){"id", NULL}, &part));
        SW_TRY(get_name(r, part.at[0], name));
        if (s.at[0] > 0 && (text || strcmp(name, "A") != 0))
            return refuse(r, "post_processor TemplateProcessing with the sequence", name);
        if (s.at[1] > 0)
            SW_TRY(text ? take_special(r, all, name, t->after, &t->n_after)
                        : take_special(r, all, name, before, &n_before));
        text |= s.at[0] > 0;
        SW_TRY(sw_json_accept(&in, ',', &more));
    }
    if (!text)
        return refuse(r, "post_processor TemplateProcessing without the sequence", "A");
    if (t->n_before + n_before > STAGES_MAX)
        return refuse(r, "post_processor with", "more than 8 tokens before a text");
    memmove(t->before + n_before, t->before, t->n_before * sizeof *t->before);
    memcpy(t->before, before, n_before * sizeof *before);
    t->n_before += n_before;
    return SW_OK;
}

static sw_status take_post_processor(reader *r, size_t at, const char *type)
{
    spots s;
    sw_json_in in = at_spot(r, at);
    if (strcmp(type, "ByteLevel") == 0)
        return SW_OK; /* of offsets alone */
    SW_TRY(find_spots(&in, (const char *const[]){"single", "special_tokens", NULL}, &s));
    if (strcmp(type, "TemplateProcessing") != 0 || s.at[0] == 0 || r->text[s.at[0]] != '[')
        return refuse(r, "post_processor", type);
    return take_template(r, s.at[0], s.at[1]);
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status take_all(reader *r)
{
    static const char *const names[] = {
        "model",          "added_tokens", "normalizer", "pre_tokenizer",
        "post_processor", "decoder",      NULL};
    enum { MODEL, ADDED, NORMALIZER, PRE, POST, DECODER };
    spots s;
    int c;
    sw_json_in in = at_spot(r, 0);
    SW_TRY(find_spots(&in, names, &s));
    SW_TRY(sw_json_peek(&in, &c));
    if (c >= 0)
        return sw_json_bad(&in, "the text goes on after its object");
    if (!is_null(r, s.at[NORMALIZER]))
        SW_TRY(each_part(r, s.at[NORMALIZER], "normalizer", "normalizers", take_normalizer));
    if (!is_null(r, s.at[PRE]))
        SW_TRY(each_part(r, s.at[PRE], "pre_tokenizer", "pretokenizers", take_pre_tokenizer));
    if (!r->bytes_read)
        return refuse(r, "a pre_tokenizer without", "ByteLevel");
    if (is_null(r, s.at[DECODER]))
        return refuse(r, "a decoder that is not", "ByteLevel");
    SW_TRY(each_part(r, s.at[DECODER], "decoder", "decoders", take_decoder));
    SW_TRY(take_model(r, s.at[MODEL], s.end[ADDED] - s.at[ADDED]));
    SW_TRY(take_all_added(r, s.at[ADDED]));
    if (!is_null(r, s.at[POST]))
        SW_TRY(each_part(r, s.at[POST], "post_processor", "processors", take_post_processor));
    return SW_OK;
}

sw_status tokenizer_parse(tokenizer **out, const char *text, size_t bytes, const char *path)
{
    reader r = {.text = text, .bytes = bytes, .path = path};
    SW_TRY(sw_heap_alloc(&r.t, SW_HEAP_RECORDS, sizeof *r.t));
    memset(r.t->of_byte, 0xff, sizeof r.t->of_byte);
    const sw_status status = take_all(&r);
    return SW_GIVE(status, out, r.t, tokenizer_free);
}

sw_status tokenizer_read(tokenizer **out, const char *path)
{
    char *text;
    size_t bytes;
    bool there;
    SW_TRY(sw_file_look(path, &there));
    if (!there)
        SW_FAIL(SW_IO,
                "%s is missing, which says how texts become ids" ELSEWHERE
                ", sample --prompt-ids",
                path);
    SW_TRY(swi_text_load(&text, &bytes, path, "a tokenizer", FILE_MAX));
    const sw_status status = tokenizer_parse(out, text, bytes, path);
    sw_text_free(text, bytes);
    return status;
}

void tokenizer_free(tokenizer *t)
{
    if (t == NULL)
        return;
    sw_heap_free(t->texts, SW_HEAP_RECORDS, t->texts_bytes);
    sw_heap_free(t->tokens, SW_HEAP_RECORDS, t->cap_tokens * sizeof *t->tokens);
    sw_map_free(&t->vocabulary, SW_HEAP_RECORDS);
    sw_heap_free(t->merges, SW_HEAP_RECORDS, t->n_merges * sizeof *t->merges);
    for (uint32_t i = 0; i < t->n_stages; i++)
        splitter_free(t->stages[i]);
    splitter_free(t->word);
    sw_heap_free(t->raw.at, SW_HEAP_RECORDS, t->raw.cap * sizeof *t->raw.at);
    sw_heap_free(t->normal.at, SW_HEAP_RECORDS, t->normal.cap * sizeof *t->normal.at);
    sw_heap_free(t->symbols, SW_HEAP_RECORDS, t->cap_symbols * sizeof *t->symbols);
    sw_heap_free(t->pairs, SW_HEAP_RECORDS, t->cap_pairs * sizeof *t->pairs);
    sw_heap_free(t->normalized, SW_HEAP_RECORDS, t->cap_normalized);
    sw_heap_free(t->prefixed, SW_HEAP_RECORDS, t->cap_prefixed);
    sw_heap_free(t->codes, SW_HEAP_RECORDS, t->cap_codes * sizeof *t->codes);
    sw_heap_free(t, SW_HEAP_RECORDS, sizeof *t);
}
