/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mem.h"
#include "gpu/gpu_private.h"

#include <string.h>

/* Between devices without peer access: large enough that a copy's start does not matter, and a small part of
 * the pinned pool. */
#define STAGE_BYTES ((size_t)8 << 20)

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

static void begin(struct copying *c, struct gpus *g) {
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

static struct error *end(struct copying *c, struct error *err) {
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

/* A wait of the host that is not the last one: the stream stays in use. */
static struct error *wait_on(struct copying *c, const struct gpu_device *d, cu_stream stream) {
        const struct cuda_driver *driver = &c->gpus->driver;

        return error_wrap(cuda_error(driver, driver->cuStreamSynchronize(stream)),
                          "GPU %d: a copy failed", d->info.device);
}

static void count(_Atomic uint64_t *counter, uint64_t bytes) {
        atomic_fetch_add_explicit(counter, bytes, memory_order_relaxed);
}

static struct error *copy_piece(struct copying *c, cu_pointer to, struct gpu_device *to_device,
                                cu_pointer from, struct gpu_device *from_device, void *stage,
                                size_t bytes) {
        const struct cuda_driver *driver = &c->gpus->driver;
        cu_stream                 stream;

        TRY(go_to(c, from_device, &stream));
        TRY(error_wrap(cuda_error(driver, driver->cuMemcpyDtoHAsync_v2(stage, from, bytes, stream)),
                       "GPU %d: unable to copy %zu bytes to the host", from_device->info.device,
                       bytes));
        TRY(wait_on(c, from_device, stream));
        count(&c->gpus->n_to_host, bytes);
        TRY(go_to(c, to_device, &stream));
        TRY(error_wrap(cuda_error(driver, driver->cuMemcpyHtoDAsync_v2(to, stage, bytes, stream)),
                       "GPU %d: unable to copy %zu bytes from the host", to_device->info.device,
                       bytes));
        TRY(wait_on(c, to_device, stream));
        count(&c->gpus->n_to_device, bytes);
        return NULL;
}

/* Through pinned memory, a piece at a time. When a piece fails, its copy may be in flight still: then all
 * streams are waited for before the memory is freed. */
static struct error *copy_staged(struct copying *c, const struct gpu_copy *copy,
                                 struct gpu_device *to, struct gpu_device *from) {
        const size_t  stage_bytes = MIN(copy->bytes, STAGE_BYTES);
        struct error *err = NULL;
        void         *stage;
        bool          is_pinned;

        TRY(gpu_pinned_alloc(c->gpus, stage_bytes, &stage, &is_pinned));
        for (size_t done = 0; done < copy->bytes && err == NULL; done += stage_bytes)
                err = copy_piece(c, (uintptr_t)copy->to + done, to, (uintptr_t)copy->from + done,
                                 from, stage, MIN(stage_bytes, copy->bytes - done));
        if (err != NULL)
                err = wait_for_all(c, err);
        gpu_pinned_free(c->gpus, stage);
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
        count(&c->gpus->n_between_devices, copy->bytes);
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
        count(&c->gpus->n_to_host, copy->bytes);
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
        count(&c->gpus->n_to_device, copy->bytes);
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
        count(&c->gpus->n_within_device, copy->bytes);
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
        begin(&c, g);
        for (size_t i = 0; i < n && err == NULL; i++)
                err = start_copy(&c, &copies[i]);
        return end(&c, err);
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
        begin(&c, g);
        err = go_to(&c, d, &stream);
        if (err == NULL)
                err = error_wrap(cuda_error(&g->driver,
                                            g->driver.cuMemsetD8Async((uintptr_t)memory, 0, bytes,
                                                                      stream)),
                                 "GPU %d: unable to zero %zu bytes", device, bytes);
        return end(&c, err);
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
