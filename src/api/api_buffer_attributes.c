/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_BufferAttributes. */
#include "api/api_types.h"

#include "base/mem.h"

#define ATTRIBUTES(argument) buffer_attributes_from_api(argument)

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesNew(
        struct TRITONSERVER_BufferAttributes **buffer_attributes) {
        struct buffer_attributes *attributes;

        API_NEEDS(buffer_attributes);
        attributes = mem_alloc(sizeof(*attributes));
        *attributes = (struct buffer_attributes){ .memory_type = MEMORY_CPU };
        *buffer_attributes = buffer_attributes_to_api(attributes);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesDelete(
        struct TRITONSERVER_BufferAttributes *buffer_attributes) {
        free(ATTRIBUTES(buffer_attributes));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryTypeId(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, int64_t memory_type_id) {
        API_NEEDS(buffer_attributes);
        ATTRIBUTES(buffer_attributes)->memory_id = memory_type_id;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryType(
        struct TRITONSERVER_BufferAttributes *buffer_attributes,
        TRITONSERVER_MemoryType memory_type) {
        API_NEEDS(buffer_attributes);
        if ((unsigned)memory_type > TRITONSERVER_MEMORY_GPU)
                return error_to_api(api_bad_value(__func__, "memory type", (int)memory_type));
        ATTRIBUTES(buffer_attributes)->memory_type = (enum memory_type)memory_type;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetCudaIpcHandle(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void *cuda_ipc_handle) {
        API_NEEDS(buffer_attributes);
        ATTRIBUTES(buffer_attributes)->cuda_ipc_handle = cuda_ipc_handle;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetByteSize(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, size_t byte_size) {
        API_NEEDS(buffer_attributes);
        ATTRIBUTES(buffer_attributes)->byte_size = byte_size;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryTypeId(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, int64_t *memory_type_id) {
        API_NEEDS(buffer_attributes);
        API_NEEDS(memory_type_id);
        *memory_type_id = ATTRIBUTES(buffer_attributes)->memory_id;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryType(
        struct TRITONSERVER_BufferAttributes *buffer_attributes,
        TRITONSERVER_MemoryType *memory_type) {
        API_NEEDS(buffer_attributes);
        API_NEEDS(memory_type);
        *memory_type = (TRITONSERVER_MemoryType)ATTRIBUTES(buffer_attributes)->memory_type;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesCudaIpcHandle(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, void **cuda_ipc_handle) {
        API_NEEDS(buffer_attributes);
        API_NEEDS(cuda_ipc_handle);
        *cuda_ipc_handle = ATTRIBUTES(buffer_attributes)->cuda_ipc_handle;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesByteSize(
        struct TRITONSERVER_BufferAttributes *buffer_attributes, size_t *byte_size) {
        API_NEEDS(buffer_attributes);
        API_NEEDS(byte_size);
        *byte_size = ATTRIBUTES(buffer_attributes)->byte_size;
        return NULL;
}
