/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors of chains on devices. */
#include "suite.h"

#include "pipeline/device_steps.h"
#include "pipeline/line_fixture.h"

static const uint32_t      five = 5;
static const uint32_t      of_five[] = { 16, 58, 274 }; /* after each stage, see line_fixture.h */
static const unsigned      n_runs = 3; /* a second run has the requests of the first */
static struct fixture_call call;

static void open_chain(struct fixture_chain *l, const char *const configs[3], bool may_end,
                       const int devices[3]) {
        device_steps_open(1 << 20, true);
        chain_open(l, configs, may_end);
        l->memory.gpus = l->fake->model.gpus = cuda.gpus;
        for (uint32_t i = 0; i < 3; i++)
                device_steps_set(&l->stages[i], i, devices[i]);
}

static void close_chain(struct fixture_chain *l) {
        chain_close(l);
        device_steps_close();
}

static void submit_five(struct fixture_chain *l) {
        fixture_call_open(&call, l->fake);
        fixture_input(&call, "X", &five, 1, 1);
        fixture_submit(&call);
}

static void run_five(struct fixture_chain *l, uint32_t expected) {
        submit_five(l);
        fixture_wait(&call);
        assert_int_equal(fixture_output(&call, 0, "Y")->value, expected);
        fixture_call_close(&call);
}

static void test_one_device(void **state) {
        struct fixture_chain l;

        (void)state;
        open_chain(&l, plain, false, (const int[]){ 1, 1, 1 });
        for (unsigned run = 0; run < n_runs; run++) {
                run_five(&l, of_five[2]);
                for (unsigned i = 1; i < 3; i++) {
                        assert_int_equal(seen[i].type, MEMORY_GPU);
                        assert_int_equal(seen[i].id, 1);
                        assert_ptr_equal(seen[i].input, seen[i - 1].output);
                }
                assert_int_equal(gpu_pool_usage(cuda.gpus, 1).used_bytes, 0);
        }
        assert_int_equal(copied_bytes(), 0);
        assert_int_equal(seen[2].output_type, MEMORY_CPU); /* the client's */
        close_chain(&l);
}

static void test_two_devices(void **state) {
        struct fixture_chain l;

        (void)state;
        open_chain(&l, plain, false, (const int[]){ 0, 1, 1 });
        for (unsigned run = 1; run <= n_runs; run++) {
                run_five(&l, of_five[2]);
                assert_int_equal(seen[1].type, MEMORY_GPU);
                assert_int_equal(seen[1].id, 1);
                assert_ptr_equal(seen[2].input, seen[1].output);
                assert_int_equal(gpus_traffic(cuda.gpus).between_devices, run * sizeof(five));
        }
        assert_int_equal(copied_bytes(), n_runs * sizeof(five));
        close_chain(&l);
}

static void test_stage_on_cpu(void **state) {
        struct fixture_chain l;

        (void)state;
        open_chain(&l, plain, false, (const int[]){ 0, GPU_HOST, 0 });
        run_five(&l, of_five[2]);
        assert_int_equal(seen[0].output_type, MEMORY_CPU_PINNED);
        assert_ptr_equal(seen[1].input, seen[0].output);
        assert_int_equal(copied_bytes(), 0);
        close_chain(&l);
}

/* A response in the middle is the client's: its output on the device is copied, once. */
static void test_ends_early(void **state) {
        static const struct parameter end = { .name = "chain_end",
                                              .type = PARAMETER_BOOL,
                                              .boolean = true };
        struct fixture_chain          l;

        (void)state;
        open_chain(&l, plain, true, (const int[]){ 0, 0, 0 });
        l.stages[1].says = &end;
        run_five(&l, of_five[1]);
        assert_int_equal(seen[1].output_type, MEMORY_GPU);
        assert_int_equal(seen[2].n, 0);
        assert_int_equal(gpus_traffic(cuda.gpus).to_host, sizeof(five));
        assert_int_equal(copied_bytes(), sizeof(five));
        close_chain(&l);
}

/* The batch of the first stage stays together; each of its requests has its tensor on the device. */
static void test_batch(void **state) {
        static const char *const configs[] = {
                "name: 'm' max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 "
                "max_queue_delay_microseconds: 3600000000 } " IO,
                "name: 'm' max_batch_size: 8 dynamic_batching { } " IO, CONFIG
        };
        struct fixture_call  calls[4];
        struct fixture_chain l;

        (void)state;
        open_chain(&l, configs, false, (const int[]){ 0, 1, 1 });
        for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
                fixture_call_open(&calls[i], l.fake);
                fixture_input(&calls[i], "X", &five, 1, 1);
                fixture_submit(&calls[i]);
        }
        for (unsigned i = 0; i < ARRAY_LEN(calls); i++) {
                fixture_wait(&calls[i]);
                assert_int_equal(fixture_output(&calls[i], 0, "Y")->value, of_five[2]);
                fixture_call_close(&calls[i]);
        }
        assert_int_equal(seen[1].n, ARRAY_LEN(calls));
        assert_int_equal(gpus_traffic(cuda.gpus).between_devices, sizeof(five) * ARRAY_LEN(calls));
        close_chain(&l);
}

static void test_stage_fails(void **state) {
        struct fixture_chain l;

        (void)state;
        for (unsigned failing = 0; failing < 3; failing++) {
                open_chain(&l, plain, false, (const int[]){ 0, 1, 0 });
                l.stages[failing].error = "broken";
                submit_five(&l);
                fixture_wait(&call);
                assert_non_null(strstr(call.got[0].response->error->message, "broken"));
                fixture_call_close(&call);
                close_chain(&l);
        }
}

/* Several responses of the last stage are passed on; its backend writes the client's memory. */
static void test_passed_on(void **state) {
        static const char *const configs[] = { CONFIG, CONFIG, CONFIG DECOUPLED };
        struct fixture_chain     l;

        (void)state;
        open_chain(&l, configs, false, (const int[]){ 0, 0, 1 });
        l.stages[2].n_responses = 4;
        submit_five(&l);
        fixture_wait(&call);
        for (unsigned j = 0; j < 4; j++)
                assert_int_equal(fixture_output(&call, j, "Y")->value, of_five[2] + 101 * j);
        fixture_call_close(&call);
        assert_int_equal(copied_bytes(), sizeof(five)); /* the input of that stage */
        close_chain(&l);
}

SUITE(chain_device) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_device),   cmocka_unit_test(test_two_devices),
                cmocka_unit_test(test_stage_on_cpu), cmocka_unit_test(test_ends_early),
                cmocka_unit_test(test_batch),        cmocka_unit_test(test_stage_fails),
                cmocka_unit_test(test_passed_on),
        };

        fixture_open();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
