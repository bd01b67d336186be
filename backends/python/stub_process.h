/* SPDX-License-Identifier: BSD-3-Clause */
/* A Python process: started, watched, ended.
 *
 * It is started with posix_spawn, in a process group of its own, with the server's standard streams,
 * a control socket, the shared memory and no other descriptor. No shell is involved. The process
 * ends itself and its group when the socket's other end is closed, so it does not outlive a server
 * that was killed.
 *
 * One thread of the backend waits for the ends of all processes (struct reaper).
 *
 * Ownership.  A struct stub_process belongs to its user, and must stay until it has ended.
 * Threads.  Start, kill and done: the owner. on_end comes from the reaper's thread, once.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reaper;

TRITONSERVER_Error *reaper_new(struct reaper **ret);
void                reaper_free(struct reaper *reaper); /* no process is running any more */

struct stub_process {
        pid_t pid;
        int   pidfd;
        int   control; /* the server's end of the socket */
        int   status;  /* as of waitid(): si_code in the upper 16 bits, si_status in the lower */
        void (*on_end)(struct stub_process *process);
};

struct stub_process_options {
        const char  *program;   /* found in PATH of `environment` if it has no slash */
        char *const *arguments; /* NULL-terminated, with argv[0] */
        char *const *environment;
        int          memory_fd;
};

TRITONSERVER_Error *stub_process_start(struct stub_process *process, struct reaper *reaper,
                                       const struct stub_process_options *options);
/* The whole group. Has no effect on one that has ended. */
void stub_process_kill(struct stub_process *process);
/* Closes what is left; after on_end. */
void stub_process_done(struct stub_process *process);
/* What the process wrote to the socket before it could attach to the memory: why it cannot start.
 * The number of bytes, 0 when there is nothing. */
size_t stub_process_read_text(struct stub_process *process, char *text, size_t n_bytes);
/* By a signal, whoever sent it. */
bool stub_process_was_killed(const struct stub_process *process);
/* "exited with status 1", "killed by signal 9". */
void stub_process_print_end(const struct stub_process *process, char *text, size_t n_bytes);
