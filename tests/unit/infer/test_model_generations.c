/* SPDX-License-Identifier: BSD-3-Clause */
/* Which load of a model a request is for. Each load has a scheduler that knows the sequences that the
 * test gives it.
 */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/model_generations.h"
#include "infer/model_submit.h"

#define START REQUEST_SEQUENCE_START
#define MAX_IDS 4

#define CONFIG(input) "name: 'm' input { name: '" input "' data_type: TYPE_INT32 dims: 1 }"

/* One load. */
struct load {
        struct fake_model  *fake;
        struct scheduler    scheduler;
        uint64_t            ids[MAX_IDS]; /* of live sequences; 0: none */
        bool                has_retired;
        bool                refuses_once; /* has just retired, which the router did not see yet */
        unsigned            n_submitted;
        const struct model *last; /* borrowed: of the last request */
};

static struct load *load_of(struct scheduler *s) {
        return CONTAINER_OF(s, struct load, scheduler);
}

static struct error *submit(struct scheduler *s, struct request *req) {
        struct load *l = load_of(s);

        if (l->has_retired && (req->flags & START) != 0)
                return model_generations_retired();
        if (l->refuses_once) {
                l->refuses_once = false;
                model_generations_retire(&l->fake->model);
                return model_generations_retired();
        }
        l->n_submitted++;
        l->last = req->model;
        atomic_fetch_sub(&l->fake->model.n_in_flight, 1);
        return NULL;
}

static uint64_t *find(struct load *l, uint64_t id) {
        for (size_t i = 0; i < MAX_IDS; i++)
                if (l->ids[i] == id)
                        return &l->ids[i];
        return NULL;
}

static bool knows(struct scheduler *s, const struct request *req) {
        return find(load_of(s), req->correlation.number) != NULL;
}

static bool is_empty(const struct load *l) {
        for (size_t i = 0; i < MAX_IDS; i++)
                if (l->ids[i] != 0)
                        return false;
        return true;
}

static void leave_when_empty(struct load *l) {
        if (l->has_retired && is_empty(l))
                model_generations_leave(&l->fake->model);
}

static void forget(struct scheduler *s, const struct request *req) {
        uint64_t *id = find(load_of(s), req->correlation.number);

        if (id == NULL)
                return;
        *id = 0;
        leave_when_empty(load_of(s));
}

static void retire(struct scheduler *s) {
        load_of(s)->has_retired = true;
        leave_when_empty(load_of(s));
}

static const struct scheduler_ops ops = { .submit = submit };
static const struct sequence_ops sequences = { .knows = knows, .forget = forget, .retire = retire };

static struct load *load_begin(struct model_generations *line, int64_t version,
                               const char *config) {
        struct load *l = calloc(1, sizeof(*l));

        assert_non_null(l);
        l->fake = fake_model_new(config);
        l->fake->model.version = version;
        l->fake->model.scheduler = &l->scheduler;
        l->scheduler = (struct scheduler){ .ops = &ops, .sequences = &sequences };
        model_generations_join(line, &l->fake->model);
        return l;
}

static void load_end(struct load *l) {
        model_generations_unref(l->fake->model.generations);
        fake_model_free(l->fake);
        free(l);
}

static struct request *ask(struct load *l, uint64_t id, uint32_t flags) {
        struct request *req = fake_request(l->fake);

        add_input(req, "A", DATA_TYPE_INT32, 1);
        req->correlation.number = id;
        req->flags = flags;
        return req;
}

/* Routes a request for `from`; it must end at `to`, NULL: be refused. */
static void assert_route(struct load *from, uint64_t id, uint32_t flags, struct load *to) {
        struct request *req = ask(from, id, flags);
        struct error   *err = model_generations_route(req);

        if (to == NULL)
                assert_ptr_equal(err, model_generations_retired());
        else
                assert_null(err);
        assert_ptr_equal(req->model, &(to != NULL ? to : from)->fake->model);
        request_free(req);
}

static bool needs_routing(struct load *l) {
        return atomic_load(&l->fake->model.needs_routing);
}

static void test_one_load_is_not_routed(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));

        (void)state;
        assert_false(needs_routing(a));
        model_generations_retire(&a->fake->model);
        assert_null(model_generations_find_retired(line, -1));
        load_end(a);
        model_generations_unref(line);
}

static void test_a_replaced_load_keeps_its_sequences(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b;
        struct model             *retired;

        (void)state;
        a->ids[0] = 7;
        b = load_begin(line, 1, CONFIG("A"));
        assert_true(needs_routing(a) && needs_routing(b));
        assert_route(b, 7, 0, a); /* joined, not yet in its place */
        assert_route(a, 8, START, a);
        model_generations_retire(&a->fake->model);
        retired = model_generations_find_retired(line, 1);
        assert_ptr_equal(retired, &a->fake->model);
        model_unref(retired);
        assert_null(model_generations_find_retired(line, 2));
        assert_route(b, 7, 0, a);
        assert_route(a, 7, 0, a);
        assert_route(b, 8, 0, b); /* unknown: refused where new ones begin */
        assert_route(a, 8, 0, b);
        assert_route(a, 8, START, b); /* of a program that kept its request */
        assert_route(b, 8, START, b);
        assert_route(a, 0, 0, b);
        assert_true(needs_routing(b));

        /* Begun again: the old one ends, and its load with it. */
        assert_route(b, 7, START, b);
        assert_true(is_empty(a));
        assert_null(model_generations_find_retired(line, -1));
        assert_false(needs_routing(b));
        load_end(a);
        model_generations_retire(&b->fake->model);
        load_end(b);
        model_generations_unref(line);
}

static void test_an_unloaded_load(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));

        (void)state;
        a->ids[0] = 7;
        a->ids[1] = 8;
        model_generations_retire(&a->fake->model);
        assert_route(a, 7, 0, a);
        assert_route(a, 9, 0, NULL);
        assert_route(a, 9, START, NULL);
        assert_route(a, 7, START, NULL); /* ends it all the same */
        assert_route(a, 7, 0, NULL);
        assert_route(a, 8, 0, a);
        a->ids[1] = 0;
        leave_when_empty(a);
        load_end(a);
        model_generations_unref(line);
}

static void test_versions(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b = load_begin(line, 2, CONFIG("A"));
        struct request           *req;

        (void)state;
        a->ids[0] = 7;
        assert_route(b, 7, 0, a);
        assert_route(b, 7, START, b); /* both serve: each has its own */
        assert_non_null(find(a, 7));
        req = ask(b, 7, 0);
        req->has_version = true; /* version 2 and no other */
        assert_null(model_generations_route(req));
        assert_ptr_equal(req->model, &b->fake->model);
        request_free(req);
        model_generations_retire(&a->fake->model);
        req = ask(a, 9, START);
        req->has_version = true;
        assert_ptr_equal(model_generations_route(req), model_generations_retired());
        request_free(req);
        assert_route(a, 9, START, b);
        assert_route(b, 7, START, b);
        model_generations_retire(&b->fake->model);
        load_end(a);
        load_end(b);
        model_generations_unref(line);
}

/* A load without sequences takes what the ones before it do not know. */
static void test_a_load_without_sequences(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b;

        (void)state;
        a->ids[0] = 7;
        b = load_begin(line, 1, CONFIG("A"));
        b->scheduler.sequences = NULL;
        model_generations_retire(&a->fake->model);
        assert_route(b, 7, 0, a);
        assert_route(b, 8, 0, b);
        assert_route(b, 0, 0, b);
        assert_route(b, 7, START, b);
        assert_false(needs_routing(b));
        model_generations_retire(&b->fake->model);
        load_end(a);
        load_end(b);
        model_generations_unref(line);
}

static void test_continues(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b;
        static const struct {
                uint64_t id;
                uint32_t flags;
                bool     continues;
        } rows[] = { { 7, 0, true }, { 7, START, false }, { 8, 0, false }, { 0, 0, false } };

        (void)state;
        a->ids[0] = 7;
        b = load_begin(line, 1, CONFIG("A"));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct request *to_a = ask(a, rows[i].id, rows[i].flags);
                struct request *to_b = ask(b, rows[i].id, rows[i].flags);

                assert_int_equal(model_generations_continues(to_a), rows[i].continues);
                assert_int_equal(model_generations_continues(to_b), rows[i].continues);
                request_free(to_a);
                request_free(to_b);
        }
        a->ids[0] = 0;
        model_generations_retire(&a->fake->model);
        model_generations_retire(&b->fake->model);
        load_end(a);
        load_end(b);
        model_generations_unref(line);
}

/* What a request has of one model it has of the other afterwards, whatever becomes of the first. */
static void test_rebind(void **state) {
        struct fake_model    *a = fake_model_new(CONFIG("A"));
        struct fake_model    *b = fake_model_new(CONFIG("B"));
        struct request       *req = fake_request(a);
        struct request_input *first, *second;

        (void)state;
        add_input(req, "A", DATA_TYPE_INT32, 1);
        add_input(req, "B", DATA_TYPE_INT32, 1);
        first = req->first_input;
        second = first->next;
        assert_ptr_equal(first->io, &a->model.io->inputs[0]);
        assert_null(second->io);
        assert_ok(request_rebind(req, &b->model), "rebind");
        fake_model_free(a);
        assert_string_equal(first->name, "A");
        assert_null(first->io);
        assert_string_equal(second->name, "B");
        assert_ptr_equal(second->io, &b->model.io->inputs[0]);
        request_free(req);
        fake_model_free(b);
}

/* Replaced between the look-up and the scheduler: nothing is lost, and the new one checks it. */
static void test_submit_to_a_load_that_has_just_retired(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b = load_begin(line, 1, CONFIG("A"));
        struct request           *req = ask(a, 7, START);

        (void)state;
        a->refuses_once = true;
        assert_ok(model_submit(req), "submit");
        assert_int_equal(a->n_submitted, 0);
        assert_int_equal(b->n_submitted, 1);
        assert_ptr_equal(b->last, &b->fake->model);
        assert_int_equal(atomic_load(&a->fake->model.n_in_flight), 0);
        request_free(req);

        /* Now without one that serves. */
        req = ask(b, 7, START);
        b->refuses_once = true;
        assert_ptr_equal(model_submit(req), model_generations_retired());
        assert_int_equal(atomic_load(&b->fake->model.n_in_flight), 0);
        request_free(req);
        load_end(a);
        load_end(b);
        model_generations_unref(line);
}

static unsigned n_left;

static void on_left(struct model *model) {
        assert_true(atomic_load(&model->has_left));
        n_left++;
}

/* Whoever keeps a load for its sequences hears of the end of the last one. */
static void test_the_end_of_the_last_sequence(void **state) {
        struct model_generations *line = model_generations_new();
        struct load              *a = load_begin(line, 1, CONFIG("A"));
        struct load              *b = load_begin(line, 1, CONFIG("A"));
        struct request           *req = ask(b, 7, START);

        (void)state;
        n_left = 0;
        a->fake->model.on_left = b->fake->model.on_left = on_left;
        a->ids[0] = b->ids[0] = 7;
        atomic_store(&a->fake->model.is_kept, true);
        model_generations_retire(&a->fake->model);
        assert_false(atomic_load(&a->fake->model.has_left));
        forget(&a->scheduler, req);
        assert_int_equal(n_left, 1);
        model_generations_retire(&b->fake->model); /* which is not kept */
        forget(&b->scheduler, req);
        assert_true(atomic_load(&b->fake->model.has_left));
        assert_int_equal(n_left, 1);
        request_free(req);
        load_end(a);
        load_end(b);
        model_generations_unref(line);
}

SUITE(model_generations) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_load_is_not_routed),
                cmocka_unit_test(test_a_replaced_load_keeps_its_sequences),
                cmocka_unit_test(test_an_unloaded_load),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_a_load_without_sequences),
                cmocka_unit_test(test_continues),
                cmocka_unit_test(test_rebind),
                cmocka_unit_test(test_submit_to_a_load_that_has_just_retired),
                cmocka_unit_test(test_the_end_of_the_last_sequence),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
