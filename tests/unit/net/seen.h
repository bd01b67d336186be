/* SPDX-License-Identifier: BSD-3-Clause */
/* What the callbacks of a server under test have told, for the test to wait for; and a socket to
 * it.
 */
#pragma once

#include "base/compiler.h"
#include "base/lock.h"
#include "base/strbuf.h"

#include <stddef.h>
#include <stdint.h>

struct seen {
        struct mutex  lock; /* rank LOCK_SERVER */
        struct cond   changed;
        struct strbuf rejected; /* names of limits, a blank behind each */
        struct strbuf access;   /* lines */
        size_t        n_access;
        size_t        n_held; /* calls that wait for the test */
        size_t        n_aborted;
        size_t        n_sent;
};

void seen_init(struct seen *s); /* has memory for loops that starve */
void seen_done(struct seen *s);

void seen_rejected(void *owner, const char *limit); /* as on_rejected of a server's options */
void seen_access(struct seen *s, const char *format, ...) PRINTF_LIKE(2, 3);
void seen_count(struct seen *s, size_t *counter);
void seen_wait(struct seen *s, const size_t *counter, size_t n);

/* Connected to 127.0.0.1; reading and writing fail after 30 s. Receive buffers of `receive_bytes`,
 * or of the system's size if that is 0. */
int seen_connect(uint16_t port, int receive_bytes);
