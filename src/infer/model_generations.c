/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/model_generations.h"

#include "base/lock.h"
#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"

#include <stdatomic.h>
#include <string.h>

struct generation {
        /* Borrowed while it serves (the repository holds it); a reference with has_retired. */
        struct model *model;
        uint64_t      serial; /* in order of joining, from 1 */
        bool          has_retired;
};

struct model_generations {
        struct ref ref;

        struct mutex       lock;    /* rank LOCK_GENERATIONS; guards the fields below */
        struct generation *members; /* owned; in order of joining */
        size_t             n_members;
        uint64_t           n_joined;
};

struct model_generations *model_generations_new(void) {
        struct model_generations *generations = mem_zalloc(sizeof(*generations));

        ref_init(&generations->ref);
        mutex_init(&generations->lock, LOCK_GENERATIONS);
        return generations;
}

void model_generations_unref(struct model_generations *generations) {
        if (generations == NULL || !ref_put(&generations->ref))
                return;
        free(generations->members);
        mutex_done(&generations->lock);
        free(generations);
}

struct error *model_generations_retired(void) {
        static struct error retired =
                ERROR_STATIC(ERR_UNAVAILABLE, "the model is being unloaded and begins no more "
                                              "sequences");

        return &retired;
}

/* ---- members --------------------------------------------------------------------------------- */

/* Sets `needs_routing` of each member: retired members need it, and all do when there are several and
 * one of them has sequences. */
static void set_flags_locked(struct model_generations *generations) {
        bool any = false;

        for (size_t i = 0; i < generations->n_members; i++)
                any = any || model_has_sequences(generations->members[i].model);
        for (size_t i = 0; i < generations->n_members; i++) {
                const struct generation *m = &generations->members[i];

                atomic_store(&m->model->needs_routing,
                             m->has_retired || (any && generations->n_members > 1));
        }
}

static struct generation *find_locked(struct model_generations *generations,
                                      const struct model       *model) {
        for (size_t i = 0; i < generations->n_members; i++)
                if (generations->members[i].model == model)
                        return &generations->members[i];
        return NULL;
}

static void remove_locked(struct model_generations *generations, struct generation *m) {
        memmove(m, m + 1,
                (size_t)(&generations->members[generations->n_members] - (m + 1)) * sizeof(*m));
        generations->n_members--;
        set_flags_locked(generations);
}

void model_generations_join(struct model_generations *generations, struct model *model) {
        MUTEX_GUARD(&generations->lock);
        ref_get(&generations->ref);
        model->generations = generations;
        generations->members =
                mem_realloc(generations->members,
                            (generations->n_members + 1) * sizeof(*generations->members));
        generations->members[generations->n_members++] =
                (struct generation){ .model = model, .serial = ++generations->n_joined };
        set_flags_locked(generations);
}

void model_generations_retire(struct model *model) {
        struct model_generations *generations = model->generations;
        struct generation        *m;
        bool                      keeps = model_has_sequences(model);

        mutex_lock(&generations->lock);
        m = find_locked(generations, model);
        if (keeps) {
                model_ref(model); /* until model_generations_leave() */
                m->has_retired = true;
                atomic_store(&model->has_retired, true);
                set_flags_locked(generations);
        } else {
                remove_locked(generations, m);
        }
        mutex_unlock(&generations->lock);
        if (keeps)
                model->scheduler->sequences->retire(model->scheduler);
}

void model_generations_leave(struct model *model) {
        struct model_generations *generations = model->generations;

        mutex_lock(&generations->lock);
        remove_locked(generations, find_locked(generations, model));
        mutex_unlock(&generations->lock);
        /* Steps that keep the model set is_kept and then read has_left, so one of the two sees the
         * other. */
        atomic_store(&model->has_left, true);
        if (atomic_load(&model->is_kept) && model->on_left != NULL)
                model->on_left(model);
        model_unref(model);
}

struct model *model_generations_find_retired(struct model_generations *generations,
                                             int64_t                   version) {
        MUTEX_GUARD(&generations->lock);
        for (size_t i = generations->n_members; i > 0; i--) {
                struct generation *m = &generations->members[i - 1];

                if (!m->has_retired || (version != -1 && m->model->version != version))
                        continue;
                model_ref(m->model);
                return m->model;
        }
        return NULL;
}

size_t model_generations_list(struct model_generations *generations, struct model ***ret) {
        MUTEX_GUARD(&generations->lock);
        *ret = mem_zalloc((generations->n_members + 1) * sizeof(struct model *));
        for (size_t i = 0; i < generations->n_members; i++) {
                (*ret)[i] = generations->members[i].model;
                model_ref((*ret)[i]);
        }
        return generations->n_members;
}

/* ---- routing of requests ---------------------------------------------------------------------- */

static bool has_id(const struct request *req) {
        return req->correlation.text != NULL ? *req->correlation.text != '\0'
                                             : req->correlation.number != 0;
}

static bool begins_sequence(const struct request *req) {
        return (req->flags & REQUEST_SEQUENCE_START) != 0 || !has_id(req);
}

static bool model_knows(struct model *model, const struct request *req) {
        return model_has_sequences(model) &&
               model->scheduler->sequences->knows(model->scheduler, req);
}

/* Iterates over the members from the newest to the oldest: returns a new reference to the newest one
 * that is older than *at, and moves *at. Skips members of other versions when the request asks for
 * one; NULL at the end. Members may join and leave between two calls. */
static struct model *next_older(const struct request *req, bool only_retired, uint64_t *at) {
        struct model_generations *generations = req->model->generations;

        MUTEX_GUARD(&generations->lock);
        for (size_t i = generations->n_members; i > 0; i--) {
                struct generation *m = &generations->members[i - 1];

                if (m->serial >= *at || (only_retired && !m->has_retired) ||
                    (req->has_version && m->model->version != req->model->version))
                        continue;
                *at = m->serial;
                model_ref(m->model);
                return m->model;
        }
        return NULL;
}

/* Returns a new reference to the member on which the sequence of this request began. */
static struct model *find_load_of_sequence(const struct request *req) {
        uint64_t      at = UINT64_MAX;
        struct model *model;

        while ((model = next_older(req, false, &at)) != NULL) {
                if (model_knows(model, req))
                        return model;
                model_unref(model);
        }
        return NULL;
}

/* Returns a new reference to the load that serves, with the highest version; each version has at most
 * one. NULL: none. */
static struct model *find_serving(const struct request *req) {
        struct model_generations *generations = req->model->generations;
        struct model             *best = NULL;

        MUTEX_GUARD(&generations->lock);
        for (size_t i = 0; i < generations->n_members; i++) {
                struct generation *m = &generations->members[i];

                if (!m->has_retired &&
                    (!req->has_version || m->model->version == req->model->version) &&
                    (best == NULL || m->model->version >= best->version))
                        best = m->model;
        }
        if (best != NULL)
                model_ref(best);
        return best;
}

static void end_on_retired(const struct request *req) {
        uint64_t      at = UINT64_MAX;
        struct model *model;

        while ((model = next_older(req, true, &at)) != NULL) {
                model->scheduler->sequences->forget(model->scheduler, req);
                model_unref(model);
        }
}

/* Takes the reference. */
static struct error *bind_request(struct request *req, struct model *model) {
        struct error *err = NULL;

        if (model != req->model)
                err = request_rebind(req, model);
        model_unref(model);
        return err;
}

struct error *model_generations_route(struct request *req) {
        bool          has_retired = atomic_load(&req->model->has_retired);
        struct model *to = NULL;

        if (begins_sequence(req)) {
                if (has_id(req))
                        end_on_retired(req);
                if (!has_retired)
                        return NULL;
        } else {
                if (model_knows(req->model, req))
                        return NULL;
                to = find_load_of_sequence(req);
        }
        if (to == NULL && has_retired)
                to = find_serving(req);
        if (to == NULL)
                return has_retired ? model_generations_retired() : NULL;
        return bind_request(req, to);
}

bool model_generations_continues(struct request *req) {
        struct model *model;

        if (begins_sequence(req))
                return false;
        if (model_knows(req->model, req))
                return true;
        if (!atomic_load(&req->model->needs_routing))
                return false;
        model = find_load_of_sequence(req);
        model_unref(model);
        return model != NULL;
}
