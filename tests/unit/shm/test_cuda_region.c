/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA regions in the registry, with GPUs of the tests' own. */
#include "suite.h"

#include "base/log.h"
#include "base/mem.h"
#include "shm/fake_gpus.h"
#include "shm/shared_memory.h"
#include "shm/shm_object.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INVALID_ARGS "failed to register shared memory region: invalid args"

struct fixture {
        struct gpus           gpus;
        struct shared_memory *memory;
        struct shm_object     object;
        struct arena          arena;
};

static void open_fixture(struct fixture *f) {
        fake_gpus_open(&f->gpus);
        shm_object_open(&f->object, 4096);
        arena_init(&f->arena, NULL, 0, 0);
        assert_null(shared_memory_new(&f->gpus, &f->memory));
}

static void close_fixture(struct fixture *f) {
        shared_memory_free(f->memory);
        fake_gpus_close(&f->gpus);
        shm_object_close(&f->object);
        arena_done(&f->arena);
        assert_int_equal(shm_count_mappings(), 0);
}

static void assert_refused(struct error *err, enum error_code code, const char *text) {
        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, code);
        error_free(err);
}

static struct error *enter(struct fixture *f, const char *name, size_t allocation, int64_t device,
                           uint64_t byte_size) {
        unsigned char handle[GPU_SHARE_BYTES];

        fake_gpus_handle(allocation, handle);
        return shared_memory_register_cuda(f->memory,
                                           &(struct cuda_place){
                                                   name, str_range((char *)handle, sizeof(handle)),
                                                   device, byte_size });
}

static struct error *enter_system(struct fixture *f, const char *name) {
        return shared_memory_register(f->memory,
                                      &(struct shm_place){ name, f->object.key, 0, 4096 });
}

static struct error *leave(struct fixture *f, enum shared_memory_kind kind, const char *name) {
        return shared_memory_unregister(f->memory, kind, str_of(name));
}

/* "a 0 8192, b 1 1" */
static void assert_list(struct fixture *f, const char *name, const char *expected) {
        struct shared_memory_entry *entries;
        char                        text[256] = "";
        size_t                      n;

        assert_null(shared_memory_list(f->memory, SHARED_MEMORY_CUDA, str_of(name), &f->arena,
                                       &entries, &n));
        for (size_t i = 0; i < n; i++) {
                size_t len = strlen(text);

                snprintf(text + len, sizeof(text) - len, "%s%s %llu %llu", i > 0 ? ", " : "",
                         entries[i].name, (unsigned long long)entries[i].device,
                         (unsigned long long)entries[i].byte_size);
        }
        assert_string_equal(text, expected);
}

static struct error *list(struct fixture *f, enum shared_memory_kind kind, const char *name) {
        struct shared_memory_entry *entries;
        size_t                      n;

        return shared_memory_list(f->memory, kind, str_of(name), &f->arena, &entries, &n);
}

/* ---- registering ---- */

static void test_register(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        assert_true(shared_memory_has_gpus(f.memory));
        assert_null(shared_memory_check_gpus(f.memory, "r"));
        assert_null(enter(&f, "b", 0, 1, FAKE_GPU_BYTES));
        assert_null(enter(&f, "a", 1, 0, 1));
        assert_null(enter(&f, "again", 0, 1, 8)); /* one allocation, another name */
        assert_list(&f, "", "a 0 1, again 1 8, b 1 8192");
        assert_list(&f, "b", "b 1 8192");
        assert_int_equal(fake_gpus_n_open(&f.gpus), 3);
        assert_refused(enter(&f, "a", 0, 0, 1), ERR_ALREADY_EXISTS,
                       "shared memory region 'a' already in manager");
        assert_int_equal(f.gpus.n_opened, 3);
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "a"));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "nobody"));
        assert_list(&f, "", "again 1 8, b 1 8192");
        assert_refused(list(&f, SHARED_MEMORY_CUDA, "a"), ERR_NOT_FOUND,
                       "Unable to find cuda shared memory region: 'a'");
        assert_null(leave(&f, SHARED_MEMORY_CUDA, ""));
        assert_list(&f, "", "");
        assert_int_equal(fake_gpus_n_open(&f.gpus), 0);
        close_fixture(&f);
}

static void test_bad_places(void **state) {
#define UNKNOWN(device)                                                                            \
        "failed to register shared memory region 'r': unknown device_id " device                   \
        ", the server has these GPUs: 0,1"
        static const struct row {
                size_t      allocation;
                int64_t     device;
                uint64_t    byte_size;
                const char *text;
        } rows[] = {
                { 0, 2, 1, UNKNOWN("2") },
                { 0, -1, 1, UNKNOWN("-1") },
                { 0, INT64_MAX, 1, UNKNOWN("9223372036854775807") },
                { 0, INT64_MIN, 1, UNKNOWN("-9223372036854775808") },
                { 0, (int64_t)1 << 32, 1, UNKNOWN("4294967296") },
                { 0, 0, 0,
                  "failed to register shared memory region 'r': byte_size must be greater than 0" },
                { 9, 0, 1, INVALID_ARGS },
                { 0, 0, FAKE_GPU_BYTES + 1, INVALID_ARGS },
                { 0, 0, UINT64_MAX, INVALID_ARGS },
        };
        struct fixture f;

        (void)state;
        open_fixture(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                assert_refused(enter(&f, "r", rows[i].allocation, rows[i].device,
                                     rows[i].byte_size),
                               ERR_INVALID_ARG, rows[i].text);
        assert_list(&f, "", "");
        close_fixture(&f);
}

static void test_bad_handles(void **state) {
        struct fixture f;
        unsigned char  handle[GPU_SHARE_BYTES + 1];
        char           text[128];

        (void)state;
        open_fixture(&f);
        fake_gpus_handle(0, handle);
        for (size_t n = 0; n <= sizeof(handle); n++) {
                struct cuda_place place = { "r", str_range((char *)handle, n), 0, 1 };

                if (n == GPU_SHARE_BYTES)
                        continue;
                snprintf(text, sizeof(text),
                         "failed to register shared memory region 'r': raw_handle has %zu bytes, a "
                         "handle has 64",
                         n);
                assert_refused(shared_memory_register_cuda(f.memory, &place), ERR_INVALID_ARG,
                               text);
        }
        f.gpus.is_lost = true;
        assert_refused(enter(&f, "r", 0, 1, 1), ERR_UNAVAILABLE,
                       "failed to register shared memory region 'r': GPU 1 is lost");
        assert_int_equal(f.gpus.n_opened, 0);
        close_fixture(&f);
}

/* The driver's reason is in the log, since the client's text has none. */
static void test_reason(void **state) {
        struct fixture f;
        char           path[] = "/tmp/neso_test_cuda_region_XXXXXX", text[1024] = "";
        FILE          *file;

        (void)state;
        close(mkstemp(path));
        open_fixture(&f);
        assert_null(log_set_file(path));
        assert_refused(enter(&f, "r", 9, 1, 77), ERR_INVALID_ARG, INVALID_ARGS);
        assert_null(log_set_file(""));
        file = fopen(path, "r");
        assert_non_null(file);
        assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
        fclose(file);
        unlink(path);
        assert_non_null(strstr(text, "shared memory region 'r' of 77 bytes on GPU 1 cannot be "
                                     "opened: invalid resource handle"));
        close_fixture(&f);
}

static void test_names(void **state) {
        struct fixture f;
        AUTO_CHARS     name = mem_zalloc(SHARED_MEMORY_MAX_NAME + 2);

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "", 0, 0, 1)); /* gRPC has it */
        assert_list(&f, "", " 0 1");
        assert_refused(enter(&f, "\xff", 0, 0, 1), ERR_INVALID_ARG,
                       "cannot register shared memory region: its name is not UTF-8");
        memset(name, 'n', SHARED_MEMORY_MAX_NAME + 1);
        assert_refused(enter(&f, name, 0, 0, 1), ERR_INVALID_ARG,
                       "cannot register shared memory region: its name has 4097 bytes, at most "
                       "4096 are allowed");
        assert_int_equal(f.gpus.n_opened, 1);
        close_fixture(&f);
}

static void test_too_many(void **state) {
        struct shm_region *r;
        struct fixture     f;
        char               name[16];

        (void)state;
        open_fixture(&f);
        for (size_t i = 0; i < CUDA_REGION_MAX; i++) {
                snprintf(name, sizeof(name), "r%zu", i);
                assert_null(enter(&f, name, i % 2, 0, 1));
        }
        assert_refused(enter(&f, "more", 0, 0, 1), ERR_UNAVAILABLE,
                       "cannot register shared memory region 'more': there are 1024 already, "
                       "counting those that requests still use");
        assert_null(enter_system(&f, "system")); /* has a limit of its own */
        assert_null(shared_memory_take(f.memory, "r0", &r));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "r0"));
        assert_refused(enter(&f, "more", 9, 0, 1), ERR_UNAVAILABLE,
                       "cannot register shared memory region 'more': there are 1024 already, "
                       "counting those that requests still use");
        shm_region_unref(r);
        assert_refused(enter(&f, "more", 9, 0, 1), ERR_INVALID_ARG, INVALID_ARGS);
        assert_null(enter(&f, "more", 0, 0, 1));
        close_fixture(&f);
}

/* What counts is the allocation, whose memory stays on the device, once for all of its regions, and until the last
 * user has left. */
static void test_too_many_bytes(void **state) {
#define TEXT                                                                                       \
        "failed to register shared memory region 'c': regions of clients keep 16384 bytes of GPU " \
        "0 open, with its allocation of 8192 bytes they would exceed the limit of 16384 "          \
        "(--client-shm-gpu-limit)"
        struct shm_region *r;
        struct fixture     f;

        (void)state;
        open_fixture(&f);
        shared_memory_limit_gpus(f.memory, 2.0 * FAKE_GPU_BYTES / FAKE_GPU_TOTAL_BYTES);
        assert_null(enter(&f, "a", 0, 0, 1));
        assert_null(enter(&f, "b", 1, 0, 1));
        assert_null(enter(&f, "a2", 0, 0, FAKE_GPU_BYTES));
        assert_refused(enter(&f, "c", 2, 0, 1), ERR_UNAVAILABLE, TEXT);
        assert_null(enter(&f, "other", 2, 1, 1)); /* of another GPU */
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "a"));
        assert_refused(enter(&f, "c", 2, 0, 1), ERR_UNAVAILABLE, TEXT);
        assert_null(shared_memory_take(f.memory, "b", &r));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "b"));
        assert_refused(enter(&f, "c", 2, 0, 1), ERR_UNAVAILABLE, TEXT);
        assert_int_equal(fake_gpus_n_open(&f.gpus), 3);
        shm_region_unref(r);
        assert_null(enter(&f, "c", 2, 0, 1));
        shared_memory_limit_gpus(f.memory, 0);
        assert_null(enter(&f, "c2", 2, 0, 1)); /* adds no memory */
        close_fixture(&f);
#undef TEXT
}

/* ---- both kinds ---- */

static void test_kinds(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "gpu", 0, 0, 1));
        assert_null(enter_system(&f, "host"));
        assert_refused(enter_system(&f, "gpu"), ERR_ALREADY_EXISTS,
                       "shared memory region 'gpu' already in manager");
        assert_refused(enter(&f, "host", 0, 0, 1), ERR_ALREADY_EXISTS,
                       "shared memory region 'host' already in manager");
        assert_refused(list(&f, SHARED_MEMORY_SYSTEM, "gpu"), ERR_NOT_FOUND,
                       "The region named 'gpu' is registered as CUDA shared memory, not system "
                       "shared memory");
        assert_refused(list(&f, SHARED_MEMORY_CUDA, "host"), ERR_NOT_FOUND,
                       "The region named 'host' is registered as system shared memory, not CUDA "
                       "shared memory");
        /* The other kind is left alone, by name and all of it. */
        assert_null(leave(&f, SHARED_MEMORY_SYSTEM, "gpu"));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "host"));
        assert_null(leave(&f, SHARED_MEMORY_SYSTEM, ""));
        assert_list(&f, "", "gpu 0 1");
        assert_int_equal(shm_count_mappings(), 0);
        assert_null(enter_system(&f, "host"));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, ""));
        assert_list(&f, "", "");
        assert_null(list(&f, SHARED_MEMORY_SYSTEM, "host"));
        assert_int_equal(fake_gpus_n_open(&f.gpus), 0);
        assert_null(enter(&f, "gpu", 0, 0, 1)); /* both are there at the end */
        close_fixture(&f);
}

/* ---- use ---- */

static void test_ranges(void **state) {
        static const struct row {
                uint64_t    offset, byte_size;
                const char *text; /* NULL: found */
        } rows[] = {
                { 0, 0, NULL },
                { 0, 100, NULL },
                { 99, 1, NULL },
                { 100, 0, "Invalid offset for shared memory region: 'r'" },
                { 99, 2, "Invalid offset + byte size for shared memory region: 'r'" },
                { 0, 101, "Invalid offset + byte size for shared memory region: 'r'" },
                { 2, UINT64_MAX - 1,
                  "Integer overflow detected: byte_size (18446744073709551614) + offset (2) "
                  "exceeds maximum value (18446744073709551615) for region 'r'" },
        };
        struct shm_region *r;
        struct fixture     f;
        char              *memory, seen[4] = "";

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", 1, 1, 100));
        assert_null(shared_memory_take(f.memory, "r", &r));
        assert_int_equal(r->kind, SHARED_MEMORY_CUDA);
        assert_int_equal(r->cuda.device, 1);
        assert_int_equal(r->cuda.handle[0], 1);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = shm_region_find(r, rows[i].offset, rows[i].byte_size, &memory);

                if (rows[i].text != NULL) {
                        assert_refused(err, ERR_INVALID_ARG, rows[i].text);
                        continue;
                }
                assert_null(err);
                assert_ptr_equal(memory, f.gpus.memory[1] + rows[i].offset);
        }
        assert_null(shm_region_check_intact(r));
        assert_null(cuda_region_read(&r->cuda, f.gpus.memory[1] + 10, 3, seen));
        assert_memory_equal(seen, "\x0a\x0b\x0c", 3);
        shm_region_unref_later(r);
        close_fixture(&f);
}

/* The name is free at once, the memory stays while somebody has it. */
static void test_unregister_in_use(void **state) {
        struct shm_region *first, *second, *none;
        struct fixture     f;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", 0, 0, 1));
        assert_null(shared_memory_take(f.memory, "r", &first));
        assert_null(leave(&f, SHARED_MEMORY_CUDA, "r"));
        assert_list(&f, "", "");
        assert_refused(shared_memory_take(f.memory, "r", &none), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'r'");
        assert_null(enter(&f, "r", 1, 0, 1));
        assert_null(shared_memory_take(f.memory, "r", &second));
        assert_ptr_not_equal(first, second);
        assert_null(leave(&f, SHARED_MEMORY_CUDA, ""));
        assert_int_equal(fake_gpus_n_open(&f.gpus), 2);
        shm_region_unref(second);
        assert_int_equal(fake_gpus_n_open(&f.gpus), 1);
        /* Another thread closes it, before the registry ends. */
        shm_region_unref_later(first);
        close_fixture(&f);
}

static void test_thousands(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        for (int i = 0; i < 5000; i++) {
                struct shm_region *r;

                assert_null(enter(&f, "r", 0, 0, 1));
                assert_null(shared_memory_take(f.memory, "r", &r));
                assert_null(leave(&f, SHARED_MEMORY_CUDA, i % 2 ? "r" : ""));
                shm_region_unref(r);
        }
        assert_int_equal(f.gpus.n_opened, 5000);
        assert_int_equal(fake_gpus_n_open(&f.gpus), 0);
        close_fixture(&f);
}

/* Everybody does everything with the same two names. */
static void *work(void *argument) {
        struct fixture    *f = argument;
        struct shm_region *r;

        for (int i = 0; i < 300; i++) {
                const char   *name = i % 2 ? "a" : "b";
                struct error *err;

                error_free(i % 3 ? enter(f, name, i % 2, 0, 1) : enter_system(f, name));
                if (i % 5 == 0)
                        error_free(leave(f, SHARED_MEMORY_CUDA, ""));
                err = shared_memory_take(f->memory, name, &r);
                error_free(leave(f, i % 7 ? SHARED_MEMORY_CUDA : SHARED_MEMORY_SYSTEM, name));
                if (err == NULL)
                        shm_region_unref_later(r);
                error_free(err);
        }
        return NULL;
}

static void test_threads(void **state) {
        pthread_t      threads[4];
        struct fixture f;

        (void)state;
        open_fixture(&f);
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, work, &f), 0);
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                pthread_join(threads[i], NULL);
        close_fixture(&f);
}

SUITE(cuda_region) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_register),       cmocka_unit_test(test_bad_places),
                cmocka_unit_test(test_bad_handles),    cmocka_unit_test(test_reason),
                cmocka_unit_test(test_names),          cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_too_many_bytes), cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_ranges),         cmocka_unit_test(test_unregister_in_use),
                cmocka_unit_test(test_thousands),      cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
