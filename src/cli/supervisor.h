/* SPDX-License-Identifier: BSD-3-Clause */
/* What systemd, or another supervisor with its protocol, and the server tell each other (sd_notify(3),
 * sd_listen_fds(3)): sockets that the supervisor has opened, "ready", "reloading", "stopping", and the
 * watchdog's sign of life.
 *
 * The protocol is a datagram to $NOTIFY_SOCKET with lines of NAME=value, and descriptors from 3 on whose number
 * and names stand in the environment. supervisor_open() removes these variables from the environment, so that
 * processes of models do not speak for the server. Without them all functions do nothing.
 *
 * Ownership.  The caller embeds the struct. supervisor_close() closes the sockets that were not taken.
 * Threads.  The main thread.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

/* The ports that may be inherited, by the names of FileDescriptorName= in the socket unit. */
enum supervisor_port { SUPERVISOR_HTTP, SUPERVISOR_GRPC, SUPERVISOR_METRICS, N_SUPERVISOR_PORTS };

struct supervisor {
        int      fd;          /* a datagram socket; -1: the supervisor wants no messages */
        uint64_t watchdog_ns; /* the time within which it wants a sign of life; 0: none */
        int      listeners[N_SUPERVISOR_PORTS]; /* 0: not inherited */
};

void supervisor_init(struct supervisor *s);
/* Called before any thread starts, since it changes the environment. The error names the variable. */
struct error *supervisor_open(struct supervisor *s) NODISCARD;
void          supervisor_close(struct supervisor *s);

/* The descriptor, which is the caller's from now on; 0 = none. */
int supervisor_take_listener(struct supervisor *s, enum supervisor_port port);

void supervisor_tell_ready(struct supervisor *s);
void supervisor_tell_reloading(struct supervisor *s); /* supervisor_tell_ready() ends it */
void supervisor_tell_stopping(struct supervisor *s);
void supervisor_tell_alive(struct supervisor *s);
