/* SPDX-License-Identifier: BSD-3-Clause */
/* Reuse of the objects that each request makes, the blocks of the server that they hold, and the arguments of
 * their constructors (py.h). */
#include "python/stub/py.h"

#include <string.h>

bool pool_open(struct pool *pool, PyType_Spec *spec) {
        pool->type = (PyTypeObject *)PyType_FromSpec(spec);
        if (pool->type == NULL)
                return false;
        pool->n_bytes = (size_t)spec->basicsize;
        pool->alloc = (allocfunc)PyType_GetSlot(pool->type, Py_tp_alloc);
        pool->release = (freefunc)PyType_GetSlot(pool->type, Py_tp_free);
        return true;
}

PyObject *pool_take(struct pool *pool) {
        PyObject *object;

        if (pool->n_kept == 0)
                return pool->alloc(pool->type, 0);
        object = pool->kept[--pool->n_kept];
        memset((char *)object + sizeof(*object), 0, pool->n_bytes - sizeof(*object));
        return PyObject_Init(object, pool->type);
}

void pool_give(struct pool *pool, PyObject *object) {
        if (pool->n_kept < POOL_OBJECTS)
                pool->kept[pool->n_kept++] = object;
        else
                pool->release(object);
        Py_DECREF(pool->type);
}

/* ---- blocks of the server ------------------------------------------------------------------- */

struct block {
        PyObject head;
        uint32_t number;
        uint64_t hold; /* 0: none */
};

static struct pool block_pool;

PyObject *block_new(uint32_t number) {
        struct block *b = (struct block *)pool_take(&block_pool);

        if (b != NULL)
                b->number = number;
        return (PyObject *)b;
}

uint32_t block_number(PyObject *block) {
        return ((struct block *)block)->number;
}

void block_hold(PyObject *block, uint64_t hold) {
        ((struct block *)block)->hold = hold;
}

static void block_dealloc(PyObject *self) {
        const struct block *b = (struct block *)self;

        if (b->number != 0 && !connection.is_forked)
                connection_give_back(b->number);
        if (b->hold != 0 && !connection.is_forked)
                connection_say_dropped(b->hold);
        pool_give(&block_pool, self);
}

static PyType_Slot block_slots[] = { { Py_tp_dealloc, block_dealloc }, { 0, NULL } };
static PyType_Spec block_spec = { .name = "c_python_backend_utils._Block",
                                  .basicsize = sizeof(struct block),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = block_slots };

bool block_init(void) {
        return pool_open(&block_pool, &block_spec);
}

/* ---- arguments ------------------------------------------------------------------------------- */

bool arguments_take(PyObject *args, PyObject *kwargs, PyObject *const *names, PyObject **ret,
                    Py_ssize_t n) {
        Py_ssize_t n_args = PyTuple_Size(args), n_named = 0;

        if (n_args > n)
                return false;
        for (Py_ssize_t i = 0; i < n; i++) {
                if (i < n_args) {
                        ret[i] = PyTuple_GetItem(args, i);
                        continue;
                }
                ret[i] = kwargs != NULL ? PyDict_GetItemWithError(kwargs, names[i]) : NULL;
                n_named += ret[i] != NULL;
        }
        return kwargs == NULL || n_named == PyDict_Size(kwargs);
}
