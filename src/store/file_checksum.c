/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/file_checksum.h"

#include "base/compiler.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 65536

void file_checksum_init_none(struct file_checksum *c) {
        *c = (struct file_checksum){ .has_digest = false };
}

struct error *file_checksum_init(struct file_checksum *c, enum digest_kind kind,
                                 const unsigned char *expected) {
        struct error *err;

        file_checksum_init_none(c);
        err = digest_init(&c->digest, kind);
        if (err != NULL && err->code == ERR_UNSUPPORTED) {
                error_free(err);
                return NULL;
        }
        if (err != NULL)
                return err;
        c->has_digest = true;
        c->kind = kind;
        memcpy(c->expected, expected, digest_bytes(kind));
        return NULL;
}

void file_checksum_done(struct file_checksum *c) {
        if (c->has_digest)
                digest_done(&c->digest);
        file_checksum_init_none(c);
}

struct error *file_checksum_add(struct file_checksum *c, int fd, uint64_t begin, uint64_t end) {
        char bytes[CHUNK_BYTES];

        while (c->has_digest && begin < end) {
                ssize_t n = pread(fd, bytes, (size_t)MIN(end - begin, CHUNK_BYTES), (off_t)begin);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return error_errno(n < 0 ? errno : EIO, "unable to read what was fetched");
                digest_add(&c->digest, bytes, (size_t)n);
                begin += (uint64_t)n;
        }
        return NULL;
}

struct error *file_checksum_finish(struct file_checksum *c, bool *ret) {
        unsigned char found[DIGEST_MAX_BYTES];

        *ret = true;
        if (!c->has_digest)
                return NULL;
        TRY(digest_finish(&c->digest, found));
        *ret = digest_equal(found, c->expected, digest_bytes(c->kind));
        return NULL;
}
