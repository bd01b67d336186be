/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into a server by run.py: one call of one function fails. It is the n-th call, or the first one that
 * comes from a new place: with a call stack that the file has not seen yet.
 *
 * FAIL_CALL names a file that run.py maps as well (struct control). Only calls from the program, the library
 * and the backends count: what the C library and others do among themselves is theirs. Child processes
 * inherit all this, so their calls count as well.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind.h>

/* The order of FUNCTIONS in run.py. */
enum {
        FAIL_NONE,
        FAIL_MALLOC,
        FAIL_MMAP,
        FAIL_OPEN,
        FAIL_READ,
        FAIL_WRITE,
        FAIL_RENAME,
        FAIL_STAT,
        FAIL_DIR,
        FAIL_MKDIR,
        FAIL_FTRUNCATE,
        FAIL_MEMFD,
        FAIL_PIPE,
        FAIL_SOCKET,
        FAIL_BIND,
        FAIL_LISTEN,
        FAIL_ACCEPT,
        FAIL_EPOLL_CTL,
        FAIL_EVENTFD,
        FAIL_SEND,
        FAIL_RECEIVE,
        FAIL_PTHREAD_CREATE,
        FAIL_SPAWN,
        FAIL_DLOPEN,
};

#define N_STACKS 8192  /* as in run.py */
#define STACK_FRAMES 8 /* the innermost ones, which make a stack */

struct control {
        _Atomic uint32_t function; /* that fails; FAIL_NONE: none */
        _Atomic uint32_t nth;      /* 1: the next call; 0: the next one with a new stack */
        _Atomic int32_t  error;    /* errno */
        _Atomic uint32_t n_calls;  /* since `function` was set */
        _Atomic uint32_t n_failed;
        uint32_t         unused;
        _Atomic uint64_t stacks[N_STACKS]; /* those that have failed, by their hash; 0: free */
};

static struct control  *control;
static struct link_map *own; /* this library */

static void map_control(void) {
        const char *path = getenv("FAIL_CALL");
        int         fd;
        void       *at;

        if (path == NULL)
                return;
        fd = openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
                return;
        at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        if (at != MAP_FAILED)
                control = at;
}

/* libuv opens our sockets and its loops. When epoll_ctl() fails, or the pipe of its first loop, it ends the process
 * on purpose. */
static int is_of_uv(uint32_t function) {
        return function == FAIL_SOCKET || function == FAIL_BIND || function == FAIL_LISTEN ||
               function == FAIL_ACCEPT || function == FAIL_EVENTFD;
}

/* "" is the program, which may be Python's interpreter. */
static int is_counted(uint32_t function, const char *path) {
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;

        if (*name == '\0')
                return strcmp(program_invocation_short_name, "neso") == 0;
        return strncmp(name, "libtriton", 9) == 0 || strncmp(name, "c_python_backend", 16) == 0 ||
               (strncmp(name, "libuv", 5) == 0 && is_of_uv(function));
}

/* ---- call stacks ---- */

struct stack {
        uint64_t hash;
        int      n_frames;
};

static uint64_t mix(uint64_t hash, uint64_t value) {
        hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
        return hash ^ hash >> 29;
}

/* Addresses within a file, which are the same in each process. */
static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *to) {
        struct stack         *stack = to;
        uintptr_t             at = _Unwind_GetIP(frame);
        struct dl_find_object found;

        if (at == 0 || _dl_find_object((void *)at, &found) != 0)
                return _URC_END_OF_STACK;
        if (found.dlfo_link_map == own)
                return _URC_NO_REASON;
        for (const char *c = found.dlfo_link_map->l_name; *c != '\0'; c++)
                stack->hash = mix(stack->hash, (unsigned char)*c);
        stack->hash = mix(stack->hash, at - found.dlfo_link_map->l_addr);
        stack->n_frames++;
        return stack->n_frames == STACK_FRAMES ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static uint64_t stack_here(void) {
        struct stack stack = { 0 };

        _Unwind_Backtrace(add_frame, &stack);
        return stack.hash != 0 ? stack.hash : 1;
}

/* The place of a stack in the table; NULL when it is there already, or when the table is full. */
static _Atomic uint64_t *place_of_new(uint64_t hash) {
        for (uint32_t i = 0; i < N_STACKS; i++) {
                _Atomic uint64_t *at = &control->stacks[(hash + i) % N_STACKS];
                uint64_t          there = atomic_load(at);

                if (there == 0)
                        return at;
                if (there == hash)
                        return NULL;
        }
        return NULL;
}

/* A case has one failure, so only the call that has claimed it writes the table. */
static int is_new_stack(struct control *c) {
        uint32_t          none = 0;
        uint64_t          hash;
        _Atomic uint64_t *at;

        if (atomic_load(&c->n_failed) != 0)
                return 0;
        hash = stack_here();
        at = place_of_new(hash);
        if (at == NULL || !atomic_compare_exchange_strong(&c->n_failed, &none, 1))
                return 0;
        atomic_store(at, hash);
        return 1;
}

static int is_nth(struct control *c) {
        if (atomic_fetch_add(&c->n_calls, 1) + 1 != atomic_load(&c->nth))
                return 0;
        atomic_fetch_add(&c->n_failed, 1);
        return 1;
}

static int is_chosen(struct control *c) {
        return atomic_load(&c->nth) == 0 ? is_new_stack(c) : is_nth(c);
}

static int must_fail(uint32_t function, const void *caller) {
        struct control       *c = control;
        struct dl_find_object found;

        if (c == NULL || atomic_load_explicit(&c->function, memory_order_relaxed) != function)
                return 0;
        if (_dl_find_object((void *)(uintptr_t)caller, &found) != 0 ||
            !is_counted(function, found.dlfo_link_map->l_name))
                return 0;
        if (!is_chosen(c))
                return 0;
        errno = atomic_load(&c->error);
        return 1;
}

#define MUST_FAIL(function) must_fail(function, __builtin_return_address(0))

/* The definition of one function that fails with `failure`. */
#define FAILING(function, type, failure, name, parameters, arguments)                              \
        type name parameters {                                                                     \
                static type(*_Atomic next) parameters;                                             \
                                                                                                   \
                if (MUST_FAIL(function))                                                           \
                        return failure;                                                            \
                if (atomic_load(&next) == NULL)                                                    \
                        atomic_store(&next,                                                        \
                                     (type(*) parameters)(uintptr_t)dlsym(RTLD_NEXT, #name));      \
                return atomic_load(&next) arguments;                                               \
        }

#pragma GCC visibility push(default)

/* ---- memory ---- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
        return MUST_FAIL(FAIL_MALLOC) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
        return MUST_FAIL(FAIL_MALLOC) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
        return MUST_FAIL(FAIL_MALLOC) ? NULL : __libc_realloc(old, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size) {
        void *memory = MUST_FAIL(FAIL_MALLOC) ? NULL : __libc_memalign(alignment, size);

        if (memory == NULL)
                return ENOMEM;
        *ret = memory;
        return 0;
}

void *aligned_alloc(size_t alignment, size_t size) {
        return MUST_FAIL(FAIL_MALLOC) ? NULL : __libc_memalign(alignment, size);
}

FAILING(FAIL_MALLOC, char *, NULL, strdup, (const char *text), (text))
FAILING(FAIL_MMAP, void *, MAP_FAILED, mmap,
        (void *at, size_t size, int protection, int flags, int fd, off_t offset),
        (at, size, protection, flags, fd, offset))

/* ---- files ---- */

static int open_next(const char *name, int directory, const char *path, int flags, mode_t mode) {
        int (*next)(int, const char *, int, ...) =
                (int (*)(int, const char *, int, ...))(uintptr_t)dlsym(RTLD_NEXT, name);

        return next(directory, path, flags, mode);
}

static mode_t mode_of(int flags, va_list arguments) {
        return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
        va_list arguments;
        mode_t  mode;

        va_start(arguments, flags);
        mode = mode_of(flags, arguments);
        va_end(arguments);
        return MUST_FAIL(FAIL_OPEN) ? -1 : open_next("openat", AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...) {
        va_list arguments;
        mode_t  mode;

        va_start(arguments, flags);
        mode = mode_of(flags, arguments);
        va_end(arguments);
        return MUST_FAIL(FAIL_OPEN) ? -1 : open_next("openat", directory, path, flags, mode);
}

FAILING(FAIL_READ, ssize_t, -1, read, (int fd, void *at, size_t size), (fd, at, size))
FAILING(FAIL_READ, ssize_t, -1, pread, (int fd, void *at, size_t size, off_t offset),
        (fd, at, size, offset))
FAILING(FAIL_WRITE, ssize_t, -1, write, (int fd, const void *at, size_t size), (fd, at, size))
FAILING(FAIL_WRITE, ssize_t, -1, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
FAILING(FAIL_WRITE, ssize_t, -1, pwrite, (int fd, const void *at, size_t size, off_t offset),
        (fd, at, size, offset))
FAILING(FAIL_RENAME, int, -1, rename, (const char *from, const char *to), (from, to))
FAILING(FAIL_STAT, int, -1, stat, (const char *path, struct stat *ret), (path, ret))
FAILING(FAIL_STAT, int, -1, lstat, (const char *path, struct stat *ret), (path, ret))
FAILING(FAIL_STAT, int, -1, fstat, (int fd, struct stat *ret), (fd, ret))
FAILING(FAIL_STAT, int, -1, fstatat, (int fd, const char *path, struct stat *ret, int flags),
        (fd, path, ret, flags))
FAILING(FAIL_DIR, DIR *, NULL, opendir, (const char *path), (path))
FAILING(FAIL_DIR, DIR *, NULL, fdopendir, (int fd), (fd))
FAILING(FAIL_MKDIR, int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
FAILING(FAIL_MKDIR, char *, NULL, mkdtemp, (char *path), (path))
FAILING(FAIL_FTRUNCATE, int, -1, ftruncate, (int fd, off_t size), (fd, size))
FAILING(FAIL_FTRUNCATE, int, -1, fallocate, (int fd, int mode, off_t offset, off_t size),
        (fd, mode, offset, size))
FAILING(FAIL_FTRUNCATE, int, ENOSPC, posix_fallocate, (int fd, off_t offset, off_t size),
        (fd, offset, size))
FAILING(FAIL_MEMFD, int, -1, shm_open, (const char *name, int flags, mode_t mode),
        (name, flags, mode))
FAILING(FAIL_MEMFD, int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(FAIL_PIPE, int, -1, pipe2, (int fds[2], int flags), (fds, flags))
FAILING(FAIL_DLOPEN, void *, NULL, dlopen, (const char *path, int flags), (path, flags))

/* ---- sockets and events ---- */

FAILING(FAIL_SOCKET, int, -1, socket, (int domain, int type, int protocol),
        (domain, type, protocol))
FAILING(FAIL_SOCKET, int, -1, socketpair, (int domain, int type, int protocol, int fds[2]),
        (domain, type, protocol, fds))
FAILING(FAIL_BIND, int, -1, bind, (int fd, const struct sockaddr *at, socklen_t size),
        (fd, at, size))
FAILING(FAIL_LISTEN, int, -1, listen, (int fd, int n), (fd, n))
FAILING(FAIL_ACCEPT, int, -1, accept4, (int fd, struct sockaddr *at, socklen_t *size, int flags),
        (fd, at, size, flags))
FAILING(FAIL_EPOLL_CTL, int, -1, epoll_ctl, (int fd, int what, int of, struct epoll_event *event),
        (fd, what, of, event))
FAILING(FAIL_EPOLL_CTL, int, -1, epoll_create1, (int flags), (flags))
FAILING(FAIL_EVENTFD, int, -1, eventfd, (unsigned value, int flags), (value, flags))

FAILING(FAIL_EVENTFD, int, -1, timerfd_create, (int clock, int flags), (clock, flags))
FAILING(FAIL_EVENTFD, int, -1, signalfd, (int fd, const sigset_t *mask, int flags),
        (fd, mask, flags))
FAILING(FAIL_SEND, ssize_t, -1, send, (int fd, const void *at, size_t size, int flags),
        (fd, at, size, flags))
FAILING(FAIL_SEND, ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags),
        (fd, message, flags))
FAILING(FAIL_RECEIVE, ssize_t, -1, recv, (int fd, void *at, size_t size, int flags),
        (fd, at, size, flags))
FAILING(FAIL_RECEIVE, ssize_t, -1, recvmsg, (int fd, struct msghdr *message, int flags),
        (fd, message, flags))

/* ---- threads and processes ---- */

FAILING(FAIL_PTHREAD_CREATE, int, EAGAIN, pthread_create,
        (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
        (thread, attributes, run, arg))
FAILING(FAIL_SPAWN, int, EAGAIN, posix_spawn,
        (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
         const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]),
        (pid, path, actions, attributes, arguments, environment))

FAILING(FAIL_SPAWN, int, EAGAIN, posix_spawnp,
        (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,
         const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]),
        (pid, file, actions, attributes, arguments, environment))

#pragma GCC visibility pop

__attribute__((constructor)) static void begin(void) {
        struct dl_find_object found;

        if (_dl_find_object((void *)&control, &found) == 0)
                own = found.dlfo_link_map;
        map_control();
}
