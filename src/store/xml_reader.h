/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a small XML document of a peer, such as a page of a listing, and passes its elements to the caller.
 *
 * A caller gets the path of each element, "ListBucketResult/Contents/Key", when the element begins and
 * again with its text when it ends. Names are without prefixes of namespaces; attributes are skipped.
 * The text of an element with children is the text after the last child.
 *
 * A document type is refused, and with it every declaration of an entity: no text can grow. Depth,
 * paths and texts have limits. Only this file includes expat's header;
 * the library is opened when the first document is read, so that a server without remote repositories does
 * not load it.
 *
 * Ownership.  Paths and texts live until the callback returns.
 * Threads.  Any.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#define XML_MAX_DEPTH 16
#define XML_MAX_PATH_BYTES 512
#define XML_MAX_TEXT_BYTES ((size_t)64 << 10) /* names of objects have 1 KiB, page tokens a few */

struct xml_handler {
        /* Both may be NULL. `path` is NUL-terminated. An error ends the reading. */
        struct error *(*begin)(void *userp, struct str path);
        struct error *(*end)(void *userp, struct str path, struct str text);
        void *userp;
};

/* INVALID_ARG "XML, line 3, column 7: <what>", or the error of a callback. */
struct error *xml_read(struct str document, const struct xml_handler *h) NODISCARD;
