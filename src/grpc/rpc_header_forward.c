/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/rpc_header_forward.h"

#include <string.h>
#include <strings.h>

struct error *rpc_header_forward_init(struct rpc_header_forward *f, const char *pattern) {
        char reason[256]; /* regerror() cuts, and no text of it is longer */
        int  failure;

        f->has_pattern = false;
        if (!pattern || pattern[0] == '\0')
                return NULL;
        failure = regcomp(&f->pattern, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
        if (failure != 0) {
                regerror(failure, &f->pattern, reason, sizeof(reason));
                return error_new(ERR_INVALID_ARG, "invalid header forward pattern '%s': %s",
                                 pattern, reason);
        }
        f->has_pattern = true;
        return NULL;
}

void rpc_header_forward_done(struct rpc_header_forward *f) {
        if (f->has_pattern)
                regfree(&f->pattern);
        f->has_pattern = false;
}

/* Names that mean something else among the parameters. */
static bool is_reserved(const char *name) {
        static const char *const reserved[] = {
                "sequence_id", "sequence_start", "sequence_end",       "priority",
                "timeout",     "headers",        "binary_data_output",
        };

        for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
                if (strcasecmp(name, reserved[i]) == 0)
                        return true;
        return strncasecmp(name, "triton_", strlen("triton_")) == 0;
}

static char *copy_text(struct arena *arena, struct str text) {
        char *copy = arena_try_alloc(arena, text.len + 1);

        if (!copy)
                return NULL;
        if (text.len > 0)
                memcpy(copy, text.ptr, text.len);
        copy[text.len] = '\0';
        return copy;
}

static struct error *add_entry(const struct rpc_header_forward *f,
                               const struct grpc_metadata *entry, struct arena *arena,
                               struct infer_request *q) {
        struct infer_parameter *p;
        char                   *name = copy_text(arena, entry->name), *value;

        if (!name)
                return error_new(ERR_UNAVAILABLE, "out of memory for the request");
        if (regexec(&f->pattern, name, 0, NULL, 0) != 0)
                return NULL;
        if (is_reserved(name))
                return error_new(
                        ERR_INVALID_ARG,
                        "Header '%s' is reserved for Triton usage and cannot be forwarded.", name);
        value = copy_text(arena, entry->value);
        if (!value)
                return error_new(ERR_UNAVAILABLE, "out of memory for the request");
        TRY(infer_request_add_parameter(q, arena, &p));
        p->name = name;
        p->type = TRITONSERVER_PARAMETER_STRING;
        p->value.text = value;
        return NULL;
}

struct error *rpc_header_forward_add(const struct rpc_header_forward *f,
                                     const struct grpc_call *call, struct arena *arena,
                                     struct infer_request *q) {
        if (!f->has_pattern)
                return NULL;
        for (size_t i = 0; i < call->n_metadata; i++)
                TRY(add_entry(f, &call->metadata[i], arena, q));
        return NULL;
}
