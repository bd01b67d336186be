/* SPDX-License-Identifier: BSD-3-Clause */
#include "openai/openai_prompt.h"

#include <string.h>

#define MEMBER ",\"endpoint\":\""
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static const char *endpoint_name(enum openai_endpoint endpoint) {
        switch (endpoint) {
        case OPENAI_CHAT: return "chat";
        case OPENAI_COMPLETIONS: return "completion";
        case OPENAI_EMBEDDINGS: break;
        }
        return "embedding";
}

size_t openai_prompt_measure(const struct openai_request *q) {
        return q->body.len + sizeof(MEMBER "completion\"}");
}

/* The text up to the closing brace. */
static struct str open_object(struct str body) {
        if (str_starts(body, STR_LIT(BYTE_ORDER_MARK)))
                body = str_skip(body, 3);
        while (body.len > 0 && body.ptr[body.len - 1] != '}')
                body.len--;
        body.len -= body.len > 0;
        return body;
}

static char *append(char *at, const char *bytes, size_t len) {
        memcpy(at, bytes, len);
        return at + len;
}

struct str openai_prompt_print(const struct openai_request *q, char *memory) {
        const char *name = endpoint_name(q->endpoint);
        struct str  object = open_object(q->body);
        char       *at = append(memory, object.ptr, object.len);

        at = append(at, MEMBER, strlen(MEMBER));
        at = append(at, name, strlen(name));
        at = append(at, "\"}", 2);
        return str_range(memory, (size_t)(at - memory));
}
