/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of one thread that is just enough for a backend to run in: the functions that backends
 * call, over plain structs that a test fills and reads. Linked into a test in place of
 * libtritonserver.so.
 *
 * The library itself does not stand in for it, because these tests need what a correct server never does:
 * TRITONBACKEND_ResponseNew() that fails, an input in GPU memory on a machine without a GPU, outputs that
 * lie off their alignment, and a count of the errors and messages that the backend did not delete. They
 * also call the kit's functions with a request in hand, outside an execution. What a backend does within a
 * server is tested with the library: tests/abi, tests/e2e/test_onnx.py, tests/e2e/test_python_execute.py.
 *
 * Ownership.  Inputs and their bytes are the test's. Outputs of responses belong to the fake until
 * fake_reset(), which frees all that the backend made.
 * Threads.  One.
 */
#pragma once

#include "triton/core/tritonbackend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_MAX_TENSORS 8
#define FAKE_MAX_DIMS 8

struct TRITONBACKEND_Input {
        const char             *name;
        TRITONSERVER_DataType   type;
        int64_t                 shape[FAKE_MAX_DIMS];
        uint32_t                n_dims;
        const void             *pieces[3]; /* the bytes, in up to three buffers */
        uint64_t                piece_bytes[3];
        uint32_t                n_pieces;
        TRITONSERVER_MemoryType memory_type;
        int64_t                 memory_id;
};

/* Memory of a GPU is the host's, at an address that no load or store of the CPU can use. */
#define FAKE_DEVICE_OFFSET ((uintptr_t)1 << 62)
#define FAKE_DEVICE_ADDRESS(memory) ((void *)((uintptr_t)(memory) + FAKE_DEVICE_OFFSET))
#define FAKE_DEVICE_BYTES(address) ((void *)((uintptr_t)(address)-FAKE_DEVICE_OFFSET))

struct TRITONBACKEND_Output {
        const char           *name; /* owned */
        TRITONSERVER_DataType type;
        int64_t               shape[FAKE_MAX_DIMS];
        uint32_t              n_dims;
        void                 *bytes;     /* in `allocated`, at the offset that the test asked for */
        void                 *allocated; /* owned */
        uint64_t              n_bytes;
};

struct TRITONBACKEND_State {
        struct TRITONBACKEND_Output value;
        bool                        is_committed;
        uint64_t                    made_ns; /* by the clock of the statistics */
};

/* One parameter of a request. */
struct fake_parameter {
        const char                *key;
        TRITONSERVER_ParameterType type;
        int64_t                    number;
        const char                *text;
};

struct TRITONBACKEND_Response {
        struct TRITONBACKEND_Output outputs[FAKE_MAX_TENSORS];
        uint32_t                    n_outputs;
        bool                        is_sent;
        bool                        is_final;
        bool                        has_error;
        TRITONSERVER_Error_Code     code;
        char                       *message; /* owned */
        struct fake_parameter       parameters[FAKE_MAX_TENSORS];
        uint32_t                    n_parameters;
};

/* Everything about a request, before and after. */
struct TRITONBACKEND_Request {
        struct TRITONBACKEND_Input    inputs[FAKE_MAX_TENSORS];
        uint32_t                      n_inputs;
        const char                   *outputs[FAKE_MAX_TENSORS];
        uint32_t                      n_outputs;
        struct fake_parameter         parameters[FAKE_MAX_TENSORS];
        uint32_t                      n_parameters;
        bool                          is_cancelled;
        struct TRITONBACKEND_Response responses[FAKE_MAX_TENSORS];
        uint32_t                      n_responses;
        struct TRITONBACKEND_State    states[2];
        uint32_t                      n_states;
        bool                          is_released;
        bool                          was_reported;
        bool                          was_success;
        uint64_t                      stamps[4];
};

struct TRITONBACKEND_Backend {
        const char *config; /* JSON */
        void       *state;
};

struct TRITONBACKEND_Model {
        struct TRITONBACKEND_Backend *backend;
        const char                   *name;
        const char                   *path;
        char                         *config; /* owned: JSON, replaced by ModelSetConfig */
        const char                   *sent;   /* the parameter that came with a load; or NULL */
        bool                          is_completed; /* what ModelAutoCompleteConfig says */
        bool                          was_set;
        void                         *state;
};

struct TRITONBACKEND_ModelInstance {
        struct TRITONBACKEND_Model    *model;
        const char                    *name;
        TRITONSERVER_InstanceGroupKind kind;
        void                          *state;
        uint32_t                       n_batches; /* statistics that were reported */
        uint64_t                       batch_rows;
};

/* What the fake refuses, when set. */
struct fake_faults {
        bool                    fail_response_new;
        const char             *fail_output; /* OutputBuffer of this output fails */
        TRITONSERVER_MemoryType output_type; /* memory that outputs and states are given, */
        int64_t                 output_id;   /* and of which GPU; what they prefer is in: */
        TRITONSERVER_MemoryType preferred_type;
        int64_t                 preferred_id;
        uint32_t                n_copy_calls;   /* of NESO_MemoryManagerCopy(); counted */
        uint32_t                n_copies;       /* of those that it made */
        uint64_t                fail_copy_from; /* it fails when a copy has this source */
        uint32_t                n_device_alive; /* memory of GPUs that was not freed; counted */
        size_t                  output_offset;  /* bytes that outputs lie off their alignment */
        void    *output_at;      /* where all outputs lie, the test's; NULL: memory of their own */
        uint32_t n_errors_alive; /* errors that were not deleted; counted, not set */
        uint32_t n_messages_alive;
        uint32_t n_rows; /* of responses, begun and ended; counted */
        bool     is_in_row;
        uint32_t n_sent_in_row; /* responses sent within one */
        uint64_t start_ns;      /* of executions; 0: the time now */
};

extern struct fake_faults fake;

void fake_model_init(struct TRITONBACKEND_Model *model, const char *name, const char *config);
void fake_model_done(struct TRITONBACKEND_Model *model);

/* Adds an input of one buffer; its bytes are borrowed. */
struct TRITONBACKEND_Input *fake_add_input(struct TRITONBACKEND_Request *request,
                                           struct TRITONBACKEND_Input input, const void *bytes,
                                           size_t n_bytes);

/* Frees what the backend made for the request; the request may be used again. */
void fake_reset(struct TRITONBACKEND_Request *request);

/* NULL when the first response has no such output. */
const struct TRITONBACKEND_Output *fake_output(const struct TRITONBACKEND_Request *request,
                                               const char                         *name);
