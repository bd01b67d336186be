/* SPDX-License-Identifier: BSD-3-Clause */
/* An output of a composed model's last step, in memory from the client's allocator. */
#include "suite.h"

#include "base/buf.h"
#include "infer/fake_model.h"
#include "infer/inner_request.h"
#include "pipeline/client_memory.h"

#define CONFIG                                                                                     \
        "name: \"m\" input { name: \"I\" data_type: TYPE_INT32 dims: 2 } "                         \
        "output { name: \"O\" data_type: TYPE_INT32 dims: 2 }"

/* What the client's allocator returns, and its arguments. */
static struct client {
        int32_t          bytes[2]; /* memory that it returns */
        int              note;     /* &note is its userp for the buffer */
        struct error    *failure;  /* owned; returned instead of memory */
        char             name[16];
        size_t           byte_size;
        enum memory_type type;
        int64_t          id;
        unsigned         n_given;
        unsigned         n_released;
        unsigned         n_described;
} client;

/* Has the signature of allocator_alloc_fn. */
static struct error *give(struct response_allocator *allocator, const char *tensor,
                          size_t byte_size, enum memory_type type, int64_t id, void *userp,
                          void **buffer, void **buffer_userp, enum memory_type *actual_type,
                          int64_t *actual_id) {
        (void)allocator;
        assert_ptr_equal(userp, &client);
        if (client.failure != NULL)
                return STEAL(client.failure);
        assert_true(strlen(tensor) < sizeof(client.name));
        strcpy(client.name, tensor);
        client.byte_size = byte_size;
        client.type = type;
        client.id = id;
        client.n_given++;
        *buffer = client.bytes;
        *buffer_userp = &client.note;
        *actual_type = MEMORY_CPU_PINNED;
        *actual_id = 7;
        return NULL;
}

static struct error *take_back(struct response_allocator *allocator, void *buffer,
                               void *buffer_userp, size_t byte_size, enum memory_type type,
                               int64_t id) {
        (void)allocator;
        assert_ptr_equal(buffer, client.bytes);
        assert_ptr_equal(buffer_userp, &client.note);
        assert_int_equal(byte_size, sizeof(client.bytes));
        assert_int_equal(type, MEMORY_CPU_PINNED);
        assert_int_equal(id, 7);
        client.n_released++;
        return NULL;
}

/* Has the signature of allocator_attributes_fn. */
static struct error *describe(struct response_allocator *allocator, const char *tensor,
                              struct buffer_attributes *a, void *userp, void *buffer_userp) {
        (void)allocator;
        assert_string_equal(tensor, "O");
        assert_ptr_equal(userp, &client);
        assert_ptr_equal(buffer_userp, &client.note);
        a->memory_id++;
        client.n_described++;
        return NULL;
}

static struct error *start(struct response_allocator *allocator, void *userp) {
        (void)allocator;
        (void)userp;
        return NULL;
}

static const struct response_allocator of_client = { .alloc = give, .release = take_back };
static const struct response_allocator with_attributes = { .alloc = give,
                                                           .release = take_back,
                                                           .attributes = describe };
static const struct response_allocator no_release = { .alloc = give };
static const struct response_allocator with_start = { .alloc = give, .start = start };

/* The composed model's allocator. */
static struct run {
        struct request *outer;
        bool            is_for_client;
} run;

/* Has the signature of allocator_redirect_fn. */
static bool redirect(void *userp, const char *tensor, struct memory_origin *ret) {
        assert_ptr_equal(userp, &run);
        assert_string_equal(tensor, "O");
        if (run.is_for_client)
                *ret = client_memory_of(run.outer, "outer");
        return run.is_for_client;
}

/* Has the signature of allocator_alloc_fn. */
static struct error *allocate(struct response_allocator *allocator, const char *tensor,
                              size_t byte_size, enum memory_type type, int64_t id, void *userp,
                              void **buffer, void **buffer_userp, enum memory_type *actual_type,
                              int64_t *actual_id) {
        struct buf *b = buf_new(NULL, byte_size);

        (void)allocator;
        (void)tensor;
        (void)type;
        (void)id;
        assert_ptr_equal(userp, &run);
        assert_non_null(b);
        *buffer = b->bytes;
        *buffer_userp = b;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static const struct response_allocator of_run = { .alloc = allocate,
                                                  .release = inner_output_release,
                                                  .redirect = redirect };

struct fixture {
        struct fake_model      *fake;
        struct request         *inner;
        struct response        *from; /* output of the inner request */
        struct response_output *output;
};

static void fixture_open(struct fixture *l, const struct response_allocator *allocator) {
        const int64_t two = 2;

        client = (struct client){ 0 };
        l->fake = fake_model_new(CONFIG);
        run = (struct run){ .outer = fake_request(l->fake), .is_for_client = true };
        run.outer->allocator = allocator;
        run.outer->allocator_userp = &client;
        l->inner = fake_request(l->fake);
        l->inner->allocator = &of_run;
        l->inner->allocator_userp = &run;
        assert_ok(response_new(l->inner, &l->from), "response");
        assert_ok(response_add_output(l->from, "O", DATA_TYPE_INT32, &two, 1, &l->output), "O");
}

static void fixture_close(struct fixture *l) {
        response_free(l->from);
        request_free(l->inner);
        request_free(run.outer);
        fake_model_free(l->fake);
}

/* Memory into which the step writes. */
static struct error *fixture_buffer(struct fixture *l, void **ret) {
        enum memory_type type = MEMORY_CPU;
        int64_t          id = 3;

        return response_output_buffer(l->output, sizeof(client.bytes), &type, &id, ret);
}

/* The client's response owns the memory afterwards, and the step's response returns nothing. */
static void test_handed_over(void **state) {
        struct response        *to;
        struct response_output *o;
        struct error           *err = NULL;
        struct fixture          l;
        const int64_t           two = 2;
        void                   *bytes;

        (void)state;
        fixture_open(&l, &of_client);
        assert_ok(fixture_buffer(&l, &bytes), "buffer");
        assert_ptr_equal(bytes, client.bytes);
        assert_string_equal(client.name, "outer");
        assert_int_equal(client.byte_size, sizeof(client.bytes));
        assert_int_equal(client.type, MEMORY_CPU);
        assert_int_equal(client.id, 3);
        assert_int_equal(l.output->attributes.memory_type, MEMORY_CPU_PINNED);
        assert_int_equal(l.output->attributes.memory_id, 7);

        assert_ok(response_new(run.outer, &to), "response");
        assert_ok(response_add_output(to, "O", DATA_TYPE_INT32, &two, 1, &o), "O");
        assert_true(client_memory_hand_over(o, l.output, &err));
        assert_null(err);
        assert_ptr_equal(o->base, client.bytes);
        assert_ptr_equal(o->userp, &client.note);
        assert_int_equal(o->byte_size, sizeof(client.bytes));
        assert_int_equal(o->attributes.memory_type, MEMORY_CPU_PINNED);
        assert_true(o->has_buffer);
        assert_false(l.output->has_buffer);

        response_free(STEAL(l.from));
        assert_int_equal(client.n_released, 0);
        response_free(to);
        assert_int_equal(client.n_released, 1);
        fixture_close(&l);
}

/* The client's function for the attributes of its buffers is called once, for the client's own output. */
static void test_attributes(void **state) {
        struct response        *to;
        struct response_output *o;
        struct error           *err = NULL;
        struct fixture          l;
        const int64_t           two = 2;
        void                   *bytes;

        (void)state;
        fixture_open(&l, &with_attributes);
        assert_ok(fixture_buffer(&l, &bytes), "buffer");
        assert_ok(response_new(run.outer, &to), "response");
        assert_ok(response_add_output(to, "O", DATA_TYPE_INT32, &two, 1, &o), "O");
        assert_true(client_memory_hand_over(o, l.output, &err));
        assert_null(err);
        assert_int_equal(client.n_described, 1);
        assert_int_equal(o->attributes.memory_id, 8);
        o->attributes.memory_id = 7;
        response_free(to);
        assert_int_equal(client.n_released, 1);
        fixture_close(&l);
}

/* No response takes the memory: the client's allocator gets it back, with its own userp, also when
 * the requests are gone. */
static void test_given_back(void **state) {
        struct fixture l;
        void          *bytes;

        (void)state;
        for (int is_late = 0; is_late < 2; is_late++) {
                fixture_open(&l, &of_client);
                assert_ok(fixture_buffer(&l, &bytes), "buffer");
                assert_int_equal(client.n_given, 1);
                if (is_late != 0) {
                        request_free(STEAL(l.inner));
                        request_free(STEAL(run.outer));
                }
                response_free(STEAL(l.from));
                assert_int_equal(client.n_released, 1);
                fixture_close(&l);
        }
}

static bool redirect_twice(void *userp, const char *tensor, struct memory_origin *ret) {
        (void)tensor;
        *ret = (struct memory_origin){ &of_run, userp, "O" };
        return true;
}

/* A composed model is the last step of another one. The memory passes through both. */
static void test_two_levels(void **state) {
        static const struct response_allocator within = { .redirect = redirect_twice };
        struct response                       *middle, *to;
        struct response_output                *o, *of_middle;
        struct error                          *err = NULL;
        struct fixture                         l;
        const int64_t                          two = 2;
        void                                  *bytes;

        (void)state;
        fixture_open(&l, &of_client);
        l.from->source.allocator = &within;
        assert_ok(fixture_buffer(&l, &bytes), "buffer");
        assert_ptr_equal(bytes, client.bytes);
        assert_ok(response_new(l.inner, &middle), "response");
        assert_ok(response_add_output(middle, "O", DATA_TYPE_INT32, &two, 1, &of_middle), "O");
        assert_true(client_memory_hand_over(of_middle, l.output, &err));
        assert_null(err);
        assert_ok(response_new(run.outer, &to), "response");
        assert_ok(response_add_output(to, "O", DATA_TYPE_INT32, &two, 1, &o), "O");
        assert_true(client_memory_hand_over(o, of_middle, &err));
        assert_null(err);
        assert_ptr_equal(o->base, client.bytes);
        assert_ptr_equal(o->userp, &client.note);
        response_free(middle);
        assert_int_equal(client.n_released, 0);
        response_free(to);
        assert_int_equal(client.n_released, 1);
        fixture_close(&l);
}

static void test_nothing_to_release(void **state) {
        struct fixture l;
        void          *bytes;

        (void)state;
        fixture_open(&l, &no_release);
        assert_ok(fixture_buffer(&l, &bytes), "buffer");
        response_free(STEAL(l.from));
        assert_int_equal(client.n_given, 1);
        assert_int_equal(client.n_released, 0);
        fixture_close(&l);
}

/* The error of the allocator is the error of the output, which then has no buffer. */
static void test_client_refuses(void **state) {
        struct fixture l;
        void          *bytes = NULL;

        (void)state;
        fixture_open(&l, &of_client);
        client.failure = error_new(ERR_UNAVAILABLE, "the client has no memory");
        assert_error(fixture_buffer(&l, &bytes), ERR_UNAVAILABLE, "the client has no memory");
        assert_null(bytes);
        assert_false(l.output->has_buffer);
        fixture_close(&l);
        assert_int_equal(client.n_released, 0);
}

/* An output in other memory: its bytes must be copied. */
static void test_not_for_the_client(void **state) {
        struct response        *to;
        struct response_output *o;
        struct error           *err = NULL;
        struct fixture          l;
        const int64_t           two = 2;
        void                   *bytes;

        (void)state;
        fixture_open(&l, &of_client);
        run.is_for_client = false;
        assert_ok(response_new(run.outer, &to), "response");
        assert_ok(response_add_output(to, "O", DATA_TYPE_INT32, &two, 1, &o), "O");
        assert_false(client_memory_hand_over(o, l.output, &err)); /* no buffer yet */
        assert_ok(fixture_buffer(&l, &bytes), "buffer");
        assert_false(client_memory_hand_over(o, l.output, &err));
        assert_null(err);
        assert_true(l.output->has_buffer);
        assert_false(o->has_buffer);
        assert_int_equal(client.n_given, 0);
        response_free(to);
        fixture_close(&l);
}

static void test_when_it_may_be_used(void **state) {
        struct fixture l;

        (void)state;
        fixture_open(&l, &of_client);
        assert_true(client_memory_is_there(run.outer));
        run.outer->allocator = &with_start;
        assert_false(client_memory_is_there(run.outer));
        run.outer->allocator = NULL;
        assert_false(client_memory_is_there(run.outer));
        fixture_close(&l);
}

SUITE(client_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_handed_over),
                cmocka_unit_test(test_attributes),
                cmocka_unit_test(test_given_back),
                cmocka_unit_test(test_two_levels),
                cmocka_unit_test(test_nothing_to_release),
                cmocka_unit_test(test_client_refuses),
                cmocka_unit_test(test_not_for_the_client),
                cmocka_unit_test(test_when_it_may_be_used),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
