/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of ensembles on devices. */
#include "suite.h"

#include "pipeline/device_steps.h"
#include "pipeline/ensemble_steps.h"

#define POOL_BYTES (1 << 20)
#define LINE ENSEMBLE(ONE, STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "U")) STEP(I_TO_O("U", "O")))

struct place {
        struct gpus          *gpus;
        struct ensemble_steps b;
};

/* `devices`: of each step. */
static void open_place(struct place *p, uint64_t pool_bytes, bool enable_peer_access,
                       const char *ensemble, const char *const *models, const int *devices,
                       size_t n) {
        device_steps_open(pool_bytes, enable_peer_access);
        p->gpus = cuda.gpus;
        ensemble_steps_open(&p->b, ensemble, models, n);
        p->b.ensemble.memory.gpus = p->gpus;
        p->b.ensemble.fake->model.gpus = p->gpus;
        for (size_t i = 0; i < n; i++)
                device_steps_set(&p->b.models[i], (uint32_t)i, devices[i]);
}

#define NAMED(name, rest) "name: '" name "' " rest
#define OPEN(p, pool_bytes, peer, ensemble, d0, d1, d2)                                            \
        open_place(p, pool_bytes, peer, ensemble,                                                  \
                   (const char *[]){ NAMED("s", ONE), NAMED("s", ONE), NAMED("s", ONE) },          \
                   (const int[]){ d0, d1, d2 }, 3)

static void close_place(struct place *p) {
        ensemble_steps_close(&p->b);
        device_steps_close();
}

static const uint32_t five = 5;

/* Each step computes 3 * x + 1. */
#define OF_FIVE (((5 * 3 + 1) * 3 + 1) * 3 + 1)

static void run_line(struct place *p) {
        struct fixture_call c;

        call_open(&c, &p->b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "O")->value, OF_FIVE);
        fixture_call_close(&c);
}

/* Nothing of ours reads or copies a tensor between steps of one device. The second run has the requests of
 * the first. */
static void test_one_device(void **state) {
        struct gpu_traffic t;
        struct place       p;

        (void)state;
        OPEN(&p, POOL_BYTES, false, LINE, 0, 0, 0);
        for (unsigned run = 1; run <= 3; run++) {
                run_line(&p);
                for (unsigned i = 1; i < 3; i++) {
                        assert_int_equal(seen[i].type, MEMORY_GPU);
                        assert_int_equal(seen[i].id, 0);
                        assert_ptr_equal(seen[i].input, seen[i - 1].output);
                        assert_int_equal(seen[i].n, run);
                }
                assert_int_equal(gpu_pool_usage(p.gpus, 0).used_bytes, 0);
        }
        t = gpus_traffic(p.gpus);
        assert_int_equal(t.to_host + t.to_device + t.within_device + t.between_devices, 0);
        /* The client's memory is asked for by the last step, and written by it. */
        assert_int_equal(seen[2].output_type, MEMORY_CPU);
        close_place(&p);
}

static void two_devices(bool enable_peer_access) {
        struct gpu_traffic t;
        struct place       p;

        OPEN(&p, POOL_BYTES, enable_peer_access, LINE, 0, 0, 1);
        for (unsigned run = 1; run <= 3; run++) {
                run_line(&p);
                assert_ptr_equal(seen[1].input, seen[0].output);
                assert_int_equal(seen[2].type, MEMORY_GPU);
                assert_int_equal(seen[2].id, 1);
                assert_ptr_not_equal(seen[2].input, seen[1].output);
                t = gpus_traffic(p.gpus);
                assert_int_equal(t.between_devices, enable_peer_access ? run * sizeof(five) : 0);
                assert_int_equal(t.to_host, enable_peer_access ? 0 : run * sizeof(five));
                assert_int_equal(t.to_device, enable_peer_access ? 0 : run * sizeof(five));
        }
        close_place(&p);
}

static void test_two_devices(void **state) {
        (void)state;
        two_devices(true);
        two_devices(false);
}

/* A step on the CPU reads pinned memory: so nothing is copied for it. */
static void test_step_on_cpu(void **state) {
        struct gpu_traffic t;
        struct place       p;

        (void)state;
        OPEN(&p, POOL_BYTES, false, LINE, 0, GPU_HOST, 0);
        run_line(&p);
        run_line(&p);
        assert_int_equal(seen[0].output_type, MEMORY_CPU_PINNED);
        assert_int_equal(seen[1].type, MEMORY_CPU_PINNED);
        assert_ptr_equal(seen[1].input, seen[0].output);
        assert_int_equal(seen[1].output_type, MEMORY_CPU);
        assert_int_equal(seen[2].type, MEMORY_CPU);
        t = gpus_traffic(p.gpus);
        assert_int_equal(t.to_host + t.to_device + t.within_device + t.between_devices, 0);
        close_place(&p);
}

/* Instances on several devices read the tensor where it is. */
static void test_several_devices(void **state) {
        struct gpu_traffic t;
        struct place       p;

        (void)state;
        OPEN(&p, POOL_BYTES, true, LINE, 0, 1, 1);
        p.b.models[1].fake->model.device = GPU_SEVERAL;
        run_line(&p);
        assert_ptr_equal(seen[1].input, seen[0].output);
        assert_int_equal(seen[1].id, 0);
        assert_ptr_equal(seen[2].input, seen[1].output);
        t = gpus_traffic(p.gpus);
        assert_int_equal(t.between_devices + t.to_host + t.to_device, 0);
        close_place(&p);
}

/* A device without room gives way to pinned memory. */
static void test_device_without_room(void **state) {
        struct place p;

        (void)state;
        OPEN(&p, 0, false, LINE, 0, 0, 0);
        cuda.fake_cuda_set("FAIL", "cuMemAlloc_v2:1+");
        run_line(&p);
        assert_int_equal(seen[0].output_type, MEMORY_CPU_PINNED);
        assert_int_equal(seen[1].type, MEMORY_CPU_PINNED);
        assert_ptr_equal(seen[1].input, seen[0].output);
        cuda.fake_cuda_set("FAIL", NULL);
        run_line(&p);
        assert_int_equal(seen[0].output_type, MEMORY_GPU);
        close_place(&p);
}

/* The copy for the other device then is on the host. */
static void test_other_device_without_room(void **state) {
        struct place p;

        (void)state;
        OPEN(&p, 0, true, LINE, 0, 0, 1);
        cuda.fake_cuda_set("FAIL", "cuMemAlloc_v2:3"); /* the third is the first of device 1 */
        run_line(&p);
        assert_int_equal(seen[2].type, MEMORY_CPU_PINNED);
        assert_int_equal(gpus_traffic(p.gpus).to_host, sizeof(five));
        close_place(&p);
}

static void fail_line(struct place *p, const char *text) {
        struct fixture_call c;

        call_open(&c, &p->b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_int_equal(c.n_got, 1);
        assert_non_null(c.got[0].response->error);
        assert_non_null(strstr(c.got[0].response->error->message, text));
        fixture_call_close(&c);
}

/* Neither the device nor the host has room: the request fails, and nothing else. */
static void test_no_room_at_all(void **state) {
        struct place p;

        (void)state;
        OPEN(&p, 0, false, LINE, 0, 0, 0);
        run_line(&p);
        cuda.fake_cuda_set("FAIL", "cuMemAlloc_v2:1+");
        used_up = &p.b.ensemble.budget;
        fail_line(&p, "output 'O': GPU 0");
        used_up = NULL;
        cuda.fake_cuda_set("FAIL", NULL);
        run_line(&p);
        close_place(&p);
}

/* An error of the driver in a copy is the request's. */
static void test_copy_fails(void **state) {
        struct place p;

        (void)state;
        OPEN(&p, POOL_BYTES, true, LINE, 0, 0, 1);
        run_line(&p);
        cuda.fake_cuda_set("FAIL", "cuMemcpyPeerAsync:1+:700");
        fail_line(&p, "CUDA_ERROR_ILLEGAL_ADDRESS");
        cuda.fake_cuda_set("FAIL", NULL);
        run_line(&p);
        close_place(&p);
}

static void test_step_fails(void **state) {
        struct place p;

        (void)state;
        for (unsigned failing = 0; failing < 3; failing++) {
                OPEN(&p, POOL_BYTES, true, LINE, 0, 1, 0);
                p.b.models[failing].error = "broken";
                fail_line(&p, "broken");
                fail_line(&p, "broken");
                close_place(&p);
        }
}

/* Cancelled while a step has a copy of its input. */
static void test_cancelled(void **state) {
        struct fixture_call c;
        struct place        p;

        (void)state;
        open_place(&p, POOL_BYTES, true, LINE,
                   (const char *[]){ NAMED("s", ONE) NEVER, NAMED("s", ONE) NEVER,
                                     NAMED("s", ONE) NEVER },
                   (const int[]){ 0, 1, 0 }, 3);
        fixture_hold(&p.b.models[1], true);
        call_open(&c, &p.b);
        fixture_input(&c, "I", &five, 1);
        fixture_submit(&c);
        FIXTURE_WAIT_FOR(p.b.models[1].n_running == 1);
        assert_true(gpu_pool_usage(p.gpus, 0).used_bytes > 0);
        assert_true(gpu_pool_usage(p.gpus, 1).used_bytes > 0);
        request_cancel(c.req);
        fixture_hold(&p.b.models[1], false);
        fixture_wait(&c);
        assert_int_equal(c.got[0].response->error->code, ERR_CANCELLED);
        assert_int_equal(seen[2].n, 0);
        fixture_call_close(&c);
        close_place(&p);
}

/* ---- the client's outputs --------------------------------------------------------------------- */

/* T is read by a step, and by the client. */
#define BOTH                                                                                       \
        ENSEMBLE(IN("I") OUT("T") OUT("O"),                                                        \
                 STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "U")) STEP(I_TO_O("U", "O")))

/* One copy for the client, and none for the step. */
static void test_output_in_between(void **state) {
        struct fixture_call c;
        struct gpu_traffic  t;
        struct place        p;

        (void)state;
        OPEN(&p, POOL_BYTES, false, BOTH, 0, 0, 0);
        call_open(&c, &p.b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "T")->value, 5 * 3 + 1);
        assert_int_equal(fixture_output(&c, 0, "O")->value, OF_FIVE);
        assert_int_equal(seen[0].output_type, MEMORY_GPU);
        assert_ptr_equal(seen[1].input, seen[0].output);
        t = gpus_traffic(p.gpus);
        assert_int_equal(t.to_host, sizeof(five));
        assert_int_equal(t.to_device + t.within_device + t.between_devices, 0);
        fixture_call_close(&c);
        close_place(&p);
}

static struct gpus *client_gpus;

/* Has the signatures of allocator_alloc_fn and allocator_release_fn: a client with memory of device 1. */
static struct error *client_alloc(struct response_allocator *allocator, const char *tensor,
                                  size_t byte_size, enum memory_type type, int64_t id, void *userp,
                                  void **buffer, void **buffer_userp, enum memory_type *actual_type,
                                  int64_t *actual_id) {
        (void)allocator, (void)tensor, (void)userp;
        assert_int_equal(type, MEMORY_GPU);
        assert_int_equal(id, 0);
        *buffer_userp = NULL;
        *actual_type = MEMORY_GPU;
        *actual_id = 1;
        return gpu_alloc(client_gpus, 1, byte_size, buffer);
}

static struct error *client_release(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id) {
        (void)allocator, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        gpu_free(client_gpus, 1, buffer);
        return NULL;
}

static const struct response_allocator client_allocator = { .alloc = client_alloc,
                                                            .release = client_release };

static uint32_t output_of(const struct fixture_call *c, const char *name) {
        const struct response_output *o = response_find_output(c->got[0].response, name);
        uint32_t                      value;

        assert_non_null(o);
        assert_int_equal(o->attributes.memory_type, MEMORY_GPU);
        assert_int_equal(o->attributes.memory_id, 1);
        get(1, &value, o->base, sizeof(value));
        return value;
}

static void keep_response(struct response *response, uint32_t flags, void *userp) {
        struct fixture_call *c = userp;

        MUTEX_GUARD(&fixture_lock);
        assert_int_equal(flags, RESPONSE_FINAL);
        c->n_finals++;
        c->got[c->n_got++] = (struct fixture_got){ .response = response, .flags = flags };
        cond_broadcast(&fixture_changed);
}

/* What a step writes for the client alone is written where the client wants it. */
static void test_client_with_device_memory(void **state) {
        struct fixture_call c;
        struct gpu_traffic  t;
        struct place        p;

        (void)state;
        OPEN(&p, POOL_BYTES, true, BOTH, 0, 0, 0);
        client_gpus = p.gpus;
        call_open(&c, &p.b);
        c.req->allocator = &client_allocator;
        c.req->on_response = keep_response;
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_null(c.got[0].response->error);
        assert_int_equal(output_of(&c, "T"), 5 * 3 + 1);
        assert_int_equal(output_of(&c, "O"), OF_FIVE);
        t = gpus_traffic(p.gpus);
        assert_int_equal(t.between_devices, sizeof(five)); /* T */
        assert_int_equal(t.to_host + t.to_device + t.within_device, 0);
        fixture_call_close(&c);
        close_place(&p);
}

/* An input on a device that is an output as well. */
static void test_input_is_output(void **state) {
        static const char config[] =
                ENSEMBLE(IN("I") OUT("O") OUT("P"), STEP(I_TO_O("I", "O")) STEP(I_TO_O("I", "P")));
        struct buffer_attributes on_device = { .memory_type = MEMORY_GPU,
                                               .memory_id = 0,
                                               .byte_size = sizeof(five) };
        struct fixture_call      c;
        struct place             p;
        void                    *input;

        (void)state;
        open_place(&p, POOL_BYTES, true, config,
                   (const char *[]){ NAMED("s", ONE), NAMED("s", ONE) }, (const int[]){ 0, 1 }, 2);
        assert_ok(gpu_alloc(p.gpus, 0, sizeof(five), &input), "input");
        put(0, input, &five, sizeof(five));
        call_open(&c, &p.b);
        assert_ok(request_add_input(c.req, "I", DATA_TYPE_UINT32, (int64_t[]){ 1 }, 1), "I");
        assert_ok(request_append_bytes(c.req, "I", input, &on_device, NULL), "bytes");
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "O")->value, 5 * 3 + 1);
        assert_int_equal(fixture_output(&c, 0, "P")->value, 5 * 3 + 1);
        assert_ptr_equal(seen[0].input, input);
        assert_int_equal(seen[1].type, MEMORY_GPU);
        assert_int_equal(seen[1].id, 1);
        assert_int_equal(gpus_traffic(p.gpus).between_devices, sizeof(five));
        fixture_call_close(&c);
        gpu_free(p.gpus, 0, input);
        close_place(&p);
}

/* A step with the same tensor for two inputs gets one copy. */
static void test_one_copy_for_two_inputs(void **state) {
        struct fixture_call c;
        struct place        p;

        (void)state;
        open_place(&p, POOL_BYTES, true,
                   ENSEMBLE(ONE, STEP(I_TO_O("I", "T")) STEP(IJ_TO_O("T", "T", "O"))),
                   (const char *[]){ NAMED("s", ONE), NAMED("s", TWO) }, (const int[]){ 0, 1 }, 2);
        call_open(&c, &p.b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "O")->value, 3 * (16 + 16) + 1);
        assert_int_equal(gpus_traffic(p.gpus).between_devices, sizeof(five));
        fixture_call_close(&c);
        close_place(&p);
}

#define LONG(name) "input { name: '" name "' data_type: TYPE_UINT32 dims: -1 } "

static void input_at(const struct fixture_call *c, const char *name, void *base, int64_t n) {
        struct buffer_attributes on_device = { .memory_type = MEMORY_GPU,
                                               .memory_id = 0,
                                               .byte_size = (size_t)n * sizeof(uint32_t) };

        assert_ok(request_add_input(c->req, name, DATA_TYPE_UINT32, &n, 1), name);
        assert_ok(request_append_bytes(c->req, name, base, &on_device, NULL), name);
}

/* Two inputs of a client begin at one place of its region: the copy of the shorter one is not taken for the
 * longer one, whose end would lie in memory of others. */
static void test_copies_differ_in_bytes(void **state) {
        const uint32_t      numbers[] = { 5, 6, 7, 8 };
        struct fixture_call c;
        struct place        p;
        void               *region;

        (void)state;
        open_place(&p, POOL_BYTES, true,
                   ENSEMBLE(IN("I") LONG("J") OUT("O"), STEP(IJ_TO_O("I", "J", "O"))),
                   (const char *[]){ NAMED("s", IN("I") LONG("J") OUT("O")) }, (const int[]){ 1 },
                   1);
        assert_ok(gpu_alloc(p.gpus, 0, sizeof(numbers), &region), "region");
        put(0, region, numbers, sizeof(numbers));
        call_open(&c, &p.b);
        input_at(&c, "I", region, 1);
        input_at(&c, "J", region, 4);
        fixture_run(&c);
        assert_int_equal(fixture_output(&c, 0, "O")->value, 3 * (5 + 5) + 1);
        assert_int_equal(gpus_traffic(p.gpus).between_devices,
                         sizeof(numbers[0]) + sizeof(numbers));
        fixture_call_close(&c);
        gpu_free(p.gpus, 0, region);
        close_place(&p);
}

/* Each response of the first step has its tensor on the device until the second has read it. */
static void test_decoupled(void **state) {
        struct fixture_call c;
        struct place        p;

        (void)state;
        open_place(&p, POOL_BYTES, true,
                   ENSEMBLE(ONE, STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "O"))),
                   (const char *[]){ NAMED("s", ONE) DECOUPLED, NAMED("s", ONE) },
                   (const int[]){ 0, 1 }, 2);
        p.b.models[0].n_responses = 5;
        call_open(&c, &p.b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        assert_true(c.n_got >= 5);
        for (unsigned j = 0; j < 5; j++)
                assert_int_equal(fixture_output(&c, j, "O")->value, 3 * (16 + 101 * j) + 1);
        assert_int_equal(seen[1].type, MEMORY_GPU);
        assert_int_equal(gpus_traffic(p.gpus).between_devices, 5 * sizeof(five));
        assert_int_equal(copied_bytes(), 5 * sizeof(five));
        fixture_call_close(&c);
        close_place(&p);
}

/* Both tensors of a response are outputs: one wait, and one copy for each. */
static void test_decoupled_outputs(void **state) {
        struct fixture_call c;
        struct place        p;

        (void)state;
        open_place(&p, POOL_BYTES, true,
                   ENSEMBLE(IN("I") OUT("T") OUT("O"),
                            STEP(I_TO_O("I", "T")) STEP(I_TO_O("T", "O"))),
                   (const char *[]){ NAMED("s", ONE) DECOUPLED, NAMED("s", ONE) },
                   (const int[]){ 0, 0 }, 2);
        p.b.models[0].n_responses = 3;
        call_open(&c, &p.b);
        fixture_input(&c, "I", &five, 1);
        fixture_run(&c);
        for (unsigned j = 0; j < 3; j++) {
                assert_int_equal(fixture_output(&c, j, "T")->value, 16 + 101 * j);
                assert_int_equal(fixture_output(&c, j, "O")->value, 3 * (16 + 101 * j) + 1);
        }
        assert_int_equal(gpus_traffic(p.gpus).to_host, copied_bytes());
        assert_true(copied_bytes() >= 3 * sizeof(five));
        fixture_call_close(&c);
        close_place(&p);
}

SUITE(run_device) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_device),
                cmocka_unit_test(test_two_devices),
                cmocka_unit_test(test_step_on_cpu),
                cmocka_unit_test(test_several_devices),
                cmocka_unit_test(test_device_without_room),
                cmocka_unit_test(test_other_device_without_room),
                cmocka_unit_test(test_no_room_at_all),
                cmocka_unit_test(test_copy_fails),
                cmocka_unit_test(test_step_fails),
                cmocka_unit_test(test_cancelled),
                cmocka_unit_test(test_output_in_between),
                cmocka_unit_test(test_client_with_device_memory),
                cmocka_unit_test(test_input_is_output),
                cmocka_unit_test(test_one_copy_for_two_inputs),
                cmocka_unit_test(test_copies_differ_in_bytes),
                cmocka_unit_test(test_decoupled),
                cmocka_unit_test(test_decoupled_outputs),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
