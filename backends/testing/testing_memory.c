/* SPDX-License-Identifier: BSD-3-Clause */
/* The testing backend in main memory. */
#include "testing/testing.h"

KIT_BACKEND_HOST_MEMORY;

TRITONSERVER_Error *testing_memory_open(struct testing_instance     *instance,
                                        TRITONBACKEND_ModelInstance *triton) {
        (void)instance;
        (void)triton;
        return NULL;
}

void testing_memory_close(struct testing_instance *instance) {
        (void)instance;
}

TRITONSERVER_Error *testing_copy(const struct testing_instance *instance,
                                 const struct kit_input *input, void *out) {
        (void)instance;
        return kit_input_copy(input, out);
}

TRITONSERVER_Error *testing_borrow(const struct testing_instance *instance,
                                   const struct kit_input *input, const void **ret_bytes,
                                   const void **ret_at) {
        (void)instance;
        KIT_TRY(kit_input_borrow(input, ret_bytes));
        *ret_at = *ret_bytes;
        return NULL;
}

static struct testing_buffer of_host(void *bytes, size_t n_bytes) {
        return (struct testing_buffer){ bytes, bytes, n_bytes, TRITONSERVER_MEMORY_CPU, 0 };
}

TRITONSERVER_Error *testing_output_new(const struct testing_instance *instance,
                                       TRITONBACKEND_Response        *response,
                                       const struct kit_output *output, size_t n_bytes,
                                       struct testing_buffer *ret) {
        void *bytes;

        (void)instance;
        KIT_TRY(kit_output_new(response, output, n_bytes, &bytes));
        *ret = of_host(bytes, n_bytes);
        return NULL;
}

TRITONSERVER_Error *testing_state_new(const struct testing_instance *instance,
                                      TRITONBACKEND_Request         *request,
                                      const struct kit_output *state, size_t n_bytes,
                                      TRITONBACKEND_State **ret_state, struct testing_buffer *ret) {
        void *bytes;

        (void)instance;
        KIT_TRY(kit_state_new(request, state, n_bytes, ret_state, &bytes));
        *ret = of_host(bytes, n_bytes);
        return NULL;
}

TRITONSERVER_Error *testing_put(const struct testing_instance *instance,
                                const struct testing_buffer   *buffer) {
        (void)instance;
        (void)buffer;
        return NULL;
}
