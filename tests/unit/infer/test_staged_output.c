/* SPDX-License-Identifier: BSD-3-Clause */
/* Outputs whose allocator answers with memory of a device: what a backend that writes on the CPU gets, and what
 * the client does. The devices are those of the stand-in (tests/gpu), whose memory the CPU cannot write. */
#include "suite.h"

#include "../gpu/fake_gpus.h"
#include "base/mem.h"
#include "infer/fake_model.h"
#include "infer/trace.h"

#include <stdio.h>

#define MODEL                                                                                      \
        "name: 'm' output { name: 'Y' data_type: TYPE_INT32 dims: -1 } "                           \
        "output { name: 'Z' data_type: TYPE_INT32 dims: -1 } "
#define MAX_OUTPUTS 12

static const int32_t numbers[] = { 3, 1, 4, 1, 5, 9 };

/* A client that wants its outputs on devices. */
struct client {
        struct fake_gpus          gpus;
        struct fake_model        *fake;
        struct request           *req;
        struct response_allocator allocator;
        enum memory_type          gives;
        int64_t                   device; /* for all outputs; -1: 0 and 1 in turn */
        bool                      gives_nothing;
        unsigned                  n_allocs, n_releases;
        enum memory_type          asked_type;
        int64_t                   asked_id;
        void                     *memory[MAX_OUTPUTS];
        int                       devices[MAX_OUTPUTS];
        struct response          *received;
};

static struct client *client;

static struct error *alloc(struct response_allocator *allocator, const char *tensor, size_t n,
                           enum memory_type type, int64_t id, void *userp, void **buffer,
                           void **buffer_userp, enum memory_type *actual_type, int64_t *actual_id) {
        struct client *c = userp;
        unsigned       at = c->n_allocs++;

        (void)allocator;
        (void)tensor;
        c->asked_type = type;
        c->asked_id = id;
        *buffer_userp = c->memory + at;
        *actual_type = c->gives;
        *actual_id = c->device >= 0 ? c->device : at % 2;
        c->devices[at] = (int)*actual_id;
        *buffer = NULL;
        if (c->gives_nothing || n == 0)
                return NULL;
        if (c->gives == MEMORY_GPU && gpus_find(c->gpus.gpus, *actual_id) != NULL)
                TRY(gpu_alloc(c->gpus.gpus, (int)*actual_id, n, &c->memory[at]));
        else
                c->memory[at] = malloc(n);
        *buffer = c->memory[at];
        return NULL;
}

/* Gets what alloc() gave. */
static struct error *release(struct response_allocator *allocator, void *buffer, void *buffer_userp,
                             size_t n, enum memory_type type, int64_t id) {
        size_t at = (size_t)((void **)buffer_userp - client->memory);

        (void)allocator;
        (void)n;
        assert_ptr_equal(buffer, client->memory[at]);
        assert_int_equal(type, client->gives);
        assert_int_equal(id, client->devices[at]);
        client->n_releases++;
        if (client->gives == MEMORY_GPU && gpus_find(client->gpus.gpus, id) != NULL)
                gpu_free(client->gpus.gpus, (int)id, buffer);
        else
                free(buffer);
        return NULL;
}

/* Sees the buffer that alloc() gave. */
static struct error *set_attributes(struct response_allocator *allocator, const char *tensor,
                                    struct buffer_attributes *a, void *userp, void *buffer_userp) {
        static char handle[64];

        (void)allocator;
        (void)tensor;
        (void)userp;
        (void)buffer_userp;
        assert_int_equal(a->memory_type, client->gives);
        a->cuda_ipc_handle = handle;
        return NULL;
}

static void on_response(struct response *r, uint32_t flags, void *userp) {
        (void)flags;
        ((struct client *)userp)->received = r;
}

static void open_client(struct client *c, int64_t device) {
        struct gpus_options options = fake_gpus_options();

        *c = (struct client){ .allocator = { .alloc = alloc, .release = release },
                              .gives = MEMORY_GPU,
                              .device = device };
        client = c;
        fake_gpus_open(&c->gpus, &options);
        c->fake = fake_model_new(MODEL);
        c->fake->model.gpus = c->gpus.gpus;
        c->req = fake_request(c->fake);
        c->req->allocator = &c->allocator;
        c->req->allocator_userp = c;
        c->req->on_response = on_response;
        c->req->on_response_userp = c;
}

/* Also ends the response that the client got. */
static void close_client(struct client *c) {
        response_free(c->received);
        request_free(c->req);
        assert_int_equal(c->n_releases, c->n_allocs);
        assert_int_equal(gpu_pool_usage(c->gpus.gpus, GPU_HOST).used_bytes, 0);
        fake_model_free(c->fake);
        fake_gpus_close(&c->gpus);
}

static struct response *respond(struct client *c) {
        struct response *r;

        assert_ok(response_new(c->req, &r), "response");
        return r;
}

static struct response_output *add_output(struct response *r, const char *name, size_t n) {
        struct response_output *o;

        assert_ok(response_add_output(r, name, DATA_TYPE_INT32,
                                      (int64_t[]){ (int64_t)(n / sizeof(int32_t)) }, 1, &o),
                  name);
        return o;
}

/* As a backend that prefers nothing: host memory, which it fills. */
static struct response_output *write_output(struct response *r, const char *name, const void *bytes,
                                            size_t n) {
        struct response_output *o = add_output(r, name, n);
        enum memory_type        type = MEMORY_CPU;
        int64_t                 id = 0;
        void                   *base;

        assert_ok(response_output_get(o, WRITER_BACKEND, n, &type, &id, &base), name);
        assert_int_equal(type, MEMORY_CPU_PINNED);
        assert_int_equal(id, 0);
        assert_int_equal((uintptr_t)base % 64, 0);
        assert_int_equal(o->attributes.memory_type, MEMORY_CPU_PINNED);
        assert_int_equal(o->attributes.byte_size, n);
        assert_null(o->attributes.cuda_ipc_handle);
        memcpy(base, bytes, n);
        return o;
}

static void assert_on_device(const struct client *c, const char *name, int device,
                             const void *bytes, size_t n) {
        const struct response_output *o = response_find_output(c->received, name);
        char                          got[256];

        assert_non_null(o);
        assert_int_equal(o->attributes.memory_type, MEMORY_GPU);
        assert_int_equal(o->attributes.memory_id, device);
        assert_int_equal(o->attributes.byte_size, n);
        get_bytes(c->gpus.gpus, device, got, o->base, n);
        assert_memory_equal(got, bytes, n);
}

/* Two outputs on two devices, which one call copies. */
static void test_is_copied_when_sent(void **state) {
        struct client    c;
        struct response *r;

        (void)state;
        open_client(&c, -1);
        c.allocator.attributes = set_attributes;
        r = respond(&c);
        assert_false(r->has_staged);
        write_output(r, "Y", numbers, 24);
        write_output(r, "Z", numbers + 2, 8);
        assert_true(r->has_staged);
        assert_int_equal(c.asked_type, MEMORY_CPU); /* as the backend has it */
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_null(c.received->error);
        assert_false(c.received->has_staged);
        assert_on_device(&c, "Y", 0, numbers, 24);
        assert_on_device(&c, "Z", 1, numbers + 2, 8);
        assert_non_null(c.received->first_output->attributes.cuda_ipc_handle);
        assert_int_equal(gpu_pool_usage(c.gpus.gpus, GPU_HOST).used_bytes, 0);
        close_client(&c);
}

/* More copies than fit on the stack. */
static void test_many(void **state) {
        struct client    c;
        struct response *r;
        char             name[8];

        (void)state;
        open_client(&c, -1);
        r = respond(&c);
        for (int i = 0; i < MAX_OUTPUTS; i++) {
                snprintf(name, sizeof(name), "o%d", i);
                write_output(r, name, &(int32_t){ 100 + i }, 4);
        }
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        for (int i = 0; i < MAX_OUTPUTS; i++) {
                snprintf(name, sizeof(name), "o%d", i);
                assert_on_device(&c, name, i % 2, &(int32_t){ 100 + i }, 4);
        }
        close_client(&c);
}

static void test_is_not_sent(void **state) {
        struct client    c;
        struct response *r;

        (void)state;
        open_client(&c, 1);
        r = respond(&c);
        write_output(r, "Y", numbers, 24);
        response_free(r);
        assert_int_equal(gpus_traffic(c.gpus.gpus).to_device, 0);
        close_client(&c);
}

/* A response that its backend sends with an error. */
static void test_is_sent_with_an_error(void **state) {
        struct client c;
        AUTO_ERROR    why = error_new(ERR_INTERNAL, "failed");

        (void)state;
        open_client(&c, 1);
        struct response *r = respond(&c);

        write_output(r, "Y", numbers, 24);
        assert_ok(response_send(r, RESPONSE_FINAL, why), "send");
        assert_string_equal(c.received->error->message, "failed");
        assert_int_equal(c.received->first_output->attributes.memory_type, MEMORY_GPU);
        assert_int_equal(gpus_traffic(c.gpus.gpus).to_device, 0);
        close_client(&c);
}

static void test_copy_fails(void **state) {
        struct client    c;
        struct response *r;

        (void)state;
        open_client(&c, 0);
        r = respond(&c);
        write_output(r, "Y", numbers, 24);
        c.gpus.fake_cuda_set("FAIL", "cuMemcpyHtoDAsync:1:700");
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        c.gpus.fake_cuda_set("FAIL", NULL);
        assert_non_null(c.received->error);
        assert_int_equal(c.received->error->code, ERR_UNAVAILABLE);
        assert_non_null(strstr(c.received->error->message,
                               "an output of model 'm' cannot be copied to a device: "));
        close_client(&c);
}

/* The backend of a model on GPUs gets what the allocator gave, and the allocator what the backend prefers. */
static void test_backend_that_looks(void **state) {
        struct client           c;
        struct response        *r;
        struct response_output *o;
        enum memory_type        type = MEMORY_CPU_PINNED;
        int64_t                 id = 7;
        void                   *base;

        (void)state;
        open_client(&c, 1);
        c.fake->model.takes_device_memory = true;
        r = respond(&c);
        o = add_output(r, "Y", 24);
        assert_ok(response_output_get(o, WRITER_BACKEND, 24, &type, &id, &base), "Y");
        assert_int_equal(c.asked_type, MEMORY_CPU_PINNED);
        assert_int_equal(c.asked_id, 7);
        assert_int_equal(type, MEMORY_GPU);
        assert_int_equal(id, 1);
        assert_ptr_equal(base, c.memory[0]);
        assert_false(r->has_staged);
        put_bytes(c.gpus.gpus, 1, base, numbers, 24);
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_on_device(&c, "Y", 1, numbers, 24);
        close_client(&c);
}

/* The core writes on the CPU for such a model, too. */
static void test_core_writes(void **state) {
        struct client    c;
        struct response *r;
        enum memory_type type;
        void            *base;

        (void)state;
        open_client(&c, 1);
        c.fake->model.takes_device_memory = true;
        r = respond(&c);
        assert_ok(response_output_host_buffer(add_output(r, "Y", 24), 24, &type, &base), "Y");
        assert_int_equal(type, MEMORY_CPU_PINNED);
        memcpy(base, numbers, 24);
        assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
        assert_on_device(&c, "Y", 1, numbers, 24);
        close_client(&c);
}

static void test_unknown_device(void **state) {
        struct client    c;
        struct response *r;
        enum memory_type type = MEMORY_CPU;
        int64_t          id = 3;
        void            *base;

        (void)state;
        open_client(&c, 2); /* the third device is too old */
        r = respond(&c);
        assert_error(
                response_output_get(add_output(r, "Y", 24), WRITER_BACKEND, 24, &type, &id, &base),
                ERR_INVALID_ARG,
                "output 'Y' is wanted in the memory of GPU 2, which this server does not have; "
                "its GPUs are: 0,1");
        response_free(r);
        close_client(&c);
}

/* Nothing to copy: no bytes, which are said to be on the host; a client that wants none; a server without GPUs. */
static void test_what_needs_no_stage(void **state) {
        static const struct {
                size_t           n;
                enum memory_type type;
        } rows[] = { { 0, MEMORY_CPU }, { 24, MEMORY_GPU }, { 24, MEMORY_GPU } };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct client    c;
                struct response *r;
                enum memory_type type = MEMORY_CPU_PINNED;
                int64_t          id = 5;
                void            *base;

                open_client(&c, 1);
                c.gives_nothing = i == 1;
                if (i == 1)
                        response_stream_set_queried(c.req->stream);
                if (i == 2)
                        c.fake->model.gpus = NULL;
                r = respond(&c);
                assert_ok(response_output_get(add_output(r, "Y", rows[i].n), WRITER_BACKEND,
                                              rows[i].n, &type, &id, &base),
                          "Y");
                assert_int_equal(type, rows[i].type);
                assert_int_equal(id, type == MEMORY_GPU);
                assert_ptr_equal(base, c.memory[0]);
                assert_false(r->has_staged);
                assert_ok(response_send(r, RESPONSE_FINAL, NULL), "send");
                assert_int_equal(c.received->first_output->attributes.memory_type, MEMORY_GPU);
                assert_int_equal(c.received->first_output->attributes.memory_id, 1);
                close_client(&c);
        }
}

static void test_no_memory(void **state) {
        struct client    c;
        unsigned         n = 0;
        struct response *r;

        (void)state;
        open_client(&c, 0);
        for (bool was_hit = true; was_hit;) {
                struct response_output *o;
                enum memory_type        type = MEMORY_CPU;
                int64_t                 id = 0;
                struct error           *err;
                void                   *base;

                r = respond(&c);
                o = add_output(r, "Y", 24);
                mem_fail_after(++n);
                err = response_output_get(o, WRITER_BACKEND, 24, &type, &id, &base);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_int_equal(err != NULL, was_hit);
                error_free(err);
                response_free(r);
                c.n_allocs = c.n_releases = 0;
        }
        close_client(&c);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static char traced[512];

static void on_tensor(struct trace *t, int activity, const char *name, int type, const void *base,
                      size_t byte_size, const int64_t *shape, uint64_t n_dims, int memory_type,
                      int64_t memory_id, void *userp) {
        const int32_t *values = base;
        size_t         used = strlen(traced);

        (void)t;
        (void)activity;
        (void)type;
        (void)shape;
        (void)n_dims;
        (void)userp;
        snprintf(traced + used, sizeof(traced) - used, "%s %zu in %d %lld: %d %d\n", name,
                 byte_size, memory_type, (long long)memory_id, (int)values[0], (int)values[1]);
}

static void on_release(struct trace *t, void *userp) {
        (void)t;
        (void)userp;
}

static void report_both(struct client *c, struct response *r) {
        trace_report_inputs(c->req, TRACE_TENSOR_QUEUE_INPUT);
        trace_report_outputs(r);
}

/* Tensors on devices, and inputs in pieces on both, are reported as copies on the host. */
static void test_trace(void **state) {
        struct trace_options     options = { .level = TRACE_LEVEL_TENSORS,
                                             .on_tensor = on_tensor,
                                             .on_release = on_release };
        struct buffer_attributes at = { .memory_type = MEMORY_GPU, .memory_id = 1, .byte_size = 8 };
        struct client            c;
        struct response         *r;
        struct trace            *trace;
        enum memory_type         type = MEMORY_GPU;
        int64_t                  id = 1;
        void                    *x, *base;

        (void)state;
        open_client(&c, 1);
        c.fake->model.takes_device_memory = true;
        c.req->trace = trace_new(&options);
        assert_ok(gpu_alloc(c.gpus.gpus, 1, 8, &x), "memory");
        put_bytes(c.gpus.gpus, 1, x, numbers, 8);
        assert_ok(request_add_input(c.req, "A", DATA_TYPE_INT32, (int64_t[]){ 2 }, 1), "A");
        assert_ok(request_append_bytes(c.req, "A", x, &at, NULL), "A");
        assert_ok(request_add_input(c.req, "B", DATA_TYPE_INT32, (int64_t[]){ 2 }, 1), "B");
        append_bytes(c.req, "B", numbers + 5, 4);
        at.byte_size = 4;
        assert_ok(request_append_bytes(c.req, "B", x, &at, NULL), "B");
        r = respond(&c);
        assert_ok(response_output_get(add_output(r, "Y", 8), WRITER_BACKEND, 8, &type, &id, &base),
                  "Y");
        put_bytes(c.gpus.gpus, 1, base, numbers + 2, 8);
        traced[0] = '\0';
        report_both(&c, r);
        assert_string_equal(traced, "A 8 in 0 0: 3 1\nB 8 in 0 0: 9 3\nY 8 in 0 0: 4 1\n");

        /* What cannot be copied is missing; the log has the reason. */
        traced[0] = '\0';
        c.gpus.fake_cuda_set("FAIL", "cuMemcpyDtoHAsync:1:700,cuMemcpyDtoHAsync:3:700");
        report_both(&c, r);
        c.gpus.fake_cuda_set("FAIL", NULL);
        assert_string_equal(traced, "B 8 in 0 0: 9 3\n");
        response_free(r);
        trace = STEAL(c.req->trace);
        assert_null(trace_free(trace));
        gpu_free(c.gpus.gpus, 1, x);
        close_client(&c);
}

SUITE(staged_output) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_is_copied_when_sent),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_is_not_sent),
                cmocka_unit_test(test_is_sent_with_an_error),
                cmocka_unit_test(test_copy_fails),
                cmocka_unit_test(test_backend_that_looks),
                cmocka_unit_test(test_core_writes),
                cmocka_unit_test(test_unknown_device),
                cmocka_unit_test(test_what_needs_no_stage),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_trace),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
