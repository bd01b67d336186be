/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/digest.h"

#include <openssl/evp.h>

size_t digest_bytes(enum digest_kind kind) {
        return kind == DIGEST_MD5 ? DIGEST_MD5_BYTES : DIGEST_SHA256_BYTES;
}

struct error *digest_init(struct digest *d, enum digest_kind kind) {
        *d = (struct digest){ .state = EVP_MD_CTX_new(), .kind = kind };
        if (d->state == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a digest");
        if (EVP_DigestInit_ex(d->state, kind == DIGEST_MD5 ? EVP_md5() : EVP_sha256(), NULL) != 1)
                return error_new(ERR_UNSUPPORTED, "OpenSSL has no %s here",
                                 kind == DIGEST_MD5 ? "MD5" : "SHA-256");
        return NULL;
}

void digest_add(struct digest *d, const void *bytes, size_t len) {
        if (len > 0 && EVP_DigestUpdate(d->state, bytes, len) != 1)
                d->has_failed = true;
}

struct error *digest_finish(struct digest *d, unsigned char *ret) {
        unsigned char bytes[EVP_MAX_MD_SIZE];

        if (d->has_failed || EVP_DigestFinal_ex(d->state, bytes, NULL) != 1)
                return error_new(ERR_INTERNAL, "OpenSSL could not finish a digest");
        memcpy(ret, bytes, digest_bytes(d->kind));
        return NULL;
}

void digest_done(struct digest *d) {
        EVP_MD_CTX_free(STEAL(d->state));
}

struct error *digest_of(enum digest_kind kind, struct str bytes, unsigned char *ret) {
        AUTO_DIGEST d = { 0 };

        TRY(digest_init(&d, kind));
        digest_add(&d, bytes.ptr, bytes.len);
        return digest_finish(&d, ret);
}

struct error *digest_hmac_sha256(struct str key, struct str bytes, unsigned char *ret) {
        size_t n = 0;

        if (EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, key.len > 0 ? key.ptr : "", key.len,
                      (const unsigned char *)(bytes.len > 0 ? bytes.ptr : ""), bytes.len, ret,
                      DIGEST_SHA256_BYTES, &n) == NULL ||
            n != DIGEST_SHA256_BYTES)
                return error_new(ERR_INTERNAL, "OpenSSL could not make an HMAC");
        return NULL;
}

void digest_print_hex(const unsigned char *bytes, size_t n_bytes, char *ret) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n_bytes; i++) {
                *ret++ = digits[bytes[i] >> 4];
                *ret++ = digits[bytes[i] & 15];
        }
        *ret = '\0';
}

bool digest_read_hex(struct str text, unsigned char *ret, size_t n_bytes) {
        if (text.len != 2 * n_bytes)
                return false;
        for (size_t i = 0; i < n_bytes; i++) {
                int high = str_hex_digit(text.ptr[2 * i]), low = str_hex_digit(text.ptr[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                ret[i] = (unsigned char)(high << 4 | low);
        }
        return true;
}

bool digest_equal(const unsigned char *a, const unsigned char *b, size_t n_bytes) {
        unsigned char difference = 0;

        for (size_t i = 0; i < n_bytes; i++)
                difference |= (unsigned char)(a[i] ^ b[i]);
        return difference == 0;
}
