/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/migrate_table.h"

#include "base/compiler.h"
#include "base/str.h"

#include <string.h>
#include <strings.h>

const char *migrate_verdict_name(enum migrate_verdict verdict) {
        static const char *const names[] = {
                [MIGRATE_WORKS] = "works",
                [MIGRATE_DIFFERS] = "differs",
                [MIGRATE_MISSING] = "missing",
        };

        return names[verdict];
}

static bool is_true(const char *value) {
        return strcasecmp(value, "true") == 0 || strcasecmp(value, "on") == 0 ||
               strcmp(value, "1") == 0;
}

static bool is_false(const char *value) {
        return !is_true(value);
}

static bool is_poll(const char *value) {
        return strcasecmp(value, "poll") == 0;
}

/* Constructs of RE2 that POSIX expressions read as something else. Others they refuse. */
static bool is_beyond_posix(const char *value) {
        static const char *const constructs[] = { "\\d", "\\D", "*?", "+?", "??", "\\p", "(?" };

        for (size_t i = 0; i < ARRAY_LEN(constructs); i++)
                if (strstr(value, constructs[i]) != NULL)
                        return true;
        return false;
}

static bool has_numa_node(const char *value) {
        return strstr(value, ",numa-node=") != NULL;
}

static bool is_fixed_in_python(const char *value) {
        static const char *const settings[] = { "python,shm-region-prefix-name=",
                                                "python,shm_message_queue_size=",
                                                "python,thread-pool-size=" };

        for (size_t i = 0; i < ARRAY_LEN(settings); i++)
                if (str_starts(str_of(value), str_of(settings[i])))
                        return true;
        return false;
}

static bool is_python_timeout(const char *value) {
        return str_starts(str_of(value), STR_LIT("python,stub-timeout-seconds="));
}

#define POSIX                                                                                      \
        "is a POSIX extended regular expression here: \\d, (?i) and lazy matches are not there; "  \
        "upper and lower case match in any case"

const struct migrate_row migrate_rows[] = {
        { "grpc-infer-allocation-pool-size", true, NULL,
          "has no effect: request objects are always kept for reuse" },
        { "buffer-manager-thread-count", true, NULL,
          "has no effect: buffers need no threads here" },
        { "backend-config", true, is_fixed_in_python,
          "has no effect: messages of the python backend have no queue, name or threads to set" },
        { "backend-config", false, is_python_timeout,
          "is the time limit of a start and of finalize(); Triton uses it nowhere" },
        { "grpc-infer-thread-count", false, NULL,
          "counts event loops, which serve every method; without it there is one for each core" },
        { "http-header-forward-pattern", false, is_beyond_posix, POSIX },
        { "grpc-header-forward-pattern", false, is_beyond_posix, POSIX },
        { "model-control-mode", false, is_poll,
          "a changed model is loaded when two polls in a row find the same files" },
        { "exit-on-error", false, is_false,
          "a model whose configuration cannot be read, too, keeps the server from being ready, "
          "unless --strict-readiness=false" },
        { "host-policy", false, has_numa_node,
          "the node's memory is preferred, not required; without cpu-cores its cores are taken" },
        { "backend-directory", false, NULL,
          "backends are taken from there alone, onnxruntime and python, too: without the option, "
          "those of Neso" },
        { "repoagent-directory", false, NULL,
          "agents are taken from there alone, checksum, too: without the option, those of Neso" },
        { "cache-directory", false, NULL,
          "caches are taken from there alone, local, too: without the option, those of Neso" },
};

const size_t n_migrate_rows = ARRAY_LEN(migrate_rows);

const struct migrate_row *migrate_table_find(const char *option, const char *value) {
        for (size_t i = 0; i < ARRAY_LEN(migrate_rows); i++) {
                const struct migrate_row *row = &migrate_rows[i];

                if (strcmp(row->option, option) == 0 &&
                    (row->is_meant == NULL || row->is_meant(value)))
                        return row;
        }
        return NULL;
}
