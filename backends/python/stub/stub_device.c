/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors on GPUs: bytes of the server that a process opens when its model touches them, and memory of the model
 * that the server opens (py.h). */
#include "python/stub/py.h"
#include "python/stub/stub_cuda.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes of the server --------------------------------------------------------------------- */

struct device_bytes {
        PyObject             head;
        PyObject            *block; /* what the server keeps until it comes back */
        struct shm_device    place;
        int                  device;
        uint64_t             n_bytes;
        void                *base; /* of the allocation; NULL: not open */
        struct device_bytes *next; /* in the list of open ones */
};

static struct pool          pool;
static struct device_bytes *open_ones;

PyObject *device_bytes_new(const struct shm_tensor *record, PyObject *block) {
        struct device_bytes *d = (struct device_bytes *)pool_take(&pool);

        if (d == NULL)
                return NULL;
        memcpy(&d->place, shm_map_at(&connection.map, record->data), sizeof(d->place));
        d->device = (int)record->gpu - 1;
        d->n_bytes = record->n_bytes;
        Py_INCREF(block);
        d->block = block;
        return (PyObject *)d;
}

bool is_device_bytes(const PyObject *owner) {
        return owner != NULL && Py_TYPE(owner) == pool.type;
}

static void device_bytes_dealloc(PyObject *self) {
        struct device_bytes *d = (struct device_bytes *)self, **link = &open_ones;

        if (d->base != NULL) {
                while (*link != d)
                        link = &(*link)->next;
                *link = d->next;
                if (!connection.is_forked)
                        cuda_close(d->device, d->base);
        }
        Py_XDECREF(d->block);
        pool_give(&pool, self);
}

static void *address_of(const struct device_bytes *d) {
        return (char *)d->base + d->place.offset;
}

void *device_bytes_open(PyObject *self) {
        struct device_bytes *d = (struct device_bytes *)self;
        void                *base;

        if (d->base == NULL) {
                if (!cuda_open(d->device, d->place.handle, &base))
                        return NULL;
                if (d->base != NULL) { /* another thread was faster */
                        cuda_close(d->device, base);
                } else {
                        d->base = base;
                        d->next = open_ones;
                        open_ones = d;
                }
        }
        return address_of(d);
}

static PyType_Slot slots[] = { { Py_tp_dealloc, device_bytes_dealloc }, { 0, NULL } };
static PyType_Spec spec = { .name = "c_python_backend_utils._DeviceBytes",
                            .basicsize = sizeof(struct device_bytes),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool device_init(void) {
        return pool_open(&pool, &spec);
}

/* end_devices(): called when the model has ended */
PyObject *device_end(PyObject *module, PyObject *unused) {
        (void)module;
        (void)unused;
        Py_BEGIN_ALLOW_THREADS cuda_end();
        Py_END_ALLOW_THREADS   Py_RETURN_NONE;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The memory of the server has no handle in this process, which names the input to the server instead. */
static void name_input(const struct device_bytes *d, uint64_t offset, struct shm_device *ret) {
        *ret = (struct shm_device){ .offset = offset,
                                    .hold = d->place.hold,
                                    .input = d->place.input };
}

static bool find_input(const struct tensor *t, struct shm_device *ret) {
        const char *at = t->bytes;

        for (const struct device_bytes *d = open_ones; d != NULL; d = d->next) {
                const char *begin = address_of(d);

                if (d->device == (int)t->gpu - 1 && at >= begin && at < begin + d->n_bytes &&
                    t->n_bytes <= (uint64_t)(begin + d->n_bytes - at)) {
                        name_input(d, (uint64_t)(at - begin), ret);
                        return true;
                }
        }
        return false;
}

/* Returns false, without an exception, when the server cannot open the memory. */
static bool find_place(const struct tensor *t, struct shm_device *ret) {
        if (is_device_bytes(t->owner)) {
                name_input((const struct device_bytes *)t->owner, 0, ret);
                return true;
        }
        if (find_input(t, ret))
                return true;
        *ret = (struct shm_device){ .hold = 0 };
        return cuda_share((int)t->gpu - 1, t->bytes, ret->handle, &ret->offset);
}

/* Chooses the way: the place, or a copy in main memory. */
static struct device_sent *sent_new(const struct tensor *t) {
        struct shm_device   place;
        bool                has_place = t->n_bytes > 0 && find_place(t, &place);
        struct device_sent *sent;

        if (PyErr_Occurred() != NULL)
                return NULL;
        sent = malloc(sizeof(*sent) + (has_place ? 0 : t->n_bytes));
        if (sent == NULL)
                (void)PyErr_NoMemory();
        else
                *sent = (struct device_sent){ .has_place = has_place };
        if (sent != NULL && has_place)
                sent->place = place;
        return sent;
}

bool device_measure(struct tensor *t, uint64_t *n_bytes) {
        int device = (int)t->gpu - 1;

        if (t->sent == NULL) {
                struct device_sent *made = sent_new(t);

                if (made == NULL)
                        return false;
                if (t->sent == NULL)
                        t->sent = made;
                else
                        free(made); /* another thread was faster, and may be reading into its own */
        }
        *n_bytes += SHM_BLOCK;
        if (t->sent->has_place) {
                *n_bytes += sizeof(t->sent->place);
                return cuda_finish(device);
        }
        *n_bytes += (t->n_bytes + 7) & ~UINT64_C(7);
        return t->n_bytes == 0 || cuda_read(device, t->bytes, t->sent->host, t->n_bytes);
}

void device_write(const struct tensor *t, struct shm_tensor *record, unsigned char *base,
                  uint64_t *at, uint64_t place) {
        bool        has_place = t->sent->has_place;
        const void *bytes = has_place ? (const void *)&t->sent->place : t->sent->host;
        uint64_t    n_bytes = has_place ? sizeof(t->sent->place) : t->n_bytes;

        if (t->n_bytes == 0)
                return;
        *at += (SHM_BLOCK - (place + *at) % SHM_BLOCK) % SHM_BLOCK;
        record->data = place + *at;
        record->gpu = has_place ? t->gpu : 0;
        memcpy(base + *at, bytes, n_bytes);
        *at = (*at + n_bytes + 7) & ~UINT64_C(7);
}

/* ---- outputs that the server reads ------------------------------------------------------------ */

struct kept {
        struct kept *next;
        PyObject    *outputs;
        uint32_t     block;
};

static struct kept *kept;

void device_keep(uint32_t block, PyObject *outputs) {
        struct kept *k = malloc(sizeof(*k));

        if (k == NULL)
                Py_FatalError("no memory for the outputs of a model");
        Py_INCREF(outputs);
        *k = (struct kept){ .next = kept, .outputs = outputs, .block = block };
        kept = k;
}

bool device_keeps_any(void) {
        return kept != NULL;
}

/* The deletion of the tensors may run a program, which may come here again. */
static void drop_all(struct kept *list) {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        while (list != NULL) {
                struct kept *k = list;

                list = k->next;
                Py_DECREF(k->outputs);
                free(k);
        }
        PyErr_Restore(type, value, trace);
}

void device_drop_all(void) {
        struct kept *all = kept;

        kept = NULL;
        drop_all(all);
}

void device_drop(uint32_t block) {
        struct kept **link = &kept, *dropped = NULL;

        while (*link != NULL) {
                struct kept *k = *link;

                if (k->block != block) {
                        link = &k->next;
                        continue;
                }
                *link = k->next;
                k->next = dropped;
                dropped = k;
        }
        if (dropped != NULL)
                drop_all(dropped);
}
