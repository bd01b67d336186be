/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub_process.h"

#include "kit/scratch.h"
#include "python/shm_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOWEST_FD 16 /* higher than the descriptors with a fixed meaning in the process */

struct reaper {
        int       epoll;
        int       stop;
        pthread_t thread;
};

/* ---- the reaper ------------------------------------------------------------------------------ */

static void reap(struct stub_process *process) {
        siginfo_t end = { 0 };

        /* Processes that this one started and left behind are ended with it. The process group's
         * number cannot be reused before waitid() below. */
        (void)kill(-process->pid, SIGKILL);
        if (waitid(P_PIDFD, (id_t)process->pidfd, &end, WEXITED) != 0)
                end.si_code = 0; /* other code in the server has waited for all children */
        process->status = end.si_code << 16 | (end.si_status & 0xffff);
        process->on_end(process);
}

static void *reap_all(void *userp) {
        struct reaper     *reaper = userp;
        struct epoll_event event;

        (void)pthread_setname_np(pthread_self(), "python reaper");
        for (;;) {
                if (epoll_wait(reaper->epoll, &event, 1, -1) != 1)
                        continue;
                if (event.data.ptr == NULL)
                        return NULL;
                reap(event.data.ptr);
        }
}

/* Reports a descriptor once, so nothing has to be taken back before its process is freed. */
static TRITONSERVER_Error *watch(const struct reaper *reaper, int fd, void *userp) {
        struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = userp };

        if (epoll_ctl(reaper->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to watch a process: %s",
                                 strerror(errno));
        return NULL;
}

TRITONSERVER_Error *reaper_new(struct reaper **ret) {
        struct reaper      *reaper = kit_alloc_array(1, sizeof(*reaper));
        TRITONSERVER_Error *err;

        if (reaper == NULL)
                return kit_error_no_memory(sizeof(*reaper), "the watch on processes");
        reaper->epoll = epoll_create1(EPOLL_CLOEXEC);
        reaper->stop = eventfd(0, EFD_CLOEXEC);
        err = watch(reaper, reaper->stop, NULL);
        if (err == NULL && pthread_create(&reaper->thread, NULL, reap_all, reaper) != 0)
                err = kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to start a thread: %s",
                                strerror(errno));
        if (err != NULL) {
                (void)close(reaper->epoll);
                (void)close(reaper->stop);
                free(reaper);
                return err;
        }
        *ret = reaper;
        return NULL;
}

void reaper_free(struct reaper *reaper) {
        if (reaper == NULL)
                return;
        if (write(reaper->stop, &(uint64_t){ 1 }, sizeof(uint64_t)) == (ssize_t)sizeof(uint64_t))
                (void)pthread_join(reaper->thread, NULL);
        (void)close(reaper->epoll);
        (void)close(reaper->stop);
        free(reaper);
}

/* ---- processes ------------------------------------------------------------------------------- */

static int move_up(int fd) {
        int moved = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);

        (void)close(fd);
        return moved;
}

static int open_pidfd(pid_t pid) {
        return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Sets the descriptors, the process group and the signals of the new process. */
static int describe_process(posix_spawn_file_actions_t *files, posix_spawnattr_t *attributes,
                            int control, int memory_fd) {
        sigset_t all, none;
        int      rc = posix_spawn_file_actions_adddup2(files, control, SHM_CONTROL_FD);

        (void)sigfillset(&all);
        (void)sigemptyset(&none);
        if (rc == 0)
                rc = posix_spawn_file_actions_adddup2(files, memory_fd, SHM_MEMORY_FD);
        if (rc == 0)
                rc = posix_spawn_file_actions_addclosefrom_np(files, SHM_MEMORY_FD + 1);
        if (rc == 0)
                rc = posix_spawnattr_setpgroup(attributes, 0);
        if (rc == 0)
                rc = posix_spawnattr_setsigmask(attributes, &none);
        if (rc == 0)
                rc = posix_spawnattr_setsigdefault(attributes, &all);
        if (rc == 0)
                rc = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP |
                                                                  POSIX_SPAWN_SETSIGMASK |
                                                                  POSIX_SPAWN_SETSIGDEF);
        return rc;
}

static int spawn_stub(struct stub_process *process, const struct stub_process_options *options,
                      int control) {
        posix_spawn_file_actions_t files;
        posix_spawnattr_t          attributes;
        int                        rc;

        if (posix_spawn_file_actions_init(&files) != 0)
                return ENOMEM;
        if (posix_spawnattr_init(&attributes) != 0) {
                (void)posix_spawn_file_actions_destroy(&files);
                return ENOMEM;
        }
        rc = describe_process(&files, &attributes, control, options->memory_fd);
        if (rc == 0)
                rc = posix_spawn(&process->pid, options->program, &files, &attributes,
                                 options->arguments, options->environment);
        (void)posix_spawnattr_destroy(&attributes);
        (void)posix_spawn_file_actions_destroy(&files);
        return rc;
}

TRITONSERVER_Error *stub_process_start(struct stub_process *process, struct reaper *reaper,
                                       const struct stub_process_options *options) {
        TRITONSERVER_Error *err;
        int                 sockets[2], rc;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to create a socket: %s",
                                 strerror(errno));
        sockets[1] = move_up(sockets[1]);
        rc = spawn_stub(process, options, sockets[1]);
        (void)close(sockets[1]);
        process->control = sockets[0];
        if (rc != 0) {
                (void)close(sockets[0]);
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to start '%s': %s",
                                 options->program, strerror(rc));
        }
        process->pidfd = open_pidfd(process->pid);
        err = process->pidfd >= 0
                      ? watch(reaper, process->pidfd, process)
                      : kit_error(TRITONSERVER_ERROR_INTERNAL, "unable to watch process %d: %s",
                                  process->pid, strerror(errno));
        if (err != NULL) {
                (void)kill(-process->pid, SIGKILL);
                (void)waitpid(process->pid, NULL, 0);
                stub_process_done(process);
        }
        return err;
}

void stub_process_kill(struct stub_process *process) {
        /* The descriptor denotes this very process, even after its number was reused. */
        if (syscall(SYS_pidfd_send_signal, process->pidfd, 0, NULL, 0) == 0)
                (void)kill(-process->pid, SIGKILL);
        (void)syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
}

void stub_process_done(struct stub_process *process) {
        if (process->pidfd >= 0)
                (void)close(process->pidfd);
        (void)close(process->control);
}

size_t stub_process_read_text(struct stub_process *process, char *text, size_t n_bytes) {
        ssize_t n = recv(process->control, text, n_bytes - 1, MSG_DONTWAIT);

        text[n > 0 ? n : 0] = '\0';
        return n > 0 ? (size_t)n : 0;
}

bool stub_process_was_killed(const struct stub_process *process) {
        int code = process->status >> 16;

        return code == CLD_KILLED || code == CLD_DUMPED;
}

void stub_process_print_end(const struct stub_process *process, char *text, size_t n_bytes) {
        int code = process->status >> 16, status = process->status & 0xffff;

        if (code == CLD_EXITED)
                (void)snprintf(text, n_bytes, "exited with status %d", status);
        else if (code == 0)
                (void)snprintf(text, n_bytes, "ended");
        else
                (void)snprintf(text, n_bytes, "killed by signal %d", status);
}
