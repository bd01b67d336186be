/* SPDX-License-Identifier: BSD-3-Clause */
/* The extension module c_python_backend_utils: its table of functions and types, and its small functions. */
#include "python/stub/numpy_table.h"
#include "python/stub/py.h"

#include <string.h>

/* setup(input_names, output_names, is_decoupled, utils, TritonModelException) */
static PyObject *setup(PyObject *module, PyObject *args) {
        int is_decoupled;

        (void)module;
        if (!PyArg_ParseTuple(args, "OOpOO:setup", &connection.input_names,
                              &connection.output_names, &is_decoupled, &connection.utils,
                              &connection.error_class))
                return NULL;
        connection.is_decoupled = is_decoupled != 0;
        Py_INCREF(connection.input_names);
        Py_INCREF(connection.output_names);
        Py_INCREF(connection.utils);
        Py_INCREF(connection.error_class);
        Py_XDECREF(connection.output_index);
        connection.output_index = PyDict_New();
        for (Py_ssize_t i = 0; i < PyTuple_Size(connection.output_names); i++) {
                PyObject *index = PyLong_FromSsize_t(i);

                if (index == NULL ||
                    PyDict_SetItem(connection.output_index,
                                   PyTuple_GetItem(connection.output_names, i), index) != 0)
                        return NULL;
                Py_DECREF(index);
        }
        Py_RETURN_NONE;
}

/* started(code, is_error, text): the code is of enum shm_model. */
static PyObject *started(PyObject *module, PyObject *args) {
        const char        *text = NULL;
        Py_ssize_t         len = 0;
        unsigned int       code;
        int                is_error;
        struct shm_answer *answer;
        uint32_t           block;

        (void)module;
        if (!PyArg_ParseTuple(args, "Ipy#:started", &code, &is_error, &text, &len))
                return NULL;
        block = connection_alloc(sizeof(*answer) + (uint64_t)len);
        if (block == 0)
                return NULL;
        answer = connection_block(block);
        *answer = (struct shm_answer){ .kind = is_error ? SHM_ANSWER_ERROR : SHM_ANSWER_OK,
                                       .code = code,
                                       .text = { sizeof(*answer), (uint32_t)len } };
        memcpy(answer + 1, text, (size_t)len);
        connection_post(
                &(struct shm_message){ .kind = SHM_STARTED,
                                       .block = block,
                                       .n_bytes = (uint32_t)(sizeof(*answer) + (size_t)len) });
        connection_wake(SHM_NAPPING);
        Py_RETURN_NONE;
}

/* log(level, file, line, text) */
static PyObject *write_log(PyObject *module, PyObject *args) {
        unsigned int    level, line;
        const char     *file, *text;
        Py_ssize_t      file_len, text_len;
        struct shm_log *log;
        uint32_t        block;
        uint64_t        n_bytes;

        (void)module;
        if (!PyArg_ParseTuple(args, "Iy#Iy#:log", &level, &file, &file_len, &line, &text,
                              &text_len))
                return NULL;
        n_bytes = sizeof(*log) + (uint64_t)file_len + (uint64_t)text_len;
        block = n_bytes <= UINT32_MAX ? connection_alloc(n_bytes) : 0;
        if (block == 0) {
                PyErr_Clear(); /* a failure to log is ignored */
                Py_RETURN_NONE;
        }
        log = connection_block(block);
        *log = (struct shm_log){ .level = level,
                                 .line = line,
                                 .file = { sizeof(*log), (uint32_t)file_len },
                                 .text = { (uint32_t)(sizeof(*log) + (size_t)file_len),
                                           (uint32_t)text_len } };
        memcpy(log + 1, file, (size_t)file_len);
        memcpy((char *)(log + 1) + file_len, text, (size_t)text_len);
        connection_post(&(struct shm_message){
                .kind = SHM_LOG, .block = block, .n_bytes = (uint32_t)n_bytes });
        connection_wake(SHM_ASLEEP);
        Py_RETURN_NONE;
}

/* serialize(array of objects) */
static PyObject *serialize(PyObject *module, PyObject *args) {
        struct array_view view;
        PyObject         *array;
        uint64_t          n = 1;

        (void)module;
        if (!PyArg_ParseTuple(args, "O:serialize", &array) || !numpy_read(array, &view))
                return NULL;
        for (int i = 0; i < view.n_dims; i++)
                n *= (uint64_t)view.dims[i];
        return strings_serialize(array, n);
}

/* deserialize(bytes) -> list */
static PyObject *deserialize(PyObject *module, PyObject *args) {
        const char *bytes;
        Py_ssize_t  len;

        (void)module;
        if (!PyArg_ParseTuple(args, "y#:deserialize", &bytes, &len))
                return NULL;
        return strings_deserialize(bytes, (uint64_t)len);
}

/* wait_ready(question): waits for and returns the next question of the server */
static PyObject *wait_ready(PyObject *module, PyObject *args) {
        _Atomic uint32_t *asked = &connection.header->ready_asked;
        unsigned int      last;

        (void)module;
        if (!PyArg_ParseTuple(args, "I:wait_ready", &last))
                return NULL;
        while (atomic_load(asked) == last)
                if (!connection_sleep(asked, last, SHM_FOREVER))
                        PyErr_Clear();
        return PyLong_FromUnsignedLong(atomic_load(asked));
}

/* answer_ready(question, enum shm_ready) */
static PyObject *answer_ready(PyObject *module, PyObject *args) {
        struct shm_header *h = connection.header;
        unsigned int       question, value;

        (void)module;
        if (!PyArg_ParseTuple(args, "II:answer_ready", &question, &value))
                return NULL;
        atomic_store(&h->ready_value, value);
        atomic_store(&h->ready_answered, question);
        shm_futex_wake(&h->ready_answered, INT32_MAX);
        Py_RETURN_NONE;
}

static PyObject *has_table(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        return PyBool_FromLong(numpy_has_table());
}

static PyMethodDef functions[] = {
        { "_attach", connection_attach, METH_NOARGS, NULL },
        { "_setup", setup, METH_VARARGS, NULL },
        { "_started", started, METH_VARARGS, NULL },
        { "_serve", serve, METH_VARARGS, NULL },
        { "_end", serve_end, METH_VARARGS, NULL },
        { "_log", write_log, METH_VARARGS, NULL },
        { "_ask", calls_ask, METH_VARARGS, NULL },
        { "_infer", bls_call_start, METH_VARARGS, NULL },
        { "_exec", bls_call_exec, METH_VARARGS, NULL },
        { "_wait_async", bls_call_wait_async, METH_NOARGS, NULL },
        { "_wait", bls_call_wait, METH_VARARGS, NULL },
        { "_use_loop", bls_call_use_loop, METH_NOARGS, NULL },
        { "_execution", bls_call_execution, METH_NOARGS, NULL },
        { "_holds", bls_call_holds, METH_NOARGS, NULL },
        { "_free_call", calls_free, METH_VARARGS, NULL },
        { "_cancel", calls_cancel, METH_VARARGS, NULL },
        { "_count", calls_count, METH_VARARGS, NULL },
        { "_serialize", serialize, METH_VARARGS, NULL },
        { "_deserialize", deserialize, METH_VARARGS, NULL },
        { "_wait_ready", wait_ready, METH_VARARGS, NULL },
        { "_answer_ready", answer_ready, METH_VARARGS, NULL },
        { "_stacks_file", stacks_file, METH_NOARGS, NULL },
        { "_stacks_begin", stacks_begin, METH_VARARGS, NULL },
        { "_stacks_wait", stacks_wait, METH_VARARGS, NULL },
        { "_stacks_answer", stacks_answer, METH_VARARGS, NULL },
        { "_end_devices", device_end, METH_NOARGS, NULL },
        { "_has_numpy_table", has_table, METH_NOARGS, NULL },
        { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT,
        .m_name = "c_python_backend_utils",
        .m_doc = "The compiled part of triton_python_backend_utils.",
        .m_size = -1,
        .m_methods = functions,
};

static bool add_type(PyObject *module, const char *name, PyTypeObject *type) {
        Py_INCREF(type);
        return PyModule_AddObject(module, name, (PyObject *)type) == 0;
}

PyMODINIT_FUNC PyInit_c_python_backend_utils(void);

/* The tensors on GPUs of a response, and a call, are kept until the server has read their block. */
static bool take_returned(uint32_t block) {
        bool is_waited = calls_take_back(block);

        if (device_keeps_any())
                device_drop(block);
        return is_waited;
}

PyMODINIT_FUNC PyInit_c_python_backend_utils(void) {
        PyObject *module;

        connection.on_returned = take_returned;
        if (!numpy_init() || !block_init() || !device_init() || !tensor_init() || !request_init() ||
            !response_init() || !sender_init())
                return NULL;
        module = PyModule_Create(&definition);
        if (module == NULL)
                return NULL;
        if (!add_type(module, "Tensor", tensor_type) ||
            !add_type(module, "InferenceRequest", request_type) ||
            !add_type(module, "InferenceResponse", response_type) ||
            !add_type(module, "InferenceResponseSender", sender_type)) {
                Py_DECREF(module);
                return NULL;
        }
        return module;
}
