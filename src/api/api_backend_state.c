/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states of sequences: values that a backend keeps for the sequence's next request. */
#include "api/api_types.h"
#include "infer/implicit_state.h"
#include "infer/request.h"
#include "triton/core/tritonbackend.h"

DEFINE_API_TYPE(TRITONBACKEND_Request, request)
DEFINE_API_TYPE(TRITONBACKEND_State, implicit_state)

struct TRITONSERVER_Error *TRITONBACKEND_StateNew(TRITONBACKEND_State  **state,
                                                  TRITONBACKEND_Request *request, const char *name,
                                                  const TRITONSERVER_DataType datatype,
                                                  const int64_t *shape, const uint32_t dims_count) {
        struct implicit_state *made;

        API_NEEDS(state, request, name);
        if (dims_count > 0)
                API_NEEDS(shape);
        API_TRY(implicit_state_new(request_from_api(request), name, (enum data_type)datatype, shape,
                                   dims_count, &made));
        *state = implicit_state_to_api(made);
        return NULL;
}

struct TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state) {
        API_NEEDS(state);
        return error_to_api(implicit_state_update(implicit_state_from_api(state)));
}

struct TRITONSERVER_Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer,
                                                     const uint64_t           buffer_byte_size,
                                                     TRITONSERVER_MemoryType *memory_type,
                                                     int64_t                 *memory_type_id) {
        enum memory_type type;

        API_NEEDS(state, buffer, memory_type, memory_type_id);
        type = (enum memory_type) * memory_type;
        API_TRY(implicit_state_buffer(implicit_state_from_api(state), buffer_byte_size, &type,
                                      memory_type_id, buffer));
        *memory_type = (TRITONSERVER_MemoryType)type;
        return NULL;
}

API_GETTER(TRITONBACKEND_StateBufferAttributes, TRITONBACKEND_State, state,
           TRITONSERVER_BufferAttributes *, buffer_attributes,
           buffer_attributes_to_api(implicit_state_attributes(implicit_state_from_api(state))))
