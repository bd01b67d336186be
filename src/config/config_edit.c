/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_edit.h"

#include "base/mem.h"

void *config_edit_new(struct model_config *c, const ProtobufCMessageDescriptor *type) {
        void *message = arena_try_calloc(&c->arena, 1, type->sizeof_message);

        if (message != NULL)
                type->message_init(message);
        return message;
}

struct error *config_edit_text(struct model_config *c, char **field, const char *prefix,
                               const char *text) {
        size_t prefix_len = strlen(prefix);
        size_t text_len = strlen(text);
        size_t bytes;
        char  *joined;

        if (config_text_is_set(*field))
                return NULL;
        if (!size_add(prefix_len, text_len, &bytes) || !size_add(bytes, 1, &bytes))
                return model_config_full(&c->arena);
        joined = arena_try_alloc(&c->arena, bytes);
        if (joined == NULL)
                return model_config_full(&c->arena);
        memcpy(joined, prefix, prefix_len);
        memcpy(joined + prefix_len, text, text_len + 1);
        *field = joined;
        return NULL;
}

struct error *config_edit_set_decoupled(struct model_config *c, bool is_decoupled) {
        Inference__ModelTransactionPolicy *policy = c->pb->model_transaction_policy;

        if (policy == NULL)
                policy = config_edit_new(c, &inference__model_transaction_policy__descriptor);
        if (policy == NULL)
                return model_config_full(&c->arena);
        policy->decoupled = is_decoupled;
        c->pb->model_transaction_policy = policy;
        return NULL;
}
