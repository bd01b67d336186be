/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_settings.h"

#include "base/random.h"

#include <stdio.h>

/* Odd, so that the products of different counts differ. */
#define ID_STEP UINT64_C(0x9e3779b97f4a7c15)

struct error *openai_settings_init(struct openai_settings *s) {
        *s = (struct openai_settings){ .lora_separator = "" };
        return random_fill(&s->id_base, sizeof(s->id_base));
}

void openai_settings_next_id(struct openai_settings *s, enum openai_endpoint endpoint,
                             char ret[OPENAI_ID_BYTES]) {
        static const char *const prefixes[] = {
                [OPENAI_CHAT] = "chatcmpl",
                [OPENAI_COMPLETIONS] = "cmpl",
                [OPENAI_EMBEDDINGS] = "embd",
        };
        uint64_t n = atomic_fetch_add_explicit(&s->n_ids, 1, memory_order_relaxed);

        snprintf(ret, OPENAI_ID_BYTES, "%s-%016llx", prefixes[endpoint],
                 (unsigned long long)(s->id_base + n * ID_STEP));
}
