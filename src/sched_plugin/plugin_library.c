/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched_plugin/plugin_library.h"

#include "base/clock.h"
#include "base/dl.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/plugin_call.h"
#include "base/strbuf.h"
#include "sched/sched_options.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef const sched_vtbl *(*get_fn)(uint32_t host_major, uint32_t host_minor);

/* ---- search ---------------------------------------------------------------------------------- */

static struct error *find_library(const struct plugin_query *w, char **ret) {
        AUTO_CHARS  file = mem_printf("libscheduler_%s.so", w->name);
        const char *model = w->directory != NULL ? w->directory : "";
        const char *server = w->server_directory != NULL ? w->server_directory : "";
        AUTO_CHARS  version = mem_printf("%s/%lld", model, (long long)w->version);
        const char *places[] = { w->directory != NULL ? version : "", model, server };

        if (!scheduler_name_is_valid(w->name))
                return error_new(ERR_INVALID_ARG, "'%.100s' is no name of a scheduler", w->name);
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
                AUTO_CHARS path = path_join(places[i], file);

                if (*places[i] == '\0' || !file_exists(path))
                        continue;
                if (w->is_sent && places[i] != server)
                        return error_new(ERR_UNSUPPORTED,
                                         "Uploaded code is disabled: the scheduler library '%s' of "
                                         "model '%s' came with its load. Start the server with "
                                         "'--allow-uploaded-backends=true' to enable.",
                                         file, w->model);
                *ret = STEAL(path);
                return NULL;
        }
        return error_new(
                ERR_NOT_FOUND,
                "unable to find scheduler library '%s' for model '%s', searched: '%s' '%s' "
                "'%s'",
                file, w->model, places[0], places[1], places[2]);
}

struct error *plugin_library_check(const struct plugin_query *w) {
        AUTO_CHARS path = NULL;

        return find_library(w, &path);
}

/* ---- the trial ------------------------------------------------------------------------------- */

/* The same values as in schedulers/trial/trial.c. */
enum trial_stage { TRIAL_LOAD = 1, TRIAL_GET, TRIAL_INIT, TRIAL_FINI, TRIAL_ENDED };
#define TRIAL_OK 77
#define TRIAL_STAGES 3 /* the descriptor to which the program writes its stages */

static const char *const stage_names[] = {
        "its start",
        [TRIAL_LOAD] = "its constructors",
        [TRIAL_GET] = "sched_get()",
        [TRIAL_INIT] = "init()",
        [TRIAL_FINI] = "fini()",
        [TRIAL_ENDED] = "its destructors",
};

/* Looks in lib/neso/ beside the server's library (an installation), then in schedulers/trial/ (a
 * build). */
static char *find_program(void) {
        Dl_info    place;
        AUTO_CHARS directory = NULL;
        AUTO_CHARS installed = NULL;
        AUTO_CHARS built = NULL;

        if (dladdr((void *)(uintptr_t)plugin_library_open, &place) == 0)
                return NULL;
        directory = path_dirname(place.dli_fname);
        installed = path_join(directory, "neso/neso_scheduler_trial");
        built = path_join(directory, "schedulers/trial/neso_scheduler_trial");
        if (file_exists(installed))
                return STEAL(installed);
        return file_exists(built) ? STEAL(built) : NULL;
}

static void put_number(struct strbuf *to, uint32_t number) {
        strbuf_put(to, (const char *)&number, sizeof(number));
}

/* Makes a file in memory, which the program reads as its standard input. Returns -1 and sets errno
 * on failure. */
static int write_input(const struct plugin_init *init) {
        AUTO_STRBUF text = { 0 };
        int         fd = memfd_create("neso_scheduler_trial", MFD_CLOEXEC);

        put_number(&text, init->max_batch);
        put_number(&text, init->n_members);
        for (uint32_t i = 0; i < init->n_members; i++) {
                put_number(&text, init->members[i].virtual_index);
                put_number(&text, init->members[i].lo);
                put_number(&text, init->members[i].hi);
                put_number(&text, (uint32_t)strlen(init->members[i].name));
                strbuf_puts(&text, init->members[i].name);
        }
        strbuf_puts(&text, init->config_json);
        if (fd >= 0 && text.overflowed) {
                close(fd);
                errno = ENOMEM;
                return -1;
        }
        if (fd >= 0 && (write(fd, strbuf_cstr(&text), text.len) != (ssize_t)text.len ||
                        lseek(fd, 0, SEEK_SET) != 0)) {
                close(fd);
                return -1;
        }
        return fd;
}

/* The program starts with an empty signal mask: the server's threads block some signals. */
static int spawn_trial(const char *program, const char *path, int input, int stages, pid_t *ret) {
        char *const argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t)path, NULL };
        posix_spawn_file_actions_t files;
        posix_spawnattr_t          attributes;
        sigset_t                   none;
        int                        failure;

        sigemptyset(&none);
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO); /* may be TRIAL_STAGES now */
        posix_spawn_file_actions_adddup2(&files, stages, TRIAL_STAGES);
        posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
        failure = posix_spawn(ret, program, &files, &attributes, argv, environ);
        posix_spawn_file_actions_destroy(&files);
        posix_spawnattr_destroy(&attributes);
        return failure;
}

/* Reads the stages until the program has ended. Returns false after TRIAL_SECONDS. */
static bool follow_trial(int from, enum trial_stage *ret_stage) {
        uint64_t end_ns = clock_now_ns() + TRIAL_SECONDS * NS_PER_S;

        for (;;) {
                struct pollfd readable = { .fd = from, .events = POLLIN };
                uint64_t      now_ns = clock_now_ns();
                char          stage;
                ssize_t       n;

                if (now_ns >= end_ns)
                        return false;
                if (poll(&readable, 1, (int)((end_ns - now_ns) / NS_PER_MS) + 1) <= 0)
                        continue; /* timeout, or a signal */
                n = read(from, &stage, 1);
                if (n == 0 || (n < 0 && errno != EINTR))
                        return true;
                if (n == 1 && stage >= TRIAL_LOAD && stage <= TRIAL_ENDED)
                        *ret_stage = (enum trial_stage)stage;
        }
}

static struct error *judge_trial(const char *path, pid_t child, int from) {
        enum trial_stage stage = 0;
        bool             has_ended = follow_trial(from, &stage);
        int              status = 0;
        pid_t            ended;

        if (!has_ended)
                kill(child, SIGKILL);
        do
                ended = waitpid(child, &status, 0);
        while (ended < 0 && errno == EINTR);
        if (!has_ended)
                return error_new(ERR_INTERNAL,
                                 "scheduler library '%s' did not return from %s within %d seconds",
                                 path, stage_names[stage], TRIAL_SECONDS);
        if (ended == child && WIFSIGNALED(status))
                return error_new(ERR_INTERNAL, "scheduler library '%s' crashed in %s: %s", path,
                                 stage_names[stage], strsignal(WTERMSIG(status)));
        if (ended == child && WEXITSTATUS(status) != TRIAL_OK)
                return error_new(ERR_INTERNAL,
                                 "scheduler library '%s' ended the process in %s, exit code %d",
                                 path, stage_names[stage], WEXITSTATUS(status));
        return NULL;
}

static struct error *run_program(const char *program, const char *path, int input) {
        struct error *err;
        int           ends[2], failure;
        pid_t         child;

        if (pipe2(ends, O_CLOEXEC) != 0)
                return error_errno(errno, "unable to try scheduler library '%s'", path);
        failure = spawn_trial(program, path, input, ends[1], &child);
        close(ends[1]);
        err = failure != 0 ? error_errno(failure, "unable to run '%s'", program)
                           : judge_trial(path, child, ends[0]);
        close(ends[0]);
        return err;
}

static struct error *run_trial(const char *path, const struct plugin_init *init) {
        AUTO_CHARS    program = find_program();
        struct error *err;
        int           input;

        if (program == NULL) {
                log_warn("scheduler library '%s' is loaded untried: there is no "
                         "neso_scheduler_trial beside the server's library",
                         path);
                return NULL;
        }
        input = write_input(init);
        if (input < 0)
                return error_errno(errno, "unable to try scheduler library '%s'", path);
        err = run_program(program, path, input);
        close(input);
        return err;
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct error *get_functions(const struct plugin_query *w, struct dl *library,
                                   const sched_vtbl **ret) {
        const struct plugin_place place = { dl_path(library), w->model, w->version };
        const sched_vtbl         *f;
        dl_symbol_fn              get;

        TRY(dl_get(library, "sched_get", &get));
        {
                PLUGIN_CALL(&place, "sched_get");

                f = ((get_fn)get)(SCHED_API_VERSION_MAJOR, SCHED_API_VERSION_MINOR);
        }
        if (f == NULL)
                return error_new(ERR_UNSUPPORTED,
                                 "scheduler library '%s' does not support version %d.%d of the "
                                 "scheduler interface, which this server has",
                                 dl_path(library), SCHED_API_VERSION_MAJOR,
                                 SCHED_API_VERSION_MINOR);
        if (f->init == NULL || f->on_enqueue == NULL || f->on_member_free == NULL ||
            f->on_timer == NULL || f->on_cancel == NULL || f->on_drain == NULL || f->fini == NULL)
                return error_new(ERR_INTERNAL,
                                 "scheduler library '%s' lacks one of the functions of sched_vtbl",
                                 dl_path(library));
        *ret = f;
        return NULL;
}

struct error *plugin_library_open(const struct plugin_query *w, struct dl **ret,
                                  const sched_vtbl **ret_functions) {
        AUTO_CHARS path = NULL;
        struct dl *library;

        TRY(find_library(w, &path));
        TRY(run_trial(path, w->init));
        TRY(dl_open(path, &library));
        TRY_OR(get_functions(w, library, ret_functions), dl_close(library));
        *ret = library;
        return NULL;
}
