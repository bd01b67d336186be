/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of a model to the server: their blocks and replies, cancellation, metrics and the services of
 * services.h. */
#include "python/stub/py.h"

#include <string.h>

#define CANCEL_INTERVAL_NS UINT64_C(1000000)

uint32_t calls_new(enum shm_call_kind kind, uint32_t handle, uint64_t n_bytes) {
        uint32_t block =
                n_bytes > UINT32_MAX / 2 ? 0 : connection_alloc(sizeof(struct shm_call) + n_bytes);
        struct shm_call *call;

        if (block == 0) {
                if (PyErr_Occurred() == NULL)
                        (void)raise_model_exception("a call of the server is larger than 2 GiB");
                return 0;
        }
        call = connection_block(block);
        memset(call, 0, sizeof(*call));
        call->kind = kind;
        call->handle = handle;
        call->payload = sizeof(*call);
        call->n_bytes = (uint32_t)n_bytes;
        return block;
}

void calls_post(uint32_t block) {
        const struct shm_call *call = connection_block(block);

        connection_post(&(struct shm_message){
                .kind = SHM_CALL, .block = block, .n_bytes = call->payload + call->n_bytes });
        connection_wake(SHM_NAPPING);
}

uint32_t calls_reach_reply(uint32_t reply_block) {
        if (!connection_reach(reply_block))
                Py_FatalError("no addresses for the reply to a call"); /* a few bytes */
        return reply_block;
}

uint32_t calls_wait_replies(uint32_t block) {
        struct shm_call *call = connection_block(block);

        for (;;) {
                uint32_t reply_block = shm_list_take(&call->replies);

                if (reply_block != 0)
                        return calls_reach_reply(reply_block);
                if (!connection_sleep(&call->replies, 0, SHM_FOREVER))
                        PyErr_Clear(); /* the server still writes into the call */
        }
}

/* ---- calls that are answered early ----------------------------------------------------------- */

/* A thread that waits for the reply to a call. The server may give the block of the call back while the
 * thread has not seen its reply. */
struct waiter {
        uint32_t       block;
        bool           is_back;
        struct waiter *next;
};

static struct waiter *waiters;
static PyObject      *kept; /* dict: block of a call -> its request, whose inputs the call uses */

static void keep(uint32_t block, PyObject *request) {
        PyObject *key = PyLong_FromUnsignedLong(block);

        if (kept == NULL)
                kept = PyDict_New();
        if (key == NULL || kept == NULL || PyDict_SetItem(kept, key, request) != 0)
                Py_FatalError("no memory for the call of a model");
        Py_DECREF(key);
}

uint32_t calls_finish(uint32_t block, PyObject *request) {
        struct waiter   w = { .block = block, .next = waiters };
        struct waiter **link = &waiters;
        uint32_t        reply;

        waiters = &w;
        reply = calls_wait_replies(block);
        while (*link != &w)
                link = &(*link)->next;
        *link = w.next;
        if (w.is_back || ((const struct shm_reply *)connection_block(reply))->is_last)
                connection_free(block);
        else
                keep(block, request);
        return reply;
}

/* Drops the request, whose deletion may run a program. */
static void drop_kept(uint32_t block) {
        PyObject *key, *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        key = PyLong_FromUnsignedLong(block);
        if (key == NULL || (PyDict_Contains(kept, key) == 1 && PyDict_DelItem(kept, key) != 0))
                PyErr_Clear();
        Py_XDECREF(key);
        PyErr_Restore(type, value, trace);
}

bool calls_take_back(uint32_t block) {
        for (struct waiter *w = waiters; w != NULL; w = w->next)
                if (w->block == block) {
                        w->is_back = true;
                        return true;
                }
        if (kept != NULL && PyDict_Size(kept) > 0)
                drop_kept(block);
        return false;
}

void calls_release(uint32_t reply_block) {
        connection_give_back(reply_block);
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Posts the call and returns (code, text) of its only reply. */
static PyObject *finish_call(uint32_t block) {
        struct shm_reply reply;
        uint32_t         reply_block;
        PyObject        *result, *text;

        calls_post(block);
        reply_block = calls_wait_replies(block);
        memcpy(&reply, connection_block(reply_block), sizeof(reply));
        /* An error may quote any bytes. */
        text = record_text(connection_block(reply_block), reply.answer.text, "replace");
        result = text != NULL ? Py_BuildValue("(IN)", reply.answer.code, text) : NULL;
        calls_release(reply_block);
        connection_free(block);
        return result;
}

/* count(id, op, value) -> (code, text): the change of a metric is visible afterwards. */
PyObject *calls_count(PyObject *module, PyObject *args) {
        struct shm_metric metric = { 0 };
        unsigned int      id;
        uint32_t          block;

        (void)module;
        if (!PyArg_ParseTuple(args, "IId:count", &id, &metric.op, &metric.value))
                return NULL;
        block = calls_new(SHM_CALL_METRIC, id, sizeof(metric));
        if (block == 0)
                return NULL;
        memcpy((char *)connection_block(block) + sizeof(struct shm_call), &metric, sizeof(metric));
        return finish_call(block);
}

/* ask(kind, handle, payload) -> (code, text): one reply. */
PyObject *calls_ask(PyObject *module, PyObject *args) {
        unsigned int kind, handle;
        const char  *payload;
        Py_ssize_t   len;
        uint32_t     block;

        (void)module;
        if (!PyArg_ParseTuple(args, "IIy#:ask", &kind, &handle, &payload, &len))
                return NULL;
        block = calls_new((enum shm_call_kind)kind, handle, (uint64_t)len);
        if (block == 0)
                return NULL;
        memcpy((char *)connection_block(block) + sizeof(struct shm_call), payload, (size_t)len);
        return finish_call(block);
}

int calls_is_cancelled(uint32_t handle, uint64_t *asked_ns) {
        uint64_t         now_ns = shm_clock_ns();
        uint32_t         block, reply_block;
        struct shm_reply reply;

        if (now_ns - *asked_ns < CANCEL_INTERVAL_NS)
                return 0;
        block = calls_new(SHM_CALL_IS_CANCELLED, handle, 0);
        if (block == 0)
                return -1;
        calls_post(block);
        reply_block = calls_wait_replies(block);
        memcpy(&reply, connection_block(reply_block), sizeof(reply));
        calls_release(reply_block);
        connection_free(block);
        *asked_ns = shm_clock_ns();
        return reply.answer.code != 0;
}

/* ---- messages without a reply ---------------------------------------------------------------- */

/* free_call(block), called after its last reply */
PyObject *calls_free(PyObject *module, PyObject *args) {
        unsigned int block;

        (void)module;
        if (!PyArg_ParseTuple(args, "I:free_call", &block))
                return NULL;
        connection_free(block);
        Py_RETURN_NONE;
}

/* cancel(block) */
PyObject *calls_cancel(PyObject *module, PyObject *args) {
        unsigned int block;

        (void)module;
        if (!PyArg_ParseTuple(args, "I:cancel", &block))
                return NULL;
        connection_post(&(struct shm_message){ .kind = SHM_CANCEL, .block = block });
        connection_wake(SHM_NAPPING);
        Py_RETURN_NONE;
}
