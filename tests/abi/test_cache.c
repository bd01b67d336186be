/* SPDX-License-Identifier: BSD-3-Clause */
/* What a cache sees of the server, and what the server makes of a cache that fails: through the
 * public headers and libtritonserver.so alone.
 *
 *   test_cache <directory of backends> <path of the probe's library>
 *
 * The model "kept" repeats INT32 [ -1 ], "plain" does the same without a cache.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cache_probe.h"
#include "triton/core/neso.h"

#include "api_assert.h"

static const char                            *backend_directory, *probe_path;
static char                                   root[] = "/tmp/neso_cache_XXXXXX";
static struct cache_probe                    *probe;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

/* One inference; guarded by the lock. */
static struct {
        pthread_mutex_t                        lock;
        pthread_cond_t                         changed;
        struct TRITONSERVER_InferenceResponse *response;
        int                                    n_left; /* the final response, the release */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void add_file(const char *path, const char *text) {
        char  whole[512];
        FILE *file;

        snprintf(whole, sizeof(whole), "%s/%s", root, path);
        file = fopen(whole, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

static void add_folder(const char *path) {
        char whole[512];

        snprintf(whole, sizeof(whole), "%s/%s", root, path);
        assert_int_equal(mkdir(whole, 0755), 0);
}

static void add_model(const char *name, const char *more) {
        char path[64], text[512];

        snprintf(path, sizeof(path), "models/%s", name);
        add_folder(path);
        snprintf(path, sizeof(path), "models/%s/1", name);
        add_folder(path);
        snprintf(text, sizeof(text),
                 "backend: 'identity'\n"
                 "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }\n"
                 "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] }\n%s",
                 more);
        snprintf(path, sizeof(path), "models/%s/config.pbtxt", name);
        add_file(path, text);
}

static struct TRITONSERVER_Error *allocate(struct TRITONSERVER_ResponseAllocator *a,
                                           const char *tensor_name, size_t byte_size,
                                           TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                           void **buffer, void **buffer_userp,
                                           TRITONSERVER_MemoryType *actual_type,
                                           int64_t *actual_id) {
        (void)a, (void)tensor_name, (void)type, (void)id, (void)userp;
        *buffer = malloc(byte_size + 1);
        *buffer_userp = NULL;
        *actual_type = TRITONSERVER_MEMORY_CPU;
        *actual_id = 0;
        return NULL;
}

static struct TRITONSERVER_Error *give_back(struct TRITONSERVER_ResponseAllocator *a, void *buffer,
                                            void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)a, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        free(buffer);
        return NULL;
}

static void end_one(void) {
        pthread_mutex_lock(&seen.lock);
        seen.n_left--;
        pthread_cond_signal(&seen.changed);
        pthread_mutex_unlock(&seen.lock);
}

static void on_response(struct TRITONSERVER_InferenceResponse *response, const uint32_t flags,
                        void *userp) {
        (void)userp;
        seen.response = response;
        if ((flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0)
                end_one();
}

static void on_release(struct TRITONSERVER_InferenceRequest *request, const uint32_t flags,
                       void *userp) {
        (void)request, (void)flags, (void)userp;
        end_one();
}

static int make_server(const char *config, struct TRITONSERVER_Error **ret) {
        struct TRITONSERVER_ServerOptions *options;
        char                               path[512];

        assert_ok(TRITONSERVER_ServerOptionsNew(&options));
        snprintf(path, sizeof(path), "%s/models", root);
        assert_ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, path));
        assert_ok(TRITONSERVER_ServerOptionsSetBackendDirectory(options, backend_directory));
        snprintf(path, sizeof(path), "%s/caches", root);
        assert_ok(TRITONSERVER_ServerOptionsSetCacheDirectory(options, path));
        assert_ok(TRITONSERVER_ServerOptionsSetCacheConfig(options, "probe", config));
        assert_ok(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, false));
        assert_ok(TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                                TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        assert_ok(TRITONSERVER_ServerOptionsSetStartupModel(options, "*"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogInfo(options, false));
        assert_ok(TRITONSERVER_ServerOptionsSetLogError(options, false));
        *ret = TRITONSERVER_ServerNew(&server, options);
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        return 0;
}

static int start_server(void **state) {
        struct TRITONSERVER_Error *err;
        char                       path[512];
        void                      *library;

        (void)state;
        assert_non_null(mkdtemp(root));
        add_folder("models");
        add_model("kept", "response_cache { enable: true }\n");
        add_model("plain", "");
        add_folder("caches");
        add_folder("caches/probe");
        snprintf(path, sizeof(path), "%s/caches/probe/libtritoncache_probe.so", root);
        assert_int_equal(symlink(probe_path, path), 0);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        probe = dlsym(library, "cache_probe");
        assert_non_null(probe);
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&allocator, allocate, give_back, NULL));
        make_server("{\"a\":\"1\",\"b\":\"text\"}", &err);
        assert_ok(err);
        return 0;
}

/* The answer to one value, which must be it; whether the model computed it is what the probe says. */
static void infer(const char *model, int32_t value, bool is_cacheable) {
        struct TRITONSERVER_InferenceRequest *request;
        const int64_t                         shape[] = { 2 };
        const int32_t                         values[] = { value, -value };
        const char                           *name;
        const void                           *base;
        const int64_t                        *found_shape;
        size_t                                bytes;
        uint64_t                              n_dims;
        int64_t                               id;
        void                                 *userp;
        TRITONSERVER_DataType                 type;
        TRITONSERVER_MemoryType               memory;

        assert_ok(TRITONSERVER_InferenceRequestNew(&request, server, model, -1));
        assert_ok(TRITONSERVER_InferenceRequestAddInput(request, "INPUT0", TRITONSERVER_TYPE_INT32,
                                                        shape, 1));
        assert_ok(TRITONSERVER_InferenceRequestAppendInputData(
                request, "INPUT0", values, sizeof(values), TRITONSERVER_MEMORY_CPU, 0));
        assert_ok(TRITONSERVER_InferenceRequestSetResponseCallback(request, allocator, NULL,
                                                                   on_response, NULL));
        assert_ok(TRITONSERVER_InferenceRequestSetReleaseCallback(request, on_release, NULL));
        if (!is_cacheable)
                assert_ok(NESO_InferenceRequestSetCacheable(request, false));
        seen.n_left = 2;
        assert_ok(TRITONSERVER_ServerInferAsync(server, request, NULL));
        pthread_mutex_lock(&seen.lock);
        while (seen.n_left > 0)
                pthread_cond_wait(&seen.changed, &seen.lock);
        pthread_mutex_unlock(&seen.lock);
        assert_ok(TRITONSERVER_InferenceResponseError(seen.response));
        assert_ok(TRITONSERVER_InferenceResponseOutput(seen.response, 0, &name, &type, &found_shape,
                                                       &n_dims, &base, &bytes, &memory, &id,
                                                       &userp));
        assert_string_equal(name, "OUTPUT0");
        assert_int_equal(type, TRITONSERVER_TYPE_INT32);
        assert_int_equal(n_dims, 1);
        assert_int_equal(found_shape[0], 2);
        assert_int_equal(bytes, sizeof(values));
        if (probe->flip == 0)
                assert_memory_equal(base, values, sizeof(values));
        assert_ok(TRITONSERVER_InferenceResponseDelete(seen.response));
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

/* The count of that name in the statistics of "kept": a pair of the JSON, or a number. */
static unsigned long count_of(const char *what) {
        struct TRITONSERVER_Message *message;
        const char                  *json, *at;
        size_t                       len;
        unsigned long                count;
        char                         key[64];

        assert_ok(TRITONSERVER_ServerModelStatistics(server, "kept", -1, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        snprintf(key, sizeof(key), "\"%s\":", what);
        at = strstr(json, key);
        assert_non_null(at);
        at += strlen(key);
        if (*at == '{')
                at += strlen("{\"count\":");
        count = strtoul(at, NULL, 10);
        TRITONSERVER_MessageDelete(message);
        return count;
}

static void test_what_a_cache_sees(void **state) {
        (void)state;
        assert_int_equal(probe->n_initialized, 1);
        assert_string_equal(probe->config, "{\"a\":\"1\",\"b\":\"text\"}");
        infer("plain", 1, true);
        assert_int_equal(probe->n_lookups, 0);

        infer("kept", 1, true);
        assert_int_equal(probe->n_lookups, 1);
        assert_int_equal(probe->n_inserts, 1);
        assert_int_equal(probe->n_buffers, 1);
        assert_null(probe->base);
        assert_string_equal(probe->inserted, probe->looked_up);
        assert_int_equal(strlen(probe->inserted), 32);
        assert_int_equal(strspn(probe->inserted, "0123456789abcdef"), 32);
        assert_int_equal(count_of("cache_miss"), 1);

        infer("kept", 1, true);
        assert_int_equal(probe->n_lookups, 2);
        assert_int_equal(probe->n_found, 1);
        assert_int_equal(probe->n_inserts, 1);
        assert_int_equal(count_of("cache_hit"), 1);
        assert_int_equal(count_of("execution_count"), 1);
        assert_int_equal(count_of("success"), 2);
}

static void test_not_cacheable(void **state) {
        unsigned n_lookups = probe->n_lookups, n_inserts = probe->n_inserts;

        (void)state;
        infer("kept", 1000, false);
        infer("kept", 1000, false);
        assert_int_equal(probe->n_lookups, n_lookups + 2);
        assert_int_equal(probe->n_inserts, n_inserts);
        infer("kept", 1000, true);
        assert_int_equal(probe->n_inserts, n_inserts + 1);
        /* What another one had kept is given. */
        n_lookups = probe->n_found;
        infer("kept", 1000, false);
        assert_int_equal(probe->n_found, n_lookups + 1);
}

/* Whatever the cache says, the request is served, and counted as executed. */
static void test_failures(void **state) {
        static const struct {
                int           fail_lookup, fail_insert, copies, buffers;
                unsigned long n_misses;
                const char   *text;
        } rows[] = {
                { TRITONSERVER_ERROR_INTERNAL, -1, 1, 1, 0, "" },
                { TRITONSERVER_ERROR_UNKNOWN, -1, 1, 1, 0, "" },
                { TRITONSERVER_ERROR_ALREADY_EXISTS, -1, 1, 1, 0, "" },
                { -1, -1, 0, 1, 0, "" },
                { -1, -1, 2, 1, 0, "the cache entry was copied before" },
                { -1, -1, 1, 0, 0, "the cache entry has 0 buffers instead of 1" },
                { -1, -1, 1, 5, 0, "the cache entry has 5 buffers instead of 1" },
                { -1, -1, 1, 2000, 0, "a cache entry has at most 1024 buffers" },
                { TRITONSERVER_ERROR_NOT_FOUND, TRITONSERVER_ERROR_INTERNAL, 1, 1, 1, "" },
                { TRITONSERVER_ERROR_NOT_FOUND, TRITONSERVER_ERROR_ALREADY_EXISTS, 1, 1, 0, "" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                unsigned long n_executed = count_of("execution_count");
                unsigned long n_misses = count_of("cache_miss");

                probe->fail_lookup = rows[i].fail_lookup;
                probe->fail_insert = rows[i].fail_insert;
                probe->copies = rows[i].copies;
                probe->buffers = rows[i].buffers;
                probe->text[0] = '\0';
                infer("kept", 1, true);
                assert_int_equal(count_of("execution_count"), n_executed + 1);
                assert_int_equal(count_of("cache_miss"), n_misses + rows[i].n_misses);
                assert_string_equal(probe->text, rows[i].text);
        }
        probe->fail_lookup = probe->fail_insert = -1;
        probe->copies = probe->buffers = 1;
}

/* What a cache gives back need not be what it was given. */
static void test_damaged_bytes(void **state) {
        size_t        n_bytes;
        unsigned long n_hits;

        (void)state;
        infer("kept", 7, true);
        n_bytes = probe->entries[probe->n_entries - 1].n_bytes;
        n_hits = count_of("cache_hit");
        for (probe->cut = 1; probe->cut <= n_bytes; probe->cut++)
                infer("kept", 7, true);
        probe->cut = 0;
        assert_int_equal(count_of("cache_hit"), n_hits);
}

/* Name and shape of the answer are looked at by infer(); here it must survive. */
static void test_flipped_bytes(void **state) {
        struct probe_entry *e;

        (void)state;
        infer("kept", 8, true);
        e = &probe->entries[probe->n_entries - 1];
        /* The head, and the head of the output up to its number of bytes: all of it counts. */
        for (probe->flip = 1; probe->flip <= 16 + 24; probe->flip++) {
                unsigned long n_hits = count_of("cache_hit");

                if (probe->flip > 16 && probe->flip <= 20)
                        continue; /* the data type: four of its bytes make one that is none */
                infer("kept", 8, true);
                assert_int_equal(count_of("cache_hit"), n_hits);
        }
        probe->flip = 0;
        assert_true(e->n_bytes > 16 + 24);
}

static void test_reload(void **state) {
        char     before[PROBE_KEY_BYTES];
        unsigned n_inserts;

        (void)state;
        infer("kept", 9, true);
        snprintf(before, sizeof(before), "%s", probe->looked_up);
        n_inserts = probe->n_inserts;
        assert_ok(TRITONSERVER_ServerUnloadModel(server, "kept"));
        assert_ok(TRITONSERVER_ServerLoadModel(server, "kept"));
        infer("kept", 9, true);
        assert_string_not_equal(probe->looked_up, before);
        assert_int_equal(probe->n_inserts, n_inserts + 1);
}

static void test_end(void **state) {
        struct TRITONSERVER_Error *err;

        (void)state;
        assert_ok(TRITONSERVER_ServerStop(server));
        assert_int_equal(probe->n_finalized, 0);
        assert_ok(TRITONSERVER_ServerDelete(server));
        assert_int_equal(probe->n_finalized, 1);

        /* One that does not start is not ended. */
        make_server("{\"refuse\":\"yes\"}", &err);
        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_UNSUPPORTED);
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err), "failed to initialize cache 'probe'"));
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err), "as the test wants it"));
        TRITONSERVER_ErrorDelete(err);
        assert_int_equal(probe->n_finalized, 1);
}

static int remove_all(void **state) {
        char command[600];

        (void)state;
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        snprintf(command, sizeof(command), "rm -rf %s", root);
        return system(command);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_a_cache_sees), cmocka_unit_test(test_not_cacheable),
                cmocka_unit_test(test_failures),          cmocka_unit_test(test_damaged_bytes),
                cmocka_unit_test(test_flipped_bytes),     cmocka_unit_test(test_reload),
                cmocka_unit_test(test_end),
        };

        if (argc != 3) {
                fprintf(stderr, "usage: %s <directory of backends> <cache's library>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        probe_path = realpath(argv[2], NULL);
        return cmocka_run_group_tests(tests, start_server, remove_all);
}
