/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of the objects that were fetched, by server, address and ETag.
 *
 *     <key>           a whole file, read-only; its time of change is that of its last use
 *     <key>.part      a file that is being fetched, as long as the object
 *     <key>.pieces    which pieces of it are there: a head, then one byte for each
 *     lock            held while files are evicted; a process that does not get it evicts nothing
 *
 * The process that fetches a file has a lock on its .part, so several servers can share the directory and
 * each object is fetched once. A .part without a lock was left behind by a process that has ended, or by
 * a fetch that broke off: the next one fetches the pieces that are missing.
 *
 * A file has further names while copies of models use it: hard links. It is not evicted then, as that
 * would free nothing.
 *
 * Ownership.  store_cache_close(). cache_file_close() ends a file in any state.
 * Threads.  Any. No lock of the process is involved. A cache_file has one owner, but several threads may
 * call cache_file_note_piece() for different pieces.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Small enough that little is fetched again after a break, and large enough that the round trip of a
 * request is small beside its transfer: 70 ms at 1 Gbit/s. */
#define STORE_PIECE_BYTES ((uint64_t)8 << 20)

/* 256 TiB, more than any store takes. A listing that names a larger size would only cost the memory of the
 * pieces: one byte for each. */
#define STORE_MAX_OBJECT_BYTES ((uint64_t)1 << 48)

struct store_cache;

struct store_cache_options {
        const char *directory;    /* made when it is missing */
        uint64_t    max_bytes;    /* 0: no limit */
        bool        keeps_unused; /* false: files without another name are removed */
};

struct error *store_cache_open(const struct store_cache_options *o, struct store_cache **ret)
        NODISCARD;
void store_cache_close(struct store_cache *c); /* NULL is fine; the files stay */
/* Removes files, those first that were not used for the longest time, until the limit holds, or only
 * files are left that are in use. While another thread does, that one looks again; while another process
 * does, nothing is removed until the next call. */
void store_cache_evict(struct store_cache *c);
/* Removes the files that are not in use, unless the cache keeps them. */
void store_cache_drop_unused(struct store_cache *c);

#define CACHE_KEY_CHARS 64

/* The name of the file of an object: a digest of all. `origin` is the server that the address leads to:
 * "s3://bucket" is another bucket when AWS_ENDPOINT_URL is another one. */
struct error *cache_key_of(const char *origin, const char *address, struct str etag, uint64_t size,
                           char ret[CACHE_KEY_CHARS + 1]) NODISCARD;

enum cache_state {
        CACHE_WHOLE, /* it is there */
        CACHE_PART,  /* the caller fetches it */
        CACHE_BUSY,  /* another one fetches it now */
};

struct cache_file {
        char    *path;      /* owned; of the whole file */
        char    *part;      /* owned */
        char    *record;    /* owned */
        int      fd;        /* CACHE_PART: the .part, locked; else -1 */
        int      record_fd; /* CACHE_PART: the record; else -1 */
        uint64_t size;
        size_t   n_pieces;
        bool     is_kept; /* for the next start: its bytes must reach the disk before its name */
        unsigned char *has_piece; /* owned; one byte for each; kept by the caller once it is open */
};

/* Looks for the file, and begins it when it is not there. `is_reusable` false: what is there counts as
 * something else. INVALID_ARG beyond STORE_MAX_OBJECT_BYTES. */
struct error *cache_file_open(struct store_cache *c, const char *key, uint64_t size,
                              bool is_reusable, struct cache_file *ret, enum cache_state *ret_state)
        NODISCARD;
/* Records that the bytes of a piece are in the .part. */
struct error *cache_file_note_piece(struct cache_file *f, size_t piece) NODISCARD;
/* All pieces are there: the file gets its name. */
struct error *cache_file_commit(struct cache_file *f) NODISCARD;
/* Nothing of it is right: the .part is removed. */
void cache_file_discard(struct cache_file *f);
void cache_file_close(struct cache_file *f);

/* Gives the file, of which all pieces are there, a further name, or makes a copy of it on another file
 * system; nothing when that file exists. INVALID_ARG: that is a directory. NOT_FOUND: the file was evicted meanwhile, which does not happen to
 * a CACHE_PART. */
struct error *cache_file_link(const struct cache_file *f, const char *to) NODISCARD;
