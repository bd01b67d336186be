/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences of a model that was replaced or unloaded, or whose server stops. */
#include "suite.h"

#include "infer/model_generations.h"
#include "sequence/sequence_fixture.h"

#define DIRECT(batch, more)                                                                        \
        "name: 'm' max_batch_size: " #batch " input { name: 'X' data_type: TYPE_FP32 dims: 1 } "   \
        "sequence_batching { " more "} "

static struct ticket *ticket_new(struct fixture *fixture, const char *name, uint64_t id,
                                 unsigned flags) {
        return call_new(fixture, &(struct call){ name, id, NULL, flags });
}

static void end_well(struct ticket *t) {
        assert_success(t);
        assert_int_equal(FIXTURE_GET(t->fixture, t->n_responses), 1);
        end_ticket(t);
}

static struct fixture *open_fixture(const char *config, unsigned n_executors) {
        return fixture_open(config, n_executors, true);
}

#define NEVER_IDLE "max_sequence_idle_microseconds: 3600000000 "

/* Makes the fixture's model serve, and returns its generations. */
static struct model_generations *serve(struct fixture *fixture) {
        struct model_generations *line = model_generations_new();

        model_generations_join(line, &fixture->fake->model);
        return line;
}

static bool is_kept(struct model_generations *line) {
        struct model *model = model_generations_find_retired(line, -1);

        model_unref(model);
        return model != NULL;
}

static void serve_end(struct fixture *fixture, struct model_generations *line) {
        assert_false(is_kept(line));
        model_generations_unref(STEAL(fixture->fake->model.generations));
        model_generations_unref(line);
        fixture_close(fixture);
}

static uint64_t count_live(struct fixture *fixture) {
        struct sequence_count count = fixture->scheduler->sequences->count(fixture->scheduler);

        return count.n_active + count.n_backlog;
}

static void refuse_start(struct fixture *fixture, uint64_t id) {
        struct ticket *t = ticket_new(fixture, "x", id, S);

        assert_ptr_equal(ticket_try_submit(t), model_generations_retired());
        request_free(t->req);
        free(t);
}

/* A replaced model: its sequences continue, those of the backlog too, and keep the model. */
static void test_retired(void **state) {
        struct fixture           *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
        struct model_generations *line = serve(fixture);
        struct ticket            *b;

        (void)state;
        run_one(fixture, "a1", 1, S);
        b = submit(fixture, "b1", 2, S);
        model_generations_retire(&fixture->fake->model);
        refuse_start(fixture, 3);
        refuse_start(fixture, 1);
        assert_int_equal(count_live(fixture), 2);
        run_one(fixture, "a2", 1, E);
        end_well(b);
        assert_true(is_kept(line));
        run_one(fixture, "b2", 2, E);
        assert_int_equal(count_live(fixture), 0);
        serve_end(fixture, line);
}

static void test_retired_without_sequences(void **state) {
        struct fixture           *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
        struct model_generations *line = serve(fixture);

        (void)state;
        run_one(fixture, "a1", 1, S | E);
        model_generations_retire(&fixture->fake->model);
        assert_false(is_kept(line));
        refuse_start(fixture, 3);
        serve_end(fixture, line);
}

/* The timer ends the last sequence, and with it the hold on the model. */
static void test_retired_and_idle(void **state) {
        struct fixture *fixture =
                open_fixture(DIRECT(1, "max_sequence_idle_microseconds: 2000 "), 1);
        struct model_generations *line = serve(fixture);
        struct ticket            *b;

        (void)state;
        run_one(fixture, "a1", 1, S);
        b = submit(fixture, "b1", 2, S | E);
        model_generations_retire(&fixture->fake->model);
        end_well(b);
        serve_end(fixture, line);
}

/* Ids that start sequences elsewhere: idle sequences end at once, others after their requests. */
static void test_forgotten(void **state) {
        struct fixture            *fixture = open_fixture(DIRECT(2, NEVER_IDLE) NEVER_INLINE, 1);
        const struct sequence_ops *ops = fixture->scheduler->sequences;
        struct ticket             *a, *b, *probe;

        (void)state;
        probe = ticket_new(fixture, "p", 1, 0);
        run_one(fixture, "a1", 1, S);
        assert_true(ops->knows(fixture->scheduler, probe->req));
        ops->forget(fixture->scheduler, probe->req);
        assert_false(ops->knows(fixture->scheduler, probe->req));
        assert_int_equal(count_live(fixture), 0);
        ops->forget(fixture->scheduler, probe->req);

        hold(fixture, 0);
        a = submit(fixture, "a1", 1, S);
        b = submit(fixture, "a2", 1, 0);
        ops->forget(fixture->scheduler, probe->req);
        assert_false(ops->knows(fixture->scheduler, probe->req));
        assert_int_equal(count_live(fixture), 1);
        let_go(fixture, 0);
        end_well(a);
        end_well(b);
        assert_int_equal(count_live(fixture), 0);
        request_free(probe->req);
        free(probe);
        fixture_close(fixture);
}

/* The server is about to stop: idle sequences end, and requests that wait for their slots still
 * run. */
static void test_hurry(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(1, NEVER_IDLE), 1);
        struct ticket  *b, *c;

        (void)state;
        run_one(fixture, "a1", 1, S);
        b = submit(fixture, "b1", 2, S);
        c = submit(fixture, "c1", 3, S | E);
        fixture->scheduler->sequences->end_idle(fixture->scheduler);
        end_well(b);
        end_well(c);
        assert_int_equal(count_live(fixture), 0);
        fixture_close(fixture);
}

/* A row is written as "id:slot" or "id:-", with "'" for texts and "!" for sequences that end. */
static void list(struct fixture *fixture, size_t at_once, char *to, size_t room) {
        struct sequence_cursor at = { 0 };
        struct sequence_row    rows[8];
        size_t                 len = 0;

        *to = '\0';
        while (!at.has_ended) {
                size_t n =
                        fixture->scheduler->sequences->list(fixture->scheduler, &at, rows, at_once);

                assert_in_range(n, 0, at_once);
                for (size_t i = 0; i < n; i++) {
                        const struct sequence_row *r = &rows[i];
                        char                       slot[160] = "-";

                        if (r->has_slot)
                                snprintf(slot, sizeof(slot), "%s.%u", r->instance, r->slot);
                        len += (size_t)snprintf(to + len, room - len, "%s%s%llu:%s%s(%u)",
                                                len > 0 ? " " : "", r->text,
                                                (unsigned long long)r->number, slot,
                                                r->is_ending ? "!" : "", r->n_requests);
                }
        }
}

/* However few rows are requested at once, each sequence is listed once, in order. */
static void test_list(void **state) {
        struct fixture *fixture = open_fixture(DIRECT(2, NEVER_IDLE), 2);
        struct ticket  *waiting[4];
        char            all[256], some[256], expected[256];
        const char     *first = fixture->executors[0].base.name,
                   *second = fixture->executors[1].base.name;

        (void)state;
        list(fixture, 1, all, sizeof(all));
        assert_string_equal(all, "");
        for (unsigned id = 1; id <= 4; id++)
                run_one(fixture, "a", id, S);
        waiting[0] = submit(fixture, "b", 5, S | E);
        waiting[1] = submit(fixture, "c", 6, S);
        waiting[2] = submit(fixture, "d", 6, E);
        waiting[3] = ticket_new(fixture, "e", 0, S | E);
        assert_ok(request_set_correlation_text(waiting[3]->req, "e"), "id");
        ticket_submit(waiting[3]);
        snprintf(expected, sizeof(expected),
                 "1:%s.0(0) 3:%s.1(0) 2:%s.0(0) 4:%s.1(0) 5:-!(1) 6:-!(2) e0:-!(1)", first, first,
                 second, second);
        for (size_t at_once = 1; at_once <= 8; at_once++) {
                list(fixture, at_once, some, sizeof(some));
                assert_string_equal(some, expected);
        }
        run_one(fixture, "a", 1, E);
        run_one(fixture, "a", 2, E);
        run_one(fixture, "a", 4, E);
        for (size_t i = 0; i < 4; i++)
                end_well(waiting[i]);
        list(fixture, 3, some, sizeof(some));
        snprintf(expected, sizeof(expected), "3:%s.1(0)", first);
        assert_string_equal(some, expected);
        run_one(fixture, "a", 3, E);
        fixture_close(fixture);
}

SUITE(sequence_life) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_retired),
                cmocka_unit_test(test_retired_without_sequences),
                cmocka_unit_test(test_retired_and_idle),
                cmocka_unit_test(test_forgotten),
                cmocka_unit_test(test_hurry),
                cmocka_unit_test(test_list),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
