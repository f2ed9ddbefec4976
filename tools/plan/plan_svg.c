/* stepwell plan --svg: the plan as a picture.
 *
 * Time goes to the right, one column per op and a last one for what is read out behind them;
 * addresses of the step arena go upward. Each storage is one rectangle, from the op that first
 * writes it to the last that touches it; one that takes another's place lies on top of it. The
 * file needs no other file and no script, follows the viewer's light or dark setting, and is
 * the same for the same plan. */
#include "alloc/base/mem.h"
#include "alloc/base/sys.h"
#include "tools/plan/plan.h"
#include <stdarg.h>
#include <string.h>

enum { WIDTH = 1200, HEIGHT = 712, LEFT = 96, TOP = 96, PLOT_W = 1080, PLOT_H = 530 };

static const struct {
    const char *role, *colour;
} palette[] = {{"input", "#9fb0c3"},    {"activation", "#79b4ea"}, {"saved", "#f0b64a"},
               {"gradient", "#e8837a"}, {"temporary", "#b7a3e0"},  {"workspace", "#84cc96"},
               {"metric", "#d3d05f"},   {"output", "#dc9cc8"},     {"other", "#b4b4b4"}};
#define N_ROLES ((int)(sizeof palette / sizeof *palette))

typedef struct {
    char *bytes; /* on the heap: the file is opened when the picture is whole */
    size_t used, capacity;
    sw_status status; /* the first error; nothing is added behind it */
    size_t arena_bytes;
    uint32_t n_ops;
    bool *covered; /* by id: another storage takes the place, and would cut a name in two */
    bool seen[N_ROLES];
    sw_phase phase; /* of the band that is open */
    uint32_t phase_from;
    int n_bands;
} drawing;

/* ---- text -------------------------------------------------------------------------------- */

static void put(drawing *d, const char *text, size_t n)
{
    void *block = d->bytes;
    const size_t more = d->capacity > n ? d->capacity : n + 4096;
    if (d->status == SW_OK && n > d->capacity - d->used) {
        d->status = sw_heap_resize(&block, SW_HEAP_FILES, d->capacity, d->capacity + more);
        if (d->status == SW_OK) {
            d->bytes = block;
            d->capacity += more;
        }
    }
    if (d->status != SW_OK)
        return;
    memcpy(d->bytes + d->used, text, n);
    d->used += n;
}

SW_PRINTF(2, 3) static void print(drawing *d, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(d, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* As text of an element. What is no printable ASCII might be no UTF-8 either. */
static void put_text(drawing *d, const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '&')
            put(d, "&amp;", 5);
        else if (*text == '<')
            put(d, "&lt;", 4);
        else if (*text == '>')
            put(d, "&gt;", 4);
        else
            put(d, *text < 0x20 || *text > 0x7e ? "?" : text, 1);
}

/* ---- places: hundredths of a pixel ------------------------------------------------------- */

static long long x_of(const drawing *d, uint64_t position)
{
    return 100 * LEFT + (long long)(100.0 * PLOT_W * (double)position / (d->n_ops + 1.0));
}

static long long y_of(const drawing *d, size_t address)
{
    return 100 * (TOP + PLOT_H) -
           (long long)(100.0 * PLOT_H * (double)address / (double)d->arena_bytes);
}

static void put_length(drawing *d, const char *name, long long hundredths)
{
    print(d, " %s=\"%lld.%02lld\"", name, hundredths / 100, hundredths % 100);
}

static void line(drawing *d, long long x1, long long y1, long long x2, long long y2)
{
    print(d, "<line class=\"grid\"");
    put_length(d, "x1", x1);
    put_length(d, "y1", y1);
    put_length(d, "x2", x2);
    put_length(d, "y2", y2);
    print(d, "/>\n");
}

static void open_text(drawing *d, const char *class, long long x, long long y)
{
    print(d, "<text class=\"%s\"", class);
    put_length(d, "x", x);
    put_length(d, "y", y);
    print(d, ">");
}

/* ---- frame ------------------------------------------------------------------------------- */

static void head(drawing *d, const job *j)
{
    const sw_plan_info *p = &job_main(j)->plan;
    print(d,
          "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
          "height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
    print(d, "<style>\n"
             ".paper{fill:#fff}.text,.axis,.mark{fill:#1b1f24}.axis{text-anchor:end}"
             ".mark{text-anchor:middle}.big{fill:#1b1f24;font-size:17px}\n"
             ".grid{stroke:#8a929b;stroke-width:0.6;stroke-dasharray:3 3}"
             ".name{fill:#14181c;font-size:11px;pointer-events:none}\n"
             "rect.s{stroke:#23282e;stroke-width:0.7}rect.thin{stroke-width:0.2}"
             "rect.s:hover{stroke-width:2.5}\n");
    for (int i = 0; i < N_ROLES; i++)
        print(d, ".%s{fill:%s}%s", palette[i].role, palette[i].colour,
              i + 1 == N_ROLES ? "\n" : "");
    print(d, "@media (prefers-color-scheme:dark){.paper{fill:#14181d}"
             ".text,.axis,.mark,.big{fill:#e4e8ec}}\n</style>\n"
             "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n");
    open_text(d, "big", 100 * LEFT, 2600);
    print(d, "%s, batch %lld, %s: one training step</text>\n", j->opts->model,
          (long long)job_main(j)->batch, j->opts->optimizer);
    open_text(d, "text", 100 * LEFT, 4800);
    print(d, "step arena %s, lower bound %s bytes, %u ops; peak at ",
          result_both(p->arena_bytes).text, cli_digits(p->lower_bound_bytes).text, p->n_ops);
    put_text(d, p->peak_op);
    print(d, "</text>\n");
}

/* Addresses on the left: quarters of the arena. */
static void addresses(drawing *d)
{
    for (int i = 0; i <= 4; i++) {
        const size_t at = d->arena_bytes / 4 * (size_t)i + d->arena_bytes % 4 * (size_t)i / 4;
        line(d, 100 * LEFT, y_of(d, at), 100 * (LEFT + PLOT_W), y_of(d, at));
        open_text(d, "axis", 100 * (LEFT - 6), y_of(d, at) + 400);
        print(d, "%s</text>\n", cli_bytes(at).text);
    }
}

/* Positions below: at most sixteen, and the place behind the last op. */
static void positions(drawing *d)
{
    const uint32_t apart = d->n_ops / 16 + 1;
    const long long y = 100 * (TOP + PLOT_H + 18);
    for (uint32_t i = 0; i + apart / 2 < d->n_ops; i += apart) {
        open_text(d, "mark", (x_of(d, i) + x_of(d, i + 1)) / 2, y);
        print(d, "%u</text>\n", i);
    }
    open_text(d, "mark", (x_of(d, d->n_ops) + x_of(d, d->n_ops + 1ull)) / 2, y);
    print(d, "end</text>\n");
    open_text(d, "text", 100 * LEFT, y + 2000);
    print(d, "op, in the order of the step; upward: address in the step arena</text>\n");
}

static void legend(drawing *d)
{
    long long x = 100 * LEFT;
    const long long y = 100 * (HEIGHT - 20);
    for (int i = 0; i < N_ROLES; i++) {
        if (!d->seen[i])
            continue;
        print(d, "<rect class=\"%s\" width=\"14\" height=\"14\"", palette[i].role);
        put_length(d, "x", x);
        put_length(d, "y", y - 1200);
        print(d, "/>\n");
        open_text(d, "text", x + 2000, y);
        print(d, "%s</text>\n", palette[i].role);
        x += 100 * (40 + 8 * (long long)strlen(palette[i].role));
    }
}

/* ---- phases ------------------------------------------------------------------------------ */

/* From phase_from to `to` the ops are of one phase: a line where it begins, its name above. The
 * names of neighbours stand at two heights, so that short phases can be told apart. */
static void close_band(drawing *d, uint32_t to)
{
    if (to == d->phase_from)
        return;
    const long long x = x_of(d, d->phase_from), end = x_of(d, to);
    line(d, x, 100 * (TOP - 24), x, 100 * (TOP + PLOT_H));
    open_text(d, "mark", (x + end) / 2, 100 * (TOP - (d->n_bands++ % 2 == 0 ? 6 : 20)));
    print(d, "%s</text>\n", sw_phase_name(d->phase));
}

static void see_op(void *to, uint32_t position, const char *name, sw_phase phase)
{
    drawing *d = to;
    (void)name;
    if (position > 0 && phase == d->phase)
        return;
    close_band(d, position);
    d->phase = phase;
    d->phase_from = position;
}

/* ---- storages ---------------------------------------------------------------------------- */

static int role_index(const char *role)
{
    int i = 0;
    while (i + 1 < N_ROLES && strcmp(palette[i].role, role) != 0)
        i++;
    return i;
}

static void title(drawing *d, const sw_plan_storage *s)
{
    print(d, "<title>");
    put_text(d, s->name);
    print(d, "\n%s, %zu bytes (%zu of them padding) at offset %zu\n", s->role,
          s->bytes + s->padding, s->padding, s->offset);
    print(d, "born at op %u", s->birth);
    if (s->op != NULL) {
        print(d, " (");
        put_text(d, s->op);
        print(d, ")");
    }
    if (s->death >= d->n_ops)
        print(d, ", read out at the end");
    else
        print(d, ", dies at op %u", s->death);
    print(d, "%s</title>", s->alias != UINT32_MAX ? "; takes the place of its input" : "");
}

static void see_cover(void *to, const sw_plan_storage *s)
{
    drawing *d = to;
    if (s->alias != UINT32_MAX)
        d->covered[s->alias] = true;
}

static void see_storage(void *to, const sw_plan_storage *s)
{
    drawing *d = to;
    if (s->input)
        return;
    const long long x = x_of(d, s->birth), w = x_of(d, s->death + 1ull) - x;
    const long long y = y_of(d, s->offset + s->bytes + s->padding), h = y_of(d, s->offset) - y;
    const int role = role_index(s->role);
    d->seen[role] = true;
    print(d, "<rect class=\"s %s%s\"", palette[role].role, h < 250 ? " thin" : "");
    put_length(d, "x", x);
    put_length(d, "y", y);
    put_length(d, "width", w);
    put_length(d, "height", h);
    print(d, ">");
    title(d, s);
    print(d, "</rect>\n");
    if (!d->covered[s->id] && h >= 1300 && w >= 620 * (long long)strlen(s->name)) {
        open_text(d, "name", x + 400, y + h / 2 + 400);
        put_text(d, s->name);
        print(d, "</text>\n");
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

static sw_status draw(drawing *d, job *j)
{
    const job_which which = (job_which)(job_main(j) - j->program);
    const sw_run_args args = job_args(j, which, j->program[which].inputs, 0);
    const sw_plan_visitor covers = {.size = sizeof covers, .to = d, .storage = see_cover};
    const sw_plan_visitor all = {
        .size = sizeof all, .to = d, .op = see_op, .storage = see_storage};
    SW_TRY(sw_plan_visit(j->exec, &args, &covers));
    head(d, j);
    addresses(d);
    SW_TRY(sw_plan_visit(j->exec, &args, &all));
    close_band(d, d->n_ops);
    positions(d);
    legend(d);
    print(d, "</svg>\n");
    return d->status;
}

static sw_status draw_plan(drawing *d, job *j)
{
    const sw_plan_info *p = &job_main(j)->plan;
    const size_t bytes = p->n_storages * sizeof *d->covered;
    void *covered;
    d->arena_bytes = p->arena_bytes;
    d->n_ops = p->n_ops;
    SW_TRY(sw_heap_alloc(&covered, SW_HEAP_FILES, bytes));
    d->covered = covered;
    const sw_status status = draw(d, j);
    sw_heap_free(covered, SW_HEAP_FILES, bytes);
    return status;
}

static sw_status write_all(void *context, sw_file *file)
{
    const drawing *d = context;
    return sw_file_write(file, d->bytes, d->used);
}

int plan_svg_write(job *j, const char *path)
{
    drawing d = {.status = SW_OK};
    sw_status status = draw_plan(&d, j);
    if (status == SW_OK)
        status = cli_saved(sw_file_replace(path, write_all, &d));
    sw_heap_free(d.bytes, SW_HEAP_FILES, d.capacity);
    return status == SW_OK ? CLI_GO : cli_library_error(status, false);
}
