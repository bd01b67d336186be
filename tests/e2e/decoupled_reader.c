/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with a server in it that reads the responses of a decoupled model, for
 * test_decoupled_matrix.py.
 *
 *     decoupled_reader <model repository> <directory of backends> <model> <step>...
 *
 * Steps, in which a is the letter of a request:
 *
 *     a=SCRIPT  submits it, with that parameter "script"
 *     a?        waits for its next response and prints "a <number> <flags>", or
 *               "a <code>: <text> <flags>" when that is an error
 *     a.        waits for its end and prints "a. <flags>": FLAGS of a final call without a
 *               response, or "-" when the last response was the final one
 *     a-        cancels it
 *
 * In the end all requests must have come to theirs, with one release each; what comes of a
 * cancelled one is not printed. Then the model's statistics are printed, as JSON.
 */
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KEPT 2048

/* One use of the response callback. */
struct answer {
        char     text[64]; /* "" when there was no response */
        uint32_t flags;
        uint64_t place; /* among the answers of all requests */
};

/* Guarded by the lock. */
struct reader {
        struct TRITONSERVER_InferenceRequest *request; /* NULL: not submitted */
        struct answer                        *kept;    /* owned: MAX_KEPT */
        unsigned                              n_kept, n_read, n_finals, n_releases;
        bool                                  is_cancelled; /* nothing is kept any more */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;
static struct reader   readers[26];
static uint64_t        n_answers, last_place; /* of those that came, of the last one read */

static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;
static const char                            *model;
static const int32_t                          input = 0;

static void fail(const char *why) {
        fprintf(stderr, "decoupled_reader: %s\n", why);
        exit(1);
}

static void must(TRITONSERVER_Error *err) {
        if (err != NULL)
                fail(TRITONSERVER_ErrorMessage(err));
}

/* ---- what the server calls ------------------------------------------------------------------- */

static TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *userp, void **buffer, void **buffer_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id) {
        (void)a, (void)name, (void)type, (void)id, (void)userp;
        *buffer = malloc(size + 1);
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                     void *buffer_userp, size_t size, TRITONSERVER_MemoryType type,
                                     int64_t id) {
        (void)a, (void)buffer_userp, (void)size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

static void read_number(struct TRITONSERVER_InferenceResponse *response, struct answer *ret) {
        const char             *name;
        TRITONSERVER_DataType   type;
        const int64_t          *shape;
        uint64_t                n_dims;
        const void             *base;
        size_t                  size;
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_id;
        void                   *userp;

        must(TRITONSERVER_InferenceResponseOutput(response, 0, &name, &type, &shape, &n_dims, &base,
                                                  &size, &memory_type, &memory_id, &userp));
        if (strcmp(name, "OUT") != 0 || size != sizeof(int32_t))
                fail("that is no OUT");
        snprintf(ret->text, sizeof(ret->text), "%" PRId32, *(const int32_t *)base);
}

static void read_response(struct TRITONSERVER_InferenceResponse *response, struct answer *ret) {
        TRITONSERVER_Error *err = TRITONSERVER_InferenceResponseError(response);

        if (err != NULL) {
                snprintf(ret->text, sizeof(ret->text), "%s: %s", TRITONSERVER_ErrorCodeString(err),
                         TRITONSERVER_ErrorMessage(err));
                TRITONSERVER_ErrorDelete(err);
        } else {
                read_number(response, ret);
        }
        must(TRITONSERVER_InferenceResponseDelete(response));
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        struct reader *r = userp;
        struct answer  answer = { .flags = flags };

        if (response != NULL)
                read_response(response, &answer);
        pthread_mutex_lock(&lock);
        answer.place = ++n_answers;
        if (!r->is_cancelled && r->n_kept < MAX_KEPT)
                r->kept[r->n_kept++] = answer;
        r->n_finals += (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        struct reader *r = userp;

        (void)request;
        pthread_mutex_lock(&lock);
        r->n_releases += flags == TRITONSERVER_REQUEST_RELEASE_ALL;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void start(struct reader *r, const char *script) {
        static const int64_t one = 1;

        r->kept = calloc(MAX_KEPT, sizeof(*r->kept));
        if (r->kept == NULL)
                fail("out of memory");
        must(TRITONSERVER_InferenceRequestNew(&r->request, server, model, -1));
        must(TRITONSERVER_InferenceRequestAddInput(r->request, "IN", TRITONSERVER_TYPE_INT32, &one,
                                                   1));
        must(TRITONSERVER_InferenceRequestAppendInputData(r->request, "IN", &input, sizeof(input),
                                                          TRITONSERVER_MEMORY_CPU, 0));
        must(TRITONSERVER_InferenceRequestSetStringParameter(r->request, "script", script));
        must(TRITONSERVER_InferenceRequestSetReleaseCallback(r->request, on_release, r));
        must(TRITONSERVER_InferenceRequestSetResponseCallback(r->request, allocator, NULL,
                                                              on_response, r));
        must(TRITONSERVER_ServerInferAsync(server, r->request, NULL));
}

/* The next answer, which has come after all that were read before; the caller holds the lock. */
static const struct answer *next_locked(struct reader *r) {
        while (r->n_read == r->n_kept)
                pthread_cond_wait(&changed, &lock);
        if (r->kept[r->n_read].place < last_place)
                fail("answers came in another order");
        last_place = r->kept[r->n_read].place;
        return &r->kept[r->n_read++];
}

static void read_next(struct reader *r, char name) {
        const struct answer *a;

        pthread_mutex_lock(&lock);
        a = next_locked(r);
        printf("%c %s %" PRIu32 "\n", name, a->text, a->flags);
        pthread_mutex_unlock(&lock);
}

static void read_end(struct reader *r, char name) {
        const struct answer *a;

        pthread_mutex_lock(&lock);
        if (r->n_read > 0 && r->kept[r->n_read - 1].flags != 0) {
                printf("%c. -\n", name);
        } else {
                a = next_locked(r);
                printf("%c. %s%" PRIu32 "\n", name, a->text, a->flags);
        }
        pthread_mutex_unlock(&lock);
}

static void cancel(struct reader *r) {
        pthread_mutex_lock(&lock);
        r->is_cancelled = true;
        pthread_mutex_unlock(&lock);
        must(TRITONSERVER_InferenceRequestCancel(r->request));
}

static void take_step(const char *step) {
        struct reader *r;

        if (step[0] < 'a' || step[0] > 'z')
                fail(step);
        r = &readers[step[0] - 'a'];
        switch (step[1]) {
        case '=': start(r, step + 2); break;
        case '?': read_next(r, step[0]); break;
        case '.': read_end(r, step[0]); break;
        case '-': cancel(r); break;
        default: fail(step);
        }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void end(struct reader *r) {
        if (r->request == NULL)
                return;
        pthread_mutex_lock(&lock);
        while (r->n_finals == 0 || r->n_releases == 0)
                pthread_cond_wait(&changed, &lock);
        if (r->n_finals != 1 || r->n_releases != 1 || (r->n_read != r->n_kept && !r->is_cancelled))
                fail("more came than was to come");
        pthread_mutex_unlock(&lock);
        must(TRITONSERVER_InferenceRequestDelete(r->request));
        free(r->kept);
}

static void open_server(const char *repository, const char *backends) {
        struct TRITONSERVER_ServerOptions *options;

        must(TRITONSERVER_ServerOptionsNew(&options));
        must(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, repository));
        must(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backends));
        must(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        must(TRITONSERVER_ServerNew(&server, options));
        must(TRITONSERVER_ServerOptionsDelete(options));
        must(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
}

static void print_statistics(void) {
        struct TRITONSERVER_Message *statistics;
        const char                  *base;
        size_t                       size;

        must(TRITONSERVER_ServerModelStatistics(server, model, -1, &statistics));
        must(TRITONSERVER_MessageSerializeToJson(statistics, &base, &size));
        printf("%.*s\n", (int)size, base);
        must(TRITONSERVER_MessageDelete(statistics));
}

int main(int argc, char **argv) {
        if (argc < 5) {
                fprintf(stderr,
                        "usage: %s <model repository> <directory of backends> <model> "
                        "<step>...\n",
                        argv[0]);
                return 2;
        }
        open_server(argv[1], argv[2]);
        model = argv[3];
        for (int i = 4; i < argc; i++)
                take_step(argv[i]);
        for (int i = 0; i < 26; i++)
                end(&readers[i]);
        print_statistics();
        must(TRITONSERVER_ServerDelete(server));
        must(TRITONSERVER_ResponseAllocatorDelete(allocator));
        return 0;
}
