/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/load_window.h"

#include "base/compiler.h"

static const struct load_sample *sample_at(const struct load_window *w, size_t i) {
        return &w->samples[(w->first + i) % N_LOAD_SAMPLES];
}

void load_window_add(struct load_window *w, const struct load_sample *now) {
        if (w->n > 0 && now->at_ns < sample_at(w, w->n - 1)->at_ns + LOAD_SAMPLE_NS)
                return;
        if (w->n == N_LOAD_SAMPLES) {
                w->first = (w->first + 1) % N_LOAD_SAMPLES;
                w->n--;
        }
        w->samples[(w->first + w->n++) % N_LOAD_SAMPLES] = *now;
}

double load_window_ratio(const struct load_window *w, const struct load_sample *now) {
        const struct load_sample *from = sample_at(w, 0);
        uint64_t                  busy_ns, available_ns;

        if (w->n == 0)
                return 0;
        for (size_t i = 1; i < w->n && sample_at(w, i)->at_ns + LOAD_WINDOW_NS <= now->at_ns; i++)
                from = sample_at(w, i);
        /* A sum may shrink for a moment when an instance leaves while it executes. */
        busy_ns = now->busy_ns > from->busy_ns ? now->busy_ns - from->busy_ns : 0;
        available_ns =
                now->available_ns > from->available_ns ? now->available_ns - from->available_ns : 0;
        return available_ns == 0 ? 0 : MIN(1.0, (double)busy_ns / (double)available_ns);
}
