/* SPDX-License-Identifier: BSD-3-Clause */
/* The C API of TRITONSERVER_Message. */
#include "api/api_types.h"

struct TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(
        struct TRITONSERVER_Message **message, const char *base, size_t byte_size) {
        struct message *parsed;

        API_NEEDS(message);
        API_NEEDS(base);
        API_TRY(message_new_parsed(str_range(base, byte_size), &parsed));
        *message = message_to_api(parsed);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(struct TRITONSERVER_Message *message) {
        message_free(message_from_api(message));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(
        struct TRITONSERVER_Message *message, const char **base, size_t *byte_size) {
        API_NEEDS(message);
        API_NEEDS(base);
        API_NEEDS(byte_size);

        struct str text = message_text(message_from_api(message));

        *base = text.ptr;
        *byte_size = text.len;
        return NULL;
}
