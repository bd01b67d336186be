/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the stand-in: of devices, and pinned memory of the host. */
#include "fake_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_QUARANTINED 64 /* freed pinned memory that stays without access, so that a use is seen */

static struct {
        void  *memory;
        size_t bytes;
} quarantine[N_QUARANTINED];
static size_t n_quarantined;

/* ---- checks ---------------------------------------------------------------------------------- */

static bool may_use(const struct fake_device *device, int owner) {
        return owner == device->ordinal || (device->peers & 1u << owner) != 0;
}

/* Within reserved addresses: blocks side by side, which the device was given access to. */
static cu_result check_mapped(const char *function, const struct fake_device *device,
                              uintptr_t address, size_t bytes) {
        while (bytes > 0) {
                const struct fake_range *m = fake_table_find(&fake.mapped, address);
                size_t                   n;

                if (m == NULL)
                        fake_report("no memory",
                                    "%s: no memory is mapped at %#lx, of which %zu bytes are used",
                                    function, (unsigned long)address, bytes);
                if ((m->access & 1u << device->ordinal) == 0)
                        fake_report("no access", "%s: device %d has no access to %#lx", function,
                                    device->ordinal, (unsigned long)address);
                n = m->address + m->bytes - address;
                n = n < bytes ? n : bytes;
                address += n;
                bytes -= n;
        }
        return CU_SUCCESS;
}

cu_result fake_memory_check(const char *function, const struct fake_device *device,
                            cu_pointer address, size_t bytes) {
        const struct fake_range *r;

        if (bytes == 0)
                return CU_SUCCESS;
        if (!fake_is_in_arena((uintptr_t)address) ||
            (uintptr_t)address >= (uintptr_t)fake.arena + fake.high)
                return CU_INVALID_VALUE;
        r = fake_table_find(&fake.places, (uintptr_t)address);
        if (r == NULL)
                fake_report("use after free",
                            "%s: %zu bytes at %#llx are of no allocation: freed, or behind its end",
                            function, bytes, address);
        if (r->kind == FAKE_BLOCK)
                return CU_INVALID_VALUE;
        if (bytes > r->address + r->bytes - (uintptr_t)address)
                fake_report("overrun",
                            "%s: %zu bytes at %#llx run over the end of the %zu bytes at %#lx",
                            function, bytes, address, r->bytes, (unsigned long)r->address);
        if (r->kind == FAKE_RESERVED)
                return check_mapped(function, device, (uintptr_t)address, bytes);
        return may_use(device, r->device) ? CU_SUCCESS : CU_INVALID_VALUE;
}

static void check_quarantine(const char *function, uintptr_t address) {
        for (size_t i = 0; i < N_QUARANTINED; i++)
                if (quarantine[i].memory != NULL &&
                    address - (uintptr_t)quarantine[i].memory < quarantine[i].bytes)
                        fake_report("use after free", "%s: pinned memory at %#lx was freed",
                                    function, (unsigned long)address);
}

cu_result fake_host_check(const char *function, const void *memory, size_t bytes) {
        const struct fake_range *r = fake_table_find(&fake.pinned, (uintptr_t)memory);

        if (bytes == 0)
                return CU_SUCCESS;
        if (memory == NULL || fake_is_in_arena((uintptr_t)memory))
                return CU_INVALID_VALUE;
        check_quarantine(function, (uintptr_t)memory);
        if (r != NULL && bytes > r->address + r->bytes - (uintptr_t)memory)
                fake_report("overrun",
                            "%s: %zu bytes at %p run over the end of the %zu pinned bytes at %#lx",
                            function, bytes, memory, r->bytes, (unsigned long)r->address);
        return CU_SUCCESS;
}

/* ---- memory of devices ----------------------------------------------------------------------- */

bool fake_take_bytes(struct fake_device *device, size_t bytes) {
        size_t limit = (size_t)fake_setting_number("ALLOC_LIMIT", device->total);

        limit = limit < device->total ? limit : device->total;
        if (device->used > limit || bytes > limit - device->used)
                return false;
        if (device->file < 0) {
                device->file = memfd_create("fake gpu", MFD_CLOEXEC);
                /* Behind the arena's bytes: what was exported (fake_ipc.c). */
                if (device->file < 0 ||
                    ftruncate(device->file, (off_t)(FAKE_ARENA_BYTES + FAKE_SLOTS_BYTES)) != 0)
                        fake_report("setting", "no memory file for device %d", device->ordinal);
        }
        device->used += bytes;
        return true;
}

void fake_give_bytes(struct fake_device *device, size_t bytes) {
        device->used -= bytes;
}

static cu_result alloc_locked(struct fake_device *device, size_t bytes, cu_pointer *ret) {
        struct fake_range *r;

        if (ret == NULL || bytes == 0)
                return CU_INVALID_VALUE;
        if (!fake_take_bytes(device, bytes))
                return CU_OUT_OF_MEMORY;
        r = fake_place_new(FAKE_ALLOCATED, device->ordinal, bytes, FAKE_PAGE);
        if (r == NULL || !fake_shadow_map(r->address, bytes, device->file,
                                          (off_t)(r->address - (uintptr_t)fake.arena)))
                fake_report("setting", "no addresses for %zu bytes", bytes);
        memset(fake_shadow(r->address), 0xA5, bytes < FAKE_PAGE ? bytes : FAKE_PAGE);
        *ret = r->address;
        return CU_SUCCESS;
}

cu_result cuMemAlloc_v2(cu_pointer *ret, size_t bytes) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = alloc_locked(device, bytes, ret);
        return fake_leave(result);
}

static cu_result free_locked(struct fake_device *device, cu_pointer memory) {
        struct fake_range *r = fake_table_find(&fake.places, (uintptr_t)memory);

        if (memory == 0)
                return CU_INVALID_VALUE;
        if (r == NULL && fake_is_in_arena((uintptr_t)memory) &&
            (uintptr_t)memory < (uintptr_t)fake.arena + fake.high)
                fake_report("double free", "cuMemFree: %#llx was freed before", memory);
        if (r == NULL || r->kind != FAKE_ALLOCATED || r->address != (uintptr_t)memory)
                fake_report("unknown pointer", "cuMemFree: %#llx is no memory of cuMemAlloc",
                            memory);
        if (r->device != device->ordinal)
                return CU_INVALID_VALUE;
        fake_check_in_flight("cuMemFree", r->address, r->bytes);
        fake_export_end(r);
        fake_shadow_unmap(r->address, r->bytes);
        fake_file_release(r);
        fake_give_bytes(device, r->bytes);
        fake_place_free(r);
        return CU_SUCCESS;
}

cu_result cuMemFree_v2(cu_pointer memory) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = free_locked(device, memory);
        return fake_leave(result);
}

cu_result cuMemGetInfo_v2(size_t *n_free, size_t *n_total) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                *n_free = device->total - device->used;
                *n_total = device->total;
        }
        return fake_leave(result);
}

/* ---- pinned memory --------------------------------------------------------------------------- */

static cu_result host_alloc_locked(const struct fake_device *device, size_t bytes, unsigned flags,
                                   void **ret) {
        size_t             limit = (size_t)fake_setting_number("PINNED_LIMIT", SIZE_MAX);
        struct fake_range *r;
        void              *memory;

        if (ret == NULL || bytes == 0 || (flags & ~(unsigned)CU_HOST_ALLOC_PORTABLE) != 0)
                return CU_INVALID_VALUE;
        if (fake.pinned_bytes > limit || bytes > limit - fake.pinned_bytes)
                return CU_OUT_OF_MEMORY;
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        r = calloc(1, sizeof(*r));
        if (memory == MAP_FAILED || r == NULL)
                return CU_OUT_OF_MEMORY;
        *r = (struct fake_range){ .kind = FAKE_PINNED,
                                  .address = (uintptr_t)memory,
                                  .bytes = bytes,
                                  .device = device->ordinal };
        fake_table_add(&fake.pinned, r);
        fake.pinned_bytes += bytes;
        *ret = memory;
        return CU_SUCCESS;
}

cu_result cuMemHostAlloc(void **ret, size_t bytes, unsigned flags) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = host_alloc_locked(device, bytes, flags, ret);
        return fake_leave(result);
}

static void put_into_quarantine(void *memory, size_t bytes) {
        size_t at = n_quarantined++ % N_QUARANTINED;

        if (quarantine[at].memory != NULL)
                (void)munmap(quarantine[at].memory, quarantine[at].bytes);
        /* New pages, so that the old ones are free. */
        if (mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                 -1, 0) == MAP_FAILED)
                abort();
        quarantine[at].memory = memory;
        quarantine[at].bytes = bytes;
}

static cu_result free_host_locked(void *memory) {
        struct fake_range *r = fake_table_find(&fake.pinned, (uintptr_t)memory);

        if (memory == NULL)
                return CU_INVALID_VALUE;
        for (size_t i = 0; i < N_QUARANTINED; i++)
                if (quarantine[i].memory == memory)
                        fake_report("double free", "cuMemFreeHost: %p was freed before", memory);
        if (r == NULL || r->address != (uintptr_t)memory)
                fake_report("unknown pointer", "cuMemFreeHost: %p is no memory of cuMemHostAlloc",
                            memory);
        fake_check_in_flight("cuMemFreeHost", r->address, r->bytes);
        fake_table_remove(&fake.pinned, r);
        fake.pinned_bytes -= r->bytes;
        put_into_quarantine(memory, r->bytes);
        free(r);
        return CU_SUCCESS;
}

cu_result cuMemFreeHost(void *memory) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = free_host_locked(memory);
        return fake_leave(result);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* The memory that has the address; NULL for none. */
static const struct fake_range *find_device_memory(uintptr_t address) {
        const struct fake_range *r = fake_table_find(&fake.places, address);

        if (r != NULL && r->kind == FAKE_RESERVED)
                r = fake_table_find(&fake.mapped, address);
        return r != NULL && r->kind != FAKE_BLOCK ? r : NULL;
}

cu_result cuMemGetAddressRange_v2(cu_pointer *base, size_t *bytes, cu_pointer memory) {
        struct fake_device      *device;
        cu_result                result = fake_enter(__func__, &device);
        const struct fake_range *r = NULL;

        if (result == CU_SUCCESS)
                r = find_device_memory((uintptr_t)memory);
        if (result == CU_SUCCESS && r == NULL)
                result = CU_NOT_FOUND;
        if (result == CU_SUCCESS && base != NULL)
                *base = r->address;
        if (result == CU_SUCCESS && bytes != NULL)
                *bytes = r->bytes;
        return fake_leave(result);
}

static cu_result get_attribute(void *ret, int attribute, uintptr_t address) {
        const struct fake_range *r = find_device_memory(address);
        bool                     is_pinned = r == NULL;

        if (is_pinned)
                r = fake_table_find(&fake.pinned, address);
        if (r == NULL || ret == NULL)
                return CU_INVALID_VALUE;
        switch (attribute) {
        case CU_POINTER_MEMORY_TYPE:
                *(unsigned *)ret = is_pinned ? CU_MEMORY_OF_HOST : CU_MEMORY_OF_DEVICE;
                return CU_SUCCESS;
        case CU_POINTER_DEVICE_ORDINAL: *(int *)ret = r->device; return CU_SUCCESS;
        default: return CU_INVALID_VALUE;
        }
}

cu_result cuPointerGetAttribute(void *ret, int attribute, cu_pointer memory) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = get_attribute(ret, attribute, (uintptr_t)memory);
        return fake_leave(result);
}

/* ---- for tests ------------------------------------------------------------------------------- */

static void *find_bytes(cu_pointer address, size_t bytes) {
        const struct fake_range *r;

        if (!fake_is_in_arena((uintptr_t)address))
                return NULL;
        r = fake_table_find(&fake.places, (uintptr_t)address);
        if (r == NULL || bytes > r->address + r->bytes - (uintptr_t)address ||
            find_device_memory((uintptr_t)address) == NULL)
                return NULL;
        return fake_shadow((uintptr_t)address);
}

int fake_cuda_read(void *to, cu_pointer from, size_t bytes) {
        void *memory;

        pthread_mutex_lock(&fake.lock);
        memory = find_bytes(from, bytes);
        if (memory != NULL)
                memcpy(to, memory, bytes);
        pthread_mutex_unlock(&fake.lock);
        return memory != NULL ? 0 : -1;
}

int fake_cuda_write(cu_pointer to, const void *from, size_t bytes) {
        void *memory;

        pthread_mutex_lock(&fake.lock);
        memory = find_bytes(to, bytes);
        if (memory != NULL)
                memcpy(memory, from, bytes);
        pthread_mutex_unlock(&fake.lock);
        return memory != NULL ? 0 : -1;
}

void fake_cuda_count(struct fake_cuda_counts *ret) {
        pthread_mutex_lock(&fake.lock);
        *ret = (struct fake_cuda_counts){ .n_pinned = fake.pinned.n,
                                          .pinned_bytes = fake.pinned_bytes,
                                          .n_copies = fake.n_copies,
                                          .n_launches = fake.n_launches };
        for (size_t i = 0; i < fake.places.n; i++)
                ret->n_allocations += fake.places.rows[i]->kind != FAKE_RESERVED;
        for (int i = 0; i < fake.n_devices; i++) {
                ret->device_bytes += fake.devices[i].used;
                ret->n_contexts += fake.devices[i].n_retained;
                ret->n_streams += fake_count_streams(i);
                ret->n_events += fake_count_events(i);
        }
        pthread_mutex_unlock(&fake.lock);
}
