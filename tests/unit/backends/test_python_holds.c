/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server keeps of tensors on GPUs while a Python process has them open. */
#include "suite.h"

#include "fake_server.h"
#include "python/holds.h"

#include <string.h>

static struct backend               backend;
static struct model                 model = { .backend = &backend };
static struct instance              instance;
static struct entry                 entry;
static struct TRITONBACKEND_Request request;
static const char                   first[8] = "first", second[8] = "second";

static int set_up(void **state) {
        (void)state;
        memset(&backend, 0, sizeof(backend));
        memset(&instance, 0, sizeof(instance));
        memset(&request, 0, sizeof(request));
        model.takes_in_place = false;
        instance.model = &model;
        (void)pthread_mutex_init(&instance.lock, NULL);
        entry = (struct entry){ .instance = &instance, .handle = 7, .request = &request };
        return 0;
}

static int tear_down(void **state) {
        (void)state;
        holds_end_all(&instance);
        return instance.holds == NULL ? 0 : -1;
}

/* The entry's request has one input, of 8 bytes on GPU 0. */
static struct hold *add(const char *memory) {
        struct hold *hold = hold_new(&model, 1);

        assert_non_null(hold);
        hold->inputs[0] = (struct held_input){ .memory = memory, .n_bytes = 8 };
        holds_add(&entry, hold);
        return hold;
}

/* NULL when it is not held. */
static const void *find(uint64_t number, uint32_t input, uint64_t offset, uint64_t n_bytes) {
        const struct shm_device place = { .hold = number, .input = input, .offset = offset };
        struct device_bytes     found = { .bytes = NULL };

        holds_leave(&instance, holds_find(&instance, &place, n_bytes, &found));
        return found.bytes;
}

/* The process may keep a tensor for as long as it likes, and the handle of its request returns meanwhile. */
static void test_kept_while_its_handle_is_used_again(void **state) {
        uint64_t a, b;

        (void)state;
        a = add(first)->number;
        assert_false(holds_release(&entry, 0));
        b = add(second)->number;
        assert_ptr_equal(find(a, 0, 0, 8), first);
        assert_ptr_equal(find(b, 0, 0, 8), second);
        holds_on_dropped(&instance, a);
        assert_null(find(a, 0, 0, 8));
        assert_ptr_equal(find(b, 0, 0, 8), second);
        assert_ptr_equal(entry.hold, instance.holds);
        holds_on_dropped(&instance, b);
        assert_null(entry.hold);
        assert_null(instance.holds);
}

/* The process names what it likes. */
static void test_places_that_are_none(void **state) {
        uint64_t a;

        (void)state;
        a = add(first)->number;
        assert_ptr_equal(find(a, 0, 3, 5), first + 3);
        assert_null(find(a, 0, 3, 6));
        assert_null(find(a, 0, 9, 0));
        assert_null(find(a, 0, UINT64_MAX, 2));
        assert_null(find(a, 1, 0, 1));
        assert_null(find(a, SHM_NO_INDEX, 0, 1));
        assert_null(find(a + 1, 0, 0, 1));
        assert_null(find(0, 0, 0, 1));
        holds_on_dropped(&instance, a + 1);
        assert_ptr_equal(find(a, 0, 0, 8), first);
}

/* A call reads the input, which is the request's own: the request is released after it. */
static void test_in_place(void **state) {
        struct shm_device   place = { .hold = 0 };
        struct device_bytes found;
        struct hold        *used;

        (void)state;
        model.takes_in_place = true;
        request.was_reported = true;
        place.hold = add(first)->number;
        used = holds_find(&instance, &place, 8, &found);
        assert_non_null(used);
        assert_true(holds_release(&entry, TRITONSERVER_REQUEST_RELEASE_ALL));
        assert_null(entry.request);
        assert_null(instance.holds);
        assert_false(request.is_released);
        holds_leave(&instance, used);
        assert_true(request.is_released);
}

/* Nothing would end the hold of a call that is answered after its process has ended. */
static void test_output_after_the_end(void **state) {
        struct session      session = { .is_over = true };
        struct shm_device   place = { .hold = 0 };
        char                memory[8];
        TRITONSERVER_Error *err = holds_add_output(&instance, &session, 0, memory, 8, &place);

        (void)state;
        assert_string_equal(TRITONSERVER_ErrorMessage(err), "the Python process has ended");
        TRITONSERVER_ErrorDelete(err);
        assert_null(instance.holds);
}

SUITE(python_holds) {
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(test_kept_while_its_handle_is_used_again),
                TEST(test_places_that_are_none),
                TEST(test_in_place),
                TEST(test_output_after_the_end),
#undef TEST
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
