/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates and keys in a temporary folder, made with OpenSSL, for the tests of TLS.
 */
#pragma once

struct tls_files {
        char folder[64];
        char cert[96], key[96];             /* of "localhost", by itself */
        char other_cert[96], other_key[96]; /* of somebody else */
        char locked_key[96];                /* as key, with a pass phrase */
        char text[96];                      /* no PEM */
        char empty[96];
        char half[96]; /* a certificate that ends too early */
};

void tls_files_make(struct tls_files *f);
void tls_files_remove(struct tls_files *f);
