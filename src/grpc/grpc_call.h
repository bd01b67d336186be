/* SPDX-License-Identifier: BSD-3-Clause */
/* One call: one stream of an HTTP/2 connection, from its headers to its trailers.
 *
 *     on_open -> on_message (any number) -> on_half_close        from the client
 *     grpc_call_send (any number) -> grpc_call_finish            from the handler
 *     on_abort                                                   at most once, before finish
 *
 * A method's callbacks get complete, decompressed messages. The handler answers at once or later, always
 * on the call's loop. It owns the call from its first callback on, and must end it exactly once with
 * grpc_call_finish() (or _reply or _fail, which include it), even after on_abort. Until then the call and
 * its arena stay valid.
 *
 * A method without a client stream gets exactly one message, after the client has half-closed; a call with
 * no message or several is refused before. on_half_close is for client streams only.
 *
 * Messages that the client does not read are queued in the call. Beyond `unsent_pause_bytes` of the limits
 * no further message is read from that client stream. Beyond `unsent_bytes` the call is aborted
 * (GRPC_ABORT_OVERFLOW). A message may always be sent when none is queued.
 *
 * Ownership.  The connection owns the call and frees it: a call is one allocation. Metadata lives
 * as long as the call. The bytes of a message live until its on_message returns, or as long as a reference
 * on its `owner` is held.
 * Threads.  The loop's thread; grpc_call_post() and grpc_call_mailbox(): any thread.
 */
#pragma once

#include "auth/access.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/compiler.h"
#include "base/error.h"
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
/* `owner` holds the bytes; buf_ref() it to keep them. NULL when the message is empty. */
typedef void (*grpc_message_fn)(struct grpc_call *call, struct str message, struct buf *owner);

/* A row of the method table. */
struct grpc_method {
        const char         *path; /* "/inference.GRPCInferenceService/ModelInfer" */
        enum endpoint_group group;
        bool                is_client_stream;
        bool                is_server_stream;
        bool                is_compressible; /* answers are compressed at the server's level */
        grpc_call_fn        on_open;         /* the headers were accepted; may be NULL */
        grpc_message_fn     on_message;
        grpc_call_fn        on_half_close; /* client streams only; no message follows */
        grpc_call_fn        on_abort;      /* cancels the work; finish still follows; may be NULL */
        /* True when a call that the handler has does nothing until its client sends a message, or something happens
         * that may never happen. Such a call makes room for others when memory is short. NULL = never. */
        bool (*is_quiet)(const struct grpc_call *call);
};

struct grpc_method_table {
        const struct grpc_method *rows; /* borrowed: static */
        size_t                    n_rows;
};

struct grpc_metadata {
        struct str name; /* lower case; never a pseudo-header */
        struct str value;
};

enum grpc_abort {
        GRPC_ABORT_NONE,
        GRPC_ABORT_CANCELLED, /* the client has reset the stream or closed the connection */
        GRPC_ABORT_DEADLINE,  /* the deadline has passed; the client has its status */
        GRPC_ABORT_OVERFLOW,  /* the client does not read; the stream is reset */
        GRPC_ABORT_REFUSED,   /* a later message was malformed; the client has its status */
};

struct grpc_call {
        const struct grpc_method *method; /* borrowed: static table */
        struct str                path;

        const struct grpc_metadata *metadata; /* in the order sent */
        size_t                      n_metadata;

        struct arena                arena;   /* reset when the call has ended */
        const struct service       *service; /* borrowed: the server's */
        struct TRITONSERVER_Server *core;    /* borrowed; NULL in tests without a core */

        uint64_t recv_start_ns; /* headers received (monotonic) */
        uint64_t recv_end_ns;   /* last message received */
        uint64_t send_start_ns; /* first send or finish, in a call with on_sent */
        uint64_t deadline_ns;   /* from grpc-timeout; CLOCK_NEVER when not given */

        /* For the handler, from its first callback to finish. */
        void        *pending;    /* borrowed */
        grpc_call_fn on_written; /* the socket took bytes that were sent; may be NULL */
        /* For traces: called on the loop after the end of the call was written or abandoned. May only
         * read the call. NULL at the start of each call. */
        grpc_call_fn         on_sent;
        struct trace_record *trace; /* ref of on_sent(), see rpc_inference.h; NULL = not traced */
        enum grpc_abort      abort_reason;

        struct access access; /* checked before a handler sees the call */

        /* Private to grpc_call.c. */
        struct grpc_stream *stream;
        struct mail         mail;
        grpc_call_fn        posted;
};

/* A piece of a message. If `buf` is set, the bytes are not copied: the call takes the caller's reference and
 * drops it after the write. If not, the bytes are copied at once. */
struct grpc_part {
        const void *ptr;
        size_t      len;
        struct buf *buf; /* taken; may be NULL */
};

/* Returns the first value of that name (lower case), ptr NULL when absent. */
struct str grpc_call_metadata(const struct grpc_call *call, const char *name);
/* Add initial metadata of the answer, before the first send, and trailing metadata, before finish. Both
 * copy the name and the value. The name is in lower case, neither a pseudo-header nor "grpc-...". The value
 * is printable ASCII, or base64 for names that end in "-bin". Anything else is dropped. */
void grpc_call_add_initial(struct grpc_call *call, struct str name, struct str value);
void grpc_call_add_trailing(struct grpc_call *call, struct str name, struct str value);

/* Sends a message. Takes the `buf` of every part in any case; does nothing else after the call was aborted.
 * A message beyond 2^31 - 1 bytes ends the call with INVALID_ARGUMENT "Response has byte
 * size <n> which exceeds gRPC's byte size limit 2147483647." and the abort reason OVERFLOW. */
void grpc_call_send(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts);
/* Number of bytes of all messages that are still queued. */
size_t grpc_call_unsent_bytes(const struct grpc_call *call);
/* Number of bytes of all messages that were given to the connection. */
uint64_t grpc_call_written_bytes(const struct grpc_call *call);

/* Compresses a message ahead of grpc_call_send_packed(), on any thread, because it takes long. Takes the
 * parts' buffers; *ret has a buffer of its own. Returns false and changes nothing when the messages of this
 * call are not compressed, or when the result would not be smaller. */
bool grpc_call_wants_packing(const struct grpc_call *call);
bool grpc_call_pack(const struct grpc_call *call, const struct grpc_part *parts, size_t n_parts,
                    struct grpc_part *ret);
/* As grpc_call_send() and _reply(), for a message that is already compressed. */
void grpc_call_send_packed(struct grpc_call *call, const struct grpc_part *packed);
void grpc_call_reply_packed(struct grpc_call *call, const struct grpc_part *packed);

/* Sends the status to the client, after the messages sent so far; no further message is sent or delivered.
 * For a handler that still has work in flight: it must end the call with finish as usual, and on_abort may
 * be called until then. `message` is copied; NULL = "". */
void grpc_call_conclude(struct grpc_call *call, enum grpc_code code, const char *message);
/* Ends the call; the handler must not touch it afterwards. `message` is copied; NULL = "". */
void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *message);
/* grpc_call_send(), then finish with OK. */
void grpc_call_reply(struct grpc_call *call, const struct grpc_part *parts, size_t n_parts);
/* Finishes with the code and text of the error; takes it. */
void grpc_call_fail(struct grpc_call *call, struct error *err);

/* Client streams: no message is delivered between pause and resume, and the client can send no more than
 * its window. resume may deliver messages before it returns. */
void grpc_call_pause(struct grpc_call *call);
void grpc_call_resume(struct grpc_call *call);

bool grpc_call_is_aborted(const struct grpc_call *call);

/* Runs fn(call) on the call's loop. At most one post may be under way per call. */
void grpc_call_post(struct grpc_call *call, grpc_call_fn fn);
/* The loop's mailbox, for a handler that posts several mails of its own. */
struct mailbox *grpc_call_mailbox(const struct grpc_call *call);
struct loop    *grpc_call_loop(const struct grpc_call *call); /* for timers */
/* Runs work that blocks (a model load) on a thread of its own, then work->done on the loop. */
void grpc_call_start_work_thread(struct grpc_call *call, struct loop_work *work);
/* Runs a long computation on a compute thread, see loop_compute(), then work->done on the loop. The loop keeps
 * the call: the work may read fields that do not change, and must not use the call's arena. */
void grpc_call_compute(struct grpc_call *call, struct loop_work *work);
void grpc_call_compute_cancel(struct grpc_call *call, struct loop_work *work);
/* The buffer pool of the call's loop, for the answer. */
struct buf_pool *grpc_call_buf_pool(const struct grpc_call *call);
/* Charges the memory budget for what a method allocates itself. False, with nothing charged, when the budget
 * has no room. Allowed until the call is finished. */
bool grpc_call_charge(struct grpc_call *call, size_t bytes) NODISCARD;
void grpc_call_discharge(struct grpc_call *call, size_t bytes);

/* Connects calls to the streams of a connection (h2_conn.h). */
struct h2_stream_ops;
extern const struct h2_stream_ops grpc_call_stream_ops;
