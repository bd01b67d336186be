/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a model to other models: writes the request into a call's block, and makes responses of the
 * replies. */
#include "python/stub/py.h"

#include <pthread.h>
#include <string.h>

/* An execution, as a call needs it. */
struct caller {
        uint32_t               depth; /* of nested calls that the execution is part of */
        uint32_t               slot;
        struct request *const *requests; /* those of the main thread, or ... */
        uint32_t               n_requests;
        const uint32_t        *handles; /* ... the handles of those of a coroutine */
};

static struct {
        pthread_t     thread;
        bool          is_executing;
        struct caller caller;
        pthread_t     loop_thread; /* of the event loop that runs coroutines */
        bool          has_loop;
} executing;

void bls_call_begin_execution(struct request *const *requests, Py_ssize_t n, uint32_t depth,
                              uint32_t slot) {
        executing.thread = pthread_self();
        executing.is_executing = true;
        executing.caller = (struct caller){
                .depth = depth, .slot = slot, .requests = requests, .n_requests = (uint32_t)n
        };
}

void bls_call_end_execution(void) {
        executing.is_executing = false;
}

/* use_loop(): the calling thread runs the event loop of coroutines */
PyObject *bls_call_use_loop(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        executing.loop_thread = pthread_self();
        executing.has_loop = true;
        Py_RETURN_NONE;
}

static bool is_executing_here(void) {
        return executing.is_executing && pthread_equal(executing.thread, pthread_self());
}

static bool is_loop_here(void) {
        return executing.has_loop && pthread_equal(executing.loop_thread, pthread_self());
}

PyObject *bls_call_key(struct request *const *requests, Py_ssize_t n, uint32_t depth,
                       uint32_t slot) {
        PyObject *handles = PyBytes_FromStringAndSize(NULL, n * (Py_ssize_t)sizeof(uint32_t));
        uint32_t *at;

        if (handles == NULL)
                return NULL;
        at = (uint32_t *)(void *)PyBytes_AsString(handles);
        for (Py_ssize_t i = 0; i < n; i++)
                at[i] = requests[i]->record.handle;
        return Py_BuildValue("(IIN)", depth, slot, handles);
}

/* execution() -> key of the execution on this thread; None when there is none */
PyObject *bls_call_execution(PyObject *module, PyObject *unused) {
        const struct caller *c = &executing.caller;

        (void)module;
        (void)unused;
        if (!is_executing_here())
                Py_RETURN_NONE;
        return bls_call_key(c->requests, (Py_ssize_t)c->n_requests, c->depth,
                            connection.is_decoupled ? SHM_NO_INDEX : c->slot);
}

/* holds() -> whether all executions of the instance need this thread now */
PyObject *bls_call_holds(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        return PyBool_FromLong(is_executing_here() || is_loop_here());
}

/* Reads the execution on whose behalf a call is made: that of a coroutine, by its key, or that of this
 * thread. False and an exception on failure. */
static bool read_caller(PyObject *key, struct caller *ret) {
        PyObject *handles;

        /* A call of another thread is as deep as the execution that it runs beside. */
        *ret = (struct caller){ .depth = executing.caller.depth, .slot = SHM_NO_INDEX };
        if (key == Py_None) {
                if (is_executing_here())
                        *ret = executing.caller;
                return true;
        }
        if (!PyArg_ParseTuple(key, "IIO!", &ret->depth, &ret->slot, &PyBytes_Type, &handles))
                return false;
        ret->handles = (const uint32_t *)(const void *)PyBytes_AsString(handles);
        ret->n_requests = (uint32_t)(PyBytes_Size(handles) / (Py_ssize_t)sizeof(uint32_t));
        return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Data of a call's payload. */
struct infer_plan {
        struct request *request;
        PyObject       *texts[4];     /* bytes: model, id, correlation, parameters; NULL: empty */
        PyObject       *input_names;  /* list of bytes */
        PyObject       *output_names; /* list of bytes */
        uint64_t        n_bytes;
        uint32_t        gpu; /* outputs are wanted there: its number + 1; 0: in main memory */
};

enum { TEXT_MODEL, TEXT_ID, TEXT_CORRELATION, TEXT_PARAMETERS };

static uint64_t rounded(uint64_t n) {
        return (n + 7) & ~UINT64_C(7);
}

static PyObject *encode(PyObject *text) {
        return PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
}

static bool encode_texts(struct infer_plan *plan) {
        const struct request *r = plan->request;
        PyObject             *values[4] = { NULL };

        values[TEXT_MODEL] = r->model_name;
        values[TEXT_ID] = r->id;
        if (PyUnicode_Check(r->correlation))
                values[TEXT_CORRELATION] = r->correlation;
        values[TEXT_PARAMETERS] = r->parameters;
        for (unsigned i = 0; i < 4; i++) {
                if (values[i] == NULL)
                        continue;
                plan->texts[i] = encode(values[i]);
                if (plan->texts[i] == NULL)
                        return false;
                plan->n_bytes += rounded((uint64_t)PyBytes_Size(plan->texts[i]));
        }
        return true;
}

/* Encodes the names of tensors (`is_tensor`) or of outputs. */
static PyObject *encode_names(struct infer_plan *plan, PyObject *list, bool is_tensor) {
        Py_ssize_t n = PyList_Size(list);
        PyObject  *names = PyList_New(n);

        for (Py_ssize_t i = 0; names != NULL && i < n; i++) {
                PyObject *item = PyList_GetItem(list, i);
                PyObject *name = encode(is_tensor ? ((struct tensor *)item)->name : item);

                if (name == NULL) {
                        Py_DECREF(names);
                        return NULL;
                }
                plan->n_bytes += rounded((uint64_t)PyBytes_Size(name)) +
                                 (is_tensor ? sizeof(struct shm_tensor) : sizeof(struct shm_text));
                (void)PyList_SetItem(names, i, name);
        }
        return names;
}

static bool measure_inputs(struct infer_plan *plan) {
        for (Py_ssize_t i = 0; i < PyList_Size(plan->request->inputs); i++) {
                struct tensor *t = (struct tensor *)PyList_GetItem(plan->request->inputs, i);
                const void    *bytes;
                uint64_t       place;

                if (t->gpu != 0) {
                        plan->n_bytes += t->n_dims * sizeof(int64_t);
                        if (!device_measure(t, &plan->n_bytes))
                                return false;
                        continue;
                }
                bytes = tensor_bytes(t);
                if (bytes == NULL && t->n_bytes > 0 && PyErr_Occurred() != NULL)
                        return false;
                plan->n_bytes += t->n_dims * sizeof(int64_t);
                if (!connection_has(bytes, t->n_bytes, &place))
                        plan->n_bytes += rounded(t->n_bytes) + SHM_BLOCK;
        }
        return true;
}

static bool read_memory(struct infer_plan *plan) {
        PyObject *gpu;

        if (plan->request->preferred_memory == NULL)
                return true;
        gpu = call_utils("preferred_gpu", "(O)", plan->request->preferred_memory);
        if (gpu != NULL)
                plan->gpu = (uint32_t)PyLong_AsUnsignedLong(gpu);
        Py_XDECREF(gpu);
        return PyErr_Occurred() == NULL;
}

static bool make_plan(struct infer_plan *plan, struct request *r) {
        *plan = (struct infer_plan){ .request = r, .n_bytes = sizeof(struct shm_infer) };
        if (!request_complete(r) ||
            !encode_texts(plan)) /* the block may be a client's, passed on */
                return false;
        plan->input_names = encode_names(plan, r->inputs, true);
        plan->output_names =
                plan->input_names != NULL ? encode_names(plan, r->outputs, false) : NULL;
        return plan->output_names != NULL && read_memory(plan) && measure_inputs(plan);
}

static void plan_done(struct infer_plan *plan) {
        for (unsigned i = 0; i < 4; i++)
                Py_XDECREF(plan->texts[i]);
        Py_XDECREF(plan->input_names);
        Py_XDECREF(plan->output_names);
}

struct payload {
        unsigned char *base;
        uint64_t       at;
        uint64_t       place; /* offset of base in the region */
};

struct infer_options {
        uint32_t      id;
        struct caller caller;
        enum shm_wait waits;
        bool          is_async, is_decoupled;
};

static struct shm_text put_text(struct payload *p, PyObject *bytes) {
        struct shm_text text = { (uint32_t)p->at, 0 };

        if (bytes == NULL)
                return text;
        text.len = (uint32_t)PyBytes_Size(bytes);
        memcpy(p->base + p->at, PyBytes_AsString(bytes), text.len);
        p->at = rounded(p->at + text.len);
        return text;
}

static void put_input(struct payload *p, const struct infer_plan *plan, Py_ssize_t i,
                      struct shm_tensor *record) {
        const struct tensor *t = (struct tensor *)PyList_GetItem(plan->request->inputs, i);
        const void          *bytes = t->gpu == 0 ? tensor_bytes(t) : NULL;
        uint64_t             pad;

        *record = (struct shm_tensor){ .name_index = SHM_NO_INDEX,
                                       .type = t->type,
                                       .n_dims = t->n_dims,
                                       .n_bytes = t->n_bytes };
        record->name = put_text(p, PyList_GetItem(plan->input_names, i));
        record->dims = (uint32_t)p->at;
        memcpy(p->base + p->at, t->dims, t->n_dims * sizeof(*t->dims));
        p->at += t->n_dims * sizeof(*t->dims);
        if (t->gpu != 0) {
                device_write(t, record, p->base, &p->at, p->place);
                return;
        }
        if (t->n_bytes == 0 || connection_has(bytes, t->n_bytes, &record->data))
                return;
        pad = (SHM_BLOCK - (p->place + p->at) % SHM_BLOCK) % SHM_BLOCK;
        p->at += pad;
        record->data = p->place + p->at;
        memcpy(p->base + p->at, bytes, t->n_bytes);
        p->at = rounded(p->at + t->n_bytes);
}

static void put_requests(struct payload *p, const struct caller *caller, struct shm_infer *infer) {
        uint32_t *handles = (uint32_t *)(void *)(p->base + p->at);

        infer->n_requests = caller->n_requests;
        infer->requests = (uint32_t)p->at;
        for (uint32_t i = 0; i < caller->n_requests; i++)
                handles[i] = caller->handles != NULL ? caller->handles[i]
                                                     : caller->requests[i]->record.handle;
        p->at = rounded(p->at + caller->n_requests * sizeof(*handles));
}

static void put_infer(struct payload *p, const struct infer_plan *plan,
                      const struct infer_options *o) {
        struct shm_infer     *infer = (struct shm_infer *)(void *)p->base;
        const struct request *r = plan->request;
        struct shm_tensor    *tensors;
        struct shm_text      *outputs;

        *infer = (struct shm_infer){
                .n_inputs = (uint32_t)PyList_Size(r->inputs),
                .n_outputs = (uint32_t)PyList_Size(r->outputs),
                .flags = (uint32_t)r->flags,
                .correlation_kind = r->record.correlation_kind,
                .correlation = r->record.correlation,
                .timeout_us = r->timeout_us,
                .version = r->block == NULL ? r->version : -1,
                .is_decoupled = o->is_decoupled,
                .gpu = plan->gpu,
                .depth = o->caller.depth + 1,
                .waits = (uint32_t)o->waits,
                .execution = o->caller.slot,
        };
        p->at = sizeof(*infer);
        infer->inputs = (uint32_t)p->at;
        tensors = (struct shm_tensor *)(void *)(p->base + p->at);
        p->at += infer->n_inputs * sizeof(*tensors);
        infer->outputs = (uint32_t)p->at;
        outputs = (struct shm_text *)(void *)(p->base + p->at);
        p->at += infer->n_outputs * sizeof(*outputs);
        put_requests(p, &o->caller, infer);
        infer->model = put_text(p, plan->texts[TEXT_MODEL]);
        infer->id = put_text(p, plan->texts[TEXT_ID]);
        infer->correlation_text = put_text(p, plan->texts[TEXT_CORRELATION]);
        infer->parameters = put_text(p, plan->texts[TEXT_PARAMETERS]);
        for (uint32_t i = 0; i < infer->n_outputs; i++)
                outputs[i] = put_text(p, PyList_GetItem(plan->output_names, (Py_ssize_t)i));
        for (uint32_t i = 0; i < infer->n_inputs; i++)
                put_input(p, plan, (Py_ssize_t)i, &tensors[i]);
}

/* Returns the call's block; 0 and an exception on failure. */
static uint32_t start_call(struct request *r, const struct infer_options *o) {
        struct infer_plan plan;
        struct payload    p;
        struct shm_call  *call;
        uint32_t          handle, block = 0;

        if (make_plan(&plan, r) && request_trace_handle(r, &handle)) {
                plan.n_bytes += rounded(o->caller.n_requests * sizeof(uint32_t));
                block = calls_new(SHM_CALL_INFER, handle, plan.n_bytes);
        }
        if (block != 0) {
                call = connection_block(block);
                p = (struct payload){ (unsigned char *)call + call->payload, 0,
                                      (uint64_t)block * SHM_BLOCK + call->payload };
                call->id = o->id;
                call->is_async = o->is_async;
                put_infer(&p, &plan, o);
                calls_post(block);
        }
        plan_done(&plan);
        return block;
}

/* An execution that is known may wait for the responses later. A coroutine of a decoupled model does not hold
 * the instance, unless it reads a stream on the event loop's thread. */
static enum shm_wait later_wait(const struct infer_options *o, bool has_key) {
        if (has_key && o->caller.slot == SHM_NO_INDEX && !o->is_decoupled)
                return SHM_WAIT_NONE;
        return has_key || is_executing_here() ? SHM_WAIT_MAYBE : SHM_WAIT_NONE;
}

/* infer(request, id, is_decoupled, key) -> block of an asynchronous call */
PyObject *bls_call_start(PyObject *module, PyObject *args) {
        struct infer_options o = { .is_async = true };
        PyObject            *request, *key;
        int                  is_decoupled;
        uint32_t             block;

        (void)module;
        if (!PyArg_ParseTuple(args, "O!IpO:infer", request_type, &request, &o.id, &is_decoupled,
                              &key) ||
            !read_caller(key, &o.caller))
                return NULL;
        o.is_decoupled = is_decoupled != 0;
        o.waits = later_wait(&o, key != Py_None);
        block = start_call((struct request *)request, &o);
        return block != 0 ? PyLong_FromUnsignedLong(block) : NULL;
}

/* wait(block, enum shm_wait): who waits for the responses of a call that the server has asked for */
PyObject *bls_call_wait(PyObject *module, PyObject *args) {
        unsigned int block, kind;

        (void)module;
        if (!PyArg_ParseTuple(args, "II:wait", &block, &kind))
                return NULL;
        connection_post(&(struct shm_message){ .kind = SHM_WAIT, .block = block, .value = kind });
        connection_wake(SHM_NAPPING);
        Py_RETURN_NONE;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Returns the block of an output; 0 when it has no bytes. */
static uint32_t output_block(const struct shm_tensor *record) {
        return record->data != 0 && record->gpu == 0
                       ? (uint32_t)((record->data - SHM_OUTPUT_OFFSET) / SHM_BLOCK)
                       : 0;
}

/* Of an output on a GPU. */
static uint64_t hold_of(const struct shm_tensor *record) {
        return ((const struct shm_device *)shm_map_at(&connection.map, record->data))->hold;
}

/* Maps the blocks of the outputs. When one is out of reach, gives all back and returns false. */
static bool reach_outputs(const unsigned char *base, const struct shm_answer *answer) {
        const struct shm_tensor *records = (const void *)(base + answer->outputs);
        bool                     has_all = true;

        for (uint32_t i = 0; i < answer->n_outputs && has_all; i++)
                has_all = output_block(&records[i]) == 0 ||
                          connection_reach(output_block(&records[i]));
        for (uint32_t i = 0; i < answer->n_outputs && !has_all; i++) {
                if (output_block(&records[i]) != 0)
                        connection_give_back(output_block(&records[i]));
                if (records[i].gpu != 0)
                        connection_say_dropped(hold_of(&records[i]));
        }
        return has_all;
}

static PyObject *make_tensor(const unsigned char *base, const struct shm_tensor *record) {
        PyObject *owner = block_new(output_block(record)), *name, *tensor = NULL;

        if (owner == NULL)
                return NULL;
        if (record->gpu != 0)
                block_hold(owner, hold_of(record));
        name = record_text(base, record->name, "surrogateescape");
        if (name != NULL)
                tensor = tensor_over(name, record,
                                     (const int64_t *)(const void *)(base + record->dims), owner);
        Py_XDECREF(name);
        Py_DECREF(owner);
        return tensor;
}

static PyObject *make_outputs(const unsigned char *base, const struct shm_answer *answer) {
        const struct shm_tensor *records = (const void *)(base + answer->outputs);
        PyObject                *list = PyList_New(answer->n_outputs);

        for (uint32_t i = 0; list != NULL && i < answer->n_outputs; i++) {
                PyObject *tensor = make_tensor(base, &records[i]);

                if (tensor == NULL) {
                        Py_DECREF(list);
                        return NULL;
                }
                (void)PyList_SetItem(list, (Py_ssize_t)i, tensor);
        }
        return list;
}

/* The text is that of another model, and may have any bytes. */
static PyObject *make_error(const unsigned char *base, const struct shm_answer *answer) {
        PyObject *text = record_text(base, answer->text, "replace");

        return text != NULL ? call_utils("make_error", "(IN)", answer->code, text) : NULL;
}

/* Makes the response of a reply, whose block is given back. */
static PyObject *make_response(uint32_t block) {
        const unsigned char     *base = connection_block(block);
        const struct shm_answer *answer = &((const struct shm_reply *)(const void *)base)->answer;
        PyObject                *outputs, *error = NULL, *parameters, *response = NULL;

        if (!reach_outputs(base, answer)) {
                calls_release(block);
                return response_out_of_reach();
        }
        outputs = make_outputs(base, answer);
        parameters = record_text(base, answer->parameters, "replace");
        if (answer->kind == SHM_ANSWER_ERROR)
                error = make_error(base, answer);
        else if (answer->parameters.len == 0)
                Py_CLEAR(parameters); /* then parameters() returns {} */
        if (outputs != NULL && (error != NULL || answer->kind != SHM_ANSWER_ERROR) &&
            PyErr_Occurred() == NULL)
                response = response_make(outputs, error, parameters);
        Py_XDECREF(outputs);
        Py_XDECREF(error);
        Py_XDECREF(parameters);
        calls_release(block);
        return response;
}

/* exec(request, key) -> the only response of a synchronous call */
PyObject *bls_call_exec(PyObject *module, PyObject *args) {
        struct infer_options o = { 0 };
        PyObject            *request, *key;
        uint32_t             block;

        (void)module;
        if (!PyArg_ParseTuple(args, "O!O:exec", request_type, &request, &key) ||
            !read_caller(key, &o.caller))
                return NULL;
        if (is_executing_here() || (key != Py_None && is_loop_here()))
                o.waits = SHM_WAIT_INSTANCE;
        block = start_call((struct request *)request, &o);
        return block != 0 ? make_response(calls_finish(block, request)) : NULL;
}

/* Reverses a list of replies, to the oldest first. */
static uint32_t reversed(uint32_t block) {
        uint32_t before = 0;

        while (block != 0) {
                struct shm_reply *reply = connection_block(calls_reach_reply(block));
                uint32_t          next = reply->next;

                reply->next = before;
                before = block;
                block = next;
        }
        return before;
}

/* Must agree with triton_python_backend_utils.py. */
enum reply_kind { REPLY_MORE, REPLY_END, REPLY_LAST, REPLY_ASK };

static enum reply_kind kind_of(const struct shm_reply *reply) {
        if (reply->answer.kind == SHM_ANSWER_ASK)
                return REPLY_ASK;
        if (reply->is_last)
                return REPLY_LAST;
        return reply->is_end ? REPLY_END : REPLY_MORE;
}

/* wait_async() -> [(id, response, enum reply_kind), ...] of asynchronous calls */
PyObject *bls_call_wait_async(PyObject *module, PyObject *unused) {
        _Atomic uint32_t *list = &connection.header->async_replies;
        PyObject         *result = PyList_New(0);
        uint32_t          block;

        (void)module;
        (void)unused;
        while ((block = shm_list_take(list)) == 0)
                if (!connection_sleep(list, 0, SHM_FOREVER))
                        PyErr_Clear();
        block = reversed(block);
        while (block != 0) {
                struct shm_reply reply;
                PyObject        *response, *item = NULL;

                memcpy(&reply, connection_block(block), sizeof(reply));
                response = make_response(block);
                if (response != NULL)
                        item = Py_BuildValue("(INI)", reply.id, response, kind_of(&reply));
                if (result == NULL || item == NULL || PyList_Append(result, item) != 0)
                        Py_FatalError("no memory for the response of a called model");
                Py_DECREF(item);
                block = reply.next;
        }
        return result;
}
