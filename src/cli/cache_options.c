/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/cache_options.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "codec/json_writer.h"
#include "core_api/core_error.h"
#include "triton/core/tritonserver.h"

#include <string.h>

/* "<cache>,<setting>=<value>": the parts of one text. */
struct cache_setting {
        struct str cache, name, value;
};

static struct error *read_setting(const char *text, struct cache_setting *ret) {
        struct str setting = str_split(str_of(text), ',', &ret->cache);

        if (setting.ptr == NULL || ret->cache.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Error: No cache name specified. --cache-config option format is "
                                 "<cache name>,<setting>=<value>. Got %s",
                                 text);
        ret->value = str_split(setting, '=', &ret->name);
        if (ret->value.ptr == NULL || ret->name.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "Error: --cache-config option format is "
                                 "'<cache name>,<setting>=<value>'. Got %s",
                                 text);
        return NULL;
}

/* The settings of one cache, each name once: what was given last counts. */
static void print_config(const struct cache_setting *all, size_t n, struct str cache,
                         struct strbuf *out) {
        struct json_writer w;

        json_writer_init(&w, out);
        json_begin_object(&w);
        for (size_t i = 0; i < n; i++) {
                bool is_last = str_equal(all[i].cache, cache);

                for (size_t k = i + 1; k < n && is_last; k++)
                        is_last = !str_equal(all[k].cache, cache) ||
                                  !str_equal(all[k].name, all[i].name);
                if (!is_last)
                        continue;
                json_key_str(&w, all[i].name);
                json_put_str(&w, all[i].value);
        }
        json_end_object(&w);
}

static struct error *set_one(const struct cache_setting *all, size_t n, struct str cache,
                             struct TRITONSERVER_ServerOptions *t) {
        AUTO_STRBUF config = { 0 };
        AUTO_CHARS  name = mem_strndup(cache.ptr, cache.len);

        strbuf_init(&config, 0);
        print_config(all, n, cache, &config);
        return core_error_take(
                TRITONSERVER_ServerOptionsSetCacheConfig(t, name, strbuf_cstr(&config)));
}

static struct error *set_all(const struct cli_options *o, struct cache_setting *all,
                             struct TRITONSERVER_ServerOptions *t) {
        size_t n = o->cache_config.n_items;

        for (size_t i = 0; i < n; i++)
                TRY(read_setting(o->cache_config.items[i], &all[i]));
        /* The same cache again replaces it by the same. */
        for (size_t i = 0; i < n; i++)
                TRY(set_one(all, n, all[i].cache, t));
        return NULL;
}

struct error *cache_options_set(const struct cli_options *o, struct TRITONSERVER_ServerOptions *t) {
        size_t                n = o->cache_config.n_items;
        struct cache_setting *all;
        struct error         *err;

        if (o->cache_bytes >= 0) {
                if (n > 0)
                        return error_new(ERR_INVALID_ARG,
                                         "Error: Incompatible flags --response-cache-byte-size and "
                                         "--cache-config both provided. Please provide one or the "
                                         "other.");
                return core_error_take(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
                        t, (uint64_t)o->cache_bytes));
        }
        all = mem_zalloc((n + 1) * sizeof(*all));
        err = set_all(o, all, t);
        free(all);
        return err;
}
