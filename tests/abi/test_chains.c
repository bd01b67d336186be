/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains and ensembles of a program with the server in it: the checks 28 and 29 of the chains, whose other
 * numbers are in tests/e2e/test_chains.py, and what only a program can see. What clients see as well is in
 * tests/e2e/test_pipeline_ways.py.
 *
 *   test_chains <directory of backends>
 */
#include "api_assert.h"
#include "embedded.h"
#include "heap_allocator.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NONE                                                                                       \
        (struct NESO_LoadParameters) {                                                             \
                NULL, 0                                                                            \
        }

static const char *const names[] = { "A", "B", "C" };
static const char       *backend_directory;

struct place {
        struct model_place                     models;
        struct TRITONSERVER_Server            *server;
        struct TRITONSERVER_ResponseAllocator *allocator;
};

/* A model that adds to a row of numbers. */
static void write_adding(struct place *p, const char *name, int add, const char *more) {
        char text[1024];

        snprintf(text, sizeof(text),
                 "backend: \"testing\"\n"
                 "input { name: \"IN\" data_type: TYPE_INT32 dims: [ -1 ] }\n"
                 "output { name: \"%s_OUT\" data_type: TYPE_INT32 dims: [ -1 ] "
                 "label_filename: \"labels.txt\" }\n"
                 "parameters { key: \"add\" value { string_value: \"%d\" } }\n"
                 "parameters { key: \"address_log\" value { string_value: \"log\" } }\n%s",
                 name, add, more);
        model_place_add_model(&p->models, name, text, NULL);
        snprintf(text, sizeof(text), "%s/labels.txt", name);
        model_place_add_file(&p->models, text, "first\nsecond\n");
}

/* An ensemble of two such models. */
static void write_ensemble(struct place *p, const char *name, const char *first,
                           const char *second) {
        char text[1024];

        snprintf(text, sizeof(text),
                 "platform: \"ensemble\"\n"
                 "input { name: \"IN\" data_type: TYPE_INT32 dims: [ -1 ] }\n"
                 "output { name: \"OUT\" data_type: TYPE_INT32 dims: [ -1 ] }\n"
                 "ensemble_scheduling {\n"
                 "step { model_name: \"%s\" model_version: -1 input_map { key: \"IN\" value: "
                 "\"IN\" } "
                 "output_map { key: \"%s_OUT\" value: \"T\" } }\n"
                 "step { model_name: \"%s\" model_version: -1 input_map { key: \"IN\" value: \"T\" "
                 "} "
                 "output_map { key: \"%s_OUT\" value: \"OUT\" } } }\n",
                 first, first, second, second);
        model_place_add_model(&p->models, name, text, NULL);
}

/* A adds 1, B adds 10, C adds 100; D answers three times; G stops at a gate. */
static void make_repository(struct place *p) {
        static const char decoupled[] =
                "model_transaction_policy { decoupled: true }\n"
                "parameters { key: \"responses\" value { string_value: \"3\" } }\n";
        static const char gated[] =
                "parameters { key: \"gate_fifo\" value { string_value: \"gate\" } }\n"
                "parameters { key: \"reached_fifo\" value { string_value: \"reached\" } }\n";

        model_place_open(&p->models);
        write_adding(p, "A", 1, "");
        write_adding(p, "B", 10, "");
        write_adding(p, "C", 100, "");
        write_adding(p, "D", 1000, decoupled);
        write_adding(p, "G", 0, gated);
        write_ensemble(p, "AB", "A", "B");
        write_ensemble(p, "DB", "D", "B");
        write_ensemble(p, "GB", "G", "B");
        model_place_add_fifo(&p->models, "G/gate");
        model_place_add_fifo(&p->models, "G/reached");
}

static void begin(struct place *p) {
        struct TRITONSERVER_ServerOptions *options;

        make_repository(p);
        options = embedded_options(p->models.root, backend_directory);
        assert_ok(
                TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                              TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        p->server = embedded_start(options);
        p->allocator = heap_allocator_new();
}

static void end(struct place *p) {
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(p->allocator));
        assert_ok(TRITONSERVER_ServerDelete(p->server));
        model_place_close_with_more(&p->models);
}

static bool is_ready(const struct place *p, const char *model) {
        bool ready = false;

        assert_ok(TRITONSERVER_ServerModelIsReady(p->server, model, -1, &ready));
        return ready;
}

static void make(struct inference *in, const struct place *p, const char *model,
                 const int32_t *number) {
        inference_open(in, p->server, model, p->allocator, NULL);
        inference_add_input(in, "IN", TRITONSERVER_TYPE_INT32, 1, number);
}

/* What the model makes of a number. */
static int32_t infer(const struct place *p, const char *model, int32_t number) {
        struct inference in;
        int32_t          got;

        make(&in, p, model, &number);
        got = inference_int32(inference_run(&in));
        inference_close(&in);
        return got;
}

/* ---- 28: loading ----------------------------------------------------------------------------- */

static void test_28_a_list_of_models(void **state) {
        struct place               p;
        const char                *loaded[3];
        struct NESO_LoadParameters none[3] = { NONE, NONE, NONE };

        (void)state;
        begin(&p);
        assert_ok(NESO_ServerLoadChain(p.server, names, 3, none, 3, loaded));
        for (int i = 0; i < 3; i++) {
                assert_string_equal(loaded[i], names[i]);
                assert_true(is_ready(&p, names[i]));
        }
        assert_int_equal(infer(&p, loaded[0], 5), 116);
        assert_int_equal(infer(&p, loaded[1], 5), 115);
        assert_int_equal(infer(&p, loaded[2], 5), 105);
        /* Another order of the same. */
        assert_ok(NESO_ServerLoadChain(p.server, (const char *[]){ "A", "C" }, 2, none, 2, loaded));
        assert_int_equal(infer(&p, "A", 5), 106);
        end(&p);
}

static void test_28_unequal_lengths(void **state) {
        struct place               p;
        const char                *loaded[3] = { NULL };
        struct NESO_LoadParameters none[3] = { NONE, NONE, NONE };

        (void)state;
        begin(&p);
        assert_error(NESO_ServerLoadChain(p.server, names, 3, none, 2, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "a chain of 3 models has load parameters for 2");
        assert_error(NESO_ServerLoadChain(p.server, names, 2, none, 3, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "a chain of 2 models has load parameters for 3");
        assert_error(NESO_ServerLoadChain(p.server, names, 0, none, 0, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG, "a chain has a model at least");
        for (int i = 0; i < 3; i++) {
                assert_false(is_ready(&p, names[i]));
                assert_null(loaded[i]);
        }
        end(&p);
}

static void test_28_one_model(void **state) {
        struct place                         p;
        const char                          *loaded[1];
        struct NESO_LoadParameters           parameters[1];
        const struct TRITONSERVER_Parameter *next =
                TRITONSERVER_ParameterNew("next", TRITONSERVER_PARAMETER_STRING, "C");

        (void)state;
        begin(&p);
        parameters[0] = NONE;
        assert_ok(NESO_ServerLoadChain(p.server, names, 1, parameters, 1, loaded));
        assert_string_equal(loaded[0], "A");
        assert_int_equal(infer(&p, "A", 5), 6);
        assert_false(is_ready(&p, "B"));
        /* Its load parameters are those of any load. */
        parameters[0] = (struct NESO_LoadParameters){ &next, 1 };
        assert_ok(NESO_ServerLoadChain(p.server, names, 1, parameters, 1, loaded));
        assert_int_equal(infer(&p, "A", 5), 106);
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)next);
        end(&p);
}

static bool has(const char *json, size_t n_bytes, const char *text) {
        return memmem(json, n_bytes, text, strlen(text)) != NULL;
}

static void test_28_parameters(void **state) {
        struct place                         p;
        const char                          *loaded[2] = { NULL };
        struct NESO_LoadParameters           parameters[2] = { NONE, NONE };
        const struct TRITONSERVER_Parameter *batching =
                TRITONSERVER_ParameterNew("chain_batching", TRITONSERVER_PARAMETER_STRING, "keep");
        const struct TRITONSERVER_Parameter *next =
                TRITONSERVER_ParameterNew("next", TRITONSERVER_PARAMETER_STRING, "C");
        struct TRITONSERVER_Message *config;
        const char                  *json;
        size_t                       n_bytes;

        (void)state;
        begin(&p);
        parameters[0] = (struct NESO_LoadParameters){ &next, 1 };
        assert_error(NESO_ServerLoadChain(p.server, names, 2, parameters, 2, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "load parameter 'next' of model 'A' is its place in the chain, and cannot be "
                     "given");
        parameters[0] = (struct NESO_LoadParameters){ NULL, 1 };
        assert_error(NESO_ServerLoadChain(p.server, names, 2, parameters, 2, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG, "the load parameters of model 'A' are NULL");
        assert_error(NESO_ServerLoadChain(p.server, (const char *[]){ "A", NULL }, 2,
                                          (struct NESO_LoadParameters[]){ NONE, NONE }, 2, loaded),
                     TRITONSERVER_ERROR_INVALID_ARG, "stage 2 of the chain has no name");
        assert_false(is_ready(&p, "A") || is_ready(&p, "B"));
        parameters[0] = (struct NESO_LoadParameters){ &batching, 1 };
        assert_ok(NESO_ServerLoadChain(p.server, names, 2, parameters, 2, loaded));
        assert_ok(TRITONSERVER_ServerModelConfig(p.server, "A", -1, 1, &config));
        assert_ok(TRITONSERVER_MessageSerializeToJson(config, &json, &n_bytes));
        assert_true(has(json, n_bytes, "\"chain_batching\":{\"string_value\":\"keep\"}"));
        assert_true(has(json, n_bytes, "\"next\":{\"string_value\":\"B\"}"));
        assert_ok(TRITONSERVER_MessageDelete(config));
        assert_int_equal(infer(&p, loaded[0], 5), 16);
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)batching);
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)next);
        end(&p);
}

/* A model that is not there: the ones after it are loaded. */
static void test_28_a_load_that_fails(void **state) {
        struct place               p;
        const char                *loaded[3] = { NULL };
        struct NESO_LoadParameters none[3] = { NONE, NONE, NONE };

        (void)state;
        begin(&p);
        assert_error(NESO_ServerLoadChain(p.server, (const char *[]){ "A", "nosuch", "C" }, 3, none,
                                          3, loaded),
                     TRITONSERVER_ERROR_INTERNAL,
                     "failed to load 'nosuch', failed to poll from model repository");
        assert_false(is_ready(&p, "A"));
        assert_true(is_ready(&p, "C"));
        assert_null(loaded[0]);
        end(&p);
}

/* ---- 29: no copies --------------------------------------------------------------------------- */

#define N_LARGE ((int64_t)16 << 20) /* 64 MiB */

/* Where the stage's only execution read and wrote. */
static void read_addresses(const struct place *p, const char *model, void **ret_in,
                           void **ret_out) {
        char  path[128], line[128];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s/log", p->models.root, model);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_non_null(fgets(line, sizeof(line), file));
        assert_int_equal(sscanf(line, "%p %p", ret_in, ret_out), 2);
        assert_null(fgets(line, sizeof(line), file));
        fclose(file);
}

/* From the client's memory through two buffers between the stages into the client's memory: each stage
 * reads where the one before wrote, so nothing is copied beside what the stages do. */
static void test_29_each_stage_reads_where_the_one_before_wrote(void **state) {
        struct place               p;
        const char                *loaded[3];
        struct NESO_LoadParameters none[3] = { NONE, NONE, NONE };
        int32_t                   *sent = malloc((size_t)N_LARGE * sizeof(*sent));
        struct inference           in;
        struct inference_output    out;
        const int32_t             *got;
        void                      *read_at[3], *written_at[3];

        (void)state;
        assert_non_null(sent);
        for (int64_t i = 0; i < N_LARGE; i++)
                sent[i] = (int32_t)i;
        begin(&p);
        assert_ok(NESO_ServerLoadChain(p.server, names, 3, none, 3, loaded));
        inference_open(&in, p.server, "A", p.allocator, NULL);
        inference_add_input(&in, "IN", TRITONSERVER_TYPE_INT32, N_LARGE, sent);
        out = inference_output(inference_run(&in), 0);
        assert_int_equal(out.n_bytes, (size_t)N_LARGE * sizeof(*sent));
        got = out.base;
        for (int64_t i = 0; i < N_LARGE; i++)
                if (got[i] != i + 111)
                        fail_msg("element %ld is %d", (long)i, got[i]);
        for (int i = 0; i < 3; i++)
                read_addresses(&p, names[i], &read_at[i], &written_at[i]);
        assert_ptr_equal(read_at[0], sent);
        assert_ptr_equal(read_at[1], written_at[0]);
        assert_ptr_equal(read_at[2], written_at[1]);
        assert_ptr_equal(written_at[2], got);
        inference_close(&in);
        end(&p);
        free(sent);
}

/* ---- what clients do not see ----------------------------------------------------------------- */

/* Each response of the decoupled model, and one FINAL. */
static void test_decoupled(void **state) {
        struct place               p;
        const char                *loaded[2];
        struct NESO_LoadParameters none[2] = { NONE, NONE };
        const int32_t              sent = 5;

        (void)state;
        begin(&p);
        assert_ok(NESO_ServerLoadChain(p.server, (const char *[]){ "A", "D" }, 2, none, 2, loaded));
        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "DB"));
        for (int i = 0; i < 2; i++) {
                struct inference in;

                make(&in, &p, i == 0 ? "A" : "DB", &sent);
                inference_start(&in);
                inference_wait(&in, 3, INFERENCE_ENDS);
                assert_int_equal(in.n_responses, 3);
                for (unsigned k = 0; k < 3; k++)
                        assert_int_equal(inference_int32(in.responses[k]), i == 0 ? 1006 : 1015);
                inference_close(&in);
        }
        /* Elsewhere than at a chain's end. */
        assert_error(
                NESO_ServerLoadChain(p.server, (const char *[]){ "D", "C" }, 2, none, 2, loaded),
                TRITONSERVER_ERROR_INVALID_ARG,
                "load failed for model 'D': version 1 is at UNAVAILABLE state: Invalid "
                "argument: stage 'D' of chain 'D' is decoupled: only the last stage may be;\n");
        end(&p);
}

/* What a backend asks of a model that it names; the request's own parameter wins. */
static void test_requests_that_run_alone(void **state) {
        static const struct {
                bool    alone, has_parameter, parameter;
                int32_t output;
        } rows[] = { { false, false, false, 116 },
                     { true, false, false, 6 },
                     { true, true, true, 116 },
                     { true, true, false, 6 },
                     { false, true, false, 6 } };
        struct place               p;
        const char                *loaded[3];
        struct NESO_LoadParameters none[3] = { NONE, NONE, NONE };

        (void)state;
        begin(&p);
        assert_ok(NESO_ServerLoadChain(p.server, names, 3, none, 3, loaded));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const int32_t    sent = 5;
                struct inference in;

                make(&in, &p, "A", &sent);
                assert_ok(NESO_InferenceRequestSetRunsAlone(in.request, rows[i].alone));
                if (rows[i].has_parameter)
                        assert_ok(TRITONSERVER_InferenceRequestSetBoolParameter(in.request, "chain",
                                                                                rows[i].parameter));
                assert_int_equal(inference_int32(inference_run(&in)), rows[i].output);
                inference_close(&in);
        }
        end(&p);
}

/* An ensemble has the labels of the step's output that it is. */
static void test_labels(void **state) {
        const int32_t    sent = 5;
        struct place     p;
        struct inference in;
        const char      *label;

        (void)state;
        begin(&p);
        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "AB"));
        make(&in, &p, "AB", &sent);
        assert_int_equal(inference_int32(inference_run(&in)), 16);
        assert_ok(TRITONSERVER_InferenceResponseOutputClassificationLabel(in.responses[0], 0, 1,
                                                                          &label));
        assert_string_equal(label, "second");
        inference_close(&in);
        end(&p);
}

static int open_fifo(const struct place *p, const char *name) {
        char path[128];
        int  opened;

        snprintf(path, sizeof(path), "%s/G/%s", p->models.root, name);
        opened = open(path, O_RDWR);
        assert_true(opened >= 0);
        return opened;
}

/* A cancelled request ends with the step that is under way; one that is inside ends with the models that
 * it was admitted with. */
static void test_while_a_step_runs(void **state) {
        const int32_t                         sent = 5;
        struct place                          p;
        struct inference                      in;
        struct TRITONSERVER_InferenceRequest *refused;
        char                                  byte;

        (void)state;
        begin(&p);
        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "GB"));
        for (int cancels = 0; cancels < 2; cancels++) {
                int gate = open_fifo(&p, "gate"), reached = open_fifo(&p, "reached");

                make(&in, &p, "GB", &sent);
                inference_start(&in);
                assert_int_equal(read(reached, &byte, 1), 1);
                if (cancels)
                        assert_ok(TRITONSERVER_InferenceRequestCancel(in.request));
                else
                        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "B"));
                assert_int_equal(write(gate, "g", 1), 1);
                inference_wait(&in, 1, INFERENCE_ENDS);
                if (cancels) {
                        assert_error(TRITONSERVER_InferenceResponseError(in.responses[0]),
                                     TRITONSERVER_ERROR_CANCELLED, "in ensemble 'GB', ");
                } else {
                        assert_int_equal(inference_int32(in.responses[0]), 15);
                        assert_error(TRITONSERVER_InferenceRequestNew(&refused, p.server, "GB", -1),
                                     TRITONSERVER_ERROR_NOT_FOUND,
                                     "Request for unknown model: 'GB' has no available versions");
                        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "B"));
                }
                inference_close(&in);
                assert_int_equal(close(gate), 0);
                assert_int_equal(close(reached), 0);
        }
        end(&p);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_28_a_list_of_models),
                cmocka_unit_test(test_28_unequal_lengths),
                cmocka_unit_test(test_28_one_model),
                cmocka_unit_test(test_28_parameters),
                cmocka_unit_test(test_28_a_load_that_fails),
                cmocka_unit_test(test_29_each_stage_reads_where_the_one_before_wrote),
                cmocka_unit_test(test_decoupled),
                cmocka_unit_test(test_requests_that_run_alone),
                cmocka_unit_test(test_labels),
                cmocka_unit_test(test_while_a_step_runs),
        };

        if (argc != 2)
                return 2;
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
