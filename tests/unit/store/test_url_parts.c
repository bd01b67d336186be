/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "store/url_parts.h"

static void test_hosts(void **state) {
        static const struct {
                const char *url;
                bool        is_loopback, is_local;
        } rows[] = {
                { "http://localhost/a", true, true },
                { "http://LocalHost:80", true, true },
                { "https://127.0.0.1:9000/a", true, true },
                { "http://127.1.2.3", true, true },
                { "http://[::1]:9000/a", true, true },
                { "http://169.254.169.254/latest", false, true },
                { "http://[fd00:ec2::254]/latest", false, true },
                /* Only the beginning is that of a local one. */
                { "https://localhost.example.com/a", false, false },
                { "http://localhosts:80", false, false },
                { "http://127.example.com", false, false },
                { "http://127.0.0.1.example.com/", false, false },
                { "http://169.254.example.com", false, false },
                { "http://169.255.0.1", false, false },
                { "http://[::10]/", false, false },
                { "http://[fd00:ec20::254]", false, false },
                { "https://storage.googleapis.com/a", false, false },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct url_parts p;

                assert_true(url_parts_read(str_of(rows[i].url), &p));
                if (url_host_is_loopback(p.host) != rows[i].is_loopback ||
                    url_host_is_local(p.host) != rows[i].is_local)
                        fail_msg("%s", rows[i].url);
        }
}

SUITE(url_parts) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hosts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
