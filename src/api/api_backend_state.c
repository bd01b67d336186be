/* SPDX-License-Identifier: BSD-3-Clause */
/* Implicit states of sequences, as far as they go: a configuration with states needs the sequence
 * batcher, without which no model has any. So no state is ever made, and a backend is told what it
 * is told of any model whose configuration lacks them.
 */
#include "api/api_types.h"

#include "infer/model.h"
#include "infer/request.h"
#include "triton/core/tritonbackend.h"

DEFINE_API_TYPE(TRITONBACKEND_Request, request)

struct TRITONSERVER_Error *TRITONBACKEND_StateNew(TRITONBACKEND_State **state,
                                                  TRITONBACKEND_Request *request, const char *name,
                                                  const TRITONSERVER_DataType datatype,
                                                  const int64_t              *shape,
                                                  const uint32_t              dims_count) {
        struct request *req = request_from_api(request);

        (void)datatype;
        API_NEEDS(state);
        API_NEEDS(request);
        API_NEEDS(name);
        if (dims_count > 0)
                API_NEEDS(shape);
        return error_to_api(request_error(req, ERR_INVALID_ARG,
                                          "unable to add state '%s'. State configuration is "
                                          "missing for model '%s'.",
                                          name, req->model->name));
}

/* Whatever this pointer is, it does not come from StateNew. */
static struct TRITONSERVER_Error *no_state(const char *function) {
        return error_to_api(error_new(ERR_INVALID_ARG, "%s: there is no such state", function));
}

struct TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state) {
        API_NEEDS(state);
        return no_state(__func__);
}

struct TRITONSERVER_Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer,
                                                     const uint64_t           buffer_byte_size,
                                                     TRITONSERVER_MemoryType *memory_type,
                                                     int64_t                 *memory_type_id) {
        (void)buffer_byte_size;
        API_NEEDS(state);
        API_NEEDS(buffer);
        API_NEEDS(memory_type);
        API_NEEDS(memory_type_id);
        return no_state(__func__);
}

struct TRITONSERVER_Error *TRITONBACKEND_StateBufferAttributes(
        TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes **buffer_attributes) {
        API_NEEDS(state);
        API_NEEDS(buffer_attributes);
        return no_state(__func__);
}
