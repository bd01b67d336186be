/* SPDX-License-Identifier: BSD-3-Clause */
/* The type InferenceResponseSender, for responses outside execute() (py.h). */
#include "python/stub/py.h"

#define FINAL 1u /* TRITONSERVER_RESPONSE_COMPLETE_FINAL */

PyTypeObject *sender_type;

static PyObject *argument_names[2];

PyObject *sender_new(uint32_t handle, uint64_t wanted, bool is_made_here) {
        allocfunc      alloc = (allocfunc)PyType_GetSlot(sender_type, Py_tp_alloc);
        struct sender *s = (struct sender *)alloc(sender_type, 0);

        if (s != NULL) {
                s->handle = handle;
                s->wanted = wanted;
                s->is_made_here = is_made_here;
        }
        return (PyObject *)s;
}

static void sender_dealloc(PyObject *self) {
        PyTypeObject  *type = Py_TYPE(self);
        freefunc       release = (freefunc)PyType_GetSlot(type, Py_tp_free);
        struct sender *s = (struct sender *)self;

        if (s->is_left && !s->is_closed) {
                connection_post(&(struct shm_message){ .kind = SHM_CLOSED, .handle = s->handle });
                connection_wake(SHM_NAPPING);
        }
        release(self);
        Py_DECREF(type);
}

/* Returns the reason why the response must not be sent; NULL when it may. */
static const char *find_fault(const struct sender *s, PyObject *response, unsigned flags) {
        if (s->is_made_here)
                return "Unable to send response. Response sender has no reference to the decoupled "
                       "state of the model.";
        if (flags > FINAL)
                return "Unable to send response. Unsupported flag provided.";
        if (flags == 0 && response == Py_None)
                return "Inference Response object must be provided when the response flags is set "
                       "to "
                       "zero.";
        if (s->is_closed)
                return "Unable to send response. Response sender has been closed.";
        if (connection.is_decoupled)
                return NULL;
        if (response != Py_None && s->has_sent)
                return "Unable to send response. Non-decoupled model cannot send more than one "
                       "response.";
        if (response == Py_None && !s->has_sent)
                return "Unable to send response. Non-decoupled model cannot send complete final "
                       "before sending a response.";
        return NULL;
}

static bool post(const struct sender *s, PyObject *response, unsigned flags) {
        struct shm_message message = { .kind = SHM_SEND, .handle = s->handle, .value = flags };
        struct answer_plan plan;

        if (response != Py_None) {
                bool is_measured = answer_measure(&plan, (struct response *)response, s->wanted);

                if (is_measured && !answer_is_too_large(plan.n_bytes, "a response is"))
                        message.block = connection_alloc(plan.n_bytes);
                if (message.block != 0) {
                        message.n_bytes =
                                (uint32_t)answer_write(&plan, connection_block(message.block), 0,
                                                       message.block);
                        message.value |= answer_keep(&plan, message.block);
                }
                answer_done(&plan);
                if (message.block == 0)
                        return false;
        }
        connection_post(&message);
        connection_wake(SHM_NAPPING);
        return true;
}

static PyObject *send(PyObject *self, PyObject *args, PyObject *kwargs) {
        static char   *names[] = { "response", "flags", NULL };
        struct sender *s = (struct sender *)self;
        PyObject      *given[2], *response = Py_None;
        unsigned int   flags = 0;
        const char    *fault;

        if (arguments_take(args, kwargs, argument_names, given, 2) && given[0] != NULL &&
            given[1] == NULL)
                response = given[0];
        else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OI:send", names, &response, &flags))
                return NULL;
        if (response != Py_None && !PyObject_TypeCheck(response, response_type)) {
                PyErr_SetString(PyExc_TypeError, "response must be an InferenceResponse");
                return NULL;
        }
        fault = find_fault(s, response, flags);
        if (fault != NULL)
                return raise_model_exception(fault);
        if (!post(s, response, flags))
                return NULL;
        s->has_sent = s->has_sent || response != Py_None;
        s->is_closed = (flags & FINAL) != 0;
        Py_RETURN_NONE;
}

static PyObject *is_cancelled(PyObject *self, PyObject *unused) {
        struct sender *s = (struct sender *)self;

        (void)unused;
        if (!s->is_cancelled && !s->is_made_here) {
                int is = calls_is_cancelled(s->handle, &s->cancel_asked_ns);

                if (is < 0)
                        return NULL;
                s->is_cancelled = is != 0;
        }
        return PyBool_FromLong(s->is_cancelled);
}

static PyMethodDef methods[] = {
        { "send", (PyCFunction)(void (*)(void))send, METH_VARARGS | METH_KEYWORDS,
          "Sends a response, the last one with TRITONSERVER_RESPONSE_COMPLETE_FINAL." },
        { "is_cancelled", is_cancelled, METH_NOARGS, "Whether the client has given up." },
        { NULL, NULL, 0, NULL },
};
static PyType_Slot slots[] = {
        { Py_tp_dealloc, sender_dealloc },
        { Py_tp_methods, methods },
        { 0, NULL },
};
static PyType_Spec spec = { .name = "c_python_backend_utils.InferenceResponseSender",
                            .basicsize = sizeof(struct sender),
                            .flags = Py_TPFLAGS_DEFAULT,
                            .slots = slots };

bool sender_init(void) {
        sender_type = (PyTypeObject *)PyType_FromSpec(&spec);
        argument_names[0] = PyUnicode_InternFromString("response");
        argument_names[1] = PyUnicode_InternFromString("flags");
        return sender_type != NULL && argument_names[0] != NULL && argument_names[1] != NULL;
}
