/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions, as far as they go: frontend/shared_memory.h. */
#include "frontend/shared_memory.h"
#include "http/http_handlers.h"
#include "http/http_service.h"

static void reply_status(struct http_call *call, const char *kind) {
        struct error *err = shared_memory_find(kind, call->region);

        if (err)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, STR_LIT("[]"));
}

void http_shm_system_status(struct http_call *call) {
        reply_status(call, "system");
}

void http_shm_cuda_status(struct http_call *call) {
        reply_status(call, "cuda");
}

void http_shm_change(struct http_call *call) {
        http_call_reply_error(call, shared_memory_refuse_change(call->service->allow_client_shm),
                              HTTP_JSON);
}
