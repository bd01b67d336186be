/* SPDX-License-Identifier: BSD-3-Clause */
/* The listing of a repository on a web server: the file index.json at its root.
 *
 *     {"files": [{"path": "digits/1/model.onnx", "size": 1024,
 *                 "etag": "\"5e1f\"", "sha256": "<64 hexadecimal digits>"}, ...]}
 *
 * `path` and `size` are required; a path that ends with a slash is an empty directory. `etag` is that of
 * the server's answers. Members with other names are ignored.
 *
 * Ownership.  The list copies what it keeps.
 * Threads.  Pure functions.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#define LIST_WEB_FILE "index.json"

struct store_list;

/* Adds the entries whose paths begin with `prefix`. INVALID_ARG names the entry at fault. */
struct error *list_web_read(struct str text, struct str prefix, struct store_list *list) NODISCARD;
