/* Arrays of NumPy's and archives: .npy, .npz, and what torch.save writes, by the readers of
 * data sets. */
#include "profiler/record/utf8.h"
#include "runtime/data/npy.h"
#include "runtime/data/zip.h"
#include "tools/info/info_found.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- an array ---------------------------------------------------------------------------- */

/* '<f4' has elements of 4 bytes; 0: of a type with fields, or none. */
static uint64_t element_bytes(const char *type)
{
    const uint64_t bytes = strlen(type) > 2 ? strtoull(type + 2, NULL, 10) : 0;
    return bytes > 0 && type[1] == 'U' ? 4 * bytes : bytes;
}

/* Hold its bytes against those that are there, `begin` of the file on where it is stored. */
static sw_status check_bytes(const swi_npy_source *source, const swi_npy_header *h,
                             uint64_t begin, found_tensor *to)
{
    uint64_t all = element_bytes(h->type);
    const bool known = all > 0 || strchr(h->type, '0') != NULL;
    for (int i = 0; i < to->rank; i++)
        if (__builtin_mul_overflow(all, to->dim[i], &all))
            SW_FAIL(SW_FORMAT, "%s: the shape has more elements than a size can say",
                    source->name);
    to->bytes = known ? all : UINT64_MAX;
    const uint64_t there = source->bytes > h->bytes ? source->bytes - h->bytes : 0;
    if (known && there < all)
        SW_FAIL(SW_FORMAT,
                "%s: byte %" PRIu64 ": %" PRIu64 " bytes of elements must follow, %" PRIu64
                " are there",
                source->name, begin + h->bytes, all, there);
    return SW_OK;
}

/* Its header comes next in the source. */
static sw_status describe(const swi_npy_source *source, uint64_t begin, found_tensor *to)
{
    swi_npy_header h;
    SW_TRY(swi_npy_header_read(source, &h));
    snprintf(to->type, sizeof to->type, "%.10s%s", h.type[0] == '[' ? "fields" : h.type,
             h.fortran ? " by columns" : "");
    to->rank = h.shape.rank;
    for (int i = 0; i < to->rank; i++)
        to->dim[i] = (uint64_t)h.shape.dim[i];
    return check_bytes(source, &h, begin, to);
}

static sw_status read_bytes(void *of, void *to, size_t bytes, size_t *got)
{
    return sw_file_read(of, to, bytes, got);
}

sw_status found_numpy(found *f, sw_file *file)
{
    const swi_npy_source source = {f->path, f->bytes, file, read_bytes, NULL};
    found_tensor *t;
    f->kind = "npy";
    f->says = "an array of NumPy's";
    SW_TRY(sw_file_seek(file, 0));
    SW_TRY(found_add(f, &t));
    return describe(&source, 0, t);
}

/* ---- archives ---------------------------------------------------------------------------- */

static bool ends_with(const swi_zip_file *e, const char *end)
{
    const size_t n = strlen(end);
    return e->name_bytes >= n && memcmp(e->name + e->name_bytes - n, end, n) == 0;
}

static sw_status read_member(void *of, void *to, size_t bytes, size_t *got)
{
    return swi_zip_member_read(of, to, bytes, got);
}

/* Of an array that is compressed in a way that is not read its name is known. */
static sw_status take_array(found *f, const swi_zip *zip, const swi_zip_file *e)
{
    char name[sizeof f->tensor->name];
    swi_zip_member *m;
    found_tensor *t;
    snprintf(name, sizeof name, "%.*s", (int)e->name_bytes - (int)strlen(".npy"), e->name);
    SW_TRY(found_add(f, &t));
    sw_utf8_clean(t->name, sizeof t->name, name);
    const sw_status opened = swi_zip_member_open(&m, zip, e, SIZE_MAX);
    if (opened == SW_UNSUPPORTED || e->encrypted) {
        snprintf(t->type, sizeof t->type, "%s", e->encrypted ? "encrypted" : "compressed");
        return SW_OK;
    }
    SW_TRY(opened);
    const swi_npy_source source = {swi_zip_member_name(m), e->bytes, m, read_member, NULL};
    const sw_status status = describe(&source, 0, t);
    swi_zip_member_close(m);
    return status;
}

static sw_status look_at_all(found *f, swi_zip *zip)
{
    uint64_t files = 0, arrays = 0, bytes = 0;
    bool torch = false;
    SW_TRY(swi_zip_list(zip));
    for (;; files++) {
        swi_zip_file e;
        bool more;
        SW_TRY(swi_zip_next(zip, &e, &more));
        if (!more)
            break;
        torch |= ends_with(&e, "/data.pkl") || (ends_with(&e, "data.pkl") && e.name_bytes == 8);
        bytes += e.bytes;
        if (!ends_with(&e, ".npy"))
            continue;
        arrays++;
        SW_TRY(take_array(f, zip, &e));
    }
    if (torch) {
        f->kind = "torch";
        f->says = "a file of torch.save";
        f->advice = "safetensors.torch.save_file(torch.load(FILE), OUT) in Python writes the "
                    "tensors as a file that --load-params and info read";
    } else if (arrays > 0 && arrays == files) {
        f->kind = "npz";
        f->says = "arrays of NumPy's";
    }
    found_note(f, "files", "%" PRIu64, files);
    found_note(f, "unpacked_bytes", "%" PRIu64, bytes);
    return SW_OK;
}

sw_status found_zip(found *f)
{
    swi_zip zip;
    f->kind = "zip";
    f->says = "an archive (zip)";
    SW_TRY(swi_zip_open(&zip, f->path));
    const sw_status status = look_at_all(f, &zip);
    swi_zip_close(&zip);
    return status;
}
