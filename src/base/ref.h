/* SPDX-License-Identifier: BSD-3-Clause */
/* A reference count, for long-lived things only (model, backend, byte buffer, metric family).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ref {
        _Atomic uint32_t count;
};

static inline void ref_init(struct ref *r) {
        atomic_init(&r->count, 1);
}

static inline void ref_get(struct ref *r) {
        atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);
}

/* True for the caller that released the last reference: it frees the object. A caller that holds
 * the only reference needs no locked instruction to see that: no other thread can take one. */
static inline bool ref_put(struct ref *r) {
        return atomic_load_explicit(&r->count, memory_order_acquire) == 1 ||
               atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}
