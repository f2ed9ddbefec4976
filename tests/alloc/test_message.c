/* Texts for people: as snprintf, but sizes have separators. */
#include "alloc/base/message.h"
#include "tests/support/suite.h"
#include <inttypes.h>

SW_TESTS("messages")

#define SAYS(wanted, ...)                                                                      \
    do {                                                                                       \
        char text[200];                                                                        \
        const int n = sw_message(text, sizeof text, __VA_ARGS__);                              \
        SW_CHECK(strcmp(text, wanted) == 0 && n == (int)strlen(wanted), "'%s' is not '%s'",    \
                 text, wanted);                                                                \
    } while (0)

SW_TEST("sizes have separators")
{
    SAYS("0 and 999 and 1,000", "%zu and %zu and %zu", (size_t)0, (size_t)999, (size_t)1000);
    SAYS("18,446,744,073,709,551,615", "%zu", (size_t)UINT64_MAX);
    SAYS("12,345 bytes of 67890", "%" PRIu64 " bytes of %" PRIu64, UINT64_C(12345),
         UINT64_C(67890));
    SAYS("12,345 bytes", "%u bytes", 12345u);
    SAYS("12,345 bytes", "%llu bytes", 12345ull);
    SAYS("3,073 bytes and -3073 bytes", "%d bytes and %d bytes", 3073, -3073);
    SAYS("3,073 bytes, 3073 rows", "%lld bytes, %lld rows", 3073ll, 3073ll);
    SAYS("12345 steps", "%llu steps", 12345ull);
    SAYS("   12345", "%8zu", (size_t)12345); /* a column has its own rule */
    char digits[32];
    CU_ASSERT_STRING_EQUAL(sw_digits(digits, 1234567), "1,234,567");
}

SW_TEST("all else is as snprintf has it")
{
    char wanted[200];
    snprintf(wanted, sizeof wanted, "%d %5d %-5d| %i %ld %lld %x %#x %c %s %.2s %*s %.*s %5.1f",
             -12345, 7, 7, 1, -9L, -99LL, 255u, 255u, 'c', "text", "text", 6, "right", 3,
             "precise", 2.25);
    SAYS(wanted, "%d %5d %-5d| %i %ld %lld %x %#x %c %s %.2s %*s %.*s %5.1f", -12345, 7, 7, 1,
         -9L, -99LL, 255u, 255u, 'c', "text", "text", 6, "right", 3, "precise", 2.25);
    snprintf(wanted, sizeof wanted, "%g %.9g %e %p %%", 1e-7, 0.1, 12.5, (void *)wanted);
    SAYS(wanted, "%g %.9g %e %p %%", 1e-7, 0.1, 12.5, (void *)wanted);
    SAYS("2.5 % of 1,234,567 bytes", "%.1f %% of %zu bytes", 2.5, (size_t)1234567);
}

/* Room for n bytes: the first n - 1 characters, the length of all, nothing past them. */
SW_TEST("what has no room is cut")
{
    static const char whole[] = "needs 1,234,567 bytes; 42 are free: text";
    for (size_t room = 0; room <= sizeof whole + 1; room++) {
        char text[sizeof whole + 8];
        memset(text, '#', sizeof text);
        const int n = sw_message(text, room, "needs %zu bytes; %d are free: %s",
                                 (size_t)1234567, 42, "text");
        CU_ASSERT_EQUAL(n, (int)sizeof whole - 1);
        const size_t kept = room == 0                     ? 0
                            : room - 1 < sizeof whole - 1 ? room - 1
                                                          : sizeof whole - 1;
        SW_CHECK(memcmp(text, whole, kept) == 0 && (room == 0 || text[kept] == '\0') &&
                     text[room > kept + 1 ? kept + 1 : room] == '#',
                 "room %zu: '%.*s'", room, (int)sizeof text, text);
    }
}
