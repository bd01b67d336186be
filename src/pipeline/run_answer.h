/* SPDX-License-Identifier: BSD-3-Clause */
/* Labels of cached answers. The rest of run_answer.c is in run_private.h.
 *
 * Threads.  Any.
 */
#pragma once

struct request;
struct response;
struct step_models;

/* Sets the labels of all outputs of a cached answer of an ensemble. */
void run_answer_label_all(const struct request *req, struct response *r,
                          const struct step_models *models);
