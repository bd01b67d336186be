/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states through the whole scheduler. The executor adds the number in each request's name to
 * the state SUM and appends it to the state LIST. The values that it read are written as
 * "b3=<sum>[<list>]"; "-" is a null request. For a request named k<n> it writes new values without
 * updating the states.
 */
#include "suite.h"

#include "base/mem.h"
#include "infer/implicit_state.h"
#include "sequence/sequence_fixture.h"

#include <inttypes.h>

#define X "input { name: 'X' data_type: TYPE_FP32 dims: 1 } "
#define SUM                                                                                        \
        "control_input { name: 'S' control { kind: CONTROL_SEQUENCE_START "                        \
        "int32_false_true: [ 0, 1 ] } } "                                                          \
        "state { input_name: 'SUM_IN' output_name: 'SUM' data_type: TYPE_INT32 dims: 1 } "
#define LIST                                                                                       \
        "state { input_name: 'LIST_IN' output_name: 'LIST' data_type: TYPE_INT32 dims: -1 "        \
        "initial_state { name: 'none' data_type: TYPE_INT32 dims: 0 zero_data: true } } "
#define MODEL(batch, more)                                                                         \
        "name: 'm' max_batch_size: " #batch " " X                                                  \
        "sequence_batching { max_sequence_idle_microseconds: 3600000000 " more "} "

static int32_t number_of(const struct request *req) {
        return request_is_null(req) ? 1 : req->id[1] - '0';
}

static void update(struct request *req, const char *name, int64_t dim, const int32_t *values) {
        const int64_t          shape[] = { 1, dim };
        bool                   has_batch = req->model->io->max_batch_size > 0;
        size_t                 n_bytes = (size_t)dim * sizeof(*values);
        struct implicit_state *state;
        void                  *bytes;

        error_free(implicit_state_new(req, name, DATA_TYPE_INT32, shape + !has_batch, 1 + has_batch,
                                      &state));
        error_free(implicit_state_buffer(state, n_bytes, &(enum memory_type){ MEMORY_CPU },
                                         &(int64_t){ 0 }, &bytes));
        memcpy(bytes, values, n_bytes);
        if (req->id[0] != 'k')
                error_free(implicit_state_update(state));
}

static size_t step_sum(struct request *req, char *to, size_t room) {
        const struct request_input *in = request_find_input(req, "SUM_IN");
        int32_t                     sum;

        memcpy(&sum, in->only_chunk.base, sizeof(sum));
        room = (size_t)snprintf(to, room, "=%d%s", sum, in->byte_size == 4 ? "" : "?");
        sum += number_of(req);
        update(req, "SUM", 1, &sum);
        return room;
}

static size_t step_list(struct request *req, char *to, size_t room) {
        const struct request_input *in = request_find_input(req, "LIST_IN");
        size_t                      len = 0, n;
        int32_t                     values[16] = { 0 };

        if (in == NULL)
                return 0;
        n = in->byte_size / sizeof(values[0]);
        if (n > 0)
                memcpy(values, in->only_chunk.base, in->byte_size);
        len = (size_t)snprintf(to, room, "[");
        for (size_t i = 0; i < n; i++)
                len += (size_t)snprintf(to + len, room - len, "%d", values[i]);
        len += (size_t)snprintf(to + len, room - len,
                                (size_t)in->shape[in->n_dims - 1] == n ? "]" : "]?");
        values[n] = number_of(req);
        update(req, "LIST", (int64_t)n + 1, values);
        return len;
}

static void see(struct fake_executor *e, struct request **requests, uint32_t n) {
        char  *to = seen[n_seen];
        size_t len = 0;

        (void)e;
        mem_fail_after(0); /* a failure must come before this */
        for (uint32_t i = 0; i < n; i++) {
                len += (size_t)snprintf(to + len, sizeof(seen[0]) - len, "%s%s", i > 0 ? " " : "",
                                        request_is_null(requests[i]) ? "-" : requests[i]->id);
                len += step_sum(requests[i], to + len, sizeof(seen[0]) - len);
                len += step_list(requests[i], to + len, sizeof(seen[0]) - len);
        }
        n_seen = (n_seen + 1) % FIXTURE_MAX_SEEN;
}

static struct fixture *open_fixture(const char *config, unsigned n_executors) {
        return fixture_open_seeing(config, n_executors, see);
}

static void test_one_sequence(void **state) {
        static const char *const configs[] = { MODEL(0, SUM LIST), MODEL(1, SUM LIST),
                                               MODEL(1, SUM LIST "oldest { } "),
                                               MODEL(1, SUM LIST) NEVER_INLINE };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
                struct fixture *fixture = open_fixture(configs[i], 1);

                run_one(fixture, "a1", 7, S);
                run_one(fixture, "a2", 7, 0);
                run_one(fixture, "k3", 7, 0); /* is not carried over */
                run_one(fixture, "a4", 7, 0);
                run_one(fixture, "a5", 7, S); /* begins anew */
                run_one(fixture, "a6", 7, E);
                run_one(fixture, "a7", 7, S | E);
                run_one(fixture, "b8", 8, S);
                assert_seen(fixture, 0, "a1=0[]");
                assert_seen(fixture, 1, "a2=1[1]");
                assert_seen(fixture, 2, "k3=3[12]");
                assert_seen(fixture, 3, "a4=3[12]");
                assert_seen(fixture, 4, "a5=0[]");
                assert_seen(fixture, 5, "a6=5[5]");
                assert_seen(fixture, 6, "a7=0[]");
                assert_seen(fixture, 7, "b8=0[]");
                fixture_close(fixture); /* together with a sequence that has states */
        }
}

/* Each sequence has its own states, in any slot. */
static void test_null_requests(void **state) {
        struct fixture *fixture = open_fixture(MODEL(4, SUM) NEVER_INLINE, 1);
        struct ticket  *t[4];

        (void)state;
        hold(fixture, 0);
        t[0] = submit(fixture, "a1", 1, S);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 1);
        t[1] = submit(fixture, "b2", 2, S);
        t[2] = submit(fixture, "c3", 3, S);
        t[3] = submit(fixture, "d4", 4, S | E);
        let_go(fixture, 0);
        for (unsigned i = 0; i < 4; i++)
                end_ticket(t[i]);
        run_one(fixture, "c5", 3, 0);
        run_one(fixture, "a6", 1, 0);
        run_one(fixture, "c7", 3, E);
        run_one(fixture, "b8", 2, E);
        run_one(fixture, "e9", 5, S);
        assert_seen(fixture, 0, "a1=0");
        assert_seen(fixture, 1, "-=0 b2=0 c3=0 d4=0");
        assert_seen(fixture, 2, "-=0 -=0 c5=3");
        assert_seen(fixture, 3, "a6=1 -=0 -=0");
        assert_seen(fixture, 4, "-=0 -=0 c7=8");
        assert_seen(fixture, 5, "-=0 b8=2");
        assert_seen(fixture, 6, "-=0 e9=0");
        fixture_close(fixture);
}

/* Lists of different lengths run in different executions. Null requests have the length of the
 * lists in their execution. */
static void test_shapes_in_slots(void **state) {
        struct fixture *fixture = open_fixture(MODEL(3, SUM LIST) NEVER_INLINE, 1);
        struct ticket  *t[5];

        (void)state;
        run_one(fixture, "a1", 1, S);
        run_one(fixture, "a2", 1, 0);
        hold(fixture, 0);
        t[0] = submit(fixture, "a3", 1, 0);
        WAIT_FOR(fixture, fixture->executors[0].n_started == 3);
        t[1] = submit(fixture, "b4", 2, S);
        t[2] = submit(fixture, "c5", 3, S);
        t[3] = submit(fixture, "a6", 1, 0);
        let_go(fixture, 0);
        for (unsigned i = 0; i < 4; i++)
                end_ticket(t[i]);
        assert_seen(fixture, 2, "a3=3[12]");
        assert_seen(fixture, 3, "a6=6[123] -=0[000] -=0[000]");
        assert_seen(fixture, 4, "-=0[] b4=0[] c5=0[]");
        fixture_close(fixture);
}

static void test_shapes_in_batches(void **state) {
        struct fixture *fixture =
                open_fixture(MODEL(4, SUM LIST "oldest { max_candidate_sequences: 4 "
                                               "preferred_batch_size: 4 "
                                               "max_queue_delay_microseconds: 3600000000 } ")
                                     NEVER_INLINE,
                             1);
        struct ticket *t[8];

        (void)state;
        for (unsigned i = 0; i < 4; i++)
                t[i] = submit(fixture, (const char *[]){ "a1", "k2", "c3", "d4" }[i], i + 1, S);
        for (unsigned i = 0; i < 4; i++)
                assert_success(t[i]);
        for (unsigned i = 0; i < 4; i++)
                t[4 + i] = submit(fixture, (const char *[]){ "a5", "b6", "c7", "d8" }[i], i + 1, E);
        for (unsigned i = 0; i < 8; i++)
                end_ticket(t[i]);
        assert_seen(fixture, 0, "a1=0[] k2=0[] c3=0[] d4=0[]");
        assert_seen(fixture, 1, "a5=1[1] c7=3[3] d8=4[4]");
        assert_seen(fixture, 2, "b6=0[]");
        assert_int_equal(FIXTURE_GET(fixture, n_seen), 3);
        fixture_close(fixture);
}

/* ---- iterative ------------------------------------------------------------------------------- */

/* Each step reads what the one before has updated. */
static void test_iterative(void **state) {
        struct fixture *fixture = open_fixture(MODEL(0, SUM LIST "iterative_sequence: true "), 1);

        (void)state;
        fixture_reschedules(fixture, &fixture_thrice_ops);
        run_one(fixture, "a2", 0, 0);
        run_one(fixture, "b3", 0, 0);
        assert_seen(fixture, 0, "a2=0[]");
        assert_seen(fixture, 1, "a2=2[2]");
        assert_seen(fixture, 2, "a2=4[22]");
        assert_seen(fixture, 3, "b3=0[]");
        assert_seen(fixture, 5, "b3=6[33]");
        fixture_close(fixture);
}

/* ---- without memory --------------------------------------------------------------------------- */

/* An instance is not idle until its thread has started. Submits requests until one runs on this
 * thread. */
static void settle(struct fixture *fixture) {
        uint64_t give_up_ns = clock_now_ns() + FIXTURE_PATIENCE_NS;
        bool     is_here = false;

        while (!is_here) {
                struct ticket *t = submit(fixture, "z1", 9, S | E);

                assert_success(t);
                is_here = pthread_equal(FIXTURE_GET(fixture, t->ran_on), pthread_self());
                end_ticket(t);
                if (clock_now_ns() > give_up_ns)
                        fail_msg("no request runs on the submitting thread");
        }
}

/* Lets the n-th allocation of a first request fail. Its sequence can start again. Returns false
 * when there are fewer allocations. */
static bool run_without_memory(const char *config, unsigned n, unsigned *n_refused) {
        struct fixture *fixture = open_fixture(config, 1);
        struct ticket  *t = call_new(fixture, &(struct call){ "a1", 1, NULL, S });
        struct error   *err;
        bool            has_failed = true;

        settle(fixture);
        mem_fail_after(n);
        err = ticket_try_submit(t);
        mem_fail_after(0);
        if (err != NULL) {
                error_free(err);
                request_free(t->req);
                free(t);
        } else {
                WAIT_FOR(fixture, t->n_finals > 0 && t->n_releases > 0);
                /* The message is missing when there is no memory for its text. */
                has_failed = FIXTURE_GET(fixture, t->n_executions) == 0;
                if (FIXTURE_GET(fixture, t->has_error))
                        assert_string_equal(t->message,
                                            "out of memory for the states of a sequence");
                *n_refused += has_failed;
                end_ticket(t);
        }
        FIXTURE_SET(fixture, n_seen, 0);
        run_one(fixture, "b2", 1, S);
        run_one(fixture, "c3", 1, E);
        assert_seen(fixture, 0, "b2=0[]");
        assert_seen(fixture, 1, "c3=2[2]");
        fixture_close(fixture);
        return has_failed;
}

static void test_no_memory(void **state) {
        static const char *const configs[] = {
                MODEL(1, SUM LIST) "parameters { key: 'inline_execution' value { string_value: "
                                   "'always' } } ",
                MODEL(2, SUM LIST) "parameters { key: 'inline_execution' value { string_value: "
                                   "'always' } } ",
                MODEL(2, SUM LIST "oldest { } ") "parameters { key: 'inline_execution' value { "
                                                 "string_value: 'always' } } ",
        };
        unsigned n_refused = 0;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(configs); i++)
                for (unsigned n = 1; run_without_memory(configs[i], n, &n_refused); n++)
                        continue;
        assert_true(n_refused > 3);
}

SUITE(sequence_states) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_sequence),    cmocka_unit_test(test_null_requests),
                cmocka_unit_test(test_shapes_in_slots), cmocka_unit_test(test_shapes_in_batches),
                cmocka_unit_test(test_iterative),       cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
