/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub/numpy_table.h"

#include "python/stub/types.h"

#include <stdlib.h>
#include <string.h>

/* Indices in NumPy's table for extensions, which never change. */
#define INDEX_ARRAY_TYPE 2
#define INDEX_NEW 93
#define INDEX_SET_BASE 282

/* Array flags of NumPy. */
#define FLAG_CONTIGUOUS 0x0001
#define FLAG_ALIGNED 0x0100
#define FLAG_NOT_SWAPPED 0x0200
#define FLAG_WRITABLE 0x0400

#define NUMBER_OF_OBJECTS 17 /* NumPy's type number */

typedef PyObject *(*new_fn)(PyTypeObject *type, int n_dims, const intptr_t *dims, int number,
                            const intptr_t *strides, void *bytes, int item_bytes, int flags,
                            PyObject *object);
typedef int (*set_base_fn)(PyObject *array, PyObject *base);

/* The first fields of an array and of a dtype, in the layout for compiled extensions. */
struct array_fields {
        PyObject  head;
        char     *bytes;
        int       n_dims;
        intptr_t *dims;
        intptr_t *strides;
        PyObject *base;
        PyObject *descr;
        int       flags;
};

struct descr_fields {
        PyObject      head;
        PyTypeObject *scalar;
        char          kind;
        char          letter;
        char          byte_order;
        char          flags;
        int           number;
};

/* The struct that __array_struct__ points to: the array interface, version 3. */
struct array_interface {
        int       two;
        int       n_dims;
        char      kind;
        int       item_bytes;
        int       flags;
        intptr_t *dims;
        intptr_t *strides;
        void     *bytes;
        PyObject *descr;
};

static struct {
        PyTypeObject *array_type;
        PyObject     *asarray;
        new_fn        new_array;
        set_base_fn   set_base;
        bool          has_table;
} numpy;

/* Maps NumPy's type numbers to TRITONSERVER_DataType. */
static const uint8_t type_of_number[] = {
        [0] = 1, [1] = 6, [2] = 2,  [3] = 7,   [4] = 3,   [5] = 8,   [6] = 4,   [7] = 9,
        [8] = 5, [9] = 9, [10] = 5, [11] = 11, [12] = 12, [17] = 13, [18] = 13, [23] = 10,
};

bool numpy_has_table(void) {
        return numpy.has_table;
}

bool numpy_is_array(PyObject *object) {
        return PyObject_TypeCheck(object, numpy.array_type);
}

static uint32_t type_of_kind(char kind, int n_bytes) {
        for (uint32_t type = 0; type < N_ELEMENT_TYPES; type++)
                if (element_types[type].numpy_kind == kind &&
                    element_types[type].n_bytes == n_bytes)
                        return type;
        return kind == 'S' || (kind == 'O' && n_bytes == (int)sizeof(PyObject *))
                       ? TRITONSERVER_TYPE_BYTES
                       : TRITONSERVER_TYPE_INVALID;
}

static bool is_row_major(int n_dims, const int64_t *dims, const intptr_t *strides, int64_t size) {
        if (strides == NULL)
                return true;
        for (int i = 0; i < n_dims; i++)
                if (dims[i] == 0)
                        return true;
        for (int i = n_dims - 1; i >= 0; i--) {
                if (dims[i] != 1 && strides[i] != size)
                        return false;
                size *= dims[i];
        }
        return true;
}

static bool read_interface(PyObject *array, struct array_view *ret) {
        PyObject                     *capsule = PyObject_GetAttrString(array, "__array_struct__");
        const struct array_interface *view;

        if (capsule == NULL)
                return false;
        view = PyCapsule_GetPointer(capsule, NULL);
        if (view == NULL) {
                Py_DECREF(capsule);
                return false;
        }
        *ret = (struct array_view){ .bytes = view->bytes,
                                    .n_dims = view->n_dims,
                                    .type = type_of_kind(view->kind, view->item_bytes),
                                    .is_fixed_strings = view->kind == 'S' };
        if ((view->flags & FLAG_NOT_SWAPPED) == 0)
                ret->type = 0;
        /* The shape belongs to the array, so the capsule may be released. */
        ret->dims = (const int64_t *)view->dims;
        ret->is_contiguous = is_row_major(view->n_dims, ret->dims, view->strides, view->item_bytes);
        Py_DECREF(capsule);
        return true;
}

static void read_table(PyObject *array, struct array_view *ret) {
        const struct array_fields *fields = (const void *)array;
        const struct descr_fields *descr = (const void *)fields->descr;
        unsigned                   number = (unsigned)descr->number;

        *ret = (struct array_view){ .bytes = fields->bytes,
                                    .n_dims = fields->n_dims,
                                    .dims = (const int64_t *)fields->dims,
                                    .is_contiguous = (fields->flags & FLAG_CONTIGUOUS) != 0,
                                    .is_fixed_strings = number == 18 };
        if (number < sizeof(type_of_number) && descr->byte_order != '>')
                ret->type = type_of_number[number];
}

/* With __array_struct__, NumPy 1.x and 2.x give the capsule a copy of the shape. So the shape is
 * read from the attribute when the table is not used. */
static _Thread_local int64_t interface_dims[64];

static bool read_shape(PyObject *array, struct array_view *view) {
        PyObject *shape = PyObject_GetAttrString(array, "shape");
        bool      is_right = shape != NULL && view->n_dims <= 64;

        for (int i = 0; is_right && i < view->n_dims; i++) {
                PyObject *dim = PyTuple_GetItem(shape, i);

                is_right = dim != NULL;
                if (is_right)
                        interface_dims[i] = PyLong_AsLongLong(dim);
        }
        Py_XDECREF(shape);
        view->dims = interface_dims;
        return is_right;
}

static bool read_documented(PyObject *array, struct array_view *ret) {
        return read_interface(array, ret) && read_shape(array, ret);
}

bool numpy_read(PyObject *array, struct array_view *ret) {
        if (!numpy.has_table)
                return read_documented(array, ret);
        read_table(array, ret);
        return true;
}

/* ---- new arrays ------------------------------------------------------------------------------ */

static void read_dims(const struct tensor *t, intptr_t *dims) {
        for (uint32_t i = 0; i < t->n_dims; i++)
                dims[i] = (intptr_t)t->dims[i];
}

static PyObject *over_table(const struct tensor *t, PyObject *owner) {
        intptr_t  dims[TENSOR_MAX_DIMS];
        PyObject *array;

        read_dims(t, dims);
        array = numpy.new_array(numpy.array_type, (int)t->n_dims, dims,
                                element_type(t->type)->numpy_number, NULL, t->bytes, 0,
                                FLAG_CONTIGUOUS | FLAG_ALIGNED | FLAG_WRITABLE, NULL);
        if (array == NULL)
                return NULL;
        Py_INCREF(owner);
        if (numpy.set_base(array, owner) != 0) {
                Py_DECREF(array);
                return NULL;
        }
        return array;
}

PyObject *numpy_objects(const struct tensor *t, PyObject ***ret_elements) {
        intptr_t  dims[TENSOR_MAX_DIMS];
        PyObject *array;

        if (!numpy.has_table)
                return NULL;
        read_dims(t, dims);
        array = numpy.new_array(numpy.array_type, (int)t->n_dims, dims, NUMBER_OF_OBJECTS, NULL,
                                NULL, 0, 0, NULL);
        if (array != NULL)
                *ret_elements = (PyObject **)(void *)((struct array_fields *)(void *)array)->bytes;
        return array;
}

/* ---- an object that describes memory, for numpy.asarray() ---- */

struct exporter {
        PyObject  head;
        PyObject *capsule;
};

struct export {
        struct array_interface view;
        intptr_t               dims[TENSOR_MAX_DIMS];
        intptr_t               strides[TENSOR_MAX_DIMS];
        PyObject              *owner;
};

static void free_export(PyObject *capsule) {
        struct export *e = PyCapsule_GetPointer(capsule, NULL);

        Py_XDECREF(e->owner);
        free(e);
}

static void exporter_dealloc(PyObject *self) {
        PyTypeObject *type = Py_TYPE(self);
        freefunc      release = (freefunc)PyType_GetSlot(type, Py_tp_free);

        Py_XDECREF(((struct exporter *)self)->capsule);
        release(self);
        Py_DECREF(type);
}

static PyObject *exporter_get(PyObject *self, void *closure) {
        (void)closure;
        Py_INCREF(((struct exporter *)self)->capsule);
        return ((struct exporter *)self)->capsule;
}

static PyGetSetDef exporter_getset[] = {
        { "__array_struct__", exporter_get, NULL, NULL, NULL },
        { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot exporter_slots[] = {
        { Py_tp_dealloc, exporter_dealloc },
        { Py_tp_getset, exporter_getset },
        { 0, NULL },
};
static PyType_Spec   exporter_spec = { .name = "c_python_backend_utils._Memory",
                                       .basicsize = sizeof(struct exporter),
                                       .flags = Py_TPFLAGS_DEFAULT,
                                       .slots = exporter_slots };
static PyTypeObject *exporter_type;

static PyObject *make_capsule(const struct tensor *t, PyObject *owner) {
        const struct element_type *type = element_type(t->type);
        struct export             *e = calloc(1, sizeof(*e));
        intptr_t                   stride = type->n_bytes;
        PyObject                  *capsule;

        if (e == NULL)
                return PyErr_NoMemory();
        e->view = (struct array_interface){ .two = 2,
                                            .n_dims = (int)t->n_dims,
                                            .kind = type->numpy_kind,
                                            .item_bytes = (int)stride,
                                            .flags = FLAG_CONTIGUOUS | FLAG_ALIGNED |
                                                     FLAG_NOT_SWAPPED | FLAG_WRITABLE,
                                            .dims = e->dims,
                                            .strides = e->strides,
                                            .bytes = t->bytes };
        for (uint32_t i = t->n_dims; i-- > 0;) {
                e->dims[i] = (intptr_t)t->dims[i];
                e->strides[i] = stride;
                stride *= e->dims[i];
        }
        capsule = PyCapsule_New(e, NULL, free_export);
        if (capsule == NULL) {
                free(e);
                return NULL;
        }
        Py_INCREF(owner);
        e->owner = owner;
        return capsule;
}

static PyObject *over_documented(const struct tensor *t, PyObject *owner) {
        allocfunc        alloc = (allocfunc)PyType_GetSlot(exporter_type, Py_tp_alloc);
        struct exporter *exporter = (struct exporter *)alloc(exporter_type, 0);
        PyObject        *array = NULL;

        if (exporter == NULL)
                return NULL;
        exporter->capsule = make_capsule(t, owner);
        if (exporter->capsule != NULL)
                array = PyObject_CallFunctionObjArgs(numpy.asarray, exporter, NULL);
        Py_DECREF(exporter);
        return array;
}

PyObject *numpy_over(const struct tensor *tensor, PyObject *owner) {
        return numpy.has_table ? over_table(tensor, owner) : over_documented(tensor, owner);
}

/* ---- finding NumPy --------------------------------------------------------------------------- */

static void **find_table(void) {
        static const char *const names[] = { "numpy._core._multiarray_umath",
                                             "numpy.core._multiarray_umath" };
        void                   **table = NULL;

        for (size_t i = 0; i < sizeof(names) / sizeof(*names) && table == NULL; i++) {
                PyObject *module = PyImport_ImportModule(names[i]);
                PyObject *capsule =
                        module != NULL ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;

                if (capsule != NULL)
                        table = PyCapsule_GetPointer(capsule, NULL);
                PyErr_Clear();
                Py_XDECREF(capsule);
                Py_XDECREF(module);
        }
        return table;
}

static bool is_same(const struct array_view *a, const struct array_view *b) {
        if (a->bytes != b->bytes || a->n_dims != b->n_dims || a->type != b->type ||
            a->is_contiguous != b->is_contiguous)
                return false;
        return memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof(*a->dims)) == 0;
}

/* New elements are NULL, which NumPy reads as None. */
static bool test_objects(const struct tensor *t) {
        PyObject **elements;
        PyObject  *array = numpy_objects(t, &elements), *first, *second;
        bool       is_right = array != NULL && elements[0] == NULL && elements[5] == NULL;

        if (is_right) {
                Py_INCREF(Py_True);
                elements[0] = Py_True;
                first = PyObject_CallMethod(array, "item", "i", 0);
                second = PyObject_CallMethod(array, "item", "i", 1);
                is_right = first == Py_True && second == Py_None;
                Py_XDECREF(first);
                Py_XDECREF(second);
        }
        Py_XDECREF(array);
        return is_right;
}

/* Reads an array of each type in both ways, and an array that was made by the table. */
static bool test_table(PyObject *module) {
        static const char *const dtypes[] = {
                "?",  "u1", "u2", "u4", "u8", "i1", "i2",  "i4", "i8",
                "f2", "f4", "f8", "O",  "q",  "S5", ">f4", "U3", "c8"
        };
        double            values[6] = { 1, 2, 3, 4, 5, 6 };
        struct tensor     t = { .bytes = values, .type = 12, .n_dims = 2, .dims = t.few_dims };
        struct array_view fast, slow;
        bool              is_right = true;

        for (size_t i = 0; is_right && i < sizeof(dtypes) / sizeof(*dtypes); i++) {
                PyObject *array = PyObject_CallMethod(module, "zeros", "((ii)s)", 2, 3, dtypes[i]);

                is_right = array != NULL && read_documented(array, &slow);
                if (is_right) {
                        read_table(array, &fast);
                        is_right = is_same(&fast, &slow);
                }
                Py_XDECREF(array);
        }
        t.few_dims[0] = 2;
        t.few_dims[1] = 3;
        if (is_right) {
                PyObject *array = over_table(&t, module);

                is_right = array != NULL && read_documented(array, &slow) && slow.bytes == values &&
                           slow.type == 12 && slow.n_dims == 2 && slow.dims[1] == 3 &&
                           slow.is_contiguous;
                Py_XDECREF(array);
        }
        is_right = is_right && test_objects(&t);
        PyErr_Clear();
        return is_right;
}

bool numpy_init(void) {
        PyObject   *module = PyImport_ImportModule("numpy");
        const char *wish = getenv("NESO_PYTHON_NUMPY_TABLE");
        void      **table;

        if (module == NULL)
                return false;
        numpy.array_type = (PyTypeObject *)PyObject_GetAttrString(module, "ndarray");
        numpy.asarray = PyObject_GetAttrString(module, "asarray");
        exporter_type = (PyTypeObject *)PyType_FromSpec(&exporter_spec);
        if (numpy.array_type == NULL || numpy.asarray == NULL || exporter_type == NULL) {
                Py_DECREF(module);
                return false;
        }
        table = wish != NULL && strcmp(wish, "0") == 0 ? NULL : find_table();
        if (table != NULL && table[INDEX_ARRAY_TYPE] == (void *)numpy.array_type) {
                memcpy(&numpy.new_array, &table[INDEX_NEW], sizeof(void *));
                memcpy(&numpy.set_base, &table[INDEX_SET_BASE], sizeof(void *));
                numpy.has_table = true;
                numpy.has_table = test_table(module);
        }
        Py_DECREF(module);
        return true;
}
