/* SPDX-License-Identifier: BSD-3-Clause */
/* Built twice, with WHO "first" and "second": a backend that answers with an error that says which
 * of the two `twin_name` it has called. The symbol is a global one in both libraries, and is called
 * through the table that the loader fills.
 */
#include "triton/core/tritonbackend.h"

extern const char *twin_name(void);

#ifdef UNRESOLVED
extern const char *no_such_function_anywhere(void);
#endif

__attribute__((visibility("default"), noinline)) const char *twin_name(void) {
        return WHO;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request      **requests,
                                                       const uint32_t               n_requests) {
        (void)instance, (void)requests, (void)n_requests;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, twin_name());
}
