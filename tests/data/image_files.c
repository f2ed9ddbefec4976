#include "tests/data/image_files.h"
#include <sys/stat.h>
#if SW_HAVE_JPEG
#include <jpeglib.h>
#endif

void folder_make(const char *path)
{
    char part[256];
    for (size_t i = 1; i <= strlen(path); i++)
        if (path[i] == '/' || path[i] == '\0') {
            snprintf(part, sizeof part, "%.*s", (int)i, path);
            (void)mkdir(dir_file(part), 0777);
        }
}

static void put_at(const char *path, bytes content)
{
    char folder[256];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 0, path);
    folder_make(folder);
    dir_put(path, content);
}

bytes png_bytes(png_image image)
{
    const size_t room = 4096 + (size_t)image.w * image.h * 18;
    bytes b = {sw_block(room), 0, room};
    b.n = png_make(b.at, room, &image);
    CU_ASSERT_FATAL(b.n > 0);
    return b;
}

void put_png(const char *path, png_image image)
{
    put_at(path, png_bytes(image));
}

void put_jpeg(const char *path, jpeg_image image)
{
    put_at(path, jpeg_bytes(image));
}

#if SW_HAVE_JPEG

/* DC, then each frequency alone, bit by bit: as many scans as are asked for. */
static void set_scans(struct jpeg_compress_struct *jpeg, jpeg_scan_info *scans, int n)
{
    memset(scans, 0, sizeof *scans * (size_t)n);
    for (int i = 0; i < n; i++) {
        const int k = (i - 1) / 4, bit = (i - 1) % 4;
        scans[i].comps_in_scan = 1;
        if (i == 0)
            continue;
        scans[i].Ss = scans[i].Se = 1 + k;
        scans[i].Ah = bit == 0 ? 0 : 4 - bit;
        scans[i].Al = 3 - bit;
    }
    jpeg->scan_info = scans;
    jpeg->num_scans = n;
}

bytes jpeg_bytes(jpeg_image image)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_error_mgr error;
    static jpeg_scan_info scans[1 + 63 * 4];
    unsigned char *out = NULL, row[3000];
    unsigned long n = 0;
    bytes b = {NULL, 0};
    jpeg.err = jpeg_std_error(&error);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &out, &n);
    jpeg.image_width = image.w;
    jpeg.image_height = image.h;
    jpeg.input_components = image.components;
    jpeg.in_color_space = image.components == 1   ? JCS_GRAYSCALE
                          : image.components == 3 ? JCS_RGB
                                                  : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, image.quality > 0 ? image.quality : 90, TRUE);
    if (image.scans > 0)
        set_scans(&jpeg, scans, image.scans);
    else if (image.progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW rows[] = {row};
        for (unsigned i = 0; i < image.w * (unsigned)image.components; i++)
            row[i] =
                (unsigned char)(128 +
                                (int)((i * 13 + jpeg.next_scanline * 29 + image.seed * 31) %
                                      97));
        (void)jpeg_write_scanlines(&jpeg, rows, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    bytes_put(&b, out, n);
    free(out);
    return b;
}

#else

bytes jpeg_bytes(jpeg_image image)
{
    return (bytes){NULL, 0};
}

#endif

sw_images_opts image_opts;

sw_status images_read_one(sw_dataset *part[2])
{
    return sw_dataset_images(&part[0], NULL, dir_name(), &image_opts);
}

sw_status images_read_both(sw_dataset *part[2])
{
    return sw_dataset_images(&part[0], &part[1], dir_name(), &image_opts);
}

void images_begin(void)
{
    image_opts = SW_OPTS(sw_images_opts);
    dir_new();
}
