/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub/py.h"

struct block {
        PyObject head;
        uint32_t number;
};

PyTypeObject *block_type;

PyObject *block_new(uint32_t number) {
        allocfunc     alloc = (allocfunc)PyType_GetSlot(block_type, Py_tp_alloc);
        struct block *b = (struct block *)alloc(block_type, 0);

        if (b != NULL)
                b->number = number;
        return (PyObject *)b;
}

uint32_t block_number(PyObject *block) {
        return ((struct block *)block)->number;
}

static void dealloc(PyObject *self) {
        PyTypeObject *type = Py_TYPE(self);
        freefunc      release = (freefunc)PyType_GetSlot(type, Py_tp_free);
        uint32_t      number = ((struct block *)self)->number;

        if (number != 0 && !connection.is_forked)
                shm_list_push(&connection.header->released, number, connection_block(number));
        release(self);
        Py_DECREF(type);
}

static PyType_Slot slots[] = { { Py_tp_dealloc, dealloc }, { 0, NULL } };
static PyType_Spec spec = { .name = "c_python_backend_utils._Block",
                            .basicsize = sizeof(struct block),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool block_init(void) {
        block_type = (PyTypeObject *)PyType_FromSpec(&spec);
        return block_type != NULL;
}
