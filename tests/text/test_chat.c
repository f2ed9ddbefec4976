/* Conversations: how each template renders them, what counts, and what is refused. */
#include "tests/support/files.h"
#include "tests/support/heap_sweep.h"
#include "tests/text/small_tokenizer.h"
#include <sys/stat.h>

SW_TESTS("chat")

#define SMOLLM2                                                                                \
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' "       \
    "%}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "       \
    "Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "      \
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt "       \
    "%}{{ '<|im_start|>assistant\n' }}{% endif %}"

/* A folder with a tokenizer that has the tokens of all templates. */
static const char *new_folder(const char *config, const char *jinja)
{
    static int n;
    const char *folder = sw_temp_path(sw_textf("folder%d", n++));
    static const char *const tokens[] = {
        "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
        "<s>",          "</s>"};
    char *added = sw_textf("%s", "");
    for (int i = 0; i < 7; i++)
        added = sw_textf("%s, {\"id\": %d, \"content\": \"%s\", \"special\": true}", added,
                         301 + i, tokens[i]);
    const char *text = small_text(&(small_parts){.added = added});
    CU_ASSERT_EQUAL_FATAL(mkdir(folder, 0777), 0);
    sw_file_put(sw_textf("%s/tokenizer.json", folder), text, strlen(text));
    if (config != NULL)
        sw_file_put(sw_textf("%s/tokenizer_config.json", folder), config, strlen(config));
    if (jinja != NULL)
        sw_file_put(sw_textf("%s/chat_template.jinja", folder), jinja, strlen(jinja));
    return folder;
}

static chat *opened(const char *folder, const char *name)
{
    chat *c = NULL;
    OK(chat_open(&c, folder, name));
    CU_ASSERT_PTR_NOT_NULL_FATAL(c);
    AFTER(chat_close, c);
    return c;
}

/* The conversations that were read, as texts: [what counts] in brackets. */
typedef struct {
    chat *c;
    char text[20000];
    int n, stop_at;
} seen;

static sw_status see(void *context, const int32_t *ids, const int32_t *labels, size_t n)
{
    seen *s = context;
    bool counted = false;
    if (++s->n == s->stop_at)
        return SW_STOPPED;
    for (size_t i = 0; i <= n; i++) {
        const bool counts = i < n && labels[i] != SWI_NOT_COUNTED;
        size_t bytes;
        if (counts != counted)
            strcat(s->text, counts ? "[" : "]");
        counted = counts;
        if (i == n)
            break;
        CU_ASSERT(!counts || labels[i] == ids[i]);
        const char *token = tokenizer_token(chat_tokenizer(s->c), ids[i], &bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(token);
        strncat(s->text, token, bytes);
    }
    strcat(s->text, "\n--\n");
    return SW_OK;
}

static sw_status read_text(seen *s, chat *c, const char *text)
{
    const char *path = sw_temp_path("talk.jsonl");
    sw_file_put(path, text, strlen(text));
    s->c = c;
    s->text[0] = '\0';
    s->n = 0;
    return chat_read(c, path, 0, see, s);
}

#define SAY(role, content) "{\"role\": \"" role "\", \"content\": " content "}"
#define TALK(...) "{\"messages\": [" __VA_ARGS__ "]}\n"
#define ASKED SAY("user", "\"Hi \"") ", " SAY("assistant", "\"\\n\\nYo\"")

static const struct {
    const char *name, *line, *is;
} rendered[] = {
    {"chatml", TALK(ASKED),
     "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant[\n\n\nYo<|im_end|>]\n"},
    {"chatml", TALK(SAY("system", "\"S\"") ", " SAY("assistant", "\"\"")),
     "<|im_start|>system\nS<|im_end|>\n<|im_start|>assistant\n[<|im_end|>]\n"},
    {"qwen2.5", TALK(SAY("user", "\"a\"")),
     "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"},
    {"qwen2.5", TALK(SAY("system", "\"b\"") ", " SAY("system", "\"c\"")),
     "<|im_start|>system\nb<|im_end|>\n<|im_start|>system\nc<|im_end|>\n"},
    {"qwen2.5-base", TALK(SAY("user", "\"a\"")),
     "<|im_start|>system\nYou are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"},
    {"smollm2", TALK(SAY("user", "\"a\"")),
     "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
     "Face<|im_end|>\n<|im_start|>user\na<|im_end|>\n"},
    /* Thoughts: none in earlier answers, empty in the last, or those that there are. */
    {"qwen3", TALK(ASKED ", " ASKED),
     "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant[\n\n\nYo<|im_end|>]\n"
     "<|im_start|>user\nHi "
     "<|im_end|>\n<|im_start|>assistant\n[<think>\n\n</think>\n\nYo<|im_end|>]\n"},
    {"qwen3",
     TALK(SAY("user", "\"a\"") ", " SAY("assistant", "\"<think>\\nb\\n</think>\\n\\nc\"")),
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[<think>\nb\n</"
     "think>\n\nc<|im_end|>]\n"},
    {"qwen3",
     TALK(SAY("user", "\"a\"") ", {\"role\": \"assistant\", \"reasoning\": \"x\", "
                               "\"reasoning_content\": \"\\nb\", \"content\": \"\\nc\"}"),
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[<think>\nb\n</"
     "think>\n\nc<|im_end|>]\n"},
    {"qwen3", TALK(SAY("assistant", "\"<think>b</think>c\"") ", " SAY("user", "\"a\"")),
     "<|im_start|>assistant\n[c<|im_end|>]\n<|im_start|>user\na<|im_end|>\n"},
    {"llama3.2",
     TALK(SAY("system", "\" S\\u001f\"") ", " SAY("user", "\"\\u3000a\\u00a0\"") ", " SAY(
         "assistant", "\"\\nb \"")),
     "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
     "Today Date: 26 Jul "
     "2024\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\na<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n[b<|eot_id|>]"},
    {"plain", TALK(ASKED ", " ASKED), "Hi [\n\nYo</s>]Hi [\n\nYo</s>]"},
    /* Parts of a content; null and other keys; keys in any order. */
    {"chatml",
     "{\"id\": 7, \"text\": null, \"tools\": [], \"messages\": [{\"content\": [{\"type\": "
     "\"text\", "
     "\"text\": \"a\"}, {\"text\": \"b\", \"type\": \"text\"}], \"tool_calls\": null, "
     "\"name\": "
     "\"x\", \"role\": \"user\"}, " SAY("user", "[]") "]}",
     "<|im_start|>user\nab<|im_end|>\n<|im_start|>user\n<|im_end|>\n"},
    /* Only the completion counts, wherever it stands. */
    {"chatml",
     "{\"completion\": [" SAY("assistant", "\"c\"") "], \"prompt\": [" ASKED
                                                    ", " SAY("user", "\"b\"") "]}",
     "<|im_start|>user\nHi <|im_end|>\n<|im_start|>assistant\n\n\nYo<|im_end|>\n"
     "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n[c<|im_end|>]\n"},
    {"chatml", "{\"prompt\": [" ASKED "], \"messages\": [" SAY("user", "\"b\"") "]}",
     "<|im_start|>user\nb<|im_end|>\n"},
    {"chatml", "{\"prompt\": \"hello\", \"completion\": \" world\"}", "hello[ world</s>]"},
    {"qwen3", "{\"prompt\": \"hell\", \"completion\": \"o x</s>\"}", "[hello x</s>]"},
    {"chatml", "{\"prompt\": \"\", \"completion\": \"\"}", "[</s>]"},
    {NULL, "{\"text\": \"hello <|im_end|>\"}", "[hello <|im_end|></s>]"},
};

SW_TEST("each template has its text, and answers count")
{
    NEEDS_PCRE2();
    const char *folder = new_folder(
        "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": \"</s>\"}",
        NULL);
    for (size_t i = 0; i < sizeof rendered / sizeof *rendered; i++) {
        seen *s = sw_block(sizeof *s);
        OK(read_text(s, opened(folder, rendered[i].name), rendered[i].line));
        SW_CHECK(strcmp(s->text, sw_textf("%s\n--\n", rendered[i].is)) == 0, "%zu: '%s'", i,
                 s->text);
    }
}

SW_TEST("a turn of the user has the begin of an answer after it")
{
    NEEDS_PCRE2();
    static const char *const cases[][2] = {
        {"qwen3", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {"llama3.2",
         "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: "
         "December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
         "<|end_header_id|>\n\n"},
        {"plain", "Hi"},
    };
    const char *folder = new_folder(NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        chat *c = opened(folder, cases[i][0]);
        token_ids ids = {NULL, 0, 0};
        token_text text = {.at = NULL};
        for (int again = 0; again < 2; again++)
            OK(chat_prompt(c, &ids, "Hi"));
        OK(tokenizer_decode(chat_tokenizer(c), &text, ids.at, ids.n / 2, true));
        CU_ASSERT_STRING_EQUAL(text.at, cases[i][1]);
        CU_ASSERT_EQUAL(memcmp(ids.at, ids.at + ids.n / 2, ids.n / 2 * sizeof *ids.at), 0);
        token_ids_free(&ids);
        token_text_free(&text);
    }
    REFUSED(chat_prompt(opened(folder, NULL), &(token_ids){NULL, 0, 0}, "Hi"), SW_UNSUPPORTED,
            "has no chat_template");
}

/* ---- the folder ---------------------------------------------------------------------------
 */

static const char *json_of(const char *text)
{
    char *to = sw_block(2 * strlen(text) + 3), *at = to;
    *at++ = '"';
    for (; *text != '\0'; text++) {
        if (*text == '\n' || *text == '"')
            *at++ = '\\';
        *at++ = (char)(*text == '\n' ? 'n' : *text);
    }
    *at = '"';
    return to;
}

SW_TEST("a template is known by its text")
{
    NEEDS_PCRE2();
    const char *text = json_of(SMOLLM2), *other = json_of("{{ messages }}");
    const struct {
        const char *config, *jinja, *name;
    } cases[] = {
        {NULL, NULL, NULL},
        {NULL, SMOLLM2, "smollm2"},
        {NULL, SMOLLM2 "\n", "smollm2"},
        {NULL, SMOLLM2 "\n\n", NULL},
        {sw_textf("{\"chat_template\": %s}", text), NULL, "smollm2"},
        {sw_textf("{\"chat_template\": %s}", other), SMOLLM2, "smollm2"},
        {sw_textf("{\"chat_template\": %s}", text), "{{ x }}", NULL},
        {sw_textf(
             "{\"chat_template\": [{\"name\": \"rag\", \"template\": %s}, {\"template\": %s, "
             "\"name\": \"default\"}]}",
             other, text),
         NULL, "smollm2"},
        {"{\"chat_template\": []}", NULL, NULL},
        {"{\"chat_template\": null, \"eos_token\": null}", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = chat_name(opened(new_folder(cases[i].config, cases[i].jinja), NULL));
        SW_CHECK(cases[i].name != NULL ? name != NULL && strcmp(name, cases[i].name) == 0
                                       : name == NULL,
                 "%zu: %s", i, name != NULL ? name : "none");
    }
    for (int i = 0; chat_templates[i] != NULL; i++)
        CU_ASSERT_STRING_EQUAL(
            chat_name(opened(new_folder(NULL, "{{ x }}"), chat_templates[i])),
            chat_templates[i]);
    seen *s = sw_block(sizeof *s);
    chat *c = opened(new_folder(NULL, "{{ x }}"), NULL);
    REFUSED(read_text(s, c, TALK(ASKED)), SW_UNSUPPORTED,
            "has a chat_template that is not known");
    CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "ids:FILE.jsonl"));
    OK(read_text(s, c, "{\"text\": \"hello\"}"));
    CU_ASSERT_STRING_EQUAL(s->text, "[hello]\n--\n");
    chat *none = NULL;
    REFUSED(chat_open(&none, new_folder(NULL, NULL), "qwen4"), SW_INVALID,
            "must be qwen2.5, qwen2.5-base, qwen3, smollm2, llama3.2, chatml or plain (got "
            "'qwen4')");
    REFUSED(chat_open(&none, new_folder("[]", NULL), NULL), SW_FORMAT, "tokenizer_config.json");
    const char *folder = new_folder(NULL, NULL), *small = small_text(&(small_parts){0});
    sw_file_put(sw_textf("%s/tokenizer.json", folder), small, strlen(small));
    REFUSED(chat_open(&none, folder, "llama3.2"), SW_UNSUPPORTED,
            "has the token <|start_header_id|>, which its tokenizer does not have");
    REFUSED(chat_open(&none, sw_temp_path("nowhere"), NULL), SW_IO, "nowhere/tokenizer.json");
    CU_ASSERT_PTR_NULL(none);
}

/* ---- what is refused ----------------------------------------------------------------------
 */

static const struct {
    const char *line, *says;
} bad[] = {
    {"{}", "a line must have 'messages', or 'prompt' and 'completion', or 'text'"},
    {"{\"prompt\": \"a\"}", "a line must have"},
    {"{\"completion\": \"a\"}", "a line must have"},
    {"{\"text\": \"a\", \"messages\": [" SAY("user", "\"a\"") "]}", "a line must have"},
    {"{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}", "ids:FILE.jsonl"},
    {"{\"prompt\": \"a\", \"completion\": [" SAY("user", "\"a\"") "]}", "must both be texts"},
    {"{\"messages\": \"a\"}", "'messages' must be a list of messages"},
    {"{\"messages\": []}", "must have at least one"},
    {"{\"prompt\": 7, \"completion\": \"a\"}", "'prompt' must be a text or a list"},
    {"{\"text\": [\"a\"]}", "'text' must be a text"},
    {"{\"text\": \"a\", \"text\": \"b\"}", "'text' is there twice"},
    {"{\"text\": \"a\", \"tools\": [{\"type\": \"function\"}]}", "'tools' is not built"},
    {"{\"messages\": [{\"role\": \"user\"}]}", "must have 'role' and 'content'"},
    {"{\"messages\": [{\"content\": \"a\"}]}", "must have 'role' and 'content'"},
    {"{\"messages\": [" SAY("tool", "\"a\"") "]}", "system, user or assistant (got 'tool')"},
    {"{\"messages\": [" SAY("user", "null") "]}", "must be a text or a list of parts"},
    {"{\"messages\": [" SAY("user", "[{\"type\": \"image\"}]") "]}", "type text (got 'image')"},
    {"{\"messages\": [" SAY("user", "[\"a\"]") "]}", "'{' was expected"},
    {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{}]}]}",
     "'tool_calls' is not built: leave them out, or give ids"},
    {"{\"text\": \"\\ud800\"}", "half a surrogate pair"},
    {"{\"text\": \"\\u0000\"}", "a zero character"},
    {"{\"text\": \"\xff\"}", "must be UTF-8"},
    {"{\"text\": \"a\"]", "'}' was expected"},
    {"[\"a\"]", "'{' was expected"},
    {"{\"messages\":[{\"role\":\"user\"", "'}' was expected"},
    {"{\"text\":", "'text' must be a text"},
    {"{\"text\": \"a", "a string without an end"},
    {"{\"text\": \"a\"} {\"text\": \"b\"}", "one object, and nothing after it"},
};

SW_TEST("other shapes are refused, with file and line")
{
    NEEDS_PCRE2();
    chat *c = opened(new_folder(NULL, NULL), "chatml");
    seen *s = sw_block(sizeof *s);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED(read_text(s, c,
                          sw_textf("{\"text\": \"hello\"}\n\n%s\n{\"text\": \"hello\"}\n",
                                   bad[i].line)),
                SW_FORMAT, bad[i].says);
        CU_ASSERT_PTR_NOT_NULL(strstr(sw_last_error(), "talk.jsonl: line 3: column "));
        CU_ASSERT_EQUAL(strncmp(s->text, "[hello]\n--\n", 11), 0);
        CU_ASSERT(s->text[11] == '\0' || i + 1 == sizeof bad / sizeof *bad); /* one was whole */
    }
    s->stop_at = 2;
    CU_ASSERT_EQUAL(
        read_text(s, c, "{\"text\": \"a\"}\r\n{\"text\": \"b\"} \n{\"text\": \"c\"}"),
        SW_STOPPED);
    CU_ASSERT_EQUAL(s->n, 2);
    s->stop_at = 0;
    OK(read_text(s, c, "\n{\"text\": \"\"}\n"));
    CU_ASSERT_EQUAL(s->n, 0); /* not a token */
    OK(read_text(s, c, ""));
    REFUSED(chat_read(c, sw_temp_path("no.jsonl"), 0, see, s), SW_IO, "no.jsonl");
    /* A line that ends where the bytes read at once do, which are 64 KiB. */
    for (int n = 65535; n <= 65538; n++) {
        const char *line = sw_textf("%*s\n", n - 1, "{\"text\": \"hello\"}");
        OK(read_text(s, c, sw_textf("%s%s", line, "{\"text\": \"hello\"}")));
        CU_ASSERT_EQUAL(s->n, 2);
        REFUSED(read_text(s, c, sw_textf("%s%s", line, "{\"text\" 7}\n{}")), SW_FORMAT,
                "line 2: column 9: ");
    }
}

/* ---- faults -------------------------------------------------------------------------------
 */

static const char talks[] = "{\"messages\": [" ASKED ", " ASKED "]}\n{\"completion\": [" SAY(
    "assistant",
    "\"c\"") "], \"prompt\": [" ASKED "]}\n{\"prompt\": \"a\", "
             "\"completion\": \"<think>b</think>c\"}\n{\"text\": \"hello world\"}\n"
             "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", "
             "\"text\": \"x\"}]}]}\n";

static sw_status open_and_read(void *arg)
{
    const char *folder = arg;
    chat *c;
    SW_TRY(chat_open(&c, folder, "qwen3"));
    seen s = {.c = c};
    const sw_status status = chat_read(c, sw_temp_path("talk.jsonl"), 0, see, &s);
    chat_close(c);
    return status;
}

SW_TEST("each allocation and file operation may fail")
{
    NEEDS_PCRE2();
    char *folder = sw_textf("%s", new_folder("{\"eos_token\": \"</s>\"}", SMOLLM2));
    sw_file_put(sw_temp_path("talk.jsonl"), talks, sizeof talks - 1);
    CU_ASSERT(sw_sweep(SW_FAULT_MEMORY, SW_NOMEM, open_and_read, folder) > 40);
    CU_ASSERT(sw_sweep(SW_FAULT_FILE, SW_OK, open_and_read, folder) > 5);
}

SW_TEST("mutations of conversations do no harm")
{
    NEEDS_PCRE2();
    static const char pieces[] = "{}[]\",:-.0123456789eEnultrfas\\ ";
    chat *c[3];
    const char *folder = new_folder("{\"eos_token\": \"</s>\"}", NULL);
    for (int i = 0; i < 3; i++)
        c[i] = opened(folder, ((const char *const[]){"qwen3", "llama3.2", "plain"})[i]);
    seen *s = sw_block(sizeof *s);
    sw_dice dice = {53};
    int read = 0;
    const int times = sw_tests_full() ? 5000 : 400;
    for (int i = 0; i < times; i++) {
        char text[sizeof talks];
        memcpy(text, talks, sizeof talks);
        for (uint64_t k = 1 + sw_dice_below(&dice, 2); k > 0; k--) {
            const size_t n = strlen(text);
            char *at = text + sw_dice_below(&dice, n);
            if (sw_dice_below(&dice, 3) == 0)
                memmove(at, at + 1, strlen(at));
            else if (sw_dice_below(&dice, 2) == 0)
                *at = (char)(1 + sw_dice_below(&dice, 255));
            else
                *at = pieces[sw_dice_below(&dice, sizeof pieces - 1)];
        }
        const size_t mark = sw_after_mark();
        const sw_status status = read_text(s, c[i % 3], text);
        sw_after_since(mark);
        read += status == SW_OK;
        SW_CHECK(status == SW_OK ||
                     (status == SW_FORMAT && strstr(sw_last_error(), "line ") != NULL),
                 "mutation %d: %s: %s", i, sw_status_name(status), sw_last_error());
    }
    sw_note("%d of %d are still read", read, times);
    CU_ASSERT(read > times / 50 && read < times * 9 / 10);
}
