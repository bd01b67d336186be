/* SPDX-License-Identifier: BSD-3-Clause */
/* A scheduler of test_schedulers.py: first come first served, or what the model's parameter `mode` asks
 * for. It dispatches as many items of one shape class as a free member takes.
 *
 *     fifo, lifo     the first ones, the last ones
 *     forgets        never dispatches
 *     forgets_one    never dispatches the third item
 *     hoards         arms its timer again and again, and dispatches nothing
 *     twice          dispatches each item twice
 *     member         dispatches to a member that there is not
 *     unknown        dispatches an id that there is not
 *     range          dispatches more rows than a member takes
 *     busy           dispatches to a busy member
 *     split          dispatches a part of an item of a model whose requests may not run in parts
 *     rows           fills the largest free members first, each to its most rows, with parts of items
 *     rejects        rejects each second item
 *     refuses        init() fails
 *     crash_init     init() crashes
 *     exit_init      init() ends the process
 *     drops          rejects everything in on_drain()
 *
 * What is wrong is tried once for each item, and the item is served as in fifo after it, so that errors
 * are seen to have no effect. CRASH_GET, WRONG_VERSION and INCOMPLETE are what they say.
 */
#include "triton/core/neso_scheduler.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_IDS 4096

struct waiting {
        sched_item item;
        bool       is_forgotten;
        uint32_t   rows_done; /* dispatched */
};

struct probe {
        sched_host           *host;
        const sched_host_ops *ops;
        char                  mode[32];
        struct waiting       *waiting; /* oldest first */
        uint32_t              n_waiting, cap_waiting;
        sched_member          members[64];
        bool                  is_busy[64];
        uint32_t              n_members, max_batch;
        uint64_t              n_items;
};

static bool is_mode(const struct probe *p, const char *mode) {
        return strcmp(p->mode, mode) == 0;
}

/* A call that must fail with that code, and change nothing. */
static void expect(struct probe *p, int code, int expected) {
        char text[96];

        if (code == expected)
                return;
        snprintf(text, sizeof(text), "PROBE: %s gave %d, not %d", p->mode, code, expected);
        p->ops->log(p->host, 2, text);
}

static void forget(struct probe *p, uint32_t at, uint32_t n) {
        memmove(&p->waiting[at], &p->waiting[at + n],
                (p->n_waiting - at - n) * sizeof(*p->waiting));
        p->n_waiting -= n;
}

/* How many of the items from `at` on make a batch for the member. */
static uint32_t form(const struct probe *p, uint32_t at, const sched_member *m, uint64_t *ids) {
        uint32_t n = 0, rows = 0;

        while (at + n < p->n_waiting && n < MAX_IDS && !p->waiting[at + n].is_forgotten &&
               rows + p->waiting[at + n].item.rows <= m->hi &&
               p->waiting[at + n].item.shape_class == p->waiting[at].item.shape_class) {
                rows += p->waiting[at + n].item.rows;
                ids[n] = p->waiting[at + n].item.id;
                n++;
        }
        return rows >= m->lo ? n : 0;
}

static bool find_first(const struct probe *p, uint32_t *ret) {
        for (uint32_t i = 0; i < p->n_waiting; i++) {
                uint32_t at = is_mode(p, "lifo") ? p->n_waiting - 1 - i : i;

                *ret = at;
                if (!p->waiting[at].is_forgotten)
                        return true;
        }
        return false;
}

/* Wrong calls about an item that waits. */
static void try_wrong_calls(struct probe *p, const sched_item *item, uint32_t member) {
        uint64_t pair[2] = { item->id, item->id }, unknown = item->id + (UINT64_C(1) << 40);
        uint32_t first = 0, half = item->rows / 2;

        if (is_mode(p, "member"))
                expect(p, p->ops->dispatch(p->host, p->n_members, pair, 1), ENODEV);
        if (is_mode(p, "unknown"))
                expect(p, p->ops->dispatch(p->host, member, &unknown, 1), ENOENT);
        if (is_mode(p, "twice"))
                expect(p, p->ops->dispatch(p->host, member, pair, 2), EALREADY);
        if (is_mode(p, "split") && half > 0)
                expect(p, p->ops->dispatch_rows(p->host, member, pair, &first, &half, 1), ENOTSUP);
        if (is_mode(p, "range") && p->n_waiting >= p->members[member].hi + 1) {
                uint64_t many[MAX_IDS];

                for (uint32_t i = 0; i < p->n_waiting && i < MAX_IDS; i++)
                        many[i] = p->waiting[i].item.id;
                expect(p, p->ops->dispatch(p->host, member, many, p->n_waiting), ERANGE);
        }
}

static bool run_one(struct probe *p, uint32_t member) {
        uint64_t   ids[MAX_IDS];
        uint32_t   at, n;
        sched_item first;

        if (!find_first(p, &at))
                return false;
        n = form(p, at, &p->members[member], ids);
        if (n == 0)
                return false;
        first = p->waiting[at].item;
        try_wrong_calls(p, &first, member);
        if (p->ops->dispatch(p->host, member, ids, n) != 0) {
                p->ops->log(p->host, 2, "PROBE: a right call was refused");
                return false;
        }
        if (is_mode(p, "twice"))
                expect(p, p->ops->dispatch(p->host, member, ids, 1), EBUSY);
        p->is_busy[member] = true;
        forget(p, at, n);
        return true;
}

/* Those of which all rows are dispatched. */
static void forget_done(struct probe *p) {
        uint32_t n = 0;

        while (n < p->n_waiting && p->waiting[n].rows_done == p->waiting[n].item.rows)
                n++;
        forget(p, 0, n);
}

/* The first rows of one shape class, as many as the member takes. */
static void run_rows(struct probe *p, const sched_member *m) {
        uint64_t ids[64];
        uint32_t first[64], count[64], n = 0, rows = 0;
        int      code;

        while (n < p->n_waiting && n < 64 && rows < m->hi &&
               p->waiting[n].item.shape_class == p->waiting[0].item.shape_class) {
                const struct waiting *w = &p->waiting[n];
                uint32_t              left = w->item.rows - w->rows_done;

                ids[n] = w->item.id;
                first[n] = w->rows_done;
                count[n] = left < m->hi - rows ? left : m->hi - rows;
                rows += count[n++];
        }
        if (rows < m->lo || rows == 0)
                return;
        code = p->ops->dispatch_rows(p->host, m->id, ids, first, count, n);
        if (code == EBUSY)
                return; /* another member of its virtual instance runs */
        expect(p, code, 0);
        p->is_busy[m->id] = true;
        for (uint32_t i = 0; i < n; i++)
                p->waiting[i].rows_done += count[i];
        forget_done(p);
}

static void run_all_rows(struct probe *p) {
        for (uint32_t hi = p->max_batch > 0 ? p->max_batch : 1; hi > 0; hi--)
                for (uint32_t i = 0; i < p->n_members; i++)
                        if (p->members[i].hi == hi && !p->is_busy[i])
                                run_rows(p, &p->members[i]);
}

static void run(struct probe *p) {
        if (is_mode(p, "forgets") || is_mode(p, "hoards"))
                return;
        if (is_mode(p, "rows")) {
                run_all_rows(p);
                return;
        }
        for (uint32_t i = 0; i < p->n_members; i++)
                if (!p->is_busy[i])
                        run_one(p, i);
}

static int init(void **st, sched_host *host, const sched_host_ops *ops, const char *config_json,
                const sched_member *members, uint32_t n_members, uint32_t max_batch) {
        static const char key[] = "\"mode\":{\"string_value\":\"";
        const char       *mode = strstr(config_json, key);
        struct probe     *p = calloc(1, sizeof(*p));

        p->max_batch = max_batch;
        p->host = host;
        p->ops = ops;
        snprintf(p->mode, sizeof(p->mode), "%s", mode != NULL ? mode + strlen(key) : "fifo");
        p->mode[strcspn(p->mode, "\"")] = '\0';
        p->n_members = n_members < 64 ? n_members : 64;
        memcpy(p->members, members, p->n_members * sizeof(*members));
        for (uint32_t i = 0; i < p->n_members; i++)
                p->is_busy[i] = members[i].is_busy != 0;
        if (is_mode(p, "crash_init")) {
                signal(SIGSEGV, SIG_DFL); /* a sanitizer would take it for a finding of its own */
                raise(SIGSEGV);
        }
        if (is_mode(p, "exit_init"))
                exit(0);
        if (is_mode(p, "refuses")) {
                free(p);
                return EINVAL;
        }
        *st = p;
        return 0;
}

static void on_enqueue(void *st, const sched_item *items, uint32_t n) {
        struct probe *p = st;

        if (n > 1) {
                p->ops->count(p->host, "probe_groups", 1);
                p->ops->count(p->host, "probe_grouped", n);
        }
        for (uint32_t i = 0; i < n; i++) {
                if (p->n_waiting == p->cap_waiting) {
                        p->cap_waiting = p->cap_waiting * 2 + 16;
                        p->waiting = realloc(p->waiting, p->cap_waiting * sizeof(*p->waiting));
                }
                p->n_items++;
                p->ops->count(p->host, "probe_items", 1);
                if (is_mode(p, "rejects") && p->n_items % 2 == 0) {
                        expect(p,
                               p->ops->reject(p->host, items[i].id, 4,
                                              "the probe does not want it"),
                               0);
                        continue;
                }
                p->waiting[p->n_waiting++] = (struct waiting){
                        .item = items[i],
                        .is_forgotten = is_mode(p, "forgets_one") && p->n_items == 3,
                };
        }
        if (is_mode(p, "busy"))
                for (uint32_t m = 0; m < p->n_members; m++)
                        if (p->is_busy[m])
                                expect(p, p->ops->dispatch(p->host, m, &items[0].id, 1), EBUSY);
        if (is_mode(p, "hoards"))
                p->ops->set_timer(p->host, p->ops->now_ns(p->host) + 200000000);
        run(p);
}

static void on_member_free(void *st, uint32_t member) {
        struct probe *p = st;

        p->is_busy[member] = false;
        run(p);
}

static void on_timer(void *st) {
        struct probe *p = st;

        p->ops->set_timer(p->host, p->ops->now_ns(p->host) + 200000000);
}

static void on_cancel(void *st, uint64_t id) {
        struct probe *p = st;

        for (uint32_t i = 0; i < p->n_waiting; i++)
                if (p->waiting[i].item.id == id) {
                        forget(p, i, 1);
                        return;
                }
        p->ops->log(p->host, 2, "PROBE: an item was cancelled that is not known");
}

static void on_drain(void *st) {
        struct probe *p = st;

        while (is_mode(p, "drops") && p->n_waiting > 0) {
                expect(p, p->ops->reject(p->host, p->waiting[0].item.id, 4, "the probe drains"), 0);
                forget(p, 0, 1);
        }
}

static void fini(void *st) {
        struct probe *p = st;

        free(p->waiting);
        free(p);
}

const sched_vtbl *sched_get(uint32_t host_major, uint32_t host_minor) {
        static const sched_vtbl functions = {
                .init = init,
                .on_enqueue = on_enqueue,
                .on_member_free = on_member_free,
                .on_timer = on_timer,
                .on_cancel = on_cancel,
                .on_drain = on_drain,
#ifndef INCOMPLETE
                .fini = fini,
#endif
        };

#ifdef CRASH_GET
        abort();
#endif
#ifdef WRONG_VERSION
        host_major++;
#endif
        (void)fini;
        return SCHED_IS_COMPATIBLE(host_major, host_minor) ? &functions : NULL;
}
