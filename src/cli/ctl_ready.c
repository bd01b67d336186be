/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl ready` and `neso ctl drain`. */
#include "base/clock.h"
#include "base/compiler.h"
#include "cli/ctl_private.h"

#include <time.h>

#define LEAST_ANSWER_MS 1000
#define ASK_NS                                                                                     \
        (200 * NS_PER_MS) /* between two questions: the server announces no change over HTTP */

static void pause_for(uint64_t ns) {
        struct timespec left = { .tv_sec = (time_t)(ns / NS_PER_S),
                                 .tv_nsec = (long)(ns % NS_PER_S) };

        while (nanosleep(&left, &left) != 0)
                ;
}

/* Nanoseconds of --wait, at most half of all that a clock has. */
static uint64_t wait_ns(const struct ctl *c) {
        return MIN(c->wait_s, CLOCK_NEVER / 2 / NS_PER_S) * NS_PER_S;
}

/* An answer that does not come must not be waited for longer than --wait says; the last question gets time for an
 * answer all the same. */
static void limit_answer(struct ctl *c, uint64_t end_ns) {
        uint64_t now_ns = clock_now_ns(), own_ms = ctl_timeout_ms(c);
        uint64_t left_ms = end_ns > now_ns ? (end_ns - now_ns) / NS_PER_MS : 0;

        if (c->wait_s == 0)
                return;
        left_ms = MAX(left_ms, LEAST_ANSWER_MS);
        c->http.timeout_ms = own_ms > 0 ? MIN(own_ms, left_ms) : left_ms;
}

/* A server that does not answer may still start. */
static struct error *ask_until_ready(struct ctl *c, const char *path) {
        uint64_t end_ns = clock_now_ns() + wait_ns(c);

        for (;;) {
                struct error *err;
                struct str    body;

                c->exit_code = CTL_DONE;
                limit_answer(c, end_ns);
                err = ctl_get(c, path, &body);
                if (err == NULL || clock_now_ns() >= end_ns ||
                    (c->exit_code != CTL_REFUSED && c->exit_code != CTL_UNREACHABLE))
                        return err;
                error_free(err);
                pause_for(ASK_NS);
        }
}

/* A refusal is also an answer: "not ready". */
struct error *ctl_ready(struct ctl *c) {
        const char *path = c->model != NULL ? ctl_model_path(c, "/ready") : "/v2/health/ready";
        const char *who = c->model != NULL ? c->model : "server";
        AUTO_ERROR  err = ask_until_ready(c, path);

        if (err != NULL && c->exit_code != CTL_REFUSED)
                return STEAL(err);
        if (c->is_json)
                strbuf_printf(&c->out, "{\"ready\":%s}\n", err == NULL ? "true" : "false");
        else if (err == NULL)
                strbuf_printf(&c->out, "%s: ready\n", who);
        else
                strbuf_printf(&c->out, "%s: not ready (%s)\n", who, err->message);
        return NULL;
}

struct error *ctl_drain(struct ctl *c) {
        const struct http_question question = {
                .path = "/v2/drain",
                .is_post = true,
                .body = c->is_undone ? STR_LIT("{\"undo\":true}") : STR_LIT("{}"),
        };
        struct str body;

        TRY(ctl_ask(c, &question, &body, NULL));
        if (!c->is_undone)
                pause_for(wait_ns(c));
        if (c->is_json)
                ctl_put_answer(c, body);
        else
                strbuf_printf(&c->out, "server: %s\n",
                              c->is_undone ? "serves as before" : "drains");
        return NULL;
}
