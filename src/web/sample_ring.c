/* SPDX-License-Identifier: BSD-3-Clause */
#include "web/sample_ring.h"

#include <stdlib.h>
#include <string.h>

struct sample_ring {
        size_t   n_numbers;
        uint32_t last;    /* period of the latest sample, plus 1; 0: none */
        uint32_t slots[]; /* SAMPLE_RING_LENGTH times: the period plus 1, and the numbers */
};

size_t sample_ring_bytes(size_t n_numbers) {
        return sizeof(struct sample_ring) + SAMPLE_RING_LENGTH * (n_numbers + 1) * sizeof(uint32_t);
}

struct sample_ring *sample_ring_new(size_t n_numbers) {
        struct sample_ring *r = calloc(1, sample_ring_bytes(n_numbers));

        if (r != NULL)
                r->n_numbers = n_numbers;
        return r;
}

void sample_ring_free(struct sample_ring *r) {
        free(r);
}

static size_t slot_of(const struct sample_ring *r, uint32_t period) {
        return period % SAMPLE_RING_LENGTH * (r->n_numbers + 1);
}

void sample_ring_put(struct sample_ring *r, uint32_t period, const uint32_t *numbers) {
        uint32_t *slot = &r->slots[slot_of(r, period)];

        slot[0] = period + 1;
        memcpy(slot + 1, numbers, r->n_numbers * sizeof(numbers[0]));
        r->last = period + 1;
}

const uint32_t *sample_ring_get(const struct sample_ring *r, uint32_t period) {
        const uint32_t *slot = &r->slots[slot_of(r, period)];

        return slot[0] == period + 1 ? slot + 1 : NULL;
}

bool sample_ring_is_stale(const struct sample_ring *r, uint32_t now) {
        return r->last + SAMPLE_RING_LENGTH <= now + 1;
}
