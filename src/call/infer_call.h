/* SPDX-License-Identifier: BSD-3-Clause */
/* One inference through the C API, from a loop and back to it.
 *
 *     infer_call_init -> open (the model) -> fill (the request) -> start -> on_done -> done
 *                                                               ^            |
 *                                                               '-- refill --'
 *     cancel: at any time between start and done
 *
 * Three events end an inference, in any order and on any thread: the response with the FINAL flag,
 * the release of the request, and the return of ServerInferAsync. The last of them ends the call.
 * When that is the return, because the core ran the model on this thread, on_done() is called at
 * once. Otherwise a mail carries the call to the loop.
 *
 * Small outputs get memory inside of the call, larger ones from the buffer pool. The socket is then
 * written from the memory into which the backend wrote. A backend that prefers memory of a GPU gets
 * it only when the client gave a CUDA region for the output; otherwise it copies the output to the
 * host, which the socket needs anyway.
 *
 * A unary protocol takes its one response in on_done(). When the first response comes without the
 * FINAL flag, on_early() is called on the loop before the end, for a protocol that need not wait
 * for it. A streaming protocol sets on_response, which is called on the loop for each response as
 * it comes, for the last one before on_done(). `limits` bound the cost of a slow client: the
 * backend waits before it makes more responses. A response counts until it is deleted, so a
 * protocol that needs time to write one keeps it meanwhile (infer_call_keep_response()). When a round
 * of the loop has used its time (net/turns.h), each call delivers a few responses, and the rest in
 * later rounds; on_done() follows the last one.
 *
 * A request that takes long to decode is submitted by the thread that decoded it
 * (infer_call_submit()). Events of the call are then held back until that thread has released the
 * call (infer_call_submitted()).
 *
 * Ownership.  The call is embedded in memory of the protocol (the arena of its request) and must
 * stay there until on_done(). The same holds for the names and bytes of the request.
 * infer_call_done() frees what the call holds, with all responses and their outputs. It may be
 * called in on_done(), and at any time when start() was not called or failed.
 * Threads.  All callbacks: the loop. Functions up to infer_call_submit(), and those that read a
 * response: one thread at a time, with exclusive use of the call. The others: the loop. The core's
 * callbacks: any.
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

/* Room for the outputs of small models: a few scores, a label or two. */
#define INFER_CALL_INLINE_BYTES 1024
/* A cache line: backends write outputs with vector instructions. */
#define INFER_CALL_ALIGNMENT 64

struct cuda_region;
struct loop_work;
struct shared_memory;
struct shm_region;

/* The state that the calls of one front end share. Constant; used by any thread. */
struct infer_core {
        struct TRITONSERVER_Server            *server;    /* borrowed */
        struct TRITONSERVER_ResponseAllocator *allocator; /* owned */
        /* owned: for calls with outputs in CUDA regions. It describes each output's buffer, too. */
        struct TRITONSERVER_ResponseAllocator *gpu_allocator;
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
/* No call may be in flight. May be called after init() has failed, and for zeros. */
void infer_core_done(struct infer_core *core);

struct infer_call;
struct trace_record;

typedef void (*infer_call_fn)(struct infer_call *call);
typedef void (*infer_call_response_fn)(struct infer_call                     *call,
                                       struct TRITONSERVER_InferenceResponse *response);

/* Memory of the client for an output, in a shared-memory region. */
struct infer_call_target {
        const char               *output; /* borrowed: the request */
        void                     *memory; /* borrowed: a region that the call holds */
        size_t                    bytes;
        const struct cuda_region *gpu; /* borrowed: the region, if `memory` is a device's */
};

/* Limits of the responses of a streamed call between the backend and the socket. */
struct infer_call_limits {
        uint32_t max_responses;
        uint64_t max_bytes;
};

/* A response that has arrived. After infer_call_keep_response() it belongs to the caller of that
 * function. */
struct infer_call_response {
        struct infer_call_response            *next;     /* for the caller that keeps it */
        struct TRITONSERVER_InferenceResponse *response; /* owned */
        uint64_t                               mark;     /* for the caller that keeps it */
        bool                                   is_final;
};

struct infer_call_options {
        const struct infer_core *core;    /* borrowed */
        struct mailbox          *mailbox; /* borrowed: of the loop on which the call runs */
        struct buf_pool         *pool;    /* borrowed: of the same loop; outlives the call */
        infer_call_fn            on_done;
        infer_call_response_fn   on_response;   /* NULL: unary */
        infer_call_fn            on_early;      /* unary: see above; or NULL */
        struct infer_call_limits limits;        /* for on_response; 0 = no limit */
        void                    *owner;         /* borrowed: the protocol's request */
        uint64_t                 message_bytes; /* size of the client message; set before open */
        struct str               cold;          /* connection data for on_done; may be "" */
};

struct infer_call {
        struct infer_call_options             options;
        struct TRITONSERVER_InferenceRequest *request; /* owned */
        struct admission_pass                 pass;    /* from open to done */
        struct shm_region                   **regions; /* in arena; each a ref */
        struct infer_call_target             *targets; /* in arena */
        size_t                                n_regions;
        size_t                                n_targets;
        bool                                  has_gpu_targets;
        struct trace_record        *trace; /* borrowed until on_done(); NULL = not traced */
        bool                        is_started;
        bool                        is_final_response; /* in on_response(): it is the last */
        struct infer_call_response *current; /* in on_response(), until the protocol keeps it */

        _Atomic uint32_t                      n_pending;   /* events to come and running
                                                             * callbacks */
        _Atomic uint32_t                      n_responses; /* responses so far */
        _Atomic(struct infer_call_response *) arrived;     /* owned: newest first */
        struct infer_call_response           *first_due,
                *last_due; /* owned: taken from there, oldest first */
        bool                                   has_ended; /* on_done() follows the last of those */
        _Atomic bool                           is_response_mail_posted;
        struct TRITONSERVER_InferenceResponse *unary; /* owned: the first response */
        struct mail                            response_mail;
        struct mail                            done_mail;

        _Atomic size_t inline_used;
        char           inline_memory[INFER_CALL_INLINE_BYTES + INFER_CALL_ALIGNMENT];
};

void infer_call_init(struct infer_call *c, const struct infer_call_options *options);
void infer_call_done(struct infer_call *c);

/* Makes the request of the core. Version -1 is the highest one that is ready. Errors are those of
 * the core (unknown model and similar), or UNAVAILABLE when too many requests are in flight. */
struct error *infer_call_open(struct infer_call *c, const char *model, int64_t version) NODISCARD;
/* True when to find the regions and to fill the request takes more than `max_work` (see
 * infer_request_work()), or waits for a device: strings in a CUDA region are copied to the host. The
 * loop then has another thread do it. With SIZE_MAX never true. */
bool infer_call_is_long(const struct infer_call *c, const struct infer_request *q, size_t max_work);
/* Finds the memory of inputs and outputs in shared memory, and holds the regions until
 * infer_call_done(). Inputs come first, then outputs, each in order; errors name the region. Bytes
 * that the core checks one by one are copied, since the client could change them after the check;
 * from a CUDA region to the host, too.
 */
struct error *infer_call_find_regions(struct infer_call *c, struct infer_request *q,
                                      struct arena *arena) NODISCARD;
/* `q` is borrowed until on_done(). */
struct error *infer_call_fill(struct infer_call *c, const struct infer_request *q) NODISCARD;
/* From on_done() on: makes the call ready to start once more, with the inputs of `q` in place of those before. All
 * else stays as it was filled, and so does the model, even when it is unloaded meanwhile. The responses so far were
 * freed or kept, and have no outputs in the memory of the call. Not for inputs or outputs in shared memory. */
struct error *infer_call_refill(struct infer_call *c, const struct infer_request *q) NODISCARD;
/* Starts the inference. On success on_done() follows, perhaps before this function returns, so the
 * caller must not use the call any more. `trace` may be NULL; it is borrowed until on_done(). */
struct error *infer_call_start(struct infer_call *c, struct trace_record *trace) NODISCARD;
/* The two halves of infer_call_start(). infer_call_submit() passes the request to the core, on any
 * thread. infer_call_submitted() gives the call back to the loop. Before that, on_response() is the
 * only callback that may have run. */
struct error *infer_call_submit(struct infer_call *c, struct trace_record *trace) NODISCARD;
void          infer_call_submitted(struct infer_call *c);
/* The end of work on another thread that decoded a request and submitted it. `err` is the error of
 * that work, and is taken. On success on_done() follows, perhaps before this function returns.
 * Otherwise the protocol refuses the call with the error that this function returns. */
struct error *infer_call_take_back(struct infer_call *c, const struct loop_work *w,
                                   struct error *err, bool client_has_gone) NODISCARD;
/* Asks the core to cancel the inference. on_done() still follows. Does nothing before start. */
void infer_call_cancel(struct infer_call *c);

/* In on_response(): keeps the response until infer_call_response_free(), which may come after the
 * call is done. Outputs in the memory of the call itself end with the call. */
struct infer_call_response *infer_call_keep_response(struct infer_call *c);
void infer_call_response_free(struct infer_call_response *r); /* NULL is fine */

/* Unary, in on_done(): returns the one response, borrowed. INTERNAL "expected a single response,
 * got <n>" when there was none or several. A failure of the model is in the response. */
struct error *infer_call_get_response(struct infer_call                      *c,
                                      struct TRITONSERVER_InferenceResponse **ret) NODISCARD;

/* Returns the first response, borrowed; NULL when there was none. *ret_n is the number of responses
 * so far. Unlike infer_call_get_response() it accepts any number. May be called in on_early(). */
struct TRITONSERVER_InferenceResponse *infer_call_first_response(struct infer_call *c,
                                                                 uint32_t          *ret_n);

/* To be called with a response: returns an error when memory of a region was missing while the
 * model ran. */
struct error *infer_call_check_regions(const struct infer_call *c) NODISCARD;
