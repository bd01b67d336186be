/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rsa_sign.h"

/* With it come the declarations of EVP. */
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#define MAX_SIGNATURE_BYTES 2048 /* of a key of 16384 bits, the largest that OpenSSL signs with */

/* A key with a passphrase gives an error, instead of a question at the terminal. */
static int on_passphrase(char *to, int size, int is_writing, void *userp) {
        (void)to;
        (void)size;
        (void)is_writing;
        (void)userp;
        return -1;
}

static EVP_PKEY *read_key(struct str pem) {
        BIO *bio = pem.len > 0 && pem.len < INT_MAX ? BIO_new_mem_buf(pem.ptr, (int)pem.len) : NULL;
        EVP_PKEY *key = NULL;

        if (bio != NULL)
                key = PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, NULL);
        BIO_free(bio);
        if (key == NULL || EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA)
                return key;
        EVP_PKEY_free(key);
        return NULL;
}

static bool sign(EVP_PKEY *key, struct str bytes, struct strbuf *ret) {
        unsigned char signature[MAX_SIGNATURE_BYTES];
        size_t        n = sizeof(signature);
        EVP_MD_CTX   *state = EVP_MD_CTX_new();
        bool          is_done;

        is_done = state != NULL && EVP_PKEY_get_size(key) <= MAX_SIGNATURE_BYTES &&
                  EVP_DigestSignInit(state, NULL, EVP_sha256(), NULL, key) == 1 &&
                  EVP_DigestSign(state, signature, &n, (const unsigned char *)bytes.ptr,
                                 bytes.len) == 1;
        EVP_MD_CTX_free(state);
        if (is_done)
                strbuf_put(ret, signature, n);
        return is_done;
}

struct error *rsa_sign_sha256(struct str pem, struct str bytes, struct strbuf *ret) {
        EVP_PKEY *key = read_key(pem);
        bool      is_done = key != NULL && sign(key, bytes, ret);

        /* What stayed in the thread's queue would be taken for the reason of its next failure. */
        ERR_clear_error();
        if (key == NULL)
                return error_new_text(ERR_INVALID_ARG,
                                      "not a private RSA key in PEM without a passphrase");
        EVP_PKEY_free(key);
        return is_done ? NULL : error_new_text(ERR_INTERNAL, "OpenSSL could not sign");
}
