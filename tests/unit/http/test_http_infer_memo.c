/* SPDX-License-Identifier: BSD-3-Clause */
/* A request that is found is the one that decoding makes; what is kept, for how long, and what is
 * not.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "http/http_infer_memo.h"
#include "request_text.h"

#define IN(name, bytes)                                                                            \
        "{\"name\":\"" name "\",\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":"               \
        "{\"binary_data_size\":" bytes "}}"
#define INPUTS(text) "{\"inputs\":[" text "]}"
#define WITH(members) "{" members ",\"inputs\":[" IN("A", "4") "]}"

static const char tail[] = "0123456789abcdefghij";

/* One request, in a body of exactly its size. */
struct round {
        struct infer_request    request;
        struct http_infer_kept *kept;
        struct error           *err;
        struct str              body; /* owned */
        struct arena            arena;
        _Alignas(ARENA_ALIGNMENT) char memory[8192];
};

/* Without a memo: the plain decoder. */
static void begin(struct round *r, struct http_infer_memo *m, struct http_infer_source source,
                  size_t arena_bytes) {
        arena_init(&r->arena, r->memory, MIN(arena_bytes, sizeof(r->memory)),
                   arena_bytes > sizeof(r->memory) ? arena_bytes : 1);
        r->body = str_range(malloc(source.body.len), source.body.len);
        memcpy((char *)r->body.ptr, source.body.ptr, source.body.len);
        r->kept = NULL;
        source.body = r->body;
        source.arena = &r->arena;
        infer_request_init(&r->request);
        if (m)
                r->err = http_infer_memo_decode(m, &source, &r->request, &r->kept);
        else
                r->err = http_infer_decode(&source, &r->request);
}

static void end(struct round *r) {
        infer_request_done(&r->request);
        http_infer_kept_unref(r->kept);
        error_free(r->err);
        arena_done(&r->arena);
        free((char *)r->body.ptr);
}

static char *text_of(const struct round *r) {
        struct strbuf text;

        strbuf_init(&text, 0);
        if (r->err)
                strbuf_printf(&text, "%d: %s", (int)r->err->code, r->err->message);
        else
                request_text_print(&text, r->body, &r->request);
        return strbuf_take(&text);
}

/* The JSON with as many bytes behind it, which start at another letter each time. */
static bool is_found(struct http_infer_memo *m, const char *json, size_t n_bytes) {
        static size_t            turn;
        struct http_infer_source source = { .model_name = "m", .max_input_bytes = 1 << 20 };
        struct strbuf            body;
        struct round             plain, r;
        bool                     is_kept;

        strbuf_init(&body, 0);
        strbuf_puts(&body, json);
        strbuf_put(&body, tail + turn++ % 2, n_bytes);
        source.body = strbuf_str(&body);
        source.json_bytes = strlen(json);
        begin(&plain, NULL, source, 1 << 20);
        begin(&r, m, source, 1 << 20);

        AUTO_CHARS expected = text_of(&plain);
        AUTO_CHARS got = text_of(&r);

        assert_string_equal(got, expected);
        is_kept = r.kept != NULL;
        end(&plain);
        end(&r);
        strbuf_done(&body);
        return is_kept;
}

/* What is kept. */

struct row {
        const char *json;
        size_t      n_bytes;
        bool        is_kept;
};

static const struct row rows[] = {
        { INPUTS(IN("A", "4")), 4, true },
        { INPUTS(IN("A", "4") "," IN("B", "12")), 16, true },
        { INPUTS(IN("A", "0") "," IN("B", "4") "," IN("C", "0")), 4, true },
        { INPUTS(IN("a long name of an input", "1")), 1, true },
        { INPUTS(IN("A\\u00e9\\n", "1")), 1, true },
        { INPUTS("{\"name\":\"A\",\"datatype\":\"NONE\",\"shape\":[1,2,3,4,5,6,7,8,9,10],"
                 "\"parameters\":{\"binary_data_size\":3}}"),
          3, true },
        { INPUTS("{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[],\"parameters\":"
                 "{\"binary_data_size\":4}}"),
          4, true },
        { WITH("\"id\":\"r\\u00e9q\""), 4, true },
        { WITH("\"id\":\"one\",\"id\":\"two\",\"other\":{\"id\":[3]}"), 4, true },
        { WITH("\"parameters\":{\"sequence_id\":42,\"sequence_start\":true,\"sequence_end\":true,"
               "\"priority\":7,\"timeout\":1000,\"binary_data_output\":true}"),
          4, true },
        { WITH("\"parameters\":{\"sequence_id\":\"a name\"}"), 4, true },
        { WITH("\"parameters\":{\"s\":\"text\",\"i\":-5,\"b\":true,\"d\":1.5,\"t\":\"\"}"), 4,
          true },
        { WITH("\"outputs\":[]"), 4, true },
        { WITH("\"outputs\":[{\"name\":\"X\",\"parameters\":{\"binary_data\":true}},{\"name\":"
               "\"Y\",\"parameters\":{\"classification\":3}},{\"name\":\"Z\",\"parameters\":"
               "{\"shared_memory_region\":\"r\",\"shared_memory_offset\":8,"
               "\"shared_memory_byte_size\":64}}]"),
          4, true },

        /* tensors that lie elsewhere */
        { INPUTS("{\"name\":\"A\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}"), 0, false },
        { INPUTS(IN("A", "4") ",{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[1],"
                              "\"data\":[1]}"),
          4, false },
        { INPUTS(IN("A", "4") ",{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[0],"
                              "\"data\":[]}"),
          4, false },
        { INPUTS(IN("A", "4") ",{\"name\":\"B\",\"datatype\":\"BYTES\",\"shape\":[1],"
                              "\"data\":[\"x\"]}"),
          4, false },
        { INPUTS("{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[1],\"parameters\":"
                 "{\"shared_memory_region\":\"r\",\"shared_memory_byte_size\":4}}," IN("A", "4")),
          4, false },
        { INPUTS(IN("A", "4") ",{\"name\":\"B\",\"datatype\":\"FP32\",\"shape\":[1],"
                              "\"parameters\":{\"shared_memory_region\":\"r\"}}"),
          4, false },
        { INPUTS(IN("A", "0")), 0, false },
        { "{\"inputs\":[]}", 0, false },
        { "", 4, false },

        /* faults */
        { INPUTS(IN("A", "4")), 3, false },
        { INPUTS(IN("A", "4")), 5, false },
        { "{\"inputs\":[]}", 4, false },
        { "{\"inputs\":[" IN("A", "4") "]", 4, false },
        { WITH("\"id\":3"), 4, false },
        { WITH("\"outputs\":[{}]"), 4, false },
        { WITH("\"parameters\":{\"triton_x\":1}"), 4, false },
        { INPUTS("{\"name\":\"A\"}"), 4, false },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct http_infer_memo *m = http_infer_memo_new();

                for (int n = 1; n <= 5; n++)
                        if (is_found(m, rows[i].json, rows[i].n_bytes) !=
                            (rows[i].is_kept && n > 2))
                                fail_msg("time %d of %s", n, rows[i].json);
                http_infer_memo_free(m);
        }
}

/* All in one memo, as one loop sees them. */
static void test_rows_together(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (size_t n = 0; n < 20; n++)
                for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                        for (size_t again = 0; again <= (n + i) % 4; again++)
                                is_found(m, rows[i].json, rows[i].n_bytes);
        http_infer_memo_free(m);
}

static void test_other_length_of_the_body(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 1; n <= 3; n++)
                is_found(m, INPUTS(IN("A", "8")), 8);
        assert_false(is_found(m, INPUTS(IN("A", "8")), 7));
        assert_false(is_found(m, INPUTS(IN("A", "8")), 9));
        assert_false(is_found(m, INPUTS(IN("A", "8")), 0));
        assert_true(is_found(m, INPUTS(IN("A", "8")), 8));
        http_infer_memo_free(m);
}

/* One byte is other, at each place where that is still JSON. */
static void test_every_byte_counts(void **state) {
        static const char       json[] = WITH("\"id\":\"0000000000000000000000000000000000000\"");
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 1; n <= 3; n++)
                is_found(m, json, 4);
        for (const char *at = strchr(json, '0'); *at == '0'; at++) {
                AUTO_CHARS other = mem_strdup(json);

                other[at - json] = '1';
                assert_false(is_found(m, other, 4));
                assert_true(is_found(m, json, 4));
        }
        http_infer_memo_free(m);
}

static void test_other_each_time(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 0; n < 1000; n++) {
                AUTO_CHARS json = mem_printf("{\"id\":\"%d\",\"inputs\":[%s]}", n, IN("A", "4"));

                assert_false(is_found(m, json, 4));
        }
        http_infer_memo_free(m);
}

static void test_in_turns(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 1; n <= 4; n++) {
                assert_int_equal(is_found(m, INPUTS(IN("A", "4")), 4), n > 2);
                assert_int_equal(is_found(m, INPUTS(IN("B", "4")), 4), n > 2);
        }
        http_infer_memo_free(m);
}

/* Bounds. */

static void test_long_text(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();
        static const char       json[] = INPUTS(IN("A", "4"));

        (void)state;
        for (int more = 0; more <= 1; more++) {
                AUTO_CHARS long_json = mem_printf("%-*s", HTTP_INFER_MEMO_TEXT_BYTES + more, json);

                is_found(m, long_json, 4);
                is_found(m, long_json, 4);
                assert_int_equal(is_found(m, long_json, 4), more == 0);
        }
        http_infer_memo_free(m);
}

/* Of several shapes the first counts, and the others take no memory. */
static char *shapes(int n) {
        struct strbuf json;

        strbuf_init(&json, 0);
        strbuf_puts(&json, "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"FP32\",\"parameters\":"
                           "{\"binary_data_size\":4}");
        while (n-- > 0)
                strbuf_puts(&json, ",\"shape\":[1,1,1,1,1,1,1,1,1]");
        strbuf_puts(&json, "}]}");
        return strbuf_take(&json);
}

/* Whose lists take more than a block. */
static char *outputs(int n) {
        struct strbuf json;

        strbuf_init(&json, 0);
        strbuf_puts(&json, "{\"inputs\":[" IN("A", "4") "],\"outputs\":[{\"name\":\"B\"}");
        while (--n > 0)
                strbuf_puts(&json, ",{\"name\":\"C\"}");
        strbuf_puts(&json, "]}");
        return strbuf_take(&json);
}

static void test_repeated_shapes(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 1; n <= 30; n++) {
                AUTO_CHARS json = shapes(n);

                is_found(m, json, 4);
                is_found(m, json, 4);
                assert_true(is_found(m, json, 4));
        }
        http_infer_memo_free(m);
}

static char *numbered(int n) {
        return mem_printf("{\"inputs\":[%s],\"id\":\"%d\"}", IN("A", "4"), n);
}

static void keep_number(struct http_infer_memo *m, int n) {
        AUTO_CHARS json = numbered(n);

        assert_false(is_found(m, json, 4));
        assert_false(is_found(m, json, 4));
        assert_true(is_found(m, json, 4));
}

static bool is_number_found(struct http_infer_memo *m, int n) {
        AUTO_CHARS json = numbered(n);

        return is_found(m, json, 4);
}

static void test_replacement(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        for (int n = 1; n <= HTTP_INFER_MEMO_SIZE; n++)
                keep_number(m, n);
        for (int n = 1; n <= HTTP_INFER_MEMO_SIZE; n++)
                assert_true(is_number_found(m, n));

        /* the oldest goes */
        keep_number(m, 100);
        for (int n = 2; n <= HTTP_INFER_MEMO_SIZE; n++)
                assert_true(is_number_found(m, n));
        assert_true(is_number_found(m, 100));

        /* 2 would be next, but was found last */
        assert_true(is_number_found(m, 2));
        assert_false(is_number_found(m, 101));
        assert_false(is_number_found(m, 101));
        assert_true(is_number_found(m, 2));
        for (int n = 4; n <= HTTP_INFER_MEMO_SIZE; n++)
                assert_true(is_number_found(m, n));
        assert_false(is_number_found(m, 3));
        http_infer_memo_free(m);
}

/* Requests and what they share. */

static struct http_infer_source source_of(const char *json_and_bytes, size_t n_bytes) {
        return (struct http_infer_source){
                .body = str_of(json_and_bytes),
                .json_bytes = strlen(json_and_bytes) - n_bytes,
                .model_name = "m",
                .max_input_bytes = 1 << 20,
        };
}

static const char whole[] = WITH("\"id\":\"7\",\"parameters\":{\"a\":\"text\",\"b\":2}") "wxyz";

static void keep_whole(struct http_infer_memo *m) {
        for (int n = 1; n <= 2; n++) {
                struct round r;

                begin(&r, m, source_of(whole, 4), 8192);
                assert_null(r.err);
                assert_null(r.kept);
                end(&r);
        }
}

static void test_request_outlives_the_memo(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();
        struct round            first, second;

        (void)state;
        keep_whole(m);
        begin(&first, m, source_of(whole, 4), 8192);
        begin(&second, m, source_of(whole, 4), 8192);
        assert_non_null(first.kept);
        assert_ptr_equal(first.kept, second.kept);
        AUTO_CHARS before = text_of(&first);

        for (int n = 1; n <= 2 * HTTP_INFER_MEMO_SIZE; n++)
                keep_number(m, n);
        AUTO_CHARS replaced = text_of(&first);
        assert_string_equal(replaced, before);
        end(&second);

        http_infer_memo_free(m);
        AUTO_CHARS after = text_of(&first);
        assert_string_equal(after, before);
        end(&first);
}

/* As forwarded headers are. */
static void test_added_parameters_stay_with_their_request(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();

        (void)state;
        keep_whole(m);
        for (uint32_t n_added = 0; n_added < 8; n_added++) {
                struct infer_parameter *p;
                struct round            r;

                begin(&r, m, source_of(whole, 4), 8192);
                assert_non_null(r.kept);
                assert_int_equal(r.request.n_parameters, 2);
                for (uint32_t i = 0; i < n_added; i++) {
                        assert_null(infer_request_add_parameter(&r.request, &r.arena, &p));
                        *p = (struct infer_parameter){ .name = "added" };
                }
                assert_string_equal(r.request.parameters[0].name, "a");
                assert_string_equal(r.request.parameters[0].value.text, "text");
                assert_string_equal(r.request.parameters[1].name, "b");
                assert_int_equal(r.request.parameters[1].value.integer, 2);
                end(&r);
        }
        http_infer_memo_free(m);
}

static void test_no_memory_for_a_request_that_is_found(void **state) {
        struct http_infer_memo *m = http_infer_memo_new();
        struct round            r;

        (void)state;
        keep_whole(m);
        /* for nothing, for inputs, for both */
        for (size_t bytes = 0; bytes <= 320; bytes += 160) {
                begin(&r, m, source_of(whole, 4), bytes);
                if (bytes == 320) {
                        assert_null(r.err);
                } else {
                        assert_int_equal(r.err->code, ERR_UNAVAILABLE);
                        assert_string_equal(r.err->message, "out of memory for the request");
                        assert_null(r.kept);
                }
                end(&r);
        }
        http_infer_memo_free(m);
}

/* Whatever fails, the request does not. */
static void test_no_memory_to_keep(void **state) {
        AUTO_CHARS   json = outputs(40);
        AUTO_CHARS   body = mem_printf("%sABCD", json);
        struct round r;
        unsigned     n = 0;
        bool         was_hit = true;

        (void)state;
        while (was_hit) {
                struct http_infer_memo *m = http_infer_memo_new();

                begin(&r, m, source_of(body, 4), 8192);
                end(&r);
                mem_fail_after(++n);
                begin(&r, m, source_of(body, 4), 8192);
                was_hit = mem_fail_was_hit();
                mem_fail_after(0);
                assert_null(r.err);
                end(&r);
                begin(&r, m, source_of(body, 4), 8192);
                assert_null(r.err);
                assert_int_equal(r.kept != NULL, !was_hit);
                end(&r);
                http_infer_memo_free(m);
        }
        assert_int_equal(n, 4); /* what is kept, and two blocks of its arena */
}

/* As where keys are asked for. */
static void test_without_a_memo(void **state) {
        static const char        body[] = INPUTS(IN("A", "4")) "tens";
        struct http_infer_source source = { .body = str_range(body, sizeof(body) - 1),
                                            .json_bytes = sizeof(body) - 1 - 4,
                                            .model_name = "m",
                                            .max_input_bytes = 1 << 20 };

        (void)state;
        for (int n = 1; n <= 4; n++) {
                struct http_infer_kept *kept = (void *)&source;
                struct infer_request    q;
                struct arena            arena;

                arena_init(&arena, NULL, 0, 1 << 20);
                source.arena = &arena;
                infer_request_init(&q);
                assert_null(http_infer_memo_decode(NULL, &source, &q, &kept));
                assert_null(kept);
                assert_int_equal(q.n_inputs, 1);
                assert_ptr_equal(q.inputs[0].bytes.ptr, body + source.json_bytes);
                assert_int_equal(q.inputs[0].bytes.len, 4);
                infer_request_done(&q);
                arena_done(&arena);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_rows_together),
                cmocka_unit_test(test_other_length_of_the_body),
                cmocka_unit_test(test_every_byte_counts),
                cmocka_unit_test(test_other_each_time),
                cmocka_unit_test(test_in_turns),
                cmocka_unit_test(test_long_text),
                cmocka_unit_test(test_repeated_shapes),
                cmocka_unit_test(test_replacement),
                cmocka_unit_test(test_request_outlives_the_memo),
                cmocka_unit_test(test_added_parameters_stay_with_their_request),
                cmocka_unit_test(test_no_memory_for_a_request_that_is_found),
                cmocka_unit_test(test_no_memory_to_keep),
                cmocka_unit_test(test_without_a_memo),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
