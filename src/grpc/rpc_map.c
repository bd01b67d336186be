/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_map.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/pb_field.h"
#include "codec/pb_json.h"
#include "codec/pb_reader.h"
#include "core_api/core_error.h"
#include "grpc_service.pb-c.h"
#include "triton/core/tritonserver.h"

/* An answer up to this size is packed into the arena, from which the call copies it. */
#define MAX_BYTES_IN_ARENA 4096

/* Answers whose JSON is the value of the message's only field. Other JSON is the message itself. */
static const struct wrapped_row {
        const ProtobufCMessageDescriptor *type;
        const char                       *before, *after;
} wrapped_rows[] = {
        { &inference__model_config_response__descriptor, "{\"config\":", "}" },
        { &inference__repository_index_response__descriptor, "{\"models\":", "}" },
};

/* ---- requests ---- */

/* Limits the memory of a request in proportion to its size: without it, a map of empty entries would take
 * fifty times its bytes. The constant part is for small requests. */
#define MEMORY_PER_BYTE 4
#define MIN_MEMORY ((size_t)1 << 20)

struct budget {
        struct arena *arena; /* borrowed */
        size_t        left;
};

static void *take_piece(void *opaque, size_t size) {
        struct budget *b = opaque;

        if (size > b->left)
                return NULL;
        b->left -= size;
        return arena_try_alloc(b->arena, size);
}

/* Does nothing, because the arena is freed as a whole. */
static void drop_piece(void *opaque, void *piece) {
        (void)opaque, (void)piece;
}

static bool is_text_valid(const ProtobufCMessage *message);

static bool is_field_valid(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        size_t n = pb_value_count(message, field);

        for (size_t i = 0; i < n; i++) {
                union pb_value value = pb_value_get(message, field, i);

                if (pb_field_kind(field) == PB_STRING && !str_is_utf8(str_of(value.text)))
                        return false;
                if (pb_field_kind(field) == PB_MESSAGE && value.message != NULL &&
                    !is_text_valid(value.message))
                        return false;
        }
        return true;
}

/* Checks that strings are UTF-8, as proto3 requires; protobuf-c does not. The recursion ends because no
 * request type contains itself. */
static bool is_text_valid(const ProtobufCMessage *message) {
        const ProtobufCMessageDescriptor *type = message->descriptor;

        for (unsigned i = 0; i < type->n_fields; i++)
                if (!is_field_valid(message, &type->fields[i]))
                        return false;
        return true;
}

static bool holds_nul(const ProtobufCMessageDescriptor *type, struct pb_reader r);

static bool value_holds_nul(const ProtobufCFieldDescriptor *field, struct pb_reader *r) {
        struct str text;

        if (pb_field_kind(field) == PB_MESSAGE)
                return holds_nul(pb_field_message(field), pb_read_message(r));
        text = pb_read_bytes(r);
        return pb_field_kind(field) == PB_STRING && text.len > 0 &&
               memchr(text.ptr, '\0', text.len) != NULL;
}

/* protobuf-c returns strings that end at a NUL: "a\0b" would become "a". */
static bool holds_nul(const ProtobufCMessageDescriptor *type, struct pb_reader r) {
        struct pb_tag tag;

        while (pb_next(&r, &tag)) {
                const ProtobufCFieldDescriptor *field =
                        protobuf_c_message_descriptor_get_field(type, tag.number);

                if (field == NULL || tag.wire != PB_WIRE_BYTES)
                        pb_skip(&r, tag);
                else if (value_holds_nul(field, &r))
                        return true;
        }
        return false;
}

static struct error *refuse_nul(const ProtobufCMessageDescriptor *type, struct str bytes) {
        struct pb_reader r;

        pb_reader_init(&r, bytes.ptr, bytes.len);
        if (!holds_nul(type, r))
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "failed to parse the %s message: a string contains a NUL character",
                         type->short_name);
}

struct error *rpc_map_request(const ProtobufCMessageDescriptor *type, struct str bytes,
                              struct arena *arena, ProtobufCMessage **ret) {
        struct budget      budget = { arena, MIN_MEMORY };
        ProtobufCAllocator allocator = { take_piece, drop_piece, &budget };
        ProtobufCMessage  *message;

        if (!size_mul(bytes.len, MEMORY_PER_BYTE, &budget.left))
                budget.left = SIZE_MAX;
        budget.left = MAX(budget.left, MIN_MEMORY);
        message =
                protobuf_c_message_unpack(type, &allocator, bytes.len, (const uint8_t *)bytes.ptr);
        if (message == NULL || !is_text_valid(message))
                return error_new(ERR_INVALID_ARG, "failed to parse the %s message",
                                 type->short_name);
        TRY(refuse_nul(type, bytes));
        *ret = message;
        return NULL;
}

/* ---- answers ---- */

static const struct wrapped_row *find_wrapped(const ProtobufCMessageDescriptor *type) {
        for (size_t i = 0; i < ARRAY_LEN(wrapped_rows); i++)
                if (wrapped_rows[i].type == type)
                        return &wrapped_rows[i];
        return NULL;
}

static struct error *read_json(const ProtobufCMessageDescriptor *type, struct str json,
                               struct arena *arena, ProtobufCMessage **ret) {
        const struct wrapped_row *row = find_wrapped(type);
        AUTO_STRBUF               text = { 0 };

        if (row == NULL)
                return pb_json_read_known(type, json, arena,
                                          ret); /* the JSON has more members than the message */
        strbuf_puts(&text, row->before);
        strbuf_put(&text, json.ptr, json.len);
        strbuf_puts(&text, row->after);
        if (text.overflowed)
                return error_new_text(ERR_UNAVAILABLE, "out of memory for the response");
        return pb_json_read(type, strbuf_str(&text), arena, ret);
}

struct error *rpc_map_answer(const ProtobufCMessageDescriptor *type,
                             struct TRITONSERVER_Message *answer, struct arena *arena,
                             ProtobufCMessage **ret) {
        struct error *err;
        const char   *json;
        size_t        len;

        TRY(core_error_take(TRITONSERVER_MessageSerializeToJson(answer, &json, &len)));
        err = read_json(type, str_range(json, len), arena, ret);
        /* The core produced this JSON, so it is an internal error. */
        if (err != NULL && err->code == ERR_INVALID_ARG)
                err = error_recode(err, ERR_INTERNAL);
        return error_wrap(err, "%s", type->short_name);
}

struct error *rpc_map_pack(const ProtobufCMessage *message, struct buf_pool *pool,
                           struct arena *scratch, struct grpc_part *ret) {
        size_t      bytes = protobuf_c_message_get_packed_size(message);
        struct buf *holder = NULL;
        char       *at;

        if (bytes <= MAX_BYTES_IN_ARENA) {
                at = arena_try_alloc(
                        scratch, bytes + 1); /* an empty message needs a valid pointer as well */
        } else {
                holder = buf_new(pool, bytes);
                at = holder != NULL ? holder->bytes : NULL;
        }
        if (at == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes",
                                 bytes);
        protobuf_c_message_pack(message, (uint8_t *)at);
        *ret = (struct grpc_part){ at, bytes, holder };
        return NULL;
}

struct error *rpc_map_send(struct grpc_call *call, const ProtobufCMessage *message,
                           struct arena *scratch) {
        struct grpc_part part;

        TRY(rpc_map_pack(message, grpc_call_buf_pool(call), scratch, &part));
        grpc_call_send(call, &part, 1);
        return NULL;
}

void rpc_map_reply(struct grpc_call *call, const ProtobufCMessage *message) {
        struct grpc_part part;
        struct error    *err = rpc_map_pack(message, grpc_call_buf_pool(call), &call->arena, &part);

        if (err != NULL)
                grpc_call_fail(call, err);
        else
                grpc_call_reply(call, &part, 1);
}
