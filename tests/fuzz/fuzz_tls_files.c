/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of certificates and keys, for a server and for a client, and the bytes of a peer's handshake.
 *
 * The first byte has flags: a client's context; no list of authorities. The rest is texts, each ended by a byte 0xff:
 * certificate with its chain, key, authorities, bytes of the peer. An empty text takes the file before it, so that one
 * text may be all of them.
 *
 * What must hold: an error names the file's purpose and is a line of text, without a part of the key; OpenSSL's queue
 * of errors, which later calls would report, is empty; a context that was made can be made again; a session that failed
 * has a reason, and what it writes are records.
 */
#include "base/mem.h"
#include "base/rsa_sign.h"
#include "expect.h"
#include "net/tls_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_BYTES 65536
#define SEPARATOR ((char)0xff)
#define KEY_PART 24 /* bytes of a key's text that no error may have */

enum { CERT, KEY, ROOTS, N_FILES, PEER = N_FILES, N_TEXTS };
enum { IS_CLIENT = 1, HAS_NO_ROOTS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static int  fds[N_FILES];
static char paths[N_FILES][64];

static void begin(void) {
        if (paths[0][0] != '\0')
                return;
        for (size_t i = 0; i < N_FILES; i++) {
                fds[i] = memfd_create("pem", MFD_CLOEXEC);
                expect_of(fds[i] >= 0, "memfd", "");
                (void)snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fds[i]);
        }
}

static void write_file(int fd, struct str text) {
        expect_of(ftruncate(fd, 0) == 0 && pwrite(fd, text.ptr, text.len, 0) == (ssize_t)text.len,
                  "file", "");
}

static void check_error(const struct error *err, struct str key) {
        static const char *const whats[] = { "server certificate", "server key",
                                             "client certificate", "client key",
                                             "root certificate" };
        bool                     has_what = false;

        for (size_t i = 0; i < sizeof(whats) / sizeof(*whats); i++)
                has_what = has_what || strstr(err->message, whats[i]) != NULL;
        expect_of(has_what, "no purpose", err->message);
        for (const char *c = err->message; *c != '\0'; c++)
                expect_of((unsigned char)*c >= ' ', "a control character", err->message);
        for (size_t i = 0; i + KEY_PART <= key.len; i++)
                expect_of(memmem(err->message, strlen(err->message), key.ptr + i, KEY_PART) == NULL,
                          "a part of the key", err->message);
}

static struct error *make(unsigned flags, struct tls_context **ret) {
        static const char               h2[] = "\2h2";
        struct str                      protocols = str_of(h2);
        const char                     *roots = (flags & HAS_NO_ROOTS) == 0 ? paths[ROOTS] : NULL;
        const struct tls_options        o = { paths[CERT], paths[KEY], roots, protocols };
        const struct tls_client_options c = { .root_path = paths[ROOTS],
                                              .cert_path = roots != NULL ? paths[CERT] : NULL,
                                              .key_path = roots != NULL ? paths[KEY] : NULL,
                                              .host = "localhost",
                                              .protocols = protocols };

        return (flags & IS_CLIENT) != 0 ? tls_client_context_new(&c, ret)
                                        : tls_context_new(&o, ret);
}

/* All that was written are whole records of a version of TLS. */
static void check_records(const struct tls_out *out) {
        size_t at = 0;

        while (at + 5 <= out->len && (unsigned char)out->bytes[at] >= 20 &&
               (unsigned char)out->bytes[at] <= 23 && out->bytes[at + 1] == 3)
                at += 5 + ((size_t)(unsigned char)out->bytes[at + 3] << 8 |
                           (unsigned char)out->bytes[at + 4]);
        expect_of(at == out->len, "what a session writes", "no record");
}

static void shake_hands(struct tls_context *t, struct str peer) {
        static struct tls_out out;
        struct tls_session   *s = tls_session_new(t);
        enum tls_result       rc;
        char                  plain[256];
        size_t                n;

        expect_of(s != NULL, "session", "");
        out.len = 0;
        tls_session_lend(s, &out);
        tls_session_feed(s, peer);
        rc = tls_session_handshake(s);
        while (rc == TLS_DONE && tls_session_has_input(s))
                rc = tls_session_read(s, plain, sizeof(plain), &n);
        expect_of(rc != TLS_WANTS_OUTPUT, "session", "no room");
        if (rc == TLS_FAILED)
                expect_of(tls_session_reason(s) != NULL && tls_session_reason(s)[0] != '\0',
                          "session", "no reason");
        check_records(&out);
        tls_session_free(s);
}

static void sign(struct str key) {
        AUTO_STRBUF signature = { 0 };
        AUTO_ERROR  err = rsa_sign_sha256(key, STR_LIT("text"), &signature);

        expect_of((err == NULL) == (signature.len > 0), "signature", "");
        for (size_t i = 0; err != NULL && i + KEY_PART <= key.len; i++)
                expect_of(memmem(err->message, strlen(err->message), key.ptr + i, KEY_PART) == NULL,
                          "a part of the key", err->message);
        expect_of(ERR_peek_error() == 0, "signature", "OpenSSL has an error left");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str          texts[N_TEXTS] = { { 0 } }, rest;
        struct tls_context *t = NULL;
        struct error       *err;

        if (size == 0 || size > MAX_BYTES)
                return 0;
        begin();
        rest = str_range((const char *)bytes + 1, size - 1);
        for (size_t i = 0; i < N_TEXTS; i++) {
                if (rest.ptr != NULL)
                        rest = str_split(rest, SEPARATOR, &texts[i]);
                if (texts[i].len == 0 && i > 0 && i < N_FILES)
                        texts[i] = texts[i - 1];
                if (i < N_FILES)
                        write_file(fds[i], texts[i]);
        }
        err = make(bytes[0], &t);
        expect_of(ERR_peek_error() == 0, "context", "OpenSSL has an error left");
        expect_of((err == NULL) == (t != NULL), "context", "neither an error nor a context");
        if (err != NULL) {
                check_error(err, texts[KEY]);
                error_free(err);
        } else {
                if ((bytes[0] & IS_CLIENT) == 0)
                        expect_of(tls_context_reload(t) == NULL, "context",
                                  "it cannot be made again");
                shake_hands(t, texts[PEER]);
                tls_context_free(t);
        }
        sign(texts[KEY]);
        return 0;
}
