/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects below a prefix of a bucket, as a listing of the store gives them.
 *
 * A name is relative to the prefix: with the prefix "models", the object "models/a/config.pbtxt" is
 * "a/config.pbtxt". A name that ends with '/' is a directory, which some tools write as an object without
 * bytes; the prefix's own is left out.
 *
 * A name becomes a path of the local file system. One that cannot be such a path (an empty component,
 * "." or "..", an absolute one, a control character, text that is not UTF-8) is left out: n_refused counts
 * these objects and `refusal` names the first, so that one odd object does not hide all others. The same
 * holds for an ETag with a control character, since requests send it back in a header.
 *
 * Ownership.  store_list_done() frees the entries and their texts, which are in the list's arena.
 * Threads.  One owner at a time; read by any.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A listing beyond these limits fails: such a prefix is no model repository. */
#define STORE_LIST_MAX_ENTRIES ((size_t)1 << 20)
#define STORE_LIST_MAX_BYTES ((size_t)256 << 20) /* of names and ETags */
#define STORE_LIST_MD5_BYTES 16
#define STORE_LIST_SHA256_BYTES 32

struct store_entry {
        char         *name; /* in arena; without a slash at its end */
        uint64_t      size;
        char         *etag; /* in arena; as HTTP has it, quotes included; "": none */
        unsigned char md5[STORE_LIST_MD5_BYTES]; /* of the whole object */
        unsigned char sha256[STORE_LIST_SHA256_BYTES];
        bool          has_md5;
        bool          has_sha256;
        bool          is_directory;
        bool          is_dropped; /* while a list is sorted */
};

/* What a page of a listing says about an object. Borrowed texts. */
struct store_object {
        struct str           key; /* the whole name in the bucket */
        uint64_t             size;
        struct str           etag;
        const unsigned char *md5;    /* NULL: not known */
        const unsigned char *sha256; /* likewise */
};

struct store_list {
        struct store_entry *entries; /* owned */
        size_t              n_entries;
        size_t              n_allocated;
        size_t              max_entries;
        struct arena        arena;
        char               *prefix;  /* owned; "" or a path with '/' at its end */
        struct error       *refusal; /* owned; NULL: nothing was left out */
        size_t              n_refused;
};

/* `prefix`: without slashes at both ends; "" for the whole bucket. */
void store_list_init(struct store_list *l, const char *prefix);
void store_list_done(struct store_list *l);

/* UNAVAILABLE when memory is short, or for more than the limits allow: "more than 1048576 objects". */
struct error *store_list_add(struct store_list *l, const struct store_object *o) NODISCARD;

/* By name, in the order of bytes; of entries with the same name one stays. A file "a" without bytes is
 * removed when there are others below "a/": stores with directories list them so. */
void store_list_sort(struct store_list *l);
