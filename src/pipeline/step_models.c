/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/step_models.h"

#include "base/mem.h"
#include "infer/model.h"
#include "infer/request.h"

struct step_models *step_models_new(const struct step_model *steps, size_t n) {
        /* n is bounded: steps of one configuration, which is bounded in bytes. */
        struct step_models *s = mem_zalloc(sizeof(*s) + n * sizeof(struct model *));

        ref_init(&s->ref);
        s->nested = mem_zalloc((n + 1) * sizeof(struct step_models *));
        s->n = n;
        for (size_t i = 0; i < n; i++) {
                model_ref(steps[i].model);
                s->models[i] = steps[i].model;
                s->nested[i] = steps[i].nested;
                /* Bounded: nested snapshots were admitted by their own size. */
                s->n_all += 1 + (s->nested[i] != NULL ? s->nested[i]->n_all : steps[i].n_next);
                if (s->nested[i] != NULL)
                        step_models_ref(s->nested[i]);
        }
        return s;
}

void step_models_ref(struct step_models *s) {
        ref_get(&s->ref);
}

/* Recursive: composed models may contain composed models. The depth is bounded, because the order
 * of loading has no cycle. */
void step_models_unref(struct step_models *s) {
        if (s == NULL || !ref_put(&s->ref))
                return;
        if (s->free_plan != NULL)
                s->free_plan(s->plan);
        for (size_t i = 0; i < s->n; i++) {
                step_models_unref(s->nested[i]);
                model_unref(s->models[i]);
        }
        free(s->nested);
        free(s);
}

void step_models_holder_init(struct step_models_holder *h) {
        static struct error not_yet =
                ERROR_STATIC(ERR_UNAVAILABLE, "the models of its steps are not loaded yet");

        mutex_init(&h->lock, LOCK_QUEUE);
        h->current = h->older = NULL;
        atomic_init(&h->has_older, false);
        h->why = &not_yet;
}

static void unref_older(struct step_models *first) {
        for (struct step_models *s = first, *next; s != NULL; s = next) {
                next = s->next_older;
                step_models_unref(s);
        }
}

void step_models_holder_done(struct step_models_holder *h) {
        unref_older(h->older);
        step_models_unref(h->current);
        error_free(h->why);
        mutex_done(&h->lock);
}

/* ---- older snapshots -------------------------------------------------------------------------- */

static bool may_have_sequences(struct model *model) {
        return model_has_sequences(model) && atomic_load(&model->is_replaced) &&
               !atomic_load(&model->has_left);
}

/* True when a model of the snapshot was replaced while it had sequences, or may have had. Marks such
 * models first: model_generations_leave() reads the mark after it has set has_left. */
static bool must_be_kept(struct step_models *s) {
        bool is_kept = false;

        for (size_t i = 0; i < s->n; i++) {
                if (model_has_sequences(s->models[i]) && atomic_load(&s->models[i]->is_replaced))
                        atomic_store(&s->models[i]->is_kept, true);
                is_kept |= may_have_sequences(s->models[i]);
                if (s->nested[i] != NULL)
                        is_kept |= must_be_kept(s->nested[i]);
        }
        return is_kept;
}

/* Returns those that are not needed any more, linked by next_older. */
static struct step_models *prune_locked(struct step_models_holder *h) {
        struct step_models **at = &h->older, *dropped = NULL;

        while (*at != NULL) {
                struct step_models *s = *at;

                if (must_be_kept(s)) {
                        at = &s->next_older;
                        continue;
                }
                *at = s->next_older;
                s->next_older = dropped;
                dropped = s;
        }
        atomic_store(&h->has_older, h->older != NULL);
        return dropped;
}

void step_models_holder_prune(struct step_models_holder *h) {
        struct step_models *dropped;

        if (!atomic_load(&h->has_older))
                return;
        mutex_lock(&h->lock);
        dropped = prune_locked(h);
        mutex_unlock(&h->lock);
        unref_older(dropped);
}

bool step_models_holder_has_older(const struct step_models_holder *h) {
        return atomic_load(&h->has_older);
}

static void replace(struct step_models_holder *h, struct step_models *s, struct error *why) {
        struct step_models *dropped;
        struct error       *old_why;

        mutex_lock(&h->lock);
        if (h->current != NULL) {
                h->current->next_older = h->older;
                h->older = h->current;
        }
        dropped = prune_locked(h);
        old_why = h->why;
        h->current = s;
        h->why = why;
        mutex_unlock(&h->lock);
        unref_older(dropped);
        error_free(old_why);
}

/* Returns references to all snapshots, the newest first; the caller owns the array. */
static struct step_models **list_all(struct step_models_holder *h, size_t *ret_n) {
        struct step_models **all;
        size_t               n = 0;

        MUTEX_GUARD(&h->lock);
        for (const struct step_models *s = h->older; s != NULL; s = s->next_older)
                n++;
        all = mem_zalloc((n + 2) * sizeof(struct step_models *));
        n = 0;
        if (h->current != NULL)
                all[n++] = h->current;
        for (struct step_models *s = h->older; s != NULL; s = s->next_older)
                all[n++] = s;
        for (size_t i = 0; i < n; i++)
                step_models_ref(all[i]);
        *ret_n = n;
        return all;
}

/* Counts the models that have the live sequence of the request. */
static size_t count_known(const struct step_models *s, const struct request *req) {
        size_t n = 0;

        for (size_t i = 0; i < s->n; i++) {
                struct model *model = s->models[i];

                if (model_has_sequences(model))
                        n += model->scheduler->sequences->knows(model->scheduler, req);
                if (s->nested[i] != NULL)
                        n += count_known(s->nested[i], req);
        }
        return n;
}

static bool continues_sequence(const struct request *req) {
        bool has_id = req->correlation.text != NULL ? *req->correlation.text != '\0'
                                                    : req->correlation.number != 0;

        return has_id && (req->flags & REQUEST_SEQUENCE_START) == 0;
}

/* Returns a new reference to the snapshot with most of the loads that have the request's sequence, the
 * newest of equals; NULL when none has any. */
static struct step_models *find_of_sequence(struct step_models_holder *h,
                                            const struct request      *req) {
        size_t               n, most = 0;
        struct step_models **all = list_all(h, &n);
        struct step_models  *best = NULL;

        for (size_t i = 0; i < n; i++) {
                size_t n_known = count_known(all[i], req);

                if (n_known <= most)
                        continue;
                most = n_known;
                best = all[i];
        }
        if (best != NULL)
                step_models_ref(best);
        for (size_t i = 0; i < n; i++)
                step_models_unref(all[i]);
        free(all);
        return best;
}

/* ---- holders --------------------------------------------------------------------------------- */

void step_models_holder_set(struct step_models_holder *h, struct step_models *s) {
        replace(h, s, NULL);
}

void step_models_holder_block(struct step_models_holder *h, struct error *why) {
        replace(h, NULL, why);
}

struct step_models *step_models_holder_get(struct step_models_holder *h) {
        MUTEX_GUARD(&h->lock);
        if (h->current != NULL)
                step_models_ref(h->current);
        return h->current;
}

struct error *step_models_holder_why(struct step_models_holder *h) {
        MUTEX_GUARD(&h->lock);
        return h->why != NULL ? error_copy(h->why) : NULL;
}

struct error *step_models_take(struct step_models_holder *h, const struct request *req,
                               struct step_models **ret) {
        if (req->is_inner && req->steps != NULL) {
                step_models_ref(req->steps);
                *ret = req->steps;
                return NULL;
        }
        if (atomic_load_explicit(&h->has_older, memory_order_acquire) && continues_sequence(req)) {
                *ret = find_of_sequence(h, req);
                if (*ret != NULL)
                        return NULL;
        }
        MUTEX_GUARD(&h->lock);
        if (h->current == NULL)
                return error_copy(h->why);
        step_models_ref(h->current);
        *ret = h->current;
        return NULL;
}
