/* SPDX-License-Identifier: BSD-3-Clause */
/* The type InferenceResponse, and the record that is written of it (py.h). */
#include "python/stub/py.h"

#include <stdio.h>
#include <string.h>

PyTypeObject *response_type;

static struct pool pool;
static PyObject   *argument_names[3];

static struct response *self_of(PyObject *self) {
        return (struct response *)self;
}

PyObject *response_make(PyObject *outputs, PyObject *error, PyObject *parameters) {
        struct response *r = (struct response *)pool_take(&pool);

        if (r == NULL)
                return NULL;
        Py_INCREF(outputs);
        Py_XINCREF(error);
        Py_XINCREF(parameters);
        r->outputs = outputs;
        r->error = error;
        r->parameters = parameters;
        return (PyObject *)r;
}

PyObject *response_out_of_reach(void) {
        PyObject *outputs = PyList_New(0), *response = NULL;
        PyObject *error = call_utils("make_error", "(Is)", 1u /* INTERNAL */, OUT_OF_REACH);

        if (outputs != NULL && error != NULL)
                response = response_make(outputs, error, NULL);
        Py_XDECREF(outputs);
        Py_XDECREF(error);
        return response;
}

/* Copies the model's sequence into a list of our own. */
static PyObject *check_outputs(PyObject *outputs) {
        PyObject *list = outputs != NULL ? PySequence_List(outputs) : PyList_New(0);

        for (Py_ssize_t i = 0; list != NULL && i < PyList_Size(list); i++) {
                PyObject *tensor = PyList_GetItem(list, i);

                if (tensor_check(tensor))
                        continue;
                if (tensor == Py_None)
                        (void)raise_model_exception(
                                "Output tensor for inference response should not be empty.");
                else
                        PyErr_SetString(PyExc_TypeError, "output_tensors must be a list of Tensor");
                Py_DECREF(list);
                return NULL;
        }
        return list;
}

static PyObject *response_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        static char *names[] = { "output_tensors", "error", "parameters", NULL };
        PyObject    *given[3] = { 0 }, *outputs, *error, *parameters, *json = NULL, *made = NULL;

        (void)type;
        if (!arguments_take(args, kwargs, argument_names, given, 3) &&
            !PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO:InferenceResponse", names, &given[0],
                                         &given[1], &given[2]))
                return NULL;
        outputs = given[0];
        error = given[1];
        parameters = given[2];
        if (outputs == Py_None) {
                PyErr_SetString(PyExc_TypeError, "output_tensors must be a list of Tensor");
                return NULL;
        }
        outputs = check_outputs(outputs);
        if (outputs == NULL)
                return NULL;
        if (error == Py_None)
                error = NULL;
        if (error != NULL) {
                PyObject *checked = call_utils("check_error", "(O)", error);

                Py_XDECREF(checked);
                if (checked == NULL) {
                        Py_DECREF(outputs);
                        return NULL;
                }
        }
        if (parameters != NULL && parameters != Py_None) {
                json = call_utils("parameters", "(O)", parameters);
                if (json == NULL) {
                        Py_DECREF(outputs);
                        return NULL;
                }
        }
        made = response_make(outputs, error, json);
        Py_DECREF(outputs);
        Py_XDECREF(json);
        return made;
}

static void response_dealloc(PyObject *self) {
        Py_XDECREF(self_of(self)->outputs);
        Py_XDECREF(self_of(self)->error);
        Py_XDECREF(self_of(self)->parameters);
        pool_give(&pool, self);
}

static PyObject *get_outputs(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyList_GetSlice(self_of(self)->outputs, 0, PyList_Size(self_of(self)->outputs));
}

static PyObject *has_error(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyBool_FromLong(self_of(self)->error != NULL);
}

static PyObject *get_error(PyObject *self, PyObject *unused) {
        PyObject *error = self_of(self)->error != NULL ? self_of(self)->error : Py_None;

        (void)unused;
        Py_INCREF(error);
        return error;
}

static PyObject *get_parameters(PyObject *self, PyObject *unused) {
        PyObject *parameters = self_of(self)->parameters;

        (void)unused;
        if (parameters == NULL)
                return PyUnicode_FromString("{}");
        Py_INCREF(parameters);
        return parameters;
}

static PyMethodDef methods[] = {
        { "output_tensors", get_outputs, METH_NOARGS, "The output tensors, as a list." },
        { "has_error", has_error, METH_NOARGS, NULL },
        { "error", get_error, METH_NOARGS, "The TritonError, or None." },
        { "parameters", get_parameters, METH_NOARGS, "The parameters, as JSON." },
        { NULL, NULL, 0, NULL },
};
static PyType_Slot slots[] = {
        { Py_tp_new, response_new },
        { Py_tp_dealloc, response_dealloc },
        { Py_tp_methods, methods },
        { 0, NULL },
};
static PyType_Spec spec = { .name = "c_python_backend_utils.InferenceResponse",
                            .basicsize = sizeof(struct response),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool response_init(void) {
        static const char *const names[] = { "output_tensors", "error", "parameters" };

        if (!pool_open(&pool, &spec))
                return false;
        response_type = pool.type;
        for (unsigned i = 0; i < 3; i++) {
                argument_names[i] = PyUnicode_InternFromString(names[i]);
                if (argument_names[i] == NULL)
                        return false;
        }
        return true;
}

/* ---- as a record ----------------------------------------------------------------------------- */

static uint64_t rounded(uint64_t n) {
        return (n + 7) & ~UINT64_C(7);
}

/* The server decides about outputs that are not in the configuration. */
static bool is_wanted(const struct answer_plan *plan, const struct tensor *t) {
        return t->output_index >= 64 || (plan->wanted >> t->output_index & 1) != 0;
}

static bool measure_error(struct answer_plan *plan) {
        PyObject *code = PyObject_CallMethod(plan->response->error, "code", NULL);
        PyObject *text =
                code != NULL ? PyObject_CallMethod(plan->response->error, "message", NULL) : NULL;

        if (text != NULL) {
                plan->code = (uint32_t)PyLong_AsUnsignedLong(code);
                plan->text = PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
        }
        Py_XDECREF(code);
        Py_XDECREF(text);
        if (plan->text == NULL || PyErr_Occurred() != NULL)
                return false;
        plan->n_bytes += rounded((uint64_t)PyBytes_Size(plan->text));
        return true;
}

static bool measure_output(struct answer_plan *plan, struct tensor *t) {
        const void *bytes;
        uint64_t    place;

        t->output_index = connection_output_index(t->name);
        if (!is_wanted(plan, t))
                return true;
        plan->n_outputs++;
        bytes = t->gpu == 0 ? tensor_bytes(t) : NULL;
        if (bytes == NULL && t->gpu == 0 && t->n_bytes > 0 && PyErr_Occurred() != NULL)
                return false;
        plan->n_bytes += sizeof(struct shm_tensor) + t->n_dims * sizeof(int64_t);
        if (t->output_index == SHM_NO_INDEX) {
                PyObject *name = PyUnicode_AsEncodedString(t->name, "utf-8", "surrogateescape");

                if (name == NULL)
                        return false;
                plan->n_bytes += rounded((uint64_t)PyBytes_Size(name));
                Py_DECREF(name);
        }
        if (t->gpu != 0) {
                if (!device_measure(t, &plan->n_bytes))
                        return false;
                plan->has_places = plan->has_places || t->sent->has_place;
        } else if (!connection_has(bytes, t->n_bytes, &place))
                plan->n_bytes += rounded(t->n_bytes) + SHM_BLOCK;
        return true;
}

/* The client gets an error instead of the outputs. */
static bool refuse_outputs(struct answer_plan *plan) {
        plan->text = PyBytes_FromFormat("a response has %lu outputs, and at most %u are possible",
                                        (unsigned long)plan->n_outputs, SHM_MAX_OUTPUTS);
        if (plan->text == NULL)
                return false;
        plan->code = 1; /* TRITONSERVER_ERROR_INTERNAL */
        plan->n_bytes += rounded((uint64_t)PyBytes_Size(plan->text));
        return true;
}

bool answer_measure(struct answer_plan *plan, struct response *response, uint64_t wanted) {
        Py_ssize_t n;

        *plan = (struct answer_plan){ .response = response,
                                      .wanted = wanted,
                                      .n_bytes = sizeof(struct shm_answer) };
        if (response->parameters != NULL) {
                plan->parameters = PyUnicode_AsUTF8String(response->parameters);
                if (plan->parameters == NULL)
                        return false;
                plan->n_bytes += rounded((uint64_t)PyBytes_Size(plan->parameters));
        }
        if (response->error != NULL)
                return measure_error(plan);
        n = PyList_Size(response->outputs);
        for (Py_ssize_t i = 0; i < n; i++)
                if (!measure_output(plan, (struct tensor *)PyList_GetItem(response->outputs, i)))
                        return false;
        return plan->n_outputs <= SHM_MAX_OUTPUTS || refuse_outputs(plan);
}

bool answer_is_too_large(uint64_t n_bytes, const char *what) {
        char text[128];

        if (n_bytes <= UINT32_MAX)
                return false;
        (void)snprintf(text, sizeof(text), "%s larger than 4 GiB", what);
        (void)raise_model_exception(text);
        return true;
}

void answer_done(struct answer_plan *plan) {
        Py_XDECREF(plan->text);
        Py_XDECREF(plan->parameters);
}

uint64_t answer_keep(const struct answer_plan *plan, uint32_t block) {
        if (!plan->has_places)
                return 0;
        device_keep(block, plan->response->outputs);
        return SHM_WANTS_BACK;
}

static struct shm_text put_text(unsigned char *base, uint64_t *at, PyObject *bytes) {
        struct shm_text text = { (uint32_t)*at, 0 };

        if (bytes == NULL)
                return (struct shm_text){ 0, 0 };
        text.len = (uint32_t)PyBytes_Size(bytes);
        memcpy(base + *at, PyBytes_AsString(bytes), text.len);
        *at = rounded(*at + text.len);
        return text;
}

static void put_name(struct shm_tensor *record, unsigned char *base, uint64_t *at,
                     const struct tensor *t) {
        PyObject *bytes;

        record->name_index = t->output_index;
        if (t->output_index != SHM_NO_INDEX)
                return;
        bytes = PyUnicode_AsEncodedString(t->name, "utf-8", "surrogateescape");
        record->name = put_text(base, at, bytes);
        Py_XDECREF(bytes);
}

static void put_output(struct shm_tensor *record, unsigned char *base, uint64_t *at, uint32_t block,
                       const struct tensor *t) {
        const void *bytes = t->gpu == 0 ? tensor_bytes(t) : NULL;

        *record =
                (struct shm_tensor){ .type = t->type, .n_dims = t->n_dims, .n_bytes = t->n_bytes };
        put_name(record, base, at, t);
        record->dims = (uint32_t)*at;
        memcpy(base + *at, t->dims, t->n_dims * sizeof(*t->dims));
        *at += t->n_dims * sizeof(*t->dims);
        if (t->gpu != 0) {
                device_write(t, record, base, at, (uint64_t)block * SHM_BLOCK);
                return;
        }
        if (t->n_bytes == 0 || connection_has(bytes, t->n_bytes, &record->data))
                return;
        *at = (*at + SHM_BLOCK - 1) & ~(uint64_t)(SHM_BLOCK - 1);
        record->data = (uint64_t)block * SHM_BLOCK + *at;
        memcpy(base + *at, bytes, t->n_bytes);
        *at = rounded(*at + t->n_bytes);
}

uint64_t answer_write(const struct answer_plan *plan, unsigned char *base, uint64_t at,
                      uint32_t block) {
        struct shm_answer *answer = (struct shm_answer *)(void *)(base + at);
        struct shm_tensor *records;
        PyObject          *outputs = plan->response->outputs;
        Py_ssize_t         n;

        at += sizeof(*answer);
        *answer =
                (struct shm_answer){ .kind = plan->text != NULL ? SHM_ANSWER_ERROR : SHM_ANSWER_OK,
                                     .code = plan->code };
        answer->text = put_text(base, &at, plan->text);
        answer->parameters = put_text(base, &at, plan->parameters);
        if (plan->text != NULL)
                return at;
        answer->outputs = (uint32_t)at;
        records = (struct shm_tensor *)(void *)(base + at);
        answer->n_outputs = plan->n_outputs;
        at += answer->n_outputs * sizeof(*records);
        n = PyList_Size(outputs);
        for (Py_ssize_t i = 0; i < n; i++) {
                const struct tensor *t = (const struct tensor *)PyList_GetItem(outputs, i);

                if (is_wanted(plan, t))
                        put_output(records++, base, &at, block, t);
        }
        return at;
}
