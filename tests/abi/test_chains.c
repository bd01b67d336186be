/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains that a program with the server in it loads and asks: the checks 28 and 29 of the chains, whose
 * other numbers are in tests/e2e/test_chains.py.
 *
 *   test_chains <directory of backends>
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <ftw.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triton/core/neso.h"

#include "api_assert.h"

#define NONE                                                                                       \
        (struct NESO_LoadParameters) {                                                             \
                NULL, 0                                                                            \
        }

static const char *const names[] = { "A", "B", "C" };
static const char       *backend_directory;

struct place {
        char                                   root[64];
        struct TRITONSERVER_Server            *server;
        struct TRITONSERVER_ResponseAllocator *allocator;
        void                                  *output; /* room for it */
        size_t                                 output_bytes;
        struct TRITONSERVER_InferenceResponse *response;
        sem_t                                  is_answered, is_released;
};

/* A adds 1, B adds 10, C adds 100. */
static void make_repository(struct place *p) {
        static const char text[] =
                "backend: \"testing\"\n"
                "input { name: \"IN\" data_type: TYPE_INT32 dims: [ -1 ] }\n"
                "output { name: \"%s_OUT\" data_type: TYPE_INT32 dims: [ -1 ] }\n"
                "parameters { key: \"add\" value { string_value: \"%d\" } }\n"
                "parameters { key: \"address_log\" value { string_value: \"log\" } }\n";
        int add = 1;

        snprintf(p->root, sizeof(p->root), "/tmp/neso_chains_XXXXXX");
        assert_non_null(mkdtemp(p->root));
        for (int i = 0; i < 3; i++, add *= 10) {
                char  path[128];
                FILE *file;

                snprintf(path, sizeof(path), "%s/%s", p->root, names[i]);
                assert_int_equal(mkdir(path, 0755), 0);
                snprintf(path, sizeof(path), "%s/%s/1", p->root, names[i]);
                assert_int_equal(mkdir(path, 0755), 0);
                snprintf(path, sizeof(path), "%s/%s/config.pbtxt", p->root, names[i]);
                file = fopen(path, "w");
                assert_non_null(file);
                assert_true(fprintf(file, text, names[i], add) > 0);
                assert_int_equal(fclose(file), 0);
        }
}

static struct TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t                 *actual_id) {
        struct place *p = userp;

        (void)a, (void)tensor_name, (void)type, (void)id;
        assert_int_equal(byte_size, p->output_bytes);
        *buffer = p->output;
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        return NULL;
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct place *p = userp;

        (void)flags;
        p->response = response;
        sem_post(&p->is_answered);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct place *p = userp;

        (void)request, (void)flags;
        sem_post(&p->is_released);
}

static void begin(struct place *p) {
        struct TRITONSERVER_ServerOptions *options;

        make_repository(p);
        assert_int_equal(sem_init(&p->is_answered, 0, 0), 0);
        assert_int_equal(sem_init(&p->is_released, 0, 0), 0);
        assert_ok(TRITONSERVER_ServerOptionsNew(&options));
        assert_ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, p->root));
        assert_ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backend_directory));
        assert_ok(
                TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                              TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        assert_ok(TRITONSERVER_ServerNew(&p->server, options));
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&p->allocator, allocate, give_back, NULL));
}

static int remove_one(const char *path, const struct stat *native, int kind, struct FTW *at) {
        (void)native, (void)kind, (void)at;
        return remove(path);
}

static void end(struct place *p) {
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(p->allocator));
        assert_ok(TRITONSERVER_ServerDelete(p->server));
        sem_destroy(&p->is_answered);
        sem_destroy(&p->is_released);
        assert_int_equal(nftw(p->root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static bool is_ready(const struct place *p, const char *model) {
        bool ready = false;

        assert_ok(TRITONSERVER_ServerModelIsReady(p->server, model, -1, &ready));
        return ready;
}

static void infer_all(struct place *p, const char *model, const int32_t *numbers, int64_t n,
                      int32_t *ret) {
        struct TRITONSERVER_InferenceRequest *request;

        p->output = ret;
        p->output_bytes = (size_t)n * sizeof(*ret);
        assert_ok(TRITONSERVER_InferenceRequestNew(&request, p->server, model, -1));
        assert_ok(TRITONSERVER_InferenceRequestAddInput(request, "IN", TRITONSERVER_TYPE_INT32, &n,
                                                        1));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(request, "IN", numbers,
                                                               p->output_bytes,
                                                               TRITONSERVER_MEMORY_CPU, 0));
        assert_ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, p->allocator, p,
                                                                   on_response, p));
        assert_ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, p));
        assert_ok(TRITONSERVER_ServerInferAsync(p->server, request, NULL));
        sem_wait(&p->is_answered);
        sem_wait(&p->is_released);
        assert_ok(TRITONSERVER_InferenceResponseError(p->response));
        assert_ok(TRITONSERVER_InferenceResponseDelete(p->response));
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

/* What the model makes of a number. */
static int32_t infer(struct place *p, const char *model, int32_t number) {
        int32_t ret;

        infer_all(p, model, &number, 1, &ret);
        return ret;
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

        snprintf(path, sizeof(path), "%s/%s/log", p->root, model);
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
        int32_t                   *got = malloc((size_t)N_LARGE * sizeof(*got));
        void                      *in[3], *out[3];

        (void)state;
        assert_true(sent != NULL && got != NULL);
        for (int64_t i = 0; i < N_LARGE; i++)
                sent[i] = (int32_t)i;
        begin(&p);
        assert_ok(NESO_ServerLoadChain(p.server, names, 3, none, 3, loaded));
        infer_all(&p, "A", sent, N_LARGE, got);
        for (int64_t i = 0; i < N_LARGE; i++)
                if (got[i] != i + 111)
                        fail_msg("element %ld is %d", (long)i, got[i]);
        for (int i = 0; i < 3; i++)
                read_addresses(&p, names[i], &in[i], &out[i]);
        assert_ptr_equal(in[0], sent);
        assert_ptr_equal(in[1], out[0]);
        assert_ptr_equal(in[2], out[1]);
        assert_ptr_equal(out[2], got);
        end(&p);
        free(got);
        free(sent);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_28_a_list_of_models),
                cmocka_unit_test(test_28_unequal_lengths),
                cmocka_unit_test(test_28_one_model),
                cmocka_unit_test(test_28_parameters),
                cmocka_unit_test(test_28_a_load_that_fails),
                cmocka_unit_test(test_29_each_stage_reads_where_the_one_before_wrote),
        };

        if (argc != 2)
                return 2;
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
