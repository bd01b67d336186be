/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer to a chat or a completion: responses of models become events of a stream or one object.
 *
 *     openai_answer_init -> add, for each response; end_part, after each inference
 *                        -> end_stream, or print
 *
 * In a stream each response gives events, which are appended to the caller's text; otherwise the texts of
 * the choices are collected. A character that is split over responses is held back until it is whole.
 * Models of the format `openai` answer objects in OpenAI's form. The answer replaces their members id,
 * object, created and model, and takes the usage out of a stream unless the client asked for it.
 *
 *     data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[
 *            {"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}
 *
 * Ownership.  Borrows request, model and id. openai_answer_done() frees the texts.
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/arena.h"
#include "base/strbuf.h"
#include "call/infer_message.h"
#include "openai/openai_error.h"
#include "openai/openai_map.h"
#include "openai/openai_text.h"

/* Largest text of a choice that is not streamed. */
#define OPENAI_MAX_TEXT_BYTES ((size_t)16 << 20)
/* Prompts that a stream repeats, those of all choices together: they are written at once. */
#define OPENAI_MAX_ECHO_BYTES ((size_t)1 << 20)
#define OPENAI_MAX_REASON 24

struct openai_choice {
        struct openai_hold hold;
        bool               has_begun; /* its role is sent */
        bool               has_ended;
        char               reason[OPENAI_MAX_REASON]; /* why it ended */
        struct strbuf      text;                      /* not streamed: all of it */
        struct strbuf      logprobs;                  /* not streamed: the lists of all responses */
        size_t             offset; /* characters whose log-probabilities were printed */
};

struct openai_answer {
        const struct openai_request *q;     /* borrowed */
        const struct openai_model   *model; /* borrowed */
        const char                  *id;    /* borrowed */
        uint64_t                     created_s;
        struct openai_choice        *choices; /* in arena */
        uint32_t                     n_choices;
        struct str    head;   /* in arena: the beginning of each event or object, to its choices */
        struct strbuf joined; /* a held piece and the next one */
        struct strbuf object; /* format openai, not streamed: the model's object */
        size_t        collected_bytes; /* memory of the texts of all choices */
        uint64_t      prompt_tokens, completion_tokens;
        bool          has_prompt_tokens, has_completion_tokens;
        bool          has_text;   /* the last response had text */
        bool          has_object; /* format openai: the model gave one */
        const char   *code;       /* static: that of an error which the model gave; NULL = none */
        uint64_t      n_ended;    /* choices that ended, for reasons below */
        uint64_t      n_stopped, n_cut, n_called; /* stop, length, tool_calls */
};

/* State of one inference. */
struct openai_part_state {
        struct openai_part part;
        uint64_t           completion_tokens;
        bool               has_response;
};

/* INVALID_ARG when a stream would repeat more than OPENAI_MAX_ECHO_BYTES of prompts. */
struct error *openai_answer_init(struct openai_answer *a, const struct openai_request *q,
                                 const struct openai_model *model, const char *id,
                                 uint32_t n_choices, struct arena *arena) NODISCARD;
void          openai_answer_done(struct openai_answer *a);
/* Returns the memory that the answer holds; it may grow with each response. */
size_t openai_answer_held_bytes(const struct openai_answer *a);

/* Reads the sum of the elements of an output that counts tokens. False when the model does not report it:
 * there is no such output of integers of 32 or 64 bits, or one of them is negative. */
bool openai_answer_read_count(const struct infer_response *r, const char *name, uint64_t *ret);
/* Takes a response of a part. Stream: appends its events to `out`. `scratch` is for temporary memory. */
struct error *openai_answer_add(struct openai_answer *a, struct openai_part_state *part,
                                const struct infer_response *r, struct arena *scratch,
                                struct strbuf *out) NODISCARD;
/* The part has no more responses: its choices end, if the model did not end them. */
void openai_answer_end_part(struct openai_answer *a, const struct openai_part_state *part,
                            struct strbuf *out);
/* After all inferences. INTERNAL when a model of the format openai gave no object. */
struct error *openai_answer_check(const struct openai_answer *a) NODISCARD;
/* Appends the usage, if the client asked for it, and "data: [DONE]". */
void openai_answer_end_stream(const struct openai_answer *a, struct strbuf *out);
/* Appends the error as an event, and "data: [DONE]". */
void openai_answer_put_failure(const struct openai_error *e, struct strbuf *out);
/* Prints the whole answer. */
struct error *openai_answer_print(struct openai_answer *a, struct arena *scratch,
                                  struct strbuf *out) NODISCARD;
