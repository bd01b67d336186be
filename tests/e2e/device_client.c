/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a server in it whose tensors lie on GPUs: it gives inputs there, and its allocator answers with
 * memory there, whatever the backend prefers.
 *
 *     device_client <model repository> <backends> <caches> < orders
 *
 * An order is a line:
 *
 *     <model>[*<n>] <place> <input>=<type>:<dims>:<place>[/<place> ...]:<hex> ...
 *     statistics <model>
 *
 * A place is cpu, pinned, or the number of a device; the first one is that of the outputs. An input with several
 * places has its bytes there in pieces of the same size. A place "no0" is GPU 0 by name only: the bytes are in main
 * memory. With "~" after the place of the outputs, this thread is one that may run models and must not wait: the answer
 * must come from another one. With <n>, so many requests run at once. The answer is a line:
 *
 *     -1 <output>=<type of memory>:<id>:<hex> ...     of the last request; "differs" when another one has others
 *     -1 <hex of the JSON>
 *     <code of the error> <hex of its text>
 *
 * Then the server is stopped. Device memory is the driver's (tests/gpu): on the stand-in a leak, a use after free
 * or a copy that nobody waited for ends the program with a report. */
#include "driver_table.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 16
#define MAX_PIECES 8
#define MAX_DEVICES 8
#define MAX_REQUESTS 64
#define MAX_LINE (1 << 20)

struct place {
        TRITONSERVER_MemoryType type;
        int64_t                 id;
        int                     device; /* whose memory it is; -1: main memory */
};

struct piece {
        void        *bytes;
        size_t       n;
        struct place place;
};

struct call {
        struct TRITONSERVER_InferenceRequest *request;
        struct piece                          pieces[MAX_WORDS * MAX_PIECES]; /* of its inputs */
        size_t                                n_pieces;
        struct place                          outputs;
        bool                                  must_not_wait; /* the thread that submits it, */
        pthread_t                             submitter;     /* which is this one */
        char                                 *answer;        /* owned; NULL: none yet */
        int                                   n_open;        /* the response and the release */
};

static struct {
        struct driver_table cuda;
        int                 n;
        cu_context          contexts[MAX_DEVICES];
        cu_stream           streams[MAX_DEVICES];
} devices;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all calls */
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

static void fail(const char *what, const char *why) {
        fprintf(stderr, "device_client: %s: %s\n", what, why);
        exit(1);
}

static void must(struct TRITONSERVER_Error *err) {
        if (err != NULL)
                fail(TRITONSERVER_ErrorCodeString(err), TRITONSERVER_ErrorMessage(err));
}

/* ---- devices ------------------------------------------------------------------------------------- */

static void drive(cu_result result, const char *what) {
        const char *name = "?";

        if (result == CU_SUCCESS)
                return;
        devices.cuda.cuGetErrorName(result, &name);
        fail(what, name);
}
#define DRIVE(call) drive(devices.cuda.call, #call)

static void open_devices(void) {
        if (!driver_table_open(&devices.cuda, CUDA_LIBRARY) ||
            devices.cuda.cuInit(0) == CU_NO_DEVICE)
                return;
        DRIVE(cuDeviceGetCount(&devices.n));
        for (int i = 0; i < devices.n; i++) {
                DRIVE(cuDevicePrimaryCtxRetain(&devices.contexts[i], i));
                DRIVE(cuCtxSetCurrent(devices.contexts[i]));
                DRIVE(cuStreamCreate(&devices.streams[i], CU_STREAM_NON_BLOCKING));
        }
}

static void close_devices(void) {
        for (int i = 0; i < devices.n; i++) {
                DRIVE(cuCtxSetCurrent(devices.contexts[i]));
                DRIVE(cuStreamDestroy_v2(devices.streams[i]));
                DRIVE(cuCtxSetCurrent(NULL));
                DRIVE(cuDevicePrimaryCtxRelease_v2(i));
        }
}

/* Makes the device current on a thread of the server's, too, and returns what was before. */
static cu_context enter(int device) {
        cu_context before;

        if (device >= devices.n)
                fail("there is no such device", "by its number");
        DRIVE(cuCtxGetCurrent(&before));
        DRIVE(cuCtxSetCurrent(devices.contexts[device]));
        return before;
}

static void leave(cu_context before) {
        DRIVE(cuCtxSetCurrent(before));
}

static void *take_memory(struct place place, size_t n) {
        cu_pointer memory;
        cu_context before;

        if (place.device < 0)
                return malloc(n);
        before = enter(place.device);
        DRIVE(cuMemAlloc_v2(&memory, n));
        leave(before);
        return (void *)(uintptr_t)memory;
}

static void give_memory(struct place place, void *memory) {
        cu_context before;

        if (place.device < 0) {
                free(memory);
                return;
        }
        before = enter(place.device);
        DRIVE(cuMemFree_v2((cu_pointer)(uintptr_t)memory));
        leave(before);
}

static void copy_in(struct place place, void *to, const void *from, size_t n) {
        cu_context before;

        if (place.device < 0) {
                memcpy(to, from, n);
                return;
        }
        before = enter(place.device);
        DRIVE(cuMemcpyHtoDAsync_v2((cu_pointer)(uintptr_t)to, from, n,
                                   devices.streams[place.device]));
        DRIVE(cuStreamSynchronize(devices.streams[place.device]));
        leave(before);
}

static void copy_out(int device, void *to, const void *from, size_t n) {
        cu_context before;

        if (device < 0) {
                memcpy(to, from, n);
                return;
        }
        before = enter(device);
        DRIVE(cuMemcpyDtoHAsync_v2(to, (cu_pointer)(uintptr_t)from, n, devices.streams[device]));
        DRIVE(cuStreamSynchronize(devices.streams[device]));
        leave(before);
}

static struct place read_place(const char *text) {
        if (strncmp(text, "cpu", 3) == 0)
                return (struct place){ TRITONSERVER_MEMORY_CPU, 0, -1 };
        if (strncmp(text, "pinned", 6) == 0)
                return (struct place){ TRITONSERVER_MEMORY_CPU_PINNED, 0, -1 };
        if (strncmp(text, "no", 2) == 0)
                return (struct place){ TRITONSERVER_MEMORY_GPU, atoi(text + 2), -1 };
        return (struct place){ TRITONSERVER_MEMORY_GPU, atoi(text), atoi(text) };
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void print_hex(FILE *to, const void *bytes, size_t n) {
        for (size_t i = 0; i < n; i++)
                fprintf(to, "%02x", ((const unsigned char *)bytes)[i]);
}

static size_t read_hex(const char *from, unsigned char *to) {
        unsigned byte;
        size_t   n = 0;

        for (; sscanf(from, "%2x", &byte) == 1; from += 2)
                to[n++] = (unsigned char)byte;
        return n;
}

/* Takes the error. The text is the caller's. */
static char *error_text(struct TRITONSERVER_Error *err) {
        char  *text;
        size_t n;
        FILE  *to = open_memstream(&text, &n);

        fprintf(to, "%d ", (int)TRITONSERVER_ErrorCode(err));
        print_hex(to, TRITONSERVER_ErrorMessage(err), strlen(TRITONSERVER_ErrorMessage(err)));
        fclose(to);
        TRITONSERVER_ErrorDelete(err);
        return text;
}

/* ---- callbacks ----------------------------------------------------------------------------------- */

static struct TRITONSERVER_Error *give_output(struct TRITONSERVER_ResponseAllocator *a,
                                              const char *name, size_t n,
                                              TRITONSERVER_MemoryType preferred_type,
                                              int64_t preferred_id, void *userp, void **buffer,
                                              void **buffer_userp, TRITONSERVER_MemoryType *type,
                                              int64_t *id) {
        struct call *c = userp;

        (void)a, (void)name, (void)preferred_type, (void)preferred_id;
        *buffer = n > 0 ? take_memory(c->outputs, n) : NULL;
        *buffer_userp = c;
        *type = c->outputs.type;
        *id = c->outputs.id;
        return NULL;
}

static struct TRITONSERVER_Error *take_output(struct TRITONSERVER_ResponseAllocator *a,
                                              void *buffer, void *buffer_userp, size_t n,
                                              TRITONSERVER_MemoryType type, int64_t id) {
        struct call *c = buffer_userp;

        (void)a, (void)n;
        if (type != c->outputs.type || id != c->outputs.id)
                fail("an output comes back", "of another memory than it was");
        if (buffer != NULL)
                give_memory(c->outputs, buffer);
        return NULL;
}

static void print_output(FILE *to, struct TRITONSERVER_InferenceResponse *r, uint32_t index) {
        const char             *name;
        TRITONSERVER_DataType   datatype;
        const int64_t          *shape;
        uint64_t                n_dims;
        const void             *base;
        size_t                  n;
        TRITONSERVER_MemoryType type;
        int64_t                 id;
        void                   *holder, *bytes;

        must(TRITONSERVER_InferenceResponseOutput(r, index, &name, &datatype, &shape, &n_dims,
                                                  &base, &n, &type, &id, &holder));
        bytes = malloc(n + 1);
        if (n > 0)
                copy_out(((struct call *)holder)->outputs.device, bytes, base, n);
        fprintf(to, " %s=%s:%lld:", name, TRITONSERVER_MemoryTypeString(type), (long long)id);
        print_hex(to, bytes, n);
        free(bytes);
}

static char *print_response(struct TRITONSERVER_InferenceResponse *r) {
        struct TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(r);
        char                      *text;
        size_t                     n;
        uint32_t                   n_outputs;
        FILE                      *to;

        if (err != NULL)
                return error_text(err);
        to = open_memstream(&text, &n);
        fprintf(to, "-1");
        must(TRITONSERVER_InferenceResponseOutputCount(r, &n_outputs));
        for (uint32_t i = 0; i < n_outputs; i++)
                print_output(to, r, i);
        fclose(to);
        return text;
}

static void end_one(struct call *c) {
        pthread_mutex_lock(&lock);
        c->n_open--;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
}

static void on_response(struct TRITONSERVER_InferenceResponse *r, const uint32_t flags,
                        void *userp) {
        struct call *c = userp;

        if (c->must_not_wait && pthread_equal(c->submitter, pthread_self()))
                fail("an answer comes", "from the thread that must not wait for its copies");
        if (r != NULL) {
                free(c->answer);
                c->answer = print_response(r);
                must(TRITONSERVER_InferenceResponseDelete(r));
        }
        if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
                end_one(c);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags;
        end_one(userp);
}

/* ---- orders -------------------------------------------------------------------------------------- */

static struct TRITONSERVER_Error *append_piece(struct call *c, const char *input,
                                               struct place place, const void *bytes, size_t n) {
        struct piece *p = &c->pieces[c->n_pieces++];

        *p = (struct piece){ n > 0 ? take_memory(place, n) : NULL, n, place };
        if (n > 0)
                copy_in(place, p->bytes, bytes, n);
        return TRITONSERVER_InferenceRequestAppendInputData(c->request, input, p->bytes, n,
                                                            place.type, place.id);
}

/* <input>=<type>:<dims>:<places>:<hex>, which it takes apart. */
static struct TRITONSERVER_Error *add_input(struct call *c, char *text) {
        char *at = NULL, *name = strtok_r(text, "=", &at), *type = strtok_r(NULL, ":", &at);
        char *dims = strtok_r(NULL, ":", &at), *places = strtok_r(NULL, ":", &at);
        char *hex = strtok_r(NULL, ":", &at);
        unsigned char             *bytes = malloc(strlen(hex) + 1);
        size_t                     n = read_hex(hex, bytes), n_places = 0, from = 0;
        struct place               all[MAX_PIECES];
        int64_t                    shape[8];
        uint64_t                   n_dims = 0;
        struct TRITONSERVER_Error *err;

        for (char *dim = strtok_r(dims, ",", &at); dim != NULL; dim = strtok_r(NULL, ",", &at))
                shape[n_dims++] = atoll(dim);
        for (char *p = strtok_r(places, "/", &at); p != NULL; p = strtok_r(NULL, "/", &at))
                all[n_places++] = read_place(p);
        err = TRITONSERVER_InferenceRequestAddInput(c->request, name,
                                                    TRITONSERVER_StringToDataType(type), shape,
                                                    n_dims);
        for (size_t i = 0; i < n_places && err == NULL; i++) {
                size_t to = n * (i + 1) / n_places;

                err = append_piece(c, name, all[i], bytes + from, to - from);
                from = to;
        }
        free(bytes);
        return err;
}

static struct TRITONSERVER_Error *start(struct call *c, const char *model, char **words,
                                        size_t n_words, uint64_t sequence) {
        struct TRITONSERVER_Error *err;

        *c = (struct call){ .outputs = read_place(words[0]),
                            .n_open = 2,
                            .must_not_wait = strchr(words[0], '~') != NULL,
                            .submitter = pthread_self() };
        err = TRITONSERVER_InferenceRequestNew(&c->request, server, model, -1);
        for (size_t i = 1; i < n_words && err == NULL; i++) {
                char *copy = strdup(words[i]);

                err = add_input(c, copy);
                free(copy);
        }
        if (err != NULL)
                return err;
        must(NESO_InferenceRequestSetDeviceOutputs(c->request, c->must_not_wait));
        if (c->must_not_wait)
                must(NESO_ThreadAllowInlineExecution(true));
        /* A sequence of one request, for a model that has sequences. */
        must(TRITONSERVER_InferenceRequestSetCorrelationId(c->request, sequence));
        must(TRITONSERVER_InferenceRequestSetFlags(c->request,
                                                   TRITONSERVER_REQUEST_FLAG_SEQUENCE_START |
                                                           TRITONSERVER_REQUEST_FLAG_SEQUENCE_END));
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(c->request, on_release, c));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(c->request, allocator, c, on_response,
                                                              c));
        return TRITONSERVER_ServerInferAsync(server, c->request, NULL);
}

static void finish(struct call *c) {
        pthread_mutex_lock(&lock);
        while (c->n_open > 0)
                pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        if (c->request != NULL)
                must(TRITONSERVER_InferenceRequestDelete(c->request));
        for (size_t i = 0; i < c->n_pieces; i++)
                if (c->pieces[i].bytes != NULL)
                        give_memory(c->pieces[i].place, c->pieces[i].bytes);
}

static void infer(char *model, char **words, size_t n_words) {
        static struct call calls[MAX_REQUESTS];
        char              *times = strchr(model, '*');
        int                n = times != NULL ? atoi(times + 1) : 1;
        const char        *text;

        if (times != NULL)
                *times = '\0';
        for (int i = 0; i < n; i++) {
                struct TRITONSERVER_Error *err =
                        start(&calls[i], model, words, n_words, (uint64_t)i + 1);

                if (err != NULL) {
                        calls[i].answer = error_text(err);
                        calls[i].n_open = 0;
                }
        }
        for (int i = 0; i < n; i++)
                finish(&calls[i]);
        text = calls[n - 1].answer;
        for (int i = 0; i < n; i++)
                if (strcmp(calls[i].answer, calls[n - 1].answer) != 0)
                        text = "differs";
        printf("%s\n", text);
        for (int i = 0; i < n; i++)
                free(calls[i].answer);
}

static void print_statistics(const char *model) {
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       n;

        must(TRITONSERVER_ServerModelStatistics(server, model, -1, &message));
        must(TRITONSERVER_MessageSerializeToJson(message, &json, &n));
        printf("-1 ");
        print_hex(stdout, json, n);
        printf("\n");
        must(TRITONSERVER_MessageDelete(message));
}

static void obey(char *line) {
        char  *words[MAX_WORDS], *at = NULL;
        size_t n = 0;

        for (char *w = strtok_r(line, " \n", &at); w != NULL && n < MAX_WORDS;
             w = strtok_r(NULL, " \n", &at))
                words[n++] = w;
        if (n < 2)
                fail("an order needs two words", line);
        if (strcmp(words[0], "statistics") == 0)
                print_statistics(words[1]);
        else
                infer(words[0], words + 1, n - 1);
        fflush(stdout);
}

static void start_server(char **argv) {
        struct TRITONSERVER_ServerOptions *options;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, argv[1]));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, argv[2]));
        must(TRITONSERVER_ServerOptionsSetCacheDirectory(options, argv[3]));
        must(TRITONSERVER_ServerOptionsSetCacheConfig(options, "local", "{\"size\":\"1048576\"}"));
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        /* Models on GPUs do not load where there are none. */
        must(TRITONSERVER_ServerOptionsSetExitOnError(options, false));
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        must(TRITONSERVER_ResponseAllocatorNew(&allocator, give_output, take_output, NULL));
}

int main(int argc, char **argv) {
        static char line[MAX_LINE];

        if (argc != 4)
                fail("usage", "device_client <model repository> <backends> <caches>");
        open_devices();
        start_server(argv);
        while (fgets(line, sizeof(line), stdin) != NULL)
                obey(line);
        must(TRITONSERVER_ServerStop(server));
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        close_devices();
        return 0;
}
