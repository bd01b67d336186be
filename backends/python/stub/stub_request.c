/* SPDX-License-Identifier: BSD-3-Clause */
/* The type InferenceRequest: a request of the server, or one that the model makes for a call (py.h). */
#include "python/stub/py.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *request_type;

static struct pool pool;

static struct request *self_of(PyObject *self) {
        return (struct request *)self;
}

static PyObject *new_reference(PyObject *object) {
        Py_XINCREF(object);
        return object;
}

/* ---- requests that the server sent ----------------------------------------------------------- */

PyObject *request_over(uint32_t block) {
        struct request *r = (struct request *)pool_take(&pool);

        if (r == NULL)
                return NULL;
        r->block = block_new(block);
        if (r->block == NULL) {
                Py_DECREF(r);
                return NULL;
        }
        memcpy(&r->record, connection_block(block), sizeof(r->record));
        block_hold(r->block, r->record.hold);
        r->flags = r->record.flags;
        r->timeout_us = r->record.timeout_us;
        r->release_flags = 1; /* TRITONSERVER_REQUEST_RELEASE_ALL */
        return (PyObject *)r;
}

PyObject *request_refused(uint32_t block) {
        struct request *r = (struct request *)pool_take(&pool);

        connection_refuse_request(block);
        if (r == NULL)
                return NULL;
        r->record.handle = SHM_NO_INDEX;
        r->record.n_outputs = SHM_NO_INDEX;
        r->release_flags = 1;
        r->refusal = response_out_of_reach();
        if (r->refusal == NULL)
                Py_CLEAR(r);
        return (PyObject *)r;
}

static const unsigned char *base_of(const struct request *r) {
        return connection_block(block_number(r->block));
}

static PyObject *text_of(const struct request *r, struct shm_text text) {
        return record_text(base_of(r), text, "surrogateescape");
}

static PyObject *make_input(const struct request *r, const struct shm_tensor *record) {
        PyObject *name, *tensor;

        if (record->name_index != SHM_NO_INDEX)
                name = new_reference(PyTuple_GetItem(connection.input_names, record->name_index));
        else
                name = text_of(r, record->name);
        if (name == NULL)
                return NULL;
        tensor = tensor_over(name, record,
                             (const int64_t *)(const void *)(base_of(r) + record->dims), r->block);
        Py_DECREF(name);
        return tensor;
}

static PyObject *make_inputs(const struct request *r) {
        const struct shm_tensor *records = (const void *)(base_of(r) + r->record.inputs);
        PyObject                *list = PyList_New((Py_ssize_t)r->record.n_inputs);

        for (uint32_t i = 0; list != NULL && i < r->record.n_inputs; i++) {
                PyObject *tensor = make_input(r, &records[i]);

                if (tensor == NULL) {
                        Py_DECREF(list);
                        return NULL;
                }
                (void)PyList_SetItem(list, (Py_ssize_t)i, tensor);
        }
        return list;
}

/* ---- requests that models make --------------------------------------------------------------- */

struct arguments {
        PyObject *id, *correlation, *inputs, *outputs, *model, *memory, *trace, *parameters;
};

enum { N_ARGUMENTS = 11, ARGUMENT_VERSION = 5, ARGUMENT_FLAGS = 6, ARGUMENT_TIMEOUT = 7 };

static char *argument_texts[] = {
        "request_id",       "correlation_id", "inputs",     "requested_output_names",
        "model_name",       "model_version",  "flags",      "timeout",
        "preferred_memory", "trace",          "parameters", NULL
};
static PyObject *argument_names[N_ARGUMENTS];

/* Returns false when the fields are numbers that still have to be read, or on failure. */
static bool take_given(PyObject *args, PyObject *kwargs, struct arguments *ret) {
        PyObject *given[N_ARGUMENTS];

        if (!arguments_take(args, kwargs, argument_names, given, N_ARGUMENTS) ||
            given[ARGUMENT_VERSION] != NULL || given[ARGUMENT_FLAGS] != NULL ||
            given[ARGUMENT_TIMEOUT] != NULL)
                return false;
        *ret = (struct arguments){ .id = given[0],
                                   .correlation = given[1],
                                   .inputs = given[2],
                                   .outputs = given[3],
                                   .model = given[4],
                                   .memory = given[8],
                                   .trace = given[9],
                                   .parameters = given[10] };
        return true;
}

static bool complain(const char *format, const struct request *r) {
        PyObject *text = PyUnicode_FromFormat(format, r->id, r->model_name);

        if (text != NULL)
                PyErr_SetObject(connection.error_class, text);
        Py_XDECREF(text);
        return false;
}

static PyObject *as_text(PyObject *object, const char *what) {
        if (PyUnicode_Check(object))
                return new_reference(object);
        if (PyBytes_Check(object))
                return PyUnicode_FromEncodedObject(object, "utf-8", "surrogateescape");
        PyErr_Format(PyExc_TypeError, "%s must be a str", what);
        return NULL;
}

static bool take_inputs(struct request *r, PyObject *inputs) {
        r->inputs = PySequence_List(inputs);
        if (r->inputs == NULL)
                return false;
        for (Py_ssize_t i = 0; i < PyList_Size(r->inputs); i++) {
                PyObject *input = PyList_GetItem(r->inputs, i);

                if (input == Py_None)
                        return complain("Input tensor for request with id '%S' and model name '%S' "
                                        "should not be empty.",
                                        r);
                if (!tensor_check(input)) {
                        PyErr_SetString(PyExc_TypeError, "inputs must be a list of Tensor");
                        return false;
                }
        }
        return true;
}

static bool take_outputs(struct request *r, PyObject *outputs) {
        PyObject *list = PySequence_List(outputs);

        if (list == NULL)
                return false;
        r->outputs = list;
        for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
                PyObject *name = as_text(PyList_GetItem(list, i), "a requested output name");

                if (name == NULL || PyList_SetItem(list, i, name) != 0)
                        return false;
                if (PyUnicode_GetLength(name) == 0)
                        return complain("Requested output name for request with id '%S' and model "
                                        "name '%S' should not be empty.",
                                        r);
        }
        return true;
}

static bool take_correlation(struct request *r, PyObject *correlation) {
        if (PyUnicode_Check(correlation) || PyBytes_Check(correlation)) {
                r->correlation = as_text(correlation, "correlation_id");
                r->record.correlation_kind = SHM_CORRELATION_TEXT;
                return r->correlation != NULL;
        }
        if (PyLong_Check(correlation)) {
                r->record.correlation = PyLong_AsUnsignedLongLong(correlation);
                if (PyErr_Occurred() == NULL) {
                        r->correlation = new_reference(correlation);
                        return true;
                }
                PyErr_Clear();
        }
        if (correlation == Py_None) {
                PyErr_SetString(PyExc_TypeError, "correlation_id must not be None");
                return false;
        }
        (void)raise_model_exception("Correlation ID must be integer or string");
        return false;
}

/* Leaves *ret unchanged for None: the object is then created on first access. */
static bool check_given(PyObject *given, const char *function, PyObject **ret) {
        if (given == NULL || given == Py_None)
                return true;
        *ret = call_utils(function, "(O)", given);
        return *ret != NULL;
}

static bool take_arguments(struct request *r, const struct arguments *a) {
        r->id = a->id != NULL ? as_text(a->id, "request_id") : PyUnicode_FromString("");
        if (r->id == NULL)
                return false;
        r->model_name = as_text(a->model, "model_name");
        if (r->model_name == NULL)
                return false;
        if (a->inputs == Py_None || a->outputs == Py_None) {
                PyErr_SetString(PyExc_TypeError,
                                "inputs and requested_output_names must not be None");
                return false;
        }
        if (a->correlation != NULL && !take_correlation(r, a->correlation))
                return false;
        if (!take_inputs(r, a->inputs) || !take_outputs(r, a->outputs))
                return false;
        return check_given(a->parameters, "parameters", &r->parameters) &&
               check_given(a->trace, "check_trace", &r->trace) &&
               check_given(a->memory, "check_memory", &r->preferred_memory);
}

static PyObject *request_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        struct arguments   a = { 0 };
        struct request    *r;
        long long          version = -1;
        unsigned int       flags = 0;
        unsigned long long timeout_us = 0;

        (void)type;
        if (!take_given(args, kwargs, &a) &&
            !PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOOLIKOOO:InferenceRequest",
                                         argument_texts, &a.id, &a.correlation, &a.inputs,
                                         &a.outputs, &a.model, &version, &flags, &timeout_us,
                                         &a.memory, &a.trace, &a.parameters))
                return NULL;
        if (a.inputs == NULL || a.outputs == NULL || a.model == NULL) {
                PyErr_SetString(PyExc_TypeError, "InferenceRequest() needs inputs, "
                                                 "requested_output_names and model_name");
                return NULL;
        }
        r = (struct request *)pool_take(&pool);
        if (r == NULL)
                return NULL;
        r->version = version;
        r->flags = flags;
        r->timeout_us = timeout_us;
        r->record.handle = SHM_NO_INDEX;
        if (!take_arguments(r, &a)) {
                Py_DECREF(r);
                return NULL;
        }
        return (PyObject *)r;
}

static void request_dealloc(PyObject *self) {
        struct request *r = self_of(self);

        if (r->must_close && r->sender == NULL) {
                connection_post(
                        &(struct shm_message){ .kind = SHM_CLOSED, .handle = r->record.handle });
                connection_wake(SHM_NAPPING);
        }
        Py_XDECREF(r->block);
        Py_XDECREF(r->inputs);
        Py_XDECREF(r->sender);
        Py_XDECREF(r->id);
        Py_XDECREF(r->correlation);
        Py_XDECREF(r->parameters);
        Py_XDECREF(r->outputs);
        Py_XDECREF(r->model_name);
        Py_XDECREF(r->trace);
        Py_XDECREF(r->preferred_memory);
        Py_XDECREF(r->refusal);
        pool_give(&pool, self);
}

/* ---- what models call ------------------------------------------------------------------------ */

static PyObject *get_inputs(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->inputs == NULL)
                r->inputs = make_inputs(r);
        return r->inputs != NULL ? PyList_GetSlice(r->inputs, 0, PyList_Size(r->inputs)) : NULL;
}

static PyObject *get_id(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->id == NULL)
                r->id = text_of(r, r->record.id);
        return new_reference(r->id);
}

static PyObject *get_correlation(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->correlation == NULL)
                r->correlation = r->record.correlation_kind == SHM_CORRELATION_TEXT
                                         ? text_of(r, r->record.correlation_text)
                                         : PyLong_FromUnsignedLongLong(r->record.correlation);
        return new_reference(r->correlation);
}

uint64_t request_wanted(const struct request *r) {
        const uint32_t *indices;
        uint64_t        wanted = 0;

        if (r->block == NULL || r->record.n_outputs == SHM_NO_INDEX)
                return UINT64_MAX;
        indices = (const void *)(base_of(r) + r->record.outputs);
        for (uint32_t i = 0; i < r->record.n_outputs; i++)
                wanted |= indices[i] < 64 ? UINT64_C(1) << indices[i] : 0;
        return wanted;
}

static PyObject *make_outputs(const struct request *r) {
        const uint32_t *indices = (const void *)(base_of(r) + r->record.outputs);
        PyObject       *list;

        if (r->record.n_outputs == SHM_NO_INDEX)
                return PySequence_List(connection.output_names);
        list = PyList_New((Py_ssize_t)r->record.n_outputs);
        for (uint32_t i = 0; list != NULL && i < r->record.n_outputs; i++)
                (void)PyList_SetItem(list, (Py_ssize_t)i,
                                     new_reference(PyTuple_GetItem(connection.output_names,
                                                                   (Py_ssize_t)indices[i])));
        return list;
}

static PyObject *get_outputs(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->outputs == NULL)
                r->outputs = make_outputs(r);
        return r->outputs != NULL ? PySet_New(r->outputs) : NULL;
}

static PyObject *get_parameters(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->parameters == NULL)
                r->parameters = r->record.parameters.len > 0 ? text_of(r, r->record.parameters)
                                                             : PyUnicode_FromString("{}");
        return new_reference(r->parameters);
}

static PyObject *get_flags(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyLong_FromUnsignedLong(self_of(self)->flags);
}

static PyObject *set_flags(PyObject *self, PyObject *args) {
        unsigned int flags;

        if (!PyArg_ParseTuple(args, "I:set_flags", &flags))
                return NULL;
        self_of(self)->flags = flags;
        Py_RETURN_NONE;
}

static PyObject *get_timeout(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyLong_FromUnsignedLongLong(self_of(self)->timeout_us);
}

static PyObject *get_trace(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->trace == NULL) {
                PyObject *context = r->record.trace.len > 0 ? text_of(r, r->record.trace)
                                                            : new_reference(Py_None);

                r->trace = context != NULL ? call_utils("make_trace", "(OI)", context,
                                                        r->record.has_trace ? r->record.handle
                                                                            : SHM_NO_INDEX)
                                           : NULL;
                Py_XDECREF(context);
        }
        return new_reference(r->trace);
}

static PyObject *get_memory(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->preferred_memory == NULL)
                r->preferred_memory = call_utils("check_memory", "(O)", Py_None);
        return new_reference(r->preferred_memory);
}

static PyObject *get_sender(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->sender == NULL) {
                r->sender = sender_new(r->record.handle, request_wanted(r), r->block == NULL);
                if (r->sender != NULL && r->must_close)
                        ((struct sender *)r->sender)->is_left = true;
        }
        return new_reference(r->sender);
}

static PyObject *is_cancelled(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (!r->is_cancelled && r->block != NULL) {
                int is = calls_is_cancelled(r->record.handle, &r->cancel_asked_ns);

                if (is < 0)
                        return NULL;
                r->is_cancelled = is != 0;
        }
        return PyBool_FromLong(r->is_cancelled);
}

static PyObject *set_release_flags(PyObject *self, PyObject *args) {
        unsigned int flags;

        if (!PyArg_ParseTuple(args, "I:set_release_flags", &flags))
                return NULL;
        self_of(self)->release_flags = flags;
        Py_RETURN_NONE;
}

static PyObject *get_model_name(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);

        (void)unused;
        if (r->model_name == NULL)
                r->model_name = call_utils("own_name", "()");
        return new_reference(r->model_name);
}

/* (name, version) of the model that exec() calls */
static PyObject *get_target(PyObject *self, PyObject *unused) {
        struct request *r = self_of(self);
        PyObject       *name = get_model_name(self, unused);

        return name != NULL ? Py_BuildValue("(NL)", name, r->block == NULL ? r->version : -1)
                            : NULL;
}

bool request_complete(struct request *r) {
        static PyObject *(*const getters[])(PyObject *, PyObject *) = { get_id, get_correlation,
                                                                        get_model_name };

        for (size_t i = 0; i < sizeof(getters) / sizeof(*getters); i++) {
                PyObject *value = getters[i]((PyObject *)r, NULL);

                if (value == NULL)
                        return false;
                Py_DECREF(value);
        }
        if (r->parameters == NULL && r->record.parameters.len > 0)
                r->parameters = text_of(r, r->record.parameters);
        if (r->inputs == NULL)
                r->inputs = make_inputs(r);
        if (r->outputs == NULL)
                r->outputs = make_outputs(r);
        return r->inputs != NULL && r->outputs != NULL &&
               (r->parameters != NULL || r->record.parameters.len == 0);
}

bool request_trace_handle(const struct request *r, uint32_t *ret) {
        PyObject *handle;

        *ret = r->record.has_trace ? r->record.handle : SHM_NO_INDEX;
        if (r->trace == NULL)
                return true;
        handle = PyObject_GetAttrString(r->trace, "_handle");
        if (handle != NULL)
                *ret = (uint32_t)PyLong_AsUnsignedLong(handle);
        Py_XDECREF(handle);
        return PyErr_Occurred() == NULL;
}

static PyMethodDef methods[] = {
        { "inputs", get_inputs, METH_NOARGS, "The input tensors, as a list." },
        { "request_id", get_id, METH_NOARGS, "The client's id." },
        { "correlation_id", get_correlation, METH_NOARGS, "The sequence, a number or a str." },
        { "requested_output_names", get_outputs, METH_NOARGS, "The outputs that are wanted." },
        { "parameters", get_parameters, METH_NOARGS, "The parameters, as JSON." },
        { "flags", get_flags, METH_NOARGS, NULL },
        { "set_flags", set_flags, METH_VARARGS, NULL },
        { "timeout", get_timeout, METH_NOARGS, "In microseconds; 0: none." },
        { "preferred_memory", get_memory, METH_NOARGS, NULL },
        { "trace", get_trace, METH_NOARGS, NULL },
        { "_target", get_target, METH_NOARGS, NULL },
        { "get_response_sender", get_sender, METH_NOARGS, NULL },
        { "is_cancelled", is_cancelled, METH_NOARGS, "Whether the client has given up." },
        { "set_release_flags", set_release_flags, METH_VARARGS, NULL },
        { NULL, NULL, 0, NULL },
};
static PyType_Slot slots[] = {
        { Py_tp_new, request_new },
        { Py_tp_dealloc, request_dealloc },
        { Py_tp_methods, methods },
        { 0, NULL },
};
static PyType_Spec spec = { .name = "c_python_backend_utils.InferenceRequest",
                            .basicsize = sizeof(struct request),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool request_init(void) {
        if (!pool_open(&pool, &spec))
                return false;
        request_type = pool.type;
        for (unsigned i = 0; i < N_ARGUMENTS; i++) {
                argument_names[i] = PyUnicode_InternFromString(argument_texts[i]);
                if (argument_names[i] == NULL)
                        return false;
        }
        return true;
}
