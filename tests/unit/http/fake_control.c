/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_control.h"

#include "base/mem.h"
#include "call/fake_core.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

#include <string.h>

struct fake_control fake_control;

struct TRITONSERVER_Parameter {
        char *name, *value;
};

struct TRITONSERVER_Metrics {
        int unused;
};

struct TRITONSERVER_Message *fake_message(char *json) {
        struct TRITONSERVER_Message *m = mem_alloc(sizeof(*m));

        m->json = json;
        fake_control.n_messages++;
        return m;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageDelete(struct TRITONSERVER_Message *m) {
        fake_control.n_messages--;
        free(m->json);
        free(m);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(struct TRITONSERVER_Message *m,
                                                               const char **base, size_t *size) {
        *base = m->json;
        *size = strlen(m->json);
        return NULL;
}

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char                      *name,
                                                         const TRITONSERVER_ParameterType type,
                                                         const void                      *value) {
        struct TRITONSERVER_Parameter *p = mem_alloc(sizeof(*p));

        (void)type;
        p->name = mem_strdup(name);
        p->value = mem_strdup(value);
        return p;
}

struct TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *bytes,
                                                              const uint64_t size) {
        struct TRITONSERVER_Parameter *p = mem_alloc(sizeof(*p));

        p->name = mem_strdup(name);
        p->value = mem_strndup(bytes, size);
        return p;
}

void TRITONSERVER_ParameterDelete(struct TRITONSERVER_Parameter *p) {
        free(p->name);
        free(p->value);
        free(p);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerIsLive(struct TRITONSERVER_Server *s, bool *live) {
        (void)s;
        if (fake_control.is_exiting)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting");
        *live = fake_control.is_live;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerIsReady(struct TRITONSERVER_Server *s, bool *ready) {
        (void)s;
        *ready = fake_control.is_ready;
        return NULL;
}

struct TRITONSERVER_Error *NESO_ServerReadiness(struct TRITONSERVER_Server *s, const char *model,
                                                int64_t version, bool *ready, bool *asks_backends) {
        if (fake_control.is_exiting)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "Server exiting");
        *asks_backends = fake_control.asks_backends;
        *ready = true;
        if (*asks_backends)
                return NULL;
        return model != NULL ? TRITONSERVER_ServerModelIsReady(s, model, version, ready)
                             : TRITONSERVER_ServerIsReady(s, ready);
}

struct TRITONSERVER_Error *NESO_ServerSetDraining(struct TRITONSERVER_Server *s, bool draining) {
        (void)s;
        fake_control.is_ready = !draining;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(struct TRITONSERVER_Server *s,
                                                           const char *model, const int64_t version,
                                                           bool *ready) {
        (void)s;
        *ready = strcmp(model, "simple") == 0 && (version == -1 || version == 1);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerMetadata(struct TRITONSERVER_Server   *s,
                                                       struct TRITONSERVER_Message **ret) {
        (void)s;
        *ret = fake_message(mem_strdup("{\"name\":\"triton\"}"));
        return NULL;
}

/* {"<what>":"<model>","version":<version>} */
static struct TRITONSERVER_Error *about(const char *what, const char *model, int64_t version,
                                        struct TRITONSERVER_Message **ret) {
        if (*model && strcmp(model, "simple") != 0)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND,
                                             "Request for unknown model");
        *ret = fake_message(
                mem_printf("{\"%s\":\"%s\",\"version\":%lld}", what, model, (long long)version));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelMetadata(struct TRITONSERVER_Server   *s,
                                                            const char                   *model,
                                                            const int64_t                 version,
                                                            struct TRITONSERVER_Message **ret) {
        (void)s;
        return about("metadata", model, version, ret);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelConfig(struct TRITONSERVER_Server *s,
                                                          const char *model, const int64_t version,
                                                          const uint32_t config_version,
                                                          struct TRITONSERVER_Message **ret) {
        (void)s;
        return about(config_version == 1 ? "config" : "?", model, version, ret);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelStatistics(struct TRITONSERVER_Server   *s,
                                                              const char                   *model,
                                                              const int64_t                 version,
                                                              struct TRITONSERVER_Message **ret) {
        (void)s;
        return about("stats", model, version, ret);
}

struct TRITONSERVER_Error *NESO_ServerModelSequences(struct TRITONSERVER_Server *s,
                                                     const char *model, int64_t version,
                                                     struct TRITONSERVER_Message **ret) {
        (void)s;
        return about("sequences", model, version, ret);
}

struct TRITONSERVER_Error *NESO_ServerModelStacks(struct TRITONSERVER_Server *s, const char *model,
                                                  int64_t                       version,
                                                  struct TRITONSERVER_Message **ret) {
        (void)s;
        return about("stacks", model, version, ret);
}

struct TRITONSERVER_Error *NESO_ServerGpus(struct TRITONSERVER_Server   *s,
                                           struct TRITONSERVER_Message **ret) {
        (void)s;
        *ret = fake_message(mem_printf("{\"gpus\":[]}"));
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerModelIndex(struct TRITONSERVER_Server   *s,
                                                         uint32_t                      flags,
                                                         struct TRITONSERVER_Message **ret) {
        (void)s;
        if (fake_control.has_no_memory)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
        *ret = fake_message(mem_printf("[{\"flags\":%u}]", flags));
        return NULL;
}

static struct TRITONSERVER_Error *order(const char *what, const char *model,
                                        const struct TRITONSERVER_Parameter **parameters,
                                        uint64_t                              n) {
        MUTEX_GUARD(&fake_control.lock);

        strbuf_printf(&fake_control.orders, "%s %s", what, model);
        for (uint64_t i = 0; i < n; i++)
                strbuf_printf(&fake_control.orders, " %s=%s", parameters[i]->name,
                              parameters[i]->value);
        strbuf_putc(&fake_control.orders, '\n');
        if (strcmp(model, "simple") != 0)
                return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, "load failed;\n");
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerLoadModelWithParameters(
        struct TRITONSERVER_Server *s, const char *model,
        const struct TRITONSERVER_Parameter **parameters, const uint64_t n) {
        (void)s;
        return order("load", model, parameters, n);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(struct TRITONSERVER_Server *s,
                                                          const char                 *model) {
        (void)s;
        return order("unload", model, NULL, 0);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(
        struct TRITONSERVER_Server *s, const char *model) {
        (void)s;
        return order("unload with dependents", model, NULL, 0);
}

struct TRITONSERVER_Error *NESO_ServerMetrics(struct TRITONSERVER_Server   *s,
                                              TRITONSERVER_MetricFormat     format,
                                              struct TRITONSERVER_Metrics **ret) {
        static struct TRITONSERVER_Metrics metrics;

        (void)s;
        (void)format;
        if (fake_control.page_begins != NULL) {
                sem_post(fake_control.page_begins);
                sem_wait(fake_control.page_may_end);
        }
        atomic_fetch_add(&fake_control.n_pages, 1);
        atomic_fetch_add(&fake_control.n_held_pages, 1);
        *ret = &metrics;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricsDelete(struct TRITONSERVER_Metrics *m) {
        (void)m;
        atomic_fetch_sub(&fake_control.n_held_pages, 1);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_MetricsFormatted(struct TRITONSERVER_Metrics *m,
                                                         TRITONSERVER_MetricFormat    format,
                                                         const char **base, size_t *size) {
        (void)m;
        *base = format == TRITONSERVER_METRIC_PROMETHEUS ? "# HELP a b\na 1\n"
                : format == NESO_METRIC_OPENMETRICS      ? "# HELP a b\na 1\n# EOF\n"
                                                         : "?";
        *size = strlen(*base);
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogInfo(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        (void)o;
        return order(log ? "log_info on" : "log_info off", "simple", NULL, 0);
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogWarn(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        (void)o;
        (void)log;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogError(
        struct TRITONSERVER_ServerOptions *o, bool log) {
        (void)o;
        (void)log;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogVerbose(
        struct TRITONSERVER_ServerOptions *o, int level) {
        (void)o;
        (void)level;
        return NULL;
}

struct TRITONSERVER_Error *TRITONSERVER_ServerOptionsSetLogFormat(
        struct TRITONSERVER_ServerOptions *o, const TRITONSERVER_LogFormat format) {
        (void)o;
        (void)format;
        return NULL;
}
