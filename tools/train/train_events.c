/* --metrics DIR/events.out.tfevents.NAME: rows as events of TensorBoard. An event of a step has
 * its bytes too: of each phase that ran the peak, and what lives at the end of the last one.
 *
 * A run that goes on writes the same events again, which are as long as they were: TensorBoard,
 * which may have read further than the checkpoint, goes on reading where a record begins. */
#include "tools/train/train.h"
#include <string.h>
#include <time.h>

bool train_events_is(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    return strncmp(name, SW_TFEVENTS_NAME, sizeof SW_TFEVENTS_NAME - 1) == 0;
}

static double wall_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void train_events_head(train *t)
{
    sw_tfevents_init(&t->events);
    sw_tfevents_version(&t->events, wall_s());
}

static void put_bytes(sw_tfevents *e, const train_bytes *b)
{
    size_t live = 0;
    for (int i = 0; i < SW_PHASES; i++) {
        char tag[64];
        if (b->phase[i].peak_bytes == 0)
            continue;
        live = b->phase[i].end_bytes;
        snprintf(tag, sizeof tag, "memory/%s_peak_bytes", sw_phase_name((sw_phase)i));
        sw_tfevents_scalar(e, tag, (double)b->phase[i].peak_bytes);
    }
    sw_tfevents_scalar(e, "memory/live_bytes", (double)live);
    sw_tfevents_scalar(e, "memory/peak_bytes", (double)b->peak_bytes);
}

void train_events_row(train *t, const train_row *row)
{
    static const struct {
        const char *loss, *accuracy, *ms;
    } tags[] = {[TRAIN_LINE_STEP] = {"loss/train", "accuracy/train", "time/step_ms"},
                [TRAIN_LINE_VALIDATION] = {"loss/validation", "accuracy/validation",
                                           "time/validation_ms"},
                [TRAIN_LINE_EPOCH] = {"loss/epoch", "accuracy/epoch", "time/epoch_ms"}};
    sw_tfevents *e = &t->events;
    sw_tfevents_begin(e, wall_s(), row->step);
    sw_tfevents_scalar(e, tags[row->kind].loss, row->score.loss);
    if (train_has_classes(t))
        sw_tfevents_scalar(e, tags[row->kind].accuracy,
                           (double)row->score.right / (double)row->score.rows);
    if (row->kind == TRAIN_LINE_STEP)
        sw_tfevents_scalar(e, "rate", row->rate);
    if (row->ns > 0)
        sw_tfevents_scalar(e, tags[row->kind].ms, (double)row->ns * 1e-6);
    if (row->bytes != NULL)
        put_bytes(e, row->bytes);
    sw_tfevents_end(e);
}

/* From record to record: their lengths have checks. */
sw_status train_events_end(sw_file *file, uint64_t bytes, uint64_t *end)
{
    sw_tfevents e;
    uint64_t at = 0;
    sw_tfevents_init(&e);
    while (at < bytes) {
        unsigned char front[SW_TFEVENTS_FRONT];
        size_t got;
        SW_TRY(sw_file_seek(file, at));
        SW_TRY(sw_file_read(file, front, sizeof front, &got));
        const uint64_t n = got == sizeof front ? sw_tfevents_length(&e, front) : 0;
        if (n == 0 || n > bytes - at)
            break;
        at += n;
    }
    *end = at;
    return SW_OK;
}
