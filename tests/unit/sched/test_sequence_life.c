/* SPDX-License-Identifier: BSD-3-Clause */
/* The sequences of a model that was replaced or unloaded, or whose server stops. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "infer/model_line.h"
#include "sched/scheduler_lab.h"

#define DIRECT(batch, more)                                                                        \
        "name: 'm' max_batch_size: " #batch " input { name: 'X' data_type: TYPE_FP32 dims: 1 } "   \
        "sequence_batching { " more "} "
#define NEVER_INLINE "parameters { key: 'inline_execution' value { string_value: 'never' } } "

#define S REQUEST_SEQUENCE_START
#define E REQUEST_SEQUENCE_END

static struct ticket *ticket_new(struct lab *lab, const char *name, uint64_t id, unsigned flags) {
        struct ticket *t = calloc(1, sizeof(*t));

        assert_non_null(t);
        ticket_init(t, lab, name);
        t->req->correlation.number = id;
        t->req->flags = flags;
        return t;
}

static struct ticket *submit(struct lab *lab, const char *name, uint64_t id, unsigned flags) {
        struct ticket *t = ticket_new(lab, name, id, flags);

        ticket_submit(t);
        return t;
}

static void end_ticket(struct ticket *t) {
        assert_success(t);
        tickets_end(t, 1);
}

static void run_one(struct lab *lab, const char *name, uint64_t id, unsigned flags) {
        end_ticket(submit(lab, name, id, flags));
}

static struct lab *open_lab(const char *config, unsigned n_executors) {
        return lab_open(config, n_executors, true);
}

#define NEVER_IDLE "max_sequence_idle_microseconds: 3600000000 "

/* The model of the lab as one that serves; returns the line. */
static struct model_line *serve(struct lab *lab) {
        struct model_line *line = model_line_new();

        model_line_join(line, &lab->fake->model);
        return line;
}

static bool is_kept(struct model_line *line) {
        struct model *model = model_line_find_retired(line, -1);

        model_unref(model);
        return model != NULL;
}

static void serve_end(struct lab *lab, struct model_line *line) {
        assert_false(is_kept(line));
        model_line_unref(STEAL(lab->fake->model.line));
        model_line_unref(line);
        lab_close(lab);
}

static uint64_t count_live(struct lab *lab) {
        return lab->scheduler->sequences->count(lab->scheduler);
}

static void refuse_start(struct lab *lab, uint64_t id) {
        struct ticket *t = ticket_new(lab, "x", id, S);

        assert_ptr_equal(ticket_try_submit(t), model_line_retired());
        request_free(t->req);
        free(t);
}

/* A model that was replaced: its sequences go on, those of the backlog as well, and keep it. */
static void test_retired(void **state) {
        struct lab        *lab = open_lab(DIRECT(1, NEVER_IDLE), 1);
        struct model_line *line = serve(lab);
        struct ticket     *b;

        (void)state;
        run_one(lab, "a1", 1, S);
        b = submit(lab, "b1", 2, S);
        model_line_retire(&lab->fake->model);
        refuse_start(lab, 3);
        refuse_start(lab, 1);
        assert_int_equal(count_live(lab), 2);
        run_one(lab, "a2", 1, E);
        end_ticket(b);
        assert_true(is_kept(line));
        run_one(lab, "b2", 2, E);
        assert_int_equal(count_live(lab), 0);
        serve_end(lab, line);
}

static void test_retired_without_sequences(void **state) {
        struct lab        *lab = open_lab(DIRECT(1, NEVER_IDLE), 1);
        struct model_line *line = serve(lab);

        (void)state;
        run_one(lab, "a1", 1, S | E);
        model_line_retire(&lab->fake->model);
        assert_false(is_kept(line));
        refuse_start(lab, 3);
        serve_end(lab, line);
}

/* Its last sequence ends by the timer: so does the hold on the model. */
static void test_retired_and_idle(void **state) {
        struct lab        *lab = open_lab(DIRECT(1, "max_sequence_idle_microseconds: 2000 "), 1);
        struct model_line *line = serve(lab);
        struct ticket     *b;

        (void)state;
        run_one(lab, "a1", 1, S);
        b = submit(lab, "b1", 2, S | E);
        model_line_retire(&lab->fake->model);
        end_ticket(b);
        serve_end(lab, line);
}

/* Ids that begin elsewhere: idle ones end at once, others after their requests. */
static void test_forgotten(void **state) {
        struct lab                *lab = open_lab(DIRECT(2, NEVER_IDLE) NEVER_INLINE, 1);
        const struct sequence_ops *ops = lab->scheduler->sequences;
        struct ticket             *a, *b, *probe;

        (void)state;
        probe = ticket_new(lab, "p", 1, 0);
        run_one(lab, "a1", 1, S);
        assert_true(ops->knows(lab->scheduler, probe->req));
        ops->forget(lab->scheduler, probe->req);
        assert_false(ops->knows(lab->scheduler, probe->req));
        assert_int_equal(count_live(lab), 0);
        ops->forget(lab->scheduler, probe->req);

        hold(lab, 0);
        a = submit(lab, "a1", 1, S);
        b = submit(lab, "a2", 1, 0);
        ops->forget(lab->scheduler, probe->req);
        assert_false(ops->knows(lab->scheduler, probe->req));
        assert_int_equal(count_live(lab), 1);
        let_go(lab, 0);
        end_ticket(a);
        end_ticket(b);
        assert_int_equal(count_live(lab), 0);
        request_free(probe->req);
        free(probe);
        lab_close(lab);
}

/* The server is about to exit: idle sequences end, what waits for their slots still runs. */
static void test_hurry(void **state) {
        struct lab    *lab = open_lab(DIRECT(1, NEVER_IDLE), 1);
        struct ticket *b, *c;

        (void)state;
        run_one(lab, "a1", 1, S);
        b = submit(lab, "b1", 2, S);
        c = submit(lab, "c1", 3, S | E);
        lab->scheduler->sequences->hurry(lab->scheduler);
        end_ticket(b);
        end_ticket(c);
        assert_int_equal(count_live(lab), 0);
        lab_close(lab);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_retired),
                cmocka_unit_test(test_retired_without_sequences),
                cmocka_unit_test(test_retired_and_idle),
                cmocka_unit_test(test_forgotten),
                cmocka_unit_test(test_hurry),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
