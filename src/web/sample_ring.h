/* SPDX-License-Identifier: BSD-3-Clause */
/* The last 15 minutes of some numbers: SAMPLE_RING_LENGTH samples, one each SAMPLE_PERIOD_S seconds.
 *
 * All rings of a dashboard count the same periods, 0, 1, 2, ... A period in which nothing was put reads as
 * zeros, so that a ring which begins late, or of a model without requests, needs no filling.
 *
 * Ownership.  sample_ring_new() and _free(). A ring of n numbers takes 180 * (n + 1) * 4 bytes.
 * Threads.  The owner locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLE_RING_LENGTH 180
#define SAMPLE_PERIOD_S 5

struct sample_ring;

/* NULL when memory is short. */
struct sample_ring *sample_ring_new(size_t n_numbers);
void                sample_ring_free(struct sample_ring *r);
size_t              sample_ring_bytes(size_t n_numbers);

/* Puts the sample of a period, which is not before any other one that was put. */
void sample_ring_put(struct sample_ring *r, uint32_t period, const uint32_t *numbers);
/* Returns the numbers of that period, or NULL when none were put or they were overwritten. */
const uint32_t *sample_ring_get(const struct sample_ring *r, uint32_t period);
/* True when no period up to `now` that is still shown has a sample. */
bool sample_ring_is_stale(const struct sample_ring *r, uint32_t now);
