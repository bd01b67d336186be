/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "gpu/gpu_private.h"

#include <string.h>

/* Of the pieces of a copy through the host: large enough that a piece's start does not matter, and two of
 * them are a small part of the pinned pool. */
#define PIECE_BYTES ((size_t)4 << 20)

/* ---- streams --------------------------------------------------------------------------------- */

static struct error *take_stream(struct gpus *g, struct gpu_device *d, cu_stream *ret) {
        mutex_lock(&d->stream_lock);
        *ret = d->n_idle_streams > 0 ? d->idle_streams[--d->n_idle_streams] : NULL;
        mutex_unlock(&d->stream_lock);
        if (*ret != NULL)
                return NULL;
        return error_wrap(cuda_error(&g->driver,
                                     g->driver.cuStreamCreate(ret, CU_STREAM_NON_BLOCKING)),
                          "GPU %d: unable to create a stream", d->info.device);
}

/* In the context of the device. A stream with an error is not used again. */
static void give_stream(struct gpus *g, struct gpu_device *d, cu_stream stream, bool has_failed) {
        bool is_kept;

        mutex_lock(&d->stream_lock);
        is_kept = !has_failed && d->n_idle_streams < MAX_IDLE_STREAMS;
        if (is_kept)
                d->idle_streams[d->n_idle_streams++] = stream;
        mutex_unlock(&d->stream_lock);
        if (!is_kept)
                g->driver.cuStreamDestroy_v2(stream);
}

void gpu_copy_close(struct gpus *g, struct gpu_device *d) {
        while (d->n_idle_streams > 0)
                g->driver.cuStreamDestroy_v2(d->idle_streams[--d->n_idle_streams]);
}

/* ---- copies in flight ------------------------------------------------------------------------ */

/* The copies of one call: at most one stream of each device, and one wait for it. */
struct copying {
        struct gpus     *gpus;
        struct gpu_visit visit;
        bool             is_visiting;
        cu_stream        streams[MAX_GPUS]; /* by index of the device; NULL: it has no copies */
};

static void begin_copying(struct copying *c, struct gpus *g) {
        c->gpus = g;
        c->is_visiting = false;
        memset(c->streams, 0, g->n_devices * sizeof(c->streams[0]));
}

/* Makes the device current and gives it a stream. */
static struct error *go_to(struct copying *c, struct gpu_device *d, cu_stream *ret) {
        cu_stream *stream = &c->streams[d - c->gpus->devices];

        if (c->is_visiting) {
                TRY(gpu_visit_go(&c->visit, d));
        } else {
                TRY(gpu_visit_begin(c->gpus, d, &c->visit));
                c->is_visiting = true;
        }
        if (*stream == NULL) {
                cu_stream taken;

                TRY(take_stream(c->gpus, d, &taken));
                *stream = taken;
        }
        *ret = *stream;
        return NULL;
}

/* It is waited for even when its device cannot be made current, which no stream needs. */
static struct error *wait_for(struct copying *c, struct gpu_device *d) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                *stream = &c->streams[d - c->gpus->devices];
        AUTO_ERROR                lost = gpu_visit_go(&c->visit, d);
        struct error             *err = cuda_error(driver, driver->cuStreamSynchronize(*stream));

        give_stream(c->gpus, d, STEAL(*stream), err != NULL || lost != NULL);
        return error_wrap(err, "GPU %d: a copy failed", d->info.device);
}

/* Waits for all, also after an error: memory of a copy in flight may not be freed. Takes `err`, and returns
 * the first error. */
static struct error *wait_for_all(struct copying *c, struct error *err) {
        for (size_t i = 0; i < c->gpus->n_devices; i++) {
                struct error *failed;

                if (c->streams[i] == NULL)
                        continue;
                failed = wait_for(c, &c->gpus->devices[i]);
                if (err == NULL)
                        err = failed;
                else
                        error_free(failed);
        }
        return err;
}

static struct error *end_copying(struct copying *c, struct error *err) {
        err = wait_for_all(c, err);
        if (c->is_visiting)
                gpu_visit_end(&c->visit);
        return err;
}

/* ---- between devices ------------------------------------------------------------------------- */

static bool enable_one_way(struct gpus *g, struct gpu_visit *v, struct gpu_device *from,
                           struct gpu_device *to) {
        AUTO_ERROR err = NULL;
        int        can_access = 0;
        cu_context context;
        cu_result  result;

        if (g->driver.cuDeviceCanAccessPeer(&can_access, from->handle, to->handle) != CU_SUCCESS ||
            can_access == 0)
                return false;
        /* Makes both contexts. */
        err = gpu_visit_go(v, to);
        if (err == NULL)
                err = gpu_visit_go(v, from);
        if (err != NULL)
                return false;
        context = atomic_load_explicit(&to->context, memory_order_acquire);
        result = g->driver.cuCtxEnablePeerAccess(context, 0);
        return result == CU_SUCCESS || result == CU_PEER_ACCESS_ALREADY_ENABLED;
}

static bool is_direct(struct copying *c, struct gpu_device *from, struct gpu_device *to) {
        struct gpus  *g = c->gpus;
        atomic_uchar *known =
                &g->peers[(size_t)(from - g->devices) * g->n_devices + (size_t)(to - g->devices)];
        unsigned char peer = atomic_load_explicit(known, memory_order_relaxed);

        if (peer == PEER_UNKNOWN) {
                peer = g->enable_peer_access && enable_one_way(g, &c->visit, from, to) &&
                                       enable_one_way(g, &c->visit, to, from)
                               ? PEER_DIRECT
                               : PEER_STAGED;
                atomic_store_explicit(known, peer, memory_order_relaxed);
        }
        return peer == PEER_DIRECT;
}

static void count_bytes(_Atomic uint64_t *counter, uint64_t bytes) {
        atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
}

/* A copy through pinned memory, which has room for two pieces: while one goes up, the next one comes down.
 * The streams wait for each other, not the host for them.
 *
 *     stream of `from`:  |- 0 to slot 0 -|- 1 to slot 1 -|- 2 to slot 0 -| ...
 *     stream of `to`:                    |- 0 from 0 ----|- 1 from 1 ----| ...
 */
struct staging {
        struct copying        *copying;
        const struct gpu_copy *copy;
        struct gpu_device     *to, *from;
        unsigned char         *memory;
        size_t                 piece_bytes;
        cu_event               filled[2], emptied[2]; /* by slot; NULL: not made */
};

static struct error *failed_copy(const struct staging *s, cu_result r) {
        return error_wrap(cuda_error(&s->copying->gpus->driver, r),
                          "unable to copy %zu bytes from GPU %d to GPU %d", s->copy->bytes,
                          s->from->info.device, s->to->info.device);
}

/* Each event is of the device whose stream records it. */
static struct error *make_events(struct staging *s, struct gpu_device *d, cu_event events[2]) {
        cu_stream stream;

        TRY(go_to(s->copying, d, &stream));
        for (size_t i = 0; i < 2; i++) {
                cu_event event;

                TRY(failed_copy(s,
                                s->copying->gpus->driver.cuEventCreate(&event,
                                                                       CU_EVENT_DISABLE_TIMING)));
                events[i] = event;
        }
        return NULL;
}

static void free_events(struct staging *s, cu_event events[2]) {
        for (size_t i = 0; i < 2; i++)
                if (events[i] != NULL)
                        s->copying->gpus->driver.cuEventDestroy_v2(events[i]);
}

static struct error *fill_piece(struct staging *s, size_t index, size_t bytes) {
        const struct cuda_driver *driver = &s->copying->gpus->driver;
        const size_t              slot = index % 2;
        cu_stream                 stream;

        TRY(go_to(s->copying, s->from, &stream));
        if (index >= 2)
                TRY(failed_copy(s, driver->cuStreamWaitEvent(stream, s->emptied[slot], 0)));
        TRY(failed_copy(s, driver->cuMemcpyDtoHAsync_v2(s->memory + slot * s->piece_bytes,
                                                        (uintptr_t)s->copy->from +
                                                                index * s->piece_bytes,
                                                        bytes, stream)));
        count_bytes(&s->copying->gpus->n_to_host, bytes);
        return failed_copy(s, driver->cuEventRecord(s->filled[slot], stream));
}

static struct error *empty(struct staging *s, size_t index, size_t bytes) {
        const struct cuda_driver *driver = &s->copying->gpus->driver;
        const size_t              slot = index % 2;
        cu_stream                 stream;

        TRY(go_to(s->copying, s->to, &stream));
        TRY(failed_copy(s, driver->cuStreamWaitEvent(stream, s->filled[slot], 0)));
        TRY(failed_copy(
                s, driver->cuMemcpyHtoDAsync_v2((uintptr_t)s->copy->to + index * s->piece_bytes,
                                                s->memory + slot * s->piece_bytes, bytes, stream)));
        count_bytes(&s->copying->gpus->n_to_device, bytes);
        return failed_copy(s, driver->cuEventRecord(s->emptied[slot], stream));
}

static struct error *copy_pieces(struct staging *s) {
        size_t left = s->copy->bytes;

        TRY(make_events(s, s->from, s->filled));
        TRY(make_events(s, s->to, s->emptied));
        for (size_t i = 0; left > 0; i++) {
                const size_t bytes = MIN(left, s->piece_bytes);

                TRY(fill_piece(s, i, bytes));
                TRY(empty(s, i, bytes));
                left -= bytes;
        }
        return NULL;
}

/* The memory is in use until the streams are empty. */
static struct error *copy_staged(struct copying *c, const struct gpu_copy *copy,
                                 struct gpu_device *to, struct gpu_device *from) {
        struct staging s = { .copying = c, .copy = copy, .to = to, .from = from };
        struct error  *err;
        void          *memory;
        bool           is_pinned;

        s.piece_bytes = MIN(copy->bytes, PIECE_BYTES);
        TRY(gpu_pinned_alloc(c->gpus, MIN(copy->bytes, 2 * PIECE_BYTES), &memory, &is_pinned));
        s.memory = memory;
        err = wait_for_all(c, copy_pieces(&s));
        free_events(&s, s.filled);
        free_events(&s, s.emptied);
        gpu_pinned_free(c->gpus, memory);
        return err;
}

static struct error *copy_between(struct copying *c, const struct gpu_copy *copy,
                                  struct gpu_device *to, struct gpu_device *from) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                 stream;

        TRY(go_to(c, from, &stream));
        if (!is_direct(c, from, to))
                return copy_staged(c, copy, to, from);
        TRY(gpu_visit_go(&c->visit, from));
        TRY(error_wrap(cuda_error(driver, driver->cuMemcpyPeerAsync((uintptr_t)copy->to,
                                                                    atomic_load(&to->context),
                                                                    (uintptr_t)copy->from,
                                                                    atomic_load(&from->context),
                                                                    copy->bytes, stream)),
                       "unable to copy %zu bytes from GPU %d to GPU %d", copy->bytes,
                       from->info.device, to->info.device));
        count_bytes(&c->gpus->n_between_devices, copy->bytes);
        return NULL;
}

/* ---- all copies ------------------------------------------------------------------------------ */

static struct error *copy_to_host(struct copying *c, const struct gpu_copy *copy,
                                  struct gpu_device *from) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                 stream;

        TRY(go_to(c, from, &stream));
        TRY(error_wrap(cuda_error(driver,
                                  driver->cuMemcpyDtoHAsync_v2(copy->to, (uintptr_t)copy->from,
                                                               copy->bytes, stream)),
                       "GPU %d: unable to copy %zu bytes to the host", from->info.device,
                       copy->bytes));
        count_bytes(&c->gpus->n_to_host, copy->bytes);
        return NULL;
}

static struct error *copy_to_device(struct copying *c, const struct gpu_copy *copy,
                                    struct gpu_device *to) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                 stream;

        TRY(go_to(c, to, &stream));
        TRY(error_wrap(cuda_error(driver,
                                  driver->cuMemcpyHtoDAsync_v2((uintptr_t)copy->to, copy->from,
                                                               copy->bytes, stream)),
                       "GPU %d: unable to copy %zu bytes from the host", to->info.device,
                       copy->bytes));
        count_bytes(&c->gpus->n_to_device, copy->bytes);
        return NULL;
}

static struct error *copy_within(struct copying *c, const struct gpu_copy *copy,
                                 struct gpu_device *d) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                 stream;

        TRY(go_to(c, d, &stream));
        TRY(error_wrap(cuda_error(driver, driver->cuMemcpyDtoDAsync_v2((uintptr_t)copy->to,
                                                                       (uintptr_t)copy->from,
                                                                       copy->bytes, stream)),
                       "GPU %d: unable to copy %zu bytes", d->info.device, copy->bytes));
        count_bytes(&c->gpus->n_within_device, copy->bytes);
        return NULL;
}

static struct error *start_copy(struct copying *c, const struct gpu_copy *copy) {
        struct gpu_device *to = NULL, *from = NULL;

        if (copy->to_device != GPU_HOST)
                TRY(gpu_get_device(c->gpus, copy->to_device, &to));
        if (copy->from_device != GPU_HOST)
                TRY(gpu_get_device(c->gpus, copy->from_device, &from));
        if (copy->bytes == 0)
                return NULL;
        if (to != NULL && from != NULL)
                return to == from ? copy_within(c, copy, to) : copy_between(c, copy, to, from);
        if (to != NULL)
                return copy_to_device(c, copy, to);
        if (from != NULL)
                return copy_to_host(c, copy, from);
        memcpy(copy->to, copy->from, copy->bytes);
        return NULL;
}

/* Without GPUs. */
static struct error *copy_on_host(const struct gpu_copy *copies, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (copies[i].to_device != GPU_HOST)
                        return gpu_unknown(NULL, copies[i].to_device);
                if (copies[i].from_device != GPU_HOST)
                        return gpu_unknown(NULL, copies[i].from_device);
        }
        for (size_t i = 0; i < n; i++)
                if (copies[i].bytes > 0)
                        memcpy(copies[i].to, copies[i].from, copies[i].bytes);
        return NULL;
}

struct error *gpu_copy_all(struct gpus *g, const struct gpu_copy *copies, size_t n) {
        struct copying c;
        struct error  *err = NULL;

        if (g == NULL)
                return copy_on_host(copies, n);
        begin_copying(&c, g);
        for (size_t i = 0; i < n && err == NULL; i++)
                err = start_copy(&c, &copies[i]);
        return end_copying(&c, err);
}

struct error *gpu_zero(struct gpus *g, int device, void *memory, size_t bytes) {
        struct gpu_device *d;
        struct copying     c;
        cu_stream          stream;
        struct error      *err;

        if (device != GPU_HOST)
                TRY(gpu_get_device(g, device, &d));
        if (bytes == 0)
                return NULL;
        if (device == GPU_HOST) {
                memset(memory, 0, bytes);
                return NULL;
        }
        begin_copying(&c, g);
        err = go_to(&c, d, &stream);
        if (err == NULL)
                err = error_wrap(cuda_error(&g->driver,
                                            g->driver.cuMemsetD8Async((uintptr_t)memory, 0, bytes,
                                                                      stream)),
                                 "GPU %d: unable to zero %zu bytes", device, bytes);
        return end_copying(&c, err);
}

struct gpu_traffic gpus_traffic(const struct gpus *g) {
        if (g == NULL)
                return (struct gpu_traffic){ 0 };
        return (struct gpu_traffic){
                .to_device = atomic_load_explicit(&g->n_to_device, memory_order_relaxed),
                .to_host = atomic_load_explicit(&g->n_to_host, memory_order_relaxed),
                .within_device = atomic_load_explicit(&g->n_within_device, memory_order_relaxed),
                .between_devices =
                        atomic_load_explicit(&g->n_between_devices, memory_order_relaxed),
        };
}
