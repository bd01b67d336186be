/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/repo_place.h"

#include "backend/backend_registry.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "infer/fake_model.h"
#include "repo/agent.h"
#include "repo/reaper.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

void repo_place_begin(struct repo_place *p) {
        struct model_metrics_options options = { .counter_latencies = true };
        AUTO_CHARS                   backends = NULL;
        AUTO_CHARS                   agents = NULL;

        fake_host_reset();
        *p = (struct repo_place){ .tree = temp_tree_make() };
        p->library = fake_library_open(&p->tree, "fake_backend", "backends/fake/libtriton_fake.so");
        temp_tree_folder(&p->tree, "models");
        backends = temp_tree_path(&p->tree, "backends");
        agents = temp_tree_path(&p->tree, "agents");
        p->metrics = metric_registry_new();
        p->env.model_metrics = model_metrics_new(p->metrics, &options);
        p->env.backends = backend_registry_new(
                &(struct backend_registry_options){ .directory = backends, .auto_complete = true });
        p->env.agents = agent_registry_new(agents);
        p->env.auto_complete = true;
        p->env.config_name = "";
        event_source_init(&p->ready);
        p->env.ready = &p->ready;
        assert_ok(timer_thread_new(&p->env.timers), "timers");
        assert_ok(reaper_new(&p->env.reaper), "reaper");
}

void repo_place_end(struct repo_place *p) {
        if (p->repo != NULL)
                repo_place_close(p);
        reaper_free(p->env.reaper);
        agent_registry_free(p->env.agents);
        backend_registry_free(p->env.backends);
        timer_thread_free(p->env.timers);
        model_metrics_free(p->env.model_metrics);
        metric_registry_free(p->metrics);
        /* Whatever began has ended. */
        assert_int_equal(fake_host_count(FAKE_FINALIZE), fake_host_count(FAKE_INITIALIZE));
        event_source_done(&p->ready);
        fake_library_close(&p->library);
        temp_tree_remove(&p->tree);
}

void repo_place_add_model(struct repo_place *p, const char *name, const char *config,
                          const int64_t *versions, size_t n_versions) {
        AUTO_CHARS path = mem_printf("models/%s/config.pbtxt", name);
        AUTO_CHARS text = mem_printf("%s%s", REPO_PLACE_CONFIG, config);

        temp_tree_write(&p->tree, path, text);
        for (size_t i = 0; i < n_versions; i++) {
                AUTO_CHARS folder = mem_printf("models/%s/%lld", name, (long long)versions[i]);

                temp_tree_folder(&p->tree, folder);
        }
}

void repo_place_add(struct repo_place *p, const char *name, const char *config) {
        repo_place_add_model(p, name, config, (int64_t[]){ 1 }, 1);
}

void repo_place_open(struct repo_place *p, const char *const *folders, size_t n_folders) {
        char              **paths = mem_zalloc((n_folders + 1) * sizeof(*paths));
        struct repo_options options = { .env = p->env,
                                        .paths = (const char *const *)paths,
                                        .n_paths = n_folders,
                                        .n_load_threads = 4,
                                        .n_load_retries = p->n_load_retries,
                                        .is_followed = p->is_followed,
                                        .has_namespaces = p->has_namespaces };

        for (size_t i = 0; i < n_folders; i++)
                paths[i] = temp_tree_path(&p->tree, folders[i]);
        assert_ok(repo_new(&options, &p->repo), "repo_new");
        for (size_t i = 0; i < n_folders; i++)
                free(paths[i]);
        free(paths);
}

char *repo_place_index(struct repo_place *p) {
        AUTO_STRBUF       text = { 0 };
        struct repo_index index;

        strbuf_init(&text, 0);
        strbuf_printf(&text, "%s", "");
        repo_index_read(p->repo, false, &index);
        for (size_t i = 0; i < index.n_entries; i++) {
                const struct repo_index_entry *e = &index.entries[i];

                if (*e->namespace != '\0')
                        strbuf_printf(&text, "%s::", e->namespace + strlen(p->tree.path) + 1);
                strbuf_printf(&text, "%s:%lld:%s:%s\n", e->name, (long long)e->version,
                              version_state_name(e->state), e->reason != NULL ? e->reason : "-");
        }
        repo_index_done(&index);
        return strbuf_take(&text);
}

struct waiter {
        pthread_mutex_t lock;
        pthread_cond_t  changed;
        unsigned        n_changes;
};

static void on_change(void *userp) {
        struct waiter *w = userp;

        pthread_mutex_lock(&w->lock);
        w->n_changes++;
        pthread_cond_signal(&w->changed);
        pthread_mutex_unlock(&w->lock);
}

void repo_place_await_index(struct repo_place *p, const char *expected) {
        struct waiter        w = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };
        struct subscription *watch = event_source_subscribe(&p->ready, on_change, &w);
        char                *index = repo_place_index(p);
        struct timespec      until;
        unsigned             n_seen = 0;
        int                  timed_out = 0;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 60;
        while (strcmp(index, expected) != 0 && timed_out == 0) {
                free(index);
                pthread_mutex_lock(&w.lock);
                while (w.n_changes == n_seen && timed_out == 0)
                        timed_out = pthread_cond_timedwait(&w.changed, &w.lock, &until);
                n_seen = w.n_changes;
                pthread_mutex_unlock(&w.lock);
                index = repo_place_index(p);
        }
        subscription_free(watch);
        assert_string_equal(index, expected);
        free(index);
}

void repo_place_close(struct repo_place *p) {
        repo_unload_all(p->repo);
        assert_int_equal(reaper_wait(p->env.reaper, CLOCK_NEVER), 0);
        repo_free(p->repo);
        p->repo = NULL;
}
