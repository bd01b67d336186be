/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the sequentially consistent operations of a source, which are those that order threads without a
 * lock, points of the explorer. The compiler includes it before the source (-include). */
#pragma once

#include <stdatomic.h>

void explorer_point(void);

#undef atomic_load
#undef atomic_store
#undef atomic_exchange
#define atomic_load(p) (explorer_point(), atomic_load_explicit((p), memory_order_seq_cst))
#define atomic_store(p, v) (explorer_point(), atomic_store_explicit((p), (v), memory_order_seq_cst))
#define atomic_exchange(p, v)                                                                      \
        (explorer_point(), atomic_exchange_explicit((p), (v), memory_order_seq_cst))
