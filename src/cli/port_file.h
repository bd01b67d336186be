/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of --port-file: a line for each port that the server listens to, such as "http=8000". Scripts that start a
 * server on any free port (--http-port=0) read it. It is written beside its place and renamed, so that whoever sees
 * it sees it whole, and removed when the server stops.
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

/* The error names the file. */
struct error *port_file_write(const char *path, const struct port_entry *entries, size_t n)
        NODISCARD;
void port_file_remove(const char *path);
