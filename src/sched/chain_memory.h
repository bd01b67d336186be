/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the stages of one run of a chain write their outputs.
 *
 * Small ones lie in the run itself: in two halves, since a stage reads from one while it writes to the
 * other. Large ones are counted buffers of a pool (step_memory.h). The last stage writes into memory of the
 * client (client_memory.h), unless there are many responses.
 *
 * `make bench` (chains) is what this is for: 64-byte buffers from malloc() cost a fast stage a tenth of its
 * time.
 *
 * Ownership.  In the run, whose responses end before it does.
 * Threads.  A backend may ask for the outputs of one stage on several threads.
 */
#pragma once

#include "infer/response_allocator.h"
#include "sched/client_memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct request;
struct step_memory;

#define CHAIN_HALF_BYTES 256
#define CHAIN_N_RECORDS 2

struct chain_memory {
        const struct request *outer;     /* borrowed; of the client */
        struct step_memory   *large;     /* borrowed: the chain's */
        bool                  is_direct; /* the stage under way writes for the client */
        unsigned              half;      /* that it writes to */
        _Atomic size_t        n_used;    /* there */
        _Atomic unsigned      n_records;
        struct client_memory  records[CHAIN_N_RECORDS];
        char                 *small; /* 2 * CHAIN_HALF_BYTES, aligned as buffers are */
        char                  room[2 * CHAIN_HALF_BYTES + 64];
};

void chain_memory_init(struct chain_memory *m, const struct request *outer,
                       struct step_memory *large);
/* For the outputs of the next stage; the stage before the last one's are not needed any more. */
void chain_memory_begin_stage(struct chain_memory *m, bool is_last);

/* Of inner requests, with the chain_memory as their allocator_userp. */
extern const struct response_allocator chain_allocator;
