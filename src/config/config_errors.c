/* SPDX-License-Identifier: BSD-3-Clause */
/* What a configuration that cannot be built is refused with. */
#include "config/config_edit.h"
#include "config/model_config.h"

struct error *config_out_of_memory(void) {
        static struct error no_memory = ERROR_STATIC(ERR_UNAVAILABLE, "out of memory");

        return &no_memory;
}

struct error *model_config_full(const struct arena *a) {
        static struct error full =
                ERROR_STATIC(ERR_INVALID_ARG, "model configuration is too large");

        return a->lacked_memory ? config_out_of_memory() : &full;
}
