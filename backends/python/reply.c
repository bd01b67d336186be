/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/reply.h"

#include <string.h>

bool reply_open(struct session *s, const struct shm_message *message, struct shm_call *call,
                struct reply_to *ret) {
        const void *block =
                region_find_stub_block(&s->region, message->block,
                                       message->n_bytes > sizeof(*call) ? message->n_bytes
                                                                        : sizeof(*call));

        if (block == NULL) {
                region_break(&s->region);
                return false;
        }
        memcpy(call, block, sizeof(*call));
        *ret = (struct reply_to){ .call = message->block,
                                  .id = call->id,
                                  .is_async = call->is_async };
        return true;
}

static void push_reply(struct session *s, const struct reply_to *to, uint32_t block) {
        struct shm_call  *call = region_block(&s->region, to->call);
        struct shm_reply *reply = region_block(&s->region, block);
        _Atomic uint32_t *list = to->is_async ? &s->region.header->async_replies : &call->replies;

        reply->id = to->id;
        region_push(&s->region, list, block, &reply->next);
        shm_futex_wake(list, INT32_MAX);
}

void reply_push(struct session *s, struct reply_to *to, uint32_t block, bool is_last) {
        struct shm_reply *reply = region_block(&s->region, block);

        reply->number = to->n_replies++;
        reply->is_last = reply->is_end = is_last;
        push_reply(s, to, block);
}

void reply_push_early(struct session *s, const struct reply_to *to, uint32_t block) {
        struct shm_reply *reply = region_block(&s->region, block);

        reply->is_end = true;
        push_reply(s, to, block);
}

void reply_text(struct session *s, struct reply_to *to, uint32_t code, const char *text,
                size_t len) {
        uint32_t          block = region_alloc(&s->region, sizeof(struct shm_reply) + len);
        struct shm_reply *reply;

        if (block == 0) {
                region_break(&s->region);
                return;
        }
        reply = region_block(&s->region, block);
        *reply = (struct shm_reply){ .answer = { .kind = SHM_ANSWER_ERROR,
                                                 .code = code,
                                                 .text = { sizeof(*reply), (uint32_t)len } } };
        if (len > 0)
                memcpy(reply + 1, text, len);
        reply_push(s, to, block, true);
}

void reply_error(struct session *s, struct reply_to *to, TRITONSERVER_Error *err) {
        const char *text = TRITONSERVER_ErrorMessage(err);
        uint32_t    code = TRITONSERVER_ErrorCode(err);

        /* 0 means success, so an error of an unknown kind becomes INTERNAL. */
        reply_text(s, to, code != 0 ? code : TRITONSERVER_ERROR_INTERNAL, text, strlen(text));
        TRITONSERVER_ErrorDelete(err);
}

void reply_refuse(struct session *s, uint32_t block, const char *text) {
        struct shm_message message = { .block = block };
        struct shm_call    call;
        struct reply_to    to;

        if (reply_open(s, &message, &call, &to))
                reply_text(s, &to, TRITONSERVER_ERROR_UNSUPPORTED, text, strlen(text));
}
