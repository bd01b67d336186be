/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/mem.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_map.h"
#include "grpc_service.pb-c.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers of the core ---- */

struct TRITONSERVER_Message {
        const char *json;
};

struct TRITONSERVER_Error {
        TRITONSERVER_Error_Code code;
        const char             *text;
};

static unsigned n_messages, n_errors;

struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(struct TRITONSERVER_Message *m,
                                                               const char **base, size_t *size) {
        *base = m->json;
        *size = strlen(m->json);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(struct TRITONSERVER_Message *m) {
        free(m);
        n_messages--;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *text) {
        struct TRITONSERVER_Error *e = mem_alloc(sizeof(*e));

        *e = (struct TRITONSERVER_Error){ code, text };
        n_errors++;
        return e;
}

void TRITONSERVER_ErrorDelete(struct TRITONSERVER_Error *e) {
        free(e);
        n_errors--;
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(struct TRITONSERVER_Error *e) {
        return e->code;
}

const char *TRITONSERVER_ErrorMessage(struct TRITONSERVER_Error *e) {
        return e->text;
}

static struct arena arena;

static int setup(void **state) {
        (void)state;
        arena_init(&arena, NULL, 0, 0);
        return 0;
}

static int teardown(void **state) {
        (void)state;
        arena_done(&arena);
        assert_int_equal(n_messages, 0);
        assert_int_equal(n_errors, 0);
        return 0;
}

static struct error *map_text(const ProtobufCMessageDescriptor *type, const char *json,
                              ProtobufCMessage **ret) {
        struct TRITONSERVER_Message answer = { json };

        return rpc_map_answer(type, &answer, &arena, ret);
}

static void *map(const ProtobufCMessageDescriptor *type, const char *json) {
        ProtobufCMessage *m;
        struct error     *err = map_text(type, json, &m);

        if (err != NULL)
                fail_msg("%s", err->message);
        return m;
}

static void answers_as_they_are(void **state) {
        Inference__ModelMetadataResponse *m =
                map(&inference__model_metadata_response__descriptor,
                    "{\"name\":\"m\",\"versions\":[\"1\",\"3\"],\"platform\":\"p\",\"inputs\":"
                    "[{\"name\":\"I\",\"datatype\":\"FP32\",\"shape\":[-1,3]}],\"outputs\":[]}");

        (void)state;
        assert_string_equal(m->name, "m");
        assert_int_equal(m->n_versions, 2);
        assert_string_equal(m->versions[1], "3");
        assert_string_equal(m->platform, "p");
        assert_int_equal(m->n_inputs, 1);
        assert_string_equal(m->inputs[0]->datatype, "FP32");
        assert_int_equal(m->inputs[0]->n_shape, 2);
        assert_int_equal(m->inputs[0]->shape[0], -1);
        assert_int_equal(m->n_outputs, 0);
}

static void answers_in_a_field(void **state) {
        Inference__RepositoryIndexResponse *index =
                map(&inference__repository_index_response__descriptor,
                    "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},{\"name\":\"b\"}]");
        Inference__ModelConfigResponse *config =
                map(&inference__model_config_response__descriptor,
                    "{\"name\":\"c\",\"max_batch_size\":8,\"input\":[{\"data_type\":"
                    "\"TYPE_FP32\",\"dims\":[\"-1\"]}]}");

        (void)state;
        assert_int_equal(index->n_models, 2);
        assert_string_equal(index->models[0]->state, "READY");
        assert_string_equal(index->models[1]->name, "b");
        assert_string_equal(index->models[1]->version, "");
        assert_string_equal(config->config->name, "c");
        assert_int_equal(config->config->max_batch_size, 8);
        assert_int_equal(config->config->input[0]->dims[0], -1);
}

static void answers_with_a_map(void **state) {
        Inference__ModelStatisticsResponse *m =
                map(&inference__model_statistics_response__descriptor,
                    "{\"model_stats\":[{\"name\":\"m\",\"inference_count\":18446744073709551615,"
                    "\"response_stats\":{\"0\":{\"success\":{\"count\":2,\"ns\":7}},\"1\":{}}}]}");

        (void)state;
        assert_true(m->model_stats[0]->inference_count == UINT64_MAX);
        assert_int_equal(m->model_stats[0]->n_response_stats, 2);
        assert_string_equal(m->model_stats[0]->response_stats[0]->key, "0");
        assert_int_equal(m->model_stats[0]->response_stats[0]->value->success->ns, 7);
        assert_string_equal(m->model_stats[0]->response_stats[1]->key, "1");
}

static void answers_that_do_not_fit(void **state) {
        const ProtobufCMessageDescriptor *type = &inference__model_metadata_response__descriptor;
        ProtobufCMessage                 *m;
        struct error                     *err;

        (void)state;
        /* What the message has no field for is for HTTP; what does not fit is nobody's fault but ours. */
        assert_null(map_text(type, "{\"only_http\":{},\"name\":\"m\"}", &m));
        assert_string_equal(((Inference__ModelMetadataResponse *)m)->name, "m");
        err = map_text(type, "{\"name\":1}", &m);
        assert_int_equal(err->code, ERR_INTERNAL);
        assert_non_null(strstr(err->message, "ModelMetadataResponse"));
        assert_non_null(strstr(err->message, "name"));
        error_free(err);
}

/* ---- requests ---- */

static struct error *read(const ProtobufCMessageDescriptor *type, struct str bytes, void *ret) {
        return rpc_map_request(type, bytes, &arena, ret);
}

static void requests(void **state) {
        Inference__ModelReadyRequest *q;

        (void)state;
        assert_null(read(&inference__model_ready_request__descriptor,
                         STR_LIT("\x0a\x01m\x12\x01"
                                 "2"),
                         &q));
        assert_string_equal(q->name, "m");
        assert_string_equal(q->version, "2");
        assert_null(read(&inference__model_ready_request__descriptor, STR_LIT(""), &q));
        assert_string_equal(q->name, "");
        /* Unknown fields are nobody's concern. */
        assert_null(read(&inference__model_ready_request__descriptor, STR_LIT("\x7a\x01x"), &q));
}

static void requests_that_are_none(void **state) {
        static const struct str rows[] = {
                { "\x0a\x05x", 3 },        /* cut */
                { "\x0a\x01\xff", 3 },     /* not UTF-8 */
                { "\x0a\x02\xc0\x80", 4 }, /* overlong */
                { "\xff", 1 },
        };
        struct error *err;
        void         *q;

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                err = read(&inference__model_ready_request__descriptor, rows[i], &q);
                assert_non_null(err);
                assert_int_equal(err->code, ERR_INVALID_ARG);
                assert_string_equal(err->message, "failed to parse the ModelReadyRequest message");
                error_free(err);
        }
        /* Texts are looked at wherever they are. */
        err = read(&inference__log_settings_request__descriptor,
                   STR_LIT("\x0a\x08\x0a\x01x\x12\x03\x1a\x01\xff"), &q);
        assert_non_null(err);
        error_free(err);
}

/* Memory is in proportion to the message: a map of empty entries would be dear. */
static void memory_of_requests(void **state) {
        size_t        len = (size_t)4 << 20;
        char         *bytes = mem_alloc(len);
        struct error *err;
        void         *q;

        (void)state;
        for (size_t i = 0; i < len; i += 2)
                memcpy(bytes + i, "\x0a\x00", 2);
        err = read(&inference__log_settings_request__descriptor, str_range(bytes, len), &q);
        assert_non_null(err);
        assert_true(arena.used_bytes <= 8 * len);
        error_free(err);
        arena_reset(&arena);

        /* A large file in a load is in proportion. */
        memset(bytes, 'x', len);
        memcpy(bytes, "\x0a\xfb\xff\xff\x01", 5); /* repository_name of 4 MiB - 5 bytes */
        assert_null(read(&inference__repository_model_load_request__descriptor,
                         str_range(bytes, len), &q));
        assert_int_equal(strlen(((Inference__RepositoryModelLoadRequest *)q)->repository_name),
                         len - 5);
        free(bytes);
}

/* ---- replies ---- */

static void replies(void **state) {
        Inference__ServerMetadataResponse m = INFERENCE__SERVER_METADATA_RESPONSE__INIT;
        char                             *name = mem_alloc(10001);

        (void)state;
        memset(name, 'n', 10000);
        name[10000] = '\0';
        /* Nothing, a little, and what needs a buffer of its own. */
        for (size_t len = 0; len <= 10000; len = len * 100 + 100) {
                uint8_t expected[10100];
                size_t  n;

                fake_call_init();
                m.name = name + 10000 - len;
                n = inference__server_metadata_response__pack(&m, expected);
                rpc_map_reply(&fake_call.call, &m.base);
                assert_int_equal(fake_call.code, GRPC_OK);
                assert_int_equal(fake_call.n_messages, 1);
                assert_int_equal(fake_call.messages[0].len, n);
                assert_memory_equal(strbuf_cstr(&fake_call.messages[0]), expected, n);
                fake_call_done();
        }
        free(name);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

SUITE(rpc_map) {
        const struct CMUnitTest tests[] = {
                TEST(answers_as_they_are),
                TEST(answers_in_a_field),
                TEST(answers_with_a_map),
                TEST(answers_that_do_not_fit),
                TEST(requests),
                TEST(requests_that_are_none),
                TEST(memory_of_requests),
                TEST(replies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
