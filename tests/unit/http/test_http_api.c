/* SPDX-License-Identifier: BSD-3-Clause */
/* Every route of the API but inference, over a socket, against a core of the tests' own. */
#include "suite.h"

#include "base/log.h"
#include "base/mem.h"
#include "fake_control.h"
#include "http/http_server.h"
#include "http_fixture.h"

#include <stdio.h>
#include <unistd.h>

struct exchange {
        const char *request; /* method and path */
        const char *body;    /* NULL = none */
        unsigned    status;
        const char *answer;
};

#define NOT_FOUND "{\"error\":\"Not Found\"}"
#define METHOD "{\"error\":\"Method Not Allowed\"}"
#define UNKNOWN "{\"error\":\"Request for unknown model\"}"
#define SHM_OFF                                                                                    \
        "{\"error\":\"Client shared memory is disabled. Start the server with "                    \
        "'--allow-client-shm=true' to enable.\"}"
#define NOT_READY "{\"error\":\"Model version not ready\"}"

static void start(struct fixture *f) {
        fake_control = (struct fake_control){ .is_live = true, .is_ready = true };
        mutex_init(&fake_control.lock, LOCK_SERVER);
        strbuf_init(&fake_control.orders, 0);
        fixture_init(f);
        f->options.routes = http_api_routes();
        fixture_start(f);
}

static void stop(struct fixture *f) {
        fixture_done(f);
        strbuf_done(&fake_control.orders);
        mutex_done(&fake_control.lock);
}

static void ask(int fd, const struct exchange *x) {
        const char *body = x->body != NULL ? x->body : "";
        AUTO_CHARS  text = mem_printf("%s HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s",
                                      x->request, strlen(body), body);

        print_message("%s %s\n", x->request, body);
        client_say(fd, text);
        client_expect_answer(fd, x->status, x->answer);
}

static void ask_all(const struct exchange *all, size_t n) {
        struct fixture f;
        int            fd;

        start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < n; i++)
                ask(fd, &all[i]);
        close(fd);
        stop(&f);
}

static void test_health(void **state) {
        static const struct exchange up[] = {
                { "GET /v2/health/live", NULL, 200, "" },
                { "GET /v2/health/ready?verbose=1", NULL, 200, "" },
                { "GET /v2/models/simple/ready", NULL, 200, "" },
                { "GET /v2/models/simple/versions/1/ready", NULL, 200, "" },
                { "GET /v2/models/simple/versions/2/ready", NULL, 400, NOT_READY },
                { "GET /v2/models/other/ready", NULL, 400, NOT_READY },
                { "POST /v2/health/live", NULL, 405, METHOD },
                { "GET /v2/health", NULL, 404, NOT_FOUND },
        };
        static const struct exchange exiting = { "GET /v2/health/live", NULL, 503,
                                                 "{\"error\":\"Server exiting\"}" };
        static const struct exchange dead = { "GET /v2/health/live", NULL, 400, "" };
        static const struct exchange busy = { "GET /v2/health/ready", NULL, 400, "" };
        struct fixture               f;
        int                          fd;

        (void)state;
        ask_all(up, ARRAY_LEN(up));
        start(&f);
        fd = client_open(&f);
        fake_control.is_live = fake_control.is_ready = false;
        ask(fd, &dead);
        ask(fd, &busy);
        fake_control.is_exiting = true;
        ask(fd, &exiting);
        close(fd);
        stop(&f);
}

static void test_metadata(void **state) {
        static const struct exchange rows[] = {
                { "GET /v2", NULL, 200, "{\"name\":\"triton\"}" },
                { "GET /v2/models/simple", NULL, 200, "{\"metadata\":\"simple\",\"version\":-1}" },
                { "GET /v2/models/simple/versions/7", NULL, 200,
                  "{\"metadata\":\"simple\",\"version\":7}" },
                { "GET /v2/models/other", NULL, 404, UNKNOWN },
                { "GET /v2/models/simple/config", NULL, 200,
                  "{\"config\":\"simple\",\"version\":-1}" },
                { "GET /v2/models/simple/versions/1/config", NULL, 200,
                  "{\"config\":\"simple\",\"version\":1}" },
                { "GET /v2/models/stats", NULL, 200, "{\"stats\":\"\",\"version\":-1}" },
                { "GET /v2/models/simple/stats", NULL, 200,
                  "{\"stats\":\"simple\",\"version\":-1}" },
                { "GET /v2/models/simple/sequences", NULL, 200,
                  "{\"sequences\":\"simple\",\"version\":-1}" },
                { "GET /v2/models/simple/versions/3/sequences", NULL, 200,
                  "{\"sequences\":\"simple\",\"version\":3}" },
                { "GET /v2/gpus", NULL, 200, "{\"gpus\":[]}" },
                { "GET /v2/models/simple/stacks", NULL, 200,
                  "{\"stacks\":\"simple\",\"version\":-1}" },
                { "GET /v2/models/simple/versions/3/stacks", NULL, 200,
                  "{\"stacks\":\"simple\",\"version\":3}" },
                { "GET /v2/models/simple/versions/9223372036854775808/stats", NULL, 400,
                  "{\"error\":\"failed to get model version from specified version string "
                  "'9223372036854775808' (details: stol), version should be an integral value > "
                  "0\"}" },
                { "POST /v2/models/simple", "{}", 405, METHOD },
        };

        (void)state;
        ask_all(rows, ARRAY_LEN(rows));
}

static void test_repository(void **state) {
        static const struct exchange rows[] = {
                { "POST /v2/repository/index", NULL, 200, "[{\"flags\":0}]" },
                { "POST /v2/repository/index", "{\"ready\": true, \"x\":[1]}", 200,
                  "[{\"flags\":1}]" },
                { "POST /v2/repository/any/index", "{\"ready\":false}", 200, "[{\"flags\":0}]" },
                { "POST /v2/repository/index", "[]", 200, "[{\"flags\":0}]" },
                { "POST /v2/repository/index", "null", 200, "[{\"flags\":0}]" },
                { "POST /v2/repository/index", "[{\"ready\":true}]", 200, "[{\"flags\":0}]" },
                { "POST /v2/repository/index", "\"ready\" x", 400,
                  "{\"error\":\"failed to parse the request JSON buffer: The document root must "
                  "not "
                  "be followed by other values. at 8\"}" },
                { "POST /v2/repository/index", "{\"ready\":1}", 400,
                  "{\"error\":\"Invalid value for 'ready': expected a boolean\"}" },
                { "POST /v2/repository/models/simple/load", NULL, 200, "" },
                { "POST /v2/repository/models/simple/load", "{}", 200, "" },
                { "POST /v2/repository/models/simple/load",
                  "{\"parameters\":{\"config\":\"{\\\"a\\\":1}\",\"file:1/m.txt\":\"aGVsbG8=\"}}",
                  200, "" },
                { "POST /v2/repository/models/simple/load", "{\"parameters\":{\"config\":3}}", 400,
                  "{\"error\":\"attempt to access JSON non-string as string\"}" },
                { "POST /v2/repository/models/simple/load", "{\"parameters\":{\"other\":\"3\"}}",
                  400, "{\"error\":\"unexpected error on creating Triton parameter\"}" },
                { "POST /v2/repository/models/simple/load", "{\"parameters\":3}", 400,
                  "{\"error\":\"attempt to get members for non-object\"}" },
                { "POST /v2/repository/models/simple/load", "[]", 400,
                  "{\"error\":\"attempt to get members for non-object\"}" },
                { "POST /v2/repository/models/other/load", NULL, 400,
                  "{\"error\":\"load failed;\\n\"}" },
                { "POST /v2/repository/models/simple/unload", NULL, 200, "" },
                { "POST /v2/repository/models/simple/unload",
                  "{\"parameters\":{\"unload_dependents\":true}}", 200, "" },
                { "POST /v2/repository/models/simple/unload",
                  "{\"parameters\":{\"unload_dependents\":1}}", 400,
                  "{\"error\":\"Unable to parse 'unload_dependents': attempt to access JSON "
                  "non-boolean as boolean\"}" },
                { "POST /v2/repository/r/models/simple/load", NULL, 501,
                  "{\"error\":\"'repository_name' specification is not supported\"}" },
                { "POST /v2/repository/r/models/simple/unload", NULL, 501,
                  "{\"error\":\"'repository_name' specification is not supported\"}" },
                { "GET /v2/repository/index", NULL, 405, METHOD },
        };
        struct fixture f;
        int            fd;

        (void)state;
        start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                ask(fd, &rows[i]);
        close(fd);
        assert_string_equal(strbuf_cstr(&fake_control.orders),
                            "load simple\nload simple\n"
                            "load simple config={\"a\":1} file:1/m.txt=hello\n"
                            "load other\nunload simple\nunload with dependents simple\n");
        stop(&f);
}

static void test_broken_json_names_the_place(void **state) {
        static const char *const paths[] = { "/v2/repository/index",
                                             "/v2/repository/models/simple/load",
                                             "/v2/repository/models/simple/unload", "/v2/logging" };
        static const char *const bodies[] = {
                "{",   "{\"parameters\":{", "{\"parameters\":{\"config\":\"",
                "{}x", "{\"ready\":tru",    "{\"parameters\":"
        };
        struct fixture f;

        (void)state;
        start(&f);
        for (size_t i = 0; i < ARRAY_LEN(paths); i++)
                for (size_t k = 0; k < ARRAY_LEN(bodies); k++) {
                        AUTO_CHARS  text = mem_printf("POST %s HTTP/1.1\r\nHost: a\r\n"
                                                       "Connection: close\r\n"
                                                       "Content-Length: %zu\r\n\r\n%s",
                                                      paths[i], strlen(bodies[k]), bodies[k]);
                        AUTO_STRBUF all;
                        int         fd = client_open(&f);

                        strbuf_init(&all, 0);
                        client_say(fd, text);
                        client_read_all(fd, &all);
                        if (strstr(all.ptr, "{\"error\":\"failed to parse the request JSON "
                                            "buffer: ") == NULL)
                                fail_msg("%s to %s: %s", bodies[k], paths[i], all.ptr);
                        assert_true(str_starts(strbuf_str(&all), STR_LIT("HTTP/1.1 400 ")));
                        close(fd);
                }
        assert_string_equal(strbuf_cstr(&fake_control.orders), "");
        stop(&f);
}

static void test_shared_memory(void **state) {
        static const struct exchange rows[] = {
                { "GET /v2/systemsharedmemory/status", NULL, 200, "[]" },
                { "GET /v2/cudasharedmemory/status", NULL, 200, "[]" },
                { "GET /v2/systemsharedmemory/region/r/status", NULL, 404,
                  "{\"error\":\"Unable to find system shared memory region: 'r'\"}" },
                { "GET /v2/cudasharedmemory/region/r/status", NULL, 404,
                  "{\"error\":\"Unable to find cuda shared memory region: 'r'\"}" },
                { "POST /v2/systemsharedmemory/region/r/register", "{}", 501, SHM_OFF },
                { "POST /v2/cudasharedmemory/region/r/register", "{}", 501, SHM_OFF },
                { "POST /v2/systemsharedmemory/unregister", NULL, 501, SHM_OFF },
                { "GET /v2/systemsharedmemory/unregister", NULL, 405, METHOD },
        };

        (void)state;
        ask_all(rows, ARRAY_LEN(rows));
}

static void test_what_is_not_there_yet(void **state) {
        static const struct exchange rows[] = {
                { "POST /v2/models/simple/versions/1/trace/setting", "{}", 404, NOT_FOUND },
        };

        (void)state;
        ask_all(rows, ARRAY_LEN(rows));
}

#define LOGGING(info, level, format)                                                               \
        "{\"log_file\":\"\",\"log_info\":" info ",\"log_warning\":true,\"log_error\":true,"        \
        "\"log_verbose_level\":" level ",\"log_format\":\"" format "\"}"

static void test_logging(void **state) {
        static const struct exchange rows[] = {
                { "GET /v2/logging", NULL, 200, LOGGING("true", "0", "default") },
                { "POST /v2/logging",
                  "{\"log_info\":false,\"log_verbose_level\":2,\"log_error\":null,\"other\":{}}",
                  200, LOGGING("false", "2", "default") },
                { "POST /v2/logging", "{\"log_format\":\"ISO8601\"}", 200,
                  LOGGING("false", "2", "ISO8601") },
                { "GET /v2/logging", NULL, 200, LOGGING("false", "2", "ISO8601") },
                { "POST /v2/logging", "{\"log_format\":\"x\"}", 503,
                  "{\"error\":\"invalid argument for --log_format, got: x\"}" },
                { "POST /v2/logging", "{\"log_file\":\"/tmp/x\"}", 501,
                  "{\"error\":\"log file location can not be updated through network protocol\"}" },
                { "POST /v2/logging", "{\"log_info\":1}", 400,
                  "{\"error\":\"attempt to access JSON non-boolean as boolean\"}" },
                { "POST /v2/logging", "{\"log_verbose_level\":-1}", 400,
                  "{\"error\":\"attempt to access JSON non-unsigned-integer as "
                  "unsigned-integer\"}" },
                { "POST /v2/logging", "{\"log_verbose_level\":\"1\"}", 400,
                  "{\"error\":\"attempt to access JSON non-unsigned-integer as "
                  "unsigned-integer\"}" },
                { "POST /v2/logging",
                  "{\"log_info\":true,\"log_verbose_level\":0,\"log_format\":\"default\"}", 200,
                  LOGGING("true", "0", "default") },
        };

        (void)state;
        ask_all(rows, ARRAY_LEN(rows));
}

static void test_metrics(void **state) {
        static const struct exchange other[] = {
                { "GET /", NULL, 200, "" },
                { "GET /metrics/", NULL, 200, "" },
                { "POST /metrics", NULL, 405, METHOD },
                { "POST /other", NULL, 405, METHOD },
                { "GET /metrics?name=a", NULL, 200, "# HELP a b\na 1\n" },
        };
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.routes = http_metrics_routes();
        fixture_start(&f);
        fd = client_open(&f);
        client_say(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Length: 15\r\n\r\n# HELP a b\na 1\n");
        client_say(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "# HELP a b\na 1\n");
        client_expect_answer(fd, 200, "# HELP a b\na 1\n");
        for (size_t i = 0; i < ARRAY_LEN(other); i++)
                ask(fd, &other[i]);
        close(fd);
        fixture_done(&f);
}

/* The format of the page is the client's choice; scrapes of both kinds may come at a time. */
static void test_formats_of_metrics(void **state) {
#define OPEN "application/openmetrics-text;version=1.0.0"
        static const struct {
                const char *accept;
                bool        is_open;
        } rows[] = {
                { OPEN ",application/openmetrics-text;version=0.0.1;q=0.75,"
                       "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                  true }, /* Prometheus 2 */
                { "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false },
                { "*/*", false },
                { OPEN ";q=0.2, text/plain;q=0.3", false },
                { "application/openmetrics-text", true },
                { "application/openmetrics-text;version=2.0.0", false },
        };
        struct fixture f;
        int            fd;

        (void)state;
        fixture_init(&f);
        f.options.routes = http_metrics_routes();
        fixture_start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char request[512];

                snprintf(request, sizeof(request),
                         "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: %s\r\n\r\n", rows[i].accept);
                client_say(fd, request);
                client_expect(fd, rows[i].is_open ? "HTTP/1.1 200 OK\r\nContent-Type: "
                                                    "application/openmetrics-text; version=1.0.0; "
                                                    "charset=utf-8\r\nContent-Length: 21\r\n\r\n"
                                                    "# HELP a b\na 1\n# EOF\n"
                                                  : "HTTP/1.1 200 OK\r\nContent-Type: text/plain; "
                                                    "charset=utf-8\r\nContent-Length: 15\r\n\r\n"
                                                    "# HELP a b\na 1\n");
        }
        client_say(fd, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: " OPEN "\r\n\r\n"
                       "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "# HELP a b\na 1\n");
        client_expect_answer(fd, 200, "# HELP a b\na 1\n# EOF\n");
        client_expect_answer(fd, 200, "# HELP a b\na 1\n");
        close(fd);
        fixture_done(&f);
}

/* Scrapes that come while a page is made are answered with the next one, all of them. */
static void test_scrapes_at_a_time(void **state) {
        enum { N = 4 };
        struct fixture f;
        sem_t          begins, may_end;
        int            fds[N];

        (void)state;
        sem_init(&begins, 0, 0);
        sem_init(&may_end, 0, 0);
        fixture_init(&f);
        f.options.net.n_threads = 1;
        f.options.routes = http_metrics_routes();
        fixture_start(&f);
        for (int i = 0; i < N; i++) {
                fds[i] = client_open(&f);
                ask(fds[i], &(struct exchange){ "GET /", NULL, 200, "" }); /* the loop has it */
        }
        fake_control.page_begins = &begins;
        fake_control.page_may_end = &may_end;
        atomic_store(&fake_control.n_pages, 0);
        client_say(fds[0], "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        sem_wait(&begins);
        for (int i = 1; i < N; i++)
                client_say_through(fds[i], "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        sem_post(&may_end);
        client_expect_answer(fds[0], 200, "# HELP a b\na 1\n");
        sem_wait(&begins);
        sem_post(&may_end);
        for (int i = 1; i < N; i++)
                client_expect_answer(fds[i], 200, "# HELP a b\na 1\n");
        assert_int_equal(atomic_load(&fake_control.n_pages), 2);
        for (int i = 0; i < N; i++)
                close(fds[i]);
        fixture_done(&f);
        fake_control.page_begins = fake_control.page_may_end = NULL;
        assert_int_equal(atomic_load(&fake_control.n_held_pages), 0);
        sem_destroy(&begins);
        sem_destroy(&may_end);
}

/* One rule closes every route of its group: the table says which that are. */
static void test_groups(void **state) {
        static const char *const repository[] = {
                "POST /v2/repository/index",           "POST /v2/repository/x/index",
                "POST /v2/repository/models/m/load",   "POST /v2/repository/models/m/unload",
                "POST /v2/repository/x/models/m/load", "GET /v2/repository/index"
        };
        struct fixture f;
        int            fd;

        (void)state;
        fake_control = (struct fake_control){ .is_live = true };
        mutex_init(&fake_control.lock, LOCK_SERVER);
        fixture_init(&f);
        f.options.routes = http_api_routes();
        assert_null(endpoint_policy_add(&f.policy, "model-repository:k=v", "api", ""));
        fixture_start(&f);
        fd = client_open(&f);
        for (size_t i = 0; i < ARRAY_LEN(repository); i++) {
                const struct exchange x = {
                        repository[i], NULL, 403,
                        "{\"error\":\"This API is restricted, expecting header 'k'\"}"
                };

                ask(fd, &x);
        }
        client_say(fd, "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_answer(fd, 200, "");
        client_say(fd, "POST /v2/repository/index HTTP/1.1\r\nHost: a\r\nK: v\r\n\r\n");
        client_expect_answer(fd, 200, "[{\"flags\":0}]");
        close(fd);
        fixture_done(&f);
        mutex_done(&fake_control.lock);
}

SUITE(http_api) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_health),
                cmocka_unit_test(test_metadata),
                cmocka_unit_test(test_repository),
                cmocka_unit_test(test_broken_json_names_the_place),
                cmocka_unit_test(test_shared_memory),
                cmocka_unit_test(test_what_is_not_there_yet),
                cmocka_unit_test(test_logging),
                cmocka_unit_test(test_metrics),
                cmocka_unit_test(test_formats_of_metrics),
                cmocka_unit_test(test_scrapes_at_a_time),
                cmocka_unit_test(test_groups),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
