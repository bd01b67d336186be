/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/mem.h"
#include "trace/trace_fixture.h"
#include "trace/trace_writer.h"

static _Atomic unsigned n_trims;

void __real_heap_end_trim(void);
void __wrap_heap_end_trim(void);

void __wrap_heap_end_trim(void) {
        __real_heap_end_trim();
        atomic_fetch_add(&n_trims, 1);
}

/* A sink that waits at a gate before it takes a batch. Guarded by its lock. */
struct gated {
        struct trace_sink sink;
        struct mutex      lock;
        struct cond       changed;
        bool              is_open;
        unsigned          n_at_gate;
        unsigned          batches[16]; /* records in each */
        unsigned          n_batches;
        unsigned          n_settled;
        unsigned          n_finished;
        _Atomic uint64_t  n_dropped;
        uint64_t          wait_result; /* of trace_writer_wait() in take(): 1 + it */
        bool              waits_long;
};

static struct gated *of(struct trace_sink *s) {
        return CONTAINER_OF(s, struct gated, sink);
}

static void take(struct trace_sink *s, struct trace_record *first) {
        struct gated *g = of(s);
        unsigned      n = 0;

        for (struct trace_record *r = first, *next; r != NULL; r = next, n++) {
                next = r->next;
                trace_record_free(r);
        }
        if (g->waits_long)
                g->wait_result = 1 + trace_writer_wait(s->writer, clock_now_ns() + 3600 * NS_PER_S);
        mutex_lock(&g->lock);
        g->n_at_gate++;
        cond_broadcast(&g->changed);
        while (!g->is_open)
                cond_wait(&g->changed, &g->lock);
        g->batches[g->n_batches++ % 16] = n;
        cond_broadcast(&g->changed);
        mutex_unlock(&g->lock);
}

static void on_change(struct trace_sink *s) {
        struct gated *g = of(s);

        MUTEX_GUARD(&g->lock);
        g->n_settled++;
        cond_broadcast(&g->changed);
}

static void finish(struct trace_sink *s) {
        of(s)->n_finished++;
}

static void free_sink(struct trace_sink *s) {
        (void)s; /* the test's */
}

static void on_drop(void *owner, uint64_t n) {
        atomic_fetch_add(&((struct gated *)owner)->n_dropped, n);
}

static struct trace_writer *begin_with(struct gated *g, size_t max_spans, size_t batch_spans,
                                       uint64_t stop_ns) {
        static const struct trace_sink_ops ops = { take, on_change, finish, free_sink };
        struct trace_writer               *w = NULL;

        *g = (struct gated){ .sink.ops = &ops };
        mutex_init(&g->lock, LOCK_QUEUE);
        cond_init(&g->changed);
        assert_null(trace_writer_start(&(struct trace_writer_options){ .sink = &g->sink,
                                                                       .max_spans = max_spans,
                                                                       .max_bytes = 1 << 20,
                                                                       .batch_spans = batch_spans,
                                                                       .delay_ns = 3600 * NS_PER_S,
                                                                       .stop_ns = stop_ns,
                                                                       .on_drop = on_drop,
                                                                       .owner = g },
                                       &w));
        return w;
}

static struct trace_writer *begin(struct gated *g, size_t max_spans, size_t batch_spans) {
        return begin_with(g, max_spans, batch_spans, 3600 * NS_PER_S);
}

static void end(struct gated *g) {
        cond_done(&g->changed);
        mutex_done(&g->lock);
}

static void wait_for(struct gated *g, const unsigned *what, unsigned n) {
        MUTEX_GUARD(&g->lock);
        while (*what < n)
                cond_wait(&g->changed, &g->lock);
}

static void open_gate(struct gated *g) {
        MUTEX_GUARD(&g->lock);
        g->is_open = true;
        cond_broadcast(&g->changed);
}

static void close_gate(struct gated *g) {
        MUTEX_GUARD(&g->lock);
        g->is_open = false;
}

/* Each is one span: it has no inference. */
static void push(struct trace_writer *w, struct trace_source *s, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                trace_writer_push(w, record_new(s));
}

static void test_full(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin(&g, 5, 1);

        (void)state;
        push(w, &source, 1);
        wait_for(&g, &g.n_at_gate, 1);
        push(w, &source, 8); /* five wait, three are dropped */
        assert_int_equal(atomic_load(&g.n_dropped), 3);
        assert_int_equal(atomic_load(&source.n_dropped), 3);
        open_gate(&g);
        trace_writer_stop(w);
        assert_int_equal(g.n_batches, 6);
        assert_int_equal(g.n_finished, 1);
        assert_true(g.n_settled >= 1); /* told of the drops */
        assert_int_equal(atomic_load(&source.ref.count), 1);
        end(&g);
}

/* The thread returns the memory of a burst after its last batch, before anything else. It does not after each record of
 * a few, since that takes longer than to write one. */
static void test_memory_after_a_burst(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct trace_record *one = record_new(NULL);
        unsigned             n_many = (unsigned)((64 << 10) / trace_record_bytes(one)) + 1;
        struct gated         g;
        struct trace_writer *w = begin(&g, 100000, 1);

        (void)state;
        trace_record_free(one);
        atomic_store(&n_trims, 0);
        push(w, &source, 1);
        wait_for(&g, &g.n_at_gate, 1);
        push(w, &source, 2);
        open_gate(&g);
        wait_for(&g, &g.n_batches, 3);
        trace_writer_wake(w);
        wait_for(&g, &g.n_settled, 1);
        assert_int_equal(atomic_load(&n_trims), 0);
        close_gate(&g);
        push(w, &source, 1);
        wait_for(&g, &g.n_at_gate, 4);
        push(w, &source, n_many); /* they end in an empty queue: once, whatever came before */
        open_gate(&g);
        wait_for(&g, &g.n_batches, 4 + n_many);
        trace_writer_wake(w);
        wait_for(&g, &g.n_settled, 2);
        assert_int_equal(atomic_load(&n_trims), 1);
        trace_writer_stop(w);
        end(&g);
}

/* One that is larger than the bound still may wait alone. */
static void test_large(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin(&g, 100, 1);
        struct trace_record *large = record_new(&source);

        (void)state;
        push(w, &source, 1);
        wait_for(&g, &g.n_at_gate, 1);
        large->n_bytes = 2 << 20;
        trace_writer_push(w, large);
        assert_int_equal(atomic_load(&g.n_dropped), 0);
        push(w, &source, 1);
        assert_int_equal(atomic_load(&g.n_dropped), 1);
        open_gate(&g);
        trace_writer_stop(w);
        assert_int_equal(g.n_batches, 2);
        end(&g);
}

static void test_batches(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin(&g, 100, 3);

        (void)state;
        open_gate(&g);
        push(w, &source, 7);
        wait_for(&g, &g.n_batches, 2); /* the seventh has an hour */
        assert_int_equal(g.batches[0], 3);
        assert_int_equal(g.batches[1], 3);
        trace_writer_wake(w);
        wait_for(&g, &g.n_settled, 1);
        assert_int_equal(g.n_batches, 2);
        trace_writer_stop(w);
        assert_int_equal(g.n_batches, 3);
        assert_int_equal(g.batches[2], 1);
        assert_int_equal(atomic_load(&g.n_dropped), 0);
        end(&g);
}

/* A pause between two tries ends with the server. */
static void test_wait_ends_with_stop(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin(&g, 100, 1);

        (void)state;
        g.waits_long = true;
        open_gate(&g);
        push(w, &source, 1);
        trace_writer_stop(w);
        assert_int_equal(g.wait_result, 1 + false);
        assert_int_equal(g.n_batches, 1);
        end(&g);
}

/* The process is about to end without tidying up: what waits is with the sink, and what comes later
 * may still be pushed. */
static void test_flush(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin(&g, 100, 1);

        (void)state;
        open_gate(&g);
        push(w, &source, 3);
        trace_writer_flush(w);
        assert_int_equal(g.n_batches, 3);
        assert_int_equal(g.n_finished, 1);
        push(w, &source, 1);
        assert_int_equal(g.n_batches, 3);
        assert_int_equal(atomic_load(&g.n_dropped), 0);
        trace_writer_stop(w);
        assert_int_equal(atomic_load(&g.n_dropped), 1);
        end(&g);
}

/* A sink that hangs is not waited for. */
static void test_flush_is_bounded(void **state) {
        struct trace_source  source = { .ref.count = 1 };
        struct gated         g;
        struct trace_writer *w = begin_with(&g, 100, 1, NS_PER_MS);

        (void)state;
        push(w, &source, 2);
        wait_for(&g, &g.n_at_gate, 1);
        trace_writer_flush(w);
        assert_int_equal(g.n_batches, 0);
        assert_false(trace_writer_has_time(w));
        open_gate(&g);
        trace_writer_stop(w);
        end(&g);
}

SUITE(trace_writer) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_full),
                cmocka_unit_test(test_memory_after_a_burst),
                cmocka_unit_test(test_large),
                cmocka_unit_test(test_batches),
                cmocka_unit_test(test_wait_ends_with_stop),
                cmocka_unit_test(test_flush),
                cmocka_unit_test(test_flush_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
