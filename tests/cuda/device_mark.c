/* device_mark [--out FILE] DATE CARD DRIVER < OPS: the ops named there, one in a line, have
 * passed on that card as the sources are now; writes the list, tests/cuda/DEVICE.md unless told
 * otherwise. Without anything it brings the list to the ops and files of today. */
#include "tests/cuda/device_list.h"
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const char *name)
{
    fprintf(stderr, "device_mark: %s%s\n", what, name);
    return 1;
}

int main(int argc, char **argv)
{
    static sw_device_list list;
    const char *why, *out = SW_DEVICE_LIST;
    char op[64];
    if (argc >= 3 && strcmp(argv[1], "--out") == 0) {
        out = argv[2];
        argc -= 2, argv += 2;
    }
    if (argc != 1 && argc != 4)
        return fail("expected DATE CARD DRIVER, or nothing", "");
    if (!sw_device_list_kernels(&list, &why))
        return fail(why, "");
    if (!sw_device_list_read(&list, SW_DEVICE_LIST))
        return fail("cannot be read: ", SW_DEVICE_LIST);
    while (argc == 4 && fgets(op, sizeof op, stdin) != NULL) {
        op[strcspn(op, "\n")] = '\0';
        if (!sw_device_list_mark(&list, op, argv[1], argv[2], argv[3]))
            return fail("no kernel of the module: ", op);
    }
    return sw_device_list_write(&list, out) ? 0 : fail("cannot be written: ", out);
}
