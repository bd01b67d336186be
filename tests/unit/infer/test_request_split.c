/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that run in parts: what each part gets, and what the answer is made of. */
#include "suite.h"

#include "base/mem.h"
#include "infer/cancel_watch.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"
#include "infer/request_split.h"
#include "infer/response_factory.h"

#define MODEL                                                                                      \
        "name: 'm' max_batch_size: 8 "                                                             \
        "input [ { name: 'X' data_type: TYPE_INT32 dims: 2 }, "                                    \
        "        { name: 'T' data_type: TYPE_STRING dims: 1 } ] "                                  \
        "output [ { name: 'X' data_type: TYPE_INT32 dims: 2 }, "                                   \
        "         { name: 'T' data_type: TYPE_STRING dims: 1 } ] "
#define N_ROWS 5

/* One request, its bytes in pieces, and what it was answered. */
struct whole {
        struct fake_model *fake;
        struct request    *req;
        int32_t            numbers[N_ROWS][2];
        uint8_t            texts[64];
        size_t             n_text_bytes;
        size_t             n_buffers;
        unsigned           n_responses, n_releases;
        struct response   *response; /* owned */
        bool               was_split_at_release;
};

/* The signature of allocator_alloc_fn. */
static struct error *give(struct response_allocator *a, const char *tensor, size_t byte_size,
                          enum memory_type type, int64_t id, void *userp, void **buffer,
                          void **buffer_userp, enum memory_type *actual_type, int64_t *actual_id) {
        struct whole *w = userp;

        (void)a;
        (void)tensor;
        (void)type;
        (void)id;
        *buffer = malloc(byte_size + 1);
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        w->n_buffers++;
        return NULL;
}

static struct error *take_back(struct response_allocator *a, void *buffer, void *buffer_userp,
                               size_t byte_size, enum memory_type type, int64_t id) {
        (void)a;
        (void)buffer_userp;
        (void)byte_size;
        (void)type;
        (void)id;
        free(buffer);
        return NULL;
}

static void on_response(struct response *r, uint32_t flags, void *userp) {
        struct whole *w = userp;

        assert_int_equal(flags, RESPONSE_FINAL);
        w->response = r;
        w->n_responses++;
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct whole *w = userp;

        (void)flags;
        w->was_split_at_release = req->is_split;
        w->n_releases++;
}

/* In two pieces, cut within an element. */
static void append_in_pieces(struct request *req, const char *name, const void *bytes, size_t n,
                             size_t cut) {
        struct buffer_attributes first = { .byte_size = cut }, rest = { .byte_size = n - cut };

        assert_ok(request_append_bytes(req, name, bytes, &first, NULL), name);
        assert_ok(request_append_bytes(req, name, (const uint8_t *)bytes + cut, &rest, NULL), name);
}

static void open_whole(struct whole *w) {
        static const struct response_allocator allocator = { .alloc = give, .release = take_back };
        static const char *const               texts[N_ROWS] = { "a", "", "ccc", "dd", "e" };

        *w = (struct whole){ .fake = fake_model_new(MODEL) };
        w->req = request_new(&w->fake->model);
        for (int i = 0; i < N_ROWS; i++) {
                size_t len = strlen(texts[i]);

                w->numbers[i][0] = 10 * i;
                w->numbers[i][1] = 10 * i + 1;
                w->texts[w->n_text_bytes] = (uint8_t)len;
                memcpy(w->texts + w->n_text_bytes + 4, texts[i], len);
                w->n_text_bytes += 4 + len;
        }
        assert_ok(request_set_id(w->req, "the id"), "id");
        assert_ok(request_add_input(w->req, "X", DATA_TYPE_INT32, (int64_t[]){ N_ROWS, 2 }, 2),
                  "X");
        append_in_pieces(w->req, "X", w->numbers, sizeof(w->numbers), 13);
        assert_ok(request_add_input(w->req, "T", DATA_TYPE_BYTES, (int64_t[]){ N_ROWS, 1 }, 2),
                  "T");
        append_in_pieces(w->req, "T", w->texts, w->n_text_bytes, 14);
        assert_ok(request_prepare(w->req), "prepare");
        w->req->allocator = &allocator;
        w->req->allocator_userp = w;
        w->req->on_response = on_response;
        w->req->on_response_userp = w;
        w->req->on_release = on_release;
        w->req->on_release_userp = w;
        atomic_fetch_add(&w->fake->model.n_in_flight, 1);
        request_split_begin(w->req);
}

static void close_whole(struct whole *w) {
        assert_int_equal(w->n_responses, 1);
        assert_int_equal(w->n_releases, 1);
        assert_false(w->was_split_at_release);
        assert_int_equal(w->req->batch_size, N_ROWS);
        assert_int_equal(atomic_load(&w->fake->model.n_in_flight), 0);
        response_free(w->response);
        request_free(w->req);
        fake_model_free(w->fake);
}

/* All bytes of an input, one piece after the other. */
static size_t read_input(const struct request *req, const char *name, uint8_t *to) {
        const struct request_input *in = request_find_input(req, name);
        size_t                      n = 0;

        assert_non_null(in);
        for (const struct input_chunk *c = in->first_chunk; c != NULL; c = c->next) {
                memcpy(to + n, c->base, c->attributes.byte_size);
                n += c->attributes.byte_size;
        }
        assert_int_equal(n, in->byte_size);
        return n;
}

static void echo_output(struct response *r, const struct request *req, const char *name,
                        enum data_type type, int64_t second_dim) {
        struct response_output *o;
        uint8_t                 bytes[128];
        size_t                  n = read_input(req, name, bytes);
        enum memory_type        memory = MEMORY_CPU;
        int64_t                 id = 0;
        void                   *base;

        assert_ok(response_add_output(r, name, type,
                                      (int64_t[]){ (int64_t)req->batch_size, second_dim }, 2, &o),
                  name);
        assert_ok(response_output_buffer(o, n, &memory, &id, &base), name);
        if (n > 0)
                memcpy(base, bytes, n);
}

/* As a backend that repeats its inputs, or fails. */
static void answer(struct request *req, const char *failure) {
        struct error    *why = failure != NULL ? error_new(ERR_INTERNAL, "%s", failure) : NULL;
        struct response *r;

        assert_ok(response_new(req, &r), "response");
        if (failure == NULL) {
                echo_output(r, req, "X", DATA_TYPE_INT32, 2);
                echo_output(r, req, "T", DATA_TYPE_BYTES, 1);
        }
        assert_ok(response_send(r, RESPONSE_FINAL, why), "send");
        error_free(why);
        request_release(req, REQUEST_RELEASE_ALL);
}

static struct request *take(struct whole *w, uint64_t n_rows) {
        struct request *part = split_part_make(request_split_take(w->req, n_rows));

        assert_non_null(part);
        assert_true(part->is_part);
        assert_int_equal(part->batch_size, n_rows);
        assert_string_equal(part->id, "the id");
        return part;
}

static void assert_whole_answer(const struct whole *w) {
        const struct response_output *x, *t;

        assert_null(w->response->error);
        assert_int_equal(w->response->n_outputs, 2);
        x = response_find_output(w->response, "X");
        t = response_find_output(w->response, "T");
        assert_int_equal(x->shape[0], N_ROWS);
        assert_int_equal(x->shape[1], 2);
        assert_int_equal(x->byte_size, sizeof(w->numbers));
        assert_memory_equal(x->base, w->numbers, sizeof(w->numbers));
        assert_int_equal(t->byte_size, w->n_text_bytes);
        assert_memory_equal(t->base, w->texts, w->n_text_bytes);
}

/* Every way to cut five rows, the parts ending in both orders. */
static void test_all_cuts(void **state) {
        (void)state;
        for (unsigned cuts = 0; cuts < 1u << (N_ROWS - 1); cuts++)
                for (unsigned backwards = 0; backwards < 2; backwards++) {
                        struct request *parts[N_ROWS];
                        struct whole    w;
                        unsigned        n = 0, rows = 0;

                        open_whole(&w);
                        for (unsigned i = 0; i < N_ROWS; i++) {
                                rows++;
                                if (i < N_ROWS - 1 && (cuts & 1u << i) == 0)
                                        continue;
                                parts[n++] = take(&w, rows);
                                rows = 0;
                        }
                        for (unsigned i = 0; i < n; i++) {
                                assert_int_equal(w.n_responses, 0);
                                answer(parts[backwards ? n - 1 - i : i], NULL);
                        }
                        assert_whole_answer(&w);
                        assert_int_equal(w.n_buffers, 2);
                        close_whole(&w);
                }
}

static void test_a_part_that_fails(void **state) {
        struct request *first, *rest;
        struct whole    w;

        (void)state;
        open_whole(&w);
        first = take(&w, 2);
        rest = take(&w, 3);
        answer(rest, "rows 2 to 4 are wrong");
        assert_int_equal(w.n_responses, 0);
        answer(first, NULL);
        assert_string_equal(w.response->error->message, "rows 2 to 4 are wrong");
        close_whole(&w);
}

/* A backend fails the batch that has the parts: the request is one failure. */
static void test_a_batch_of_parts_that_fails(void **state) {
        static const struct error   why = ERROR_STATIC(ERR_INTERNAL, "the batch has failed");
        struct request             *parts[2];
        struct model_stats_snapshot stats;
        struct whole                w;

        (void)state;
        open_whole(&w);
        parts[0] = take(&w, 2);
        parts[1] = take(&w, 3);
        for (unsigned i = 0; i < 2; i++)
                request_refuse(parts[i], &why, FAILURE_BACKEND);
        assert_string_equal(w.response->error->message, "the batch has failed");
        model_stats_read(w.fake->model.stats, &stats);
        assert_int_equal(stats.fail.count, 1);
        model_stats_snapshot_done(&stats);
        close_whole(&w);
}

static void test_given_up_while_a_part_runs(void **state) {
        static const struct error cancelled = ERROR_STATIC(ERR_CANCELLED, "given up");
        struct request           *first;
        struct whole              w;

        (void)state;
        open_whole(&w);
        first = take(&w, 2);
        request_split_give_up(w.req, &cancelled, FAILURE_CANCELED);
        assert_int_equal(w.n_responses, 0);
        answer(first, NULL);
        assert_int_equal(w.response->error->code, ERR_CANCELLED);
        close_whole(&w);
}

/* Counts the calls of a watch. */
static void count_call(void *userp) {
        ++*(unsigned *)userp;
}

/* A backend that has a part sees that the client has cancelled the request. */
static void test_cancelled_while_parts_run(void **state) {
        struct request          *first, *rest;
        struct response_factory *factory;
        struct cancel_watch     *watch;
        struct whole             w;
        unsigned                 n_calls = 0;

        (void)state;
        open_whole(&w);
        first = take(&w, 2);
        rest = take(&w, 3);
        watch = cancel_watch_new(request_cancel_stream(rest), count_call, &n_calls);
        assert_non_null(watch);
        assert_ok(response_factory_new(first, &factory), "factory");
        assert_false(request_is_cancelled(first));
        assert_false(response_factory_is_cancelled(factory));
        request_cancel(w.req);
        assert_true(request_is_cancelled(first));
        assert_true(request_is_cancelled(rest));
        assert_true(response_factory_is_cancelled(factory));
        assert_int_equal(n_calls, 1);
        cancel_watch_free(watch);
        response_factory_free(factory);
        answer(first, NULL);
        answer(rest, NULL);
        close_whole(&w);
}

/* A composed model sums the times of its steps; those of a step that runs in parts are the sums of the parts. */
static void test_times_of_a_step_in_parts(void **state) {
        const struct request_times times[] = {
                { .exec_start_ns = 100,
                  .compute_start_ns = 110,
                  .compute_end_ns = 130,
                  .exec_end_ns = 160 },
                { .exec_start_ns = 90,
                  .compute_start_ns = 91,
                  .compute_end_ns = 93,
                  .exec_end_ns = 96 },
        };
        struct compute_sums sums = { 0 };
        struct request     *parts[2];
        struct whole        w;

        (void)state;
        open_whole(&w);
        w.req->is_inner = true;
        w.req->sums = &sums;
        w.req->outer = NULL;
        parts[0] = take(&w, 2);
        parts[1] = take(&w, 3);
        for (unsigned i = 0; i < 2; i++) {
                split_part_report(parts[i], &times[i]);
                answer(parts[i], NULL);
        }
        assert_int_equal(sums.input_ns, 10 + 1);
        assert_int_equal(sums.infer_ns, 20 + 2);
        assert_int_equal(sums.output_ns, 30 + 3);
        close_whole(&w);
}

/* A backend whose output is not by rows. */
static void test_an_output_of_another_length(void **state) {
        struct request         *part;
        struct response        *r;
        struct response_output *o;
        enum memory_type        memory = MEMORY_CPU;
        int64_t                 id = 0;
        struct whole            w;
        void                   *base;

        (void)state;
        open_whole(&w);
        for (unsigned i = 0; i < 2; i++) {
                part = take(&w, i == 0 ? 2 : 3);
                assert_ok(response_new(part, &r), "response");
                assert_ok(response_add_output(r, "X", DATA_TYPE_INT32, (int64_t[]){ 2, 2 }, 2, &o),
                          "X");
                assert_ok(response_output_buffer(o, 16, &memory, &id, &base), "buffer");
                memset(base, 0, 16);
                assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
                request_release(part, REQUEST_RELEASE_ALL);
        }
        assert_string_equal(w.response->error->message,
                            "[request id: the id] output 'X' of rows 2 to 4, which were run apart, "
                            "has another number of rows");
        close_whole(&w);
}

static void test_no_memory(void **state) {
        unsigned n = 0;
        bool     was_hit;

        (void)state;
        do {
                struct split_part *part;
                struct request    *made;
                struct whole       w;

                open_whole(&w);
                part = request_split_take(w.req, N_ROWS - 1);
                mem_fail_after(++n);
                made = split_part_make(part);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_true(made != NULL || was_hit);
                if (made != NULL)
                        answer(made, NULL);
                made = split_part_make(request_split_take(w.req, 1));
                if (made != NULL)
                        answer(made, NULL);
                close_whole(&w);
        } while (was_hit);
        assert_true(n > 2);
}

SUITE(request_split) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_cuts),
                cmocka_unit_test(test_a_part_that_fails),
                cmocka_unit_test(test_a_batch_of_parts_that_fails),
                cmocka_unit_test(test_given_up_while_a_part_runs),
                cmocka_unit_test(test_cancelled_while_parts_run),
                cmocka_unit_test(test_times_of_a_step_in_parts),
                cmocka_unit_test(test_an_output_of_another_length),
                cmocka_unit_test(test_no_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
