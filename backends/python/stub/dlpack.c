/* SPDX-License-Identifier: BSD-3-Clause */
/* DLPack: tensors that libraries share without a copy. The structs are those of DLPack's stable ABI
 * before version 1.0, which every consumer accepts. */
#include "python/stub/numpy_table.h"
#include "python/stub/py.h"
#include "python/stub/types.h"

#include <stdlib.h>

#define CAPSULE "dltensor"
#define USED_CAPSULE "used_dltensor" /* name required by DLPack; NumPy checks it */
#define DEVICE_CPU 1
#define DEVICE_CUDA 2
#define DEVICE_CUDA_HOST 3

struct dl_tensor {
        void    *bytes;
        int32_t  device;
        int32_t  device_id;
        int32_t  n_dims;
        uint8_t  code;
        uint8_t  bits;
        uint16_t lanes;
        int64_t *dims;
        int64_t *strides; /* NULL: row-major */
        uint64_t offset;
};

struct dl_managed {
        struct dl_tensor tensor;
        void            *owner;
        void (*deleter)(struct dl_managed *self);
};

static void delete_managed(struct dl_managed *managed) {
        PyGILState_STATE state = PyGILState_Ensure(); /* the consumer may have released the
                                                       * interpreter lock */

        Py_DECREF((PyObject *)managed->owner);
        free(managed);
        PyGILState_Release(state);
}

static void delete_capsule(PyObject *capsule) {
        struct dl_managed *managed;

        if (!PyCapsule_IsValid(capsule, CAPSULE))
                return; /* a consumer uses it */
        managed = PyCapsule_GetPointer(capsule, CAPSULE);
        if (managed->deleter != NULL)
                managed->deleter(managed);
}

PyObject *dlpack_export(const struct array_view *view, PyObject *owner) {
        const struct element_type *type = element_type(view->type);
        struct dl_managed         *managed;
        PyObject                  *capsule;

        if (type->dlpack_code == CODE_NONE)
                return raise_model_exception("DLPack does not have support for string tensors.");
        managed = calloc(1, sizeof(*managed));
        if (managed == NULL)
                return PyErr_NoMemory();
        *managed = (struct dl_managed){
                .tensor = { .bytes = view->bytes,
                            .device = view->gpu == 0 ? DEVICE_CPU : DEVICE_CUDA,
                            .device_id = view->gpu == 0 ? 0 : (int32_t)view->gpu - 1,
                            .n_dims = view->n_dims,
                            .code = (uint8_t)type->dlpack_code,
                            .bits = (uint8_t)(8 * type->n_bytes),
                            .lanes = 1,
                            .dims = (int64_t *)(uintptr_t)view->dims },
                .owner = owner,
                .deleter = delete_managed,
        };
        capsule = PyCapsule_New(managed, CAPSULE, delete_capsule);
        if (capsule == NULL) {
                free(managed);
                return NULL;
        }
        Py_INCREF(owner);
        return capsule;
}

/* ---- import ---------------------------------------------------------------------------------- */

static void delete_imported(PyObject *holder) {
        struct dl_managed *managed = PyCapsule_GetPointer(holder, NULL);

        if (managed->deleter != NULL)
                managed->deleter(managed);
}

static uint32_t type_of(const struct dl_tensor *tensor) {
        if (tensor->lanes != 1)
                return 0;
        if (tensor->code == CODE_UINT && tensor->bits == 1)
                return TRITONSERVER_TYPE_BOOL;
        for (uint32_t type = 0; type < N_ELEMENT_TYPES; type++)
                if (element_types[type].dlpack_code == tensor->code &&
                    8 * element_types[type].n_bytes == tensor->bits)
                        return type;
        return TRITONSERVER_TYPE_INVALID;
}

static bool is_row_major(const struct dl_tensor *tensor) {
        int64_t stride = 1;

        if (tensor->strides == NULL)
                return true;
        for (int32_t i = 0; i < tensor->n_dims; i++)
                if (tensor->dims[i] == 0)
                        return true; /* there are no elements, whatever the strides are */
        for (int32_t i = tensor->n_dims - 1; i >= 0; i--) {
                if (tensor->dims[i] != 1 && tensor->strides[i] != stride)
                        return false;
                stride *= tensor->dims[i];
        }
        return true;
}

/* Checks the tensor, and raises TritonModelException. */
static bool check_dl_tensor(const struct dl_tensor *tensor) {
        if (tensor->device != DEVICE_CPU && tensor->device != DEVICE_CUDA_HOST &&
            (tensor->device != DEVICE_CUDA || tensor->device_id < 0)) {
                PyErr_Format(connection.error_class,
                             "DLDevice type %d is not support by Python backend.",
                             (int)tensor->device);
                return false;
        }
        if (tensor->n_dims < 0 || tensor->n_dims > TENSOR_MAX_DIMS) {
                PyErr_Format(connection.error_class,
                             "DLPack tensor has %d dimensions, at most %d are supported.",
                             (int)tensor->n_dims, TENSOR_MAX_DIMS);
                return false;
        }
        if (!is_row_major(tensor)) {
                (void)raise_model_exception(
                        "DLPack tensor is not contiguous. Only contiguous DLPack "
                        "tensors that are stored in C-Order are supported.");
                return false;
        }
        if (type_of(tensor) == 0) {
                (void)raise_model_exception("DLPack data type is not supported.");
                return false;
        }
        return true;
}

static PyObject *import_capsule(PyObject *capsule, struct array_view *ret) {
        struct dl_managed *managed = PyCapsule_GetPointer(capsule, CAPSULE);
        PyObject          *holder;

        if (managed == NULL)
                return NULL;
        if (!check_dl_tensor(&managed->tensor))
                return NULL;
        holder = PyCapsule_New(managed, NULL, delete_imported);
        if (holder == NULL)
                return NULL;
        (void)PyCapsule_SetName(capsule, USED_CAPSULE);
        *ret = (struct array_view){ .bytes = (char *)managed->tensor.bytes + managed->tensor.offset,
                                    .n_dims = managed->tensor.n_dims,
                                    .dims = managed->tensor.dims,
                                    .type = type_of(&managed->tensor),
                                    .gpu = managed->tensor.device == DEVICE_CUDA
                                                   ? (uint32_t)managed->tensor.device_id + 1
                                                   : 0,
                                    .is_contiguous = true };
        return holder;
}

PyObject *dlpack_import(PyObject *source, struct array_view *ret) {
        PyObject *capsule, *device, *holder, *type, *value, *trace;

        if (PyCapsule_CheckExact(source))
                return import_capsule(source, ret);
        if (!PyObject_HasAttrString(source, "__dlpack__") ||
            !PyObject_HasAttrString(source, "__dlpack_device__"))
                return raise_model_exception("Provided tensor is not supported. Tensor must be a "
                                             "DLPack capsule         or have "
                                             "`__dlpack__` and `__dlpack_device__` attributes");
        device = PyObject_CallMethod(source, "__dlpack_device__", NULL);
        if (device == NULL)
                return NULL;
        Py_DECREF(device);
        capsule = PyObject_CallMethod(source, "__dlpack__", NULL);
        if (capsule == NULL)
                return NULL;
        holder = import_capsule(capsule, ret);
        /* The deletion of a capsule that is refused may run a program. */
        PyErr_Fetch(&type, &value, &trace);
        Py_DECREF(capsule);
        PyErr_Restore(type, value, trace);
        return holder;
}
