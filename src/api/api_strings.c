/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of the C API's enum values, and the sizes of data types. */
#include "api/api_types.h"
#include "config/data_type.h"

#define SAME_VALUE(name, value, ...)                                                               \
        _Static_assert((int)TRITONSERVER_TYPE_##name == (value), "data types differ");
DATA_TYPES(SAME_VALUE)
_Static_assert((int)MEMORY_CPU == (int)TRITONSERVER_MEMORY_CPU, "memory types differ");
_Static_assert((int)MEMORY_CPU_PINNED == (int)TRITONSERVER_MEMORY_CPU_PINNED,
               "memory types differ");
_Static_assert((int)MEMORY_GPU == (int)TRITONSERVER_MEMORY_GPU, "memory types differ");

const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype) {
        return data_type_name((enum data_type)datatype);
}

TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype) {
        return (TRITONSERVER_DataType)data_type_from_name(str_of(dtype));
}

uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype) {
        return (uint32_t)data_type_size((enum data_type)datatype);
}

const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype) {
        return memory_type_name((enum memory_type)memtype);
}

const char *TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType paramtype) {
        return parameter_type_name((enum parameter_type)paramtype);
}

const char *TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind) {
        switch (kind) {
        case TRITONSERVER_INSTANCEGROUPKIND_AUTO: return "AUTO";
        case TRITONSERVER_INSTANCEGROUPKIND_CPU: return "CPU";
        case TRITONSERVER_INSTANCEGROUPKIND_GPU: return "GPU";
        case TRITONSERVER_INSTANCEGROUPKIND_MODEL: return "MODEL";
        }
        return "<invalid>";
}

const char *TRITONSERVER_InferenceTraceLevelString(TRITONSERVER_InferenceTraceLevel level) {
        switch (level) {
        case TRITONSERVER_TRACE_LEVEL_DISABLED: return "DISABLED";
        case TRITONSERVER_TRACE_LEVEL_MIN: return "MIN";
        case TRITONSERVER_TRACE_LEVEL_MAX: return "MAX";
        case TRITONSERVER_TRACE_LEVEL_TIMESTAMPS: return "TIMESTAMPS";
        case TRITONSERVER_TRACE_LEVEL_TENSORS: return "TENSORS";
        }
        return "<unknown>";
}

const char *TRITONSERVER_InferenceTraceActivityString(
        TRITONSERVER_InferenceTraceActivity activity) {
        static const char *const names[] = {
                [TRITONSERVER_TRACE_REQUEST_START] = "REQUEST_START",
                [TRITONSERVER_TRACE_QUEUE_START] = "QUEUE_START",
                [TRITONSERVER_TRACE_COMPUTE_START] = "COMPUTE_START",
                [TRITONSERVER_TRACE_COMPUTE_INPUT_END] = "COMPUTE_INPUT_END",
                [TRITONSERVER_TRACE_COMPUTE_OUTPUT_START] = "COMPUTE_OUTPUT_START",
                [TRITONSERVER_TRACE_COMPUTE_END] = "COMPUTE_END",
                [TRITONSERVER_TRACE_REQUEST_END] = "REQUEST_END",
                [TRITONSERVER_TRACE_TENSOR_QUEUE_INPUT] = "TENSOR_QUEUE_INPUT",
                [TRITONSERVER_TRACE_TENSOR_BACKEND_INPUT] = "TENSOR_BACKEND_INPUT",
                [TRITONSERVER_TRACE_TENSOR_BACKEND_OUTPUT] = "TENSOR_BACKEND_OUTPUT",
                [TRITONSERVER_TRACE_CUSTOM_ACTIVITY] = "CUSTOM_ACTIVITY",
        };

        return (unsigned)activity < ARRAY_LEN(names) ? names[activity] : "<unknown>";
}
