/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of one warm-up input.
 */
#pragma once

#include "base/error.h"
#include "config/model_config.h"

#include <stddef.h>

struct warmup_bytes {
        char  *bytes; /* owned */
        size_t n;
};

/* `name` is the input's, for messages. Files are read beneath <model>/warmup. */
struct error *warmup_input_read(const Inference__ModelWarmup__Input *input, const char *name,
                                const char *model_directory, struct warmup_bytes *ret) NODISCARD;
