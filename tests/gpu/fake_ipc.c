/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory between processes. A handle names the exporting process, its descriptor of the device's memory file,
 * and the place in it. Behind the arena's bytes that file has a table of what was exported and which processes
 * have it open: a handle whose memory was freed is refused, and freeing what is open elsewhere is a misuse. */
#include "fake_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x6f73656e2d757067u
#define N_SLOTS 1024
#define N_OPENERS 6

struct slot {
        _Atomic uint64_t serial; /* 0: free */
        _Atomic int      openers[N_OPENERS];
};

struct fake_slots {
        struct slot slots[N_SLOTS];
};

_Static_assert(sizeof(struct fake_slots) <= FAKE_SLOTS_BYTES, "the file has room for the slots");

struct handle {
        uint64_t magic;
        int32_t  pid, file, device, slot;
        uint64_t offset, bytes, serial;
        uint64_t sum;
};

_Static_assert(sizeof(struct handle) <= sizeof(struct cu_ipc_handle), "a handle has 64 bytes");

static struct fake_slots *own_slots[FAKE_MAX_DEVICES];
static uint64_t           n_exported;

static uint64_t sum_of(const struct handle *h) {
        return (h->magic ^ h->offset * 31 ^ h->bytes * 37 ^ h->serial * 41) +
               (uint64_t)h->pid * 43 + (uint64_t)h->file * 47 + (uint64_t)h->device * 53 +
               (uint64_t)h->slot * 59;
}

static struct fake_slots *map_slots(int file) {
        void *place = mmap(NULL, FAKE_SLOTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                           (off_t)FAKE_ARENA_BYTES);

        return place == MAP_FAILED ? NULL : place;
}

/* ---- exporting ------------------------------------------------------------------------------- */

static bool export_range(struct fake_range *r) {
        struct fake_slots **slots = &own_slots[r->device];

        if (r->export_serial != 0)
                return true;
        if (*slots == NULL)
                *slots = map_slots(fake.devices[r->device].file);
        for (unsigned i = 0; *slots != NULL && i < N_SLOTS; i++) {
                struct slot *slot = &(*slots)->slots[i];

                if (atomic_load(&slot->serial) != 0)
                        continue;
                for (size_t k = 0; k < N_OPENERS; k++)
                        atomic_store(&slot->openers[k], 0);
                r->export_serial = ((uint64_t)getpid() << 32) + ++n_exported;
                r->export_slot = i;
                atomic_store(&slot->serial, r->export_serial);
                return true;
        }
        return false;
}

cu_result cuIpcGetMemHandle(struct cu_ipc_handle *ret, cu_pointer memory) {
        struct fake_device *device;
        struct fake_range  *r = NULL;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                r = fake_table_find(&fake.places, (uintptr_t)memory);
        if (result == CU_SUCCESS &&
            (r == NULL || r->kind != FAKE_ALLOCATED || r->address != (uintptr_t)memory))
                result = CU_INVALID_VALUE;
        if (result == CU_SUCCESS && !export_range(r))
                result = CU_OUT_OF_MEMORY;
        if (result == CU_SUCCESS) {
                struct handle h = { .magic = MAGIC,
                                    .pid = getpid(),
                                    .file = fake.devices[r->device].file,
                                    .device = fake.devices[r->device].number,
                                    .slot = (int32_t)r->export_slot,
                                    .offset = r->address - (uintptr_t)fake.arena,
                                    .bytes = r->bytes,
                                    .serial = r->export_serial };

                h.sum = sum_of(&h);
                memset(ret, 0, sizeof(*ret));
                memcpy(ret, &h, sizeof(h));
        }
        return fake_leave(result);
}

/* A process that was killed closes nothing. */
static bool is_alive(int pid) {
        return kill(pid, 0) == 0 || errno != ESRCH;
}

void fake_export_end(const struct fake_range *r) {
        struct slot *slot;

        if (r->export_serial == 0)
                return;
        slot = &own_slots[r->device]->slots[r->export_slot];
        atomic_store(&slot->serial, 0);
        for (size_t k = 0; k < N_OPENERS; k++) {
                int pid = atomic_load(&slot->openers[k]);

                if (pid != 0 && is_alive(pid))
                        fake_report("open elsewhere",
                                    "cuMemFree: process %d still has the %zu bytes at %#lx open",
                                    pid, r->bytes, (unsigned long)r->address);
        }
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct fake_range *find_opened(const struct handle *h) {
        for (size_t i = 0; i < fake.places.n; i++) {
                struct fake_range *r = fake.places.rows[i];

                if (r->kind == FAKE_OPENED && r->exporter == h->pid &&
                    r->export_serial == h->serial)
                        return r;
        }
        return NULL;
}

static bool sign_in(struct slot *slot) {
        for (size_t k = 0; k < N_OPENERS; k++) {
                int before = atomic_load(&slot->openers[k]);

                if ((before == 0 || !is_alive(before)) &&
                    atomic_compare_exchange_strong(&slot->openers[k], &before, getpid()))
                        return true;
        }
        return false;
}

static void sign_out(struct slot *slot) {
        for (size_t k = 0; k < N_OPENERS; k++) {
                int own = getpid();

                if (atomic_compare_exchange_strong(&slot->openers[k], &own, 0))
                        return;
        }
}

static cu_result open_file(const struct handle *h, struct fake_device *device, int file,
                           cu_pointer *ret) {
        struct fake_slots *slots = map_slots(file);
        struct fake_range *r;

        if (slots == NULL || h->slot < 0 || h->slot >= N_SLOTS ||
            atomic_load(&slots->slots[h->slot].serial) != h->serial ||
            !sign_in(&slots->slots[h->slot])) {
                if (slots != NULL)
                        (void)munmap(slots, FAKE_SLOTS_BYTES);
                return CU_INVALID_HANDLE;
        }
        r = fake_place_new(FAKE_OPENED, device->ordinal, (size_t)h->bytes, FAKE_PAGE);
        if (r == NULL || !fake_shadow_map(r->address, r->bytes, file, (off_t)h->offset))
                fake_report("setting", "no addresses for %zu bytes", (size_t)h->bytes);
        r->exporter = h->pid;
        r->export_serial = h->serial;
        r->export_slot = (unsigned)h->slot;
        r->slots = slots;
        r->n_opens = 1;
        *ret = r->address;
        return CU_SUCCESS;
}

static cu_result open_locked(struct fake_device *device, const struct cu_ipc_handle *handle,
                             cu_pointer *ret) {
        struct handle      h;
        struct fake_range *r;
        char               path[64];
        cu_result          result;
        int                file;

        memcpy(&h, handle, sizeof(h));
        if (h.magic != MAGIC || h.sum != sum_of(&h))
                return CU_INVALID_VALUE;
        if (h.pid == getpid())
                return CU_INVALID_CONTEXT;
        if (h.device != device->number)
                return CU_PEER_ACCESS_UNSUPPORTED;
        r = find_opened(&h);
        if (r != NULL) {
                r->n_opens++;
                *ret = r->address;
                return CU_SUCCESS;
        }
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", h.pid, h.file);
        file = open(path, O_RDWR | O_CLOEXEC);
        if (file < 0)
                return CU_INVALID_HANDLE;
        result = open_file(&h, device, file, ret);
        (void)close(file);
        return result;
}

cu_result cuIpcOpenMemHandle_v2(cu_pointer *ret, struct cu_ipc_handle handle, unsigned flags) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS)
                result = ret != NULL && flags == CU_IPC_LAZY_PEER_ACCESS
                                 ? open_locked(device, &handle, ret)
                                 : CU_INVALID_VALUE;
        return fake_leave(result);
}

static void close_opened(struct fake_range *r) {
        fake_check_in_flight("cuIpcCloseMemHandle", r->address, r->bytes);
        sign_out(&r->slots->slots[r->export_slot]);
        (void)munmap(r->slots, FAKE_SLOTS_BYTES);
        fake_shadow_unmap(r->address, r->bytes);
        fake_place_free(r);
}

cu_result cuIpcCloseMemHandle(cu_pointer memory) {
        struct fake_device *device;
        cu_result           result = fake_enter(__func__, &device);

        if (result == CU_SUCCESS) {
                struct fake_range *r = fake_table_find(&fake.places, (uintptr_t)memory);

                if (r == NULL || r->kind != FAKE_OPENED || r->address != (uintptr_t)memory)
                        fake_report("unknown pointer",
                                    "cuIpcCloseMemHandle: %#llx is not open, or was closed",
                                    memory);
                if (--r->n_opens == 0)
                        close_opened(r);
        }
        return fake_leave(result);
}
