/* SPDX-License-Identifier: BSD-3-Clause */
#include "observe/load_meter.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "observe/model_stats_private.h"

/* How long the timer runs after a scrape. Prometheus and its kin scrape at least every few minutes. */
#define MEASURES_FOR_NS (600 * NS_PER_S)

static void add_reading(struct load_reading *sum, const struct load_reading *more) {
        sum->busy_ns += more->busy_ns;
        sum->available_ns += more->available_ns;
        sum->oldest_ns = MIN(sum->oldest_ns, more->oldest_ns);
}

static void measure_model_locked(struct model_load *load, uint64_t now_ns) {
        struct load_reading sum = load->gone;
        struct load_sample  sample;

        LIST_FOR_EACH(&load->sources, node) {
                struct load_source *source = LIST_ENTRY(node, struct load_source, node);
                struct load_reading one = source->read(source, now_ns);

                add_reading(&sum, &one);
        }
        sample = (struct load_sample){ now_ns, sum.busy_ns, sum.available_ns };
        atomic_store_explicit(&load->ratio, load_window_ratio(&load->window, &sample),
                              memory_order_relaxed);
        atomic_store_explicit(&load->oldest_age_ns,
                              sum.oldest_ns < now_ns ? now_ns - sum.oldest_ns : 0,
                              memory_order_relaxed);
        load_window_add(&load->window, &sample);
}

static void measure_locked(struct load_meter *meter, uint64_t now_ns) {
        LIST_FOR_EACH(&meter->measured, node)
                measure_model_locked(LIST_ENTRY(node, struct model_load, node), now_ns);
}

void load_meter_measure(struct model_metrics *m, uint64_t now_ns) {
        MUTEX_GUARD(&m->meter.lock);
        measure_locked(&m->meter, now_ns);
}

static void arm_locked(struct load_meter *meter, uint64_t now_ns) {
        meter->is_armed = true;
        timer_arm(meter->timers, &meter->timer, now_ns + LOAD_SAMPLE_NS);
}

static void on_timer(struct timer *t) {
        struct load_meter *meter = CONTAINER_OF(t, struct load_meter, timer);
        uint64_t           now_ns = clock_now_ns();

        MUTEX_GUARD(&meter->lock);
        meter->is_armed = false;
        measure_locked(meter, now_ns);
        if (meter->timers != NULL && now_ns - meter->scraped_ns < MEASURES_FOR_NS)
                arm_locked(meter, now_ns);
}

void load_meter_scrape(struct model_metrics *m, uint64_t now_ns) {
        struct load_meter *meter = &m->meter;

        MUTEX_GUARD(&meter->lock);
        meter->scraped_ns = now_ns;
        measure_locked(meter, now_ns);
        if (meter->timers != NULL && !meter->is_armed)
                arm_locked(meter, now_ns);
}

void load_meter_start(struct model_metrics *m, struct timer_thread *timers) {
        MUTEX_GUARD(&m->meter.lock);
        m->meter.timers = timers;
}

void load_meter_stop(struct model_metrics *m) {
        struct timer_thread *timers;

        mutex_lock(&m->meter.lock);
        timers = STEAL(m->meter.timers);
        mutex_unlock(&m->meter.lock);
        if (timers != NULL)
                timer_cancel(timers, &m->meter.timer);
}

void load_meter_init(struct load_meter *meter) {
        mutex_init(&meter->lock, LOCK_LOAD_METER);
        list_init(&meter->measured);
        timer_init(&meter->timer, on_timer);
}

void load_meter_done(struct load_meter *meter) {
        assert(list_is_empty(&meter->measured));
        mutex_done(&meter->lock);
}

void load_source_add(struct load_source *source, struct model_stats *stats, load_read_fn read) {
        struct load_meter *meter = &stats->metrics->meter;
        struct model_load *load = &stats->load;

        source->stats = stats;
        source->read = read;
        MUTEX_GUARD(&meter->lock);
        if (!list_is_linked(&load->node)) {
                list_append(&meter->measured, &load->node);
                load_window_add(&load->window, &(struct load_sample){ .at_ns = clock_now_ns() });
        }
        list_append(&load->sources, &source->node);
        atomic_store_explicit(&load->is_measured, true, memory_order_relaxed);
}

void load_source_remove(struct load_source *source) {
        struct model_load  *load;
        struct load_reading last;

        if (source->stats == NULL)
                return;
        load = &source->stats->load;
        MUTEX_GUARD(&source->stats->metrics->meter.lock);
        last = source->read(source, clock_now_ns());
        last.oldest_ns = CLOCK_NEVER;
        add_reading(&load->gone, &last);
        list_remove(&source->node);
        if (list_is_empty(&load->sources))
                list_remove(&load->node);
        source->stats = NULL;
}
