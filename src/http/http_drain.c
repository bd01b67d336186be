/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v2/drain, an extension of ours: {} begins to drain, {"undo":true} undoes it. */
#include "call/drain.h"
#include "call/service.h"
#include "codec/json_reader.h"
#include "http/http_handlers.h"
#include "http/http_members.h"

static struct error *read_member(void *owner, struct json_reader *r, struct str key) {
        bool *is_undone = owner;

        if (!str_is(key, "undo"))
                return error_new(ERR_INVALID_ARG, "unexpected member '%.*s': expected 'undo'",
                                 (int)key.len, key.ptr);
        if (json_peek(r) != JSON_BOOL)
                return error_new_text(ERR_INVALID_ARG,
                                      "Invalid value for 'undo': expected a boolean");
        *is_undone = json_read_bool(r);
        return NULL;
}

static struct error *answer_drain(struct http_call *call) {
        struct drain *d = call->service->drain;
        bool          is_undone = false;

        if (d == NULL || !d->is_offered)
                return error_new_text(ERR_UNSUPPORTED,
                                      "draining is not allowed: see --allow-drain");
        if (call->body.len > 0)
                TRY(http_members_read(call->body, &call->arena, read_member, &is_undone));
        return is_undone ? drain_undo(d) : drain_begin(d);
}

void http_drain_post(struct http_call *call) {
        struct error *err = answer_drain(call);

        if (err != NULL)
                http_call_reply_error(call, err, HTTP_JSON);
        else
                http_call_reply_text(call, HTTP_JSON, STR_LIT(""));
}
