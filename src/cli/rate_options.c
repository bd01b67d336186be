/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/rate_options.h"

#include "base/mem.h"
#include "base/str.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"

#include <string.h>

#define EACH_DEVICE (-1)

/* "<name>:<count>[:<device>]" */
static struct error *add_resource(const char *text, struct TRITONSERVER_ServerOptions *t) {
        struct str name, count, device = { 0 };
        struct str numbers = str_split(str_of(text), ':', &name);
        uint64_t   n = 0, number = 0;
        bool       is_right = name.len > 0 && numbers.ptr != NULL;

        if (is_right) {
                device = str_split(numbers, ':', &count);
                is_right = str_to_u64(count, &n) && n <= SIZE_MAX;
        }
        if (device.ptr != NULL)
                is_right = is_right && str_to_u64(device, &number) && number <= INT32_MAX;
        if (!is_right)
                return error_new(ERR_INVALID_ARG,
                                 "Error: --rate-limit-resource option format is "
                                 "'<resource_name>:<count>:<device>' or '<resource_name>:<count>'. "
                                 "Got %s",
                                 text);

        AUTO_CHARS copy = mem_strndup(name.ptr, name.len);

        return core_error_take(TRITONSERVER_ServerOptionsAddRateLimiterResource(
                t, copy, (size_t)n, device.ptr != NULL ? (int)number : EACH_DEVICE));
}

struct error *rate_options_set(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        TRITONSERVER_RateLimitMode mode = TRITONSERVER_RATE_LIMIT_OFF;

        if (strcmp(o->rate_limit, "execution_count") == 0)
                mode = TRITONSERVER_RATE_LIMIT_EXEC_COUNT;
        else if (strcmp(o->rate_limit, "off") != 0)
                return error_new(ERR_INVALID_ARG,
                                 "invalid argument for --rate-limit, expects execution_count or "
                                 "off, got: %s",
                                 o->rate_limit);
        TRY(core_error_take(TRITONSERVER_ServerOptionsSetRateLimiterMode(t, mode)));
        for (size_t i = 0; i < o->rate_limit_resource.n_items; i++)
                TRY(add_resource(o->rate_limit_resource.items[i], t));
        return NULL;
}
