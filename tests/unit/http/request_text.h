/* SPDX-License-Identifier: BSD-3-Clause */
/* A decoded infer request as text. Every byte is looked at, so a sanitizer sees all of it; what
 * lies in the body is told by its place there.
 */
#pragma once

#include "base/strbuf.h"
#include "call/infer_message.h"

#include <inttypes.h>

static inline void print_place(struct strbuf *out, const struct infer_shared_memory *place) {
        if (place->region != NULL)
                strbuf_printf(out, " in %s %" PRIu64 "+%" PRIu64, place->region, place->offset,
                              place->byte_size);
        strbuf_putc(out, '\n');
}

static inline void print_parameter(struct strbuf *out, const struct infer_parameter *p) {
        strbuf_printf(out, "parameter %s ", p->name);
        switch (p->type) {
        case TRITONSERVER_PARAMETER_STRING: strbuf_printf(out, "'%s'\n", p->value.text); break;
        case TRITONSERVER_PARAMETER_INT:
                strbuf_printf(out, "%" PRId64 "\n", p->value.integer);
                break;
        case TRITONSERVER_PARAMETER_BOOL: strbuf_printf(out, "%d\n", p->value.boolean); break;
        default: strbuf_printf(out, "%a\n", p->value.real); break;
        }
}

static inline void print_bytes(struct strbuf *out, struct str body, struct str bytes) {
        size_t at = (uintptr_t)bytes.ptr - (uintptr_t)body.ptr;

        if (at < body.len)
                strbuf_printf(out, " at %zu", at);
        for (size_t i = 0; i < bytes.len; i++)
                strbuf_printf(out, " %02x", (unsigned char)bytes.ptr[i]);
}

static inline void print_input(struct strbuf *out, struct str body, const struct infer_input *in) {
        strbuf_printf(out, "input %s %s %d [", in->name, in->datatype_name, (int)in->datatype);
        for (uint32_t i = 0; i < in->n_dims; i++)
                strbuf_printf(out, " %" PRId64, in->shape[i]);
        strbuf_puts(out, " ]");
        print_bytes(out, body, in->bytes);
        print_place(out, &in->shared_memory);
}

static inline void print_output(struct strbuf *out, const struct infer_requested_output *o) {
        strbuf_printf(out, "output %s binary %d classes %u", o->name, o->is_binary, o->n_classes);
        print_place(out, &o->shared_memory);
}

static inline void request_text_print(struct strbuf *out, struct str body,
                                      const struct infer_request *q) {
        strbuf_printf(out, "id '%s' flags %u priority %" PRIu64 " timeout %" PRIu64, q->id,
                      q->flags, q->priority, q->timeout_us);
        strbuf_printf(out, " sequence %" PRIu64 " '%s' binary %d raw %d", q->sequence_id,
                      q->sequence_name != NULL ? q->sequence_name : "", q->is_binary_by_default,
                      q->is_raw);
        print_bytes(out, body, q->raw);
        strbuf_putc(out, '\n');
        for (uint32_t i = 0; i < q->n_parameters; i++)
                print_parameter(out, &q->parameters[i]);
        for (uint32_t i = 0; i < q->n_inputs; i++)
                print_input(out, body, &q->inputs[i]);
        for (uint32_t i = 0; i < q->n_outputs; i++)
                print_output(out, &q->outputs[i]);
}
