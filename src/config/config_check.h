/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of configurations, with the reference server's error texts.
 *
 * All errors are INVALID_ARG. The functions are separate because they run at different points of a
 * load, and clients see the difference: a failure of the first two stops the poll of the model
 * ("failed to poll from model repository"), one of the others makes the version UNAVAILABLE with
 * the text as its reason. Source: model configuration, validation.
 *
 * Threads.  Pure functions.
 */
#pragma once

#include "config/model_config.h"

/* To be called after model_config_normalize(). Checks name, platform and backend, version policy,
 * batching, sequence controls, ensemble data flow, response cache, metrics. */
struct error *model_config_check(const struct model_config *c) NODISCARD;

/* The parts of model_config_check(), in its order. */
struct error *model_config_check_platform(const struct model_config *c) NODISCARD;
struct error *model_config_check_general(const struct model_config *c) NODISCARD;
struct error *model_config_check_scheduling(const struct model_config *c) NODISCARD;
struct error *model_config_check_chain(const struct model_config *c) NODISCARD;
struct error *model_config_check_cache(const struct model_config *c) NODISCARD;
struct error *model_config_check_metrics(const struct model_config *c) NODISCARD;

/* The configured name must be that of the model's directory. */
struct error *model_config_check_name(const struct model_config *c, const char *directory)
        NODISCARD;

/* Checks inputs, outputs, batch inputs and batch outputs; called after the backend has completed
 * them, or at once when auto-completion is off. */
struct error *model_config_check_io(const struct model_config *c) NODISCARD;

/* The parts of model_config_check_io(): one tensor, by its index, and the fields that refer to
 * tensors. */
struct error *model_config_check_input(const struct model_config *c, size_t i) NODISCARD;
struct error *model_config_check_output(const struct model_config *c, size_t i) NODISCARD;
struct error *model_config_check_batch_io(const struct model_config *c) NODISCARD;

/* To be called after model_config_normalize_groups(), with the same devices. */
struct config_devices;
struct error *model_config_check_groups(const struct model_config   *c,
                                        const struct config_devices *devices) NODISCARD;

/* Checks the implicit state of sequences, as far as that needs no files of initial_state; the
 * instance groups must be normalised. */
struct error *model_config_check_states(const struct model_config *c) NODISCARD;

/* Checks warm-up samples, as far as that needs no files of theirs. */
struct error *model_config_check_warmup(const struct model_config *c) NODISCARD;

/* The name of an enum's value; "<unknown>" for a number without one. */
const char *check_enum_name(const ProtobufCEnumDescriptor *type, int value);
