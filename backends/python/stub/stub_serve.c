/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop of a stub: takes executions from the ring, calls the model, writes results.
 *
 * A model with ASYNC_CONCURRENCY answers later: its coroutine is passed to the event loop, whose
 * thread ends the execution with serve_end().
 */
#include "python/stub/py.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RESCHEDULE 2u /* TRITONSERVER_REQUEST_RELEASE_RESCHEDULE */
#define TRIM_AFTER_NS UINT64_C(10000000000)
#define TRIM_BYTES (UINT64_C(64) << 20)
#define SHORT_NS 20000u /* results of executions below this time are reported together */
#define MAX_PENDING 16u /* limit of results that are written and not reported */

static struct {
        PyObject *execute;
        bool      is_concurrent;
        uint64_t  average_ns;
        unsigned  n_pending;
} loop;

/* ---- results --------------------------------------------------------------------------------- */

#define FEW_REQUESTS 16

struct outcome {
        struct request *const *requests;
        Py_ssize_t             n;
        struct answer_plan    *plans; /* one for each request; response NULL: none */
        PyObject              *text;  /* bytes: the error of the whole execution */
};

/* Returns a new str. */
static PyObject *fault_of_type(const char *format, PyObject *found) {
        PyObject *type = PyObject_Type(found), *text = NULL;

        if (type != NULL)
                text = PyUnicode_FromFormat(format, type);
        Py_XDECREF(type);
        return text;
}

static bool has_closed_sender(const struct request *r) {
        return r->sender != NULL && ((struct sender *)r->sender)->is_closed;
}

/* Checks the element that execute() returned for a request. Returns NULL, or the fault as a new
 * str. */
static PyObject *check_element(struct request *r, PyObject *element) {
        if (element == Py_None) {
                if (r->release_flags == RESCHEDULE || r->sender != NULL)
                        return NULL;
        } else if (PyObject_TypeCheck(element, response_type)) {
                if (((struct response *)element)->error != NULL)
                        r->release_flags = 1;
                if (r->release_flags != RESCHEDULE)
                        return NULL;
                return fault_of_type(
                        "Expected a None object in the execute function return list for "
                        "reschduled request, found type '%R'.",
                        element);
        }
        return fault_of_type(
                "Expected an 'InferenceResponse' object in the execute function return "
                "list, found type '%R'.",
                element);
}

/* Returns the number of the requests that the model got. */
static Py_ssize_t count_given(struct request *const *requests, Py_ssize_t n) {
        Py_ssize_t n_given = 0;

        for (Py_ssize_t i = 0; i < n; i++)
                n_given += requests[i]->refusal == NULL;
        return n_given;
}

static PyObject *check_list(struct outcome *o, PyObject *result) {
        Py_ssize_t n_given = count_given(o->requests, o->n), next = 0;
        PyObject  *fault = NULL;

        if (PyList_Size(result) != n_given)
                return PyUnicode_FromFormat(
                        "Number of InferenceResponse objects do not match the "
                        "number of InferenceRequest objects. InferenceRequest(s) "
                        "size is:%zd, and InferenceResponse(s) size is:%zd\n",
                        n_given, PyList_Size(result));
        for (Py_ssize_t i = 0; i < o->n && fault == NULL; i++)
                if (o->requests[i]->refusal == NULL)
                        fault = check_element(o->requests[i], PyList_GetItem(result, next++));
        return fault;
}

/* None instead of a list means None for each request. */
static PyObject *check_none(struct outcome *o, PyObject *result) {
        for (Py_ssize_t i = 0; i < o->n; i++)
                if (o->requests[i]->release_flags != RESCHEDULE && o->requests[i]->sender == NULL &&
                    o->requests[i]->refusal == NULL)
                        return fault_of_type(
                                "Expected a list in the execute return, found type '%R'.", result);
        return NULL;
}

static PyObject *check_result(struct outcome *o, PyObject *result) {
        if (connection.is_decoupled)
                return result == Py_None ? NULL : call_utils("decoupled_fault", "()");
        if (result == Py_None)
                return check_none(o, result);
        if (!PyList_Check(result))
                return fault_of_type("Expected a list in the execute return, found type '%R'.",
                                     result);
        return check_list(o, result);
}

/* Measures the responses. Returns false and sets an exception on failure. */
static bool plan_answers(struct outcome *o, PyObject *result) {
        Py_ssize_t next = 0;

        for (Py_ssize_t i = 0; i < o->n; i++) {
                PyObject *element = o->requests[i]->refusal;

                if (element == NULL && result != Py_None)
                        element = PyList_GetItem(result, next++);
                if (element == NULL || element == Py_None)
                        continue;
                if (has_closed_sender(o->requests[i])) {
                        PyObject *done = call_utils("late_response", "()");

                        Py_XDECREF(done);
                        continue;
                }
                if (!answer_measure(&o->plans[i], (struct response *)element,
                                    request_wanted(o->requests[i])))
                        return false;
        }
        return true;
}

/* Returns the text of the pending exception. */
static PyObject *take_exception(void) {
        PyObject *type, *value, *trace, *text;

        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        text = call_utils("exception_text", "(OOO)", type, value != NULL ? value : Py_None,
                          trace != NULL ? trace : Py_None);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        return text;
}

/* Takes `fault`, a str or NULL when there was no memory even for that. */
static void fail_batch(struct outcome *o, PyObject *fault) {
        PyObject *text = fault != NULL ? call_utils("failure", "(O)", fault) : NULL;

        Py_XDECREF(fault);
        o->text = text != NULL ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
        Py_XDECREF(text);
        PyErr_Clear();
        if (o->text == NULL)
                o->text =
                        PyBytes_FromString("the Python model failed, and there is no memory to say "
                                           "how");
        for (Py_ssize_t i = 0; i < o->n; i++)
                answer_done(&o->plans[i]);
        memset(o->plans, 0, (size_t)o->n * sizeof(*o->plans));
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint32_t leave(struct request *r, bool is_answered) {
        struct sender *s = (struct sender *)r->sender;

        if (is_answered || r->release_flags == RESCHEDULE) {
                if (s != NULL)
                        s->is_closed = true;
                return 0;
        }
        if (s == NULL) {
                r->must_close = true;
                return 1;
        }
        s->is_left = true;
        return s->is_closed ? 0 : 1;
}

static uint64_t put_items(const struct outcome *o, struct shm_result *result, uint64_t at,
                          uint32_t block) {
        for (Py_ssize_t i = 0; i < o->n; i++) {
                struct request *r = o->requests[i];
                bool            is_answered = o->plans[i].response != NULL;

                result->items[i] = (struct shm_result_item){
                        .handle = r->record.handle,
                        .release_flags = r->release_flags,
                        .is_open = leave(r, is_answered || o->text != NULL),
                        .answer = is_answered ? (uint32_t)at : 0,
                };
                if (is_answered)
                        at = answer_write(&o->plans[i], (unsigned char *)result, at, block);
        }
        return at;
}

static uint64_t result_bytes(const struct outcome *o) {
        uint64_t n = sizeof(struct shm_result) + (uint64_t)o->n * sizeof(struct shm_result_item);

        for (Py_ssize_t i = 0; i < o->n; i++)
                n += o->plans[i].n_bytes;
        return (o->text != NULL ? (uint64_t)PyBytes_Size(o->text) : 0) + n;
}

static uint32_t alloc_result(struct outcome *o, uint64_t *ret_bytes) {
        uint32_t block;

        *ret_bytes = result_bytes(o);
        block = answer_is_too_large(*ret_bytes, "the responses of an execution are")
                        ? 0
                        : connection_alloc(*ret_bytes);
        if (block != 0)
                return block;
        fail_batch(o, take_exception());
        *ret_bytes = result_bytes(o);
        return connection_alloc(*ret_bytes);
}

static void tell_server(const struct shm_slot *slot) {
        struct shm_header *h = connection.header;
        bool               has_more = atomic_load(&h->execution_tail) != connection.execution_head;

        if (slot->is_waited) {
                shm_wake(&h->executor_sleep, SHM_NAPPING);
        } else if (!loop.is_concurrent && has_more && loop.average_ns < SHORT_NS &&
                   ++loop.n_pending < MAX_PENDING) {
                return;
        } else {
                loop.n_pending = 0;
                connection_wake(SHM_NAPPING);
        }
}

/* Lets go of inputs on GPUs before the answer is sent, so that the server has them back by then: unless the model
 * keeps the request, or answers later. */
static void drop_device_inputs(const struct outcome *o) {
        for (Py_ssize_t i = 0; i < o->n; i++) {
                struct request *r = o->requests[i];

                if (r->record.hold == 0 || (uint32_t)Py_REFCNT(r) > 1 || r->must_close)
                        continue;
                Py_CLEAR(r->inputs);
                Py_CLEAR(r->block);
        }
}

static void post_result(struct outcome *o, const struct shm_execution *execution) {
        uint64_t           n_bytes, at, wants_back = 0;
        uint32_t           block = alloc_result(o, &n_bytes);
        struct shm_result *result;

        if (block == 0)
                abort(); /* the region has no room even for an error: the server treats it as a
                          * crash */
        result = connection_block(block);
        at = sizeof(*result) + (uint64_t)o->n * sizeof(struct shm_result_item);
        *result = (struct shm_result){ .n_items = (uint32_t)o->n, .code = 1 };
        if (o->text != NULL) {
                result->text = (struct shm_text){ (uint32_t)at, (uint32_t)PyBytes_Size(o->text) };
                memcpy((char *)result + at, PyBytes_AsString(o->text), result->text.len);
        }
        at = put_items(o, result, at, block);
        for (Py_ssize_t i = 0; i < o->n; i++)
                wants_back |= answer_keep(&o->plans[i], block);
        drop_device_inputs(o);
        connection_post(&(struct shm_message){ .kind = SHM_RESULT,
                                               .handle = execution->slot,
                                               .block = block,
                                               .n_bytes = (uint32_t)n_bytes,
                                               .value = wants_back });
        tell_server(&connection.header->slots[execution->slot]);
}

/* ---- executions ------------------------------------------------------------------------------ */

static uint32_t count_requests(const struct shm_execution *execution) {
        const struct shm_batch *batch = connection_block(execution->block);

        return execution->kind == SHM_EXECUTE_ONE ? 1 : batch->n_requests;
}

/* Makes an object for each request, and a list of them for the model, which may change the list. Requests
 * out of reach are not in the list. NULL and an exception on failure. */
static PyObject *make_requests(const struct shm_execution *execution, struct request **ret,
                               Py_ssize_t n) {
        const struct shm_batch *batch = connection_block(execution->block);
        bool                    is_one = execution->kind == SHM_EXECUTE_ONE;
        PyObject               *list = PyList_New(n);
        Py_ssize_t              n_given = 0;

        for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
                uint32_t  block = is_one ? execution->block : batch->requests[i];
                bool      is_given = connection_reach(block);
                PyObject *request = is_given ? request_over(block) : request_refused(block);

                if (request == NULL) {
                        Py_DECREF(list);
                        return NULL;
                }
                ret[i] = (struct request *)request;
                if (is_given)
                        (void)PyList_SetItem(list, n_given++, request);
        }
        for (Py_ssize_t i = 0; list != NULL && i < n; i++)
                if (ret[i]->refusal == NULL)
                        Py_INCREF(ret[i]);
        if (list != NULL && n_given < n)
                (void)PyList_SetSlice(list, n_given, n, NULL);
        return list;
}

static void drop_requests(struct request *const *requests, Py_ssize_t n) {
        for (Py_ssize_t i = 0; i < n; i++)
                Py_DECREF(requests[i]);
}

/* Returns the depth of nested calls that these requests are part of. */
static uint32_t depth_of(struct request *const *requests, Py_ssize_t n) {
        uint32_t depth = 0;

        for (Py_ssize_t i = 0; i < n; i++)
                if (requests[i]->record.bls_depth > depth)
                        depth = requests[i]->record.bls_depth;
        return depth;
}

static PyObject *call_model(PyObject *list, struct request *const *requests, Py_ssize_t n,
                            uint32_t i) {
        struct shm_slot *slot = &connection.header->slots[i];
        PyObject        *result;

        bls_call_begin_execution(requests, n, depth_of(requests, n), i);
        result = PyObject_CallFunctionObjArgs(loop.execute, list, NULL);
        bls_call_end_execution();
        if (connection.is_forked)
                _exit(0); /* a child that the model forked; the result is its parent's to write */
        slot->end_ns = shm_clock_ns();
        loop.average_ns = (loop.average_ns * 7 + (slot->end_ns - slot->claim_ns)) / 8;
        return result;
}

/* Answers with the return value of execute(); with `result` NULL, with the pending exception. */
static bool answer_batch(struct request *const *requests, Py_ssize_t n, PyObject *result,
                         const struct shm_execution *execution) {
        struct answer_plan few[FEW_REQUESTS];
        struct outcome     o = { .requests = requests, .n = n, .plans = few };
        PyObject          *fault;

        if (n > FEW_REQUESTS)
                o.plans = malloc((size_t)n * sizeof(*o.plans));
        if (o.plans == NULL)
                return false;
        memset(o.plans, 0, (size_t)n * sizeof(*o.plans));
        if (result == NULL) {
                fail_batch(&o, take_exception());
        } else {
                fault = check_result(&o, result);
                if (fault != NULL || PyErr_Occurred() != NULL)
                        fail_batch(&o, fault != NULL ? fault : take_exception());
                else if (!plan_answers(&o, result))
                        fail_batch(&o, take_exception());
        }
        post_result(&o, execution);
        for (Py_ssize_t i = 0; i < n; i++)
                answer_done(&o.plans[i]);
        if (o.plans != few)
                free(o.plans);
        Py_XDECREF(o.text);
        return true;
}

static PyObject *none(void) {
        Py_RETURN_NONE;
}

static bool run_requests(const struct shm_execution *execution, struct request **requests,
                         Py_ssize_t n) {
        PyObject *list = make_requests(execution, requests, n), *result;
        bool      has_ended;

        if (list == NULL)
                return false;
        result = PyList_Size(list) == 0 ? none() : call_model(list, requests, n, execution->slot);
        Py_DECREF(list);
        has_ended = answer_batch(requests, n, result, execution);
        Py_XDECREF(result);
        drop_requests(requests, n);
        return has_ended;
}

static bool run_execution(const struct shm_execution *execution) {
        struct request *few[FEW_REQUESTS], **many;
        uint32_t        n = count_requests(execution);
        bool            has_ended;

        if (n <= FEW_REQUESTS)
                return run_requests(execution, few, (Py_ssize_t)n);
        many = malloc(n * sizeof(struct request *));
        has_ended = many != NULL && run_requests(execution, many, (Py_ssize_t)n);
        free(many);
        return has_ended;
}

/* ---- executions that overlap ------------------------------------------------------------------ */

#define PENDING_NAME "execution"

struct pending {
        struct shm_execution execution;
        bool                 has_ended;
        Py_ssize_t           n;
        struct request      *requests[]; /* has a reference to each request until the execution has
                                          * ended */
};

/* Takes the result, and clears a pending exception. */
static bool end_pending(struct pending *p, PyObject *result) {
        bool is_answered;

        p->has_ended = true;
        connection.header->slots[p->execution.slot].end_ns = shm_clock_ns();
        is_answered = answer_batch(p->requests, p->n, result, &p->execution);
        drop_requests(p->requests, p->n);
        return is_answered;
}

/* An event loop that is closed drops its coroutines; their requests must still be answered. */
static void drop_pending(PyObject *capsule) {
        struct pending *p = PyCapsule_GetPointer(capsule, PENDING_NAME);
        PyObject       *type, *value, *trace;

        if (!p->has_ended && !connection.is_forked) {
                PyErr_Fetch(&type, &value, &trace);
                PyErr_SetString(PyExc_RuntimeError, "the event loop has dropped execute()");
                (void)end_pending(p, NULL);
                PyErr_Restore(type, value, trace);
        }
        free(p);
}

/* Begins an execution; *ret_list is the model's list of the requests. */
static PyObject *pending_new(const struct shm_execution *execution, PyObject **ret_list) {
        uint32_t        n = count_requests(execution);
        struct pending *p = malloc(sizeof(*p) + n * sizeof(struct request *));
        PyObject       *capsule;

        if (p == NULL)
                return PyErr_NoMemory();
        *p = (struct pending){ .execution = *execution, .n = (Py_ssize_t)n };
        *ret_list = make_requests(execution, p->requests, p->n);
        capsule = *ret_list != NULL ? PyCapsule_New(p, PENDING_NAME, drop_pending) : NULL;
        if (capsule == NULL)
                free(p); /* the process is ending */
        return capsule;
}

/* Passes the execution to the event loop. */
static bool start_pending(const struct shm_execution *execution) {
        PyObject       *list, *capsule = pending_new(execution, &list), *done;
        struct pending *p;
        bool            is_right;

        if (capsule == NULL)
                return false;
        p = PyCapsule_GetPointer(capsule, PENDING_NAME);
        if (PyList_Size(list) > 0) {
                PyObject *key = bls_call_key(p->requests, p->n, depth_of(p->requests, p->n),
                                             execution->slot);

                done = key != NULL ? PyObject_CallFunctionObjArgs(loop.execute, list, capsule, key,
                                                                  NULL)
                                   : NULL;
                Py_XDECREF(key);
                is_right = done != NULL || end_pending(p, NULL);
        } else {
                done = none();
                is_right = end_pending(p, done);
        }
        Py_XDECREF(done);
        Py_DECREF(list);
        Py_DECREF(capsule);
        return is_right;
}

/* end(token, result, exception or None) */
PyObject *serve_end(PyObject *module, PyObject *args) {
        PyObject       *capsule, *result, *exception;
        struct pending *p;

        (void)module;
        if (!PyArg_ParseTuple(args, "OOO:end", &capsule, &result, &exception))
                return NULL;
        if (connection.is_forked)
                _exit(0); /* as in call_model() */
        p = PyCapsule_GetPointer(capsule, PENDING_NAME);
        if (p == NULL || p->has_ended)
                return NULL;
        if (exception != Py_None)
                PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        if (!end_pending(p, exception == Py_None ? result : NULL))
                return NULL;
        Py_RETURN_NONE;
}

/* ---- executions out of reach ------------------------------------------------------------------ */

static void give_back_requests(const struct shm_execution *execution) {
        uint32_t n = 0, block;

        if (execution->kind == SHM_EXECUTE_ONE) {
                connection_refuse_request(execution->block);
                return;
        }
        (void)connection_read(execution->block, offsetof(struct shm_batch, n_requests), &n,
                              sizeof(n));
        for (uint32_t i = 0; i < n; i++)
                if (connection_read(execution->block,
                                    offsetof(struct shm_batch, requests) + i * sizeof(block),
                                    &block, sizeof(block)))
                        connection_refuse_request(block);
}

/* Answers an execution whose memory is out of reach. */
static void refuse_execution(const struct shm_execution *execution) {
        struct outcome o = { .text = PyBytes_FromString(OUT_OF_REACH) };

        give_back_requests(execution);
        connection.header->slots[execution->slot].end_ns = shm_clock_ns();
        post_result(&o, execution);
        Py_XDECREF(o.text);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Sleeps until there is an execution. Returns false when an exception is set. */
static bool wait_for_execution(void) {
        struct shm_header *h = connection.header;

        while (atomic_load(&h->execution_tail) == connection.execution_head) {
                bool     is_large = shm_heap_idle_bytes(&connection.area.heap) > TRIM_BYTES;
                uint64_t since = is_large ? shm_clock_ns() : 0;

                if (atomic_load(&h->n_server_removed) != connection.n_removed)
                        connection_follow();

                if (device_keeps_any())
                        connection_absorb();
                if (loop.n_pending > 0) {
                        loop.n_pending = 0;
                        connection_wake(SHM_NAPPING);
                }
                atomic_store(&h->stub_sleep, SHM_ASLEEP);
                atomic_thread_fence(memory_order_seq_cst);
                if (atomic_load(&h->execution_tail) == connection.execution_head &&
                    !(device_keeps_any() && atomic_load(&h->returned) != 0) &&
                    !connection_sleep(&h->stub_sleep, SHM_ASLEEP,
                                      is_large ? TRIM_AFTER_NS : SHM_FOREVER))
                        return false;
                atomic_store(&h->stub_sleep, SHM_AWAKE);
                if (is_large && shm_clock_ns() - since >= TRIM_AFTER_NS) {
                        connection_absorb();
                        (void)connection_shrink();
                }
        }
        return true;
}

/* serve(execute, is_concurrent): returns when the server ends the model */
PyObject *serve(PyObject *module, PyObject *args) {
        struct shm_header *h = connection.header;
        int                is_concurrent;

        (void)module;
        if (!PyArg_ParseTuple(args, "Op:serve", &loop.execute, &is_concurrent))
                return NULL;
        loop.is_concurrent = is_concurrent != 0;
        for (;;) {
                struct shm_execution execution;
                struct shm_slot     *slot;

                if (!wait_for_execution())
                        return NULL;
                execution = h->executions[connection.execution_head % (2 * SHM_MAX_DEPTH)];
                connection.execution_head++;
                atomic_store_explicit(&h->execution_head, connection.execution_head,
                                      memory_order_release);
                if (execution.kind == SHM_FINALIZE) {
                        connection_absorb();
                        device_drop_all(); /* the server has read them */
                        Py_RETURN_NONE;
                }
                slot = &h->slots[execution.slot];
                if (!shm_slot_claim(&slot->word, execution.generation))
                        continue;
                slot->claim_ns = shm_clock_ns();
                if (!connection_reach(execution.block)) {
                        refuse_execution(&execution);
                        continue;
                }
                if (!(loop.is_concurrent ? start_pending(&execution) : run_execution(&execution)))
                        return NULL;
        }
}
