#include "tests/text/small_tokenizer.h"

/* The character that stands for a byte, as JSON. */
static void put_byte(char *to, size_t room, int byte)
{
    int n = 0;
    for (int i = 0; i <= byte; i++) {
        const bool seen = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == byte)
            snprintf(to + strlen(to), room - strlen(to),
                     seen && byte < 127 && byte != '"' && byte != '\\' ? "%c" : "\\u%04x",
                     seen ? byte : 256 + n);
        n += !seen;
    }
}

static char *json_of(const char *text)
{
    char to[200] = "";
    for (; *text != '\0'; text++)
        put_byte(to, sizeof to, (unsigned char)*text);
    return sw_textf("%s", to);
}

char *small_text(const small_parts *p)
{
    static const char *const merges[][2] = {
        {"h", "e"},   {"l", "l"},   {"he", "ll"}, {"hell", "o"},  {"o", "r"},
        {"l", "d"},   {"or", "ld"}, {" ", "w"},   {" w", "orld"}, {"1", "2"},
        {"\n", "\n"}, {"a", "b"},   {"b", "c"}};
    enum { MERGES = sizeof merges / sizeof *merges };
    static const char byte_level[] =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true}";
    char *vocabulary = sw_block(16384), *list = sw_block(4096);
    for (int i = 0; i < 256; i++) {
        snprintf(vocabulary + strlen(vocabulary), 16384 - strlen(vocabulary), "%s\"",
                 i > 0 ? ", " : "");
        put_byte(vocabulary, 16384, i);
        snprintf(vocabulary + strlen(vocabulary), 16384 - strlen(vocabulary), "\": %d", i);
    }
    for (int i = 0; i < MERGES; i++) {
        const char *a = json_of(merges[i][0]), *b = json_of(merges[i][1]);
        snprintf(vocabulary + strlen(vocabulary), 16384 - strlen(vocabulary), ", \"%s%s\": %d",
                 a, b, 256 + i);
        snprintf(list + strlen(list), 4096 - strlen(list),
                 p->old_merges ? "%s\"%s %s\"" : "%s[\"%s\", \"%s\"]", i > 0 ? ", " : "", a, b);
    }
    return sw_textf(
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": "
        "[{\"id\": 300, \"content\": \"<x>\", \"single_word\": false, \"lstrip\": false, "
        "\"rstrip\": false, \"normalized\": false, \"special\": true}%s], \"normalizer\": %s, "
        "\"pre_tokenizer\": %s, \"post_processor\": %s, \"decoder\": %s, \"model\": {\"type\": "
        "\"BPE\", \"dropout\": null, \"unk_token\": null%s, \"vocab\": {%s}, \"merges\": "
        "[%s]}}",
        p->added != NULL ? p->added : "", p->normalizer != NULL ? p->normalizer : "null",
        p->pre_tokenizer != NULL ? p->pre_tokenizer : byte_level,
        p->post_processor != NULL ? p->post_processor : byte_level, byte_level,
        p->model != NULL ? p->model : "", vocabulary, list);
}

tokenizer *small_tokenizer(const small_parts *parts)
{
    tokenizer *t = NULL;
    const char *text = small_text(parts);
    OK(tokenizer_parse(&t, text, strlen(text), "tokenizer.json"));
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    AFTER(tokenizer_free, t);
    return t;
}

const char *ids_text(tokenizer *t, const char *text, bool special)
{
    char *out = sw_block(2000);
    token_ids ids = {NULL, 0, 0};
    OK(tokenizer_encode(t, &ids, text, strlen(text), special, NULL, NULL, 0));
    for (uint32_t i = 0; i < ids.n; i++)
        snprintf(out + strlen(out), 2000 - strlen(out), "%s%d", i > 0 ? " " : "", ids.at[i]);
    token_ids_free(&ids);
    return out;
}
