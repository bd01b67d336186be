/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_media_type.h"

#include <stddef.h>

static struct str from(struct str s, size_t at) {
        return str_range(s.ptr + at, s.len - at);
}

/* Returns the length of a parameter: up to the next semicolon that is not in a quoted string. */
static size_t measure_parameter(struct str rest) {
        bool   is_quoted = false;
        size_t at = 0;

        while (at < rest.len && (is_quoted || rest.ptr[at] != ';')) {
                if (is_quoted && rest.ptr[at] == '\\' && at + 1 < rest.len)
                        at++;
                else if (rest.ptr[at] == '"')
                        is_quoted = !is_quoted;
                at++;
        }
        return at;
}

static struct str without_quotes(struct str value) {
        if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
                return str_range(value.ptr + 1, value.len - 2);
        return value;
}

/* Reads "name=value". False when it has another name. */
static bool read_parameter(struct str text, const char *wanted, struct str *ret) {
        struct str name;
        struct str value = str_split(text, '=', &name);

        if (value.ptr == NULL || !str_equal_nocase(str_trim(name), str_of(wanted)))
                return false;
        *ret = without_quotes(str_trim(value));
        return true;
}

struct str http_media_type_find(struct str content_type, const char *type, const char *parameter) {
        struct str found = { NULL, 0 }, name;
        struct str all = str_split(content_type, ';', &name), rest = all;
        size_t     n_found = 0;

        if (all.ptr == NULL || !str_equal_nocase(str_trim(name), str_of(type)))
                return found;
        while (rest.len > 0) {
                size_t len = measure_parameter(rest);

                n_found += read_parameter(str_range(rest.ptr, len), parameter, &found);
                rest = from(rest, len < rest.len ? len + 1 : len);
        }
        return n_found > 1 ? all : found;
}
