/* SPDX-License-Identifier: BSD-3-Clause */
/* A JSON document that is read once and looked up by path: the model's and the backend's
 * configuration, as the server hands them over.
 *
 * The document is a tree of values. A path names members by their keys and elements by their
 * numbers, with '/' between them, so that keys may contain dots:
 *
 *     kit_json_find(root, "input/0/dims")
 *     kit_json_find(root, "parameters/session.intra_op.allow_spinning/string_value")
 *
 * Every function that takes a value also takes NULL, which is "not there", and then gives its
 * default; so a chain of lookups needs one check at its end.
 *
 * Bounds: 16 MiB of text and 64 levels; anything else is refused.
 *
 * Ownership.  Values and the texts in them belong to the document.
 * Threads.  A document does not change after it was read: any number of threads may look into it.
 */
#pragma once

#include "kit/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kit_json_type {
        KIT_JSON_NULL,
        KIT_JSON_FALSE,
        KIT_JSON_TRUE,
        KIT_JSON_NUMBER,
        KIT_JSON_STRING,
        KIT_JSON_ARRAY,
        KIT_JSON_OBJECT,
};

struct kit_json_value {
        enum kit_json_type           type;
        uint32_t                     n_children; /* of an array or an object */
        const char                  *key;        /* in an object; NULL elsewhere */
        const char                  *text;       /* of a string, unescaped; of a number, raw */
        const struct kit_json_value *first;      /* child, NULL when there is none */
        const struct kit_json_value *next;       /* sibling, NULL at the end */
        size_t                       begin;      /* where the value is in the source ... */
        size_t                       end;        /* ... up to here, exclusive */
};

struct kit_json; /* a document */

/* INVALID_ARG "<what> is not valid JSON at byte <n>: <reason>" when it is not. */
TRITONSERVER_Error *kit_json_read(const char *text, size_t len, const char *what,
                                  struct kit_json **ret);
void                kit_json_free(struct kit_json *doc);

const struct kit_json_value *kit_json_root(const struct kit_json *doc);

/* NULL when there is no such value. */
const struct kit_json_value *kit_json_find(const struct kit_json_value *from, const char *path);

/* The values, or `otherwise` when the value is missing or of another kind. Integers may also be
 * written as strings, as protobuf's JSON form does with 64-bit ones. */
const char *kit_json_string(const struct kit_json_value *value, const char *otherwise);
int64_t     kit_json_int(const struct kit_json_value *value, int64_t otherwise);
bool        kit_json_bool(const struct kit_json_value *value, bool otherwise);
double      kit_json_double(const struct kit_json_value *value, double otherwise);
uint32_t    kit_json_count(const struct kit_json_value *value); /* children; 0 otherwise */

/* One member of the outermost object that gets another value, or is added. */
struct kit_json_edit {
        const char *key;
        const char *json;
};

/* The document's text with the edits made; everything else stays as it was, byte for byte.
 * NULL when memory is short; free() ends it. */
char *kit_json_edited(const struct kit_json *doc, const struct kit_json_edit *edits,
                      size_t n_edits);

#ifdef __cplusplus
}
#endif
