/* The transport by MPI 3.1: compiled once for each MPI, with its mpicc, into a module. */
#include "runtime/transport/module.h"
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SIGN_OF_LIFE = 1 }; /* the tag */

static MPI_Comm comm;
static MPI_Request exchange = MPI_REQUEST_NULL, sign_left = MPI_REQUEST_NULL;
static int ours; /* MPI was begun here, and is ended here */
static char name[MPI_MAX_LIBRARY_VERSION_STRING + 1];

static int gather(const void *mine, void *all, size_t bytes)
{
    return MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm,
                          &exchange);
}

/* MPI wants them as int, with the places where they begin. */
static int trade(const void *out, const size_t *out_bytes, void *in, const size_t *in_bytes)
{
    static int n[2][SW_TRANSPORT_RANKS], at[2][SW_TRANSPORT_RANKS];
    const size_t *const bytes[2] = {out_bytes, in_bytes};
    int ranks;
    MPI_Comm_size(comm, &ranks);
    for (int way = 0; way < 2; way++) {
        int begin = 0;
        for (int k = 0; k < ranks; k++) {
            n[way][k] = (int)bytes[way][k];
            at[way][k] = begin;
            begin += n[way][k];
        }
    }
    return MPI_Ialltoallv(out, n[0], at[0], MPI_BYTE, in, n[1], at[1], MPI_BYTE, comm,
                          &exchange);
}

static int is_done(int *done)
{
    return MPI_Test(&exchange, done, MPI_STATUS_IGNORE);
}

static int neighbour(int by)
{
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    return (rank + by + ranks) % ranks;
}

static int sign(int *sent)
{
    static const char byte = 1;
    const int code = MPI_Test(&sign_left, sent, MPI_STATUS_IGNORE); /* of none: it has left */
    return code != MPI_SUCCESS || !*sent
               ? code
               : MPI_Isend(&byte, 1, MPI_BYTE, neighbour(1), SIGN_OF_LIFE, comm, &sign_left);
}

static int signs(uint64_t *came)
{
    int code = MPI_SUCCESS, there = 1;
    char byte;
    for (*came = 0; code == MPI_SUCCESS; ++*came) {
        code = MPI_Iprobe(neighbour(-1), SIGN_OF_LIFE, comm, &there, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || !there)
            break;
        code =
            MPI_Recv(&byte, 1, MPI_BYTE, neighbour(-1), SIGN_OF_LIFE, comm, MPI_STATUS_IGNORE);
    }
    return code;
}

static const char *why_of(int code)
{
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "MPI's error %d", code);
    return text;
}

static void end_all(int status)
{
    MPI_Abort(comm, status);
}

static void leave(void)
{
    MPI_Wait(&sign_left, MPI_STATUS_IGNORE);
    MPI_Comm_free(&comm);
    if (ours)
        MPI_Finalize();
}

/* An MPI may take signals that the program answers (UCX takes SIGHUP). */
static int begin(void)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};
    enum { N = sizeof numbers / sizeof *numbers };
    struct sigaction before[N];
    int there, given;
    for (int i = 0; i < N; i++)
        sigaction(numbers[i], NULL, &before[i]);
    int code = MPI_Initialized(&there);
    if (code == MPI_SUCCESS && !there) {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
        ours = code == MPI_SUCCESS;
    }
    for (int i = 0; i < N; i++)
        sigaction(numbers[i], &before[i], NULL);
    return code;
}

const sw_transport *sw_transport_open(char *why, size_t room);

__attribute__((visibility("default"))) const sw_transport *sw_transport_open(char *why,
                                                                             size_t room)
{
    static sw_transport table = {.abi = SW_TRANSPORT_ABI,
                                 .size = sizeof table,
                                 .name = name,
                                 .gather = gather,
                                 .trade = trade,
                                 .done = is_done,
                                 .sign = sign,
                                 .signs = signs,
                                 .why = why_of,
                                 .abort = end_all,
                                 .close = leave};
    int length = 0;
    int code = begin();
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS)
        code = MPI_Get_library_version(name, &length);
    if (code != MPI_SUCCESS) {
        snprintf(why, room, "MPI's error %d", code);
        return NULL;
    }
    name[strcspn(name, ",\n")] = '\0'; /* the first of its lines */
    name[strcspn(name, "\t")] = ' ';
    MPI_Comm_rank(comm, &table.rank);
    MPI_Comm_size(comm, &table.ranks);
    return &table;
}
