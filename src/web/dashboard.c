/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the library's counters for the dashboard, and keeps what pages ask for. */
#include "web/dashboard.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json_reader.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"
#include "web/dashboard_private.h"
#include "web/latency.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* New directories change no state, so that the core reports no change. */
#define INDEX_AGE_NS (5 * NS_PER_S)
/* A page that was not there for so long gets everything anew. */
#define CHANGE_READING_NS (50 * NS_PER_MS) /* shortest time between two readings */
#define REMEMBERED_READINGS 60
#define STATM_MAX_BYTES 4096

/* ---- the process ---- */

uint64_t dashboard_cpu_us(void) {
        struct rusage used;

        if (getrusage(RUSAGE_SELF, &used) != 0)
                return 0;
        return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
               (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

uint64_t dashboard_rss_bytes(void) {
        AUTO_STRBUF        text = { .max = STATM_MAX_BYTES };
        AUTO_ERROR         err = NULL;
        unsigned long long pages = 0;

        err = file_read("/proc/self/statm", STATM_MAX_BYTES, &text);
        if (err != NULL || sscanf(strbuf_cstr(&text), "%*u %llu", &pages) != 1)
                return 0;
        return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void dashboard_read_ports_locked(struct dashboard           *d,
                                 struct dashboard_port_state ret[N_DASHBOARD_PORTS]) {
        memset(ret, 0, N_DASHBOARD_PORTS * sizeof(ret[0]));
        if (d->shows_ports && d->options.read_ports != NULL)
                d->options.read_ports(d->options.owner, ret);
}

/* ---- the models ---- */

static void free_model(struct dashboard *d, struct shown_model *m) {
        if (m->history != NULL)
                d->n_histories--;
        sample_ring_free(m->history);
        free(m->at_reading);
        free(m->at_sample);
        free(m->name);
        free(m->version);
        free(m->reason);
        free(m);
}

/* The caller frees it. */
static struct str make_key(struct str name, struct str version) {
        size_t len = name.len + 1 + version.len;
        char  *key = mem_alloc(len);

        memcpy(key, name.ptr, name.len);
        key[name.len] = '\0';
        if (version.len > 0)
                memcpy(key + name.len + 1, version.ptr, version.len);
        return str_range(key, len);
}

static struct shown_model *find_any(struct dashboard *d, struct str name, struct str version) {
        struct str          key = make_key(name, version);
        struct shown_model *m = map_find(&d->by_key, key);

        free((char *)(uintptr_t)key.ptr);
        return m;
}

struct shown_model *dashboard_find_locked(struct dashboard *d, struct str name,
                                          struct str version) {
        struct shown_model *m = find_any(d, name, version);

        return m != NULL && m->gone_seq == 0 ? m : NULL;
}

static struct shown_model *add_model(struct dashboard *d, struct str name, struct str version) {
        struct shown_model *m = mem_zalloc(sizeof(*m));
        struct str          key = make_key(name, version);

        m->name = mem_strndup(name.ptr, name.len);
        m->version = mem_strndup(version.len > 0 ? version.ptr : "", version.len);
        m->reason = mem_strdup("");
        m->id = d->next_id++;
        m->state_seq = d->seq;
        d->models = mem_grow(d->models, d->n_models, sizeof(struct shown_model *));
        d->models[d->n_models++] = m;
        map_set(&d->by_key, key, m);
        free((char *)(uintptr_t)key.ptr);
        return m;
}

/* Returns the model, which is there from now on. */
static struct shown_model *get_model(struct dashboard *d, struct str name, struct str version) {
        struct shown_model *m = find_any(d, name, version);

        if (m == NULL)
                return add_model(d, name, version);
        if (m->gone_seq != 0) {
                m->gone_seq = 0;
                m->state_seq = d->seq;
                m->row_seq = d->seq;
        }
        return m;
}

/* Frees models that are gone for long. Pages that have not asked since then get everything anew. */
static void forget_models(struct dashboard *d) {
        size_t n = 0;

        for (size_t i = 0; i < d->n_models; i++) {
                struct shown_model *m = d->models[i];

                if (m->gone_seq == 0 || m->gone_seq + REMEMBERED_READINGS > d->seq) {
                        d->models[n++] = m;
                        continue;
                }
                d->forget_seq = MAX(d->forget_seq, m->gone_seq);

                struct str key = make_key(str_of(m->name), str_of(m->version));

                map_remove(&d->by_key, key);
                free((char *)(uintptr_t)key.ptr);
                free_model(d, m);
        }
        d->n_models = n;
}

/* ---- the index ---- */

static void set_state(struct dashboard *d, struct shown_model *m, struct str state,
                      struct str reason) {
        if (str_is(state, m->state) && str_is(reason, m->reason))
                return;
        snprintf(m->state, sizeof(m->state), "%.*s", STR_ARG(state));
        free(m->reason);
        m->reason = mem_strndup(reason.len > 0 ? reason.ptr : "", reason.len);
        m->state_seq = d->seq;
}

static void read_index_entry(struct dashboard *d, struct json_reader *r, struct arena *arena) {
        struct str          name = STR_LIT(""), version = STR_LIT("");
        struct str          state = STR_LIT(""), reason = STR_LIT("");
        struct str          key;
        struct shown_model *m;

        json_enter_object(r);
        while (json_next_key(r, arena, &key)) {
                struct str value = json_read_string(r, arena);

                if (str_is(key, "name"))
                        name = value;
                else if (str_is(key, "version"))
                        version = value;
                else if (str_is(key, "state"))
                        state = value;
                else if (str_is(key, "reason"))
                        reason = value;
        }
        if (json_failed(r))
                return;
        m = get_model(d, name, version);
        m->index_seq = d->seq;
        set_state(d, m, state, reason);
}

static struct error *read_index_text(struct dashboard *d, struct str json) {
        struct json_reader r = json_reader_of(json);
        AUTO_ARENA         arena = arena_of(0);

        json_enter_array(&r);
        while (json_next_element(&r))
                read_index_entry(d, &r, &arena);
        return json_failed(&r) ? json_syntax_error(&r) : NULL;
}

static void mark_gone(struct dashboard *d) {
        for (size_t i = 0; i < d->n_models; i++)
                if (d->models[i]->index_seq != d->seq && d->models[i]->gone_seq == 0)
                        d->models[i]->gone_seq = d->seq;
        forget_models(d);
}

static struct error *read_index(struct dashboard *d, uint64_t now_ns) {
        struct TRITONSERVER_Message *index;
        struct error                *err;
        const char                  *json;
        size_t                       len;

        d->index_ns = now_ns;
        TRY(core_error_take(TRITONSERVER_ServerModelIndex(d->options.core, 0, &index)));
        err = core_error_take(TRITONSERVER_MessageSerializeToJson(index, &json, &len));
        if (err == NULL)
                err = read_index_text(d, str_range(json, len));
        if (err == NULL)
                mark_gone(d);
        core_error_drop(TRITONSERVER_MessageDelete(index));
        return err;
}

/* ---- the counters ---- */

static uint64_t grown(uint64_t before, uint64_t now) {
        return now >= before ? now - before : now; /* smaller: it was loaded again */
}

static uint64_t permille(uint64_t part_ns, uint64_t window_ns) {
        return window_ns > 0 ? part_ns / (window_ns / 1000 + 1) : 0;
}

static uint32_t low(uint64_t value) {
        return (uint32_t)MIN(value, (uint64_t)UINT32_MAX);
}

static const struct NESO_ModelActivity no_activity;

static uint64_t failures_of(const struct NESO_ModelActivity *a) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < NESO_FAILURE_REASONS; i++)
                sum += a->failures[i];
        return sum;
}

static bool has_changed(const struct NESO_ModelActivity *before,
                        const struct NESO_ModelActivity *now) {
        return before->success != now->success || before->executions != now->executions ||
               failures_of(before) != failures_of(now);
}

/* Keeps the counters; a model that has done nothing needs no memory for them. */
static void keep_activity(struct NESO_ModelActivity **kept, const struct NESO_ModelActivity *now) {
        if (*kept == NULL)
                *kept = mem_alloc(sizeof(**kept));
        **kept = *now;
        (*kept)->model_name = NULL;
}

static void put_quantiles(uint64_t *to, const struct latency_counts *counts) {
        to[0] = latency_quantile_us(counts, 500);
        to[1] = latency_quantile_us(counts, 950);
        to[2] = latency_quantile_us(counts, 990);
}

static void put_phase(uint64_t *row, unsigned phase, const struct NESO_ModelActivity *before,
                      const struct NESO_ModelActivity *now) {
        struct latency_counts counts;

        latency_between(before->latency[phase], now->latency[phase], &counts);
        put_quantiles(&row[DASHBOARD_QUANTILES + 3 * phase], &counts);
        row[DASHBOARD_MEANS + phase] =
                latency_mean_ns(&counts, before->phase_ns[phase], now->phase_ns[phase]);
}

static void make_row(const struct dashboard *d, const struct NESO_ModelActivity *before,
                     const struct NESO_ModelActivity *now, uint64_t *row) {
        row[DASHBOARD_PENDING] = now->pending;
        row[DASHBOARD_INSTANCES] = now->n_instances;
        row[DASHBOARD_SEQUENCES] = now->n_sequences;
        row[DASHBOARD_TOTAL] = now->success;
        row[DASHBOARD_TOTAL_FAILURES] = failures_of(now);
        if (!has_changed(before, now))
                return;
        row[DASHBOARD_REQUESTS] = grown(before->success, now->success);
        for (unsigned i = 0; i < NESO_FAILURE_REASONS; i++)
                row[DASHBOARD_FAILURES + i] = grown(before->failures[i], now->failures[i]);
        row[DASHBOARD_EXECUTIONS] = grown(before->executions, now->executions);
        row[DASHBOARD_ROWS] = grown(before->executed_inferences, now->executed_inferences);
        row[DASHBOARD_CACHE_HITS] = grown(before->cache_hits, now->cache_hits);
        row[DASHBOARD_CACHE_MISSES] = grown(before->cache_misses, now->cache_misses);
        row[DASHBOARD_BUSY_PERMILLE] = permille(grown(before->busy_ns, now->busy_ns), d->window_ns);
        for (unsigned phase = 0; phase < NESO_PHASES; phase++)
                put_phase(row, phase, before, now);
}

static void read_live(struct dashboard *d, struct shown_model *m,
                      const struct NESO_ModelActivity *now) {
        const struct NESO_ModelActivity *before =
                m->at_reading != NULL ? m->at_reading : &no_activity;
        uint64_t row[N_DASHBOARD_NUMBERS] = { 0 };

        m->live_seq = d->seq;
        make_row(d, before, now, row);
        if (has_changed(before, now))
                keep_activity(&m->at_reading, now);
        if (memcmp(row, m->row, sizeof(row)) == 0)
                return;
        memcpy(m->row, row, sizeof(row));
        m->row_seq = d->seq;
}

/* ---- the history ---- */

static void make_sample(const struct NESO_ModelActivity *before,
                        const struct NESO_ModelActivity *now, uint64_t window_ns,
                        uint32_t *sample) {
        struct latency_counts counts;
        uint64_t              quantiles[NESO_PHASES][3];

        for (unsigned phase = 0; phase < NESO_PHASES; phase++) {
                latency_between(before->latency[phase], now->latency[phase], &counts);
                put_quantiles(quantiles[phase], &counts);
        }
        sample[SAMPLE_REQUESTS] = low(grown(before->success, now->success));
        sample[SAMPLE_FAILURES] = low(grown(failures_of(before), failures_of(now)));
        sample[SAMPLE_EXECUTIONS] = low(grown(before->executions, now->executions));
        sample[SAMPLE_ROWS] = low(grown(before->executed_inferences, now->executed_inferences));
        sample[SAMPLE_PENDING] = low(now->pending);
        sample[SAMPLE_BUSY_PERMILLE] =
                low(permille(grown(before->busy_ns, now->busy_ns), window_ns));
        sample[SAMPLE_SEQUENCES] = low(now->n_sequences);
        sample[SAMPLE_P50_US] = low(quantiles[0][0]);
        sample[SAMPLE_P95_US] = low(quantiles[0][1]);
        sample[SAMPLE_P99_US] = low(quantiles[0][2]);
        sample[SAMPLE_QUEUE_P95_US] = low(quantiles[1][1]);
        sample[SAMPLE_INFER_P95_US] = low(quantiles[3][1]);
}

static bool has_history(struct dashboard *d, struct shown_model *m) {
        if (m->history != NULL)
                return true;
        if (d->n_histories == DASHBOARD_HISTORIES)
                return false;
        m->history = sample_ring_new(N_DASHBOARD_SAMPLE);
        if (m->history == NULL)
                return false;
        d->n_histories++;
        return true;
}

static void read_sample(struct dashboard *d, struct shown_model *m,
                        const struct NESO_ModelActivity *now) {
        const struct NESO_ModelActivity *before =
                m->at_sample != NULL ? m->at_sample : &no_activity;
        uint32_t sample[N_DASHBOARD_SAMPLE];

        if (!has_changed(before, now) && now->pending == 0)
                return;
        make_sample(before, now, d->sample_window_ns, sample);
        d->sample_requests += sample[SAMPLE_REQUESTS];
        d->sample_failures += sample[SAMPLE_FAILURES];
        keep_activity(&m->at_sample, now);
        if (has_history(d, m))
                sample_ring_put(m->history, d->period, sample);
}

static void end_stale_histories(struct dashboard *d) {
        for (size_t i = 0; i < d->n_models; i++) {
                struct shown_model *m = d->models[i];

                if (m->history == NULL || !sample_ring_is_stale(m->history, d->period))
                        continue;
                sample_ring_free(m->history);
                m->history = NULL;
                d->n_histories--;
        }
}

static void sample_server(struct dashboard *d, uint64_t window_ns) {
        struct dashboard_port_state ports[N_DASHBOARD_PORTS];
        uint32_t                    sample[N_SERVER_SAMPLE] = { 0 };
        uint64_t                    cpu_us = dashboard_cpu_us();

        dashboard_read_ports_locked(d, ports);
        sample[SERVER_SAMPLE_REQUESTS] = low(d->sample_requests);
        sample[SERVER_SAMPLE_FAILURES] = low(d->sample_failures);
        sample[SERVER_SAMPLE_CPU_PERMILLE] =
                low(permille((cpu_us - d->sample_cpu_us) * 1000, window_ns));
        sample[SERVER_SAMPLE_RSS_KIB] = low(dashboard_rss_bytes() / 1024);
        for (size_t i = 0; i < N_DASHBOARD_PORTS; i++)
                sample[SERVER_SAMPLE_CONNECTIONS] += low(ports[i].n_connections);
        d->sample_cpu_us = cpu_us;
        sample_ring_put(d->server_history, d->period, sample);
}

/* ---- readings ---- */

static void on_activity(const struct NESO_ModelActivity *a, void *userp) {
        struct dashboard   *d = userp;
        char                version[24]; /* a 64-bit number has at most 20 characters */
        struct shown_model *m;

        snprintf(version, sizeof(version), "%lld", (long long)a->model_version);
        m = get_model(d, str_of(a->model_name), str_of(version));
        if (m->state[0] == '\0')
                set_state(d, m, STR_LIT("READY"), STR_LIT(""));
        if (d->is_sampling)
                read_sample(d, m, a);
        else
                read_live(d, m, a);
}

/* The rows of models that are not ready any more become zeros. */
static void end_rows(struct dashboard *d) {
        static const uint64_t zeros[N_DASHBOARD_NUMBERS];

        for (size_t i = 0; i < d->n_models; i++) {
                struct shown_model *m = d->models[i];

                if (m->live_seq == d->seq || memcmp(m->row, zeros, sizeof(zeros)) == 0)
                        continue;
                memset(m->row, 0, sizeof(m->row));
                m->row_seq = d->seq;
                free(STEAL(m->at_reading));
                free(STEAL(m->at_sample));
        }
}

static struct error *read_counters(struct dashboard *d) {
        return core_error_take(NESO_ServerModelActivity(d->options.core, on_activity, d));
}

static struct error *take_reading(struct dashboard *d, uint64_t now_ns) {
        d->seq++;
        d->window_ns = now_ns - d->read_ns;
        d->read_ns = now_ns;
        d->is_sampling = false;
        TRY(read_counters(d));
        end_rows(d);
        return NULL;
}

/* After a load a page wants to see it at once. A sample reads no index, so the first page causes that. */
static bool is_due(const struct dashboard *d, uint64_t age_ns) {
        if (d->index_ns == 0 || age_ns >= DASHBOARD_READING_NS)
                return true;
        return age_ns >= CHANGE_READING_NS && atomic_load(&d->has_changed);
}

struct error *dashboard_refresh_locked(struct dashboard *d) {
        uint64_t now_ns = d->options.now_ns();

        if (!is_due(d, now_ns - d->read_ns))
                return NULL;
        TRY(take_reading(d, now_ns));
        if (atomic_exchange(&d->has_changed, false) || now_ns - d->index_ns >= INDEX_AGE_NS)
                TRY(read_index(d, now_ns));
        return NULL;
}

/* Also a reading, when pages have not asked for one: so the first window of the next page is short. */
struct error *dashboard_sample_locked(struct dashboard *d) {
        uint64_t now_ns = d->options.now_ns();

        if (now_ns - d->read_ns >= 2 * DASHBOARD_READING_NS)
                TRY(take_reading(d, now_ns));
        d->period++;
        d->sample_requests = d->sample_failures = 0;
        d->sample_window_ns = now_ns - d->sample_ns;
        d->is_sampling = true;
        TRY(read_counters(d));
        sample_server(d, d->sample_window_ns);
        end_stale_histories(d);
        d->sample_ns = now_ns;
        return NULL;
}

/* ---- the sampler ---- */

/* Returns false when the sampler stops. */
static bool wait_for_next_locked(struct dashboard *d) {
        uint64_t due_ns = d->sample_ns + SAMPLE_PERIOD_S * NS_PER_S;

        while (!d->is_stopping && cond_wait_until(&d->changed, &d->lock, due_ns))
                ;
        return !d->is_stopping;
}

static void sampler_main(void *arg) {
        struct dashboard *d = arg;

        thread_enter_background();
        MUTEX_GUARD(&d->lock);
        while (wait_for_next_locked(d)) {
                AUTO_ERROR err = dashboard_sample_locked(d);

                if (err != NULL)
                        d->sample_ns = d->options.now_ns(); /* the server is stopping */
        }
}

static void on_state_change(void *userp) {
        atomic_store(&((struct dashboard *)userp)->has_changed, true);
}

/* ---- life ---- */

struct dashboard *dashboard_new(const struct dashboard_options *o) {
        struct dashboard *d = mem_zalloc(sizeof(*d));

        d->options = *o;
        if (d->options.now_ns == NULL)
                d->options.now_ns = clock_now_ns;
        mutex_init(&d->lock, LOCK_SERVER);
        cond_init(&d->changed);
        map_init(&d->by_key);
        d->boot_ms = clock_wall_ns() / NS_PER_MS;
        d->start_ns = d->sample_ns = d->read_ns = d->options.now_ns();
        d->sample_cpu_us = dashboard_cpu_us();
        d->server_history = sample_ring_new(N_SERVER_SAMPLE);
        if (d->server_history == NULL) {
                dashboard_free(d);
                return NULL;
        }
        return d;
}

struct error *dashboard_start(struct dashboard *d) {
        TRY(core_error_take(NESO_ReadyWatchNew(&d->watch, d->options.core, on_state_change, d)));
        return thread_start(&d->thread, "neso-dashboard", sampler_main, d);
}

void dashboard_show_ports(struct dashboard *d) {
        MUTEX_GUARD(&d->lock);

        d->shows_ports = true;
}

void dashboard_stop(struct dashboard *d) {
        if (d == NULL)
                return;
        mutex_lock(&d->lock);
        d->is_stopping = true;
        d->shows_ports = false;
        cond_signal(&d->changed);
        mutex_unlock(&d->lock);
        if (d->thread.is_started)
                thread_join(&d->thread);
        if (d->watch != NULL)
                core_error_drop(NESO_ReadyWatchDelete(STEAL(d->watch)));
}

void dashboard_free(struct dashboard *d) {
        if (d == NULL)
                return;
        dashboard_stop(d);
        for (size_t i = 0; i < d->n_models; i++)
                free_model(d, d->models[i]);
        free(d->models);
        map_done(&d->by_key);
        sample_ring_free(d->server_history);
        cond_done(&d->changed);
        mutex_done(&d->lock);
        free(d);
}
