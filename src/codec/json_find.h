/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of a JSON text by their paths: "inference_stats.queue.ns". For small texts that are valid
 * already (json_check()): each call walks the text from its beginning.
 *
 *     JSON_FOR_EACH(json_find(text, "models"), model)
 *             n += json_find_count(model, "stats.count");
 *
 * A value that is missing or has another type is empty, 0 or false.
 *
 * Ownership.  Results are ranges of the text; strings with escapes are in the caller's arena.
 */
#pragma once

#include "codec/json_reader.h"

/* INVALID_ARG with the place, unless the text is one complete value of this type. */
struct error *json_check(struct str json, enum json_type type) NODISCARD;

/* The value as JSON; ptr NULL when there is none. Keys with escapes are not found. */
struct str json_find(struct str json, const char *path);
struct str json_find_text(struct str json, const char *path, struct arena *arena);
uint64_t   json_find_count(struct str json, const char *path); /* without its sign */
bool       json_find_flag(struct str json, const char *path);

/* The elements of an array. */
struct json_list {
        struct json_reader reader;
        bool               is_array;
};

/* Not an array: it has no elements. */
struct json_list json_list_of(struct str array);
bool             json_list_next(struct json_list *l, struct str *ret);
size_t           json_list_count(struct str array);
struct str       json_list_first(struct str array); /* ptr NULL when there is none */

/* Loops over the elements of an array; declares `struct str item`. */
#define JSON_FOR_EACH(array, item)                                                                 \
        for (struct json_list item##_list_ = json_list_of(array); item##_list_.is_array;           \
             item##_list_.is_array = false)                                                        \
                for (struct str item; json_list_next(&item##_list_, &item);)
