/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference through the C API, from a loop and back to it.
 *
 *     infer_call_init -> open (the model) -> fill (what is asked) -> start -> on_done -> done
 *                                                                    cancel, any time between
 *
 * Three things end an inference, in any order and on any thread: the response with the FINAL flag,
 * the release of the request, and the return of ServerInferAsync itself. Whichever comes last
 * makes the call done. When that is the return, because the core ran the model on this very
 * thread, on_done() is called at once; otherwise a mail brings it to the loop.
 *
 * Outputs get memory in the call itself while they are small, then from the buffer pool, so that
 * they can be written to the socket from where the backend put them.
 *
 * A protocol that wants one response (unary) asks for it in on_done(). Should the first one come
 * without the FINAL flag, on_early() is called on the loop before that, for those who need not
 * wait for the end. One that streams sets
 * on_response, which is called on the loop for each response as it comes, the last one before
 * on_done(). Its `limits` bound what a slow client costs: the backend waits before it makes more
 * than that. A response counts until it is deleted, so a protocol that takes time to write one
 * keeps it meanwhile (infer_call_keep_response()).
 *
 * A request that takes long to read is submitted by the thread that read it (infer_call_submit()); what
 * follows waits until that thread has let go of the call (infer_call_submitted()).
 *
 * Ownership.  The call is embedded in memory of the protocol (the arena of its request) and must
 * stay there until on_done(); so must the request's names and bytes. infer_call_done() frees what
 * the call holds: responses and their outputs are gone afterwards. It may be called in on_done(),
 * and whenever start() was not called or failed.
 * Threads.  All callbacks: the loop's. Functions up to infer_call_submit(), and those that read a
 * response: any one thread at a time, which others let have the call meanwhile. The others: the loop's.
 * The core's callbacks: any.
 */
#pragma once

#include "auth/admission.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "call/header_forward.h"
#include "call/infer_message.h"
#include "net/mailbox.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For the outputs of small models: a few scores, a label or two. */
#define INFER_CALL_INLINE_BYTES 1024
/* A cache line: backends write outputs with vector instructions. */
#define INFER_CALL_ALIGNMENT 64

struct loop_work;
struct shared_memory;
struct shm_region;

/* What the calls of one front end share. Constant; used from any thread. */
struct infer_core {
        struct TRITONSERVER_Server            *server;    /* borrowed */
        struct TRITONSERVER_ResponseAllocator *allocator; /* owned */
        struct shared_memory *shared_memory; /* borrowed; NULL = there are no regions */
        struct admission     *admission;     /* borrowed; NULL = no limits */
        struct header_forward header_forward;
};

struct infer_core_options {
        struct TRITONSERVER_Server *server;                 /* borrowed */
        struct shared_memory       *shared_memory;          /* borrowed; NULL = no regions */
        struct admission           *admission;              /* borrowed; NULL = no limits */
        const char                 *header_forward_pattern; /* NULL or "" = forward none */
};

struct error *infer_core_init(struct infer_core *core, const struct infer_core_options *options)
        NODISCARD;
/* No call may be in flight. Fine when init() failed, or all is zero. */
void infer_core_done(struct infer_core *core);

struct infer_call;
struct trace_record;

typedef void (*infer_call_fn)(struct infer_call *call);
typedef void (*infer_call_response_fn)(struct infer_call                     *call,
                                       struct TRITONSERVER_InferenceResponse *response);

/* Memory of the client's for an output, in a shared-memory region. */
struct infer_call_target {
        const char *output; /* borrowed: the request's */
        void       *memory; /* borrowed: a region's, which the call holds */
        size_t      bytes;
};

/* What a streamed call may have waiting, from the backend to the socket. */
struct infer_call_limits {
        uint32_t max_responses;
        uint64_t max_bytes;
};

/* One that arrived; after infer_call_keep_response() its keeper's. */
struct infer_call_response {
        struct infer_call_response            *next;     /* the keeper's */
        struct TRITONSERVER_InferenceResponse *response; /* owned */
        uint64_t                               mark;     /* the keeper's */
        bool                                   is_final;
};

struct infer_call_options {
        const struct infer_core *core;    /* borrowed */
        struct mailbox          *mailbox; /* borrowed: of the loop the call runs on */
        struct buf_pool         *pool;    /* borrowed: of the same loop; outlives the call */
        infer_call_fn            on_done;
        infer_call_response_fn   on_response;   /* NULL: unary */
        infer_call_fn            on_early;      /* unary: see below; or NULL */
        struct infer_call_limits limits;        /* with on_response; 0 = none */
        void                    *owner;         /* borrowed: the protocol's request */
        uint64_t                 message_bytes; /* of the client's; known before open */
        struct str               cold; /* what on_done touches of the connection; may be empty */
};

struct infer_call {
        struct infer_call_options             options;
        struct TRITONSERVER_InferenceRequest *request; /* owned */
        struct admission_pass                 pass;    /* from open to done */
        struct shm_region                   **regions; /* in arena; each a ref */
        struct infer_call_target             *targets; /* in arena */
        size_t                                n_regions;
        size_t                                n_targets;
        struct trace_record *trace; /* borrowed until on_done(); NULL = not traced */
        bool                 is_started;
        bool                 is_final_response; /* in on_response(): it came with the FINAL flag */
        struct infer_call_response *current;    /* in on_response(), until it is kept */

        _Atomic uint32_t                       n_pending;   /* ends to come, callbacks running */
        _Atomic uint32_t                       n_responses; /* seen so far */
        _Atomic(struct infer_call_response *)  arrived;     /* owned: newest first */
        _Atomic bool                           is_response_mail_posted;
        struct TRITONSERVER_InferenceResponse *unary; /* owned: the first response */
        struct mail                            response_mail;
        struct mail                            done_mail;

        _Atomic size_t inline_used;
        char           inline_memory[INFER_CALL_INLINE_BYTES + INFER_CALL_ALIGNMENT];
};

void infer_call_init(struct infer_call *c, const struct infer_call_options *options);
void infer_call_done(struct infer_call *c);

/* version -1 = the highest that is ready. Errors are the core's, unknown model and the like, or
 * UNAVAILABLE when too much is in flight. */
struct error *infer_call_open(struct infer_call *c, const char *model, int64_t version) NODISCARD;
/* Gives inputs and outputs that are in shared memory their places there, and holds the regions
 * until infer_call_done(). Inputs first, each in its order; errors name the region. Bytes that the
 * core checks one by one are copied, since the client could change them behind its back. */
struct error *infer_call_find_regions(struct infer_call *c, struct infer_request *q,
                                      struct arena *arena) NODISCARD;
/* `q` is borrowed until on_done(). */
struct error *infer_call_fill(struct infer_call *c, const struct infer_request *q) NODISCARD;
/* On success on_done() follows, perhaps before this returns: the caller does not touch the call
 * again. `trace` may be NULL; it is borrowed until on_done(). */
struct error *infer_call_start(struct infer_call *c, struct trace_record *trace) NODISCARD;
/* infer_call_start() in two halves: the core gets the request, on any thread; and the loop, to which
 * nothing but on_response() came meanwhile, takes the call back. */
struct error *infer_call_submit(struct infer_call *c, struct trace_record *trace) NODISCARD;
void          infer_call_submitted(struct infer_call *c);
/* The `done` of work that read a request and submitted it: `err` is what it met, taken. On success
 * on_done() follows, perhaps before this returns; otherwise the call is refused with the error that is
 * returned. */
struct error *infer_call_take_back(struct infer_call *c, const struct loop_work *w,
                                   struct error *err, bool client_has_gone) NODISCARD;
/* Asks the core to give up; on_done() still follows. Nothing before start. */
void infer_call_cancel(struct infer_call *c);

/* In on_response(): it stays until infer_call_response_free(), which may come after the call is
 * done; outputs in the memory of the call itself are gone with that. */
struct infer_call_response *infer_call_keep_response(struct infer_call *c);
void infer_call_response_free(struct infer_call_response *r); /* NULL is fine */

/* Unary, in on_done(): the one response, borrowed; INTERNAL "expected a single response, got <n>"
 * when there was none or several. The model's own failure is in the response. */
struct error *infer_call_get_response(struct infer_call                      *c,
                                      struct TRITONSERVER_InferenceResponse **ret) NODISCARD;

/* The first response, borrowed; NULL when there was none. *ret_n is the number of responses so far.
 * Unlike infer_call_get_response() it accepts any number. May be called in on_early(). */
struct TRITONSERVER_InferenceResponse *infer_call_first_response(struct infer_call *c,
                                                                 uint32_t          *ret_n);

/* With a response in hand: an error when memory of a region was missing while the model ran. */
struct error *infer_call_check_regions(const struct infer_call *c) NODISCARD;
