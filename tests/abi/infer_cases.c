/* SPDX-License-Identifier: BSD-3-Clause */
/* Inferences of a program that has the server in it, for tests that compare them with what clients
 * of HTTP and gRPC get.
 *
 *     infer_cases <model repository> <directory of backends> <cases> <answers> [<option> ...]
 *
 *     one_by_one            a case begins when the one before it has ended; else all are under way at
 *                           the same time
 *     cache=<directory>     with the response cache "local" of this directory of caches
 *     traces=<file>         each case is traced: a line "<id> <id of the parent> <model> <activity>"
 *                           for each activity
 *
 * The answers are in the order of the cases. After they are written, each line of the standard input is
 * the name of a model, and is answered by a line with the model's statistics, until the input ends.
 *
 * Both files consist of words (8 bytes, as this machine has them) and texts (a word for the length, the
 * bytes, a NUL).
 *
 *     case       text model, text id,
 *                word n, n times: text name, word type, text value     parameters
 *                word n, n times: text name, text data type, shape,
 *                                 text content                         inputs
 *                word n, n times: text name                            requested outputs
 *     shape      word n, n words
 *     answer     word code, text message            if it failed, else
 *                word -1, text model, word version, text id,
 *                word n, n times: text name, word type, text value     parameters
 *                word n, n times: text name, text data type, shape,
 *                                 text content,
 *                                 word n, n texts                      outputs, labels of classes
 *
 * A value of a parameter is the text itself, or the bytes of an int64_t, bool or double. As in requests
 * of clients, "timeout" and "sequence_id" (integers), "sequence_start" and "sequence_end" are properties of
 * the request and no parameters.
 */
#include "heap_allocator.h"
#include "triton/core/tritonserver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_S 120
#define MAX_DIMS 16
#define MAX_LABELS 16
#define NO_ERROR (-1)

/* One inference. The content of its inputs stays in the file that was read. */
struct inference {
        struct TRITONSERVER_Error             *err; /* of the submission */
        struct TRITONSERVER_InferenceResponse *response;
};

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;
static FILE                                  *traces; /* NULL: nothing is traced */

/* What is not over yet: responses that are not final, requests that were not given back. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t  changed;
        size_t          n;
} pending = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void fail(const char *what, const char *why) {
        (void)fprintf(stderr, "infer_cases: %s: %s\n", what, why);
        exit(1);
}

static void must(struct TRITONSERVER_Error *err) {
        if (err != NULL)
                fail(TRITONSERVER_ErrorCodeString(err), TRITONSERVER_ErrorMessage(err));
}

static void *must_alloc(size_t bytes) {
        void *memory = calloc(1, bytes > 0 ? bytes : 1);

        if (memory == NULL)
                fail("memory", "there is not enough");
        return memory;
}

/* ---- the files ------------------------------------------------------------------------------ */

struct reader {
        const char *at;
        size_t      left;
};

static struct reader read_file(const char *path) {
        FILE         *file = fopen(path, "rb");
        struct reader r = { 0 };
        long          size = 0;
        char         *content;

        if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
                fail(path, "cannot be read");
        rewind(file);
        content = must_alloc((size_t)size);
        if (fread(content, 1, (size_t)size, file) != (size_t)size)
                fail(path, "cannot be read");
        (void)fclose(file);
        r.at = content;
        r.left = (size_t)size;
        return r;
}

static const char *read_bytes(struct reader *r, size_t n) {
        const char *bytes = r->at;

        if (n > r->left)
                fail("cases", "the file ends too early");
        r->at += n;
        r->left -= n;
        return bytes;
}

static int64_t read_word(struct reader *r) {
        int64_t word;

        memcpy(&word, read_bytes(r, sizeof(word)), sizeof(word));
        return word;
}

static const char *read_text(struct reader *r, size_t *ret_length) {
        size_t      length = (size_t)read_word(r);
        const char *text = read_bytes(r, length);

        if (*read_bytes(r, 1) != '\0')
                fail("cases", "a text does not end");
        if (ret_length != NULL)
                *ret_length = length;
        return text;
}

static size_t read_shape(struct reader *r, int64_t shape[MAX_DIMS]) {
        int64_t n = read_word(r);

        if (n < 0 || n > MAX_DIMS)
                fail("cases", "a shape has too many dimensions");
        for (int64_t i = 0; i < n; i++)
                shape[i] = read_word(r);
        return (size_t)n;
}

static void print_bytes(FILE *out, const void *bytes, size_t n) {
        if (n > 0 && fwrite(bytes, 1, n, out) != n)
                fail("answers", "cannot be written");
}

static void print_word(FILE *out, int64_t word) {
        print_bytes(out, &word, sizeof(word));
}

static void print_text(FILE *out, const void *text, size_t n) {
        print_word(out, (int64_t)n);
        print_bytes(out, text, n);
        print_bytes(out, "", 1);
}

static void print_string(FILE *out, const char *text) {
        print_text(out, text, strlen(text));
}

/* ---- callbacks ------------------------------------------------------------------------------ */

static void change_pending(int by) {
        pthread_mutex_lock(&pending.lock);
        pending.n += (size_t)by;
        pthread_cond_signal(&pending.changed);
        pthread_mutex_unlock(&pending.lock);
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct inference *inference = userp;

        if (response != NULL) {
                if (inference->response != NULL)
                        fail("answers", "a request has two responses");
                inference->response = response;
        }
        if (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                change_pending(-1);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)flags, (void)userp;
        must(TRITONSERVER_InferenceRequestDelete(request));
        change_pending(-1);
}

/* ---- traces --------------------------------------------------------------------------------- */

static void on_activity(struct TRITONSERVER_InferenceTrace *trace,
                        TRITONSERVER_InferenceTraceActivity activity, uint64_t timestamp_ns,
                        void *userp) {
        const char *model;
        uint64_t    id, parent_id;

        (void)timestamp_ns, (void)userp;
        must(TRITONSERVER_InferenceTraceId(trace, &id));
        must(TRITONSERVER_InferenceTraceParentId(trace, &parent_id));
        must(TRITONSERVER_InferenceTraceModelName(trace, &model));
        (void)fprintf(traces, "%llu %llu %s %s\n", (unsigned long long)id,
                      (unsigned long long)parent_id, model,
                      TRITONSERVER_InferenceTraceActivityString(activity));
}

static void on_trace_release(struct TRITONSERVER_InferenceTrace *trace, void *userp) {
        (void)userp;
        must(TRITONSERVER_InferenceTraceDelete(trace));
}

static struct TRITONSERVER_InferenceTrace *new_trace(void) {
        struct TRITONSERVER_InferenceTrace *trace = NULL;

        if (traces != NULL)
                must(TRITONSERVER_InferenceTraceNew(&trace, TRITONSERVER_TRACE_LEVEL_TIMESTAMPS, 0,
                                                    on_activity, on_trace_release, NULL));
        return trace;
}

/* ---- requests ------------------------------------------------------------------------------- */

static struct TRITONSERVER_Error *set_flag(struct TRITONSERVER_InferenceRequest *request,
                                           uint32_t flag, bool is_set) {
        uint32_t flags;

        must(TRITONSERVER_InferenceRequestFlags(request, &flags));
        return TRITONSERVER_InferenceRequestSetFlags(request, is_set ? flags | flag : flags);
}

static struct TRITONSERVER_Error *add_integer(struct TRITONSERVER_InferenceRequest *request,
                                              const char *name, int64_t number) {
        if (strcmp(name, "timeout") == 0)
                return TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(request,
                                                                           (uint64_t)number);
        if (strcmp(name, "sequence_id") == 0)
                return TRITONSERVER_InferenceRequestSetCorrelationId(request, (uint64_t)number);
        return TRITONSERVER_InferenceRequestSetIntParameter(request, name, number);
}

static struct TRITONSERVER_Error *add_bool(struct TRITONSERVER_InferenceRequest *request,
                                           const char *name, bool value) {
        if (strcmp(name, "sequence_start") == 0)
                return set_flag(request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, value);
        if (strcmp(name, "sequence_end") == 0)
                return set_flag(request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END, value);
        return TRITONSERVER_InferenceRequestSetBoolParameter(request, name, value);
}

static struct TRITONSERVER_Error *add_parameter(struct TRITONSERVER_InferenceRequest *request,
                                                struct reader                        *r) {
        const char *name = read_text(r, NULL);
        int64_t     type = read_word(r);
        size_t      length;
        const char *value = read_text(r, &length);
        int64_t     number;
        double      real;

        switch (type) {
        case TRITONSERVER_PARAMETER_STRING:
                return TRITONSERVER_InferenceRequestSetStringParameter(request, name, value);
        case TRITONSERVER_PARAMETER_BOOL: return add_bool(request, name, *value != 0);
        case TRITONSERVER_PARAMETER_INT:
                memcpy(&number, value, sizeof(number));
                return add_integer(request, name, number);
        case TRITONSERVER_PARAMETER_DOUBLE:
                memcpy(&real, value, sizeof(real));
                return TRITONSERVER_InferenceRequestSetDoubleParameter(request, name, real);
        default: fail("cases", "a parameter has no known type"); return NULL;
        }
}

static struct TRITONSERVER_Error *add_input(struct TRITONSERVER_InferenceRequest *request,
                                            struct reader                        *r) {
        const char                *name = read_text(r, NULL);
        TRITONSERVER_DataType      type = TRITONSERVER_StringToDataType(read_text(r, NULL));
        int64_t                    shape[MAX_DIMS];
        size_t                     n_dims = read_shape(r, shape);
        size_t                     n_bytes;
        const char                *content = read_text(r, &n_bytes);
        struct TRITONSERVER_Error *err;

        err = TRITONSERVER_InferenceRequestAddInput(request, name, type, shape, n_dims);
        if (err != NULL)
                return err;
        return TRITONSERVER_InferenceRequestAppendInputData(request, name, content, n_bytes,
                                                            TRITONSERVER_MEMORY_CPU, 0);
}

static struct TRITONSERVER_Error *add_output(struct TRITONSERVER_InferenceRequest *request,
                                             struct reader                        *r) {
        return TRITONSERVER_InferenceRequestAddRequestedOutput(request, read_text(r, NULL));
}

typedef struct TRITONSERVER_Error *part_fn(struct TRITONSERVER_InferenceRequest *request,
                                           struct reader                        *r);

/* Reads the list to its end, also when there is no request or there was an error: the first error
 * is that of the inference. */
static void add_parts(struct inference *inference, struct TRITONSERVER_InferenceRequest *request,
                      struct reader *r, part_fn *add) {
        for (int64_t n = read_word(r); n > 0; n--) {
                struct TRITONSERVER_Error *err = add(request, r);

                if (err != NULL && inference->err != NULL)
                        TRITONSERVER_ErrorDelete(err);
                else if (err != NULL)
                        inference->err = err;
        }
}

static void submit(struct inference *inference, struct reader *r) {
        const char                           *model = read_text(r, NULL);
        const char                           *id = read_text(r, NULL);
        struct TRITONSERVER_InferenceRequest *request = NULL;

        inference->err = TRITONSERVER_InferenceRequestNew(&request, server, model, -1);
        if (request != NULL)
                must(TRITONSERVER_InferenceRequestSetId(request, id));
        add_parts(inference, request, r, add_parameter);
        add_parts(inference, request, r, add_input);
        add_parts(inference, request, r, add_output);
        if (request == NULL)
                return;
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_response,
                                                              inference));
        change_pending(2);
        if (inference->err == NULL)
                inference->err = TRITONSERVER_ServerInferAsync(server, request, new_trace());
        if (inference->err != NULL) {
                change_pending(-2);
                must(TRITONSERVER_InferenceRequestDelete(request));
        }
}

static void wait_for_all(void) {
        struct timespec deadline;
        int             rc = 0;

        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += TIMEOUT_S;
        pthread_mutex_lock(&pending.lock);
        while (rc == 0 && pending.n > 0)
                rc = pthread_cond_timedwait(&pending.changed, &pending.lock, &deadline);
        pthread_mutex_unlock(&pending.lock);
        if (rc != 0)
                fail("answers", "some did not come");
}

/* ---- answers -------------------------------------------------------------------------------- */

static void print_error(FILE *out, struct TRITONSERVER_Error *err) {
        print_word(out, TRITONSERVER_ErrorCode(err));
        print_string(out, TRITONSERVER_ErrorMessage(err));
        TRITONSERVER_ErrorDelete(err);
}

static void print_parameter(FILE *out, struct TRITONSERVER_InferenceResponse *response,
                            uint32_t index) {
        const char                *name;
        TRITONSERVER_ParameterType type;
        const void                *value;

        must(TRITONSERVER_InferenceResponseParameter(response, index, &name, &type, &value));
        print_string(out, name);
        print_word(out, type);
        if (type == TRITONSERVER_PARAMETER_STRING)
                print_string(out, value);
        else
                print_text(out, value, type == TRITONSERVER_PARAMETER_BOOL ? sizeof(bool) : 8);
}

static void print_labels(FILE *out, struct TRITONSERVER_InferenceResponse *response,
                         uint32_t index) {
        const char *labels[MAX_LABELS];
        size_t      n = 0;

        for (; n < MAX_LABELS; n++) {
                must(TRITONSERVER_InferenceResponseOutputClassificationLabel(response, index, n,
                                                                             &labels[n]));
                if (labels[n] == NULL)
                        break;
        }
        print_word(out, (int64_t)n);
        for (size_t i = 0; i < n; i++)
                print_string(out, labels[i]);
}

static void print_output(FILE *out, struct TRITONSERVER_InferenceResponse *response,
                         uint32_t index) {
        const char             *name;
        TRITONSERVER_DataType   type;
        const int64_t          *shape;
        uint64_t                n_dims;
        const void             *base;
        size_t                  n_bytes;
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_id;
        void                   *userp;

        must(TRITONSERVER_InferenceResponseOutput(response, index, &name, &type, &shape, &n_dims,
                                                  &base, &n_bytes, &memory_type, &memory_id,
                                                  &userp));
        print_string(out, name);
        print_string(out, TRITONSERVER_DataTypeString(type));
        print_word(out, (int64_t)n_dims);
        for (uint64_t i = 0; i < n_dims; i++)
                print_word(out, shape[i]);
        print_text(out, base, n_bytes);
        print_labels(out, response, index);
}

static void print_response(FILE *out, struct TRITONSERVER_InferenceResponse *response) {
        struct TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);
        const char                *text;
        int64_t                    version;
        uint32_t                   n;

        if (err != NULL) {
                print_error(out, err);
                return;
        }
        print_word(out, NO_ERROR);
        must(TRITONSERVER_InferenceResponseModel(response, &text, &version));
        print_string(out, text);
        print_word(out, version);
        must(TRITONSERVER_InferenceResponseId(response, &text));
        print_string(out, text);
        must(TRITONSERVER_InferenceResponseParameterCount(response, &n));
        print_word(out, n);
        for (uint32_t i = 0; i < n; i++)
                print_parameter(out, response, i);
        must(TRITONSERVER_InferenceResponseOutputCount(response, &n));
        print_word(out, n);
        for (uint32_t i = 0; i < n; i++)
                print_output(out, response, i);
}

static void print_answers(const char *path, struct inference *inferences, size_t n) {
        FILE *out = fopen(path, "wb");

        if (out == NULL)
                fail(path, "cannot be written");
        for (size_t i = 0; i < n; i++) {
                if (inferences[i].err != NULL) {
                        print_error(out, inferences[i].err);
                        continue;
                }
                if (inferences[i].response == NULL)
                        fail("answers", "a request has no response");
                print_response(out, inferences[i].response);
                must(TRITONSERVER_InferenceResponseDelete(inferences[i].response));
        }
        if (fclose(out) != 0)
                fail(path, "cannot be written");
}

/* ---- statistics ----------------------------------------------------------------------------- */

static void print_statistics(const char *model) {
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       n_bytes;

        must(TRITONSERVER_ServerModelStatistics(server, model, -1, &message));
        must(TRITONSERVER_MessageSerializeToJson(message, &json, &n_bytes));
        (void)printf("%.*s\n", (int)n_bytes, json);
        (void)fflush(stdout);
        must(TRITONSERVER_MessageDelete(message));
}

static void answer_questions(void) {
        char  *line = NULL;
        size_t capacity = 0;

        while (getline(&line, &capacity, stdin) > 0) {
                line[strcspn(line, "\n")] = '\0';
                print_statistics(line);
        }
        free(line);
}

/* ---- the server ----------------------------------------------------------------------------- */

static void open_traces(const char *path) {
        traces = fopen(path, "w");
        if (traces == NULL)
                fail(path, "cannot be written");
}

/* Returns true for "one_by_one". */
static bool set_option(struct TRITONSERVER_ServerOptions *options, const char *option) {
        static const char cache[] = "cache=", trace[] = "traces=";

        if (strcmp(option, "one_by_one") == 0)
                return true;
        if (strncmp(option, cache, strlen(cache)) == 0) {
                must(TRITONSERVER_ServerOptionsSetCacheDirectory(options, option + strlen(cache)));
                must(TRITONSERVER_ServerOptionsSetCacheConfig(options, "local",
                                                              "{\"size\":\"1048576\"}"));
        } else if (strncmp(option, trace, strlen(trace)) == 0) {
                open_traces(option + strlen(trace));
        } else {
                fail(option, "no such option");
        }
        return false;
}

/* Returns true when the cases are to run one by one. */
static bool start_server(char **argv) {
        struct TRITONSERVER_ServerOptions *options;
        bool                               is_one_by_one = false;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, argv[1]));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, argv[2]));
        must(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, false));
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        for (char **option = argv + 5; *option != NULL; option++)
                is_one_by_one |= set_option(options, *option);
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        allocator = heap_allocator_new();
        return is_one_by_one;
}

static void stop_server(void) {
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        if (traces != NULL && fclose(traces) != 0)
                fail("traces", "cannot be written");
}

int main(int argc, char **argv) {
        struct reader     file, r;
        struct inference *inferences;
        size_t            n;
        bool              is_one_by_one;

        if (argc < 5)
                fail("usage",
                     "infer_cases <repository> <backends> <cases> <answers> [<option> ...]");
        file = r = read_file(argv[3]);
        n = (size_t)read_word(&r);
        if (n > file.left)
                fail("cases", "there are too many");
        inferences = must_alloc(n * sizeof(*inferences));
        is_one_by_one = start_server(argv);
        for (size_t i = 0; i < n; i++) {
                submit(&inferences[i], &r);
                if (is_one_by_one)
                        wait_for_all();
        }
        wait_for_all();
        print_answers(argv[4], inferences, n);
        answer_questions();
        stop_server();
        free(inferences);
        free((char *)file.at);
        return 0;
}
