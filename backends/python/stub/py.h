/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module of a stub process, which connects a model's program with the server.
 *
 * It is built for the limited API of Python 3.9, so that one binary loads into each later version,
 * and without NumPy's headers (numpy_table.h).
 *
 * Ownership.  As Python's: what a function returns as PyObject * is a new reference.
 * Threads.  The interpreter lock guards everything here, unless a function says otherwise. It is
 * given up to sleep, and for nothing else.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include "python/shm_heap.h"
#include "python/shm_layout.h"
#include "python/shm_slot.h"
#include "python/shm_sync.h"

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- the connection (connection.c) ----------------------------------------------------------- */

struct connection {
        unsigned char     *base; /* of the region; NULL: not attached */
        struct shm_header *header;
        struct shm_heap    heap; /* of the stub's area */
        uint32_t           execution_head;
        uint32_t           message_tail;
        bool               is_decoupled;
        bool      is_forked;    /* a child of the stub: the memory is not its own to give back */
        PyObject *input_names;  /* tuple of interned str */
        PyObject *output_names; /* the same */
        PyObject *output_index; /* dict: str -> int */
        PyObject *utils;        /* dict of functions that are written in Python */
        PyObject *error_class;  /* TritonModelException */
};

extern struct connection connection;

/* attach(): maps the memory. Sets an exception on failure. */
PyObject *connection_attach(PyObject *module, PyObject *args);

/* A block of the stub's area; 0 and MemoryError when there is no more. */
uint32_t connection_alloc(uint64_t n_bytes);
void     connection_free(uint32_t block);
/* Blocks that the server has read. */
void connection_absorb(void);

static inline void *connection_block(uint32_t block) {
        return connection.base + (uint64_t)block * SHM_BLOCK;
}

/* Waits while the ring is full. Does not wake the server. */
void connection_post(const struct shm_message *message);
/* Wakes the server's receiver if it sleeps as deep as that. */
void connection_wake(enum shm_sleep least);
/* Sleeps on the word without the interpreter lock; false: an exception of a signal handler is set. */
bool connection_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);

/* The index of an output's name in the configuration; SHM_NO_INDEX: it is not there. */
uint32_t connection_output_index(PyObject *name);

/* True when the bytes lie in the region, and where. */
bool connection_has(const void *bytes, uint64_t n_bytes, uint64_t *ret_place);

/* Raises TritonModelException. */
PyObject *raise_model_exception(const char *text);
/* Calls a function of `utils`; `format` as of Py_BuildValue, a tuple. */
PyObject *call_utils(const char *name, const char *format, ...);

/* ---- objects that each request makes (pool.c) ------------------------------------------------ */

#define POOL_OBJECTS 64

/* Memory of objects of a type that have died, for the next ones. Types that models cannot derive from. */
struct pool {
        PyTypeObject *type;
        size_t        n_bytes; /* of an object */
        allocfunc     alloc;
        freefunc      release;
        unsigned      n_kept;
        PyObject     *kept[POOL_OBJECTS];
};

/* False and an exception on failure. */
bool pool_open(struct pool *pool, PyType_Spec *spec);
/* An object whose fields are 0; NULL and an exception on failure. */
PyObject *pool_take(struct pool *pool);
/* The end of tp_dealloc: the fields are released. */
void pool_give(struct pool *pool, PyObject *object);

/* The arguments of a call by position and by name, borrowed, NULL where there is none. A fifth of the time of
 * PyArg_ParseTupleAndKeywords(), which is to find out what is wrong after false; no exception is set. */
bool arguments_take(PyObject *args, PyObject *kwargs, PyObject *const *names, PyObject **ret,
                    Py_ssize_t n);

/* ---- blocks of the server that Python objects use (pool.c) ---------------------------------- */

/* An object that gives the block back when it dies. */
PyObject *block_new(uint32_t number);
uint32_t  block_number(PyObject *block);

/* ---- tensors (tensor.c) ---------------------------------------------------------------------- */

#define TENSOR_FEW_DIMS 4
#define TENSOR_MAX_DIMS 32 /* of NumPy 1.x */

struct tensor {
        PyObject  head;
        PyObject *name;  /* str */
        PyObject *array; /* ndarray; NULL: not made yet, or the type has none */
        PyObject *owner; /* of `bytes`: a block, bytes or a capsule; NULL: the array */
        void     *bytes; /* BYTES: serialised */
        uint64_t  n_bytes;
        uint32_t  type;         /* TRITONSERVER_DataType */
        uint32_t  output_index; /* of its name in the configuration; set by answer_measure() */
        uint32_t  n_dims;
        int64_t   few_dims[TENSOR_FEW_DIMS];
        int64_t  *dims; /* few_dims, or owned */
};

extern PyTypeObject *tensor_type;

static inline bool tensor_check(PyObject *object) {
        return PyObject_TypeCheck(object, tensor_type);
}

/* A tensor over bytes that `owner` keeps. */
PyObject *tensor_over(PyObject *name, const struct shm_tensor *record, const int64_t *dims,
                      PyObject *owner);
/* Where the bytes are now: those of an array are looked up each time. */
const void *tensor_bytes(const struct tensor *tensor);
uint32_t    type_size(uint32_t type); /* bytes of an element; 0: BYTES */

/* ---- BYTES tensors (strings.c) --------------------------------------------------------------- */

/* `bytes` of an object array's elements, each with its length before it. */
PyObject *strings_serialize(PyObject *array, uint64_t n_elements);
/* `n` new `bytes`. False when there are not as many, or one is malformed, or with an exception; those that
 * were made until then are in `elements`. */
bool strings_read(const void *bytes, uint64_t n_bytes, PyObject **elements, uint64_t n);
/* A list of `bytes`; raises TritonModelException for malformed ones. */
PyObject *strings_deserialize(const void *bytes, uint64_t n_bytes);

/* ---- DLPack (dlpack.c) ----------------------------------------------------------------------- */

PyObject *dlpack_export(PyObject *tensor);
PyObject *dlpack_import(PyObject *module, PyObject *args);

/* ---- requests and responses (request.c, response.c, sender.c) -------------------------------- */

struct request {
        PyObject           head;
        PyObject          *block;  /* NULL: made by the model, for a call */
        struct shm_request record; /* a copy */
        PyObject          *inputs; /* list of tensors; NULL: not made yet */
        PyObject          *sender; /* NULL: not asked for yet */
        PyObject          *id, *correlation, *parameters, *outputs; /* NULL: not made yet */
        PyObject          *model_name, *trace, *preferred_memory;   /* of a request for a call */
        long long          version;
        unsigned long      flags;
        unsigned long long timeout_us;
        unsigned int       release_flags;
        bool               must_close; /* was left open: when it dies without a sender, say so */
        bool               is_cancelled;
        uint64_t           cancel_asked_ns;
};

extern PyTypeObject *request_type;
PyObject            *request_over(uint32_t block);
/* Makes what was not asked for yet and a call needs; parameters only when there are any. False and an
 * exception on failure. */
bool request_complete(struct request *r);
/* The request whose trace a call continues; SHM_NO_INDEX: none. False and an exception on failure. */
bool request_trace_handle(const struct request *r, uint32_t *ret);
/* The outputs that a request asks for, as of struct answer_plan. */
uint64_t request_wanted(const struct request *r);

struct response {
        PyObject  head;
        PyObject *outputs;    /* list of tensors */
        PyObject *error;      /* TritonError, or NULL */
        PyObject *parameters; /* str of JSON */
};

extern PyTypeObject *response_type;
PyObject            *response_make(PyObject *outputs, PyObject *error, PyObject *parameters);

/* The record of a response, and how large it is. */
struct answer_plan {
        struct response *response;
        uint64_t         wanted;     /* outputs of the configuration, by bits; further ones all */
        PyObject        *text;       /* bytes; NULL: none */
        PyObject        *parameters; /* bytes; NULL: none */
        uint64_t         n_bytes;
        uint32_t         n_outputs; /* that are wanted */
        uint32_t         code;
};

/* False and an exception on failure. answer_done() in both cases. */
bool answer_measure(struct answer_plan *plan, struct response *response, uint64_t wanted);
void answer_done(struct answer_plan *plan);
/* Writes it at base + at; the next free place is the result. `block` is that of base. */
uint64_t answer_write(const struct answer_plan *plan, unsigned char *base, uint64_t at,
                      uint32_t block);

struct sender {
        PyObject head;
        uint32_t handle;
        uint64_t wanted;       /* outputs, as of struct answer_plan */
        bool     is_made_here; /* of a request for a call: there is nothing to answer */
        bool     has_sent;
        bool     is_closed;
        bool     is_left; /* the execution has ended without it */
        bool     is_cancelled;
        uint64_t cancel_asked_ns;
};

extern PyTypeObject *sender_type;
PyObject            *sender_new(uint32_t handle, uint64_t wanted, bool is_made_here);

/* ---- executions (serve.c), calls (calls.c) --------------------------------------------------- */

PyObject *serve(PyObject *module, PyObject *args);
PyObject *serve_end(PyObject *module, PyObject *args);

PyObject *calls_infer(PyObject *module, PyObject *args);
PyObject *calls_exec(PyObject *module, PyObject *args);
PyObject *calls_wait_async(PyObject *module, PyObject *unused);
PyObject *calls_free(PyObject *module, PyObject *args);
PyObject *calls_cancel(PyObject *module, PyObject *args);
PyObject *calls_ask(PyObject *module, PyObject *args);
PyObject *calls_count(PyObject *module, PyObject *args);
/* Asks the server; at most once a millisecond, *asked_ns being the last time. -1: an exception. */
int calls_is_cancelled(uint32_t handle, uint64_t *asked_ns);
/* An execution runs on this thread, `depth` calls deep. */
void calls_begin_execution(uint32_t depth);
void calls_end_execution(void);

/* ---- stacks (stacks.c) ----------------------------------------------------------------------- */

/* stacks_file(): a file in memory, which os.memfd_create() of interpreters built for old systems lacks */
PyObject *stacks_file(PyObject *module, PyObject *unused);
/* stacks_begin(fd, signal): faulthandler writes all stacks to the descriptor at that signal. Starts the
 * watchdog. */
PyObject *stacks_begin(PyObject *module, PyObject *args);
/* stacks_wait(question): the next question that this thread is to answer, when it comes */
PyObject *stacks_wait(PyObject *module, PyObject *args);
/* stacks_answer(question, text) */
PyObject *stacks_answer(PyObject *module, PyObject *args);

/* The types of the files above. False and an exception on failure. */
bool block_init(void);
bool tensor_init(void);
bool request_init(void);
bool response_init(void);
bool sender_init(void);
