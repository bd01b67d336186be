/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that the server and a stub process share: one region, and the formats of its contents.
 *
 *     0                   SHM_SERVER_AREA          SHM_STUB_AREA            SHM_BYTES
 *     | struct shm_header | area of the server     | area of the stub       |
 *
 * The region is a memfd with its full size from the beginning: a file with holes, which needs neither
 * memory nor addresses. Each area has *segments*, which are mapped where they are needed (shm_map.h). Each
 * side allocates only in its own area (shm_heap.h, whose records are private memory), adds segments to it
 * as it grows (shm_area.h), and gives the other side's blocks back by pushing them onto a list. Memory is
 * committed by fallocate before it is used, so that neither side is ended by SIGBUS.
 *
 * A segment begins at a multiple of SHM_GRANULE in the file. Its record in the header goes through these
 * states; `owner` is the side of its area, `other` the other side:
 *
 *     EMPTY --owner--> OFFERED --other--> MAPPED or REFUSED --owner--> REMOVED --other--> EMPTY
 *
 * The stub maps a segment of the server when it meets the first block of it. When it has no addresses for
 * it, it refuses the segment, and answers the requests in it with an error. The server maps a segment of
 * the stub on SHM_GROW, for whose answer the stub waits. So a request fails, and no other one, when one of
 * the processes has no more addresses.
 *
 * To the stub there are a ring of executions, each with a slot whose word says whether the server
 * or the stub owns it (shm_slot.h), and lists of replies. To the server there is one ring of
 * messages. The region has no lock: a process that is killed at any point leaves nothing locked.
 *
 * A block is named by its number, offset / SHM_BLOCK; 0 means none.
 *
 * Trust.  The stub runs a user's program. The server copies what it reads here before it checks it,
 * and treats invalid values as a crash of the stub. The stub trusts the server.
 *
 * Threads.  Fields that both sides use are atomic; `tail` and `head` of a ring have one writer
 * each.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SHM_MAGIC 0x344e5950u /* "PYN4": guarantees that both sides are of one build */
#define SHM_BLOCK 64u         /* a cache line, and the alignment of arrays */
#define SHM_UNIT (16u << 10)  /* segments have whole units */
#define SHM_GRANULE (UINT64_C(16) << 20)
#define SHM_HEADER_BYTES (256u << 10)
#define SHM_AREA_GRANULES 4096u
#define SHM_AREA_BYTES (SHM_AREA_GRANULES * SHM_GRANULE) /* of the file; 64 GiB */
#define SHM_SERVER_AREA SHM_GRANULE
#define SHM_STUB_AREA (SHM_SERVER_AREA + SHM_AREA_BYTES)
#define SHM_BYTES (SHM_STUB_AREA + SHM_AREA_BYTES)
#define SHM_SEGMENTS 256u /* limit of an area's segments */

#define SHM_MAX_DEPTH 128u /* limit of executions that were offered and are not answered */
#define SHM_MESSAGES 1024u /* entries of the ring to the server */
#define SHM_STACKS_BYTES (64u << 10) /* limit of the text of stacks; a longer text is cut */
#define SHM_MAX_OUTPUTS 4096u        /* limit of a response's outputs */
#define SHM_NO_INDEX UINT32_MAX

/* Descriptors that the stub inherits. */
#define SHM_CONTROL_FD 3
#define SHM_MEMORY_FD 4

/* ---- records --------------------------------------------------------------------------------- */
/* Places within a record are relative to the record; data is named by its offset in the region. */

struct shm_text {
        uint32_t at;
        uint32_t len;
};

#define SHM_MAX_DIMS                                                                               \
        64 /* of a tensor: as many as the server takes in a request and in a response */

struct shm_tensor {
        uint32_t        name_index; /* index in the configuration; SHM_NO_INDEX: `name` is set */
        struct shm_text name;
        uint32_t        type; /* TRITONSERVER_DataType */
        uint32_t        n_dims;
        uint32_t        dims; /* int64_t[n_dims], relative */
        uint64_t        data; /* offset in the region; undefined when n_bytes is 0 */
        uint64_t        n_bytes;
        uint32_t gpu; /* 0: main memory; else the number of a GPU + 1, and a struct shm_device is at
                              * `data` */
        uint32_t unused;
};

/* Where the bytes of a tensor are on a GPU. Bytes of the server are those of an input of a request, or of an output
 * of a call, and belong to a hold; the stub opens the handle. In a tensor that the stub sends they are named by `hold`
 * and `input`. For memory of its own `hold` is 0, and the server opens the handle. */
struct shm_device {
        unsigned char handle[64]; /* of the allocation, by CUDA's driver */
        uint64_t      offset;     /* in the allocation; in what the stub names: in that tensor */
        uint64_t      hold;       /* its number, which no other hold of the server has */
        uint32_t      input;      /* number of the input; of an output: 0 */
        uint32_t      unused;
};

enum shm_correlation { SHM_CORRELATION_INT, SHM_CORRELATION_TEXT };

/* A request of a model in the form for its stub. The bytes of its inputs are in the same block. */
struct shm_request {
        uint32_t        handle;
        uint32_t        n_inputs;
        uint32_t        inputs;    /* struct shm_tensor[], relative */
        uint32_t        n_outputs; /* SHM_NO_INDEX: all outputs of the configuration */
        uint32_t        outputs;   /* uint32_t[], indices in the configuration */
        uint32_t        flags;
        uint64_t        timeout_us;
        uint64_t        correlation;
        struct shm_text correlation_text;
        uint32_t        correlation_kind;
        struct shm_text id;
        struct shm_text parameters; /* JSON; len 0: none */
        struct shm_text trace;      /* context of its trace; len 0: none */
        uint32_t        has_trace;
        uint32_t        bls_depth;
        uint64_t hold; /* of inputs on GPUs: the stub says SHM_DROPPED when it uses none of them
                               * any more; 0: none */
};

/* The requests of one execution, in a block of the server's area. */
struct shm_batch {
        uint32_t n_requests;
        uint32_t requests[]; /* blocks: struct shm_request */
};

enum shm_answer_kind {
        SHM_ANSWER_NONE,  /* the request was rescheduled, or its sender answers */
        SHM_ANSWER_OK,    /* outputs */
        SHM_ANSWER_ERROR, /* a code and a text */
        SHM_ANSWER_ASK,   /* none: asks whether the execution waits for the call */
};

/* A response of the model, or of a model that it called. */
struct shm_answer {
        uint32_t        kind;
        uint32_t        code; /* TRITONSERVER_Error_Code */
        struct shm_text text;
        uint32_t        n_outputs;
        uint32_t        outputs;    /* struct shm_tensor[], relative */
        struct shm_text parameters; /* JSON object; len 0: none */
};

struct shm_result_item {
        uint32_t handle;
        uint32_t release_flags;
        uint32_t is_open; /* its sender is in use or still held, and has not sent FINAL */
        uint32_t answer;  /* struct shm_answer, relative; 0: SHM_ANSWER_NONE */
};

/* The end of an execution, in a block of the stub's area. If there is a text, all requests without
 * an answer fail with it. */
struct shm_result {
        uint32_t               n_items;
        uint32_t               code;
        struct shm_text        text;
        struct shm_result_item items[];
};

/* A call of the stub that waits for replies, in a block of the stub's area. Replies are blocks of
 * the server's area that are pushed onto `replies`, or onto header->async_replies.
 *
 * The server uses the block until the last reply. When the caller need not wait so long (its request was
 * cancelled), a reply with is_end and without is_last comes before. After it, the block of a synchronous call
 * comes back through `returned`, as blocks of results do. */
struct shm_call {
        uint32_t         link;    /* of the list `returned` */
        _Atomic uint32_t replies; /* list of struct shm_reply, newest first; also a futex word */
        uint32_t         kind;
        uint32_t         is_async;
        uint32_t         id;     /* chosen by the stub, repeated in each reply */
        uint32_t         handle; /* of the request that the call concerns; SHM_NO_INDEX: none */
        uint32_t         n_bytes;
        uint32_t         payload; /* relative */
};

/* Who waits for the response of a call to another model (waits.h). */
enum shm_wait {
        SHM_WAIT_NONE,  /* no execution, as far as known: a thread of the model's */
        SHM_WAIT_MAYBE, /* its execution may wait later: a coroutine, or the reader of a stream */
        SHM_WAIT_EXECUTION, /* its execution waits */
        SHM_WAIT_INSTANCE,  /* a thread waits that each execution of the instance needs */
};

/* Payload of SHM_CALL_INFER. */
struct shm_infer {
        uint32_t        n_inputs;
        uint32_t        inputs; /* places are relative to the payload */
        uint32_t        n_outputs;
        uint32_t        outputs; /* struct shm_text[] */
        uint32_t        flags;
        uint32_t        correlation_kind;
        uint64_t        correlation;
        uint64_t        timeout_us;
        int64_t         version;
        struct shm_text correlation_text;
        struct shm_text model;
        struct shm_text id;
        struct shm_text parameters; /* JSON */
        uint32_t        is_decoupled;
        uint32_t        gpu; /* outputs are wanted there: its number + 1; 0: in main memory */
        uint32_t        depth;
        uint32_t        waits; /* enum shm_wait */
        uint32_t execution;    /* slot of the execution that waits; SHM_NO_INDEX: none that ends */
        uint32_t n_requests;   /* requests on whose behalf the call is made; 0: unknown */
        uint32_t requests;     /* uint32_t[], handles */
};

/* Distance of a called model's output from the begin of its block. The first bytes of the block are
 * the link of a list when the stub gives it back, which may happen before the server has read the
 * message that names the output. */
#define SHM_OUTPUT_OFFSET SHM_BLOCK

struct shm_reply {
        uint32_t          next; /* block of the previous reply */
        uint32_t          id;
        uint32_t          is_last; /* the server does not use the call any more */
        uint32_t          is_end;  /* the call has no further responses */
        uint32_t          number;  /* index of the reply, from 0 */
        uint32_t          unused;  /* the tensors that follow are aligned */
        struct shm_answer answer;
};
_Static_assert(sizeof(struct shm_reply) % sizeof(uint64_t) == 0, "tensors follow");

enum shm_call_kind {
        SHM_CALL_INFER = 1,
        SHM_CALL_IS_CANCELLED, /* reply: code 1 when it is cancelled */
        SHM_CALL_TEXT,         /* payload and reply are texts: services.h */
        SHM_CALL_METRIC,       /* payload: struct shm_metric; handle: the metric */
};

enum shm_message_kind {
        SHM_HELLO = 1, /* the stub is attached */
        SHM_STARTED,   /* block: struct shm_answer, whose text is the result and whose code is enum
                        * shm_model */
        SHM_RESULT,    /* block: struct shm_result; handle: the slot */
        SHM_SEND,      /* block or 0: struct shm_answer; handle: the request; value: flags */
        SHM_CLOSED,    /* handle: a sender was dropped without FINAL */
        SHM_CALL,      /* block: struct shm_call, which the stub keeps */
        SHM_CANCEL,    /* block: a call that is cancelled; only its last reply is wanted */
        SHM_WAIT, /* block: a call that the server has asked for; value: enum shm_wait, from now on */
        SHM_LOG,     /* block: struct shm_log */
        SHM_GROW,    /* handle: index of a segment that the stub offers; its state is the answer */
        SHM_SHRINK,  /* the stub has removed segments */
        SHM_DROPPED, /* value: a hold of which the stub has nothing open any more */
};

/* In `value` of SHM_RESULT and SHM_SEND: outputs lie in memory of the stub on GPUs, which it frees when the block
 * comes back; it is woken then. */
#define SHM_WANTS_BACK (UINT64_C(1) << 32)

/* Properties of a model, by bits. */
enum shm_model {
        SHM_MODEL_HAS_READY_CHECK = 1,
        SHM_MODEL_IS_CONCURRENT = 2, /* its executions overlap: ASYNC_CONCURRENCY */
        SHM_MODEL_HAS_OWN_QUEUE = 4, /* no execution is offered before the last one has ended */
};

enum shm_metric_op { SHM_METRIC_INCREMENT, SHM_METRIC_SET, SHM_METRIC_OBSERVE };

struct shm_metric {
        uint32_t op; /* enum shm_metric_op */
        double   value;
};

struct shm_log {
        uint32_t        level; /* TRITONSERVER_LogLevel */
        uint32_t        line;
        struct shm_text file;
        struct shm_text text;
};

struct shm_message {
        uint32_t kind;
        uint32_t handle;
        uint32_t block;
        uint32_t n_bytes; /* size of the block */
        uint64_t value;
};

/* ---- the header ------------------------------------------------------------------------------ */

enum shm_segment_state {
        SHM_SEGMENT_EMPTY,
        SHM_SEGMENT_OFFERED,
        SHM_SEGMENT_MAPPED,
        SHM_SEGMENT_REFUSED,
        SHM_SEGMENT_REMOVED,
};

struct shm_segment_record {
        _Atomic uint32_t state;   /* enum shm_segment_state; a futex word */
        uint32_t         granule; /* where it begins in its area; written before it is offered */
        uint32_t         n_units; /* the same */
};

enum shm_execution_kind {
        SHM_EXECUTE = 1, /* block: struct shm_batch */
        SHM_EXECUTE_ONE, /* block: struct shm_request, the only one */
        SHM_FINALIZE,
};

struct shm_execution {
        uint32_t kind;
        uint32_t slot;
        uint32_t generation;
        uint32_t block;
};

struct shm_slot {
        _Alignas(SHM_BLOCK) _Atomic uint64_t word; /* shm_slot.h */
        uint64_t claim_ns;                         /* time right before the call of the model */
        uint64_t end_ns;
        uint32_t is_waited; /* the result wakes the executor */
};

/* State of a waiter; decides whether it must be woken. */
enum shm_sleep {
        SHM_AWAKE,
        SHM_NAPPING, /* wakes up by itself within a millisecond; only results justify a wake-up */
        SHM_ASLEEP,
};

struct shm_header {
        uint32_t magic;
        uint32_t start; /* block: struct shm_answer, whose text is the JSON of print_start() in
                         * python_session.c */
        uint64_t max_bytes;
        uint64_t first_bytes;  /* size of the first segment of an area */
        uint64_t growth_bytes; /* least size of the others */

        _Alignas(SHM_BLOCK) _Atomic uint32_t execution_tail; /* written by the server */
        _Atomic uint32_t stub_sleep;                         /* enum shm_sleep; a futex word */
        _Alignas(SHM_BLOCK) _Atomic uint32_t execution_head; /* written by the stub */

        _Alignas(SHM_BLOCK) _Atomic uint32_t message_tail; /* written by the stub */
        _Alignas(SHM_BLOCK) _Atomic uint32_t message_head; /* written by the server */
        _Atomic uint32_t room_sleep;                       /* the stub waits for a free entry */

        _Alignas(SHM_BLOCK) _Atomic uint32_t
                receiver_sleep;          /* the server's receiver; a futex word */
        _Atomic uint32_t executor_sleep; /* a thread in Execute; a futex word */

        _Alignas(SHM_BLOCK) _Atomic uint32_t released;      /* list: blocks of the server's area */
        _Alignas(SHM_BLOCK) _Atomic uint32_t returned;      /* list: blocks of the stub's area */
        _Alignas(SHM_BLOCK) _Atomic uint32_t async_replies; /* list; also a futex word */

        _Alignas(SHM_BLOCK) _Atomic uint32_t ready_asked; /* incremented for each question; a futex
                                                           * word */
        _Atomic uint32_t ready_answered;                  /* number of the answered question */
        _Atomic uint32_t ready_value;                     /* of enum shm_ready */

        _Alignas(SHM_BLOCK) _Atomic uint64_t server_committed;
        _Atomic uint64_t stub_committed;

        /* Counts of changes: */
        _Alignas(SHM_BLOCK) _Atomic uint32_t n_server_refused; /* the stub has refused a segment */
        _Atomic uint32_t          n_stub_refused;              /* the server has */
        _Atomic uint32_t          n_server_removed;            /* the server has removed segments */
        struct shm_segment_record server_segments[SHM_SEGMENTS];
        struct shm_segment_record stub_segments[SHM_SEGMENTS];

        struct shm_slot      slots[SHM_MAX_DEPTH];
        struct shm_execution executions[SHM_MAX_DEPTH * 2];
        struct shm_message   messages[SHM_MESSAGES];

        _Alignas(SHM_BLOCK) _Atomic uint32_t stacks_asked; /* incremented for each question; a futex
                                                            * word */
        _Atomic uint32_t stacks_answered; /* number of the answered question; a futex word */
        _Atomic uint32_t stacks_bytes;
        char             stacks[SHM_STACKS_BYTES];
};

enum shm_ready { SHM_READY_NO, SHM_READY_YES, SHM_READY_ERROR, SHM_READY_NOT_BOOL };

_Static_assert(sizeof(struct shm_header) <= SHM_HEADER_BYTES, "the header has room");
_Static_assert(SHM_HEADER_BYTES <= SHM_GRANULE, "the header is in the first granule");
_Static_assert(SHM_BYTES / SHM_BLOCK <= UINT32_MAX, "a block's number has 32 bits");
