/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to NumPy arrays without NumPy's headers.
 *
 * The fast way uses two functions by their index in the table that NumPy keeps for compiled
 * extensions (PyArray_New, PyArray_SetBaseObject), and the fields of an array at the offsets that
 * extensions are compiled with, which NumPy 1.x and 2.x share. A self-test at the start compares
 * the results with the array's own __array_struct__, which is a documented interface. If anything
 * differs, or with NESO_PYTHON_NUMPY_TABLE=0 in the environment, only __array_struct__ is used.
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
        uint32_t       gpu; /* 0: main memory; else the number of a GPU + 1. Never of an array */
};

/* Returns false, with an exception, when the extension cannot work with this NumPy. */
bool numpy_init(void);
bool numpy_has_table(void);

/* True for an ndarray. */
bool numpy_is_array(PyObject *object);
/* Reads the fields of an array, which owns what they point to. False and an exception on
 * failure. */
bool numpy_read(PyObject *array, struct array_view *ret);
/* Makes an array of objects with the tensor's dimensions and returns its elements in row-major
 * order. They are NULL, to be set by the caller; elements that stay NULL read as None. NULL and an
 * exception on failure, NULL without one when the table is not used. */
PyObject *numpy_objects(const struct tensor *tensor, PyObject ***ret_elements);
/* Makes a writable array over the bytes, whose base is `owner`. */
PyObject *numpy_over(const struct tensor *tensor, PyObject *owner);
