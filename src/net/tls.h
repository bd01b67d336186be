/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS without sockets: a session converts received records to plain bytes, and plain bytes to records.
 *
 * A context holds the settings of one service: its certificate and key, the authorities whose client
 * certificates it accepts, and its application protocols. It can read its files again while
 * connections use it; these continue with the settings with which they began. Each reload generates
 * new keys for session tickets, so that no client resumes a session that an old certificate or an old
 * list of authorities allowed.
 *
 * A session is the TLS state of one connection. Its caller feeds it received records, which must stay
 * valid until they are read, and lends it an output buffer, into which the session writes records.
 *
 * TLS 1.2 and 1.3; only suites with forward secrecy and authenticated encryption, as HTTP/2 requires;
 * no renegotiation, no compression, no early data.
 *
 * Ownership.  A context outlives its sessions. A session borrows the input and the output buffer.
 * Threads.  A context: any. A session: one at a time.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct tls_context;
struct tls_session;

struct tls_options {
        const char *cert_path; /* PEM: the server's certificate, then its chain of issuers */
        const char *key_path;  /* PEM, without a pass phrase */
        /* PEM: the authorities that sign client certificates. With it, each client must have a
         * certificate; NULL = none is requested. */
        const char *root_path;
        /* ALPN: a byte with the length before each name; static. A client that offers only other
         * protocols is refused. */
        struct str protocols;
};

/* Settings of a client, whose sessions all go to one host. */
struct tls_client_options {
        const char *root_path; /* PEM: the accepted authorities; NULL: those of the system */
        const char *cert_path; /* PEM: the client's certificate, then its issuers; NULL: none */
        const char *key_path;  /* PEM, with cert_path */
        const char *host;      /* name or address that the certificate must have */
        bool        accepts_any_certificate;
        bool        accepts_any_host; /* an accepted authority's certificate for any name */
        struct str  protocols;        /* ALPN, as above; static */
};

/* Copies the options. An error names the file and the fault in it. */
struct error *tls_client_context_new(const struct tls_client_options *o, struct tls_context **ret)
        NODISCARD;

/* Copies the options. An error names the file and the fault in it. */
struct error *tls_context_new(const struct tls_options *o, struct tls_context **ret) NODISCARD;
void          tls_context_free(struct tls_context *t); /* NULL is fine */
/* Reads the files of a server's context again; after an error the old settings are still in use. */
struct error *tls_context_reload(struct tls_context *t) NODISCARD;

/* Largest number of plain bytes in a record (RFC 8446, 5.1), and the largest size of an encrypted
 * record. */
#define TLS_RECORD_BYTES ((size_t)16384)
#define TLS_ENCRYPTED_BYTES (TLS_RECORD_BYTES + 512)

/* Output of a session: room for four full records and the messages of a handshake. */
struct tls_out {
        size_t len;
        char   bytes[4 * TLS_ENCRYPTED_BYTES];
};

enum tls_result {
        TLS_DONE,
        TLS_WANTS_INPUT,
        TLS_WANTS_OUTPUT, /* no room for the output; repeat the call */
        TLS_ENDED,        /* the peer sent close_notify */
        TLS_FAILED,       /* see tls_session_reason(); the output holds the alert for the peer */
};

/* NULL when memory is short. */
struct tls_session *tls_session_new(struct tls_context *t);
void                tls_session_free(struct tls_session *s); /* NULL is fine */

void   tls_session_feed(struct tls_session *s, struct str records);
size_t tls_session_unread_bytes(
        const struct tls_session *s); /* size of the unread end of the input */
bool tls_session_has_input(const struct tls_session *s);
/* Sets the output buffer of the following calls; NULL = no room. */
void tls_session_lend(struct tls_session *s, struct tls_out *out);

/* True when this side begins the handshake. */
bool            tls_session_is_client(const struct tls_session *s);
enum tls_result tls_session_handshake(struct tls_session *s);
/* TLS_DONE: *ret_n > 0. */
enum tls_result tls_session_read(struct tls_session *s, char *to, size_t len, size_t *ret_n);
/* Writes at most one record, for which there must be room; false on failure. */
bool tls_session_write(struct tls_session *s, const char *bytes, size_t len);
/* True when a part of a record has come, and the rest has not; the session holds a buffer for the whole. */
bool tls_session_is_within_record(const struct tls_session *s);
/* Queues close_notify: nothing more will be sent. */
void tls_session_close(struct tls_session *s);
/* Frees OpenSSL's buffers; it allocates them again when they are needed. */
void tls_session_free_buffers(struct tls_session *s);

/* The reason of a failure: "client certificate: certificate has expired"; valid as long as the
 * session. */
const char *tls_session_reason(const struct tls_session *s);
