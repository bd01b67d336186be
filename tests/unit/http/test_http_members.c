/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "codec/json_reader.h"
#include "http/http_members.h"

/* Writes down what it is told: "name=value;", and "name{...}" for what is an object. */
struct notes {
        struct arena  arena;
        struct strbuf text;
};

static struct error *note(void *owner, struct json_reader *r, struct str key) {
        struct notes *n = owner;
        struct str    value;

        strbuf_put(&n->text, key.ptr, key.len);
        if (str_is(key, "refused"))
                return error_new_text(ERR_UNSUPPORTED, "refused");
        if (str_is(key, "in")) {
                strbuf_putc(&n->text, '{');
                TRY(http_members_read_nested(r, &n->arena, note, n));
                strbuf_putc(&n->text, '}');
                return NULL;
        }
        value = json_skip(r);
        strbuf_printf(&n->text, "=%.*s;", STR_ARG(value));
        return NULL;
}

struct row {
        const char *body, *reported, *error;
};

#define SYNTAX "failed to parse the request JSON buffer: "

static const struct row rows[] = {
        { "{}", "", NULL },
        { " {\"a\" : 1, \"b\":[2,{}]} ", "a=1;b=[2,{}];", NULL },
        { "{\"in\":{\"a\":1,\"b\":2},\"c\":3}", "in{a=1;b=2;}c=3;", NULL },
        { "{\"\\u0061\":1}", "a=1;", NULL },
        { "{\"a\":1,\"refused\":2,\"b\":3}", "a=1;refused", "refused" },
        { "{\"in\":{\"refused\":2},\"b\":3}", "in{refused", "refused" },
        { "{\"in\":1}", "in{", "attempt to get members for non-object" },
        { "[]", "", "attempt to get members for non-object" },
        { "1", "", "attempt to get members for non-object" },
        /* Nothing is told of a text that is no JSON, whatever comes first. */
        { "", "", SYNTAX "The document is empty. at 0" },
        { "[", "", SYNTAX "Invalid value. at 1" },
        { "{\"refused\":1,}", "", SYNTAX "Missing a name for object member. at 13" },
        { "{\"refused\":1} 2", "",
          SYNTAX "The document root must not be followed by other values. at 14" },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct notes n = { 0 };
                AUTO_ERROR   err = NULL;

                arena_init(&n.arena, NULL, 0, 0);
                strbuf_init(&n.text, 0);
                err = http_members_read(str_of(rows[i].body), &n.arena, note, &n);
                if (rows[i].error != NULL)
                        assert_string_equal(err != NULL ? err->message : "", rows[i].error);
                else
                        assert_null(err);
                assert_string_equal(strbuf_cstr(&n.text), rows[i].reported);
                strbuf_done(&n.text);
                arena_done(&n.arena);
        }
}

/* One '[' too many, after what would have been refused. */
static void test_depth(void **state) {
        struct notes n = { 0 };
        AUTO_STRBUF  body = { 0 };
        AUTO_ERROR   err = NULL;

        (void)state;
        arena_init(&n.arena, NULL, 0, 0);
        strbuf_init(&n.text, 0);
        strbuf_init(&body, 0);
        strbuf_puts(&body, "{\"refused\":");
        for (int i = 0; i < JSON_MAX_DEPTH; i++)
                strbuf_putc(&body, '[');
        err = http_members_read(strbuf_str(&body), &n.arena, note, &n);
        assert_string_equal(err->message, "JSON nesting depth exceeds maximum allowed limit (100)");
        assert_int_equal(n.text.len, 0);
        strbuf_done(&n.text);
        arena_done(&n.arena);
}

/* A key with escapes needs memory. */
static void test_memory_is_short(void **state) {
        struct notes n = { 0 };
        AUTO_ERROR   err = NULL;

        (void)state;
        arena_init(&n.arena, NULL, 0, 0);
        strbuf_init(&n.text, 0);
        mem_fail_after(1);
        err = http_members_read(STR_LIT("{\"\\u0061\":1}"), &n.arena, note, &n);
        assert_true(mem_fail_was_hit());
        mem_fail_after(0);
        assert_non_null(err);
        assert_int_equal(n.text.len, 0);
        strbuf_done(&n.text);
        arena_done(&n.arena);
}

SUITE(http_members) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_depth),
                cmocka_unit_test(test_memory_is_short),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
