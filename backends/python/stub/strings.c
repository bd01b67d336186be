/* SPDX-License-Identifier: BSD-3-Clause */
/* BYTES tensors: each element is its length in four bytes, little-endian, followed by its bytes
 * (KServe v2, binary tensor data extension). */
#include "python/stub/numpy_table.h"
#include "python/stub/py.h"

#include <string.h>

/* Returns the bytes of one element: a `bytes` object as it is, str(x) in UTF-8 for any other. */
static PyObject *element_bytes(PyObject *element) {
        PyObject *text, *bytes;

        if (PyBytes_Check(element)) {
                Py_INCREF(element);
                return element;
        }
        if (PyUnicode_Check(element))
                return PyUnicode_AsUTF8String(element);
        /* Code of the model, which may take the element out of its array. */
        Py_INCREF(element);
        text = PyObject_Str(element);
        Py_DECREF(element);
        if (text == NULL)
                return NULL;
        bytes = PyUnicode_AsUTF8String(text);
        Py_DECREF(text);
        return bytes;
}

static void put_element(char **to, PyObject *bytes) {
        Py_ssize_t len = PyBytes_Size(bytes);
        uint32_t   prefix = (uint32_t)len;

        memcpy(*to, &prefix, sizeof(prefix));
        memcpy(*to + sizeof(prefix), PyBytes_AsString(bytes), (size_t)len);
        *to += sizeof(prefix) + (size_t)len;
}

static bool add_size(uint64_t *sum, PyObject *bytes) {
        if (PyBytes_Size(bytes) > (Py_ssize_t)UINT32_MAX) {
                (void)raise_model_exception("an element of a BYTES tensor is longer than 4 GiB");
                return false;
        }
        *sum += 4 + (uint64_t)PyBytes_Size(bytes);
        return true;
}

/* Makes a list of the elements' bytes, and adds up their sizes with the prefixes. */
static PyObject *list_elements(PyObject *const *elements, uint64_t n, uint64_t *ret_bytes) {
        PyObject *list = PyList_New((Py_ssize_t)n);

        *ret_bytes = 0;
        for (uint64_t i = 0; list != NULL && i < n; i++) {
                PyObject *bytes = element_bytes(elements[i] != NULL ? elements[i] : Py_None);

                if (bytes == NULL || !add_size(ret_bytes, bytes)) {
                        Py_XDECREF(bytes);
                        Py_DECREF(list);
                        return NULL;
                }
                (void)PyList_SetItem(list, (Py_ssize_t)i, bytes);
        }
        return list;
}

/* Returns the size when all elements are `bytes`, the usual case, which needs no list. */
static bool measure_bytes(PyObject *const *elements, uint64_t n, uint64_t *ret_bytes) {
        *ret_bytes = 0;
        for (uint64_t i = 0; i < n; i++) {
                Py_ssize_t len;

                if (elements[i] == NULL || !PyBytes_Check(elements[i]))
                        return false;
                len = PyBytes_Size(elements[i]);
                if (len > (Py_ssize_t)UINT32_MAX)
                        return false;
                *ret_bytes += 4 + (uint64_t)len;
        }
        return true;
}

static PyObject *serialize(PyObject *const *elements, uint64_t n) {
        PyObject *list = NULL, *result;
        uint64_t  n_bytes;
        char     *to;

        if (!measure_bytes(elements, n, &n_bytes)) {
                list = list_elements(elements, n, &n_bytes);
                if (list == NULL)
                        return NULL;
        }
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n_bytes);
        if (result != NULL) {
                to = PyBytes_AsString(result);
                for (uint64_t i = 0; i < n; i++)
                        put_element(&to, list != NULL ? PyList_GetItem(list, (Py_ssize_t)i)
                                                      : elements[i]);
        }
        Py_XDECREF(list);
        return result;
}

PyObject *strings_serialize(PyObject *array, uint64_t n_elements) {
        struct array_view view;

        if (!numpy_read(array, &view))
                return NULL;
        return serialize(view.bytes, n_elements);
}

bool strings_read(const void *bytes, uint64_t n_bytes, PyObject **elements, uint64_t n) {
        const char *at = bytes;

        for (uint64_t i = 0; i < n; i++) {
                uint32_t len;

                if (n_bytes < sizeof(len))
                        return false;
                memcpy(&len, at, sizeof(len));
                if (len > n_bytes - sizeof(len))
                        return false;
                elements[i] = PyBytes_FromStringAndSize(at + sizeof(len), len);
                if (elements[i] == NULL)
                        return false;
                at += sizeof(len) + len;
                n_bytes -= sizeof(len) + len;
        }
        return n_bytes == 0;
}

PyObject *strings_deserialize(const void *bytes, uint64_t n_bytes) {
        const char *at = bytes;
        PyObject   *list = PyList_New(0);

        while (list != NULL && n_bytes > 0) {
                PyObject *element;
                uint32_t  len;

                if (n_bytes < sizeof(len)) {
                        Py_DECREF(list);
                        return raise_model_exception(
                                "Invalid bytes tensor data: incomplete length field");
                }
                memcpy(&len, at, sizeof(len));
                if (len > n_bytes - sizeof(len)) {
                        Py_DECREF(list);
                        return raise_model_exception(
                                "Invalid bytes tensor data: string extends beyond buffer");
                }
                element = PyBytes_FromStringAndSize(at + sizeof(len), len);
                if (element == NULL || PyList_Append(list, element) != 0) {
                        Py_XDECREF(element);
                        Py_DECREF(list);
                        return NULL;
                }
                Py_DECREF(element);
                at += sizeof(len) + len;
                n_bytes -= sizeof(len) + len;
        }
        return list;
}
