/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference against a core of the test's own: in which order it may end, on which thread, what
 * reaches the request, where outputs live, and that nothing leaks.
 */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "call/fake_core.h"
#include "call/infer_call.h"
#include "call/infer_response.h"
#include "core_api/core_error.h"
#include "net/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- the loop: a mailbox that the test empties itself ---- */

struct mailbox {
        pthread_mutex_t lock;
        pthread_cond_t  arrived;
        struct mail    *first, *last;
        unsigned        n_posted;
        unsigned        n_woken;
};

/* The test's thread is no loop's. */
bool loop_set_waker(void (*call)(void)) {
        (void)call;
        return false;
}

static bool is_late;

bool loop_is_late(uint64_t now_ns) {
        (void)now_ns;
        return is_late;
}

bool mailbox_post_without_wake(struct mailbox *box, struct mail *m) {
        bool was_empty;

        pthread_mutex_lock(&box->lock);
        m->next = NULL;
        was_empty = box->first == NULL;
        if (was_empty)
                box->first = m;
        else
                box->last->next = m;
        box->last = m;
        box->n_posted++;
        pthread_mutex_unlock(&box->lock);
        return was_empty;
}

void mailbox_wake(struct mailbox *box) {
        pthread_mutex_lock(&box->lock);
        box->n_woken++;
        pthread_cond_signal(&box->arrived);
        pthread_mutex_unlock(&box->lock);
}

/* Waits for a mail and delivers it. */
static void deliver_one(struct mailbox *box) {
        struct mail *m;

        pthread_mutex_lock(&box->lock);
        while (box->first == NULL)
                pthread_cond_wait(&box->arrived, &box->lock);
        m = box->first;
        box->first = m->next;
        pthread_mutex_unlock(&box->lock);
        m->deliver(m);
}

/* ---- what the core does with a request ---- */

/* A response with one output of so many bytes; NULL and an error text when the allocator refuses. */
static struct TRITONSERVER_InferenceResponse *new_response(
        struct TRITONSERVER_InferenceRequest *request, const char *output, size_t bytes,
        struct TRITONSERVER_Error **ret_error) {
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));
        TRITONSERVER_MemoryType                type;
        int64_t                                id;

        strncpy(r->output, output, sizeof(r->output) - 1);
        r->allocator = request->allocator;
        r->bytes = bytes;
        *ret_error = r->allocator->alloc(r->allocator, output, bytes, TRITONSERVER_MEMORY_GPU, 5,
                                         request->allocator_userp, &r->base, &r->userp, &type, &id);
        if (*ret_error != NULL) {
                free(r);
                return NULL;
        }
        assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(id, 0);
        memset(r->base, 'o', bytes);
        fake.n_responses++;
        return r;
}

static void respond(struct TRITONSERVER_InferenceRequest *request, bool is_final) {
        struct TRITONSERVER_Error             *err;
        struct TRITONSERVER_InferenceResponse *r = new_response(request, "out", 100, &err);

        request->on_response(r, is_final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0,
                             request->response_userp);
}

static void respond_nothing(struct TRITONSERVER_InferenceRequest *request) {
        request->on_response(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, request->response_userp);
}

static void release(struct TRITONSERVER_InferenceRequest *request) {
        request->on_release(request, TRITONSERVER_REQUEST_RELEASE_ALL, request->release_userp);
}

static void run_release_last(struct TRITONSERVER_InferenceRequest *request) {
        respond(request, true);
        release(request);
}

static void run_release_first(struct TRITONSERVER_InferenceRequest *request) {
        release(request);
        respond(request, true);
}

static void run_separate_final(struct TRITONSERVER_InferenceRequest *request) {
        respond(request, false);
        release(request);
        respond_nothing(request);
}

static void run_none(struct TRITONSERVER_InferenceRequest *request) {
        release(request);
        respond_nothing(request);
}

static void run_three(struct TRITONSERVER_InferenceRequest *request) {
        respond(request, false);
        respond(request, false);
        respond(request, true);
        release(request);
}

static void run_twenty(struct TRITONSERVER_InferenceRequest *request) {
        for (int i = 1; i < 20; i++)
                respond(request, false);
        respond(request, true);
        release(request);
}

static void *thread_release_last(void *request) {
        run_release_last(request);
        return NULL;
}

static void *thread_release_first(void *request) {
        run_release_first(request);
        return NULL;
}

static void *thread_many(void *request) {
        for (int i = 0; i < 200; i++)
                respond(request, false);
        release(request);
        respond_nothing(request);
        return NULL;
}

static void run_thread_release_last(struct TRITONSERVER_InferenceRequest *request) {
        assert_int_equal(pthread_create(&fake.thread, NULL, thread_release_last, request), 0);
}

static void run_thread_release_first(struct TRITONSERVER_InferenceRequest *request) {
        assert_int_equal(pthread_create(&fake.thread, NULL, thread_release_first, request), 0);
}

static void run_thread_many(struct TRITONSERVER_InferenceRequest *request) {
        assert_int_equal(pthread_create(&fake.thread, NULL, thread_many, request), 0);
}

static struct TRITONSERVER_InferenceRequest *kept_request;

static void run_keep(struct TRITONSERVER_InferenceRequest *request) {
        kept_request = request;
}

/* ---- the protocol ---- */

struct fixture {
        struct mailbox              box;
        struct infer_core           core;
        struct infer_call           call;
        struct infer_request        request;
        struct arena                arena;
        struct buf_pool            *pool;
        bool                        is_done;
        unsigned                    n_streamed;
        struct infer_call_response *kept; /* newest first */
};

static void on_done(struct infer_call *c) {
        struct fixture *f = c->options.owner;

        assert_false(f->is_done);
        f->is_done = true;
}

static void on_streamed(struct infer_call *c, struct TRITONSERVER_InferenceResponse *response) {
        struct fixture *f = c->options.owner;

        assert_false(f->is_done);
        assert_int_equal(response->bytes, 100);
        f->n_streamed++;
}

/* All but the first. */
static void on_streamed_keep(struct infer_call                     *c,
                             struct TRITONSERVER_InferenceResponse *response) {
        struct fixture             *f = c->options.owner;
        struct infer_call_response *r;

        if (f->n_streamed++ == 0)
                return;
        r = infer_call_keep_response(c);
        assert_ptr_equal(r->response, response);
        assert_null(infer_call_keep_response(c)); /* there is nothing more to keep */
        r->next = f->kept;
        f->kept = r;
}

/* Of a unary call: the first response, and the end is still to come. */
static void on_early(struct infer_call *c) {
        struct fixture *f = c->options.owner;
        uint32_t        n;

        assert_false(f->is_done);
        assert_int_equal(infer_call_first_response(c, &n)->bytes, 100);
        assert_true(n >= 1);
        f->n_streamed++;
}

static void open_fixture(struct fixture *f, fake_run_fn run, infer_call_response_fn on_response) {
        struct infer_call_options options = { .core = &f->core,
                                              .mailbox = &f->box,
                                              .on_done = on_done,
                                              .on_response = on_response,
                                              .owner = f };

        memset(&fake, 0, sizeof(fake));
        strbuf_init(&fake.calls, 0);
        fake.run = run;
        memset(f, 0, sizeof(*f));
        pthread_mutex_init(&f->box.lock, NULL);
        pthread_cond_init(&f->box.arrived, NULL);
        arena_init(&f->arena, NULL, 0, 0);
        f->pool = buf_pool_new(1 << 20);
        options.pool = f->pool;
        infer_request_init(&f->request);
        assert_null(infer_core_init(&f->core, &(struct infer_core_options){ 0 }));
        infer_call_init(&f->call, &options);
}

static void open_and_start(struct fixture *f, fake_run_fn run, infer_call_response_fn on_response) {
        open_fixture(f, run, on_response);
        assert_null(infer_call_open(&f->call, "model", -1));
        assert_null(infer_call_fill(&f->call, &f->request));
        assert_null(infer_call_start(&f->call, NULL));
}

static void close_fixture(struct fixture *f) {
        infer_call_done(&f->call);
        infer_core_done(&f->core);
        buf_pool_unref(f->pool);
        arena_done(&f->arena);
        strbuf_done(&fake.calls);
        pthread_mutex_destroy(&f->box.lock);
        pthread_cond_destroy(&f->box.arrived);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_responses, 0);
        assert_int_equal(fake.n_errors, 0);
}

/* ---- tests ---- */

/* The core ran the model at once: no mail, whatever the order. */
static void test_inline(void **state) {
        static const fake_run_fn runs[] = { run_release_last, run_release_first,
                                            run_separate_final };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
                struct TRITONSERVER_InferenceResponse *response;
                struct fixture                         f;

                open_and_start(&f, runs[i], NULL);
                assert_true(f.is_done);
                assert_int_equal(f.box.n_posted, 0);
                assert_null(infer_call_get_response(&f.call, &response));
                assert_int_equal(response->bytes, 100);
                close_fixture(&f);
        }
}

/* Another thread: one mail, and on_done() comes from delivering it. */
static void test_thread(void **state) {
        static const fake_run_fn runs[] = { run_thread_release_last, run_thread_release_first };

        (void)state;
        for (size_t i = 0; i < 200; i++) {
                struct TRITONSERVER_InferenceResponse *response;
                struct fixture                         f;

                open_and_start(&f, runs[i % ARRAY_LEN(runs)], NULL);
                if (!f.is_done) /* the thread was not faster than the return */
                        deliver_one(&f.box);
                assert_true(f.is_done);
                assert_null(infer_call_get_response(&f.call, &response));
                assert_int_equal(((char *)response->base)[99], 'o');
                pthread_join(fake.thread, NULL);
                close_fixture(&f);
        }
}

static void test_not_done_before_each_end(void **state) {
        struct fixture f;

        (void)state;
        open_and_start(&f, run_keep, NULL);
        assert_int_equal(f.box.n_posted, 0);
        respond(kept_request, true);
        assert_int_equal(f.box.n_posted, 0);
        /* a release that is none: the core keeps the request */
        kept_request->on_release(kept_request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
                                 kept_request->release_userp);
        assert_int_equal(f.box.n_posted, 0);
        release(kept_request);
        assert_int_equal(f.box.n_posted, 1);
        assert_int_equal(f.box.n_woken, 1);
        assert_false(f.is_done);
        deliver_one(&f.box);
        assert_true(f.is_done);
        close_fixture(&f);
}

/* While more responses follow on the thread, the loop is woken behind the last of them. */
static void test_wake_up_is_put_off(void **state) {
        struct fixture f;

        (void)state;
        open_and_start(&f, run_keep, NULL);
        fake.puts_off = true;
        respond(kept_request, true);
        release(kept_request);
        assert_int_equal(f.box.n_posted, 1);
        assert_int_equal(f.box.n_woken, 0);
        assert_non_null(fake.after_responses);
        fake.after_responses(fake.after_responses_userp);
        assert_int_equal(f.box.n_woken, 1);
        deliver_one(&f.box);
        assert_true(f.is_done);
        close_fixture(&f);
}

static void test_number_of_responses(void **state) {
        static const struct {
                fake_run_fn run;
                const char *message;
        } rows[] = {
                { run_none, "expected a single response, got 0" },
                { run_three, "expected a single response, got 3" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct TRITONSERVER_InferenceResponse *response;
                struct fixture                         f;
                struct error                          *err;

                open_and_start(&f, rows[i].run, NULL);
                assert_true(f.is_done);
                err = infer_call_get_response(&f.call, &response);
                assert_non_null(err);
                assert_string_equal(err->message, rows[i].message);
                assert_int_equal(err->code, ERR_INTERNAL);
                error_free(err);
                close_fixture(&f);
        }
}

/* Streams: each response once, all before the end. */
static void test_stream(void **state) {
        struct fixture f;

        (void)state;
        open_and_start(&f, run_three, on_streamed);
        while (!f.is_done)
                deliver_one(&f.box);
        assert_int_equal(f.n_streamed, 3);
        close_fixture(&f);

        open_and_start(&f, run_none, on_streamed);
        assert_true(f.is_done);
        assert_int_equal(f.n_streamed, 0);
        close_fixture(&f);

        for (int i = 0; i < 20; i++) {
                open_and_start(&f, run_thread_many, on_streamed);
                while (!f.is_done)
                        deliver_one(&f.box);
                assert_int_equal(f.n_streamed, 200);
                assert_null(f.box.first);
                pthread_join(fake.thread, NULL);
                close_fixture(&f);
        }
}

/* In a round that is late a call delivers a few responses, and the rest in later ones; the end comes after
 * the last. */
static void test_late_rounds(void **state) {
        struct fixture f;

        (void)state;
        is_late = true;
        open_and_start(&f, run_twenty, on_streamed);
        deliver_one(&f.box);
        assert_int_equal(f.n_streamed, 8);
        deliver_one(&f.box);
        assert_false(f.is_done);
        while (!f.is_done)
                deliver_one(&f.box);
        assert_int_equal(f.n_streamed, 20);
        assert_null(f.box.first);
        close_fixture(&f);

        for (int i = 0; i < 20; i++) {
                unsigned n_rounds = 0;

                open_and_start(&f, run_thread_many, on_streamed);
                for (; !f.is_done; n_rounds++)
                        deliver_one(&f.box);
                assert_int_equal(f.n_streamed, 200);
                assert_true(n_rounds >= 200 / 8);
                assert_null(f.box.first);
                pthread_join(fake.thread, NULL);
                close_fixture(&f);
        }

        /* A call that is given up with responses left over drops them. */
        open_and_start(&f, run_twenty, on_streamed);
        deliver_one(&f.box);
        assert_int_equal(f.n_streamed, 8);
        close_fixture(&f);
        is_late = false;
}

/* One that comes with the end is not early. */
static void test_early(void **state) {
        static const struct {
                fake_run_fn run;
                unsigned    n_early;
                bool        has_thread;
        } rows[] = {
                { run_none, 0, false },
                { run_release_last, 0, false },
                { run_separate_final, 1, false },
                { run_three, 1, false },
                { run_thread_release_last, 0, true },
                { run_thread_many, 1, true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fixture f;

                open_fixture(&f, rows[i].run, NULL);
                f.call.options.on_early = on_early;
                assert_null(infer_call_open(&f.call, "model", -1));
                assert_null(infer_call_fill(&f.call, &f.request));
                assert_null(infer_call_start(&f.call, NULL));
                while (!f.is_done)
                        deliver_one(&f.box);
                assert_int_equal(f.n_streamed, rows[i].n_early);
                assert_null(f.box.first);
                if (rows[i].has_thread)
                        pthread_join(fake.thread, NULL);
                close_fixture(&f);
        }
}

/* A kept response outlives its call, until its keeper has written it. */
static void test_keep(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f, run_three, on_streamed_keep);
        f.call.options.limits = (struct infer_call_limits){ 5, 1000 };
        assert_null(infer_call_open(&f.call, "model", -1));
        assert_null(infer_call_start(&f.call, NULL));
        assert_non_null(strstr(strbuf_cstr(&fake.calls), "limit 5 1000\n"));
        while (!f.is_done)
                deliver_one(&f.box);
        assert_int_equal(fake.n_responses, 2);
        infer_call_done(&f.call);
        assert_int_equal(fake.n_responses, 2);
        assert_true(f.kept->is_final);
        assert_false(f.kept->next->is_final);
        infer_call_response_free(f.kept->next);
        infer_call_response_free(f.kept);
        infer_call_response_free(NULL);
        close_fixture(&f);
}

static void test_cancel(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f, run_keep, NULL);
        infer_call_cancel(&f.call); /* nothing yet to cancel */
        assert_null(infer_call_open(&f.call, "model", -1));
        infer_call_cancel(&f.call);
        assert_null(infer_call_start(&f.call, NULL));
        assert_false(kept_request->is_cancelled);
        infer_call_cancel(&f.call);
        assert_true(kept_request->is_cancelled);
        assert_false(f.is_done);
        run_release_first(kept_request);
        infer_call_cancel(&f.call); /* late, but the request is still there */
        deliver_one(&f.box);
        assert_true(f.is_done);
        close_fixture(&f);
}

static void test_failures(void **state) {
        struct fixture f;
        struct error  *err;

        (void)state;
        open_fixture(&f, run_keep, NULL);
        fake.refuse = "New";
        err = infer_call_open(&f.call, "model", 7);
        assert_non_null(err);
        assert_string_equal(err->message, "New");
        assert_int_equal(err->code, ERR_NOT_FOUND);
        error_free(err);
        close_fixture(&f);

        open_fixture(&f, run_keep, NULL);
        fake.refuse = "InferAsync";
        assert_null(infer_call_open(&f.call, "model", 7));
        err = infer_call_start(&f.call, NULL);
        assert_non_null(err);
        assert_false(f.is_done);
        assert_int_equal(f.box.n_posted, 0);
        error_free(err);
        close_fixture(&f);
}

static void test_fill(void **state) {
        struct infer_parameter parameters[] = {
                { .name = "s", .type = TRITONSERVER_PARAMETER_STRING, .value.text = "t" },
                { .name = "i", .type = TRITONSERVER_PARAMETER_INT, .value.integer = -2 },
                { .name = "b", .type = TRITONSERVER_PARAMETER_BOOL, .value.boolean = true },
                { .name = "d", .type = TRITONSERVER_PARAMETER_DOUBLE, .value.real = 0.5 },
        };
        struct infer_input inputs[] = {
                { .name = "A",
                  .datatype = TRITONSERVER_TYPE_UINT8,
                  .n_dims = 2,
                  .shape = (const int64_t[]){ 1, 3 },
                  .bytes = STR_LIT("abc") },
                { .name = "B",
                  .datatype = TRITONSERVER_TYPE_FP32,
                  .n_dims = 1,
                  .shape = (const int64_t[]){ 0 } },
        };
        struct infer_requested_output outputs[] = { { .name = "X" }, { .name = "Y" } };
        struct fixture                f;

        (void)state;
        open_fixture(&f, run_keep, NULL);
        f.request = (struct infer_request){
                .id = "req",
                .flags = 3,
                .priority = 5,
                .timeout_us = 6,
                .sequence_id = 7,
                .parameters = parameters,
                .n_parameters = 4,
                .inputs = inputs,
                .n_inputs = 2,
                .outputs = outputs,
                .n_outputs = 2,
        };
        assert_null(infer_call_open(&f.call, "model", 2));
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_string_equal(strbuf_cstr(&fake.calls),
                            "new model 2\nid req\nsequence 7\nflags 3\npriority 5\ntimeout 6\n"
                            "string s=t\nint i=-2\nbool b=1\ndouble d=0.5\n"
                            "input A 2 1 3\nappend A 'abc'\ninput B 11 0\noutput X\noutput Y\n");
        close_fixture(&f);

        open_fixture(&f, run_keep, NULL);
        f.request.sequence_name = "name";
        f.request.is_raw = true;
        f.request.raw = STR_LIT("xyz");
        assert_null(infer_call_open(&f.call, "model", -1));
        assert_null(infer_call_fill(&f.call, &f.request));
        assert_string_equal(strbuf_cstr(&fake.calls), "new model -1\nsequence 'name'\n"
                                                      "raw raw_input\nappend raw_input 'xyz'\n");
        close_fixture(&f);

        /* With something in shared memory the answer is not to be kept. */
        open_fixture(&f, run_keep, NULL);
        f.request = (struct infer_request){ .id = "" };
        assert_null(infer_call_open(&f.call, "model", -1));
        f.call.n_regions = 1;
        assert_null(infer_call_fill(&f.call, &f.request));
        f.call.n_regions = 0;
        assert_string_equal(strbuf_cstr(&fake.calls), "new model -1\ncacheable 0\n");
        close_fixture(&f);
}

/* Small outputs in the call, large ones in buffers, those of a region in the region. */
static void test_output_memory(void **state) {
        char                                   region[64];
        struct infer_call_target               target = { .output = "shm",
                                                          .memory = region,
                                                          .bytes = sizeof(region) };
        struct TRITONSERVER_InferenceResponse *r[4];
        struct TRITONSERVER_Error             *core_err;
        struct fixture                         f;
        struct error                          *err;

        (void)state;
        open_fixture(&f, run_keep, NULL);
        f.call.targets = &target;
        f.call.n_targets = 1;
        assert_null(infer_call_open(&f.call, "model", -1));
        assert_null(infer_call_start(&f.call, NULL));

        r[0] = new_response(kept_request, "a", 600, &core_err);
        assert_null(r[0]->userp);
        assert_int_equal((uintptr_t)r[0]->base % INFER_CALL_ALIGNMENT, 0);
        r[1] = new_response(kept_request, "b", 384, &core_err);
        assert_null(r[1]->userp);
        assert_ptr_equal((char *)r[1]->base, (char *)r[0]->base + 640);
        r[2] = new_response(kept_request, "c", 1, &core_err); /* full */
        assert_non_null(r[2]->userp);
        assert_ptr_equal(((struct buf *)r[2]->userp)->bytes, r[2]->base);
        r[3] = new_response(kept_request, "shm", 64, &core_err);
        assert_null(r[3]->userp);
        assert_ptr_equal(r[3]->base, region);
        assert_null(new_response(kept_request, "shm", 65, &core_err));
        err = core_error_take(core_err);
        assert_string_equal(err->message,
                            "shared memory size specified with the request for output 'shm' (64 "
                            "bytes) should be at least 65 bytes to hold the results");
        assert_int_equal(err->code, ERR_INVALID_ARG);
        error_free(err);

        for (size_t i = 0; i < 4; i++)
                assert_null(TRITONSERVER_InferenceResponseDelete(r[i]));
        run_release_first(kept_request);
        deliver_one(&f.box);
        close_fixture(&f);
}

static void test_query(void **state) {
        TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
        struct fixture          f;
        int64_t                 id = 4;

        (void)state;
        open_fixture(&f, run_keep, NULL);
        assert_null(f.core.allocator->query(f.core.allocator, &f.call, "x", NULL, &type, &id));
        assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(id, 0);
        close_fixture(&f);
}

static void test_read_response(void **state) {
        struct infer_requested_output          asked[] = { { .name = "other" },
                                                           { .name = "out", .n_classes = 2 } };
        struct TRITONSERVER_InferenceResponse *core_response;
        struct infer_response                  r;
        struct fixture                         f;
        struct error                          *err;

        (void)state;
        open_and_start(&f, run_release_last, NULL);
        assert_null(infer_call_get_response(&f.call, &core_response));
        assert_null(infer_response_read(core_response, &f.request, &f.arena, &r));
        assert_string_equal(r.id, "the id");
        assert_string_equal(r.model_name, "model");
        assert_int_equal(r.model_version, 3);
        assert_int_equal(r.n_parameters, 4);
        assert_int_equal(r.parameters[0].value.integer, -7);
        assert_true(r.parameters[1].value.boolean);
        assert_true(r.parameters[2].value.real == 2.5);
        assert_string_equal(r.parameters[3].value.text, "text");
        assert_int_equal(r.n_outputs, 1);
        assert_string_equal(r.outputs[0].name, "out");
        assert_int_equal(r.outputs[0].bytes.len, 100);
        assert_int_equal(r.outputs[0].form, INFER_OUTPUT_JSON);

        /* the form of what is not listed, then of what is */
        f.request.is_binary_by_default = true;
        assert_null(infer_response_read(core_response, &f.request, &f.arena, &r));
        assert_int_equal(r.outputs[0].form, INFER_OUTPUT_BINARY);
        f.request.outputs = asked;
        f.request.n_outputs = 2;
        assert_null(infer_response_read(core_response, &f.request, &f.arena, &r));
        assert_int_equal(r.outputs[0].form, INFER_OUTPUT_JSON);
        assert_int_equal(r.outputs[0].n_classes, 2);
        asked[1].is_binary = true;
        assert_null(infer_response_read(core_response, &f.request, &f.arena, &r));
        assert_int_equal(r.outputs[0].form, INFER_OUTPUT_BINARY);
        asked[1].shared_memory.region = "region";
        assert_null(infer_response_read(core_response, &f.request, &f.arena, &r));
        assert_int_equal(r.outputs[0].form, INFER_OUTPUT_SHARED_MEMORY);

        core_response->error = "the model failed";
        err = infer_response_read(core_response, &f.request, &f.arena, &r);
        assert_non_null(err);
        assert_string_equal(err->message, "the model failed");
        assert_int_equal(err->code, ERR_UNAVAILABLE);
        error_free(err);
        close_fixture(&f);
}

static void set_input(struct fixture *f, const char *text) {
        static const int64_t shape[] = { 1 };
        struct infer_input  *in;

        infer_request_init(&f->request);
        assert_null(infer_request_add_input(&f->request, &f->arena, &in));
        in->name = "in";
        in->datatype = TRITONSERVER_TYPE_BYTES;
        in->shape = shape;
        in->n_dims = 1;
        in->bytes = str_of(text);
}

/* Other inputs, with the same request of the core; all events come once more. */
static void test_refill(void **state) {
        static const fake_run_fn runs[] = { run_three, run_separate_final, run_thread_many };
        struct fixture           f;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(runs); i++) {
                open_fixture(&f, run_separate_final, on_streamed);
                assert_null(infer_call_open(&f.call, "model", -1));
                set_input(&f, "a");
                f.request.id = "the id";
                assert_null(infer_call_fill(&f.call, &f.request));
                assert_null(infer_call_start(&f.call, NULL));
                while (!f.is_done)
                        deliver_one(&f.box);
                assert_int_equal(f.n_streamed, 1);
                assert_int_equal(fake.n_requests, 1);

                strbuf_clear(&fake.calls);
                set_input(&f, "b");
                assert_null(infer_call_refill(&f.call, &f.request));
                assert_string_equal(strbuf_cstr(&fake.calls),
                                    "no inputs\ninput in 13 1\nappend in 'b'\n");
                f.is_done = false;
                f.n_streamed = 0;
                fake.run = runs[i];
                assert_null(infer_call_start(&f.call, NULL));
                while (!f.is_done)
                        deliver_one(&f.box);
                if (runs[i] == run_thread_many)
                        pthread_join(fake.thread, NULL);
                assert_int_equal(f.n_streamed, runs[i] == run_three            ? 3
                                               : runs[i] == run_separate_final ? 1
                                                                               : 200);
                assert_int_equal(fake.n_requests, 1);
                close_fixture(&f);
        }
}

SUITE(infer_call) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inline),
                cmocka_unit_test(test_thread),
                cmocka_unit_test(test_not_done_before_each_end),
                cmocka_unit_test(test_wake_up_is_put_off),
                cmocka_unit_test(test_number_of_responses),
                cmocka_unit_test(test_stream),
                cmocka_unit_test(test_late_rounds),
                cmocka_unit_test(test_early),
                cmocka_unit_test(test_keep),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_fill),
                cmocka_unit_test(test_refill),
                cmocka_unit_test(test_output_memory),
                cmocka_unit_test(test_query),
                cmocka_unit_test(test_read_response),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
