/* tokenizer.json: ids of texts, texts of ids, and what is refused. */
#include "alloc/base/gzip.h"
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/text/small_tokenizer.h"
#include "profiler/record/utf8.h"

SW_TESTS("tokenizer")

#define BYTES_ALONE                                                                            \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(pattern, behavior, invert)                                                       \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern                                \
    "\"}, \"behavior\": \"" behavior "\", \"invert\": " invert "}"
#define SEQUENCE(list, parts) "{\"type\": \"Sequence\", \"" list "\": [" parts "]}"
#define PRE(parts) SEQUENCE("pretokenizers", parts)

/* ---- ids ----------------------------------------------------------------------------------
 */

static const struct {
    small_parts parts;
    const char *text, *ids;
} words[] = {
    {{0}, "hello world", "259 264"},
    {{.old_merges = true}, "hello world", "259 264"},
    {{0}, "", ""},
    {{0}, "hell", "258"},
    {{0}, "abc", "267 99"}, /* the lower rank first */
    {{0}, "xbc", "120 268"},
    {{0}, "hello's  x", "259 39 115 32 32 120"},
    {{0}, "h\xc3\xa9", "104 195 169"},
    {{0}, "12123", "265 265 51"},
    {{0}, "a\n\n\nb", "97 266 10 98"},
    {{0}, "a<x>b", "97 300 98"},
    {{0}, "<x><x", "300 60 120"},
    /* Digits one by one, or by runs; a pattern; a blank before each piece. */
    {{.pre_tokenizer =
          PRE("{\"type\": \"Digits\", \"individual_digits\": true}, " BYTES_ALONE)},
     "a12",
     "97 49 50"},
    {{.pre_tokenizer =
          PRE("{\"type\": \"Digits\", \"individual_digits\": false}, " BYTES_ALONE)},
     "a12b",
     "97 265 98"},
    {{.pre_tokenizer = PRE(SPLIT("1", "Isolated", "false") ", " BYTES_ALONE)}, "12", "49 50"},
    {{.pre_tokenizer = PRE(SPLIT(LLAMA3_PATTERN, "Isolated", "false") ", " BYTES_ALONE)},
     "hello world'S 1212\n",
     "259 264 39 83 32 265 49 50 10"},
    {{.pre_tokenizer = PRE(SPLIT("x*", "Isolated", "false") ", " BYTES_ALONE)}, "ab", "97 98"},
    {{.pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}"},
     "world<x>world world",
     "264 300 264 264"},
    {{.pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"use_regex\": "
                       "false}"},
     "world world",
     "264 264"},
    /* A whole word that is a token, which no merge makes. */
    {{.model = ", \"ignore_merges\": true", .pre_tokenizer = BYTES_ALONE}, "hello", "259"},
};

SW_TEST("each byte has a character of its own")
{
    static const int known[][2] = {{0, 256},   {' ', 288}, {'!', '!'}, {126, 126},
                                   {127, 289}, {160, 322}, {161, 161}, {172, 172},
                                   {173, 323}, {174, 174}, {255, 255}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CU_ASSERT_EQUAL(byte_character(known[i][0]), known[i][1]);
    int bytes = 0;
    for (int code = -1; code < 1000; code++) {
        const int byte = character_byte(code);
        bytes += byte >= 0;
        CU_ASSERT(byte < 0 || byte_character(byte) == code);
    }
    CU_ASSERT_EQUAL(bytes, 256);
}

SW_TEST("words become ids by their merges")
{
    NEEDS_PCRE2();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *ids = ids_text(small_tokenizer(&words[i].parts), words[i].text, true);
        SW_CHECK(strcmp(ids, words[i].ids) == 0, "%zu: '%s' is %s and not %s", i, words[i].text,
                 ids, words[i].ids);
    }
}

/* A word that is in the vocabulary without a merge that leads to it. */
SW_TEST("ignore_merges takes a word that is a token")
{
    NEEDS_PCRE2();
    static const char part[] = "\"hello\": 259", other[] = "\"hello\": 259, \"lo\": 280";
    for (int whole = 0; whole < 2; whole++) {
        const small_parts parts = {.model = whole ? ", \"ignore_merges\": true" : ""};
        char *text = small_text(&parts), *at = strstr(text, part);
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        text = sw_textf("%.*s%s%s", (int)(at - text), text, other, at + strlen(part));
        tokenizer *t;
        OK(tokenizer_parse(&t, text, strlen(text), "t"));
        AFTER(tokenizer_free, t);
        CU_ASSERT_STRING_EQUAL(ids_text(t, "lo", false), whole ? "280" : "108 111");
    }
}

/* Flags of added tokens, as tokenizers has them. */
SW_TEST("added tokens are found in the text")
{
    NEEDS_PCRE2();
#define ADDED(id, content, flags) ", {\"id\": " #id ", \"content\": \"" content "\"" flags "}"
    const small_parts parts = {
        .normalizer = SW_HAVE_UTF8PROC ? "{\"type\": \"NFC\"}" : NULL,
        .added = ADDED(301, "<x>>", ", \"normalized\": false")
            ADDED(302, "<l>", ", \"normalized\": false, \"lstrip\": true")
                ADDED(303, "<r>", ", \"normalized\": false, \"rstrip\": true")
                    ADDED(304, "ing", ", \"normalized\": false, \"single_word\": true")
                        ADDED(305, "e\\u0301", ", \"normalized\": true")
                            ADDED(306, "<b>",
                                  ", \"normalized\": true, \"lstrip\": true, "
                                  "\"rstrip\": true") ADDED(104, "h", "")};
    tokenizer *t = small_tokenizer(&parts);
    static const char *const found[][2] = {
        {"<x>>", "301"}, /* the longest */
        {"<x> >", "300 32 62"},
        {"a \n<l>  b", "97 302 32 32 98"},
        {"a <r> \t\xc2\xa0"
         "b",
         "97 32 303 98"},
        {"<r>  <l>", "303 302"}, /* the blanks are the first one's */
        {"ing", "304"},
        {"sing ing. ing", "115 105 110 103 32 304 46 32 304"},
        {"ing_", "105 110 103 95"},
        {"ing\xc3\xa9", SW_HAVE_UTF8PROC ? "105 110 103 305" : "105 110 103 195 169"},
        {" <b> ", "306"},
        {"ha", "104 97"},
    };
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        SW_CHECK(strcmp(ids_text(t, found[i][0], false), found[i][1]) == 0, "'%s': %s",
                 found[i][0], ids_text(t, found[i][0], false));
    if (SW_HAVE_UTF8PROC) { /* composed or not, before and after */
        CU_ASSERT_STRING_EQUAL(ids_text(t, "\xc3\xa9", false), "305");
        CU_ASSERT_STRING_EQUAL(ids_text(t, "xe\xcc\x81", false), "120 305");
    }
    CU_ASSERT_EQUAL(tokenizer_added(t, "<l>", 3), 302);
    CU_ASSERT_EQUAL(tokenizer_added(t, "<l", 2), -1);
    CU_ASSERT_EQUAL(tokenizer_size(t), 307);
}

SW_TEST("a post-processor puts its tokens around a text")
{
    NEEDS_PCRE2();
#define ITEM(id) "{\"SpecialToken\": {\"id\": \"" id "\", \"type_id\": 0}}"
#define A "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TEMPLATE(single)                                                                       \
    "{\"type\": \"TemplateProcessing\", \"single\": [" single                                  \
    "], \"pair\": [], \"special_tokens\": {\"<x>\": {\"id\": \"<x>\", \"ids\": [300], "        \
    "\"tokens\": [\"<x>\"]}, \"two\": {\"id\": \"two\", \"ids\": [97, 98], \"tokens\": []}}}"
    static const struct {
        const char *post, *ids;
    } cases[] = {
        {TEMPLATE(A), "99"},
        {TEMPLATE(ITEM("<x>") ", " A), "300 99"},
        {TEMPLATE(ITEM("two") ", " ITEM("<x>") ", " A ", " ITEM("<x>")), "97 98 300 99 300"},
        {SEQUENCE("processors",
                  "{\"type\": \"ByteLevel\"}, " TEMPLATE(ITEM("<x>") ", " A) ", " TEMPLATE(
                      ITEM("two") ", " A ", " ITEM("two"))),
         "97 98 300 99 97 98"},
        {"null", "99"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tokenizer *t = small_tokenizer(&(small_parts){.post_processor = cases[i].post});
        CU_ASSERT_STRING_EQUAL(ids_text(t, "c", true), cases[i].ids);
        CU_ASSERT_STRING_EQUAL(ids_text(t, "c", false), "99");
    }
}

/* Where spans of the text lie in the ids: also where the normal form is shorter, and where one
 * token has an end and what comes after it. */
SW_TEST("spans of a text are spans of its ids")
{
    NEEDS_PCRE2();
    static const struct {
        const char *text;
        size_t bounds[4];
        uint32_t tokens[4], n;
    } cases[] = {
        {"hello world", {0, 5}, {0, 1}, 2},
        {"hello world", {2, 3}, {0, 1}, 2}, /* inside of a token: it */
        {"hello world", {5, 11}, {1, 2}, 2},
        {"hello world", {4, 6}, {0, 2}, 2},
        {"a<x>b<x>", {1, 4, 5, 8}, {1, 2, 3, 4}, 4},
        {"abc", {3, 3}, {2, 2}, 2},
        {"e\xcc\x81xa", {3, 4, 4, 5}, {2, 3, 3, 4}, 4},
    };
    const small_parts parts = {.normalizer = SW_HAVE_UTF8PROC ? "{\"type\": \"NFC\"}" : NULL};
    tokenizer *t = small_tokenizer(&parts);
    for (size_t i = 0; i < sizeof cases / sizeof *cases - !SW_HAVE_UTF8PROC; i++) {
        token_ids ids = {NULL, 0, 0};
        uint32_t tokens[4];
        OK(tokenizer_encode(t, &ids, cases[i].text, strlen(cases[i].text), false,
                            cases[i].bounds, tokens, cases[i].n));
        for (uint32_t k = 0; k < cases[i].n; k++)
            SW_CHECK(tokens[k] == cases[i].tokens[k], "%zu: bound %u is token %u", i, k,
                     tokens[k]);
        token_ids_free(&ids);
    }
}

/* ---- texts --------------------------------------------------------------------------------
 */

static size_t put_code(char *to, uint32_t c)
{
    const size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 63));
    to[0] = (char)(first[n] | c);
    return n;
}

/* Also id by id: what is there at any time is a part of the text, in whole characters. */
SW_TEST("the text of a text's ids is that text")
{
    NEEDS_PCRE2();
    tokenizer *t = small_tokenizer(&(small_parts){0});
    sw_dice dice = {7};
    for (int i = 0; i < (sw_tests_full() ? 20000 : 2000); i++) {
        char text[400];
        size_t n = 0;
        for (uint64_t k = sw_dice_below(&dice, 60); k > 0; k--) {
            static const uint32_t ends[] = {0x80, 0x300, 0x3000, 0x10000, 0x110000};
            const uint32_t c = (uint32_t)sw_dice_below(&dice, ends[sw_dice_below(&dice, 5)]);
            const char *piece = ((const char *const[]){"hello", " world", "<x>",
                                                       "12"})[sw_dice_below(&dice, 4)];
            if (sw_dice_below(&dice, 4) == 0)
                n += (size_t)sprintf(text + n, "%s", piece);
            else if (c < 0xd800 || c >= 0xe000)
                n += put_code(text + n, c);
        }
        text[n] = '\0';
        token_ids ids = {NULL, 0, 0};
        token_text whole = {.at = NULL}, steps = {.at = NULL};
        OK(tokenizer_encode(t, &ids, text, n, false, NULL, NULL, 0));
        OK(tokenizer_decode(t, &whole, ids.at, ids.n, true));
        OK(tokenizer_decode_end(&whole));
        CU_ASSERT(whole.n == n && memcmp(whole.at, text, n + 1) == 0);
        for (uint32_t k = 0; k < ids.n; k++) {
            OK(tokenizer_decode(t, &steps, &ids.at[k], 1, true));
            CU_ASSERT(steps.n <= n && memcmp(steps.at, text, steps.n) == 0);
            CU_ASSERT(((unsigned char)text[steps.n] & 0xc0) != 0x80);
        }
        CU_ASSERT(steps.n == n && steps.n_held == 0);
        token_ids_free(&ids);
        token_text_free(&whole);
        token_text_free(&steps);
    }
}

/* As Rust's from_utf8_lossy, by ids of bytes. */
SW_TEST("bytes that are no UTF-8 become U+FFFD")
{
    NEEDS_PCRE2();
#define R "\xef\xbf\xbd"
    static const char *const cases[][2] = {
        {"a\x80z", "a" R "z"},
        {"\xc3", R},
        {"\xc3(", R "("},
        {"\xe2\x82z", R "z"},
        {"\xe0\x80", R R},
        {"\xed\xa0\x80", R R R},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xf0\x9f\x98", R},
        {"\xf0\x9f\xc3\xa9", R "\xc3\xa9"},
        {"\xf4\x90\x80\x80", R R R R},
        {"\xc0\xaf\xff", R R R},
    };
    tokenizer *t = small_tokenizer(&(small_parts){0});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        token_text text = {.at = NULL};
        for (const char *c = cases[i][0]; *c != '\0'; c++)
            OK(tokenizer_decode(t, &text, &(int32_t){(unsigned char)*c}, 1, true));
        OK(tokenizer_decode_end(&text));
        SW_CHECK(strcmp(text.at, cases[i][1]) == 0, "%zu: '%s'", i, text.at);
        token_text_free(&text);
    }
    token_text text = {.at = NULL};
    const int32_t ids[] = {HELLO, X, 33};
    OK(tokenizer_decode(t, &text, ids, 3, false));
    CU_ASSERT_STRING_EQUAL(text.at, "hello!");
    OK(tokenizer_decode(t, &text, ids, 3, true));
    CU_ASSERT_STRING_EQUAL(text.at, "hello!hello<x>!");
    REFUSED(tokenizer_decode(t, &text, &(int32_t){270}, 1, true), SW_INVALID, "no token 270");
    REFUSED(tokenizer_decode(t, &text, &(int32_t){-1}, 1, true), SW_INVALID, "no token -1");
    CU_ASSERT_STRING_EQUAL(text.at, "hello!hello<x>!");
    token_text_free(&text);
}

SW_TEST("a text that is no UTF-8 is refused, and the ids stay")
{
    NEEDS_PCRE2();
    tokenizer *t = small_tokenizer(&(small_parts){0});
    static const char *const bad[] = {"hello\xff", "\xc3", "x\xed\xa0\x80", "\xc0\x80", "\x80"};
    token_ids ids = {NULL, 0, 0};
    OK(tokenizer_encode(t, &ids, "hello", 5, false, NULL, NULL, 0));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(tokenizer_encode(t, &ids, bad[i], strlen(bad[i]), false, NULL, NULL, 0),
                SW_FORMAT, "must be UTF-8; byte");
    CU_ASSERT(ids.n == 1 && ids.at[0] == HELLO);
    token_ids_free(&ids);
}

/* In its time, which n * n steps would pass by far, and in the memory that the header says. */
SW_TEST("a word of a million bytes takes 40 bytes for each")
{
    NEEDS_PCRE2();
    enum { N = 1 << 20 };
    tokenizer *t = small_tokenizer(&(small_parts){.pre_tokenizer = BYTES_ALONE});
    char *text = sw_block(N + 1);
    sw_heap_stats before, after;
    sw_heap_read(SW_HEAP_RECORDS, &before);
    for (int kind = 0; kind < 2; kind++) {
        token_ids ids = {NULL, 0, 0};
        for (int i = 0; i < N; i++)
            text[i] = kind == 0 ? 'l' : "hello"[i % 5];
        OK(tokenizer_encode(t, &ids, text, N, false, NULL, NULL, 0));
        CU_ASSERT_EQUAL(ids.n, kind == 0 ? N / 2 : N / 5 + 1);
        token_ids_free(&ids);
    }
    sw_heap_read(SW_HEAP_RECORDS, &after);
    CU_ASSERT(after.bytes - before.bytes <= 40u * N);
}

/* ---- what is refused ----------------------------------------------------------------------
 */

/* `from` is a piece of the small tokenizer. */
static const struct {
    const char *from, *to, *says;
    sw_status status;
} bad[] = {
    {"\"BPE\"", "\"Unigram\"", "model 'Unigram' is not built; ids that were made elsewhere",
     SW_UNSUPPORTED},
    {"\"BPE\"", "\"WordPiece\"", "model 'WordPiece'", SW_UNSUPPORTED},
    {"\"dropout\": null", "\"dropout\": 0.1", "model with 'dropout'", SW_UNSUPPORTED},
    {"\"dropout\": null", "\"byte_fallback\": true", "model with 'byte_fallback'",
     SW_UNSUPPORTED},
    {"\"dropout\": null", "\"end_of_word_suffix\": \"</w>\"", "with 'end_of_word_suffix'",
     SW_UNSUPPORTED},
    {"\"dropout\": null", "\"continuing_subword_prefix\": \"##\"",
     "with 'continuing_subword_prefix'", SW_UNSUPPORTED},
    {"\"normalizer\": null", "\"normalizer\": {\"type\": \"Lowercase\"}",
     "normalizer 'Lowercase' is not built", SW_UNSUPPORTED},
    {"\"normalizer\": null",
     "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}]}",
     "normalizer 'NFKC'", SW_UNSUPPORTED},
    {"\"normalizer\": null", "\"normalizer\": 7", "'{' was expected", SW_FORMAT},
    {"\"pre_tokenizer\": {\"type\": \"ByteLevel\"",
     "\"pre_tokenizer\": {\"type\": \"Metaspace\"", "pre_tokenizer 'Metaspace'",
     SW_UNSUPPORTED},
    {"\"pre_tokenizer\": {\"type\": \"ByteLevel\"",
     "\"pre_tokenizer\": null, \"x\": {\"type\": 1", "a pre_tokenizer without 'ByteLevel'",
     SW_UNSUPPORTED},
    {"\"pre_tokenizer\": ",
     "\"pre_tokenizer\": " PRE("{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}") ", \"x\": ",
     "pre_tokenizer ByteLevel before 'Digits'", SW_UNSUPPORTED},
    {"\"pre_tokenizer\": ", "\"pre_tokenizer\": " SPLIT("a", "Removed", "false") ", \"x\": ",
     "Split with the behavior 'Removed'", SW_UNSUPPORTED},
    {"\"pre_tokenizer\": ", "\"pre_tokenizer\": " SPLIT("a", "Isolated", "true") ", \"x\": ",
     "Split with 'invert'", SW_UNSUPPORTED},
    {"\"pre_tokenizer\": ",
     "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": "
     "\"Isolated\", \"invert\": false}, \"x\": ",
     "a pattern that is no 'Regex'", SW_UNSUPPORTED},
    {"\"pre_tokenizer\": ", "\"pre_tokenizer\": " SPLIT("(", "Isolated", "false") ", \"x\": ",
     "PCRE2 refuses the pattern", SW_FORMAT},
    {"\"post_processor\": {\"type\": \"ByteLevel\"",
     "\"post_processor\": {\"type\": \"RobertaProcessing\"",
     "post_processor 'RobertaProcessing'", SW_UNSUPPORTED},
    {"\"post_processor\": ", "\"post_processor\": " TEMPLATE(ITEM("<y>") ", " A) ", \"x\": ",
     "'<y>' is not in its special_tokens", SW_FORMAT},
    {"\"post_processor\": ", "\"post_processor\": " TEMPLATE(ITEM("<x>")) ", \"x\": ",
     "without the sequence 'A'", SW_UNSUPPORTED},
    {"\"post_processor\": ",
     "\"post_processor\": " TEMPLATE("{\"Sequence\": {\"id\": \"B\"}}") ", \"x\": ",
     "with the sequence 'B'", SW_UNSUPPORTED},
    {"\"decoder\": {\"type\": \"ByteLevel\"", "\"decoder\": {\"type\": \"Fuse\"",
     "decoder 'Fuse'", SW_UNSUPPORTED},
    {"\"decoder\": ", "\"decoder\": null, \"x\": ", "a decoder that is not 'ByteLevel'",
     SW_UNSUPPORTED},
    {"\"id\": 300", "\"id\": 97", "the id 97 of another token", SW_FORMAT},
    {"\"id\": 300", "\"id\": 9999999", "ids must be below", SW_FORMAT},
    {"\"id\": 300", "\"id\": 300.5", "a whole number", SW_FORMAT},
    {"\"id\": 300, ", "", "must have 'id' and 'content'", SW_FORMAT},
    {"\"special\": true}",
     "\"special\": true}, {\"id\": 301, \"content\": \"<x>\", "
     "\"normalized\": false}",
     "two added tokens are one text", SW_FORMAT},
    {"\"special\": true", "\"special\": 1", "a value was expected", SW_FORMAT},
    {"\"a\": 97", "\"a\": 98", "two tokens have the id 98", SW_FORMAT},
    {"\"a\": 97", "\"a\": -1", "a number of 0 or more", SW_FORMAT},
    {"\"a\": 97", "\"b\": 97", "a token that is there twice", SW_FORMAT},
    {"\"h\", \"e\"", "\"h\", \"\\u4f60\"", "tokens that are not in the vocabulary", SW_FORMAT},
    {"\"h\", \"e\"", "\"h\", \"x\"", "tokens that are not in the vocabulary", SW_FORMAT},
    {"\"h\", \"e\"", "\"h\", \"\"", "a merge with an empty token", SW_FORMAT},
    {"[\"h\", \"e\"]", "\"he\"", "two tokens with a blank between", SW_FORMAT},
    {"[\"h\", \"e\"]", "7", "'\"' was expected", SW_FORMAT},
    {"\"vocab\"", "\"vocabulary\"", "must have 'vocab' and 'merges'", SW_FORMAT},
    {"\"model\"", "\"modell\"", "'model' is missing", SW_FORMAT},
    {"\"truncation\": null", "\"model\": 1", "a key that is there twice", SW_FORMAT},
};

SW_TEST("what is not built, or no tokenizer, is refused by name")
{
    NEEDS_PCRE2();
    const char *text = small_text(&(small_parts){0});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *at = strstr(text, bad[i].from);
        tokenizer *t = NULL;
        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        const char *changed =
            sw_textf("%.*s%s%s", (int)(at - text), text, bad[i].to, at + strlen(bad[i].from));
        REFUSED(tokenizer_parse(&t, changed, strlen(changed), "x/tokenizer.json"),
                bad[i].status, bad[i].says);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "x/tokenizer.json"));
        CU_ASSERT_PTR_NULL(t);
    }
    tokenizer *t;
    REFUSED(tokenizer_read(&t, sw_temp_path("none.json")), SW_IO, "none.json");
}

SW_TEST("a build without PCRE2 or utf8proc names the option")
{
    tokenizer *t;
    const char *text = small_text(&(small_parts){.normalizer = "{\"type\": \"NFC\"}"});
    const sw_status status = tokenizer_parse(&t, text, strlen(text), "t");
    if (SW_HAVE_PCRE2 && SW_HAVE_UTF8PROC) {
        CU_ASSERT_EQUAL(status, SW_OK);
        tokenizer_free(t);
        return;
    }
    REFUSED(status, SW_UNSUPPORTED,
            SW_HAVE_UTF8PROC ? "-Dpcre2=enabled" : "-Dutf8proc=enabled");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "ids:FILE.jsonl"));
}

/* ---- faults -------------------------------------------------------------------------------
 */

static sw_status all_of_it(void *arg)
{
    const char *text = arg;
    static const char sample[] = "hello e\xcc\x81 <x> world ing";
    const size_t bounds[] = {0, 5, 6, 9};
    uint32_t tokens[4];
    tokenizer *t;
    token_ids ids = {NULL, 0, 0};
    token_text out = {.at = NULL};
    SW_TRY(tokenizer_parse(&t, text, strlen(text), "t"));
    sw_status status =
        tokenizer_encode(t, &ids, sample, sizeof sample - 1, true, bounds, tokens, 4);
    if (status == SW_OK)
        status = tokenizer_decode(t, &out, ids.at, ids.n, true);
    if (status == SW_OK)
        status = tokenizer_decode_end(&out);
    token_text_free(&out);
    token_ids_free(&ids);
    tokenizer_free(t);
    return status;
}

static const small_parts rich = {
    .normalizer = SW_HAVE_UTF8PROC ? "{\"type\": \"NFC\"}" : NULL,
    .pre_tokenizer = PRE("{\"type\": \"Digits\", \"individual_digits\": true}, " SPLIT(
        LLAMA3_PATTERN, "Isolated",
        "false") ", {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                 "true, \"use_regex\": false}"),
    .post_processor = TEMPLATE(ITEM("<x>") ", " A ", " ITEM("two")),
    .added = ADDED(301, "ing", ", \"single_word\": true, \"normalized\": false")
        ADDED(302, "e\\u0301", ", \"lstrip\": true")};

SW_TEST("each allocation may fail")
{
    NEEDS_PCRE2();
    const uint64_t sites = sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, all_of_it, small_text(&rich));
    sw_note("%llu sites", (unsigned long long)sites);
    CU_ASSERT(sites > 30);
}

/* Whatever a file becomes, it is a tokenizer that works, or refused with its name. */
SW_TEST("mutations of a tokenizer do no harm")
{
    NEEDS_PCRE2();
    static const char pieces[] = "{}[]\",:-.0123456789eEnultrfas\\ ";
    const small_parts plain = {0};
    const char *const texts[] = {small_text(&rich), small_text(&plain)};
    sw_dice dice = {52};
    int read = 0;
    const int times = sw_tests_full() ? 10000 : 2000;
    for (int i = 0; i < times; i++) {
        const char *text = texts[i % 2];
        size_t n = strlen(text);
        char *block = malloc(n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        memcpy(block, text, n);
        for (uint64_t k = 1 + sw_dice_below(&dice, 3); k > 0; k--) {
            /* Half of them before the vocabulary. */
            const size_t part = sw_dice_below(&dice, 2) != 0 ? n : n / 5 + 1,
                         at = (size_t)sw_dice_below(&dice, part), room = n - at,
                         less = (size_t)sw_dice_below(&dice, room < 40 ? room : 40);
            switch (sw_dice_below(&dice, 4)) {
            case 0:
                block[at] = (char)sw_dice_next(&dice);
                break;
            case 1:
                block[at] = pieces[sw_dice_below(&dice, sizeof pieces - 1)];
                break;
            case 2:
                memmove(block + at, block + at + less, room - less);
                n -= less;
                break;
            default:
                n = i % 7 == 0 ? at + 1 : n;
                break;
            }
        }
        char *exact = malloc(n);
        CU_ASSERT_PTR_NOT_NULL_FATAL(exact);
        memcpy(exact, block, n);
        tokenizer *t;
        const sw_status status = tokenizer_parse(&t, exact, n, "mutant");
        free(exact);
        free(block);
        if (status != SW_OK) {
            SW_CHECK((status == SW_FORMAT || status == SW_UNSUPPORTED) &&
                         strstr(sw_last_error(), "mutant") != NULL,
                     "mutation %d: %s: %s", i, sw_status_name(status), sw_last_error());
            continue;
        }
        read++;
        static const char sample[] = "hello  e\xcc\x81 12<x>\n\n world ing\xf0\x9f\x98\x80";
        token_ids ids = {NULL, 0, 0};
        token_text out = {.at = NULL};
        if (tokenizer_encode(t, &ids, sample, sizeof sample - 1, true, NULL, NULL, 0) ==
            SW_OK) {
            OK(tokenizer_decode(t, &out, ids.at, ids.n, true));
            OK(tokenizer_decode_end(&out));
            CU_ASSERT(sw_utf8_whole(out.at));
        }
        token_ids_free(&ids);
        token_text_free(&out);
        tokenizer_free(t);
    }
    sw_note("%d of %d are still read", read, times);
    CU_ASSERT(read > times / 50 && read < times * 9 / 10);
}

/* ---- real ones ----------------------------------------------------------------------------
 */

static sw_status read_gz(char **out, size_t *bytes, const char *path)
{
    sw_file *file;
    sw_gzip *gzip;
    const size_t room = (size_t)16 << 20;
    *out = sw_block(room);
    SW_TRY(sw_file_open(&file, path, SW_FILE_READ));
    sw_status status = sw_gzip_open(&gzip, file);
    if (status == SW_OK) {
        status = sw_gzip_read(gzip, *out, room - 1, bytes);
        sw_gzip_close(gzip);
    }
    sw_file_drop(file);
    return status;
}

SW_TEST("the tokenizers of GPT-2 and Qwen3 have their ids")
{
    NEEDS_PCRE2();
    static const struct {
        const char *name, *text, *ids;
    } real[] = {
        {"gpt2", "Hello world, 12345 don't", "15496 995 11 17031 2231 836 470"},
        {"gpt2", "<|endoftext|> a\n\n\tb", "50256 257 628 197 65"},
        {"qwen3", "Hello world, \xe4\xbd\xa0\xe5\xa5\xbd! <|im_start|>user\n 12345",
         "9707 1879 11 220 108386 0 220 151644 872 198 220 16 17 18 19 20"},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        const char *path =
            sw_data_path(sw_textf("tokenizers/%s/tokenizer.json.gz", real[i].name));
        char *text;
        size_t bytes;
        tokenizer *t;
        if (path == NULL)
            SW_SKIP("tokenizers of published models are not there (STEPWELL_DATA)");
        if (!SW_HAVE_ZLIB)
            SW_SKIP("built without zlib");
        if (!SW_HAVE_UTF8PROC && strcmp(real[i].name, "qwen3") == 0)
            SW_SKIP("built without utf8proc");
        OK(read_gz(&text, &bytes, path));
        OK(tokenizer_parse(&t, text, bytes, path));
        AFTER(tokenizer_free, t);
        CU_ASSERT_STRING_EQUAL(ids_text(t, real[i].text, true), real[i].ids);
    }
}
