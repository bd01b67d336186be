/* SPDX-License-Identifier: BSD-3-Clause */
/* Server reflection (grpc.reflection.v1 and v1alpha, which are equal on the wire): tools such as grpcurl ask
 * for services, files and symbols, and get the descriptors that were embedded at build time.
 *
 * Ownership.  The state of a stream is in the arena of its call.
 * Threads.  The call's loop.
 */
#include "codec/pb_build.h"
#include "codec/pb_reader.h"
#include "grpc/rpc_descriptors.h"
#include "grpc/rpc_map.h"
#include "grpc/rpc_methods.h"
#include "reflection.pb-c.h"

#include <string.h>

/* Short names for the longest ones of protobuf-c. */
#define REFLECTION_REQUEST Grpc__Reflection__V1__ServerReflectionRequest
#define REFLECTION_RESPONSE Grpc__Reflection__V1__ServerReflectionResponse
#define REQUEST_KIND(choice)                                                                       \
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##choice
#define RESPONSE_KIND(choice)                                                                      \
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##choice

/* ---- descriptors ---- */

/* The kinds of descriptors that declare names, as field numbers of FileDescriptorProto and the like. */
enum declarer { DECLARER_FILE, DECLARER_MESSAGE, DECLARER_ENUM, DECLARER_SERVICE, DECLARER_NONE };

#define NAME 1 /* name of each declaration */
#define FILE_PACKAGE 2
#define FILE_DEPENDENCY 3
#define FILE_SERVICE 6
#define MAX_DECLARER_FIELD 8

static const enum declarer declared[][MAX_DECLARER_FIELD + 1] = {
        [DECLARER_FILE] = { DECLARER_NONE, DECLARER_NONE, DECLARER_NONE, DECLARER_NONE,
                            DECLARER_MESSAGE, DECLARER_ENUM, DECLARER_SERVICE, DECLARER_NONE,
                            DECLARER_NONE },
        [DECLARER_MESSAGE] = { DECLARER_NONE, DECLARER_NONE, DECLARER_NONE, DECLARER_MESSAGE,
                               DECLARER_ENUM, DECLARER_NONE, DECLARER_NONE, DECLARER_NONE,
                               DECLARER_NONE },
};

static struct pb_reader read_file(const struct rpc_descriptor *d) {
        struct pb_reader r;

        pb_reader_init(&r, d->bytes, d->len);
        return r;
}

/* Returns the n-th length-delimited field of that number; ptr NULL if there are fewer. */
static struct str find_bytes(struct pb_reader r, uint32_t number, size_t n) {
        struct pb_tag tag;

        while (pb_next(&r, &tag)) {
                if (tag.number == number && tag.wire == PB_WIRE_BYTES && n-- == 0)
                        return pb_read_bytes(&r);
                pb_skip(&r, tag);
        }
        return str_range(NULL, 0);
}

static struct pb_reader read_range(struct str range) {
        struct pb_reader r;

        pb_reader_init(&r, range.ptr, range.len);
        return r;
}

/* True for declarations that contain no others, such as fields and methods. */
static bool is_leaf(enum declarer in, uint32_t number) {
        return number == 2 && in != DECLARER_FILE && in != DECLARER_NONE;
}

/* Moves *in into the declaration with that name; false if there is none. */
static bool enter_declaration(struct pb_reader *in, enum declarer *kind, struct str name) {
        struct pb_reader r = *in;
        struct pb_tag    tag;

        while (pb_next(&r, &tag)) {
                enum declarer inner = DECLARER_NONE;
                struct str    body;

                if (tag.number <= MAX_DECLARER_FIELD && *kind <= DECLARER_MESSAGE)
                        inner = declared[*kind][tag.number];
                if (tag.wire != PB_WIRE_BYTES ||
                    (inner == DECLARER_NONE && !is_leaf(*kind, tag.number))) {
                        pb_skip(&r, tag);
                        continue;
                }
                body = pb_read_bytes(&r);
                if (!str_equal(find_bytes(read_range(body), NAME, 0), name))
                        continue;
                *in = read_range(body);
                *kind = inner;
                return true;
        }
        return false;
}

static bool file_declares(const struct rpc_descriptor *d, struct str symbol) {
        struct pb_reader r = read_file(d);
        enum declarer    kind = DECLARER_FILE;
        struct str       package = find_bytes(r, FILE_PACKAGE, 0), name;

        if (!str_starts(symbol, package) || symbol.len <= package.len ||
            symbol.ptr[package.len] != '.')
                return false;
        symbol = str_range(symbol.ptr + package.len + 1, symbol.len - package.len - 1);
        while (symbol.ptr != NULL) {
                symbol = str_split(symbol, '.', &name);
                if (!enter_declaration(&r, &kind, name))
                        return false;
        }
        return true;
}

static const struct rpc_descriptor *find_symbol(const char *symbol) {
        for (size_t i = 0; i < rpc_n_descriptors; i++)
                if (file_declares(&rpc_descriptors[i], str_of(symbol)))
                        return &rpc_descriptors[i];
        return NULL;
}

static const struct rpc_descriptor *find_file(struct str name) {
        for (size_t i = 0; i < rpc_n_descriptors; i++)
                if (str_is(name, rpc_descriptors[i].file))
                        return &rpc_descriptors[i];
        return NULL;
}

/* ---- answers ---- */

static struct error *answer_failure(REFLECTION_RESPONSE *answer, struct arena *arena,
                                    enum grpc_code code, const char *text) {
        ProtobufCMessage                    *message;
        Grpc__Reflection__V1__ErrorResponse *part;

        TRY(pb_message_new(&grpc__reflection__v1__error_response__descriptor, arena, &message));
        part = (void *)message;
        part->error_code = code;
        part->error_message = (char *)text; /* never written to */
        answer->message_response_case = RESPONSE_KIND(ERROR_RESPONSE);
        answer->error_response = part;
        return NULL;
}

/* Adds the file and, recursively, its imports. Imported files come before those that import them. */
static struct error *answer_file(REFLECTION_RESPONSE *answer, struct arena *arena,
                                 const struct rpc_descriptor *file) {
        bool  *is_needed = arena_try_alloc(arena, rpc_n_descriptors * sizeof(*is_needed));
        size_t first = (size_t)(file - rpc_descriptors);
        ProtobufCMessage                             *message;
        Grpc__Reflection__V1__FileDescriptorResponse *part;

        TRY(pb_message_new(&grpc__reflection__v1__file_descriptor_response__descriptor, arena,
                           &message));
        part = (void *)message;
        part->file_descriptor_proto =
                arena_try_alloc(arena, rpc_n_descriptors * sizeof(part->file_descriptor_proto[0]));
        if (is_needed == NULL || part->file_descriptor_proto == NULL)
                return pb_out_of_memory();
        memset(is_needed, 0, rpc_n_descriptors * sizeof(*is_needed));
        is_needed[first] = true;
        for (size_t i = first + 1; i-- > 0;) {
                const struct rpc_descriptor *d = &rpc_descriptors[i];
                struct str                   import;

                if (!is_needed[i])
                        continue;
                part->file_descriptor_proto[part->n_file_descriptor_proto++] =
                        (ProtobufCBinaryData){ d->len, (uint8_t *)d->bytes };
                for (size_t n = 0;
                     (import = find_bytes(read_file(d), FILE_DEPENDENCY, n)).ptr != NULL; n++)
                        is_needed[find_file(import) - rpc_descriptors] = true;
        }
        answer->message_response_case = RESPONSE_KIND(FILE_DESCRIPTOR_RESPONSE);
        answer->file_descriptor_response = part;
        return NULL;
}

static struct error *answer_found(REFLECTION_RESPONSE *answer, struct arena *arena,
                                  const struct rpc_descriptor *file, const char *otherwise) {
        if (file == NULL)
                return answer_failure(answer, arena, GRPC_NOT_FOUND, otherwise);
        return answer_file(answer, arena, file);
}

static struct error *add_service(Grpc__Reflection__V1__ListServiceResponse *part,
                                 struct arena *arena, struct str package, struct str name) {
        ProtobufCMessage                      *message;
        Grpc__Reflection__V1__ServiceResponse *service;

        TRY(pb_message_new(&grpc__reflection__v1__service_response__descriptor, arena, &message));
        service = (void *)message;
        service->name = arena_try_alloc(arena, package.len + name.len + 2);
        if (service->name == NULL)
                return pb_out_of_memory();
        memcpy(service->name, package.ptr, package.len);
        service->name[package.len] = '.';
        memcpy(service->name + package.len + 1, name.ptr, name.len);
        service->name[package.len + 1 + name.len] = '\0';
        part->service[part->n_service++] = service;
        return NULL;
}

/* Each file declares at most one service. */
static struct error *answer_services(REFLECTION_RESPONSE *answer, struct arena *arena) {
        ProtobufCMessage                          *message;
        Grpc__Reflection__V1__ListServiceResponse *part;

        TRY(pb_message_new(&grpc__reflection__v1__list_service_response__descriptor, arena,
                           &message));
        part = (void *)message;
        part->service = arena_try_alloc(arena, rpc_n_descriptors * sizeof(part->service[0]));
        if (part->service == NULL)
                return pb_out_of_memory();
        for (size_t i = 0; i < rpc_n_descriptors; i++) {
                struct pb_reader r = read_file(&rpc_descriptors[i]);
                struct str       service = find_bytes(r, FILE_SERVICE, 0);

                if (service.ptr != NULL)
                        TRY(add_service(part, arena, find_bytes(r, FILE_PACKAGE, 0),
                                        find_bytes(read_range(service), NAME, 0)));
        }
        answer->message_response_case = RESPONSE_KIND(LIST_SERVICES_RESPONSE);
        answer->list_services_response = part;
        return NULL;
}

/* proto3 has no extensions, so an existing type has none. */
static struct error *answer_extensions(REFLECTION_RESPONSE *answer, struct arena *arena,
                                       char *type) {
        ProtobufCMessage                              *message;
        Grpc__Reflection__V1__ExtensionNumberResponse *part;

        if (find_symbol(type) == NULL)
                return answer_failure(answer, arena, GRPC_NOT_FOUND, "Type not found.");
        TRY(pb_message_new(&grpc__reflection__v1__extension_number_response__descriptor, arena,
                           &message));
        part = (void *)message;
        part->base_type_name = type;
        answer->message_response_case = RESPONSE_KIND(ALL_EXTENSION_NUMBERS_RESPONSE);
        answer->all_extension_numbers_response = part;
        return NULL;
}

static struct error *fill_answer(REFLECTION_RESPONSE *answer, REFLECTION_REQUEST *q,
                                 struct arena *arena) {
        answer->valid_host = q->host;
        answer->original_request = q;
        switch (q->message_request_case) {
        case REQUEST_KIND(FILE_BY_FILENAME):
                return answer_found(answer, arena, find_file(str_of(q->file_by_filename)),
                                    "File not found.");
        case REQUEST_KIND(FILE_CONTAINING_SYMBOL):
                return answer_found(answer, arena, find_symbol(q->file_containing_symbol),
                                    "Symbol not found.");
        case REQUEST_KIND(FILE_CONTAINING_EXTENSION):
                return answer_failure(answer, arena, GRPC_NOT_FOUND, "Extension not found.");
        case REQUEST_KIND(ALL_EXTENSION_NUMBERS_OF_TYPE):
                return answer_extensions(answer, arena, q->all_extension_numbers_of_type);
        case REQUEST_KIND(LIST_SERVICES): return answer_services(answer, arena);
        default:
                return answer_failure(answer, arena, GRPC_INVALID_ARGUMENT,
                                      "The request names nothing that could be described.");
        }
}

static struct error *send_answer(struct grpc_call *call, struct str message,
                                 struct arena *scratch) {
        ProtobufCMessage *request, *answer;

        TRY(rpc_map_request(&grpc__reflection__v1__server_reflection_request__descriptor, message,
                            scratch, &request));
        TRY(pb_message_new(&grpc__reflection__v1__server_reflection_response__descriptor, scratch,
                           &answer));
        TRY(fill_answer((void *)answer, (void *)request, scratch));
        return rpc_map_send(call, answer, scratch);
}

/* ---- the stream ---- */

/* State of one call; in its arena. */
struct reflection {
        struct arena scratch;    /* for one request and its answer */
        bool         is_reading; /* a request is being answered; the end waits for it */
        bool         is_aborted;
};

static void end_reflection(struct grpc_call *call, struct error *err, enum grpc_code code) {
        struct reflection *s = call->pending;

        arena_done(&s->scratch);
        if (err != NULL)
                grpc_call_fail(call, err);
        else
                grpc_call_finish(call, code, NULL);
}

void rpc_reflection_open(struct grpc_call *call) {
        struct reflection *s = ARENA_NEW(&call->arena, struct reflection);

        arena_init(&s->scratch, NULL, 0, 0);
        call->pending = s;
}

void rpc_reflection_read(struct grpc_call *call, struct str message, struct buf *owner) {
        struct reflection *s = call->pending;
        struct error      *err;

        (void)owner;
        s->is_reading = true;
        err = send_answer(call, message, &s->scratch);
        s->is_reading = false;
        arena_reset(&s->scratch);
        if (err != NULL || s->is_aborted)
                end_reflection(call, err, GRPC_CANCELLED);
}

void rpc_reflection_half_close(struct grpc_call *call) {
        end_reflection(call, NULL, GRPC_OK);
}

void rpc_reflection_abort(struct grpc_call *call) {
        struct reflection *s = call->pending;

        s->is_aborted = true;
        if (!s->is_reading)
                end_reflection(call, NULL, GRPC_CANCELLED);
}

bool rpc_reflection_is_quiet(const struct grpc_call *call) {
        const struct reflection *s = call->pending;

        return !s->is_reading && !s->is_aborted;
}
