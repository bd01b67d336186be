/* SPDX-License-Identifier: BSD-3-Clause */
/* The transfer of one piece of an object into a file.
 *
 * A store may answer with a part of the range only (RFC 9110, 15.3.7): a further request fetches the rest.
 *
 * After a break a request for a range continues at the next missing byte. When the store answers with the
 * whole object, the transfer becomes one of the whole object, which starts again from the first byte after a
 * break. Only the first transfer of an object may become that. Bytes that an earlier try has received are no
 * progress, so the time for retries ends.
 *
 * Ownership.  Borrows everything. piece_transfer_run() leaves nothing to be freed.
 * Threads.  One owner. `done_bytes` and `is_cancelled` are shared.
 */
#pragma once

#include "base/error.h"
#include "store/store_call.h"
#include "store/store_request.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_entry;

struct piece_transfer {
        struct store             *store;
        const struct store_entry *entry;
        const char               *what; /* its address, for messages */
        int                       fd;
        const char               *path; /* of the file, for messages */
        uint64_t                  begin, end;
        bool              has_range; /* a request for these bytes, not for the whole object */
        bool              is_first;  /* the answer may be the whole object */
        atomic_bool      *is_cancelled;
        _Atomic uint64_t *done_bytes;
        /* Called when the head of the answer is known and right, before the bytes; NULL: none. */
        void (*on_head)(struct piece_transfer *t);
        void *userp;

        struct store_answer answer;      /* of the running try */
        uint64_t            at;          /* the next byte */
        uint64_t            farthest;    /* that `at` was; bytes before it are no progress */
        bool                has_changed; /* the object is not that of the listing */

        struct store_call call;
        uint64_t          answer_end; /* of the range that the running answer has */
        bool              is_checked; /* the head of the answer */
        struct error     *fault;      /* owned */
};

/* CANCELLED, or an error that begins with `what`. On success [begin, end) are in the file; these are all
 * bytes of the object when has_range became false. */
struct error *piece_transfer_run(struct piece_transfer *t) NODISCARD;
