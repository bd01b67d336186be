/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a model to other models: writes the request into a call's block, and makes responses of the
 * replies. */
#include "python/stub/py.h"

#include <pthread.h>
#include <string.h>

static struct {
        pthread_t thread;
        bool      is_executing;
        uint32_t  depth; /* depth of nested calls that the execution is part of */
} executing;

void infer_call_begin_execution(uint32_t depth) {
        executing.thread = pthread_self();
        executing.is_executing = true;
        executing.depth = depth;
}

void infer_call_end_execution(void) {
        executing.is_executing = false;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Data of a call's payload. */
struct infer_plan {
        struct request *request;
        PyObject       *texts[4];     /* bytes: model, id, correlation, parameters; NULL: empty */
        PyObject       *input_names;  /* list of bytes */
        PyObject       *output_names; /* list of bytes */
        uint64_t        n_bytes;
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
                const struct tensor *t = (struct tensor *)PyList_GetItem(plan->request->inputs, i);
                const void          *bytes = tensor_bytes(t);
                uint64_t             place;

                if (bytes == NULL && t->n_bytes > 0 && PyErr_Occurred())
                        return false;
                plan->n_bytes += t->n_dims * sizeof(int64_t);
                if (!connection_has(bytes, t->n_bytes, &place))
                        plan->n_bytes += rounded(t->n_bytes) + SHM_BLOCK;
        }
        return true;
}

static bool make_plan(struct infer_plan *plan, struct request *r) {
        *plan = (struct infer_plan){ .request = r, .n_bytes = sizeof(struct shm_infer) };
        if (!request_complete(r) ||
            !encode_texts(plan)) /* the block may be a client's, passed on */
                return false;
        plan->input_names = encode_names(plan, r->inputs, true);
        plan->output_names =
                plan->input_names != NULL ? encode_names(plan, r->outputs, false) : NULL;
        return plan->output_names != NULL && measure_inputs(plan);
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
        const void          *bytes = tensor_bytes(t);
        uint64_t             pad;

        *record = (struct shm_tensor){ .name_index = SHM_NO_INDEX,
                                       .type = t->type,
                                       .n_dims = t->n_dims,
                                       .n_bytes = t->n_bytes };
        record->name = put_text(p, PyList_GetItem(plan->input_names, i));
        record->dims = (uint32_t)p->at;
        memcpy(p->base + p->at, t->dims, t->n_dims * sizeof(*t->dims));
        p->at += t->n_dims * sizeof(*t->dims);
        if (t->n_bytes == 0 || connection_has(bytes, t->n_bytes, &record->data))
                return;
        pad = (SHM_BLOCK - (p->place + p->at) % SHM_BLOCK) % SHM_BLOCK;
        p->at += pad;
        record->data = p->place + p->at;
        memcpy(p->base + p->at, bytes, t->n_bytes);
        p->at = rounded(p->at + t->n_bytes);
}

static void put_infer(struct payload *p, const struct infer_plan *plan, bool is_decoupled,
                      uint32_t depth) {
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
                .is_decoupled = is_decoupled,
                .depth = depth + 1,
        };
        p->at = sizeof(*infer);
        infer->inputs = (uint32_t)p->at;
        tensors = (struct shm_tensor *)(void *)(p->base + p->at);
        p->at += infer->n_inputs * sizeof(*tensors);
        infer->outputs = (uint32_t)p->at;
        outputs = (struct shm_text *)(void *)(p->base + p->at);
        p->at += infer->n_outputs * sizeof(*outputs);
        infer->model = put_text(p, plan->texts[TEXT_MODEL]);
        infer->id = put_text(p, plan->texts[TEXT_ID]);
        infer->correlation_text = put_text(p, plan->texts[TEXT_CORRELATION]);
        infer->parameters = put_text(p, plan->texts[TEXT_PARAMETERS]);
        for (uint32_t i = 0; i < infer->n_outputs; i++)
                outputs[i] = put_text(p, PyList_GetItem(plan->output_names, (Py_ssize_t)i));
        for (uint32_t i = 0; i < infer->n_inputs; i++)
                put_input(p, plan, (Py_ssize_t)i, &tensors[i]);
}

struct infer_options {
        uint32_t id;
        int  depth; /* depth of nested calls; -1: the depth of the execution on the main thread */
        bool is_async, is_decoupled, waits;
};

/* Returns the call's block; 0 and an exception on failure. */
static uint32_t start_call(struct request *r, const struct infer_options *o) {
        struct infer_plan plan;
        struct payload    p;
        struct shm_call  *call;
        uint32_t          handle, block = 0;

        if (make_plan(&plan, r) && request_trace_handle(r, &handle))
                block = calls_new(SHM_CALL_INFER, handle, plan.n_bytes);
        if (block != 0) {
                call = connection_block(block);
                p = (struct payload){ (unsigned char *)call + call->payload, 0,
                                      (uint64_t)block * SHM_BLOCK + call->payload };
                call->id = o->id;
                call->is_async = o->is_async;
                call->is_executing = o->waits && executing.is_executing &&
                                     pthread_equal(executing.thread, pthread_self());
                put_infer(&p, &plan, o->is_decoupled,
                          o->depth >= 0 ? (uint32_t)o->depth : executing.depth);
                calls_post(block);
        }
        plan_done(&plan);
        return block;
}

/* infer(request, id, is_async, is_decoupled, waits, depth) -> block of the call */
PyObject *infer_call_start(PyObject *module, PyObject *args) {
        PyObject    *request;
        unsigned int id;
        int          is_async, is_decoupled, waits, depth;
        uint32_t     block;

        (void)module;
        if (!PyArg_ParseTuple(args, "O!Ipppi:infer", request_type, &request, &id, &is_async,
                              &is_decoupled, &waits, &depth))
                return NULL;
        block = start_call((struct request *)request,
                           &(struct infer_options){ .id = id,
                                                    .depth = depth,
                                                    .is_async = is_async != 0,
                                                    .is_decoupled = is_decoupled != 0,
                                                    .waits = waits != 0 });
        return block != 0 ? PyLong_FromUnsignedLong(block) : NULL;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Returns the block of an output; 0 when it has no bytes. */
static uint32_t output_block(const struct shm_tensor *record) {
        return record->data != 0 ? (uint32_t)((record->data - SHM_OUTPUT_OFFSET) / SHM_BLOCK) : 0;
}

/* Maps the blocks of the outputs. When one is out of reach, gives all back and returns false. */
static bool reach_outputs(const unsigned char *base, const struct shm_answer *answer) {
        const struct shm_tensor *records = (const void *)(base + answer->outputs);
        bool                     has_all = true;

        for (uint32_t i = 0; i < answer->n_outputs && has_all; i++)
                has_all = output_block(&records[i]) == 0 ||
                          connection_reach(output_block(&records[i]));
        for (uint32_t i = 0; i < answer->n_outputs && !has_all; i++)
                if (output_block(&records[i]) != 0)
                        connection_give_back(output_block(&records[i]));
        return has_all;
}

static PyObject *make_tensor(const unsigned char *base, const struct shm_tensor *record) {
        PyObject *owner = block_new(output_block(record)), *name, *tensor = NULL;

        if (owner == NULL)
                return NULL;
        name = PyUnicode_DecodeUTF8((const char *)base + record->name.at, record->name.len,
                                    "surrogateescape");
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
        parameters = PyUnicode_DecodeUTF8((const char *)base + answer->parameters.at,
                                          answer->parameters.len, "replace");
        if (answer->kind == SHM_ANSWER_ERROR)
                error = call_utils("make_error", "(Is#)", answer->code,
                                   (const char *)base + answer->text.at,
                                   (Py_ssize_t)answer->text.len);
        else if (answer->parameters.len == 0)
                Py_CLEAR(parameters); /* then parameters() returns {} */
        if (outputs != NULL && (error != NULL || answer->kind != SHM_ANSWER_ERROR) &&
            !PyErr_Occurred())
                response = response_make(outputs, error, parameters);
        Py_XDECREF(outputs);
        Py_XDECREF(error);
        Py_XDECREF(parameters);
        calls_release(block);
        return response;
}

/* exec(request, depth) -> the only response of a synchronous call */
PyObject *infer_call_exec(PyObject *module, PyObject *args) {
        struct infer_options options = { .waits = true };
        PyObject            *request;
        uint32_t             block, reply;

        (void)module;
        if (!PyArg_ParseTuple(args, "O!i:exec", request_type, &request, &options.depth))
                return NULL;
        block = start_call((struct request *)request, &options);
        if (block == 0)
                return NULL;
        reply = calls_wait_replies(block);
        connection_free(block);
        return make_response(reply);
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

/* wait_async() -> [(id, response, is_last), ...] of asynchronous calls */
PyObject *infer_call_wait_async(PyObject *module, PyObject *unused) {
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
                        item = Py_BuildValue("(INO)", reply.id, response,
                                             reply.is_last ? Py_True : Py_False);
                if (result == NULL || item == NULL || PyList_Append(result, item) != 0)
                        Py_FatalError("no memory for the response of a called model");
                Py_DECREF(item);
                block = reply.next;
        }
        return result;
}
