/* SPDX-License-Identifier: BSD-3-Clause */
/* The kit's tensors in the memory of GPUs. That memory is the fake server's: the CPU cannot use its addresses. */
#include "suite.h"

#include "fake_server.h"
#include "kit/batch_input.h"
#include "kit/memory.h"
#include "kit/output.h"

#include <string.h>

#define N 3
#define GPU TRITONSERVER_MEMORY_GPU
#define CPU TRITONSERVER_MEMORY_CPU

static struct TRITONBACKEND_Request       requests[N];
static struct TRITONBACKEND_Backend       backend;
static struct TRITONBACKEND_Model         model = { .backend = &backend };
static struct TRITONBACKEND_ModelInstance instance;
static TRITONBACKEND_Request             *list[N];
static struct kit_memory                  memory;
static struct kit_scratch                 host;
static struct kit_device_scratch          device;
static struct kit_batch                   batch;
/* As the driver's allocations are, at least. */
static _Alignas(256) const int32_t values[] = { 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 };

static const struct kit_place on_gpu = { GPU, 0 };

static int set_up(void **state) {
        (void)state;
        memset(requests, 0, sizeof(requests));
        memset(&fake, 0, sizeof(fake));
        instance = (struct TRITONBACKEND_ModelInstance){ .model = &model };
        for (int i = 0; i < N; i++)
                list[i] = &requests[i];
        assert_null(kit_memory_open(&instance, &memory));
        assert_int_equal(memory.device.type, GPU);
        assert_int_equal(memory.device.id, 0);
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        kit_scratch_done(&host);
        kit_device_scratch_done(&device, &memory);
        kit_memory_close(&memory);
        for (int i = 0; i < N; i++)
                fake_reset(&requests[i]);
        return fake.n_errors_alive == 0 && fake.n_device_alive == 0 ? 0 : -1;
}

/* Request i gets X of shape [rows, 1], from `values` on, in that memory. */
static struct TRITONBACKEND_Input *add_rows(int i, int64_t rows, int first,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        const void *bytes = type == GPU ? FAKE_DEVICE_ADDRESS(&values[first]) : &values[first];

        requests[i].outputs[requests[i].n_outputs++] = "Y";
        return fake_add_input(&requests[i],
                              (struct TRITONBACKEND_Input){ .name = "X",
                                                            .type = TRITONSERVER_TYPE_INT32,
                                                            .shape = { rows, 1 },
                                                            .n_dims = 2,
                                                            .memory_type = type,
                                                            .memory_id = id },
                              bytes, (size_t)rows * 4);
}

static void open_batch(uint32_t n) {
        assert_null(kit_batch_open(&batch, &instance, list, n));
        assert_null(batch.memory);
        batch.memory = &memory;
        kit_batch_read_rows(&batch, 8);
}

static void gather(struct kit_gathered_on *ret) {
        assert_null(kit_gather_on(&batch, "X", &host, &device, ret));
}

static const int32_t *of_gpu(const void *address) {
        return FAKE_DEVICE_BYTES(address);
}

static void test_one_input_where_it_lies(void **state) {
        struct kit_gathered_on x;

        (void)state;
        add_rows(0, 3, 4, GPU, 0);
        open_batch(1);
        gather(&x);
        assert_ptr_equal(x.tensor.bytes, FAKE_DEVICE_ADDRESS(&values[4]));
        assert_int_equal(x.place.type, GPU);
        assert_int_equal(x.tensor.shape[0], 3);
        assert_int_equal(x.tensor.n_bytes, 12);
        assert_null(kit_memory_run(&memory));
        assert_int_equal(fake.n_copy_calls, 0);
        kit_batch_close(&batch);
}

/* On another device, at an address for no wide load, or in two pieces. */
static void test_one_input_that_is_copied(void **state) {
        static const struct {
                int     first;
                int64_t id;
                bool    is_cut;
        } rows[] = { { 4, 1, false }, { 3, 0, false }, { 4, 0, true } };
        struct kit_gathered_on x;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct TRITONBACKEND_Input *input = add_rows(0, 2, rows[i].first, GPU, rows[i].id);

                if (rows[i].is_cut) {
                        input->pieces[1] = FAKE_DEVICE_ADDRESS(&values[9]);
                        input->piece_bytes[0] = input->piece_bytes[1] = 4;
                        input->n_pieces = 2;
                }
                open_batch(1);
                gather(&x);
                assert_ptr_equal(x.tensor.bytes, device.bytes);
                assert_null(kit_memory_run(&memory));
                assert_int_equal(of_gpu(x.tensor.bytes)[0], values[rows[i].first]);
                assert_int_equal(of_gpu(x.tensor.bytes)[1],
                                 rows[i].is_cut ? 19 : values[rows[i].first + 1]);
                kit_batch_close(&batch);
                fake_reset(&requests[0]);
                memset(&requests[0], 0, sizeof(requests[0]));
        }
        assert_int_equal(fake.n_copies, 4);
}

static void test_host_inputs_stay(void **state) {
        struct kit_gathered_on x;

        (void)state;
        add_rows(0, 1, 3, CPU, 0);
        add_rows(1, 2, 6, CPU, 0);
        open_batch(2);
        gather(&x);
        assert_int_equal(x.place.type, CPU);
        assert_int_equal(x.tensor.shape[0], 3);
        assert_int_equal(((const int32_t *)x.tensor.bytes)[2], 17);
        assert_int_equal(memory.n_copies, 0);
        kit_batch_close(&batch);
}

/* An input without bytes is nowhere. */
static void test_no_bytes(void **state) {
        struct kit_gathered_on x;

        (void)state;
        add_rows(0, 1, 4, GPU, 0)->piece_bytes[0] = 0;
        add_rows(1, 1, 6, CPU, 0);
        open_batch(2);
        gather(&x);
        assert_int_equal(x.place.type, CPU);
        assert_int_equal(x.tensor.n_bytes, 4);
        kit_batch_close(&batch);
}

static void test_mixed_inputs(void **state) {
        static const int32_t   expected[] = { 13, 16, 17, 20 };
        struct kit_gathered_on x;

        (void)state;
        add_rows(0, 1, 3, CPU, 0);
        add_rows(1, 2, 6, GPU, 0);
        add_rows(2, 1, 10, GPU, 1);
        open_batch(3);
        gather(&x);
        assert_ptr_equal(x.tensor.bytes, device.bytes);
        assert_int_equal(x.place.type, GPU);
        assert_int_equal(x.tensor.shape[0], 4);
        assert_int_equal(fake.n_copy_calls, 0);
        assert_null(kit_memory_run(&memory));
        assert_int_equal(fake.n_copy_calls, 1);
        assert_memory_equal(of_gpu(x.tensor.bytes), expected, sizeof(expected));
        kit_batch_close(&batch);
}

static void test_strings_on_a_gpu(void **state) {
        struct kit_gathered_on x;
        TRITONSERVER_Error    *err;

        (void)state;
        add_rows(0, 1, 4, GPU, 0)->type = TRITONSERVER_TYPE_BYTES;
        open_batch(1);
        err = kit_gather_on(&batch, "X", &host, &device, &x);
        assert_string_equal(TRITONSERVER_ErrorMessage(err),
                            "input 'X' has strings in GPU memory, which this backend cannot read");
        TRITONSERVER_ErrorDelete(err);
        kit_batch_close(&batch);
}

/* ---- outputs -------------------------------------------------------------------------------- */

static const int64_t     shape_of_y[] = { 3, 1 };
static struct kit_output y(void) {
        return (struct kit_output){
                .name = "Y", .type = TRITONSERVER_TYPE_INT32, .shape = shape_of_y, .n_dims = 2
        };
}

static void open_three(void) {
        for (int i = 0; i < N; i++)
                add_rows(i, 1, 4 * i, GPU, 0);
        open_batch(N);
}

static void scatter(struct kit_output output) {
        kit_scatter_from(&batch, &output, FAKE_DEVICE_ADDRESS(&values[3]), &on_gpu, 12);
}

static void check(int i, int32_t expected) {
        assert_false(requests[i].responses[0].has_error);
        assert_int_equal(*(const int32_t *)fake_output(&requests[i], "Y")->bytes, expected);
}

static void test_scatter(void **state) {
        (void)state;
        for (int to_gpu = 0; to_gpu < 2; to_gpu++) {
                fake.output_type = to_gpu ? GPU : CPU;
                fake.output_id = to_gpu; /* another one */
                fake.n_copy_calls = 0;
                open_three();
                scatter(y());
                assert_int_equal(fake.preferred_type, GPU);
                assert_int_equal(fake.preferred_id, 0);
                assert_int_equal(fake.n_copy_calls, 0);
                kit_memory_finish(&memory, &batch);
                assert_int_equal(fake.n_copy_calls, 1);
                kit_batch_close(&batch);
                for (int i = 0; i < N; i++) {
                        check(i, values[3 + i]);
                        fake_reset(&requests[i]);
                        memset(&requests[i], 0, sizeof(requests[i]));
                }
        }
}

static void test_failed_copy(void **state) {
        (void)state;
        fake.output_type = GPU;
        open_three();
        scatter(y());
        fake.fail_copy_from = (uintptr_t)FAKE_DEVICE_ADDRESS(&values[4]);
        kit_memory_finish(&memory, &batch);
        assert_int_equal(batch.n_live, 2);
        assert_int_equal(memory.n_copies, 0);
        kit_batch_close(&batch);
        check(0, values[3]);
        assert_string_equal(requests[1].responses[0].message, "the copy failed");
        check(2, values[5]);
}

/* The second output of a slot has no memory, so that the slot is answered: the bytes of its first one must not be
 * written after that, and its state must not be committed. */
static void test_slot_that_fails_after_a_copy_was_collected(void **state) {
        struct kit_output next = y(), z = y();

        (void)state;
        z.name = "Z";
        next.is_state = true;
        fake.output_type = GPU;
        open_three();
        requests[1].outputs[requests[1].n_outputs++] = "Z";
        scatter(y());
        scatter(next);
        fake.fail_output = "Z";
        scatter(z);
        assert_int_equal(batch.n_live, 2);
        memset(fake_output(&requests[1], "Y")->bytes, 0x55, 4);
        kit_memory_finish(&memory, &batch);
        assert_int_equal(*(const int32_t *)fake_output(&requests[1], "Y")->bytes, 0x55555555);
        assert_false(requests[1].states[0].is_committed);
        kit_batch_close(&batch);
        check(0, values[3]);
        check(2, values[5]);
        assert_true(requests[2].states[0].is_committed);
}

/* A state is committed after its bytes have arrived, and not at all when they have not. */
static void test_states(void **state) {
        struct kit_output next = y();

        (void)state;
        fake.output_type = GPU;
        next.is_state = true;
        open_three();
        scatter(next);
        assert_false(requests[0].states[0].is_committed);
        fake.fail_copy_from = (uintptr_t)FAKE_DEVICE_ADDRESS(&values[5]);
        kit_memory_finish(&memory, &batch);
        kit_batch_close(&batch);
        assert_true(requests[0].states[0].is_committed);
        assert_int_equal(*(const int32_t *)requests[1].states[0].value.bytes, values[4]);
        assert_false(requests[2].states[0].is_committed);
        assert_true(requests[2].responses[0].has_error);
}

/* Bytes of the host are copied at once; the state waits for the others. */
static void test_host_values(void **state) {
        static const struct kit_place on_host = { CPU, 0 };
        struct kit_output             next = y();

        (void)state;
        next.is_state = true;
        open_three();
        kit_scatter_from(&batch, &next, &values[3], &on_host, 12);
        assert_int_equal(*(const int32_t *)requests[2].states[0].value.bytes, values[5]);
        kit_memory_finish(&memory, &batch);
        assert_true(requests[2].states[0].is_committed);
        assert_int_equal(fake.n_copy_calls, 0);
        kit_batch_close(&batch);
}

static void test_strings_for_a_gpu(void **state) {
        static const size_t             offsets[] = { 0, 1, 3 };
        const struct kit_packed_strings strings = { "abcdef", offsets, 3, 6 };
        struct kit_output               text = y();

        (void)state;
        fake.output_type = GPU;
        text.type = TRITONSERVER_TYPE_BYTES;
        open_three();
        fake.preferred_type = GPU;
        kit_scatter_strings(&batch, &text, &strings);
        assert_int_equal(fake.preferred_type, CPU);
        kit_batch_close(&batch);
        assert_memory_equal(fake_output(&requests[1], "Y")->bytes, "\2\0\0\0bc", 6);
}

/* Parts of a flat tensor, by the shapes of an input. */
static void test_cut_output(void **state) {
        int64_t                 dims[] = { 1 };
        const struct kit_tensor target = {
                .name = "Y", .type = TRITONSERVER_TYPE_INT32, .dims = dims, .n_dims = 1
        };
        const struct kit_batch_output output = { &target, "X" };
        struct kit_output             made = y();

        (void)state;
        made.n_dims = 1;
        fake.output_type = GPU;
        open_three();
        assert_null(kit_batch_output_scatter_from(&output, &batch, &made,
                                                  FAKE_DEVICE_ADDRESS(&values[3]), &on_gpu));
        kit_memory_finish(&memory, &batch);
        kit_batch_close(&batch);
        for (int i = 0; i < N; i++)
                check(i, values[3 + i]);
}

static void add_copies(int32_t *to) {
        for (int i = 0; i < 100; i++) {
                const struct kit_copy copy = {
                        .to = FAKE_DEVICE_ADDRESS(&to[i]),
                        .from = &values[i % 12],
                        .n_bytes = 4,
                        .to_place = on_gpu,
                        .from_place = { CPU, 0 },
                };

                assert_null(kit_memory_copy(&memory, &copy, NULL, NULL));
        }
}

/* More copies than the first room has, and what is dropped is not made. */
static void test_many_copies(void **state) {
        static int32_t to[100];

        (void)state;
        add_copies(to);
        kit_memory_drop(&memory);
        assert_null(kit_memory_run(&memory));
        assert_int_equal(to[0], 0);
        add_copies(to);
        assert_null(kit_memory_run(&memory));
        for (int i = 0; i < 100; i++)
                assert_int_equal(to[i], values[i % 12]);
}

SUITE(kit_memory) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(test_one_input_where_it_lies),
                TEST(test_one_input_that_is_copied),
                TEST(test_host_inputs_stay),
                TEST(test_no_bytes),
                TEST(test_mixed_inputs),
                TEST(test_strings_on_a_gpu),
                TEST(test_scatter),
                TEST(test_failed_copy),
                TEST(test_slot_that_fails_after_a_copy_was_collected),
                TEST(test_states),
                TEST(test_host_values),
                TEST(test_strings_for_a_gpu),
                TEST(test_cut_output),
                TEST(test_many_copies),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
