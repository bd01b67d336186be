/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may read the messages of an instance's stub: one thread at a time has the reader's role
 * (python_instance.h). */
#include "python/python_instance.h"

void reader_enter_locked(struct instance *in) {
        while (in->is_reading)
                (void)pthread_cond_wait(&in->changed, &in->lock);
        in->is_reading = true;
}

void reader_leave_locked(struct instance *in) {
        in->is_reading = false;
        (void)pthread_cond_broadcast(&in->changed);
}

bool reader_shrink(struct instance *in, struct session *s) {
        bool has_shrunk = false;

        (void)pthread_mutex_lock(&in->lock);
        reader_enter_locked(in);
        if (in->session == s && !in->is_writing)
                has_shrunk = region_shrink(&s->region);
        reader_leave_locked(in);
        (void)pthread_mutex_unlock(&in->lock);
        if (has_shrunk)
                session_wake_stub(s);
        return has_shrunk;
}
