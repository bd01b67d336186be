/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_Parameter. */
#include "api/api_types.h"

_Static_assert((int)PARAMETER_STRING == (int)TRITONSERVER_PARAMETER_STRING, "types differ");
_Static_assert((int)PARAMETER_INT == (int)TRITONSERVER_PARAMETER_INT, "types differ");
_Static_assert((int)PARAMETER_BOOL == (int)TRITONSERVER_PARAMETER_BOOL, "types differ");
_Static_assert((int)PARAMETER_DOUBLE == (int)TRITONSERVER_PARAMETER_DOUBLE, "types differ");
_Static_assert((int)PARAMETER_BYTES == (int)TRITONSERVER_PARAMETER_BYTES, "types differ");

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name,
                                                         const TRITONSERVER_ParameterType type,
                                                         const void *value) {
        if (!name || !value)
                return NULL;
        return parameter_to_api(parameter_new(name, (enum parameter_type)type, value));
}

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name,
                                                              const void *byte_ptr,
                                                              const uint64_t size) {
        if (!name || (!byte_ptr && size > 0))
                return NULL;
        return parameter_to_api(parameter_new_bytes(name, byte_ptr, size));
}

void TRITONSERVER_ParameterDelete(struct TRITONSERVER_Parameter *parameter) {
        parameter_free(parameter_from_api(parameter));
}
