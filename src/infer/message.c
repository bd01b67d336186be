/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/message.h"

#include "base/mem.h"
#include "codec/json_reader.h"

#include <string.h>

struct error *message_new_parsed(struct str json, struct message **ret) {
        struct json_reader reader = json_reader_of(json);
        struct message    *m;
        size_t             total;

        json_skip(&reader);
        json_read_end(&reader);
        if (json_failed(&reader))
                return json_syntax_error(&reader);

        /* One block for the struct and the text. */
        if (!size_add(json.len, sizeof(*m) + 1, &total) || (m = try_alloc(total)) == NULL)
                return error_new(ERR_UNAVAILABLE, "no memory for a message of %zu bytes", json.len);
        m->text = (char *)(m + 1);
        m->len = json.len;
        m->owned_text = NULL;
        memcpy(m->text, json.ptr, json.len);
        m->text[json.len] = '\0';
        *ret = m;
        return NULL;
}

struct error *message_new_take(struct strbuf *json, struct message **ret) {
        struct message *m;

        TRY_OR(strbuf_check(json, "a message"), strbuf_done(json));
        m = mem_alloc(sizeof(*m));
        m->len = json->len;
        m->owned_text = strbuf_take(json);
        m->text = m->owned_text;
        *ret = m;
        return NULL;
}

void message_free(struct message *m) {
        if (m == NULL)
                return;
        free(m->owned_text);
        free(m);
}
