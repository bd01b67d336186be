/* SPDX-License-Identifier: BSD-3-Clause */
/* The one thread that takes finished records and gives them to a sink: a file, or an exporter.
 *
 * Whoever finishes a record only puts it into a bounded queue. When that is full, because the disk
 * or the receiver is slower than the requests, the record is dropped and counted.
 *
 * Ownership.  push() takes the record in any case; the sink takes what it is given.
 * Threads.  push() and poke(): any. The sink's functions: the writer's thread, "neso-traces".
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
        /* A list of records by their `next`. May take its time, in trace_writer_wait(). */
        void (*take)(struct trace_sink *s, struct trace_record *first);
        /* Settings have changed, or a record was dropped. NULL: does not matter. */
        void (*on_change)(struct trace_sink *s);
        /* The last call: nothing may be kept back. */
        void (*finish)(struct trace_sink *s);
        void (*free)(struct trace_sink *s);
};

struct trace_sink {
        const struct trace_sink_ops *ops;
        struct trace_writer         *writer; /* borrowed: the owner */
};

/* Counts n spans or records that were lost. Any thread. */
typedef void (*trace_drop_fn)(void *owner, uint64_t n);

struct trace_writer_options {
        struct trace_sink *sink;        /* taken */
        size_t             max_spans;   /* that wait; one record always may */
        size_t             max_bytes;   /* of records that wait; the same */
        size_t             batch_spans; /* give the sink so many at once */
        uint64_t           delay_ns;    /* and do not wait longer for so many */
        uint64_t           stop_ns;     /* how long stop() lets the sink go on */
        trace_drop_fn      on_drop;
        void              *owner;
};

struct error *trace_writer_start(const struct trace_writer_options *o, struct trace_writer **ret)
        NODISCARD;
/* Gives everything that waits to the sink and ends it, in bounded time. NULL is fine. */
void trace_writer_stop(struct trace_writer *w);
/* The same, as far as `stop_ns` lets it come, and frees nothing: records may still be pushed, which
 * are lost with the process. */
void trace_writer_flush(struct trace_writer *w);

void trace_writer_push(struct trace_writer *w, struct trace_record *r);
void trace_writer_wake(struct trace_writer *w);

/* The sink's. Waits until then; false, and at once, when stop() is called. */
bool trace_writer_wait(struct trace_writer *w, uint64_t until_ns);
/* False once stop() was called and its time is over: give up. */
bool trace_writer_has_time(struct trace_writer *w);
void trace_writer_count_dropped(struct trace_writer *w, uint64_t n);
