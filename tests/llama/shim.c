/* SPDX-License-Identifier: BSD-3-Clause */
/* llama.cpp's library with faults that the bytes of a prompt ask for:
 *
 *     1   the computation goes on until it is broken off
 *     2   abort() inside the library
 *     3   the computation fails
 *     4   there is no room in the memory for tokens
 *
 * VERSION replaces the text of llama_version().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_BYTE 3 /* the token of the byte 0 */

struct batch {
        int32_t  n_tokens;
        int32_t *token;
        float   *embd;
        int32_t *pos, *n_seq_id, **seq_id;
        int8_t  *logits;
};

typedef bool (*abort_fn)(void *userp);

static abort_fn is_aborted;
static void    *is_aborted_userp;

#ifdef VERSION
const char *llama_version(void);
const char *llama_version(void) {
        return VERSION;
}
#endif

void llama_set_abort_callback(void *context, abort_fn fn, void *userp);
void llama_set_abort_callback(void *context, abort_fn fn, void *userp) {
        void (*next)(void *, abort_fn, void *) = dlsym(RTLD_NEXT, "llama_set_abort_callback");

        is_aborted = fn;
        is_aborted_userp = userp;
        next(context, fn, userp);
}

static int fault_of(const struct batch *b) {
        for (int i = 0; i < b->n_tokens; i++)
                if (b->token[i] > FIRST_BYTE && b->token[i] <= FIRST_BYTE + 4)
                        return b->token[i] - FIRST_BYTE;
        return 0;
}

int32_t llama_decode(void *context, struct batch b);
int32_t llama_decode(void *context, struct batch b) {
        int32_t (*next)(void *, struct batch) = dlsym(RTLD_NEXT, "llama_decode");

        switch (fault_of(&b)) {
        case 1:
                while (!is_aborted(is_aborted_userp))
                        sched_yield();
                return 2;
        case 2: abort();
        case 3: return -3;
        case 4: return 1;
        default: return next(context, b);
        }
}
