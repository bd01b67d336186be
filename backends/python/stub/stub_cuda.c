/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/stub/stub_cuda.h"

#include "python/stub/py.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define MAX_DEVICES 64
#define LAZY_PEER_ACCESS 1u
#define STREAM_NON_BLOCKING 1u

typedef unsigned long long cu_pointer;

struct cu_handle {
        unsigned char bytes[CUDA_HANDLE_BYTES];
};

/* FUNCTION(name, parameters): each returns int, 0 for success. */
#define CUDA_FUNCTIONS(FUNCTION)                                                                   \
        FUNCTION(cuInit, (unsigned flags))                                                         \
        FUNCTION(cuGetErrorName, (int error, const char **ret))                                    \
        FUNCTION(cuGetErrorString, (int error, const char **ret))                                  \
        FUNCTION(cuDeviceGet, (int *device, int ordinal))                                          \
        FUNCTION(cuDevicePrimaryCtxRetain, (void **context, int device))                           \
        FUNCTION(cuDevicePrimaryCtxRelease_v2, (int device))                                       \
        FUNCTION(cuCtxSetCurrent, (void *context))                                                 \
        FUNCTION(cuCtxGetCurrent, (void **context))                                                \
        FUNCTION(cuCtxSynchronize, (void))                                                         \
        FUNCTION(cuMemGetAddressRange_v2, (cu_pointer * base, size_t * bytes, cu_pointer memory))  \
        FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, cu_pointer from, size_t bytes, void *stream))    \
        FUNCTION(cuStreamCreate, (void **ret, unsigned flags))                                     \
        FUNCTION(cuStreamDestroy_v2, (void *stream))                                               \
        FUNCTION(cuStreamSynchronize, (void *stream))                                              \
        FUNCTION(cuIpcGetMemHandle, (struct cu_handle * ret, cu_pointer memory))                   \
        FUNCTION(cuIpcOpenMemHandle_v2,                                                            \
                 (cu_pointer * ret, struct cu_handle handle, unsigned flags))                      \
        FUNCTION(cuIpcCloseMemHandle, (cu_pointer memory))

/* An allocation that is open. */
struct opened {
        struct opened *next;
        int            device;
        unsigned       n_users;
        cu_pointer     base;
        unsigned char  handle[CUDA_HANDLE_BYTES];
};

static struct {
#define CUDA_MEMBER(name, parameters) int(*name) parameters;
        CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
        bool           is_open;
        void          *contexts[MAX_DEVICES]; /* NULL: not retained */
        struct opened *opened;
        pthread_mutex_t
                lock; /* of everything here. It is waited for without the interpreter lock, which work on
                               * the GPU may need to end */
} cuda = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- the library ----------------------------------------------------------------------------- */

static const struct {
        const char *name;
        size_t      offset;
} functions[] = {
#define CUDA_ROW(name, parameters) { #name, offsetof(__typeof__(cuda), name) },
        CUDA_FUNCTIONS(CUDA_ROW)
#undef CUDA_ROW
};

/* A failure of a step, to be raised with the interpreter lock. */
struct failure {
        char text[256];
};

static bool fail_cuda(struct failure *f, int device, int result, const char *what) {
        const char *name = NULL, *text = NULL;

        if (cuda.cuGetErrorName != NULL)
                (void)cuda.cuGetErrorName(result, &name);
        if (cuda.cuGetErrorString != NULL)
                (void)cuda.cuGetErrorString(result, &text);
        (void)snprintf(f->text, sizeof(f->text), "GPU %d: unable to %s: %s: %s", device, what,
                       name != NULL ? name : "CUDA error", text != NULL ? text : "unknown");
        return false;
}

static bool open_library(struct failure *f) {
        void *library;

        if (cuda.is_open)
                return true;
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
                (void)snprintf(f->text, sizeof(f->text), "tensors on GPUs need CUDA's driver: %s",
                               dlerror());
                return false;
        }
        for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
                void *symbol = dlsym(library, functions[i].name);

                if (symbol == NULL) {
                        (void)snprintf(f->text, sizeof(f->text), "%s has no function %s", LIBRARY,
                                       functions[i].name);
                        return false;
                }
                memcpy((char *)&cuda + functions[i].offset, &symbol, sizeof(symbol));
        }
        cuda.is_open = true;
        return true;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static bool retain(int device, struct failure *f) {
        int number, result;

        if (device < 0 || device >= MAX_DEVICES) {
                (void)snprintf(f->text, sizeof(f->text), "GPU %d is unknown", device);
                return false;
        }
        if (cuda.contexts[device] != NULL)
                return true;
        result = cuda.cuInit(0);
        if (result == 0)
                result = cuda.cuDeviceGet(&number, device);
        if (result == 0)
                result = cuda.cuDevicePrimaryCtxRetain(&cuda.contexts[device], number);
        if (result == 0)
                return true;
        cuda.contexts[device] = NULL;
        return fail_cuda(f, device, result, "make a context");
}

/* Makes the context of the device current; *before is what leave() restores. */
static bool enter_device(int device, void **before, struct failure *f) {
        int result;

        if (!open_library(f) || !retain(device, f))
                return false;
        result = cuda.cuCtxGetCurrent(before);
        if (result == 0)
                result = cuda.cuCtxSetCurrent(cuda.contexts[device]);
        return result == 0 || fail_cuda(f, device, result, "make its context current");
}

static void leave(void *before) {
        (void)cuda.cuCtxSetCurrent(before);
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct opened *find_handle(int device, const unsigned char *handle) {
        struct opened *o = cuda.opened;

        while (o != NULL &&
               (o->device != device || memcmp(o->handle, handle, CUDA_HANDLE_BYTES) != 0))
                o = o->next;
        return o;
}

static bool add_opened(int device, const unsigned char *handle, struct opened **ret,
                       struct failure *f) {
        struct opened   *o = calloc(1, sizeof(*o));
        struct cu_handle copy;
        int              result;

        if (o == NULL) {
                (void)snprintf(f->text, sizeof(f->text), "out of memory for a tensor on a GPU");
                return false;
        }
        memcpy(copy.bytes, handle, CUDA_HANDLE_BYTES);
        result = cuda.cuIpcOpenMemHandle_v2(&o->base, copy, LAZY_PEER_ACCESS);
        if (result != 0) {
                free(o);
                return fail_cuda(f, device, result, "open memory of the server");
        }
        o->device = device;
        memcpy(o->handle, handle, CUDA_HANDLE_BYTES);
        o->next = cuda.opened;
        cuda.opened = o;
        *ret = o;
        return true;
}

static bool open_locked(int device, const unsigned char *handle, void **ret, struct failure *f) {
        struct opened *o;
        void          *before;
        bool           is_right = true;

        if (!enter_device(device, &before, f))
                return false;
        o = find_handle(device, handle);
        if (o == NULL)
                is_right = add_opened(device, handle, &o, f);
        leave(before);
        if (!is_right)
                return false;
        o->n_users++;
        *ret = (void *)(uintptr_t)o->base;
        return true;
}

bool cuda_open(int device, const unsigned char handle[CUDA_HANDLE_BYTES], void **ret_base) {
        PyThreadState *state = PyEval_SaveThread();
        struct failure f;
        bool           is_right;

        (void)pthread_mutex_lock(&cuda.lock);
        is_right = open_locked(device, handle, ret_base, &f);
        (void)pthread_mutex_unlock(&cuda.lock);
        PyEval_RestoreThread(state);
        if (!is_right)
                (void)raise_model_exception(f.text);
        return is_right;
}

static void close_opened(struct opened **link) {
        struct opened *o = *link;
        struct failure f;
        void          *before;

        if (enter_device(o->device, &before, &f)) {
                (void)cuda.cuCtxSynchronize(); /* kernels of the model may still read it */
                (void)cuda.cuIpcCloseMemHandle(o->base);
                leave(before);
        }
        *link = o->next;
        free(o);
}

void cuda_close(int device, void *base) {
        PyThreadState  *state = PyEval_SaveThread();
        struct opened **link;

        (void)pthread_mutex_lock(&cuda.lock);
        link = &cuda.opened;
        while (*link != NULL && ((*link)->device != device || (*link)->base != (uintptr_t)base))
                link = &(*link)->next;
        if (*link != NULL && --(*link)->n_users == 0)
                close_opened(link);
        (void)pthread_mutex_unlock(&cuda.lock);
        PyEval_RestoreThread(state);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static bool share_locked(int device, const void *memory, unsigned char *handle, uint64_t *offset,
                         struct failure *f, bool *ret_has_handle) {
        struct cu_handle made;
        cu_pointer       base = 0;
        size_t           bytes;
        void            *before;

        if (!enter_device(device, &before, f))
                return false;
        *ret_has_handle = cuda.cuMemGetAddressRange_v2(&base, &bytes, (uintptr_t)memory) == 0 &&
                          cuda.cuIpcGetMemHandle(&made, base) == 0;
        leave(before);
        if (*ret_has_handle) {
                memcpy(handle, made.bytes, CUDA_HANDLE_BYTES);
                *offset = (uintptr_t)memory - base;
        }
        return true;
}

bool cuda_share(int device, const void *memory, unsigned char handle[CUDA_HANDLE_BYTES],
                uint64_t *ret_offset) {
        PyThreadState *state = PyEval_SaveThread();
        struct failure f;
        bool           is_right, has_handle = false;

        (void)pthread_mutex_lock(&cuda.lock);
        is_right = share_locked(device, memory, handle, ret_offset, &f, &has_handle);
        (void)pthread_mutex_unlock(&cuda.lock);
        PyEval_RestoreThread(state);
        if (!is_right)
                (void)raise_model_exception(f.text);
        return is_right && has_handle;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool finish_locked(int device, struct failure *f) {
        void *before;
        int   result;

        if (device < 0 || device >= MAX_DEVICES || cuda.contexts[device] == NULL)
                return true;
        if (!enter_device(device, &before, f))
                return false;
        result = cuda.cuCtxSynchronize();
        leave(before);
        return result == 0 || fail_cuda(f, device, result, "finish the work of the model");
}

bool cuda_finish(int device) {
        PyThreadState *state = PyEval_SaveThread();
        struct failure f;
        bool           is_right;

        (void)pthread_mutex_lock(&cuda.lock);
        is_right = finish_locked(device, &f);
        (void)pthread_mutex_unlock(&cuda.lock);
        PyEval_RestoreThread(state);
        if (!is_right)
                (void)raise_model_exception(f.text);
        return is_right;
}

static bool read_locked(int device, const void *from, void *to, uint64_t n_bytes,
                        struct failure *f) {
        void *before, *stream;
        int   result;

        if (!enter_device(device, &before, f))
                return false;
        result = cuda.cuStreamCreate(&stream, STREAM_NON_BLOCKING);
        if (result == 0) {
                result = cuda.cuMemcpyDtoHAsync_v2(to, (uintptr_t)from, (size_t)n_bytes, stream);
                if (result == 0)
                        result = cuda.cuStreamSynchronize(stream);
                (void)cuda.cuStreamDestroy_v2(stream);
        }
        leave(before);
        return result == 0 || fail_cuda(f, device, result, "copy a tensor to main memory");
}

bool cuda_read(int device, const void *from, void *to, uint64_t n_bytes) {
        PyThreadState *state = PyEval_SaveThread();
        struct failure f;
        bool           is_right;

        (void)pthread_mutex_lock(&cuda.lock);
        is_right = finish_locked(device, &f) && read_locked(device, from, to, n_bytes, &f);
        (void)pthread_mutex_unlock(&cuda.lock);
        PyEval_RestoreThread(state);
        if (!is_right)
                (void)raise_model_exception(f.text);
        return is_right;
}

/* ---- the end --------------------------------------------------------------------------------- */

void cuda_end(void) {
        (void)pthread_mutex_lock(&cuda.lock);
        while (cuda.opened != NULL)
                close_opened(&cuda.opened);
        for (int i = 0; i < MAX_DEVICES; i++) {
                int device;

                if (cuda.contexts[i] != NULL && cuda.cuDeviceGet(&device, i) == 0)
                        (void)cuda.cuDevicePrimaryCtxRelease_v2(device);
                cuda.contexts[i] = NULL;
        }
        (void)pthread_mutex_unlock(&cuda.lock);
}
