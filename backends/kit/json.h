/* SPDX-License-Identifier: BSD-3-Clause */
/* A JSON document that is read once and looked up by path: the configurations of the model and of
 * the backend, in the form in which the server provides them.
 *
 * The document is a tree of values. A path names members by their keys and elements by their
 * numbers, separated by '/', so that keys may contain dots:
 *
 *     kit_json_find(root, "input/0/dims")
 *     kit_json_find(root, "parameters/session.intra_op.allow_spinning/string_value")
 *
 * Every function that takes a value also takes NULL, which means "not there", and then returns its
 * default. So a chain of lookups needs one check, at its end.
 *
 * Limits: 16 MiB of text and 64 levels; anything larger is refused.
 *
 * Ownership.  Values and their texts belong to the document.
 * Threads.  A document does not change after it was read; any thread may use it.
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

/* Returns NULL when there is no such value. */
const struct kit_json_value *kit_json_find(const struct kit_json_value *from, const char *path);

/* Returns the value, or `otherwise` when it is missing or of another kind. Integers may also be
 * strings, since protobuf's JSON form writes 64-bit integers as strings. */
const char *kit_json_string(const struct kit_json_value *value, const char *otherwise);
int64_t     kit_json_int(const struct kit_json_value *value, int64_t otherwise);
bool        kit_json_bool(const struct kit_json_value *value, bool otherwise);
double      kit_json_double(const struct kit_json_value *value, double otherwise);
uint32_t    kit_json_count(const struct kit_json_value *value); /* number of children; 0 for other
                                                                 * kinds */

/* A new value for a member of the outermost object, which is added when it is missing. */
struct kit_json_edit {
        const char *key;
        const char *json;
};

/* Returns the document's text with the edits; all other bytes are unchanged. NULL when memory is
 * short; the caller frees it. */
char *kit_json_edited(const struct kit_json *doc, const struct kit_json_edit *edits,
                      size_t n_edits);

#ifdef __cplusplus
}
#endif
