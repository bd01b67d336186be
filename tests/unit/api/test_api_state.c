/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states through the backend API, of a model that has none. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "infer/fake_model.h"

#include "triton/core/tritonbackend.h"

static void refused(TRITONSERVER_Error *err, const char *message) {
        assert_error((struct error *)err, ERR_INVALID_ARG, message);
}

static void test_model_without_states(void **state) {
        static const int64_t shape[] = { 1 };
        struct fake_model   *fake = fake_model_new(
                "name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "
                "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } ");
        struct request        *req = request_new(&fake->model);
        TRITONBACKEND_Request *face = (TRITONBACKEND_Request *)req;
        TRITONBACKEND_State   *made = NULL;

        (void)state;
        refused(TRITONBACKEND_StateNew(&made, face, "S", TRITONSERVER_TYPE_FP32, shape, 1),
                "[request id: <id_unknown>] unable to add state 'S'. State configuration is "
                "missing for model 'm'.");
        assert_null(made);
        refused(TRITONBACKEND_StateNew(NULL, face, "S", TRITONSERVER_TYPE_FP32, shape, 1),
                "TRITONBACKEND_StateNew: argument 'state' must not be NULL");
        refused(TRITONBACKEND_StateNew(&made, face, "S", TRITONSERVER_TYPE_FP32, NULL, 1),
                "TRITONBACKEND_StateNew: argument 'shape' must not be NULL");
        refused(TRITONBACKEND_StateUpdate(NULL),
                "TRITONBACKEND_StateUpdate: argument 'state' must not be NULL");
        request_free(req);
        fake_model_free(fake);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_model_without_states),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
