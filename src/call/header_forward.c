/* SPDX-License-Identifier: BSD-3-Clause */
#include "call/header_forward.h"

#include <string.h>
#include <strings.h>

struct error *header_forward_init(struct header_forward *f, const char *pattern) {
        char reason[256]; /* regerror() truncates; none of its texts is longer */
        int  failure;

        f->has_pattern = false;
        if (pattern == NULL || pattern[0] == '\0')
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

void header_forward_done(struct header_forward *f) {
        if (f->has_pattern)
                regfree(&f->pattern);
        f->has_pattern = false;
}

/* Names of parameters that have a meaning of their own. */
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

struct error *header_forward_add(const struct header_forward *f, struct str name, struct str value,
                                 struct arena *arena, struct infer_request *q) {
        struct infer_parameter *p;
        char                   *name_text, *value_text;

        if (!f->has_pattern)
                return NULL;
        name_text = arena_try_str(arena, name);
        if (name_text == NULL)
                return infer_no_memory();
        if (regexec(&f->pattern, name_text, 0, NULL, 0) != 0)
                return NULL;
        if (is_reserved(name_text))
                return error_new(
                        ERR_INVALID_ARG,
                        "Header '%s' is reserved for Triton usage and cannot be forwarded.",
                        name_text);
        value_text = arena_try_str(arena, value);
        if (value_text == NULL)
                return infer_no_memory();
        TRY(infer_request_add_parameter(q, arena, &p));
        p->name = name_text;
        p->type = TRITONSERVER_PARAMETER_STRING;
        p->value.text = value_text;
        return NULL;
}
