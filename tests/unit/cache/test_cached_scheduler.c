/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cache's scheduler passes on to the one behind it, and what a release asks them. */
#include "suite.h"

#include "cache/cached_scheduler.h"
#include "infer/fake_model.h"
#include "infer/scheduler.h"

#define MODEL "name: 'm' input { name: 'X' data_type: TYPE_FP32 dims: 1 } "

/* Notes the last call, and what it was about. */
struct fake_scheduler {
        struct scheduler base;
        const char      *call;
        const void      *what;
        uint32_t         flags;
        bool             keeps; /* what released() answers */
};

static void note(struct scheduler *s, const char *call, const void *what) {
        struct fake_scheduler *f = CONTAINER_OF(s, struct fake_scheduler, base);

        f->call = call;
        f->what = what;
}

static void cancel(struct scheduler *s, struct request *req) {
        note(s, "cancel", req);
}

static bool released(struct scheduler *s, struct request *req, uint32_t flags) {
        struct fake_scheduler *f = CONTAINER_OF(s, struct fake_scheduler, base);

        note(s, "released", req);
        f->flags = flags;
        return f->keeps;
}

static struct error *add_executor(struct scheduler *s, struct executor *e) {
        note(s, "add_executor", e);
        return error_new(ERR_INTERNAL, "no thread");
}

static void remove_executor(struct scheduler *s, struct executor *e) {
        note(s, "remove_executor", e);
}

static void drain(struct scheduler *s) {
        note(s, "drain", s);
}

static void end(struct scheduler *s) {
        note(s, "free", s);
}

static const struct scheduler_ops deaf_ops = {
        .cancel = cancel,
        .add_executor = add_executor,
        .remove_executor = remove_executor,
        .drain = drain,
        .free = end,
};

static const struct scheduler_ops hearing_ops = {
        .cancel = cancel,
        .released = released,
        .add_executor = add_executor,
        .remove_executor = remove_executor,
        .drain = drain,
        .free = end,
};

static void assert_noted(const struct fake_scheduler *f, const char *call, const void *what) {
        assert_string_equal(f->call, call);
        assert_ptr_equal(f->what, what);
}

static void test_passes_on(void **state) {
        struct fake_scheduler inner = { .base = { .ops = &deaf_ops } };
        struct scheduler     *s = cached_scheduler_new(NULL, &inner.base);
        char                  thing;

        (void)state;
        assert_null(s->ops->released);
        s->ops->cancel(s, (struct request *)(void *)&thing);
        assert_noted(&inner, "cancel", &thing);
        assert_error(s->ops->add_executor(s, (struct executor *)(void *)&thing), ERR_INTERNAL,
                     "no thread");
        assert_noted(&inner, "add_executor", &thing);
        s->ops->remove_executor(s, (struct executor *)(void *)&thing);
        assert_noted(&inner, "remove_executor", &thing);
        s->ops->drain(s);
        assert_noted(&inner, "drain", &inner.base);
        s->ops->free(s);
        assert_noted(&inner, "free", &inner.base);
}

static unsigned n_releases;

static void on_release(struct request *req, uint32_t flags, void *userp) {
        (void)req;
        (void)flags;
        (void)userp;
        n_releases++;
}

/* A scheduler that keeps a request is the only one that hears of its release. */
static void test_release(void **state) {
        struct fake_model    *fake = fake_model_new(MODEL);
        struct fake_scheduler inner = { .base = { .ops = &hearing_ops, .may_reschedule = true } };
        struct scheduler     *s = cached_scheduler_new(NULL, &inner.base);
        struct request       *req = fake_request(fake);

        (void)state;
        n_releases = 0;
        fake->model.scheduler = s;
        assert_true(s->may_reschedule);
        req->on_release = on_release;
        atomic_store(&req->state, REQUEST_EXECUTING);
        atomic_store(&fake->model.n_in_flight, 1);

        inner.keeps = true;
        request_release(req, REQUEST_RELEASE_RESCHEDULE);
        assert_noted(&inner, "released", req);
        assert_int_equal(inner.flags, REQUEST_RELEASE_RESCHEDULE);
        assert_int_equal(n_releases, 0);
        assert_int_equal(atomic_load(&req->state), REQUEST_EXECUTING);
        assert_int_equal(atomic_load(&fake->model.n_in_flight), 1);

        inner.keeps = false;
        request_release(req, REQUEST_RELEASE_ALL);
        assert_int_equal(inner.flags, REQUEST_RELEASE_ALL);
        assert_int_equal(n_releases, 1);
        assert_int_equal(atomic_load(&req->state), REQUEST_RELEASED);
        assert_int_equal(atomic_load(&fake->model.n_in_flight), 0);

        request_free(req);
        s->ops->free(s);
        fake->model.scheduler = NULL;
        fake_model_free(fake);
}

SUITE(cached_scheduler) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_passes_on),
                cmocka_unit_test(test_release),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
