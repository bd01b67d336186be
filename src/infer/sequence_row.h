/* SPDX-License-Identifier: BSD-3-Clause */
/* A live sequence as listed for users. A scheduler copies a few at a time, so that listing a hundred
 * thousand of them does not delay those that run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest length of a text id that front ends accept. */
#define SEQUENCE_ROW_TEXT_BYTES 128

struct sequence_row {
        uint64_t number; /* numeric id, when the id is no text */
        uint64_t age_ns;
        uint64_t idle_ns;  /* time since its last request arrived or ended; 0 while it has one */
        bool     has_slot; /* false: it is in the backlog */
        uint32_t slot;
        uint32_t n_requests; /* waiting or running */
        bool     is_text;
        bool     is_ending; /* accepts no more requests */
        char     text[SEQUENCE_ROW_TEXT_BYTES + 1];
        char     instance[SEQUENCE_ROW_TEXT_BYTES + 1]; /* name of the slot's instance */
};

/* Position of a listing; all zero at first. Slots are listed in order, then the backlog. A sequence
 * that exists throughout is listed once; one that begins or ends meanwhile may be missing. */
struct sequence_cursor {
        size_t   instance;
        uint32_t slot;
        uint64_t after_ns; /* in the backlog: only sequences that began later */
        bool     has_ended;
};

struct sequence_count {
        uint64_t n_active;
        uint64_t n_backlog;
};
