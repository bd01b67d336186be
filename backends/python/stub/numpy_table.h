/* SPDX-License-Identifier: BSD-3-Clause */
/* NumPy arrays without NumPy's headers.
 *
 * The fast way: two functions by their index from the table that NumPy keeps for compiled extensions
 * (PyArray_New, PyArray_SetBaseObject), and the fields of an array at the offsets that extensions
 * were compiled with, which NumPy 1.x and 2.x share. A self-test at the start compares what is read so
 * with the array's own __array_struct__, which is documented for everybody; if anything differs, or
 * with NESO_PYTHON_NUMPY_TABLE=0 in the environment, only __array_struct__ is used.
 *
 * Threads.  With the interpreter lock.
 */
#pragma once

#include "python/stub/py.h"

struct array_view {
        void          *bytes;
        int            n_dims;
        const int64_t *dims;
        uint32_t       type;             /* TRITONSERVER_DataType; 0: not supported */
        bool           is_contiguous;    /* row-major */
        bool           is_fixed_strings; /* type BYTES by NumPy's S */
};

/* False and an exception: the extension cannot work with this NumPy. */
bool numpy_init(void);
bool numpy_has_table(void);

/* Whether it is an ndarray. */
bool numpy_is_array(PyObject *object);
/* False and an exception on failure. What it points to belongs to the array. */
bool numpy_read(PyObject *array, struct array_view *ret);
/* An array of objects with the tensor's dimensions, and its elements in row-major order, which are NULL and
 * for the caller to set; those that stay NULL read as None. NULL and an exception on failure, NULL alone
 * where the table is not used. */
PyObject *numpy_objects(const struct tensor *tensor, PyObject ***ret_elements);
/* An array over the bytes, writable, whose base is `owner`. */
PyObject *numpy_over(const struct tensor *tensor, PyObject *owner);
