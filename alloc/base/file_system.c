/* File systems of which a sync does not say that the data will be there. */
#include "alloc/base/fault.h"
#include "alloc/base/file_internal.h"
#include <stdint.h>
#include <sys/vfs.h>

/* f_type of Linux's file systems; FUSE: what its program does on a sync is not known here. */
static const struct {
    uint32_t type;
    const char *is;
} far[] = {
    {0x6969, "a network file system (NFS)"},
    {0x517b, "a network file system (SMB)"},
    {0xfe534d42, "a network file system (SMB2)"},
    {0xff534d42, "a network file system (CIFS)"},
    {0x01021997, "a network file system (9p)"},
    {0x00c36400, "a network file system (Ceph)"},
    {0x5346414f, "a network file system (AFS)"},
    {0x6b414653, "a network file system (AFS)"},
    {0x73757245, "a network file system (Coda)"},
    {0x564c, "a network file system (NCP)"},
    {0x0bd00bd0, "a network file system (Lustre)"},
    {0x47504653, "a network file system (GPFS)"},
    {0x19830326, "a network file system (BeeGFS)"},
    {0x65735546, "a file system of a program (FUSE)"},
    {0x786f4256, "a folder of the host (vboxsf)"},
};

const char *sw_file_far(const sw_file *file)
{
    struct statfs st;
    uint32_t type = swi_fault_file_system();
    if (type == 0 && fstatfs(file->fd, &st) == 0)
        type = (uint32_t)st.f_type;
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        if (far[i].type == type)
            return far[i].is;
    return NULL;
}
