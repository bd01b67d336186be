/* SPDX-License-Identifier: BSD-3-Clause */
/* Refuses configurations that cannot work, with the reference server's texts.
 *
 * All errors are INVALID_ARG. The functions are separate because they run at different moments
 * of a load, and a client sees the difference: a failure of the first two stops the poll of the
 * model ("failed to poll from model repository"), one of the others makes the version
 * UNAVAILABLE with the text as its reason. Source: model configuration, validation.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/model_config.h"

/* After model_config_normalize(): name, platform and backend, version policy, batching,
 * sequence controls, ensemble data flow, response cache, metrics. */
struct error *model_config_check(const struct model_config *c) NODISCARD;

/* The parts of it, in its order. */
struct error *model_config_check_platform(const struct model_config *c) NODISCARD;
struct error *model_config_check_general(const struct model_config *c) NODISCARD;
struct error *model_config_check_scheduling(const struct model_config *c) NODISCARD;
struct error *model_config_check_chain(const struct model_config *c) NODISCARD;
struct error *model_config_check_cache(const struct model_config *c) NODISCARD;
struct error *model_config_check_metrics(const struct model_config *c) NODISCARD;

/* The configured name must be that of the model's directory. */
struct error *model_config_check_name(const struct model_config *c, const char *directory)
        NODISCARD;

/* Inputs, outputs, batch inputs and batch outputs; once the backend has completed them, or at
 * once when auto-completion is off. */
struct error *model_config_check_io(const struct model_config *c) NODISCARD;

/* The parts of the above: one tensor, by its index, and what refers to them. */
struct error *model_config_check_input(const struct model_config *c, size_t i) NODISCARD;
struct error *model_config_check_output(const struct model_config *c, size_t i) NODISCARD;
struct error *model_config_check_batch_io(const struct model_config *c) NODISCARD;

/* After model_config_normalize_groups(). */
struct error *model_config_check_groups(const struct model_config *c, size_t n_gpus) NODISCARD;

/* Implicit state of sequences, as far as it can be told without the files of initial_state; the
 * instance groups must be normalised. */
struct error *model_config_check_states(const struct model_config *c) NODISCARD;

/* Warm-up samples, as far as it can be told without their files. */
struct error *model_config_check_warmup(const struct model_config *c) NODISCARD;

/* The name of an enum's value; "<unknown>" for a number without one. */
const char *check_enum_name(const ProtobufCEnumDescriptor *type, int value);
