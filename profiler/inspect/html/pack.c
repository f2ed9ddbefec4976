/* Run by the build: joins page.html, style.css and the scripts to the two texts that a report
 * has around its data, as C. The page's policy names the hashes of its style and of its script,
 * so that nothing else can run in it, whatever the data say.
 *
 *     pack PAGE STYLE SCRIPT... > html_page.c */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    char bytes[1 << 19];
    size_t n;
} text;

static text page, style, script, front, back;

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "pack: %s: %s\n", path, what);
    return 1;
}

/* Adds a file. ASCII only: what is not stands in it as an escape. */
static int add_file(text *to, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return complain(path, "cannot be opened");
    const size_t from = to->n;
    to->n += fread(to->bytes + to->n, 1, sizeof to->bytes - to->n, file);
    const int failed = ferror(file);
    fclose(file);
    if (failed || to->n == sizeof to->bytes)
        return complain(path, failed ? "cannot be read" : "is too long");
    for (size_t i = from; i < to->n; i++)
        if ((unsigned char)to->bytes[i] >= 127 || to->bytes[i] == '\0')
            return complain(path, "has a byte that is not ASCII");
    return 0;
}

static void add(text *to, const char *bytes, size_t n)
{
    if (n > sizeof to->bytes - to->n)
        n = sizeof to->bytes - to->n;
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
}

/* ---- SHA-256 (FIPS 180-4) ---------------------------------------------------------------- */

static uint32_t turn(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

/* The first 32 bits of the fraction of the square root (of = 2) or cube root (of = 3) of n, by
 * trying bit after bit. */
static uint32_t fraction(uint32_t n, int of)
{
    uint64_t root = 0; /* in units of 2^-32 */
    for (int bit = 36; bit >= 0; bit--) {
        const unsigned __int128 x = root | (uint64_t)1 << bit;
        const int fits = of == 2 ? x * x <= (unsigned __int128)n << 64
                                 : x * x * x <= (unsigned __int128)n << 96;
        if (fits)
            root = (uint64_t)x;
    }
    return (uint32_t)root;
}

static void hash_block(uint32_t state[8], const unsigned char *block, const uint32_t k[64])
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t t1 = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                            ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        const uint32_t t2 = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                            ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

static void base64(char *to, const unsigned char *from, size_t n)
{
    static const char digit[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t bits = (uint32_t)from[i] << 16 |
                              (i + 1 < n ? (uint32_t)from[i + 1] << 8 : 0) |
                              (i + 2 < n ? from[i + 2] : 0u);
        for (size_t c = 0; c < 4; c++)
            *to++ = i + c > n ? '=' : digit[bits >> (18 - 6 * c) & 63];
    }
    *to = '\0';
}

/* 'sha256-...' of a text, as policies name it; the text gets its padding after its end. */
static void name_hash(char out[64], text *of)
{
    uint32_t k[64], state[8];
    for (uint32_t n = 2, i = 0; i < 64; n++) {
        uint32_t d = 2;
        while (d * d <= n && n % d != 0)
            d++;
        if (d * d <= n)
            continue; /* not a prime */
        if (i < 8)
            state[i] = fraction(n, 2);
        k[i++] = fraction(n, 3);
    }
    const size_t padded = (of->n + 8) / 64 * 64 + 64;
    unsigned char *bytes = (unsigned char *)of->bytes, sum[32];
    memset(bytes + of->n, 0, padded - of->n);
    bytes[of->n] = 0x80;
    for (int i = 0; i < 8; i++)
        bytes[padded - 1 - (size_t)i] = (unsigned char)((uint64_t)of->n * 8 >> 8 * i);
    for (size_t at = 0; at < padded; at += 64)
        hash_block(state, bytes + at, k);
    for (int i = 0; i < 32; i++)
        sum[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
    memcpy(out, "'sha256-", 8);
    base64(out + 8, sum, 32);
    strcat(out, "'");
}

/* ---- the page ---------------------------------------------------------------------------- */

/* The page with its marks replaced: up to the data into `front`, the rest into `back`. */
static int fill_in(const char *path)
{
    char style_hash[64], script_hash[64];
    name_hash(style_hash, &style);
    name_hash(script_hash, &script);
    text *to = &front;
    const char *from = page.bytes, *end = page.bytes + page.n;
    int marks = 0;
    while (from < end) {
        const char *mark = strstr(from, "@@");
        const size_t n = (size_t)((mark == NULL ? end : mark) - from);
        add(to, from, n);
        if (mark == NULL)
            break;
        if (strncmp(mark, "@@style-hash@@", 14) == 0)
            add(to, style_hash, strlen(style_hash));
        else if (strncmp(mark, "@@script-hash@@", 15) == 0)
            add(to, script_hash, strlen(script_hash));
        else if (strncmp(mark, "@@style@@", 9) == 0)
            add(to, style.bytes, style.n);
        else if (strncmp(mark, "@@script@@", 10) == 0)
            add(to, script.bytes, script.n);
        else if (strncmp(mark, "@@data@@", 8) == 0)
            to = &back;
        else
            return complain(path, "has an unknown mark");
        marks++;
        from = strstr(mark + 2, "@@") + 2;
    }
    return marks == 5 ? 0 : complain(path, "lacks a mark");
}

static void print_c(const char *name, const text *t)
{
    printf("const char swi_html_%s[] =\n    \"", name);
    for (size_t i = 0; i < t->n; i++) {
        const char c = t->bytes[i];
        if (c == '\n')
            printf("\\n\"\n    \"");
        else if (c == '"' || c == '\\' || c == '?')
            printf("\\%c", c);
        else
            putchar(c);
    }
    printf("\";\nconst size_t swi_html_%s_bytes = sizeof swi_html_%s - 1;\n", name, name);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return complain("usage", "pack PAGE STYLE SCRIPT...");
    int bad = add_file(&page, argv[1]) || add_file(&style, argv[2]);
    for (int i = 3; i < argc && !bad; i++)
        bad = add_file(&script, argv[i]);
    if (!bad && strstr(script.bytes, "</script") != NULL)
        bad = complain(argv[3], "the scripts may not name their own end");
    if (bad || fill_in(argv[1]))
        return 1;
    printf("/* Made by profiler/inspect/html/pack.c. */\n#include "
           "\"profiler/inspect/html_internal.h\"\n\n");
    print_c("front", &front);
    print_c("back", &back);
    return fflush(stdout) != 0 || ferror(stdout) ? complain("output", "cannot be written") : 0;
}
