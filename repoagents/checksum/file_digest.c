/* SPDX-License-Identifier: BSD-3-Clause */
#include "checksum/file_digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Models have gigabytes: read in pieces that fit on a small stack. */
#define PIECE_BYTES 16384

static const struct file_digest_kind kinds[] = {
        { .name = "MD5", .n_digits = 32 },
        { .name = "SHA256", .n_digits = 64 },
};

const struct file_digest_kind *file_digest_find(const char *name, size_t name_len) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strlen(kinds[i].name) == name_len &&
                    strncasecmp(kinds[i].name, name, name_len) == 0)
                        return &kinds[i];
        return NULL;
}

static const char *add_file(EVP_MD_CTX *state, int fd) {
        char    piece[PIECE_BYTES];
        ssize_t n;

        while ((n = read(fd, piece, sizeof(piece))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return strerror(errno);
                if (EVP_DigestUpdate(state, piece, (size_t)n) != 1)
                        return "libcrypto failed";
        }
        return NULL;
}

static const char *finish(const struct file_digest_kind *kind, EVP_MD_CTX *state, char *ret) {
        unsigned char bytes[EVP_MAX_MD_SIZE];
        unsigned      n_bytes = 0;

        if (EVP_DigestFinal_ex(state, bytes, &n_bytes) != 1 || n_bytes * 2 != kind->n_digits)
                return "libcrypto failed";
        for (unsigned i = 0; i < n_bytes; i++)
                snprintf(ret + (size_t)2 * i, 3, "%02x", bytes[i]);
        return NULL;
}

const char *file_digest_read(const struct file_digest_kind *kind, int fd,
                             char ret[FILE_DIGEST_MAX_TEXT]) {
        EVP_MD     *digest = EVP_MD_fetch(NULL, kind->name, NULL);
        EVP_MD_CTX *state = EVP_MD_CTX_new();
        const char *why = NULL;

        /* Libraries that are built to refuse MD5 do not have it. */
        if (digest == NULL || state == NULL || EVP_DigestInit_ex(state, digest, NULL) != 1)
                why = "this libcrypto has no such digest";
        if (why == NULL)
                why = add_file(state, fd);
        if (why == NULL)
                why = finish(kind, state, ret);
        EVP_MD_CTX_free(state);
        EVP_MD_free(digest);
        return why;
}
