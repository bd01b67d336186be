/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/credential_file.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/json_find.h"
#include "store/secret.h"
#include "store/token_server.h"

#define VARIABLE "TRITON_CLOUD_CREDENTIAL_PATH"
#define MAX_FILE_BYTES ((size_t)1 << 20)

static const char *section_of(enum store_kind kind) {
        static const char *const names[] = {
                [STORE_S3] = "s3", [STORE_GS] = "gs", [STORE_AS] = "as"
        };

        return kind == STORE_WEB ? "" : names[kind];
}

/* A beginning is compared as it is written and, when it is an address of its own, in the one form of
 * addresses: "s3://host:443/b" and "s3://https://host:443/b" are the same. */
static bool matches(struct str beginning, const struct store_url *url) {
        AUTO_CHARS text = mem_strndup(beginning.ptr != NULL ? beginning.ptr : "", beginning.len);
        struct store_url parsed;
        AUTO_ERROR       err = NULL;
        bool             is_match = str_starts(str_of(url->text), beginning);

        if (is_match || beginning.len == 0)
                return is_match;
        err = store_url_parse(text, &parsed);
        if (err != NULL)
                return false;
        is_match = str_starts(str_of(url->text), str_of(parsed.text));
        store_url_done(&parsed);
        return is_match;
}

/* ptr NULL when none matches. */
static struct str find_longest(struct str section, const struct store_url *url,
                               struct arena *arena) {
        struct json_reader r = json_reader_of(section);
        struct str         key, best = str_range(NULL, 0);
        size_t             best_len = 0;

        if (json_peek(&r) != JSON_OBJECT)
                return best;
        for (json_enter_object(&r); json_next_key(&r, arena, &key);) {
                struct str value = json_skip(&r);

                if (!matches(key, url) || (best.ptr != NULL && key.len < best_len))
                        continue;
                best = value;
                best_len = key.len;
        }
        return best;
}

static bool is_type(struct str json, enum json_type type) {
        struct json_reader r = json_reader_of(json);

        return json_peek(&r) == type;
}

static char *whole_text(struct str json) {
        AUTO_SECRET_BUF object;

        secret_buf_init(&object, json.len + 16, 0);
        strbuf_puts(&object, "{\"v\":");
        strbuf_put(&object, json.ptr, json.len);
        strbuf_putc(&object, '}');
        return token_json_text(strbuf_str(&object), "v");
}

static void read_entry(struct str json, bool is_path, struct credential_entry *ret) {
        ret->path = is_path ? whole_text(json) : mem_strdup("");
        ret->key_id = token_json_text(json, "key_id");
        ret->secret_key = token_json_text(json, "secret_key");
        ret->session_token = token_json_text(json, "session_token");
        ret->region = token_json_text(json, "region");
        ret->profile = token_json_text(json, "profile");
        ret->account_str = token_json_text(json, "account_str");
        ret->account_key = token_json_text(json, "account_key");
}

static struct error *find_entry(struct str text, const char *path, const struct store_url *url,
                                struct credential_entry *ret) {
        bool          is_path = url->kind == STORE_GS;
        struct error *err = json_check(text, JSON_OBJECT);
        AUTO_ARENA    arena = arena_of(MAX_FILE_BYTES);
        struct str    entry;

        if (err != NULL)
                return error_wrap(err, VARIABLE ": the file '%s' is not a JSON object", path);
        entry = find_longest(json_find(text, section_of(url->kind)), url, &arena);
        if (entry.ptr == NULL)
                return error_new(ERR_INVALID_ARG, "Cannot match credential for path  %s",
                                 url->text);
        if (!is_type(entry, is_path ? JSON_STRING : JSON_OBJECT))
                return error_new(ERR_INVALID_ARG,
                                 VARIABLE ": the file '%s' has no %s as the credentials for '%s'",
                                 path, is_path ? "text" : "object", url->text);
        read_entry(entry, is_path, ret);
        return NULL;
}

struct error *credential_file_find(const char *path, const struct store_url *url,
                                   struct credential_entry *ret) {
        AUTO_SECRET_BUF text = { .ptr = NULL };
        struct error   *err = file_read(path, MAX_FILE_BYTES, &text);

        if (err != NULL)
                return error_recode(error_wrap(err, VARIABLE), ERR_INVALID_ARG);
        return find_entry(strbuf_str(&text), path, url, ret);
}

void credential_entry_done(struct credential_entry *e) {
        secret_free(e->key_id);
        secret_free(e->secret_key);
        secret_free(e->session_token);
        secret_free(e->region);
        secret_free(e->profile);
        secret_free(e->path);
        secret_free(e->account_str);
        secret_free(e->account_key);
        *e = (struct credential_entry){ .key_id = NULL };
}
