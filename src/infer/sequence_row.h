/* SPDX-License-Identifier: BSD-3-Clause */
/* A live sequence as it is shown to people. Copied out of a scheduler a few at a time, so that a
 * hundred thousand of them do not hold up those that run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As many bytes of an id that is a text as front ends take. */
#define SEQUENCE_ROW_TEXT_BYTES 128

struct sequence_row {
        uint64_t number; /* its id, unless it is a text */
        uint64_t age_ns;
        uint64_t idle_ns;  /* since its last request came or was done; 0 while it has one */
        bool     has_slot; /* else it is in the backlog */
        uint32_t slot;
        uint32_t n_requests; /* that wait or run */
        bool     is_text;
        bool     is_ending; /* takes no more requests */
        char     text[SEQUENCE_ROW_TEXT_BYTES + 1];
        char     instance[SEQUENCE_ROW_TEXT_BYTES + 1]; /* the name of the slot's instance */
};

/* Where a listing goes on; all zero at first. Slots in order, then the backlog. What comes or goes
 * meanwhile may be in it or not; what stays is in it once. */
struct sequence_cursor {
        size_t   instance;
        uint32_t slot;
        uint64_t after_ns; /* of the backlog: what began later */
        bool     has_ended;
};

struct sequence_count {
        uint64_t n_active;
        uint64_t n_backlog;
};
