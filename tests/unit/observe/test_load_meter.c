/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/timer.h"
#include "observe/load_meter.h"
#include "observe/model_stats.h"

#include <stdio.h>
#include <string.h>

static struct metric_registry *registry;
static struct model_metrics   *metrics;
static struct model_stats     *stats;

struct fake_source {
        struct load_source  source;
        struct load_reading reading;
        struct mutex       *takes; /* NULL: none */
        struct reads       *reads; /* counts the readings; may be NULL */
};

/* How often a source was read, on whichever thread. */
struct reads {
        struct mutex lock; /* rank LOCK_LEAF; guards n */
        struct cond  changed;
        unsigned     n;
};

static void count_read(struct reads *r) {
        MUTEX_GUARD(&r->lock);
        r->n++;
        cond_signal(&r->changed);
}

static void wait_for_reads(struct reads *r, unsigned n) {
        MUTEX_GUARD(&r->lock);
        while (r->n < n)
                cond_wait(&r->changed, &r->lock);
}

static struct load_reading read_fake(struct load_source *source, uint64_t now_ns) {
        struct fake_source *f = CONTAINER_OF(source, struct fake_source, source);

        (void)now_ns;
        if (f->reads != NULL)
                count_read(f->reads);
        if (f->takes != NULL) {
                mutex_lock(f->takes);
                mutex_unlock(f->takes);
        }
        return f->reading;
}

static int set_up(void **state) {
        (void)state;
        registry = metric_registry_new();
        metrics = model_metrics_new(registry,
                                    &(struct model_metrics_options){ .counter_latencies = true });
        stats = model_stats_new(metrics,
                                &(struct model_stats_options){ .model = "m", .version = 1 });
        model_stats_show(stats, 1);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        model_stats_free(stats);
        model_metrics_free(metrics);
        metric_registry_free(registry);
        return 0;
}

static void expect_part(const char *part, bool present) {
        AUTO_STRBUF out;

        strbuf_init(&out, 0);
        metric_registry_print(registry, &out);
        if ((strstr(strbuf_cstr(&out), part) != NULL) != present)
                fail_msg("%s '%s' in:\n%s", present ? "no" : "there is", part, strbuf_cstr(&out));
}

static void expect_load(const char *ratio, const char *age) {
        char part[512];

        snprintf(part, sizeof(part),
                 "# HELP neso_load_ratio Time that instances executed by the time that they were "
                 "available, last 15 s\n"
                 "# TYPE neso_load_ratio gauge\n"
                 "neso_load_ratio{model=\"m\",version=\"1\"} %s\n"
                 "# HELP neso_oldest_request_age_seconds Time that the oldest waiting request has "
                 "waited, 0 when none waits\n"
                 "# TYPE neso_oldest_request_age_seconds gauge\n"
                 "neso_oldest_request_age_seconds{model=\"m\",version=\"1\"} %s\n",
                 ratio, age);
        expect_part(part, true);
}

static void test_a_model_without_sources_has_no_lines(void **state) {
        (void)state;
        load_meter_measure(metrics, clock_now_ns());
        expect_part("neso_load_ratio", false);
        expect_part("neso_oldest_request_age", false);
}

/* The sums of all sources, the oldest request of any. */
static void test_sources_are_added_up(void **state) {
        struct fake_source a = { .reading.oldest_ns = CLOCK_NEVER };
        struct fake_source b = { .reading.oldest_ns = CLOCK_NEVER };
        uint64_t           start_ns = clock_now_ns();

        (void)state;
        load_source_add(&a.source, stats, read_fake);
        load_source_add(&b.source, stats, read_fake);
        load_meter_measure(metrics, clock_now_ns());
        expect_load("0", "0");

        a.reading = (struct load_reading){ 1 * NS_PER_S, 4 * NS_PER_S, start_ns + NS_PER_S };
        b.reading = (struct load_reading){ 2 * NS_PER_S, 4 * NS_PER_S, start_ns + 2 * NS_PER_S };
        load_meter_measure(metrics, start_ns + 4 * NS_PER_S);
        expect_load("0.375", "3");
        a.reading.oldest_ns = CLOCK_NEVER;
        load_meter_measure(metrics, start_ns + 4 * NS_PER_S);
        expect_load("0.375", "2");
        b.reading.oldest_ns = start_ns + 5 * NS_PER_S; /* queued after the clock was read */
        load_meter_measure(metrics, start_ns + 4 * NS_PER_S);
        expect_load("0.375", "0");
        load_source_remove(&a.source);
        load_source_remove(&b.source);
}

/* The time of an instance group that was removed still counts, its queue does not. */
static void test_a_removed_source_keeps_its_sums(void **state) {
        struct fake_source a = { .reading.oldest_ns = 1 }, b = { .reading.oldest_ns = CLOCK_NEVER };
        uint64_t           start_ns = clock_now_ns();

        (void)state;
        load_source_add(&a.source, stats, read_fake);
        load_source_add(&b.source, stats, read_fake);
        a.reading.busy_ns = a.reading.available_ns = NS_PER_S;
        load_source_remove(&a.source);
        b.reading.available_ns = NS_PER_S;
        load_meter_measure(metrics, start_ns + NS_PER_S);
        expect_load("0.5", "0");
        load_source_remove(&b.source);
        load_source_remove(&b.source); /* nothing to do */
        load_meter_measure(metrics, start_ns + 9 * NS_PER_S);
        expect_load("0.5", "0");
}

/* Sources lock their queues: with lock checking, another order of ranks aborts. */
static void test_a_source_may_lock_a_queue(void **state) {
        struct mutex       lock;
        struct fake_source a = { .reading.oldest_ns = CLOCK_NEVER, .takes = &lock };

        (void)state;
        mutex_init(&lock, LOCK_SEQUENCE);
        load_source_add(&a.source, stats, read_fake);
        load_meter_scrape(metrics, clock_now_ns());
        load_source_remove(&a.source);
        mutex_done(&lock);
}

/* Only scrapes start the timer. The first scrape's time lies so far back that its timer fires at once. */
static void test_the_timer_measures_after_a_scrape(void **state) {
        struct reads         reads = { .n = 0 };
        struct fake_source   a = { .reading.oldest_ns = CLOCK_NEVER, .reads = &reads };
        struct timer_thread *timers;

        (void)state;
        mutex_init(&reads.lock, LOCK_LEAF);
        cond_init(&reads.changed);
        assert_null(timer_thread_new(&timers));
        load_meter_start(metrics, timers);
        load_source_add(&a.source, stats, read_fake);
        load_meter_scrape(metrics, clock_now_ns() - 5 * NS_PER_S);
        wait_for_reads(&reads, 2);
        load_meter_stop(metrics);
        load_source_remove(&a.source);
        timer_thread_free(timers); /* asserts that no timer is armed */
        cond_done(&reads.changed);
        mutex_done(&reads.lock);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

SUITE(load_meter) {
        const struct CMUnitTest tests[] = {
                TEST(test_a_model_without_sources_has_no_lines),
                TEST(test_sources_are_added_up),
                TEST(test_a_removed_source_keeps_its_sums),
                TEST(test_a_source_may_lock_a_queue),
                TEST(test_the_timer_measures_after_a_scrape),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
