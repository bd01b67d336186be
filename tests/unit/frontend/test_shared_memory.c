/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "frontend/shared_memory.h"

static void assert_refused(struct error *err, enum error_code code, const char *text) {
        assert_non_null(err);
        assert_int_equal(err->code, code);
        assert_string_equal(err->message, text);
        error_free(err);
}

static void test_find(void **state) {
        (void)state;
        assert_null(shared_memory_find("system", STR_LIT("")));
        assert_refused(shared_memory_find("system", STR_LIT("r")), ERR_NOT_FOUND,
                       "Unable to find system shared memory region: 'r'");
        assert_refused(shared_memory_find("cuda", str_range("r2", 1)), ERR_NOT_FOUND,
                       "Unable to find cuda shared memory region: 'r'");
}

static void test_change(void **state) {
        (void)state;
        assert_refused(shared_memory_refuse_change(false), ERR_UNSUPPORTED,
                       "Client shared memory is disabled. Start the server with "
                       "'--allow-client-shm=true' to enable.");
        assert_refused(shared_memory_refuse_change(true), ERR_UNSUPPORTED,
                       "shared memory is not supported yet");
}

/* Inputs are told before outputs, the first of them first. */
static void test_request(void **state) {
        struct infer_input            inputs[2] = { 0 };
        struct infer_requested_output outputs[2] = { 0 };
        struct infer_request          q = {
                         .inputs = inputs, .n_inputs = 2, .outputs = outputs, .n_outputs = 2
        };

        (void)state;
        assert_null(shared_memory_check_request(&q));
        outputs[1].shared_memory.region = "d";
        assert_refused(shared_memory_check_request(&q), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'd'");
        outputs[0].shared_memory.region = "c";
        assert_refused(shared_memory_check_request(&q), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'c'");
        inputs[1].shared_memory.region = "b";
        assert_refused(shared_memory_check_request(&q), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'b'");
        inputs[0].shared_memory.region = "";
        assert_refused(shared_memory_check_request(&q), ERR_NOT_FOUND,
                       "Unable to find shared memory region: ''");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_find),
                cmocka_unit_test(test_change),
                cmocka_unit_test(test_request),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
