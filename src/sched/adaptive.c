/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/adaptive.h"

#include "base/clock.h"
#include "base/compiler.h"

#include <stddef.h>
#include <string.h>

bool adaptive_mode_read(const char *text, enum adaptive_mode *ret) {
        static const char *const names[] = {
                [ADAPTIVE_OFF] = "off", [ADAPTIVE_IDLE] = "idle", [ADAPTIVE_FLOW] = "flow"
        };

        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
                if (strcmp(names[i], text) != 0)
                        continue;
                *ret = (enum adaptive_mode)i;
                return true;
        }
        return false;
}

void adaptive_arrived(struct adaptive *a, uint64_t rows_waiting, uint64_t rows_running) {
        a->circulating = MAX(a->circulating, rows_waiting + rows_running);
}

void adaptive_executed(struct adaptive *a, uint64_t took_ns) {
        uint64_t old = a->average_ns;

        took_ns = MAX(took_ns, 1u);
        a->average_ns = old == 0 ? took_ns : old - old / 4 + took_ns / 4;
}

uint64_t adaptive_expected(const struct adaptive *a, uint64_t rows_running) {
        return a->circulating > rows_running ? a->circulating - rows_running : 0;
}

static bool flow_runs(struct adaptive *a, const struct adaptive_view *v, uint64_t *ret_until_ns) {
        uint64_t seen = v->rows_waiting + v->rows_running;
        uint64_t expected = adaptive_expected(a, v->rows_running);
        uint64_t longest_ns = MIN(a->delay_ns, a->average_ns);
        uint64_t until_ns;

        if (v->rows_waiting >= MIN(v->max_rows, expected))
                return true;
        if (__builtin_add_overflow(MAX(v->oldest_ns, v->free_ns), longest_ns, &until_ns))
                until_ns = CLOCK_NEVER;
        if (v->now_ns < until_ns) {
                *ret_until_ns = until_ns;
                return false;
        }
        a->circulating = seen;
        return true;
}

bool adaptive_runs(struct adaptive *a, const struct adaptive_view *v, uint64_t *ret_until_ns) {
        *ret_until_ns = CLOCK_NEVER;
        if (a->delay_ns == 0)
                return false; /* such a batch does not wait in the first place */
        switch (a->mode) {
        case ADAPTIVE_IDLE: return v->n_requests == 1 && v->rows_running == 0;
        case ADAPTIVE_FLOW: return flow_runs(a, v, ret_until_ns);
        default: return false;
        }
}
