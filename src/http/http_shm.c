/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions (shm/shared_memory.h). */
#include "base/strbuf.h"
#include "call/service.h"
#include "codec/json_writer.h"
#include "http/http_handlers.h"
#include "http/http_infer_values.h"
#include "shm/shared_memory.h"

/* ---- status ---- */

/* Prints a system region. CUDA regions, which have other members, do not exist. */
static void put_entry(struct json_writer *w, const struct shared_memory_entry *e) {
        json_begin_object(w);
        json_key(w, "name");
        json_put_string(w, e->name);
        json_key(w, "key");
        json_put_string(w, e->key);
        json_key(w, "offset");
        json_put_u64(w, e->offset);
        json_key(w, "byte_size");
        json_put_u64(w, e->byte_size);
        json_end_object(w);
}

static void reply_status(struct http_call *call, enum shared_memory_kind kind) {
        struct shared_memory_entry *entries;
        struct json_writer          w;
        AUTO_STRBUF                 text = { 0 };
        size_t                      n;
        struct error *err = shared_memory_list(call->service->shared_memory, kind, call->region,
                                               &call->arena, &entries, &n);

        if (err != NULL) {
                http_call_reply_error(call, err, HTTP_JSON);
                return;
        }
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_array(&w);
        for (size_t i = 0; i < n; i++)
                put_entry(&w, &entries[i]);
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

enum member { MEMBER_KEY, MEMBER_OFFSET, MEMBER_BYTE_SIZE, N_MEMBERS };

struct scan {
        bool          is_seen[N_MEMBERS];
        struct error *faults[N_MEMBERS]; /* owned; NULL = no error */
};

static enum member find_member(struct str key) {
        if (STR_IS(key, "key"))
                return MEMBER_KEY;
        if (STR_IS(key, "offset"))
                return MEMBER_OFFSET;
        return STR_IS(key, "byte_size") ? MEMBER_BYTE_SIZE : N_MEMBERS;
}

static struct error *read_member(struct http_infer_decoder *d, enum member m,
                                 struct shm_place *place) {
        switch (m) {
        case MEMBER_KEY: return http_infer_read_text(d, "key", &place->key);
        case MEMBER_OFFSET: return http_infer_read_u64(d, "offset", &place->offset);
        case MEMBER_BYTE_SIZE: return http_infer_read_u64(d, "byte_size", &place->byte_size);
        case N_MEMBERS: break;
        }
        return NULL;
}

static void read_document(struct http_infer_decoder *d, struct scan *s, struct shm_place *place) {
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
                s->faults[m] = read_member(d, m, place);
        }
        json_read_end(&d->json);
}

static struct error *missing(const char *member) {
        return error_new(ERR_INVALID_ARG, "Shared memory register request has no '%s' field",
                         member);
}

/* Returns the error to report, which moves out of the scan. */
static struct error *finish_region(const struct http_infer_decoder *d, struct scan *s) {
        if (json_failed(&d->json))
                return json_syntax_error(&d->json);
        if (!s->is_seen[MEMBER_KEY])
                return missing("key");
        if (s->faults[MEMBER_KEY] != NULL)
                return STEAL(s->faults[MEMBER_KEY]);
        if (s->faults[MEMBER_OFFSET] != NULL)
                return STEAL(s->faults[MEMBER_OFFSET]);
        if (!s->is_seen[MEMBER_BYTE_SIZE])
                return missing("byte_size");
        return STEAL(s->faults[MEMBER_BYTE_SIZE]);
}

struct error *http_shm_decode(struct str body, struct arena *arena, struct shm_place *ret) {
        struct http_infer_source  source = { .body = body, .json_bytes = body.len, .arena = arena };
        struct http_infer_decoder d = { .source = &source };
        struct scan               s = { 0 };
        struct shm_place          place = { 0 };
        struct error             *err;

        json_reader_init(&d.json, body);
        read_document(&d, &s, &place);
        err = finish_region(&d, &s);
        for (size_t i = 0; i < N_MEMBERS; i++)
                error_free(s.faults[i]);
        if (err != NULL)
                return err;
        ret->key = place.key;
        ret->offset = place.offset;
        ret->byte_size = place.byte_size;
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

static struct error *register_cuda(struct http_call *call) {
        TRY(check_register(call, "cuda"));
        return shared_memory_refuse_cuda(arena_str(&call->arena, call->region));
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

void http_shm_cuda_register(struct http_call *call) {
        reply_shm(call, register_cuda(call));
}

void http_shm_system_unregister(struct http_call *call) {
        reply_shm(call, shared_memory_unregister(call->service->shared_memory, SHARED_MEMORY_SYSTEM,
                                                 call->region));
}

void http_shm_cuda_unregister(struct http_call *call) {
        reply_shm(call, shared_memory_unregister(call->service->shared_memory, SHARED_MEMORY_CUDA,
                                                 call->region));
}
