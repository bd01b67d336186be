/* SPDX-License-Identifier: BSD-3-Clause */
/* The rate limiter by scripts, without threads: which instance gets a permit, when, and in which order. */
#include "suite.h"

#include "base/str.h"
#include "base/strbuf.h"
#include "infer/fake_model.h"
#include "sched/rate_limiter.h"

#include <stdio.h>
#include <string.h>

#define N_GROUPS 26

/* The instances are the groups of a configuration. The first letter of a name is the instance's
 * model. */
struct stage {
        struct rate_limiter *limiter;
        struct rate_group   *groups[N_GROUPS];
        struct model_config *config;
        struct rate_claim  **claims; /* as instance groups; NULL = not loaded */
        struct strbuf        log;    /* instance that got its permit */
};

struct place {
        struct stage *stage;
        const char   *name;
};

static void note_permit(struct stage *s, const char *name) {
        if (strbuf_str(&s->log).len > 0)
                strbuf_puts(&s->log, " ");
        strbuf_puts(&s->log, name);
}

static struct place places[16];

static void on_permit(void *instance) {
        struct place *p = instance;

        note_permit(p->stage, p->name);
}

static size_t find_claim(const struct stage *s, const char *name, size_t len) {
        const Inference__ModelConfig *pb = s->config->pb;

        for (size_t i = 0; i < pb->n_instance_group; i++)
                if (strlen(pb->instance_group[i]->name) == len &&
                    strncmp(pb->instance_group[i]->name, name, len) == 0)
                        return i;
        fail_msg("no instance %.*s", (int)len, name);
        return 0;
}

static struct error *load(struct stage *s, size_t i) {
        const Inference__ModelInstanceGroup *group = s->config->pb->instance_group[i];
        struct error                        *err;

        places[i] = (struct place){ s, group->name };
        err = rate_claim_new(s->groups[group->name[0] - 'a'],
                             &(struct rate_claim_options){
                                     .limits = group->rate_limiter,
                                     .device = group->n_gpus > 0 ? group->gpus[0] : 0,
                                     .on_permit = on_permit,
                                     .instance = &places[i] },
                             &s->claims[i]);
        rate_limiter_deliver(s->limiter);
        return err;
}

/* Loads all instances except those whose names are in `late`. */
static void stage_open(struct stage *s, const char *config, const struct rate_supply *supplies,
                       const char *late) {
        size_t n = 0;

        *s = (struct stage){ 0 };
        while (supplies != NULL && supplies[n].name != NULL)
                n++;
        s->limiter = rate_limiter_new(supplies, n);
        for (size_t i = 0; i < N_GROUPS; i++)
                s->groups[i] = rate_group_new(s->limiter);
        assert_ok(model_config_read_text(str_of(config), NULL, &s->config), config);
        assert_in_range(s->config->pb->n_instance_group, 1, ARRAY_LEN(places));
        s->claims = calloc(s->config->pb->n_instance_group, sizeof(struct rate_claim *));
        assert_non_null(s->claims);
        strbuf_init(&s->log, 0);
        for (size_t i = 0; i < s->config->pb->n_instance_group; i++)
                if (strstr(late, s->config->pb->instance_group[i]->name) == NULL)
                        assert_ok(load(s, i), config);
}

static void stage_close(struct stage *s) {
        for (size_t i = 0; i < s->config->pb->n_instance_group; i++)
                rate_claim_free(s->claims[i]);
        for (size_t i = 0; i < N_GROUPS; i++)
                rate_group_free(s->groups[i]);
        rate_limiter_free(s->limiter);
        model_config_free(s->config);
        strbuf_done(&s->log);
        free(s->claims);
}

static void ask(struct stage *s, char group) {
        struct place *p = rate_group_ask(s->groups[group - 'a']);

        if (p != NULL)
                note_permit(s, p->name);
}

/* "a?" model a asks, "a-" it withdraws; "a!" instance a ends an execution, "a~" an unused permit,
 * "a+" is loaded, "ax" is unloaded. */
static void step(struct stage *s, const char *word, size_t len) {
        char verb = word[len - 1];

        if (verb == '?') {
                ask(s, word[0]);
                return;
        }
        if (verb == '-') {
                rate_group_withdraw(s->groups[word[0] - 'a']);
        } else {
                size_t at = find_claim(s, word, len - 1);

                if (verb == '!')
                        rate_claim_end(s->claims[at], RATE_PERMIT_EXECUTED);
                else if (verb == '~')
                        rate_claim_end(s->claims[at], RATE_PERMIT_UNUSED);
                else if (verb == '+')
                        assert_ok(load(s, at), word);
                else if (verb == 'x')
                        rate_claim_free(s->claims[at]), s->claims[at] = NULL;
                else
                        fail_msg("no step %s", word);
        }
        rate_limiter_deliver(s->limiter);
}

static void play(struct stage *s, const char *script) {
        size_t len;

        for (const char *word = script; *word != '\0'; word += len + strspn(word + len, " ")) {
                len = strcspn(word, " ");
                step(s, word, len);
        }
}

#define I(name, limits) "instance_group { name: '" name "' rate_limiter { " limits " } } "
#define ON(name, gpu, limits)                                                                      \
        "instance_group { name: '" name "' gpus: " gpu " rate_limiter { " limits " } } "
#define R(count) "resources { name: 'R' count: " count " } "
#define S(count) "resources { name: 'S' count: " count " } "
#define G(count) "resources { name: 'G' global: true count: " count " } "
#define PRIORITY(n) "priority: " n " "

struct row {
        const char              *name;
        const char              *config;
        const char              *script;
        const char              *permits;
        const char              *late;
        const struct rate_supply supplies[3];
};

#define GLOBAL_R "resources { name: 'R' global: true count: 1 } "

#define ROW(n, c, s, t, ...)                                                                       \
        { .name = n, .config = c, .script = s, .permits = t, __VA_ARGS__ }

static const struct row rows[] = {
        /* one resource */
        ROW("free at once", I("a", R("1")), "a? a! a?", "a a"),
        ROW("no needs", I("a", "") I("b", ""), "a? b? a! b! a?", "a b a"),
        ROW("no limits at all", "instance_group { name: 'a' }", "a? a! a?", "a a"),
        ROW("one after the other", I("a", R("1")) I("b", R("1")), "a? b? b? a! b! a?", "a b a"),
        ROW("asking twice is one permit", I("a", R("1")), "a? a? a? a! a!", "a a"),
        ROW("an unused permit goes on", I("a", R("1")) I("b", R("1")), "a? b? a~", "a b"),
        ROW("a count of nothing", I("a", R("0")) I("b", R("1")), "b? a?", "b a"),
        ROW("all or nothing", I("a", R("1")) I("b", S("1")) I("c", R("1") S("1")),
            "a? b? c? a! b! a? c!", "a b c a"),

        /* order */
        ROW("fewest executions first", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "a? a! a? b? a! b! a? b? c? a! c! b!", "a a b a c b"),
        ROW("equals in order of asking", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "c? b? a? c! b!", "c b a"),
        ROW("an unused permit is no execution", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "a? a~ b? b! c? a? b? c!", "a b c a"),
        ROW("priority 2 has half", I("a", R("1") PRIORITY("1")) I("b", R("1") PRIORITY("2")),
            "a? b? a? a! b? b! a? a! b? b! a? a! a? a! b? b! a?", "a b a b a a b a"),
        ROW("priority 0 is 1", I("a", R("1") PRIORITY("0")) I("b", R("1") PRIORITY("1")),
            "a? b? a? a! b? b! a? a!", "a b a b"),
        ROW("the rested instance of a model", I("a1", R("1")) I("a2", R("1")),
            "a? a1! a? a2! a? a1! a?", "a1 a2 a1 a2"),
        ROW("by priority in a model", I("a1", R("1") PRIORITY("2")) I("a2", R("1")),
            "a? a1! a? a2! a? a2! a?", "a1 a2 a2 a1"),

        /* starvation */
        ROW("a large need is not overtaken",
            I("a", R("2")) I("b", R("1")) I("c", R("1")) I("d", R("1")), "b? c? a? d? b! b? c!",
            "b c a"),
        ROW("nor in its second resource", I("a", R("1") S("1")) I("b", R("1")) I("c", S("1")),
            "b? a? c? b! a!", "b a c"),
        ROW("a claim on another resource goes ahead", I("a", R("1")) I("b", R("1")) I("c", S("1")),
            "a? b? c? c! c?", "a c c"),
        ROW("the free instance of a model", I("a1", R("1")) I("a2", S("1")) I("b", R("1")),
            "b? a? a? b!", "b a2 a1"),

        /* what there is */
        ROW("implicit: the largest need",
            I("a", R("4")) I("b", R("2")) I("c", R("2")) I("d", R("1")), "b? c? d? a? b! d! c!",
            "b c d a"),
        ROW("explicit: more", I("a", R("4")) I("b", R("2")), "a? b?", "a b",
            .supplies = { { "R", 6, -1 } }),
        ROW("explicit: exactly", I("a", R("4")) I("b", R("2")), "a? b? a!", "a b",
            .supplies = { { "R", 4, -1 } }),
        ROW("other names do not matter", I("a", R("1")) I("b", R("1")), "a? b?", "a",
            .supplies = { { "S", 9, -1 } }),

        /* devices */
        ROW("each device has its own",
            ON("a", "0", R("1")) ON("b", "1", R("1")) ON("c", "1", R("1")), "a? b? c? a! b!",
            "a b c"),
        ROW("a global one is one", ON("a", "0", G("1")) ON("b", "1", G("1")), "a? b? a!", "a b"),
        ROW("each device as given",
            ON("a", "0", R("1")) ON("b", "0", R("1")) ON("c", "1", R("1")) ON("d", "1", R("1")),
            "a? b? c? d?", "a b c", .supplies = { { "R", 2, 0 }, { "R", 1, -1 } }),
        ROW("a global one of each device", ON("a", "0", G("1")) ON("b", "1", G("1")), "a? b?",
            "a b", .supplies = { { "G", 2, -1 } }),
        ROW("a global one with a device", ON("a", "0", G("1")) ON("b", "1", G("1")), "a? b?", "a b",
            .supplies = { { "G", 2, 7 } }),

        /* withdrawals, models that come and go */
        ROW("withdrawn while waiting", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "a? b? c? b- a!", "a c"),
        ROW("withdrawn and asked again", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "a? b? c? b- b? a!", "a c"),
        ROW("withdrawn, others may go on", I("a", R("2")) I("b", R("1")) I("c", R("1")),
            "b? a? c? a-", "b c"),
        ROW("withdrawing nothing", I("a", R("1")) I("b", R("1")), "a- a? a- b? a!", "a b"),
        ROW("unloaded while waiting", I("a", R("1")) I("b", R("1")) I("c", R("1")),
            "a? b? c? bx a!", "a c"),
        ROW("unloaded while a large need waits", I("a", R("2")) I("b", R("1")) I("c", R("1")),
            "b? a? c? ax b!", "b c"),
        ROW("unloaded on its permit", I("a", R("1")) I("b", R("1")), "a? b? ax", "a b"),
        ROW("the maximum shrinks", I("a", R("2")) I("b", R("1")) I("c", R("1")),
            "b? c? c! ax c? b!", "b c c"),
        ROW("shrinks under what is used", I("a", R("2")) I("b", R("1")) I("c", R("1")),
            "b? c? ax b! b? c!", "b c b"),
        ROW("the maximum grows", I("a", R("1")) I("b", R("1")) I("c", R("2")), "a? b? c+", "a b",
            .late = "c"),
        ROW("explicit does not grow", I("a", R("1")) I("b", R("1")) I("c", R("1")), "a? b? c+", "a",
            .late = "c", .supplies = { { "R", 1, -1 } }),
        ROW("a late one begins with the lowest", I("a", R("1")) I("b", R("1")),
            "a? a! a? a! a? b+ b? a? a! b? b! a?", "a a a b a", .late = "b"),
        ROW("another kind after all have gone", I("a", R("1")) I("b", GLOBAL_R), "a? ax b+ b?",
            "a b", .late = "b"),
        ROW("an instance joins a model that asks", I("a1", R("1")) I("b", R("1")) I("a2", S("1")),
            "b? a? a2+ a?", "b a2", .late = "a2"),
};

static void test_permits(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                const struct row *r = &rows[i];
                struct stage      s;

                print_message("%s\n", r->name);
                stage_open(&s, r->config, r->supplies, r->late != NULL ? r->late : "-");
                play(&s, r->script);
                assert_string_equal(strbuf_cstr(&s.log), r->permits);
                stage_close(&s);
        }
}

/* Each instance always has work. Checks the number of permits of each, of `n` permits in all. */
static void play_busy(struct stage *s, unsigned n, unsigned *counts) {
        size_t n_claims = s->config->pb->n_instance_group;
        bool   is_running[16] = { false };

        for (unsigned permit = 0; permit < n; permit++) {
                bool has_ended = false;

                for (size_t i = 0; i < n_claims; i++) {
                        struct place *p = rate_group_ask(s->groups[i]);

                        if (p != NULL)
                                note_permit(s, p->name);
                }
                for (const char *at = strbuf_cstr(&s->log); *at != '\0'; at++)
                        if (*at != ' ') {
                                is_running[*at - 'a'] = true;
                                counts[*at - 'a']++;
                        }
                strbuf_clear(&s->log);
                for (size_t i = permit % n_claims, k = 0; k < n_claims; k++, i = (i + 1) % n_claims)
                        if (is_running[i]) { /* any one of them ends */
                                is_running[i] = false;
                                rate_claim_end(s->claims[i], RATE_PERMIT_EXECUTED);
                                rate_limiter_deliver(s->limiter);
                                has_ended = true;
                                break;
                        }
                assert_true(has_ended); /* at least one instance runs at any time */
        }
}

static void test_shares(void **state) {
        static const struct {
                const char *config;
                unsigned    n, shares[3];
        } cases[] = {
                { I("a", R("1")) I("b", R("1") PRIORITY("2")), 300, { 200, 100, 0 } },
                { I("a", R("1")) I("b", R("1") PRIORITY("3")), 400, { 300, 100, 0 } },
                { I("a", R("1")) I("b", R("1")) I("c", R("1")), 300, { 100, 100, 100 } },
                /* A large need among small ones, each of which could always run before it. */
                { I("a", R("2")) I("b", R("1")) I("c", R("1")), 300, { 100, 100, 100 } },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                unsigned     counts[16] = { 0 };
                struct stage s;

                stage_open(&s, cases[i].config, NULL, "-");
                play_busy(&s, cases[i].n, counts);
                for (size_t k = 0; k < 3; k++)
                        assert_in_range(counts[k] + 2, cases[i].shares[k], cases[i].shares[k] + 4);
                stage_close(&s);
        }
}

/* The last instance is refused, and the others continue as before. */
static void test_refusals(void **state) {
        static const struct {
                const char        *config, *text;
                struct rate_supply supplies[3];
        } cases[] = {
                { I("a", R("2")) I("b", R("4")),
                  "Resource count for \"R\" is limited to 3 which will prevent scheduling of one "
                  "or "
                  "more model instances, the minimum required count is 4",
                  { { "R", 3, -1 } } },
                { I("a", "") ON("b", "0", R("4")),
                  "Resource count for \"R\" is limited to 0 which will prevent scheduling of one "
                  "or "
                  "more model instances, the minimum required count is 4",
                  { { "R", 10, 10 } } },
                { I("a", "") I("b", R("2") R("1")),
                  "Resource count for \"R\" is limited to 2 which will prevent scheduling of one "
                  "or "
                  "more model instances, the minimum required count is 3",
                  { { "R", 2, -1 }, { "S", 9, -1 } } },
                { I("a", R("1")) I("b", GLOBAL_R),
                  "Resource \"R\" is present as both global and device-specific resource in the "
                  "model "
                  "configuration.",
                  { { 0 } } },
                { I("a", GLOBAL_R) ON("b", "1", S("1") R("9")),
                  "Resource \"R\" is present as both global and device-specific resource in the "
                  "model "
                  "configuration.",
                  { { 0 } } },
                { I("a", "") I("b", R("1") GLOBAL_R),
                  "Resource \"R\" is present as both global and device-specific resource in the "
                  "model "
                  "configuration.",
                  { { 0 } } },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct stage s;

                stage_open(&s, cases[i].config, cases[i].supplies, "b");
                assert_error(load(&s, 1), ERR_INVALID_ARG, cases[i].text);
                play(&s, "a? a? a! b?");
                assert_string_equal(strbuf_cstr(&s.log), "a a");
                stage_close(&s);
        }
}

static void test_a_permit_that_was_not_told_is_given_back(void **state) {
        struct stage s;

        (void)state;
        stage_open(&s, I("a", R("1")) I("b", R("1")) I("c", R("1")), NULL, "-");
        play(&s, "a? b? c?");
        rate_claim_end(s.claims[0], RATE_PERMIT_EXECUTED); /* b's permit, which is not delivered */
        rate_claim_free(s.claims[1]);
        s.claims[1] = NULL;
        assert_string_equal(strbuf_cstr(&s.log), "a");
        rate_limiter_deliver(s.limiter);
        assert_string_equal(strbuf_cstr(&s.log), "a c");
        rate_limiter_deliver(s.limiter); /* once */
        assert_string_equal(strbuf_cstr(&s.log), "a c");
        stage_close(&s);
}

#define N_MANY 4096

static void expect_no_call(void *instance) {
        (void)instance;
        fail_msg("a permit was given late");
}

/* A question takes one pass through the waiting claims: looking for the place of each from the beginning would take
 * minutes here. Each instance gets its turn, in the order in which they were made. */
static void test_many_instances(void **state) {
        static const char         text[] = I("a", R("1"));
        static int                instances[N_MANY];
        static struct rate_claim *claims[N_MANY];
        struct model_config      *config;
        struct rate_limiter      *l = rate_limiter_new(NULL, 0);
        struct rate_group        *g = rate_group_new(l);

        (void)state;
        assert_ok(model_config_read_text(str_of(text), NULL, &config), text);
        for (size_t i = 0; i < N_MANY; i++) {
                const struct rate_claim_options options = {
                        .limits = config->pb->instance_group[0]->rate_limiter,
                        .on_permit = expect_no_call,
                        .instance = &instances[i],
                };

                assert_ok(rate_claim_new(g, &options, &claims[i]), "claim");
        }
        for (size_t i = 0; i < (size_t)2 * N_MANY; i++) {
                assert_ptr_equal(rate_group_ask(g), &instances[i % N_MANY]);
                rate_claim_end(claims[i % N_MANY], RATE_PERMIT_EXECUTED);
        }
        for (size_t i = 0; i < N_MANY; i++)
                rate_claim_free(claims[i]);
        rate_group_free(g);
        rate_limiter_free(l);
        model_config_free(config);
}

SUITE(rate_limiter) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_permits),
                cmocka_unit_test(test_shares),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_many_instances),
                cmocka_unit_test(test_a_permit_that_was_not_told_is_given_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
