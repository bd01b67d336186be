/* SPDX-License-Identifier: BSD-3-Clause */
/* What the client of a decoupled model gets when there is no memory for a response that a Python process sends. */
#include "suite.h"

#include "fake_server.h"
#include "python/answer.h"
#include "python/python_instance.h"

#include <string.h>

/* The block that the process has written. */
static void *find_sent(const struct region *region, uint32_t block, uint64_t n_bytes) {
        static struct shm_answer sent;

        (void)region, (void)block, (void)n_bytes;
        return &sent;
}

#define region_find_stub_block find_sent
#include "python/execution.c"

static struct session               session;
static struct model                 model;
static struct instance              instance;
static struct TRITONBACKEND_Request request;
static uint32_t                     handle;

/* ---- the rest of the backend ---- */

TRITONSERVER_Error *answer_fill(const struct answer_source *source, uint32_t at,
                                const struct answer_wanted *wanted,
                                TRITONBACKEND_Response *response, TRITONSERVER_Error **ret_error) {
        (void)source, (void)at, (void)wanted, (void)response;
        *ret_error = NULL;
        return NULL;
}

void session_return(struct session *s, uint32_t block) {
        (void)s, (void)block;
}

/* ---- tests ---- */

static int set_up(void **state) {
        (void)state;
        memset(&instance, 0, sizeof(instance));
        memset(&request, 0, sizeof(request));
        (void)pthread_mutex_init(&instance.lock, NULL);
        instance.model = &model;
        instance.session = &session;
        instance.free_entries_head = SHM_NO_INDEX;
        handle = entry_new_locked(&instance, &request)->handle;
        return 0;
}

/* The entry is free again when the request has ended. */
static int tear_down(void **state) {
        bool has_ended = entry_find(&instance, handle) == NULL;

        (void)state;
        fake.fail_response_new = false;
        for (uint32_t i = 0; i < instance.n_entries; i++)
                free(instance.entries[i]);
        free(instance.entries);
        free(instance.next_free);
        fake_reset(&request);
        return has_ended && fake.n_errors_alive == 0 ? 0 : -1;
}

/* The execution has ended, and the sender is open. */
static void leave(void) {
        struct entry *e = entry_find(&instance, handle);

        assert_null(entry_open(e));
        e->is_executing = false;
        e->request = NULL;
}

static void send_one(uint32_t flags, bool has_memory) {
        fake.fail_response_new = !has_memory;
        execution_on_send(&instance,
                          &(struct shm_message){ .handle = handle, .value = flags, .block = 1 });
        fake.fail_response_new = false;
}

static void test_last_response(void **state) {
        (void)state;
        leave();
        send_one(0, true);
        send_one(TRITONSERVER_RESPONSE_COMPLETE_FINAL, false);
        assert_int_equal(request.n_responses, 2);
        assert_true(request.responses[0].is_sent);
        assert_false(request.responses[0].is_final);
        assert_true(request.responses[1].is_final);
}

/* A response in the middle: the client must not take the others for the whole. */
static void test_response_before_the_last(void **state) {
        (void)state;
        leave();
        send_one(0, false);
        send_one(TRITONSERVER_RESPONSE_COMPLETE_FINAL, true);
        assert_int_equal(request.n_responses, 1);
        assert_true(request.responses[0].is_final);
}

/* Within execute(), before the sender has a factory. */
static void test_while_it_executes(void **state) {
        struct entry *e = entry_find(&instance, handle);

        (void)state;
        send_one(TRITONSERVER_RESPONSE_COMPLETE_FINAL, false);
        assert_int_equal(request.n_responses, 1);
        assert_true(request.responses[0].is_final);
        assert_true(e->is_final);
        assert_ptr_equal(entry_find(&instance, handle), e);
        entry_free(e);
}

SUITE(python_send) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_last_response, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_response_before_the_last, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_while_it_executes, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
