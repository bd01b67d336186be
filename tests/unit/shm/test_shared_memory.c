/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry, with real objects. */
#include "suite.h"

#include "base/mem.h"
#include "shm/shared_memory.h"
#include "shm/shm_guard.h"
#include "shm/shm_object.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

struct fixture {
        struct shared_memory *memory;
        struct shm_object     object; /* of three pages */
        struct arena          arena;
        size_t                n_descriptors; /* before */
};

static void open_fixture(struct fixture *f) {
        f->n_descriptors = shm_count_descriptors();
        shm_object_open(&f->object, 3 * PAGE);
        arena_init(&f->arena, NULL, 0, 0);
        assert_null(shared_memory_new(NULL, &f->memory));
}

/* Nothing is left. */
static void close_fixture(struct fixture *f) {
        shared_memory_free(f->memory);
        shm_object_close(&f->object);
        arena_done(&f->arena);
        assert_int_equal(shm_count_mappings(), 0);
        assert_int_equal(shm_count_descriptors(), f->n_descriptors);
}

static void assert_refused(struct error *err, enum error_code code, const char *text) {
        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, code);
        error_free(err);
}

/* Whether it failed. */
static bool consume(struct error *err) {
        bool has_failed = err != NULL;

        error_free(err);
        return has_failed;
}

static struct error *enter(struct fixture *f, const char *name, uint64_t offset,
                           uint64_t byte_size) {
        struct shm_place place = { name, f->object.key, offset, byte_size };

        return shared_memory_register(f->memory, &place);
}

/* "a 0 8192, b 4096 1" */
static void assert_list(struct fixture *f, const char *name, const char *expected) {
        struct shared_memory_entry *entries;
        char                        text[256] = "";
        size_t                      n;

        assert_null(shared_memory_list(f->memory, SHARED_MEMORY_SYSTEM, str_of(name), &f->arena,
                                       &entries, &n));
        for (size_t i = 0; i < n; i++) {
                size_t len = strlen(text);

                assert_string_equal(entries[i].key, f->object.key);
                snprintf(text + len, sizeof(text) - len, "%s%s %llu %llu", i > 0 ? ", " : "",
                         entries[i].name, (unsigned long long)entries[i].offset,
                         (unsigned long long)entries[i].byte_size);
        }
        assert_string_equal(text, expected);
}

static struct error *list(struct fixture *f, enum shared_memory_kind kind, const char *name) {
        struct shared_memory_entry *entries;
        size_t                      n = 1;
        struct error               *err =
                shared_memory_list(f->memory, kind, str_of(name), &f->arena, &entries, &n);

        assert_int_equal(n, 0);
        return err;
}

/* ---- what a registry without clients says ---- */

static void test_disabled(void **state) {
        struct fixture     f = { 0 };
        struct shm_region *region;

        (void)state;
        assert_refused(shared_memory_check_change(NULL), ERR_UNSUPPORTED,
                       "Client shared memory is disabled. Start the server with "
                       "'--allow-client-shm=true' to enable.");
        assert_refused(shared_memory_unregister(NULL, SHARED_MEMORY_SYSTEM, STR_LIT("")),
                       ERR_UNSUPPORTED,
                       "Client shared memory is disabled. Start the server with "
                       "'--allow-client-shm=true' to enable.");
        assert_null(list(&f, SHARED_MEMORY_SYSTEM, ""));
        assert_null(list(&f, SHARED_MEMORY_CUDA, ""));
        assert_refused(list(&f, SHARED_MEMORY_SYSTEM, "r"), ERR_NOT_FOUND,
                       "Unable to find system shared memory region: 'r'");
        assert_refused(list(&f, SHARED_MEMORY_CUDA, "r"), ERR_NOT_FOUND,
                       "Unable to find cuda shared memory region: 'r'");
        assert_refused(shared_memory_take(NULL, "r", &region), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'r'");
        shared_memory_free(NULL);
}

static void test_cuda(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        assert_refused(shared_memory_check_gpus(NULL, "r"), ERR_INVALID_ARG,
                       "failed to register CUDA shared memory region: 'r', GPUs not supported");
        assert_null(enter(&f, "r", 0, 1));
        assert_null(list(&f, SHARED_MEMORY_CUDA, ""));
        assert_refused(list(&f, SHARED_MEMORY_CUDA, "s"), ERR_NOT_FOUND,
                       "Unable to find cuda shared memory region: 's'");
        assert_refused(list(&f, SHARED_MEMORY_CUDA, "r"), ERR_NOT_FOUND,
                       "The region named 'r' is registered as system shared memory, not CUDA "
                       "shared memory");
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_CUDA, STR_LIT("r")));
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_CUDA, STR_LIT("")));
        assert_list(&f, "r", "r 0 1");
        close_fixture(&f);
}

/* ---- registering ---- */

static void test_keys(void **state) {
#define RESERVED(key)                                                                              \
        "cannot register shared memory region 'r' with key '" key "' as the key contains the "     \
        "reserved prefix 'triton_python_backend_shm_region_'"
#define INVALID(key) "cannot register shared memory region 'r' - invalid shm key '" key "'"
        static const struct row {
                const char     *key;
                enum error_code code;
                const char     *text;
        } rows[] = {
                { "triton_python_backend_shm_region_1", ERR_INVALID_ARG,
                  RESERVED("triton_python_backend_shm_region_1") },
                { "/triton_python_backend_shm_region_", ERR_INVALID_ARG,
                  RESERVED("/triton_python_backend_shm_region_") },
                { "///triton_python_backend_shm_region_x/y", ERR_INVALID_ARG,
                  RESERVED("///triton_python_backend_shm_region_x/y") },
                { "", ERR_INVALID_ARG, INVALID("") },
                { "/", ERR_INVALID_ARG, INVALID("/") },
                { "///", ERR_INVALID_ARG, INVALID("///") },
                { "/a/b", ERR_INVALID_ARG, INVALID("/a/b") },
                { "a/", ERR_INVALID_ARG, INVALID("a/") },
                { "/../etc/passwd", ERR_INVALID_ARG, INVALID("/../etc/passwd") },
                { "/..", ERR_INVALID_ARG, INVALID("/..") },
                { ".", ERR_INVALID_ARG, INVALID(".") },
                { "/neso_there_is_no_such_object", ERR_INTERNAL,
                  "Unable to open shared memory region: '/neso_there_is_no_such_object'" },
        };
        struct fixture f;

        (void)state;
        open_fixture(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct shm_place place = { "r", rows[i].key, 0, 1 };

                assert_refused(shared_memory_register(f.memory, &place), rows[i].code,
                               rows[i].text);
        }
        assert_list(&f, "", "");
        close_fixture(&f);
}

/* A key of so many slashes, and then the object's own without any. */
static struct error *enter_behind_slashes(struct fixture *f, size_t n_slashes) {
        const char      *bare = f->object.key + strspn(f->object.key, "/");
        AUTO_CHARS       key = mem_zalloc(n_slashes + strlen(bare) + 1);
        struct shm_place place = { "r", key, 0, 1 };

        memset(key, '/', n_slashes);
        strcpy(key + n_slashes, bare);
        return shared_memory_register(f->memory, &place);
}

static void test_long_keys(void **state) {
        struct fixture f;
        size_t         n_slashes;

        (void)state;
        open_fixture(&f);
        n_slashes = 256 - strlen(f.object.key + strspn(f.object.key, "/"));
        assert_null(enter_behind_slashes(&f, n_slashes));
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("")));
        assert_refused(enter_behind_slashes(&f, n_slashes + 1), ERR_INVALID_ARG,
                       "cannot register shared memory region 'r': its key has 257 bytes, at most "
                       "256 are allowed");
        assert_refused(enter_behind_slashes(&f, n_slashes + 1000000), ERR_INVALID_ARG,
                       "cannot register shared memory region 'r': its key has 1000256 bytes, at "
                       "most 256 are allowed");
        assert_list(&f, "", "");
        close_fixture(&f);
}

static void test_places(void **state) {
#define ARGS "failed to register shared memory region 'r': invalid args"
        static const struct row {
                uint64_t    offset, byte_size;
                const char *text; /* NULL: taken */
        } rows[] = {
                { 0, 3 * PAGE, NULL },
                { 2 * PAGE, PAGE, NULL },
                { PAGE, 1, NULL },
                { 0, 3 * PAGE + 1, ARGS },
                { 2 * PAGE, PAGE + 1, ARGS },
                { 3 * PAGE, 1, ARGS },
                { 3 * PAGE + 1, 0, ARGS },
                { UINT64_MAX, 1, ARGS },
                { 1, UINT64_MAX, ARGS },
                { UINT64_MAX - PAGE + 1, PAGE, ARGS },
                { UINT64_MAX, UINT64_MAX, ARGS },
                { 0, UINT64_MAX, ARGS },
                { 0, 0,
                  "failed to register shared memory region 'r': byte_size must be greater than 0" },
                { 1, 1,
                  "failed to register shared memory region 'r': offset 1 is not a multiple of the "
                  "page size 4096" },
        };
        struct fixture f;

        (void)state;
        if (sysconf(_SC_PAGESIZE) != PAGE)
                skip();
        open_fixture(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = enter(&f, "r", rows[i].offset, rows[i].byte_size);

                if (rows[i].text != NULL)
                        assert_refused(err, ERR_INVALID_ARG, rows[i].text);
                else
                        assert_null(err);
                assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("r")));
        }
        close_fixture(&f);
}

/* Something else under a key has a size of its own kind. */
static void test_no_object(void **state) {
        struct fixture f;
        char           path[128], text[128], key[80];

        (void)state;
        open_fixture(&f);
        snprintf(key, sizeof(key), "%s_pipe", f.object.key);
        snprintf(path, sizeof(path), "/dev/shm%s", key);
        snprintf(text, sizeof(text), "Invalid shared memory region: '%s'", key);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_refused(shared_memory_register(f.memory, &(struct shm_place){ "r", key, 0, PAGE }),
                       ERR_INTERNAL, text);
        assert_int_equal(unlink(path), 0);
        close_fixture(&f);
}

static void test_names(void **state) {
#define TOO_LONG "name of a shared memory region has 4097 bytes, at most 4096 are allowed"
        struct fixture     f;
        struct shm_region *r;
        AUTO_CHARS         name = mem_zalloc(SHARED_MEMORY_MAX_NAME + 2);

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "b", PAGE, 1));
        assert_null(enter(&f, "a", 0, 2 * PAGE));
        assert_null(enter(&f, "", 0, 3)); /* gRPC has it */
        assert_refused(enter(&f, "a", 7, 1 << 30), ERR_ALREADY_EXISTS,
                       "shared memory region 'a' already in manager");
        assert_list(&f, "", " 0 3, a 0 8192, b 4096 1");
        assert_list(&f, "b", "b 4096 1");

        assert_refused(enter(&f, "\xff", 0, 1), ERR_INVALID_ARG,
                       "cannot register shared memory region: its name is not UTF-8");
        memset(name, 'n', SHARED_MEMORY_MAX_NAME);
        assert_null(enter(&f, name, 0, 1));
        name[SHARED_MEMORY_MAX_NAME] = 'n';
        assert_refused(enter(&f, name, 0, 1), ERR_INVALID_ARG,
                       "cannot register shared memory region: its name has 4097 bytes, at most "
                       "4096 are allowed");
        assert_refused(list(&f, SHARED_MEMORY_SYSTEM, name), ERR_INVALID_ARG, TOO_LONG);
        assert_refused(list(&f, SHARED_MEMORY_CUDA, name), ERR_INVALID_ARG, TOO_LONG);
        assert_refused(shared_memory_take(f.memory, name, &r), ERR_INVALID_ARG, TOO_LONG);
        assert_refused(shared_memory_take(NULL, name, &r), ERR_INVALID_ARG, TOO_LONG);
        assert_refused(shared_memory_check_gpus(NULL, name), ERR_INVALID_ARG, TOO_LONG);

        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("nobody")));
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("a")));
        assert_refused(list(&f, SHARED_MEMORY_SYSTEM, "a"), ERR_NOT_FOUND,
                       "Unable to find system shared memory region: 'a'");
        assert_list(&f, "b", "b 4096 1");
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("")));
        assert_list(&f, "", "");
        assert_int_equal(shm_count_mappings(), 0);
        close_fixture(&f);
}

static void test_too_many(void **state) {
        struct fixture f;
        char           name[16];
        size_t         n = 0;
        struct error  *err = NULL;

        (void)state;
        open_fixture(&f);
        while (err == NULL && n <= SHM_GUARD_MAX) {
                snprintf(name, sizeof(name), "r%zu", n);
                err = enter(&f, name, 0, 1);
                n += err == NULL;
        }
        /* Where the process may have fewer descriptors, these end first. */
        if (n == SHM_GUARD_MAX) {
                assert_refused(err, ERR_UNAVAILABLE,
                               "cannot register shared memory region 'r1024': there are 1024 "
                               "already, counting those that requests still use");
        } else {
                assert_true(n > 0);
                assert_int_equal(err->code, ERR_INTERNAL);
                error_free(err);
        }
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("r0")));
        assert_null(enter(&f, "again", 0, 1));
        close_fixture(&f);
}

/* ---- use ---- */

static void test_ranges(void **state) {
#define RANGE "Invalid offset + byte size for shared memory region: 'r'"
        static const struct row {
                uint64_t    offset, byte_size;
                const char *text; /* NULL: found */
        } rows[] = {
                { 0, 0, NULL },
                { 0, PAGE + 10, NULL },
                { PAGE + 9, 1, NULL },
                { 5, 100, NULL },
                { PAGE + 10, 0, "Invalid offset for shared memory region: 'r'" },
                { UINT64_MAX, 1, "Invalid offset for shared memory region: 'r'" },
                { 0, PAGE + 11, RANGE },
                { PAGE + 9, 2, RANGE },
                { 0, UINT64_MAX, RANGE },
                { 1, UINT64_MAX - 1, RANGE },
                { 2, UINT64_MAX - 1,
                  "Integer overflow detected: byte_size (18446744073709551614) + offset (2) "
                  "exceeds maximum value (18446744073709551615) for region 'r'" },
        };
        struct shm_region *r;
        struct fixture     f;
        char              *memory;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", PAGE, PAGE + 10));
        assert_null(shared_memory_take(f.memory, "r", &r));
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct error *err = shm_region_find(r, rows[i].offset, rows[i].byte_size, &memory);

                if (rows[i].text != NULL) {
                        assert_refused(err, ERR_INVALID_ARG, rows[i].text);
                        continue;
                }
                assert_null(err);
                for (size_t k = 0; k < rows[i].byte_size; k++)
                        assert_int_equal((unsigned char)memory[k],
                                         (PAGE + rows[i].offset + k) % 251);
        }
        shm_region_unref(r);
        close_fixture(&f);
}

/* What is written is the object's, and the client sees it. */
static void test_write(void **state) {
        struct shm_region *r;
        struct fixture     f;
        char              *memory, seen[3];

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", PAGE, PAGE));
        assert_null(shared_memory_take(f.memory, "r", &r));
        assert_null(shm_region_find(r, 7, 3, &memory));
        memcpy(memory, "abc", 3);
        assert_int_equal(pread(f.object.fd, seen, 3, PAGE + 7), 3);
        assert_memory_equal(seen, "abc", 3);
        shm_region_unref(r);
        close_fixture(&f);
}

/* The name is free at once, the memory stays while somebody has it. */
static void test_unregister_in_use(void **state) {
        struct shm_region *r, *second;
        struct fixture     f;
        char              *memory;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", 0, PAGE));
        assert_null(shared_memory_take(f.memory, "r", &r));
        assert_null(shm_region_find(r, 0, PAGE, &memory));
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("r")));
        assert_list(&f, "", "");
        assert_refused(shared_memory_take(f.memory, "r", &second), ERR_NOT_FOUND,
                       "Unable to find shared memory region: 'r'");
        assert_null(enter(&f, "r", PAGE, PAGE));
        assert_null(shared_memory_take(f.memory, "r", &second));
        assert_ptr_not_equal(r, second);
        assert_int_equal((unsigned char)memory[PAGE - 1], (PAGE - 1) % 251);
        assert_int_equal(shm_count_mappings(), 2);

        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("")));
        assert_int_equal(shm_count_mappings(), 2);
        shm_region_unref(second);
        assert_int_equal(shm_count_mappings(), 1);
        shm_region_unref(r);
        assert_int_equal(shm_count_mappings(), 0);
        close_fixture(&f);
}

/* An object that shrinks has what is left of it, for as long as nobody saw it go. */
static void test_shrink(void **state) {
        struct shm_region *r;
        struct fixture     f;
        char              *memory;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", PAGE, 2 * PAGE));
        assert_null(shared_memory_take(f.memory, "r", &r));
        assert_null(shm_region_find(r, 0, 2 * PAGE, &memory));
        shm_object_resize(&f.object, 2 * PAGE);
        assert_refused(shm_region_find(r, 0, PAGE + 1, &memory), ERR_INVALID_ARG, RANGE);
        assert_null(shm_region_find(r, 0, PAGE, &memory));
        assert_null(shm_region_check_intact(r));
        shm_object_resize(&f.object, 3 * PAGE);
        assert_null(shm_region_find(r, 0, 2 * PAGE, &memory));

        /* Behind our back: what was there is lost, and so is the region. */
        shm_object_resize(&f.object, 2 * PAGE);
        assert_int_equal(*(volatile char *)(memory + PAGE), 0);
        assert_int_equal((unsigned char)memory[PAGE - 1], (2 * PAGE - 1) % 251);
        assert_refused(shm_region_check_intact(r), ERR_INVALID_ARG,
                       "memory of shared memory region 'r' was missing while the request used "
                       "it: the object was truncated, or there is no memory for it");
        assert_refused(shm_region_find(r, 0, 1, &memory), ERR_INVALID_ARG, RANGE);
        shm_object_resize(&f.object, 3 * PAGE);
        assert_refused(shm_region_find(r, 0, 1, &memory), ERR_INVALID_ARG, RANGE);

        /* Registered anew it is whole. */
        assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("r")));
        shm_region_unref(r);
        assert_null(enter(&f, "r", PAGE, 2 * PAGE));
        assert_null(shared_memory_take(f.memory, "r", &r));
        assert_null(shm_region_find(r, 0, 2 * PAGE, &memory));
        assert_null(shm_region_check_intact(r));
        shm_region_unref(r);
        close_fixture(&f);
}

static void test_thousands(void **state) {
        struct fixture f;
        size_t         n_descriptors;

        (void)state;
        open_fixture(&f);
        n_descriptors = shm_count_descriptors();
        for (int i = 0; i < 5000; i++) {
                assert_null(enter(&f, "r", 0, PAGE));
                assert_null(shared_memory_unregister(f.memory, SHARED_MEMORY_SYSTEM, STR_LIT("r")));
        }
        assert_int_equal(shm_count_descriptors(), n_descriptors);
        assert_int_equal(shm_count_mappings(), 0);
        close_fixture(&f);
}

/* Everybody does everything with the same two names. */
static void *work(void *argument) {
        struct fixture    *f = argument;
        struct shm_region *r;
        char              *memory;

        for (int i = 0; i < 500; i++) {
                const char *name = i % 2 ? "a" : "b";

                error_free(enter(f, name, 0, PAGE));
                if (i % 5 == 0)
                        error_free(shared_memory_unregister(f->memory, SHARED_MEMORY_SYSTEM,
                                                            STR_LIT("")));
                if (consume(shared_memory_take(f->memory, name, &r)))
                        continue;
                error_free(shared_memory_unregister(f->memory, SHARED_MEMORY_SYSTEM, str_of(name)));
                if (shm_region_find(r, 0, PAGE, &memory) != NULL || memory[250] != (char)250)
                        return f;
                shm_region_unref(r);
        }
        return NULL;
}

static void test_threads(void **state) {
        pthread_t      threads[4];
        struct fixture f;
        void          *failed;

        (void)state;
        open_fixture(&f);
        for (size_t i = 0; i < ARRAY_LEN(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, work, &f), 0);
        for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
                pthread_join(threads[i], &failed);
                assert_null(failed);
        }
        close_fixture(&f);
}

static void test_list_without_memory(void **state) {
        struct shared_memory_entry *entries;
        struct error               *err;
        struct fixture              f;
        size_t                      n_entries;

        (void)state;
        open_fixture(&f);
        assert_null(enter(&f, "r", 0, PAGE));
        for (unsigned n = 1;; n++) {
                arena_done(&f.arena);
                arena_init(&f.arena, NULL, 0, 0);
                mem_fail_after(n);
                err = shared_memory_list(f.memory, SHARED_MEMORY_SYSTEM, str_of(""), &f.arena,
                                         &entries, &n_entries);
                mem_fail_after(0);
                if (err == NULL)
                        break;
                assert_refused(err, ERR_UNAVAILABLE, "out of memory for the list of regions");
                assert_true(n < 10);
        }
        assert_int_equal(n_entries, 1);
        close_fixture(&f);
}

SUITE(shared_memory) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_disabled),
                cmocka_unit_test(test_cuda),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_no_object),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_long_keys),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_write),
                cmocka_unit_test(test_unregister_in_use),
                cmocka_unit_test(test_shrink),
                cmocka_unit_test(test_thousands),
                cmocka_unit_test(test_threads),
                cmocka_unit_test(test_list_without_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
