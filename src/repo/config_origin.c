/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/config_origin.h"

#include "base/mem.h"

#include <string.h>

static const char *text_of(const char *text) {
        return text != NULL ? text : "";
}

static bool has_entry(const struct model_config                     *own,
                      const Inference__ModelConfig__ParametersEntry *wanted) {
        const char *value = wanted->value != NULL ? text_of(wanted->value->string_value) : "";

        for (size_t i = 0; own != NULL && i < own->pb->n_parameters; i++) {
                const Inference__ModelConfig__ParametersEntry *e = own->pb->parameters[i];

                if (config_text_is(e->key, wanted->key) && e->value != NULL &&
                    strcmp(text_of(e->value->string_value), value) == 0)
                        return true;
        }
        return false;
}

void config_origin_compare(const struct model_config *given, const struct model_config *own,
                           struct config_origin *ret) {
        const Inference__ModelConfig *pb = given->pb;

        *ret = (struct config_origin){
                .sent = mem_zalloc((pb->n_parameters + 1) * sizeof(*ret->sent)),
                .has_sent_runtime = config_text_is_set(pb->runtime) &&
                                    (own == NULL || !config_text_is(own->pb->runtime, pb->runtime)),
        };
        for (size_t i = 0; i < pb->n_parameters; i++)
                if (!has_entry(own, pb->parameters[i]))
                        ret->sent[ret->n_sent++] = mem_strdup(text_of(pb->parameters[i]->key));
}

void config_origin_copy(const struct config_origin *from, struct config_origin *ret) {
        *ret = (struct config_origin){ .sent = mem_zalloc((from->n_sent + 1) * sizeof(*ret->sent)),
                                       .n_sent = from->n_sent,
                                       .has_sent_runtime = from->has_sent_runtime };
        for (size_t i = 0; i < from->n_sent; i++)
                ret->sent[i] = mem_strdup(from->sent[i]);
}

bool config_origin_is_sent(const struct config_origin *o, const char *parameter) {
        for (size_t i = 0; i < o->n_sent; i++)
                if (strcmp(o->sent[i], parameter) == 0)
                        return true;
        return false;
}

void config_origin_done(struct config_origin *o) {
        for (size_t i = 0; i < o->n_sent; i++)
                free(o->sent[i]);
        free(o->sent);
        *o = (struct config_origin){ 0 };
}
