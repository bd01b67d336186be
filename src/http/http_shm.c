/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions (shm/shared_memory.h). */
#include "base/strbuf.h"
#include "call/service.h"
#include "call/shm_order.h"
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "http/http_handlers.h"
#include "http/http_infer_values.h"
#include "shm/shared_memory.h"

/* ---- status ---- */

static void put_entry(struct json_writer *w, enum shared_memory_kind kind,
                      const struct shared_memory_entry *e) {
        json_begin_object(w);
        json_member_string(w, "name", e->name);
        if (kind == SHARED_MEMORY_CUDA) {
                json_member_u64(w, "device_id", e->device);
        } else {
                json_member_string(w, "key", e->key);
                json_member_u64(w, "offset", e->offset);
        }
        json_member_u64(w, "byte_size", e->byte_size);
        json_end_object(w);
}

static void reply_status(struct http_call *call, enum shared_memory_kind kind) {
        struct shared_memory_entry *entries;
        AUTO_STRBUF                 text = { 0 };
        struct json_writer          w = { .out = &text };
        size_t                      n;
        struct error *err = shared_memory_list(call->service->shared_memory, kind, call->region,
                                               &call->arena, &entries, &n);

        if (err != NULL) {
                http_call_reply_error(call, err, HTTP_JSON);
                return;
        }
        json_begin_array(&w);
        for (size_t i = 0; i < n; i++)
                put_entry(&w, kind, &entries[i]);
        json_end_array(&w);
        http_call_reply_json(call, &text);
}

void http_shm_system_status(struct http_call *call) {
        reply_status(call, SHARED_MEMORY_SYSTEM);
}

void http_shm_cuda_status(struct http_call *call) {
        reply_status(call, SHARED_MEMORY_CUDA);
}

/* ---- the body of a registration ---- */

/* Limit of a handle's text: the longest that decodes to the 64 bytes of a handle, with the line
 * ends that some encoders write, has some 90. */
#define MAX_HANDLE_TEXT 1024

enum member {
        MEMBER_KEY,
        MEMBER_OFFSET,
        MEMBER_RAW_HANDLE,
        MEMBER_DEVICE_ID,
        MEMBER_BYTE_SIZE,
        N_MEMBERS,
};

static const char *const member_names[N_MEMBERS] = { "key", "offset", "raw_handle", "device_id",
                                                     "byte_size" };

/* What the body holds. The members of the other kind of region are read, too, and not used. */
struct scan {
        bool             is_seen[N_MEMBERS];
        struct error    *faults[N_MEMBERS]; /* owned; NULL = no error */
        struct shm_place place;
        struct str       handle; /* in arena */
        int64_t          device;
};

static enum member find_member(struct str key) {
        enum member m = 0;

        while (m < N_MEMBERS && !str_is(key, member_names[m]))
                m++;
        return m;
}

/* Decodes leniently: encoders of clients break lines. */
static struct error *decode_handle(struct arena *arena, struct str text, struct str *ret) {
        AUTO_STRBUF bytes = { .max = MAX_HANDLE_TEXT };
        char       *kept;

        if (text.len > MAX_HANDLE_TEXT)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse 'b64': it has %zu characters, at most %d are "
                                 "allowed",
                                 text.len, MAX_HANDLE_TEXT);
        base64_decode_lenient(text, &bytes);
        kept = arena_try_alloc(arena, bytes.len + 1);
        if (kept == NULL)
                return infer_no_memory();
        memcpy(kept, strbuf_cstr(&bytes), bytes.len);
        *ret = str_range(kept, bytes.len);
        return NULL;
}

/* Reads {"b64":"..."}. */
static struct error *read_handle(struct http_infer_decoder *d, struct str *ret) {
        struct error *fault = NULL;
        struct str    key, text;
        bool          is_seen = false;

        TRY(http_infer_enter(d, "raw_handle", JSON_OBJECT));
        while (json_next_key(&d->json, d->source->arena, &key)) {
                if (is_seen || !STR_IS(key, "b64")) {
                        json_skip(&d->json);
                        continue;
                }
                is_seen = true;
                fault = http_infer_read_str(d, "b64", &text);
                if (fault == NULL)
                        fault = decode_handle(d->source->arena, text, ret);
        }
        return is_seen ? fault : http_infer_missing("b64");
}

static struct error *read_device(struct http_infer_decoder *d, int64_t *ret) {
        uint64_t number;

        TRY(http_infer_read_u64(d, "device_id", &number));
        if (number > INT64_MAX)
                return error_new(ERR_INVALID_ARG,
                                 "Unable to parse 'device_id': %llu is no number of a device",
                                 (unsigned long long)number);
        *ret = (int64_t)number;
        return NULL;
}

static struct error *read_member(struct http_infer_decoder *d, enum member m, struct scan *s) {
        switch (m) {
        case MEMBER_KEY: return http_infer_read_text(d, "key", &s->place.key);
        case MEMBER_OFFSET: return http_infer_read_u64(d, "offset", &s->place.offset);
        case MEMBER_RAW_HANDLE: return read_handle(d, &s->handle);
        case MEMBER_DEVICE_ID: return read_device(d, &s->device);
        case MEMBER_BYTE_SIZE: return http_infer_read_u64(d, "byte_size", &s->place.byte_size);
        case N_MEMBERS: break;
        }
        return NULL;
}

static void read_document(struct http_infer_decoder *d, struct scan *s) {
        struct str key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                json_read_end(&d->json);
                return;
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                enum member m = find_member(key);

                if (m == N_MEMBERS || s->is_seen[m]) {
                        json_skip(&d->json);
                        continue;
                }
                s->is_seen[m] = true;
                s->faults[m] = read_member(d, m, s);
        }
        json_read_end(&d->json);
}

static struct error *check_member(struct scan *s, enum member m) {
        if (!s->is_seen[m] && m != MEMBER_OFFSET)
                return error_new(ERR_INVALID_ARG,
                                 "Shared memory register request has no '%s' field",
                                 member_names[m]);
        return STEAL(s->faults[m]);
}

/* Checks syntax first, then the members in their order. */
static struct error *scan_body(struct str body, struct arena *arena, const enum member *needed,
                               size_t n_needed, struct scan *s) {
        struct http_infer_source  source = { .body = body, .json_bytes = body.len, .arena = arena };
        struct http_infer_decoder d = { .source = &source };
        struct error             *err = NULL;

        *s = (struct scan){ 0 };
        json_reader_init(&d.json, body);
        read_document(&d, s);
        if (json_failed(&d.json))
                err = json_syntax_error(&d.json);
        for (size_t i = 0; i < n_needed && err == NULL; i++)
                err = check_member(s, needed[i]);
        for (size_t i = 0; i < N_MEMBERS; i++)
                error_free(s->faults[i]);
        return err;
}

struct error *http_shm_decode(struct str body, struct arena *arena, struct shm_place *ret) {
        static const enum member needed[] = { MEMBER_KEY, MEMBER_OFFSET, MEMBER_BYTE_SIZE };
        struct scan              s;

        TRY(scan_body(body, arena, needed, ARRAY_LEN(needed), &s));
        ret->key = s.place.key;
        ret->offset = s.place.offset;
        ret->byte_size = s.place.byte_size;
        return NULL;
}

struct error *http_shm_decode_cuda(struct str body, struct arena *arena, struct cuda_place *ret) {
        static const enum member needed[] = { MEMBER_RAW_HANDLE, MEMBER_DEVICE_ID,
                                              MEMBER_BYTE_SIZE };
        struct scan              s;

        TRY(scan_body(body, arena, needed, ARRAY_LEN(needed), &s));
        ret->handle = s.handle;
        ret->device = s.device;
        ret->byte_size = s.place.byte_size;
        return NULL;
}

/* ---- changes ---- */

static struct error *check_register(const struct http_call *call, const char *kind) {
        TRY(shared_memory_check_change(call->service->shared_memory));
        if (call->region.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "'region name' is necessary to register %s shared memory region",
                                 kind);
        return NULL;
}

static struct error *register_system(struct http_call *call) {
        struct shm_place place = { 0 };

        TRY(check_register(call, "system"));
        place.name = arena_str(&call->arena, call->region);
        TRY(http_shm_decode(call->body, &call->arena, &place));
        return shared_memory_register(call->service->shared_memory, &place);
}

static void reply_shm(struct http_call *call, struct error *err) {
        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, STR_LIT(""));
}

void http_shm_system_register(struct http_call *call) {
        reply_shm(call, register_system(call));
}

/* In the call's arena. */
struct order {
        struct shm_order  order;
        struct http_call *call; /* borrowed: holds this */
};

static void on_ordered(struct loop_work *w) {
        struct order *o = CONTAINER_OF(w, struct order, order.work);

        reply_shm(o->call, shm_order_end(&o->order));
}

static struct error *register_cuda(struct http_call *call) {
        struct shared_memory *m = call->service->shared_memory;
        struct cuda_place     place = { 0 };
        struct order         *o;

        TRY(check_register(call, "cuda"));
        place.name = arena_str(&call->arena, call->region);
        TRY(shared_memory_check_gpus(m, place.name));
        TRY(http_shm_decode_cuda(call->body, &call->arena, &place));
        o = ARENA_NEW(&call->arena, struct order);
        o->call = call;
        shm_order_register(&o->order, m, &place, on_ordered);
        http_call_start_work_thread(call, &o->order.work);
        return NULL;
}

void http_shm_cuda_register(struct http_call *call) {
        struct error *err = register_cuda(call);

        if (err != NULL)
                reply_shm(call, err);
}

void http_shm_system_unregister(struct http_call *call) {
        reply_shm(call, shared_memory_unregister(call->service->shared_memory, SHARED_MEMORY_SYSTEM,
                                                 call->region));
}

/* Without GPUs there is nothing to close. */
void http_shm_cuda_unregister(struct http_call *call) {
        struct shared_memory *m = call->service->shared_memory;
        struct order         *o;

        if (!shared_memory_has_gpus(m)) {
                reply_shm(call, shared_memory_unregister(m, SHARED_MEMORY_CUDA, call->region));
                return;
        }
        o = ARENA_NEW(&call->arena, struct order);
        o->call = call;
        shm_order_unregister(&o->order, m, str_of(arena_str(&call->arena, call->region)),
                             on_ordered);
        http_call_start_work_thread(call, &o->order.work);
}
