/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/serve_keys.h"

#include "base/log.h"
#include "cli/cli_options.h"
#include "triton/core/neso.h"
#include "triton/core/tritonserver.h"

static void on_key_refused(void *owner, const char *key, const char *reason) {
        struct serve_keys *k = owner;

        TRITONSERVER_ErrorDelete(NESO_ServerObserveKeyRefused(k->core, key, reason));
}

static void tell(const struct serve_keys *k) {
        const char *path = api_keys_path(k->keys);

        log_info("%zu API keys are in force, from %s", api_keys_count(k->keys), path);
        if (api_keys_are_writable_by_others(k->keys))
                log_warn("%s may be written to by others than its owner, who could give "
                         "themselves any right",
                         path);
}

struct error *serve_keys_open(struct serve_keys *k, const struct cli_options *o) {
        if (!o->api_key_file)
                return NULL;
        return api_keys_open(o->api_key_file, &k->keys);
}

void serve_keys_start(struct serve_keys *k, struct TRITONSERVER_Server *core) {
        k->core = core;
        if (k->keys)
                tell(k);
}

void serve_keys_done(struct serve_keys *k) {
        api_keys_free(STEAL(k->keys));
}

void serve_keys_apply(struct serve_keys *k, struct endpoint_policy *policy) {
        policy->keys = k->keys;
        policy->on_key_refused = on_key_refused;
        policy->owner = k;
}

void serve_keys_reload(struct serve_keys *k) {
        AUTO_ERROR err = NULL;

        if (!k->keys)
                return;
        err = api_keys_reload(k->keys);
        if (err)
                log_error("the API keys stay what they were: %s", err->message);
        else
                tell(k);
}
