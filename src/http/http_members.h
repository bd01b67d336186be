/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the JSON object in the body of a control request, member by member.
 *
 * The syntax of the whole text is checked before the first member is read, so that a syntax error is
 * reported before any error of a member.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct json_reader;

/* Reads the value at `r`. It need not report syntax errors. */
typedef struct error *(*http_member_fn)(void *owner, struct json_reader *r, struct str key);

/* Calls `read` for each member until it returns an error. */
struct error *http_members_read(struct str body, struct arena *arena, http_member_fn read,
                                void *owner) NODISCARD;
/* As http_members_read(); JSON that is no object counts as an object without members. */
struct error *http_members_read_lenient(struct str body, struct arena *arena, http_member_fn read,
                                        void *owner) NODISCARD;
/* Reads a value that must be a string; its text is in the arena or in the body. */
struct error *http_members_read_text(struct json_reader *r, struct arena *arena, struct str *ret)
        NODISCARD;
/* As http_members_read(), for an object that is a member's value. */
struct error *http_members_read_nested(struct json_reader *r, struct arena *arena,
                                       http_member_fn read, void *owner) NODISCARD;
