/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts with several mistakes: each is reported once, and nothing else. */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/pb_text_review.h"
#include "model_config.pb-c.h"

#include <stdio.h>
#include <string.h>

#define TYPE (&inference__model_config__descriptor)

struct reading {
        struct arena            arena;
        struct pb_text_review   review;
        struct strbuf           reports; /* a line each */
        Inference__ModelConfig *config;  /* NULL: a bound was reached */
};

static void on_error(void *owner, struct error *err) {
        struct reading *r = owner;

        strbuf_puts(&r->reports, err->message);
        strbuf_putc(&r->reports, '\n');
        error_free(err);
}

static void read_all(struct reading *r, struct str text) {
        ProtobufCMessage *message = NULL;

        arena_init(&r->arena, NULL, 0, 0);
        strbuf_init(&r->reports, 0);
        pb_text_review_init(&r->review, on_error, r);
        assert_null(pb_text_read_all(&r->review, TYPE, text, NULL, &r->arena, &message));
        r->config = (Inference__ModelConfig *)message;
}

static void end(struct reading *r) {
        pb_text_review_done(&r->review);
        strbuf_done(&r->reports);
        arena_done(&r->arena);
}

struct row {
        const char *text;
        const char *reports; /* the place of each; "" when nothing is wrong */
};

static const struct row rows[] = {
        { "", "" },
        { "name: 'a' input { dims: [ 1 ] }", "" },
        /* Unknown fields, with values of all kinds. */
        { "foo: 1\nbar: -2 baz: 'a' 'b'\nname: 'm'", "1:1 2:1 2:9 " },
        { "foo { a: 1 b [ { c: '}' } ] } bar < > baz [ 1, 2 ] name: 5", "1:1 1:31 1:39 1:58 " },
        { "foo\nbar 5\nhello there world\nname: 'm'", "1:1 2:1 3:1 " },
        { "input { nme: 'A' dim: 1 data_type: TYPE_FP32 }", "1:9 1:18 " },
        /* Values of a wrong type. */
        { "max_batch_size: 'a'\nname: 5\nbackend: x", "1:17 2:7 3:10 " },
        { "max_batch_size: 8 9\nname: my model", "1:19 2:7 " },
        { "input { data_type: FP32 dims: [ x, 'y', 2, { } ] }", "1:20 1:33 1:36 1:44 " },
        { "name: { a: 1 } backend: [ 'x' ]", "1:7 1:25 " },
        { "dynamic_batching: true\nname: 5", "1:19 2:7 " },
        { "input: 5 input [ 6, { nme: 'A' } ]", "1:8 1:18 1:23 " },
        { "name:\nbackend: 5\nplatform:", "2:1 2:10 3:10 " },
        { "name: 'a\\q' backend: '\\x'", "1:9 1:23 " },
        { "max_batch_size: 99999999999 optimization { graph { level: 1x } }", "1:17 1:59 " },
        /* Given twice. */
        { "name: 'a' name: 'b' nme: 'c'", "1:11 1:21 " },
        { "dynamic_batching { } sequence_batching { foo: 1 } name: 5", "1:22 1:57 " },
        /* Signs. */
        { "max_batch_size 8\nname = 'a'\nbackend 5", "1:16 2:6 3:9 3:9 " },
        { "input { dims: [ 1 2 3 ] dims: [ 1; 2 ] dims: [ 3, ] }", "1:19 1:34 1:51 " },
        { "input { dims: 1, 2, 3\n dim: 5 }", "1:18 2:2 " },
        { "// a comment\nname: 5", "1:1 2:7 " },
        { "{ \"name\": \"m\" }", "1:1 " },
        { "\"name\": \"m\",\n\"backend\": 'x'\nname: 'm'", "1:1 " },
        /* Strings without an end hide what else is on their line. */
        { "name: 'a\nbackend: 5", "1:7 2:10 " },
        { "input { nme: 'a name: 'b' dims: 1 }\nbackend: 5", "1:9 2:10 " },
        { "max_batch_size: 'a\ninput: \"b\ndims 'c\nname: 5", "1:17 2:8 3:1 4:7 " },
        { "parameters { key: 'a value { string_value: 'b' } }\nname: 5", "1:45 2:7 " },
        /* Brackets that are missing, or too many. */
        { "input {\n  name: 'A'\noutput {\n  name: 'B'\n}\nname: 5", "3:1 6:7 " },
        { "input [ {\n  name: 'A'\noutput {\n  name: 'B'\n}\nname: 5", "3:1 6:7 " },
        { "input {\n  reshape {\n    shape: 1\n  dims: 1\n}\nname: 5", "4:3 6:7 " },
        { "input {\n  dims: [ 1, 2\n  name: 'A'\n}\nname: 5", "3:3 5:7 " },
        { "input {\n  dims: [ 1, 2 }\nname: 5", "2:16 3:7 " },
        { "input {\n  dims: [ 1, 2 }\n}\nname: 5", "2:16 4:7 " },
        { "input\n  name: 'A'\n}\nname: 5", "2:3 4:7 " },
        { "input [\n  { name: 'A'\n  { name: 'B' }\n]\nname: 5", "3:3 5:7 " },
        { "input [\n  name: 'A' dims: 1\n]\nname: 5", "2:3 4:7 " },
        { "input { reshape { shape: 1 } }\n  dims: 1\n}\nname: 5", "2:3 4:7 " },
        { "input { name: 'A' } }\nname: 5 ]", "1:21 2:7 " },
        { "input { reshape { shape: [ 1", "1:29 " },
        { "input { name: 'A' ]\nname: 5", "1:19 2:7 " },
        { "input {\nname: 'A'\ndims: 1\noutput {\nname: 'B'\n}\nmax_batch_size: 'x'", "4:1 7:17 " },
        /* Fields that stand elsewhere, in brackets that are right. */
        { "input {\n  name: 'A'\n  max_batch_size: 8\n}\nname: 5", "3:3 5:7 " },
        { "input {\nname: 'A'\nmax_batch_size: 8\n}\nname: 5", "3:1 5:7 " },
        /* Inside of what nobody knows. */
        { "foo {\n  a: 1\n  b {\n    c: 2\nname: 5\n", "1:1 5:7 " },
};

/* "line:column " of each. */
static void put_places(const struct strbuf *reports, struct strbuf *out) {
        const char *at = strbuf_cstr(reports);

        while (*at != '\0') {
                strbuf_put(out, at, (size_t)(strstr(at, ": ") - at));
                strbuf_putc(out, ' ');
                at = strchr(at, '\n') + 1;
        }
}

static void test_reports(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF    places = { 0 };
                struct reading r;

                strbuf_init(&places, 0);
                read_all(&r, str_of(rows[i].text));
                put_places(&r.reports, &places);
                if (strcmp(strbuf_cstr(&places), rows[i].reports) != 0 || r.config == NULL)
                        fail_msg("%s\nexpected %s\ngot %s\n%s", rows[i].text, rows[i].reports,
                                 strbuf_cstr(&places), strbuf_cstr(&r.reports));
                end(&r);
        }
}

/* The first report of each row is what pb_text_read() says, but where a bracket is missing. */
static void test_first_report_is_the_error(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                ProtobufCMessage *message;
                struct reading    r;
                struct error     *err;

                read_all(&r, str_of(rows[i].text));
                err = pb_text_read(TYPE, str_of(rows[i].text), NULL, &r.arena, &message);
                assert_int_equal(err == NULL, r.reports.len == 0);
                if (err != NULL && strstr(strbuf_cstr(&r.reports), "may be missing") == NULL &&
                    strstr(rows[i].text, "'a name") == NULL &&
                    strstr(rows[i].text, "'a value") == NULL)
                        assert_memory_equal(strbuf_cstr(&r.reports), err->message,
                                            strlen(err->message));
                error_free(err);
                end(&r);
        }
}

static void test_hint_of_a_missing_bracket(void **state) {
        struct reading r;

        (void)state;
        read_all(&r, STR_LIT("input {\n  dims: 1\noutput { }\n"));
        assert_string_equal(strbuf_cstr(&r.reports),
                            "3:1: message 'ModelInput' has no field named 'output'; a '}' to end "
                            "field 'input' of line 1 may be missing\n");
        end(&r);
}

/* What is read has all that is right. */
static void test_message(void **state) {
        static const char text[] = "nme: 'x'\n"
                                   "max_batch_size 8\n"
                                   "input [ { name: 'A' data_type: TYPE_X dims: [ 2, 3 }, 5,\n"
                                   "  { name: 'B' dims: 4 } ]\n"
                                   "output {\n"
                                   "  name: 'C'\n"
                                   "  dims: 0\n"
                                   "dynamic_batching { max_queue_delay_microseconds: 7 }\n";
        struct pb_place   place = { 0, 0 };
        struct reading    r;

        (void)state;
        read_all(&r, str_of(text));
        assert_int_equal(r.review.n_errors, 6);
        assert_int_equal(r.config->max_batch_size, 8);
        assert_int_equal(r.config->n_input, 3);
        assert_string_equal(r.config->input[0]->name, "A");
        assert_int_equal(r.config->input[0]->n_dims, 2);
        assert_string_equal(r.config->input[1]->name, "");
        assert_string_equal(r.config->input[2]->name, "B");
        assert_int_equal(r.config->n_output, 1);
        assert_int_equal(r.config->dynamic_batching->max_queue_delay_microseconds, 7);
        /* Places are those of the file. */
        assert_true(pb_text_review_find(&r.review, "output[0].dims[0]", &place));
        assert_int_equal(place.line, 7);
        assert_int_equal(place.column, 3);
        assert_true(pb_text_review_find(&r.review, "input[2].dims[0]", &place));
        assert_int_equal(place.line, 4);
        assert_int_equal(place.column, 15);
        end(&r);
}

static bool is_doubtful(const struct reading *r, const char *path) {
        return pb_doubts_touch(&r->review.doubts, str_of(path));
}

static void test_doubts(void **state) {
        struct reading r;

        (void)state;
        read_all(&r, STR_LIT("max_batchsize: 8\n"
                             "input { name: 'A' data_type: X dims: 1 }\n"
                             "input { name: 'B' dims: [ 1, y ] }\n"
                             "output { name: 'C' whatever: 1 }\n"
                             "instance_group [ 5, { kind: KIND_CPU } ]\n"));
        assert_true(is_doubtful(&r, "max_batch_size"));
        assert_true(is_doubtful(&r, "input[0].data_type"));
        assert_true(is_doubtful(&r, "input[0]"));
        assert_true(is_doubtful(&r, "input"));
        assert_false(is_doubtful(&r, "input[0].dims[0]"));
        assert_false(is_doubtful(&r, "input[0].name"));
        assert_true(is_doubtful(&r, "input[1].dims[0]"));
        assert_false(is_doubtful(&r, "input[1].name"));
        /* Any that the output does not have may be meant. */
        assert_true(is_doubtful(&r, "output[0].dims"));
        assert_true(is_doubtful(&r, "output[0].data_type"));
        assert_false(is_doubtful(&r, "output[0].name"));
        assert_true(is_doubtful(&r, "instance_group[0].kind"));
        assert_false(is_doubtful(&r, "instance_group[1].kind"));
        assert_false(is_doubtful(&r, "name"));
        end(&r);
}

static void test_a_list_that_lacks_an_element(void **state) {
        struct reading r;

        (void)state;
        read_all(&r, STR_LIT("input { name: 'A' }\ninpt { name: 'B' }\n"));
        assert_true(is_doubtful(&r, "input"));
        assert_false(is_doubtful(&r, "input[0].name"));
        end(&r);
}

static void put_many(struct strbuf *text, const char *part, size_t n) {
        for (size_t i = 0; i < n; i++)
                strbuf_puts(text, part);
}

static void test_bounds(void **state) {
        static const struct {
                const char *part;
                size_t      n, n_errors; /* SIZE_MAX: no more than the bound */
                bool        is_cut;
        } texts[] = {
                { "foo: 1\n", 20, 20, false },
                { "foo: 1\n", 1000, PB_REVIEW_MAX_ERRORS, true },
                { "}", 1000, 1, false },
                { "foo: 1\n", 100000, SIZE_MAX, true },
                { "input {", 100000, SIZE_MAX, true },
                { "model_warmup { inputs { value {", 50, SIZE_MAX, false },
                { "foo {", 500000, 1, false },
                { "'", 99999, 1, false }, /* one line */
                { "'\n", 1000, 1, false },
                { "input { dims: [ 1 1 1 1 ]\n", 3000, SIZE_MAX, true },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
                AUTO_STRBUF    text = { 0 };
                struct reading r;

                strbuf_init(&text, 0);
                put_many(&text, texts[i].part, texts[i].n);
                read_all(&r, strbuf_str(&text));
                if (r.review.n_errors > PB_REVIEW_MAX_ERRORS ||
                    (texts[i].n_errors != SIZE_MAX && r.review.n_errors != texts[i].n_errors) ||
                    (texts[i].n_errors != SIZE_MAX && r.review.is_cut != texts[i].is_cut))
                        fail_msg("%s: %zu, %d", texts[i].part, r.review.n_errors, r.review.is_cut);
                end(&r);
        }
}

/* ---- places ---------------------------------------------------------------------------------- */

static const char placed_text[] =
        "# comment { with [ signs\n"
        "name: 'a' 'b' \"}\"\n"
        "max_batch_size: -3;\n"
        "input [ { name: \"X\", dims: [ 1, -1 ,3 ] },\n"
        "  { name: \"Y\" dims: 7 dims: [ 8 , 9 ] } ]\n"
        "input < name: \"Z\"\n"
        "  reshape: { shape: [ ] } >\n"
        "parameters { key: \"input\" value { string_value: \"name: {\" } }\n"
        "dynamic_batching { }\n";

struct place_row {
        const char *path;
        unsigned    line, column; /* 0: not there */
};

static const struct place_row place_rows[] = {
        { "name", 2, 1 },
        { "max_batch_size", 3, 1 },
        { "input[0]", 4, 9 },
        { "input[0].name", 4, 11 },
        { "input[0].dims", 4, 22 },
        { "input[0].dims[0]", 4, 30 },
        { "input[0].dims[1]", 4, 33 },
        { "input[0].dims[2]", 4, 37 },
        { "input[1].name", 5, 5 },
        { "input[1].dims[0]", 5, 15 },
        { "input[1].dims[1]", 5, 31 },
        { "input[1].dims[2]", 5, 35 },
        { "input[2]", 6, 1 },
        { "input[2].reshape.shape", 7, 14 },
        { "parameters[0].value.string_value", 8, 35 },
        { "dynamic_batching", 9, 1 },
        /* What is missing is shown where it would be. */
        { "input[0].data_type", 4, 9 },
        { "input[0].dims[3]", 4, 22 },
        { "input[2].reshape.shape[0]", 7, 14 },
        { "dynamic_batching.preferred_batch_size[0]", 9, 1 },
        { "name.other", 2, 1 },
        { "input[3]", 4, 1 },
        { "input[x]", 4, 1 },
        /* Nothing of it is there. */
        { "output[0].name", 0, 0 },
        { "nonsense", 0, 0 },
        { "", 0, 0 },
        { ".name", 0, 0 },
};

static void test_places(void **state) {
        struct reading r;

        (void)state;
        read_all(&r, str_of(placed_text));
        assert_int_equal(r.reports.len, 0);
        for (size_t i = 0; i < ARRAY_LEN(place_rows); i++) {
                const struct place_row *row = &place_rows[i];
                struct pb_place         place = { 0, 0 };
                bool                    found = pb_text_review_find(&r.review, row->path, &place);

                if (found != (row->line > 0) || place.line != row->line ||
                    place.column != row->column)
                        fail_msg("'%s': %d, %u:%u", row->path, found, place.line, place.column);
        }
        end(&r);
}

SUITE(pb_text_review) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reports),
                cmocka_unit_test(test_first_report_is_the_error),
                cmocka_unit_test(test_hint_of_a_missing_bracket),
                cmocka_unit_test(test_message),
                cmocka_unit_test(test_doubts),
                cmocka_unit_test(test_a_list_that_lacks_an_element),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_places),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
