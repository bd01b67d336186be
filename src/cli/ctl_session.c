/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of the `neso ctl` commands to the server, and what they have in common when they read
 * its answers (ctl_private.h). */
#include "base/file.h"
#include "cli/ctl_private.h"
#include "codec/json_find.h"
#include "codec/url.h"

#include <string.h>

#define FILE_MAX_BYTES ((size_t)1 << 30)

uint64_t ctl_timeout_ms(const struct ctl *c) {
        return MIN(c->timeout_s, UINT64_MAX / 1000) * 1000;
}

static struct error *ctl_refused(struct ctl *c, long status, struct str body) {
        struct str text = json_find_text(body, "error", &c->arena);

        c->exit_code = CTL_REFUSED;
        while (text.len > 0 && text.ptr[text.len - 1] == '\n')
                text.len--; /* a text with the reasons of several models has a line for each */
        if (text.len > 0)
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
        return reply.status == 200 ? NULL : ctl_refused(c, reply.status, *ret_body);
}

struct error *ctl_get(struct ctl *c, const char *path, struct str *ret_body) {
        return ctl_ask(c, &(struct http_question){ .path = path }, ret_body, NULL);
}

char *ctl_escape(struct ctl *c, const char *part) {
        AUTO_STRBUF out = { 0 };

        url_put_name(str_of(part), &out);
        return arena_strdup(&c->arena, strbuf_cstr(&out));
}

char *ctl_model_path(struct ctl *c, const char *tail) {
        const char *model = ctl_escape(c, c->model);

        if (c->version == NULL)
                return arena_printf(&c->arena, "/v2/models/%s%s", model, tail);
        return arena_printf(&c->arena, "/v2/models/%s/versions/%s%s", model,
                            ctl_escape(c, c->version), tail);
}

struct error *ctl_check_answer(struct ctl *c, struct str body, enum json_type type) {
        struct error *err = json_check(body, type);

        if (err == NULL)
                return NULL;
        c->exit_code = CTL_REFUSED;
        return error_wrap(err, "the server's answer cannot be understood");
}

void ctl_put_answer(struct ctl *c, struct str body) {
        strbuf_put(&c->out, body.ptr, body.len);
        strbuf_putc(&c->out, '\n');
}

struct error *ctl_show(struct ctl *c, const char *path,
                       void (*print)(struct ctl *c, struct str body)) {
        struct str body;

        TRY(ctl_get(c, path, &body));
        if (c->is_json) {
                ctl_put_answer(c, body);
                return NULL;
        }
        TRY(ctl_check_answer(c, body, JSON_OBJECT));
        print(c, body);
        return NULL;
}

struct error *ctl_read_file(struct ctl *c, const char *path, struct str *ret) {
        AUTO_STRBUF bytes = { .max = FILE_MAX_BYTES };

        TRY(file_read(path, FILE_MAX_BYTES, &bytes));
        *ret = str_range(arena_str(&c->arena, strbuf_str(&bytes)), bytes.len);
        return NULL;
}
