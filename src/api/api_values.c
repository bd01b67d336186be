/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of small values: TRITONSERVER_Parameter, TRITONSERVER_Message and
 * TRITONSERVER_BufferAttributes.
 */
#include "api/api_types.h"
#include "base/mem.h"
#include "config/model_config.h"

/* ---- parameters ------------------------------------------------------------------------------ */

_Static_assert((int)PARAMETER_STRING == (int)TRITONSERVER_PARAMETER_STRING, "types differ");
_Static_assert((int)PARAMETER_INT == (int)TRITONSERVER_PARAMETER_INT, "types differ");
_Static_assert((int)PARAMETER_BOOL == (int)TRITONSERVER_PARAMETER_BOOL, "types differ");
_Static_assert((int)PARAMETER_DOUBLE == (int)TRITONSERVER_PARAMETER_DOUBLE, "types differ");
_Static_assert((int)PARAMETER_BYTES == (int)TRITONSERVER_PARAMETER_BYTES, "types differ");

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char                      *name,
                                                         const TRITONSERVER_ParameterType type,
                                                         const void                      *value) {
        if (name == NULL || value == NULL)
                return NULL;
        return parameter_to_api(parameter_new(name, (enum parameter_type)type, value));
}

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char    *name,
                                                              const void    *byte_ptr,
                                                              const uint64_t size) {
        if (name == NULL || (byte_ptr == NULL && size > 0))
                return NULL;
        return parameter_to_api(parameter_new_bytes(name, byte_ptr, size));
}

void TRITONSERVER_ParameterDelete(struct TRITONSERVER_Parameter *parameter) {
        parameter_free(parameter_from_api(parameter));
}

/* ---- messages -------------------------------------------------------------------------------- */

struct TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(
        struct TRITONSERVER_Message **message, const char *base, size_t byte_size) {
        struct message *parsed;

        API_NEEDS(message, base);
        API_TRY(message_new_parsed(str_range(base, byte_size), &parsed));
        *message = message_to_api(parsed);
        return NULL;
}

struct TRITONSERVER_Error *api_print_config(const struct model_config *config, uint32_t version,
                                            struct TRITONSERVER_Message **ret) {
        AUTO_STRBUF     json = { 0 };
        struct message *m;

        API_TRY(model_config_print_json(config, version, &json));
        API_TRY(message_new_take(&json, &m));
        *ret = message_to_api(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(struct TRITONSERVER_Message *message) {
        message_free(message_from_api(message));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(struct TRITONSERVER_Message *message,
                                                               const char                 **base,
                                                               size_t *byte_size) {
        API_NEEDS(message, base, byte_size);

        struct str text = message_text(message_from_api(message));

        *base = text.ptr;
        *byte_size = text.len;
        return NULL;
}

/* ---- buffer attributes ----------------------------------------------------------------------- */

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

API_SETTER(TRITONSERVER_BufferAttributesSetMemoryTypeId, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, int64_t, memory_type_id, ATTRIBUTES(buffer_attributes)->memory_id)

struct TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryType(
        struct TRITONSERVER_BufferAttributes *buffer_attributes,
        TRITONSERVER_MemoryType               memory_type) {
        API_NEEDS(buffer_attributes);
        if ((unsigned)memory_type > TRITONSERVER_MEMORY_GPU)
                return error_to_api(api_bad_value(__func__, "memory type", (int)memory_type));
        ATTRIBUTES(buffer_attributes)->memory_type = (enum memory_type)memory_type;
        return NULL;
}

API_SETTER(TRITONSERVER_BufferAttributesSetCudaIpcHandle, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, void *, cuda_ipc_handle,
           ATTRIBUTES(buffer_attributes)->cuda_ipc_handle)

API_SETTER(TRITONSERVER_BufferAttributesSetByteSize, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, size_t, byte_size, ATTRIBUTES(buffer_attributes)->byte_size)

API_GETTER(TRITONSERVER_BufferAttributesMemoryTypeId, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, int64_t, memory_type_id, ATTRIBUTES(buffer_attributes)->memory_id)

API_GETTER(TRITONSERVER_BufferAttributesMemoryType, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, TRITONSERVER_MemoryType, memory_type,
           (TRITONSERVER_MemoryType)ATTRIBUTES(buffer_attributes)->memory_type)

API_GETTER(TRITONSERVER_BufferAttributesCudaIpcHandle, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, void *, cuda_ipc_handle,
           ATTRIBUTES(buffer_attributes)->cuda_ipc_handle)

API_GETTER(TRITONSERVER_BufferAttributesByteSize, struct TRITONSERVER_BufferAttributes,
           buffer_attributes, size_t, byte_size, ATTRIBUTES(buffer_attributes)->byte_size)
