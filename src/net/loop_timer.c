/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop_timer.h"

#include "base/clock.h"
#include "net/uv_types.h"

#include <assert.h>

static struct loop_timer *first_of(const struct loop *l) {
        struct due *first = due_heap_first(&l->timers);

        return first ? CONTAINER_OF(first, struct loop_timer, due) : NULL;
}

static void on_alarm(uv_timer_t *alarm);

/* libuv counts whole milliseconds from a time that it has read some moments ago. Late is right:
 * an alarm that comes early would only be set once more. */
static void set_alarm(struct loop *l, uint64_t due_ns) {
        uint64_t due_ms = due_ns / NS_PER_MS + 1;
        uint64_t now_ms = uv_now(&l->uv);

        l->alarm_ns = due_ns;
        uv_timer_start(&l->alarm, on_alarm, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* Those that are due by now; what their callbacks arm is for the next time, even if it is due. */
static void on_alarm(uv_timer_t *alarm) {
        struct loop       *l = CONTAINER_OF(alarm, struct loop, alarm);
        uint64_t           now_ns = clock_now_ns();
        struct loop_timer *t;

        l->alarm_ns = 0; /* what is armed meanwhile need not set it */
        l->firing_ns = now_ns;
        while ((t = first_of(l)) != NULL && t->due.due_ns <= now_ns) {
                loop_timer_cancel(t);
                t->fire(t);
        }
        l->firing_ns = 0;
        l->alarm_ns = CLOCK_NEVER;
        if (t)
                set_alarm(l, t->due.due_ns);
}

void loop_timer_init(struct loop_timer *t, loop_timer_fn fire) {
        *t = (struct loop_timer){ .due.due_ns = CLOCK_NEVER, .fire = fire };
}

bool loop_timer_arm(struct loop *l, struct loop_timer *t, uint64_t due_ns) {
        assert(loop_is_current(l));
        loop_timer_cancel(t);
        if (due_ns == CLOCK_NEVER)
                return true;
        t->due.due_ns = MAX(due_ns, l->firing_ns + 1);
        if (!due_heap_push(&l->timers, &t->due))
                return false;
        t->loop = l;
        if (due_ns < l->alarm_ns)
                set_alarm(l, due_ns);
        return true;
}

void loop_timer_cancel(struct loop_timer *t) {
        if (!t->loop)
                return;
        due_heap_remove(&t->loop->timers, &t->due);
        t->loop = NULL;
}

bool loop_timer_is_armed(const struct loop_timer *t) {
        return t->loop != NULL;
}

void loop_timers_init(struct loop *l) {
        uv_timer_init(&l->uv, &l->alarm);
        due_heap_init(&l->timers);
        l->alarm_ns = CLOCK_NEVER;
}

void loop_timers_close(struct loop *l) {
        uv_close((uv_handle_t *)&l->alarm, NULL);
}

void loop_timers_done(struct loop *l) {
        assert(l->timers.n == 0);
        due_heap_done(&l->timers);
}
