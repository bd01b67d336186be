/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and memory apart: reserved addresses, blocks of memory, and the mappings of these to those. */
#include "fake_private.h"

#include <stdlib.h>

#define BLOCK_BASE ((uint64_t)0xB10C) /* << 32, and the place in the arena */

static bool is_whole(size_t bytes) {
        return bytes > 0 && bytes % FAKE_GRANULARITY == 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

cu_result cuMemAddressReserve(cu_pointer *ret, size_t bytes, size_t alignment, cu_pointer wanted,
                              unsigned long long flags) {
        struct fake_range *r;
        cu_result          result = fake_enter_any(__func__);

        (void)wanted; /* a hint */
        if (result == CU_SUCCESS &&
            (ret == NULL || flags != 0 || !is_whole(bytes) || (alignment & (alignment - 1)) != 0))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS) {
                size_t least = alignment > FAKE_GRANULARITY ? alignment : FAKE_GRANULARITY;

                r = fake_place_new(FAKE_RESERVED, -1, bytes, least);
                if (r == NULL)
                        result = CU_OUT_OF_MEMORY;
                else
                        *ret = r->address;
        }
        return fake_leave(result);
}

static bool has_mapping(const struct fake_range *reserved) {
        for (size_t i = 0; i < fake.mapped.n; i++)
                if (fake.mapped.rows[i]->address - reserved->address < reserved->bytes)
                        return true;
        return false;
}

cu_result cuMemAddressFree(cu_pointer address, size_t bytes) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS) {
                struct fake_range *r = fake_table_find(&fake.places, (uintptr_t)address);

                if (r == NULL || r->kind != FAKE_RESERVED || r->address != (uintptr_t)address ||
                    r->bytes != bytes)
                        fake_report("unknown pointer",
                                    "cuMemAddressFree: %zu bytes at %#llx were not reserved, or "
                                    "were freed",
                                    bytes, address);
                if (has_mapping(r))
                        fake_report("still mapped", "cuMemAddressFree: %#llx has memory", address);
                fake_place_free(r);
        }
        return fake_leave(result);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct fake_device *device_at(const struct cu_location *location) {
        if (location->type != CU_LOCATION_DEVICE || location->id < 0 ||
            location->id >= fake.n_devices || !fake.devices[location->id].has_virtual)
                return NULL;
        return &fake.devices[location->id];
}

cu_result cuMemGetAllocationGranularity(size_t *ret, const struct cu_allocation *allocation,
                                        int option) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS &&
            (ret == NULL || allocation->type != CU_ALLOCATION_PINNED || option < 0 || option > 1 ||
             device_at(&allocation->location) == NULL))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS)
                *ret = FAKE_GRANULARITY;
        return fake_leave(result);
}

static cu_result create_locked(cu_block *ret, size_t bytes,
                               const struct cu_allocation *allocation) {
        struct fake_device *device = device_at(&allocation->location);
        struct fake_range  *r;

        if (device == NULL)
                return CU_INVALID_DEVICE;
        if (ret == NULL || !is_whole(bytes) || allocation->type != CU_ALLOCATION_PINNED)
                return CU_INVALID_VALUE;
        if (!fake_take_bytes(device, bytes))
                return CU_OUT_OF_MEMORY;
        r = fake_place_new(FAKE_BLOCK, device->ordinal, bytes, FAKE_PAGE);
        if (r == NULL)
                fake_report("setting", "no addresses for %zu bytes", bytes);
        *ret = BLOCK_BASE << 40 | (r->address - (uintptr_t)fake.arena);
        return CU_SUCCESS;
}

cu_result cuMemCreate(cu_block *ret, size_t bytes, const struct cu_allocation *allocation,
                      unsigned long long flags) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS)
                result = flags == 0 ? create_locked(ret, bytes, allocation) : CU_INVALID_VALUE;
        return fake_leave(result);
}

static struct fake_range *find_block(const char *function, cu_block block) {
        uintptr_t          offset = (uintptr_t)(block & (((uint64_t)1 << 40) - 1));
        uintptr_t          address = (uintptr_t)fake.arena + offset;
        struct fake_range *r = fake_table_find(&fake.places, address);

        if (block >> 40 != BLOCK_BASE || r == NULL || r->kind != FAKE_BLOCK ||
            r->address != address || r->is_released)
                fake_report("unknown block", "%s: %#llx is no block, or was released", function,
                            block);
        return r;
}

static void drop_block(struct fake_range *block) {
        if (!block->is_released || block->n_mappings > 0)
                return;
        fake_file_release(block);
        fake_give_bytes(&fake.devices[block->device], block->bytes);
        fake_place_free(block);
}

/* Its memory stays while it is mapped. */
cu_result cuMemRelease(cu_block block) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS) {
                struct fake_range *r = find_block(__func__, block);

                r->is_released = true;
                drop_block(r);
        }
        return fake_leave(result);
}

/* ---- mappings -------------------------------------------------------------------------------- */

static bool overlaps_mapping(uintptr_t address, size_t bytes) {
        for (size_t i = 0; i < fake.mapped.n; i++) {
                const struct fake_range *m = fake.mapped.rows[i];

                if (m->address < address + bytes && address < m->address + m->bytes)
                        return true;
        }
        return false;
}

static cu_result map_locked(uintptr_t address, size_t bytes, struct fake_range *block) {
        const struct fake_range *reserved = fake_table_find(&fake.places, address);
        struct fake_range       *m;

        if (!is_whole(bytes) || bytes != block->bytes || reserved == NULL ||
            reserved->kind != FAKE_RESERVED ||
            (address - reserved->address) % FAKE_GRANULARITY != 0 ||
            bytes > reserved->address + reserved->bytes - address ||
            overlaps_mapping(address, bytes))
                return CU_INVALID_VALUE;
        m = calloc(1, sizeof(*m));
        if (m == NULL || !fake_shadow_map(address, bytes, fake.devices[block->device].file,
                                          (off_t)(block->address - (uintptr_t)fake.arena)))
                fake_report("setting", "no mapping of %zu bytes", bytes);
        *m = (struct fake_range){ .kind = FAKE_MAPPED,
                                  .address = address,
                                  .bytes = bytes,
                                  .device = block->device,
                                  .block = block };
        fake_table_add(&fake.mapped, m);
        block->n_mappings++;
        return CU_SUCCESS;
}

cu_result cuMemMap(cu_pointer address, size_t bytes, size_t offset, cu_block block,
                   unsigned long long flags) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS)
                result = offset == 0 && flags == 0 ? map_locked((uintptr_t)address, bytes,
                                                                find_block(__func__, block))
                                                   : CU_INVALID_VALUE;
        return fake_leave(result);
}

/* Calls for the mappings that make up the bytes exactly; false: they do not. */
static bool each_mapping(uintptr_t address, size_t                                     bytes,
                         void (*call)(struct fake_range *m, unsigned access), unsigned access) {
        uintptr_t end = address + bytes;

        for (uintptr_t at = address; at < end;) {
                const struct fake_range *m = fake_table_find(&fake.mapped, at);

                if (m == NULL || m->address != at || m->bytes > end - at)
                        return false;
                at += m->bytes;
        }
        while (address < end) {
                struct fake_range *m = fake_table_find(&fake.mapped, address);

                address += m->bytes;
                call(m, access);
        }
        return true;
}

static void give_access(struct fake_range *m, unsigned access) {
        m->access |= access;
}

cu_result cuMemSetAccess(cu_pointer address, size_t bytes, const struct cu_access *access,
                         size_t n) {
        cu_result result = fake_enter_any(__func__);
        unsigned  devices = 0;

        for (size_t i = 0; i < n && result == CU_SUCCESS; i++) {
                const struct fake_device *device = device_at(&access[i].location);

                if (device == NULL || access[i].flags != CU_ACCESS_READ_WRITE)
                        result = CU_INVALID_VALUE;
                else
                        devices |= 1u << device->ordinal;
        }
        if (result == CU_SUCCESS &&
            (bytes == 0 || !each_mapping((uintptr_t)address, bytes, give_access, devices)))
                result = CU_INVALID_VALUE;
        return fake_leave(result);
}

static void unmap(struct fake_range *m, unsigned unused) {
        struct fake_range *block = m->block;

        (void)unused;
        fake_check_in_flight("cuMemUnmap", m->address, m->bytes);
        fake_shadow_unmap(m->address, m->bytes);
        fake_table_remove(&fake.mapped, m);
        free(m);
        block->n_mappings--;
        drop_block(block);
}

cu_result cuMemUnmap(cu_pointer address, size_t bytes) {
        cu_result result = fake_enter_any(__func__);

        if (result == CU_SUCCESS &&
            (bytes == 0 || !each_mapping((uintptr_t)address, bytes, unmap, 0)))
                fake_report("unknown mapping",
                            "cuMemUnmap: %zu bytes at %#llx are no mappings, or not whole ones",
                            bytes, address);
        return fake_leave(result);
}
