/* SPDX-License-Identifier: BSD-3-Clause */
/* For tls_context.c and tls_session.c only: OpenSSL's headers, and the struct of a context. */
#pragma once

#include "base/lock.h"
#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_context {
        char       *cert_path; /* owned */
        char       *key_path;  /* owned */
        char       *root_path; /* owned; may be NULL */
        char       *host;      /* owned: of a client's context; NULL: a server's */
        struct str  protocols;
        BIO_METHOD *bio_method; /* owned: connects OpenSSL to the buffers of a session */

        struct mutex lock;   /* rank LOCK_LEAF; guards the fields below */
        SSL_CTX     *native; /* ref */
};

/* tls_context.c. True for an IP address, which is no name for SNI (RFC 6066, 3). */
bool tls_is_address(const char *host);

/* tls_session.c. NULL when memory is short. */
BIO_METHOD *tls_bio_method_new(void);
