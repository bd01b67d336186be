/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub/py.h"

struct block {
        PyObject head;
        uint32_t number;
};

static struct pool pool;

PyObject *block_new(uint32_t number) {
        struct block *b = (struct block *)pool_take(&pool);

        if (b != NULL)
                b->number = number;
        return (PyObject *)b;
}

uint32_t block_number(PyObject *block) {
        return ((struct block *)block)->number;
}

static void dealloc(PyObject *self) {
        uint32_t number = ((struct block *)self)->number;

        if (number != 0 && !connection.is_forked)
                shm_list_push(&connection.header->released, number, connection_block(number));
        pool_give(&pool, self);
}

static PyType_Slot slots[] = { { Py_tp_dealloc, dealloc }, { 0, NULL } };
static PyType_Spec spec = { .name = "c_python_backend_utils._Block",
                            .basicsize = sizeof(struct block),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool block_init(void) {
        return pool_open(&pool, &spec);
}
