/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_survey.h"

#include "base/buf.h"
#include "core_api/core_error.h"
#include "net/loop.h"

#include "triton/core/tritonserver.h"

#include <string.h>

struct survey {
        struct loop_work            work;
        struct http_call           *call; /* borrowed: holds this */
        struct TRITONSERVER_Server *core; /* borrowed */
        struct http_question        question;
        struct buf                 *answer;  /* ref */
        struct error               *failure; /* owned */
};

static struct error *copy(struct TRITONSERVER_Message *message, struct buf **ret) {
        const char *json;
        size_t      len;
        struct buf *b;

        TRY(core_error_take(TRITONSERVER_MessageSerializeToJson(message, &json, &len)));
        b = buf_new(NULL, len + 1);
        if (!b)
                return error_new(ERR_UNAVAILABLE, "out of memory for the response of %zu bytes",
                                 len);
        memcpy(b->bytes, json, len);
        b->len = len;
        *ret = b;
        return NULL;
}

static struct error *answer(struct survey *s) {
        struct TRITONSERVER_Message *message = NULL;
        struct error                *err;

        TRY(core_error_take(s->question.ask(s->core, &s->question, &message)));
        err = copy(message, &s->answer);
        core_error_drop(TRITONSERVER_MessageDelete(message));
        return err;
}

static void run(struct loop_work *w) {
        struct survey *s = CONTAINER_OF(w, struct survey, work);

        s->failure = answer(s);
}

static void on_done(struct loop_work *w) {
        struct survey *s = CONTAINER_OF(w, struct survey, work);

        if (s->failure) {
                http_call_reply_error(s->call, s->failure, HTTP_JSON);
                return;
        }

        const struct http_part part = { s->answer->bytes, s->answer->len, s->answer };

        http_call_reply(s->call, &(struct http_reply){ .status = 200,
                                                       .content_type = HTTP_JSON,
                                                       .parts = &part,
                                                       .n_parts = 1 });
}

void http_survey_start(struct http_call *call, const struct http_question *question) {
        struct survey *s = ARENA_NEW(&call->arena, struct survey);

        s->work.run = run;
        s->work.done = on_done;
        s->work.gives_way = true;
        s->work.steps_back = true;
        s->call = call;
        s->core = call->core;
        s->question = *question;
        http_call_offload(call, &s->work);
}
