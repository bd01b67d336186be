/* SPDX-License-Identifier: BSD-3-Clause */
/* What a cache sees of the server, and what the server makes of a cache that fails: through the
 * public headers and libtritonserver.so alone.
 *
 *   test_cache <directory of backends> <path of the probe's library>
 *
 * The model "kept" repeats INT32 [ -1 ], "plain" does the same without a cache.
 */
#include "api_assert.h"
#include "cache_probe.h"
#include "embedded.h"
#include "heap_allocator.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char                            *backend_directory, *probe_path;
static struct model_place                     place;
static struct cache_probe                    *probe;
static struct TRITONSERVER_Server            *server;
static struct TRITONSERVER_ResponseAllocator *allocator;

static void add_model(const char *name, const char *more) {
        char text[512];

        snprintf(text, sizeof(text),
                 "backend: 'identity'\n"
                 "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }\n"
                 "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] }\n%s",
                 more);
        model_place_add_model(&place, name, text, NULL);
}

/* The error of a server that does not start. */
static struct TRITONSERVER_Error *make_server(const char *config) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Error         *err;
        char                               path[512];

        snprintf(path, sizeof(path), "%s/models", place.root);
        options = embedded_options(path, backend_directory);
        snprintf(path, sizeof(path), "%s/caches", place.root);
        assert_ok(TRITONSERVER_ServerOptionsSetCacheDirectory(options, path));
        assert_ok(TRITONSERVER_ServerOptionsSetCacheConfig(options, "probe", config));
        assert_ok(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, false));
        assert_ok(
                TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                              TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        assert_ok(TRITONSERVER_ServerOptionsSetStartupModel(options, "*"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogError(options, false));
        err = TRITONSERVER_ServerNew(&server, options);
        assert_ok(TRITONSERVER_ServerOptionsDelete(options));
        return err;
}

static int start_server(void **state) {
        char  path[512];
        void *library;

        (void)state;
        model_place_open(&place);
        model_place_add_folder(&place, "models");
        add_model("models/kept", "response_cache { enable: true }\n");
        add_model("models/plain", "");
        model_place_add_folder(&place, "caches");
        model_place_add_folder(&place, "caches/probe");
        model_place_add_link(&place, "caches/probe/libtritoncache_probe.so", probe_path);
        snprintf(path, sizeof(path), "%s/caches/probe/libtritoncache_probe.so", place.root);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        probe = dlsym(library, "cache_probe");
        assert_non_null(probe);
        allocator = heap_allocator_new();
        assert_ok(make_server("{\"a\":\"1\",\"b\":\"text\"}"));
        return 0;
}

/* The answer to one value, which must be it; whether the model computed it is what the probe says. */
static void infer(const char *model, int32_t value, bool is_cacheable) {
        const int32_t           values[] = { value, -value };
        struct inference        in;
        struct inference_output out;

        inference_open(&in, server, model, allocator, NULL);
        inference_add_input(&in, "INPUT0", TRITONSERVER_TYPE_INT32, 2, values);
        if (!is_cacheable)
                assert_ok(NESO_InferenceRequestSetCacheable(in.request, false));
        out = inference_output(inference_run(&in), 0);
        assert_string_equal(out.name, "OUTPUT0");
        assert_int_equal(out.type, TRITONSERVER_TYPE_INT32);
        assert_int_equal(out.n_dims, 1);
        assert_int_equal(out.shape[0], 2);
        assert_int_equal(out.n_bytes, sizeof(values));
        if (probe->flip == 0)
                assert_memory_equal(out.base, values, sizeof(values));
        inference_close(&in);
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
        err = make_server("{\"refuse\":\"yes\"}");
        assert_non_null(err);
        assert_int_equal(TRITONSERVER_ErrorCode(err), TRITONSERVER_ERROR_UNSUPPORTED);
        assert_non_null(
                strstr(TRITONSERVER_ErrorMessage(err), "failed to initialize cache 'probe'"));
        assert_non_null(strstr(TRITONSERVER_ErrorMessage(err), "as the test wants it"));
        TRITONSERVER_ErrorDelete(err);
        assert_int_equal(probe->n_finalized, 1);
}

static int remove_all(void **state) {
        (void)state;
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(allocator));
        model_place_close(&place);
        return 0;
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_a_cache_sees),
                cmocka_unit_test(test_not_cacheable),
                cmocka_unit_test(test_failures),
                cmocka_unit_test(test_damaged_bytes),
                cmocka_unit_test(test_flipped_bytes),
                cmocka_unit_test(test_reload),
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
