/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_notes.h"

#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ENVIRONMENT "EXECUTION_ENV_PATH"
#define MODEL_DIRECTORY "$$TRITON_MODEL_DIRECTORY"

struct note_run {
        const struct model_config *config;
        const char                *directory; /* borrowed */
        bool                       has_gpus;
        config_note_fn            *add;
        void                      *owner;
};

const char *note_verdict_name(enum note_verdict verdict) {
        static const char *const names[] = {
                [NOTE_WORKS] = "works",
                [NOTE_DIFFERS] = "differs",
                [NOTE_MISSING] = "missing",
        };

        return names[verdict];
}

static void put_note(const struct note_run *r, enum note_verdict verdict, const char *field,
                     const char *text) {
        r->add(r->owner, verdict, field, text);
}

static bool has_backend(const struct model_config *c, const char *name) {
        return config_text_is(c->pb->backend, name);
}

/* ---- fields ---------------------------------------------------------------------------------- */

static const Inference__ModelOptimizationPolicy *optimization(const struct model_config *c) {
        static const Inference__ModelOptimizationPolicy none =
                INFERENCE__MODEL_OPTIMIZATION_POLICY__INIT;

        return c->pb->optimization != NULL ? c->pb->optimization : &none;
}

static bool has_graph(const struct model_config *c) {
        return optimization(c)->graph != NULL && has_backend(c, "onnxruntime");
}

static bool has_priority(const struct model_config *c) {
        return optimization(c)->priority !=
               INFERENCE__MODEL_OPTIMIZATION_POLICY__MODEL_PRIORITY__PRIORITY_DEFAULT;
}

static bool has_cuda(const struct model_config *c) {
        return optimization(c)->cuda != NULL;
}

static bool has_onnx_cuda(const struct model_config *c) {
        return has_cuda(c) && has_backend(c, "onnxruntime");
}

static bool has_gpu_accelerator(const struct model_config *c) {
        const Inference__ModelOptimizationPolicy__ExecutionAccelerators *all =
                optimization(c)->execution_accelerators;

        return all != NULL && all->n_gpu_execution_accelerator > 0;
}

static bool has_onnx_cpu_accelerator(const struct model_config *c) {
        const Inference__ModelOptimizationPolicy__ExecutionAccelerators *all =
                optimization(c)->execution_accelerators;

        return all != NULL && all->n_cpu_execution_accelerator > 0 && has_backend(c, "onnxruntime");
}

static bool has_pinned_inputs(const struct model_config *c) {
        return optimization(c)->input_pinned_memory != NULL &&
               optimization(c)->input_pinned_memory->enable;
}

static bool has_pinned_outputs(const struct model_config *c) {
        return optimization(c)->output_pinned_memory != NULL &&
               optimization(c)->output_pinned_memory->enable;
}

static bool has_gather_kernel(const struct model_config *c) {
        return optimization(c)->gather_kernel_buffer_threshold > 0;
}

static bool has_eager_batching(const struct model_config *c) {
        return optimization(c)->eager_batching;
}

static bool has_sequences(const struct model_config *c) {
        return c->pb->scheduling_choice_case ==
               INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_SEQUENCE_BATCHING;
}

static bool has_warmup(const struct model_config *c) {
        return c->pb->n_model_warmup > 0;
}

static bool has_metric_buckets(const struct model_config *c) {
        return c->pb->model_metrics != NULL && c->pb->model_metrics->n_metric_control > 0;
}

static bool has_capability_files(const struct model_config *c) {
        return c->pb->n_cc_model_filenames > 0;
}

#define NO_GPU "has no effect: this machine has no GPUs"

struct field_row {
        const char       *field;
        enum note_verdict verdict;
        bool (*is_given)(const struct model_config *c);
        const char *text;
};

/* One row for each field that is worth a remark. */
static const struct field_row fields[] = {
        { "optimization.graph", NOTE_WORKS, has_graph, "the level is passed to ONNX Runtime" },
        { "optimization.priority", NOTE_DIFFERS, has_priority,
          "has no effect: threads have no priorities" },
        { "optimization.execution_accelerators.cpu_execution_accelerator", NOTE_MISSING,
          has_onnx_cpu_accelerator,
          "the onnxruntime backend has no accelerators of CPUs and refuses to load the model; "
          "remove "
          "the field, and it runs without" },
        { "optimization.eager_batching", NOTE_DIFFERS, has_eager_batching,
          "has no effect: a backend gets a batch when it is complete" },
        { "sequence_batching", NOTE_WORKS, has_sequences,
          "live sequences also survive a reload of the model" },
        { "model_warmup", NOTE_WORKS, has_warmup,
          "runs at each load, which fails if a sample does" },
        { "response_cache", NOTE_WORKS, model_config_has_response_cache,
          "takes effect with --cache-config, as in Triton; a load begins with an empty cache" },
        { "model_transaction_policy", NOTE_WORKS, model_config_is_decoupled,
          "decoupled: ModelStreamInfer and generate serve it; infer refuses it, as in Triton" },
        { "model_metrics", NOTE_DIFFERS, has_metric_buckets,
          "has no effect: histograms have fixed buckets" },
};

/* The same for a machine without GPUs. */
static const struct field_row gpu_fields[] = {
        { "optimization.cuda", NOTE_DIFFERS, has_cuda, NO_GPU ", so no CUDA graphs and streams" },
        { "optimization.execution_accelerators.gpu_execution_accelerator", NOTE_DIFFERS,
          has_gpu_accelerator, NO_GPU "; the model runs without the accelerator" },
        { "optimization.input_pinned_memory", NOTE_DIFFERS, has_pinned_inputs, NO_GPU },
        { "optimization.output_pinned_memory", NOTE_DIFFERS, has_pinned_outputs, NO_GPU },
        { "optimization.gather_kernel_buffer_threshold", NOTE_DIFFERS, has_gather_kernel, NO_GPU },
        { "cc_model_filenames", NOTE_DIFFERS, has_capability_files,
          NO_GPU "; default_model_filename is loaded" },
};

/* The same for a machine with GPUs. */
static const struct field_row with_gpu_fields[] = {
        { "optimization.cuda", NOTE_WORKS, has_onnx_cuda,
          "has no effect on ONNX models, as in Triton" },
};

static void note_rows(const struct note_run *r, const struct field_row *rows, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (rows[i].is_given(r->config))
                        put_note(r, rows[i].verdict, rows[i].field, rows[i].text);
}

static void note_fields(const struct note_run *r) {
        if (!r->has_gpus)
                note_rows(r, gpu_fields, ARRAY_LEN(gpu_fields));
        else
                note_rows(r, with_gpu_fields, ARRAY_LEN(with_gpu_fields));
        note_rows(r, fields, ARRAY_LEN(fields));
}

/* ---- accelerators ----------------------------------------------------------------------------- */

#define NO_CUDA_GRAPHS                                                                             \
        "CUDA graphs are not supported, and the onnxruntime backend refuses to load the model; "   \
        "remove the parameter"

typedef Inference__ModelOptimizationPolicy__ExecutionAccelerators__Accelerator accelerator;

/* As the onnxruntime backend reads it. */
static bool is_on(const char *value) {
        return !config_text_is(value, "0") && strcasecmp(value, "false") != 0;
}

static bool wants_graph(const accelerator *a) {
        for (size_t i = 0; i < a->n_parameters; i++)
                if ((config_text_is(a->parameters[i]->key, "enable_cuda_graph") ||
                     config_text_is(a->parameters[i]->key, "trt_cuda_graph_enable")) &&
                    is_on(a->parameters[i]->value))
                        return true;
        return false;
}

static void note_accelerator(const struct note_run *r, const char *field, const accelerator *a) {
        if (!config_text_is(a->name, "tensorrt") && !config_text_is(a->name, "cuda"))
                put_note(r, NOTE_MISSING, field,
                         "the onnxruntime backend has the accelerators tensorrt and cuda, and "
                         "refuses "
                         "to load the model");
        else if (wants_graph(a))
                put_note(r, NOTE_MISSING, field, NO_CUDA_GRAPHS);
        else
                put_note(r, NOTE_WORKS, field,
                         "for instances on GPUs, with a library of ONNX Runtime that has it "
                         "(--backend-config=onnxruntime,library=)");
}

/* Without GPUs a row of gpu_fields says that they have no effect. */
static void note_accelerators(const struct note_run *r) {
        const Inference__ModelOptimizationPolicy__ExecutionAccelerators *all =
                optimization(r->config)->execution_accelerators;

        if (!r->has_gpus || all == NULL || !has_backend(r->config, "onnxruntime"))
                return;
        for (size_t i = 0; i < all->n_gpu_execution_accelerator; i++) {
                AUTO_CHARS field = mem_printf(
                        "optimization.execution_accelerators.gpu_execution_accelerator[%zu]", i);

                note_accelerator(r, field, all->gpu_execution_accelerator[i]);
        }
}

/* ---- instance groups, libraries of operators -------------------------------------------------- */

static void note_rate_limits(const struct note_run *r) {
        const Inference__ModelConfig *pb = r->config->pb;

        for (size_t i = 0; i < pb->n_instance_group; i++) {
                AUTO_CHARS field = mem_printf("instance_group[%zu].rate_limiter", i);

                if (pb->instance_group[i]->rate_limiter != NULL)
                        put_note(r, NOTE_WORKS, field,
                                 "takes effect with --rate-limit=execution_count, as in Triton");
        }
}

/* Whether the file is in the model's directory, as the onnxruntime backend asks. */
static bool is_beneath(const char *directory, const char *name) {
        int        fd = -1;
        AUTO_ERROR err = file_open_beneath(directory, name, &fd);

        if (err == NULL)
                close(fd);
        return err == NULL;
}

static void note_libraries(const struct note_run *r) {
        const Inference__ModelOperations *o = r->config->pb->model_operations;

        if (!has_backend(r->config, "onnxruntime"))
                return;
        for (size_t i = 0; o != NULL && i < o->n_op_library_filename; i++) {
                AUTO_CHARS field = mem_printf("model_operations.op_library_filename[%zu]", i);

                if (!is_beneath(r->directory, o->op_library_filename[i]))
                        put_note(r, NOTE_MISSING, field,
                                 "the library must be in the model's directory, unless "
                                 "--backend-config=onnxruntime,allow-file-options=true is given");
        }
}

/* ---- parameters ------------------------------------------------------------------------------- */

#define ONLY_HERE "means nothing to Triton, but here: "

/* `backend` NULL: any; `value` NULL: any. */
struct parameter_row {
        const char       *backend, *key, *value;
        enum note_verdict verdict;
        const char       *text;
};

static const struct parameter_row parameters[] = {
        { NULL, "next", NULL, NOTE_DIFFERS, ONLY_HERE "the next model of a chain" },
        { NULL, "next_map", NULL, NOTE_DIFFERS, ONLY_HERE "how the models of a chain fit" },
        { NULL, "stages", NULL, NOTE_DIFFERS, ONLY_HERE "the models of a chain" },
        { NULL, "chain_batching", NULL, NOTE_DIFFERS, ONLY_HERE "a setting of chains" },
        { NULL, "chain_allow_end", NULL, NOTE_DIFFERS, ONLY_HERE "a setting of chains" },
        { NULL, "batch_ranges", NULL, NOTE_DIFFERS, ONLY_HERE "batch sizes of instance groups" },
        { NULL, "batch_min", NULL, NOTE_DIFFERS, ONLY_HERE "batch sizes of instance groups" },
        { NULL, "batch_max", NULL, NOTE_DIFFERS, ONLY_HERE "batch sizes of instance groups" },
        { NULL, "instance_num", NULL, NOTE_DIFFERS,
          ONLY_HERE "counts of instances, with batch_max" },
        { NULL, "member_files", NULL, NOTE_DIFFERS, ONLY_HERE "files of instance groups" },
        { NULL, "member_concurrency", NULL, NOTE_DIFFERS,
          ONLY_HERE "how many instance groups execute at a time" },
        { NULL, "scheduler", NULL, NOTE_DIFFERS, ONLY_HERE "the scheduler of the model" },
        { NULL, "adaptive_batching", NULL, NOTE_DIFFERS, ONLY_HERE "when a batch runs early" },
        { NULL, "inline_execution", NULL, NOTE_DIFFERS, ONLY_HERE "the thread of executions" },
        { NULL, "inline_limit_us", NULL, NOTE_DIFFERS, ONLY_HERE "the thread of executions" },
        { "python", "PIPELINE_DEPTH", NULL, NOTE_DIFFERS,
          ONLY_HERE "batches on their way to model.py" },
        { "python", "ASYNC_CONCURRENCY", NULL, NOTE_DIFFERS,
          ONLY_HERE "executions of async execute" },
        { "python", "EXECUTE_TIMEOUT_MS", NULL, NOTE_DIFFERS, ONLY_HERE "the longest execution" },
        { "python", "FORCE_CPU_ONLY_INPUT_TENSORS", "no", NOTE_DIFFERS,
          "has no effect: the server copies tensors on GPUs to main memory" },
};

/* The same for a machine without GPUs. */
static const struct parameter_row gpu_parameters[] = {
        { "onnxruntime", "gpu_mem_limit", NULL, NOTE_DIFFERS, NO_GPU },
        { "onnxruntime", "arena_extend_strategy", NULL, NOTE_DIFFERS, NO_GPU },
        { "onnxruntime", "cudnn_conv_algo_search", NULL, NOTE_DIFFERS, NO_GPU },
        { "onnxruntime", "cudnn_conv_use_max_workspace", NULL, NOTE_DIFFERS, NO_GPU },
        { "onnxruntime", "do_copy_in_default_stream", NULL, NOTE_DIFFERS, NO_GPU },
        { "onnxruntime", "enable_cuda_graph", NULL, NOTE_DIFFERS, NO_GPU },
};

/* The same for a machine with GPUs. */
static const struct parameter_row with_gpu_parameters[] = {
        { "onnxruntime", "enable_cuda_graph", "1", NOTE_MISSING, NO_CUDA_GRAPHS },
};

static bool is_row(const struct note_run *r, const struct parameter_row *row, const char *key,
                   const char *value) {
        return config_text_is(key, row->key) &&
               (row->backend == NULL || has_backend(r->config, row->backend)) &&
               (row->value == NULL || config_text_is(value, row->value));
}

static const struct parameter_row *find_row(const struct note_run      *r,
                                            const struct parameter_row *rows, size_t n,
                                            const char *key, const char *value) {
        for (size_t i = 0; i < n; i++)
                if (is_row(r, &rows[i], key, value))
                        return &rows[i];
        return NULL;
}

/* The path with the model's directory in place of its variable; owned by the caller. */
static char *expand(const char *path, const char *directory) {
        const char *variable = strstr(path, MODEL_DIRECTORY);

        if (variable == NULL)
                return mem_strdup(path);
        return mem_printf("%.*s%s%s", (int)(variable - path), path, directory,
                          variable + strlen(MODEL_DIRECTORY));
}

/* What the python backend asks of an environment before it starts the interpreter in it. */
static void note_environment(const struct note_run *r, const char *field, const char *value) {
        AUTO_CHARS       path = expand(value, r->directory);
        AUTO_CHARS       activate = path_join(path, "bin/activate");
        AUTO_CHARS       gone = mem_printf("the environment '%s' is not on this machine", path);
        AUTO_CHARS       bare = mem_printf("'%s' does not exist", activate);
        struct file_stat stat;
        AUTO_ERROR       err = file_stat(path, &stat);

        if (err != NULL)
                put_note(r, NOTE_MISSING, field, gone);
        else if (stat.is_directory && !file_exists(activate))
                put_note(r, NOTE_MISSING, field, bare);
        else
                put_note(r, NOTE_WORKS, field,
                         "the model runs with the interpreter of this environment");
}

static void put_parameter(const struct note_run *r, enum note_verdict verdict, const char *field,
                          const char *key, const char *text) {
        AUTO_CHARS named = mem_printf("%s: %s", key, text);

        put_note(r, verdict, field, named);
}

static void note_parameter(const struct note_run *r, const char *field, const char *key,
                           const char *value) {
        const struct parameter_row *row;

        if (has_backend(r->config, "python") && config_text_is(key, ENVIRONMENT)) {
                if (*value != '\0')
                        note_environment(r, field, value);
                return;
        }
        row = find_row(r, parameters, ARRAY_LEN(parameters), key, value);
        if (row == NULL && !r->has_gpus)
                row = find_row(r, gpu_parameters, ARRAY_LEN(gpu_parameters), key, value);
        if (row == NULL && r->has_gpus)
                row = find_row(r, with_gpu_parameters, ARRAY_LEN(with_gpu_parameters), key, value);
        if (row != NULL)
                put_parameter(r, row->verdict, field, key, row->text);
        else
                put_parameter(r, NOTE_WORKS, field, key,
                              "the backend reads it, or ignores it, as in Triton");
}

static void note_parameters(const struct note_run *r) {
        const Inference__ModelConfig *pb = r->config->pb;

        for (size_t i = 0; i < pb->n_parameters; i++) {
                const Inference__ModelConfig__ParametersEntry *entry = pb->parameters[i];
                AUTO_CHARS  field = mem_printf("parameters[%zu]", i);
                const char *value = entry->value != NULL ? entry->value->string_value : "";

                note_parameter(r, field, entry->key, value);
        }
}

/* A stub that was compiled for the python of an environment. */
static void note_stub(const struct note_run *r) {
        AUTO_CHARS stub = path_join(r->directory, "triton_python_backend_stub");

        if (has_backend(r->config, "python") && file_exists(stub))
                put_note(r, NOTE_DIFFERS, "backend",
                         "the file triton_python_backend_stub is ignored: python3, or the "
                         "interpreter "
                         "of " ENVIRONMENT ", runs the model");
}

void config_notes_each(const struct model_config *c, const struct config_notes_place *place,
                       config_note_fn *add, void *owner) {
        const struct note_run r = { c, place->directory, place->has_gpus, add, owner };

        note_fields(&r);
        note_accelerators(&r);
        note_rate_limits(&r);
        note_libraries(&r);
        note_parameters(&r);
        note_stub(&r);
}

/* ---- backends --------------------------------------------------------------------------------- */

const char *config_notes_of_backend(const char *backend) {
        static const struct {
                const char *backend, *text;
        } rows[] = {
                { "tensorrt",
                  "or, without a GPU, serve the ONNX file that the engine was built from" },
                { "tensorrtllm", "it needs a GPU" },
                { "tensorflow", "Triton no longer has it either: convert the model to ONNX" },
                { "pytorch", "or export the model to ONNX, or load it in a model.py" },
                { "openvino", "or convert the model to ONNX" },
                { "dali", "or do the preprocessing in a model.py" },
                { "fil", "or convert the trees to ONNX, or predict in a model.py" },
                { "vllm",
                  "it is a directory with a model.py, which the python backend runs: copy it" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (config_text_is(backend, rows[i].backend))
                        return rows[i].text;
        return "";
}
