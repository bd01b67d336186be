/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/response_factory.h"

#include <stdio.h>

#define SIMPLE                                                                                     \
        "name: 'm' max_batch_size: 8 "                                                             \
        "output { name: 'Y' data_type: TYPE_FP32 dims: 6 reshape { shape: [2, 3] } } "             \
        "output { name: 'Z' data_type: TYPE_STRING dims: -1 } "

/* A front end: what its callbacks were told. They get it as their userp. */
struct front {
        struct fake_model        *fake;
        struct request           *req;
        struct response_allocator allocator;
        unsigned                  n_starts;
        unsigned                  n_allocs;
        unsigned                  n_releases;
        unsigned                  n_attributes;
        bool                      fails; /* every callback but attributes() */
        bool                      attributes_fail;
        bool                      gives_nothing;
        char                      log[256];
        struct response          *received;
        uint32_t                  flags;
        unsigned                  n_received;
};

static struct front *front; /* release() is given no userp of the front end's */

static struct error *failure(const char *which) {
        return front->fails ? error_new(ERR_UNAVAILABLE, "%s failed", which) : NULL;
}

/* The signature of the C API's allocation callback. */
static struct error *alloc(struct response_allocator *allocator, const char *tensor, size_t n,
                           enum memory_type type, int64_t id, void *userp, void **buffer,
                           void **buffer_userp, enum memory_type *actual_type, int64_t *actual_id) {
        struct front *f = userp;

        assert_ptr_equal(allocator, &f->allocator);
        f->n_allocs++;
        snprintf(f->log, sizeof(f->log), "%s %zu %s %lld", tensor, n, memory_type_name(type),
                 (long long)id);
        TRY(failure("alloc"));
        *buffer = n > 0 && !f->gives_nothing ? malloc(n) : NULL;
        *buffer_userp = (char *)f + f->n_allocs;
        *actual_type = MEMORY_CPU;
        *actual_id = 5;
        return NULL;
}

static struct error *release(struct response_allocator *allocator, void *buffer, void *buffer_userp,
                             size_t n, enum memory_type type, int64_t id) {
        assert_ptr_equal(allocator, &front->allocator);
        front->n_releases++;
        snprintf(front->log, sizeof(front->log), "%d %zu %s %lld",
                 (int)((char *)buffer_userp - (char *)front), n, memory_type_name(type),
                 (long long)id);
        free(buffer);
        return failure("release"); /* there is nobody to tell */
}

static struct error *start(struct response_allocator *allocator, void *userp) {
        assert_ptr_equal(allocator, &front->allocator);
        assert_ptr_equal(userp, front);
        front->n_starts++;
        return failure("start");
}

static struct error *attributes(struct response_allocator *allocator, const char *tensor,
                                struct buffer_attributes *a, void *userp, void *buffer_userp) {
        assert_ptr_equal(allocator, &front->allocator);
        assert_ptr_equal(userp, front);
        assert_string_equal(tensor, "Y");
        assert_int_equal((char *)buffer_userp - (char *)front, front->n_allocs);
        front->n_attributes++;
        a->memory_id = 9;
        return front->attributes_fail ? error_new(ERR_INTERNAL, "attributes failed") : NULL;
}

static void on_response(struct response *r, uint32_t flags, void *userp) {
        struct front *f = userp;

        f->n_received++;
        f->received = r;
        f->flags = flags;
}

static void open_front(struct front *f) {
        *f = (struct front){ .fake = fake_model_new(SIMPLE),
                             .allocator = { .alloc = alloc, .release = release } };
        front = f;
        f->req = fake_request(f->fake);
        f->req->allocator = &f->allocator;
        f->req->allocator_userp = f;
        f->req->on_response = on_response;
        f->req->on_response_userp = f;
}

static void close_front(struct front *f) {
        request_free(f->req);
        fake_model_free(f->fake);
}

static struct response *new_response(struct front *f) {
        struct response *r = NULL;

        assert_ok(response_new(f->req, &r), "response");
        return r;
}

static struct response_output *add_output(struct response *r, const char *name, enum data_type type,
                                          const int64_t *dims, uint32_t n) {
        struct response_output *o = NULL;

        assert_ok(response_add_output(r, name, type, dims, n, &o), name);
        return o;
}

static void test_outlives_its_request(void **state) {
        struct front     f;
        struct response *r;

        (void)state;
        open_front(&f);
        assert_ok(request_set_id(f.req, "the id"), "id");
        r = new_response(&f);
        request_free(STEAL(f.req));
        assert_string_equal(r->source.id, "the id");
        assert_ptr_equal(r->source.model, &f.fake->model);
        assert_null(r->error);
        assert_null(response_output_at(r, 0));
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_int_equal(f.n_received, 1);
        assert_ptr_equal(f.received, r);
        assert_int_equal(f.flags, RESPONSE_FINAL);
        response_free(r);
        response_free(NULL);
        close_front(&f);
}

/* One response at a time lies in the request's memory; it does not matter which ends first. */
static void test_first_is_in_the_request(void **state) {
        struct front     f;
        struct response *first, *second, *third;

        (void)state;
        open_front(&f);
        first = new_response(&f);
        second = new_response(&f);
        assert_true(first->is_lent);
        assert_false(second->is_lent);
        assert_ok(request_renew_stream(f.req),
                  "renew"); /* another stream, which has nothing to lend */
        third = new_response(&f);
        assert_false(third->is_lent);
        response_free(third);
        response_free(first);
        response_free(second);
        close_front(&f);

        open_front(&f);
        first = new_response(&f);
        response_free(first);
        assert_ok(request_renew_stream(f.req), "renew");
        second = new_response(&f);
        assert_ptr_equal(second, first);
        assert_true(second->is_lent);
        request_free(STEAL(f.req));
        response_free(second);
        close_front(&f);
}

static void test_send_with_an_error(void **state) {
        struct error *why = error_new(ERR_NOT_FOUND, "not here");
        struct front  f;

        (void)state;
        open_front(&f);
        assert_ok(response_send(new_response(&f), 0, why), "send");
        assert_ptr_not_equal(f.received->error, why); /* a copy */
        error_free(why);
        assert_int_equal(f.flags, 0);
        assert_int_equal(f.received->error->code, ERR_NOT_FOUND);
        assert_string_equal(f.received->error->message, "not here");
        response_free(f.received);

        assert_ok(request_send_flags(f.req, RESPONSE_FINAL), "flags");
        assert_int_equal(f.n_received, 2);
        assert_null(f.received);
        assert_int_equal(f.flags, RESPONSE_FINAL);
        close_front(&f);
}

static void test_outputs(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y, *z, *other;
        char                    name[] = "Z";
        int64_t                 dims[] = { 4, 2, 3 };

        (void)state;
        open_front(&f);
        r = new_response(&f);
        y = add_output(r, "Y", DATA_TYPE_FP32, dims, 3);
        z = add_output(r, name, DATA_TYPE_BYTES, (int64_t[]){ 4, 1 }, 2);
        other = add_output(r, "other", DATA_TYPE_INT8, NULL, 0);
        name[0] = 'X';
        dims[0] = 99;

        /* The configuration's reshape is undone: [2,3] is the client's [6]. */
        assert_true(shape_equal(y->shape, y->n_dims, (int64_t[]){ 4, 6 }, 2));
        assert_true(shape_equal(z->shape, z->n_dims, (int64_t[]){ 4, 1 }, 2));
        assert_int_equal(other->n_dims, 0);
        assert_string_equal(z->name, "Z");
        assert_int_equal(z->type, DATA_TYPE_BYTES);
        assert_ptr_equal(z->response, r);
        assert_int_equal(r->n_outputs, 3);
        assert_ptr_equal(response_output_at(r, 0), y);
        assert_ptr_equal(response_output_at(r, 1), z);
        assert_ptr_equal(response_output_at(r, 2), other);
        assert_null(response_output_at(r, 3));
        assert_ptr_equal(response_find_output(r, "Z"), z);
        assert_null(response_find_output(r, "X"));
        response_free(r);
        assert_int_equal(f.n_releases, 0); /* no memory was asked for */
        close_front(&f);
}

static void test_number_of_dims(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *o = NULL;
        int64_t                 dims[REQUEST_MAX_DIMS + 1] = { 0 };

        (void)state;
        open_front(&f);
        r = new_response(&f);
        for (uint32_t n = 0; n <= REQUEST_MAX_DIMS; n++) {
                dims[n > 0 ? n - 1 : 0] = n;
                o = add_output(r, "any", DATA_TYPE_INT8, dims, n);
                assert_true(shape_equal(o->shape, o->n_dims, dims, n));
        }
        assert_error(response_add_output(r, "any", DATA_TYPE_INT8, dims, REQUEST_MAX_DIMS + 1, &o),
                     ERR_INVALID_ARG, "output 'any' has 65 dimensions, at most 64 are supported");
        response_free(r);
        close_front(&f);
}

/* A reshape may have far more dims for the client than for the backend. */
static void test_reshape_to_many_dims(void **state) {
        char                    config[1024] = "name: 'm' max_batch_size: 8 output { name: 'Y' "
                                               "data_type: TYPE_FP32 dims: [6";
        struct fake_model      *fake;
        struct request         *req;
        struct response        *r;
        struct response_output *o;

        (void)state;
        for (unsigned i = 1; i < 200; i++)
                strcat(config, ",1");
        strcat(config, "] reshape { shape: 6 } }");
        fake = fake_model_new(config);
        req = fake_request(fake);
        assert_ok(response_new(req, &r), "response");
        o = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 8, 6 }, 2);
        assert_int_equal(o->n_dims, 201);
        assert_int_equal(o->shape[0], 8);
        assert_int_equal(o->shape[1], 6);
        assert_int_equal(o->shape[200], 1);
        response_free(r);
        request_free(req);
        fake_model_free(fake);
}

/* ---- memory of outputs ----------------------------------------------------------------------- */

static struct error *ask(struct response_output *o, uint64_t n, void **ret) {
        enum memory_type type = MEMORY_GPU;
        int64_t          id = 2;
        struct error    *err = response_output_buffer(o, n, &type, &id, ret);

        if (err == NULL) {
                assert_int_equal(type, MEMORY_CPU); /* what was given */
                assert_int_equal(id, 5);
        } else {
                assert_int_equal(type, MEMORY_GPU); /* as it was */
                assert_int_equal(id, 2);
        }
        return err;
}

static void test_buffer(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y, *z;
        void                   *memory = NULL;

        (void)state;
        open_front(&f);
        f.allocator.start = start;
        r = new_response(&f);
        assert_int_equal(f.n_starts, 1);
        y = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 2, 3 }, 3);
        z = add_output(r, "Z", DATA_TYPE_BYTES, (int64_t[]){ 1, 0 }, 2);
        assert_ok(ask(y, 24, &memory), "Y");
        assert_string_equal(f.log, "Y 24 GPU 2");
        assert_non_null(memory);
        memset(memory, 1, 24);
        assert_ptr_equal(y->base, memory);
        assert_int_equal(y->byte_size, 24);
        assert_int_equal(y->attributes.byte_size, 24);
        assert_int_equal(y->attributes.memory_type, MEMORY_CPU);
        assert_int_equal(y->attributes.memory_id, 5);

        assert_error(ask(y, 24, &memory), ERR_ALREADY_EXISTS,
                     "allocated buffer for output 'Y' already exists");
        assert_int_equal(f.n_allocs, 1);

        /* No bytes are no memory, but asked for and released all the same. */
        assert_ok(ask(z, 0, &memory), "Z");
        assert_null(memory);
        assert_error(ask(z, 0, &memory), ERR_ALREADY_EXISTS,
                     "allocated buffer for output 'Z' already exists");
        response_free(r);
        assert_int_equal(f.n_allocs, 2);
        assert_int_equal(f.n_releases, 2);
        assert_string_equal(f.log, "2 0 CPU 5"); /* Z, the last */
        close_front(&f);
}

static void test_buffer_attributes(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y;
        enum memory_type        type = MEMORY_CPU;
        int64_t                 id = 0;
        void                   *memory = NULL;

        (void)state;
        open_front(&f);
        f.allocator.attributes = attributes;
        r = new_response(&f);
        y = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 6 }, 2);
        assert_ok(response_output_buffer(y, 24, &type, &id, &memory), "Y");
        assert_int_equal(f.n_attributes, 1);
        assert_int_equal(y->attributes.memory_id, 9);
        response_free(r);
        assert_int_equal(f.n_releases, 1);
        close_front(&f);
}

static void test_alloc_and_attributes_fail(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y;
        enum memory_type        type = MEMORY_CPU;
        int64_t                 id = 0;
        void                   *memory = NULL;

        (void)state;
        open_front(&f);
        r = new_response(&f);
        y = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 6 }, 2);
        f.allocator.attributes = attributes;
        f.fails = true;
        assert_error(response_output_buffer(y, 24, &type, &id, &memory), ERR_UNAVAILABLE,
                     "alloc failed");
        assert_int_equal(f.n_attributes, 0);
        assert_null(memory);

        /* It may be asked again. Then the memory is there and must go back, come what may. */
        f.fails = false;
        f.attributes_fail = true;
        assert_error(response_output_buffer(y, 24, &type, &id, &memory), ERR_INTERNAL,
                     "attributes failed");
        assert_int_equal(f.n_attributes, 1);
        assert_int_equal(f.n_releases, 0);
        response_free(r);
        assert_int_equal(f.n_releases, 1);
        close_front(&f);
}

static void test_start_fails(void **state) {
        struct front     f;
        struct response *r;
        void            *memory = NULL;

        (void)state;
        open_front(&f);
        f.allocator.start = start;
        f.fails = true;
        r = new_response(&f);
        f.fails = false;
        assert_error(ask(add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 6 }, 2), 24, &memory),
                     ERR_UNAVAILABLE, "start failed");
        assert_null(memory);
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_error(error_copy(r->error), ERR_UNAVAILABLE, "start failed");
        response_free(r);

        f.fails = true;
        r = new_response(&f);
        response_free(r);
        close_front(&f);
}

static void test_no_memory_was_given(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y;
        void                   *memory = NULL;

        (void)state;
        open_front(&f);
        f.gives_nothing = true;
        r = new_response(&f);
        y = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 6 }, 2);
        assert_error(ask(y, 24, &memory), ERR_UNAVAILABLE, "no memory was given for output 'Y'");
        r->source.allocator = NULL;
        assert_error(ask(y, 24, &memory), ERR_INTERNAL,
                     "no response allocator is set for output 'Y'");
        response_free(r);
        assert_int_equal(f.n_releases, 0);
        close_front(&f);
}

/* Callbacks that are optional. */
static void test_no_release(void **state) {
        struct front            f;
        struct response        *r;
        struct response_output *y;
        void                   *memory = NULL;

        (void)state;
        open_front(&f);
        f.allocator.release = NULL;
        r = new_response(&f);
        y = add_output(r, "Y", DATA_TYPE_FP32, (int64_t[]){ 1, 6 }, 2);
        assert_ok(ask(y, 24, &memory), "Y");
        response_free(r);
        free(memory);
        close_front(&f);
}

/* ---- parameters, memory ---------------------------------------------------------------------- */

static void test_parameters(void **state) {
        struct front     f;
        struct response *r;
        struct parameter p = { .name = "n", .type = PARAMETER_INT, .integer = 3 };
        struct error    *err = NULL;
        unsigned         n = 0;

        (void)state;
        open_front(&f);
        r = new_response(&f);
        assert_ok(response_add_parameter(r, &p), "n");
        p = (struct parameter){ .name = "s", .type = PARAMETER_STRING, .string = "text" };
        assert_ok(response_add_parameter(r, &p), "s");
        assert_int_equal(r->parameters.n, 2);
        assert_int_equal(parameter_list_at(&r->parameters, 0)->integer, 3);
        assert_string_equal(parameter_list_at(&r->parameters, 1)->string, "text");

        arena_set_max(&r->arena, 50000);
        while (err == NULL && n++ < 10000)
                err = response_add_parameter(r, &p);
        assert_error(err, ERR_UNAVAILABLE, "out of memory for a response");
        response_free(r);
        close_front(&f);
}

static struct error *build(struct front *f, struct response **ret) {
        char                    name[600];
        struct response_output *o;
        struct parameter        p = { .name = name, .type = PARAMETER_STRING, .string = name };

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        TRY(response_new(f->req, ret));
        for (unsigned i = 0; i < 6; i++) {
                TRY(response_add_output(*ret, name, DATA_TYPE_INT8, (int64_t[]){ 1, 2 }, 2, &o));
                TRY(response_add_parameter(*ret, &p));
        }
        return NULL;
}

static void test_short_of_memory(void **state) {
        struct front  f;
        struct error *err;
        char          id[2000];
        unsigned      n = 0;

        (void)state;
        open_front(&f);
        memset(id, 'i', sizeof(id) - 1);
        id[sizeof(id) - 1] = '\0';
        assert_ok(request_set_id(f.req, id), "id");
        do {
                struct response *r = NULL;

                mem_fail_after(++n);
                err = build(&f, &r);
                mem_fail_after(0);
                if (err != NULL)
                        assert_out_of_memory(err);
                else
                        assert_string_equal(r->source.id, id);
                response_free(r);
        } while (err != NULL && n < 100);
        assert_in_range(n, 4, 99);
        close_front(&f);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        (void)req, (void)flags, (void)userp;
}

static void lose_response(struct front *f) {
        struct response *r = NULL;

        mem_fail_after(1);
        assert_out_of_memory(response_new(f->req, &r));
        mem_fail_after(0);
}

/* A backend that had no memory for the answer, and releases the request without one: the client does not wait for
 * ever. */
static void test_lost_answer(void **state) {
        struct front f;

        (void)state;
        open_front(&f);
        f.req->on_release = on_release;
        lose_response(&f);
        assert_int_equal(f.n_received, 0);
        request_release(f.req, REQUEST_RELEASE_ALL);
        assert_int_equal(f.n_received, 1);
        assert_int_equal(f.flags, RESPONSE_FINAL);
        assert_string_equal(f.received->error->message, "a response was lost: out of memory");
        response_free(f.received);
        close_front(&f);
}

/* The backend may still answer, by its factory. */
static void test_lost_answer_with_a_factory(void **state) {
        struct front             f;
        struct response_factory *factory;
        struct response         *r;

        (void)state;
        open_front(&f);
        f.req->on_release = on_release;
        assert_ok(response_factory_new(f.req, &factory), "factory");
        lose_response(&f);
        request_release(f.req, REQUEST_RELEASE_ALL);
        assert_int_equal(f.n_received, 0);
        assert_ok(response_factory_respond(factory, &r), "respond");
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_int_equal(f.n_received, 1);
        response_factory_free(factory);
        response_free(r);
        close_front(&f);
}

SUITE(response) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_outlives_its_request),
                cmocka_unit_test(test_first_is_in_the_request),
                cmocka_unit_test(test_send_with_an_error),
                cmocka_unit_test(test_outputs),
                cmocka_unit_test(test_number_of_dims),
                cmocka_unit_test(test_reshape_to_many_dims),
                cmocka_unit_test(test_buffer),
                cmocka_unit_test(test_buffer_attributes),
                cmocka_unit_test(test_alloc_and_attributes_fail),
                cmocka_unit_test(test_start_fails),
                cmocka_unit_test(test_no_memory_was_given),
                cmocka_unit_test(test_no_release),
                cmocka_unit_test(test_parameters),
                cmocka_unit_test(test_short_of_memory),
                cmocka_unit_test(test_lost_answer),
                cmocka_unit_test(test_lost_answer_with_a_factory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
