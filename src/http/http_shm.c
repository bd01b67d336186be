/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions: shm/shared_memory.h. */
#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "control/service.h"
#include "http/http_handlers.h"
#include "http/http_shm_decode.h"
#include "shm/shared_memory.h"

/* ---- status ---- */

/* There are no CUDA regions, which would have other members. */
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

        if (err) {
                http_call_reply_error(call, err, HTTP_JSON);
                return;
        }
        strbuf_init(&text, 0);
        json_writer_init(&w, &text);
        json_begin_array(&w);
        for (size_t i = 0; i < n; i++)
                put_entry(&w, &entries[i]);
        json_end_array(&w);
        http_call_reply_text(call, HTTP_JSON, strbuf_str(&text));
}

void http_shm_system_status(struct http_call *call) {
        reply_status(call, SHARED_MEMORY_SYSTEM);
}

void http_shm_cuda_status(struct http_call *call) {
        reply_status(call, SHARED_MEMORY_CUDA);
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

static void reply(struct http_call *call, struct error *err) {
        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, STR_LIT(""));
}

void http_shm_system_register(struct http_call *call) {
        reply(call, register_system(call));
}

void http_shm_cuda_register(struct http_call *call) {
        reply(call, register_cuda(call));
}

void http_shm_system_unregister(struct http_call *call) {
        reply(call, shared_memory_drop(call->service->shared_memory, SHARED_MEMORY_SYSTEM,
                                       call->region));
}

void http_shm_cuda_unregister(struct http_call *call) {
        reply(call, shared_memory_drop(call->service->shared_memory, SHARED_MEMORY_CUDA,
                                       call->region));
}
