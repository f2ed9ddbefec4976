/* Writes a file of tensors for read_tensors.py: tensor_peer FILE. The bytes of tensor i
 * are (i * 31 + k * 7) mod 256. */
#include "runtime/exec/exec.h"
#include "runtime/state/tensor_file.h"
#include <stdio.h>
#include <string.h>

static unsigned char data[8][4096];

static sw_status write_list(const swi_tensor_list *list, const char *path)
{
    static const swi_tensors_note notes[] = {{"note", "a \"quoted\" \xe2\x82\xac"}};
    sw_file *file;
    SW_TRY(sw_file_open(&file, path, SW_FILE_WRITE));
    SW_TRY(swi_tensors_write(file, list, notes, 1));
    return sw_file_close(file);
}

static sw_status run(const char *path)
{
    static const char *const names[] = {"a", "gr\303\266\303\237e/\"b\"", "c.weight", "d",
                                        "empty"};
    static const sw_dtype types[] = {SW_U8, SW_F32, SW_F64, SW_BF16, SW_U8};
    static const size_t sizes[] = {101, 4 * 12, 8 * 6, 2 * 9, 0};
    swi_tensor_list list = {0};
    for (int i = 0; i < 5; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            data[i][k] = (unsigned char)((size_t)i * 31 + k * 7);
        SW_TRY(swi_list_bytes(&list, names[i], data[i], sizes[i]));
        list.at[i].dtype = types[i];
        list.at[i].shape.dim[0] = (int64_t)(sizes[i] / sw_dtype_bytes(types[i]));
    }
    /* The third is stacked: three parts of two. */
    list.at[2].n_parts = 3;
    list.at[2].part_bytes = list.at[2].stride = 16;
    list.at[2].shape.dim[0] = 2;
    const sw_status status = write_list(&list, path);
    swi_list_free(&list);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (run(argv[1]) == SW_OK)
        return 0;
    fprintf(stderr, "%s\n", sw_last_error());
    return 1;
}
