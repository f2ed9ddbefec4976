/* See tensor_files.h. */
#include "tests/state/tensor_files.h"
#include "runtime/base/checksum.h"
#include "runtime/state/tensor_internal.h"
#include <inttypes.h>

sw_model *chance_model(const char *name, uint64_t seed)
{
    sw_optimizer *adam;
    const sw_optimizer_opts opts = SW_OPTS(sw_optimizer_opts, .kind = "adam");
    (void)sw_op_at(0); /* the static library then has its ops */
    sw_exec *exec = made_exec(NULL);
    sw_model *model = made_model(name);
    sw_param_new(model, "conv.weight", SW_F32, SW_SHAPE(3, 2, 2, 2), "zeros");
    sw_param_new(model, "conv.bias", SW_F32, SW_SHAPE(3), "zeros");
    sw_buffer_new(model, "running", SW_F32, SW_SHAPE(5, 3), "zeros");
    sw_param_new(model, "scalar", SW_F32, SW_SCALAR, "zeros");
    sw_state_new(model, "hidden", SW_F32, SW_SHAPE(4));
    sw_knob_new(model, "rate", 0.5f);
    OK(sw_optimizer_create(&adam, model, &opts));
    OK(sw_model_ready(model, exec, seed));
    sw_dice dice = {seed};
    for (uint32_t i = 1; i < model->n_entries; i++)
        for (size_t k = 0; k < model->entries[i].bytes; k++)
            model->base[model->entries[i].offset + k] = (unsigned char)sw_dice_next(&dice);
    model->drawn = false;
    return model;
}

const swi_tensors_note checkpoint_marks[N_MARKS] = {{SWI_TENSORS_MARK, "1"},
                                                    {"stepwell.command", "a \"test\""}};
const char one_model_run[] =
    "{\"version\":1,\"step\":7,\"seed\":18446744073709551615,\"isa\":\"avx2\",\"device\":"
    "\"cpu\",\"new\":[{\"a\":[]},[1,-2.5e3,{}],null],\"models\":[{\"name\":\"m\",\"layout\":"
    "\"00112233aabbccdd\",\"members\":1}],\"loaders\":[{\"epoch\":2,\"batch_index\":3,"
    "\"batch_rows\":64,\"samples\":1000,\"seed\":\"5\",\"shuffle\":true,\"drop_last\":false,"
    "\"data\":\"ffeeddcc00112233\"}]}";

void list_run(swi_tensor_list *list, const char *run)
{
    OK(swi_list_bytes(list, SWI_TENSORS_RUN, run, strlen(run)));
}

sw_status write_tensors(const char *path, const swi_tensor_list *list,
                        const swi_tensors_note *notes, uint32_t n)
{
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
    const sw_status status = swi_tensors_write(file, list, notes, n);
    if (status == SW_OK)
        return sw_file_close(file);
    sw_file_drop(file);
    return status;
}

void write_checkpoint(const char *path, sw_model *model, size_t n_bytes)
{
    unsigned char *blob = malloc(n_bytes);
    sw_dice dice = {17};
    size_t blob_bytes = n_bytes / 2;
    uint64_t now = 0;
    for (size_t i = 0; i < n_bytes; i++)
        blob[i] = (unsigned char)sw_dice_next(&dice);
    while (now != n_bytes) { /* the header's length depends on it, a little */
        swi_tensor_list list = {0};
        OK(swi_list_models(&list, &model, 1, ALL_ROLES, ""));
        list_run(&list, one_model_run);
        OK(swi_list_bytes(&list, "stepwell.blob/a", blob, 100));
        OK(swi_list_bytes(&list, "stepwell.blob/b", blob, blob_bytes));
        OK(swi_list_bytes(&list, "stepwell.blob/none", NULL, 0));
        OK(swi_tensors_bytes(&list, checkpoint_marks, N_MARKS, &now));
        blob_bytes += n_bytes - (size_t)now;
        if (now == n_bytes)
            OK(write_tensors(path, &list, checkpoint_marks, N_MARKS));
        swi_list_free(&list);
    }
    free(blob);
}

sw_status open_and_verify(const char *path)
{
    swi_tensors *file;
    SW_TRY(swi_tensors_open(&file, path));
    const sw_status status = swi_tensors_verify(file);
    swi_tensors_close(file);
    return status;
}

static unsigned char *find(const bytes *file, const char *text)
{
    unsigned char *at = memmem(file->at, file->n, text, strlen(text));
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    return at;
}

void replace(bytes *file, const char *from, const char *to)
{
    CU_ASSERT_EQUAL_FATAL(strlen(from), strlen(to));
    memcpy(find(file, from), to, strlen(to));
}

void reseal(bytes *file)
{
    static const char key[] = "\"stepwell.header\":\"";
    uint64_t length;
    char *digits = (char *)find(file, key) + strlen(key);
    memcpy(&length, file->at, sizeof length);
    memset(digits, '0', 16);
    memcpy(digits, sw_textf("%016" PRIx64, swi_checksum_of(file->at + 8, (size_t)length)), 16);
}
