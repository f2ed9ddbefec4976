/* See well_formed.h. */
#include "tests/system/well_formed.h"
#include "tests/support/suite.h"
#include "tests/system/program.h"

const char *malformed(const char *text, const char *begins)
{
    char open[32][32];
    int depth = 0;
    const char *at = text;
    if (strncmp(at, begins, strlen(begins)) != 0)
        return at;
    for (at = strchr(at, '\n') + 1; *at != '\0';) {
        if (*at == '&' && strncmp(at, "&amp;", 5) != 0 && strncmp(at, "&#10;", 5) != 0 &&
            strncmp(at, "&lt;", 4) != 0 && strncmp(at, "&gt;", 4) != 0)
            return at;
        if ((unsigned char)*at > 0x7e || ((unsigned char)*at < 0x20 && *at != '\n') ||
            *at == '>' || (depth == 0 && *at != '<' && *at != '\n'))
            return at;
        if (*at++ != '<')
            continue;
        const bool closes = *at == '/';
        at += closes;
        const size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz123456");
        if (n == 0 || n >= sizeof open[0] || depth == 32)
            return at;
        if (closes) {
            if (depth == 0 || strncmp(open[--depth], at, n) != 0 || open[depth][n] != '\0' ||
                at[n] != '>')
                return at;
            at += n + 1;
            continue;
        }
        memcpy(open[depth], at, n);
        open[depth++][n] = '\0';
        for (at += n; *at == ' ';) {
            at += 1 + strcspn(at + 1, "=<>&\"");
            if (at[0] != '=' || at[1] != '"')
                return at;
            at += 2 + strcspn(at + 2, "<&\"");
            if (*at++ != '"')
                return at;
        }
        if (*at == '/') {
            depth--;
            at++;
        }
        if (*at++ != '>')
            return at;
    }
    return depth == 0 ? NULL : at;
}

char *text_of(const char *path)
{
    size_t n = 0;
    unsigned char *bytes = file_read(path, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    char *text = malloc(n + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    free(bytes);
    sw_after(free, text);
    return text;
}
