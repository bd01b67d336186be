/* SPDX-License-Identifier: BSD-3-Clause */
/* One call: one stream of an HTTP/2 connection, from its headers to its trailers.
 *
 *     on_open -> on_message (any number) -> on_half_close        what the client says
 *     grpc_call_send (any number) -> grpc_call_finish            what the handler says
 *     on_abort                                                   at most once, before finish
 *
 * A method's callbacks get complete, decompressed messages. The handler answers at once or later,
 * always on the call's loop, and ends every call that it was given exactly once with
 * grpc_call_finish() (or _reply, _fail, which contain it), even after on_abort: until then the call
 * and its arena stay valid. It was given the call as soon as any of its callbacks ran.
 *
 * A method without a client stream gets exactly one message, when the client has half-closed; a
 * client that sends none or several is refused before. on_half_close is for client streams alone.
 *
 * What the client does not read waits in the call. Beyond `unsent_pause_bytes` of the limits no
 * further message is read from that client stream; beyond `unsent_bytes` the call is aborted
 * (GRPC_ABORT_OVERFLOW). One message may always be sent when none is waiting.
 *
 * Ownership.  The connection owns the call and recycles it: nothing is allocated per call. Metadata
 * lives as long as the call; a message's bytes until its on_message returns, or as long as a
 * reference on its `owner` is held.
 * Threads.  The loop's thread; grpc_call_post() and grpc_call_mailbox() any thread.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/list.h"
#include "base/str.h"
#include "grpc/grpc_status.h"
#include "net/mailbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct TRITONSERVER_Server;
struct grpc_call;
struct service;
struct grpc_stream;
struct loop;
struct loop_work;
struct trace_record;

typedef void (*grpc_call_fn)(struct grpc_call *call);
/* `owner` holds the bytes: buf_ref() it to keep them. NULL when the message is empty. */
typedef void (*grpc_message_fn)(struct grpc_call *call, struct str message, struct buf *owner);

/* A row of the method table. */
struct grpc_method {
        const char         *path; /* "/inference.GRPCInferenceService/ModelInfer" */
        enum endpoint_group group;
        bool                is_client_stream;
        bool                is_server_stream;
        bool                is_compressible; /* answers follow the server's compression level */
        grpc_call_fn        on_open;         /* the headers were accepted; may be NULL */
        grpc_message_fn     on_message;
        grpc_call_fn        on_half_close; /* client streams only: no message follows */
        grpc_call_fn        on_abort;      /* cancel the work, then finish; NULL: just finish */
};

struct grpc_method_table {
        const struct grpc_method *rows; /* borrowed: static */
        size_t                    n_rows;
};

struct grpc_metadata {
        struct str name; /* lower case; pseudo-headers are not among them */
        struct str value;
};

enum grpc_abort {
        GRPC_ABORT_NONE,
        GRPC_ABORT_CANCELLED, /* the client has reset the stream, or is gone */
        GRPC_ABORT_DEADLINE,  /* the client's time is up; it has been answered */
        GRPC_ABORT_OVERFLOW,  /* the client does not read what is sent; it has been answered */
        GRPC_ABORT_REFUSED,   /* a later message of the stream was no message; answered */
};

struct grpc_call {
        const struct grpc_method *method; /* borrowed: static table */
        struct str                path;

        const struct grpc_metadata *metadata; /* in the order sent */
        size_t                      n_metadata;

        struct arena                arena;   /* reset when the call has ended */
        const struct service       *service; /* borrowed: the server's */
        struct TRITONSERVER_Server *core;    /* borrowed; NULL in tests without a core */

        uint64_t recv_start_ns; /* headers seen (monotonic) */
        uint64_t recv_end_ns;   /* last message complete */
        uint64_t send_start_ns; /* first thing sent or finished, of a call with on_sent */
        uint64_t deadline_ns;   /* from grpc-timeout; CLOCK_NEVER when not given */

        /* The handler's, from its first callback to finish. */
        struct list_node node;
        void            *pending;    /* borrowed */
        grpc_call_fn     on_written; /* some of what was sent has gone to the socket; or NULL */
        /* For traces: called on the loop once the end is written or given up; the call may be
         * looked at, nothing else. NULL at the start of each call. */
        grpc_call_fn         on_sent;
        struct trace_record *trace; /* ref, on_sent's; see rpc_inference.h; NULL = not traced */
        enum grpc_abort      abort_reason;

        struct access access; /* checked before a handler sees the call */

        /* Private to grpc_call.c. */
        struct grpc_stream *stream;
        struct mail         mail;
        grpc_call_fn        posted;
};

/* A piece of a message. With `buf` the call takes the caller's reference and drops it after the
 * write, and the bytes are not copied; without, the bytes are copied at once. */
struct grpc_part {
        const void *ptr;
        size_t      len;
        struct buf *buf; /* taken; may be NULL */
};

/* The first value of that name (lower case), ptr NULL when absent. */
struct str grpc_call_metadata(const struct grpc_call *call, const char *name);
/* Initial metadata of the answer, before the first send; trailing metadata, before finish. Name in
 * lower case, neither a pseudo-header nor "grpc-..."; both are copied. Values must be printable
 * ASCII, or base64 for names in "-bin"; anything else is dropped. */
void grpc_call_add_initial(struct grpc_call *call, struct str name, struct str value);
void grpc_call_add_trailing(struct grpc_call *call, struct str name, struct str value);

/* One message. Takes the `buf` of every part, whatever happens; does nothing else once the call is
 * aborted. A message beyond 2^31 - 1 bytes ends the call with INVALID_ARGUMENT "Response has byte
 * size <n> which exceeds gRPC's byte size limit 2147483647." and the abort reason OVERFLOW. */
void grpc_call_send(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts);
/* Of all messages sent, what is not with the socket. */
size_t grpc_call_unsent_bytes(const struct grpc_call *call);
/* Of all messages sent, what is with the socket. */
uint64_t grpc_call_written_bytes(const struct grpc_call *call);

/* For messages that take long to compress: does it now, on any thread, as grpc_call_send() would. Takes
 * the parts' buffers; *ret has one of its own, for grpc_call_send_packed(). False, and nothing has
 * changed, when this call's messages are not compressed, or it would not be smaller. */
bool grpc_call_wants_packing(const struct grpc_call *call);
bool grpc_call_pack(const struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                    struct grpc_part *ret);
/* As grpc_call_send() and _reply(), of a message that is compressed already. */
void grpc_call_send_packed(struct grpc_call *call, const struct grpc_part *packed);
void grpc_call_reply_packed(struct grpc_call *call, const struct grpc_part *packed);

/* The client gets its status now, after what was sent before; nothing is sent or delivered any
 * more. For a handler that still has work in flight, which ends the call with finish all the same;
 * on_abort may come until then. `message` is copied; NULL = "". */
void grpc_call_conclude(struct grpc_call *call, enum grpc_code code, const char *message);
/* Ends the call: afterwards it belongs to the connection. `message` is copied; NULL = "". */
void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *message);
/* grpc_call_send(), then OK. */
void grpc_call_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts);
/* Finishes with the code and text of the error; takes it. */
void grpc_call_fail(struct grpc_call *call, struct error *err);

/* Client streams: no message is delivered between pause and resume, and beyond its window the
 * client cannot send. resume may deliver messages before it returns. */
void grpc_call_pause(struct grpc_call *call);
void grpc_call_resume(struct grpc_call *call);

bool grpc_call_is_aborted(const struct grpc_call *call);
/* "127.0.0.1:34567"; "unknown" when the connection is gone. */
const char *grpc_call_peer(const struct grpc_call *call);

/* Runs fn(call) on the call's loop. At most one post may be under way per call. */
void grpc_call_post(struct grpc_call *call, grpc_call_fn fn);
/* For several under way: mails of the handler's own. */
struct mailbox *grpc_call_mailbox(const struct grpc_call *call);
struct loop    *grpc_call_loop(const struct grpc_call *call); /* for timers */
/* Runs work that blocks (a model load) beside the loop, then `done` on it. */
void grpc_call_start_work_thread(struct grpc_call *call, struct loop_work *work);
/* Runs work that computes for long beside the loop, see loop_compute(), then `done` on it. The call
 * stays the loop's: what the work needs of it does not change, and its arena is none of that. */
void grpc_call_compute(struct grpc_call *call, struct loop_work *work);
void grpc_call_compute_cancel(struct grpc_call *call, struct loop_work *work);
/* The pool of the call's loop, for buffers of the answer. */
struct buf_pool *grpc_call_buf_pool(const struct grpc_call *call);

/* The calls of a connection (h2_conn.h). */
struct h2_stream_ops;
extern const struct h2_stream_ops grpc_call_stream_ops;
