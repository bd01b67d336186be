/* SPDX-License-Identifier: BSD-3-Clause */
/* The small objects of the C API through the library's exported functions alone: errors,
 * parameters, buffer attributes, messages, allocators, options, names, the log.
 */
#include "api_assert.h"
#include "triton/core/neso.h"
#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_versions(void **state) {
        uint32_t major = 99, minor = 99;

        (void)state;
        assert_ok(TRITONSERVER_ApiVersion(&major, &minor));
        assert_int_equal(major, 1);
        assert_int_equal(minor, 34);
        assert_ok(TRITONBACKEND_ApiVersion(&major, &minor));
        assert_int_equal(major, 1);
        assert_int_equal(minor, 19);
        assert_ok(TRITONREPOAGENT_ApiVersion(&major, &minor));
        assert_int_equal(major, 0);
        assert_int_equal(minor, 1);
        major = minor = 99;
        assert_ok(TRITONCACHE_ApiVersion(&major, &minor));
        assert_int_equal(major, 0);
        assert_int_equal(minor, 1);
        major = minor = 99;
        assert_ok(NESO_ApiVersion(&major, &minor));
        assert_int_equal(major, 1);
        assert_int_equal(minor, 0);
        assert_error(TRITONSERVER_ApiVersion(NULL, &minor), TRITONSERVER_ERROR_INVALID_ARG,
                     "TRITONSERVER_ApiVersion: argument 'major' must not be NULL");
        assert_true(strchr(NESO_Version(), '.') != NULL);
}

static void test_errors(void **state) {
        static const char *const names[] = { "Unknown",          "Internal",    "Not found",
                                             "Invalid argument", "Unavailable", "Unsupported",
                                             "Already exists",   "Cancelled" };
        char                     text[] = "a % sign, kept as it is: %s %n";

        (void)state;
        for (int code = 0; code < 8; code++) {
                struct TRITONSERVER_Error *err =
                        TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)code, text);

                assert_int_equal(TRITONSERVER_ErrorCode(err), code);
                assert_string_equal(TRITONSERVER_ErrorCodeString(err), names[code]);
                assert_string_equal(TRITONSERVER_ErrorMessage(err), text);
                assert_ptr_not_equal(TRITONSERVER_ErrorMessage(err), text);
                TRITONSERVER_ErrorDelete(err);
        }
        assert_error(TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, NULL),
                     TRITONSERVER_ERROR_CANCELLED, "");
        assert_int_equal(TRITONSERVER_ErrorCode(NULL), TRITONSERVER_ERROR_UNKNOWN);
        assert_string_equal(TRITONSERVER_ErrorMessage(NULL), "");
        TRITONSERVER_ErrorDelete(NULL);
}

static void test_data_type_names(void **state) {
        static const struct {
                TRITONSERVER_DataType type;
                const char           *name;
                uint32_t              bytes;
        } rows[] = {
                { TRITONSERVER_TYPE_BOOL, "BOOL", 1 },
                { TRITONSERVER_TYPE_UINT8, "UINT8", 1 },
                { TRITONSERVER_TYPE_UINT16, "UINT16", 2 },
                { TRITONSERVER_TYPE_UINT32, "UINT32", 4 },
                { TRITONSERVER_TYPE_UINT64, "UINT64", 8 },
                { TRITONSERVER_TYPE_INT8, "INT8", 1 },
                { TRITONSERVER_TYPE_INT16, "INT16", 2 },
                { TRITONSERVER_TYPE_INT32, "INT32", 4 },
                { TRITONSERVER_TYPE_INT64, "INT64", 8 },
                { TRITONSERVER_TYPE_FP16, "FP16", 2 },
                { TRITONSERVER_TYPE_FP32, "FP32", 4 },
                { TRITONSERVER_TYPE_FP64, "FP64", 8 },
                { TRITONSERVER_TYPE_BYTES, "BYTES", 0 },
                { TRITONSERVER_TYPE_BF16, "BF16", 2 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                assert_string_equal(TRITONSERVER_DataTypeString(rows[i].type), rows[i].name);
                assert_int_equal(TRITONSERVER_StringToDataType(rows[i].name), rows[i].type);
                assert_int_equal(TRITONSERVER_DataTypeByteSize(rows[i].type), rows[i].bytes);
        }
        assert_string_equal(TRITONSERVER_DataTypeString(TRITONSERVER_TYPE_INVALID), "<invalid>");
        assert_string_equal(TRITONSERVER_DataTypeString((TRITONSERVER_DataType)77), "<invalid>");
        assert_int_equal(TRITONSERVER_DataTypeByteSize((TRITONSERVER_DataType)77), 0);
        assert_int_equal(TRITONSERVER_StringToDataType("fp32"), TRITONSERVER_TYPE_INVALID);
        assert_int_equal(TRITONSERVER_StringToDataType("FP320"), TRITONSERVER_TYPE_INVALID);
        assert_int_equal(TRITONSERVER_StringToDataType(""), TRITONSERVER_TYPE_INVALID);
        assert_int_equal(TRITONSERVER_StringToDataType(NULL), TRITONSERVER_TYPE_INVALID);
}

static void test_other_names(void **state) {
        static const char *const memories[] = { "CPU", "CPU_PINNED", "GPU", "<invalid>" };
        static const char *const parameters[] = { "STRING", "INT",   "BOOL",
                                                  "DOUBLE", "BYTES", "<invalid>" };
        static const char *const kinds[] = { "AUTO", "CPU", "GPU", "MODEL", "<invalid>" };
        static const char *const levels[] = { "DISABLED",   "MIN",       "MAX",       "<unknown>",
                                              "TIMESTAMPS", "<unknown>", "<unknown>", "<unknown>",
                                              "TENSORS",    "<unknown>" };
        static const char *const activities[] = { "REQUEST_START",        "QUEUE_START",
                                                  "COMPUTE_START",        "COMPUTE_INPUT_END",
                                                  "COMPUTE_OUTPUT_START", "COMPUTE_END",
                                                  "REQUEST_END",          "TENSOR_QUEUE_INPUT",
                                                  "TENSOR_BACKEND_INPUT", "TENSOR_BACKEND_OUTPUT",
                                                  "CUSTOM_ACTIVITY",      "<unknown>" };

        (void)state;
        for (int i = 0; i < 4; i++)
                assert_string_equal(TRITONSERVER_MemoryTypeString((TRITONSERVER_MemoryType)i),
                                    memories[i]);
        for (int i = 0; i < 6; i++)
                assert_string_equal(TRITONSERVER_ParameterTypeString((TRITONSERVER_ParameterType)i),
                                    parameters[i]);
        for (int i = 0; i < 5; i++)
                assert_string_equal(TRITONSERVER_InstanceGroupKindString(
                                            (TRITONSERVER_InstanceGroupKind)i),
                                    kinds[i]);
        for (int i = 0; i < 10; i++)
                assert_string_equal(TRITONSERVER_InferenceTraceLevelString(
                                            (TRITONSERVER_InferenceTraceLevel)i),
                                    levels[i]);
        for (int i = 0; i < 12; i++)
                assert_string_equal(TRITONSERVER_InferenceTraceActivityString(
                                            (TRITONSERVER_InferenceTraceActivity)i),
                                    activities[i]);
}

static void test_parameters(void **state) {
        int64_t                        number = INT64_MIN;
        bool                           flag = true;
        double                         real = 0.5;
        struct TRITONSERVER_Parameter *all[] = {
                TRITONSERVER_ParameterNew("s", TRITONSERVER_PARAMETER_STRING, "text"),
                TRITONSERVER_ParameterNew("i", TRITONSERVER_PARAMETER_INT, &number),
                TRITONSERVER_ParameterNew("b", TRITONSERVER_PARAMETER_BOOL, &flag),
                TRITONSERVER_ParameterNew("d", TRITONSERVER_PARAMETER_DOUBLE, &real),
                TRITONSERVER_ParameterBytesNew("y", "\0\1\2", 3),
                TRITONSERVER_ParameterBytesNew("empty", NULL, 0),
        };

        (void)state;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                assert_non_null(all[i]);
                TRITONSERVER_ParameterDelete(all[i]);
        }
        assert_null(TRITONSERVER_ParameterNew("y", TRITONSERVER_PARAMETER_BYTES, "x"));
        assert_null(TRITONSERVER_ParameterNew("z", (TRITONSERVER_ParameterType)9, "x"));
        assert_null(TRITONSERVER_ParameterNew(NULL, TRITONSERVER_PARAMETER_STRING, "x"));
        assert_null(TRITONSERVER_ParameterNew("s", TRITONSERVER_PARAMETER_STRING, NULL));
        assert_null(TRITONSERVER_ParameterBytesNew("y", NULL, 1));
        TRITONSERVER_ParameterDelete(NULL);
}

static void test_buffer_attributes(void **state) {
        struct TRITONSERVER_BufferAttributes *a;
        TRITONSERVER_MemoryType               type = TRITONSERVER_MEMORY_GPU;
        int64_t                               id = 7;
        size_t                                byte_size = 7;
        void                                 *ipc = &id;

        (void)state;
        assert_ok(TRITONSERVER_BufferAttributesNew(&a));
        assert_ok(TRITONSERVER_BufferAttributesMemoryType(a, &type));
        assert_ok(TRITONSERVER_BufferAttributesMemoryTypeId(a, &id));
        assert_ok(TRITONSERVER_BufferAttributesByteSize(a, &byte_size));
        assert_ok(TRITONSERVER_BufferAttributesCudaIpcHandle(a, &ipc));
        assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
        assert_int_equal(id, 0);
        assert_int_equal(byte_size, 0);
        assert_null(ipc);

        assert_ok(TRITONSERVER_BufferAttributesSetMemoryType(a, TRITONSERVER_MEMORY_CPU_PINNED));
        assert_ok(TRITONSERVER_BufferAttributesSetMemoryTypeId(a, -3));
        assert_ok(TRITONSERVER_BufferAttributesSetByteSize(a, SIZE_MAX));
        assert_ok(TRITONSERVER_BufferAttributesSetCudaIpcHandle(a, &type));
        assert_error(TRITONSERVER_BufferAttributesSetMemoryType(a, (TRITONSERVER_MemoryType)3),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "TRITONSERVER_BufferAttributesSetMemoryType: 3 is no valid memory type");
        assert_ok(TRITONSERVER_BufferAttributesMemoryType(a, &type));
        assert_ok(TRITONSERVER_BufferAttributesMemoryTypeId(a, &id));
        assert_ok(TRITONSERVER_BufferAttributesByteSize(a, &byte_size));
        assert_ok(TRITONSERVER_BufferAttributesCudaIpcHandle(a, &ipc));
        assert_int_equal(type, TRITONSERVER_MEMORY_CPU_PINNED);
        assert_int_equal(id, -3);
        assert_true(byte_size == SIZE_MAX);
        assert_ptr_equal(ipc, &type);
        assert_ok(TRITONSERVER_BufferAttributesDelete(a));
}

static void test_messages(void **state) {
        static const char            json[] = "{\"a\":[1,2.5,\"\\u00e9\"],\"b\":null}!outside";
        const size_t                 json_bytes = strlen(json) - strlen("!outside");
        struct TRITONSERVER_Message *m;
        const char                  *base;
        size_t                       byte_size;

        (void)state;
        assert_ok(TRITONSERVER_MessageNewFromSerializedJson(&m, json, json_bytes));
        assert_ok(TRITONSERVER_MessageSerializeToJson(m, &base, &byte_size));
        assert_int_equal(byte_size, json_bytes);
        assert_memory_equal(base, json, json_bytes);
        assert_ptr_not_equal(base, json);
        assert_ok(TRITONSERVER_MessageDelete(m));

        m = NULL;
        assert_error(TRITONSERVER_MessageNewFromSerializedJson(&m, "{\"a\":}", 6),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "failed to parse the request JSON buffer: Invalid value. at 5");
        assert_error(TRITONSERVER_MessageNewFromSerializedJson(&m, json, json_bytes + 1),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_MessageNewFromSerializedJson(&m, json, json_bytes - 1),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_MessageNewFromSerializedJson(&m, "", 0),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "failed to parse the request JSON buffer: The document is empty. at 0");
        assert_null(m);
}

/* A thousand nested arrays are refused and not followed. */
static void test_message_depth(void **state) {
        char                         deep[2000];
        struct TRITONSERVER_Message *m = NULL;

        (void)state;
        memset(deep, '[', 1000);
        memset(deep + 1000, ']', 1000);
        assert_error(TRITONSERVER_MessageNewFromSerializedJson(&m, deep, sizeof(deep)),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_null(m);
}

static struct TRITONSERVER_Error *no_memory(struct TRITONSERVER_ResponseAllocator *allocator,
                                            const char *tensor_name, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id, void *userp,
                                            void **buffer, void **buffer_userp,
                                            TRITONSERVER_MemoryType *actual_type,
                                            int64_t                 *actual_id) {
        (void)allocator, (void)tensor_name, (void)byte_size, (void)type, (void)id, (void)userp;
        (void)buffer, (void)buffer_userp, (void)actual_type, (void)actual_id;
        return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "none");
}

static struct TRITONSERVER_Error *take_back(struct TRITONSERVER_ResponseAllocator *allocator,
                                            void *buffer, void *buffer_userp, size_t byte_size,
                                            TRITONSERVER_MemoryType type, int64_t id) {
        (void)allocator, (void)buffer, (void)buffer_userp, (void)byte_size, (void)type, (void)id;
        return NULL;
}

static void test_allocator(void **state) {
        struct TRITONSERVER_ResponseAllocator *a = NULL;

        (void)state;
        assert_error(TRITONSERVER_ResponseAllocatorNew(&a, NULL, take_back, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "TRITONSERVER_ResponseAllocatorNew: argument 'alloc_fn' must not be NULL");
        assert_error(TRITONSERVER_ResponseAllocatorNew(&a, no_memory, NULL, NULL),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_null(a);
        assert_ok(TRITONSERVER_ResponseAllocatorNew(&a, no_memory, take_back, NULL));
        assert_ok(TRITONSERVER_ResponseAllocatorSetQueryFunction(a, NULL));
        assert_ok(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(a, NULL));
        assert_ok(TRITONSERVER_ResponseAllocatorDelete(a));
}

static void test_options_that_are_checked(void **state) {
        struct TRITONSERVER_ServerOptions *o;

        (void)state;
        assert_ok(TRITONSERVER_ServerOptionsNew(&o));
        assert_error(
                TRITONSERVER_ServerOptionsSetModelControlMode(o, (TRITONSERVER_ModelControlMode)3),
                TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_ServerOptionsSetRateLimiterMode(o, (TRITONSERVER_RateLimitMode)2),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(o, 0),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
                             o, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, 0.5),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "a load limit is for devices of kind GPU, not CPU");
        assert_error(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
                             o, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, 1.5),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "a load limit is a fraction from 0 to 1, not 1.5");
        assert_ok(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
                o, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, 1.0));
        assert_error(TRITONSERVER_ServerOptionsSetHostPolicy(o, "p", "colour", "red"),
                     TRITONSERVER_ERROR_UNSUPPORTED,
                     "Unsupported host policy setting 'colour' is specified, supported settings "
                     "are 'numa-node', 'cpu-cores'");
        assert_ok(TRITONSERVER_ServerOptionsSetHostPolicy(o, "p", "cpu-cores", "0-3"));
        assert_error(TRITONSERVER_ServerOptionsSetCacheConfig(o, "local", "[]"),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "configuration of cache 'local' is not a JSON object");
        assert_error(TRITONSERVER_ServerOptionsSetCacheConfig(o, "local", "{\"size\":1"),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_ok(TRITONSERVER_ServerOptionsSetCacheConfig(o, "local", "{\"size\":\"1\"}"));
        assert_ok(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(o, 1 << 20));
        assert_ok(TRITONSERVER_ServerOptionsAddRateLimiterResource(o, "R", 1, -1));
        assert_ok(TRITONSERVER_ServerOptionsAddRateLimiterResource(o, "R", 1, 0));
        assert_error(TRITONSERVER_ServerOptionsAddRateLimiterResource(o, "R", 2, 0),
                     TRITONSERVER_ERROR_ALREADY_EXISTS,
                     "rate limit resource 'R' is given twice for device 0");
        assert_error(
                TRITONSERVER_ServerOptionsSetServerId(o, NULL), TRITONSERVER_ERROR_INVALID_ARG,
                "TRITONSERVER_ServerOptionsSetServerId: argument 'server_id' must not be NULL");
        assert_ok(TRITONSERVER_ServerOptionsDelete(o));
}

/* What the file at `path` holds, NUL-terminated; the caller frees it. */
static char *text_of(const char *path) {
        FILE  *file = fopen(path, "r");
        char  *text = calloc(1, 65536);
        size_t got;

        assert_non_null(file);
        assert_non_null(text);
        got = fread(text, 1, 65535, file);
        text[got] = '\0';
        fclose(file);
        return text;
}

static void test_log(void **state) {
        char  path[] = "/tmp/neso_abi_log_XXXXXX";
        int   fd = mkstemp(path);
        char *text, *lines[4];

        (void)state;
        assert_true(fd >= 0);
        close(fd);
        assert_ok(TRITONSERVER_ServerOptionsSetLogFile(NULL, path));
        assert_ok(TRITONSERVER_ServerOptionsSetLogFormat(NULL, TRITONSERVER_LOG_DEFAULT));
        assert_ok(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, "a/b.c", 7, "two\nlines"));
        assert_false(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));
        assert_ok(TRITONSERVER_LogMessage(TRITONSERVER_LOG_VERBOSE, "b.c", 7, "unheard"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogWarn(NULL, false));
        assert_false(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_WARN));
        assert_true(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_ERROR));
        assert_ok(TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, "b.c", 7, "unheard"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, 1));
        assert_true(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));
        assert_ok(TRITONSERVER_LogMessage(TRITONSERVER_LOG_VERBOSE, "b.c", 8, "heard"));
        assert_ok(TRITONSERVER_ServerOptionsSetLogFormat(NULL, NESO_LOG_FORMAT_JSON));
        assert_ok(TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, "b.c", 9, "x"));
        assert_ok(NESO_LogLine("GET / 200 extra", strlen("GET / 200")));
        assert_error(NESO_LogLine("a\nb", 3), TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)4, "b.c", 1, "x"),
                     TRITONSERVER_ERROR_INVALID_ARG,
                     "TRITONSERVER_LogMessage: 4 is no valid log level");
        assert_error(TRITONSERVER_ServerOptionsSetLogFormat(NULL, (TRITONSERVER_LogFormat)3),
                     TRITONSERVER_ERROR_INVALID_ARG, NULL);
        assert_error(TRITONSERVER_ServerOptionsSetLogFile(NULL, "/no/such/folder/log"),
                     TRITONSERVER_ERROR_NOT_FOUND, NULL);
        assert_ok(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, -1));
        assert_false(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));
        assert_ok(TRITONSERVER_ServerOptionsSetLogWarn(NULL, true));
        assert_ok(TRITONSERVER_ServerOptionsSetLogFormat(NULL, TRITONSERVER_LOG_DEFAULT));
        assert_ok(TRITONSERVER_ServerOptionsSetLogFile(NULL, ""));

        text = text_of(path);
        lines[0] = strtok(text, "\n");
        for (int i = 1; i < 4; i++)
                lines[i] = strtok(NULL, "\n");
        assert_null(strtok(NULL, "\n"));
        for (int i = 0; i < 4; i++)
                assert_non_null(lines[i]);
        assert_int_equal(lines[0][0], 'I');
        assert_non_null(strstr(lines[0], " b.c:7] \"two\\nlines\""));
        assert_non_null(strstr(lines[1], " b.c:8] \"heard\""));
        assert_int_equal(lines[2][0], '{');
        assert_non_null(strstr(lines[2], "\"level\":\"error\""));
        assert_non_null(strstr(lines[2], "\"at\":\"b.c:9\",\"msg\":\"x\"}"));
        assert_string_equal(lines[3], "GET / 200");
        free(text);
        unlink(path);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_errors),
                cmocka_unit_test(test_data_type_names),
                cmocka_unit_test(test_other_names),
                cmocka_unit_test(test_parameters),
                cmocka_unit_test(test_buffer_attributes),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_message_depth),
                cmocka_unit_test(test_allocator),
                cmocka_unit_test(test_options_that_are_checked),
                cmocka_unit_test(test_log),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
