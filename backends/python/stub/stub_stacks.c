/* SPDX-License-Identifier: BSD-3-Clause */
/* The call stacks of the model's threads, on request of the server.
 *
 * A thread in Python answers: it holds the interpreter lock, so no frame changes while it reads
 * them (triton_python_backend_utils.py). When C code of the model holds the lock for too long, the
 * watchdog in this file answers: it sends the process the signal that faulthandler handles, which
 * reads the frames without the lock. The first of the two threads that takes the question answers
 * it.
 *
 * Threads.  The watchdog uses no Python object.
 */
#include "python/stub/py.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PATIENCE_NS UINT64_C(1000000000) /* time to wait for the interpreter lock */

static struct {
        _Atomic uint32_t
                    taken; /* number of the last question that a thread has taken; a futex word */
        int         signal;
        int         fd; /* descriptor that faulthandler writes to */
        struct stat file;
} stacks;

static bool take(uint32_t question) {
        uint32_t before = question - 1;
        bool     is_ours = atomic_compare_exchange_strong(&stacks.taken, &before, question);

        if (is_ours)
                shm_futex_wake(&stacks.taken, 1);
        return is_ours;
}

static void answer_stacks(uint32_t question, const char *text, uint64_t n_bytes) {
        struct shm_header *h = connection.header;
        uint32_t           n = n_bytes < SHM_STACKS_BYTES ? (uint32_t)n_bytes : SHM_STACKS_BYTES;

        if (text != h->stacks)
                memcpy(h->stacks, text, n);
        atomic_store(&h->stacks_bytes, n);
        atomic_store(&h->stacks_answered, question);
        shm_futex_wake(&h->stacks_answered, INT32_MAX);
}

static void answer_text(uint32_t question, const char *text) {
        answer_stacks(question, text, strlen(text));
}

/* The model may have closed the descriptor and opened another one with its number. */
static bool has_file(void) {
        struct stat now;

        return fstat(stacks.fd, &now) == 0 && now.st_dev == stacks.file.st_dev &&
               now.st_ino == stacks.file.st_ino;
}

static void dump(uint32_t question) {
        ssize_t n;

        if (!has_file()) {
                answer_text(question, "The model holds the interpreter lock, and has closed the "
                                      "descriptor for its stacks.\n");
                return;
        }
        if (ftruncate(stacks.fd, 0) == 0 && lseek(stacks.fd, 0, SEEK_SET) == 0)
                (void)pthread_kill(pthread_self(), stacks.signal);
        n = pread(stacks.fd, connection.header->stacks, SHM_STACKS_BYTES, 0);
        if (n > 0)
                answer_stacks(question, connection.header->stacks, (uint64_t)n);
        else
                answer_text(question,
                            "The model holds the interpreter lock, and handles the signal "
                            "for its stacks itself.\n");
}

static void *watch(void *userp) {
        _Atomic uint32_t *asked = &connection.header->stacks_asked;

        (void)userp;
        for (uint32_t last = 0;; last++) {
                uint64_t until;

                while (atomic_load(asked) == last)
                        (void)shm_futex_wait(asked, last, SHM_FOREVER);
                until = shm_clock_ns() + PATIENCE_NS;
                while (atomic_load(&stacks.taken) == last && shm_clock_ns() < until)
                        (void)shm_futex_wait(&stacks.taken, last, PATIENCE_NS);
                if (take(last + 1))
                        dump(last + 1);
        }
        return NULL;
}

static int start_watchdog(void) {
        pthread_t thread;
        sigset_t  all_but_one, before;
        int       rc;

        (void)sigfillset(&all_but_one);
        (void)sigdelset(&all_but_one, stacks.signal);
        (void)pthread_sigmask(SIG_SETMASK, &all_but_one, &before);
        rc = pthread_create(&thread, NULL, watch, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return rc == 0 ? pthread_detach(thread) : rc;
}

PyObject *stacks_file(PyObject *module, PyObject *unused) {
        int fd = memfd_create("stacks", MFD_CLOEXEC);

        (void)module;
        (void)unused;
        return fd >= 0 ? PyLong_FromLong(fd) : PyErr_SetFromErrno(PyExc_OSError);
}

PyObject *stacks_begin(PyObject *module, PyObject *args) {
        (void)module;
        if (!PyArg_ParseTuple(args, "ii:stacks_begin", &stacks.fd, &stacks.signal))
                return NULL;
        if (fstat(stacks.fd, &stacks.file) != 0)
                return PyErr_SetFromErrno(PyExc_OSError);
        errno = start_watchdog();
        if (errno != 0)
                return PyErr_SetFromErrno(PyExc_OSError);
        Py_RETURN_NONE;
}

PyObject *stacks_wait(PyObject *module, PyObject *args) {
        _Atomic uint32_t *asked = &connection.header->stacks_asked;
        unsigned int      last;

        (void)module;
        if (!PyArg_ParseTuple(args, "I:stacks_wait", &last))
                return NULL;
        do {
                while (atomic_load(asked) == last)
                        if (!connection_sleep(asked, last, SHM_FOREVER))
                                PyErr_Clear();
                last++;
        } while (!take(last));
        return PyLong_FromUnsignedLong(last);
}

PyObject *stacks_answer(PyObject *module, PyObject *args) {
        unsigned int question;
        const char  *text;
        Py_ssize_t   len;

        (void)module;
        if (!PyArg_ParseTuple(args, "Iy#:stacks_answer", &question, &text, &len))
                return NULL;
        answer_stacks(question, text, (uint64_t)len);
        Py_RETURN_NONE;
}
