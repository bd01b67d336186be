/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread of a load: a loop with lanes, each of which has one request under way at a time.
 *
 *     closed loop   each lane sends its next request when the answer has come
 *     open loop     a schedule says when requests start; a free lane takes each. When none is free, the
 *                   request waits, and its time counts from the start that was intended
 *
 * A lane of a sequence model runs one sequence after the other, request by request. A lane whose connection
 * broke rests for REST_NS before the next request of a closed loop.
 *
 * Ownership.  worker_new(), worker_free(); a worker borrows target, requests and the group's loop.
 * Threads.  worker_* are called by one thread that runs no loop, and wait for the worker's loop.
 */
#pragma once

#include "base/error.h"
#include "load/language.h"
#include "load/request_set.h"
#include "load/schedule.h"
#include "load/tally.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_checker;
struct loop;
struct worker;

enum load_mode { LOAD_CLOSED, LOAD_OPEN };

struct worker_options {
        struct loop              *loop;          /* borrowed */
        const struct target      *target;        /* borrowed */
        const struct load_model  *model;         /* borrowed */
        const struct input_set   *inputs;        /* borrowed */
        const struct request_set *requests;      /* borrowed */
        struct answer_checker    *checker;       /* borrowed; NULL: answers are not compared */
        size_t                    part, n_parts; /* of the workers of a load */
        size_t                    n_channels;    /* 0: as many as lanes; one of HTTP has one lane */
        size_t                    max_lanes;     /* open loop */
        bool                      ends_at_first; /* streams: each request has one response */
        enum language_endpoint    endpoint;      /* NONE: answers are not read as those of one */
        bool                      has_log;
        uint64_t                  n_sequences; /* open loop: lanes of a sequence model */
        uint64_t                  sequence_length;
        bool                      follows_data; /* sequences are as long as data of their own */
        double                    sequence_variation; /* percent */
        uint64_t                  first_id, n_ids;
        /* Called on the worker's loop when wanted_done requests are done, and when it has drained. */
        void (*on_progress)(void *owner);
        void *owner;
};

struct load_level {
        enum load_mode mode;
        size_t         concurrency; /* closed loop: lanes of this worker */
        /* period > 0: lanes have one request each. When each of the last ones has `period` responses, or all
         * that it gets, `step` more begin, until n_requests have. */
        size_t                  step;
        uint64_t                period;
        struct schedule_options schedule;   /* open loop */
        uint64_t                n_requests; /* 0: no limit */
};

struct worker *worker_new(const struct worker_options *o);
void           worker_free(struct worker *w); /* NULL is fine; drops what is under way */

struct error *worker_start(struct worker *w, const struct load_level *level) NODISCARD;
/* No new requests, apart from the rest of sequences, which end with their next request. */
void worker_stop(struct worker *w);
/* True when nothing is under way. */
bool worker_is_drained(struct worker *w);
/* Drops requests and connections. */
struct worker_dropped {
        size_t n_requests;
        size_t n_lost; /* of them: those that were under way for longer than `lost_ns` */
};
struct worker_dropped worker_drop(struct worker *w, uint64_t lost_ns);
/* Puts an empty tally in the place of the one that was filled, which is returned with its end. */
struct tally *worker_swap(struct worker *w, struct tally *empty);
/* Calls on_progress() when so many requests of the present tally are done; 0: never. */
void worker_want(struct worker *w, uint64_t wanted_done);
/* Requests that are done in the present tally, and its latencies so far, for a live line. */
struct worker_progress {
        uint64_t n_done, n_failed;
        double   p50_ns, p99_ns;
        uint64_t longest_ns;
};
struct worker_progress worker_look(struct worker *w);
