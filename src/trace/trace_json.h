/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a record as elements of a trace file's array.
 *
 *     {"id":1,"model_name":"m","model_version":1,"request_id":"r","parent_id":7},
 *     {"id":1,"timestamps":[{"name":"HTTP_RECV_START","ns":123}]},
 *     {"id":1,"activity":"TENSOR_QUEUE_INPUT",
 *      "tensor":{"name":"IN","data":"1,2","shape":"1,2","dtype":"INT32"}}
 *
 * "request_id" and "parent_id" are printed only when there is one. Points of the front end have the
 * id of the request's own inference. A point that a backend defines has "activity" beside its name.
 * A tensor that was too large for the record has "omitted_bytes" and no data.
 *
 * Threads.  One owner at a time.
 */
#pragma once

#include "base/strbuf.h"

struct trace_record;

/* Prints the elements with commas between them, without the brackets. Prints nothing when the
 * record is empty. */
void trace_json_print(const struct trace_record *r, struct strbuf *out);
