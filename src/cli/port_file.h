/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of --port-file: a line for each port that the server listens to, such as "http=8000". Scripts that start a
 * server on any free port (--http-port=0) read it. It is written beside its place and renamed, so that whoever sees
 * it sees it whole, and removed when the server stops, unless another server has put its own file there. The server
 * keeps it open and locked (flock(2)) while it lives: a file without a lock is that of a server that was killed.
 *
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct port_entry {
        const char *name; /* "http" */
        uint16_t    port; /* 0 = it does not listen; no line */
};

/* The error names the file. *ret_fd: to be kept for port_file_remove(). */
struct error *port_file_write(const char *path, const struct port_entry *entries, size_t n,
                              int *ret_fd) NODISCARD;
/* Removes the file if it is still the one that was written, and closes `fd`. */
void port_file_remove(const char *path, int fd);
/* Removes the file of a server that does not live any more. */
void port_file_remove_left(const char *path);
