/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenAI API over any model: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models.
 *
 *     http_openai_chat, ...   reads the body, checks the key against the model that it names
 *       openai_request_read   body -> struct openai_request          (openai/openai_request.h)
 *       openai_model_read     the form of the model's tensors        (openai/openai_model.h)
 *       render                chat: the model that renders messages, if the format needs one
 *       openai_map_fill       -> struct infer_request, one or more   (openai/openai_map.h)
 *       infer_call_*          through the C API, as the generate endpoints do
 *       openai_answer_*       responses -> events, or one object     (openai/openai_answer.h)
 *
 * The first response decides the status of a stream, unless a heartbeat has begun it before. A later
 * failure is an event. A client that closes the connection cancels all inferences of its request. For a
 * slow reader the models wait, as for generate_stream.
 *
 * Errors have the form of openai_error.h; http_conn.c gives it to those that it reports for these paths.
 *
 * Ownership.  Everything of one request lives in the arena of its http_call, except texts.
 * Threads.  The call's loop; long bodies and answers are read and printed by a compute thread.
 */
#pragma once

#include "base/error.h"
#include "http/http_call.h"

void http_openai_chat(struct http_call *call);
void http_openai_completions(struct http_call *call);
void http_openai_embeddings(struct http_call *call);

/* http_openai_models.c */
void http_openai_models(struct http_call *call); /* those that the key grants */
void http_openai_model(struct http_call *call);
void http_openai_load(struct http_call *call); /* with --model-control-mode=explicit */
void http_openai_unload(struct http_call *call);

/* An error with its place and code. */
struct http_openai_refusal {
        struct error *err;        /* taken */
        unsigned      status;     /* 0 = that of the error's code */
        const char   *code;       /* static; NULL = that of the status */
        const char   *request_id; /* borrowed: in the call's arena; NULL = none */
};

void http_openai_refuse(struct http_call *call, const struct http_openai_refusal *refusal);
