/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

static void call_strings(void) {
        uint32_t major = 0, minor = 0;

        OK(TRITONSERVER_ApiVersion, &major, &minor);
        EXPECT(major == TRITONSERVER_API_VERSION_MAJOR && minor == TRITONSERVER_API_VERSION_MINOR);
        OK(NESO_ApiVersion, &major, &minor);
        EXPECT(major == NESO_API_VERSION_MAJOR && minor == NESO_API_VERSION_MINOR);
        EXPECT(*VALUE(NESO_Version) != '\0');
        EXPECT(strcmp(VALUE(TRITONSERVER_DataTypeString, TRITONSERVER_TYPE_FP32), "FP32") == 0);
        EXPECT(VALUE(TRITONSERVER_StringToDataType, "FP32") == TRITONSERVER_TYPE_FP32);
        EXPECT(VALUE(TRITONSERVER_DataTypeByteSize, TRITONSERVER_TYPE_FP32) == 4);
        EXPECT(strcmp(VALUE(TRITONSERVER_MemoryTypeString, TRITONSERVER_MEMORY_CPU), "CPU") == 0);
        EXPECT(strcmp(VALUE(TRITONSERVER_ParameterTypeString, TRITONSERVER_PARAMETER_INT), "INT") ==
               0);
        EXPECT(strcmp(VALUE(TRITONSERVER_InstanceGroupKindString,
                            TRITONSERVER_INSTANCEGROUPKIND_CPU),
                      "CPU") == 0);
        EXPECT(strcmp(VALUE(TRITONSERVER_InferenceTraceLevelString,
                            TRITONSERVER_TRACE_LEVEL_TIMESTAMPS),
                      "TIMESTAMPS") == 0);
        EXPECT(strcmp(VALUE(TRITONSERVER_InferenceTraceActivityString,
                            TRITONSERVER_TRACE_REQUEST_START),
                      "REQUEST_START") == 0);
}

static void on_line(const struct NESO_LogRecentLine *line, void *userp) {
        uint64_t *n = userp;

        EXPECT(line->number == ++*n && line->level == TRITONSERVER_LOG_WARN);
        EXPECT(strcmp(line->message, "a warning") == 0);
}

static void call_recent_log(void) {
        uint64_t n = 0;

        OK(NESO_LogKeepRecent, true);
        OK(TRITONSERVER_LogMessage, TRITONSERVER_LOG_WARN, __FILE__, __LINE__, "a warning");
        OK(NESO_LogKeepRecent, false);
        OK(NESO_LogRecent, 0, on_line, &n);
        EXPECT(n == 1);
}

static void call_log(void) {
        VALUE(TRITONSERVER_LogIsEnabled, TRITONSERVER_LOG_INFO);
        OK(TRITONSERVER_LogMessage, TRITONSERVER_LOG_INFO, __FILE__, __LINE__, "a message");
        OK(NESO_LogLine, "a line", 6);
        call_recent_log();
        OK(NESO_ReportCrashes);
}

static void call_errors(void) {
        TRITONSERVER_Error *err = VALUE(TRITONSERVER_ErrorNew, TRITONSERVER_ERROR_NOT_FOUND, "why");

        EXPECT(VALUE(TRITONSERVER_ErrorCode, err) == TRITONSERVER_ERROR_NOT_FOUND);
        EXPECT(strcmp(VALUE(TRITONSERVER_ErrorCodeString, err), "Not found") == 0);
        EXPECT(strcmp(VALUE(TRITONSERVER_ErrorMessage, err), "why") == 0);
        VALUE(TRITONSERVER_ErrorDelete, err);
}

static void call_parameters(void) {
        struct TRITONSERVER_Parameter *text, *bytes;

        text = VALUE(TRITONSERVER_ParameterNew, "key", TRITONSERVER_PARAMETER_STRING, "value");
        bytes = VALUE(TRITONSERVER_ParameterBytesNew, "key", "value", 5);
        EXPECT(text != NULL && bytes != NULL);
        VALUE(TRITONSERVER_ParameterDelete, text);
        VALUE(TRITONSERVER_ParameterDelete, bytes);
}

static void call_messages(void) {
        struct TRITONSERVER_Message *message;
        const char                  *base;
        size_t                       size;

        OK(TRITONSERVER_MessageNewFromSerializedJson, &message, "{\"a\":1}", 7);
        OK(TRITONSERVER_MessageSerializeToJson, message, &base, &size);
        EXPECT(size == 7 && memcmp(base, "{\"a\":1}", 7) == 0);
        OK(TRITONSERVER_MessageDelete, message);
}

static void call_attributes(void) {
        struct TRITONSERVER_BufferAttributes *attributes;
        TRITONSERVER_MemoryType               type = TRITONSERVER_MEMORY_CPU;
        int64_t                               id = 0;
        size_t                                size = 0;
        void                                 *handle = NULL;

        OK(TRITONSERVER_BufferAttributesNew, &attributes);
        OK(TRITONSERVER_BufferAttributesSetMemoryType, attributes, TRITONSERVER_MEMORY_CPU_PINNED);
        OK(TRITONSERVER_BufferAttributesSetMemoryTypeId, attributes, 7);
        OK(TRITONSERVER_BufferAttributesSetByteSize, attributes, 64);
        OK(TRITONSERVER_BufferAttributesSetCudaIpcHandle, attributes, &handle);
        OK(TRITONSERVER_BufferAttributesMemoryType, attributes, &type);
        OK(TRITONSERVER_BufferAttributesMemoryTypeId, attributes, &id);
        OK(TRITONSERVER_BufferAttributesByteSize, attributes, &size);
        OK(TRITONSERVER_BufferAttributesCudaIpcHandle, attributes, &handle);
        EXPECT(type == TRITONSERVER_MEMORY_CPU_PINNED && id == 7 && size == 64);
        OK(TRITONSERVER_BufferAttributesDelete, attributes);
}

void call_objects(void) {
        call_strings();
        call_log();
        call_errors();
        call_parameters();
        call_messages();
        call_attributes();
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void call_gauge(void) {
        struct TRITONSERVER_MetricFamily    *family;
        struct TRITONSERVER_Metric          *metric;
        const struct TRITONSERVER_Parameter *label;
        TRITONSERVER_MetricKind              kind = TRITONSERVER_METRIC_KIND_COUNTER;
        double                               value = 0;

        label = TRITONSERVER_ParameterNew("where", TRITONSERVER_PARAMETER_STRING, "here");
        OK(TRITONSERVER_MetricFamilyNew, &family, TRITONSERVER_METRIC_KIND_GAUGE, "calls_gauge",
           "a gauge");
        OK(TRITONSERVER_GetMetricFamilyKind, family, &kind);
        EXPECT(kind == TRITONSERVER_METRIC_KIND_GAUGE);
        OK(TRITONSERVER_MetricNew, &metric, family, &label, 1);
        OK(TRITONSERVER_MetricSet, metric, 2.5);
        OK(TRITONSERVER_MetricIncrement, metric, 1.0);
        OK(TRITONSERVER_MetricValue, metric, &value);
        EXPECT(value == 3.5);
        OK(TRITONSERVER_GetMetricKind, metric, &kind);
        EXPECT(kind == TRITONSERVER_METRIC_KIND_GAUGE);
        OK(TRITONSERVER_MetricDelete, metric);
        OK(TRITONSERVER_MetricFamilyDelete, family);
        TRITONSERVER_ParameterDelete((struct TRITONSERVER_Parameter *)label);
}

static void call_histogram(void) {
        static const double               buckets[] = { 1, 10 };
        struct TRITONSERVER_MetricFamily *family;
        struct TRITONSERVER_MetricArgs   *args;
        struct TRITONSERVER_Metric       *metric;
        uint64_t                          counts[3];
        double                            sum;

        OK(TRITONSERVER_MetricFamilyNew, &family, TRITONSERVER_METRIC_KIND_HISTOGRAM,
           "calls_histogram", "a histogram");
        OK(TRITONSERVER_MetricArgsNew, &args);
        OK(TRITONSERVER_MetricArgsSetHistogram, args, buckets, 2);
        OK(TRITONSERVER_MetricNewWithArgs, &metric, family, NULL, 0, args);
        OK(TRITONSERVER_MetricObserve, metric, 5.0);
        OK(NESO_MetricHistogram, metric, counts, 3, &sum);
        EXPECT(counts[0] + counts[1] + counts[2] == 1 && sum == 5.0);
        OK(TRITONSERVER_MetricArgsDelete, args);
        OK(TRITONSERVER_MetricDelete, metric);
        OK(TRITONSERVER_MetricFamilyDelete, family);
}

void call_metrics(void) {
        call_gauge();
        call_histogram();
}
