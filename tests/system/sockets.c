/* A transport module over sockets of one machine, for tests: WORLD_SIZE ranks, of which this is
 * RANK, meet in the folder SOCKETS. SOCKETS_SIZE: what it says that there are, in the place of
 * WORLD_SIZE; SOCKETS_VERSION: of this rank, in its first exchange. A rank that aborts kills
 * the others, as mpirun does. Each that has met the others leaves a file met0, met1, ... there.
 */
#include "runtime/transport/module.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, LEFT = 1000 };

typedef struct {
    int data, signs; /* sockets */
    pid_t pid;
    const char *out; /* of the exchange, and how much of it went */
    char *in;
    size_t to_send, to_get, sent, got;
} peer;

typedef struct {
    int rank, channel;
    pid_t pid;
} greeting;

static peer peers[MOST];
static sw_transport table;

static void begin(int k, const char *out, size_t to_send, char *in, size_t to_get)
{
    peer *p = &peers[k];
    p->out = out, p->in = in, p->to_send = to_send, p->to_get = to_get;
    p->sent = p->got = 0;
    if (k != table.rank)
        return;
    memcpy(in, out, to_send);
    p->sent = p->got = to_send;
}

static int gather(const void *from, void *to, size_t bytes)
{
    static bool greeted;
    static char own[4096];
    const char *version = getenv("SOCKETS_VERSION");
    if (!greeted && version != NULL && bytes <= sizeof own) {
        memcpy(own, from, bytes);
        strcpy(own, version);
        from = own;
    }
    greeted = true;
    for (int k = 0; k < table.ranks; k++)
        begin(k, from, bytes, (char *)to + (size_t)k * bytes, bytes);
    return 0;
}

static int trade(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes)
{
    const char *from = out;
    char *to = in;
    for (int k = 0; k < table.ranks; k++) {
        begin(k, from, out_bytes[k], to, in_bytes[k]);
        from += out_bytes[k];
        to += in_bytes[k];
    }
    return 0;
}

/* Adds what went through to *at; 0, or that the rank has left. */
static int moved(ssize_t n, size_t *at, int rank)
{
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return LEFT + rank;
    *at += n > 0 ? (size_t)n : 0;
    return 0;
}

static int is_done(int *done)
{
    *done = 1;
    for (int k = 0; k < table.ranks; k++) {
        peer *p = &peers[k];
        int code = 0;
        if (p->sent < p->to_send)
            code = moved(send(p->data, p->out + p->sent, p->to_send - p->sent, MSG_NOSIGNAL),
                         &p->sent, k);
        if (code == 0 && p->got < p->to_get)
            code = moved(recv(p->data, p->in + p->got, p->to_get - p->got, 0), &p->got, k);
        if (code != 0)
            return code;
        *done &= p->sent == p->to_send && p->got == p->to_get;
    }
    return 0;
}

static int sign(int *sent)
{
    const int next = (table.rank + 1) % table.ranks;
    *sent = send(peers[next].signs, "", 1, MSG_NOSIGNAL) == 1;
    return 0;
}

static int signs(uint64_t *came)
{
    char bytes[64];
    const int before = (table.rank + table.ranks - 1) % table.ranks;
    const ssize_t n = recv(peers[before].signs, bytes, sizeof bytes, 0);
    *came = n > 0 ? (uint64_t)n : 0;
    return 0;
}

static const char *why_of(int code)
{
    static char text[60];
    snprintf(text, sizeof text, "rank %d has left", code - LEFT);
    return text;
}

/* The first one that aborts ends the others. They stop first: none sees that another has left,
 * and says so. */
static void end_all(int status)
{
    const int numbers[] = {SIGSTOP, SIGKILL};
    char path[300];
    snprintf(path, sizeof path, "%s/aborted", getenv("SOCKETS"));
    if (open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0)
        sleep(2); /* till it comes */
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < table.ranks; k++)
            if (k != table.rank)
                kill(peers[k].pid, numbers[i]);
    _exit(status);
}

static void leave(void)
{
    for (int k = 0; k < table.ranks; k++)
        if (k != table.rank) {
            close(peers[k].data);
            close(peers[k].signs);
        }
}

static struct sockaddr_un address(int rank)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%.90s/%d", getenv("SOCKETS"), rank);
    return a;
}

static void keep(int fd, const greeting *of)
{
    peers[of->rank].pid = of->pid;
    *(of->channel == 0 ? &peers[of->rank].data : &peers[of->rank].signs) = fd;
}

/* Two sockets to each rank: those below are called, those above call. */
static int meet(void)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    struct sockaddr_un here = address(table.rank);
    const int door = socket(AF_UNIX, SOCK_STREAM, 0);
    greeting own = {table.rank, 0, getpid()}, other;
    if (bind(door, (struct sockaddr *)&here, sizeof here) != 0 || listen(door, 2 * MOST) != 0)
        return -1;
    for (int k = 0; k < 2 * table.rank; k++) {
        struct sockaddr_un there = address(k / 2);
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        int tries = 10000;
        while (connect(fd, (struct sockaddr *)&there, sizeof there) != 0)
            if (--tries == 0 || nanosleep(&pause, NULL) != 0)
                return -1;
        own.channel = k % 2;
        if (write(fd, &own, sizeof own) != sizeof own ||
            read(fd, &other, sizeof other) != sizeof other)
            return -1;
        other.channel = k % 2;
        keep(fd, &other);
    }
    for (int k = 0; k < 2 * (table.ranks - 1 - table.rank); k++) {
        const int fd = accept(door, NULL, NULL);
        if (fd < 0 || read(fd, &other, sizeof other) != sizeof other ||
            write(fd, &own, sizeof own) != sizeof own)
            return -1;
        keep(fd, &other);
    }
    close(door);
    for (int k = 0; k < table.ranks; k++)
        if (k != table.rank && (fcntl(peers[k].data, F_SETFL, O_NONBLOCK) != 0 ||
                                fcntl(peers[k].signs, F_SETFL, O_NONBLOCK) != 0))
            return -1;
    snprintf(here.sun_path, sizeof here.sun_path, "%.90s/met%d", getenv("SOCKETS"), table.rank);
    close(open(here.sun_path, O_CREAT | O_WRONLY, 0600));
    return 0;
}

const sw_transport *sw_transport_open(char *why, size_t room);

__attribute__((visibility("default"))) const sw_transport *sw_transport_open(char *why,
                                                                             size_t room)
{
    const char *size =
        getenv("SOCKETS_SIZE") != NULL ? getenv("SOCKETS_SIZE") : getenv("WORLD_SIZE");
    table = (sw_transport){SW_TRANSPORT_ABI,
                           sizeof table,
                           "sockets",
                           atoi(getenv("RANK")),
                           atoi(size),
                           gather,
                           trade,
                           is_done,
                           sign,
                           signs,
                           why_of,
                           end_all,
                           leave};
    if (getenv("SOCKETS_SIZE") == NULL && meet() != 0) {
        snprintf(why, room, "%s", strerror(errno));
        return NULL;
    }
    return &table;
}
