/* SPDX-License-Identifier: BSD-3-Clause */
/* A model file opened by ONNX Runtime, with the description of its inputs and outputs.
 *
 * One session serves all instances of a model on the CPU, and one those on each GPU. ONNX Runtime allows any number of threads to run it,
 * while a session per instance would have its own copy of the weights and its own thread pool.
 *
 * Model configuration, parameters (all optional):
 *
 *     intra_op_thread_count   threads for one operator; 0, the default, is one per core
 *     inter_op_thread_count   threads for operators side by side, with execution_mode 1
 *     execution_mode          0 sequential (the default), 1 parallel
 *     enable_mem_arena        1 (the default), 0: return memory after each run
 *     enable_mem_pattern      1 (the default), 0
 *     memory.enable_memory_arena_shrinkage   such as "cpu:0": shrink the arena after each run
 *     session.<...>, optimization.<...>      entries of the runtime (session_entries.h). Threads that
 *             wait for work sleep, unlike the runtime's default: session.intra_op.allow_spinning and
 *             session.inter_op.allow_spinning are "0" unless set. With a thread per core and
 *             several models, spinning threads would take the cores from threads with work.
 *
 * optimization { graph { level } }: -1 basic, 1 extended, 2 none, 0 or absent all. model_operations
 * { op_library_filename }: libraries of operators in the model's directory, or anywhere with the
 * backend configuration allow-file-options.
 *
 * Ownership.  A session owns everything in it, and borrows the struct ort.
 * Threads.  It does not change after session_open().
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/ort.h"

struct ort_tensor {
        char                     *name; /* owned */
        ONNXTensorElementDataType onnx_type;
        TRITONSERVER_DataType     type;      /* INVALID: a type that the protocol does not have */
        int64_t                  *dims;      /* owned; -1 = any */
        size_t                    n_dims;    /* 0: a scalar, or an unknown shape */
        bool                      is_scalar; /* of no dimensions, as the file says */
        bool has_default;                    /* an input that is also an initializer of the file: a
                                                * run may omit it */
};

struct session {
        const struct ort  *ort;         /* borrowed: the backend outlives its models */
        OrtSession        *onnx;        /* owned */
        OrtRunOptions     *run_options; /* owned; NULL: defaults */
        struct ort_tensor *inputs;      /* owned; those with a default come last */
        size_t             n_inputs;
        size_t             n_required; /* inputs without a default */
        struct ort_tensor *outputs;    /* owned */
        size_t             n_outputs;
        int                device;    /* that it computes on; ON_CPU */
        bool               is_member; /* the model has one file per member */
        int64_t            n_rows;    /* of a member's batches; 0: any number */
};

/* `device`: of a GPU, or ON_CPU (gpu_providers.h). */
TRITONSERVER_Error *session_open(const struct ort *ort, const struct kit_model *model, int device,
                                 struct session *ret);
/* Opens one of several files of the version's directory, which may have a fixed number of rows. */
TRITONSERVER_Error *session_open_member(const struct ort *ort, const struct kit_model *model,
                                        const char *file, struct session *ret);
void                session_close(struct session *session);

/* Returns NULL when there is none. */
const struct ort_tensor *session_find_input(const struct session *session, const char *name);
const struct ort_tensor *session_find_output(const struct session *session, const char *name);

/* Finds the file that ONNX Runtime opens: `file`, or, when it is NULL, default_model_filename of the
 * configuration (model.onnx), below the version's directory. Where that is a directory, the file is
 * model.onnx in it, so that models whose weights are in files of their own keep them together.
 * UNAVAILABLE, with the path below the model's directory, when there is no such file. The caller
 * frees *ret. */
TRITONSERVER_Error *session_find_file(const struct kit_model *model, const char *file, char **ret);
