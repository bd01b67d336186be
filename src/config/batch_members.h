/* SPDX-License-Identifier: BSD-3-Clause */
/* Parameters of a composite model, which describe its instance groups as members of one batching
 * model: the batch sizes that each member takes, and the file that it runs.
 *
 *   batch_ranges        "b1:1-1,b4:4-4": the rows that batches of a group have; a group that is not
 *                       named takes 1 to max_batch_size
 *   member_files        "b1:m1.onnx,b4:m4.onnx": of the version's directory
 *   partial             error (default): every number of rows can be served; wait: some wait for more
 *   split_requests      true (default): a request whose rows fit no member is run in parts
 *   member_concurrency  members (default): all run at the same time; exclusive: one of each virtual
 *                       instance, which is one instance of each group
 *
 * Torchpipe's form creates the groups m0, m1, ...; a list that is too short repeats its last
 * element:
 *
 *   batch_min "1&4&8"  batch_max "1&4&8"  instance_num "2"
 *
 * Ownership.  batch_members_done() frees the memory that batch_members_read() allocated; names live
 * in the configuration's arena, files in this struct.
 * Threads.  Immutable after reading.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model_config;

/* Largest max_batch_size of a composite model: each size has an entry in a plan. */
#define BATCH_MEMBERS_MAX_BATCH 65536

struct batch_member {
        const char *name; /* borrowed: name of the configuration's group */
        char       *file; /* owned; NULL: the model's file */
        uint32_t    min_rows;
        uint32_t    max_rows;
        bool        has_range; /* a range was given: the backend's range may not be narrower */
};

struct batch_members {
        struct batch_member *items; /* owned; one per instance group */
        size_t               n_items;
        bool                 are_given; /* see batch_members_are_given() */
        bool                 may_wait;
        bool                 may_split;
        bool                 is_exclusive;
};

/* Requires normalised groups. INVALID_ARG names the parameter, and the group that is wrong. */
struct error *batch_members_read(const struct model_config *c, struct batch_members *ret) NODISCARD;
void          batch_members_done(struct batch_members *m);

/* Whether the model is a composite one: it has one of the parameters above that only such models
 * have. */
bool batch_members_are_given(const struct model_config *c);

/* Reads the parameters for their errors only. */
struct error *batch_members_check(const struct model_config *c) NODISCARD;

/* Converts Torchpipe's form, if it is used, to instance groups. May run again. */
struct error *batch_members_expand(struct model_config *c) NODISCARD;
