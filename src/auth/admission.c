/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth/admission.h"

#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <string.h>

static void gate_init(struct admission_gate *g, char *model) {
        g->model = model;
        g->requests.max = g->bytes.max = UINT64_MAX;
        atomic_init(&g->requests.in_flight, 0);
        atomic_init(&g->bytes.in_flight, 0);
}

void admission_init(struct admission *a) {
        *a = (struct admission){ 0 };
        gate_init(&a->all, NULL);
}

void admission_done(struct admission *a) {
        for (size_t i = 0; i < a->n_models; i++)
                free(a->models[i].model);
        free(a->models);
        admission_init(a);
}

/* ---- the limits ---- */

/* Returns the index of the model, or the index at which it would be inserted. */
static size_t find_place(const struct admission *a, struct str model) {
        size_t from = 0, to = a->n_models;

        while (from < to) {
                size_t      middle = from + (to - from) / 2;
                const char *name = a->models[middle].model;
                int         order = strncmp(name, model.ptr, model.len);

                if (order < 0)
                        from = middle + 1;
                else
                        to = middle;
        }
        return from;
}

static struct admission_gate *find_gate(const struct admission *a, struct str model) {
        size_t at = find_place(a, model);

        return at < a->n_models && str_is(model, a->models[at].model) ? &a->models[at] : NULL;
}

static struct admission_gate *add_gate(struct admission *a, struct str model) {
        size_t                 at = find_place(a, model);
        struct admission_gate *grown = mem_alloc((a->n_models + 1) * sizeof(*grown));

        for (size_t i = 0; i < a->n_models; i++) {
                struct admission_gate *to = &grown[i < at ? i : i + 1];

                gate_init(to, a->models[i].model);
                to->requests.max = a->models[i].requests.max;
                to->bytes.max = a->models[i].bytes.max;
        }
        gate_init(&grown[at], mem_strndup(model.ptr, model.len));
        free(a->models);
        a->models = grown;
        a->n_models++;
        return &grown[at];
}

static struct admission_count *find_count(struct admission_gate *g, struct str what) {
        if (STR_IS(what, "requests"))
                return &g->requests;
        return STR_IS(what, "bytes") ? &g->bytes : NULL;
}

struct error *admission_add(struct admission *a, const char *text) {
        struct str model, what;
        struct str rest = str_split(str_of(text), ',', &model);
        struct str value = str_split(rest.ptr != NULL ? rest : str_of(text), '=', &what);
        struct admission_gate  *gate = &a->all;
        struct admission_count *count;
        uint64_t                max;

        if ((rest.ptr != NULL && model.len == 0) || find_count(gate, what) == NULL ||
            !str_to_u64(value, &max) || max == 0)
                return error_new(ERR_INVALID_ARG,
                                 "limits of what is in flight must be given as "
                                 "[<model>,]requests=<n> or [<model>,]bytes=<n>, got '%s'",
                                 text);
        if (rest.ptr != NULL)
                gate = find_gate(a, model);
        if (gate == NULL)
                gate = add_gate(a, model);
        count = find_count(gate, what);
        if (count->max != UINT64_MAX)
                return error_new(ERR_INVALID_ARG,
                                 "the limit '%.*s' of what is in flight is given twice",
                                 STR_ARG(str_range(text, strlen(text) - value.len - 1)));
        count->max = max;
        return NULL;
}

/* ---- requests ---- */

/* Adds n. False, with nothing added, when the limit leaves no room for n. */
static bool take_room(struct admission_count *c, uint64_t n) {
        uint64_t now = atomic_load_explicit(&c->in_flight, memory_order_relaxed);

        do {
                if (n > c->max || now > c->max - n)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(&c->in_flight, &now, now + n,
                                                        memory_order_relaxed,
                                                        memory_order_relaxed));
        return true;
}

static void put_back(struct admission_count *c, uint64_t n) {
        atomic_fetch_sub_explicit(&c->in_flight, n, memory_order_relaxed);
}

static struct error *refuse_admission(const struct admission *a, const struct admission_gate *g,
                                      const struct admission_count *full) {
        bool        is_bytes = full == &g->bytes;
        const char *what = is_bytes ? "bytes" : "requests";

        if (a->on_rejected != NULL)
                a->on_rejected(a->owner, is_bytes ? "bytes_in_flight" : "requests_in_flight");
        if (g->model != NULL)
                return error_new(ERR_UNAVAILABLE,
                                 "too many %s in flight for model '%s', the limit is %" PRIu64,
                                 what, g->model, full->max);
        return error_new(ERR_UNAVAILABLE, "too many %s in flight, the limit is %" PRIu64, what,
                         full->max);
}

static struct error *enter_gate(const struct admission *a, struct admission_gate *g,
                                uint64_t bytes) {
        if (!take_room(&g->requests, 1))
                return refuse_admission(a, g, &g->requests);
        if (take_room(&g->bytes, bytes))
                return NULL;
        put_back(&g->requests, 1);
        return refuse_admission(a, g, &g->bytes);
}

static void leave_gate(struct admission_gate *g, uint64_t bytes) {
        put_back(&g->requests, 1);
        put_back(&g->bytes, bytes);
}

struct error *admission_enter(struct admission *a, const char *model, uint64_t bytes,
                              struct admission_pass *ret) {
        struct admission_gate *own;
        struct error          *err;

        if (a == NULL)
                return NULL;
        own = a->n_models > 0 ? find_gate(a, str_of(model)) : NULL;
        if (own != NULL)
                TRY(enter_gate(a, own, bytes));
        err = enter_gate(a, &a->all, bytes);
        if (err != NULL) {
                if (own != NULL)
                        leave_gate(own, bytes);
                return err;
        }
        *ret = (struct admission_pass){ .all = &a->all, .model = own, .bytes = bytes };
        return NULL;
}

void admission_leave(struct admission_pass *pass) {
        if (pass->all == NULL)
                return;
        leave_gate(pass->all, pass->bytes);
        if (pass->model != NULL)
                leave_gate(pass->model, pass->bytes);
        *pass = (struct admission_pass){ 0 };
}
