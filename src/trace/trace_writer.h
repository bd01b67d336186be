/* SPDX-License-Identifier: BSD-3-Clause */
/* The writer: the one thread that passes complete records to a sink, which is a file or an
 * exporter.
 *
 * The thread that completes a record only puts it into a bounded queue. The queue is full when the
 * disk or the receiver is slower than the requests; the record is then dropped and counted.
 *
 * Ownership.  trace_writer_push() takes the record in any case. The sink takes the records that it
 * gets.
 * Threads.  push() and wake(): any. The functions of the sink: the thread of the writer,
 * "neso-traces".
 */
#pragma once

#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_record;
struct trace_sink;
struct trace_writer;

struct trace_sink_ops {
        /* Takes a list of records, linked by `next`. May wait in trace_writer_wait(). */
        void (*take)(struct trace_sink *s, struct trace_record *first);
        /* Called after settings have changed, or a record was dropped. NULL: the sink does not need
         * it. */
        void (*on_change)(struct trace_sink *s);
        /* Writes all that the sink still holds. The last call before free(). */
        void (*finish)(struct trace_sink *s);
        void (*free)(struct trace_sink *s);
};

struct trace_sink {
        const struct trace_sink_ops *ops;
        struct trace_writer         *writer; /* borrowed: owns the sink */
};

/* Counts n lost records. Called from any thread. */
typedef void (*trace_drop_fn)(void *owner, uint64_t n);

struct trace_writer_options {
        struct trace_sink *sink;        /* taken */
        size_t             max_spans;   /* limit of the queue; it always takes one record */
        size_t             max_bytes;   /* limit of the queue; it always takes one record */
        size_t             batch_spans; /* spans per call of take() */
        uint64_t           delay_ns;    /* longest wait for `batch_spans` */
        uint64_t           stop_ns;     /* time that stop() gives the sink */
        trace_drop_fn      on_drop;
        void              *owner;
};

struct error *trace_writer_start(const struct trace_writer_options *o, struct trace_writer **ret)
        NODISCARD;
/* Passes all records of the queue to the sink and ends the writer, in bounded time. NULL is
 * fine. */
void trace_writer_stop(struct trace_writer *w);
/* Does the same within `stop_ns`, but frees nothing. Records may still be pushed; they are lost at
 * the end of the process. */
void trace_writer_flush(struct trace_writer *w);

void trace_writer_push(struct trace_writer *w, struct trace_record *r);
void trace_writer_wake(struct trace_writer *w);

/* For the sink. Waits until that time and returns true. Returns false at once when stop() was
 * called. */
bool trace_writer_wait(struct trace_writer *w, uint64_t until_ns);
/* For the sink. False when stop() was called and its time is over: the sink gives up. */
bool trace_writer_has_time(struct trace_writer *w);
void trace_writer_count_dropped(struct trace_writer *w, uint64_t n);
