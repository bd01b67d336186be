/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a server in it that does what its standard input says: what test_promises.py asks
 * when it speaks neither HTTP nor gRPC.
 *
 *     embedded_server <option>=<value> ...
 *
 * Options are repository, backends, mode (0 none, 1 poll, 2 explicit), startup, as often as needed,
 * exit_on_error and threads. An order is a line "<number> <verb> <model> [<argument> ...]":
 *
 *     load m [<parameter>=<hex> ...]     unload m     poll -     index - [ready]
 *     config m     ready -     infer m <version>
 *
 * Orders run side by side. Each is answered by a line "<number> <code> <hex>", the code that of
 * TRITONSERVER_Error_Code or -1, the digits those of the error's text or of the answer's JSON. The
 * first line, without an order, says that the models are loaded. At the end of the input the
 * server is stopped.
 */
#include "heap_allocator.h"
#include "triton/core/tritonserver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_ERROR (-1)
#define MAX_WORDS 16
#define ANSWER_BYTES 512

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

/* Orders that are under way, and the right to write a line. */
static struct {
        pthread_mutex_t lock;
        pthread_cond_t  changed;
        size_t          n;
} orders = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct order {
        char  *line;
        char  *words[MAX_WORDS]; /* into the line: number, verb, model, arguments */
        size_t n_words;
};

static void must(struct TRITONSERVER_Error *err) {
        if (err == NULL)
                return;
        fprintf(stderr, "embedded_server: %s - %s\n", TRITONSERVER_ErrorCodeString(err),
                TRITONSERVER_ErrorMessage(err));
        exit(1);
}

static void answer(const char *number, int code, const char *bytes, size_t n_bytes) {
        pthread_mutex_lock(&orders.lock);
        printf("%s %d ", number, code);
        for (size_t i = 0; i < n_bytes; i++)
                printf("%02x", (unsigned char)bytes[i]);
        printf("\n");
        fflush(stdout);
        pthread_mutex_unlock(&orders.lock);
}

/* Takes `err`; NULL: it is done. */
static void answer_error(const char *number, struct TRITONSERVER_Error *err) {
        if (err == NULL) {
                answer(number, NO_ERROR, "{}", 2);
                return;
        }
        answer(number, (int)TRITONSERVER_ErrorCode(err), TRITONSERVER_ErrorMessage(err),
               strlen(TRITONSERVER_ErrorMessage(err)));
        TRITONSERVER_ErrorDelete(err);
}

/* Takes both, of which one is NULL. */
static void answer_message(const char *number, struct TRITONSERVER_Error *err,
                           struct TRITONSERVER_Message *message) {
        const char *json;
        size_t      n_bytes;

        if (err == NULL)
                err = TRITONSERVER_MessageSerializeToJson(message, &json, &n_bytes);
        if (err == NULL)
                answer(number, NO_ERROR, json, n_bytes);
        else
                answer_error(number, err);
        must(TRITONSERVER_MessageDelete(message));
}

/* ---- orders ------------------------------------------------------------------------------------ */

static int digit(char c) {
        return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* In place; the text has a NUL behind it then. */
static size_t from_hex(char *text) {
        size_t n = strlen(text) / 2;

        for (size_t i = 0; i < n; i++)
                text[i] = (char)(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
        text[n] = '\0';
        return n;
}

static void load(struct order *o) {
        struct TRITONSERVER_Parameter *parameters[MAX_WORDS];
        uint64_t                       n = 0;

        for (size_t i = 3; i < o->n_words; i++) {
                char  *value = strchr(o->words[i], '=') + 1, *name = o->words[i];
                size_t n_bytes = from_hex(value);

                value[-1] = '\0';
                parameters[n++] =
                        strcmp(name, "config") == 0
                                ? TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING,
                                                            value)
                                : TRITONSERVER_ParameterBytesNew(name, value, n_bytes);
        }
        answer_error(o->words[0],
                     n == 0 ? TRITONSERVER_ServerLoadModel(server, o->words[2])
                            : TRITONSERVER_ServerLoadModelWithParameters(
                                      server, o->words[2],
                                      (const struct TRITONSERVER_Parameter **)parameters, n));
        while (n > 0)
                TRITONSERVER_ParameterDelete(parameters[--n]);
}

static void unload(struct order *o) {
        answer_error(o->words[0], TRITONSERVER_ServerUnloadModel(server, o->words[2]));
}

static void poll_repository(struct order *o) {
        answer_error(o->words[0], TRITONSERVER_ServerPollModelRepository(server));
}

static void tell_index(struct order *o) {
        uint32_t                     flags = o->n_words > 3 ? TRITONSERVER_INDEX_FLAG_READY : 0;
        struct TRITONSERVER_Message *message = NULL;
        struct TRITONSERVER_Error   *err = TRITONSERVER_ServerModelIndex(server, flags, &message);

        answer_message(o->words[0], err, message);
}

static void tell_config(struct order *o) {
        struct TRITONSERVER_Message *message = NULL;
        struct TRITONSERVER_Error   *err =
                TRITONSERVER_ServerModelConfig(server, o->words[2], -1, 1, &message);

        answer_message(o->words[0], err, message);
}

static void tell_ready(struct order *o) {
        bool is_ready = false;

        must(TRITONSERVER_ServerIsReady(server, &is_ready));
        answer(o->words[0], NO_ERROR, is_ready ? "true" : "false", is_ready ? 4 : 5);
}

/* ---- inferences -------------------------------------------------------------------------------- */

struct inference {
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        struct TRITONSERVER_InferenceResponse *response;
        bool                                   is_released;
};

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct inference *in = userp;

        (void)flags;
        pthread_mutex_lock(&in->lock);
        in->response = response;
        pthread_cond_signal(&in->changed);
        pthread_mutex_unlock(&in->lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct inference *in = userp;

        (void)request, (void)flags;
        pthread_mutex_lock(&in->lock);
        in->is_released = true;
        pthread_cond_signal(&in->changed);
        pthread_mutex_unlock(&in->lock);
}

/* "NAME":<number> of the outputs that are one INT64, "label" of those that have labels. */
static size_t print_output(struct TRITONSERVER_InferenceResponse *response, uint32_t i, char *out,
                           size_t size) {
        const char             *name, *label = NULL;
        const int64_t          *shape;
        const void             *base;
        void                   *userp;
        uint64_t                n_dims;
        size_t                  n_bytes;
        int64_t                 id, value;
        TRITONSERVER_DataType   type;
        TRITONSERVER_MemoryType memory;

        must(TRITONSERVER_InferenceResponseOutput(response, i, &name, &type, &shape, &n_dims, &base,
                                                  &n_bytes, &memory, &id, &userp));
        must(TRITONSERVER_InferenceResponseOutputClassificationLabel(response, i, 0, &label));
        if (type == TRITONSERVER_TYPE_INT64 && n_bytes == sizeof(value)) {
                memcpy(&value, base, sizeof(value));
                return (size_t)snprintf(out, size, ",\"%s\":%lld", name, (long long)value);
        }
        return label != NULL ? (size_t)snprintf(out, size, ",\"label\":\"%s\"", label) : 0;
}

/* Deletes the response. */
static void answer_response(const char *number, struct TRITONSERVER_InferenceResponse *response) {
        struct TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);
        char                       out[ANSWER_BYTES];
        const char                *model;
        int64_t                    version;
        uint32_t                   n_outputs;
        size_t                     len;

        if (err != NULL) {
                answer_error(number, err);
        } else {
                must(TRITONSERVER_InferenceResponseModel(response, &model, &version));
                must(TRITONSERVER_InferenceResponseOutputCount(response, &n_outputs));
                len = (size_t)snprintf(out, sizeof(out), "{\"version\":\"%lld\"",
                                       (long long)version);
                for (uint32_t i = 0; i < n_outputs; i++)
                        len += print_output(response, i, out + len, sizeof(out) - len);
                len += (size_t)snprintf(out + len, sizeof(out) - len, "}");
                answer(number, NO_ERROR, out, len);
        }
        must(TRITONSERVER_InferenceResponseDelete(response));
}

static void infer(struct order *o) {
        static const float                    one[] = { 1 };
        static const int64_t                  shape[] = { 1 };
        struct TRITONSERVER_InferenceRequest *request;
        struct TRITONSERVER_Error            *err;
        struct inference in = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, false };

        err = TRITONSERVER_InferenceRequestNew(&request, server, o->words[2], atoll(o->words[3]));
        if (err != NULL) {
                answer_error(o->words[0], err);
                return;
        }
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, &in));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL, on_response,
                                                              &in));
        must(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_FP32, shape,
                                                   1));
        must(TRITONSERVER_InferenceRequestAppendInputData(request, "INPUT0", one, sizeof(one),
                                                          TRITONSERVER_MEMORY_CPU, 0));
        err = TRITONSERVER_ServerInferAsync(server, request, NULL);
        pthread_mutex_lock(&in.lock);
        while (err == NULL && (in.response == NULL || !in.is_released))
                pthread_cond_wait(&in.changed, &in.lock);
        pthread_mutex_unlock(&in.lock);
        if (err != NULL)
                answer_error(o->words[0], err);
        else
                answer_response(o->words[0], in.response);
        must(TRITONSERVER_InferenceRequestDelete(request));
}

/* ---- the input --------------------------------------------------------------------------------- */

static const struct {
        const char *verb;
        void (*run)(struct order *o);
} verbs[] = {
        { "load", load },        { "unload", unload },      { "poll", poll_repository },
        { "index", tell_index }, { "config", tell_config }, { "ready", tell_ready },
        { "infer", infer },
};

static void *run(void *arg) {
        struct order *o = arg;

        for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
                if (strcmp(o->words[1], verbs[i].verb) == 0)
                        verbs[i].run(o);
        free(o->line);
        free(o);
        pthread_mutex_lock(&orders.lock);
        orders.n--;
        pthread_cond_signal(&orders.changed);
        pthread_mutex_unlock(&orders.lock);
        return NULL;
}

static void begin(const char *line) {
        struct order *o = calloc(1, sizeof(*o));
        pthread_t     thread;

        o->line = strdup(line);
        for (char *word = strtok(o->line, " \n"); word != NULL && o->n_words < MAX_WORDS;
             word = strtok(NULL, " \n"))
                o->words[o->n_words++] = word;
        pthread_mutex_lock(&orders.lock);
        orders.n++;
        pthread_mutex_unlock(&orders.lock);
        if (o->n_words < 3 || pthread_create(&thread, NULL, run, o) != 0)
                exit(2);
        pthread_detach(thread);
}

static void set_option(struct TRITONSERVER_ServerOptions *options, const char *name,
                       const char *value) {
        if (strcmp(name, "repository") == 0)
                must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, value));
        else if (strcmp(name, "backends") == 0)
                must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, value));
        else if (strcmp(name, "mode") == 0)
                must(TRITONSERVER_ServerOptionsSetModelControlMode(
                        options, (TRITONSERVER_ModelControlMode)atoi(value)));
        else if (strcmp(name, "startup") == 0)
                must(TRITONSERVER_ServerOptionsSetStartupModel(options, value));
        else if (strcmp(name, "exit_on_error") == 0)
                must(TRITONSERVER_ServerOptionsSetExitOnError(options, atoi(value) != 0));
        else if (strcmp(name, "threads") == 0)
                must(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(options,
                                                                       (unsigned)atoi(value)));
        else
                exit(2);
}

int main(int argc, char **argv) {
        struct TRITONSERVER_ServerOptions *options;
        char                              *line = NULL;
        size_t                             capacity = 0;

        must(TRITONSERVER_ServerOptionsNew(&options));
        for (int i = 1; i < argc; i++) {
                const char *name = strtok(argv[i], "="), *value = strtok(NULL, "");

                set_option(options, name, value);
        }
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        allocator = heap_allocator_new();
        answer("0", NO_ERROR, "{}", 2);
        while (getline(&line, &capacity, stdin) > 0)
                begin(line);
        free(line);
        pthread_mutex_lock(&orders.lock);
        while (orders.n > 0)
                pthread_cond_wait(&orders.changed, &orders.lock);
        pthread_mutex_unlock(&orders.lock);
        must(TRITONSERVER_ServerStop(server));
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        return 0;
}
