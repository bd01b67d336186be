/* SPDX-License-Identifier: BSD-3-Clause */
/* The C interface of replaceable schedulers: a shared library that decides which waiting requests
 * of a model run together, when, and on which of its instances.
 *
 * A model asks for one with the parameter `scheduler` of its configuration:
 *
 *     parameters { key: "scheduler" value { string_value: "edf" } }
 *
 * loads libscheduler_edf.so, the first of these that exists: in the directory of the model's version,
 * in the model's directory, in --scheduler-directory. The library exports sched_get().
 *
 * Words.  A request is an item, an instance of the model a member. An item has rows (its batch size;
 * 1 for a model without batching), and a member takes batches of lo to hi rows.
 *
 * Life of an item.  on_enqueue() announces it. It ends exactly once, and is known until then:
 *
 *     enqueued --dispatch() or dispatch_rows() of all rows--> executed by those members
 *              --reject()-----------------------------------> answered with that error
 *              --on_cancel()--------------------------------> the server has taken it back: its
 *                                                             client has cancelled or its time is over
 *
 * Timeouts are the server's: it takes back an item when its deadline passes (on_cancel), and the
 * scheduler may use deadline_ns to serve the urgent ones first. The deadline does not count any more once
 * rows of the item were dispatched.
 *
 * A rate limiter (--rate-limit) is the server's as well: what was dispatched waits at its member until the
 * member's resources are there, and the member is busy meanwhile.
 *
 * Threads and locks.  All functions of sched_vtbl are called with the lock of the model's queue held,
 * one at a time, on any thread of the server; init() and fini() too are never concurrent with others.
 * They must return soon (a few microseconds: requests of the model wait meanwhile), and must not block,
 * wait for a thread that calls the server, or call any function of the server but those of
 * sched_host_ops. The functions of sched_host_ops may be called within a call of sched_vtbl only, on
 * the same thread; anywhere else they return EPERM, or do nothing. None of them calls back.
 *
 * Errors.  dispatch(), dispatch_rows() and reject() check everything before they change anything: an
 * error has no side effect, except that neso_scheduler_error is counted (and the first one of each kind
 * is logged). The codes are those of <errno.h>:
 *
 *     EBUSY    the member is executing, or has a batch already; with `member_concurrency` exclusive,
 *              so does another member of the same virtual_index
 *     ENODEV   there is no such member
 *     ENOENT   an id is not known: never announced, or ended already
 *     EALREADY an id is named twice in one call
 *     ERANGE   the rows are fewer than lo or more than hi of the member, or are not the next ones of
 *              their item
 *     EXDEV    the items are of different shape classes
 *     EINVAL   no items, a NULL pointer, an error code that there is not
 *     ENOTSUP  dispatch_rows() of a part of an item, for a model whose requests cannot be split
 *     ECANCELED the server is just taking the item back, and on_cancel() follows; not counted
 *     EPERM    called outside of a call of sched_vtbl, or after the server has given up the scheduler
 *
 * Fall-back.  When items wait, a member is free and no timer is armed, and the scheduler leaves it so
 * for a second, it has stalled: the server logs that, counts neso_scheduler_stall, calls fini() and
 * serves the model with the built-in scheduler until it is loaded again. No item is lost. A free member
 * counts when the items of one shape class fill its smallest batch.
 *
 * Crashes.  sched_get(), init() and fini() are tried in a process of its own first, so that a library that
 * crashes or hangs there fails the load of its model alone. So init() must not do anything outside of
 * its process that cannot be done twice. Later calls run in the server: a crash there ends the server as
 * one in a backend does, with a line on stderr that names the library, the function and the model.
 *
 * Versions.  A server calls sched_get() with the version that it was built with. Within a major version
 * functions are only added, at the end of sched_host_ops; a scheduler that needs a later minor version
 * returns NULL for an earlier one.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. */
#define SCHED_API_VERSION_MAJOR 1
#define SCHED_API_VERSION_MINOR 0

/* On what a library defines and the server looks up in it. */
#define SCHED_EXPORT __attribute__((visibility("default")))

/* One model version's side of the server. Owned by the server, valid from init() until fini() has
 * returned. */
typedef struct sched_host sched_host;

/* An item, for reading. It stays where on_enqueue() has shown it, unchanged, until the item ends. */
typedef struct sched_item {
        uint64_t id;         /* of this item alone, never 0; not used again */
        uint32_t rows;       /* 1 or more */
        uint32_t priority;   /* level in force, 1 is served first; 0: the model has no priorities */
        uint64_t arrival_ns; /* on the clock of now_ns() */
        uint64_t deadline_ns; /* when the server takes it back; 0: never */
        uint64_t shape_class; /* equal: may share a batch */
} sched_item;

/* An instance. `name` is its group's and lives as long as the host. */
typedef struct sched_member {
        uint32_t    id;            /* 0, 1, ... */
        uint32_t    virtual_index; /* which one of its group */
        uint32_t    lo, hi;        /* rows of a batch that it takes */
        const char *name;
        uint32_t    is_busy; /* 1: executes; on_member_free() will come. 0 when a model is loaded */
} sched_member;

/* What a scheduler may call. */
typedef struct sched_host_ops {
        /* The monotonic clock. */
        uint64_t (*now_ns)(sched_host *host);
        /* Runs `n` items, whole, as one execution on the member. The items have ended for the scheduler
         * and the member is busy until on_member_free(). 0 or an error. */
        int (*dispatch)(sched_host *host, uint32_t member, const uint64_t *ids, uint32_t n);
        /* The same for parts: rows first[i] to first[i] + count[i] - 1 of ids[i]. Rows of an item are
         * dispatched in order: first[i] is how many were before, else ERANGE, as for rows beyond the item.
         * An item has ended when all its rows were dispatched; dispatch() takes those that are left. The
         * request is answered once all of it has run. A model that cannot run parts of requests
         * (max_batch_size 0, decoupled, or `split_requests` false): ENOTSUP unless all rows that are left
         * are taken. */
        int (*dispatch_rows)(sched_host *host, uint32_t member, const uint64_t *ids,
                             const uint32_t *first, const uint32_t *count, uint32_t n);
        /* Answers the item with an error; `code` is a TRITONSERVER_Error_Code (0 to 7). The text is
         * copied; NULL is an empty one. 0 or an error. */
        int (*reject)(sched_host *host, uint64_t id, int code, const char *msg);
        /* on_timer() is called when that time has come, or soon after. There is one timer: a new time
         * replaces the old one; 0 disarms it. */
        void (*set_timer)(sched_host *host, uint64_t at_ns);
        /* `level` is a TRITONSERVER_LogLevel: 0 info, 1 warning, 2 error, 3 verbose. */
        void (*log)(sched_host *host, int level, const char *msg);
        /* Adds to the counter neso_scheduler_<metric>{model,version}. Names consist of a-z, 0-9 and _,
         * 1 to 64 of them; a model may have 32. Others, and negative amounts, are ignored and counted in
         * neso_scheduler_error. */
        void (*count)(sched_host *host, const char *metric, double add);
} sched_host_ops;

/* The scheduler. Functions may not be NULL. */
typedef struct sched_vtbl {
        /* For one version of a model. `config_json` is its configuration, as of GET v2/models/M/config;
         * it and the array of members are valid during the call only. Not 0: the
         * model is not loaded, or, when its instances were changed, served by the built-in scheduler;
         * fini() is not called then. */
        int (*init)(void **st, sched_host *host, const sched_host_ops *ops, const char *config_json,
                    const sched_member *members, uint32_t n_members, uint32_t max_batch);
        /* New items. More than one is a group that came as one: what a batch of another model handed
         * on, 64 at most. */
        void (*on_enqueue)(void *st, const sched_item *items, uint32_t n);
        /* The execution on the member has ended: it may be given the next batch. */
        void (*on_member_free)(void *st, uint32_t member);
        void (*on_timer)(void *st);
        /* The item has ended without the scheduler: forget it. */
        void (*on_cancel)(void *st, uint64_t id);
        /* The model is being unloaded or replaced: what waits is to be dispatched soon, or rejected. A
         * few items may still be announced, of clients that found the model before. When nothing was
         * dispatched for five seconds though a member was free, the server rejects what is left. */
        void (*on_drain)(void *st);
        /* The end. Nothing waits any more, unless the instances of the model change: then init() follows,
         * with the new members, and what waits is announced again under other ids, with the rows that
         * were not dispatched yet. */
        void (*fini)(void *st);
} sched_vtbl;

/* What the library exports. The table is the library's and lives as long as it is loaded. NULL: this
 * server is too old or too new; see SCHED_IS_COMPATIBLE. */
SCHED_EXPORT const sched_vtbl *sched_get(uint32_t host_major, uint32_t host_minor);

/* For sched_get(): whether the server has what this header describes. */
#define SCHED_IS_COMPATIBLE(host_major, host_minor)                                                \
        ((host_major) == SCHED_API_VERSION_MAJOR && (host_minor) + 1 > SCHED_API_VERSION_MINOR)

#ifdef __cplusplus
}
#endif
