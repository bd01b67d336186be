/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls_files.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static X509 *sign(EVP_PKEY *key, const char *name) {
        X509      *cert = X509_new();
        X509_NAME *subject = X509_get_subject_name(cert);

        X509_set_version(cert, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
        X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
        X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
        X509_set_pubkey(cert, key);
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
                                   0);
        X509_set_issuer_name(cert, subject);
        assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
        return cert;
}

static FILE *create(const char *path) {
        FILE *file = fopen(path, "w");

        assert_non_null(file);
        return file;
}

static void write_text(const char *path, const char *text) {
        FILE *file = create(path);

        fputs(text, file);
        fclose(file);
}

static void write_pair(const char *cert_path, const char *key_path, const char *locked_path) {
        EVP_PKEY *key = EVP_EC_gen("P-256");
        X509     *cert = sign(key, "localhost");
        FILE     *file = create(cert_path);

        PEM_write_X509(file, cert);
        fclose(file);
        file = create(key_path);
        PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
        fclose(file);
        if (locked_path != NULL) {
                file = create(locked_path);
                PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), (const unsigned char *)"x", 1,
                                     NULL, NULL);
                fclose(file);
        }
        X509_free(cert);
        EVP_PKEY_free(key);
}

void tls_files_make(struct tls_files *f) {
        strcpy(f->folder, "/tmp/neso-tls-XXXXXX");
        assert_non_null(mkdtemp(f->folder));
        snprintf(f->cert, sizeof(f->cert), "%s/cert", f->folder);
        snprintf(f->key, sizeof(f->key), "%s/key", f->folder);
        snprintf(f->other_cert, sizeof(f->other_cert), "%s/other_cert", f->folder);
        snprintf(f->other_key, sizeof(f->other_key), "%s/other_key", f->folder);
        snprintf(f->locked_key, sizeof(f->locked_key), "%s/locked_key", f->folder);
        snprintf(f->text, sizeof(f->text), "%s/text", f->folder);
        snprintf(f->empty, sizeof(f->empty), "%s/empty", f->folder);
        snprintf(f->half, sizeof(f->half), "%s/half", f->folder);
        write_pair(f->cert, f->key, f->locked_key);
        write_pair(f->other_cert, f->other_key, NULL);
        write_text(f->text, "hello\n");
        write_text(f->empty, "");
        write_text(f->half, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
}

void tls_files_remove(struct tls_files *f) {
        const char *paths[] = { f->cert,       f->key,  f->other_cert, f->other_key,
                                f->locked_key, f->text, f->empty,      f->half };

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                unlink(paths[i]);
        rmdir(f->folder);
}
