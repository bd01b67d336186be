/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/loop.h"
#include "net/mailbox.h"

#define N_POSTERS 4
#define N_MAILS 20000

struct tally {
        struct mutex lock;
        struct cond  changed;
        size_t       n_left;
};

static void tally_init(struct tally *t, size_t n) {
        mutex_init(&t->lock, LOCK_LEAF);
        cond_init(&t->changed);
        t->n_left = n;
}

static void tally_done(struct tally *t) {
        cond_done(&t->changed);
        mutex_done(&t->lock);
}

static void tally_count(struct tally *t) {
        MUTEX_GUARD(&t->lock);

        if (--t->n_left == 0)
                cond_broadcast(&t->changed);
}

static void tally_wait(struct tally *t) {
        MUTEX_GUARD(&t->lock);

        while (t->n_left > 0)
                cond_wait(&t->changed, &t->lock);
}

struct poster;

struct numbered {
        struct mail    mail;
        struct poster *poster;
        unsigned       number;
};

struct poster {
        struct thread   thread;
        struct loop    *loop;
        struct tally   *tally;
        struct numbered mails[N_MAILS];
        unsigned        n_delivered;  /* the loop's */
        unsigned        n_disordered; /* the loop's */
        bool            was_elsewhere;
};

static void deliver(struct mail *m) {
        struct numbered *n = CONTAINER_OF(m, struct numbered, mail);
        struct poster   *p = n->poster;

        if (n->number != p->n_delivered++)
                p->n_disordered++;
        if (!loop_is_current(p->loop))
                p->was_elsewhere = true;
        tally_count(p->tally);
}

static void fill(struct poster *p, struct loop *l, struct tally *t) {
        p->loop = l;
        p->tally = t;
        for (unsigned i = 0; i < N_MAILS; i++)
                p->mails[i] =
                        (struct numbered){ .mail.deliver = deliver, .poster = p, .number = i };
}

/* Every third wakes the loop only after its next is on its way too. */
static void post_all(void *arg) {
        struct poster  *p = arg;
        struct mailbox *box = loop_mailbox(p->loop);

        for (unsigned i = 0; i < N_MAILS; i++) {
                if (i % 3 != 0 || i + 1 == N_MAILS) {
                        mailbox_post(box, &p->mails[i].mail);
                } else if (mailbox_post_without_wake(box, &p->mails[i].mail)) {
                        mailbox_post(box, &p->mails[++i].mail);
                        mailbox_wake(box);
                }
        }
}

static void post_twenty(void *arg) {
        struct poster *p = arg;

        for (unsigned i = 0; i < 20; i++) {
                p->mails[i] =
                        (struct numbered){ .mail.deliver = deliver, .poster = p, .number = i };
                mailbox_post(loop_mailbox(p->loop), &p->mails[i].mail);
        }
}

static void test_each_poster_in_order(void **state) {
        struct loop_group *g;
        struct tally       tally;
        struct poster     *posters = mem_zalloc(N_POSTERS * sizeof(*posters));

        (void)state;
        tally_init(&tally, (size_t)N_POSTERS * N_MAILS);
        assert_null(loop_group_new("test", 1, &g));
        for (int i = 0; i < N_POSTERS; i++) {
                fill(&posters[i], loop_group_get(g, 0), &tally);
                assert_null(thread_start(&posters[i].thread, "poster", post_all, &posters[i]));
        }
        tally_wait(&tally);
        for (int i = 0; i < N_POSTERS; i++) {
                thread_join(&posters[i].thread);
                assert_int_equal(posters[i].n_delivered, N_MAILS);
                assert_int_equal(posters[i].n_disordered, 0);
                assert_false(posters[i].was_elsewhere);
        }
        loop_group_free(g);
        tally_done(&tally);
        free(posters);
}

/* A quiet mail lies there, with what came later, until the loop is woken for it. */
static void test_quiet_mail(void **state) {
        struct loop_group *g;
        struct mailbox    *box;
        struct tally       tally;
        struct poster     *p = mem_zalloc(sizeof(*p));

        (void)state;
        tally_init(&tally, 3);
        assert_null(loop_group_new("test", 1, &g));
        box = loop_mailbox(loop_group_get(g, 0));
        fill(p, loop_group_get(g, 0), &tally);
        assert_true(mailbox_post_without_wake(box, &p->mails[0].mail));
        assert_false(mailbox_post_without_wake(box, &p->mails[1].mail));
        mailbox_post(box, &p->mails[2].mail); /* rides along: nobody has woken the loop yet */
        assert_int_equal(tally.n_left, 3);
        mailbox_wake(box);
        tally_wait(&tally);
        assert_int_equal(p->n_disordered, 0);
        loop_group_free(g);
        tally_done(&tally);
        free(p);
}

/* The loop ends as soon as the last mail is delivered, and nobody has yet to wake it then:
 * mailbox_wake() on a closed descriptor would assert. */
static void test_end_right_behind_the_last_mail(void **state) {
        struct poster *posters = mem_zalloc(N_POSTERS * sizeof(*posters));

        (void)state;
        for (unsigned round = 0; round < 100; round++) {
                struct loop_group *g;
                struct tally       tally;

                tally_init(&tally, N_POSTERS * 20);
                assert_null(loop_group_new("test", 1, &g));
                for (int i = 0; i < N_POSTERS; i++) {
                        posters[i] =
                                (struct poster){ .loop = loop_group_get(g, 0), .tally = &tally };
                        assert_null(thread_start(&posters[i].thread, "poster", post_twenty,
                                                 &posters[i]));
                }
                tally_wait(&tally);
                loop_group_free(g);
                for (int i = 0; i < N_POSTERS; i++)
                        thread_join(&posters[i].thread);
                tally_done(&tally);
        }
        free(posters);
}

/* A mail may be posted again while it is being delivered. */
struct again {
        struct mail   mail;
        struct loop  *loop;
        struct tally *tally;
        unsigned      n_left;
};

static void deliver_again(struct mail *m) {
        struct again *a = CONTAINER_OF(m, struct again, mail);

        if (--a->n_left > 0)
                mailbox_post(loop_mailbox(a->loop), m);
        tally_count(a->tally);
}

static void test_posted_again_from_the_loop(void **state) {
        struct loop_group *g;
        struct tally       tally;
        struct again       a = { .mail.deliver = deliver_again, .tally = &tally, .n_left = 100 };

        (void)state;
        tally_init(&tally, 100);
        assert_null(loop_group_new("test", 1, &g));
        a.loop = loop_group_get(g, 0);
        assert_false(loop_is_current(a.loop));
        mailbox_post(loop_mailbox(a.loop), &a.mail);
        tally_wait(&tally);
        loop_group_free(g);
        assert_int_equal(a.n_left, 0);
        tally_done(&tally);
}

/* The loop's own mail needs no wake-up, and that of other threads comes beside it. */
static void test_own_mail_beside_that_of_others(void **state) {
        struct loop_group *g;
        struct tally       tally;
        struct poster     *p = mem_zalloc(sizeof(*p));
        struct again a = { .mail.deliver = deliver_again, .tally = &tally, .n_left = N_MAILS };

        (void)state;
        tally_init(&tally, 2 * N_MAILS);
        assert_null(loop_group_new("test", 1, &g));
        a.loop = loop_group_get(g, 0);
        fill(p, a.loop, &tally);
        mailbox_post(loop_mailbox(a.loop), &a.mail);
        assert_null(thread_start(&p->thread, "poster", post_all, p));
        tally_wait(&tally);
        thread_join(&p->thread);
        loop_group_free(g);
        assert_int_equal(p->n_delivered, N_MAILS);
        assert_int_equal(p->n_disordered, 0);
        assert_int_equal(a.n_left, 0);
        tally_done(&tally);
        free(p);
}

static struct again *at_end_of_round; /* the loop's, while it is not posted; NULL: nothing */

static void post_at_end_of_round(void) {
        struct again *a = STEAL(at_end_of_round);

        if (a != NULL)
                mailbox_post(loop_mailbox(a->loop), &a->mail);
}

static void deliver_once_a_round(struct mail *m) {
        struct again *a = CONTAINER_OF(m, struct again, mail);
        bool          is_set = loop_set_waker(post_at_end_of_round);

        if (is_set && --a->n_left > 0)
                at_end_of_round = a;
        tally_count(a->tally);
}

/* Each end of a round posts, also the one that follows the delivery of such a mail: none is left lying
 * when the loop waits. */
static void test_posted_at_the_end_of_a_round(void **state) {
        struct loop_group *g;
        struct tally       tally;
        struct again a = { .mail.deliver = deliver_once_a_round, .tally = &tally, .n_left = 100 };

        (void)state;
        tally_init(&tally, 100);
        assert_null(loop_group_new("test", 1, &g));
        a.loop = loop_group_get(g, 0);
        mailbox_post(loop_mailbox(a.loop), &a.mail);
        tally_wait(&tally);
        loop_group_free(g);
        assert_int_equal(a.n_left, 0);
        tally_done(&tally);
}

/* Work beside the loop ends on the loop. */
struct job {
        struct loop_work work;
        struct mail      mail;
        struct loop     *loop;
        struct tally    *tally;
        bool             ran_on_loop, ended_on_loop;
};

static void run_job(struct loop_work *w) {
        struct job *j = CONTAINER_OF(w, struct job, work);

        j->ran_on_loop = loop_is_current(j->loop);
}

static void job_done(struct loop_work *w) {
        struct job *j = CONTAINER_OF(w, struct job, work);

        j->ended_on_loop = loop_is_current(j->loop);
        tally_count(j->tally);
}

static void begin_job(struct mail *m) {
        struct job *j = CONTAINER_OF(m, struct job, mail);

        loop_start_work_thread(j->loop, &j->work);
}

static void test_offload(void **state) {
        struct loop_group *g;
        struct tally       tally;
        struct job         j = { .work = { .run = run_job, .done = job_done },
                                 .mail.deliver = begin_job,
                                 .tally = &tally,
                                 .ran_on_loop = true };

        (void)state;
        tally_init(&tally, 1);
        assert_null(loop_group_new("test", 2, &g));
        assert_int_equal(loop_group_size(g), 2);
        j.loop = loop_group_get(g, 1);
        assert_int_equal(loop_index(j.loop), 1);
        mailbox_post(loop_mailbox(j.loop), &j.mail);
        tally_wait(&tally);
        loop_group_free(g);
        assert_false(j.ran_on_loop);
        assert_true(j.ended_on_loop);
        tally_done(&tally);
}

/* More loops than threads may work beside them, and each has had work done once. */
#define MANY_LOOPS 70
/* All of them at work at once: more than there are threads in libuv's pool. */
#define N_TOGETHER 8

struct guest {
        struct job    job;
        struct tally *to_come;
};

static void meet(struct loop_work *w) {
        struct guest *g = CONTAINER_OF(w, struct guest, job.work);

        tally_count(g->to_come);
        tally_wait(g->to_come);
}

static void offload_one(struct loop *l) {
        struct tally tally;
        struct job   j = { .work = { .run = run_job, .done = job_done },
                           .mail.deliver = begin_job,
                           .loop = l,
                           .tally = &tally };

        tally_init(&tally, 1);
        mailbox_post(loop_mailbox(l), &j.mail);
        tally_wait(&tally);
        tally_done(&tally);
}

/* A thread that has done its work takes no other's place. */
static void test_offload_of_many_loops(void **state) {
        struct loop_group *g;
        struct tally       tally, to_come;
        struct guest       guests[N_TOGETHER];

        (void)state;
        assert_null(loop_group_new("test", MANY_LOOPS, &g));
        for (unsigned i = 0; i < MANY_LOOPS; i++)
                offload_one(loop_group_get(g, i));
        tally_init(&tally, N_TOGETHER);
        tally_init(&to_come, N_TOGETHER);
        for (unsigned i = 0; i < N_TOGETHER; i++) {
                guests[i] = (struct guest){ .job = { .work = { .run = meet, .done = job_done },
                                                     .mail.deliver = begin_job,
                                                     .loop = loop_group_get(g, 0),
                                                     .tally = &tally },
                                            .to_come = &to_come };
                mailbox_post(loop_mailbox(guests[i].job.loop), &guests[i].job.mail);
        }
        tally_wait(&tally);
        loop_group_free(g);
        tally_done(&tally);
        tally_done(&to_come);
}

SUITE(mailbox) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_poster_in_order),
                cmocka_unit_test(test_quiet_mail),
                cmocka_unit_test(test_end_right_behind_the_last_mail),
                cmocka_unit_test(test_posted_again_from_the_loop),
                cmocka_unit_test(test_own_mail_beside_that_of_others),
                cmocka_unit_test(test_posted_at_the_end_of_a_round),
                cmocka_unit_test(test_offload),
                cmocka_unit_test(test_offload_of_many_loops),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
