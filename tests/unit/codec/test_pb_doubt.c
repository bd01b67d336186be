/* SPDX-License-Identifier: BSD-3-Clause */
/* Which paths a doubt touches. */
#include "suite.h"

#include "base/compiler.h"
#include "codec/pb_doubt.h"
#include "pb_node.h"

struct row {
        const char        *doubt;
        enum pb_doubt_kind kind;
        const char        *path;
        bool               touches;
};

static const struct row rows[] = {
        { "a", PB_DOUBT_VALUE, "a", true },
        { "a", PB_DOUBT_VALUE, "a[0].b", true },
        { "a", PB_DOUBT_VALUE, "a.b", true },
        { "a", PB_DOUBT_VALUE, "ab", false },
        { "ab", PB_DOUBT_VALUE, "a", false },
        { "a[0].b", PB_DOUBT_VALUE, "a", true },
        { "a[0].b", PB_DOUBT_VALUE, "a[0]", true },
        { "a[0].b", PB_DOUBT_VALUE, "a[1]", false },
        { "a[0].b", PB_DOUBT_VALUE, "a[0].c", false },
        { "a[1]", PB_DOUBT_VALUE, "a[10]", false },
        { "a", PB_DOUBT_VALUE, "", true },
        { "a", PB_DOUBT_MISSING, "a", true },
        { "a", PB_DOUBT_MISSING, "a[0].b", false },
        { "a", PB_DOUBT_MISSING, "a.b", true },
        { "a[0]", PB_DOUBT_UNNAMED, "a", true },
        { "a[0]", PB_DOUBT_UNNAMED, "a[0]", true },
        { "a[0]", PB_DOUBT_UNNAMED, "a[0].b", false },
        { "", PB_DOUBT_UNNAMED, "a", false },
};

static void test_touch(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct pb_doubts d;
                struct arena     arena;

                arena_init(&arena, NULL, 0, 0);
                pb_doubts_init(&d, &arena);
                assert_false(pb_doubts_touch(&d, str_of(rows[i].path)));
                pb_doubts_put(&d, str_of(rows[i].doubt), rows[i].kind);
                if (pb_doubts_touch(&d, str_of(rows[i].path)) != rows[i].touches)
                        fail_msg("%s %s", rows[i].doubt, rows[i].path);
                arena_done(&arena);
        }
}

/* A field without a known name is one of those that are not there. */
static void test_spread(void **state) {
        struct pb_doubts d;
        struct arena     arena;
        struct node      node, child, *children[] = { &child };

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        pb_doubts_init(&d, &arena);
        node_type.message_init(&node.base);
        node_type.message_init(&child.base);
        node.n_children = 1;
        node.children = children;
        child.i32 = 7;
        pb_doubts_put(&d, STR_LIT("children[0]"), PB_DOUBT_UNNAMED);
        pb_doubts_put(&d, STR_LIT("children[1]"), PB_DOUBT_UNNAMED); /* not there */
        pb_doubts_put(&d, STR_LIT("text.no"), PB_DOUBT_UNNAMED);
        pb_doubts_spread(&d, &node.base);
        assert_false(d.is_full);
        assert_false(pb_doubts_touch(&d, STR_LIT("children[0].i32")));
        assert_true(pb_doubts_touch(&d, STR_LIT("children[0].text")));
        assert_true(pb_doubts_touch(&d, STR_LIT("children[0].child")));
        assert_true(pb_doubts_touch(&d, STR_LIT("children[0].real64")));
        assert_false(pb_doubts_touch(&d, STR_LIT("real64")));
        arena_done(&arena);
}

/* Too many: then all is doubtful. */
static void test_full(void **state) {
        struct pb_doubts d;
        struct arena     arena;

        (void)state;
        arena_init(&arena, NULL, 0, 0);
        pb_doubts_init(&d, &arena);
        for (size_t i = 0; i < PB_DOUBTS_MAX; i++)
                pb_doubts_put(&d, STR_LIT("a"), PB_DOUBT_VALUE);
        assert_false(pb_doubts_touch(&d, STR_LIT("b")));
        pb_doubts_put(&d, STR_LIT("a"), PB_DOUBT_VALUE);
        assert_true(d.is_full);
        assert_true(pb_doubts_touch(&d, STR_LIT("b")));
        arena_done(&arena);
}

SUITE(pb_doubt) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_touch),
                cmocka_unit_test(test_spread),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
