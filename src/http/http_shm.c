/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared memory extensions, as far as they go: clients may not register regions, so there are
 * none. */
#include "http/http_handlers.h"
#include "http/http_service.h"

static void reply_status(struct http_call *call, const char *kind) {
        if (call->region.len == 0) {
                http_call_reply_text(call, HTTP_JSON, STR_LIT("[]"));
                return;
        }
        http_call_reply_error(call,
                              error_new(ERR_NOT_FOUND,
                                        "Unable to find %s shared memory region: '%.*s'", kind,
                                        STR_ARG(call->region)),
                              HTTP_JSON);
}

void http_shm_system_status(struct http_call *call) {
        reply_status(call, "system");
}

void http_shm_cuda_status(struct http_call *call) {
        reply_status(call, "cuda");
}

void http_shm_change(struct http_call *call) {
        const char *text = call->service->allow_client_shm
                                   ? "shared memory is not supported yet"
                                   : "Client shared memory is disabled. Start the server with "
                                     "'--allow-client-shm=true' to enable.";

        http_call_reply_error(call, error_new_text(ERR_UNSUPPORTED, text), HTTP_JSON);
}
