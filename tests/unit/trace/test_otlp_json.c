/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "base/strbuf.h"
#include "trace/otlp_json.h"
#include "trace/trace_fixture.h"
#include "triton/core/tritonserver.h"

#include <string.h>

#define HEAD(attributes)                                                                           \
        "{\"resourceSpans\":[{\"resource\":{\"attributes\":[" attributes "]},\"scopeSpans\":["     \
        "{\"scope\":{\"name\":\"triton-server\",\"version\":\"" NESO_VERSION "\"},\"spans\":["
#define TAIL "]}]}]}"
#define TEXT(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"

static size_t print(const char *const *attributes, size_t n, const struct trace_record *r,
                    struct strbuf *out) {
        strbuf_init(out, 0);
        return otlp_json_print(&(struct otlp_resource){ attributes, n }, r, out);
}

static void test_resource(void **state) {
        static const char *const mine[] = { "service.name=mine", "a=b=c", "empty=" };
        AUTO_STRBUF              out = { 0 }, named = { 0 };

        (void)state;
        assert_int_equal(print(NULL, 0, NULL, &out), 0);
        assert_string_equal(strbuf_cstr(&out),
                            HEAD(TEXT("service.name", "triton-inference-server")) TAIL);
        assert_int_equal(print(mine, 3, NULL, &named), 0);
        assert_string_equal(strbuf_cstr(&named),
                            HEAD(TEXT("service.name",
                                      "mine") "," TEXT("a", "b=c") "," TEXT("empty", "")) TAIL);
}

/* A request without any inference: only the front end's points. */
static void test_one_span(void **state) {
        struct trace_record *r = record_new(NULL);
        AUTO_STRBUF          out = { 0 };

        (void)state;
        assert_true(
                traceparent_read(STR_LIT("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
                                 &r->context));
        r->has_context = r->has_parent = true;
        memset(r->parent_span_id, 0xab, sizeof(r->parent_span_id));
        r->tracestate = "a=1";
        r->wall_offset_ns = 1000;
        record_point(r, NULL, -1, "HTTP_RECV_START", 5);
        record_point(r, NULL, -1, "HTTP_SEND_END", 9);
        assert_int_equal(print(NULL, 0, r, &out), 1);
        assert_non_null(strstr(
                strbuf_cstr(&out),
                "\"spans\":[{\"traceId\":\"0af7651916cd43dd8448eb211c80319c\","
                "\"spanId\":\"b7ad6b7169203331\",\"traceState\":\"a=1\","
                "\"parentSpanId\":\"abababababababab\",\"name\":\"InferRequest\",\"kind\":2,"
                "\"startTimeUnixNano\":\"1005\",\"endTimeUnixNano\":\"1009\",\"attributes\":[],"
                "\"events\":[{\"timeUnixNano\":\"1005\",\"name\":\"HTTP_RECV_START\"},"
                "{\"timeUnixNano\":\"1009\",\"name\":\"HTTP_SEND_END\"}],\"status\":{}}]"));
        trace_record_free(r);
}

/* The value of a key after `from`, up to the next quote. */
static const char *value_after(const char *from, const char *key, char *room, size_t n) {
        const char *at = strstr(from, key);

        assert_non_null(at);
        at += strlen(key);
        assert_true(strcspn(at, "\"") < n);
        memcpy(room, at, strcspn(at, "\""));
        room[strcspn(at, "\"")] = '\0';
        return room;
}

/* Children are below their parents; a backend's own START and END are a span. */
static void test_tree(void **state) {
        struct trace_record    *r = record_new(NULL);
        struct trace_inference *parent = record_add(r, 8, 0, "outer", "r");
        struct trace_inference *child = record_add(r, 9, 8, "inner", "");
        AUTO_STRBUF             out = { 0 };
        char                    id[32], of_child[32];
        const char             *outer, *inner, *mine;

        (void)state;
        traceparent_new_id(r->context.trace_id, 16);
        traceparent_new_id(r->context.span_id, 8);
        record_point(r, parent, TRITONSERVER_TRACE_REQUEST_START, "REQUEST_START", 1);
        record_point(r, child, TRITONSERVER_TRACE_REQUEST_START, "REQUEST_START", 2);
        record_point(r, child, TRITONSERVER_TRACE_COMPUTE_START, "COMPUTE_START", 3);
        record_point(r, child, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "MINE_START", 4);
        record_point(r, child, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "ONCE", 5);
        record_point(r, child, TRITONSERVER_TRACE_CUSTOM_ACTIVITY, "MINE_END", 6);
        record_point(r, child, TRITONSERVER_TRACE_COMPUTE_END, "COMPUTE_END", 7);
        assert_int_equal(print(NULL, 0, r, &out), 5);

        outer = strstr(strbuf_cstr(&out), "\"name\":\"outer\"");
        inner = strstr(strbuf_cstr(&out), "\"name\":\"inner\"");
        mine = strstr(strbuf_cstr(&out), "\"name\":\"MINE\"");
        assert_true(outer != NULL && inner != NULL && mine != NULL);
        /* Backwards: the ids stand before the name. */
        while (strncmp(outer, "\"spanId\"", 8) != 0)
                outer--;
        while (strncmp(inner, "\"spanId\"", 8) != 0)
                inner--;
        while (strncmp(mine, "\"spanId\"", 8) != 0)
                mine--;
        value_after(outer, "\"spanId\":\"", id, sizeof(id));
        assert_string_equal(value_after(inner, "\"parentSpanId\":\"", of_child, sizeof(of_child)),
                            id);
        value_after(inner, "\"spanId\":\"", id, sizeof(id));
        assert_string_equal(value_after(mine, "\"parentSpanId\":\"", of_child, sizeof(of_child)),
                            id);
        assert_non_null(strstr(mine, "\"startTimeUnixNano\":\"4\",\"endTimeUnixNano\":\"6\""));
        trace_record_free(r);
}

SUITE(otlp_json) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_resource),
                cmocka_unit_test(test_one_span),
                cmocka_unit_test(test_tree),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
