/* SPDX-License-Identifier: BSD-3-Clause */
/* ONNX Runtime as this backend uses it: the library, its environment, its errors and its types. The
 * only file that includes onnxruntime_c_api.h.
 *
 * The library is opened at run time, not linked: its symbols carry the version of the release, so a
 * linked backend would accept only that release, while the API behind OrtGetApiBase() is stable.
 * Backend configuration:
 *
 *     library                  path of the library; by default the first that loads of the soname
 *                              that the build found, "libonnxruntime.so.1" and "libonnxruntime.so",
 *                              each in the backend's directory, then where the loader finds it
 *     default-max-batch-size   max_batch_size of models that batch and do not set it (default 4)
 *     allow-file-options       true: session entries and libraries of operators that config.pbtxt names
 *                              may be outside of the model's directory (session_entries.h)
 *     allow-data-links         true: symbolic links of external data may lead out of the version's
 *                              directory (external_data.h)
 *     enable-global-threadpool 1: all models share one pool of threads, with these sizes:
 *     intra_op_thread_count    threads of the shared pool, at most 1024; 0, the default, is one per core
 *     inter_op_thread_count    the same for operators side by side
 *
 * Ownership.  One struct per loaded backend, owned by the entry points. The library stays loaded
 * for the life of the process: its threads may still run its code.
 * Threads.  The struct does not change after ort_open().
 */
#pragma once

#include "kit/errors.h"

#include <onnxruntime_c_api.h>

/* Of one pool of threads. The runtime's work for a pool grows with the square of their number, and nothing ends
 * it: for 50 000 it takes minutes of a core and 4 GB. */
#define ORT_MAX_THREADS 1024

#define ORT_CUDA_MEMORY "Cuda" /* the runtime's name of a GPU's memory */

struct ort {
        const OrtApi  *api;
        char          *library;   /* owned: its path, as the loader found it */
        OrtEnv        *env;       /* owned */
        OrtMemoryInfo *cpu;       /* owned: where the buffers of requests are */
        OrtAllocator  *allocator; /* borrowed: the library's default */
        int64_t        default_max_batch_size;
        bool           has_global_threads;
        bool           allows_file_options;
        bool           allows_data_links;
        bool           has_guard; /* division_guard.h was started */
};

TRITONSERVER_Error *ort_open(TRITONBACKEND_Backend *backend, struct ort **ret);
void                ort_close(struct ort *ort);

/* Opens the first of `names` (a NULL ends them) that loads. The error is UNAVAILABLE, with the
 * loader's reason for each. */
TRITONSERVER_Error *ort_load(const char *const *names, void **ret, const char **ret_name);

/* Converts a status to an error, "onnx runtime error <code>: <text>", and takes it; NULL for NULL.
 * INVALID_ARG when the runtime reports invalid arguments, INTERNAL otherwise. */
TRITONSERVER_Error *ort_error(const struct ort *ort, OrtStatus *status);

/* Returns from the function with the error of a call of the API, if there is one. */
#define ORT_TRY(ort, call) KIT_TRY(ort_error((ort), (ort)->api->call))

/* INVALID and UNDEFINED for types that the other side does not have. */
TRITONSERVER_DataType     ort_type_to_triton(ONNXTensorElementDataType type);
ONNXTensorElementDataType ort_type_from_triton(TRITONSERVER_DataType type);
