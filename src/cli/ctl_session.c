/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the `neso ctl` commands to the server, and what they have in common when they read
 * its answers (ctl_private.h). */
#include "base/file.h"
#include "base/mem.h"
#include "cli/ctl_private.h"

#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 30)

/* Reads {"error": "..."}; ptr NULL when the body is something else. */
static struct str read_refusal(struct ctl *c, struct str body) {
        struct json_reader r;
        struct str         key, text = { NULL, 0 };

        json_reader_init(&r, body);
        if (!json_try_enter(&r, JSON_OBJECT))
                return text;
        while (json_next_key(&r, &c->arena, &key)) {
                if (str_is(key, "error") && json_peek(&r) == JSON_STRING)
                        text = json_read_string(&r, &c->arena);
                else
                        json_skip(&r);
        }
        return text;
}

static struct error *refused(struct ctl *c, long status, struct str body) {
        struct str text = read_refusal(c, body);

        c->exit_code = CTL_REFUSED;
        while (text.len > 0 && text.ptr[text.len - 1] == '\n')
                text.len--; /* a text with the reasons of several models has a line for each */
        if (text.ptr != NULL)
                return error_new(ERR_INVALID_ARG, "%.*s", STR_ARG(text));
        return error_new(ERR_INVALID_ARG, "the server answered with HTTP status %ld", status);
}

struct error *ctl_ask(struct ctl *c, const struct http_question *q, struct str *ret_body,
                      size_t *ret_header_length) {
        struct http_reply reply;
        struct error     *err;

        if (c->client == NULL)
                err = http_client_new(&c->http, &c->client);
        else
                err = NULL;
        if (err == NULL)
                err = http_client_ask(c->client, q, &reply);
        if (err != NULL) {
                c->exit_code = err->code == ERR_INVALID_ARG ? CTL_USAGE : CTL_UNREACHABLE;
                return err;
        }
        *ret_body = str_range(arena_str(&c->arena, strbuf_str(&reply.body)), reply.body.len);
        if (ret_header_length != NULL)
                *ret_header_length = reply.header_length;
        http_reply_done(&reply);
        return reply.status == 200 ? NULL : refused(c, reply.status, *ret_body);
}

struct error *ctl_get(struct ctl *c, const char *path, struct str *ret_body) {
        return ctl_ask(c, &(struct http_question){ .path = path }, ret_body, NULL);
}

/* A name with non-ASCII characters is percent-encoded as a whole. In any other name a '%' stands
 * for itself. */
char *ctl_escape(struct ctl *c, const char *part) {
        const char *escaped = str_is_plain(str_of(part)) ? "#?/" : "#?/%";
        AUTO_STRBUF out = { 0 };

        strbuf_init(&out, 0);
        for (; *part != '\0'; part++) {
                unsigned char b = (unsigned char)*part;

                if (b > ' ' && b < 0x7f && strchr(escaped, b) == NULL)
                        strbuf_putc(&out, (char)b);
                else
                        strbuf_printf(&out, "%%%02X", b);
        }
        return arena_strdup(&c->arena, strbuf_cstr(&out));
}

char *ctl_model_path(struct ctl *c, const char *tail) {
        const char *model = ctl_escape(c, c->model);

        if (c->version == NULL)
                return arena_printf(&c->arena, "/v2/models/%s%s", model, tail);
        return arena_printf(&c->arena, "/v2/models/%s/versions/%s%s", model,
                            ctl_escape(c, c->version), tail);
}

struct error *ctl_bad_answer(struct ctl *c, const struct json_reader *r) {
        c->exit_code = CTL_REFUSED;
        return error_new(ERR_INTERNAL, "the server's answer cannot be understood: %s at %zu",
                         json_failed(r) ? json_error_text(r) : "something unexpected",
                         json_failed(r) ? json_error_offset(r) : (size_t)(r->at - r->begin));
}

void ctl_put_answer(struct ctl *c, struct str body) {
        strbuf_put(&c->out, body.ptr, body.len);
        strbuf_putc(&c->out, '\n');
}

uint64_t ctl_read_count(struct json_reader *r) {
        if (json_peek(r) == JSON_NUMBER)
                return json_read_number(r).magnitude;
        json_skip(r);
        return 0;
}

struct error *ctl_print_member(struct ctl *c, const char *path, const char *name,
                               void (*print)(struct ctl *c, struct json_reader *r)) {
        struct json_reader r;
        struct str         body, key;

        TRY(ctl_get(c, path, &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        json_reader_init(&r, body);
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                if (str_is(key, name))
                        print(c, &r);
                else
                        json_skip(&r);
        }
        json_read_end(&r);
        return json_failed(&r) ? ctl_bad_answer(c, &r) : NULL;
}

struct error *ctl_read_file(struct ctl *c, const char *path, struct str *ret) {
        AUTO_STRBUF bytes = { 0 };

        strbuf_init(&bytes, FILE_MAX_BYTES);
        TRY(file_read(path, FILE_MAX_BYTES, &bytes));
        *ret = str_range(arena_str(&c->arena, strbuf_str(&bytes)), bytes.len);
        return NULL;
}
