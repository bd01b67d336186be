/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "net/peer_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

union address {
        struct sockaddr     any;
        struct sockaddr_in  v4;
        struct sockaddr_in6 v6;
};

/* NULL: of no kind that is known. */
static union address address_of(const char *text) {
        union address a = { .any.sa_family = AF_UNSPEC };

        if (text == NULL)
                return a;
        if (inet_pton(AF_INET, text, &a.v4.sin_addr) == 1) {
                a.v4.sin_family = AF_INET;
                return a;
        }
        assert_int_equal(inet_pton(AF_INET6, text, &a.v6.sin6_addr), 1);
        a.v6.sin6_family = AF_INET6;
        return a;
}

static struct peer_entry *enter(struct peer_table *t, const char *text) {
        union address a = address_of(text);

        return peer_table_enter(t, &a.any);
}

/* Which addresses are the same. */
static void test_addresses(void **state) {
        static const struct {
                const char *a, *b;
                bool        is_same;
        } rows[] = {
                { "10.0.0.1", "10.0.0.1", true },
                { "10.0.0.1", "10.0.0.2", false },
                { "10.0.0.1", "::ffff:10.0.0.1", true },
                { "::ffff:10.0.0.1", "::ffff:10.0.0.2", false },
                { "2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true },
                { "2001:db8:1:2::1", "2001:db8:1:3::1", false },
                { "0.0.0.0", "::", false },
                { "::1", "::ffff:127.0.0.1", false },
                { NULL, NULL, true },
                { NULL, "0.0.0.0", false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct peer_table *t = peer_table_new(1);
                struct peer_entry *a = enter(t, rows[i].a), *b = enter(t, rows[i].b);

                assert_non_null(a);
                assert_int_equal(b == NULL, rows[i].is_same);
                peer_table_leave(t, a);
                if (b != NULL)
                        peer_table_leave(t, b);
                assert_int_equal(peer_table_n_addresses(t), 0);
                peer_table_free(t);
        }
}

static void test_counts(void **state) {
        struct peer_table *t = peer_table_new(3);
        struct peer_entry *of_a[3], *of_b;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(of_a); i++)
                assert_non_null(of_a[i] = enter(t, "10.0.0.1"));
        assert_null(enter(t, "10.0.0.1"));
        of_b = enter(t, "10.0.0.2");
        assert_non_null(of_b);
        assert_int_equal(peer_table_n_addresses(t), 2);
        peer_table_leave(t, of_a[1]);
        assert_non_null(of_a[1] = enter(t, "10.0.0.1"));
        assert_null(enter(t, "10.0.0.1"));
        for (size_t i = 0; i < ARRAY_LEN(of_a); i++)
                peer_table_leave(t, of_a[i]);
        assert_int_equal(peer_table_n_addresses(t), 1);
        peer_table_leave(t, of_b);
        peer_table_free(t);
}

/* Memory is that of those who are there. */
static void test_many(void **state) {
        struct peer_table *t = peer_table_new(1);

        (void)state;
        for (uint32_t i = 0; i < 100000; i++) {
                union address a = { .v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(i) } };
                struct peer_entry *e = peer_table_enter(t, &a.any);

                assert_non_null(e);
                peer_table_leave(t, e);
        }
        assert_int_equal(peer_table_n_addresses(t), 0);
        peer_table_free(t);
}

SUITE(peer_table) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_addresses),
                cmocka_unit_test(test_counts),
                cmocka_unit_test(test_many),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
