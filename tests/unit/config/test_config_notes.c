/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said about configurations of the reference server. */
#include "suite.h"

#include "backend/temp_tree.h"
#include "base/mem.h"
#include "config/config_notes.h"
#include "config_rows.h"

#define ONNX "name: 'm' backend: 'onnxruntime' "
#define PYTHON "name: 'm' backend: 'python' "
#define PARAMETER(key, value) "parameters { key: '" key "' value { string_value: '" value "' } }"

static struct temp_tree model;

static void add_note(void *owner, enum note_verdict verdict, const char *field, const char *text) {
        struct strbuf *out = owner;

        assert_field(field);
        assert_true(strlen(text) > 0);
        strbuf_printf(out, "%s%s: %s", out->len > 0 ? "; " : "", note_verdict_name(verdict), field);
}

static const struct {
        const char *text, *notes;
} rows[] = {
        { "name: 'm' backend: 'identity'", "" },
        { ONNX "max_batch_size: 8 dynamic_batching { } instance_group { kind: KIND_CPU }", "" },
        { ONNX "optimization { graph { level: 1 } }", "works: optimization.graph" },
        { PYTHON "optimization { graph { level: 1 } }", "" },
        { ONNX "optimization { priority: PRIORITY_MAX }", "differs: optimization.priority" },
        { ONNX "optimization { priority: PRIORITY_DEFAULT }", "" },
        { ONNX "optimization { cuda { graphs: true } }", "differs: optimization.cuda" },
        { ONNX "optimization { execution_accelerators { gpu_execution_accelerator { name: "
               "'tensorrt' } } }",
          "differs: optimization.execution_accelerators.gpu_execution_accelerator" },
        { ONNX "optimization { execution_accelerators { cpu_execution_accelerator { name: "
               "'openvino' } } }",
          "missing: optimization.execution_accelerators.cpu_execution_accelerator" },
        { ONNX "optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: "
               "false } }",
          "differs: optimization.input_pinned_memory" },
        { ONNX "optimization { output_pinned_memory { enable: true } }",
          "differs: optimization.output_pinned_memory" },
        { ONNX "optimization { gather_kernel_buffer_threshold: 9 eager_batching: true }",
          "differs: optimization.gather_kernel_buffer_threshold; differs: "
          "optimization.eager_batching" },
        { ONNX "sequence_batching { }", "works: sequence_batching" },
        { ONNX "model_warmup { name: 'w' }", "works: model_warmup" },
        { ONNX "response_cache { enable: true }", "works: response_cache" },
        { ONNX "response_cache { enable: false }", "" },
        { ONNX "model_transaction_policy { decoupled: true }", "works: model_transaction_policy" },
        { ONNX "model_metrics { metric_control { } }", "differs: model_metrics" },
        { ONNX "cc_model_filenames { key: '7.5' value: 'a' }", "differs: cc_model_filenames" },
        { ONNX "instance_group { } instance_group { rate_limiter { priority: 1 } }",
          "works: instance_group[1].rate_limiter" },
        { ONNX "model_operations { op_library_filename: [ 'in.so', '../out.so', '/lib/o.so' ] }",
          "missing: model_operations.op_library_filename[1]; missing: "
          "model_operations.op_library_filename[2]" },
        { PYTHON "model_operations { op_library_filename: '/lib/o.so' }", "" },
        { ONNX PARAMETER("intra_op_thread_count", "2"), "works: parameters[0]" },
        { ONNX PARAMETER("gpu_mem_limit", "2"), "differs: parameters[0]" },
        { PYTHON PARAMETER("gpu_mem_limit", "2"), "works: parameters[0]" },
        { PYTHON PARAMETER("a", "b") PARAMETER("next", "n"),
          "works: parameters[0]; differs: parameters[1]" },
        { PYTHON PARAMETER("FORCE_CPU_ONLY_INPUT_TENSORS", "yes"), "works: parameters[0]" },
        { PYTHON PARAMETER("FORCE_CPU_ONLY_INPUT_TENSORS", "no"), "differs: parameters[0]" },
        { PYTHON PARAMETER("EXECUTION_ENV_PATH", ""), "" },
        { PYTHON PARAMETER("EXECUTION_ENV_PATH", "/no/such/env.tar.gz"), "missing: parameters[0]" },
        { PYTHON PARAMETER("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env"),
          "works: parameters[0]" },
        { PYTHON PARAMETER("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/bare"),
          "missing: parameters[0]" },
        { PYTHON PARAMETER("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz"),
          "works: parameters[0]" },
        { ONNX PARAMETER("EXECUTION_ENV_PATH", "/no/such/env.tar.gz"), "works: parameters[0]" },
};

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_MODEL_CONFIG c = config_of(rows[i].text);
                AUTO_STRBUF       notes = { 0 };

                strbuf_init(&notes, 0);
                config_notes_each(c, &(struct config_notes_place){ .directory = model.path },
                                  add_note, &notes);
                if (strcmp(strbuf_cstr(&notes), rows[i].notes) != 0)
                        fail_msg("%s\ngot      %s\nexpected %s", rows[i].text, strbuf_cstr(&notes),
                                 rows[i].notes);
        }
}

#define ACCELERATOR(name, more)                                                                    \
        "optimization { execution_accelerators { gpu_execution_accelerator { name: '" name         \
        "' " more " } } }"
#define NTH "optimization.execution_accelerators.gpu_execution_accelerator[0]"

/* Where there are GPUs, what is for them is not remarked on, but for what has no effect on them either, or what the
 * onnxruntime backend reads. */
static const struct {
        const char *text, *notes;
} with_gpus[] = {
        { ONNX
          "optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: true "
          "} gather_kernel_buffer_threshold: 9 }",
          "" },
        { ONNX "cc_model_filenames { key: '7.5' value: 'a' }", "" },
        { ONNX "optimization { cuda { graphs: true } }", "works: optimization.cuda" },
        { "name: 'm' backend: 'tensorrt' optimization { cuda { graphs: true } }", "" },
        { ONNX ACCELERATOR("tensorrt", ""), "works: " NTH },
        { ONNX ACCELERATOR("cuda", "parameters { key: 'enable_cuda_graph' value: '0' }"),
          "works: " NTH },
        { ONNX ACCELERATOR("cuda", "parameters { key: 'enable_cuda_graph' value: '1' }"),
          "missing: " NTH },
        { ONNX ACCELERATOR("tensorrt", "parameters { key: 'trt_cuda_graph_enable' value: 'true' }"),
          "missing: " NTH },
        { ONNX ACCELERATOR("openvino", ""), "missing: " NTH },
        { "name: 'm' backend: 'mine' " ACCELERATOR("openvino", ""), "" },
        { ONNX PARAMETER("enable_cuda_graph", "1"), "missing: parameters[0]" },
        { ONNX PARAMETER("enable_cuda_graph", "0") PARAMETER("gpu_mem_limit", "1"),
          "works: parameters[0]; works: parameters[1]" },
        { PYTHON PARAMETER("FORCE_CPU_ONLY_INPUT_TENSORS", "no"), "differs: parameters[0]" },
};

static void test_gpus(void **state) {
        struct config_notes_place place = { .directory = model.path, .has_gpus = true };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(with_gpus); i++) {
                AUTO_MODEL_CONFIG c = config_of(with_gpus[i].text);
                AUTO_STRBUF       notes = { 0 };

                strbuf_init(&notes, 0);
                config_notes_each(c, &place, add_note, &notes);
                assert_string_equal(strbuf_cstr(&notes), with_gpus[i].notes);
        }
}

static void test_a_stub(void **state) {
        AUTO_MODEL_CONFIG c = config_of(PYTHON);
        AUTO_STRBUF       notes = { 0 };

        (void)state;
        strbuf_init(&notes, 0);
        temp_tree_write(&model, "triton_python_backend_stub", "");
        config_notes_each(c, &(struct config_notes_place){ .directory = model.path }, add_note,
                          &notes);
        temp_tree_unlink(&model, "triton_python_backend_stub");
        assert_string_equal(strbuf_cstr(&notes), "differs: backend");
}

static void test_backends(void **state) {
        (void)state;
        assert_non_null(strstr(config_notes_of_backend("tensorrt"), "GPU"));
        assert_non_null(strstr(config_notes_of_backend("fil"), "ONNX"));
        assert_string_equal(config_notes_of_backend("mine"), "");
}

static int make_model(void **state) {
        (void)state;
        model = temp_tree_make();
        temp_tree_write(&model, "in.so", "");
        temp_tree_write(&model, "env/bin/activate", "");
        temp_tree_folder(&model, "bare");
        temp_tree_write(&model, "env.tar.gz", "");
        return 0;
}

static int remove_model(void **state) {
        (void)state;
        temp_tree_remove(&model);
        return 0;
}

SUITE(config_notes) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_gpus),
                cmocka_unit_test(test_a_stub),
                cmocka_unit_test(test_backends),
        };

        return cmocka_run_group_tests(tests, make_model, remove_model);
}
