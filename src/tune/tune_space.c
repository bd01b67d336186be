/* SPDX-License-Identifier: BSD-3-Clause */
#include "tune/tune_space.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

/* ---- axes -------------------------------------------------------------------------------------- */

static bool has_value(const struct tune_axis *a, uint64_t value) {
        for (size_t i = 0; i < a->n; i++)
                if (a->values[i] == value)
                        return true;
        return false;
}

static void add_value(struct tune_axis *a, uint64_t value) {
        if (a->n < TUNE_MAX_VALUES && !has_value(a, value))
                a->values[a->n++] = value;
}

static int by_value(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

static void sort(struct tune_axis *a) {
        qsort(a->values, a->n, sizeof(*a->values), by_value);
}

/* The present value first, so that the end of the room does not leave it out; then 1, 2, 4, ... */
static void add_doubling(struct tune_axis *a, uint64_t present, uint64_t most) {
        add_value(a, present);
        for (uint64_t n = 1; n <= most && n != 0; n *= 2)
                add_value(a, n);
        sort(a);
}

static void make_batching(const struct tune_limits *l, struct tune_space *s) {
        struct tune_axis *sizes = &s->axes[TUNE_BATCHING], *delays = &s->axes[TUNE_DELAY];
        struct tune_axis *modes = &s->axes[TUNE_ADAPTIVE];
        /* In microseconds: from one wake-up to what people configure. */
        static const uint64_t delay_values[] = { 0, 100, 500, 2000, 10000 };

        if (l->may_disable_batching || !l->is_batching)
                add_value(sizes, TUNE_NO_BATCHING);
        add_value(sizes, 0);
        if (l->preferred > 0)
                add_value(sizes, l->preferred);
        for (uint64_t size = 4; size < l->max_batch && size != 0; size *= 4)
                add_value(sizes, size);
        qsort(sizes->values + (sizes->values[0] == TUNE_NO_BATCHING),
              sizes->n - (sizes->values[0] == TUNE_NO_BATCHING), sizeof(*sizes->values), by_value);
        add_value(delays, l->delay_us);
        for (size_t i = 0; i < ARRAY_LEN(delay_values); i++)
                if (delay_values[i] <= l->max_delay_us)
                        add_value(delays, delay_values[i]);
        sort(delays);
        if (!l->has_adaptive) {
                add_value(modes, TUNE_KEEP);
                return;
        }
        add_value(modes, TUNE_FLOW);
        add_value(modes, TUNE_IDLE);
        add_value(modes, TUNE_ADAPTIVE_OFF);
}

void tune_space_make(const struct tune_limits *l, struct tune_space *ret) {
        memset(ret, 0, sizeof(*ret));
        if (l->has_instances)
                add_doubling(&ret->axes[TUNE_INSTANCES], l->instances, l->max_instances);
        if (l->has_threads)
                add_doubling(&ret->axes[TUNE_THREADS], l->threads, l->max_threads);
        if (l->has_batching)
                make_batching(l, ret);
        for (size_t i = 0; i < TUNE_AXES; i++)
                if (ret->axes[i].n == 0)
                        add_value(&ret->axes[i], TUNE_KEEP);
}

/* ---- points ------------------------------------------------------------------------------------ */

size_t tune_space_size(const struct tune_space *s) {
        size_t n = 1;

        for (size_t i = 0; i < TUNE_AXES; i++)
                n *= s->axes[i].n; /* at most 12 to the power of 5 */
        return n;
}

size_t tune_space_number(const struct tune_space *s, const struct tune_point *p) {
        size_t number = 0;

        for (size_t i = 0; i < TUNE_AXES; i++)
                number = number * s->axes[i].n + p->at[i];
        return number;
}

struct tune_point tune_space_point(const struct tune_space *s, size_t number) {
        struct tune_point p;

        for (size_t i = TUNE_AXES; i-- > 0; number /= s->axes[i].n)
                p.at[i] = (uint8_t)(number % s->axes[i].n);
        return p;
}

uint64_t tune_space_value(const struct tune_space *s, const struct tune_point *p,
                          enum tune_axis_name axis) {
        return s->axes[axis].values[p->at[axis]];
}

static uint8_t index_of(const struct tune_axis *a, uint64_t value) {
        for (size_t i = 0; i < a->n; i++)
                if (a->values[i] == value)
                        return (uint8_t)i;
        return 0;
}

void tune_space_make_canonical(const struct tune_space *s, struct tune_point *p) {
        if (tune_space_value(s, p, TUNE_BATCHING) == TUNE_NO_BATCHING)
                p->at[TUNE_DELAY] = index_of(&s->axes[TUNE_DELAY], 0);
        if (tune_space_value(s, p, TUNE_DELAY) == 0)
                p->at[TUNE_ADAPTIVE] = 0;
}

bool tune_space_is_canonical(const struct tune_space *s, const struct tune_point *p) {
        struct tune_point canonical = *p;

        tune_space_make_canonical(s, &canonical);
        return memcmp(p, &canonical, sizeof(canonical)) == 0;
}

size_t tune_space_count(const struct tune_space *s) {
        size_t n = 0, size = tune_space_size(s);

        for (size_t i = 0; i < size; i++) {
                struct tune_point p = tune_space_point(s, i);

                n += tune_space_is_canonical(s, &p);
        }
        return n;
}

struct tune_point tune_space_present(const struct tune_space *s, const struct tune_limits *l) {
        struct tune_point p = {
                .at = { [TUNE_INSTANCES] = index_of(&s->axes[TUNE_INSTANCES], l->instances),
                        [TUNE_THREADS] = index_of(&s->axes[TUNE_THREADS], l->threads),
                        [TUNE_BATCHING] =
                                index_of(&s->axes[TUNE_BATCHING],
                                         l->is_batching ? l->preferred : TUNE_NO_BATCHING),
                        [TUNE_DELAY] = index_of(&s->axes[TUNE_DELAY], l->delay_us),
                        [TUNE_ADAPTIVE] = index_of(&s->axes[TUNE_ADAPTIVE], l->adaptive) }
        };

        tune_space_make_canonical(s, &p);
        return p;
}

/* ---- text -------------------------------------------------------------------------------------- */

const char *tune_adaptive_name(uint64_t value) {
        static const char *const names[] = {
                [TUNE_FLOW] = "flow", [TUNE_IDLE] = "idle", [TUNE_ADAPTIVE_OFF] = "off"
        };

        return value < ARRAY_LEN(names) ? names[value] : "";
}

static void put_count(struct strbuf *out, uint64_t n, const char *noun) {
        if (n == TUNE_KEEP)
                return;
        strbuf_printf(out, "%s%llu %s%s", out->len > 0 ? ", " : "", (unsigned long long)n, noun,
                      n == 1 ? "" : "s");
}

void tune_space_print(const struct tune_space *s, const struct tune_point *p, struct strbuf *out) {
        uint64_t    batching = tune_space_value(s, p, TUNE_BATCHING);
        uint64_t    delay = tune_space_value(s, p, TUNE_DELAY);
        uint64_t    mode = tune_space_value(s, p, TUNE_ADAPTIVE);
        AUTO_STRBUF text = { 0 };

        put_count(&text, tune_space_value(s, p, TUNE_INSTANCES), "instance");
        if (tune_space_value(s, p, TUNE_THREADS) == 0)
                strbuf_printf(&text, "%sthreads by cores", text.len > 0 ? ", " : "");
        else
                put_count(&text, tune_space_value(s, p, TUNE_THREADS), "thread");
        if (batching == TUNE_NO_BATCHING)
                strbuf_printf(&text, "%sno batching", text.len > 0 ? ", " : "");
        else if (batching != TUNE_KEEP)
                strbuf_printf(&text, "%sbatching", text.len > 0 ? ", " : "");
        if (batching != TUNE_NO_BATCHING && batching != TUNE_KEEP && batching > 0)
                strbuf_printf(&text, " in %llu", (unsigned long long)batching);
        if (delay != TUNE_KEEP && delay > 0)
                strbuf_printf(&text, ", delay %llu us", (unsigned long long)delay);
        if (delay != TUNE_KEEP && delay > 0 && mode != TUNE_KEEP)
                strbuf_printf(&text, ", %s",
                              mode == TUNE_ADAPTIVE_OFF ? "not adaptive"
                                                        : tune_adaptive_name(mode));
        if (text.len == 0)
                strbuf_puts(&text, "as it is");
        strbuf_put(out, text.ptr, text.len);
}
