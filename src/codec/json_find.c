/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/json_find.h"

struct error *json_check(struct str json, enum json_type type) {
        struct json_reader r = json_reader_of(json);

        if (json_peek(&r) != type)
                type == JSON_ARRAY ? json_enter_array(&r) : json_enter_object(&r);
        json_skip(&r);
        json_read_end(&r);
        if (!json_failed(&r))
                return NULL;
        return error_new(ERR_INVALID_ARG, "%s at %zu", json_error_text(&r), json_error_offset(&r));
}

static struct str find_member(struct str object, struct str name) {
        struct json_reader r = json_reader_of(object);
        struct str         key;

        if (json_peek(&r) == JSON_OBJECT)
                for (json_enter_object(&r); json_next_key(&r, NULL, &key);) {
                        struct str value = json_skip(&r);

                        if (str_equal(key, name))
                                return value;
                }
        return str_range(NULL, 0);
}

struct str json_find(struct str json, const char *path) {
        struct str rest = str_of(path), name;

        while (rest.ptr != NULL && json.ptr != NULL) {
                rest = str_split(rest, '.', &name);
                json = find_member(json, name);
        }
        return json;
}

/* Begins to read the value; returns false when it has another type. */
static bool begin_value(struct str json, const char *path, enum json_type type,
                        struct json_reader *r) {
        json_reader_init(r, json_find(json, path));
        return json_peek(r) == type;
}

struct str json_find_text(struct str json, const char *path, struct arena *arena) {
        struct json_reader r;

        return begin_value(json, path, JSON_STRING, &r) ? json_read_string(&r, arena) : STR_LIT("");
}

uint64_t json_find_count(struct str json, const char *path) {
        struct json_reader r;

        return begin_value(json, path, JSON_NUMBER, &r) ? json_read_number(&r).magnitude : 0;
}

bool json_find_flag(struct str json, const char *path) {
        struct json_reader r;

        return begin_value(json, path, JSON_BOOL, &r) && json_read_bool(&r);
}

struct json_list json_list_of(struct str array) {
        struct json_list l;

        json_reader_init(&l.reader, array);
        l.is_array = json_peek(&l.reader) == JSON_ARRAY;
        if (l.is_array)
                json_enter_array(&l.reader);
        return l;
}

bool json_list_next(struct json_list *l, struct str *ret) {
        if (!l->is_array || !json_next_element(&l->reader))
                return false;
        *ret = json_skip(&l->reader);
        return true;
}

size_t json_list_count(struct str array) {
        size_t n = 0;

        JSON_FOR_EACH(array, item)
                n++;
        return n;
}

struct str json_list_first(struct str array) {
        JSON_FOR_EACH(array, item)
                return item;
        return (struct str){ 0 };
}
