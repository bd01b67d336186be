/* SPDX-License-Identifier: BSD-3-Clause */
/* neso_scheduler_trial LIBRARY: opens a scheduler library, calls init() and fini(), and ends. The server
 * runs this program before it loads the library itself, so that a crash, a hang or an exit happens here.
 *
 *   standard input   arguments of init(): uint32_t max_batch, n_members; for each member uint32_t
 *                    virtual_index, lo, hi, the length of its name, and the name; then the
 *                    configuration
 *   descriptor 3     one byte before each stage, see enum stage
 *   exit code        TRIAL_OK when the program reached its end. It also ends early with TRIAL_OK when
 *                    the library has an error without a crash (it cannot be loaded, init() fails):
 *                    the server finds that error itself.
 */
#include "triton/core/neso_scheduler.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The same values as in src/sched_plugin/plugin_library.c. */
enum stage { TRIAL_LOAD = 1, TRIAL_GET, TRIAL_INIT, TRIAL_FINI, TRIAL_ENDED };
#define TRIAL_OK 77
#define STAGES 3

#define MAX_INPUT (256u << 20)

typedef const sched_vtbl *(*get_fn)(uint32_t host_major, uint32_t host_minor);

struct sched_host {
        char nothing;
};

/* ---- a host without items -------------------------------------------------------------------- */

static uint64_t now_ns(sched_host *host) {
        struct timespec now;

        (void)host;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int dispatch(sched_host *host, uint32_t member, const uint64_t *ids, uint32_t n) {
        (void)host;
        (void)member;
        (void)ids;
        (void)n;
        return ENOENT;
}

static int dispatch_rows(sched_host *host, uint32_t member, const uint64_t *ids,
                         const uint32_t *first, const uint32_t *count, uint32_t n) {
        (void)first;
        (void)count;
        return dispatch(host, member, ids, n);
}

static int reject(sched_host *host, uint64_t id, int code, const char *msg) {
        (void)code;
        (void)msg;
        return dispatch(host, 0, &id, 1);
}

static void set_timer(sched_host *host, uint64_t at_ns) {
        (void)host;
        (void)at_ns;
}

static void write_log(sched_host *host, int level, const char *msg) {
        (void)host;
        (void)level;
        (void)msg;
}

static void count(sched_host *host, const char *metric, double add) {
        (void)host;
        (void)metric;
        (void)add;
}

/* ---- arguments of init() --------------------------------------------------------------------- */

struct input {
        char  *bytes; /* owned; a NUL follows */
        size_t len, at;
};

static bool read_all(struct input *in) {
        size_t cap = 0;

        for (;;) {
                size_t got;

                if (in->len + 1 >= cap) {
                        cap = cap * 2 + 65536;
                        in->bytes = cap <= MAX_INPUT ? realloc(in->bytes, cap) : NULL;
                        if (in->bytes == NULL)
                                return false;
                }
                got = fread(in->bytes + in->len, 1, cap - in->len - 1, stdin);
                if (got == 0)
                        break;
                in->len += got;
        }
        in->bytes[in->len] = '\0';
        return !ferror(stdin);
}

static bool take_number(struct input *in, uint32_t *ret) {
        if (in->len - in->at < sizeof(*ret))
                return false;
        memcpy(ret, in->bytes + in->at, sizeof(*ret));
        in->at += sizeof(*ret);
        return true;
}

static bool take_member(struct input *in, uint32_t id, sched_member *ret) {
        uint32_t len;

        *ret = (sched_member){ .id = id };
        if (!take_number(in, &ret->virtual_index) || !take_number(in, &ret->lo) ||
            !take_number(in, &ret->hi) || !take_number(in, &len) || in->len - in->at < len)
                return false;
        ret->name = strndup(in->bytes + in->at, len);
        in->at += len;
        return ret->name != NULL;
}

static sched_member *take_members(struct input *in, uint32_t *ret_n) {
        sched_member *members;

        if (!take_number(in, ret_n) || *ret_n > in->len)
                return NULL;
        members = calloc((size_t)*ret_n + 1, sizeof(*members));
        for (uint32_t i = 0; members != NULL && i < *ret_n; i++)
                if (!take_member(in, i, &members[i]))
                        return NULL; /* the process ends now, so nothing is freed */
        return members;
}

/* ---- the trial ------------------------------------------------------------------------------- */

static void report_stage(enum stage stage) {
        char    byte = (char)stage;
        ssize_t written = write(STAGES, &byte, 1);

        (void)written; /* the server sees that this byte is missing */
}

static void try_library(const char *path, struct input *in) {
        static const sched_host_ops ops = { now_ns,    dispatch,  dispatch_rows, reject,
                                            set_timer, write_log, count };
        struct sched_host           host = { 0 };
        uint32_t                    max_batch = 0, n_members = 0;
        const sched_vtbl           *functions;
        sched_member               *members;
        void                       *library, *symbol, *state = NULL;
        get_fn                      get;

        if (!read_all(in) || !take_number(in, &max_batch) ||
            (members = take_members(in, &n_members)) == NULL)
                return;
        report_stage(TRIAL_LOAD);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        symbol = library != NULL ? dlsym(library, "sched_get") : NULL;
        if (symbol == NULL)
                return;
        memcpy(&get, &symbol, sizeof(get));
        report_stage(TRIAL_GET);
        functions = get(SCHED_API_VERSION_MAJOR, SCHED_API_VERSION_MINOR);
        if (functions == NULL || functions->init == NULL || functions->fini == NULL)
                return;
        report_stage(TRIAL_INIT);
        if (functions->init(&state, &host, &ops, in->bytes + in->at, members, n_members,
                            max_batch) != 0)
                return;
        report_stage(TRIAL_FINI);
        functions->fini(state);
        report_stage(TRIAL_ENDED);
        dlclose(library);
}

int main(int argc, char **argv) {
        struct input in = { 0 };

        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        if (argc == 2)
                try_library(argv[1], &in);
        _exit(TRIAL_OK);
}
