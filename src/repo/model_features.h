/* SPDX-License-Identifier: BSD-3-Clause */
/* Features that a configuration may ask for and this build lacks: refused, never ignored.
 */
#pragma once

#include "base/error.h"

struct model_config;

/* UNSUPPORTED names the first one. What works without the feature (a response cache that the
 * server was not given, a rate limiter that is off) is let through, as the reference does. */
struct error *model_features_check(const struct model_config *config) NODISCARD;
