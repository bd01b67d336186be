/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_members.h"

#include "codec/json_reader.h"

static struct error *check_text(struct str body) {
        struct json_reader r;

        json_reader_init(&r, body);
        json_skip(&r);
        json_read_end(&r);
        return json_failed(&r) ? json_syntax_error(&r) : NULL;
}

struct error *http_members_read_nested(struct json_reader *r, struct arena *arena,
                                       http_member_fn read, void *owner) {
        struct error *err = NULL;
        struct str    key;

        if (!json_try_enter(r, JSON_OBJECT))
                return error_new_text(ERR_INVALID_ARG, "attempt to get members for non-object");
        while (err == NULL && json_next_key(r, arena, &key))
                err = read(owner, r, key);
        if (!json_failed(r))
                return err;
        error_free(err);
        return json_syntax_error(r);
}

struct error *http_members_read_lenient(struct str body, struct arena *arena, http_member_fn read,
                                        void *owner) {
        struct json_reader r;

        TRY(check_text(body));
        json_reader_init(&r, body);
        return json_peek(&r) == JSON_OBJECT ? http_members_read_nested(&r, arena, read, owner)
                                            : NULL;
}

struct error *http_members_read(struct str body, struct arena *arena, http_member_fn read,
                                void *owner) {
        struct json_reader r;

        TRY(check_text(body));
        json_reader_init(&r, body);
        return http_members_read_nested(&r, arena, read, owner);
}

struct error *http_members_read_text(struct json_reader *r, struct arena *arena, struct str *ret) {
        if (json_peek(r) != JSON_STRING)
                return error_new_text(ERR_INVALID_ARG,
                                      "attempt to access JSON non-string as string");
        *ret = json_read_string(r, arena);
        return NULL;
}
