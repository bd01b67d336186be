/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in shared memory get their places; the core is not asked. */
#include "suite.h"

#include "base/mem.h"
#include "call/infer_call.h"
#include "shm/shared_memory.h"
#include "shm/shm_object.h"

#include <string.h>

#define BYTES 8192

struct fixture {
        struct shm_object             object;
        struct infer_core             core;
        struct infer_call             call;
        struct infer_request          request;
        struct infer_input            inputs[2];
        struct infer_requested_output outputs[2];
        struct arena                  arena;
};

static void open_fixture(struct fixture *f) {
        struct infer_call_options options = { .core = &f->core };

        *f = (struct fixture){ 0 };
        shm_object_open(&f->object, BYTES);
        assert_null(shared_memory_new(NULL, &f->core.shared_memory));
        assert_null(shared_memory_register(f->core.shared_memory,
                                           &(struct shm_place){ "r", f->object.key, 0, BYTES }));
        arena_init(&f->arena, NULL, 0, 0);
        infer_call_init(&f->call, &options);
        infer_request_init(&f->request);
        f->request.inputs = f->inputs;
        f->request.outputs = f->outputs;
        f->request.n_inputs = f->request.n_outputs = 2;
        for (size_t i = 0; i < 2; i++) {
                f->inputs[i].name = i == 0 ? "IN0" : "IN1";
                f->inputs[i].datatype = TRITONSERVER_TYPE_UINT8;
                f->outputs[i].name = i == 0 ? "OUT0" : "OUT1";
        }
}

static void close_fixture(struct fixture *f) {
        infer_call_done(&f->call);
        infer_request_done(&f->request);
        arena_done(&f->arena);
        shared_memory_free(f->core.shared_memory);
        shm_object_close(&f->object);
        assert_int_equal(shm_count_mappings(), 0);
}

static struct error *find(struct fixture *f) {
        return infer_call_find_regions(&f->call, &f->request, &f->arena);
}

static void assert_refused(struct error *err, enum error_code code, const char *text) {
        assert_non_null(err);
        assert_string_equal(err->message, text);
        assert_int_equal(err->code, code);
        error_free(err);
}

static void put(struct infer_shared_memory *at, const char *region, uint64_t offset,
                uint64_t byte_size) {
        *at = (struct infer_shared_memory){ region, offset, byte_size };
}

static void test_none(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.inputs[0].bytes = STR_LIT("abc");
        assert_null(find(&f));
        assert_int_equal(f.call.n_regions + f.call.n_targets, 0);
        assert_int_equal(f.inputs[0].bytes.len, 3);
        assert_null(infer_call_check_regions(&f.call));
        close_fixture(&f);
}

/* No copy: inputs and outputs are the region itself. */
static void test_places(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[1].shared_memory, "r", 64, 100);
        put(&f.outputs[0].shared_memory, "r", 4096, 10);
        put(&f.outputs[1].shared_memory, "r", 0, 0);
        assert_null(find(&f));
        assert_int_equal(f.call.n_regions, 3);
        assert_int_equal(f.inputs[1].bytes.len, 100);
        assert_null(f.inputs[1].converted);
        for (size_t i = 0; i < 100; i++)
                assert_int_equal((unsigned char)f.inputs[1].bytes.ptr[i], 64 + i);
        assert_int_equal(f.call.n_targets, 2);
        assert_string_equal(f.call.targets[0].output, "OUT0");
        assert_int_equal(f.call.targets[0].bytes, 10);
        assert_ptr_equal(f.call.targets[0].memory, f.inputs[1].bytes.ptr - 64 + 4096);
        assert_string_equal(f.call.targets[1].output, "OUT1");
        assert_int_equal(f.call.targets[1].bytes, 0);
        assert_null(infer_call_check_regions(&f.call));
        close_fixture(&f);
}

/* A client that changes lengths after they were checked changes nothing. */
static void test_strings(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
        put(&f.inputs[0].shared_memory, "r", 10, 20);
        put(&f.outputs[0].shared_memory, "r", 0, 100);
        assert_null(find(&f));
        assert_non_null(f.inputs[0].converted);
        assert_ptr_equal(f.inputs[0].bytes.ptr, f.inputs[0].converted->bytes);
        memset(f.call.targets[0].memory, 0xff, 100);
        for (size_t i = 0; i < 20; i++)
                assert_int_equal(f.inputs[0].bytes.ptr[i], 10 + i);
        close_fixture(&f);
}

static void test_errors(void **state) {
        static const struct row {
                struct infer_shared_memory inputs[2], outputs[2];
                enum error_code            code;
                const char                *text;
        } rows[] = {
                { .inputs = { { "r", 0, 1 }, { "x", 0, 1 } },
                  .outputs = { { "y", 0, 1 } },
                  .code = ERR_NOT_FOUND,
                  .text = "Unable to find shared memory region: 'x'" },
                { .outputs = { { "r", 0, 1 }, { "y", 0, 1 } },
                  .code = ERR_NOT_FOUND,
                  .text = "Unable to find shared memory region: 'y'" },
                { .inputs = { { "", 0, 1 } },
                  .code = ERR_NOT_FOUND,
                  .text = "Unable to find shared memory region: ''" },
                { .inputs = { { "r", BYTES, 0 } },
                  .code = ERR_INVALID_ARG,
                  .text = "Invalid offset for shared memory region: 'r'" },
                { .outputs = { { "r", 1, BYTES } },
                  .code = ERR_INVALID_ARG,
                  .text = "Invalid offset + byte size for shared memory region: 'r'" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct fixture f;

                open_fixture(&f);
                for (size_t k = 0; k < 2; k++) {
                        f.inputs[k].shared_memory = rows[i].inputs[k];
                        f.outputs[k].shared_memory = rows[i].outputs[k];
                }
                assert_refused(find(&f), rows[i].code, rows[i].text);
                close_fixture(&f);
        }
}

/* The region outlives its name until the call is done. */
static void test_held(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "r", 0, BYTES);
        assert_null(find(&f));
        assert_null(
                shared_memory_unregister(f.core.shared_memory, SHARED_MEMORY_SYSTEM, STR_LIT("r")));
        assert_int_equal(shm_count_mappings(), 1);
        assert_int_equal((unsigned char)f.inputs[0].bytes.ptr[BYTES - 1], (BYTES - 1) % 251);
        infer_call_done(&f.call);
        assert_int_equal(shm_count_mappings(), 0);
        close_fixture(&f);
}

static void test_lost(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        put(&f.inputs[0].shared_memory, "r", 0, BYTES);
        assert_null(find(&f));
        shm_object_resize(&f.object, 0);
        assert_int_equal(*(const volatile char *)f.inputs[0].bytes.ptr, 0);
        assert_refused(infer_call_check_regions(&f.call), ERR_INVALID_ARG,
                       "memory of shared memory region 'r' was missing while the request used "
                       "it: the object was truncated, or there is no memory for it");
        close_fixture(&f);
}

static void test_too_large_a_copy(void **state) {
        struct fixture f;

        (void)state;
        open_fixture(&f);
        shm_object_resize(&f.object, ((size_t)1 << 30) + 1); /* nothing is in it */
        assert_null(shared_memory_register(f.core.shared_memory,
                                           &(struct shm_place){ "large", f.object.key, 0,
                                                                ((size_t)1 << 30) + 1 }));
        f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
        put(&f.inputs[0].shared_memory, "large", 0, ((size_t)1 << 30) + 1);
        assert_refused(find(&f), ERR_INVALID_ARG,
                       "BYTES input 'IN0' in shared memory has 1073741825 bytes, at most "
                       "1073741824 are allowed");
        close_fixture(&f);
}

static void test_without_memory(void **state) {
        unsigned n = 1;

        (void)state;
        for (bool has_failed = true; has_failed; n++) {
                struct fixture f;
                struct error  *err;

                open_fixture(&f);
                f.inputs[0].datatype = TRITONSERVER_TYPE_BYTES;
                put(&f.inputs[0].shared_memory, "r", 0, 100);
                put(&f.outputs[0].shared_memory, "r", 0, 100);
                mem_fail_after(n);
                err = find(&f);
                mem_fail_after(0);
                has_failed = err != NULL;
                if (has_failed)
                        assert_refused(err, ERR_UNAVAILABLE, "out of memory for the request");
                close_fixture(&f);
        }
        assert_in_range(n, 2, 10);
}

SUITE(infer_call_regions) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_places),
                cmocka_unit_test(test_strings),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_held),
                cmocka_unit_test(test_lost),
                cmocka_unit_test(test_too_large_a_copy),
                cmocka_unit_test(test_without_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
