/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads and unloads as the core is asked for them; that they run beside the loop, and end there. */
#include "suite.h"

#include "base/mem.h"
#include "grpc/fake_call.h"
#include "grpc/rpc_table.h"
#include "grpc_service.pb-c.h"
#include "http/fake_control.h"

#include <stdlib.h>
#include <string.h>

static const struct grpc_method *find_method(const char *path) {
        struct grpc_method_table table = rpc_table();

        for (size_t i = 0; i < table.n_rows; i++)
                if (strcmp(table.rows[i].path, path) == 0)
                        return &table.rows[i];
        fail_msg("no method %s", path);
        return NULL;
}

#define SERVICE "/inference.GRPCInferenceService/"

static void call(const char *path, const ProtobufCMessage *m) {
        size_t   len = protobuf_c_message_get_packed_size(m);
        uint8_t *bytes = mem_alloc(len);

        protobuf_c_message_pack(m, bytes);
        fake_call.call.method = find_method(path);
        fake_call_read(fake_call.call.method->on_message, str_range((char *)bytes, len));
        free(bytes);
}

static int setup(void **state) {
        (void)state;
        memset(&fake_control, 0, sizeof(fake_control));
        mutex_init(&fake_control.lock, LOCK_LOG);
        strbuf_init(&fake_control.orders, 0);
        fake_call_init();
        return 0;
}

static int teardown(void **state) {
        (void)state;
        fake_call_done();
        strbuf_done(&fake_control.orders);
        mutex_done(&fake_control.lock);
        return 0;
}

static void assert_ordered(const char *orders) {
        assert_string_equal(strbuf_cstr(&fake_control.orders), orders);
}

struct load {
        Inference__RepositoryModelLoadRequest                   request;
        Inference__RepositoryModelLoadRequest__ParametersEntry  entries[2];
        Inference__RepositoryModelLoadRequest__ParametersEntry *at[2];
        Inference__ModelRepositoryParameter                     values[2];
};

static void load_init(struct load *l, const char *model) {
        inference__repository_model_load_request__init(&l->request);
        l->request.model_name = (char *)model;
        for (int i = 0; i < 2; i++) {
                inference__repository_model_load_request__parameters_entry__init(&l->entries[i]);
                inference__model_repository_parameter__init(&l->values[i]);
                l->entries[i].value = &l->values[i];
                l->at[i] = &l->entries[i];
        }
        l->entries[0].key = (char *)"config";
        l->values[0].parameter_choice_case =
                INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM;
        l->values[0].string_param = (char *)"{}";
        l->entries[1].key = (char *)"file:1/m";
        l->values[1].parameter_choice_case =
                INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM;
        l->values[1].bytes_param = (ProtobufCBinaryData){ 4, (uint8_t *)"abcd" };
        l->request.parameters = l->at;
}

static void load(void **state) {
        struct load l;

        (void)state;
        load_init(&l, "simple");
        call(SERVICE "RepositoryModelLoad", &l.request.base);
        assert_int_equal(fake_call.n_finished, 0);
        assert_ordered("");
        fake_call_run_work();
        assert_ordered("load simple\n");
        assert_int_equal(fake_call.code, GRPC_OK);
        assert_int_equal(fake_call.n_messages, 1);
        assert_int_equal(fake_call.messages[0].len, 0);
}

static void load_with_overrides(void **state) {
        struct load l;

        (void)state;
        load_init(&l, "simple");
        l.request.n_parameters = 2;
        call(SERVICE "RepositoryModelLoad", &l.request.base);
        fake_call_run_work();
        assert_ordered("load simple config={} file:1/m=abcd\n");
        assert_int_equal(fake_call.code, GRPC_OK);
}

static void load_that_fails(void **state) {
        struct load l;

        (void)state;
        load_init(&l, "other");
        call(SERVICE "RepositoryModelLoad", &l.request.base);
        fake_call_run_work();
        assert_int_equal(fake_call.code, GRPC_INVALID_ARGUMENT);
        assert_string_equal(strbuf_cstr(&fake_call.text), "load failed;\n");
}

/* The order runs on; the call ends with it. */
static void client_goes_away(void **state) {
        struct load l;

        (void)state;
        load_init(&l, "simple");
        call(SERVICE "RepositoryModelLoad", &l.request.base);
        fake_call.call.abort_reason = GRPC_ABORT_CANCELLED;
        fake_call.call.method->on_abort(&fake_call.call);
        assert_int_equal(fake_call.n_finished, 0);
        fake_call_run_work();
        assert_ordered("load simple\n");
        assert_int_equal(fake_call.n_messages, 0);
}

/* What was made of the first parameter is not lost when the second one is wrong. */
static void wrong_parameter(void **state) {
        struct load l;

        (void)state;
        load_init(&l, "simple");
        l.request.n_parameters = 2;
        l.entries[1].key = (char *)"foo";
        call(SERVICE "RepositoryModelLoad", &l.request.base);
        assert_ordered("");
        assert_int_equal(fake_call.code, GRPC_INVALID_ARGUMENT);
        assert_string_equal(strbuf_cstr(&fake_call.text), "unrecognized load parameter 'foo'.");
}

static void unload(bool with_dependents, const char *orders) {
        Inference__RepositoryModelUnloadRequest q =
                INFERENCE__REPOSITORY_MODEL_UNLOAD_REQUEST__INIT;
        Inference__RepositoryModelUnloadRequest__ParametersEntry entry =
                INFERENCE__REPOSITORY_MODEL_UNLOAD_REQUEST__PARAMETERS_ENTRY__INIT;
        Inference__RepositoryModelUnloadRequest__ParametersEntry *at[] = { &entry };
        Inference__ModelRepositoryParameter value = INFERENCE__MODEL_REPOSITORY_PARAMETER__INIT;

        q.model_name = (char *)"simple";
        q.parameters = at;
        q.n_parameters = 1;
        entry.key = (char *)"unload_dependents";
        entry.value = &value;
        value.parameter_choice_case =
                INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
        value.bool_param = with_dependents;
        call(SERVICE "RepositoryModelUnload", &q.base);
        fake_call_run_work();
        assert_ordered(orders);
        assert_int_equal(fake_call.code, GRPC_OK);
}

static void unload_one(void **state) {
        (void)state;
        unload(false, "unload simple\n");
}

static void unload_with_dependents(void **state) {
        (void)state;
        unload(true, "unload with dependents simple\n");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

SUITE(rpc_repository) {
        const struct CMUnitTest tests[] = {
                TEST(load),
                TEST(load_with_overrides),
                TEST(load_that_fails),
                TEST(client_goes_away),
                TEST(wrong_parameter),
                TEST(unload_one),
                TEST(unload_with_dependents),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
