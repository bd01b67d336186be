/* SPDX-License-Identifier: BSD-3-Clause */
/* The stub's connection to the server: the shared region, memory in it, messages (py.h). */
#include "python/stub/py.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define FEW_OUTPUTS 4 /* outputs whose names are compared before the dictionary is used */

struct connection connection;

/* Ends the process when the server is gone, which closes the other end of the socket. This thread
 * does not need the interpreter lock, so a model in an endless computation ends, too. */
static void *watch_server(void *userp) {
        char byte;

        (void)userp;
        while (recv(SHM_CONTROL_FD, &byte, 1, 0) < 0 && errno == EINTR)
                ;
        (void)kill(0, SIGKILL);
        _exit(1);
}

static bool start_watch(void) {
        pthread_t thread;
        sigset_t  all, before;
        int       rc;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        rc = pthread_create(&thread, NULL, watch_server, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return rc == 0 && pthread_detach(thread) == 0;
}

/* In the child, also where C code of the model forks. */
static void note_fork(void) {
        connection.is_forked = true;
}

/* Returns the start parameters as bytes. */
PyObject *connection_attach(PyObject *module, PyObject *args) {
        const struct shm_answer *start;
        struct shm_header       *header;

        (void)module;
        (void)args;
        connection.base = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                               SHM_MEMORY_FD, 0);
        if (connection.base == MAP_FAILED) {
                connection.base = NULL;
                return PyErr_SetFromErrno(PyExc_OSError);
        }
        (void)madvise(connection.base, SHM_BYTES, MADV_DONTDUMP);
        header = connection.header = (struct shm_header *)connection.base;
        if (header->magic != SHM_MAGIC) {
                PyErr_SetString(PyExc_RuntimeError,
                                "the server and the stub are of different builds");
                return NULL;
        }
        (void)fcntl(SHM_CONTROL_FD, F_SETFD, FD_CLOEXEC);
        (void)fcntl(SHM_MEMORY_FD, F_SETFD, FD_CLOEXEC);
        if (pthread_atfork(NULL, NULL, note_fork) != 0 || !start_watch())
                return PyErr_SetFromErrno(PyExc_OSError);
        shm_heap_init(&connection.heap, &(struct shm_heap_options){
                                                .begin = SHM_STUB_AREA,
                                                .fd = SHM_MEMORY_FD,
                                                .max_bytes = header->max_bytes,
                                                .committed = &header->stub_committed,
                                                .committed_by_other = &header->server_committed });
        start = connection_block(header->start);
        connection_post(&(struct shm_message){ .kind = SHM_HELLO });
        connection_wake(SHM_NAPPING);
        return PyBytes_FromStringAndSize((const char *)start + start->text.at, start->text.len);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void connection_absorb(void) {
        uint32_t block = shm_list_take(&connection.header->returned);

        while (block != 0) {
                uint32_t next = *(const uint32_t *)connection_block(block);

                (void)shm_heap_free(&connection.heap, block);
                block = next;
        }
}

uint32_t connection_alloc(uint64_t n_bytes) {
        uint32_t block;
        char     text[256];

        if (connection.is_forked || connection.base == NULL) {
                (void)raise_model_exception(
                        "a child process of the model cannot talk to the server");
                return 0;
        }
        connection_absorb();
        block = shm_heap_alloc(&connection.heap, n_bytes);
        if (block == 0) {
                (void)snprintf(text, sizeof(text),
                               "Failed to increase the shared memory pool size to %llu bytes. The "
                               "memory that the server and the Python process share is limited by "
                               "--backend-config=python,shm-max-byte-size, or no more is left.",
                               (unsigned long long)n_bytes);
                (void)raise_model_exception(text);
        }
        return block;
}

void connection_free(uint32_t block) {
        (void)shm_heap_free(&connection.heap, block);
}

uint32_t connection_output_index(PyObject *name) {
        Py_ssize_t n = PyTuple_Size(connection.output_names);
        PyObject  *index;

        /* Names in a program's text are usually interned, as those of the configuration are, so a
         * comparison of pointers finds them. */
        for (Py_ssize_t i = 0; i < n && i < FEW_OUTPUTS; i++)
                if (PyTuple_GetItem(connection.output_names, i) == name)
                        return (uint32_t)i;
        index = PyDict_GetItemWithError(connection.output_index, name);
        return index != NULL ? (uint32_t)PyLong_AsUnsignedLong(index) : SHM_NO_INDEX;
}

bool connection_has(const void *bytes, uint64_t n_bytes, uint64_t *ret_place) {
        const unsigned char *at = bytes;

        if (at < connection.base + SHM_SERVER_AREA || at >= connection.base + SHM_STUB_AREA ||
            n_bytes > (uint64_t)(connection.base + SHM_STUB_AREA - at))
                return false;
        *ret_place = (uint64_t)(at - connection.base);
        return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

bool connection_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
        PyThreadState *state = PyEval_SaveThread();
        bool           was_interrupted = !shm_futex_wait(word, value, timeout_ns);

        PyEval_RestoreThread(state);
        return !was_interrupted || PyErr_CheckSignals() == 0;
}

static bool is_full(void) {
        return connection.message_tail - atomic_load(&connection.header->message_head) >=
               SHM_MESSAGES;
}

void connection_post(const struct shm_message *message) {
        struct shm_header *h = connection.header;

        if (connection.is_forked)
                return;
        while (is_full()) {
                connection_wake(SHM_NAPPING);
                atomic_store(&h->room_sleep, SHM_ASLEEP);
                atomic_thread_fence(memory_order_seq_cst);
                if (is_full()) {
                        PyThreadState *state = PyEval_SaveThread();

                        (void)shm_futex_wait(&h->room_sleep, SHM_ASLEEP, SHM_FOREVER);
                        PyEval_RestoreThread(state);
                }
        }
        h->messages[connection.message_tail % SHM_MESSAGES] = *message;
        connection.message_tail++;
        atomic_store_explicit(&h->message_tail, connection.message_tail, memory_order_release);
}

void connection_wake(enum shm_sleep least) {
        shm_wake(&connection.header->receiver_sleep, least);
}

/* ---- what is written in Python --------------------------------------------------------------- */

PyObject *raise_model_exception(const char *text) {
        PyErr_SetString(connection.error_class != NULL ? connection.error_class
                                                       : PyExc_RuntimeError,
                        text);
        return NULL;
}

PyObject *call_utils(const char *name, const char *format, ...) {
        PyObject *function, *args, *result;
        va_list   values;

        va_start(values, format);
        args = Py_VaBuildValue(format, values);
        va_end(values);
        if (args == NULL)
                return NULL;
        function = connection.utils != NULL ? PyDict_GetItemString(connection.utils, name) : NULL;
        if (function == NULL) {
                Py_DECREF(args);
                PyErr_Format(PyExc_RuntimeError, "%s is not registered", name);
                return NULL;
        }
        result = PyObject_CallObject(function, args);
        Py_DECREF(args);
        return result;
}
