/* SPDX-License-Identifier: BSD-3-Clause */
/* The reply to a Python process that calls another model: the memory of its outputs. */
#include "suite.h"

#include "fake_server.h"
#include "python/device_memory.h"
#include "python/holds.h"

#include <string.h>

static unsigned n_holds_left; /* the next one fails when it is 0 */

/* The real functions, but for the failure, and the handle that a driver would give. */
static TRITONSERVER_Error *add_output_or_fail(struct instance *in, const struct session *s,
                                              int64_t device, void *memory, uint64_t n_bytes,
                                              struct shm_device *place) {
        if (n_holds_left-- == 0)
                return kit_error_no_memory(8, "an output");
        return holds_add_output(in, s, device, memory, n_bytes, place);
}

static TRITONSERVER_Error *share_fake(const struct backend *backend, int64_t device,
                                      const void *memory, const void *known_handle,
                                      struct shm_device *ret) {
        (void)backend, (void)device, (void)memory, (void)known_handle;
        *ret = (struct shm_device){ .offset = 0 };
        return NULL;
}

#define holds_add_output add_output_or_fail
#define device_share share_fake
#include "python/bls_call.c"

#define N_OUTPUTS 3
#define OUTPUT_BYTES 100000

struct TRITONSERVER_InferenceResponse {
        void *buffers[N_OUTPUTS], *userp[N_OUTPUTS];
};

/* ---- what the server does ---- */

void session_ref(struct session *s) {
        atomic_fetch_add(&s->n_users, 1);
}

void session_unref(struct session *s) {
        atomic_fetch_sub(&s->n_users, 1);
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse *response) {
        (void)response;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputCount(
        TRITONSERVER_InferenceResponse *response, uint32_t *n) {
        (void)response;
        *n = N_OUTPUTS;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
        TRITONSERVER_InferenceResponse *response, const uint32_t index, const char **name,
        TRITONSERVER_DataType *type, const int64_t **shape, uint64_t *n_dims, const void **base,
        size_t *n_bytes, TRITONSERVER_MemoryType *memory_type, int64_t *memory_id, void **userp) {
        static const int64_t dims[] = { OUTPUT_BYTES };

        *name = "OUT";
        *type = TRITONSERVER_TYPE_UINT8;
        *shape = dims;
        *n_dims = 1;
        *base = response->buffers[index];
        *n_bytes = OUTPUT_BYTES;
        *memory_type = index == 0 ? TRITONSERVER_MEMORY_CPU : TRITONSERVER_MEMORY_GPU;
        *memory_id = 0;
        *userp = response->userp[index];
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameterCount(
        TRITONSERVER_InferenceResponse *response, uint32_t *n) {
        (void)response;
        *n = 0;
        return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameter(
        TRITONSERVER_InferenceResponse *response, const uint32_t index, const char **name,
        TRITONSERVER_ParameterType *type, const void **value) {
        (void)response, (void)index, (void)name, (void)type, (void)value;
        abort();
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *response) {
        for (uint32_t i = 0; i < N_OUTPUTS; i++)
                assert_null(on_free(NULL, response->buffers[i], response->userp[i], OUTPUT_BYTES,
                                    TRITONSERVER_MEMORY_CPU, 0));
        return NULL;
}

/* ---- */

struct fixture {
        struct backend  backend;
        struct model    model;
        struct instance instance;
        struct session  session;
        struct bls_call call;
        uint32_t        first_block; /* of the output in main memory */
};

static void begin(struct fixture *f, struct TRITONSERVER_InferenceResponse *response) {
        static const struct region_options options = { .first_bytes = 2 << 20,
                                                       .growth_bytes = 1 << 20 };

        memset(f, 0, sizeof(*f));
        f->model.backend = &f->backend;
        f->instance.model = &f->model;
        (void)pthread_mutex_init(&f->instance.lock, NULL);
        f->call = (struct bls_call){ .instance = &f->instance, .session = &f->session };
        assert_null(region_open(&f->session.region, &options));
        for (uint32_t i = 0; i < N_OUTPUTS; i++) {
                TRITONSERVER_MemoryType type;
                int64_t                 id;

                f->call.gpu = i > 0; /* the GPU has no room for the first one */
                assert_null(on_alloc(NULL, "OUT", OUTPUT_BYTES, TRITONSERVER_MEMORY_CPU, 0,
                                     &f->call, &response->buffers[i], &response->userp[i], &type,
                                     &id));
                assert_int_equal(type, i > 0 ? TRITONSERVER_MEMORY_GPU : TRITONSERVER_MEMORY_CPU);
        }
        f->first_block = ((struct output_buffer *)response->userp[0])->block;
}

static void end(struct fixture *f) {
        assert_int_equal(atomic_load(&f->session.n_users), 0);
        holds_end_all(&f->instance);
        assert_int_equal(fake.n_device_alive, 0);
        region_close(&f->session.region);
}

static enum shm_answer_kind kind_of(struct fixture *f, uint32_t block) {
        const struct shm_reply *reply = region_block(&f->session.region, block);

        return (enum shm_answer_kind)reply->answer.kind;
}

static void test_reply(void **state) {
        struct TRITONSERVER_InferenceResponse response;
        struct fixture                        f;
        uint32_t                              block;

        (void)state;
        n_holds_left = N_OUTPUTS;
        begin(&f, &response);
        block = reply_for(&f.call, &response);
        assert_int_equal(kind_of(&f, block), SHM_ANSWER_OK);
        /* All outputs are the process's now. */
        assert_int_equal(fake.n_device_alive, N_OUTPUTS - 1);
        assert_int_not_equal(region_alloc(&f.session.region, OUTPUT_BYTES), f.first_block);
        end(&f);
}

/* The process gets an error, and no output: none is kept for it. */
static void test_reply_that_fails_halfway(void **state) {
        (void)state;
        for (unsigned n = 0; n < N_OUTPUTS - 1; n++) {
                struct TRITONSERVER_InferenceResponse response;
                struct fixture                        f;
                uint32_t                              block;

                n_holds_left = n;
                begin(&f, &response);
                block = reply_for(&f.call, &response);
                assert_int_equal(kind_of(&f, block), SHM_ANSWER_ERROR);
                assert_null(f.instance.holds);
                assert_int_equal(fake.n_device_alive, 0);
                region_free(&f.session.region, block);
                assert_int_equal(region_alloc(&f.session.region, OUTPUT_BYTES), f.first_block);
                end(&f);
        }
}

SUITE(python_bls_reply) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reply),
                cmocka_unit_test(test_reply_that_fails_halfway),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
