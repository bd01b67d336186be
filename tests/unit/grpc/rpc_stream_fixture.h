/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of inferences between a made-up core and a made-up client, for the tests of rpc_stream.c.
 *
 * Include after cmocka.h.
 */
#pragma once

#include "suite.h"

#include "base/buf.h"
#include "base/mem.h"
#include "call/fake_core.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_methods.h"
#include "grpc/rpc_stream.h"
#include "grpc_service.pb-c.h"
#include "http/fake_control.h"

#include <stdlib.h>
#include <string.h>

/* ---- the core ---- */

#define MAX_STARTED 2048

static struct {
        struct TRITONSERVER_InferenceRequest *started[MAX_STARTED]; /* in order */
        size_t                                n_started;
        bool                                  answers_at_once;
        bool answers_early; /* the same, and there is more to come */
} core;

/* Models called "d..." are decoupled, "unknown" is none. */
static inline struct TRITONSERVER_Error *find_model(const char *model_name,
                                                    bool       *ret_is_decoupled) {
        if (fake_control.is_exiting)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not now");
        if (strcmp(model_name, "unknown") == 0)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown model");
        *ret_is_decoupled = model_name[0] == 'd';
        return NULL;
}

/* A response without bytes; `error` is its failure. */
static inline void respond(size_t i, const char *error, uint32_t flags) {
        struct TRITONSERVER_InferenceRequest  *request = core.started[i];
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));

        strcpy(r->output, "OUT");
        r->allocator = request->allocator;
        r->error = error;
        fake.n_responses++;
        request->on_response(r, flags, request->response_userp);
}

static inline void respond_flags_only(size_t i) {
        core.started[i]->on_response(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL,
                                     core.started[i]->response_userp);
}

static inline void release(size_t i) {
        core.started[i]->on_release(core.started[i], TRITONSERVER_REQUEST_RELEASE_ALL,
                                    core.started[i]->release_userp);
}

/* One response, final, and the end. */
static inline void answer(size_t i, const char *error) {
        respond(i, error, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
        release(i);
        fake_call_deliver();
}

static inline void on_run(struct TRITONSERVER_InferenceRequest *request) {
        core.started[core.n_started++] = request;
        if (core.answers_early)
                respond(core.n_started - 1, NULL, 0);
        if (core.answers_at_once) {
                respond(core.n_started - 1, NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
                release(core.n_started - 1);
        }
}

/* ---- the client ---- */

static inline void send_request(const char *model, const char *id, bool wants_empty_final,
                                size_t padding) {
        Inference__ModelInferRequest                  q = INFERENCE__MODEL_INFER_REQUEST__INIT;
        Inference__ModelInferRequest__ParametersEntry entry =
                INFERENCE__MODEL_INFER_REQUEST__PARAMETERS_ENTRY__INIT;
        Inference__ModelInferRequest__ParametersEntry *entries[] = { &entry };
        Inference__InferParameter                      value = INFERENCE__INFER_PARAMETER__INIT;
        ProtobufCBinaryData                            surplus = { padding, mem_zalloc(padding) };
        size_t                                         len;
        uint8_t                                       *bytes;

        q.model_name = (char *)model;
        q.id = (char *)id;
        entry.key = (char *)"triton_enable_empty_final_response";
        entry.value = &value;
        value.parameter_choice_case = INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
        value.bool_param = 1;
        q.parameters = entries;
        q.n_parameters = wants_empty_final;
        q.raw_input_contents = &surplus;
        q.n_raw_input_contents = padding > 0;
        len = inference__model_infer_request__get_packed_size(&q);
        bytes = mem_alloc(len);
        inference__model_infer_request__pack(&q, bytes);
        fake_call_read(rpc_stream_read, str_range((char *)bytes, len));
        free(bytes);
        free(surplus.data);
}

static inline void send_one(const char *model, const char *id) {
        send_request(model, id, false, 0);
}

struct expected {
        const char *error, *model, *version, *id;
        int         final; /* -1: no such parameter */
        size_t      n_outputs;
};

/* The n-th message that was sent. */
static inline void assert_message(size_t n, const struct expected *e) {
        struct strbuf                       *sent = &fake_call.messages[n];
        Inference__ModelStreamInferResponse *m;
        Inference__ModelInferResponse       *r;
        int                                  final = -1;

        assert_true(fake_call.n_messages > n);
        m = inference__model_stream_infer_response__unpack(NULL, sent->len,
                                                           (const uint8_t *)strbuf_cstr(sent));
        assert_non_null(m);
        r = m->infer_response;
        assert_non_null(r);
        assert_string_equal(m->error_message, e->error);
        assert_string_equal(r->model_name, e->model);
        assert_string_equal(r->model_version, e->version);
        assert_string_equal(r->id, e->id);
        assert_int_equal(r->n_outputs, e->n_outputs);
        assert_int_equal(r->n_raw_output_contents, e->n_outputs);
        for (size_t i = 0; i < r->n_parameters; i++)
                if (strcmp(r->parameters[i]->key, "triton_final_response") == 0) {
                        assert_int_equal(i, r->n_parameters - 1); /* the last one */
                        final = r->parameters[i]->value->bool_param;
                }
        assert_int_equal(final, e->final);
        inference__model_stream_infer_response__free_unpacked(m, NULL);
}

/* The fake core's responses all look like this. */
static inline void assert_response(size_t n, int final) {
        assert_message(n, &(struct expected){ "", "model", "3", "the id", final, 1 });
}

static inline void assert_finished(enum grpc_code code, const char *text) {
        assert_int_equal(fake_call.n_finished, 1);
        assert_int_equal(fake_call.code, code);
        assert_string_equal(strbuf_cstr(&fake_call.text), text);
}

static inline void abort_call(void) {
        fake_call.call.abort_reason = GRPC_ABORT_CANCELLED;
        rpc_stream_abort(&fake_call.call);
}

static inline int setup(void **state) {
        (void)state;
        memset(&fake, 0, sizeof(fake));
        memset(&core, 0, sizeof(core));
        fake_control.is_live = true;
        fake_control.is_exiting = false;
        strbuf_init(&fake.calls, 0);
        fake.run = on_run;
        fake.find_model = find_model;
        fake_call_init();
        assert_null(infer_core_init(&fake_call.core, &(struct infer_core_options){ 0 }));
        return 0;
}

static inline int teardown(void **state) {
        (void)state;
        infer_core_done(&fake_call.core);
        fake_call_done();
        strbuf_done(&fake.calls);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_responses, 0);
        assert_int_equal(fake.n_errors, 0);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
