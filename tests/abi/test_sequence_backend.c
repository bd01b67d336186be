/* SPDX-License-Identifier: BSD-3-Clause */
/* A sequence backend, as those that are compiled for the reference server work: it finds its place in
 * the sequence in control inputs, reads the state as an input, makes the next one with the state
 * calls and updates it, answers at once, later from another thread, or after having released the
 * request to be run again.
 *
 *   test_sequence_backend <the probe backend's library>
 *
 * The backend's executions are functions of this file (probe_backend.c). They only note what is
 * wrong; the test's own thread asserts.
 */
#include "api_assert.h"
#include "embedded.h"
#include "heap_allocator.h"
#include "model_place.h"
#include "triton/core/tritonbackend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define INT32 " data_type: TYPE_INT32 dims: 1 "
#define CONTROL(name, kind, values)                                                                \
        "control_input { name: \"" name "\" control { kind: CONTROL_SEQUENCE_" kind " " values     \
        " } } "
#define PAIR "int32_false_true: [ 0, 1 ]"
#define MODEL(batch, more)                                                                         \
        "backend: \"probe\"\nruntime: \"libtriton_probe.so\"\nmax_batch_size: " #batch             \
        " input { name: \"INPUT\" " INT32 "} output { name: \"OUTPUT\" " INT32 "} "                \
        "instance_group { count: 1 kind: KIND_CPU } " more
#define CORRID CONTROL("CORRID", "CORRID", "data_type: TYPE_UINT64")
#define CONTROLS                                                                                   \
        CONTROL("START", "START", PAIR) CONTROL("END", "END", PAIR) CONTROL("READY", "READY", PAIR)
#define STATE "state { input_name: \"INPUT_STATE\" output_name: \"OUTPUT_STATE\" " INT32 "} "
#define SEQUENCES(more)                                                                            \
        "sequence_batching { max_sequence_idle_microseconds: 3600000000 " CONTROLS CORRID STATE    \
                more "} "

static const struct {
        const char *name;
        const char *config;
} models[] = {
        { "direct", MODEL(4, SEQUENCES("direct { } ")) },
        { "oldest", MODEL(4, SEQUENCES("oldest { max_candidate_sequences: 4 } ")) },
        { "later", MODEL(0, SEQUENCES("")) },
        { "again", MODEL(0, SEQUENCES("iterative_sequence: true ")) },
        { "plain", MODEL(0, "") },
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))

static struct model_place          place;
static char                       *library;
static struct TRITONSERVER_Server *server;

/* ---- what is noted ------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char            wrong[256]; /* guarded by the lock, as the others: the first that was */
static unsigned        n_nulls;    /* requests of slots with nothing to run */
static unsigned        n_executed; /* requests */

static void note_wrong(int line, const char *what) {
        pthread_mutex_lock(&lock);
        if (wrong[0] == '\0')
                snprintf(wrong, sizeof(wrong), "line %d: %s", line, what);
        pthread_mutex_unlock(&lock);
}

#define EXPECT(condition)                                                                          \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        note_wrong(__LINE__, #condition);                                          \
        } while (0)

#define OK(call)                                                                                   \
        do {                                                                                       \
                TRITONSERVER_Error *err_ = (call);                                                 \
                if (err_ != NULL) {                                                                \
                        note_wrong(__LINE__, TRITONSERVER_ErrorMessage(err_));                     \
                        TRITONSERVER_ErrorDelete(err_);                                            \
                }                                                                                  \
        } while (0)

static void expect_refusal(int line, TRITONSERVER_Error *err, const char *text) {
        if (err == NULL || TRITONSERVER_ErrorCode(err) != TRITONSERVER_ERROR_INVALID_ARG ||
            strcmp(TRITONSERVER_ErrorMessage(err), text) != 0)
                note_wrong(line, err != NULL ? TRITONSERVER_ErrorMessage(err) : "no error");
        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
}

/* ---- the backend --------------------------------------------------------------------------------- */

static const void *read_input(TRITONBACKEND_Request *request, const char *name,
                              TRITONSERVER_DataType expected, uint64_t n_expected) {
        TRITONBACKEND_Input    *input = NULL;
        TRITONSERVER_DataType   type = TRITONSERVER_TYPE_INVALID;
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        int64_t                 id = 0;
        uint64_t                n_bytes = 0, n_buffer = 0;
        uint32_t                n_buffers = 0;
        const void             *buffer = NULL;

        OK(TRITONBACKEND_RequestInput(request, name, &input));
        if (input == NULL)
                return "\0\0\0\0\0\0\0";
        OK(TRITONBACKEND_InputProperties(input, NULL, &type, NULL, NULL, &n_bytes, &n_buffers));
        EXPECT(type == expected && n_bytes == n_expected && n_buffers == 1);
        OK(TRITONBACKEND_InputBuffer(input, 0, &buffer, &n_buffer, &memory, &id));
        EXPECT(n_buffer == n_bytes && memory == TRITONSERVER_MEMORY_CPU);
        return buffer;
}

static int32_t read_int(TRITONBACKEND_Request *request, const char *name) {
        int32_t value;

        memcpy(&value, read_input(request, name, TRITONSERVER_TYPE_INT32, sizeof(value)),
               sizeof(value));
        return value;
}

static uint32_t rank_of(TRITONBACKEND_Request *request) {
        TRITONBACKEND_Input *input = NULL;
        uint32_t             n_dims = 0;

        OK(TRITONBACKEND_RequestInput(request, "INPUT", &input));
        OK(TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, &n_dims, NULL, NULL));
        return n_dims;
}

static void write_state(TRITONBACKEND_Request *request, int32_t value, bool is_update) {
        static const int64_t           shape[] = { 1, 1 };
        TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType        memory = TRITONSERVER_MEMORY_CPU;
        TRITONBACKEND_State           *state = NULL;
        int64_t                        id = 0;
        size_t                         size = 0;
        void                          *buffer = NULL;

        expect_refusal(__LINE__,
                       TRITONBACKEND_StateNew(&state, request, "OTHER", TRITONSERVER_TYPE_INT32,
                                              shape, 1),
                       "state 'OTHER' is not a valid state name.");
        OK(TRITONBACKEND_StateNew(&state, request, "OUTPUT_STATE", TRITONSERVER_TYPE_INT32, shape,
                                  rank_of(request)));
        OK(TRITONBACKEND_StateBuffer(state, &buffer, sizeof(value), &memory, &id));
        OK(TRITONBACKEND_StateBufferAttributes(state, &attributes));
        OK(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
        EXPECT(size == sizeof(value));
        memcpy(buffer, &value, sizeof(value));
        if (is_update)
                OK(TRITONBACKEND_StateUpdate(state));
}

static void answer(TRITONBACKEND_Request *request, int32_t value) {
        static const int64_t    shape[] = { 1, 1 };
        TRITONSERVER_MemoryType memory = TRITONSERVER_MEMORY_CPU;
        TRITONBACKEND_Response *response;
        TRITONBACKEND_Output   *output;
        int64_t                 id = 0;
        void                   *buffer;

        OK(TRITONBACKEND_ResponseNew(&response, request));
        OK(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT", TRITONSERVER_TYPE_INT32, shape,
                                        rank_of(request)));
        OK(TRITONBACKEND_OutputBuffer(output, &buffer, sizeof(value), &memory, &id));
        memcpy(buffer, &value, sizeof(value));
        OK(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
}

/* The sum of the sequence so far. A value of -1 is not kept. */
static int32_t step(TRITONBACKEND_Request *request) {
        int32_t  start = read_int(request, "START"), end = read_int(request, "END");
        int32_t  ready = read_int(request, "READY");
        int32_t  value = read_int(request, "INPUT"), sum = read_int(request, "INPUT_STATE");
        uint64_t corrid;
        uint32_t flags = 9;

        memcpy(&corrid, read_input(request, "CORRID", TRITONSERVER_TYPE_UINT64, sizeof(corrid)),
               sizeof(corrid));
        OK(TRITONBACKEND_RequestFlags(request, &flags));
        EXPECT((start != 0) == ((flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0));
        EXPECT((end != 0) == ((flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END) != 0));
        EXPECT((corrid != 0) == (ready != 0));
        EXPECT(ready == 1 || (value == 0 && sum == 0));
        EXPECT(start == 0 || sum == 0);
        pthread_mutex_lock(&lock);
        n_nulls += ready == 0;
        n_executed++;
        pthread_mutex_unlock(&lock);
        sum += value;
        write_state(request, ready != 0 ? sum : 99, value != -1);
        return sum;
}

static void release(TRITONBACKEND_Request *request, uint32_t flags) {
        OK(TRITONBACKEND_RequestRelease(request, flags));
}

static void *finish_later(void *arg) {
        TRITONBACKEND_Request *request = arg;

        answer(request, step(request));
        release(request, TRITONSERVER_REQUEST_RELEASE_ALL);
        return NULL;
}

/* Counts down: the first time from INPUT, then from the state. Answers with the number of runs. */
static void run_again(TRITONBACKEND_Request *request) {
        int32_t value = read_int(request, "INPUT"), left = read_int(request, "INPUT_STATE");

        if (read_int(request, "START") != 0)
                left = value;
        pthread_mutex_lock(&lock);
        n_executed++;
        pthread_mutex_unlock(&lock);
        if (left > 0) {
                write_state(request, left - 1, true);
                release(request, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE);
                return;
        }
        answer(request, value);
        release(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

static void refuse_states(TRITONBACKEND_Request *request) {
        static const int64_t shape[] = { 1 };
        TRITONBACKEND_State *state;

        expect_refusal(__LINE__,
                       TRITONBACKEND_StateNew(&state, request, "OUTPUT_STATE",
                                              TRITONSERVER_TYPE_INT32, shape, 1),
                       "[request id: <id_unknown>] unable to add state 'OUTPUT_STATE'. State "
                       "configuration is missing for model 'plain'.");
        expect_refusal(__LINE__,
                       TRITONBACKEND_RequestRelease(request,
                                                    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE),
                       "[request id: <id_unknown>] Request is released with "
                       "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured "
                       "to handle such a flag.");
        answer(request, read_int(request, "INPUT"));
        release(request, TRITONSERVER_REQUEST_RELEASE_ALL);
}

static void execute_one(const char *model, TRITONBACKEND_Request *request) {
        pthread_t thread;

        if (strcmp(model, "plain") == 0) {
                refuse_states(request);
        } else if (strcmp(model, "again") == 0) {
                run_again(request);
        } else if (strcmp(model, "later") == 0 &&
                   pthread_create(&thread, NULL, finish_later, request) == 0) {
                pthread_detach(thread);
        } else {
                answer(request, step(request));
                release(request, TRITONSERVER_REQUEST_RELEASE_ALL);
        }
}

static TRITONSERVER_Error *execute(TRITONBACKEND_ModelInstance *instance,
                                   TRITONBACKEND_Request **requests, uint32_t n_requests) {
        TRITONBACKEND_Model *model;
        const char          *name;

        OK(TRITONBACKEND_ModelInstanceModel(instance, &model));
        OK(TRITONBACKEND_ModelName(model, &name));
        for (uint32_t i = 0; i < n_requests; i++)
                execute_one(name, requests[i]);
        return NULL;
}

/* ---- the program that infers ---------------------------------------------------------------------- */

/* One request, of the one value. */
struct call {
        struct inference in;
        int32_t          value;
};

static struct TRITONSERVER_ResponseAllocator *allocator;

static void begin(struct call *c, const char *model, int32_t value, uint64_t id, uint32_t flags) {
        static const int64_t shape[] = { 1, 1 };
        bool has_batch = strcmp(model, "direct") == 0 || strcmp(model, "oldest") == 0;

        c->value = value;
        inference_open(&c->in, server, model, allocator, NULL);
        assert_ok(TRITONSERVER_InferenceRequestSetCorrelationId(c->in.request, id));
        assert_ok(TRITONSERVER_InferenceRequestSetFlags(c->in.request, flags));
        assert_ok(TRITONSERVER_InferenceRequestAddInput(c->in.request, "INPUT",
                                                        TRITONSERVER_TYPE_INT32, shape,
                                                        has_batch ? 2 : 1));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(c->in.request, "INPUT", &c->value,
                                                               sizeof(c->value),
                                                               TRITONSERVER_MEMORY_CPU, 0));
        inference_start(&c->in);
}

static void end(struct call *c, int32_t expected) {
        inference_wait(&c->in, 1, INFERENCE_ENDS);
        assert_int_equal(c->in.n_responses, 1);
        assert_int_equal(inference_int32(c->in.responses[0]), expected);
        inference_close(&c->in);
}

static void assert_nothing_wrong(void) {
        char text[sizeof(wrong)];

        pthread_mutex_lock(&lock);
        memcpy(text, wrong, sizeof(text));
        wrong[0] = '\0';
        pthread_mutex_unlock(&lock);
        assert_string_equal(text, "");
}

#define START TRITONSERVER_REQUEST_FLAG_SEQUENCE_START
#define END TRITONSERVER_REQUEST_FLAG_SEQUENCE_END

/* All requests of three sequences at once: each reads what the one before it has left. */
static void run_sequences(const char *model) {
        struct call in[3][5];

        for (int i = 0; i < 5; i++)
                for (int k = 0; k < 3; k++)
                        begin(&in[k][i], model, i == 2 ? -1 : 10 * k + i, (uint64_t)k + 1,
                              (i == 0 ? START : 0) | (i == 4 ? END : 0));
        for (int k = 0; k < 3; k++) {
                int32_t sum = 0;

                for (int i = 0; i < 5; i++) {
                        end(&in[k][i], sum + (i == 2 ? -1 : 10 * k + i));
                        sum += i == 2 ? 0 : 10 * k + i;
                }
        }
        assert_nothing_wrong();
}

static unsigned take(unsigned *counter) {
        unsigned n;

        pthread_mutex_lock(&lock);
        n = *counter;
        *counter = 0;
        pthread_mutex_unlock(&lock);
        return n;
}

static void test_direct(void **state) {
        struct call first, second;

        (void)state;
        take(&n_nulls);
        run_sequences("direct");
        take(&n_nulls);
        /* Slot 0 has nothing to run while slot 1 has. */
        begin(&first, "direct", 1, 1, START);
        end(&first, 1);
        begin(&second, "direct", 2, 2, START);
        end(&second, 2);
        assert_int_equal(take(&n_nulls), 1);
        begin(&first, "direct", 5, 1, END);
        end(&first, 6);
        begin(&second, "direct", 5, 2, END);
        end(&second, 7);
        assert_nothing_wrong();
}

static void test_oldest(void **state) {
        (void)state;
        run_sequences("oldest");
}

static void test_later(void **state) {
        (void)state;
        run_sequences("later");
}

static void test_again(void **state) {
        struct call in[4];

        (void)state;
        take(&n_executed);
        for (int i = 0; i < 4; i++)
                begin(&in[i], "again", i, 0, 0);
        for (int i = 0; i < 4; i++)
                end(&in[i], i);
        assert_int_equal(take(&n_executed), 1 + 2 + 3 + 4);
        assert_nothing_wrong();
}

static void test_model_without_states(void **state) {
        struct call in;

        (void)state;
        begin(&in, "plain", 5, 0, 0);
        end(&in, 5);
        assert_nothing_wrong();
}

/* ---- the server ---------------------------------------------------------------------------------- */

static int open_server(void **state) {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

        (void)state;
        model_place_open(&place);
        for (size_t i = 0; i < N_MODELS; i++)
                model_place_add_model(&place, models[i].name, models[i].config, library);
        assert_non_null(handle);
        *(void **)dlsym(handle, "probe_execute") = (void *)execute;
        allocator = heap_allocator_new();
        server = embedded_start(embedded_options(place.root, NULL));
        return 0;
}

static int close_server(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ServerDelete(server));
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        model_place_close(&place);
        return 0;
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_direct),
                cmocka_unit_test(test_oldest),
                cmocka_unit_test(test_later),
                cmocka_unit_test(test_again),
                cmocka_unit_test(test_model_without_states),
        };

        if (argc != 2)
                return 2;
        library = realpath(argv[1], NULL);
        if (library == NULL)
                return 2;
        int failed = cmocka_run_group_tests(tests, open_server, close_server);

        free(library);
        return failed;
}
