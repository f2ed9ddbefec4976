/* PCRE2's memory comes from our heap, so it is counted and can be made to fail. Its compiler of
 * machine code is not used: that takes pages that nothing counts. */
#include "tools/text/split.h"

#if SW_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include "alloc/base/mem.h"
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

struct splitter {
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *found;
};

/* PCRE2 frees without saying how much: the size stands before each block. */
enum { HEAD = 16, STEPS_MAX = 50000000, HEAP_KIB = 65536 };

static void *take(size_t bytes, void *context)
{
    unsigned char *block;
    (void)context;
    if (bytes > SIZE_MAX - HEAD ||
        sw_heap_alloc(&block, SW_HEAP_RECORDS, bytes + HEAD) != SW_OK)
        return NULL;
    bytes += HEAD;
    memcpy(block, &bytes, sizeof bytes);
    return block + HEAD;
}

static void give(void *at, void *context)
{
    size_t bytes;
    (void)context;
    if (at == NULL)
        return;
    unsigned char *block = (unsigned char *)at - HEAD;
    memcpy(&bytes, block, sizeof bytes);
    sw_heap_free(block, SW_HEAP_RECORDS, bytes);
}

/* A blank of Oniguruma, which tokenizers has, is White_Space; that of PCRE2 has U+180E too. */
static size_t put_blanks(char *to, const char *pattern, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const bool escape = pattern[i] == '\\' && i + 1 < bytes;
        if (escape && (pattern[i + 1] | 32) == 's') {
            n +=
                (size_t)sprintf(to + n, "\\%c{White_Space}", pattern[i + 1] == 's' ? 'p' : 'P');
            i++;
            continue;
        }
        to[n++] = pattern[i];
        if (escape)
            to[n++] = pattern[++i];
    }
    return n;
}

static sw_status compile(splitter *s, const char *pattern, size_t bytes, const char *path)
{
    char *whole;
    int error;
    PCRE2_SIZE at;
    PCRE2_UCHAR says[120];
    s->memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context =
        s->memory != NULL ? pcre2_compile_context_create(s->memory) : NULL;
    if (context == NULL)
        SW_FAIL(SW_NOMEM, "%s: no memory for its pattern", path);
    const size_t room = 8 * bytes + 1; /* "\s" becomes 15 bytes */
    sw_status status = sw_heap_alloc(&whole, SW_HEAP_RECORDS, room);
    if (status == SW_OK) {
        s->code = pcre2_compile((PCRE2_SPTR)whole, put_blanks(whole, pattern, bytes),
                                PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                                context);
        sw_heap_free(whole, SW_HEAP_RECORDS, room);
    }
    pcre2_compile_context_free(context);
    SW_TRY(status);
    if (s->code == NULL && error == PCRE2_ERROR_HEAP_FAILED)
        SW_FAIL(SW_NOMEM, "%s: no memory for its pattern", path);
    if (s->code == NULL) {
        pcre2_get_error_message(error, says, sizeof says);
        SW_FAIL(SW_FORMAT, "%s: PCRE2 refuses the pattern of its pre_tokenizer: %s", path,
                (const char *)says);
    }
    s->limits = pcre2_match_context_create(s->memory);
    s->found = pcre2_match_data_create_from_pattern(s->code, s->memory);
    if (s->limits == NULL || s->found == NULL)
        SW_FAIL(SW_NOMEM, "%s: no memory for its pattern", path);
    pcre2_set_match_limit(s->limits, STEPS_MAX);
    pcre2_set_heap_limit(s->limits, HEAP_KIB);
    return SW_OK;
}

sw_status splitter_new(splitter **out, const char *pattern, size_t bytes, const char *path)
{
    splitter *s;
    SW_TRY(sw_heap_alloc(&s, SW_HEAP_RECORDS, sizeof *s));
    const sw_status status = compile(s, pattern, bytes, path);
    return SW_GIVE(status, out, s, splitter_free);
}

void splitter_free(splitter *s)
{
    if (s == NULL)
        return;
    pcre2_match_data_free(s->found);
    pcre2_match_context_free(s->limits);
    pcre2_code_free(s->code);
    pcre2_general_context_free(s->memory);
    sw_heap_free(s, SW_HEAP_RECORDS, sizeof *s);
}

sw_status splitter_next(const splitter *s, const char *text, size_t bytes, size_t from,
                        size_t *begin, size_t *end)
{
    const int n = pcre2_match(s->code, (PCRE2_SPTR)text, bytes, from, PCRE2_NO_UTF_CHECK,
                              s->found, s->limits);
    *begin = *end = bytes;
    if (n == PCRE2_ERROR_NOMATCH)
        return SW_OK;
    if (n == PCRE2_ERROR_NOMEMORY)
        SW_FAIL(SW_NOMEM, "no memory to split a text of %zu bytes", bytes);
    if (n < 0) {
        PCRE2_UCHAR says[120];
        pcre2_get_error_message(n, says, sizeof says);
        SW_FAIL(SW_UNSUPPORTED, "the tokenizer's pattern cannot split this text: %s",
                (const char *)says);
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->found);
    *begin = at[0];
    *end = at[1] > at[0] ? at[1] : at[0]; /* \K may put the end before the begin */
    return SW_OK;
}

#else

sw_status splitter_new(splitter **out, const char *pattern, size_t bytes, const char *path)
{
    (void)out, (void)pattern, (void)bytes;
    SW_FAIL(SW_UNSUPPORTED,
            "%s: this build splits no text into words (pcre2 is off): build with "
            "-Dpcre2=enabled, or give ids that were made elsewhere (ids:FILE.jsonl)",
            path);
}

void splitter_free(splitter *s)
{
    (void)s;
}

sw_status splitter_next(const splitter *s, const char *text, size_t bytes, size_t from,
                        size_t *begin, size_t *end)
{
    (void)s, (void)text, (void)from;
    *begin = *end = bytes;
    return SW_OK;
}

#endif
