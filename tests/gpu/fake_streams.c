/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and events of the stand-in, and the thread that runs their work.
 *
 * A piece of work runs when its random delay is over, or when a caller waits for it, and never on the calling
 * thread. Between streams the order is random. So a result is missing when the program did not wait for it.
 *
 * An event is a place in a stream: the number of pieces of work that were queued before it. */
#include "fake_private.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STREAM_BASE ((uint64_t)0x5EA0000000)
#define EVENT_BASE ((uint64_t)0xE7E0000000)
#define DELAY_US 2000 /* at most, unless set: longer than a server takes for an answer */

struct fake_stream {
        struct fake_stream *next;
        uint64_t            id;
        int                 device;
        struct fake_op     *first, *last;
        uint64_t            n_queued, n_done;
        uint64_t            n_hurried; /* somebody waits for so many */
        bool                is_destroyed;
};

struct fake_event {
        struct fake_event *next;
        uint64_t           id;
        int                device;
        uint64_t           stream, number; /* 0: never recorded */
};

static struct fake_stream *streams;
static struct fake_event  *events;
static uint64_t            n_streams_made, n_events_made;
static pthread_cond_t      changed, done;
static bool                has_thread;
static pthread_t thread; /* has no thread-local variables: LeakSanitizer fails on them at the end */

static uint64_t now_ns(void) {
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct fake_stream *stream_of(uint64_t id) {
        struct fake_stream *s = streams;

        while (s != NULL && s->id != id)
                s = s->next;
        return s;
}

/* A stream that is gone has done everything. */
static bool is_reached(uint64_t id, uint64_t number) {
        const struct fake_stream *s = stream_of(id);

        return s == NULL || s->n_done >= number;
}

static void hurry(uint64_t id, uint64_t number) {
        struct fake_stream *s = stream_of(id);

        if (s != NULL && s->n_hurried < number)
                s->n_hurried = number;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void op_free(struct fake_op *op) {
        free(op->values);
        free(op->parameters);
        free(op);
}

static void run_op(struct fake_op *op) {
        switch (op->kind) {
        case FAKE_COPY: memmove(op->to, op->from, op->bytes); break;
        case FAKE_SET: memset(op->to, op->value, op->bytes); break;
        case FAKE_WAIT: break;
        case FAKE_KERNEL: op->kernel(&op->launch); break;
        case FAKE_CALL:
                pthread_mutex_unlock(&fake.lock);
                op->call(op->arg);
                pthread_mutex_lock(&fake.lock);
                break;
        }
}

static void remove_drained(void) {
        for (struct fake_stream **at = &streams; *at != NULL;) {
                struct fake_stream *s = *at;

                if (s->is_destroyed && s->first == NULL) {
                        *at = s->next;
                        free(s);
                } else {
                        at = &s->next;
                }
        }
}

static void run_first(struct fake_stream *s) {
        struct fake_op *op = s->first;

        /* It stays in the queue while it runs: what it uses is in flight. */
        run_op(op);
        s->first = op->next;
        if (s->first == NULL)
                s->last = NULL;
        s->n_done++;
        op_free(op);
        remove_drained();
        pthread_cond_broadcast(&done);
}

/* A wait that somebody waits for hurries what it waits for. */
static bool can_run(struct fake_stream *s, bool *ret_changed) {
        const struct fake_op *op = s->first;

        if (op == NULL || op->kind != FAKE_WAIT || is_reached(op->wait_stream, op->wait_number))
                return op != NULL;
        if (s->n_hurried > s->n_done) {
                struct fake_stream *other = stream_of(op->wait_stream);

                if (other->n_hurried < op->wait_number) {
                        other->n_hurried = op->wait_number;
                        *ret_changed = true;
                }
        }
        return false;
}

/* One of the streams whose first work may run now; else *ret_due is when the next one is due. */
static struct fake_stream *choose(uint64_t now, uint64_t *ret_due) {
        struct fake_stream *chosen = NULL;
        uint64_t            n = 0;
        bool                has_changed = true;

        while (has_changed && n == 0) {
                has_changed = false;
                *ret_due = UINT64_MAX;
                for (struct fake_stream *s = streams; s != NULL; s = s->next) {
                        if (!can_run(s, &has_changed))
                                continue;
                        if (s->n_hurried <= s->n_done && s->first->due_ns > now) {
                                if (s->first->due_ns < *ret_due)
                                        *ret_due = s->first->due_ns;
                                continue;
                        }
                        n++;
                        if (fake_random(n) == 0)
                                chosen = s;
                }
        }
        return chosen;
}

static void *run_streams(void *unused) {
        (void)unused;
        pthread_mutex_lock(&fake.lock);
        for (;;) {
                uint64_t            due;
                struct fake_stream *s = choose(now_ns(), &due);

                if (s != NULL) {
                        run_first(s);
                } else if (due == UINT64_MAX) {
                        pthread_cond_wait(&changed, &fake.lock);
                } else {
                        struct timespec t = { .tv_sec = (time_t)(due / 1000000000u),
                                              .tv_nsec = (long)(due % 1000000000u) };

                        pthread_cond_timedwait(&changed, &fake.lock, &t);
                }
        }
        return NULL;
}

bool fake_is_stream_thread(void) {
        return has_thread && pthread_equal(thread, pthread_self()) != 0;
}

static void start_thread(void) {
        pthread_condattr_t attributes;
        sigset_t           all, before;

        has_thread = true;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&changed, &attributes);
        pthread_cond_init(&done, &attributes);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (pthread_create(&thread, NULL, run_streams, NULL) != 0)
                fake_report("setting", "no thread for the streams");
        pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- work ------------------------------------------------------------------------------------ */

struct fake_op *fake_op_new(enum fake_op_kind kind, const char *function) {
        struct fake_op *op = calloc(1, sizeof(*op));

        if (op == NULL)
                abort();
        op->kind = kind;
        op->function = function;
        return op;
}

void fake_stream_push(struct fake_stream *s, struct fake_op *op) {
        op->due_ns = now_ns() + fake_random(fake_setting_number("DELAY_US", DELAY_US) + 1) * 1000;
        if (s->last != NULL)
                s->last->next = op;
        else
                s->first = op;
        s->last = op;
        s->n_queued++;
        pthread_cond_signal(&changed);
}

static bool overlaps(const struct fake_use *use, uintptr_t address, size_t bytes) {
        return use->bytes > 0 && use->address < address + bytes &&
               address < use->address + use->bytes;
}

static bool is_read_by(const struct fake_op *op, uintptr_t address, size_t bytes) {
        for (size_t i = 0; i < op->n_reads; i++)
                if (overlaps(&op->reads[i], address, bytes))
                        return true;
        return false;
}

void fake_check_in_flight(const char *function, uintptr_t address, size_t bytes) {
        for (const struct fake_stream *s = streams; s != NULL; s = s->next)
                for (const struct fake_op *op = s->first; op != NULL; op = op->next)
                        if (is_read_by(op, address, bytes) || overlaps(&op->writes, address, bytes))
                                fake_report("in flight",
                                            "%s: the %zu bytes at %#lx are used by %s, which has "
                                            "not run yet",
                                            function, bytes, (unsigned long)address, op->function);
}

bool fake_is_read_in_flight(uintptr_t address, size_t bytes) {
        for (const struct fake_stream *s = streams; s != NULL; s = s->next)
                for (const struct fake_op *op = s->first; op != NULL; op = op->next)
                        if (is_read_by(op, address, bytes))
                                return true;
        return false;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Of any device. */
static struct fake_stream *find_live(const char *function, cu_stream stream) {
        struct fake_stream *s = stream_of((uint64_t)(uintptr_t)stream);

        if (stream == NULL)
                fake_report("default stream", "%s: the default stream is used", function);
        if (s == NULL || s->is_destroyed)
                fake_report("unknown stream", "%s: %p is no stream, or was destroyed", function,
                            (void *)stream);
        return s;
}

cu_result fake_stream_find(const char *function, cu_stream stream, const struct fake_device *device,
                           struct fake_stream **ret) {
        *ret = find_live(function, stream);
        return (*ret)->device == device->ordinal ? CU_SUCCESS : CU_INVALID_HANDLE;
}

cu_result cuStreamCreate(cu_stream *ret, unsigned flags) {
        struct fake_device *device;
        struct fake_stream *s;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS && (ret == NULL || flags > CU_STREAM_NON_BLOCKING))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS) {
                s = calloc(1, sizeof(*s));
                if (s == NULL)
                        abort();
                s->id = STREAM_BASE + ++n_streams_made;
                s->device = device->ordinal;
                s->next = streams;
                streams = s;
                if (!has_thread)
                        start_thread();
                *ret = (cu_stream)(uintptr_t)s->id;
        }
        return fake_leave(result);
}

cu_result cuStreamDestroy_v2(cu_stream stream) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                find_live(__func__, stream)->is_destroyed = true;
                remove_drained();
        }
        return fake_leave(result);
}

static void wait_for(uint64_t id, uint64_t number) {
        hurry(id, number);
        pthread_cond_signal(&changed);
        while (!is_reached(id, number))
                pthread_cond_wait(&done, &fake.lock);
}

cu_result cuStreamSynchronize(cu_stream stream) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                wait_for((uint64_t)(uintptr_t)stream, find_live(__func__, stream)->n_queued);
        }
        return fake_leave(result);
}

/* The next stream of the device, by their numbers, that has work. */
static struct fake_stream *find_busy_after(int device, uint64_t id) {
        struct fake_stream *found = NULL;

        for (struct fake_stream *s = streams; s != NULL; s = s->next)
                if (s->device == device && s->id > id && s->n_done < s->n_queued &&
                    (found == NULL || s->id < found->id))
                        found = s;
        return found;
}

cu_result cuCtxSynchronize(void) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);
        struct fake_stream *s;
        uint64_t            id = 0;

        while (result == CU_SUCCESS && (s = find_busy_after(device->ordinal, id)) != NULL) {
                id = s->id; /* the stream may end meanwhile */
                wait_for(id, s->n_queued);
        }
        return fake_leave(result);
}

size_t fake_count_streams(int device) {
        size_t n = 0;

        for (const struct fake_stream *s = streams; s != NULL; s = s->next)
                n += s->device == device && !s->is_destroyed;
        return n;
}

cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function function, void *arg) {
        struct fake_device *device;
        struct fake_stream *s;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = function != NULL ? fake_stream_find(__func__, stream, device, &s)
                                          : CU_INVALID_VALUE;
        if (result == CU_SUCCESS) {
                struct fake_op *op = fake_op_new(FAKE_CALL, __func__);

                op->call = function;
                op->arg = arg;
                fake_stream_push(s, op);
        }
        return fake_leave(result);
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct fake_event **find_event(const char *function, cu_event event) {
        struct fake_event **at = &events;

        while (*at != NULL && (*at)->id != (uint64_t)(uintptr_t)event)
                at = &(*at)->next;
        if (*at == NULL)
                fake_report("unknown event", "%s: %p is no event, or was destroyed", function,
                            (void *)event);
        return at;
}

cu_result cuEventCreate(cu_event *ret, unsigned flags) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS && (ret == NULL || flags > 7))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS) {
                struct fake_event *e = calloc(1, sizeof(*e));

                if (e == NULL)
                        abort();
                e->id = EVENT_BASE + ++n_events_made;
                e->device = device->ordinal;
                e->next = events;
                events = e;
                *ret = (cu_event)(uintptr_t)e->id;
        }
        return fake_leave(result);
}

cu_result cuEventDestroy_v2(cu_event event) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                struct fake_event **at = find_event(__func__, event);
                struct fake_event  *e = *at;

                *at = e->next;
                free(e);
        }
        return fake_leave(result);
}

cu_result cuEventRecord(cu_event event, cu_stream stream) {
        struct fake_device *device;
        struct fake_stream *s;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = fake_stream_find(__func__, stream, device, &s);
        if (result == CU_SUCCESS) {
                struct fake_event *e = *find_event(__func__, event);

                if (e->device != s->device) {
                        result = CU_INVALID_HANDLE;
                } else {
                        e->stream = s->id;
                        e->number = s->n_queued;
                }
        }
        return fake_leave(result);
}

cu_result cuEventQuery(cu_event event) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                const struct fake_event *e = *find_event(__func__, event);

                result = is_reached(e->stream, e->number) ? CU_SUCCESS : CU_NOT_READY;
        }
        return fake_leave(result);
}

/* The stream may be of another device than the event. */
cu_result cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS && flags != 0)
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS) {
                const struct fake_event *e = *find_event(__func__, event);
                struct fake_op          *op = fake_op_new(FAKE_WAIT, __func__);

                op->wait_stream = e->stream;
                op->wait_number = e->number;
                fake_stream_push(find_live(__func__, stream), op);
        }
        return fake_leave(result);
}

size_t fake_count_events(int device) {
        size_t n = 0;

        for (const struct fake_event *e = events; e != NULL; e = e->next)
                n += e->device == device;
        return n;
}
