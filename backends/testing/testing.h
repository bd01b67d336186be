/* SPDX-License-Identifier: BSD-3-Clause */
/* The testing backend: a model whose every behaviour a test can ask for. It is not installed.
 *
 * Model configuration, parameters (all optional):
 *
 *     fail_load          text: loading the model fails with it
 *     fail_load_code     the code of that: a name as in "Invalid argument" or a number; Internal
 *     fail_instance      text: creating an instance fails with it
 *     crash              name of a signal, as in "SIGSEGV": each execution ends in it, by the fault
 *                        that causes it where there is one; "overflow": by a stack that is full
 *     fail_execute       text: TRITONBACKEND_ModelInstanceExecute returns it as its error
 *     load_delay_ms      sleep that long while the model loads
 *     execute_delay_ms   sleep that long in each execution, then in addition per request what
 *                        its own parameter says
 *     execute_us         wait that many microseconds in each execution, by the clock
 *     responses          answers to each request; default 1, 0 is allowed. More or fewer than one
 *                        needs model_transaction_policy { decoupled: true }
 *     gate_fifo          path of a FIFO: each execution waits until it has read one byte from it,
 *                        so a test decides when an execution goes on, without sleeping
 *     reached_fifo       path of a FIFO: each execution writes one byte to it before it waits at
 *                        the gate, so a test knows that it is there
 *     load_gate_fifo     as gate_fifo, for loading the model
 *     instance_gate_fifo, instance_reached_fifo, instance_delay_ms
 *                        as gate_fifo, reached_fifo and load_delay_ms, for making each instance
 *     batch_log          path of a file: each execution appends "<requests> <rows>\n"
 *     life_log           path of a file: each instance writes what happens to it and on which thread,
 *                        "begin <name> <thread> <group> <index> made|found\n", "execute <name>
 *                        <thread>\n", "end <name> <thread>\n"; "made" when it has deposited the object
 *                        that the instances of its group share, whose end is "destroy <group>\n"
 *     add                integer that is added to each element of a repeated input of INT32
 *     fail_value         integer: a request whose first element (INT32) is this is answered with the
 *                        error "value <fail_value>"
 *     end_value          integer: likewise, its response has the parameter "chain_end", true
 *     address_log        path of a file: for each repeated input a line with the addresses of input
 *                        and output, "<in> <out>\n"
 *     iterations         each request is released to be run again until it was run so often; a
 *                        decoupled model answers each time. Needs iterative_sequence. A cancelled
 *                        request with the flag END is answered with an error, and its sequence forgotten
 *     sequence_log       path of a file: with iterations, each execution of a request appends
 *                        "<id> <flags> <1 if it is cancelled, else 0>\n"
 *     fill_config        text of JSON: given to TRITONBACKEND_ModelSetConfig at load when the
 *                        server asks for completion of configurations
 *
 * Relative paths are below the model's directory. FIFOs are opened for reading and writing and
 * stay open while the model is loaded: a byte written early is kept.
 *
 * Request parameters:
 *
 *     delay_ms    integer
 *     fail        string: the request is answered with this error
 *     fail_code   integer or name; Internal by default
 *     responses   integer, instead of the model's
 *     fail_at     integer: with several responses, the error comes as that one, from 0
 *     keep_state  boolean: states are made and written, but not updated
 *     activity    string: a traced request's trace gets <activity>_START and <activity>_END, as
 *                 activities of the backend's own
 *
 * Outputs are made by name, when the request asks for them; shape [1], or [rows, 1] where the
 * model batches, with the type that the configuration gives (an integer type, but for INSTANCE):
 *
 *     EXECUTIONS   how many times the model was executed, this one included
 *     BATCH_ROWS   the rows of all requests of this execution
 *     REQUESTS     the number of its requests
 *     RESPONSE     which response of its request this is, from 0
 *     FLAGS        of the request: 1 sequence start, 2 sequence end
 *     CORRID       its correlation id, where that is a number
 *     INSTANCE     BYTES: the name of the instance
 *     SUM          the sum of the first values (INT32) of INPUT0 in this sequence, by its
 *                  correlation id, in this instance's memory
 *     READ_AT      the address of the last state that the request reads
 *     WRITTEN_AT   the address of the value that the next request shall read
 *     SERIAL       how many instances this backend had made when it made this one, that one
 *                  included: an instance that is kept keeps it
 *
 * Each state of the configuration (sequence_batching.state) goes one step per execution of a request:
 * to numbers (INT32) the first value of INPUT0 is added, or, where its last dimension is open, it
 * gets that value as one more element; each text (BYTES) gets the value in digits, and ";".
 *
 * Any other output repeats an input, as the identity backend does: OUTPUT<x> repeats INPUT<x>,
 * ECHO_<x> the input <x> whether it is in the configuration or not, others the input at the same
 * place of the configuration.
 *
 * Ownership.  A model owns its descriptors.
 * Threads.  A model does not change after load, but for the counter.
 */
#pragma once

#include "kit/batch.h"
#include "kit/input.h"
#include "kit/model.h"
#include "kit/output.h"

#include <stdatomic.h>

struct testing_model {
        struct kit_model      kit;
        const char           *fail_instance; /* borrowed: the configuration; NULL: do not fail */
        const char           *fail_execute;  /* the same */
        const char           *crash;         /* the same */
        int64_t               delay_ms;
        int64_t               execute_us;
        int64_t               n_responses;
        int64_t               n_iterations;
        int64_t               add;
        int64_t               fail_value;
        int64_t               end_value;
        bool                  has_fail_value;
        bool                  has_end_value;
        int                   address_log;      /* descriptor, -1: none */
        int                   gate;             /* descriptor, -1: none */
        int                   reached;          /* descriptor, -1: none */
        int                   batch_log;        /* descriptor, -1: none */
        int                   life_log;         /* descriptor, -1: none */
        int                   sequence_log;     /* descriptor, -1: none */
        int                   instance_gate;    /* descriptor, -1: none */
        int                   instance_reached; /* descriptor, -1: none */
        int64_t               instance_delay_ms;
        bool                  is_decoupled;
        atomic_uint_least64_t n_executions;
};

struct testing_memory;

struct testing_instance {
        struct testing_model  *model;  /* borrowed: outlives its instances */
        struct testing_memory *memory; /* owned; NULL: main memory */
        const char            *name;   /* borrowed: the server */
        int64_t                serial;
        /* owned: one for each sequence that it had requests of */
        struct testing_sequence *sequences;
};

/* Facts that all requests of an execution share. */
struct testing_execution {
        struct testing_instance *instance;
        uint64_t                 number; /* from 1 */
        int64_t                  n_rows;
        uint32_t                 n_requests;
};

/* testing_model.c */
TRITONSERVER_Error *testing_model_new(TRITONBACKEND_Model *triton, struct testing_model **ret);
void                testing_model_free(struct testing_model *model);

/* Waits as the model's parameters require, and writes the batch_log. */
TRITONSERVER_Error *testing_pause(const struct testing_model *model, int64_t n_rows,
                                  uint32_t n_requests);
void                testing_sleep_ms(int64_t ms);
/* The same for the creation of an instance. */
TRITONSERVER_Error *testing_pass_instance(const struct testing_model *model);

/* Writes with one write(2), so that lines of several threads do not mix. */
TRITONSERVER_Error *testing_write(int file, const char *bytes, size_t n);

/* testing_life.c: the life_log; without one these do nothing. */
TRITONSERVER_Error *testing_life_begin(const struct testing_instance *instance,
                                       TRITONBACKEND_ModelInstance   *triton);
void                testing_life_note(const struct testing_instance *instance, const char *what);

/* Returns a code by its name or number; INTERNAL for anything else. */
TRITONSERVER_Error_Code testing_code(const char *text);

/* testing_memory.c: where tensors and states are. In this library that is main memory. On GPUs the library of
 * tests/gpu/testing_gpu_memory.c is used instead, which differs in these functions alone: instances of KIND_GPU ask
 * for outputs and states in memory of their GPU. */

/* Memory that a tensor or a state was given. Valid until testing_put(), or until the next of its kind is made. */
struct testing_buffer {
        void                   *bytes; /* main memory, to be written */
        void                   *at;    /* the memory that was given */
        size_t                  n_bytes;
        TRITONSERVER_MemoryType type; /* of `at` */
        int64_t                 id;
};

TRITONSERVER_Error *testing_memory_open(struct testing_instance     *instance,
                                        TRITONBACKEND_ModelInstance *triton);
void                testing_memory_close(struct testing_instance *instance);

/* Copies all bytes of an input to main memory. */
TRITONSERVER_Error *testing_copy(const struct testing_instance *instance,
                                 const struct kit_input *input, void *out);
/* The bytes of an input in main memory, and where it lies; NULL for one that is not one piece. They are valid until
 * the next input is borrowed. */
TRITONSERVER_Error *testing_borrow(const struct testing_instance *instance,
                                   const struct kit_input *input, const void **ret_bytes,
                                   const void **ret_at);
/* As kit_output_new() and kit_state_new(). */
TRITONSERVER_Error *testing_output_new(const struct testing_instance *instance,
                                       TRITONBACKEND_Response        *response,
                                       const struct kit_output *output, size_t n_bytes,
                                       struct testing_buffer *ret);
TRITONSERVER_Error *testing_state_new(const struct testing_instance *instance,
                                      TRITONBACKEND_Request         *request,
                                      const struct kit_output *state, size_t n_bytes,
                                      TRITONBACKEND_State **ret_state, struct testing_buffer *ret);
/* Ends the writing of a buffer. */
TRITONSERVER_Error *testing_put(const struct testing_instance *instance,
                                const struct testing_buffer   *buffer);

/* testing_sequence.c: what an instance keeps of sequences, and implicit states. */

struct testing_sequence {
        struct testing_sequence *next;
        int64_t                  sum;
        int64_t                  n_executions;
        char                     id[];
};

/* Returns the request's sequence, created on first use. NULL when the request has no correlation id
 * or memory is short. */
struct testing_sequence *testing_sequence_of(struct testing_instance *instance,
                                             TRITONBACKEND_Request   *request);
bool                     testing_sequence_begins(TRITONBACKEND_Request *request); /* true with the
                                                                                   * flag START */
/* True with the flag END, when the request is cancelled. */
bool testing_sequence_is_closing(TRITONBACKEND_Request *request);
void testing_sequence_forget(struct testing_instance *instance, TRITONBACKEND_Request *request);
/* Writes the sequence_log. */
TRITONSERVER_Error *testing_sequence_note(const struct testing_instance *instance,
                                          TRITONBACKEND_Request         *request);
void                testing_sequences_free(struct testing_instance *instance);
/* Returns the first value (INT32) of INPUT0; 0 when there is none. */
int32_t testing_first_value(const struct testing_instance *instance,
                            TRITONBACKEND_Request         *request);

struct testing_addresses {
        const void *read;
        const void *written;
};

/* Advances all states by one step. is_left: the new values are not kept for the next request. */
TRITONSERVER_Error *testing_states_step(const struct testing_instance *instance,
                                        TRITONBACKEND_Request *request, bool is_left,
                                        struct testing_addresses *ret);

/* testing_answer.c */

/* Fills the response of a model that is not decoupled. */
TRITONSERVER_Error *testing_answer(const struct testing_execution *execution,
                                   const struct kit_slot          *slot);

/* Sends all responses of a request of a decoupled model; the request is not released. */
TRITONSERVER_Error *testing_answer_many(const struct testing_execution *execution,
                                        TRITONBACKEND_Request *request, int64_t rows);

/* Sends one final response with `err`, and returns `err`. */
TRITONSERVER_Error *testing_refuse(TRITONBACKEND_Request *request, TRITONSERVER_Error *err);

/* Sends response `index` of a request that is run several times; the request is not released. */
TRITONSERVER_Error *testing_answer_step(const struct testing_execution *execution,
                                        TRITONBACKEND_Request *request, int64_t rows, int64_t index,
                                        bool is_last);
