/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs on devices: which of them the check of a request copies to the host, what a copy before the execution
 * makes of the others, and that the request is afterwards as the front end gave it. The devices are those of
 * the stand-in (tests/gpu), whose memory the CPU cannot read. */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "base/mem.h"
#include "infer/buffer_copy.h"
#include "infer/fake_model.h"
#include "infer/host_inputs.h"
#include "infer/model_submit.h"
#include "infer/request_prepare.h"
#include "infer/request_split.h"

#define MODEL                                                                                      \
        "name: 'm' max_batch_size: 4 "                                                             \
        "input { name: 'X' data_type: TYPE_INT32 dims: -1 } "                                      \
        "input { name: 'T' data_type: TYPE_STRING dims: 1 optional: true } "                       \
        "input { name: 'S' data_type: TYPE_INT32 dims: 2 is_shape_tensor: true optional: true } "  \
        "output { name: 'Y' data_type: TYPE_INT32 dims: -1 } "

static const int32_t numbers[] = { 1, -2, 3, -4, 5, -6 };
static const char    texts[] = "\2\0\0\0ab\1\0\0\0c"; /* two elements, 11 bytes */
#define TEXT_BYTES (sizeof(texts) - 1)

struct fixture {
        struct fake_gpus   gpus;
        struct fake_model *fake;
        struct request    *req;
        unsigned           n_releases;
        const void        *base_at_release; /* of the first input */
};

static void open_with(struct fixture *f, const char *model, size_t pinned_bytes) {
        struct gpus_options options = fake_gpus_options();

        memset(f, 0, sizeof(*f));
        options.pinned_pool_bytes = pinned_bytes;
        fake_gpus_open(&f->gpus, &options);
        f->fake = fake_model_new(model);
        f->fake->model.gpus = f->gpus.gpus;
        f->req = fake_request(f->fake);
}

static void open_fixture(struct fixture *f) {
        open_with(f, MODEL, 1 << 20);
}

static void close_fixture(struct fixture *f) {
        host_inputs_return(f->req);
        request_free(f->req);
        assert_int_equal(gpu_pool_usage(f->gpus.gpus, GPU_HOST).used_bytes, 0);
        fake_model_free(f->fake);
        fake_gpus_close(&f->gpus);
}

/* Memory of the device with these bytes. */
static void *on_device(struct fixture *f, int device, const void *bytes, size_t n) {
        void *memory;

        assert_ok(gpu_alloc(f->gpus.gpus, device, n, &memory), "memory");
        put_bytes(f->gpus.gpus, device, memory, bytes, n);
        return memory;
}

static void append_on(struct request *req, const char *input, const void *memory, int device,
                      size_t n, const char *policy) {
        static char              handle[64];
        struct buffer_attributes a = { MEMORY_GPU, device, n, handle };

        assert_ok(request_append_bytes(req, input, memory, &a, policy), input);
}

static void assert_on_host(const struct input_chunk *c, const void *bytes, size_t n,
                           enum memory_type type) {
        assert_int_equal(c->attributes.memory_type, type);
        assert_int_equal(c->attributes.memory_id, 0);
        assert_int_equal(c->attributes.byte_size, n);
        assert_null(c->attributes.cuda_ipc_handle);
        assert_memory_equal(c->base, bytes, n);
}

static void assert_on_device(const struct input_chunk *c, const void *memory, int device,
                             size_t n) {
        assert_ptr_equal(c->base, memory);
        assert_int_equal(c->attributes.memory_type, MEMORY_GPU);
        assert_int_equal(c->attributes.memory_id, device);
        assert_int_equal(c->attributes.byte_size, n);
        assert_non_null(c->attributes.cuda_ipc_handle);
}

/* Chunks on two devices and on the host, one for a host policy: each in its place, one transfer each. */
static void test_all_inputs(void **state) {
        struct fixture            f;
        void                     *first, *second, *third;
        const struct input_chunk *c;
        struct gpu_traffic        before;

        (void)state;
        open_fixture(&f);
        first = on_device(&f, 0, numbers, 4);
        second = on_device(&f, 1, numbers + 2, 16);
        third = on_device(&f, 1, numbers + 5, 4);
        assert_ok(request_add_input(f.req, "X", DATA_TYPE_INT32, (int64_t[]){ 1, 6 }, 2), "X");
        assert_false(f.req->has_device_inputs);
        append_on(f.req, "X", first, 0, 4, NULL);
        append_bytes(f.req, "X", numbers + 1, 4);
        append_on(f.req, "X", second, 1, 16, NULL);
        append_on(f.req, "X", third, 1, 4, "mine");
        assert_true(f.req->has_device_inputs);
        assert_ok(request_prepare(f.req), "prepare");
        assert_false(f.req->has_host_copies); /* nothing of it is read by the check */

        before = gpus_traffic(f.gpus.gpus);
        assert_ok(host_inputs_copy(f.req, 77), "copy");
        assert_int_equal(gpus_traffic(f.gpus.gpus).to_host - before.to_host, 24);
        assert_false(f.req->has_device_inputs);
        assert_int_equal(host_inputs_start(f.req), 77);
        c = f.req->first_input->first_chunk;
        assert_on_host(c, numbers, 4, MEMORY_CPU_PINNED);
        assert_int_equal((uintptr_t)c->base % 64, 0);
        assert_ptr_equal(c->next->base, numbers + 1);
        assert_int_equal(c->next->attributes.memory_type, MEMORY_CPU);
        assert_on_host(c->next->next, numbers + 2, 16, MEMORY_CPU_PINNED);
        assert_int_equal((uintptr_t)c->next->next->base % 64, 0);
        assert_on_host(c->next->next->next, numbers + 5, 4, MEMORY_CPU_PINNED);
        assert_string_equal(c->next->next->next->host_policy, "mine");

        /* An execution that was repeated copies nothing again. */
        assert_ok(host_inputs_copy(f.req, 88), "copy");
        assert_int_equal(gpus_traffic(f.gpus.gpus).to_host - before.to_host, 24);
        assert_int_equal(host_inputs_start(f.req), 77);

        host_inputs_return(f.req);
        assert_on_device(c, first, 0, 4);
        assert_ptr_equal(c->next->base, numbers + 1);
        assert_on_device(c->next->next, second, 1, 16);
        assert_on_device(c->next->next->next, third, 1, 4);
        assert_true(f.req->has_device_inputs);
        assert_int_equal(host_inputs_start(f.req), 0);
        host_inputs_return(f.req); /* nothing more to do */
        request_remove_all_inputs(f.req);
        assert_false(f.req->has_device_inputs);
        gpu_free(f.gpus.gpus, 0, first);
        gpu_free(f.gpus.gpus, 1, second);
        gpu_free(f.gpus.gpus, 1, third);
        close_fixture(&f);
}

/* A pool that is too small: memory of the host all the same, and its attributes say which. */
static void test_without_pinned_memory(void **state) {
        struct fixture f;
        void          *x;

        (void)state;
        open_with(&f, MODEL, 0);
        x = on_device(&f, 0, numbers, 24);
        assert_ok(request_add_input(f.req, "X", DATA_TYPE_INT32, (int64_t[]){ 1, 6 }, 2), "X");
        append_on(f.req, "X", x, 0, 24, NULL);
        assert_ok(request_prepare(f.req), "prepare");
        assert_ok(host_inputs_copy(f.req, 1), "copy");
        assert_on_host(f.req->first_input->first_chunk, numbers, 24, MEMORY_CPU);
        gpu_free(f.gpus.gpus, 0, x);
        close_fixture(&f);
}

/* The check reads the elements of BYTES and of shape tensors; the other input stays. */
static void test_what_the_check_reads(void **state) {
        static const int32_t shape[] = { 7, 8 };
        struct fixture       f;
        void                *x, *t, *s;

        (void)state;
        open_fixture(&f);
        x = on_device(&f, 0, numbers, 24);
        t = on_device(&f, 1, texts, TEXT_BYTES);
        s = on_device(&f, 0, shape, sizeof(shape));
        assert_ok(request_add_input(f.req, "X", DATA_TYPE_INT32, (int64_t[]){ 2, 3 }, 2), "X");
        assert_ok(request_add_input(f.req, "T", DATA_TYPE_BYTES, (int64_t[]){ 2, 1 }, 2), "T");
        assert_ok(request_add_input(f.req, "S", DATA_TYPE_INT32, (int64_t[]){ 2 }, 1), "S");
        append_on(f.req, "X", x, 0, 24, NULL);
        append_on(f.req, "T", t, 1, TEXT_BYTES, NULL);
        append_on(f.req, "S", s, 0, sizeof(shape), NULL);
        for (int i = 0; i < 2; i++) { /* and again for another load of the model */
                assert_ok(request_prepare(f.req), "prepare");
                assert_on_device(request_find_input(f.req, "X")->first_chunk, x, 0, 24);
                assert_on_host(request_find_input(f.req, "T")->first_chunk, texts, TEXT_BYTES,
                               MEMORY_CPU_PINNED);
                assert_on_host(request_find_input(f.req, "S")->first_chunk, shape, sizeof(shape),
                               MEMORY_CPU_PINNED);
                assert_int_equal(host_inputs_start(f.req), 0); /* not of an execution */
        }
        assert_ok(host_inputs_copy(f.req, 5), "copy");
        assert_on_host(request_find_input(f.req, "X")->first_chunk, numbers, 24, MEMORY_CPU_PINNED);
        assert_int_equal(host_inputs_start(f.req), 5);
        host_inputs_return(f.req);
        assert_on_device(request_find_input(f.req, "X")->first_chunk, x, 0, 24);
        assert_on_device(request_find_input(f.req, "T")->first_chunk, t, 1, TEXT_BYTES);
        assert_on_device(request_find_input(f.req, "S")->first_chunk, s, 0, sizeof(shape));

        put_bytes(f.gpus.gpus, 1, t, "\377", 1);
        assert_error(
                request_prepare(f.req), ERR_INVALID_ARG,
                "[request id: <id_unknown>] expected 2 string elements for inference input 'T' "
                "for model 'm', got 1");
        host_inputs_return(f.req); /* as its caller does, which has it again */
        assert_on_device(request_find_input(f.req, "T")->first_chunk, t, 1, TEXT_BYTES);
        assert_int_equal(gpu_pool_usage(f.gpus.gpus, GPU_HOST).used_bytes, 0);
        gpu_free(f.gpus.gpus, 0, x);
        gpu_free(f.gpus.gpus, 1, t);
        gpu_free(f.gpus.gpus, 0, s);
        close_fixture(&f);
}

/* A raw text on a device: its length is in a chunk of its own. */
static void test_raw_text(void **state) {
        struct fixture            f;
        const struct input_chunk *c;
        void                     *t;

        (void)state;
        open_with(&f, "name: 'm' input { name: 'T' data_type: TYPE_STRING dims: 1 }", 1 << 20);
        t = on_device(&f, 0, "hello", 5);
        assert_ok(request_add_raw_input(f.req, "raw"), "raw");
        append_on(f.req, "raw", t, 0, 5, NULL);
        assert_ok(request_prepare(f.req), "prepare");
        c = f.req->first_input->first_chunk;
        assert_memory_equal(c->base, "\5\0\0\0", 4);
        assert_on_host(c->next, "hello", 5, MEMORY_CPU_PINNED);
        gpu_free(f.gpus.gpus, 0, t);
        close_fixture(&f);
}

static void test_failures(void **state) {
        struct fixture            f;
        const struct input_chunk *c;
        void                     *x, *t;
        unsigned                  n = 0;

        (void)state;
        open_fixture(&f);
        x = on_device(&f, 0, numbers, 24);
        t = on_device(&f, 0, texts, TEXT_BYTES);
        assert_ok(request_set_id(f.req, "id 1"), "id");
        assert_ok(request_add_input(f.req, "X", DATA_TYPE_INT32, (int64_t[]){ 2, 3 }, 2), "X");
        assert_ok(request_add_input(f.req, "T", DATA_TYPE_BYTES, (int64_t[]){ 2, 1 }, 2), "T");
        append_on(f.req, "X", x, 0, 24, NULL);
        append_on(f.req, "T", t, 0, TEXT_BYTES, NULL);
        c = request_find_input(f.req, "T")->first_chunk;

        f.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1:700");
        assert_gpu_error(request_prepare(f.req), ERR_UNAVAILABLE,
                         "[request id: id 1] an input cannot be copied from a device: ");
        assert_on_device(c, t, 0, TEXT_BYTES);
        f.gpus.fake_cuda_set("FAIL", NULL);
        assert_ok(request_prepare(f.req), "prepare");
        assert_on_host(c, texts, TEXT_BYTES, MEMORY_CPU_PINNED);
        f.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1:700");
        assert_gpu_error(host_inputs_copy(f.req, 1), ERR_UNAVAILABLE,
                         "[request id: id 1] an input cannot be copied from a device: ");
        f.gpus.fake_cuda_set("FAIL", NULL);
        assert_on_host(c, texts, TEXT_BYTES, MEMORY_CPU_PINNED); /* as before the call */
        assert_on_device(f.req->first_input->first_chunk, x, 0, 24);
        assert_true(f.req->has_device_inputs);

        for (bool was_hit = true; was_hit;) {
                struct error *err;

                mem_fail_after(++n);
                err = host_inputs_copy(f.req, 1);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err != NULL, was_hit);
                assert_int_equal(f.req->has_device_inputs, was_hit);
                error_free(err);
        }
        assert_true(n > 1);
        gpu_free(f.gpus.gpus, 0, x);
        gpu_free(f.gpus.gpus, 0, t);
        close_fixture(&f);
}

/* ---- the end of the use ---------------------------------------------------------------------- */

/* Accepts each request, or none. */
struct keeper {
        struct scheduler base;
        bool             refuses;
};

static struct error *submit(struct scheduler *s, struct request *req) {
        if (CONTAINER_OF(s, struct keeper, base)->refuses)
                return error_new(ERR_UNAVAILABLE, "the queue is full");
        atomic_store(&req->state, REQUEST_EXECUTING);
        return NULL;
}

static void submit_all(struct scheduler *s, struct request *const *requests, uint32_t n,
                       struct error **ret) {
        for (uint32_t i = 0; i < n; i++)
                ret[i] = submit(s, requests[i]);
}

static void on_release(struct request *req, uint32_t flags, void *userp) {
        struct fixture *f = userp;

        (void)flags;
        f->n_releases++;
        f->base_at_release = req->first_input->first_chunk->base;
}

static void drop_response(struct response *r, uint32_t flags, void *userp) {
        (void)flags;
        (void)userp;
        response_free(r);
}

static void test_return(void **state) {
        static const struct scheduler_ops ops = { .submit = submit, .submit_all = submit_all };
        struct keeper                     keeper = { .base = { .ops = &ops } };
        struct fixture                    f;
        struct request                   *both[2];
        struct error                     *errors[2];
        const struct input_chunk         *c;
        void                             *t;

        (void)state;
        open_with(&f,
                  "name: 'm' max_batch_size: 4 input { name: 'T' data_type: TYPE_STRING dims: 1 }",
                  1 << 20);
        t = on_device(&f, 0, texts, TEXT_BYTES);
        f.fake->model.scheduler = &keeper.base;
        assert_ok(request_add_input(f.req, "T", DATA_TYPE_BYTES, (int64_t[]){ 2, 1 }, 2), "T");
        append_on(f.req, "T", t, 0, TEXT_BYTES, NULL);
        f.req->on_release = on_release;
        f.req->on_release_userp = &f;
        c = f.req->first_input->first_chunk;

        keeper.refuses = true;
        assert_error(model_submit(f.req), ERR_UNAVAILABLE, "the queue is full");
        assert_on_device(c, t, 0, TEXT_BYTES);
        both[0] = f.req;
        both[1] = fake_request(f.fake); /* without its input */
        model_submit_all(both, 2, errors);
        assert_error(errors[0], ERR_UNAVAILABLE, "the queue is full");
        assert_on_device(c, t, 0, TEXT_BYTES);
        assert_non_null(errors[1]);
        error_free(errors[1]);
        request_free(both[1]);

        keeper.refuses = false;
        for (unsigned i = 1; i <= 2; i++) { /* the front end uses the request again */
                assert_ok(model_submit(f.req), "submit");
                assert_on_host(c, texts, TEXT_BYTES, MEMORY_CPU_PINNED);
                request_release(f.req, REQUEST_RELEASE_ALL);
                assert_int_equal(f.n_releases, i);
                assert_ptr_equal(f.base_at_release, t);
                assert_on_device(c, t, 0, TEXT_BYTES);
        }
        f.fake->model.scheduler = NULL;
        gpu_free(f.gpus.gpus, 0, t);
        close_fixture(&f);
}

/* ---- a request that runs in parts ------------------------------------------------------------ */

/* A part's inputs are ranges of the whole: of texts on the host, of numbers on the device. */
static void test_parts(void **state) {
        struct fixture     f;
        struct split_part *parts[2];
        void              *x, *t;

        (void)state;
        open_fixture(&f);
        x = on_device(&f, 1, numbers, 24);
        t = on_device(&f, 0, texts, TEXT_BYTES);
        assert_ok(request_add_input(f.req, "X", DATA_TYPE_INT32, (int64_t[]){ 2, 3 }, 2), "X");
        assert_ok(request_add_input(f.req, "T", DATA_TYPE_BYTES, (int64_t[]){ 2, 1 }, 2), "T");
        append_on(f.req, "X", x, 1, 24, NULL);
        append_on(f.req, "T", t, 0, TEXT_BYTES, NULL);
        f.req->on_release = on_release;
        f.req->on_release_userp = &f;
        f.req->on_response = drop_response;
        assert_ok(request_prepare(f.req), "prepare");
        atomic_store(&f.req->state, REQUEST_EXECUTING);
        f.fake->model.n_in_flight++;
        request_split_begin(f.req);
        for (int i = 0; i < 2; i++)
                parts[i] = request_split_take(f.req, 1);
        for (int i = 0; i < 2; i++) {
                struct request *part = split_part_make(parts[i]);
                AUTO_ERROR      why = error_new(ERR_INTERNAL, "enough");

                assert_non_null(part);
                assert_true(part->has_device_inputs);
                assert_on_device(request_find_input(part, "X")->first_chunk, (char *)x + 12 * i, 1,
                                 12);
                assert_ok(host_inputs_copy(part, 1), "copy");
                assert_on_host(request_find_input(part, "X")->first_chunk, numbers + 3 * i, 12,
                               MEMORY_CPU_PINNED);
                assert_on_host(request_find_input(part, "T")->first_chunk, texts + (i > 0 ? 6 : 0),
                               i > 0 ? 5 : 6, MEMORY_CPU_PINNED);
                request_refuse(part, why, FAILURE_BACKEND);
        }
        assert_int_equal(f.n_releases, 1);
        assert_on_device(request_find_input(f.req, "T")->first_chunk, t, 0, TEXT_BYTES);
        gpu_free(f.gpus.gpus, 1, x);
        gpu_free(f.gpus.gpus, 0, t);
        close_fixture(&f);
}

/* An allocator's answer may have any id. The memory is not read by the CPU, and not as another device's. */
static void test_ids_of_no_device(void **state) {
        const int64_t  ids[] = { -1, -2, INT64_MIN, INT64_MAX, (int64_t)1 << 32, UINT32_MAX };
        struct fixture f;
        void          *memory;
        int32_t        copy[6];

        (void)state;
        open_fixture(&f);
        memory = on_device(&f, 0, numbers, sizeof(numbers));
        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
                const struct buffer_attributes a = { MEMORY_GPU, ids[i], sizeof(numbers), NULL };
                struct error *err = buffer_read(f.gpus.gpus, &a, memory, copy, sizeof(numbers));

                assert_gpu_error(err, ERR_INVALID_ARG, "is unknown: the GPUs are 0,1");
        }
        gpu_free(f.gpus.gpus, 0, memory);
        close_fixture(&f);
}

SUITE(host_inputs) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_inputs),
                cmocka_unit_test(test_without_pinned_memory),
                cmocka_unit_test(test_what_the_check_reads),
                cmocka_unit_test(test_raw_text),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_return),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_ids_of_no_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
