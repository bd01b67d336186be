/* SPDX-License-Identifier: BSD-3-Clause */
/* Signs and sends requests to a store, as the server does, and prints what comes: one line of JSON for each
 * command.
 *
 *   store_probe ADDRESS COMMAND...
 *
 *     origin          {"origin": "https://host"}
 *     sign PATH       signs "GET <origin>/PATH": {"url": ..., "headers": {...}}
 *     get PATH        the same, sent; once more with other keys after 401 or 403:
 *                     {"status": 200, "body": ..., "is_renewed": false}
 *     list            the objects below the address: {"entries": [{"name", "size", "etag", "md5"}], "pages": n}
 *                     (gs:// and as:// alone)
 *     page-size N     of the following lists
 *     if-match ETAG   of the following "get"; "" ends it
 *     renew           {"is_renewed": true}
 *
 * A failure is {"error": <text>, "code": <name of the code>}.
 */
#include "base/digest.h"
#include "base/error.h"
#include "base/mem.h"
#include "codec/json_writer.h"
#include "store/list_as.h"
#include "store/list_gs.h"
#include "store/store_credentials.h"
#include "store/store_list.h"
#include "store/store_request.h"
#include "store/store_url.h"

#include <stdio.h>

#define MAX_PAGES 1000

struct probe {
        struct store_url          url;
        struct store_credentials *credentials;
        unsigned                  page_size;
        const char               *if_match; /* borrowed; "": none */
        struct strbuf             out;
        struct json_writer        writer;
};

static struct error *begin(struct probe *p, const char *path, struct store_request *ret) {
        *ret = (struct store_request){ .method = "GET" };
        strbuf_init(&ret->url, 0);
        strbuf_printf(&ret->url, "%s/%s", store_credentials_origin(p->credentials), path);
        if (p->if_match[0] != '\0')
                store_request_add(ret, "if-match", p->if_match);
        return store_credentials_sign(p->credentials, ret);
}

static struct error *run_sign(struct probe *p, const char *path) {
        struct store_request r;
        struct error        *err = begin(p, path, &r);

        if (err == NULL) {
                json_member_string(&p->writer, "url", strbuf_cstr(&r.url));
                json_key(&p->writer, "headers");
                json_begin_object(&p->writer);
                for (size_t i = 0; i < r.n_headers; i++)
                        json_member_string(&p->writer, r.headers[i].name, r.headers[i].value);
                json_end_object(&p->writer);
        }
        store_request_done(&r);
        return err;
}

static struct error *send_once(struct probe *p, const char *path, unsigned *ret_n,
                               struct store_answer *ret) {
        struct store_request r;
        struct error        *err;

        *ret_n = store_credentials_renewals(p->credentials);
        err = begin(p, path, &r);
        if (err == NULL)
                err = store_exchange(&r, ret);
        store_request_done(&r);
        return err;
}

static struct error *send_twice(struct probe *p, const char *path, bool *ret_renewed,
                                struct store_answer *ret) {
        unsigned n;

        *ret_renewed = false;
        TRY(send_once(p, path, &n, ret));
        if (ret->status != 401 && ret->status != 403)
                return NULL;
        *ret_renewed = store_credentials_renew(p->credentials, n);
        if (!*ret_renewed)
                return NULL;
        store_answer_done(ret);
        return send_once(p, path, &n, ret);
}

static struct error *run_get(struct probe *p, const char *path) {
        struct store_answer a;
        bool                is_renewed;

        TRY(send_twice(p, path, &is_renewed, &a));
        json_member_u64(&p->writer, "status", (uint64_t)a.status);
        json_member_str(&p->writer, "body", strbuf_str(&a.body));
        json_member_bool(&p->writer, "is_renewed", is_renewed);
        store_answer_done(&a);
        return NULL;
}

/* ---- listings ------------------------------------------------------------------------------ */

static struct error *read_page(struct probe *p, struct store_list *list, struct strbuf *token) {
        const char         *origin = store_credentials_origin(p->credentials);
        bool                is_gs = p->url.kind == STORE_GS, is_renewed;
        AUTO_CHARS          before = mem_strdup(strbuf_cstr(token));
        AUTO_STRBUF         url = { .ptr = NULL };
        struct store_answer a;
        struct error       *err;

        strbuf_init(&url, 0);
        (is_gs ? list_gs_url : list_as_url)(origin, p->url.bucket, p->url.path, before,
                                            p->page_size, &url);
        TRY(send_twice(p, strbuf_cstr(&url) + strlen(origin) + 1, &is_renewed, &a));
        if (a.status != 200)
                err = error_new(ERR_UNAVAILABLE, "status %d", a.status);
        else
                err = (is_gs ? list_gs_read : list_as_read)(strbuf_str(&a.body), list, token);
        store_answer_done(&a);
        return err;
}

static void put_entries(struct probe *p, const struct store_list *list) {
        json_key(&p->writer, "entries");
        json_begin_array(&p->writer);
        for (size_t i = 0; i < list->n_entries; i++) {
                const struct store_entry *e = &list->entries[i];
                char                      md5[2 * STORE_LIST_MD5_BYTES + 1] = "";

                if (e->has_md5)
                        digest_print_hex(e->md5, sizeof(e->md5), md5);
                json_begin_object(&p->writer);
                json_member_string(&p->writer, "name", e->name);
                json_member_u64(&p->writer, "size", e->size);
                json_member_string(&p->writer, "etag", e->etag);
                json_member_string(&p->writer, "md5", md5);
                json_end_object(&p->writer);
        }
        json_end_array(&p->writer);
}

static struct error *run_list(struct probe *p) {
        struct store_list list;
        struct error     *err;
        unsigned          n = 0;
        AUTO_STRBUF       token = { .ptr = NULL };

        if (p->url.kind != STORE_GS && p->url.kind != STORE_AS)
                return error_new_text(ERR_UNSUPPORTED, "lists are for gs:// and as://");
        strbuf_init(&token, 0);
        store_list_init(&list, p->url.path);
        do {
                err = read_page(p, &list, &token);
                n++;
        } while (err == NULL && token.len > 0 && n < MAX_PAGES);
        if (err == NULL) {
                store_list_sort(&list);
                put_entries(p, &list);
                json_member_u64(&p->writer, "pages", n);
        }
        store_list_done(&list);
        return err;
}

/* ---- commands ------------------------------------------------------------------------------ */

static struct error *run_command(struct probe *p, const char *command, const char *value) {
        if (strcmp(command, "origin") == 0)
                json_member_string(&p->writer, "origin", store_credentials_origin(p->credentials));
        else if (strcmp(command, "sign") == 0)
                return run_sign(p, value);
        else if (strcmp(command, "get") == 0)
                return run_get(p, value);
        else if (strcmp(command, "list") == 0)
                return run_list(p);
        else if (strcmp(command, "page-size") == 0)
                p->page_size = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(command, "if-match") == 0)
                p->if_match = value;
        else if (strcmp(command, "renew") == 0)
                json_member_bool(&p->writer, "is_renewed",
                                 store_credentials_renew(p->credentials, store_credentials_renewals(
                                                                                 p->credentials)));
        else
                return error_new(ERR_INVALID_ARG, "unknown command '%s'", command);
        return NULL;
}

static bool has_value(const char *command) {
        static const char *const names[] = { "sign", "get", "page-size", "if-match" };

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                if (strcmp(command, names[i]) == 0)
                        return true;
        return false;
}

/* Takes the error. */
static void print_line(struct probe *p, struct error *err) {
        if (err != NULL) {
                json_member_string(&p->writer, "error", err->message);
                json_member_string(&p->writer, "code", error_code_string(err->code));
        }
        json_end_object(&p->writer);
        puts(strbuf_cstr(&p->out));
        error_free(err);
}

static void begin_line(struct probe *p) {
        strbuf_clear(&p->out);
        json_writer_init(&p->writer, &p->out);
        json_begin_object(&p->writer);
}

static struct error *open_probe(struct probe *p, const char *address) {
        TRY(store_url_parse(address, &p->url));
        return store_credentials_open(&p->url, &p->credentials);
}

int main(int argc, char **argv) {
        struct probe  p = { .page_size = 1000, .if_match = "" };
        struct error *err;

        if (argc < 3)
                return 2;
        strbuf_init(&p.out, 0);
        begin_line(&p);
        err = open_probe(&p, argv[1]);
        if (err != NULL)
                print_line(&p, err);
        for (int i = 2; p.credentials != NULL && i < argc; i++) {
                const char *command = argv[i];

                begin_line(&p);
                print_line(&p, run_command(&p, command,
                                           has_value(command) && i + 1 < argc ? argv[++i] : ""));
        }
        store_credentials_free(p.credentials);
        store_url_done(&p.url);
        strbuf_done(&p.out);
        return 0;
}
