/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS as a codec: records in, bytes out, no sockets.
 *
 * A context is what one service shows and asks for: its certificate and key, whose certificates it
 * wants of clients, its application protocols. It can read its files again while connections use
 * it: those go on with what they began with. Each time the keys of session tickets are new, so that
 * nobody resumes what an old certificate or an old list of authorities allowed.
 *
 * A session is one connection. It is fed received records, which stay where they are, and puts
 * records of its own into a buffer that it is lent for the call.
 *
 * TLS 1.2 and 1.3; suites with forward secrecy and authenticated encryption only, which are also
 * those that HTTP/2 allows; no renegotiation, no compression, no early data.
 *
 * Ownership.  A context outlives its sessions. A session borrows what it is fed and lent.
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
        const char *cert_path; /* PEM: the server's certificate, then those that vouch for it */
        const char *key_path;  /* PEM, without a pass phrase */
        const char *root_path; /* PEM: who vouches for clients, each of which must then show a
                                * certificate; NULL = none is asked for */
        struct str  protocols; /* ALPN, each behind a byte of its length; static. A client that
                                * offers some, and none of these, is refused */
};

/* Options are copied. Errors name the file and what is wrong with it. */
struct error *tls_context_new(const struct tls_options *o, struct tls_context **ret) NODISCARD;
void          tls_context_free(struct tls_context *t); /* NULL is fine */
/* Reads the files again; on an error nothing has changed. */
struct error *tls_context_reload(struct tls_context *t) NODISCARD;

/* The most plain bytes of one record (RFC 8446, 5.1), and room for it once sealed. */
#define TLS_RECORD_BYTES ((size_t)16384)
#define TLS_SEALED_BYTES (TLS_RECORD_BYTES + 512)

/* Where a session puts its records: four full ones, and what a handshake has to say. */
struct tls_out {
        size_t len;
        char   bytes[4 * TLS_SEALED_BYTES];
};

enum tls_result {
        TLS_DONE,
        TLS_WANTS_INPUT,
        TLS_WANTS_OUTPUT, /* there was no room for what it has to say; the call is to be repeated */
        TLS_ENDED,        /* the peer said that it sends no more */
        TLS_FAILED,       /* tls_session_reason() tells; what the peer is to know is in the output */
};

/* NULL when memory is short. */
struct tls_session *tls_session_new(struct tls_context *t);
void                tls_session_free(struct tls_session *s); /* NULL is fine */

void   tls_session_feed(struct tls_session *s, struct str records);
size_t tls_session_unread_bytes(const struct tls_session *s); /* of what it was fed: its end */
bool   tls_session_has_input(const struct tls_session *s);
/* For the following calls; NULL = no room. */
void   tls_session_lend(struct tls_session *s, struct tls_out *out);

enum tls_result tls_session_handshake(struct tls_session *s);
/* DONE: *ret_n > 0. */
enum tls_result tls_session_read(struct tls_session *s, char *to, size_t len, size_t *ret_n);
/* At most one record, for which there must be room; false: it failed. */
bool            tls_session_write(struct tls_session *s, const char *bytes, size_t len);
/* Says that nothing more will be sent. */
void            tls_session_close(struct tls_session *s);
/* Gives buffers back until they are needed again. */
void            tls_session_rest(struct tls_session *s);

/* Of a failure: "client certificate: certificate has expired"; lives as long as the session. */
const char *tls_session_reason(const struct tls_session *s);
