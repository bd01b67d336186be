/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/waits.h"

#include "kit/text.h"
#include "python/python_instance.h"

#include <string.h>

#define MAX_NAMES 8 /* of a cycle in a message */

/* What counts as a wait: what is known to be one, or also what may become one. */
enum view { VIEW_SURE, VIEW_POSSIBLE };

/* ---- which models can serve ------------------------------------------------------------------ */

static bool counts(const struct wait *w, enum view view) {
        return w->kind > SHM_WAIT_MAYBE || (w->kind == SHM_WAIT_MAYBE && view == VIEW_POSSIBLE);
}

static bool holds_instance(const struct wait *w) {
        return w->kind == SHM_WAIT_INSTANCE || (w->kind == SHM_WAIT_MAYBE && w->is_stream);
}

static bool is_in_vain(const struct wait *w) {
        for (unsigned i = 0; i < w->n_models; i++)
                if (!w->models[i]->can_serve)
                        return true;
        return false;
}

static uint32_t capacity_of(const struct instance *in) {
        return in->is_concurrent ? in->model->async_concurrency : 1;
}

/* Returns true when the instance begins no execution until a wait has ended; with `only_vain`, until one has
 * ended that never ends. */
static bool is_held(const struct instance *in, enum view view, bool only_vain) {
        bool     is_seen[SHM_MAX_DEPTH] = { false };
        uint32_t n = 0;

        for (const struct wait *w = in->waits; w != NULL; w = w->next) {
                if (!counts(w, view) || (only_vain && !is_in_vain(w)))
                        continue;
                if (holds_instance(w))
                        return true;
                if (w->execution >= SHM_MAX_DEPTH || is_seen[w->execution])
                        continue;
                is_seen[w->execution] = true;
                n++;
        }
        return n >= capacity_of(in);
}

static bool has_instance(const struct model *model, enum view view, bool only_vain) {
        for (const struct instance *in = model->instances; in != NULL; in = in->next)
                if (in->waits == NULL || !is_held(in, view, only_vain))
                        return true;
        return false;
}

static bool is_free(const struct model *model, enum view view) {
        return model->instances == NULL || has_instance(model, view, false);
}

/* Sets can_serve of all models: begins with those that have a free instance, and adds those that have
 * an instance whose wait will end, until nothing changes. */
static void find_servers(struct backend *backend, enum view view) {
        bool has_changed = true;

        for (struct model *m = backend->models; m != NULL; m = m->next)
                m->can_serve = is_free(m, view);
        while (has_changed) {
                has_changed = false;
                for (struct model *m = backend->models; m != NULL; m = m->next)
                        if (!m->can_serve && has_instance(m, view, true))
                                m->can_serve = has_changed = true;
        }
}

/* Returns a model of the wait that can never serve it; NULL when there is none. */
static const struct model *find_hopeless(const struct wait *w, enum view view) {
        unsigned i = 0;

        while (i < w->n_models && is_free(w->models[i], view))
                i++;
        if (i == w->n_models)
                return NULL;
        find_servers(w->instance->model->backend, view);
        for (i = 0; i < w->n_models; i++)
                if (!w->models[i]->can_serve)
                        return w->models[i];
        return NULL;
}

/* ---- the cycle in words ---------------------------------------------------------------------- */

static const struct model *next_in_vain(const struct model *model) {
        for (const struct instance *in = model->instances; in != NULL; in = in->next)
                for (const struct wait *w = in->waits; w != NULL; w = w->next)
                        for (unsigned i = 0; counts(w, VIEW_SURE) && i < w->n_models; i++)
                                if (!w->models[i]->can_serve)
                                        return w->models[i];
        return NULL;
}

/* Prints the models from `model` on, each waiting for the next one, until one comes again. */
static void print_cycle(const struct model *first, const struct model *model,
                        struct kit_text *text) {
        const struct model *seen[MAX_NAMES + 1] = { first };
        unsigned            n = 1;

        while (model != NULL && n <= MAX_NAMES) {
                kit_text_print(text, " -> %s", model->kit.name);
                for (unsigned i = 0; i < n; i++)
                        if (seen[i] == model)
                                return;
                seen[n++] = model;
                model = next_in_vain(model);
        }
        kit_text_print(text, " -> ...");
}

/* ---- waits ----------------------------------------------------------------------------------- */

static void link_locked(struct wait *w) {
        struct instance *in = w->instance;

        w->is_linked = true;
        w->prev = NULL;
        w->next = in->waits;
        if (w->next != NULL)
                w->next->prev = w;
        in->waits = w;
}

static void unlink_locked(struct wait *w) {
        if (w->prev != NULL)
                w->prev->next = w->next;
        else
                w->instance->waits = w->next;
        if (w->next != NULL)
                w->next->prev = w->prev;
        w->is_linked = false;
}

static void set_locked(struct wait *w, enum shm_wait kind) {
        struct backend *backend = w->instance->model->backend;

        backend->n_maybe += (kind == SHM_WAIT_MAYBE) - (w->kind == SHM_WAIT_MAYBE);
        w->kind = kind;
}

/* Asks the processes of the waits that may be in vain. */
static void ask_locked(struct backend *backend) {
        for (struct model *m = backend->models; m != NULL; m = m->next)
                for (struct instance *in = m->instances; in != NULL; in = in->next)
                        for (struct wait *w = in->waits; w != NULL; w = w->next) {
                                if (w->kind != SHM_WAIT_MAYBE || w->is_asked || !is_in_vain(w))
                                        continue;
                                w->is_asked = true;
                                w->ask(w);
                        }
}

static bool change_locked(struct wait *w, enum shm_wait kind, struct kit_text *cycle) {
        struct backend     *backend = w->instance->model->backend;
        const struct model *hopeless = NULL;

        if (w->is_over)
                return true;
        set_locked(w, kind);
        if (kind > SHM_WAIT_MAYBE)
                hopeless = find_hopeless(w, VIEW_SURE);
        if (hopeless != NULL) {
                if (cycle != NULL)
                        print_cycle(w->instance->model, hopeless, cycle);
                set_locked(w, SHM_WAIT_NONE);
                return false;
        }
        if (backend->n_maybe > 0 && find_hopeless(w, VIEW_POSSIBLE) != NULL)
                ask_locked(backend);
        return true;
}

bool waits_change(struct wait *w, enum shm_wait kind, struct kit_text *cycle) {
        struct backend *backend = w->instance->model->backend;
        bool            can;

        (void)pthread_mutex_lock(&backend->lock);
        can = change_locked(w, kind, cycle);
        (void)pthread_mutex_unlock(&backend->lock);
        return can;
}

static void leave_locked(struct wait *w) {
        set_locked(w, SHM_WAIT_NONE);
        w->is_over = true;
}

void waits_leave(struct wait *w) {
        struct backend *backend = w->instance->model->backend;

        (void)pthread_mutex_lock(&backend->lock);
        leave_locked(w);
        (void)pthread_mutex_unlock(&backend->lock);
}

void waits_end(struct wait *w) {
        struct backend *backend = w->instance->model->backend;

        (void)pthread_mutex_lock(&backend->lock);
        leave_locked(w);
        if (w->is_linked)
                unlink_locked(w);
        (void)pthread_mutex_unlock(&backend->lock);
}

void waits_end_execution(struct instance *in, uint32_t execution) {
        if (atomic_load_explicit(&in->waits, memory_order_relaxed) == NULL)
                return; /* all its calls have ended, the usual case */
        (void)pthread_mutex_lock(&in->model->backend->lock);
        for (struct wait *w = in->waits; w != NULL; w = w->next)
                if (w->execution == execution)
                        leave_locked(w);
        (void)pthread_mutex_unlock(&in->model->backend->lock);
}

static bool is_known(const struct wait *w, const struct model *model) {
        for (unsigned i = 0; i < w->n_models; i++)
                if (w->models[i] == model)
                        return true;
        return false;
}

void waits_add_model(struct wait *w, const char *name) {
        struct backend *backend = w->instance->model->backend;
        struct model   *model;

        (void)pthread_mutex_lock(&backend->lock);
        for (model = backend->models; model != NULL; model = model->next)
                if (strcmp(model->kit.name, name) == 0)
                        break;
        if (model != NULL && !is_known(w, model) && w->n_models < MAX_WAITS)
                w->models[w->n_models++] = model;
        if (!w->is_linked)
                link_locked(w); /* so that it is found when the model ends */
        (void)pthread_mutex_unlock(&backend->lock);
}

void waits_forget_locked(const struct model *gone) {
        for (struct model *m = gone->backend->models; m != NULL; m = m->next)
                for (struct instance *in = m->instances; in != NULL; in = in->next)
                        for (struct wait *w = in->waits; w != NULL; w = w->next)
                                for (unsigned i = 0; i < w->n_models; i++)
                                        if (w->models[i] == gone)
                                                w->models[i--] = w->models[--w->n_models];
}
