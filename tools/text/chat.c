/* See chat.h. A line is read into texts and messages, rendered into one text with the places
 * where answers begin and end, and made ids once. */
#include "tools/text/chat.h"
#include "alloc/base/sys.h"
#include "profiler/record/utf8.h"
#include "runtime/base/checksum.h"
#include "runtime/base/text_file.h"
#include "tools/text/tokenizer_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_MAX ((size_t)16 << 20)
#define LINE_MAX ((size_t)1 << 30)
#define ELSEWHERE "or give ids that were made elsewhere (ids:FILE.jsonl)"

typedef enum { SYSTEM, USER, ASSISTANT, ROLES } chat_role;
static const char *const roles[ROLES] = {"system", "user", "assistant"};

typedef enum { UNKNOWN, CHATML, QWEN3, LLAMA32, PLAIN } chat_kind;

/* The checksums are of the published texts, without a newline at the end; newlines in the
 * strings of a template may be written as escapes. */
static const struct {
    const char *name, *system; /* the turn where a conversation begins with another; or NULL */
    chat_kind kind;
    uint64_t sums[2];
} known[] = {
    {"qwen2.5",
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     CHATML,
     {0x2469c9508f79506e}},
    {"qwen2.5-base", "You are a helpful assistant.", CHATML, {0xc31e98db8c19d1d3}},
    {"qwen3", NULL, QWEN3, {0xc9e0155c80737cf2}},
    {"smollm2",
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     CHATML,
     {0x99ab995e9629dacd, 0x83059ddcb62b07a0}},
    {"llama3.2", NULL, LLAMA32, {0xc3d57e38f5ff0756}},
    {"chatml", NULL, CHATML, {0xa04f41d813a07b13, 0x4c6e807ee5fe9f4a}},
    {"plain", NULL, PLAIN, {0}},
};
enum { KNOWN = sizeof known / sizeof *known };
#define NAMES "qwen2.5, qwen2.5-base, qwen3, smollm2, llama3.2, chatml or plain"
const char *const chat_templates[] = {"qwen2.5",  "qwen2.5-base", "qwen3", "smollm2",
                                      "llama3.2", "chatml",       "plain", NULL};

/* Begins as zeros; a zero is after its n bytes. */
typedef struct {
    char *at;
    uint32_t n, cap;
} buffer;

/* Places in the texts of a line. */
typedef struct {
    size_t at, n;
} span;

typedef enum { MESSAGES, PROMPT, COMPLETION, TEXT, PARTS } line_part;

typedef struct {
    chat_role role;
    line_part part;
    span content, reasoning; /* n of reasoning 0: none, or an empty one */
    bool reasons;            /* it has one */
} message;

struct chat {
    char folder[4096];
    tokenizer *t;
    int known;  /* -1: none */
    bool other; /* the folder has a template that is not known */
    buffer bos, eos;

    /* Of the line. */
    buffer texts, rendered;
    message *messages;
    uint32_t n_messages, n_prompt, cap_messages;
    span part[PARTS]; /* texts */
    bool has[PARTS], is_text[PARTS];
    size_t *bounds; /* begin and end of what counts, in turn */
    uint32_t *tokens, n_bounds, cap_bounds, cap_tokens;
    token_ids ids, labels;
};

/* ---- texts ------------------------------------------------------------------------------- */

static sw_status make_room(buffer *b, size_t n)
{
    if (b->n + n >= LINE_MAX)
        SW_FAIL(SW_FORMAT, "a conversation must have less than 1 GiB");
    return sw_heap_reserve(&b->at, SW_HEAP_FILES, &b->cap, b->n + (uint32_t)n + 1);
}

static sw_status put(buffer *b, const char *text, size_t n)
{
    SW_TRY(make_room(b, n));
    if (n > 0)
        memcpy(b->at + b->n, text, n);
    b->n += (uint32_t)n;
    b->at[b->n] = '\0';
    return SW_OK;
}

static sw_status say(buffer *b, const char *text)
{
    return put(b, text, strlen(text));
}

static void buffer_free(buffer *b)
{
    sw_heap_free(b->at, SW_HEAP_FILES, b->cap);
    *b = (buffer){NULL, 0, 0};
}

typedef struct {
    sw_json_text is; /* first: grow goes back from it */
    buffer *b;
} json_piece;

static sw_status grow(sw_json_text *text)
{
    json_piece *p = (json_piece *)(void *)text;
    SW_TRY(make_room(p->b, 2 * text->length + 64));
    text->to = p->b->at + p->b->n;
    text->cap = p->b->cap - p->b->n - 1;
    return SW_OK;
}

/* Add a JSON string to a buffer. */
static sw_status get_text(sw_json_in *in, buffer *b)
{
    json_piece p = {{.grow = grow}, b};
    SW_TRY(sw_json_get_string(in, &p.is));
    b->n += (uint32_t)p.is.length;
    return make_room(b, 0);
}

/* Is there another item of the list that comes next, or was begun? *n, from 0, counts them. */
static sw_status next_item(sw_json_in *in, uint32_t *n, bool *there)
{
    const bool first = (*n)++ == 0;
    if (first)
        SW_TRY(sw_json_expect(in, '['));
    SW_TRY(sw_json_accept(in, first ? ']' : ',', there));
    if (!first)
        return *there ? SW_OK : sw_json_expect(in, ']');
    *there = !*there;
    return SW_OK;
}

/* ---- the folder -------------------------------------------------------------------------- */

/* A token of tokenizer_config.json: a text, an object with its `content`, or null. */
static sw_status read_content(sw_json_in *in, const char *name, void *context)
{
    return strcmp(name, "content") == 0 ? get_text(in, context) : sw_json_skip(in);
}

typedef struct {
    chat *c;
    buffer template, name, one; /* of a list of templates */
} config;

static sw_status read_template(sw_json_in *in, const char *key, void *context)
{
    config *f = context;
    if (strcmp(key, "name") == 0)
        return get_text(in, &f->name);
    return strcmp(key, "template") == 0 ? get_text(in, &f->one) : sw_json_skip(in);
}

/* A text, or a list of templates with names: then the one that is `default`. */
static sw_status read_templates(sw_json_in *in, config *f)
{
    uint32_t n = 0;
    bool more;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c == '"')
        return get_text(in, &f->template);
    if (c != '[')
        return sw_json_skip(in);
    for (;;) {
        SW_TRY(next_item(in, &n, &more));
        if (!more)
            return SW_OK;
        f->name.n = f->one.n = 0;
        SW_TRY(sw_json_get_object(in, read_template, f));
        if (f->name.n == 7 && memcmp(f->name.at, "default", 7) == 0)
            SW_TRY(put(&f->template, f->one.at, f->one.n));
    }
}

static sw_status read_config(sw_json_in *in, const char *key, void *context)
{
    config *f = context;
    int c;
    if (strcmp(key, "chat_template") == 0)
        return read_templates(in, f);
    const bool bos = strcmp(key, "bos_token") == 0;
    if (!bos && strcmp(key, "eos_token") != 0)
        return sw_json_skip(in);
    buffer *to = bos ? &f->c->bos : &f->c->eos;
    to->n = 0;
    SW_TRY(sw_json_peek(in, &c));
    return c == '"'   ? get_text(in, to)
           : c == '{' ? sw_json_get_object(in, read_content, to)
                      : sw_json_skip(in);
}

static sw_status load(chat *c, const char *name, char **text, size_t *bytes, char *path,
                      size_t room)
{
    bool there;
    *text = NULL;
    snprintf(path, room, "%s/%s", c->folder, name);
    SW_TRY(sw_file_look(path, &there));
    return there ? swi_text_load(text, bytes, path, "a configuration", CONFIG_MAX) : SW_OK;
}

static sw_status read_folder(chat *c, config *f)
{
    char path[sizeof c->folder + 32], *text;
    size_t bytes;
    snprintf(path, sizeof path, "%s/tokenizer.json", c->folder);
    SW_TRY(tokenizer_read(&c->t, path));
    SW_TRY(load(c, "tokenizer_config.json", &text, &bytes, path, sizeof path));
    if (text != NULL) {
        sw_json_in in = sw_json_in_text(text, bytes, path);
        in.strict = true;
        const sw_status status = sw_json_get_object(&in, read_config, f);
        sw_text_free(text, bytes);
        SW_TRY(status);
    }
    SW_TRY(load(c, "chat_template.jinja", &text, &bytes, path, sizeof path));
    if (text == NULL)
        return SW_OK;
    f->template.n = 0;
    const sw_status status = put(&f->template, text, bytes);
    sw_text_free(text, bytes);
    return status;
}

/* The tokens that a rendering has around turns are tokens of the folder. */
static sw_status check_tokens(const chat *c)
{
    static const char *const needs[][4] = {
        [CHATML] = {"<|im_start|>", "<|im_end|>"},
        [QWEN3] = {"<|im_start|>", "<|im_end|>"},
        [LLAMA32] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
        [PLAIN] = {NULL}};
    const char *const *need = needs[known[c->known].kind];
    for (int i = 0; need[i] != NULL; i++)
        if (tokenizer_added(c->t, need[i], strlen(need[i])) < 0)
            SW_FAIL(SW_UNSUPPORTED,
                    "%s: the template %s has the token %s, which its tokenizer does not have: "
                    "name another template (" NAMES "), " ELSEWHERE,
                    c->folder, known[c->known].name, need[i]);
    return SW_OK;
}

static sw_status open_chat(chat *c, const char *folder, const char *name, config *f)
{
    c->known = -1;
    if (strlen(folder) >= sizeof c->folder)
        SW_FAIL(SW_INVALID, "the name of a folder has less than %zu bytes", sizeof c->folder);
    snprintf(c->folder, sizeof c->folder, "%s", folder);
    SW_TRY(read_folder(c, f));
    const uint32_t n =
        f->template.n - (f->template.n > 0 && f->template.at[f->template.n - 1] == '\n');
    const uint64_t sum = n > 0 ? swi_checksum_of(f->template.at, n) : 0;
    for (int i = 0; i < KNOWN; i++)
        if (name != NULL ? strcmp(name, known[i].name) == 0
                         : n > 0 && (sum == known[i].sums[0] || sum == known[i].sums[1]))
            c->known = i;
    if (name != NULL && c->known < 0)
        SW_FAIL(SW_INVALID, "a chat template must be " NAMES " (got '%s')", name);
    c->other = n > 0 && c->known < 0;
    return c->known >= 0 ? check_tokens(c) : SW_OK;
}

sw_status chat_open(chat **out, const char *folder, const char *name)
{
    chat *c;
    SW_TRY(sw_heap_alloc(&c, SW_HEAP_RECORDS, sizeof *c));
    config f = {.c = c};
    const sw_status status = open_chat(c, folder, name, &f);
    buffer_free(&f.template);
    buffer_free(&f.name);
    buffer_free(&f.one);
    return SW_GIVE(status, out, c, chat_close);
}

void chat_close(chat *c)
{
    if (c == NULL)
        return;
    tokenizer_free(c->t);
    buffer_free(&c->bos);
    buffer_free(&c->eos);
    buffer_free(&c->texts);
    buffer_free(&c->rendered);
    sw_heap_free(c->messages, SW_HEAP_FILES, c->cap_messages * sizeof *c->messages);
    sw_heap_free(c->bounds, SW_HEAP_FILES, c->cap_bounds * sizeof *c->bounds);
    sw_heap_free(c->tokens, SW_HEAP_FILES, c->cap_tokens * sizeof *c->tokens);
    token_ids_free(&c->ids);
    token_ids_free(&c->labels);
    sw_heap_free(c, SW_HEAP_RECORDS, sizeof *c);
}

tokenizer *chat_tokenizer(chat *c)
{
    return c->t;
}

const char *chat_name(const chat *c)
{
    return c->known >= 0 ? known[c->known].name : NULL;
}

int32_t chat_end(const chat *c)
{
    const chat_kind kind = c->known < 0 ? UNKNOWN : known[c->known].kind;
    if (kind == UNKNOWN || kind == PLAIN)
        return tokenizer_added(c->t, c->eos.at, c->eos.n);
    return tokenizer_added(c->t, kind == LLAMA32 ? "<|eot_id|>" : "<|im_end|>", 10);
}

/* ---- reading a line ---------------------------------------------------------------------- */

static sw_status begin_line(chat *c)
{
    c->texts.n = c->rendered.n = 0;
    c->n_messages = c->n_prompt = c->n_bounds = 0;
    c->ids.n = c->labels.n = 0;
    memset(c->part, 0, sizeof c->part);
    memset(c->has, 0, sizeof c->has);
    memset(c->is_text, 0, sizeof c->is_text);
    return make_room(&c->texts, 0); /* where empty texts lie */
}

/* SW_FORMAT at this place, with a name of the file. */
static sw_status bad_name(const sw_json_in *in, const char *format, const char *name)
{
    char clean[64], text[400];
    sw_utf8_clean(clean, sizeof clean, name);
    snprintf(text, sizeof text, format, clean);
    return sw_json_bad(in, text);
}

static sw_status take_null(sw_json_in *in)
{
    sw_json_word word;
    SW_TRY(sw_json_get_word(in, &word));
    return word == SW_JSON_NULL ? SW_OK : sw_json_bad(in, "another value was expected");
}

/* Lists of tools: absent, null or empty. */
static sw_status need_no_tools(sw_json_in *in, const char *key)
{
    bool list, empty = true;
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (c == 'n')
        return take_null(in);
    SW_TRY(sw_json_accept(in, '[', &list));
    if (list)
        SW_TRY(sw_json_accept(in, ']', &empty));
    return list && empty ? SW_OK
                         : bad_name(in, "'%s' is not built: leave them out, " ELSEWHERE, key);
}

typedef struct {
    chat *c;
    char type[64]; /* of a part of a content */
    message m;
    bool has_role, has_content;
} line;

static sw_status read_part(sw_json_in *in, const char *key, void *context)
{
    line *l = context;
    if (strcmp(key, "type") == 0)
        return sw_json_get_text(in, l->type, sizeof l->type);
    return strcmp(key, "text") == 0 ? get_text(in, &l->c->texts) : sw_json_skip(in);
}

/* A text, or a list of parts that are texts, as one text. */
static sw_status read_content_of(sw_json_in *in, line *l, span *to)
{
    uint32_t n = 0;
    bool more = true;
    int c;
    to->at = l->c->texts.n;
    SW_TRY(sw_json_peek(in, &c));
    if (c == '"') {
        SW_TRY(get_text(in, &l->c->texts));
    } else if (c == '[') {
        while (more) {
            SW_TRY(next_item(in, &n, &more));
            l->type[0] = '\0';
            if (more)
                SW_TRY(sw_json_get_object(in, read_part, l));
            if (more && strcmp(l->type, "text") != 0)
                return bad_name(in,
                                "a part of a content must have the type text (got '%s'); "
                                "leave it out, " ELSEWHERE,
                                l->type);
        }
    } else {
        return sw_json_bad(in, "a content must be a text or a list of parts of text");
    }
    to->n = l->c->texts.n - to->at;
    return SW_OK;
}

static sw_status read_message(sw_json_in *in, const char *key, void *context)
{
    line *l = context;
    message *m = &l->m;
    char role[64];
    int c;
    SW_TRY(sw_json_peek(in, &c));
    if (strcmp(key, "role") == 0) {
        int i = 0;
        SW_TRY(sw_json_get_text(in, role, sizeof role));
        while (i < ROLES && strcmp(role, roles[i]) != 0)
            i++;
        if (i == ROLES)
            return bad_name(in,
                            "a role must be system, user or assistant (got '%s'); leave the "
                            "message out, " ELSEWHERE,
                            role);
        m->role = (chat_role)i;
        l->has_role = true;
        return SW_OK;
    }
    if (strcmp(key, "content") == 0) {
        l->has_content = true;
        return read_content_of(in, l, &m->content);
    }
    if (strcmp(key, "tool_calls") == 0)
        return need_no_tools(in, key);
    /* The names that transformers has for it; the first one holds. */
    const bool reasons = strcmp(key, "reasoning_content") == 0;
    if (c != '"' || (!reasons && (m->reasons || (strcmp(key, "thinking") != 0 &&
                                                 strcmp(key, "reasoning") != 0))))
        return sw_json_skip(in);
    m->reasons = true;
    m->reasoning.at = l->c->texts.n;
    SW_TRY(get_text(in, &l->c->texts));
    m->reasoning.n = l->c->texts.n - m->reasoning.at;
    return SW_OK;
}

static sw_status read_messages(sw_json_in *in, chat *c, line_part part)
{
    uint32_t n = 0;
    for (bool more;;) {
        SW_TRY(next_item(in, &n, &more));
        if (!more && n == 1)
            return sw_json_bad(in, "a list of messages must have at least one");
        if (!more)
            return SW_OK;
        line l = {.c = c, .m = {.part = part}};
        SW_TRY(sw_json_get_object(in, read_message, &l));
        if (!l.has_role || !l.has_content)
            return sw_json_bad(in, "a message must have 'role' and 'content'");
        SW_TRY(
            sw_heap_reserve(&c->messages, SW_HEAP_FILES, &c->cap_messages, c->n_messages + 1));
        /* Those of a prompt come first, wherever they are in the line. */
        const uint32_t at = part == PROMPT ? c->n_prompt++ : c->n_messages;
        memmove(c->messages + at + 1, c->messages + at,
                (c->n_messages - at) * sizeof *c->messages);
        c->messages[at] = l.m;
        c->n_messages++;
    }
}

static sw_status read_line(sw_json_in *in, const char *key, void *context)
{
    static const char *const names[PARTS] = {"messages", "prompt", "completion", "text"};
    chat *c = context;
    int is = 0, next;
    SW_TRY(sw_json_peek(in, &next));
    if (strcmp(key, "tools") == 0)
        return need_no_tools(in, key);
    while (is < PARTS && strcmp(key, names[is]) != 0)
        is++;
    if (is == PARTS)
        return sw_json_skip(in);
    if (next == 'n')
        return take_null(in);
    if (c->has[is])
        return bad_name(in, "'%s' is there twice", key);
    c->has[is] = true;
    c->is_text[is] = next == '"' && is != MESSAGES;
    if (!c->is_text[is] && (next != '[' || is == TEXT))
        return bad_name(in,
                        is == TEXT       ? "'%s' must be a text"
                        : is == MESSAGES ? "'%s' must be a list of messages"
                                         : "'%s' must be a text or a list of messages",
                        key);
    if (!c->is_text[is])
        return read_messages(in, c, (line_part)is);
    c->part[is].at = c->texts.n;
    SW_TRY(get_text(in, &c->texts));
    c->part[is].n = c->texts.n - c->part[is].at;
    return SW_OK;
}

/* ---- rendering --------------------------------------------------------------------------- */

/* A part that counts begins here, or ends: in turn. */
static sw_status mark(chat *c)
{
    SW_TRY(sw_heap_reserve(&c->bounds, SW_HEAP_FILES, &c->cap_bounds, c->n_bounds + 1));
    c->bounds[c->n_bounds++] = c->rendered.n;
    return SW_OK;
}

static bool counts(const message *m)
{
    return m->role == ASSISTANT && m->part != PROMPT;
}

static sw_status put_span(chat *c, span of)
{
    return put(&c->rendered, c->texts.at + of.at, of.n);
}

static span without(const chat *c, span s, bool left, bool right)
{
    for (; left && s.n > 0 && c->texts.at[s.at] == '\n'; s.n--)
        s.at++;
    while (right && s.n > 0 && c->texts.at[s.at + s.n - 1] == '\n')
        s.n--;
    return s;
}

/* As strip() of Python: U+001C to U+001F are blanks to it, too. */
static span stripped(const chat *c, span s)
{
    const char *text = c->texts.at;
    for (size_t n; s.n > 0; s.at += n, s.n -= n) {
        n = text_blank(text + s.at, s.n);
        if (n == 0 && text[s.at] >= 0x1c && text[s.at] <= 0x1f)
            n = 1;
        if (n == 0)
            break;
    }
    while (s.n > 0) {
        const size_t last = text_back(text, s.at + s.n), n = s.at + s.n - last;
        if (text_blank(text + last, n) == 0 && (text[last] < 0x1c || text[last] > 0x1f))
            break;
        s.n -= n;
    }
    return s;
}

/* The first or last place of `what` in a span; s.n: there is none. */
static size_t find(const chat *c, span s, const char *what, bool last)
{
    const size_t n = strlen(what);
    size_t found = s.n;
    for (size_t i = 0; i + n <= s.n && (last || found == s.n); i++)
        if (memcmp(c->texts.at + s.at + i, what, n) == 0)
            found = i;
    return found;
}

static sw_status begin_turn(chat *c, chat_role role)
{
    buffer *to = &c->rendered;
    const bool llama = known[c->known].kind == LLAMA32;
    SW_TRY(say(to, llama ? "<|start_header_id|>" : "<|im_start|>"));
    SW_TRY(say(to, roles[role]));
    return say(to, llama ? "<|end_header_id|>\n\n" : "\n");
}

static sw_status put_turn(chat *c, const message *m, bool thinks, span reasoning, span content)
{
    buffer *to = &c->rendered;
    SW_TRY(begin_turn(c, m->role));
    if (counts(m))
        SW_TRY(mark(c));
    if (thinks) {
        SW_TRY(say(to, "<think>\n"));
        SW_TRY(put_span(c, without(c, reasoning, true, true)));
        SW_TRY(say(to, "\n</think>\n\n"));
        content = without(c, content, true, false);
    }
    SW_TRY(put_span(c, content));
    const bool llama = known[c->known].kind == LLAMA32;
    SW_TRY(say(to, llama ? "<|eot_id|>" : "<|im_end|>"));
    if (counts(m))
        SW_TRY(mark(c));
    return llama ? SW_OK : say(to, "\n");
}

/* Thoughts stand in turns after the last question: in the last one always, else where there
 * are some. */
static sw_status put_qwen3(chat *c)
{
    static const char open[] = "<tool_response>", close[] = "</tool_response>";
    enum { OPEN = sizeof open - 1, CLOSE = sizeof close - 1 };
    uint32_t last = c->n_messages - 1;
    for (uint32_t i = c->n_messages; i-- > 0;) {
        const message *m = &c->messages[i];
        const char *text = c->texts.at + m->content.at;
        const size_t n = m->content.n;
        if (m->role == USER && !(n >= CLOSE && memcmp(text, open, OPEN) == 0 &&
                                 memcmp(text + n - CLOSE, close, CLOSE) == 0)) {
            last = i;
            break;
        }
    }
    for (uint32_t i = 0; i < c->n_messages; i++) {
        const message *m = &c->messages[i];
        span content = m->content, reasoning = m->reasoning;
        const size_t end = find(c, content, "</think>", false);
        if (m->role == ASSISTANT && !m->reasons && end < content.n) {
            reasoning = without(c, (span){content.at, end}, false, true);
            const size_t begin = find(c, reasoning, "<think>", true);
            if (begin < reasoning.n) {
                reasoning.at += begin + 7;
                reasoning.n -= begin + 7;
            }
            reasoning = without(c, reasoning, true, false);
            const size_t after = find(c, content, "</think>", true) + 8;
            content.at += after;
            content.n -= after;
            content = without(c, content, true, false);
        }
        const bool thinks =
            m->role == ASSISTANT && i > last && (i + 1 == c->n_messages || reasoning.n > 0);
        SW_TRY(put_turn(c, m, thinks, reasoning, content));
    }
    return SW_OK;
}

static sw_status put_llama(chat *c)
{
    buffer *to = &c->rendered;
    const bool system = c->messages[0].role == SYSTEM;
    SW_TRY(put(to, c->bos.at, c->bos.n));
    SW_TRY(begin_turn(c, SYSTEM));
    SW_TRY(say(to, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"));
    if (system)
        SW_TRY(put_span(c, stripped(c, c->messages[0].content)));
    SW_TRY(say(to, "<|eot_id|>"));
    for (uint32_t i = system; i < c->n_messages; i++)
        SW_TRY(put_turn(c, &c->messages[i], false, (span){0, 0},
                        stripped(c, c->messages[i].content)));
    return SW_OK;
}

static sw_status put_plain(chat *c)
{
    for (uint32_t i = 0; i < c->n_messages; i++) {
        const message *m = &c->messages[i];
        if (counts(m))
            SW_TRY(mark(c));
        SW_TRY(put_span(c, m->content));
        if (m->role == ASSISTANT)
            SW_TRY(put(&c->rendered, c->eos.at, c->eos.n));
        if (counts(m))
            SW_TRY(mark(c));
    }
    return SW_OK;
}

static sw_status render_messages(chat *c)
{
    if (c->known < 0)
        SW_FAIL(
            SW_UNSUPPORTED,
            "%s %s: name one that renders alike by --chat, in sample --chat-template (" NAMES
            "), " ELSEWHERE,
            c->folder,
            c->other ? "has a chat_template that is not known" : "has no chat_template");
    const char *system = known[c->known].system;
    switch (known[c->known].kind) {
    case QWEN3:
        return put_qwen3(c);
    case LLAMA32:
        return put_llama(c);
    case PLAIN:
        return put_plain(c);
    default:
        break;
    }
    if (system != NULL && c->messages[0].role != SYSTEM) {
        SW_TRY(begin_turn(c, SYSTEM));
        SW_TRY(say(&c->rendered, system));
        SW_TRY(say(&c->rendered, "<|im_end|>\n"));
    }
    for (uint32_t i = 0; i < c->n_messages; i++)
        SW_TRY(put_turn(c, &c->messages[i], false, (span){0, 0}, c->messages[i].content));
    return SW_OK;
}

/* A prompt and what counts after it, with the end token where it does not end with one. */
static sw_status render_texts(chat *c)
{
    const span last = c->part[c->has[TEXT] ? TEXT : COMPLETION];
    if (!c->has[TEXT])
        SW_TRY(put_span(c, c->part[PROMPT]));
    SW_TRY(mark(c));
    SW_TRY(put_span(c, last));
    if (c->eos.n > 0 && (last.n < c->eos.n || memcmp(c->texts.at + last.at + last.n - c->eos.n,
                                                     c->eos.at, c->eos.n) != 0))
        SW_TRY(put(&c->rendered, c->eos.at, c->eos.n));
    return mark(c);
}

static sw_status render(chat *c, const sw_json_in *in)
{
    const bool both = c->has[PROMPT] && c->has[COMPLETION];
    if (c->has[MESSAGES] + c->has[TEXT] + (c->has[COMPLETION] ? 1 : 0) != 1 ||
        (c->has[COMPLETION] && !both))
        return sw_json_bad(in, "a line must have 'messages', or 'prompt' and 'completion', or "
                               "'text', and one of these; other shapes are not built: change "
                               "them, " ELSEWHERE);
    if (both && c->is_text[PROMPT] != c->is_text[COMPLETION])
        return sw_json_bad(in, "'prompt' and 'completion' must both be texts, or both lists of "
                               "messages");
    if (c->has[TEXT] || (both && c->is_text[PROMPT]))
        return render_texts(c);
    if (c->has[MESSAGES] && c->has[PROMPT] && !c->is_text[PROMPT]) {
        /* A prompt beside messages is passed over. */
        c->n_messages -= c->n_prompt;
        memmove(c->messages, c->messages + c->n_prompt, c->n_messages * sizeof *c->messages);
    }
    return render_messages(c);
}

/* ---- ids and labels ---------------------------------------------------------------------- */

/* Templates have their special tokens in the text; others get those of the tokenizer. */
static sw_status make_ids(chat *c)
{
    const bool plain = c->n_messages == 0 || c->has[TEXT] || c->is_text[COMPLETION] ||
                       known[c->known].kind == PLAIN;
    SW_TRY(sw_heap_reserve(&c->tokens, SW_HEAP_FILES, &c->cap_tokens, c->n_bounds));
    SW_TRY(tokenizer_encode(c->t, &c->ids, c->rendered.at, c->rendered.n, plain, c->bounds,
                            c->tokens, c->n_bounds));
    const uint32_t n = c->ids.n;
    SW_TRY(sw_heap_reserve(&c->labels.at, SW_HEAP_DATASETS, &c->labels.cap, n));
    for (uint32_t i = 0; i < n; i++)
        c->labels.at[i] = c->has[TEXT] ? c->ids.at[i] : SWI_NOT_COUNTED;
    for (uint32_t k = 0; k + 1 < c->n_bounds; k += 2)
        for (uint32_t i = c->tokens[k]; i < c->tokens[k + 1]; i++)
            c->labels.at[i] = c->ids.at[i];
    return SW_OK;
}

sw_status chat_prompt(chat *c, token_ids *ids, const char *text)
{
    SW_TRY(begin_line(c));
    SW_TRY(say(&c->texts, text));
    SW_TRY(sw_heap_reserve(&c->messages, SW_HEAP_FILES, &c->cap_messages, 1));
    c->messages[c->n_messages++] = (message){.role = USER, .content = {0, c->texts.n}};
    SW_TRY(render_messages(c));
    const bool plain = known[c->known].kind == PLAIN;
    if (!plain)
        SW_TRY(begin_turn(c, ASSISTANT));
    SW_TRY(make_room(&c->rendered, 0));
    return tokenizer_encode(c->t, ids, c->rendered.at, c->rendered.n, plain, NULL, NULL, 0);
}

typedef struct {
    chat *c;
    chat_each *each;
    void *context;
} reading;

static sw_status take_line(sw_json_in *in, void *context)
{
    const reading *r = context;
    chat *c = r->c;
    in->strict = true;
    SW_TRY(begin_line(c));
    SW_TRY(sw_json_get_object(in, read_line, c));
    SW_TRY(render(c, in));
    sw_status status = make_ids(c);
    if (status == SW_OK && c->ids.n > 0)
        status = r->each(r->context, c->ids.at, c->labels.at, c->ids.n);
    if (status == SW_OK || status == SW_STOPPED)
        return status;
    SW_FAIL(status, "%s: line %" PRIu64 ": %s", in->path, in->line, sw_last_error());
}

sw_status chat_read(chat *c, const char *path, size_t unpack_bytes, chat_each *each,
                    void *context)
{
    reading r = {c, each, context};
    return swi_json_lines(path, unpack_bytes, take_line, &r);
}
