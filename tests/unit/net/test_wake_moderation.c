/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/wake_moderation.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "net/uv_types.h"

static uint64_t fake_ns;
static unsigned n_asked; /* how often the clock was */

static uint64_t fake_now_ns(void) {
        n_asked++;
        return fake_ns;
}

#define MAX_ROUNDS 6

struct round {
        unsigned at_us;
        unsigned n_handed;
        bool     has_mail;
        bool     holds; /* wanted */
};

struct row {
        const char  *name;
        unsigned     n_rounds;
        struct round rounds[MAX_ROUNDS];
};

static const struct row rows[] = {
        { "one by one", 2, { { 100, 1, false, false }, { 120, 1, false, true } } },
        { "two at a time", 2, { { 100, 2, false, false }, { 120, 2, false, true } } },
        { "just within the gap", 2, { { 100, 1, false, false }, { 139, 1, false, true } } },
        { "too far apart", 2, { { 100, 1, false, false }, { 140, 1, false, false } } },
        { "third after two far apart",
          3,
          { { 100, 1, false, false }, { 140, 1, false, false }, { 150, 1, false, true } } },
        { "many at a time", 2, { { 100, 3, false, false }, { 110, 3, false, false } } },
        { "many between",
          3,
          { { 100, 1, false, false }, { 105, 3, false, false }, { 110, 1, false, false } } },
        { "nothing handed over", 2, { { 100, 0, false, false }, { 110, 0, false, false } } },
        { "nothing handed over in between",
          3,
          { { 100, 1, false, false }, { 105, 0, false, false }, { 110, 1, false, false } } },
        { "answered in between",
          3,
          { { 100, 1, false, false }, { 105, 0, true, false }, { 110, 1, false, false } } },
        { "answered in the same round", 2, { { 100, 1, false, false }, { 110, 1, true, false } } },
        { "answered in the round before",
          2,
          { { 100, 1, true, false }, { 110, 1, false, false } } },
        { "goes on after a hold",
          4,
          { { 100, 1, false, false },
            { 110, 1, false, true },
            { 145, 1, false, true },
            { 190, 1, false, false } } },
        { "many after a hold, then few",
          5,
          { { 100, 1, false, false },
            { 110, 1, false, true },
            { 145, 5, false, false },
            { 150, 1, false, false },
            { 160, 1, false, true } } },
};

static void test_rounds(void **state UNUSED) {
        for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
                struct wake_moderation m = { 0 };

                for (unsigned i = 0; i < rows[r].n_rounds; i++) {
                        const struct round *round = &rows[r].rounds[i];
                        uint64_t            hold_ns;

                        fake_ns = round->at_us * NS_PER_US;
                        for (unsigned k = 0; k < round->n_handed; k++)
                                wake_moderation_handed(&m);
                        if (round->has_mail)
                                wake_moderation_mail(&m);
                        hold_ns = wake_moderation_end_round(&m, fake_now_ns);
                        if (hold_ns != (round->holds ? WAKE_MODERATION_HOLD_NS : 0))
                                fail_msg("%s: round %u holds for %llu ns", rows[r].name, i,
                                         (unsigned long long)hold_ns);
                }
        }
}

/* Most rounds are of another kind, and do without the time. */
static void test_clock_is_asked_when_it_matters(void **state UNUSED) {
        struct wake_moderation m = { 0 };

        n_asked = 0;
        wake_moderation_end_round(&m, fake_now_ns);
        for (int i = 0; i < 3; i++)
                wake_moderation_handed(&m);
        wake_moderation_end_round(&m, fake_now_ns);
        wake_moderation_handed(&m);
        wake_moderation_mail(&m);
        wake_moderation_end_round(&m, fake_now_ns);
        assert_int_equal(n_asked, 0);
        wake_moderation_handed(&m);
        wake_moderation_end_round(&m, fake_now_ns);
        assert_int_equal(n_asked, 1);
}

/* ---- what a hold looks at ---- */

struct waiter {
        struct mail  mail; /* begins the test on the loop */
        struct mail  answer;
        struct loop *loop;
        uint64_t     empty_ns, full_ns; /* how long it waited */
        unsigned     n_answers, n_early;
        struct mutex lock;
        struct cond  changed;
        bool         is_over;
};

static void on_answer(struct mail *m) {
        struct waiter *w = CONTAINER_OF(m, struct waiter, answer);
        MUTEX_GUARD(&w->lock);

        w->n_answers++;
        w->is_over = true;
        cond_broadcast(&w->changed);
}

static void wait_twice(struct mail *m) {
        struct waiter *w = CONTAINER_OF(m, struct waiter, mail);
        uint64_t       begin_ns = clock_now_ns();

        mailbox_wait(loop_mailbox(w->loop), NS_PER_MS);
        w->empty_ns = clock_now_ns() - begin_ns;
        mailbox_post(loop_mailbox(w->loop), &w->answer);
        begin_ns = clock_now_ns();
        mailbox_wait(loop_mailbox(w->loop), NS_PER_S - 1);
        w->full_ns = clock_now_ns() - begin_ns;
        w->n_early = w->n_answers;
}

/* It lasts as long as it was told, ends at once when there is mail, and leaves that in the box: the
 * loop delivers it afterwards. */
static void test_mail_ends_a_hold(void **state UNUSED) {
        struct waiter      w = { .mail.deliver = wait_twice, .answer.deliver = on_answer };
        struct loop_group *g;

        mutex_init(&w.lock, LOCK_MAILBOX);
        cond_init(&w.changed);
        assert_null(loop_group_new("test", 1, &g));
        w.loop = loop_group_get(g, 0);
        mailbox_post(loop_mailbox(w.loop), &w.mail);
        {
                MUTEX_GUARD(&w.lock);
                while (!w.is_over)
                        cond_wait(&w.changed, &w.lock);
        }
        loop_group_free(g);
        assert_true(w.empty_ns >= NS_PER_MS);
        assert_true(w.full_ns < NS_PER_S - 1);
        assert_int_equal(w.n_early, 0);
        assert_int_equal(w.n_answers, 1);
        cond_done(&w.changed);
        mutex_done(&w.lock);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rounds),
                cmocka_unit_test(test_clock_is_asked_when_it_matters),
                cmocka_unit_test(test_mail_ends_a_hold),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
