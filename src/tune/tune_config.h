/* SPDX-License-Identifier: BSD-3-Clause */
/* A model's configuration as JSON, as the server gives it: what a search may change of it, and the same with the
 * settings of a point in their places. Everything else is copied as it is.
 *
 * Ownership.  Text is appended to the caller's strbuf.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "tune/tune_space.h"

#include <stdint.h>

/* What the options of a search bound. */
struct tune_bounds {
        uint64_t max_instances, max_threads, max_delay_us;
};

/* INVALID_ARG when the text is no configuration. */
struct error *tune_config_read(struct str config, const struct tune_bounds *b,
                               struct tune_limits *ret) NODISCARD;
void tune_config_put(struct str config, const struct tune_space *s, const struct tune_point *p,
                     struct strbuf *out);
/* The lines of config.pbtxt that the point changes. */
void tune_config_put_lines(struct str config, const struct tune_space *s,
                           const struct tune_point *p, struct strbuf *out);
