/* SPDX-License-Identifier: BSD-3-Clause */
/* One request, and what becomes of it.
 *
 * Ownership.  probe_done() frees the request and its last response.
 * Threads.  The answer may come from any thread.
 */
#pragma once

#include "infer/request.h"
#include "infer/response.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct probe {
        struct request *request; /* owned */

        pthread_mutex_t  lock; /* guards everything below */
        pthread_cond_t   changed;
        struct response *response;       /* owned; the last one */
        unsigned         n_answers;      /* calls of the response callback */
        unsigned         n_finals;       /* those with RESPONSE_FINAL */
        unsigned         n_releases;     /* calls of the release callback */
        unsigned         n_live_buffers; /* output buffers given and not taken back */
};

/* A request for the model, without inputs. */
void probe_init(struct probe *p, struct model *model);
void probe_done(struct probe *p);

/* Adds an input of INT32 with these values, [1, n]. */
void probe_add_row(struct probe *p, const char *input, const int32_t *values, int64_t n);

/* Until it was answered for good and released. */
void probe_wait(struct probe *p);
/* The failure that it was answered with. NULL: none. Borrowed. */
const struct error *probe_error(struct probe *p);
