/* SPDX-License-Identifier: BSD-3-Clause */
/* The fronts of cloud platforms over a socket, against a core of the tests' own: paths, methods, health. */
#include "suite.h"

#include "base/mem.h"
#include "call/hosted_models.h"
#include "fake_control.h"
#include "http/http_cloud.h"
#include "http/http_server.h"
#include "http_fixture.h"

#include <unistd.h>

#define METHOD "{\"error\":\"Method Not Allowed\"}"
#define REDIRECT "X-Vertex-Ai-Triton-Redirect: "

struct place {
        struct fixture     f;
        struct cloud_front front;
        int                fd;
};

static void begin(struct place *p, struct http_route_table routes, struct cloud_front front) {
        fake_control = (struct fake_control){ .is_live = true, .is_ready = true };
        mutex_init(&fake_control.lock, LOCK_SERVER);
        strbuf_init(&fake_control.orders, 0);
        fixture_init(&p->f);
        p->front = front;
        p->front.models = hosted_models_new(NULL);
        p->f.options.routes = routes;
        p->f.options.service.cloud = &p->front;
        fixture_start(&p->f);
        p->fd = client_open(&p->f);
}

static void end(struct place *p) {
        close(p->fd);
        fixture_done(&p->f);
        hosted_models_free(p->front.models);
        strbuf_done(&fake_control.orders);
        mutex_done(&fake_control.lock);
}

/* `field` is a header field, or "". */
static void ask(struct place *p, const char *line, const char *field, unsigned status,
                const char *answer) {
        AUTO_CHARS text = mem_printf("%s HTTP/1.1\r\nHost: a\r\n%s%sContent-Length: 2\r\n\r\n{}",
                                     line, field, *field != '\0' ? "\r\n" : "");

        print_message("%s %s\n", line, field);
        client_say(p->fd, text);
        client_expect_answer(p->fd, status, answer);
}

static const struct cloud_front sagemaker = { .binary_type = SAGEMAKER_BINARY,
                                              .default_model = "",
                                              .error_status = http_sagemaker_error_status };
static const struct cloud_front vertex_ai = { .binary_type = VERTEX_AI_BINARY,
                                              .default_model = "simple",
                                              .predict_route = STR_LIT("/p:predict"),
                                              .health_route = STR_LIT("/h") };

static void test_ping(void **state) {
        struct cloud_front live = sagemaker;
        struct place       p;

        (void)state;
        begin(&p, http_sagemaker_routes(), sagemaker);
        ask(&p, "GET /ping", "", 200, "");
        fake_control.is_ready = false;
        ask(&p, "GET /ping", "", 400, "");
        fake_control.is_exiting = true;
        ask(&p, "GET /ping", "", 400, "");
        ask(&p, "POST /ping", "", 405, METHOD);
        end(&p);
        live.asks_if_live = true;
        begin(&p, http_sagemaker_routes(), live);
        fake_control.is_ready = false;
        ask(&p, "GET /ping", "", 200, "");
        fake_control.is_live = false;
        ask(&p, "GET /ping", "", 400, "");
        end(&p);
}

static void test_sagemaker_paths(void **state) {
        struct place p;

        (void)state;
        begin(&p, http_sagemaker_routes(), sagemaker);
        ask(&p, "GET /models", "", 200, "{\"models\":[]}");
        ask(&p, "GET /models/a", "", 404, "");
        ask(&p, "DELETE /models/a", "", 404, "");
        ask(&p, "POST /models/a/invoke", "", 404, "");
        ask(&p, "POST /models", "", 400, "{\"error\":\"the request has no model_name\"}");
        ask(&p, "PATCH /models", "", 405, METHOD);
        ask(&p, "DELETE /v2", "", 400, "");
        ask(&p, "GET /v2/health/live", "", 400, "");
        ask(&p, "POST /invocations", "", 400,
            "{\"error\":\"no default model: the variable SAGEMAKER_TRITON_DEFAULT_MODEL_NAME is "
            "not "
            "set\"}");
        end(&p);
}

static void test_vertex_ai_paths(void **state) {
        struct place p;

        (void)state;
        begin(&p, http_vertex_ai_routes(), vertex_ai);
        ask(&p, "GET /h", "", 200, "");
        ask(&p, "DELETE /h", "", 405, METHOD);
        ask(&p, "GET /p:predict", "", 405, METHOD);
        ask(&p, "POST /p:predict", REDIRECT "v2", 200, "{\"name\":\"triton\"}");
        ask(&p, "POST /p:predict", REDIRECT "v2/models/simple/versions/7", 200,
            "{\"metadata\":\"simple\",\"version\":7}");
        ask(&p, "POST /p:predict", REDIRECT "v2/models/stats", 200,
            "{\"stats\":\"\",\"version\":-1}");
        ask(&p, "GET /p:predict", REDIRECT "v2", 405, METHOD);
        ask(&p, "POST /p:predict", REDIRECT "v2/models/simple/versions/x", 400, "");
        ask(&p, "POST /p:predict", REDIRECT "v2/repository/models/simple/load", 400, "");
        ask(&p, "POST /p:predict", REDIRECT, 400, "");
        ask(&p, "POST /v2", REDIRECT "v2", 400, "");
        assert_int_equal(fake_control.orders.len, 0);
        fake_control.is_exiting = true;
        ask(&p, "GET /h", "", 400, "");
        ask(&p, "POST /p:predict", REDIRECT "v2/health/live", 400, "");
        end(&p);
}

/* It is not known then whether the operator has loaded a model of that name, which a load would replace. */
static void test_load_without_an_index(void **state) {
        struct place        p;
        enum hosted_outcome outcome;

        (void)state;
        begin(&p, http_vertex_ai_routes(), vertex_ai);
        fake_control.has_no_memory = true;
        AUTO_ERROR err = hosted_models_load(p.front.models, STR_LIT("simple"), STR_LIT("/nowhere"),
                                            &outcome);

        assert_non_null(err);
        assert_string_equal(err->message, "out of memory");
        assert_int_equal(outcome, HOSTED_NO_MEMORY);
        assert_int_equal(fake_control.orders.len, 0);
        end(&p);
}

SUITE(http_cloud) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ping),
                cmocka_unit_test(test_sagemaker_paths),
                cmocka_unit_test(test_vertex_ai_paths),
                cmocka_unit_test(test_load_without_an_index),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
