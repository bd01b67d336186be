/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "base/mem.h"
#include "cache/serialized_response.h"
#include "infer/fake_model.h"
#include "infer/request_prepare.h"

static const char config[] = "backend: 'b' "
                             "input { name: 'A' data_type: TYPE_UINT8 dims: [ -1 ] } "
                             "output { name: 'X' data_type: TYPE_INT32 dims: [ 2, 1 ] } "
                             "output { name: 'Y' data_type: TYPE_STRING dims: [ -1 ] }";

/* The signature of allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *a, const char *tensor, size_t byte_size,
                              enum memory_type type, int64_t id, void *userp, void **buffer,
                              void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        (void)a, (void)tensor, (void)type, (void)id, (void)userp;
        *buffer = malloc(byte_size + 1);
        *buffer_userp = NULL;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct error *give_back(struct response_allocator *a, void *buffer, void *buffer_userp,
                               size_t byte_size, enum memory_type type, int64_t id) {
        (void)a, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

static const struct response_allocator allocator = { .alloc = allocate, .release = give_back };

static struct request *ask(struct fake_model *f, const char *output) {
        struct request *req = fake_request(f);

        req->allocator = &allocator;
        add_input(req, "A", DATA_TYPE_UINT8, 4);
        if (output != NULL)
                assert_ok(request_add_output(req, output), output);
        assert_ok(request_prepare(req), "prepare");
        return req;
}

static void add_output(struct response *r, const char *name, enum data_type type, int64_t dim,
                       const char *bytes, size_t n) {
        const int64_t           dims[] = { dim, 1 };
        struct response_output *o;
        enum memory_type        kind = MEMORY_CPU;
        int64_t                 id = 0;
        void                   *base;

        assert_ok(response_add_output(r, name, type, dims, type == DATA_TYPE_BYTES ? 1 : 2, &o),
                  name);
        assert_ok(response_output_buffer(o, n, &kind, &id, &base), name);
        memcpy(base, bytes, n);
}

/* Parameters of each kind and two outputs; the bytes it takes are the caller's. */
static char *keep(struct request *req, size_t *ret) {
        struct response *r;
        char            *bytes;

        assert_ok(response_new(req, &r), "response");
        assert_ok(response_add_parameter(r, &(struct parameter){ .name = "s", .string = "text" }),
                  "s");
        assert_ok(response_add_parameter(r, &(struct parameter){ .name = "i",
                                                                 .type = PARAMETER_INT,
                                                                 .integer = -5 }),
                  "i");
        assert_ok(response_add_parameter(r, &(struct parameter){ .name = "b",
                                                                 .type = PARAMETER_BOOL,
                                                                 .boolean = true }),
                  "b");
        assert_ok(response_add_parameter(r, &(struct parameter){ .name = "d",
                                                                 .type = PARAMETER_DOUBLE,
                                                                 .real = 0.5 }),
                  "d");
        add_output(r, "X", DATA_TYPE_INT32, 2, "\1\2\3\4\5\6\7\10", 8);
        add_output(r, "Y", DATA_TYPE_BYTES, 1, "\1\0\0\0z", 5);
        assert_true(serialized_response_measure(r, ret));
        bytes = mem_alloc(*ret);
        assert_ok(serialized_response_write(r, bytes), "write");
        response_free(r);
        return bytes;
}

static void assert_is_all(const struct response *r) {
        const struct response_output *x = response_find_output(r, "X");
        const struct response_output *y = response_find_output(r, "Y");

        assert_int_equal(r->n_outputs, 2);
        assert_int_equal(x->type, DATA_TYPE_INT32);
        assert_int_equal(x->n_dims, 2);
        assert_int_equal(x->shape[0], 2);
        assert_int_equal(x->shape[1], 1);
        assert_int_equal(x->byte_size, 8);
        assert_memory_equal(x->base, "\1\2\3\4\5\6\7\10", 8);
        assert_int_equal(y->type, DATA_TYPE_BYTES);
        assert_int_equal(y->byte_size, 5);
        assert_memory_equal(y->base, "\1\0\0\0z", 5);
        assert_int_equal(r->parameters.n, 4);
        assert_string_equal(parameter_list_find(&r->parameters, "s")->string, "text");
        assert_int_equal(parameter_list_find(&r->parameters, "i")->integer, -5);
        assert_true(parameter_list_find(&r->parameters, "b")->boolean);
        assert_true(parameter_list_find(&r->parameters, "d")->real == 0.5);
}

static void test_round_trip(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL), *some = ask(f, "Y");
        size_t             n_bytes;
        char              *bytes = keep(req, &n_bytes), *shifted = mem_alloc(n_bytes + 1);
        struct response   *r;

        (void)state;
        assert_ok(serialized_response_read(bytes, n_bytes, req, &r), "read");
        assert_is_all(r);
        response_free(r);
        /* A cache may keep them anywhere. */
        memcpy(shifted + 1, bytes, n_bytes);
        assert_ok(serialized_response_read(shifted + 1, n_bytes, req, &r), "read");
        assert_is_all(r);
        response_free(r);
        assert_ok(serialized_response_read(bytes, n_bytes, some, &r), "read");
        assert_int_equal(r->n_outputs, 1);
        assert_string_equal(r->first_output->name, "Y");
        response_free(r);
        free(shifted);
        free(bytes);
        request_free(some);
        request_free(req);
        fake_model_free(f);
}

/* A backend may answer with outputs that the configuration does not know. */
static void test_unknown_output(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL);
        size_t             n_bytes;
        struct response   *r;
        char              *bytes;

        (void)state;
        assert_ok(response_new(req, &r), "response");
        add_output(r, "more", DATA_TYPE_INT32, 1, "\1\2\3\4", 4);
        add_output(r, "X", DATA_TYPE_INT32, 2, "\1\2\3\4\5\6\7\10", 8);
        assert_true(serialized_response_measure(r, &n_bytes));
        bytes = mem_alloc(n_bytes);
        assert_ok(serialized_response_write(r, bytes), "write");
        response_free(r);
        assert_ok(serialized_response_read(bytes, n_bytes, req, &r), "read");
        free(bytes); /* the response has what it needs */
        assert_int_equal(r->n_outputs, 2);
        assert_string_equal(r->first_output->name, "more");
        assert_memory_equal(r->first_output->base, "\1\2\3\4", 4);
        assert_string_equal(r->last_output->name, "X");
        response_free(r);
        request_free(req);
        fake_model_free(f);
}

/* Cut anywhere, or with any byte changed: refused, or a response. In memory of exactly that size,
 * so that a sanitizer sees what reads beyond. */
static void test_damage(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL);
        size_t             n_bytes;
        char              *bytes = keep(req, &n_bytes);

        (void)state;
        for (size_t n = 0; n < n_bytes; n++) {
                char            *cut = mem_alloc(n);
                struct response *r = NULL;
                AUTO_ERROR       err = NULL;

                memcpy(cut, bytes, n);
                err = serialized_response_read(cut, n, req, &r);
                /* The last bytes only fill up to a multiple of 8. */
                if (err == NULL && n < n_bytes - 7)
                        fail_msg("%zu bytes of %zu are enough", n, n_bytes);
                response_free(r);
                free(cut);
        }
        for (size_t n = 0; n < n_bytes; n++)
                for (int bit = 0; bit < 8; bit++) {
                        struct response *r = NULL;
                        struct error    *err;

                        bytes[n] = (char)(bytes[n] ^ 1 << bit);
                        err = serialized_response_read(bytes, n_bytes, req, &r);
                        error_free(err);
                        response_free(r);
                        bytes[n] = (char)(bytes[n] ^ 1 << bit);
                }
        free(bytes);
        request_free(req);
        fake_model_free(f);
}

struct changed_output {
        enum data_type type;
        int64_t        dim;
        const char    *bytes;
        size_t         n_bytes;
        bool           is_right;
};

/* An output with another type, dimension and bytes, is read and kept only when
 * these belong together. */
static void check_changed(struct request *req, const struct changed_output *c) {
        struct response *r, *kept = NULL;
        size_t           n_bytes;
        char            *bytes;
        AUTO_ERROR       err = NULL;

        assert_ok(response_new(req, &r), "response");
        add_output(r, "X", DATA_TYPE_INT8, (int64_t)c->n_bytes, c->bytes, c->n_bytes);
        assert_true(serialized_response_measure(r, &n_bytes));
        bytes = mem_alloc(n_bytes);
        assert_ok(serialized_response_write(r, bytes), "write");
        /* Behind the head of the response: the type of the output, and its first dimension. */
        memcpy(bytes + 16, &(uint32_t){ c->type }, 4);
        memcpy(bytes + 40, &c->dim, 8);
        err = serialized_response_read(bytes, n_bytes, req, &kept);
        assert_int_equal(err == NULL, c->is_right);
        response_free(kept);
        r->first_output->type = c->type;
        ((int64_t *)r->first_output->shape)[0] = c->dim;
        assert_int_equal(serialized_response_measure(r, &n_bytes), c->is_right);
        response_free(r);
        free(bytes);
}

/* What another program has kept, or a disk has damaged. */
static void test_bytes_of_another_shape(void **state) {
        static const char                  bytes[12] = "\2\0\0\0ab\1\0\0\0c";
        static const struct changed_output outputs[] = {
                { DATA_TYPE_INT32, 2, bytes, 8, true },
                { DATA_TYPE_INT32, 3, bytes, 8, false },
                { DATA_TYPE_INT32, 1, bytes, 8, false },
                { DATA_TYPE_INT32, -1, bytes, 8, false },
                { DATA_TYPE_INT32, INT64_MAX, bytes, 8, false },
                { DATA_TYPE_INT32, 0, bytes, 0, true },
                { DATA_TYPE_INT64, 2, bytes, 8, false },
                { DATA_TYPE_BYTES, 2, bytes, 11, true },
                { DATA_TYPE_BYTES, 1, bytes, 11, false }, /* something follows */
                { DATA_TYPE_BYTES, 3, bytes, 11, false }, /* one is missing */
                { DATA_TYPE_BYTES, 2, bytes, 10, false }, /* a length is beyond the end */
                { DATA_TYPE_BYTES, 2, bytes, 9, false },  /* half a length */
                { DATA_TYPE_BYTES, 0, bytes, 0, true },
                { DATA_TYPE_BYTES, -2, bytes, 11, false },
        };
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL);

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(outputs); i++)
                check_changed(req, &outputs[i]);
        request_free(req);
        fake_model_free(f);
}

static void test_without_memory(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL);
        size_t             n_bytes;
        char              *bytes = keep(req, &n_bytes);
        struct response   *r = NULL;
        unsigned           n = 0;
        bool               was_hit = true;

        (void)state;
        while (was_hit) {
                struct error *err;

                mem_fail_after(++n);
                err = serialized_response_read(bytes, n_bytes, req, &r);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err != NULL, was_hit);
                error_free(err);
        }
        assert_true(n > 1);
        assert_is_all(r);
        response_free(r);
        free(bytes);
        request_free(req);
        fake_model_free(f);
}

static void test_what_is_not_kept(void **state) {
        struct fake_model *f = fake_model_new(config);
        struct request    *req = ask(f, NULL);
        struct response   *r;
        size_t             n_bytes;

        (void)state;
        assert_ok(response_new(req, &r), "response");
        assert_true(serialized_response_measure(r, &n_bytes));
        r->error = error_new(ERR_INTERNAL, "failed");
        assert_false(serialized_response_measure(r, &n_bytes));
        error_free(STEAL(r->error));
        add_output(r, "X", DATA_TYPE_INT32, 2, "\1\2\3\4\5\6\7\10", 8);
        assert_true(serialized_response_measure(r, &n_bytes));
        r->first_output->attributes.memory_type = MEMORY_GPU;
        assert_false(serialized_response_measure(r, &n_bytes));
        r->first_output->attributes.memory_type = MEMORY_CPU;
        void *base = STEAL(r->first_output->base); /* the client gave no memory */

        assert_false(serialized_response_measure(r, &n_bytes));
        r->first_output->base = base;
        assert_true(serialized_response_measure(r, &n_bytes));
        add_output(r, "Y", DATA_TYPE_BYTES, 1, "", 0); /* one text has at least its length */
        base = STEAL(r->first_output->next->base);
        assert_false(serialized_response_measure(r, &n_bytes));
        ((int64_t *)r->first_output->next->shape)[0] = 0;
        assert_true(serialized_response_measure(r, &n_bytes));
        r->first_output->next->base = base;
        assert_ok(response_add_parameter(r, &(struct parameter){ .name = "p",
                                                                 .type = PARAMETER_BYTES,
                                                                 .bytes = "x",
                                                                 .n_bytes = 1 }),
                  "p");
        assert_false(serialized_response_measure(r, &n_bytes));
        response_free(r);
        request_free(req);
        fake_model_free(f);
}

/* ---- outputs on a device --------------------------------------------------------------------- */

/* Memory that the server has taken from a device for an output. */
static void move_to_device(struct gpus *gpus, struct response_output *o, int device) {
        void *memory;

        assert_ok(gpu_alloc(gpus, device, o->byte_size, &memory), "memory");
        put_bytes(gpus, device, memory, o->base, o->byte_size);
        free(o->base);
        o->base = memory;
        o->attributes.memory_type = MEMORY_GPU;
        o->attributes.memory_id = device;
}

/* What allocator.release would be asked to free. */
static void forget(struct gpus *gpus, struct response_output *o) {
        gpu_free(gpus, (int)o->attributes.memory_id, o->base);
        o->base = NULL;
}

/* They are copied to the host, and the kept response is one on the host. */
static void test_outputs_on_devices(void **state) {
        struct gpus_options options = fake_gpus_options();
        struct fake_gpus    gpus;
        struct fake_model  *f = fake_model_new(config);
        struct request     *req = ask(f, NULL);
        struct response    *r, *kept = NULL;
        size_t              n_bytes;
        char               *bytes;

        (void)state;
        fake_gpus_open(&gpus, &options);
        f->model.gpus = gpus.gpus;
        assert_ok(response_new(req, &r), "response");
        add_output(r, "X", DATA_TYPE_INT32, 2, "\1\2\3\4\5\6\7\10", 8);
        add_output(r, "Y", DATA_TYPE_BYTES, 1, "\1\0\0\0z", 5);
        move_to_device(gpus.gpus, r->first_output, 1);
        move_to_device(gpus.gpus, r->first_output->next, 0);
        assert_true(serialized_response_measure(r, &n_bytes));
        bytes = mem_alloc(n_bytes);
        gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:2:700");
        assert_gpu_error(serialized_response_write(r, bytes), ERR_UNAVAILABLE, "GPU 0");
        gpus.fake_cuda_set("FAIL", NULL);
        assert_ok(serialized_response_write(r, bytes), "write");
        ((int64_t *)r->first_output->next->shape)[0] = 2;
        assert_gpu_error(serialized_response_write(r, bytes), ERR_INTERNAL,
                         "the bytes of output 'Y' are no tensor of its shape");
        ((int64_t *)r->first_output->next->shape)[0] = 1;
        assert_ok(serialized_response_write(r, bytes), "write");
        assert_ok(serialized_response_read(bytes, n_bytes, req, &kept), "read");
        assert_int_equal(kept->n_outputs, 2);
        assert_int_equal(kept->first_output->attributes.memory_type, MEMORY_CPU);
        assert_memory_equal(kept->first_output->base, "\1\2\3\4\5\6\7\10", 8);
        assert_int_equal(kept->first_output->next->attributes.memory_type, MEMORY_CPU);
        assert_memory_equal(kept->first_output->next->base, "\1\0\0\0z", 5);
        forget(gpus.gpus, r->first_output);
        forget(gpus.gpus, r->first_output->next);
        response_free(kept);
        response_free(r);
        free(bytes);
        request_free(req);
        fake_model_free(f);
        fake_gpus_close(&gpus);
}

SUITE(serialized_response) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_unknown_output),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_without_memory),
                cmocka_unit_test(test_what_is_not_kept),
                cmocka_unit_test(test_outputs_on_devices),
                cmocka_unit_test(test_bytes_of_another_shape),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
