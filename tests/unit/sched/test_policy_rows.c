/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of the default scheduler and of the dynamic batcher, one row each, on a clock of the test.
 * queue_script.h has the language.
 */
#include "suite.h"

#include "base/mem.h"
#include "sched/queue_script.h"

#define RUN_ROWS(rows) script_run_rows(rows, ARRAY_LEN(rows))

static void test_default_scheduler(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "every request is a batch of its own, first come first served",
                  .steps = "idles; push a rows=2; push b rows=3; push c; runs a; runs b; runs c; "
                           "idles" },
                { .rule = "also of a model that does not batch",
                  .max_batch = -1,
                  .steps = "push a; push b; runs a; push c; runs b; runs c; idles" },
                { .rule = "priorities and timeouts are ignored",
                  .steps = "push a level=9 timeout=1; push b level=1; at 5000; rejects none; "
                           "due never; runs a; runs b" },
                { .rule = "there is no limit",
                  .steps = "push a; push b; push c; push d; push e; takes a b c d e" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_no_delay(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "a request runs as soon as an instance is free",
                  .batching = "",
                  .steps = "idles; push a; runs a; idles" },
                { .rule = "with whatever is queued then",
                  .batching = "",
                  .steps = "push a rows=2; push b rows=2; push c; runs a b c; idles" },
                { .rule = "up to max_batch_size exactly",
                  .batching = "",
                  .steps = "push a rows=5; push b rows=3; push c; runs a b; runs c" },
                { .rule = "never beyond max_batch_size",
                  .batching = "",
                  .steps = "push a rows=5; push b rows=4; runs a; runs b" },
                { .rule = "a request that would fit does not overtake others",
                  .batching = "",
                  .steps = "push a rows=5; push b rows=4; push c rows=3; runs a; runs b c" },
                { .rule = "a single request beyond max_batch_size runs alone",
                  .batching = "",
                  .steps = "push a rows=20; push b; push c; runs a; runs b c" },
                { .rule = "and ends the batch before it",
                  .batching = "",
                  .steps = "push a; push b rows=20; push c; runs a; runs b; runs c" },
                { .rule = "requests without rows count as one",
                  .batching = "",
                  .max_batch = 2,
                  .steps = "push a rows=0; push b rows=0; push c rows=0; runs a b; runs c" },
                { .rule = "max_batch_size 1 never batches",
                  .batching = "",
                  .max_batch = 1,
                  .steps = "push a; push b; runs a; runs b" },
                { .rule = "a model that does not batch runs one by one",
                  .batching = "max_queue_delay_microseconds: 100",
                  .max_batch = -1,
                  .steps = "push a; push b; runs a; runs b" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_preferred_sizes(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "exactly a preferred size runs, the rest stays",
                  .batching = "preferred_batch_size: [4]",
                  .steps = "push a; push b; push c; push d; push e; runs a b c d; runs e" },
                { .rule = "the largest that was reached wins",
                  .batching = "preferred_batch_size: [2, 4]",
                  .steps = "push a; push b; push c; push d; push e; runs a b c d; runs e" },
                { .rule = "a smaller one when the larger is not reached",
                  .batching = "preferred_batch_size: [2, 4]",
                  .steps = "push a; push b; push c; runs a b; runs c" },
                { .rule = "the order of the sizes in the configuration does not matter",
                  .batching = "preferred_batch_size: [4, 2, 4]",
                  .steps = "push a; push b; push c; push d; runs a b c d" },
                { .rule = "sizes that requests jump over do not count",
                  .batching = "preferred_batch_size: [4, 6]",
                  .steps = "push a rows=3; push b rows=2; runs a b" },
                { .rule = "going beyond the largest preferred size, what is there counts as one",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=3; waits 1000; push b rows=2; runs a; waits 1000" },
                { .rule = "not when one was reached before",
                  .batching = "preferred_batch_size: [2, 6] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=2; push b rows=3; push c rows=2; runs a; waits 1000" },
                { .rule = "only the largest one matters for that",
                  .batching = "preferred_batch_size: [2, 6] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=3; push b rows=2; waits 1000; push c rows=2; runs a b; "
                           "runs c" },
                { .rule = "a single request beyond the largest preferred size runs at once",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=6; runs a" },
                { .rule = "followed by another, still alone",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=6; push b; runs a; waits 1000" },
                { .rule = "reached and gone beyond: exactly the preferred",
                  .batching = "preferred_batch_size: [4]",
                  .steps = "push a rows=2; push b rows=2; push c rows=2; push d rows=2; runs a b; "
                           "runs c d" },
                { .rule = "no preferred size means max_batch_size",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=7; waits 1000; push b; runs a b; idles" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_delayed_start(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "no batch before so many are queued, once",
                  .batching = "",
                  .n_delayed = 3,
                  .steps = "idles; push a; idles; push b; idles; push c; runs a b c; push d; "
                           "runs d" },
                { .rule = "whatever the delay and the preferred sizes",
                  .batching = "preferred_batch_size: [2] max_queue_delay_microseconds: 100",
                  .n_delayed = 4,
                  .steps = "push a; push b; push c; at 500; idles; push d; runs a b c d; push e; "
                           "waits 600" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_filter(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "a request that is not admitted ends the batch",
                  .batching = "",
                  .max_weight = 3,
                  .steps = "push a; push b rows=2; push c; push d; asked; runs a b; asked a b c .; "
                           "runs c d; asked c d ." },
                { .rule = "at once, whatever the delay",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .max_weight = 3,
                  .steps = "push a rows=2; waits 1000; push b rows=2; runs a; waits 1000" },
                { .rule = "each batch that is formed is asked about anew",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .max_weight = 5,
                  .steps = "push a; waits 1000; asked a .; push b; waits 1000; asked a b .; "
                           "at 1000; runs a b; asked a b ." },
                { .rule = "the first one runs even if it is not admitted",
                  .batching = "",
                  .max_weight = 2,
                  .steps = "push a rows=4; push b; runs a; asked a b .; runs b" },
                { .rule = "a preferred size that was reached wins",
                  .batching = "preferred_batch_size: [2]",
                  .max_weight = 3,
                  .steps = "push a; push b; push c; push d; runs a b; runs c d" },
                { .rule = "the filter is not asked about a request that does not fit",
                  .batching = "",
                  .max_weight = 100,
                  .steps = "push a rows=5; push b rows=4; runs a; asked a .; runs b" },
                { .rule = "nor about requests behind a refused one",
                  .batching = "",
                  .max_weight = 1,
                  .steps = "push a; push b; push c; runs a; asked a b ." },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_delay(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "waits for the rest of the oldest one's delay",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .steps = "at 50; push a; waits 1050; at 450; push b; waits 1050; at 1049; "
                           "waits 1050; at 1050; runs a b; idles" },
                { .rule = "each batch has its own oldest",
                  .batching = "preferred_batch_size: [2] max_queue_delay_microseconds: 1000",
                  .steps = "push a; at 300; push b; at 400; push c; runs a b; waits 1400; "
                           "at 1399; waits 1400; at 1400; runs c" },
                { .rule = "a preferred size runs without waiting",
                  .batching = "preferred_batch_size: [2] max_queue_delay_microseconds: 1000",
                  .steps = "push a; waits 1000; at 10; push b; runs a b" },
                { .rule = "once the delay is over, all that is pending runs",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=2; push b rows=2; push c rows=2; at 1000; runs a b c" },
                { .rule = "but not more than max_batch_size",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=4; push b rows=4; push c rows=4; at 1000; runs a b; "
                           "runs c" },
                { .rule = "a batch that cannot grow does not wait",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=5; push b rows=4; runs a; waits 1000" },
                { .rule = "cannot grow and is late: all that fits, not only the preferred",
                  .batching = "preferred_batch_size: [2, 8] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=2; push b rows=3; push c rows=4; at 1000; runs a b; "
                           "runs c" },
                { .rule = "cannot grow in time: exactly the preferred",
                  .batching = "preferred_batch_size: [2, 8] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=2; push b rows=3; push c rows=6; at 999; runs a; runs b; "
                           "waits 1000" },
                { .rule = "the oldest counts, wherever it stands in the order",
                  .batching = "max_queue_delay_microseconds: 1000 priority_levels: 2 "
                              "default_priority_level: 2",
                  .steps = "push a level=2; at 600; push b level=1; waits 1000; at 1000; "
                           "runs b a" },
                { .rule = "a delay beyond all time",
                  .batching = "max_queue_delay_microseconds: 18446744073709551615",
                  .steps = "push a; waits never; at 999999999; waits never; push b rows=7; "
                           "runs a b" },
        };

        (void)state;
        RUN_ROWS(rows);
}

#define VARIABLE_X "input { name: 'X' data_type: TYPE_FP32 dims: -1 } "
#define RAGGED_R "input { name: 'R' data_type: TYPE_FP32 dims: -1 allow_ragged_batch: true } "
#define SHAPE_S "input { name: 'S' data_type: TYPE_INT32 dims: 2 is_shape_tensor: true } "
#define OPTIONAL_OP                                                                                \
        "input { name: 'O' data_type: TYPE_FP32 dims: 1 optional: true } "                         \
        "input { name: 'P' data_type: TYPE_FP32 dims: 1 optional: true } "

static void test_shapes(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "another shape ends the batch, which runs at once",
                  .batching = "max_queue_delay_microseconds: 1000",
                  .inputs = VARIABLE_X,
                  .steps = "push a X=4; push b X=4 rows=2; push c X=5; push d X=4; runs a b; "
                           "runs c; waits 1000" },
                { .rule = "the batch dimension is not compared",
                  .batching = "",
                  .inputs = VARIABLE_X,
                  .steps = "push a X=4 rows=1; push b X=4 rows=3; runs a b" },
                { .rule = "a preferred size reached before another shape still wins",
                  .batching = "preferred_batch_size: [2, 8] max_queue_delay_microseconds: 1000",
                  .inputs = VARIABLE_X,
                  .steps = "push a X=4 rows=2; push b X=4; push c X=5; runs a; runs b; "
                           "waits 1000" },
                { .rule = "late: all before the other shape",
                  .batching = "preferred_batch_size: [2, 8] max_queue_delay_microseconds: 1000",
                  .inputs = VARIABLE_X,
                  .steps = "push a X=4 rows=2; push b X=4; push c X=5; at 1000; runs a b; runs c" },
                { .rule = "every dimension is compared, also of models that do not name it",
                  .batching = "",
                  .inputs = "input { name: 'X' data_type: TYPE_FP32 dims: [-1, 2, -1] } ",
                  .steps = "push a X=4x2x1; push b X=4x2x1; push c X=4x2x3; runs a b; runs c" },
                { .rule = "ragged inputs are not compared",
                  .batching = "",
                  .inputs = RAGGED_R,
                  .steps = "push a R=4; push b R=5; push c R=1; runs a b c" },
                { .rule = "the others of the same model are",
                  .batching = "",
                  .inputs = RAGGED_R VARIABLE_X,
                  .steps = "push a R=4 X=1; push b R=5 X=1; push c R=5 X=2; runs a b; runs c" },
                { .rule = "shape tensors: contents are compared",
                  .batching = "",
                  .inputs = SHAPE_S VARIABLE_X,
                  .steps = "push a S:1,2 X=3; push b S:1,2 X=3 rows=2; push c S:1,3 X=3; "
                           "push d S:1,3 X=3; push e S:1,3 X=4; runs a b; runs c d; runs e" },
                { .rule = "optional inputs: the same set of inputs",
                  .batching = "",
                  .inputs = "input { name: 'X' data_type: TYPE_FP32 dims: 1 } " OPTIONAL_OP,
                  .steps = "push a; push b; push c +O; push d +O; push e +P; push f +O +P; "
                           "push g +O +P; runs a b; runs c d; runs e; runs f g" },
                { .rule = "inputs of fixed size are all alike",
                  .batching = "",
                  .inputs = "input { name: 'X' data_type: TYPE_FP32 dims: [2, 3] } ",
                  .steps = "push a; push b rows=2; runs a b" },
        };

        (void)state;
        RUN_ROWS(rows);
}

#define THREE_LEVELS "priority_levels: 3 default_priority_level: 2 "

static void test_priorities(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "1 is the highest, strictly; in a level by arrival",
                  .batching = THREE_LEVELS,
                  .steps = "push a level=2; push b level=3; push c level=1; push d level=2; "
                           "push e level=1; takes c e a d b" },
                { .rule = "a batch goes on with the next level",
                  .batching = THREE_LEVELS,
                  .steps = "push a level=3; push b level=2; push c level=1; runs c b a" },
                { .rule = "the higher ones first when not all fit",
                  .batching = THREE_LEVELS,
                  .steps = "push a level=2 rows=3; push b level=1 rows=3; push c level=3 rows=3; "
                           "push d level=1 rows=3; runs b d; runs a c" },
                { .rule = "0 is the default level",
                  .batching = THREE_LEVELS,
                  .steps = "push a level=3; push b; push c level=2; push d level=1; "
                           "takes d b c a" },
                { .rule = "so is a level beyond the last",
                  .batching = THREE_LEVELS,
                  .steps = "push a level=3; push b level=4; push c level=18446744073709551615; "
                           "push d level=2; takes b c d a" },
                { .rule = "a model without levels ignores priorities",
                  .batching = "",
                  .steps = "push a level=7; push b level=1; push c; takes a b c" },
        };

        (void)state;
        RUN_ROWS(rows);
}

#define POLICY(text) "default_queue_policy { " text " } "
#define POLICY_OF(level, text) "priority_queue_policy { key: " #level " value { " text " } } "

static void test_timeouts(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "REJECT is the default action",
                  .batching = POLICY("default_timeout_microseconds: 500"),
                  .steps = "at 100; push a; due 600; at 200; push b; at 599; rejects none; at 600; "
                           "rejects a; due 700; at 1000; rejects b; idles; due never" },
                { .rule = "what was taken does not time out",
                  .batching = POLICY("default_timeout_microseconds: 500"),
                  .steps = "push a; at 10; push b; runs a b; due never; at 1000; rejects none" },
                { .rule = "a timeout in the middle of the queue",
                  .batching = POLICY("default_timeout_microseconds: 500 "
                                     "allow_timeout_override: true"),
                  .steps = "push a; push b timeout=100; push c; at 100; rejects b; takes a c" },
                { .rule = "no timeout when none is configured",
                  .batching = "",
                  .steps = "push a; due never; at 999999999; rejects none; runs a" },
                { .rule = "DELAY: served after all others of the level that are in time",
                  .batching = POLICY("timeout_action: DELAY default_timeout_microseconds: 500"),
                  .steps = "push a; at 300; push b; at 500; push c; rejects none; takes b c a" },
                { .rule = "also after those that come later",
                  .batching = POLICY("timeout_action: DELAY default_timeout_microseconds: 500"),
                  .steps = "push a; at 10; push b; at 600; rejects none; push c; push d; "
                           "takes c d a b" },
                { .rule = "delayed once, never again",
                  .batching = POLICY("timeout_action: DELAY default_timeout_microseconds: 500"),
                  .steps = "push a; at 500; rejects none; due never; at 5000; rejects none; "
                           "runs a" },
                { .rule = "the delayed of a level before the next level",
                  .batching = THREE_LEVELS POLICY("timeout_action: DELAY "
                                                  "default_timeout_microseconds: 500"),
                  .steps = "push a level=1; at 400; push b level=2; push c level=1; at 500; "
                           "rejects none; takes c a b" },
                { .rule = "a batch goes on with delayed ones",
                  .batching = POLICY("timeout_action: DELAY default_timeout_microseconds: 500"),
                  .steps = "push a rows=6; at 500; push b; push c; runs b c a" },
                { .rule = "each level has its own policy, others the default one",
                  .batching = THREE_LEVELS POLICY("default_timeout_microseconds: 900")
                          POLICY_OF(1, "default_timeout_microseconds: 100")
                                  POLICY_OF(3, "timeout_action: DELAY "
                                               "default_timeout_microseconds: 200"),
                  .steps = "push a level=1; push b level=2; push c level=3; at 50; "
                           "push d level=3; at 100; rejects a; at 200; rejects none; at 210; "
                           "push e level=3; due 250; at 300; rejects none; "
                           "cancel b; takes e c d" },
                { .rule = "the default level is served under its own policy",
                  .batching = THREE_LEVELS POLICY_OF(2, "default_timeout_microseconds: 100"),
                  .steps = "push a; push b level=3; at 100; rejects a; runs b" },
                { .rule = "a timeout beyond all time",
                  .batching = POLICY("default_timeout_microseconds: 18446744073709551615"),
                  .steps = "push a; due never; push b; cancel a; at 999999999; rejects none; "
                           "runs b" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_timeout_override(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "a request may ask for a shorter time",
                  .batching = POLICY("default_timeout_microseconds: 500 "
                                     "allow_timeout_override: true"),
                  .steps = "push a timeout=100; push b; due 100; at 100; rejects a; at 500; "
                           "rejects b" },
                { .rule = "not for a longer one",
                  .batching = POLICY("default_timeout_microseconds: 500 "
                                     "allow_timeout_override: true"),
                  .steps = "push a timeout=900; due 500; at 500; rejects a" },
                { .rule = "a timeout of zero is ignored",
                  .batching = POLICY("default_timeout_microseconds: 500 "
                                     "allow_timeout_override: true"),
                  .steps = "push a timeout=0; due 500" },
                { .rule = "only when the policy allows it",
                  .batching = POLICY("default_timeout_microseconds: 500"),
                  .steps = "push a timeout=100; due 500; at 100; rejects none; at 500; "
                           "rejects a" },
                { .rule = "where none is configured, a request cannot ask for one",
                  .batching = POLICY("allow_timeout_override: true"),
                  .steps = "push a timeout=100; due never; at 5000; rejects none; runs a" },
                { .rule = "allowed by the level's own policy",
                  .batching = THREE_LEVELS POLICY("default_timeout_microseconds: 500")
                          POLICY_OF(1, "default_timeout_microseconds: 500 "
                                       "allow_timeout_override: true"),
                  .steps = "push a level=1 timeout=100; push b level=2 timeout=100; due 100; "
                           "at 100; rejects a; due 500" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_queue_size(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "exactly max_queue_size",
                  .batching = POLICY("max_queue_size: 2"),
                  .steps = "push a; push b; full c; full d rows=3; takes a b; push e; push f; "
                           "full g; takes e f" },
                { .rule = "what a batch took leaves room",
                  .batching = "preferred_batch_size: [1] " POLICY("max_queue_size: 2"),
                  .steps = "push a; push b; full c; runs a; push d; full e; takes b d" },
                { .rule = "0 is no limit",
                  .batching = POLICY("max_queue_size: 0"),
                  .steps = "push a; push b; push c; push d; push e; takes a b c d e" },
                { .rule = "a cancelled one leaves room at once",
                  .batching = POLICY("max_queue_size: 1"),
                  .steps = "push a; full b; cancel a; push c; full d; takes c" },
                { .rule = "a rejected one too",
                  .batching = POLICY("max_queue_size: 1 default_timeout_microseconds: 100"),
                  .steps = "push a; at 100; full b; rejects a; push c; takes c" },
                { .rule = "delayed ones count",
                  .batching = POLICY("max_queue_size: 2 timeout_action: DELAY "
                                     "default_timeout_microseconds: 100"),
                  .steps = "push a; push b; at 100; rejects none; full c; runs a b; push d" },
                { .rule = "each level by itself, each with its own limit",
                  .batching = THREE_LEVELS POLICY("max_queue_size: 2")
                          POLICY_OF(1, "max_queue_size: 1") POLICY_OF(3, ""),
                  .steps =
                          "push a level=1; full b level=1; push c level=2; push d; full e level=2; "
                          "full f; full f2 level=9; push g level=3; push h level=3; "
                          "push i level=3; takes a c d g h i" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_waiting_time(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "until the nearest timeout when that comes first",
                  .batching = "max_queue_delay_microseconds: 1000 " POLICY(
                          "default_timeout_microseconds: 400"),
                  .steps = "push a; waits 400; at 100; push b; waits 400; at 400; rejects a; "
                           "waits 500; at 500; rejects b; idles" },
                { .rule = "until the end of the delay when that comes first",
                  .batching = "max_queue_delay_microseconds: 300 " POLICY(
                          "default_timeout_microseconds: 400"),
                  .steps = "push a; waits 300; at 300; runs a" },
                { .rule = "a delayed one has no timeout any more",
                  .batching = "max_queue_delay_microseconds: 1000 " POLICY(
                          "timeout_action: DELAY default_timeout_microseconds: 400"),
                  .steps = "push a; waits 400; at 400; waits 1000; at 1000; runs a" },
                { .rule = "the nearest of all, not the first one's",
                  .batching = "max_queue_delay_microseconds: 1000 " POLICY(
                          "default_timeout_microseconds: 900 allow_timeout_override: true"),
                  .steps = "push a; push b timeout=200; push c timeout=300; waits 200; cancel b; "
                           "waits 300" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_cancelled(void **state) {
        static const struct queue_row rows[] = {
                { .rule = "gone at once, whatever its place",
                  .batching = THREE_LEVELS,
                  .steps = "push a; push b; push c level=1; push d; cancel b; cancel c; lost b; "
                           "runs a d; lost a" },
                { .rule = "with its timeout",
                  .batching = POLICY("default_timeout_microseconds: 500"),
                  .steps = "push a; at 10; push b; cancel a; due 510; cancel b; due never; idles" },
                { .rule = "a delayed one",
                  .batching = POLICY("timeout_action: DELAY default_timeout_microseconds: 500"),
                  .steps = "push a; at 10; push b; at 600; rejects none; cancel a; lost a; "
                           "runs b" },
                { .rule = "those after it move up into the batch",
                  .batching = "preferred_batch_size: [4] max_queue_delay_microseconds: 1000",
                  .steps = "push a rows=3; push b rows=2; cancel b; waits 1000; push c; runs a c" },
        };

        (void)state;
        RUN_ROWS(rows);
}

static void test_full_without_an_id(void **state) {
        static const struct queue_row row = { .rule = "full, no id",
                                              .batching = POLICY("max_queue_size: 1") };
        struct queue_script           s;

        (void)state;
        script_open(&s, &row);
        script_push(&s, (char *[]){ "a", NULL }, false);

        struct request *req = script_request(&s, (char *[]){ "", NULL });

        assert_error(request_queue_push(&s.queue, req, s.now_ns), ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] Exceeds maximum queue size");
        script_close(&s);
}

/* Clients choose priorities: empty levels must not accumulate. */
static void test_idle_levels_are_freed(void **state) {
        static const struct queue_row row = {
                .rule = "levels", .batching = "priority_levels: 100000 default_priority_level: 1"
        };
        struct queue_script s;
        char                level[32];

        (void)state;
        script_open(&s, &row);

        struct request *req = script_request(&s, (char *[]){ "a", NULL });

        for (unsigned i = 1; i <= 1000; i++) {
                snprintf(level, sizeof(level), "level=%u", i);
                req->priority = i;
                assert_ok(request_queue_push(&s.queue, req, s.now_ns), level);
                assert_ptr_equal(request_queue_take(&s.queue, 1), req);
                assert_in_range(s.queue.n_levels, 0, 17);
        }
        script_close(&s);
}

/* A push that fails because memory is short leaves the queue unchanged. */
static void test_short_of_memory(void **state) {
        static const struct queue_row row = { .rule = "memory",
                                              .batching =
                                                      POLICY("default_timeout_microseconds: 500") };
        struct queue_script           s;
        struct error                 *err = NULL;
        unsigned                      n_failed = 0;

        (void)state;
        script_open(&s, &row);

        struct request *req = script_request(&s, (char *[]){ "a", NULL });

        for (unsigned n = 1;; n++) {
                mem_fail_after(n);
                err = request_queue_push(&s.queue, req, s.now_ns);
                mem_fail_after(0);
                if (err == NULL)
                        break;
                n_failed++;
                assert_out_of_memory(err);
                assert_int_equal(s.queue.n_waiting, 0);
                assert_true(request_queue_next_due(&s.queue) == CLOCK_NEVER);
                assert_false(request_queue_remove(&s.queue, req));
        }
        assert_true(n_failed >= 2); /* the allocations: the level, the heap of timeouts */
        s.step = "after";
        script_expect(&s, script_take_all(&s), (char *[]){ "a", NULL });
        script_close(&s);
}

SUITE(policy_rows) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_default_scheduler),
                cmocka_unit_test(test_no_delay),
                cmocka_unit_test(test_preferred_sizes),
                cmocka_unit_test(test_delayed_start),
                cmocka_unit_test(test_filter),
                cmocka_unit_test(test_delay),
                cmocka_unit_test(test_shapes),
                cmocka_unit_test(test_priorities),
                cmocka_unit_test(test_timeouts),
                cmocka_unit_test(test_timeout_override),
                cmocka_unit_test(test_queue_size),
                cmocka_unit_test(test_waiting_time),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_full_without_an_id),
                cmocka_unit_test(test_idle_levels_are_freed),
                cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
