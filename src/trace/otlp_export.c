/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace/otlp_export.h"

#include "base/clock.h"
#include "base/curl_library.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/strbuf.h"
#include "trace/otlp_json.h"
#include "trace/trace_record.h"

#define FIRST_PAUSE_NS NS_PER_S
#define MAX_PAUSE_NS (5 * NS_PER_S)

struct otlp_export {
        struct trace_sink          sink;
        struct otlp_export_options options;
        struct curl_functions      curl;
        CURL                      *easy;       /* owned */
        struct curl_slist         *headers;    /* owned */
        bool                       is_failing; /* the first failure is in the log */
};

enum outcome { SENT, TRY_AGAIN, LOST };

static struct otlp_export *self(struct trace_sink *s) {
        return CONTAINER_OF(s, struct otlp_export, sink);
}

/* ---- one try --------------------------------------------------------------------------------- */

static size_t ignore_answer(char *bytes, size_t size, size_t n, void *userp) {
        (void)bytes, (void)userp;
        return size * n;
}

/* A value other than 0 ends the transfer. */
static int on_progress(void *userp, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal,
                       curl_off_t ulnow) {
        struct otlp_export *e = userp;

        (void)dltotal, (void)dlnow, (void)ultotal, (void)ulnow;
        return !trace_writer_has_time(e->sink.writer);
}

static void log_failure(struct otlp_export *e, const char *what, long status) {
        if (e->is_failing)
                return;
        e->is_failing = true;
        if (status > 0)
                log_error("failed to export traces to %s: HTTP status %ld", e->options.url, status);
        else
                log_error("failed to export traces to %s: %s", e->options.url, what);
}

static void log_recovery(struct otlp_export *e) {
        if (e->is_failing)
                log_info("traces are exported to %s again", e->options.url);
        e->is_failing = false;
}

static enum outcome post_traces(struct otlp_export *e, struct str body) {
        struct curl_functions *curl = &e->curl;
        long                   status = 0;
        CURLcode               code;

        curl->easy_setopt(e->easy, CURLOPT_POSTFIELDS, body.ptr);
        curl->easy_setopt(e->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
        code = curl->easy_perform(e->easy);
        if (code != CURLE_OK) {
                log_failure(e, curl->easy_strerror(code), 0);
                return TRY_AGAIN;
        }
        curl->easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200 && status < 300) {
                log_recovery(e);
                return SENT;
        }
        log_failure(e, "", status);
        return status == 429 || (status >= 502 && status <= 504) ? TRY_AGAIN : LOST;
}

static bool deliver_traces(struct otlp_export *e, struct str body) {
        uint64_t pause_ns = FIRST_PAUSE_NS;

        for (int n = 1;; n++) {
                enum outcome outcome = post_traces(e, body);

                if (outcome != TRY_AGAIN)
                        return outcome == SENT;
                if (n == OTLP_MAX_TRIES ||
                    !trace_writer_wait(e->sink.writer, clock_now_ns() + pause_ns))
                        return false;
                pause_ns = MIN(2 * pause_ns, MAX_PAUSE_NS);
        }
}

/* ---- the sink -------------------------------------------------------------------------------- */

static uint64_t free_records(struct trace_record *first) {
        uint64_t n = 0;

        for (struct trace_record *r = first, *next; r != NULL; r = next, n++) {
                next = r->next;
                trace_record_free(r);
        }
        return n;
}

static void export_records(struct trace_sink *sink, struct trace_record *first) {
        struct otlp_export  *e = self(sink);
        struct otlp_resource resource = { e->options.resources, e->options.n_resources };
        AUTO_STRBUF          body = { 0 };
        uint64_t             n_records;
        bool                 is_sent = false;

        otlp_json_print(&resource, first, &body);
        n_records = free_records(first);
        if (!body.overflowed && trace_writer_has_time(sink->writer))
                is_sent = deliver_traces(e, strbuf_str(&body));
        if (!is_sent)
                trace_writer_count_dropped(sink->writer, n_records);
}

static void finish_export(struct trace_sink *sink) {
        (void)sink; /* export_records() keeps no records */
}

static void free_export(struct trace_sink *sink) {
        struct otlp_export *e = self(sink);

        if (e->easy != NULL)
                e->curl.easy_cleanup(e->easy);
        if (e->headers != NULL)
                e->curl.slist_free_all(e->headers);
        free(e);
}

static const struct trace_sink_ops export_ops = {
        .take = export_records,
        .finish = finish_export,
        .free = free_export,
};

/* ---- opening --------------------------------------------------------------------------------- */

#define PURPOSE "trace mode opentelemetry"

struct error *otlp_export_check(void) {
        struct curl_functions unused;

        return curl_library_open(PURPOSE, &unused);
}

static struct error *set_up(struct otlp_export *e) {
        struct curl_functions *c = &e->curl;

        if (c->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (e->easy = c->easy_init()) == NULL)
                return error_new_text(ERR_INTERNAL, "libcurl could not be initialised");
        e->headers = c->slist_append(NULL, "Content-Type: application/json");
        /* No "Expect: 100-continue": the body is sent at once. */
        e->headers = c->slist_append(e->headers, "Expect:");
        if (c->easy_setopt(e->easy, CURLOPT_URL, e->options.url) != CURLE_OK ||
            c->easy_setopt(e->easy, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK)
                return error_new(ERR_INTERNAL, "libcurl refuses the URL '%s'", e->options.url);
        c->easy_setopt(e->easy, CURLOPT_HTTPHEADER, e->headers);
        c->easy_setopt(e->easy, CURLOPT_POST, 1L);
        c->easy_setopt(e->easy, CURLOPT_NOSIGNAL, 1L);
        c->easy_setopt(e->easy, CURLOPT_TIMEOUT, (long)OTLP_TIMEOUT_S);
        c->easy_setopt(e->easy, CURLOPT_USERAGENT, "neso/" NESO_VERSION);
        c->easy_setopt(e->easy, CURLOPT_WRITEFUNCTION, ignore_answer);
        c->easy_setopt(e->easy, CURLOPT_NOPROGRESS, 0L);
        c->easy_setopt(e->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        c->easy_setopt(e->easy, CURLOPT_XFERINFODATA, e);
        return NULL;
}

struct error *otlp_export_new(const struct otlp_export_options *o, struct trace_sink **ret) {
        struct otlp_export *e = mem_zalloc(sizeof(*e));

        e->sink.ops = &export_ops;
        e->options = *o;
        TRY_OR(curl_library_open(PURPOSE, &e->curl), free_export(&e->sink));
        TRY_OR(set_up(e), free_export(&e->sink));
        *ret = &e->sink;
        return NULL;
}
