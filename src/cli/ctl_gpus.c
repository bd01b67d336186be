/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl gpus` prints the GPUs of the server. What NVML does not tell is empty.
 */
#include "cli/ctl_private.h"
#include "cli/json_table.h"
#include "codec/json_find.h"
#include "codec/json_reader.h"

static bool find_number(const struct json_row *row, const char *path, double *ret) {
        struct str         text = json_find(row->object, path);
        struct json_reader r;

        if (text.ptr == NULL)
                return false;
        json_reader_init(&r, text);
        if (json_peek(&r) != JSON_NUMBER)
                return false;
        *ret = json_read_number(&r).real;
        return true;
}

static void put_mib(const struct json_row *row, const char *path, const char *second,
                    struct text_table *t) {
        double bytes;

        (void)second;
        if (find_number(row, path, &bytes))
                text_table_printf(t, "%.0f", bytes / (1 << 20));
        else
                text_table_put(t, STR_LIT(""));
}

static void put_percent(const struct json_row *row, const char *path, const char *second,
                        struct text_table *t) {
        double share;

        (void)second;
        if (find_number(row, path, &share))
                text_table_printf(t, "%.0f %%", share * 100);
        else
                text_table_put(t, STR_LIT(""));
}

/* "75 / 300" */
static void put_watts(const struct json_row *row, const char *path, const char *second,
                      struct text_table *t) {
        double used, limit;

        if (!find_number(row, path, &used))
                text_table_put(t, STR_LIT(""));
        else if (!find_number(row, second, &limit))
                text_table_printf(t, "%.0f", used);
        else
                text_table_printf(t, "%.0f / %.0f", used, limit);
}

static const struct json_column columns[] = {
        { "GPU", TEXT_RIGHT, cell_count, .path = "device" },
        { "NAME", TEXT_LEFT, cell_text, .path = "name" },
        { "CC", TEXT_LEFT, cell_text, .path = "compute_capability" },
        { "USE", TEXT_RIGHT, put_percent, .path = "utilization" },
        { "MEMORY MiB", TEXT_RIGHT, put_mib, .path = "memory_total_bytes" },
        { "USED MiB", TEXT_RIGHT, put_mib, .path = "memory_used_bytes" },
        { "POOL MiB", TEXT_RIGHT, put_mib, .path = "pool_total_bytes" },
        { "USED MiB", TEXT_RIGHT, put_mib, .path = "pool_used_bytes" },
        { "WATTS", TEXT_RIGHT, put_watts, .path = "power_watts", .second = "power_limit_watts" },
        { "UUID", TEXT_LEFT, cell_text, .path = "uuid" },
};

static void print_gpus(struct ctl *c, struct str body) {
        struct json_table t;

        json_table_init(&t, columns, ARRAY_LEN(columns), &c->arena);
        if (json_table_add(&t, body, &(struct json_rows){ .outer = "gpus" }) > 0) {
                json_table_end(&t, &c->out);
                return;
        }
        json_table_end(&t, NULL);
        strbuf_puts(&c->out, "the server has no GPUs\n");
}

struct error *ctl_gpus(struct ctl *c) {
        return ctl_show(c, "/v2/gpus", print_gpus);
}
