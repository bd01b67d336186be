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

static bool map_memory(void) {
        if (!shm_map_open(&connection.map, SHM_MEMORY_FD)) {
                (void)PyErr_SetFromErrno(PyExc_OSError);
                return false;
        }
        connection.header = shm_map_at(&connection.map, 0);
        if (connection.header->magic != SHM_MAGIC) {
                PyErr_SetString(PyExc_RuntimeError,
                                "the server and the stub are of different builds");
                return false;
        }
        shm_area_init(&connection.area, &connection.map,
                      &(struct shm_area_options){ .max_bytes = connection.header->max_bytes,
                                                  .first_bytes = connection.header->first_bytes,
                                                  .growth_bytes =
                                                          connection.header->growth_bytes });
        connection.asked = SHM_NO_INDEX;
        if (!connection_reach(connection.header->start)) {
                errno = ENOMEM;
                (void)PyErr_SetFromErrno(PyExc_OSError);
                return false;
        }
        return true;
}

/* Returns the start parameters as bytes. */
PyObject *connection_attach(PyObject *module, PyObject *args) {
        const struct shm_answer *start;

        (void)module;
        (void)args;
        if (!map_memory())
                return NULL;
        (void)fcntl(SHM_CONTROL_FD, F_SETFD, FD_CLOEXEC);
        (void)fcntl(SHM_MEMORY_FD, F_SETFD, FD_CLOEXEC);
        if (pthread_atfork(NULL, NULL, note_fork) != 0 || !start_watch())
                return PyErr_SetFromErrno(PyExc_OSError);
        start = connection_block(connection.header->start);
        connection_post(&(struct shm_message){ .kind = SHM_HELLO });
        connection_wake(SHM_NAPPING);
        return PyBytes_FromStringAndSize((const char *)start + start->text.at, start->text.len);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void connection_absorb(void) {
        uint32_t block = shm_list_take(&connection.header->returned);

        while (block != 0) {
                uint32_t next = *(const uint32_t *)connection_block(block);

                if (!connection.on_returned(block))
                        (void)shm_heap_free(&connection.area.heap, block);
                block = next;
        }
}

/* Waits until the server has answered for the segment that it was asked for last. */
static void wait_for_answer(void) {
        while (connection.asked != SHM_NO_INDEX) {
                _Atomic uint32_t *state = &connection.header->stub_segments[connection.asked].state;

                if (atomic_load(state) != SHM_SEGMENT_OFFERED)
                        connection.asked = SHM_NO_INDEX;
                else if (!connection_sleep(state, SHM_SEGMENT_OFFERED, SHM_FOREVER))
                        PyErr_Clear(); /* the server still answers */
        }
}

/* Asks the server to map a segment. Meanwhile no other thread can allocate, so no message names a block in
 * the segment before the server has it. */
static bool ask_for(uint32_t segment) {
        connection.asked = segment;
        connection_post(&(struct shm_message){ .kind = SHM_GROW, .handle = segment });
        connection_wake(SHM_NAPPING);
        wait_for_answer();
        return atomic_load(&connection.header->stub_segments[segment].state) == SHM_SEGMENT_MAPPED;
}

bool connection_shrink(void) {
        wait_for_answer(); /* the server may be about to map the segment */
        if (shm_area_shrink(&connection.area) == 0)
                return false;
        connection_post(&(struct shm_message){ .kind = SHM_SHRINK });
        connection_wake(SHM_NAPPING);
        return true;
}

static uint32_t alloc(uint64_t n_bytes) {
        uint32_t segment, block;

        connection_absorb();
        wait_for_answer();
        block = shm_area_alloc(&connection.area, n_bytes, &segment);
        if (segment == SHM_NO_INDEX || ask_for(segment))
                return block;
        if (block != 0)
                connection_free(block);
        return 0;
}

uint32_t connection_alloc(uint64_t n_bytes) {
        uint32_t block;
        char     text[256];

        if (connection.is_forked || connection.header == NULL) {
                (void)raise_model_exception(
                        "a child process of the model cannot talk to the server");
                return 0;
        }
        block = alloc(n_bytes);
        if (block == 0 && connection_shrink())
                block = alloc(n_bytes);
        if (block == 0) {
                (void)snprintf(text, sizeof(text),
                               "Failed to increase the shared memory pool size to %llu bytes. The "
                               "memory that the server and the Python process share is limited by "
                               "--backend-config=python,shm-max-byte-size, or no more memory or "
                               "addresses (`ulimit -v`) are left.",
                               (unsigned long long)n_bytes);
                (void)raise_model_exception(text);
        }
        return block;
}

void connection_free(uint32_t block) {
        (void)shm_heap_free(&connection.area.heap, block);
}

/* ---- memory of the server -------------------------------------------------------------------- */

static void unmap_segment(uint32_t index) {
        for (uint32_t i = 0; i < connection.n_server_segments; i++) {
                struct server_segment *s = &connection.server_segments[i];

                if (s->index != index)
                        continue;
                shm_map_remove(&connection.map, s->offset);
                *s = connection.server_segments[--connection.n_server_segments];
                return;
        }
}

void connection_follow(void) {
        connection.n_removed = atomic_load(&connection.header->n_server_removed);
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++) {
                _Atomic uint32_t *state = &connection.header->server_segments[i].state;

                if (atomic_load(state) != SHM_SEGMENT_REMOVED)
                        continue;
                unmap_segment(i);
                atomic_store(state, SHM_SEGMENT_EMPTY);
        }
}

/* Returns the index of the segment that has the offset. */
static uint32_t find_segment(uint64_t offset) {
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++) {
                const struct shm_segment_record *record = &connection.header->server_segments[i];
                uint32_t state = atomic_load_explicit(&record->state, memory_order_acquire);
                uint64_t begin = SHM_SERVER_AREA + record->granule * SHM_GRANULE;

                if (state != SHM_SEGMENT_EMPTY && state != SHM_SEGMENT_REMOVED && offset >= begin &&
                    offset - begin < record->n_units * (uint64_t)SHM_UNIT)
                        return i;
        }
        Py_FatalError("a block of the server is in no segment");
}

static bool map_segment(uint32_t i) {
        struct shm_segment_record *record = &connection.header->server_segments[i];
        uint64_t                   offset = SHM_SERVER_AREA + record->granule * SHM_GRANULE;
        uint64_t                   n_bytes = record->n_units * (uint64_t)SHM_UNIT;

        if (!shm_map_has_file(&connection.map))
                Py_FatalError("the model has closed the descriptor of its memory");
        if (!shm_map_add(&connection.map, offset, n_bytes)) {
                if (!connection_shrink())
                        return false;
                if (shm_map_find(&connection.map, offset, 1) != NULL)
                        return true; /* another thread had the interpreter lock meanwhile */
                if (!shm_map_add(&connection.map, offset, n_bytes))
                        return false;
        }
        connection.server_segments[connection.n_server_segments++] = (struct server_segment){
                .begin = shm_map_at(&connection.map, offset),
                .n_bytes = n_bytes,
                .offset = offset,
                .index = i,
        };
        return true;
}

bool connection_reach(uint32_t block) {
        uint64_t                   offset = (uint64_t)block * SHM_BLOCK;
        struct shm_segment_record *record;
        uint32_t                   i, offered = SHM_SEGMENT_OFFERED;

        if (shm_map_find(&connection.map, offset, 1) != NULL)
                return true;
        connection_follow();
        i = find_segment(offset);
        record = &connection.header->server_segments[i];
        if (map_segment(i)) {
                (void)atomic_compare_exchange_strong(&record->state, &offered, SHM_SEGMENT_MAPPED);
                return true;
        }
        if (atomic_compare_exchange_strong(&record->state, &offered, SHM_SEGMENT_REFUSED))
                atomic_fetch_add(&connection.header->n_server_refused, 1);
        return false;
}

bool connection_read(uint32_t block, uint64_t at, void *to, size_t n_bytes) {
        return pread(SHM_MEMORY_FD, to, n_bytes, (off_t)((uint64_t)block * SHM_BLOCK + at)) ==
               (ssize_t)n_bytes;
}

/* Pushes a block whose link is written through the descriptor. */
static void push_through_file(_Atomic uint32_t *list, uint32_t block) {
        uint32_t first = atomic_load(list);

        do
                if (pwrite(SHM_MEMORY_FD, &first, sizeof(first),
                           (off_t)((uint64_t)block * SHM_BLOCK)) != (ssize_t)sizeof(first))
                        Py_FatalError("a block cannot be given back to the server");
        while (!atomic_compare_exchange_weak(list, &first, block));
}

void connection_give_back(uint32_t block) {
        _Atomic uint32_t *list = &connection.header->released;

        if (shm_map_find(&connection.map, (uint64_t)block * SHM_BLOCK, 1) != NULL)
                shm_list_push(list, block, connection_block(block));
        else
                push_through_file(list, block);
}

void connection_say_dropped(uint64_t hold) {
        connection_post(&(struct shm_message){ .kind = SHM_DROPPED, .value = hold });
        connection_wake(SHM_NAPPING);
}

void connection_refuse_request(uint32_t block) {
        uint64_t hold;
        bool     is_held =
                connection_read(block, offsetof(struct shm_request, hold), &hold, sizeof(hold)) &&
                hold != 0;

        connection_give_back(block);
        if (is_held)
                connection_say_dropped(hold);
}

bool connection_has(const void *bytes, uint64_t n_bytes, uint64_t *ret_place) {
        const unsigned char *at = bytes;

        for (uint32_t i = 0; i < connection.n_server_segments; i++) {
                const struct server_segment *s = &connection.server_segments[i];

                if (at < s->begin || at >= s->begin + s->n_bytes)
                        continue;
                *ret_place = s->offset + (uint64_t)(at - s->begin);
                return n_bytes <= (uint64_t)(s->begin + s->n_bytes - at);
        }
        return false;
}

/* ---- names of the configuration -------------------------------------------------------------- */

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
