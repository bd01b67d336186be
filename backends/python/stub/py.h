/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module of a stub process, which connects a model's program with the server.
 *
 * It is built for the limited API of Python 3.9, so that one binary loads into each later version,
 * and without NumPy's headers (numpy_table.h).
 *
 * Ownership.  As in Python: a returned PyObject * is a new reference.
 * Threads.  The interpreter lock guards everything here, unless a function says otherwise. It is
 * released only to sleep.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include "python/shm_area.h"
#include "python/shm_slot.h"
#include "python/shm_sync.h"

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- the connection (connection.c) ----------------------------------------------------------- */

/* A segment of the server that is mapped here. */
struct server_segment {
        const unsigned char *begin;
        uint64_t             n_bytes;
        uint64_t             offset; /* in the region */
        uint32_t             index;  /* of its record */
};

struct connection {
        struct shm_header    *header; /* NULL: not attached */
        struct shm_map        map;
        struct shm_area       area;  /* the stub's */
        uint32_t              asked; /* segment for which a thread waits; SHM_NO_INDEX: none */
        struct server_segment server_segments[SHM_SEGMENTS];
        uint32_t              n_server_segments;
        uint32_t              n_removed; /* removals of the server that were followed */
        uint32_t              execution_head;
        uint32_t              message_tail;
        /* Called for a block that the server has given back. True: its call frees it. */
        bool (*on_returned)(uint32_t block);
        bool      is_decoupled;
        bool      is_forked;    /* this process is a child of the stub, which must not free the
                                 * memory */
        PyObject *input_names;  /* tuple of interned str */
        PyObject *output_names; /* the same */
        PyObject *output_index; /* dict: str -> int */
        PyObject *utils;        /* dict of functions written in Python */
        PyObject *error_class;  /* TritonModelException */
};

extern struct connection connection;

/* attach(): maps the memory. Sets an exception on failure. */
PyObject *connection_attach(PyObject *module, PyObject *args);

/* Allocates a block of the stub's area; 0 and an exception when memory or addresses are short. Releases the
 * interpreter lock when the area has to grow. */
uint32_t connection_alloc(uint64_t n_bytes);
void     connection_free(uint32_t block);
/* Frees the blocks that the server has given back. */
void connection_absorb(void);
/* Returns the memory and the addresses that no block uses to the system. Returns false when there were no
 * addresses to return. */
bool connection_shrink(void);
/* Unmaps the segments that the server has removed. */
void connection_follow(void);

/* Maps the segment of a server's block, which is not used before. Returns false when the process has no
 * addresses for it. */
bool connection_reach(uint32_t block);
/* Gives a block back to the server, also one that is out of reach. */
void connection_give_back(uint32_t block);
/* Tells the server that the inputs of a request on GPUs, or an output of a call there, are not used any more. */
void connection_say_dropped(uint64_t hold);
/* Gives a request's block back that is out of reach. */
void connection_refuse_request(uint32_t block);
/* Reads from a block that is out of reach. */
bool connection_read(uint32_t block, uint64_t at, void *to, size_t n_bytes);

/* Returns the address of a block within reach. */
static inline void *connection_block(uint32_t block) {
        return shm_map_at(&connection.map, (uint64_t)block * SHM_BLOCK);
}

/* Makes a str of a record's text. `errors`, as in bytes.decode(): what becomes of bytes that are no UTF-8. */
static inline PyObject *record_text(const void *record, struct shm_text text, const char *errors) {
        return PyUnicode_DecodeUTF8((const char *)record + text.at, (Py_ssize_t)text.len, errors);
}

/* Pushes a message; waits while the ring is full. Does not wake the server. */
void connection_post(const struct shm_message *message);
/* Wakes the server's receiver if it sleeps at least as deep as `least`. */
void connection_wake(enum shm_sleep least);
/* Sleeps on the word without the interpreter lock. Returns false when a signal handler set an
 * exception. */
bool connection_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);

/* Returns the index of an output's name in the configuration; SHM_NO_INDEX when it is not there. */
uint32_t connection_output_index(PyObject *name);

/* Returns true when the bytes are in the server's area, and their offset in the region. */
bool connection_has(const void *bytes, uint64_t n_bytes, uint64_t *ret_place);

/* Raises TritonModelException and returns NULL. */
PyObject *raise_model_exception(const char *text);
/* Calls a function of `utils`; `format` makes a tuple, as in Py_BuildValue. */
PyObject *call_utils(const char *name, const char *format, ...);

/* ---- objects that each request makes (pool.c) ------------------------------------------------ */

#define POOL_OBJECTS 64

/* Memory of deleted objects of one type, kept for new ones. Only for types that models cannot
 * derive from. */
struct pool {
        PyTypeObject *type;
        size_t        n_bytes; /* size of an object */
        allocfunc     alloc;
        freefunc      release;
        unsigned      n_kept;
        PyObject     *kept[POOL_OBJECTS];
};

/* Returns false and sets an exception on failure. */
bool pool_open(struct pool *pool, PyType_Spec *spec);
/* Returns an object whose fields are 0; NULL and an exception on failure. */
PyObject *pool_take(struct pool *pool);
/* Called at the end of tp_dealloc, after the fields were released. */
void pool_give(struct pool *pool, PyObject *object);

/* Reads the arguments of a call by position and by name, borrowed, NULL for missing ones. It takes
 * a fifth of the time of PyArg_ParseTupleAndKeywords(). It returns false without an exception; the
 * caller then calls that function to find the mistake. */
bool arguments_take(PyObject *args, PyObject *kwargs, PyObject *const *names, PyObject **ret,
                    Py_ssize_t n);

/* ---- blocks of the server that Python objects use (pool.c) ---------------------------------- */

/* Makes an object that gives the block back when it is deleted. */
PyObject *block_new(uint32_t number);
uint32_t  block_number(PyObject *block);
/* The block is that of a request with inputs on GPUs, or of an output of a call there, which has no number: the
 * process tells the server when it is deleted. */
void block_hold(PyObject *block, uint64_t hold);

/* ---- tensors (tensor.c) ---------------------------------------------------------------------- */

#define TENSOR_FEW_DIMS 4
#define TENSOR_MAX_DIMS SHM_MAX_DIMS /* NumPy 1.x itself refuses arrays of more than 32 */

struct tensor {
        PyObject  head;
        PyObject *name;  /* str */
        PyObject *array; /* ndarray; NULL: not created, or the type has none */
        PyObject *
                owner; /* owner of `bytes`: a block, bytes, a capsule, or bytes of the server on a GPU; NULL: the
                          * array */
        void    *bytes; /* BYTES: serialised. NULL: bytes of the server on a GPU */
        uint64_t n_bytes;
        uint32_t type;         /* TRITONSERVER_DataType */
        uint32_t output_index; /* index of its name in the configuration; set by answer_measure() */
        uint32_t n_dims;
        int64_t  few_dims[TENSOR_FEW_DIMS];
        int64_t *dims;            /* few_dims, or owned */
        uint32_t gpu;             /* 0: main memory; else the number of a GPU + 1 */
        struct device_sent *sent; /* owned; set by device_measure() */
};

/* How a tensor on a GPU is sent. */
struct device_sent {
        bool              has_place; /* the server reads it there; else it was copied to `host` */
        struct shm_device place;
        unsigned char     host[];
};

extern PyTypeObject *tensor_type;

static inline bool tensor_check(PyObject *object) {
        return PyObject_TypeCheck(object, tensor_type);
}

/* Makes a tensor over bytes that `owner` keeps alive. */
PyObject *tensor_over(PyObject *name, const struct shm_tensor *record, const int64_t *dims,
                      PyObject *owner);
/* Returns the current address of the bytes, which for an array is read each time. */
const void *tensor_bytes(const struct tensor *tensor);

/* ---- tensors on GPUs (stub_device.c) ---------------------------------------------------------- */

/* The owner of bytes of the server on a GPU. They are closed when it is deleted; it keeps the block. */
PyObject *device_bytes_new(const struct shm_tensor *record, PyObject *block);
bool      is_device_bytes(const PyObject *owner); /* NULL is none */
/* Opens them. NULL and an exception on failure. */
void *device_bytes_open(PyObject *self);
/* Finds out how a tensor on a GPU is sent, waits for the work on it, and adds the bytes that it takes. False and
 * an exception on failure. */
bool device_measure(struct tensor *t, uint64_t *n_bytes);
/* Writes what was measured, at base + *at, which is at `place` + *at in the region. */
void device_write(const struct tensor *t, struct shm_tensor *record, unsigned char *base,
                  uint64_t *at, uint64_t place);
/* Keeps the tensors until the server gives the block back. */
void      device_keep(uint32_t block, PyObject *outputs);
bool      device_keeps_any(void);
void      device_drop(uint32_t block);
void      device_drop_all(void);
PyObject *device_end(PyObject *module, PyObject *unused);

/* ---- BYTES tensors (strings.c) --------------------------------------------------------------- */

/* Returns `bytes` with the elements of an object array, each after its length. */
PyObject *strings_serialize(PyObject *array, uint64_t n_elements);
/* Makes `n` new `bytes` objects. Returns false when the number differs, when an element is
 * malformed, or with an exception; the objects made so far are in `elements`. */
bool strings_read(const void *bytes, uint64_t n_bytes, PyObject **elements, uint64_t n);
/* Returns a list of `bytes`; raises TritonModelException for malformed elements. */
PyObject *strings_deserialize(const void *bytes, uint64_t n_bytes);

/* ---- DLPack (dlpack.c) ----------------------------------------------------------------------- */

struct array_view;

/* Makes a capsule over the bytes, which `owner` keeps alive. */
PyObject *dlpack_export(const struct array_view *view, PyObject *owner);
/* Takes the bytes of a capsule, or of an object with __dlpack__. Returns what keeps them and the
 * dimensions alive; NULL and an exception on failure. */
PyObject *dlpack_import(PyObject *source, struct array_view *ret);

/* ---- requests and responses (stub_request.c, stub_response.c, sender.c) -------------------------------- */

struct request {
        PyObject           head;
        PyObject          *block;  /* NULL: the model made the request, for a call */
        struct shm_request record; /* a copy */
        PyObject          *inputs; /* list of tensors; NULL: not created */
        PyObject          *sender; /* NULL: not created */
        PyObject          *id, *correlation, *parameters, *outputs; /* NULL: not created */
        PyObject          *model_name, *trace, *preferred_memory; /* set in a request for a call */
        long long          version;
        unsigned long      flags;
        unsigned long long timeout_us;
        unsigned int       release_flags;
        bool               must_close; /* left open by its execution: reported when it is deleted
                                        * without a sender */
        bool               is_cancelled;
        uint64_t           cancel_asked_ns;
        PyObject *refusal; /* response to a request that is out of reach, which the model does
                                     * not see; else NULL */
};

extern PyTypeObject *request_type;
PyObject            *request_over(uint32_t block);
/* A request whose block is out of reach; gives the block back. */
PyObject *request_refused(uint32_t block);
/* Creates the objects that a call needs and that were not accessed yet; parameters only when there
 * are any. False and an exception on failure. */
bool request_complete(struct request *r);
/* Returns the handle of the request whose trace a call continues; SHM_NO_INDEX when there is none.
 * False and an exception on failure. */
bool request_trace_handle(const struct request *r, uint32_t *ret);
/* Returns the outputs that a request wants, in the form of struct answer_plan. */
uint64_t request_wanted(const struct request *r);

struct response {
        PyObject  head;
        PyObject *outputs;    /* list of tensors */
        PyObject *error;      /* TritonError, or NULL */
        PyObject *parameters; /* str of JSON */
};

extern PyTypeObject *response_type;
PyObject            *response_make(PyObject *outputs, PyObject *error, PyObject *parameters);
/* The error of what needs memory that is out of reach. */
PyObject *response_out_of_reach(void);
#define OUT_OF_REACH                                                                               \
        "Failed to increase the shared memory pool size. The Python process has no more "          \
        "addresses "                                                                               \
        "(`ulimit -v`)."

/* A response and the size of its record. */
struct answer_plan {
        struct response *response;
        uint64_t         wanted;     /* a bit for each output of the configuration; later outputs
                                      * are all wanted */
        PyObject        *text;       /* bytes: the answer is this error; NULL: none */
        PyObject        *parameters; /* bytes; NULL: none */
        uint64_t         n_bytes;
        uint32_t         n_outputs; /* number of wanted outputs */
        uint32_t         code;
        bool             has_places; /* of outputs on GPUs, which the server reads there */
};

/* Determines the plan of a response. False and an exception on failure. The caller calls
 * answer_done() in both cases. */
bool answer_measure(struct answer_plan *plan, struct response *response, uint64_t wanted);
void answer_done(struct answer_plan *plan);
/* Offsets in a record have 32 bits. True, with an exception, when one of n_bytes is too large: "<what> larger than
 * 4 GiB". */
bool answer_is_too_large(uint64_t n_bytes, const char *what);
/* To be called for each plan that was written: keeps its outputs if the server reads them on a GPU, and then
 * returns what the message says of that. */
uint64_t answer_keep(const struct answer_plan *plan, uint32_t block);
/* Writes the record at base + at and returns the next free offset. `block` is the block of
 * `base`. */
uint64_t answer_write(const struct answer_plan *plan, unsigned char *base, uint64_t at,
                      uint32_t block);

struct sender {
        PyObject head;
        uint32_t handle;
        uint64_t wanted;       /* outputs, in the form of struct answer_plan */
        bool     is_made_here; /* for a request of the model's own, which nothing can answer */
        bool     has_sent;
        bool     is_closed;
        bool     is_left; /* its execution has ended before it */
        bool     is_cancelled;
        uint64_t cancel_asked_ns;
};

extern PyTypeObject *sender_type;
PyObject            *sender_new(uint32_t handle, uint64_t wanted, bool is_made_here);

/* ---- calls of the server (calls.c) ----------------------------------------------------------- */

/* Allocates a block with a call and a payload of n_bytes; 0 and an exception on failure. */
uint32_t calls_new(enum shm_call_kind kind, uint32_t handle, uint64_t n_bytes);
void     calls_post(uint32_t block);
/* Waits for replies of the call and takes their list, newest first. */
uint32_t calls_wait_replies(uint32_t block);
/* Maps a reply, and returns it. Replies are small: when there are no addresses even for them, the process
 * ends. */
uint32_t calls_reach_reply(uint32_t reply_block);
/* Waits for the only reply to the call of a request and returns it. Frees the call's block; after an early
 * answer it comes back later, and the request, whose inputs the call uses, is kept until then. */
uint32_t calls_finish(uint32_t block, PyObject *request);
/* A block has come back. Returns true when its call must not be freed yet: calls_finish() does it. */
bool calls_take_back(uint32_t block);
/* Gives the block of a reply back to the server. */
void calls_release(uint32_t reply_block);
/* Asks the server at most once a millisecond; *asked_ns is the last time. Returns -1 with an
 * exception. */
int calls_is_cancelled(uint32_t handle, uint64_t *asked_ns);

PyObject *calls_ask(PyObject *module, PyObject *args);
PyObject *calls_free(PyObject *module, PyObject *args);
PyObject *calls_cancel(PyObject *module, PyObject *args);
PyObject *calls_count(PyObject *module, PyObject *args);

/* ---- calls of other models (stub_bls_call.c) ---------------------------------------------------- */

PyObject *bls_call_start(PyObject *module, PyObject *args);
PyObject *bls_call_exec(PyObject *module, PyObject *args);
PyObject *bls_call_wait_async(PyObject *module, PyObject *unused);
PyObject *bls_call_wait(PyObject *module, PyObject *args);
PyObject *bls_call_use_loop(PyObject *module, PyObject *unused);
PyObject *bls_call_execution(PyObject *module, PyObject *unused);
PyObject *bls_call_holds(PyObject *module, PyObject *unused);
/* Records that an execution of these requests runs on this thread, at that depth of nested calls. */
void bls_call_begin_execution(struct request *const *requests, Py_ssize_t n, uint32_t depth,
                              uint32_t slot);
void bls_call_end_execution(void);
/* Makes the key by which the calls of a coroutine name their execution: (depth, slot, handles). */
PyObject *bls_call_key(struct request *const *requests, Py_ssize_t n, uint32_t depth,
                       uint32_t slot);

/* ---- executions (stub_serve.c) -------------------------------------------------------------------- */

PyObject *serve(PyObject *module, PyObject *args);
PyObject *serve_end(PyObject *module, PyObject *args);

/* ---- stacks (stub_stacks.c) ----------------------------------------------------------------------- */

/* stacks_file() -> descriptor of a file in memory; os.memfd_create() is missing in interpreters
 * built for old systems */
PyObject *stacks_file(PyObject *module, PyObject *unused);
/* stacks_begin(fd, signal): makes faulthandler write all stacks to the descriptor at that signal,
 * and starts the watchdog */
PyObject *stacks_begin(PyObject *module, PyObject *args);
/* stacks_wait(question) -> the next question that this thread must answer */
PyObject *stacks_wait(PyObject *module, PyObject *args);
/* stacks_answer(question, text) */
PyObject *stacks_answer(PyObject *module, PyObject *args);

/* Create the types of the files above. False and an exception on failure. */
bool block_init(void);
bool device_init(void);
bool tensor_init(void);
bool request_init(void);
bool response_init(void);
bool sender_init(void);
