/* SPDX-License-Identifier: BSD-3-Clause */
/* What happens when memory of a client's goes away under our feet.
 *
 * A shared-memory object stays its client's: it may be truncated while a model reads it, and the
 * file system it is in may have no page left for what a model writes. The kernel's answer to
 * either is SIGBUS, to whichever thread touched the page. No look at the object beforehand can rule
 * that out, so the signal is handled: from the page that is missing to the end of its region, the
 * mapping is replaced by memory of our own, and the region is marked as broken. The instruction
 * that failed is run again and goes on with zeros; nothing unwinds through a backend. The request
 * is answered with an error, since it was computed from, or written to, what nobody sees.
 *
 * A SIGBUS anywhere else goes to whoever had the signal before, that is, ends the process.
 *
 *     shm_guard_start -> shm_guard_add -> (faults) -> shm_guard_remove -> shm_guard_stop
 *
 * Ownership.  The handler of a signal has no owner: this is state of the process, a table of fixed
 * size. start() counts; what was there before is put back by the last stop().
 * Threads.  start and stop: one thread, while no other uses regions. The rest: any. The handler
 * takes no lock: an entry has a sequence number, odd while it is being written. The entry of a
 * mapping that somebody touches is not written, since it is removed after its last user.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Mappings at a time: each also holds a file descriptor. */
#define SHM_GUARD_MAX 1024

struct error *shm_guard_start(void) NODISCARD;
void          shm_guard_stop(void);

/* The entry of a mapping, `bytes` > 0 and `memory` at a page; false when the table is full. */
bool shm_guard_add(const void *memory, size_t bytes, uint32_t *ret_entry) NODISCARD;
/* Before it is unmapped. */
void shm_guard_remove(uint32_t entry);
/* Whether pages of it were missed, ever. */
bool shm_guard_is_broken(uint32_t entry);
