/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/wake_moderation.h"

void wake_moderation_handed(struct wake_moderation *m) {
        m->n_handed++;
}

void wake_moderation_mail(struct wake_moderation *m) {
        m->has_mail = true;
}

static bool has_trickled(const struct wake_moderation *m) {
        return !m->has_mail && m->n_handed > 0 && m->n_handed <= WAKE_MODERATION_MAX_HANDED;
}

uint64_t wake_moderation_end_round(struct wake_moderation *m, uint64_t (*now_ns)(void)) {
        struct wake_moderation ended = *m;

        *m = (struct wake_moderation){ 0 };
        if (!has_trickled(&ended))
                return 0;
        m->trickled_ns = now_ns();
        if (ended.trickled_ns == 0 || m->trickled_ns - ended.trickled_ns >= WAKE_MODERATION_GAP_NS)
                return 0;
        return WAKE_MODERATION_HOLD_NS;
}
