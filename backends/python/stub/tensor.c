/* SPDX-License-Identifier: BSD-3-Clause */
/* The type Tensor: a NumPy array, or bytes in the shared region that become one on first access (py.h). */
#include "python/stub/numpy_table.h"
#include "python/stub/py.h"
#include "python/stub/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

PyTypeObject *tensor_type;

static struct pool pool;
static PyObject   *argument_names[2];

static bool set_dims(struct tensor *t, uint32_t n_dims, const int64_t *dims) {
        t->dims = t->few_dims;
        if (n_dims > TENSOR_FEW_DIMS)
                t->dims = malloc(n_dims * sizeof(*t->dims));
        if (t->dims == NULL) {
                (void)PyErr_NoMemory();
                return false;
        }
        t->n_dims = n_dims;
        if (n_dims > 0)
                memcpy(t->dims, dims, n_dims * sizeof(*dims));
        return true;
}

PyObject *tensor_over(PyObject *name, const struct shm_tensor *record, const int64_t *dims,
                      PyObject *owner) {
        struct tensor *t = (struct tensor *)pool_take(&pool);

        if (t == NULL)
                return NULL;
        Py_INCREF(name);
        t->name = name;
        t->type = record->type;
        t->n_bytes = record->n_bytes;
        t->gpu = record->gpu;
        if (record->gpu == 0)
                t->bytes = shm_map_at(&connection.map, record->n_bytes > 0 ? record->data : 0);
        if (!set_dims(t, record->n_dims, dims)) {
                Py_DECREF(t);
                return NULL;
        }
        if (record->gpu != 0) {
                t->owner = device_bytes_new(record, owner);
                if (t->owner == NULL)
                        Py_CLEAR(t);
                return (PyObject *)t;
        }
        Py_XINCREF(owner);
        t->owner = owner;
        return (PyObject *)t;
}

const void *tensor_bytes(const struct tensor *t) {
        struct array_view view;

        if (t->owner != NULL)
                return t->bytes;
        return numpy_read(t->array, &view) ? view.bytes : NULL;
}

static uint64_t count_elements(const struct tensor *t) {
        uint64_t n = 1;

        for (uint32_t i = 0; i < t->n_dims; i++)
                n *= (uint64_t)t->dims[i];
        return n;
}

/* ---- making one from an array ---------------------------------------------------------------- */

/* Returns the name as str; NULL and an exception on failure. */
static PyObject *check_name(PyObject *name) {
        PyObject *text;

        if (PyBytes_Check(name)) {
                text = PyUnicode_FromEncodedObject(name, "utf-8", "surrogateescape");
        } else if (PyUnicode_Check(name)) {
                Py_INCREF(name);
                text = name;
        } else {
                PyErr_SetString(PyExc_TypeError, "the name of a Tensor must be a str");
                return NULL;
        }
        if (text != NULL && PyUnicode_GetLength(text) == 0) {
                Py_DECREF(text);
                return raise_model_exception("Tensor name cannot be an empty string.");
        }
        if (text != NULL && PyUnicode_FindChar(text, 0, 0, PyUnicode_GetLength(text), 1) >= 0) {
                PyErr_Format(connection.error_class,
                             "Tensor name %R cannot contain a NUL character.", text);
                Py_CLEAR(text);
        }
        return text;
}

/* Reads the array in its present state. It must be row-major and of a supported type. */
static bool take_array(struct tensor *t, PyObject *array) {
        struct array_view view;

        if (!numpy_read(array, &view))
                return false;
        if (view.type == 0 || view.n_dims > TENSOR_MAX_DIMS) {
                (void)raise_model_exception("NumPy dtype is not supported.");
                return false;
        }
        t->type = view.type;
        if (!view.is_contiguous || view.is_fixed_strings) {
                t->array = call_utils("contiguous", "(O)", array);
                if (t->array == NULL || !numpy_read(t->array, &view))
                        return false;
        } else {
                Py_INCREF(array);
                t->array = array;
        }
        if (!set_dims(t, (uint32_t)view.n_dims, view.dims))
                return false;
        if (t->type != TRITONSERVER_TYPE_BYTES) {
                t->n_bytes = count_elements(t) * element_type(t->type)->n_bytes;
                return true;
        }
        t->owner = strings_serialize(t->array, count_elements(t));
        if (t->owner == NULL)
                return false;
        t->bytes = PyBytes_AsString(t->owner);
        t->n_bytes = (uint64_t)PyBytes_Size(t->owner);
        return true;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        static char   *names[] = { "name", "array", NULL };
        PyObject      *given[2], *name, *array;
        struct tensor *t;

        (void)type;
        if (!arguments_take(args, kwargs, argument_names, given, 2) || given[0] == NULL ||
            given[1] == NULL) {
                if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:Tensor", names, &given[0],
                                                 &given[1]))
                        return NULL;
        }
        name = given[0];
        array = given[1];
        if (!numpy_is_array(array)) {
                PyErr_SetString(PyExc_TypeError, "a Tensor is made of a numpy.ndarray");
                return NULL;
        }
        name = check_name(name);
        if (name == NULL)
                return NULL;
        t = (struct tensor *)pool_take(&pool);
        if (t == NULL) {
                Py_DECREF(name);
                return NULL;
        }
        t->name = name;
        if (!take_array(t, array)) {
                Py_DECREF(t);
                return NULL;
        }
        return (PyObject *)t;
}

static void tensor_dealloc(PyObject *self) {
        struct tensor *t = (struct tensor *)self;

        Py_XDECREF(t->name);
        Py_XDECREF(t->array);
        Py_XDECREF(t->owner);
        free(t->sent);
        if (t->dims != t->few_dims)
                free(t->dims);
        pool_give(&pool, self);
}

/* ---- what models call ------------------------------------------------------------------------ */

static PyObject *get_name(PyObject *self, PyObject *unused) {
        (void)unused;
        Py_INCREF(((struct tensor *)self)->name);
        return ((struct tensor *)self)->name;
}

static PyObject *get_shape(PyObject *self, PyObject *unused) {
        const struct tensor *t = (struct tensor *)self;
        PyObject            *list = PyList_New((Py_ssize_t)t->n_dims);

        (void)unused;
        for (uint32_t i = 0; list != NULL && i < t->n_dims; i++)
                (void)PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromLongLong(t->dims[i]));
        return list;
}

static PyObject *get_type(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyLong_FromUnsignedLong(((struct tensor *)self)->type);
}

static PyObject *get_is_cpu(PyObject *self, PyObject *unused) {
        (void)unused;
        return PyBool_FromLong(((struct tensor *)self)->gpu == 0);
}

static PyObject *make_strings(const struct tensor *t) {
        PyObject **elements, *list, *shape, *array = NULL;
        uint64_t   n = count_elements(t);

        if (n <= t->n_bytes / 4) /* that many lengths */
                array = numpy_objects(t, &elements);
        if (array != NULL && strings_read(t->bytes, t->n_bytes, elements, n))
                return array;
        Py_XDECREF(array);
        if (PyErr_Occurred() != NULL)
                return NULL;
        list = strings_deserialize(t->bytes, t->n_bytes); /* or what is wrong with them */
        if (list == NULL)
                return NULL;
        shape = get_shape((PyObject *)(uintptr_t)t, NULL);
        array = shape != NULL ? call_utils("strings", "(OO)", list, shape) : NULL;
        Py_XDECREF(shape);
        Py_DECREF(list);
        return array;
}

static PyObject *as_numpy(PyObject *self, PyObject *unused) {
        struct tensor             *t = (struct tensor *)self;
        const struct element_type *type = element_type(t->type);
        char                       text[128];

        (void)unused;
        if (t->gpu != 0)
                return raise_model_exception(
                        "Tensor is stored in GPU and cannot be converted to NumPy.");
        if (type->numpy_kind == 0) {
                (void)snprintf(text, sizeof(text),
                               "Tensor dtype is %s and cannot be converted to NumPy. Use "
                               "to_dlpack() and from_dlpack() instead.",
                               type->name);
                return raise_model_exception(text);
        }
        if (t->array == NULL)
                t->array = t->type == TRITONSERVER_TYPE_BYTES ? make_strings(t)
                                                              : numpy_over(t, t->owner);
        Py_XINCREF(t->array);
        return t->array;
}

static PyObject *make_capsule(PyObject *self) {
        const struct tensor *t = (struct tensor *)self;
        struct array_view    view = {
                   .n_dims = (int)t->n_dims, .dims = t->dims, .type = t->type, .gpu = t->gpu
        };

        if (is_device_bytes(t->owner)) {
                view.bytes = device_bytes_open(t->owner);
                if (view.bytes == NULL)
                        return NULL;
        } else {
                view.bytes = (void *)(uintptr_t)tensor_bytes(t);
        }
        return dlpack_export(&view, self);
}

static PyObject *to_dlpack(PyObject *self, PyObject *unused) {
        (void)unused;
        return make_capsule(self);
}

static PyObject *dlpack(PyObject *self, PyObject *args, PyObject *kwargs) {
        static char *names[] = { "stream", NULL };
        PyObject    *stream = Py_None;

        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:__dlpack__", names, &stream))
                return NULL;
        return make_capsule(self);
}

static PyObject *dlpack_device(PyObject *self, PyObject *unused) {
        const struct tensor *t = (struct tensor *)self;

        (void)unused;
        return t->gpu == 0 ? Py_BuildValue("(ii)", 1, 0) : Py_BuildValue("(iI)", 2, t->gpu - 1);
}

static PyObject *tensor_over_view(PyObject *name, const struct array_view *view, PyObject *owner) {
        struct shm_tensor record = { .type = view->type, .n_dims = (uint32_t)view->n_dims };
        struct tensor    *t = (struct tensor *)tensor_over(name, &record, view->dims, owner);

        if (t != NULL) {
                t->gpu = view->gpu;
                t->bytes = view->bytes;
                t->n_bytes = count_elements(t) * element_type(t->type)->n_bytes;
        }
        return (PyObject *)t;
}

static PyObject *from_dlpack(PyObject *unused, PyObject *args) {
        struct array_view view;
        PyObject         *name, *source, *owner, *tensor = NULL;

        (void)unused;
        if (!PyArg_ParseTuple(args, "OO:from_dlpack", &name, &source))
                return NULL;
        name = check_name(name);
        if (name == NULL)
                return NULL;
        owner = dlpack_import(source, &view);
        if (owner != NULL)
                tensor = tensor_over_view(name, &view, owner);
        Py_XDECREF(owner);
        Py_DECREF(name);
        return tensor;
}

static PyMethodDef methods[] = {
        { "name", get_name, METH_NOARGS, "The tensor's name." },
        { "shape", get_shape, METH_NOARGS, "The dimensions, as a list." },
        { "triton_dtype", get_type, METH_NOARGS, "The number of the data type." },
        { "is_cpu", get_is_cpu, METH_NOARGS, "Whether the data lies in main memory." },
        { "as_numpy", as_numpy, METH_NOARGS, "The data as a NumPy array, the same one each time." },
        { "to_dlpack", to_dlpack, METH_NOARGS, "A DLPack capsule over the data." },
        { "__dlpack__", (PyCFunction)(void (*)(void))dlpack, METH_VARARGS | METH_KEYWORDS, NULL },
        { "__dlpack_device__", dlpack_device, METH_NOARGS, NULL },
        { "from_dlpack", from_dlpack, METH_VARARGS | METH_STATIC,
          "A tensor over the data of a DLPack capsule or of an object with __dlpack__." },
        { NULL, NULL, 0, NULL },
};
static PyType_Slot slots[] = {
        { Py_tp_new, tensor_new },
        { Py_tp_dealloc, tensor_dealloc },
        { Py_tp_methods, methods },
        { Py_tp_doc, (void *)(uintptr_t) "Tensor(name: str, array: numpy.ndarray)" },
        { 0, NULL },
};
static PyType_Spec spec = { .name = "c_python_backend_utils.Tensor",
                            .basicsize = sizeof(struct tensor),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool tensor_init(void) {
        if (!pool_open(&pool, &spec))
                return false;
        tensor_type = pool.type;
        argument_names[0] = PyUnicode_InternFromString("name");
        argument_names[1] = PyUnicode_InternFromString("array");
        return argument_names[0] != NULL && argument_names[1] != NULL;
}
