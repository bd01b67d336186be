/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens the GPUs of a driver, and closes them (gpu.h, gpu_private.h). */
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "gpu/gpu_private.h"

#include <math.h>
#include <string.h>

#define POOL_GRANULE 256  /* what cuMemAlloc() aligns to */
#define PINNED_GRANULE 64 /* a cache line, and the widest vector a backend reads with */

/* ---- devices --------------------------------------------------------------------------------- */

/* RFC 9562, 4, behind a prefix. The driver's name of a part of a device has "MIG" in it. */
static void print_uuid(struct gpu_info *info, const struct cu_uuid *uuid) {
        static const char digits[] = "0123456789abcdef";
        char             *to = info->uuid;

        to = stpcpy(to, strstr(info->name, " MIG ") != NULL ? "MIG-" : "GPU-");
        for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        *to++ = '-';
                *to++ = digits[uuid->bytes[i] >> 4];
                *to++ = digits[uuid->bytes[i] & 15];
        }
        *to = '\0';
}

static struct error *read_attribute(const struct cuda_driver *c, cu_device device, int attribute,
                                    int *ret) {
        return error_wrap(cuda_error(c, c->cuDeviceGetAttribute(ret, attribute, device)),
                          "unable to read attribute %d", attribute);
}

static struct error *read_device(const struct cuda_driver *c, int ordinal, struct gpu_device *d) {
        struct gpu_info *info = &d->info;
        struct cu_uuid   uuid;
        size_t           bytes;
        int              can_grow = 0;

        info->device = ordinal;
        TRY(cuda_error(c, c->cuDeviceGet(&d->handle, ordinal)));
        TRY(cuda_error(c, c->cuDeviceGetName(info->name, sizeof(info->name), d->handle)));
        TRY(cuda_error(c, c->cuDeviceGetUuid_v2(&uuid, d->handle)));
        TRY(cuda_error(c, c->cuDeviceGetPCIBusId(info->pci_bus_id, sizeof(info->pci_bus_id),
                                                 d->handle)));
        TRY(cuda_error(c, c->cuDeviceTotalMem_v2(&bytes, d->handle)));
        TRY(read_attribute(c, d->handle, CU_DEVICE_COMPUTE_CAPABILITY_MAJOR, &info->major));
        TRY(read_attribute(c, d->handle, CU_DEVICE_COMPUTE_CAPABILITY_MINOR, &info->minor));
        /* A driver that does not know the attribute has no such memory. */
        if (c->can_grow && c->cuDeviceGetAttribute(&can_grow, CU_DEVICE_VIRTUAL_MEMORY_SUPPORTED,
                                                   d->handle) == CU_SUCCESS)
                d->can_grow = can_grow != 0;
        info->total_bytes = bytes;
        print_uuid(info, &uuid);
        return NULL;
}

static uint64_t bytes_of(const struct gpu_bytes *settings, size_t n, int device, uint64_t initial) {
        for (size_t i = 0; i < n; i++)
                if (settings[i].device == device)
                        return settings[i].bytes;
        return initial;
}

static double limit_of(const struct gpus_options *o, int device) {
        for (size_t i = 0; i < o->n_load_limits; i++)
                if (o->load_limits[i].device == device)
                        return o->load_limits[i].fraction;
        return -1;
}

/* In tenths: 8.6 has no exact form. */
static bool is_capable(const struct gpu_info *info, double least) {
        return info->major * 10 + info->minor >= lround(least * 10);
}

/* Logs the device, and whether it may be used. */
static bool check_device(const struct gpu_info *info, const struct gpus_options *o) {
        bool is_usable = is_capable(info, o->min_compute_capability);

        if (!o->is_quiet && is_usable)
                log_info("GPU %d: %s, compute capability %d.%d, %llu bytes, %s", info->device,
                         info->name, info->major, info->minor,
                         (unsigned long long)info->total_bytes, info->uuid);
        if (!o->is_quiet && !is_usable)
                log_info("GPU %d is not used: %s has compute capability %d.%d, the least that is "
                         "used is %.1f",
                         info->device, info->name, info->major, info->minor,
                         o->min_compute_capability);
        return is_usable;
}

static void add_device(struct gpus *g, const struct gpu_device *read,
                       const struct gpus_options *o) {
        struct gpu_device *d = &g->devices[g->n_devices++];
        const int          device = read->info.device;

        *d = *read;
        d->virtual_bytes =
                bytes_of(o->virtual_sizes, o->n_virtual_sizes, device, GPU_VIRTUAL_BYTES);
        d->load_limit = limit_of(o, device);
        pool_memory_init(&d->pool, bytes_of(o->pools, o->n_pools, device, GPU_POOL_BYTES),
                         POOL_GRANULE);
        mutex_init(&d->stream_lock, LOCK_GPU);
}

/* A device that cannot be read is left out: the others work. */
static void add_devices(struct gpus *g, int n, const struct gpus_options *o) {
        for (int i = 0; i < n; i++) {
                struct gpu_device d = { 0 };
                AUTO_ERROR        err = read_device(&g->driver, i, &d);

                if (err != NULL && !o->is_quiet)
                        log_warn("GPU %d is not used: %s", i, err->message);
                else if (err == NULL && check_device(&d.info, o))
                        add_device(g, &d, o);
        }
}

static void make_list(struct gpus *g) {
        AUTO_STRBUF list = { 0 };

        for (size_t i = 0; i < g->n_devices; i++)
                strbuf_printf(&list, "%s%d", i > 0 ? "," : "", g->devices[i].info.device);
        g->list = mem_strdup(strbuf_cstr(&list));
}

/* The number of devices; 0, with a line in the log, when the driver has none. */
static int count_devices(const struct cuda_driver *c, bool is_quiet) {
        AUTO_ERROR err = NULL;
        int        n = 0;
        cu_result  r = c->cuInit(0);

        if (r == CU_SUCCESS)
                r = c->cuDeviceGetCount(&n);
        if ((r == CU_SUCCESS && n <= 0) || r == CU_NO_DEVICE) {
                if (!is_quiet)
                        log_info("no GPU is used: CUDA's driver has no device");
                return 0;
        }
        err = cuda_error(c, r);
        if (err != NULL) {
                if (!is_quiet)
                        log_warn("no GPU is used: CUDA's driver cannot be started: %s",
                                 err->message);
                return 0;
        }
        if (n > MAX_GPUS && !is_quiet)
                log_warn("of %d GPUs the first %d are used", n, MAX_GPUS);
        return MIN(n, MAX_GPUS);
}

struct error *gpus_open_driver(const struct cuda_driver *driver, const struct gpus_options *o,
                               struct gpus **ret) {
        int          n = count_devices(driver, o->is_quiet);
        struct gpus *g;

        *ret = NULL;
        if (n == 0)
                return NULL;
        g = mem_zalloc(sizeof(*g));
        g->driver = *driver;
        g->enable_peer_access = o->enable_peer_access;
        g->devices = mem_zalloc((size_t)n * sizeof(*g->devices));
        pool_memory_init(&g->pinned, o->pinned_pool_bytes, PINNED_GRANULE);
        add_devices(g, n, o);
        make_list(g);
        g->peers = mem_zalloc(g->n_devices * g->n_devices + 1);
        if (g->n_devices == 0) {
                gpus_close(g);
                return NULL;
        }
        *ret = g;
        return NULL;
}

struct error *gpus_open(const struct gpus_options *o, struct gpus **ret) {
        AUTO_ERROR         err = NULL;
        struct cuda_driver driver;

        *ret = NULL;
        if (getenv("TRITON_SERVER_CPU_ONLY") != NULL) {
                if (!o->is_quiet)
                        log_info("no GPU is used: TRITON_SERVER_CPU_ONLY is set");
                return NULL;
        }
        err = cuda_driver_open(CUDA_LIBRARY, &driver);
        if (err == NULL)
                return gpus_open_driver(&driver, o, ret);
        if (!o->is_quiet && err->code == ERR_NOT_FOUND)
                log_info("no GPU is used: %s", err->message);
        else if (!o->is_quiet)
                log_warn("no GPU is used: %s", err->message);
        return NULL;
}

/* The context is gone after this unless others hold it, too: it must not stay current. */
static void close_device(struct gpus *g, struct gpu_device *d) {
        const struct cuda_driver *c = &g->driver;
        cu_context                context = atomic_load(&d->context);
        struct gpu_visit          visit;

        if (context != NULL) {
                AUTO_ERROR err = gpu_visit_begin(g, d, &visit);

                if (err != NULL) {
                        log_error("GPU %d: unable to free its memory: %s", d->info.device,
                                  err->message);
                } else {
                        gpu_copy_close(g, d);
                        gpu_memory_close(g, d);
                        if (visit.former == context) {
                                visit.former = NULL;
                                visit.has_changed = true;
                        }
                        gpu_visit_end(&visit);
                }
                c->cuDevicePrimaryCtxRelease_v2(d->handle);
        }
        pool_memory_done(&d->pool);
        mutex_done(&d->stream_lock);
}

void gpus_close(struct gpus *g) {
        if (g == NULL)
                return;
        gpu_pinned_close(g);
        pool_memory_done(&g->pinned);
        for (size_t i = 0; i < g->n_devices; i++)
                close_device(g, &g->devices[i]);
        free(g->devices);
        free(g->peers);
        free(g->list);
        free(g);
}
