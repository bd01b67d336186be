/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/response_order.h"
#include "infer/scheduler.h"

#include <stdio.h>

#define SIMPLE                                                                                     \
        "name: 'm' max_batch_size: 8 "                                                             \
        "input { name: 'A' data_type: TYPE_FP32 dims: 4 } "                                        \
        "input { name: 'B' data_type: TYPE_FP32 dims: 4 } "                                        \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 4 } "

struct open_request {
        struct fake_model *fake;
        struct request    *req;
};

static struct open_request open_one(void) {
        struct open_request o = { .fake = fake_model_new(SIMPLE) };

        o.req = fake_request(o.fake);
        return o;
}

static void close_one(struct open_request o) {
        request_free(o.req);
        fake_model_free(o.fake);
}

static void test_new(void **state) {
        struct open_request o = open_one();

        (void)state;
        assert_ptr_equal(o.req->model, &o.fake->model);
        assert_string_equal(o.req->id, "");
        assert_int_equal(atomic_load(&o.req->state), REQUEST_INITIALIZED);
        assert_false(request_is_cancelled(o.req));
        assert_null(o.req->first_input);
        assert_null(request_input_at(o.req, 0));
        assert_null(request_find_input(o.req, "A"));

        /* It holds its model. */
        model_unref(&o.fake->model);
        assert_int_equal(o.fake->n_unused, 0);
        request_free(o.req);
        assert_int_equal(o.fake->n_unused, 1);
        o.fake->n_unused = 0;
        ref_init(&o.fake->model.ref);
        fake_model_free(o.fake);
        request_free(NULL);
}

static void test_id(void **state) {
        struct open_request o = open_one();
        const char         *kept;
        char                text[32];

        (void)state;
        assert_ok(request_set_id(o.req, "first"), "id");
        assert_string_equal(o.req->id, "first");
        assert_ok(request_set_id(o.req, ""), "empty");
        assert_string_equal(o.req->id, "");
        assert_ok(request_set_id(o.req, "a longer one"), "id");
        assert_string_equal(o.req->id, "a longer one");
        assert_ok(request_set_id(o.req, o.req->id), "itself");
        assert_string_equal(o.req->id, "a longer one");
        assert_ok(request_set_id(o.req, NULL), "none");
        assert_string_equal(o.req->id, "");

        /* Ids of one length, for ever: no growth. */
        assert_ok(request_set_id(o.req, "id 000000"), "id");
        kept = o.req->id;
        for (unsigned i = 0; i < 10000; i++) {
                snprintf(text, sizeof(text), "id %06u", i);
                assert_ok(request_set_id(o.req, text), text);
        }
        assert_ptr_equal(o.req->id, kept);
        assert_string_equal(o.req->id, "id 009999");
        close_one(o);
}

static void test_correlation(void **state) {
        struct open_request o = open_one();
        char                text[] = "sequence";

        (void)state;
        o.req->correlation = (struct correlation_id){ .number = 7 };
        assert_ok(request_set_correlation_text(o.req, text), "text");
        text[0] = 'X';
        assert_string_equal(o.req->correlation.text, "sequence");
        assert_int_equal(o.req->correlation.number, 0);
        close_one(o);
}

/* ---- outputs and parameters ------------------------------------------------------------------ */

static void assert_outputs(const struct request *req, const char *names) {
        uint32_t n = 0;

        for (struct requested_output *out = req->first_output; out != NULL; out = out->next, n++)
                assert_int_equal(out->name[0], names[n]);
        assert_int_equal(n, strlen(names));
        assert_int_equal(req->n_outputs, n);
}

static void test_outputs(void **state) {
        struct open_request o = open_one();

        (void)state;
        assert_ok(request_add_output(o.req, "X"), "X");
        assert_ok(request_add_output(o.req, "Y"), "Y");
        assert_ok(request_add_output(o.req, "Z"), "Z");
        assert_outputs(o.req, "XYZ");
        assert_error(request_add_output(o.req, "Y"), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] output 'Y' already exists in request");
        assert_ok(request_remove_output(o.req, "Z"), "last");
        assert_ok(request_add_output(o.req, "W"), "W");
        assert_outputs(o.req, "XYW");
        assert_ok(request_remove_output(o.req, "X"), "first");
        assert_outputs(o.req, "YW");
        assert_error(request_remove_output(o.req, "X"), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] output 'X' does not exist in request");
        request_remove_all_outputs(o.req);
        assert_outputs(o.req, "");
        assert_ok(request_add_output(o.req, "X"), "again");
        assert_outputs(o.req, "X");
        close_one(o);
}

/* Looking for doubles costs the square of the number: peers must not choose it. */
static void test_too_many(void **state) {
        struct open_request o = open_one();
        char                name[32];

        (void)state;
        for (unsigned i = 0; i < 2 + REQUEST_MAX_EXTRA_TENSORS; i++) {
                snprintf(name, sizeof(name), "i%u", i);
                assert_ok(request_add_input(o.req, name, DATA_TYPE_FP32, NULL, 0), name);
        }
        assert_error(request_add_input(o.req, "A", DATA_TYPE_FP32, NULL, 0), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] too many inputs for model 'm', which has 2");
        for (unsigned i = 0; i < 1 + REQUEST_MAX_EXTRA_TENSORS; i++) {
                snprintf(name, sizeof(name), "o%u", i);
                assert_ok(request_add_output(o.req, name), name);
        }
        assert_error(request_add_output(o.req, "Y"), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] too many requested outputs for model 'm', which "
                     "has 1");
        close_one(o);
}

static void test_parameters(void **state) {
        struct open_request o = open_one();
        struct parameter    p = { .name = "s", .type = PARAMETER_STRING, .string = "text" };

        (void)state;
        assert_ok(request_add_parameter(o.req, &p), "s");
        p = (struct parameter){ .name = "d", .type = PARAMETER_DOUBLE, .real = 2.5 };
        assert_ok(request_add_parameter(o.req, &p), "d");
        assert_int_equal(o.req->parameters.n, 2);
        assert_string_equal(parameter_list_at(&o.req->parameters, 0)->string, "text");
        assert_true(parameter_list_at(&o.req->parameters, 1)->real == 2.5);

        /* The same name once more replaces the value. */
        p.real = 3.5;
        assert_ok(request_add_parameter(o.req, &p), "d again");
        assert_int_equal(o.req->parameters.n, 2);
        assert_true(parameter_list_at(&o.req->parameters, 1)->real == 3.5);
        close_one(o);
}

/* Peers choose their number and size: an answer, not an abort. */
static void test_parameter_limits(void **state) {
        struct open_request o = open_one();
        struct error       *err = NULL;
        char                name[REQUEST_MAX_NAME_BYTES + 2];
        char                text[2000];
        struct parameter    p = { .name = name, .type = PARAMETER_STRING, .string = text };

        (void)state;
        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        memset(text, 't', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        assert_error(request_add_parameter(o.req, &p), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of a parameter has 1025 bytes, at most "
                     "1024 are supported");
        assert_error(request_add_input(o.req, name, DATA_TYPE_INT8, NULL, 0), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of an input has 1025 bytes, at most 1024 "
                     "are supported");
        assert_error(request_add_output(o.req, name), ERR_INVALID_ARG,
                     "[request id: <id_unknown>] the name of a requested output has 1025 bytes, at "
                     "most 1024 are supported");
        name[REQUEST_MAX_NAME_BYTES] = '\0';
        assert_ok(request_add_parameter(o.req, &p), "1024");
        assert_ok(request_add_input(o.req, name, DATA_TYPE_INT8, NULL, 0), "1024");
        assert_ok(request_add_output(o.req, name), "1024");

        p.type = PARAMETER_INT;
        for (unsigned i = 1; i < REQUEST_MAX_PARAMETERS; i++) {
                snprintf(name, sizeof(name), "%u", i);
                assert_ok(request_add_parameter(o.req, &p), name);
        }
        assert_error(request_add_parameter(o.req, &(struct parameter){ .name = "one more" }),
                     ERR_INVALID_ARG,
                     "[request id: <id_unknown>] too many parameters in request, at most 1024 are "
                     "supported");
        assert_ok(request_add_parameter(o.req, &p), "one that is there");

        /* The arena's maximum. */
        arena_set_max(&o.req->arena, o.req->arena.used_bytes + 10000);
        p.type = PARAMETER_STRING;
        for (unsigned i = 1; i < REQUEST_MAX_PARAMETERS && err == NULL; i++) {
                snprintf(name, sizeof(name), "%u", i);
                err = request_add_parameter(o.req, &p);
        }
        assert_error(err, ERR_UNAVAILABLE,
                     "[request id: <id_unknown>] out of memory, or the request is larger than "
                     "268435456 bytes");
        close_one(o);
}

/* ---- cancel, release, refuse ----------------------------------------------------------------- */

struct fake_scheduler {
        struct scheduler base;
        unsigned         n_cancels;
};

static void note_cancel(struct scheduler *s, struct request *req) {
        (void)req;
        CONTAINER_OF(s, struct fake_scheduler, base)->n_cancels++;
}

static void test_cancel(void **state) {
        static const struct scheduler_ops ops = { .cancel = note_cancel };
        struct fake_scheduler             s = { .base = { .ops = &ops } };
        struct open_request               o = open_one();

        (void)state;
        request_cancel(o.req); /* no scheduler yet */
        assert_true(request_is_cancelled(o.req));
        o.fake->model.scheduler = &s.base;
        request_cancel(o.req);
        assert_int_equal(s.n_cancels, 0); /* not submitted: the scheduler knows nothing of it */
        atomic_store(&o.req->state, REQUEST_PENDING);
        request_cancel(o.req);
        assert_int_equal(s.n_cancels, 1);
        atomic_store(&o.req->state, REQUEST_EXECUTING);
        request_cancel(o.req);
        atomic_store(&o.req->state, REQUEST_RELEASED);
        request_cancel(o.req);
        assert_int_equal(s.n_cancels, 1);
        close_one(o);
}

struct notes {
        unsigned        n_releases;
        uint32_t        release_flags;
        int             state; /* at the release */
        unsigned        n_answers;
        unsigned        n_responses;
        uint32_t        response_flags;
        enum error_code code;
        char            message[64];
        char            id[16];
        bool            was_answered_first;
};

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct notes *notes = userp;

        notes->n_releases++;
        notes->release_flags = flags;
        notes->state = atomic_load(&req->state);
        notes->was_answered_first = notes->n_answers > 0;
}

static void on_response(struct response *r, uint32_t flags, void *userp) {
        struct notes *notes = userp;

        notes->n_answers++;
        notes->response_flags = flags;
        if (r == NULL)
                return;
        notes->n_responses++;
        snprintf(notes->id, sizeof(notes->id), "%s", r->source.id);
        if (r->error != NULL) {
                notes->code = r->error->code;
                snprintf(notes->message, sizeof(notes->message), "%s", r->error->message);
        }
        response_free(r);
}

static void note_into(struct request *req, struct notes *notes) {
        *notes = (struct notes){ 0 };
        req->on_release = on_release;
        req->on_release_userp = notes;
        req->on_response = on_response;
        req->on_response_userp = notes;
}

static void test_release(void **state) {
        struct open_request    o = open_one();
        struct response_order *order = response_order_new();
        struct notes           notes;

        (void)state;
        note_into(o.req, &notes);
        atomic_store(&o.fake->model.n_in_flight, 3);
        o.req->order_ticket = response_ticket_new(order);
        request_release(o.req, REQUEST_RELEASE_ALL);
        assert_int_equal(notes.n_releases, 1);
        assert_int_equal(notes.release_flags, REQUEST_RELEASE_ALL);
        assert_int_equal(notes.state, REQUEST_RELEASED);
        assert_int_equal(notes.n_answers, 0);
        assert_int_equal(atomic_load(&o.fake->model.n_in_flight), 2);
        assert_null(o.req->order_ticket);
        response_order_unref(order);
        close_one(o);
}

static uint64_t count_failures(struct fake_model *fake) {
        struct model_stats_snapshot snapshot;
        uint64_t                    n;

        model_stats_read(fake->model.stats, &snapshot);
        n = snapshot.fail.count;
        model_stats_snapshot_done(&snapshot);
        return n;
}

/* A backend that has no memory for a response, and ends the request without it. */
static void test_lost_response(void **state) {
        struct open_request    o = open_one();
        struct notes           notes;
        struct response       *response = NULL;
        struct response_source source = response_source_of(o.req);

        (void)state;
        note_into(o.req, &notes);
        source = response_source_of(o.req);
        mem_fail_after(1);
        error_free(response_new_from(&source, &response));
        assert_null(response);
        assert_ok(request_send_flags(o.req, RESPONSE_FINAL), "flags");
        mem_fail_after(0);
        assert_int_equal(notes.n_responses, 1);
        assert_int_equal(notes.response_flags, RESPONSE_FINAL);
        assert_int_equal(notes.code, ERR_UNAVAILABLE);
        assert_string_equal(notes.message, "a response was lost: out of memory");
        close_one(o);
}

static void test_refuse(void **state) {
        static const struct error why = ERROR_STATIC(ERR_UNAVAILABLE, "no time");
        struct open_request       o = open_one();
        struct notes              notes;

        (void)state;
        note_into(o.req, &notes);
        assert_ok(request_set_id(o.req, "the id"), "id");
        request_refuse(o.req, &why, FAILURE_REJECTED);
        assert_int_equal(notes.n_answers, 1);
        assert_int_equal(notes.n_responses, 1);
        assert_int_equal(notes.response_flags, RESPONSE_FINAL);
        assert_int_equal(notes.code, ERR_UNAVAILABLE);
        assert_string_equal(notes.message, "no time");
        assert_string_equal(notes.id, "the id");
        assert_int_equal(notes.n_releases, 1);
        assert_true(notes.was_answered_first);
        assert_int_equal(count_failures(o.fake), 1);

        /* No memory for a response: the error comes all the same. */
        note_into(o.req, &notes);
        assert_ok(request_renew_stream(o.req), "renew");
        mem_fail_after(1);
        request_refuse(o.req, &why, FAILURE_REJECTED);
        mem_fail_after(0);
        assert_int_equal(notes.n_answers, 1);
        assert_int_equal(notes.n_responses, 1);
        assert_int_equal(notes.response_flags, RESPONSE_FINAL);
        assert_string_equal(notes.message, "no time");
        assert_int_equal(notes.n_releases, 1);
        assert_int_equal(count_failures(o.fake), 2);
        close_one(o);
}

/* ---- short of memory ------------------------------------------------------------------------- */

/* Enough of everything that the memory inside the struct is not enough. */
static struct error *build(struct request *req) {
        struct buffer_attributes bytes = cpu_bytes(4);
        char                     name[700];
        struct parameter         p = { .name = name, .type = PARAMETER_STRING, .string = name };

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        for (unsigned i = 0; i < 4; i++) {
                name[0] = (char)('a' + i);
                TRY(request_add_input(req, name, DATA_TYPE_FP32, (int64_t[]){ 1, 1 }, 2));
                TRY(request_append_bytes(req, name, zero_bytes(), &bytes, NULL));
                TRY(request_append_bytes(req, name, zero_bytes(), &bytes, name));
                TRY(request_add_output(req, name));
                TRY(request_add_parameter(req, &p));
        }
        TRY(request_set_id(req, name));
        return request_set_correlation_text(req, name);
}

static void test_short_of_memory(void **state) {
        struct fake_model *fake = fake_model_new(SIMPLE);
        struct error      *err;
        unsigned           n = 0;

        (void)state;
        do {
                struct request *req;

                mem_fail_after(++n);
                req = request_new(&fake->model);
                err = req != NULL ? build(req) : error_new(ERR_INTERNAL, "out of memory");
                mem_fail_after(0);
                if (err != NULL)
                        assert_out_of_memory(err);
                else
                        assert_int_equal(req->n_inputs, 4);
                request_free(req);
        } while (err != NULL && n < 100);
        assert_in_range(n, 3, 99);
        fake_model_free(fake);
}

SUITE(request) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_new),
                cmocka_unit_test(test_id),
                cmocka_unit_test(test_correlation),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_parameters),
                cmocka_unit_test(test_parameter_limits),
                cmocka_unit_test(test_cancel),
                cmocka_unit_test(test_release),
                cmocka_unit_test(test_refuse),
                cmocka_unit_test(test_lost_response),
                cmocka_unit_test(test_short_of_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
