/* SPDX-License-Identifier: BSD-3-Clause */
/* Control inputs: they show a backend where a request is in its sequence (model configuration,
 * sequence_batching.control_input). Each is an input of shape [1], or [1, 1] where the model batches,
 * that the server adds for an execution:
 *
 *     START, END, READY   the configured value for true or false, as INT32, FP32 or BOOL
 *     CORRID              the correlation id, as UINT64, INT64, UINT32, INT32 or STRING
 *
 * The server adds them directly before the execution, after the request's own inputs. It removes them
 * when the request is released, so that the front end gets the request back unchanged.
 *
 * Ownership.  The caller owns the memory (`room`) of a set of controls. The request borrows it while
 * they are attached. Names and values are borrowed from the model's configuration.
 * Threads.  Immutable after sequence_controls_new(). A room has one owner at a time.
 */
#pragma once

#include "base/error.h"
#include "infer/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;
struct sequence;
struct sequence_controls;

/* Reads the controls from a checked configuration. INVALID_ARG when one of them is an input of the
 * model. */
struct error *sequence_controls_new(const char *model, const struct model_config *config,
                                    struct sequence_controls **ret) NODISCARD;
void          sequence_controls_free(struct sequence_controls *c); /* NULL is fine */

/* INVALID_ARG when the request's id is a text and the control for it a number, or the reverse. */
struct error *sequence_controls_check(const struct sequence_controls *c, const struct request *req)
        NODISCARD;

/* Size of the memory for one request's controls; the memory is aligned to 16 bytes. */
size_t sequence_controls_room(const struct sequence_controls *c);
void   sequence_controls_init_room(const struct sequence_controls *c, void *room);

/* Attaches the controls for the request's flags and its sequence; NULL: a null request. The room
 * must not be attached to any request. */
void sequence_controls_attach(const struct sequence_controls *c, void *room, struct request *req,
                              const struct sequence *seq);
/* Does nothing when they are not attached. */
void sequence_controls_detach(const struct sequence_controls *c, void *room, struct request *req);
