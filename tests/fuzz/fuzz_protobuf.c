/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as protobuf: text that begins with { is read as JSON into several message types,
 * anything else is walked by the wire reader and, when protobuf-c can unpack it, printed as JSON.
 */
#include "base/compiler.h"
#include "base/strbuf.h"
#include "codec/pb_json.h"
#include "codec/pb_reader.h"
#include "grpc_service.pb-c.h"
#include "model_config.pb-c.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define MAX_DEPTH 20

static const ProtobufCMessageDescriptor *const types[] = {
        &inference__model_config__descriptor,
        &inference__model_infer_request__descriptor,
        &inference__repository_model_load_request__descriptor,
        &inference__model_statistics_response__descriptor,
        &inference__log_settings_request__descriptor,
};

static void stop(const char *what, const char *text) {
        fprintf(stderr, "%s: %s\n", what, text);
        abort();
}

static void check_json(const ProtobufCMessageDescriptor *type, struct str json) {
        struct arena      arena;
        ProtobufCMessage *message = NULL, *again = NULL;
        AUTO_STRBUF       first;
        AUTO_STRBUF       second;
        struct error     *err;

        arena_init(&arena, NULL, 0, 64u << 20);
        strbuf_init(&first, 0);
        strbuf_init(&second, 0);
        err = pb_json_read(type, json, &arena, &message);
        if (err == NULL) {
                pb_json_print(message, NULL, &first);
                err = pb_json_read(type, strbuf_str(&first), &arena, &again);
                if (err != NULL)
                        stop("printed JSON cannot be read", err->message);
                pb_json_print(again, NULL, &second);
                if (!str_equal(strbuf_str(&first), strbuf_str(&second)))
                        stop("JSON changed", strbuf_cstr(&first));
        }
        error_free(err);
        arena_done(&arena);
}

static void check_range(const struct pb_reader *r, const uint8_t *begin, struct str range) {
        if ((const uint8_t *)range.ptr < begin || (const uint8_t *)range.ptr > r->end ||
            range.len > (size_t)(r->end - (const uint8_t *)range.ptr))
                stop("range outside of the input", "");
}

/* Every field is read in the way that its wire type allows; bytes are tried as messages. */
static void walk(struct pb_reader r, int depth) {
        const uint8_t *begin = r.at;
        struct pb_tag  tag;

        while (pb_next(&r, &tag)) {
                struct pb_reader copy = r;
                struct str       range;

                if (tag.wire == PB_WIRE_BYTES) {
                        range = pb_read_bytes(&r);
                        check_range(&copy, begin, range);
                        range = pb_read_text(&copy);
                        if (!pb_failed(&copy) && !str_is_utf8(range))
                                stop("text is not UTF-8", "");
                        pb_reader_init(&copy, range.ptr, range.len);
                        if (depth < MAX_DEPTH)
                                walk(copy, depth + 1);
                } else {
                        pb_skip(&r, tag);
                }
        }
        if (!pb_at_end(&r))
                stop("stopped before the end", "");
}

static void print_wire(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t size) {
        ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, size, bytes);
        AUTO_STRBUF       json;

        strbuf_init(&json, 0);
        if (message != NULL)
                pb_json_print(message, NULL, &json);
        if (message != NULL)
                protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct pb_reader r;

        if (size > 0 && bytes[0] == '{') {
                for (size_t i = 0; i < ARRAY_LEN(types); i++)
                        check_json(types[i], str_range((const char *)bytes, size));
                return 0;
        }
        pb_reader_init(&r, bytes, size);
        walk(r, 0);
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
                print_wire(types[i], bytes, size);
        return 0;
}
