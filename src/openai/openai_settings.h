/* SPDX-License-Identifier: BSD-3-Clause */
/* What all requests of the OpenAI API share: the options of the command line, the metrics, and the ids of
 * answers.
 *
 * Ownership.  Embedded in the program's state, which outlives the server. Metrics are borrowed.
 * Threads.  Filled before the server starts; openai_settings_next_id(): any.
 */
#pragma once

#include "base/error.h"
#include "openai/openai_request.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct openai_metrics;

struct openai_settings {
        bool                   lists_all;      /* --openai-list-all */
        uint32_t               max_choices;    /* --openai-max-choices */
        uint64_t               heartbeat_ns;   /* --openai-heartbeat-ms; 0 = none */
        uint64_t               request_ns;     /* --openai-request-timeout-ms; 0 = no limit */
        uint64_t               template_ns;    /* --openai-template-timeout-ms; 0 = no limit */
        struct openai_metrics *metrics;        /* borrowed; NULL = not measured */
        const char            *lora_separator; /* borrowed: --openai-lora-separator; "" = none */
        bool                   may_load;       /* --model-control-mode=explicit */
        uint64_t               id_base;
        _Atomic uint64_t       n_ids;
};

#define OPENAI_ID_BYTES 32

/* Draws the base of the ids; the caller sets the other fields. */
struct error *openai_settings_init(struct openai_settings *s) NODISCARD;
/* Writes an id that no other answer of this process has: "chatcmpl-0123456789abcdef". */
void openai_settings_next_id(struct openai_settings *s, enum openai_endpoint endpoint,
                             char ret[OPENAI_ID_BYTES]);
