/* SPDX-License-Identifier: BSD-3-Clause */
/* Members that are given again and again: which of them counts, and what they cost. */
#include "suite.h"

#include "base/compiler.h"
#include "base/strbuf.h"
#include "http/http_infer_decode.h"

struct fixture {
        struct arena         arena;
        struct infer_request request;
        struct error        *err;
};

static void close_fixture(struct fixture *f) {
        if (f->err == NULL)
                infer_request_done(&f->request);
        error_free(f->err);
        arena_done(&f->arena);
}

static void decode(struct fixture *f, struct str json) {
        struct http_infer_source source = {
                .body = json,
                .json_bytes = json.len,
                .model_name = "m",
                .max_input_bytes = (size_t)64 << 20,
                .arena = &f->arena,
        };

        arena_init(&f->arena, NULL, 0, 0);
        f->err = http_infer_decode(&source, &f->request);
}

/* As in the reference. */
static void test_first_of_equal_keys_counts(void **state) {
        static const char json[] =
                "{\"inputs\":[{\"name\":\"A\",\"name\":3,\"datatype\":\"FP32\",\"datatype\":"
                "\"INT8\","
                "\"shape\":[2],\"shape\":[3],\"shape\":\"x\",\"data\":[1,2],\"data\":[4],"
                "\"parameters\":{\"shared_memory_offset\":1,\"shared_memory_offset\":2,"
                "\"shared_memory_byte_size\":3,\"shared_memory_byte_size\":\"x\"},"
                "\"parameters\":7}],"
                "\"outputs\":[{\"name\":\"B\",\"name\":\"C\",\"parameters\":{"
                "\"classification\":4,\"classification\":5},\"parameters\":{\"classification\":6}}]"
                "}";
        struct fixture f;

        (void)state;
        decode(&f, str_of(json));
        assert_null(f.err);
        assert_string_equal(f.request.inputs[0].name, "A");
        assert_string_equal(f.request.inputs[0].datatype_name, "FP32");
        assert_int_equal(f.request.inputs[0].n_dims, 1);
        assert_int_equal(f.request.inputs[0].shape[0], 2);
        assert_int_equal(f.request.inputs[0].bytes.len, 8);
        assert_int_equal(f.request.inputs[0].shared_memory.offset, 1);
        assert_int_equal(f.request.inputs[0].shared_memory.byte_size, 3);
        assert_string_equal(f.request.outputs[0].name, "B");
        assert_int_equal(f.request.outputs[0].n_classes, 4);
        close_fixture(&f);
}

/* `text` so many times. */
static void repeat(struct strbuf *out, const char *text, int n) {
        while (n-- > 0)
                strbuf_puts(out, text);
}

static void test_repeated_members_take_no_memory(void **state) {
        static const char *const repeated[] = {
                "\"shape\":[1,1,1,1,1,1,1,1,1],",
                "\"name\":\"a name that is longer than most names are, and is repeated\",",
                "\"datatype\":\"a datatype that is longer than most names are, and repeated\",",
                "\"parameters\":{\"shared_memory_region\":\"a long name of a region of memory\"},",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(repeated); i++) {
                AUTO_STRBUF    json = { 0 };
                struct fixture f;

                strbuf_init(&json, 0);
                strbuf_puts(&json, "{\"inputs\":[{");
                repeat(&json, repeated[i], 10000);
                strbuf_puts(&json, "\"data\":[1]}]}");
                decode(&f, strbuf_str(&json));
                assert_non_null(f.err); /* something is missing, or too much is given */
                assert_true(f.arena.used_bytes <= 8192);
                close_fixture(&f);
        }
}

/* Keys with escapes have to be decoded: here each takes more than it is long. */
static void test_memory_is_bounded_by_the_body(void **state) {
        AUTO_STRBUF    json = { 0 };
        struct fixture f;

        (void)state;
        strbuf_init(&json, 0);
        strbuf_puts(&json, "{\"inputs\":[]");
        repeat(&json, ",\"\\n\":1", 2000000);
        strbuf_puts(&json, "}");
        decode(&f, strbuf_str(&json));
        assert_true(f.arena.used_bytes <= INFER_ARENA_BASE_BYTES + INFER_ARENA_PER_BYTE * json.len);
        close_fixture(&f);
}

SUITE(http_infer_repeated) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_first_of_equal_keys_counts),
                cmocka_unit_test(test_repeated_members_take_no_memory),
                cmocka_unit_test(test_memory_is_bounded_by_the_body),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
