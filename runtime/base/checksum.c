/* XXH3 by the header of libxxhash alone: nothing to link, and no memory but the caller's. */
#include "runtime/base/checksum.h"
#include "runtime/base/file_kind.h"
#include <stdbool.h>
#include <string.h>

/* The first bytes of files of other programs. */

/* Is the word among the first bytes? Archives have the name of their first file there. */
static bool has(const unsigned char *head, size_t n, const char *word)
{
    const size_t bytes = strlen(word);
    for (size_t i = 0; i + bytes <= n; i++)
        if (memcmp(head + i, word, bytes) == 0)
            return true;
    return false;
}

swi_file_kind swi_file_kind_of(const unsigned char *head, size_t n)
{
    static const struct {
        const char *head;
        size_t n;
        swi_file_kind kind;
    } known[] = {
        {"\x93NUMPY", 6, SWI_FILE_NPY},
        {"\x1f\x8b", 2, SWI_FILE_GZIP},
        {"\x89PNG", 4, SWI_FILE_PNG},
        {"\xff\xd8\xff", 3, SWI_FILE_JPEG},
        {"PAR1", 4, SWI_FILE_PARQUET},
        {"\x89HDF", 4, SWI_FILE_HDF5},
        {"GGUF", 4, SWI_FILE_GGUF},
        {"SQLite format 3", 15, SWI_FILE_SQLITE},
        {"\x00\x00\x08\x03", 4, SWI_FILE_IDX},
        {"\x00\x00\x08\x01", 4, SWI_FILE_IDX},
        {"{\"type\":\"header\"", 16, SWI_FILE_PROFILE},
        {"{\"format\":\"stepwell ", 20, SWI_FILE_EVOLUTION},
        /* Protocol 2, and torch.save's number. */
        {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14, SWI_FILE_TORCH_PICKLE},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= known[i].n && memcmp(head, known[i].head, known[i].n) == 0)
            return known[i].kind;
    if (n >= 4 && memcmp(head, "PK\x03\x04", 4) == 0 &&
        (n >= 32 || has(head, n, ".npy") || has(head, n, "data.pkl"))) /* a name is there */
        return has(head, n, "data.pkl") ? SWI_FILE_TORCH
               : has(head, n, ".npy")   ? SWI_FILE_NPZ
                                        : SWI_FILE_ZIP;
    if (n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return SWI_FILE_PICKLE;
    /* Eight bytes of a length, and a JSON object. */
    return n >= 10 && head[8] == '{' && head[9] == '"' && memcmp(head + 5, "\0\0\0", 3) == 0
               ? SWI_FILE_SAFETENSORS
               : SWI_FILE_UNKNOWN;
}

/* ---- checksum ---------------------------------------------------------------------------- */

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The state begins at a multiple of 64 in the caller's memory, which is one of 8. */
#define STATE_ALIGN 64
_Static_assert(_Alignof(XXH3_state_t) <= STATE_ALIGN, "the state of XXH3 is aligned to 64");
_Static_assert(sizeof(XXH3_state_t) + STATE_ALIGN - _Alignof(swi_checksum) <=
                   sizeof(swi_checksum),
               "the state of XXH3 has room wherever the caller's memory begins");

static XXH3_state_t *state_of(const swi_checksum *sum)
{
    return (XXH3_state_t *)(((uintptr_t)sum + STATE_ALIGN - 1) & ~(uintptr_t)(STATE_ALIGN - 1));
}

void swi_checksum_begin(swi_checksum *sum)
{
    (void)XXH3_64bits_reset(state_of(sum));
}

void swi_checksum_add(swi_checksum *sum, const void *bytes, size_t n)
{
    if (n > 0)
        (void)XXH3_64bits_update(state_of(sum), bytes, n);
}

sw_status swi_checksum_piece(void *sum, const void *bytes, size_t at, size_t n)
{
    (void)at;
    swi_checksum_add(sum, bytes, n);
    return SW_OK;
}

uint64_t swi_checksum_end(const swi_checksum *sum)
{
    return XXH3_64bits_digest(state_of(sum));
}

uint64_t swi_checksum_of(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

uint64_t swi_sum_of(const void *bytes, size_t n, uint64_t sum)
{
    return XXH3_64bits_withSeed(bytes, n, sum);
}
