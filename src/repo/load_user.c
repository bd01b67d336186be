/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/load_user.h"

static _Thread_local struct load_user current_user;

struct load_user load_user_set(struct load_user user) {
        struct load_user old = current_user;

        current_user = user;
        return old;
}

struct load_user load_user_get(void) {
        return current_user;
}
