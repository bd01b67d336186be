/* SPDX-License-Identifier: BSD-3-Clause */
/* Models that are loaded, changed and unloaded by a program that embeds the server.
 *
 *   test_model_control <directory of backends>
 */
#include "api_assert.h"
#include "embedded.h"
#include "model_place.h"
#include "triton/core/neso.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define IO                                                                                         \
        "input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]\n"                       \
        "output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]\n"
#define JSON_IO                                                                                    \
        "\"input\":[{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}],"             \
        "\"output\":[{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1]}]"

static const char  config_text[] = "backend: \"identity\"\n" IO;
static const char  sent_config[] = "{\"backend\":\"identity\"," JSON_IO "}";
static const char  ambiguous[] = "There are 2 identifiers of model 'm' in global map, model "
                                 "namespace must be provided to resolve ambiguity.";
static const char *backend_directory;

struct place {
        struct model_place          models;
        struct TRITONSERVER_Server *server;
};

static void make_repositories(struct place *p) {
        model_place_open(&p->models);
        model_place_add_folder(&p->models, "models");
        model_place_add_model(&p->models, "models/m", config_text, NULL);
        model_place_add_folder(&p->models, "more");
        model_place_add_model(&p->models, "more/inside", config_text, NULL);
}

static void begin(struct place *p, TRITONSERVER_ModelControlMode mode, const char *startup) {
        struct TRITONSERVER_ServerOptions *options;
        char                               path[256];

        make_repositories(p);
        snprintf(path, sizeof(path), "%s/models", p->models.root);
        options = embedded_options(path, backend_directory);
        assert_ok(TRITONSERVER_ServerOptionsSetModelControlMode(options, mode));
        if (startup != NULL)
                assert_ok(TRITONSERVER_ServerOptionsSetStartupModel(options, startup));
        p->server = embedded_start(options);
}

/* A server whose only repository is not there, and which is to go on nevertheless. */
static void begin_unreadable(struct place *p) {
        struct TRITONSERVER_ServerOptions *options;
        char                               path[256];

        make_repositories(p);
        snprintf(path, sizeof(path), "%s/nowhere", p->models.root);
        options = embedded_options(path, backend_directory);
        assert_ok(
                TRITONSERVER_ServerOptionsSetModelControlMode(options,
                                                              TRITONSERVER_MODEL_CONTROL_EXPLICIT));
        assert_ok(TRITONSERVER_ServerOptionsSetExitOnError(options, false));
        p->server = embedded_start(options);
}

static void end(struct place *p) {
        assert_ok(TRITONSERVER_ServerStop(p->server));
        assert_ok(TRITONSERVER_ServerDelete(p->server));
        model_place_close(&p->models);
}

static bool is_ready(const struct place *p, const char *model, int64_t version) {
        bool ready = false;

        assert_ok(TRITONSERVER_ServerModelIsReady(p->server, model, version, &ready));
        return ready;
}

static void assert_index(const struct place *p, uint32_t flags, const char *expected) {
        struct TRITONSERVER_Message *message;
        const char                  *json;
        size_t                       len;

        assert_ok(TRITONSERVER_ServerModelIndex(p->server, flags, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        assert_int_equal(len, strlen(expected));
        assert_memory_equal(json, expected, len);
        assert_ok(TRITONSERVER_MessageDelete(message));
}

static void test_explicit(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL);
        assert_index(&p, 0, "[{\"name\":\"m\"}]");
        assert_index(&p, TRITONSERVER_INDEX_FLAG_READY, "[]");
        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "m"));
        assert_true(is_ready(&p, "m", -1));
        assert_index(&p, TRITONSERVER_INDEX_FLAG_READY,
                     "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "m"));
        assert_false(is_ready(&p, "m", -1));
        assert_ok(TRITONSERVER_ServerUnloadModelAndDependents(p.server, "m"));
        assert_error(TRITONSERVER_ServerLoadModel(p.server, "nobody"), TRITONSERVER_ERROR_INTERNAL,
                     "failed to load 'nobody', failed to poll from model repository");
        assert_error(TRITONSERVER_ServerLoadModel(p.server, ""), TRITONSERVER_ERROR_INVALID_ARG,
                     "Model name cannot be empty. Please enter a valid name to deploy.");
        assert_error(TRITONSERVER_ServerLoadModel(p.server, "../more/inside"),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "invalid model name '../more/inside', model name must not contain path "
                     "traversal characters");
        assert_error(TRITONSERVER_ServerPollModelRepository(p.server),
                     TRITONSERVER_ERROR_UNAVAILABLE, "polling is disabled");
        end(&p);
}

/* What can be no model's name is refused with the reason; three dots are a name like others, which
 * no repository has. Unloading what is not there succeeds, whatever it is called. */
static void test_names(void **state) {
        static const char *const blank[] = { "", " ", "  ", "\t", "\n", " \r\n", "\v\f" };
        static const char *const leading_out[] = {
                ".", "..", " ..", ".. ", "../etc", "a/b", "a\\b"
        };
        static const char *const unknown[] = { "...", "..m", " m", "nobody" };
        struct place             p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL);
        for (size_t i = 0; i < sizeof(blank) / sizeof(*blank); i++) {
                assert_error(TRITONSERVER_ServerLoadModel(p.server, blank[i]),
                             TRITONSERVER_ERROR_INVALID_ARG,
                             "Model name cannot be empty. Please enter a valid name to deploy.");
                assert_ok(TRITONSERVER_ServerUnloadModel(p.server, blank[i]));
        }
        for (size_t i = 0; i < sizeof(leading_out) / sizeof(*leading_out); i++) {
                char text[128];

                snprintf(text, sizeof(text),
                         "invalid model name '%s', model name must not contain path traversal "
                         "characters",
                         leading_out[i]);
                assert_error(TRITONSERVER_ServerLoadModel(p.server, leading_out[i]),
                             TRITONSERVER_ERROR_INVALID_ARG, text);
                assert_ok(TRITONSERVER_ServerUnloadModel(p.server, leading_out[i]));
        }
        for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
                char text[128];

                snprintf(text, sizeof(text),
                         "failed to load '%s', failed to poll from model repository", unknown[i]);
                assert_error(TRITONSERVER_ServerLoadModel(p.server, unknown[i]),
                             TRITONSERVER_ERROR_INTERNAL, text);
                assert_ok(TRITONSERVER_ServerUnloadModel(p.server, unknown[i]));
        }
        assert_error(TRITONSERVER_ServerLoadModel(p.server, "a\nb"), TRITONSERVER_ERROR_INVALID_ARG,
                     "invalid model name: byte 2 is a control character (0x0a)");
        assert_ok(TRITONSERVER_ServerUnloadModel(p.server, "a\nb"));
        end(&p);
}

static void test_sent_files(void **state) {
        struct place                         p;
        struct TRITONSERVER_Parameter       *config, *file, *bad, *odd, *code;
        const struct TRITONSERVER_Parameter *both[2];

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT, "m");
        config = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, sent_config);
        file = TRITONSERVER_ParameterBytesNew("file:7/model", "bytes", 5);
        bad = TRITONSERVER_ParameterBytesNew("file:../7/model", "bytes", 5);
        code = TRITONSERVER_ParameterBytesNew("file:7/model",
                                              "\x7f"
                                              "ELF",
                                              4);
        odd = TRITONSERVER_ParameterNew("file:7/model", TRITONSERVER_PARAMETER_STRING, "text");
        both[0] = config;
        both[1] = file;
        assert_ok(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 2));
        assert_true(is_ready(&p, "m", 7));
        assert_false(is_ready(&p, "m", 1));
        assert_ok(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 1));
        assert_true(is_ready(&p, "m", 1));
        assert_error(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", &both[1], 1),
                     TRITONSERVER_ERROR_INTERNAL,
                     "failed to load 'm', failed to poll from model repository");
        both[1] = bad;
        assert_error(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 2),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "Invalid file parameter 'file:../7/model', the path must stay within model "
                     "directory.");
        both[1] = code;
        assert_error(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 2),
                     TRITONSERVER_ERROR_UNSUPPORTED,
                     "Uploaded code is disabled: 'file:7/model' of model 'm' is a shared object. "
                     "Start the server with '--allow-uploaded-backends=true' to enable.");
        both[1] = odd;
        assert_error(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 2),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "unrecognized load parameter 'file:7/model' with type 'STRING': 'config' must "
                     "be a string, 'file:<path>' must be bytes");
        both[1] = NULL;
        assert_error(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", both, 2),
                     TRITONSERVER_ERROR_INVALID_ARG, "a load parameter is NULL");
        assert_true(is_ready(&p, "m", 1));
        TRITONSERVER_ParameterDelete(config);
        TRITONSERVER_ParameterDelete(file);
        TRITONSERVER_ParameterDelete(bad);
        TRITONSERVER_ParameterDelete(odd);
        TRITONSERVER_ParameterDelete(code);
        end(&p);
}

/* One value where a list is meant counts as a list of one, as for the reference server. */
static void test_sent_list_of_one(void **state) {
        static const char lenient[] =
                "{\"backend\":\"identity\",\"instanceGroup\":{\"count\":\"3\",\"kind\":2},"
                "\"input\":{\"name\":\"INPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":-1},"
                "\"output\":{\"name\":\"OUTPUT0\",\"data_type\":\"TYPE_FP32\",\"dims\":-1}}";
        static const char                    group[] = "\"kind\":\"KIND_CPU\",\"count\":3,";
        struct place                         p;
        struct TRITONSERVER_Parameter       *config;
        const struct TRITONSERVER_Parameter *parameters[1];
        struct TRITONSERVER_Message         *message;
        const char                          *json;
        size_t                               len;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL);
        config = TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, lenient);
        parameters[0] = config;
        assert_ok(TRITONSERVER_ServerLoadModelWithParameters(p.server, "m", parameters, 1));
        assert_ok(TRITONSERVER_ServerModelConfig(p.server, "m", -1, 1, &message));
        assert_ok(TRITONSERVER_MessageSerializeToJson(message, &json, &len));
        assert_non_null(memmem(json, len, group, strlen(group)));
        assert_ok(TRITONSERVER_MessageDelete(message));
        TRITONSERVER_ParameterDelete(config);
        end(&p);
}

static void test_repositories(void **state) {
        struct place                         p;
        char                                 more[256], text[512];
        struct TRITONSERVER_Parameter       *name;
        const struct TRITONSERVER_Parameter *mapping[1];

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_EXPLICIT, NULL);
        snprintf(more, sizeof(more), "%s/more", p.models.root);
        name = TRITONSERVER_ParameterNew("inside", TRITONSERVER_PARAMETER_STRING, "outside");
        mapping[0] = name;
        assert_ok(TRITONSERVER_ServerRegisterModelRepository(p.server, more, mapping, 1));
        snprintf(text, sizeof(text), "model repository '%s' has already been registered", more);
        assert_error(TRITONSERVER_ServerRegisterModelRepository(p.server, more, NULL, 0),
                     TRITONSERVER_ERROR_ALREADY_EXISTS, text);
        assert_index(&p, 0, "[{\"name\":\"m\"},{\"name\":\"outside\"}]");
        assert_ok(TRITONSERVER_ServerLoadModel(p.server, "outside"));
        assert_true(is_ready(&p, "outside", 1));
        assert_ok(TRITONSERVER_ServerUnregisterModelRepository(p.server, more));
        assert_true(is_ready(&p, "outside", 1));
        snprintf(text, sizeof(text), "failed to unregister '%s', repository not found", more);
        assert_error(TRITONSERVER_ServerUnregisterModelRepository(p.server, more),
                     TRITONSERVER_ERROR_INVALID_ARG, text);
        TRITONSERVER_ParameterDelete(name);
        end(&p);
}

/* The program decides when to look. */
static void test_unreadable(void **state) {
        static const char            not_ready[] = "Server not ready";
        struct TRITONSERVER_Message *message = NULL;
        struct place                 p;
        bool                         is_live = true, is_ready_now = true;

        (void)state;
        begin_unreadable(&p);
        assert_ok(TRITONSERVER_ServerIsLive(p.server, &is_live));
        assert_ok(TRITONSERVER_ServerIsReady(p.server, &is_ready_now));
        assert_false(is_live);
        assert_false(is_ready_now);
        assert_false(is_ready(&p, "m", -1));
        assert_ok(TRITONSERVER_ServerMetadata(p.server, &message));
        assert_ok(TRITONSERVER_MessageDelete(message));
        assert_error(TRITONSERVER_ServerModelIndex(p.server, 0, &message),
                     TRITONSERVER_ERROR_UNAVAILABLE, not_ready);
        assert_error(TRITONSERVER_ServerModelStatistics(p.server, "", -1, &message),
                     TRITONSERVER_ERROR_UNAVAILABLE, not_ready);
        assert_error(TRITONSERVER_ServerModelMetadata(p.server, "m", -1, &message),
                     TRITONSERVER_ERROR_UNAVAILABLE, not_ready);
        assert_error(TRITONSERVER_ServerLoadModel(p.server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
                     not_ready);
        assert_error(TRITONSERVER_ServerUnloadModel(p.server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
                     not_ready);
        assert_error(TRITONSERVER_ServerRegisterModelRepository(p.server, p.models.root, NULL, 0),
                     TRITONSERVER_ERROR_UNAVAILABLE, not_ready);
        assert_error(TRITONSERVER_ServerUnregisterModelRepository(p.server, p.models.root),
                     TRITONSERVER_ERROR_UNAVAILABLE, not_ready);
        end(&p);
}

static void test_poll(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_POLL, NULL);
        assert_true(is_ready(&p, "m", 1));
        model_place_add_model(&p.models, "models/new", config_text, NULL);
        model_place_add_folder(&p.models, "models/m/2");
        assert_ok(TRITONSERVER_ServerPollModelRepository(p.server));
        assert_index(&p, TRITONSERVER_INDEX_FLAG_READY,
                     "[{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_ok(TRITONSERVER_ServerPollModelRepository(p.server));
        assert_index(&p, TRITONSERVER_INDEX_FLAG_READY,
                     "[{\"name\":\"m\",\"version\":\"2\",\"state\":\"READY\"},"
                     "{\"name\":\"new\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_error(TRITONSERVER_ServerLoadModel(p.server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
                     "explicit model load / unload is not allowed if polling is enabled");
        assert_error(TRITONSERVER_ServerUnloadModel(p.server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
                     "explicit model load / unload is not allowed if polling is enabled");
        assert_error(TRITONSERVER_ServerRegisterModelRepository(p.server, "/tmp", NULL, 0),
                     TRITONSERVER_ERROR_UNSUPPORTED,
                     "repository registration is not allowed if model control mode is not "
                     "EXPLICIT");
        end(&p);
}

static void assert_infers(const struct place *p, const char *model, const char *refusal) {
        struct TRITONSERVER_InferenceRequest *request;
        struct TRITONSERVER_Error            *err;

        err = TRITONSERVER_InferenceRequestNew(&request, p->server, model, -1);
        if (refusal != NULL) {
                assert_error(err, TRITONSERVER_ERROR_INVALID_ARG, refusal);
                return;
        }
        assert_ok(err);
        assert_ok(TRITONSERVER_InferenceRequestDelete(request));
}

/* Each repository is a namespace: both models m are loaded, and the name alone means neither. */
static void test_namespaces(void **state) {
        struct TRITONSERVER_ServerOptions *options;
        struct TRITONSERVER_Message       *message;
        struct place                       p;
        char                               path[256];

        (void)state;
        make_repositories(&p);
        model_place_add_model(&p.models, "more/m", config_text, NULL);
        snprintf(path, sizeof(path), "%s/models", p.models.root);
        options = embedded_options(path, backend_directory);
        snprintf(path, sizeof(path), "%s/more", p.models.root);
        assert_ok(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, path));
        assert_ok(TRITONSERVER_ServerOptionsSetModelNamespacing(options, true));
        p.server = embedded_start(options);
        assert_index(&p, 0,
                     "[{\"name\":\"inside\",\"version\":\"1\",\"state\":\"READY\"},"
                     "{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\"},"
                     "{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\"}]");
        assert_true(is_ready(&p, "inside", 1));
        assert_false(is_ready(&p, "m", 1));
        assert_infers(&p, "inside", NULL);
        assert_infers(&p, "m", ambiguous);
        assert_infers(&p, "none", "Request for unknown model: 'none' is not found");
        assert_error(TRITONSERVER_ServerModelMetadata(p.server, "m", -1, &message),
                     TRITONSERVER_ERROR_INVALID_ARG, ambiguous);
        assert_error(TRITONSERVER_ServerModelStatistics(p.server, "m", -1, &message),
                     TRITONSERVER_ERROR_INVALID_ARG, ambiguous);
        assert_error(TRITONSERVER_ServerModelConfig(p.server, "m", -1, 1, &message),
                     TRITONSERVER_ERROR_INVALID_ARG, ambiguous);
        end(&p);
}

static void test_none(void **state) {
        struct place p;

        (void)state;
        begin(&p, TRITONSERVER_MODEL_CONTROL_NONE, NULL);
        assert_true(is_ready(&p, "m", 1));
        assert_error(TRITONSERVER_ServerUnloadModel(p.server, "m"), TRITONSERVER_ERROR_UNAVAILABLE,
                     "explicit model load / unload is not allowed if polling is enabled");
        assert_error(TRITONSERVER_ServerPollModelRepository(p.server),
                     TRITONSERVER_ERROR_UNAVAILABLE, "polling is disabled");
        end(&p);
}

int main(int argc, char **argv) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_explicit),
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_sent_files),
                cmocka_unit_test(test_repositories),
                cmocka_unit_test(test_poll),
                cmocka_unit_test(test_none),
                cmocka_unit_test(test_namespaces),
                cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_sent_list_of_one),
        };

        if (argc != 2) {
                fprintf(stderr, "usage: %s <directory of backends>\n", argv[0]);
                return 2;
        }
        backend_directory = argv[1];
        return cmocka_run_group_tests(tests, NULL, NULL);
}
