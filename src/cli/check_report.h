/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads what NESO_ModelRepositoryCheck() reports.
 *
 * Ownership.  Texts are in the arena, or ranges of the JSON, which must outlive the report.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct check_problem {
        bool                  is_warning;
        struct str            file, message;
        uint64_t              line, column; /* 0: none */
        struct check_problem *next;
};

struct checked_model {
        struct str            name, directory, file; /* file: ptr NULL when there is none */
        struct str            versions, config;      /* JSON; empty when there are errors */
        struct str            plan;                  /* JSON; of composite models */
        struct str            problems_json;
        struct check_problem *problems;
        size_t                n_errors;
        bool                  is_loaded;  /* with --load: and here is its configuration */
        struct str            load_error; /* ptr NULL: it loaded, or nobody tried */
        struct checked_model *next;
};

struct check_report {
        struct str            path;
        bool                  is_model;
        struct checked_model *models;
};

/* INTERNAL when it is not what the core promises. */
struct error *check_report_read(struct str json, struct arena *arena, struct check_report *ret)
        NODISCARD;

/* "file:line:column: message" for each, "warning: " in front of the message of one. */
void check_report_print_problems(const struct checked_model *m, struct strbuf *out);

/* "name: ok, versions 1, 2" and the configuration, indented; of composite models the plan. */
void check_report_print_model(const struct checked_model *m, struct strbuf *out);

/* The report as it came, with "loaded" or "load_error" of models that were tried. */
void check_report_print_json(const struct check_report *report, struct strbuf *out);
