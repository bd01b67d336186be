/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_survey.h"

#include "grpc/rpc_map.h"
#include "net/loop.h"

struct survey {
        struct loop_work            work;
        struct grpc_call           *call; /* borrowed: holds this */
        struct TRITONSERVER_Server *core; /* borrowed */
        struct rpc_question         question;
        struct arena                scratch; /* of the answer until it is sent */
        struct grpc_part            answer;
        struct error               *failure; /* owned */
};

static struct error *answer(struct survey *s) {
        struct TRITONSERVER_Message *json = NULL;
        struct TRITONSERVER_Error   *refusal = s->question.ask(s->core, &s->question, &json);
        ProtobufCMessage            *message;

        TRY(rpc_map_answer(s->question.type, refusal, json, &s->scratch, &message));
        return rpc_map_pack(message, NULL, &s->scratch, &s->answer);
}

static void run(struct loop_work *w) {
        struct survey *s = CONTAINER_OF(w, struct survey, work);

        s->failure = answer(s);
}

/* The call takes this with it. */
static void on_done(struct loop_work *w) {
        struct survey *s = CONTAINER_OF(w, struct survey, work);
        struct arena   scratch = s->scratch;

        if (s->failure)
                grpc_call_fail(s->call, s->failure);
        else
                grpc_call_reply(s->call, &s->answer, 1);
        arena_done(&scratch);
}

void rpc_survey_start(struct grpc_call *call, const struct rpc_question *question) {
        struct survey *s = ARENA_NEW(&call->arena, struct survey);

        s->work.run = run;
        s->work.done = on_done;
        s->work.gives_way = true;
        s->work.steps_back = true;
        s->call = call;
        s->core = call->core;
        s->question = *question;
        arena_init(&s->scratch, NULL, 0, 0);
        grpc_call_offload(call, &s->work);
}
