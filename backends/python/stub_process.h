/* SPDX-License-Identifier: BSD-3-Clause */
/* A Python process: its start, its supervision, its end.
 *
 * It is started with posix_spawn, in a process group of its own, with the server's standard
 * streams, a control socket, the shared memory and no other descriptor. No shell is involved. The
 * process ends itself and its group when the other end of the socket is closed, so it does not
 * outlive a server that was killed.
 *
 * One thread of the backend waits for the ends of all processes (struct reaper).
 *
 * Ownership.  A struct stub_process belongs to its user, and must exist until the process has
 * ended.
 * Threads.  Start, kill and done: the owner. on_end is called once, by the reaper's thread.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct reaper;

TRITONSERVER_Error *reaper_new(struct reaper **ret);
void                reaper_free(struct reaper *reaper); /* after the end of all processes */

struct stub_process {
        pid_t pid;
        int   pidfd;
        int   control; /* the server's end of the socket */
        int   status;  /* from waitid(): si_code in the upper 16 bits, si_status in the lower */
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
/* Kills the whole group. Has no effect after its end. */
void stub_process_kill(struct stub_process *process);
/* Closes the remaining descriptors; called after on_end. */
void stub_process_done(struct stub_process *process);
/* Reads what the process wrote to the socket before it attached to the memory: the reason why it
 * cannot start. Returns the number of bytes, 0 when there are none. */
size_t stub_process_read_text(struct stub_process *process, char *text, size_t n_bytes);
/* Returns true when a signal ended the process, no matter where the signal came from. */
bool stub_process_was_killed(const struct stub_process *process);
/* Prints "exited with status 1" or "killed by signal 9". */
void stub_process_print_end(const struct stub_process *process, char *text, size_t n_bytes);
