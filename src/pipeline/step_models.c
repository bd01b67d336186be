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
        h->current = NULL;
        h->why = &not_yet;
}

void step_models_holder_done(struct step_models_holder *h) {
        step_models_unref(h->current);
        error_free(h->why);
        mutex_done(&h->lock);
}

static void replace(struct step_models_holder *h, struct step_models *s, struct error *why) {
        struct step_models *old;
        struct error       *old_why;

        mutex_lock(&h->lock);
        old = h->current;
        old_why = h->why;
        h->current = s;
        h->why = why;
        mutex_unlock(&h->lock);
        step_models_unref(old);
        error_free(old_why);
}

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
        MUTEX_GUARD(&h->lock);
        if (UNLIKELY(h->current == NULL))
                return error_copy(h->why);
        step_models_ref(h->current);
        *ret = h->current;
        return NULL;
}
