/* SPDX-License-Identifier: BSD-3-Clause */
/* What a part of a load has measured during a window: counts, times, errors by kind.
 *
 * Each thread fills a tally of its own; the measurement takes it at the end of a window and merges them.
 *
 * Ownership.  tally_new(), tally_free().
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/str.h"
#include "load/channel.h"
#include "load/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TALLY_MAX_ERRORS 16
#define TALLY_ERROR_BYTES 160
/* Code of the last of TALLY_MAX_ERRORS, which counts errors of all kinds. */
#define TALLY_VARIOUS (-1)
/* Numbers of the log: 64 MiB. */
#define TALLY_MAX_LOG ((size_t)8 << 20)

struct tally_error {
        enum answer_kind kind;
        int              code;
        uint64_t         n;
        char             text[TALLY_ERROR_BYTES]; /* cut */
};

struct tally {
        uint64_t begin_ns, end_ns;
        uint64_t cpu_ns;      /* of the thread */
        uint64_t n_responses; /* of successful requests */
        uint64_t n_sent;
        uint64_t
                n_wrong; /* answers that differ from the expected ones; they are in `errors`, too */
        uint64_t           n_failed;                  /* all errors */
        double             send_ns, wait_ns, recv_ns; /* sums */
        struct histogram   latency;  /* successful requests, from the intended start */
        struct histogram   service;  /* from the send, after a wait for a connection or a stream */
        struct histogram   lateness; /* open loop: of sends */
        struct histogram   first; /* streams: to the first response, from where `latency` begins */
        struct histogram   between; /* streams: from one response to the next */
        struct histogram   pace; /* language: from one token to the next, the mean of a request */
        uint64_t           n_prompt_tokens, n_output_tokens; /* language */
        uint64_t           n_counted; /* language: requests whose tokens the server has counted */
        struct tally_error errors[TALLY_MAX_ERRORS];
        size_t             n_errors;
        /* For --profile-export-file: for each request the wall time of its start, its sequence, the number
         * of its responses, and their times. Owned, of TALLY_MAX_LOG numbers; NULL: not kept. */
        uint64_t *log;
        size_t    n_log;
        uint64_t  n_unlogged; /* requests for which there was no room */
};

struct tally *tally_new(bool has_log);
void          tally_free(struct tally *t); /* NULL is fine */
/* Empties it. */
void tally_clear(struct tally *t);
void tally_add_error(struct tally *t, const struct answer *a);
/* Adds counts, times and errors, not the log. */
void tally_merge(struct tally *t, const struct tally *other);
/* Appends the log, as far as there is room; counts the requests that have none. */
void   tally_append_log(struct tally *t, const struct tally *other);
double tally_seconds(const struct tally *t);
