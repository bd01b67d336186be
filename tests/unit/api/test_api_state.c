/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states through the backend API, of a model that has none and of one that has one. */
#include "suite.h"

#include "infer/fake_model.h"
#include "infer/implicit_state.h"
#include "triton/core/tritonbackend.h"

static void refused(TRITONSERVER_Error *err, const char *message) {
        assert_error((struct error *)err, ERR_INVALID_ARG, message);
}

static void test_model_without_states(void **state) {
        static const int64_t shape[] = { 1 };
        struct fake_model   *fake =
                fake_model_new("name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "
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

static void test_model_with_a_state(void **state) {
        static const int64_t shape[] = { 1 };
        struct fake_model   *fake = fake_model_new(
                  "name: 'm' input { name: 'A' data_type: TYPE_FP32 dims: 1 } "
                    "output { name: 'Y' data_type: TYPE_FP32 dims: 1 } sequence_batching { state { "
                    "input_name: 'S_IN' output_name: 'S' data_type: TYPE_FP32 dims: 1 } }");
        struct request         *req = request_new(&fake->model);
        TRITONBACKEND_Request  *face = (TRITONBACKEND_Request *)req;
        struct implicit_states *states =
                implicit_states_new(fake->model.states, STATES_OF_SEQUENCE);
        TRITONBACKEND_State           *made = NULL;
        TRITONSERVER_BufferAttributes *attributes = NULL;
        TRITONSERVER_MemoryType        type = TRITONSERVER_MEMORY_GPU;
        int64_t                        id = 3;
        void                          *buffer = NULL;
        size_t                         size;

        (void)state;
        implicit_states_attach(states, req);
        refused(TRITONBACKEND_StateNew(&made, face, NULL, TRITONSERVER_TYPE_FP32, shape, 1),
                "TRITONBACKEND_StateNew: argument 'name' must not be NULL");
        refused(TRITONBACKEND_StateNew(&made, face, "S_IN", TRITONSERVER_TYPE_FP32, shape, 1),
                "state 'S_IN' is not a valid state name.");
        assert_null(made);
        assert_null(TRITONBACKEND_StateNew(&made, face, "S", TRITONSERVER_TYPE_FP32, shape, 1));
        refused(TRITONBACKEND_StateBuffer(made, NULL, 4, &type, &id),
                "TRITONBACKEND_StateBuffer: argument 'buffer' must not be NULL");
        refused(TRITONBACKEND_StateUpdate(made),
                "state 'S' has no new value: TRITONBACKEND_StateBuffer comes before "
                "TRITONBACKEND_StateUpdate");
        assert_null(TRITONBACKEND_StateBuffer(made, &buffer, 4, &type, &id));
        assert_non_null(buffer);
        assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(id, 0);
        assert_null(TRITONBACKEND_StateBufferAttributes(made, &attributes));
        assert_null(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
        assert_int_equal(size, 4);
        assert_null(TRITONBACKEND_StateUpdate(made));
        implicit_states_detach(req);
        assert_ptr_equal(request_find_input(req, "S_IN"), NULL);
        implicit_states_free(states);
        request_free(req);
        fake_model_free(fake);
}

SUITE(api_state) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_model_without_states),
                cmocka_unit_test(test_model_with_a_state),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
