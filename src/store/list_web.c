/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/list_web.h"

#include "base/arena.h"
#include "base/digest.h"
#include "codec/json_reader.h"
#include "store/store_list.h"

struct file_entry {
        struct str    path, etag;
        uint64_t      size;
        bool          has_size;
        bool          has_sha256;
        unsigned char sha256[32];
};

static struct error *bad(const struct file_entry *e, size_t index, const char *what) {
        if (e->path.len > 0 && str_is_plain(e->path))
                return error_new(ERR_INVALID_ARG, LIST_WEB_FILE ": file '%.*s': %s",
                                 STR_ARG(e->path), what);
        return error_new(ERR_INVALID_ARG, LIST_WEB_FILE ": file %zu: %s", index, what);
}

static bool read_text(struct json_reader *r, struct arena *arena, struct str *ret) {
        if (json_peek(r) != JSON_STRING)
                return false;
        *ret = json_read_string(r, arena);
        return true;
}

static bool read_size(struct json_reader *r, uint64_t *ret) {
        struct json_number number;

        if (json_peek(r) != JSON_NUMBER)
                return false;
        number = json_read_number(r);
        *ret = number.magnitude;
        return number.is_integer && !number.is_negative;
}

static const char *read_member(struct json_reader *r, struct arena *arena, struct str key,
                               struct file_entry *e) {
        struct str digits;

        if (str_is(key, "path"))
                return read_text(r, arena, &e->path) ? NULL : "'path' is no text";
        if (str_is(key, "etag"))
                return read_text(r, arena, &e->etag) ? NULL : "'etag' is no text";
        if (str_is(key, "size")) {
                e->has_size = read_size(r, &e->size);
                return e->has_size ? NULL : "'size' is no number of bytes";
        }
        if (!str_is(key, "sha256")) {
                json_skip(r);
                return NULL;
        }
        e->has_sha256 = read_text(r, arena, &digits) &&
                        digest_read_hex(digits, e->sha256, sizeof(e->sha256));
        return e->has_sha256 ? NULL : "'sha256' is not 64 hexadecimal digits";
}

static struct error *read_entry(struct json_reader *r, struct arena *arena, size_t index,
                                struct file_entry *ret) {
        struct file_entry e = { .size = 0 };
        struct str        key;

        if (!json_try_enter(r, JSON_OBJECT))
                return bad(&e, index, "it is no object");
        while (json_next_key(r, arena, &key)) {
                const char *what = read_member(r, arena, key, &e);

                if (what != NULL)
                        return bad(&e, index, what);
        }
        if (json_failed(r))
                return json_syntax_error(r);
        if (e.path.len == 0)
                return bad(&e, index, "it has no 'path'");
        if (!e.has_size && e.path.ptr[e.path.len - 1] != '/')
                return bad(&e, index, "it has no 'size'");
        *ret = e;
        return NULL;
}

static struct error *add(const struct file_entry *e, struct str prefix, struct store_list *list) {
        struct store_object object = { .key = e->path,
                                       .etag = e->etag,
                                       .size = e->size,
                                       .sha256 = e->has_sha256 ? e->sha256 : NULL };

        return str_starts(e->path, prefix) ? store_list_add(list, &object) : NULL;
}

static struct error *read_files(struct json_reader *r, struct str prefix, struct store_list *list) {
        AUTO_ARENA arena = arena_of(0);

        if (!json_try_enter(r, JSON_ARRAY))
                return error_new(ERR_INVALID_ARG, LIST_WEB_FILE ": 'files' is no list");
        for (size_t i = 0; json_next_element(r); i++) {
                struct file_entry e;

                TRY(read_entry(r, &arena, i, &e));
                TRY(add(&e, prefix, list));
                arena_reset(&arena);
        }
        return NULL;
}

struct error *list_web_read(struct str text, struct str prefix, struct store_list *list) {
        struct json_reader r = json_reader_of(text);
        struct str         key;
        bool               has_files = false;

        if (!json_try_enter(&r, JSON_OBJECT))
                return error_new(ERR_INVALID_ARG, LIST_WEB_FILE " is no JSON object");
        while (json_next_key(&r, NULL, &key)) {
                if (!str_is(key, "files")) {
                        json_skip(&r);
                        continue;
                }
                has_files = true;
                TRY(read_files(&r, prefix, list));
        }
        json_read_end(&r);
        if (json_failed(&r))
                return error_wrap(json_syntax_error(&r), LIST_WEB_FILE);
        return has_files ? NULL : error_new(ERR_INVALID_ARG, LIST_WEB_FILE " has no 'files'");
}
