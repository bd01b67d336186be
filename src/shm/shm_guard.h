/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler of SIGBUS: keeps the server alive when a client takes shared memory away while it is
 * in use.
 *
 * The client owns a shared-memory object. It may truncate the object while a model reads it. The
 * file system that holds the object may also have no page left when a model writes to it. In both
 * cases the kernel sends SIGBUS to the thread that touched the page. A check of the object
 * beforehand cannot exclude this. The handler therefore replaces the mapping, from the missing page
 * to the end of its region, by memory of the server, and marks the region as broken. The
 * instruction that failed runs again and finds zeros; no stack is unwound through a backend. The
 * request is answered with an error, because its input was partly missing, or its output went to
 * memory that the client cannot see.
 *
 * A SIGBUS at any other address is forwarded to the previous handler; without one it ends the
 * process.
 *
 *     shm_guard_start -> shm_guard_add -> (faults) -> shm_guard_remove -> shm_guard_stop
 *
 * Ownership.  The handler of a signal is state of the process: a table of fixed size.
 * shm_guard_start() counts its calls, and the last shm_guard_stop() restores the previous handler.
 * Threads.  start and stop: one thread, while no other thread uses regions. The other functions:
 * any. The handler takes no lock: each entry has a sequence number, which is odd while the entry is
 * being written. The entry of a mapping that is in use is never written, because it is removed
 * after the last use.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limit of mappings at a time. Each one also holds a file descriptor. */
#define SHM_GUARD_MAX 1024

struct error *shm_guard_start(void) NODISCARD;
void          shm_guard_stop(void);

/* Adds a mapping and returns its entry. `bytes` > 0, and `memory` is at the start of a page. False
 * when the table is full. */
bool shm_guard_add(const void *memory, size_t bytes, uint32_t *ret_entry) NODISCARD;
/* Must be called before the mapping is unmapped. */
void shm_guard_remove(uint32_t entry);
/* True when a page of the mapping has ever been missing. */
bool shm_guard_is_broken(uint32_t entry);
