/* SPDX-License-Identifier: BSD-3-Clause */
#include "load/tally.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

struct tally *tally_new(bool has_log) {
        struct tally *t = mem_zalloc(sizeof(*t));

        if (has_log)
                t->log = mem_alloc(TALLY_MAX_LOG * sizeof(*t->log));
        return t;
}

void tally_free(struct tally *t) {
        if (t == NULL)
                return;
        free(t->log);
        free(t);
}

void tally_clear(struct tally *t) {
        uint64_t *log = t->log;

        memset(t, 0, sizeof(*t));
        t->log = log;
}

/* Control characters of a server's text must not reach a terminal. */
static void copy_text(char *to, struct str text) {
        size_t n = MIN(text.len, TALLY_ERROR_BYTES - 1);

        for (size_t i = 0; i < n; i++)
                to[i] = (unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f ? ' ' : text.ptr[i];
        to[n] = '\0';
}

static void count_error(struct tally *t, const struct tally_error *e) {
        for (size_t i = 0; i < t->n_errors; i++)
                if (t->errors[i].kind == e->kind && t->errors[i].code == e->code &&
                    strcmp(t->errors[i].text, e->text) == 0) {
                        t->errors[i].n += e->n;
                        return;
                }
        if (t->n_errors < TALLY_MAX_ERRORS - 1) {
                t->errors[t->n_errors++] = *e;
                return;
        }
        t->errors[TALLY_MAX_ERRORS - 1].n += e->n;
        t->errors[TALLY_MAX_ERRORS - 1].kind = ANSWER_REFUSED;
        t->errors[TALLY_MAX_ERRORS - 1].code = TALLY_VARIOUS;
        strcpy(t->errors[TALLY_MAX_ERRORS - 1].text, "other errors");
        t->n_errors = TALLY_MAX_ERRORS;
}

void tally_add_error(struct tally *t, const struct answer *a) {
        struct tally_error e = { .kind = a->kind, .code = a->code, .n = 1 };

        copy_text(e.text, a->text);
        count_error(t, &e);
        t->n_failed++;
}

void tally_merge(struct tally *t, const struct tally *other) {
        t->begin_ns = t->begin_ns == 0 ? other->begin_ns : MIN(t->begin_ns, other->begin_ns);
        t->end_ns = MAX(t->end_ns, other->end_ns);
        t->cpu_ns += other->cpu_ns;
        t->n_responses += other->n_responses;
        t->n_sent += other->n_sent;
        t->n_wrong += other->n_wrong;
        t->n_failed += other->n_failed;
        t->send_ns += other->send_ns;
        t->wait_ns += other->wait_ns;
        t->recv_ns += other->recv_ns;
        histogram_merge(&t->latency, &other->latency);
        histogram_merge(&t->service, &other->service);
        histogram_merge(&t->lateness, &other->lateness);
        histogram_merge(&t->first, &other->first);
        histogram_merge(&t->between, &other->between);
        histogram_merge(&t->pace, &other->pace);
        t->n_prompt_tokens += other->n_prompt_tokens;
        t->n_output_tokens += other->n_output_tokens;
        t->n_counted += other->n_counted;
        for (size_t i = 0; i < other->n_errors; i++)
                count_error(t, &other->errors[i]);
        t->n_unlogged += other->n_unlogged;
}

/* All numbers of a request, or none. */
void tally_append_log(struct tally *t, const struct tally *other) {
        for (size_t at = 0, n; at < other->n_log; at += n) {
                n = 3 + (size_t)other->log[at + 2];
                if (t->n_log + n > TALLY_MAX_LOG) {
                        t->n_unlogged++;
                        continue;
                }
                memcpy(&t->log[t->n_log], &other->log[at], n * sizeof(*t->log));
                t->n_log += n;
        }
}

double tally_seconds(const struct tally *t) {
        return t->end_ns > t->begin_ns ? (double)(t->end_ns - t->begin_ns) / (double)NS_PER_S : 0.0;
}
