/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/fetch_file.h"
#include "store/store.h"
#include "store/store_cache.h"
#include "store/store_hub.h"
#include "store/store_list.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRESS_NS (5 * NS_PER_S)
/* No call of the kernel waits for another process's lock and for a condition. */
#define BUSY_NS (NS_PER_S / 2)
/* An object may be evicted by another server between its transfer and its use. */
#define MAX_EVICTIONS 8

void store_fetch_init(struct store_fetch *f, struct store *s) {
        *f = (struct store_fetch){ .store = s };
}

void store_fetch_cancel(struct store_fetch *f) {
        struct store_hub *hub = f->store->hub;

        MUTEX_GUARD(&hub->lock);
        f->is_abandoned = true;
        store_hub_end_fetch_locked(hub, f);
}

/* ---- one run --------------------------------------------------------------------------------- */

struct run {
        struct store_fetch               *fetch;
        struct store_hub                 *hub;
        const struct store_fetch_options *options;
        uint64_t                          report_ns; /* of the next line of the log */
        size_t                           *busy;      /* owned; indices of entries */
        size_t                            n_busy;
};

static void report(struct run *r) {
        const struct store_fetch *f = r->fetch;
        uint64_t                  now_ns = clock_now_ns();

        if (now_ns < r->report_ns)
                return;
        r->report_ns = now_ns + PROGRESS_NS;
        log_info("fetching '%s': %llu of %llu bytes", r->options->what,
                 (unsigned long long)atomic_load(&f->done_bytes),
                 (unsigned long long)atomic_load(&f->total_bytes));
}

static bool is_ended(const struct run *r) {
        return atomic_load(&r->fetch->is_cancelled);
}

/* Waits until fewer than `n` files have runners, or a little. */
static void wait_for_files(struct run *r, size_t n, uint64_t until_ns) {
        struct store_hub *hub = r->hub;
        bool              has_time = true;

        while (has_time) {
                mutex_lock(&hub->lock);
                while (r->fetch->n_running >= n && clock_now_ns() < MIN(until_ns, r->report_ns))
                        (void)cond_wait_until(&hub->changed, &hub->lock,
                                              MIN(until_ns, r->report_ns));
                has_time = r->fetch->n_running >= n && clock_now_ns() < until_ns;
                mutex_unlock(&hub->lock);
                report(r);
        }
}

/* Waits for another server's transfer. */
static void wait_for_others(struct run *r) {
        uint64_t until_ns = clock_now_ns() + BUSY_NS;

        store_hub_wait(r->hub, &r->fetch->is_cancelled, until_ns);
        report(r);
}

/* ---- places in the directory ----------------------------------------------------------------- */

static const char *relative(const struct run *r, const struct store_entry *e) {
        return e->name + r->options->n_skipped;
}

/* Makes the directories above the file, and for a directory itself. */
static struct error *make_directories(const struct run *r, const struct store_entry *e) {
        AUTO_CHARS path = mem_printf("%s/%s%s", r->options->directory, relative(r, e),
                                     e->is_directory ? "/" : "");
        char      *slash = path + strlen(r->options->directory);

        while ((slash = strchr(slash + 1, '/')) != NULL) {
                *slash = '\0';
                if (mkdir(path, 0700) != 0 && errno != EEXIST)
                        return error_errno(errno, "unable to make the directory '%s'", path);
                *slash = '/';
        }
        return NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* An object that the cache had may be evicted by another server before it has its further name. */
static struct error *begin_file(struct run *r, size_t i) {
        const struct store_entry *e = r->options->entries[i];
        AUTO_CHARS       target = mem_printf("%s/%s", r->options->directory, relative(r, e));
        enum cache_state state;
        struct error    *err;

        for (unsigned n = 1;; n++) {
                err = fetch_file_begin(r->fetch, e, target, &state);
                if (err == NULL || err->code != ERR_NOT_FOUND || n == MAX_EVICTIONS)
                        break;
                error_free(err);
        }
        if (err == NULL && state == CACHE_BUSY)
                r->busy[r->n_busy++] = i;
        return err;
}

static struct error *begin_files(struct run *r) {
        const struct store_fetch_options *o = r->options;

        for (size_t i = 0; i < o->n_entries && !is_ended(r); i++) {
                TRY(make_directories(r, o->entries[i]));
                if (o->entries[i]->is_directory)
                        continue;
                wait_for_files(r, 2 * (size_t)r->hub->n_transfers, CLOCK_NEVER);
                TRY(begin_file(r, i));
        }
        return NULL;
}

static struct error *begin_busy(struct run *r) {
        while (r->n_busy > 0 && !is_ended(r)) {
                size_t n = r->n_busy;

                wait_for_others(r);
                r->n_busy = 0;
                for (size_t i = 0; i < n; i++)
                        TRY(begin_file(r, r->busy[i])); /* at most as many are busy again */
        }
        return NULL;
}

static struct error *fetch_all(struct run *r) {
        TRY(begin_files(r));
        return begin_busy(r);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void begin_run(struct run *r) {
        struct store_fetch *f = r->fetch;
        uint64_t            total = 0;

        for (size_t i = 0; i < r->options->n_entries; i++)
                total += r->options->entries[i]->size;
        atomic_store(&f->total_bytes, total);
        atomic_store(&f->done_bytes, 0);
        MUTEX_GUARD(&r->hub->lock);
        f->has_changed = false;
        atomic_store(&f->is_cancelled, f->is_abandoned || atomic_load(&r->hub->is_stopping));
        list_append(&r->hub->fetches, &f->node);
}

/* Takes `err`. Files that have runners end before it returns. */
static struct error *end_run(struct run *r, struct error *err, bool *ret_has_changed) {
        struct store_fetch *f = r->fetch;

        mutex_lock(&r->hub->lock);
        if (err != NULL)
                store_hub_end_fetch_locked(r->hub, f);
        mutex_unlock(&r->hub->lock);
        wait_for_files(r, 1, CLOCK_NEVER);
        mutex_lock(&r->hub->lock);
        list_remove(&f->node);
        if (f->error != NULL && err == NULL)
                err = STEAL(f->error);
        error_free(STEAL(f->error));
        *ret_has_changed = f->has_changed;
        mutex_unlock(&r->hub->lock);
        if (err == NULL && is_ended(r))
                err = error_new(ERR_CANCELLED, "%s: the transfer was cancelled", r->options->what);
        return err;
}

struct error *store_fetch_run(struct store_fetch *f, const struct store_fetch_options *o,
                              bool *ret_has_changed) {
        struct run    r = { .fetch = f,
                            .hub = f->store->hub,
                            .options = o,
                            .report_ns = clock_now_ns() + PROGRESS_NS };
        struct error *err;

        r.busy = mem_alloc((o->n_entries + 1) * sizeof(*r.busy));
        begin_run(&r);
        err = end_run(&r, fetch_all(&r), ret_has_changed);
        free(r.busy);
        return err;
}
