/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_cloud.h"

#include "call/service.h"
#include "http/http_media_type.h"

#include <stdint.h>

static const char *const inferences[N_CLOUD_INFERENCES] = {
        [CLOUD_INFER] = "infer",
        [CLOUD_GENERATE] = "generate",
        [CLOUD_GENERATE_STREAM] = "generate_stream",
};

bool cloud_inference_find(struct str word, enum cloud_inference *ret) {
        for (size_t i = 0; i < N_CLOUD_INFERENCES; i++)
                if (str_is(word, inferences[i])) {
                        *ret = (enum cloud_inference)i;
                        return true;
                }
        return false;
}

static struct str json_size_of(const struct cloud_front *cloud, struct str content_type) {
        return http_media_type_find(content_type, cloud->binary_type, CLOUD_JSON_SIZE);
}

bool cloud_is_binary(const struct cloud_front *cloud, struct str content_type) {
        return json_size_of(cloud, content_type).ptr != NULL;
}

struct error *cloud_read_json_bytes(const struct cloud_front *cloud, struct str content_type,
                                    size_t body_bytes, size_t *ret) {
        struct str text = json_size_of(cloud, content_type);
        uint64_t   n;

        if (text.ptr == NULL) {
                *ret = body_bytes;
                return NULL;
        }
        if (!str_to_u64(text, &n) || n > body_bytes)
                return error_new(ERR_INVALID_ARG,
                                 "inference header size should be in range (0, %zu), got: %.*s",
                                 body_bytes, STR_ARG(text));
        *ret = (size_t)n;
        return NULL;
}

struct error *cloud_check_types(struct http_call *call) {
        struct str first = http_call_find(call, HTTP_NAME_CONTENT_TYPE), other;

        for (size_t n = 1; (other = http_call_header_nth(call, "Content-Type", n)).ptr != NULL; n++)
                if (!str_equal(first, other))
                        return error_new_text(ERR_INVALID_ARG,
                                              "the request has several Content-Type that differ");
        return NULL;
}

unsigned cloud_error_status(const struct http_call *call, const struct error *err) {
        const struct cloud_front *front = call->service->cloud;

        return front != NULL && front->error_status != NULL ? front->error_status(call, err) : 0;
}

void http_cloud_refuse_path(struct http_call *call) {
        http_call_reply_empty(call, 400);
}
