/* stepwell tokens: the ids of a text, or of conversations, as a folder of transformers has
 * them.
 */
#include "profiler/record/json.h"
#include "runtime/base/text_file.h"
#include "runtime/state/model_folder.h"
#include "tools/cli/cli.h"
#include "tools/text/chat.h"
#include <string.h>

typedef struct {
    const char *model, *text, *file, *data, *template;
    bool turn, json;
} tokens_opts;

typedef struct {
    const tokens_opts *opts;
    chat *c;
    sw_json json;
    uint64_t n;
} printer;

/* Put out the writer's text; it is empty then. */
static sw_status put_json(printer *p)
{
    if (p->json.status == SW_OK)
        fwrite(p->json.bytes, 1, p->json.used, stdout);
    p->json.used = 0;
    return p->json.status;
}

static sw_status put_text(printer *p, int32_t id)
{
    size_t n;
    char text[200];
    const char *token = tokenizer_token(chat_tokenizer(p->c), id, &n);
    n = n < sizeof text - 1 ? n : sizeof text - 1;
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(token[i] != '\0' ? token[i] : '?');
    text[n] = '\0';
    sw_json_string(&p->json, text);
    return p->json.status;
}

static void put_ids(printer *p, const char *key, const int32_t *ids, size_t n)
{
    sw_json_key(&p->json, key);
    sw_json_begin(&p->json, '[');
    for (size_t i = 0; i < n; i++)
        sw_json_i64(&p->json, ids[i]);
    sw_json_end(&p->json);
}

/* One text or conversation; without labels none counts. */
static sw_status put_tokens(void *context, const int32_t *ids, const int32_t *labels, size_t n)
{
    printer *p = context;
    size_t counted = 0;
    if (p->opts->json) {
        sw_json_begin(&p->json, '{');
        put_ids(p, "input_ids", ids, n);
        if (labels != NULL)
            put_ids(p, "labels", labels, n);
        sw_json_end(&p->json);
        sw_json_line(&p->json);
        return put_json(p);
    }
    for (size_t i = 0; i < n && labels != NULL; i++)
        counted += labels[i] != SWI_NOT_COUNTED;
    if (labels != NULL)
        printf("%sconversation %llu: %zu tokens, %zu count (*)\n", p->n > 0 ? "\n" : "",
               (unsigned long long)p->n + 1, n, counted);
    p->n++;
    for (size_t i = 0; i < n; i++) {
        printf("%s%8d  ",
               labels == NULL                 ? ""
               : labels[i] != SWI_NOT_COUNTED ? "* "
                                              : "  ",
               ids[i]);
        SW_TRY(put_text(p, ids[i]));
        sw_json_line(&p->json);
        SW_TRY(put_json(p));
    }
    return SW_OK;
}

static sw_status put_all(printer *p)
{
    const tokens_opts *o = p->opts;
    token_ids ids = {NULL, 0, 0};
    char *read = NULL;
    size_t bytes = o->text != NULL ? strlen(o->text) : 0;
    if (o->data != NULL)
        return chat_read(p->c, o->data + strlen("chat:"), 0, put_tokens, p);
    if (o->file != NULL)
        SW_TRY(swi_text_load(&read, &bytes, o->file, "a text", (size_t)1 << 30));
    const char *text = read != NULL ? read : o->text;
    sw_status status = o->turn ? chat_prompt(p->c, &ids, text)
                               : tokenizer_encode(chat_tokenizer(p->c), &ids, text, bytes, true,
                                                  NULL, NULL, 0);
    if (status == SW_OK)
        status = put_tokens(p, ids.at, NULL, ids.n);
    sw_text_free(read, bytes);
    token_ids_free(&ids);
    return status;
}

static int check(const tokens_opts *o)
{
    if (o->model == NULL || strncmp(o->model, "hf:", 3) != 0)
        return cli_error(CLI_USAGE, "--model hf:NAME must be given: a folder of transformers, "
                                    "or ORG/NAME of the hub's cache");
    if ((o->text != NULL) + (o->file != NULL) + (o->data != NULL) != 1)
        return cli_error(CLI_USAGE, "one of TEXT, --file FILE and --data chat:FILE must be "
                                    "given");
    if (o->data != NULL && strncmp(o->data, "chat:", 5) != 0)
        return cli_error(CLI_USAGE, "--data must be chat:FILE (got '%s')", o->data);
    if (o->template != NULL && o->data == NULL && !o->turn)
        return cli_error(CLI_USAGE, "--chat has no effect without --data chat:FILE or --turn");
    if (o->turn && o->text == NULL)
        return cli_error(CLI_USAGE, "--turn goes with TEXT");
    return CLI_GO;
}

int tool_tokens(int argc, char **argv)
{
    tokens_opts o = {.model = NULL};
    const cli_option options[] = {
        {"--model", "hf:NAME", CLI_WORD, &o.model, NULL,
         "a folder of transformers, or ORG/NAME of the hub's cache: its tokenizer.json"},
        {"--file", "FILE", CLI_WORD, &o.file, NULL, "the text is in a file"},
        {"--data", "chat:FILE", CLI_WORD, &o.data, NULL,
         "conversations: a file of JSON objects with messages, prompt and completion, or text"},
        {"--chat", "NAME", CLI_WORD, &o.template, NULL,
         "how messages become a text (default: as the folder's chat_template)", 0, 0,
         chat_templates},
        {"--turn", NULL, CLI_FLAG, &o.turn, NULL,
         "TEXT is a turn of the user, and the begin of an answer comes after it"},
        {"--json", NULL, CLI_FLAG, &o.json, NULL,
         "a JSON object on a line of standard output for each: input_ids and labels"},
    };
    const cli_command command =
        SW_INIT(.name = "tokens", .usage = "[TEXT] [options]",
                .about = "Show which tokens a text becomes, and which of a conversation count.",
                .options = options, .n_options = (int)(sizeof options / sizeof *options),
                .operand = &o.text, .max_operands = 1,
                .notes = "Answers and their end token count in a conversation of messages, a "
                         "completion after its prompt, and all of a text. A label of -100 does "
                         "not count. Nothing is downloaded.");
    CLI_TRY(cli_parse(&command, argc, argv));
    CLI_TRY(check(&o));
    char folder[SWI_FOLDER_PATH];
    printer p = {.opts = &o};
    CLI_LIBRARY(swi_folder_find(folder, o.model + strlen("hf:")), true);
    CLI_LIBRARY(chat_open(&p.c, folder, o.template), true);
    sw_json_growing(&p.json, SW_HEAP_FILES);
    const sw_status status = put_all(&p);
    sw_json_free(&p.json);
    chat_close(p.c);
    return status == SW_OK ? cli_finish(CLI_DONE) : cli_library_error(status, true);
}
