/* SPDX-License-Identifier: BSD-3-Clause */
/* States of sequences in the memory of devices. */
#include "suite.h"

#include "base/byte_budget.h"
#include "config/state_specs.h"
#include "gpu/fake_gpus.h"
#include "infer/fake_model.h"
#include "infer/implicit_state.h"

#define VIRTUAL_BYTES (8 << 20)

static struct fake_gpus cuda;

static int64_t four[] = { 4 };
static int32_t first[] = { 5, 6, 7, 8 };

enum { TURNS, IN_PLACE, GROWS, N_STATES };

#define STATE(name, ...)                                                                           \
        {                                                                                          \
                .input_name = name "_IN", .output_name = name, .type = DATA_TYPE_INT32,            \
                .n_dims = 1, .dims = four, .n_bytes = 16, __VA_ARGS__                              \
        }

static struct state_spec specs[N_STATES] = {
        STATE("TURNS", .initial = first),
        STATE("IN_PLACE", .initial = first, .is_in_place = true),
        STATE("GROWS", .is_in_place = true, .is_growable = true),
};

struct place {
        struct byte_budget      budget;
        struct state_specs      specs;
        struct fake_model      *fake;
        struct request         *req;
        struct implicit_states *states;
};

/* A sequence of a model whose instances are on GPUs. */
static void open_place(struct place *p, uint64_t pool_bytes) {
        const struct gpu_bytes pools[] = { { 0, pool_bytes }, { 1, pool_bytes } };
        const struct gpu_bytes virtual_sizes[] = { { 0, VIRTUAL_BYTES }, { 1, VIRTUAL_BYTES } };
        struct gpus_options    options = fake_gpus_options();

        options.pools = pools;
        options.virtual_sizes = virtual_sizes;
        options.n_virtual_sizes = 2;
        fake_gpus_open(&cuda, &options);
        byte_budget_init(&p->budget, 1 << 20);
        p->specs = (struct state_specs){
                .states = specs, .n = N_STATES, .budget = &p->budget, .gpus = cuda.gpus
        };
        p->fake = fake_model_new("name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "
                                 "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } ");
        p->fake->model.gpus = cuda.gpus;
        p->fake->model.takes_device_memory = true;
        p->fake->model.device = GPU_SEVERAL;
        p->req = fake_request(p->fake);
        p->states = implicit_states_new(&p->specs, STATES_OF_SEQUENCE);
        assert_non_null(p->states);
}

static void close_place(struct place *p) {
        implicit_states_free(p->states);
        assert_int_equal(byte_budget_used(&p->budget), 0);
        for (int device = GPU_HOST; device < 2; device++)
                assert_int_equal(gpu_pool_usage(cuda.gpus, device).used_bytes, 0);
        request_free(p->req);
        fake_model_free(p->fake);
        fake_gpus_close(&cuda);
}

static void next_request(struct place *p, int device) {
        implicit_states_detach(p->req);
        assert_ok(implicit_states_bring(p->states, &p->fake->model, device), "bring");
        implicit_states_attach(p->states, p->req);
}

static const struct input_chunk *value_of(const struct place *p, unsigned i) {
        const struct request_input *in = request_find_input(p->req, specs[i].input_name);

        assert_non_null(in);
        assert_int_equal(in->byte_size, in->first_chunk->attributes.byte_size);
        return in->first_chunk;
}

/* The value is in that memory, and is these numbers. `device`: GPU_HOST for memory of the host. */
static const void *assert_value(const struct place *p, unsigned i, int device,
                                const int32_t *numbers, size_t n) {
        const struct input_chunk *c = value_of(p, i);
        int32_t                   found[8];

        assert_int_equal(c->attributes.byte_size, n * sizeof(*numbers));
        assert_int_equal(c->attributes.memory_type == MEMORY_GPU, device >= 0);
        if (device >= 0) {
                assert_int_equal(c->attributes.memory_id, device);
                assert_int_equal(cuda.fake_cuda_read(found, (uintptr_t)c->base, n * sizeof(*found)),
                                 0);
        } else {
                memcpy(found, c->base, n * sizeof(*found));
        }
        assert_memory_equal(found, numbers, n * sizeof(*found));
        return c->base;
}

/* Asks for memory of the device, and does not write it. */
static struct error *get_buffer(struct place *p, unsigned i, int device, size_t n_bytes,
                                struct implicit_state **ret, void **ret_bytes) {
        enum memory_type type = device >= 0 ? MEMORY_GPU : MEMORY_CPU;
        int64_t          id = device >= 0 ? device : 0, dim = (int64_t)n_bytes / 4;

        assert_ok(implicit_state_new(p->req, specs[i].output_name, DATA_TYPE_INT32, &dim, 1, ret),
                  "state");
        TRY(implicit_state_buffer(*ret, n_bytes, &type, &id, ret_bytes));
        assert_int_equal(implicit_state_attributes(*ret)->memory_type, type);
        assert_int_equal(implicit_state_attributes(*ret)->memory_id, id);
        assert_int_equal(implicit_state_attributes(*ret)->byte_size, n_bytes);
        return NULL;
}

/* As a backend that writes its states on the device. Returns where. */
static void *write_value(struct place *p, unsigned i, int device, const int32_t *numbers,
                         size_t n) {
        struct implicit_state *state;
        void                  *bytes;

        assert_ok(get_buffer(p, i, device, n * sizeof(*numbers), &state, &bytes), "buffer");
        assert_int_equal(implicit_state_attributes(state)->memory_type, MEMORY_GPU);
        assert_int_equal(cuda.fake_cuda_write((uintptr_t)bytes, numbers, n * sizeof(*numbers)), 0);
        assert_ok(implicit_state_update(state), "update");
        return bytes;
}

static const int32_t zeros[4];
static const int32_t second[] = { 1, 2, 3, 4 };
static const int32_t third[] = { 9, 8, 7, 6, 5, 4 };

/* Initial values come from the host; a state in place is on the device from the beginning. */
static void test_first_values(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 1);
        assert_value(&p, TURNS, GPU_HOST, first, 4);
        assert_value(&p, IN_PLACE, 1, first, 4);
        assert_value(&p, GROWS, 1, zeros, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* Values stay where they were written; nothing is copied between requests on one device. */
static void test_one_device(void **state) {
        struct gpu_traffic before, after;
        const void        *a, *b, *place, *growing;
        struct place       p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        place = value_of(&p, IN_PLACE)->base;
        growing = value_of(&p, GROWS)->base;
        before = gpus_traffic(cuda.gpus);
        a = write_value(&p, TURNS, 0, second, 4);
        assert_ptr_equal(write_value(&p, IN_PLACE, 0, second, 4), place);
        assert_ptr_equal(write_value(&p, GROWS, 0, second, 4), growing);
        assert_value(&p, TURNS, GPU_HOST, first, 4); /* this request reads the old one */
        next_request(&p, 0);
        assert_ptr_equal(assert_value(&p, TURNS, 0, second, 4), a);
        b = write_value(&p, TURNS, 0, third, 4);
        assert_ptr_not_equal(a, b);
        next_request(&p, 0);
        assert_ptr_equal(assert_value(&p, TURNS, 0, third, 4), b);
        assert_ptr_equal(write_value(&p, TURNS, 0, second, 4), a);
        next_request(&p, 0);
        assert_ptr_equal(assert_value(&p, IN_PLACE, 0, second, 4), place);
        assert_ptr_equal(assert_value(&p, GROWS, 0, second, 4), growing);
        after = gpus_traffic(cuda.gpus);
        assert_memory_equal(&before, &after, sizeof(before));
        implicit_states_detach(p.req);
        close_place(&p);
}

/* The next instance is on another device, or reads the host alone. */
static void test_moves(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        for (unsigned i = 0; i < N_STATES; i++)
                write_value(&p, i, 0, second, 4);
        next_request(&p, 1);
        for (unsigned i = 0; i < N_STATES; i++)
                assert_value(&p, i, 1, second, 4);
        assert_int_equal(gpu_pool_usage(cuda.gpus, 0).used_bytes, 0);
        write_value(&p, TURNS, 1, third, 6);
        write_value(&p, GROWS, 1, third, 6);
        implicit_states_detach(p.req);
        p.fake->model.takes_device_memory = false;
        next_request(&p, 0);
        assert_value(&p, TURNS, GPU_HOST, third, 6);
        assert_value(&p, IN_PLACE, GPU_HOST, second, 4);
        assert_value(&p, GROWS, GPU_HOST, third, 6);
        assert_int_equal(gpu_pool_usage(cuda.gpus, 1).used_bytes, 0);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* A backend that looks at memory types, and has no instance on a GPU, reads any of it. */
static void test_any_device(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        write_value(&p, TURNS, 1, second, 4);
        implicit_states_detach(p.req);
        p.fake->model.device = GPU_HOST;
        next_request(&p, GPU_HOST);
        assert_value(&p, TURNS, 1, second, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* What counts is the device of the instance, whatever the model has. */
static void test_the_only_device(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        p.fake->model.device = 1;
        next_request(&p, 1);
        assert_value(&p, IN_PLACE, 1, first, 4);
        next_request(&p, 0);
        assert_value(&p, IN_PLACE, 0, first, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* use_growable_memory: the address stays while the value grows, and what was written as well. */
static void test_grows(void **state) {
        const void  *growing;
        struct place p;
        int32_t      numbers[4];

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        growing = value_of(&p, GROWS)->base;
        write_value(&p, GROWS, 0, second, 4);
        for (size_t n_bytes = 64; n_bytes <= VIRTUAL_BYTES; n_bytes *= 4) {
                struct implicit_state *s;
                void                  *bytes;

                next_request(&p, 0);
                assert_ok(get_buffer(&p, GROWS, 0, n_bytes, &s, &bytes), "larger");
                assert_ptr_equal(bytes, growing);
                assert_int_equal(cuda.fake_cuda_read(numbers, (uintptr_t)bytes, 16), 0);
                assert_memory_equal(numbers, second, 16);
                assert_int_equal(cuda.fake_cuda_write((uintptr_t)bytes + n_bytes - 16, second, 16),
                                 0);
                assert_ok(implicit_state_update(s), "update");
        }
        implicit_states_detach(p.req);
        close_place(&p);
}

static void test_grows_too_far(void **state) {
        struct implicit_state *s;
        struct place           p;
        void                  *bytes;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        write_value(&p, GROWS, 0, second, 4);
        next_request(&p, 0);
        assert_gpu_error(get_buffer(&p, GROWS, 0, 2 * VIRTUAL_BYTES, &s, &bytes), ERR_UNAVAILABLE,
                         "state 'GROWS': ");
        next_request(&p, 0);
        assert_value(&p, GROWS, 0, second, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* A value in place that goes to another kind of memory takes the old value along. */
static void test_in_place_elsewhere(void **state) {
        struct implicit_state *s;
        struct place           p;
        int32_t                numbers[4];
        void                  *bytes;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        assert_ok(get_buffer(&p, IN_PLACE, 1, 16, &s, &bytes), "other device");
        assert_int_equal(cuda.fake_cuda_read(numbers, (uintptr_t)bytes, 16), 0);
        assert_memory_equal(numbers, first, 16);
        assert_ok(get_buffer(&p, IN_PLACE, GPU_HOST, 16, &s, &bytes), "host");
        assert_memory_equal(bytes, first, 16);
        implicit_states_detach(p.req);
        close_place(&p);
}

static void test_unknown_device(void **state) {
        struct implicit_state *s;
        struct place           p;
        void                  *bytes;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        assert_gpu_error(get_buffer(&p, TURNS, 7, 16, &s, &bytes), ERR_INVALID_ARG,
                         "memory of GPU 7 was asked for, but the server uses the GPUs 0,1");
        implicit_states_detach(p.req);
        close_place(&p);
}

/* Then the value is in pinned memory, which the answer says, and later on the device again. */
static void test_device_without_room(void **state) {
        struct implicit_state *s;
        struct place           p;
        enum memory_type       type = MEMORY_GPU;
        int64_t                id = 0;
        void                  *bytes;

        (void)state;
        open_place(&p, 0);
        next_request(&p, 0);
        cuda.fake_cuda_set("FAIL", "cuMemAlloc_v2:1+");
        assert_ok(implicit_state_new(p.req, "TURNS", DATA_TYPE_INT32, four, 1, &s), "state");
        assert_ok(implicit_state_buffer(s, 16, &type, &id, &bytes), "buffer");
        assert_int_equal(type, MEMORY_CPU_PINNED);
        assert_int_equal(id, 0);
        memcpy(bytes, second, 16);
        assert_ok(implicit_state_update(s), "update");
        next_request(&p, 0);
        assert_value(&p, TURNS, GPU_HOST, second, 4);
        cuda.fake_cuda_set("FAIL", NULL);
        write_value(&p, TURNS, 0, third, 4);
        next_request(&p, 0);
        assert_value(&p, TURNS, 0, third, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* An instance of KIND_MODEL beside others on several GPUs: its backend reads the values where they are. */
static void test_instance_on_no_gpu(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 1);
        write_value(&p, TURNS, 1, second, 4);
        write_value(&p, IN_PLACE, 1, second, 4);
        next_request(&p, GPU_HOST);
        assert_value(&p, TURNS, 1, second, 4);
        assert_value(&p, IN_PLACE, 1, second, 4);
        p.fake->model.device = 0; /* the others are on another GPU */
        next_request(&p, GPU_HOST);
        assert_value(&p, TURNS, 1, second, 4);
        p.fake->model.takes_device_memory = false;
        next_request(&p, GPU_HOST);
        assert_value(&p, TURNS, GPU_HOST, second, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* An error of the driver: the values are where they were. */
static void test_move_fails(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        write_value(&p, TURNS, 0, second, 4);
        implicit_states_detach(p.req);
        cuda.fake_cuda_set("FAIL", "cuMemcpyPeerAsync:1:700");
        assert_gpu_error(implicit_states_bring(p.states, &p.fake->model, 1), ERR_UNAVAILABLE,
                         "CUDA_ERROR_ILLEGAL_ADDRESS");
        next_request(&p, 0);
        assert_value(&p, TURNS, 0, second, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* START within a sequence: the initial values are written where the last ones are. */
static void test_reset(void **state) {
        struct place p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        for (unsigned i = 0; i < N_STATES; i++)
                write_value(&p, i, 0, second, 4);
        implicit_states_detach(p.req);
        assert_ok(implicit_states_reset(p.states), "reset");
        next_request(&p, 0);
        assert_value(&p, TURNS, 0, first, 4);
        assert_value(&p, IN_PLACE, 0, first, 4);
        assert_value(&p, GROWS, 0, zeros, 4);
        implicit_states_detach(p.req);
        close_place(&p);
}

/* Zeros beside the values of the batch, on the host when the device cannot write them. */
static void test_null_requests(void **state) {
        struct implicit_states *null;
        struct place            p;

        (void)state;
        open_place(&p, 1 << 20);
        next_request(&p, 0);
        for (unsigned i = 0; i < N_STATES; i++)
                write_value(&p, i, 0, third, 6);
        next_request(&p, 0);
        null = implicit_states_new(&p.specs, STATES_OF_NULL);
        assert_true(implicit_states_imitate(null, p.states));
        implicit_states_detach(p.req);
        implicit_states_attach(null, p.req);
        for (unsigned i = 0; i < N_STATES; i++)
                assert_value(&p, i, 0, (const int32_t[6]){ 0 }, 6);
        write_value(&p, GROWS, 0, second, 4); /* is ignored */
        implicit_states_detach(p.req);
        assert_true(implicit_states_imitate(null, p.states));
        cuda.fake_cuda_set("FAIL", "cuMemsetD8Async:1+");
        assert_true(implicit_states_imitate(null, p.states));
        implicit_states_attach(null, p.req);
        assert_value(&p, TURNS, 0, (const int32_t[6]){ 0 }, 6); /* as they were */
        assert_value(&p, GROWS, GPU_HOST, (const int32_t[6]){ 0 }, 6);
        implicit_states_detach(p.req);
        cuda.fake_cuda_set("FAIL", NULL);
        implicit_states_free(null);
        close_place(&p);
}

/* Neither the device nor the host takes the zeros: what the buffer has then is not taken for the zeros of before,
 * nor its size for theirs. */
static void test_null_request_after_failures(void **state) {
        const int32_t           some[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
        struct implicit_states *null;
        struct place            p;
        size_t                  n_left;

        (void)state;
        open_place(&p, 1 << 20);
        null = implicit_states_new(&p.specs, STATES_OF_NULL);
        next_request(&p, 1);
        write_value(&p, TURNS, 1, some, 8);
        next_request(&p, 1);
        assert_true(implicit_states_imitate(null, p.states)); /* 8 numbers on device 1 */
        write_value(&p, TURNS, 0, some, 2);
        next_request(&p, 0);
        n_left = (1 << 20) - byte_budget_used(&p.budget);
        byte_budget_force(&p.budget, n_left);
        cuda.fake_cuda_set("FAIL", "cuMemsetD8Async:1+");
        assert_false(implicit_states_imitate(null, p.states)); /* 2 numbers on device 0 */
        cuda.fake_cuda_set("FAIL", NULL);
        byte_budget_give(&p.budget, n_left);
        write_value(&p, TURNS, 0, some, 8);
        next_request(&p, 0);
        assert_true(implicit_states_imitate(null, p.states)); /* 8 numbers on device 0 */
        implicit_states_detach(p.req);
        implicit_states_attach(null, p.req);
        assert_value(&p, TURNS, 0, (const int32_t[8]){ 0 }, 8);
        implicit_states_detach(p.req);
        implicit_states_free(null);
        close_place(&p);
}

SUITE(device_states) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_values),
                cmocka_unit_test(test_one_device),
                cmocka_unit_test(test_moves),
                cmocka_unit_test(test_any_device),
                cmocka_unit_test(test_the_only_device),
                cmocka_unit_test(test_grows),
                cmocka_unit_test(test_grows_too_far),
                cmocka_unit_test(test_in_place_elsewhere),
                cmocka_unit_test(test_unknown_device),
                cmocka_unit_test(test_device_without_room),
                cmocka_unit_test(test_instance_on_no_gpu),
                cmocka_unit_test(test_move_fails),
                cmocka_unit_test(test_reset),
                cmocka_unit_test(test_null_requests),
                cmocka_unit_test(test_null_request_after_failures),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
