/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON object that is the body of a request, member by member.
 *
 * All of the text is looked at before the first member is told: what is no JSON is said to be none,
 * whatever its members are.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct json_reader;

/* Takes the value at r. Faults of the text itself need no answer. */
typedef struct error *(*http_member_fn)(void *owner, struct json_reader *r, struct str key);

/* Ends with the first member that is refused. */
struct error *http_members_read(struct str body, struct arena *arena, http_member_fn read,
                                void *owner) NODISCARD;
/* The same; any other JSON counts as an object without members. */
struct error *http_members_read_lenient(struct str body, struct arena *arena, http_member_fn read,
                                        void *owner) NODISCARD;
/* A member that must be a string; its text is in the arena or in the body. */
struct error *http_members_read_text(struct json_reader *r, struct arena *arena, struct str *ret)
        NODISCARD;
/* The same for an object that is a value in another. */
struct error *http_members_read_nested(struct json_reader *r, struct arena *arena,
                                       http_member_fn read, void *owner) NODISCARD;
