/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/grpc_answer.h"

#include "codec/pb_reader.h"

/* Fields of proto/grpc_service.proto. */
enum { STREAM_ERROR = 1, STREAM_RESPONSE = 2 };
enum { RESPONSE_PARAMETERS = 4, RESPONSE_OUTPUTS = 5, RESPONSE_RAW = 6 };
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { PARAMETER_BOOL = 1, PARAMETER_STRING = 3 };
enum { OUTPUT_NAME = 1, OUTPUT_DATATYPE = 2, OUTPUT_PARAMETERS = 4 };

static bool is_bytes(struct pb_tag tag, uint32_t number) {
        return tag.number == number && tag.wire == PB_WIRE_BYTES;
}

/* An entry of a map of InferParameter. */
struct parameter {
        struct str key, text;
        bool       is_true;
};

static bool read_parameter(struct pb_reader r, struct parameter *ret) {
        struct pb_reader value;
        struct pb_tag    tag;

        *ret = (struct parameter){ 0 };
        while (pb_next(&r, &tag)) {
                if (is_bytes(tag, ENTRY_KEY)) {
                        ret->key = pb_read_bytes(&r);
                } else if (is_bytes(tag, ENTRY_VALUE)) {
                        value = pb_read_message(&r);
                        while (pb_next(&value, &tag)) {
                                if (tag.number == PARAMETER_BOOL && tag.wire == PB_WIRE_VARINT)
                                        ret->is_true = pb_read_bool(&value);
                                else if (is_bytes(tag, PARAMETER_STRING))
                                        ret->text = pb_read_bytes(&value);
                                else
                                        pb_skip(&value, tag);
                        }
                        if (pb_failed(&value))
                                return false;
                } else {
                        pb_skip(&r, tag);
                }
        }
        return !pb_failed(&r);
}

static bool read_response(struct str response, struct grpc_answer *ret) {
        struct pb_reader r;
        struct pb_tag    tag;
        struct parameter p;

        pb_reader_init(&r, response.ptr, response.len);
        ret->is_empty = true;
        while (pb_next(&r, &tag)) {
                if (is_bytes(tag, RESPONSE_PARAMETERS)) {
                        if (!read_parameter(pb_read_message(&r), &p))
                                return false;
                        if (STR_IS(p.key, "triton_final_response"))
                                ret->is_final = p.is_true;
                        continue;
                }
                if (is_bytes(tag, RESPONSE_OUTPUTS))
                        ret->is_empty = false;
                pb_skip(&r, tag);
        }
        return !pb_failed(&r);
}

bool grpc_stream_answer_read(struct str message, struct grpc_answer *ret) {
        struct pb_reader r;
        struct pb_tag    tag;

        *ret = (struct grpc_answer){ .is_empty = true };
        pb_reader_init(&r, message.ptr, message.len);
        while (pb_next(&r, &tag)) {
                if (is_bytes(tag, STREAM_ERROR))
                        ret->error = pb_read_bytes(&r);
                else if (is_bytes(tag, STREAM_RESPONSE))
                        ret->response = pb_read_bytes(&r);
                else
                        pb_skip(&r, tag);
        }
        return !pb_failed(&r) && read_response(ret->response, ret);
}

static bool read_output(struct pb_reader r, struct grpc_output *ret) {
        struct parameter p;
        struct pb_tag    tag;

        *ret = (struct grpc_output){ 0 };
        while (pb_next(&r, &tag)) {
                if (is_bytes(tag, OUTPUT_NAME)) {
                        ret->name = pb_read_bytes(&r);
                } else if (is_bytes(tag, OUTPUT_DATATYPE)) {
                        ret->datatype = pb_read_bytes(&r);
                } else if (is_bytes(tag, OUTPUT_PARAMETERS)) {
                        if (!read_parameter(pb_read_message(&r), &p))
                                return false;
                        if (STR_IS(p.key, "shared_memory_region"))
                                ret->region = p.text;
                } else {
                        pb_skip(&r, tag);
                }
        }
        return !pb_failed(&r);
}

/* The next bytes of raw_output_contents; ptr NULL: there are no more. */
static struct str next_raw(struct pb_reader *r) {
        struct pb_tag tag;

        while (pb_next(r, &tag)) {
                if (is_bytes(tag, RESPONSE_RAW))
                        return pb_read_bytes(r);
                pb_skip(r, tag);
        }
        return (struct str){ 0 };
}

bool grpc_outputs_read(struct str response,
                       bool (*on_output)(void *owner, const struct grpc_output *o), void *owner) {
        struct pb_reader   r, raw;
        struct pb_tag      tag;
        struct grpc_output o;

        pb_reader_init(&r, response.ptr, response.len);
        raw = r;
        while (pb_next(&r, &tag)) {
                if (!is_bytes(tag, RESPONSE_OUTPUTS)) {
                        pb_skip(&r, tag);
                        continue;
                }
                if (!read_output(pb_read_message(&r), &o))
                        return false;
                if (o.region.len == 0)
                        o.bytes = next_raw(&raw);
                if (!on_output(owner, &o))
                        return true;
        }
        return !pb_failed(&r) && !pb_failed(&raw);
}
