/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "observe/metric.h"
#include "sched/batch_sizes.h"
#include "sched_plugin/plugin_counters.h"
#include "sched_plugin/plugin_fixture.h"
#include "sched_plugin/plugin_items.h"
#include "sched_plugin/plugin_members.h"

#define X "input { name: 'X' data_type: TYPE_FP32 dims: [-1] } "
#define DEFAULT "name: 'm' max_batch_size: 8 " X
#define FIXED "name: 'm' max_batch_size: 8 input { name: 'X' data_type: TYPE_FP32 dims: [1] } "
#define TIMED                                                                                      \
        FIXED "dynamic_batching { default_queue_policy { default_timeout_microseconds: 500 "       \
              "allow_timeout_override: true } }"

/* Returns the ids of the items that were announced as number i and after. */
static int dispatch(struct plugin_fixture *fixture, uint32_t member, unsigned first, unsigned n) {
        uint64_t ids[PLUGIN_MAX_ITEMS];

        for (unsigned i = 0; i < n; i++)
                ids[i] = fixture->items[first + i].id;
        return fixture->ops->dispatch(fixture->host, member, ids, n);
}

/* ---- what is dispatched ---------------------------------------------------------------------- */

static void dispatch_last_two(struct plugin_fixture *fixture) {
        if (fixture->n_items == 3)
                assert_int_equal(dispatch(fixture, 1, 1, 2), 0);
        fixture->n_items += fixture->n_items == 3; /* once */
}

static void test_dispatch(void **state) {
        struct plugin_fixture fixture;
        unsigned              on = 9;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 2);
        fixture.act = dispatch_last_two;
        plugin_push(&fixture, 1);
        assert_int_equal(plugin_begin(&fixture, &on), 0);
        plugin_push(&fixture, 2);
        plugin_push(&fixture, 2);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(on, 1);
        assert_int_equal(fixture.queue.n_waiting, 1);
        plugin_end(&fixture, 1);
        assert_string_equal(fixture.calls, "init 2; enqueue 1; enqueue 2; enqueue 2; free 1; ");
        assert_true(plugin_counted(&fixture, "error") == 0);
        plugin_fixture_close(&fixture);
}

static void test_item(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_open(&fixture, TIMED, 1);
        plugin_push(&fixture, 3);
        assert_int_equal(fixture.items[0].rows, 3);
        assert_int_equal(fixture.items[0].priority, 0);
        assert_int_equal(fixture.items[0].arrival_ns, PLUGIN_START_NS);
        assert_int_equal(fixture.items[0].deadline_ns, PLUGIN_START_NS + 500 * NS_PER_US);
        assert_true(fixture.items[0].id != 0);
        plugin_pass(&fixture, 500 * NS_PER_US);
        assert_string_equal(fixture.calls, "init 1; enqueue 3; cancel; ");
        assert_true(fixture.cancelled == fixture.items[0].id);
        assert_int_equal(fixture.queue.n_waiting, 0);
        plugin_fixture_close(&fixture);
}

/* During the first on_cancel() of two items that timed out together, the other one cannot be
 * dispatched. */
static void dispatch_cancelled(struct plugin_fixture *fixture) {
        if (fixture->cancelled == fixture->items[0].id && fixture->n_items == 3) {
                assert_int_equal(dispatch(fixture, 0, 1, 1), ECANCELED);
                assert_int_equal(dispatch(fixture, 0, 1, 2), ECANCELED);
                assert_int_equal(fixture->ops->reject(fixture->host, fixture->items[1].id, 4, "x"),
                                 ECANCELED);
                assert_int_equal(dispatch(fixture, 0, 2, 1), 0);
                fixture->n_items++; /* once */
        }
}

static void test_two_time_out_together(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, TIMED, 1);
        fixture.act = dispatch_cancelled;
        plugin_push(&fixture, 1);
        plugin_push(&fixture, 1);
        plugin_now_ns += 100 * NS_PER_US;
        plugin_push(&fixture, 1);
        plugin_pass(&fixture, 400 * NS_PER_US);
        assert_string_equal(fixture.calls,
                            "init 1; enqueue 1; enqueue 1; enqueue 1; cancel; cancel; ");
        assert_true(plugin_counted(&fixture, "error") == 0);
        assert_int_equal(plugin_begin(&fixture, &on), 1);
        assert_int_equal(fixture.queue.n_waiting, 0);
        plugin_fixture_close(&fixture);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void call_wrongly(struct plugin_fixture *fixture) {
        const sched_host_ops *ops = fixture->ops;
        uint64_t              id = fixture->items[0].id, unknown[2] = { id, id + 1000 };
        uint64_t              twice[2] = { id, id };
        uint32_t              zero = 0, one = 1, two = 2;

        if (fixture->n_items != 3)
                return;
        assert_int_equal(ops->dispatch(fixture->host, 0, NULL, 1), EINVAL);
        assert_int_equal(ops->dispatch(fixture->host, 0, &id, 0), EINVAL);
        assert_int_equal(ops->dispatch(fixture->host, 2, &id, 1), ENODEV);
        assert_int_equal(ops->dispatch(fixture->host, UINT32_MAX, &id, 1), ENODEV);
        assert_int_equal(ops->dispatch(fixture->host, 0, unknown, 2), ENOENT);
        assert_int_equal(ops->dispatch(fixture->host, 0, twice, 2), EALREADY);
        assert_int_equal(dispatch(fixture, 0, 0, 3), ERANGE);
        assert_int_equal(ops->dispatch_rows(fixture->host, 0, &id, NULL, &two, 1), EINVAL);
        assert_int_equal(ops->dispatch_rows(fixture->host, 0, &id, &one, &two, 1), ERANGE);
        assert_int_equal(ops->dispatch_rows(fixture->host, 0, &id, &zero, &zero, 1), ERANGE);
        assert_int_equal(ops->dispatch_rows(fixture->host, 0, &id, &zero, &one, 1), ENOTSUP);
        assert_int_equal(ops->reject(fixture->host, unknown[1], 4, "x"), ENOENT);
        assert_int_equal(ops->reject(fixture->host, id, 8, "x"), EINVAL);
        assert_int_equal(ops->reject(fixture->host, id, -1, "x"), EINVAL);
        ops->count(fixture->host, "Upper", 1);
        ops->count(fixture->host, "below_zero", -1);
        /* The refused calls had no effect: the item can still be dispatched. */
        assert_int_equal(ops->dispatch_rows(fixture->host, 0, &id, &zero, &two, 1), 0);
        assert_int_equal(ops->dispatch(fixture->host, 0, &fixture->items[1].id, 1), EBUSY);
        assert_int_equal(ops->dispatch(fixture->host, 1, &id, 1), ENOENT);
        assert_int_equal(ops->reject(fixture->host, fixture->items[1].id, 3, NULL), 0);
        assert_int_equal(ops->reject(fixture->host, fixture->items[1].id, 3, NULL), ENOENT);
        ops->count(fixture->host, "mine", 2.5);
        fixture->n_items++; /* once */
}

static void test_wrong_calls(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 2);
        fixture.act = call_wrongly;
        for (unsigned i = 0; i < 3; i++)
                plugin_push(&fixture, 2);
        assert_int_equal(plugin_begin(&fixture, &on), 2);
        assert_int_equal(plugin_take_refused(&fixture, "[request id: <id_unknown>] "), 1);
        assert_int_equal(fixture.queue.n_waiting, 1);
        assert_true(plugin_counted(&fixture, "error") == 19);
        assert_true(plugin_counted(&fixture, "mine") == 2.5);
        plugin_end(&fixture, 0);
        plugin_fixture_close(&fixture);
}

static void test_calls_from_outside(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        plugin_push(&fixture, 1);
        assert_int_equal(dispatch(&fixture, 0, 0, 1), EPERM);
        assert_int_equal(fixture.ops->reject(fixture.host, fixture.items[0].id, 0, ""), EPERM);
        fixture.ops->set_timer(fixture.host, 1);
        fixture.ops->count(fixture.host, "outside", 1);
        fixture.ops->log(fixture.host, 2, "not to be seen");
        plugin_pass(&fixture, 1);
        assert_string_equal(fixture.calls, "init 1; enqueue 1; ");
        assert_int_equal(plugin_begin(&fixture, &on), 0);
        plugin_fixture_close(&fixture);
}

static void dispatch_pair(struct plugin_fixture *fixture) {
        if (fixture->n_items == 2) {
                assert_true(fixture->items[0].shape_class != fixture->items[1].shape_class);
                assert_int_equal(dispatch(fixture, 0, 0, 2), EXDEV);
        }
}

static void test_shape_classes(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_open(&fixture, DEFAULT, 1);
        fixture.fake->model.needs_equal_shapes = true;
        fixture.act = dispatch_pair;
        plugin_push_wide(&fixture, 1, 1);
        plugin_push_wide(&fixture, 1, 2);
        fixture.act = NULL;
        plugin_push(&fixture, 1);
        assert_true(fixture.items[0].shape_class == fixture.items[2].shape_class);
        plugin_fixture_close(&fixture);
}

/* ---- rows and members ------------------------------------------------------------------------ */

/* Dispatches rows `first` to first + count - 1 of the item that was announced as number i. */
static int dispatch_rows(struct plugin_fixture *fixture, uint32_t member, unsigned i,
                         uint32_t first, uint32_t count) {
        return fixture->ops->dispatch_rows(fixture->host, member, &fixture->items[i].id, &first,
                                           &count, 1);
}

/* Members 0 and 1 take 1 and 4 rows. Requests may run in parts. */
static void open_members(struct plugin_fixture *fixture, plugin_act_fn act) {
        plugin_fixture_prepare(fixture, FIXED, 2);
        fixture->may_split = true;
        fixture->executors[0].max_rows = 1;
        fixture->executors[1].min_rows = 4;
        plugin_fixture_begin(fixture);
        fixture->act = act;
}

static void dispatch_five_rows(struct plugin_fixture *fixture) {
        if (fixture->n_items != 1)
                return;
        fixture->n_items++;                                           /* once */
        assert_int_equal(dispatch_rows(fixture, 1, 0, 1, 4), ERANGE); /* the next row is row 0 */
        assert_int_equal(dispatch_rows(fixture, 1, 0, 0, 6), ERANGE);
        assert_int_equal(dispatch_rows(fixture, 1, 0, 0, 3),
                         ERANGE); /* too few rows for the member */
        assert_int_equal(dispatch_rows(fixture, 1, 0, 0, 4), 0);
        assert_int_equal(fixture->queue.n_waiting, 1);
        assert_int_equal(fixture->queue.n_rows, 1);
        assert_int_equal(dispatch_rows(fixture, 0, 0, 0, 1), ERANGE); /* dispatched before */
        assert_int_equal(dispatch_rows(fixture, 0, 0, 4, 2), ERANGE);
        assert_int_equal(dispatch_rows(fixture, 0, 0, 4, 0), ERANGE);
        assert_int_equal(dispatch(fixture, 0, 0, 1), 0); /* all remaining rows */
        assert_int_equal(dispatch(fixture, 0, 0, 1), EBUSY);
}

static void test_parts(void **state) {
        struct plugin_fixture fixture;
        unsigned              on[2], rows[2];

        (void)state;
        open_members(&fixture, dispatch_five_rows);
        plugin_push(&fixture, 5);
        assert_int_equal(fixture.queue.n_waiting, 0);
        rows[0] = plugin_begin(&fixture, &on[0]);
        assert_int_equal(fixture.n_ended, 0); /* half of the request still runs */
        rows[1] = plugin_begin(&fixture, &on[1]);
        assert_int_equal(rows[on[0] == 1 ? 0 : 1], 4);
        assert_int_equal(rows[0] + rows[1], 5);
        assert_int_equal(fixture.n_ended, 1);
        assert_true(plugin_counted(&fixture, "error") == 7);
        plugin_fixture_close(&fixture);
}

static void dispatch_four_rows(struct plugin_fixture *fixture) {
        if (fixture->n_items == 1)
                assert_int_equal(dispatch_rows(fixture, 1, 0, 0, 4), 0);
        fixture->n_items += fixture->n_items == 1; /* once */
}

static void test_the_rest_is_cancelled(void **state) {
        struct plugin_fixture fixture;
        struct request       *req;
        unsigned              on;

        (void)state;
        open_members(&fixture, dispatch_four_rows);
        req = plugin_push(&fixture, 6);
        plugin_cancel(&fixture, req);
        assert_true(fixture.cancelled == fixture.items[0].id);
        assert_int_equal(fixture.n_ended, 0);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(fixture.n_ended, 1);
        assert_string_equal(fixture.calls, "init 2; enqueue 6; cancel; ");
        plugin_fixture_close(&fixture);
}

static void reject_the_rest(struct plugin_fixture *fixture) {
        dispatch_four_rows(fixture);
        if (fixture->n_items == 2)
                assert_int_equal(fixture->ops->reject(fixture->host, fixture->items[0].id, 4,
                                                      "enough"),
                                 0);
        fixture->n_items += fixture->n_items == 2; /* once */
}

static void test_the_rest_is_rejected(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        open_members(&fixture, reject_the_rest);
        plugin_push(&fixture, 6);
        assert_int_equal(fixture.queue.n_rows, 0);
        assert_int_equal(plugin_take_refused(&fixture, "[request id: <id_unknown>] enough"), 1);
        assert_int_equal(fixture.n_ended, 0);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(fixture.n_ended, 1);
        plugin_fixture_close(&fixture);
}

/* Both members are of virtual instance 0. */
static void dispatch_two_members(struct plugin_fixture *fixture) {
        if (fixture->n_items != 2)
                return;
        fixture->n_items++; /* once */
        assert_int_equal(dispatch(fixture, 0, 0, 1), 0);
        assert_int_equal(dispatch(fixture, 1, 1, 1), EBUSY);
}

static void dispatch_the_other(struct plugin_fixture *fixture) {
        if (strstr(fixture->calls, "free 0; ") != NULL && fixture->n_items == 3)
                assert_int_equal(dispatch(fixture, 1, 1, 1), 0);
        fixture->n_items++;
}

static void test_exclusive_members(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_prepare(&fixture, FIXED, 2);
        fixture.is_exclusive = true;
        plugin_fixture_begin(&fixture);
        fixture.act = dispatch_two_members;
        plugin_push(&fixture, 1);
        plugin_push(&fixture, 2);
        assert_int_equal(plugin_begin(&fixture, &on), 1);
        assert_int_equal(on, 0);
        plugin_pass(&fixture, 5 * PLUGIN_STALL_NS); /* no member is free, so this is no stall */
        assert_true(plugin_counted(&fixture, "stall") == 0);
        fixture.act = dispatch_the_other;
        plugin_end(&fixture, 0);
        assert_int_equal(plugin_begin(&fixture, &on), 2);
        assert_int_equal(on, 1);
        plugin_fixture_close(&fixture);
}

static void dispatch_by_kind(struct plugin_fixture *fixture) {
        if (fixture->n_items == 1)
                assert_int_equal(dispatch(fixture, 0, 0, 1), 0);
        if (fixture->n_items == 2)
                assert_int_equal(dispatch(fixture, 1, 1, 1), 0);
}

static void test_reasons(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 3);
        fixture.act = dispatch_by_kind;
        plugin_push(&fixture, 4);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(fixture.reason, DISPATCH_FULL);
        plugin_push(&fixture, 3);
        assert_int_equal(plugin_begin(&fixture, &on), 3);
        assert_int_equal(fixture.reason, DISPATCH_DUE);
        fixture.act = NULL;
        fixture.policy->ops->drain(fixture.policy, plugin_now_ns);
        fixture.n_items = 0;
        fixture.act = dispatch_by_kind;
        plugin_end(&fixture, 0);
        fixture.n_items = 0;
        plugin_push(&fixture, 4);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(fixture.reason, DISPATCH_DRAIN);
        plugin_fixture_close(&fixture);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void dispatch_half_the_group(struct plugin_fixture *fixture) {
        if (fixture->n_items != 8)
                return;
        assert_int_equal(dispatch(fixture, 0, 0, 4), 0);
        /* Items that have ended are not read. The others are at the same addresses as before. */
        for (unsigned i = 4; i < 8; i++) {
                assert_true(fixture->last_items[i].id == fixture->items[i].id);
                assert_int_equal(fixture->last_items[i].rows, 1);
        }
        fixture->n_items++; /* once */
}

/* Requests that were submitted together are announced together: check 56. */
static void test_a_group(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        fixture.act = dispatch_half_the_group;
        plugin_push_group(&fixture, 8);
        assert_string_equal(fixture.calls,
                            "init 1; group 8; enqueue 1; enqueue 1; enqueue 1; enqueue 1; "
                            "enqueue 1; enqueue 1; enqueue 1; enqueue 1; ");
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(fixture.queue.n_waiting, 4);
        for (unsigned i = 4; i < 8; i++)
                assert_true(fixture.last_items[i].id == fixture.items[i].id);
        plugin_fixture_close(&fixture);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void arm_on_enqueue(struct plugin_fixture *fixture) {
        if (fixture->n_items == 1)
                fixture->ops->set_timer(fixture->host, plugin_now_ns + 3 * PLUGIN_STALL_NS);
        fixture->n_items += fixture->n_items == 1; /* once */
}

static void test_timer(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        fixture.act = arm_on_enqueue;
        plugin_push(&fixture, 1);
        assert_int_equal(fixture.policy->due_ns, PLUGIN_START_NS + 3 * PLUGIN_STALL_NS);
        plugin_pass(&fixture, 3 * PLUGIN_STALL_NS - 1);
        assert_string_equal(fixture.calls, "init 1; enqueue 1; ");
        plugin_pass(&fixture, 1);
        assert_string_equal(fixture.calls, "init 1; enqueue 1; timer; ");
        /* The timer is not armed any more, so the plug-in stalls from now on. */
        assert_int_equal(fixture.policy->due_ns, plugin_now_ns + PLUGIN_STALL_NS);
        plugin_fixture_close(&fixture);
}

static void test_stall(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        plugin_push(&fixture, 2);
        plugin_pass(&fixture, PLUGIN_STALL_NS / 2);
        plugin_push(&fixture, 1);
        plugin_pass(&fixture, PLUGIN_STALL_NS / 2 - 1);
        assert_int_equal(plugin_begin(&fixture, &on), 0);
        plugin_pass(&fixture, 1);
        assert_string_equal(fixture.calls, "init 1; enqueue 2; enqueue 1; fini; ");
        assert_true(plugin_counted(&fixture, "stall") == 1);
        /* The built-in policy gets the waiting requests and the later ones. */
        assert_int_equal(plugin_begin(&fixture, &on), 2);
        plugin_end(&fixture, 0);
        plugin_push(&fixture, 3);
        assert_int_equal(plugin_begin(&fixture, &on), 1);
        plugin_end(&fixture, 0);
        assert_int_equal(plugin_begin(&fixture, &on), 3);
        plugin_end(&fixture, 0);
        assert_int_equal(fixture.policy->due_ns, 0);
        plugin_fixture_close(&fixture);
        assert_string_equal(fixture.calls, "init 1; enqueue 2; enqueue 1; fini; ");
}

static void dispatch_second(struct plugin_fixture *fixture) {
        if (fixture->n_items == 2)
                assert_int_equal(dispatch(fixture, 0, 1, 1), 0);
        fixture->n_items += fixture->n_items == 2; /* once */
}

/* A busy member is no stall, however long it is busy. One item is forgotten while others are
 * served. */
static void test_stall_of_one_item(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        fixture.act = dispatch_second;
        plugin_push(&fixture, 2);
        plugin_pass(&fixture, NS_PER_MS);
        plugin_push(&fixture, 1);
        assert_int_equal(plugin_begin(&fixture, &on), 1);
        plugin_pass(&fixture, 5 * PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 0);
        plugin_end(&fixture, 0);
        plugin_pass(&fixture, 0);
        assert_true(plugin_counted(&fixture, "stall") == 1);
        assert_int_equal(plugin_begin(&fixture, &on), 2);
        plugin_fixture_close(&fixture);
}

/* Rows that are too few for the smallest batch wait for more. This is no stall. */
static void test_no_stall_below_the_range(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 0);
        fixture.executors[0].min_rows = 4;
        plugin_join(&fixture, 0);
        plugin_push(&fixture, 3);
        assert_int_equal(fixture.policy->due_ns, 0);
        plugin_push(&fixture, 1);
        assert_int_equal(fixture.policy->due_ns, plugin_now_ns + PLUGIN_STALL_NS);
        plugin_fixture_close(&fixture);
}

/* No shape has enough rows for the smallest batch, but all shapes together have. */
static void test_no_stall_of_mixed_shapes(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_prepare(&fixture, DEFAULT, 1);
        fixture.executors[0].min_rows = 4;
        plugin_fixture_begin(&fixture);
        fixture.fake->model.needs_equal_shapes = true;
        plugin_push_wide(&fixture, 3, 1);
        plugin_push_wide(&fixture, 3, 2);
        for (unsigned i = 0; i < 5; i++)
                plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 0);
        plugin_push_wide(&fixture, 1, 2);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        /* the first shape has too few rows, the second has enough */
        assert_true(plugin_counted(&fixture, "stall") == 0);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 1);
        plugin_fixture_close(&fixture);
}

/* Whole requests that do not fit leave a member free. One that fits and waits is a stall. */
static void test_no_stall_of_what_does_not_fit(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_prepare(&fixture, FIXED, 1);
        fixture.executors[0].min_rows = 2;
        plugin_fixture_begin(&fixture);
        plugin_push(&fixture, 7);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 0);
        plugin_push(&fixture, 1);
        plugin_push(&fixture, 1);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 1);
        plugin_fixture_close(&fixture);
}

static struct policy *composite_of(const struct plugin_fixture *fixture, uint32_t smallest) {
        const struct row_range ranges[] = { { smallest, smallest }, { 4, 4 } };
        struct batching_config batching;
        struct policy         *policy;

        assert_ok(batching_config_init(&batching, fixture->fake->model.config), "batching");
        assert_ok(policy_composite_new(
                          &(struct policy_composite_options){
                                  .batching = &batching,
                                  .ranges = ranges,
                                  .n_ranges = 2,
                                  .may_split = true,
                                  .may_wait = smallest > 1,
                          },
                          &policy),
                  "composite");
        return policy;
}

static void dispatch_one_row(struct plugin_fixture *fixture) {
        if (fixture->n_items == 1)
                assert_int_equal(dispatch_rows(fixture, 0, 0, 0, 1), 0);
        fixture->n_items += fixture->n_items == 1; /* once */
}

/* The built-in policy continues with the rows of a request that the plug-in did not dispatch. */
static void test_stall_with_members(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_prepare(&fixture, FIXED, 2);
        fixture.may_split = true;
        fixture.executors[0].max_rows = 1;
        fixture.executors[1].min_rows = 4;
        fixture.builtin = composite_of(&fixture, 1);
        plugin_fixture_begin(&fixture);
        fixture.act = dispatch_one_row;
        plugin_push(&fixture, 5);
        assert_int_equal(plugin_begin(&fixture, &on), 1);
        plugin_end(&fixture, 0);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 1);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(on, 1);
        assert_int_equal(fixture.n_ended, 1);
        plugin_fixture_close(&fixture);
}

/* What the built-in policy refuses is refused: rows that no member takes when the model ends. */
static void test_stall_and_drain(void **state) {
        struct plugin_fixture fixture;
        unsigned              on;

        (void)state;
        plugin_fixture_prepare(&fixture, FIXED, 2);
        fixture.may_split = true;
        fixture.executors[0].min_rows = fixture.executors[0].max_rows = 3;
        fixture.executors[1].min_rows = 4;
        fixture.builtin = composite_of(&fixture, 3);
        plugin_fixture_begin(&fixture);
        plugin_push(&fixture, 5);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_true(plugin_counted(&fixture, "stall") == 1);
        assert_int_equal(plugin_begin(&fixture, &on), 4);
        assert_int_equal(plugin_begin(&fixture, &on), 0); /* one row waits for two more */
        assert_int_equal(fixture.queue.n_rows, 1);
        fixture.policy->ops->drain(fixture.policy, plugin_now_ns);
        assert_int_equal(plugin_begin(&fixture, &on), 0);
        assert_int_equal(plugin_take_refused(&fixture,
                                             "[request id: <id_unknown>] the model is being "
                                             "unloaded, and no instance takes a batch of the "
                                             "rows that wait"),
                         1);
        assert_int_equal(fixture.n_ended, 1);
        plugin_fixture_close(&fixture);
}

static void arm_always(struct plugin_fixture *fixture) {
        fixture->ops->set_timer(fixture->host, plugin_now_ns + PLUGIN_STALL_NS);
}

static void test_leftovers(void **state) {
        struct plugin_fixture fixture;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 1);
        fixture.act = arm_always;
        plugin_push(&fixture, 1);
        plugin_push(&fixture, 1);
        fixture.policy->ops->drain(fixture.policy, plugin_now_ns);
        fixture.policy->ops->drain(fixture.policy, plugin_now_ns);
        for (unsigned i = 0; i < 4; i++)
                plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_null(fixture.policy->refused);
        plugin_pass(&fixture, PLUGIN_STALL_NS);
        assert_int_equal(plugin_take_refused(&fixture, "[request id: <id_unknown>] the model is "
                                                       "unloading, and its scheduler has left the "
                                                       "request waiting"),
                         2);
        assert_int_equal(fixture.queue.n_waiting, 0);
        assert_string_equal(fixture.calls,
                            "init 1; enqueue 1; enqueue 1; drain; timer; timer; timer; "
                            "timer; timer; ");
        plugin_fixture_close(&fixture);
}

/* ---- members that come and go ---------------------------------------------------------------- */

static void test_members_change(void **state) {
        struct plugin_fixture fixture;
        struct sched_view     view;
        uint64_t              id;

        (void)state;
        plugin_fixture_open(&fixture, FIXED, 2);
        view = plugin_view(&fixture);
        plugin_push(&fixture, 2);
        id = fixture.items[0].id;
        plugin_join(&fixture, 2);
        assert_string_equal(fixture.calls, "init 2; enqueue 2; fini; init 3; enqueue 2; ");
        assert_true(fixture.items[1].id != id);
        fixture.policy->ops->instance_left(fixture.policy, &view, &fixture.instances[0]);
        assert_string_equal(fixture.calls,
                            "init 2; enqueue 2; fini; init 3; enqueue 2; fini; init 2; "
                            "enqueue 2; ");
        assert_int_equal(fixture.instances[1].policy_index, 0);
        assert_int_equal(fixture.instances[2].policy_index, 1);
        fixture.init_code = EINVAL;
        fixture.policy->ops->instance_left(fixture.policy, &view, &fixture.instances[1]);
        list_remove(&fixture.instances[0].idle_node);
        list_remove(&fixture.instances[1].idle_node);
        {
                unsigned on;

                assert_int_equal(plugin_begin(&fixture, &on), 2); /* the built-in policy */
                assert_int_equal(on, 2);
        }
        plugin_fixture_close(&fixture);
}

static void test_init_refuses(void **state) {
        struct plugin_fixture fixture = { .n_instances = 1, .init_code = ENOMEM };

        (void)state;
        plugin_fixture_now = &fixture;
        fixture.fake = fake_model_new(FIXED);
        fixture.executors[0] = (struct executor){ .name = "g_0" };
        assert_error(plugin_fixture_make(&fixture), ERR_INVALID_ARG,
                     "scheduler library 'built in' refused the model: init() returned 12 (Cannot "
                     "allocate memory)");
        assert_string_equal(fixture.calls, "init 1; ");
        fake_model_free(fixture.fake);
}

/* ---- its parts ------------------------------------------------------------------------------- */

static void test_member_names(void **state) {
        struct executor        e[] = { { .name = "b4_1", .index = 1, .min_rows = 4, .max_rows = 8 },
                                       { .name = "passive_0", .is_passive = true },
                                       { .name = "odd", .index = 2 },
                                       { .name = "x_0", .group_name = "named" } };
        struct executor *const executors[] = { &e[0], &e[1], &e[2], &e[3] };
        struct plugin_members  m;

        (void)state;
        plugin_members_init(&m, executors, 4);
        assert_int_equal(m.n, 3);
        assert_string_equal(m.views[0].name, "b4");
        assert_int_equal(m.views[0].lo, 4);
        assert_int_equal(m.views[0].hi, 8);
        assert_int_equal(m.views[0].virtual_index, 1);
        assert_string_equal(m.views[1].name, "odd");
        assert_int_equal(m.views[1].id, 1);
        assert_int_equal(m.views[1].hi, 1);
        assert_string_equal(m.views[2].name, "named");
        plugin_members_done(&m);
}

static void test_items(void **state) {
        struct plugin_items t = { 0 };
        struct plugin_item *items[200];
        uint64_t            old;

        (void)state;
        for (unsigned i = 0; i < ARRAY_LEN(items); i++)
                assert_non_null(items[i] = plugin_items_add(&t));
        assert_int_equal(t.n, ARRAY_LEN(items));
        for (unsigned i = 0; i < ARRAY_LEN(items); i++)
                assert_ptr_equal(plugin_items_find(&t, items[i]->id), items[i]);
        old = items[7]->id;
        plugin_items_remove(&t, items[7]);
        assert_null(plugin_items_find(&t, old));
        assert_ptr_equal(plugin_items_add(&t), items[7]);
        assert_true(items[7]->id != old);
        assert_null(plugin_items_find(&t, 0));
        assert_null(plugin_items_find(&t, UINT64_MAX));
        plugin_items_clear(&t);
        assert_int_equal(t.n, 0);
        assert_null(plugin_items_find(&t, old));
        plugin_items_done(&t);
}

static void test_counters(void **state) {
        struct fake_model     *fake = fake_model_new(FIXED);
        struct plugin_counters c;
        char                   name[80];

        (void)state;
        plugin_counters_init(&c, fake->registry, &fake->model);
        assert_false(plugin_counters_add(&c, "", 1));
        assert_false(plugin_counters_add(&c, NULL, 1));
        assert_false(plugin_counters_add(&c, "a-b", 1));
        assert_false(plugin_counters_add(&c, "a", -0.5));
        memset(name, 'x', sizeof(name));
        name[65] = '\0';
        assert_false(plugin_counters_add(&c, name, 1));
        name[64] = '\0';
        assert_true(plugin_counters_add(&c, name, 1));
        for (unsigned i = 0; i < PLUGIN_MAX_COUNTERS - 3; i++) {
                snprintf(name, sizeof(name), "c%u", i);
                assert_true(plugin_counters_add(&c, name, 1));
        }
        assert_false(plugin_counters_add(&c, "one_more", 1));
        assert_true(plugin_counters_add(&c, "c0", 1));
        plugin_counters_done(&c);
        fake_model_free(fake);
}

SUITE(policy_plugin) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_dispatch),
                cmocka_unit_test(test_item),
                cmocka_unit_test(test_two_time_out_together),
                cmocka_unit_test(test_wrong_calls),
                cmocka_unit_test(test_calls_from_outside),
                cmocka_unit_test(test_shape_classes),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_the_rest_is_cancelled),
                cmocka_unit_test(test_the_rest_is_rejected),
                cmocka_unit_test(test_exclusive_members),
                cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_a_group),
                cmocka_unit_test(test_timer),
                cmocka_unit_test(test_stall),
                cmocka_unit_test(test_stall_of_one_item),
                cmocka_unit_test(test_no_stall_below_the_range),
                cmocka_unit_test(test_no_stall_of_mixed_shapes),
                cmocka_unit_test(test_no_stall_of_what_does_not_fit),
                cmocka_unit_test(test_stall_with_members),
                cmocka_unit_test(test_stall_and_drain),
                cmocka_unit_test(test_leftovers),
                cmocka_unit_test(test_members_change),
                cmocka_unit_test(test_init_refuses),
                cmocka_unit_test(test_member_names),
                cmocka_unit_test(test_items),
                cmocka_unit_test(test_counters),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
