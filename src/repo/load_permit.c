/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_permit.h"

#include "base/str.h"
#include "config/config_edit.h"
#include "config/model_config.h"
#include "repo/label_list.h"
#include "repo/load_failure.h"
#include "repo/model_needs.h"

static bool grants(const struct load_permit *p, const char *model) {
        return p->grants == NULL || p->grants(model, p->userp);
}

struct error *load_permit_check_config(const struct load_permit *p, const char *model,
                                       const char *config_json) {
        AUTO_MODEL_CONFIG  config = NULL;
        struct model_needs needs;
        struct error      *err = NULL;

        if (p->grants == NULL)
                return NULL;
        TRY(error_wrap(model_config_read_json(str_of(config_json), &config),
                       "Invalid config override"));
        if (!config_text_is_set(config->pb->name))
                TRY(config_edit_text(config, &config->pb->name, "", model));
        TRY(model_needs_read(config, &needs));
        for (size_t i = 0; i < needs.n && err == NULL; i++)
                if (!grants(p, needs.items[i].name))
                        err = load_failure(model,
                                           error_new(ERR_INVALID_ARG,
                                                     "it would use model '%s', to which the caller "
                                                     "has no right\n",
                                                     needs.items[i].name));
        model_needs_done(&needs);
        return err;
}

struct error *load_permit_check_unload(const struct load_permit *p, const char *model,
                                       const struct label_list *names) {
        for (size_t i = 0; i < names->n; i++)
                if (!grants(p, names->items[i]))
                        return error_new(
                                ERR_INVALID_ARG,
                                "failed to unload '%s' with its dependents: the caller has "
                                "no right to model '%s'",
                                model, names->items[i]);
        return NULL;
}
