/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/waits.h"

#include "kit/text.h"

#include <string.h>

#define MAX_NAMES 8 /* of a cycle in a message */

static bool waits_in_vain(const struct instance *in) {
        for (unsigned i = 0; i < in->n_waits_for; i++)
                if (!in->waits_for[i]->can_serve)
                        return true;
        return false;
}

static bool has_free_instance(const struct model *model) {
        for (const struct instance *in = model->instances; in != NULL; in = in->next)
                if (in->n_waits_for == 0)
                        return true;
        return model->instances == NULL;
}

static bool has_useful_instance(const struct model *model) {
        for (const struct instance *in = model->instances; in != NULL; in = in->next)
                if (!waits_in_vain(in))
                        return true;
        return false;
}

/* Sets can_serve of all models: begins with those that have a free instance, and adds those that have
 * an instance whose wait will end, until nothing changes. */
static void find_servers(struct backend *backend) {
        bool has_changed = true;

        for (struct model *m = backend->models; m != NULL; m = m->next)
                m->can_serve = has_free_instance(m);
        while (has_changed) {
                has_changed = false;
                for (struct model *m = backend->models; m != NULL; m = m->next)
                        if (!m->can_serve && has_useful_instance(m))
                                m->can_serve = has_changed = true;
        }
}

static const struct model *next_in_vain(const struct model *model) {
        for (unsigned i = 0; i < model->instances->n_waits_for; i++)
                if (!model->instances->waits_for[i]->can_serve)
                        return model->instances->waits_for[i];
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

static bool is_known(const struct instance *in, const struct model *model) {
        for (unsigned i = 0; i < in->n_waits_for; i++)
                if (in->waits_for[i] == model)
                        return true;
        return false;
}

static bool add_locked(struct instance *in, struct model *model, struct kit_text *cycle) {
        if (is_known(in, model) || in->n_waits_for == MAX_WAITS)
                return true;
        in->waits_for[in->n_waits_for++] = model;
        if (has_free_instance(model))
                return true;
        find_servers(in->model->backend);
        if (model->can_serve)
                return true;
        if (cycle != NULL)
                print_cycle(in->model, model, cycle);
        in->n_waits_for--;
        return false;
}

bool waits_begin(struct instance *in, const char *name, struct kit_text *cycle) {
        struct backend *backend = in->model->backend;
        struct model   *model;
        bool            can;

        (void)pthread_mutex_lock(&backend->lock);
        for (model = backend->models; model != NULL; model = model->next)
                if (strcmp(model->kit.name, name) == 0)
                        break;
        can = model == NULL || add_locked(in, model, cycle);
        (void)pthread_mutex_unlock(&backend->lock);
        return can;
}

void waits_end(struct instance *in) {
        (void)pthread_mutex_lock(&in->model->backend->lock);
        in->n_waits_for = 0;
        (void)pthread_mutex_unlock(&in->model->backend->lock);
}

void waits_forget_locked(const struct model *gone) {
        for (struct model *m = gone->backend->models; m != NULL; m = m->next)
                for (struct instance *in = m->instances; in != NULL; in = in->next)
                        for (unsigned i = 0; i < in->n_waits_for; i++)
                                if (in->waits_for[i] == gone)
                                        in->waits_for[i--] = in->waits_for[--in->n_waits_for];
}
