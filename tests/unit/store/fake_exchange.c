/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "fake_exchange.h"

#include "base/mem.h"
#include "store/store_request.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_STEPS 32

struct step {
        const char *request;
        const char *headers;
        const char *body;
        int         status;
};

static struct {
        pthread_mutex_t     lock;
        pthread_cond_t      changed;
        struct step         steps[MAX_STEPS];
        size_t              n_steps, at, n_requests;
        bool                is_holding, is_held;
        struct fake_request last;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- the script ---------------------------------------------------------------------------- */

static void record(const struct store_request *r) {
        char  *at = fake.last.text;
        size_t room = sizeof(fake.last.text);
        int    n = snprintf(at, room, "%s %s\n", r->method, strbuf_cstr(&r->url));

        for (size_t i = 0; i < r->n_headers; i++)
                n += snprintf(at + n, room - (size_t)n, "%s: %s\n", r->headers[i].name,
                              r->headers[i].value);
        snprintf(at + n, room - (size_t)n, "\n%.*s", STR_ARG(r->body));
        fake.last.max_ms = r->max_ms;
        fake.n_requests++;
}

static struct error *no_connection(const struct store_request *r) {
        struct str url;

        str_split(strbuf_str(&r->url), '?', &url);
        return error_new(ERR_UNAVAILABLE, "%.*s: no connection", STR_ARG(url));
}

static bool is_cancelled(const struct store_request *r) {
        return r->is_cancelled != NULL && atomic_load(r->is_cancelled);
}

static struct error *cancelled(const struct store_request *r) {
        struct str url;

        str_split(strbuf_str(&r->url), '?', &url);
        return error_new(ERR_CANCELLED, "%.*s: the request was cancelled", STR_ARG(url));
}

static void fill(const struct step *step, struct store_answer *ret) {
        *ret = (struct store_answer){ .status = step->status };
        strbuf_init(&ret->body, 1 << 20);
        strbuf_puts(&ret->body, step->body);
        STR_FOR_EACH(str_of(step->headers), '\n', line) {
                struct str name, value = str_trim(str_split(line, ':', &name));

                if (value.ptr != NULL)
                        store_answer_add(ret, name, value);
        }
}

static bool is_next(const char *method_and_url) {
        return fake.at < fake.n_steps && strcmp(fake.steps[fake.at].request, method_and_url) == 0;
}

struct error *store_exchange(struct store_request *r, struct store_answer *ret) {
        AUTO_CHARS    sent = mem_printf("%s %s", r->method, strbuf_cstr(&r->url));
        struct error *err = NULL;

        pthread_mutex_lock(&fake.lock);
        record(r);
        fake.is_held = fake.is_holding;
        pthread_cond_broadcast(&fake.changed);
        while (fake.is_holding)
                pthread_cond_wait(&fake.changed, &fake.lock);
        fake.is_held = false;
        if (is_cancelled(r)) {
                err = cancelled(r);
        } else if (!is_next(sent) || fake.steps[fake.at].status == 0) {
                if (is_next(sent))
                        fake.at++;
                err = no_connection(r);
        } else {
                fill(&fake.steps[fake.at++], ret);
        }
        pthread_mutex_unlock(&fake.lock);
        return err;
}

struct error *store_request_prepare(void) {
        return NULL;
}

void store_request_close_idle(void) {
}

void fake_begin(void) {
        fake.n_steps = fake.at = fake.n_requests = 0;
        fake.is_holding = fake.is_held = false;
        fake.last.text[0] = '\0';
}

void fake_expect(const char *request, int status, const char *headers, const char *body) {
        assert_true(fake.n_steps < MAX_STEPS);
        fake.steps[fake.n_steps++] = (struct step){
                .request = request, .status = status, .headers = headers, .body = body
        };
}

void fake_hold(void) {
        fake.is_holding = true;
}

void fake_wait_held(void) {
        pthread_mutex_lock(&fake.lock);
        while (!fake.is_held)
                pthread_cond_wait(&fake.changed, &fake.lock);
        pthread_mutex_unlock(&fake.lock);
}

void fake_release(void) {
        pthread_mutex_lock(&fake.lock);
        fake.is_holding = false;
        pthread_cond_broadcast(&fake.changed);
        pthread_mutex_unlock(&fake.lock);
}

const struct fake_request *fake_request(void) {
        return &fake.last;
}

size_t fake_n_requests(void) {
        return fake.n_requests;
}

void fake_end(void) {
        if (fake.at != fake.n_steps)
                fail_msg("the request '%s' did not come; the last one was\n%s",
                         fake.steps[fake.at].request, fake.last.text);
}
