/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameters session.<...> and optimization.<...> of a model configuration: entries of the
 * runtime's session options.
 *
 * Some entries name a file that the runtime writes or reads, so that they are in a table:
 *
 *     entry             from config.pbtxt                          from the configuration of a load
 *     harmless          passed on                                  passed on
 *     names a file      within the model's directory; anywhere     refused
 *                       with allow-file-options
 *     has other effects with allow-file-options                    refused
 *     unknown           passed on                                  refused
 *
 * A load's configuration may repeat what config.pbtxt has. With --allow-uploaded-backends=true it is
 * treated as config.pbtxt is.
 *
 * Threads.  Any.
 */
#pragma once

#include "kit/model.h"
#include "onnxruntime/ort.h"

/* The error names the model and the entry. */
TRITONSERVER_Error *session_entries_set(const struct ort *ort, const struct kit_model *model,
                                        OrtSessionOptions *options);
