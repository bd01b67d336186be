/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/thread.h"
#include "observe/metric.h"
#include "observe/prometheus.h"

static struct metric_registry *registry;

static int set_up(void **state) {
        (void)state;
        registry = metric_registry_new();
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        metric_registry_free(registry);
        return 0;
}

static void refuse(struct error *err, enum error_code code, const char *message) {
        assert_non_null(err);
        assert_string_equal(err->message, message);
        assert_int_equal(err->code, code);
        error_free(err);
}

static void expect_text(const char *text) {
        AUTO_STRBUF out;

        strbuf_init(&out, 0);
        metric_registry_print(registry, &out);
        assert_string_equal(strbuf_cstr(&out), text);
}

static void test_same_family_is_shared(void **state) {
        struct metric_family *first, *second = NULL;

        (void)state;
        assert_null(metric_family_open(registry, METRIC_COUNTER, "a", "text", &first));
        assert_null(metric_family_open(registry, METRIC_COUNTER, "a", "text", &second));
        assert_ptr_equal(first, second);
        refuse(metric_family_open(registry, METRIC_GAUGE, "a", "text", &second), ERR_INVALID_ARG,
               "metric family 'a' already exists with a different kind");
        /* The first description is kept. */
        assert_null(metric_family_open(registry, METRIC_COUNTER, "a", "other", &second));
        assert_ptr_equal(first, second);
        assert_null(metric_family_close(second));
        refuse(metric_family_open(registry, METRIC_COUNTER, "a b", "text", &second),
               ERR_INVALID_ARG, "invalid name of a metric family: 'a b'");
        assert_null(metric_family_close(first));
        /* Gone with its last user: the name is free for another kind. */
        assert_null(metric_family_close(second));
        assert_null(metric_family_open(registry, METRIC_GAUGE, "a", "other", &first));
        assert_null(metric_family_close(first));
        assert_null(metric_family_close(NULL));
}

static void test_close_with_live_metrics(void **state) {
        struct metric_family *f;
        struct metric        *m;

        (void)state;
        assert_null(metric_family_open(registry, METRIC_GAUGE, "a", "text", &f));
        assert_null(metric_new(f, NULL, 0, NULL, 0, &m));
        assert_null(metric_family_open(registry, METRIC_GAUGE, "a", "text", &f));
        assert_null(metric_family_close(f)); /* not the last user */
        refuse(metric_family_close(f), ERR_INTERNAL,
               "Must call MetricDelete on all dependent metrics before calling "
               "MetricFamilyDelete.");
        assert_null(metric_set(m, 2)); /* nothing was freed */
        expect_text("# HELP a text\n# TYPE a gauge\na 2\n");
        metric_free(m);
        assert_null(metric_family_close(f));
}

static void print_owner(void *owner, struct strbuf *out) {
        prometheus_sample(out, owner, "", 1);
}

static void test_order_of_printing(void **state) {
        const struct metric_label label = { "limit", "a\"b" };
        struct metric_collector  *after, *before, *second;
        struct metric_family     *z, *empty, *a;
        struct metric            *in_z, *in_a;

        (void)state;
        after = metric_collector_add(registry, false, print_owner, "after");
        before = metric_collector_add(registry, true, print_owner, "before");
        second = metric_collector_add(registry, true, print_owner, "before_second");
        assert_null(metric_family_open(registry, METRIC_COUNTER, "z_total", "Z", &z));
        assert_null(metric_family_open(registry, METRIC_COUNTER, "m_total", "M", &empty));
        assert_null(metric_family_open(registry, METRIC_GAUGE, "a", "A", &a));
        assert_null(metric_new(a, NULL, 0, NULL, 0, &in_a));
        assert_null(metric_new(z, &label, 1, NULL, 0, &in_z));
        assert_null(metric_increment(in_z, 3));
        expect_text("before 1\n"
                    "before_second 1\n"
                    "# HELP z_total Z\n"
                    "# TYPE z_total counter\n"
                    "z_total{limit=\"a\\\"b\"} 3\n"
                    "# HELP a A\n"
                    "# TYPE a gauge\n"
                    "a 0\n"
                    "after 1\n");
        metric_collector_remove(registry, before);
        metric_collector_remove(registry, after);
        metric_collector_remove(registry, second);
        metric_collector_remove(registry, NULL);
        metric_free(in_a);
        metric_free(in_z);
        expect_text("");
        assert_null(metric_family_close(z));
        assert_null(metric_family_close(empty));
        assert_null(metric_family_close(a));
}

static void take_a_metric_lock(void *owner, struct strbuf *out) {
        MUTEX_GUARD(owner);
        strbuf_puts(out, "locked\n");
}

/* With LOCK_CHECK an equal rank ends the process. */
static void test_collector_may_take_metric_locks(void **state) {
        struct metric_collector *c;
        struct mutex             lock;

        (void)state;
        mutex_init(&lock, LOCK_METRIC);
        c = metric_collector_add(registry, true, take_a_metric_lock, &lock);
        expect_text("locked\n");
        metric_collector_remove(registry, c);
        mutex_done(&lock);
}

static void test_metrics_are_made_below_a_mailbox_lock(void **state) {
        struct metric_family *f;
        struct metric        *m;
        struct mutex          lock;

        (void)state;
        mutex_init(&lock, LOCK_LEAF);
        mutex_lock(&lock);
        assert_null(metric_family_open(registry, METRIC_COUNTER, "a", "A", &f));
        assert_null(metric_new(f, NULL, 0, NULL, 0, &m));
        mutex_unlock(&lock);
        metric_free(m);
        assert_null(metric_family_close(f));
        mutex_done(&lock);
}

static void churn(void *arg) {
        const struct metric_label label = { "thread", arg };

        for (int i = 0; i < 1000; i++) {
                struct metric_family *f;
                struct metric        *m;

                error_free(metric_family_open(registry, METRIC_COUNTER, "a", "A", &f));
                error_free(metric_new(f, &label, 1, NULL, 0, &m));
                error_free(metric_increment(m, 1));
                metric_free(m);
                /* Refused while the other thread's metric lives and this is the last user: never,
                 * for that thread is a user, too. */
                error_free(metric_family_close(f));
        }
}

static void test_printing_during_changes(void **state) {
        struct thread threads[2];

        (void)state;
        assert_null(thread_start(&threads[0], "one", churn, "one"));
        assert_null(thread_start(&threads[1], "two", churn, "two"));
        for (int i = 0; i < 200; i++) {
                AUTO_STRBUF out;

                strbuf_init(&out, 0);
                metric_registry_print(registry, &out);
                assert_false(out.overflowed);
        }
        thread_join(&threads[0]);
        thread_join(&threads[1]);
        expect_text("");
}

static void test_process_registry(void **state) {
        (void)state;
        assert_non_null(metric_registry_process());
        assert_ptr_equal(metric_registry_process(), metric_registry_process());
        metric_registry_free(NULL);
}

SUITE(metric_registry) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_same_family_is_shared, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_close_with_live_metrics, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_order_of_printing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_collector_may_take_metric_locks, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(test_metrics_are_made_below_a_mailbox_lock, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(test_printing_during_changes, set_up, tear_down),
                cmocka_unit_test(test_process_registry),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
