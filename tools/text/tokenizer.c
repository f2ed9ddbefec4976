/* Text to ids and back. A text is cut at added tokens, what lies between is normalized and cut
 * at those added tokens that are found after that, then pattern by pattern into words. In each
 * word neighbours are merged, the lowest rank first, by a heap: n log n for a word of n bytes.
 */
#include "profiler/record/utf8.h"
#include "tools/text/tokenizer_internal.h"
#include <string.h>
#if SW_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#define TEXT_MAX ((size_t)1 << 30)

uint32_t tokenizer_size(const tokenizer *t)
{
    return t->n_tokens;
}

const char *tokenizer_token(const tokenizer *t, int32_t id, size_t *n)
{
    if (id < 0 || (uint32_t)id >= t->n_tokens)
        return NULL;
    *n = t->tokens[id].n;
    return t->tokens[id].text;
}

int32_t tokenizer_added(const tokenizer *t, const char *text, size_t n)
{
    for (int i = 0; i < 2; i++) {
        const added_tokens *of = i == 0 ? &t->raw : &t->normal;
        for (uint32_t k = 0; k < of->n; k++)
            if (of->at[k].n == n && memcmp(of->at[k].text, text, n) == 0)
                return (int32_t)of->at[k].id;
    }
    return -1;
}

void token_ids_free(token_ids *ids)
{
    sw_heap_free(ids->at, SW_HEAP_DATASETS, ids->cap * sizeof *ids->at);
    *ids = (token_ids){NULL, 0, 0};
}

void token_text_free(token_text *text)
{
    sw_heap_free(text->at, SW_HEAP_FILES, text->cap);
    *text = (token_text){.at = NULL};
}

/* ---- normal form ------------------------------------------------------------------------- */

sw_status tokenizer_normalize(tokenizer *t, const char *text, size_t bytes, const char **out,
                              size_t *out_bytes)
{
    *out = text;
    *out_bytes = bytes;
#if SW_HAVE_UTF8PROC
    size_t plain = 0; /* below U+0300 nothing is decomposed or moves */
    while (plain < bytes && (unsigned char)text[plain] < 0xcc)
        plain++;
    if (!t->nfc || plain == bytes)
        return SW_OK;
    const utf8proc_option_t form = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    SW_TRY(sw_heap_reserve(&t->codes, SW_HEAP_RECORDS, &t->cap_codes, (uint32_t)bytes / 2 + 8));
    utf8proc_ssize_t n = utf8proc_decompose((const utf8proc_uint8_t *)text, (ptrdiff_t)bytes,
                                            t->codes, t->cap_codes - 1, form);
    if (n >= (utf8proc_ssize_t)t->cap_codes) {
        if (n > (utf8proc_ssize_t)TEXT_MAX)
            SW_FAIL(SW_NOMEM, "a text of %zu bytes is too long to be normalized", bytes);
        SW_TRY(sw_heap_reserve(&t->codes, SW_HEAP_RECORDS, &t->cap_codes, (uint32_t)n + 1));
        n = utf8proc_decompose((const utf8proc_uint8_t *)text, (ptrdiff_t)bytes, t->codes,
                               t->cap_codes - 1, form);
    }
    if (n >= 0)
        n = utf8proc_reencode(t->codes, n, form); /* in place, and a zero after it */
    if (n < 0)
        SW_FAIL(SW_FORMAT, "a text of %zu bytes cannot be normalized: %s", bytes,
                utf8proc_errmsg(n));
    SW_TRY(
        sw_heap_reserve(&t->normalized, SW_HEAP_RECORDS, &t->cap_normalized, (uint32_t)n + 1));
    memcpy(t->normalized, t->codes, (size_t)n + 1);
    *out = t->normalized;
    *out_bytes = (size_t)n;
#endif
    return SW_OK;
}

/* ---- the ids of a word ------------------------------------------------------------------- */

typedef struct {
    tokenizer *t;
    token_ids *ids;
    /* Bounds by the place in what the words of the text have in sum, which grows by emit. */
    const size_t *bound;
    size_t *place;
    uint32_t *tokens, n_bounds, n_placed, n_found;
    size_t done;
} encoding;

static sw_status emit(encoding *e, uint32_t id, size_t bytes)
{
    token_ids *ids = e->ids;
    const size_t begin = e->done;
    e->done += bytes;
    while (e->n_found < e->n_placed && (e->n_found % 2 == 0 ? e->place[e->n_found] < e->done
                                                            : e->place[e->n_found] <= begin))
        e->tokens[e->n_found++] = ids->n;
    SW_TRY(sw_heap_reserve(&ids->at, SW_HEAP_DATASETS, &ids->cap, ids->n + 1));
    ids->at[ids->n++] = (int32_t)id;
    return SW_OK;
}

merge *tokenizer_merge_slot(const tokenizer *t, uint64_t of)
{
    uint64_t at = of * 0x9e3779b97f4a7c15u;
    for (at ^= at >> 32;; at++) {
        merge *m = &t->merges[at & (t->n_merges - 1)];
        if (m->pair == of || m->pair == UINT64_MAX)
            return m;
    }
}

static bool before(const pair *a, const pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* The symbol and the one after it may become one. */
static void push_pair(tokenizer *t, uint32_t *n, uint32_t at)
{
    const symbol *s = &t->symbols[at];
    if (s->next == TOKEN_NONE)
        return;
    const merge *m = tokenizer_merge_slot(t, (uint64_t)s->id << 32 | t->symbols[s->next].id);
    if (m->pair == UINT64_MAX)
        return;
    const pair new = {m->rank, at, m->id};
    uint32_t i = (*n)++;
    for (; i > 0 && before(&new, &t->pairs[(i - 1) / 2]); i = (i - 1) / 2)
        t->pairs[i] = t->pairs[(i - 1) / 2];
    t->pairs[i] = new;
}

static pair pop_pair(tokenizer *t, uint32_t *n)
{
    const pair first = t->pairs[0], last = t->pairs[--*n];
    uint32_t i = 0;
    for (uint32_t k = 1; k < *n; i = k, k = 2 * k + 1) {
        k += k + 1 < *n && before(&t->pairs[k + 1], &t->pairs[k]);
        if (!before(&t->pairs[k], &last))
            break;
        t->pairs[i] = t->pairs[k];
    }
    t->pairs[i] = last;
    return first;
}

/* `extra` bytes of the word are not of the text. */
static sw_status put_word(encoding *e, const char *word, size_t bytes, size_t extra)
{
    tokenizer *t = e->t;
    const sw_map_slot *whole = t->whole_words ? sw_map_find(&t->vocabulary, word, bytes) : NULL;
    if (whole != NULL)
        return emit(e, whole->thing, bytes - extra);
    /* A merge takes one pair and brings two at most. */
    SW_TRY(sw_heap_reserve(&t->symbols, SW_HEAP_RECORDS, &t->cap_symbols, (uint32_t)bytes));
    SW_TRY(sw_heap_reserve(&t->pairs, SW_HEAP_RECORDS, &t->cap_pairs, 2 * (uint32_t)bytes));
    symbol *s = t->symbols;
    uint32_t n = 0, n_pairs = 0;
    size_t missing = 0; /* bytes that no token has are left out, as tokenizers does */
    for (size_t i = 0; i < bytes; i++) {
        const uint32_t id = t->of_byte[(unsigned char)word[i]];
        missing++;
        if (id == TOKEN_NONE)
            continue;
        s[n] = (symbol){id, (uint32_t)missing, n > 0 ? n - 1 : TOKEN_NONE, TOKEN_NONE};
        if (n > 0)
            s[n - 1].next = n;
        missing = 0;
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        push_pair(t, &n_pairs, i);
    while (n_pairs > 0) {
        const pair p = pop_pair(t, &n_pairs);
        symbol *a = &s[p.at];
        if (a->n == 0 || a->next == TOKEN_NONE)
            continue;
        symbol *b = &s[a->next];
        const merge *m = tokenizer_merge_slot(t, (uint64_t)a->id << 32 | b->id);
        if (m->pair == UINT64_MAX || m->id != p.id)
            continue; /* they were others when the pair was found */
        a->id = p.id;
        a->n += b->n;
        a->next = b->next;
        b->n = 0;
        if (a->next != TOKEN_NONE)
            s[a->next].before = p.at;
        if (a->before != TOKEN_NONE)
            push_pair(t, &n_pairs, a->before);
        push_pair(t, &n_pairs, p.at);
    }
    for (uint32_t i = 0; i < n; i = s[i].next) {
        const size_t less = extra < s[i].n ? extra : s[i].n;
        SW_TRY(emit(e, s[i].id, s[i].n - less));
        extra -= less;
    }
    e->done += missing > extra ? missing - extra : 0;
    return SW_OK;
}

/* ---- words of a text --------------------------------------------------------------------- */

/* Pattern by pattern: each cuts the pieces of the one before it. A piece between two matches is
 * one too. Calls itself once for each pattern. */
static sw_status put_pieces(encoding *e, uint32_t stage, const char *text, size_t bytes)
{
    tokenizer *t = e->t;
    if (stage == t->n_stages)
        return put_word(e, text, bytes, 0);
    const bool prefix = t->prefix_space && stage + 1 == t->n_stages && text[0] != ' ';
    size_t extra = prefix;
    if (prefix) {
        SW_TRY(sw_heap_reserve(&t->prefixed, SW_HEAP_RECORDS, &t->cap_prefixed,
                               (uint32_t)bytes + 1));
        t->prefixed[0] = ' ';
        memcpy(t->prefixed + 1, text, bytes);
        text = t->prefixed;
        bytes++;
    }
    for (size_t at = 0, from = 0; at < bytes;) {
        size_t begin, end;
        begin = end = bytes;
        if (t->stages[stage] != NULL)
            SW_TRY(splitter_next(t->stages[stage], text, bytes, from, &begin, &end));
        const size_t cuts[3] = {at, begin, end};
        for (int i = 0; i < 2; i++) {
            const size_t n = cuts[i + 1] - cuts[i];
            if (n == 0)
                continue;
            SW_TRY(prefix ? put_word(e, text + cuts[i], n, extra)
                          : put_pieces(e, stage + 1, text + cuts[i], n));
            extra = 0;
        }
        at = from = end;
        if (begin == end && end < bytes) /* an empty match: the next begins a character on */
            for (from++; from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80;)
                from++;
    }
    return SW_OK;
}

size_t text_blank(const char *text, size_t bytes)
{
    const unsigned char *s = (const unsigned char *)text;
    if (bytes > 0 && (s[0] == ' ' || (s[0] >= 9 && s[0] <= 13)))
        return 1;
    if (bytes > 1 && s[0] == 0xc2 && (s[1] == 0x85 || s[1] == 0xa0))
        return 2;
    if (bytes < 3)
        return 0;
    const uint32_t code = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];
    return code == 0xe19a80 || (code >= 0xe28080 && code <= 0xe2808a) || code == 0xe280a8 ||
                   code == 0xe280a9 || code == 0xe280af || code == 0xe2819f || code == 0xe38080
               ? 3
               : 0;
}

size_t text_back(const char *text, size_t at)
{
    do
        at--;
    while (((unsigned char)text[at] & 0xc0) == 0x80);
    return at;
}

/* Is there a character of a word at text, of `bytes`? */
static sw_status is_word(const tokenizer *t, const char *text, size_t bytes, bool *is)
{
    size_t begin = 0, end = 1;
    while (end < bytes && ((unsigned char)text[end] & 0xc0) == 0x80)
        end++;
    if (bytes > 0)
        SW_TRY(splitter_next(t->word, text, end, 0, &begin, &end));
    *is = bytes > 0 && begin < end;
    return SW_OK;
}

/* The longest added token that text begins with: in order of their bytes, those that go on as
 * the text does are a range, which each byte makes smaller. */
static const added_token *longest(const added_tokens *of, const char *text, size_t bytes)
{
    const added_token *found = NULL;
    uint32_t from = 0, to = of->n;
    for (size_t depth = 0; depth < bytes && from < to; depth++) {
        const unsigned char c = (unsigned char)text[depth];
        uint32_t ends[2];
        for (int above = 0; above < 2; above++) {
            uint32_t low = from, high = to;
            while (low < high) {
                const uint32_t mid = low + (high - low) / 2;
                const int is =
                    of->at[mid].n > depth ? (unsigned char)of->at[mid].text[depth] : -1;
                if (is < c + above)
                    low = mid + 1;
                else
                    high = mid;
            }
            ends[above] = low;
        }
        from = ends[0];
        to = ends[1];
        if (from < to && of->at[from].n == depth + 1)
            found = &of->at[from];
    }
    return found;
}

/* The next added token of [text + from, text + bytes), with its blanks; *found NULL: none.
 * `at` is where the text goes on that is in no token yet, *next where the one after may begin.
 */
static sw_status next_added(const tokenizer *t, const added_tokens *of, const char *text,
                            size_t bytes, size_t from, size_t at, const added_token **found,
                            size_t *begin, size_t *end, size_t *next)
{
    *found = NULL;
    *begin = *end = *next = bytes;
    for (; of->n > 0 && from < bytes; from++) {
        const added_token *a = longest(of, text + from, bytes - from);
        if (a == NULL)
            continue;
        size_t b = from, n = from + a->n;
        if (a->single_word) {
            bool left = false, right;
            if (b > 0)
                SW_TRY(is_word(t, text + text_back(text, b), b - text_back(text, b), &left));
            SW_TRY(is_word(t, text + n, bytes - n, &right));
            if (left || right) {
                from = n - 1;
                continue;
            }
        }
        *next = n;
        if (a->lstrip)
            while (b > at && text_blank(text + text_back(text, b), b - text_back(text, b)) > 0)
                b = text_back(text, b);
        if (a->rstrip)
            for (size_t k; (k = text_blank(text + n, bytes - n)) > 0;)
                n += k;
        *found = a;
        *begin = b > at ? b : at; /* rstrip may have taken it, or a part */
        *end = n > at ? n : at;
        return SW_OK;
    }
    return SW_OK;
}

/* A text that is normalized: added tokens, and what lies between. */
static sw_status put_normal(encoding *e, const char *text, size_t bytes)
{
    for (size_t at = 0, from = 0; at < bytes;) {
        const added_token *found;
        size_t begin, end;
        SW_TRY(next_added(e->t, &e->t->normal, text, bytes, from, at, &found, &begin, &end,
                          &from));
        if (begin > at)
            SW_TRY(put_pieces(e, 0, text + at, begin - at));
        if (found != NULL)
            SW_TRY(emit(e, found->id, end - begin));
        at = end;
    }
    return SW_OK;
}

/* Bounds in [text + from, text + to) get their place, e->done and what the text before them
 * has when it is normalized. */
static sw_status place_bounds(encoding *e, const char *text, size_t from, size_t to,
                              bool normal)
{
    size_t place = e->done;
    for (; e->n_placed < e->n_bounds && e->bound[e->n_placed] < to; e->n_placed++) {
        const size_t bound = e->bound[e->n_placed];
        const char *same;
        size_t n = bound > from ? bound - from : 0;
        if (normal)
            SW_TRY(tokenizer_normalize(e->t, text + from, n, &same, &n));
        place += n;
        from = bound > from ? bound : from;
        e->place[e->n_placed] = place;
    }
    return SW_OK;
}

static sw_status put_text(encoding *e, const char *text, size_t bytes)
{
    tokenizer *t = e->t;
    for (size_t at = 0, from = 0; at < bytes;) {
        const added_token *found;
        size_t begin, end, n;
        const char *normal;
        SW_TRY(next_added(t, &t->raw, text, bytes, from, at, &found, &begin, &end, &from));
        if (begin > at) {
            SW_TRY(place_bounds(e, text, at, begin, true));
            SW_TRY(tokenizer_normalize(t, text + at, begin - at, &normal, &n));
            SW_TRY(put_normal(e, normal, n));
        }
        if (found != NULL) {
            SW_TRY(place_bounds(e, text, begin, end, false));
            SW_TRY(emit(e, found->id, end - begin));
        }
        at = end;
    }
    return SW_OK;
}

static sw_status encode(encoding *e, const char *text, size_t bytes, bool special)
{
    const tokenizer *t = e->t;
    for (size_t i = 0, n; i < bytes; i += n) {
        n = (unsigned char)text[i] < 0x80 ? 1 : sw_utf8_sequence(text + i);
        if (n == 0)
            SW_FAIL(SW_FORMAT, "a text must be UTF-8; byte %zu (0x%02x) is not", i,
                    (unsigned char)text[i]);
    }
    for (uint32_t i = 0; special && i < t->n_before; i++)
        SW_TRY(emit(e, t->before[i], 0));
    SW_TRY(put_text(e, text, bytes));
    while (e->n_found < e->n_bounds)
        e->tokens[e->n_found++] = e->ids->n;
    for (uint32_t i = 0; special && i < t->n_after; i++)
        SW_TRY(emit(e, t->after[i], 0));
    return SW_OK;
}

sw_status tokenizer_encode(tokenizer *t, token_ids *ids, const char *text, size_t bytes,
                           bool special, const size_t *bounds, uint32_t *tokens,
                           uint32_t n_bounds)
{
    encoding e = {.t = t, .ids = ids, .bound = bounds, .tokens = tokens, .n_bounds = n_bounds};
    const uint32_t n = ids->n;
    if (bytes >= TEXT_MAX)
        SW_FAIL(SW_INVALID, "a text must have less than 1 GiB (got %zu bytes)", bytes);
    SW_TRY(sw_heap_alloc(&e.place, SW_HEAP_RECORDS, n_bounds * sizeof *e.place));
    const sw_status status = encode(&e, text, bytes, special);
    sw_heap_free(e.place, SW_HEAP_RECORDS, n_bounds * sizeof *e.place);
    if (status != SW_OK)
        ids->n = n;
    return status;
}

/* ---- the text of ids --------------------------------------------------------------------- */

/* Room for the characters that `bytes` may become, and a zero. */
static sw_status make_room(token_text *out, size_t bytes)
{
    if (bytes > TEXT_MAX)
        SW_FAIL(SW_NOMEM, "a text of %zu bytes is too long", bytes);
    return sw_heap_reserve(&out->at, SW_HEAP_FILES, &out->cap,
                           out->n + 3 * ((uint32_t)bytes + out->n_held) + 1);
}

static void put_broken(token_text *out)
{
    memcpy(out->at + out->n, "\xef\xbf\xbd", 4);
    out->n += 3;
    out->n_held = 0;
}

/* Bytes of the character that begins with c; 0: none does. */
static uint32_t length(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
}

/* Can a character that begins as `held` go on with c? */
static bool goes_on(const token_text *out, unsigned char c)
{
    const unsigned char first = (unsigned char)out->held[0];
    if (out->n_held > 1)
        return (c & 0xc0) == 0x80;
    return c >= (first == 0xe0   ? 0xa0
                 : first == 0xf0 ? 0x90
                                 : 0x80) &&
           c <= (first == 0xed   ? 0x9f
                 : first == 0xf4 ? 0x8f
                                 : 0xbf);
}

static void put_byte(token_text *out, char byte)
{
    const unsigned char c = (unsigned char)byte;
    if (out->n_held > 0 && !goes_on(out, c))
        put_broken(out);
    if (out->n_held == 0 && length(c) == 0) {
        put_broken(out);
        return;
    }
    out->held[out->n_held++] = byte;
    if (out->n_held < length((unsigned char)out->held[0]))
        return;
    memcpy(out->at + out->n, out->held, out->n_held);
    out->n += out->n_held;
    out->n_held = 0;
}

sw_status tokenizer_decode(const tokenizer *t, token_text *out, const int32_t *ids, size_t n,
                           bool special)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t more;
        if (tokenizer_token(t, ids[i], &more) == NULL)
            SW_FAIL(SW_INVALID, "there is no token %d: ids are below %u", ids[i], t->n_tokens);
        bytes += more;
    }
    SW_TRY(make_room(out, bytes));
    for (size_t i = 0; i < n; i++) {
        const token *is = &t->tokens[ids[i]];
        for (uint32_t k = 0; k < is->n && (special || !is->special); k++)
            put_byte(out, is->text[k]);
    }
    out->at[out->n] = '\0';
    return SW_OK;
}

sw_status tokenizer_decode_end(token_text *out)
{
    SW_TRY(make_room(out, 0));
    if (out->n_held > 0)
        put_broken(out);
    out->at[out->n] = '\0';
    return SW_OK;
}
