/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/token_server.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "codec/url.h"
#include "store/secret.h"
#include "store/url_parts.h"

#define MAX_ANSWER_BYTES                                                                           \
        ((size_t)64 << 10) /* tokens have a few KiB; copies are made with mem_*() */
#define MAX_TOKEN_FILE_BYTES ((size_t)64 << 10)
#define MAX_URL_BYTES ((size_t)16 << 10)
#define MAX_CODE_BYTES 64
#define MAX_LIFE_S (UINT64_C(10) * 365 * 24 * 3600)
#define UNKNOWN_LIFE_S 600

/* ---- requests ------------------------------------------------------------------------------ */

void token_request_init(struct store_request *r, const char *method, const char *url,
                        uint64_t timeout_ms, const atomic_bool *is_cancelled) {
        *r = (struct store_request){
                .method = method,
                .timeout_ms = timeout_ms,
                .max_ms = 2 * timeout_ms,
                .max_answer_bytes = MAX_ANSWER_BYTES,
                .is_cancelled = is_cancelled,
                .url.max = MAX_URL_BYTES,
        };
        strbuf_puts(&r->url, url);
}

void token_request_set_form(struct store_request *r, const struct strbuf *form) {
        r->body = strbuf_str(form);
        store_request_set(r, "content-type", "application/x-www-form-urlencoded");
}

void token_request_put_query(struct store_request *r, const char *name, const char *value) {
        bool is_first = strchr(strbuf_cstr(&r->url), '?') == NULL;

        strbuf_printf(&r->url, "%c%s=", is_first ? '?' : '&', name);
        url_encode(str_of(value), false, &r->url);
}

char *token_place(const char *url) {
        struct url_parts p;

        if (!url_parts_read(str_of(url), &p))
                return mem_strdup("a URL that is not http:// or https://");
        return mem_printf("%.*s%.*s", STR_ARG(p.origin), STR_ARG(p.path));
}

/* ---- refusals ------------------------------------------------------------------------------ */

static bool is_code(struct str text) {
        if (text.len == 0 || text.len > MAX_CODE_BYTES)
                return false;
        for (size_t i = 0; i < text.len; i++) {
                char c = text.ptr[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
                    strchr("._-", c) == NULL)
                        return false;
        }
        return true;
}

static struct str find_json_code(struct str json, struct arena *arena) {
        static const char *const paths[] = { "error", "error.status", "error.code", "code",
                                             "Code" };

        AUTO_ERROR err = json_check(json, JSON_OBJECT);

        if (err != NULL)
                return STR_LIT("");
        for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
                struct str code = json_find_text(json, paths[i], arena);

                if (is_code(code))
                        return code;
        }
        return STR_LIT("");
}

/* The contents of <Code>: an error of STS. Read as text, since the answer need not be XML. */
static struct str find_xml_code(struct str body) {
        const char *begin = body.len > 0 ? memmem(body.ptr, body.len, "<Code>", 6) : NULL;
        struct str  code;

        if (begin == NULL)
                return STR_LIT("");
        str_split(str_range(begin + 6, (size_t)(body.ptr + body.len - begin) - 6), '<', &code);
        return is_code(code) ? code : STR_LIT("");
}

static struct error *refusal(const struct store_request *r, const struct store_answer *a) {
        bool       is_temporary = a->status == 429 || a->status >= 500;
        AUTO_CHARS place = token_place(strbuf_cstr(&r->url));
        AUTO_ARENA arena = arena_of(MAX_ANSWER_BYTES);
        struct str code = find_json_code(strbuf_str(&a->body), &arena);

        if (code.len == 0)
                code = find_xml_code(strbuf_str(&a->body));
        return error_new(is_temporary ? ERR_UNAVAILABLE : ERR_INVALID_ARG,
                         "%s: answered %d%s%.*s%s", place, a->status, code.len > 0 ? " (" : "",
                         STR_ARG(code), code.len > 0 ? ")" : "");
}

struct error *token_server_ask(struct store_request *r, struct store_answer *ret, int *ret_status) {
        struct store_answer a = { .status = 0 };
        struct error       *err;

        if (ret_status != NULL)
                *ret_status = 0;
        TRY(strbuf_check(&r->url, "the URL of a server of tokens"));
        TRY(store_exchange(r, &a));
        if (ret_status != NULL)
                *ret_status = a.status;
        if (a.status >= 200 && a.status < 300) {
                *ret = a;
                return NULL;
        }
        err = refusal(r, &a);
        store_answer_done(&a);
        return err;
}

struct error *token_end_sources(struct error *err, int status, bool is_required,
                                struct store_keys **ret) {
        bool is_absent = status == 0 || (status >= 400 && status < 500 && status != 429);

        if (err == NULL || is_required || !is_absent || err->code == ERR_CANCELLED)
                return err;
        error_free(err);
        *ret = store_keys_anonymous();
        return NULL;
}

/* ---- answers ------------------------------------------------------------------------------- */

char *token_json_text(struct str json, const char *path) {
        AUTO_SECRET_BUF room;
        struct arena    arena;
        struct str      text;
        char           *copy;

        /* Strings with escapes are decoded in memory that can be overwritten. */
        secret_buf_init(&room, json.len + ARENA_ALIGNMENT, 0);
        arena_init(&arena, room.ptr, room.cap, 0);
        text = json_find_text(json, path, &arena);
        copy = mem_strndup(text.ptr, text.len);
        arena_done(&arena);
        return copy;
}

/* A number, or a text with one: Azure's metadata service writes texts. 0 when there is none. */
static uint64_t read_number(struct str json, const char *name) {
        AUTO_SECRET text = token_json_text(json, name);
        uint64_t    n;

        return str_to_u64(str_of(text), &n) ? n : json_find_count(json, name);
}

/* Some services give the moment of the end instead, in seconds since the epoch. */
static uint64_t read_life_s(struct str json, uint64_t now_s) {
        uint64_t life_s = read_number(json, "expires_in"), end_s = read_number(json, "expires_on");

        if (life_s == 0 && end_s > now_s)
                life_s = end_s - now_s;
        return life_s == 0 || life_s > MAX_LIFE_S ? UNKNOWN_LIFE_S : life_s;
}

struct error *token_read_oauth(struct str json, const char *where, uint64_t now_ns,
                               struct store_keys **ret) {
        AUTO_ERROR  err = json_check(json, JSON_OBJECT);
        AUTO_SECRET token = NULL;

        if (err != NULL)
                return error_new(ERR_INVALID_ARG, "%s: the answer is not a JSON object", where);
        token = token_json_text(json, "access_token");
        if (token[0] == '\0')
                return error_new(ERR_INVALID_ARG, "%s: the answer has no access_token", where);
        *ret = store_keys_new(STORE_KEYS_BEARER, STR_LIT(""), str_of(token), STR_LIT(""),
                              now_ns + read_life_s(json, now_ns / NS_PER_S) * NS_PER_S);
        return NULL;
}

struct error *token_file_read(const char *variable, const char *path, char **ret) {
        AUTO_SECRET_BUF text = { .ptr = NULL };
        struct error   *err = file_read(path, MAX_TOKEN_FILE_BYTES, &text);
        struct str      token;

        if (err != NULL)
                return error_recode(error_wrap(err, "%s", variable), ERR_INVALID_ARG);
        token = strbuf_str(&text);
        while (token.len > 0 && (unsigned char)token.ptr[token.len - 1] <= ' ')
                token.len--;
        while (token.len > 0 && (unsigned char)token.ptr[0] <= ' ')
                token = str_skip(token, 1);
        if (token.len == 0 || memchr(token.ptr, '\0', token.len) != NULL)
                return error_new(ERR_INVALID_ARG, "%s: the file '%s' has no token", variable, path);
        *ret = mem_strndup(token.ptr, token.len);
        return NULL;
}
