/* SPDX-License-Identifier: BSD-3-Clause */
/* The stand-in of CUDA's driver library: what its files share.
 *
 * Device memory is a part of an arena of addresses that the CPU cannot use. The bytes lie in a memory file of
 * each device, at the offset that the address has in the arena; the stand-in reaches them through its own
 * mapping, the shadow, at the same offset. No address is used again before the arena was used up, so that a
 * use after free is seen.
 *
 *     arena    PROT_NONE                 | A |   | B |        what callers have: cu_pointer
 *     shadow   the devices' files        | A |   | B |        what copies and kernels use
 *
 * Threads.  One lock, of `fake`, guards everything. Each driver function is fake_enter(), its work, and
 * fake_leave(). Work of streams runs on the thread of fake_streams.c. */
#pragma once

#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_DECLARE(name, parameters) FAKE_EXPORT cu_result name parameters;
#define FAKE_DECLARE_OWN(result, name, parameters) FAKE_EXPORT result name parameters;
CUDA_FUNCTIONS(FAKE_DECLARE)
CUDA_KERNEL_FUNCTIONS(FAKE_DECLARE)
FAKE_CUDA_FUNCTIONS(FAKE_DECLARE_OWN)

#define FAKE_MAX_DEVICES 8
#define FAKE_ARENA_BYTES ((size_t)256 << 30)
#define FAKE_PAGE ((size_t)4096)
#define FAKE_SLOTS_BYTES ((size_t)64 << 10) /* of a memory file, behind the arena's bytes */
#define FAKE_GRANULARITY ((size_t)2 << 20)  /* of cuMemCreate(), as devices have it */
#define FAKE_NOT_PERMITTED 800              /* a driver's function within cuLaunchHostFunc() */
#define FAKE_MAX_USES 16

/* ---- state ----------------------------------------------------------------------------------- */

enum fake_kind {
        FAKE_ALLOCATED, /* cuMemAlloc */
        FAKE_OPENED,    /* cuIpcOpenMemHandle */
        FAKE_BLOCK,     /* cuMemCreate: has an offset in the file, no address */
        FAKE_RESERVED,  /* cuMemAddressReserve */
        FAKE_MAPPED,    /* cuMemMap, within a reserved range */
        FAKE_PINNED,    /* cuMemHostAlloc */
};

struct fake_range {
        enum fake_kind kind;
        uintptr_t      address;
        size_t         bytes;
        size_t         span; /* bytes and what is kept free behind */
        int            device;
        /* ALLOCATED: as which it was exported; 0: it was not. OPENED: that of the exporting process. */
        uint64_t export_serial;
        unsigned export_slot;
        /* OPENED */
        pid_t              exporter;
        unsigned           n_opens;
        struct fake_slots *slots; /* owned: a mapping */
        /* BLOCK */
        unsigned n_mappings;
        bool     is_released;
        /* MAPPED */
        struct fake_range *block;
        unsigned           access; /* a bit for each device */
};

/* Ranges in the order of their addresses. */
struct fake_table {
        struct fake_range **rows;
        size_t              n, capacity;
};

struct fake_device {
        int      ordinal;
        int      number; /* before CUDA_VISIBLE_DEVICES */
        int      major, minor;
        size_t   total, used;
        int      file; /* the memory file; -1: not made */
        unsigned n_retained;
        bool     has_virtual;
        unsigned peers; /* a bit for each device whose memory its context may use */
};

struct fake {
        pthread_mutex_t    lock;
        bool               is_initialised;
        pid_t              pid;
        int                n_devices;
        struct fake_device devices[FAKE_MAX_DEVICES];
        char              *arena, *shadow;
        size_t             next, high;
        bool               has_wrapped;
        struct fake_table  places; /* what occupies the arena */
        struct fake_table  mapped; /* FAKE_MAPPED */
        struct fake_table  pinned;
        size_t             pinned_bytes;
        uint64_t           n_copies, n_launches;
};

extern struct fake fake;

/* Each takes the lock, also when it fails. The first: for functions that need no context. The second: of the
 * device whose context is current on this thread. */
cu_result fake_enter_any(const char *function);
cu_result fake_enter(const char *function, struct fake_device **ret);
cu_result fake_leave(cu_result result);
/* -1: none, or one that was released. */
int fake_context_device(cu_context context);

/* ---- settings -------------------------------------------------------------------------------- */

const char *fake_setting(const char *name);
uint64_t    fake_setting_number(const char *name, uint64_t otherwise);
/* The code that this call of the function fails with; 0: it does not. */
cu_result fake_failure(const char *function);
uint64_t  fake_random(uint64_t below);

/* ---- reports --------------------------------------------------------------------------------- */

/* One line "fake gpu: <kind>: ...", then the end of the process. */
_Noreturn void fake_report(const char *kind, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* Of one device, or of all (-1), pinned memory included. */
void fake_check_leaks_locked(int device);

/* ---- addresses ------------------------------------------------------------------------------- */

void               fake_table_add(struct fake_table *t, struct fake_range *r);
void               fake_table_remove(struct fake_table *t, struct fake_range *r);
struct fake_range *fake_table_find(const struct fake_table *t, uintptr_t address);
/* A new range of the arena, aligned to `alignment` bytes. NULL: used up. */
struct fake_range *fake_place_new(enum fake_kind kind, int device, size_t bytes, size_t alignment);
void               fake_place_free(struct fake_range *r);
/* Puts bytes of the file behind the addresses; false: the system refused. */
bool  fake_shadow_map(uintptr_t address, size_t bytes, int file, off_t offset);
void  fake_shadow_unmap(uintptr_t address, size_t bytes);
void  fake_file_release(const struct fake_range *r);
void *fake_shadow(uintptr_t address);
bool  fake_is_in_arena(uintptr_t address);

/* ---- memory ---------------------------------------------------------------------------------- */

/* May the device use these bytes? CU_INVALID_VALUE: never was memory, or is another device's. Ends the process
 * when they were freed, or run over the end of their allocation. */
cu_result fake_memory_check(const char *function, const struct fake_device *device,
                            cu_pointer address, size_t bytes);
/* Likewise of the host: bounds of pinned memory. */
cu_result fake_host_check(const char *function, const void *memory, size_t bytes);
/* Takes `bytes` of the device's memory: false when there are not so many. */
bool fake_take_bytes(struct fake_device *device, size_t bytes);
void fake_give_bytes(struct fake_device *device, size_t bytes);

/* ---- streams --------------------------------------------------------------------------------- */

enum fake_op_kind { FAKE_COPY, FAKE_SET, FAKE_WAIT, FAKE_CALL, FAKE_KERNEL };

struct fake_use {
        uintptr_t address;
        size_t    bytes;
};

struct fake_op {
        struct fake_op   *next;
        enum fake_op_kind kind;
        const char       *function;
        uint64_t          due_ns;
        struct fake_use   reads[FAKE_MAX_USES]; /* kernels: also what they write */
        size_t            n_reads;
        struct fake_use   writes;
        /* COPY, SET */
        void         *to;
        const void   *from;
        size_t        bytes;
        unsigned char value;
        /* WAIT */
        uint64_t wait_stream, wait_number;
        /* CALL */
        cu_host_function call;
        void            *arg;
        /* KERNEL */
        fake_cuda_kernel_fn     kernel;
        struct fake_cuda_launch launch;
        unsigned char          *values; /* owned: the parameters */
        void                  **parameters;
};

struct fake_stream;

/* Is the caller a function of cuLaunchHostFunc()? No driver function may be called there. */
bool fake_is_stream_thread(void);

/* The stream of a device, ends the process for one that is none. *ret is NULL with an error. */
cu_result fake_stream_find(const char *function, cu_stream stream, const struct fake_device *device,
                           struct fake_stream **ret);
struct fake_op *fake_op_new(enum fake_op_kind kind, const char *function);
/* Takes the op. */
void fake_stream_push(struct fake_stream *stream, struct fake_op *op);
/* Ends the process when queued work uses any of the bytes. */
void   fake_check_in_flight(const char *function, uintptr_t address, size_t bytes);
bool   fake_is_read_in_flight(uintptr_t address, size_t bytes);
size_t fake_count_streams(int device);
size_t fake_count_events(int device);
size_t fake_count_modules(int device);

/* ---- processes ------------------------------------------------------------------------------- */

/* The allocation ends: ends the process when another one has it open. */
void fake_export_end(const struct fake_range *r);
