/* SPDX-License-Identifier: BSD-3-Clause */
/* The generate endpoints over a socket, against a core of the test's own, which answers how often
 * and when the test says.
 */
#include "suite.h"

#include "base/mem.h"
#include "call/fake_core.h"
#include "call/infer_call.h"
#include "http/http_generate.h"
#include "http_fixture.h"
#include "triton/core/tritonserver.h"

#include <string.h>
#include <unistd.h>

static const struct http_route rows[] = {
        { "/v2/models/{m}/generate", HTTP_METHOD_POST, ENDPOINT_INFERENCE, HTTP_JSON,
          http_generate_post },
        { "/v2/models/{m}/generate_stream", HTTP_METHOD_POST, ENDPOINT_INFERENCE, HTTP_JSON,
          http_generate_stream_post },
};

static struct {
        struct fixture                        f;
        struct infer_core                     core;
        struct TRITONSERVER_InferenceRequest *request; /* guarded by f.seen.lock */
        int                                   fd;
} t;

/* ---- the core ---- */

static void on_run(struct TRITONSERVER_InferenceRequest *request) {
        MUTEX_GUARD(&t.f.seen.lock);

        t.request = request;
        cond_broadcast(&t.f.seen.changed);
}

static void on_cancel(struct TRITONSERVER_InferenceRequest *request) {
        MUTEX_GUARD(&t.f.seen.lock);

        assert_ptr_equal(request, t.request);
        cond_broadcast(&t.f.seen.changed);
}

static void wait_for_run(void) {
        MUTEX_GUARD(&t.f.seen.lock);

        while (t.request == NULL)
                cond_wait(&t.f.seen.changed, &t.f.seen.lock);
}

/* A response with one output of so many elements, on this thread as on a backend's. */
static void respond(const char *error, size_t n_elements, uint32_t flags) {
        struct TRITONSERVER_InferenceRequest  *request = t.request;
        struct TRITONSERVER_InferenceResponse *r = mem_zalloc(sizeof(*r));
        TRITONSERVER_MemoryType                type;
        int64_t                                id;

        strcpy(r->output, "OUT");
        r->allocator = request->allocator;
        r->error = error;
        r->bytes = n_elements;
        assert_null(r->allocator->alloc(r->allocator, r->output, n_elements,
                                        TRITONSERVER_MEMORY_CPU, 0, request->allocator_userp,
                                        &r->base, &r->userp, &type, &id));
        memset(r->base, 7, n_elements);
        fake.n_responses++;
        request->on_response(r, flags, request->response_userp);
}

#define FINAL TRITONSERVER_RESPONSE_COMPLETE_FINAL

static void respond_flags_only(void) {
        t.request->on_response(NULL, FINAL, t.request->response_userp);
}

static void release(void) {
        t.request->on_release(t.request, TRITONSERVER_REQUEST_RELEASE_ALL,
                              t.request->release_userp);
}

/* ---- the client ---- */

static void open_all(void) {
        memset(&fake, 0, sizeof(fake));
        strbuf_init(&fake.calls, 0);
        fake.run = on_run;
        fake.cancel = on_cancel;
        fixture_init(&t.f);
        t.f.options.routes = (struct http_route_table){ .rows = rows, .n_rows = ARRAY_LEN(rows) };
        assert_null(infer_core_init(&t.core, &(struct infer_core_options){ 0 }));
        t.f.options.service.infer = &t.core;
        t.request = NULL;
}

static void start_all(void) {
        fixture_start(&t.f);
        t.fd = client_open(&t.f);
}

static int setup(void **state) {
        (void)state;
        open_all();
        start_all();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        close(t.fd);
        fixture_done(&t.f);
        infer_core_done(&t.core);
        strbuf_done(&fake.calls);
        assert_int_equal(fake.n_requests, 0);
        assert_int_equal(fake.n_responses, 0);
        assert_int_equal(fake.n_errors, 0);
        return 0;
}

static void post(const char *kind, const char *body) {
        AUTO_CHARS text = mem_printf("POST /v2/models/m/%s HTTP/1.1\r\nHost: a\r\n"
                                     "Content-Length: %zu\r\n\r\n"
                                     "%s",
                                     kind, strlen(body), body);

        client_say(t.fd, text);
}

static void run(const char *kind) {
        post(kind, "{\"INPUT\":\"hi\",\"k\":1}");
        wait_for_run();
}

static void expect_chunk(const char *text) {
        AUTO_CHARS chunk = mem_printf("%zx\r\n%s\r\n", strlen(text), text);

        client_expect(t.fd, chunk);
}

static void expect_head(const char *status, const char *content_type) {
        AUTO_CHARS head = mem_printf("HTTP/1.1 %s\r\nContent-Type: %s\r\n"
                                     "Transfer-Encoding: chunked\r\n\r\n",
                                     status, content_type);

        client_expect(t.fd, head);
}

static void expect_end(void) {
        client_expect(t.fd, "0\r\n\r\n");
}

#define STREAM "text/event-stream; charset=utf-8"
#define RESPONSE(out)                                                                              \
        "{\"OUT\":" out ",\"id\":\"the id\",\"model_name\":\"model\",\"model_version\":\"3\","     \
        "\"p\":-7}"
#define EVENT(out) "data: " RESPONSE(out) "\n\n"
#define EXACTLY_ONE                                                                                \
        "{\"error\":\"generate expects model to produce exactly 1 response, use generate stream "  \
        "for model that generates various number of responses\"}"

/* ---- generate ---- */

static void one_response(void **state) {
        (void)state;
        run("generate");
        respond(NULL, 2, FINAL);
        release();
        expect_head("200 OK", HTTP_JSON);
        expect_chunk(RESPONSE("[7,7]"));
        expect_end();
        assert_string_equal(strbuf_cstr(&fake.calls), "new m -1\nint k=1\ninput INPUT 13 1\n"
                                                      "append INPUT '\2'\n");
}

static void one_response_and_flags_alone(void **state) {
        (void)state;
        run("generate");
        respond(NULL, 1, 0);
        respond_flags_only();
        release();
        expect_head("200 OK", HTTP_JSON);
        expect_chunk(RESPONSE("7"));
        expect_end();
}

static void no_response(void **state) {
        (void)state;
        run("generate");
        respond_flags_only();
        release();
        expect_head("200 OK", HTTP_JSON);
        expect_chunk(EXACTLY_ONE);
        expect_end();
}

static void several_responses(void **state) {
        (void)state;
        run("generate");
        for (int i = 0; i < 100; i++) {
                respond(NULL, 1, 0);
                assert_true(fake.n_responses <= 1); /* none is kept but the first */
        }
        respond(NULL, 1, FINAL);
        release();
        expect_head("200 OK", HTTP_JSON);
        expect_chunk(EXACTLY_ONE);
        expect_end();
}

static void several_responses_after_a_failure(void **state) {
        (void)state;
        run("generate");
        respond("not now", 1, 0);
        respond(NULL, 1, FINAL);
        release();
        expect_head("503 Service Unavailable", HTTP_JSON);
        expect_chunk(EXACTLY_ONE);
        expect_end();
}

static void failure(void **state) {
        (void)state;
        run("generate");
        respond("not now", 0, FINAL);
        release();
        expect_head("503 Service Unavailable", HTTP_JSON);
        expect_chunk("{\"error\":\"not now\"}");
        expect_end();
}

/* More than what lives in the arena. */
static void large_response(void **state) {
        AUTO_STRBUF want;

        (void)state;
        strbuf_init(&want, 0);
        strbuf_puts(&want, "{\"OUT\":[7");
        for (int i = 1; i < 100000; i++)
                strbuf_puts(&want, ",7");
        strbuf_puts(&want, "],\"id\":\"the id\",\"model_name\":\"model\",\"model_version\":\"3\","
                           "\"p\":-7}");
        run("generate");
        respond(NULL, 100000, FINAL);
        release();
        expect_head("200 OK", HTTP_JSON);
        expect_chunk(strbuf_cstr(&want));
        expect_end();
}

/* ---- generate_stream ---- */

/* Each event arrives before the model makes the next one. */
static void events_as_they_come(void **state) {
        (void)state;
        run("generate_stream");
        respond(NULL, 1, 0);
        expect_head("200 OK", STREAM);
        expect_chunk(EVENT("7"));
        respond(NULL, 3, 0);
        expect_chunk(EVENT("[7,7,7]"));
        respond(NULL, 1, FINAL);
        expect_chunk(EVENT("7"));
        release();
        expect_end();
        /* And the connection goes on. */
        t.request = NULL;
        run("generate_stream");
        respond(NULL, 1, FINAL);
        release();
        expect_head("200 OK", STREAM);
        expect_chunk(EVENT("7"));
        expect_end();
}

static void empty_final_response(void **state) {
        (void)state;
        run("generate_stream");
        respond(NULL, 1, 0);
        respond_flags_only();
        release();
        expect_head("200 OK", STREAM);
        expect_chunk(EVENT("7"));
        expect_end();
}

static void nothing_but_the_end(void **state) {
        (void)state;
        run("generate_stream");
        release();
        respond_flags_only();
        expect_head("200 OK", STREAM);
        expect_end();
}

static void failure_first(void **state) {
        (void)state;
        run("generate_stream");
        respond("not now", 0, 0);
        expect_head("503 Service Unavailable", STREAM);
        expect_chunk("data: {\"error\":\"not now\"}\n\n");
        respond(NULL, 1, FINAL);
        release();
        expect_chunk(EVENT("7"));
        expect_end();
}

static void failure_later(void **state) {
        (void)state;
        run("generate_stream");
        respond(NULL, 1, 0);
        respond("not now", 0, FINAL);
        release();
        expect_head("200 OK", STREAM);
        expect_chunk(EVENT("7"));
        expect_chunk("data: {\"error\":\"not now\"}\n\n");
        expect_end();
}

static void many_events(void **state) {
        enum { N = 5000 };

        (void)state;
        run("generate_stream");
        for (int i = 0; i < N; i++)
                respond(NULL, 1 + (size_t)i % 3, 0);
        respond_flags_only();
        release();
        expect_head("200 OK", STREAM);
        for (int i = 0; i < N; i++)
                expect_chunk(i % 3 == 0   ? EVENT("7")
                             : i % 3 == 1 ? EVENT("[7,7]")
                                          : EVENT("[7,7,7]"));
        expect_end();
}

/* ---- clients ---- */

static void wait_for_cancel(void) {
        MUTEX_GUARD(&t.f.seen.lock);

        while (!t.request->is_cancelled)
                cond_wait(&t.f.seen.changed, &t.f.seen.lock);
}

static void client_leaves_a_stream(void **state) {
        (void)state;
        run("generate_stream");
        respond(NULL, 1, 0);
        expect_head("200 OK", STREAM);
        expect_chunk(EVENT("7"));
        assert_false(t.request->is_cancelled);
        close(t.fd);
        wait_for_cancel();
        respond(NULL, 1, 0); /* what still comes is dropped */
        respond_flags_only();
        release();
        seen_wait(&t.f.seen, &t.f.seen.n_access, 1);
        assert_non_null(strstr(t.f.seen.access.ptr, " aborted\n"));
        t.fd = client_open(&t.f);
}

static void client_leaves_before_the_answer(void **state) {
        (void)state;
        run("generate");
        close(t.fd);
        wait_for_cancel();
        respond(NULL, 1, FINAL);
        release();
        seen_wait(&t.f.seen, &t.f.seen.n_access, 1);
        t.fd = client_open(&t.f);
}

/* What is made and not read is bounded: then the client counts as gone. */
static void client_does_not_read(void **state) {
        (void)state;
        open_all();
        t.f.options.limits.unsent_bytes = 1 << 20;
        start_all();
        run("generate_stream");
        for (int i = 0; i < 1000 && !t.request->is_cancelled; i++)
                respond(NULL, 50000, 0);
        wait_for_cancel();
        respond_flags_only();
        release();
        seen_wait(&t.f.seen, &t.f.seen.n_access, 1);
        assert_string_equal(strbuf_cstr(&t.f.seen.rejected), "unsent_bytes ");
        teardown(state);
}

/* Responses that are not with the socket are kept, so that the backend learns of its reader's pace;
 * once read they are not. */
static void slow_reader(void **state) {
        enum { N = 400, ELEMENTS = 50000 };
        AUTO_STRBUF event;

        (void)state;
        strbuf_init(&event, 0);
        strbuf_puts(&event, "data: {\"OUT\":[7");
        for (int i = 1; i < ELEMENTS; i++)
                strbuf_puts(&event, ",7");
        strbuf_puts(&event, "],\"id\":\"the id\",\"model_name\":\"model\",\"model_version\":\"3\","
                            "\"p\":-7}\n\n");
        run("generate_stream");
        for (int i = 0; i < N; i++)
                respond(NULL, ELEMENTS, 0);
        expect_head("200 OK", STREAM);
        assert_true(fake.n_responses > N / 4); /* a socket takes far less */
        for (int i = 0; i < N; i++)
                expect_chunk(strbuf_cstr(&event));
        for (int i = 0; i < 2; i++) { /* with the second the loop is done with the first */
                respond(NULL, 1, 0);
                expect_chunk(EVENT("7"));
        }
        assert_true(fake.n_responses <= 1);
        respond_flags_only();
        release();
        expect_end();
}

/* ---- before the model ---- */

static void refusals(void **state) {
        (void)state;
        post("generate_stream", "{\"INPUT\":1}");
        client_expect_answer(t.fd, 400,
                             "{\"error\":\"Unable to parse JSON bytes array: attempt to access "
                             "JSON non-string as string\"}");
        fake.refuse = "New";
        post("generate", "{");
        client_expect_answer(t.fd, 404, "{\"error\":\"New\"}");
        fake.refuse = "ModelInput";
        post("generate", "{\"INPUT\":\"x\"}");
        client_expect_answer(t.fd, 404, "{\"error\":\"ModelInput\"}");
        fake.refuse = "InferAsync";
        post("generate_stream", "{\"INPUT\":\"x\"}");
        client_expect_answer(t.fd, 404, "{\"error\":\"InferAsync\"}");
        fake.refuse = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

SUITE(http_generate) {
        const struct CMUnitTest tests[] = {
                TEST(one_response),
                TEST(one_response_and_flags_alone),
                TEST(no_response),
                TEST(several_responses),
                TEST(several_responses_after_a_failure),
                TEST(failure),
                TEST(large_response),
                TEST(events_as_they_come),
                TEST(empty_final_response),
                TEST(nothing_but_the_end),
                TEST(failure_first),
                TEST(failure_later),
                TEST(many_events),
                TEST(client_leaves_a_stream),
                TEST(client_leaves_before_the_answer),
                cmocka_unit_test(client_does_not_read),
                TEST(slow_reader),
                TEST(refusals),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
