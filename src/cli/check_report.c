/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/check_report.h"

#include "codec/json_find.h"

static struct checked_model *read_model(struct str json, struct arena *arena) {
        struct checked_model *m = arena_alloc(arena, sizeof(*m));

        *m = (struct checked_model){ .json = json,
                                     .name = json_find_text(json, "name", arena),
                                     .directory = json_find_text(json, "directory", arena),
                                     .config = json_find(json, "config") };
        JSON_FOR_EACH(json_find(json, "problems"), problem)
                m->n_errors += !str_is(json_find_text(problem, "severity", arena), "warning");
        return m;
}

struct error *check_report_read(struct str json, struct arena *arena, struct check_report *ret) {
        struct checked_model **end = &ret->models;

        TRY(error_recode(error_wrap(json_check(json, JSON_OBJECT),
                                    "the report of the check cannot be read"),
                         ERR_INTERNAL));
        *ret = (struct check_report){ .path = json_find_text(json, "path", arena),
                                      .is_model = json_find_flag(json, "is_model") };
        JSON_FOR_EACH(json_find(json, "models"), model) {
                *end = read_model(model, arena);
                end = &(*end)->next;
        }
        return NULL;
}
