/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/waits.h"

#include <string.h>

#define MAX_CHAIN 64 /* limit of the models on a path; a call on a longer path is permitted */

static bool can_serve(const struct model *model, const struct model **chain, unsigned n) {
        if (n == MAX_CHAIN || model->instances == NULL)
                return true;
        for (unsigned i = 0; i < n; i++)
                if (chain[i] == model)
                        return false;
        chain[n] = model;
        for (const struct instance *in = model->instances; in != NULL; in = in->next)
                if (in->waits_for == NULL || can_serve(in->waits_for, chain, n + 1))
                        return true;
        return false;
}

bool waits_begin(struct instance *in, const char *name) {
        struct backend     *backend = in->model->backend;
        const struct model *chain[MAX_CHAIN];
        struct model       *model;
        bool                can;

        (void)pthread_mutex_lock(&backend->lock);
        for (model = backend->models; model != NULL; model = model->next)
                if (strcmp(model->kit.name, name) == 0)
                        break;
        in->waits_for = model;
        can = model == NULL || can_serve(model, chain, 0);
        if (!can)
                in->waits_for = NULL;
        (void)pthread_mutex_unlock(&backend->lock);
        return can;
}

void waits_end(struct instance *in) {
        (void)pthread_mutex_lock(&in->model->backend->lock);
        in->waits_for = NULL;
        (void)pthread_mutex_unlock(&in->model->backend->lock);
}
