/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the stand-in: variables NESO_FAKE_GPU_<name>, and lines <name>=<value> of the file that
 * NESO_FAKE_GPU_CONTROL names, which is read again when it has changed. */
#include "fake_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "NESO_FAKE_GPU_"
#define MAX_RULES 16
#define MAX_SETTING 256

struct rule {
        char          function[48];
        unsigned long first, last; /* calls that fail, from 1 */
        int           code;
        unsigned long n_calls;
};

static struct rule     rules[MAX_RULES];
static size_t          n_rules;
static bool            has_rules;
static struct timespec control_time;
static off_t           control_bytes;
static ino_t           control_file;
static uint64_t        random_state;

const char *fake_setting(const char *name) {
        char variable[96];

        (void)snprintf(variable, sizeof(variable), PREFIX "%s", name);
        return getenv(variable);
}

uint64_t fake_setting_number(const char *name, uint64_t otherwise) {
        const char *text = fake_setting(name);
        char       *end;
        uint64_t    number;

        if (text == NULL || *text == '\0')
                return otherwise;
        number = strtoull(text, &end, 10);
        if (*end != '\0')
                fake_report("setting", PREFIX "%s is '%s', which is no number", name, text);
        return number;
}

/* ---- calls that fail ------------------------------------------------------------------------- */

/* "<function>:<n>[+][:<code>]" */
static void read_rule(char *text) {
        struct rule *r = &rules[n_rules];
        char        *colon = strchr(text, ':');

        if (colon == NULL || n_rules == MAX_RULES || colon - text >= (long)sizeof(r->function))
                fake_report("setting", PREFIX "FAIL has '%s', not <function>:<n>[+][:<code>]",
                            text);
        *r = (struct rule){ .code = CU_OUT_OF_MEMORY };
        memcpy(r->function, text, (size_t)(colon - text));
        r->first = r->last = strtoul(colon + 1, &colon, 10);
        if (*colon == '+') {
                r->last = (unsigned long)-1;
                colon++;
        }
        if (*colon == ':')
                r->code = (int)strtol(colon + 1, &colon, 10);
        if (*colon != '\0' || r->first == 0)
                fake_report("setting", PREFIX "FAIL has '%s', not <function>:<n>[+][:<code>]",
                            text);
        n_rules++;
}

static void read_rules(void) {
        const char *text = fake_setting("FAIL");
        char       *copy = strdup(text != NULL ? text : "");
        char       *rest, *part;

        n_rules = 0;
        for (part = strtok_r(copy, ", ", &rest); part != NULL; part = strtok_r(NULL, ", ", &rest))
                read_rule(part);
        free(copy);
        has_rules = true;
}

/* Also without the version at the end of the exported name. */
static bool is_named(const char *function, const char *name) {
        size_t n = strlen(name);

        return strncmp(function, name, n) == 0 &&
               (function[n] == '\0' || strcmp(function + n, "_v2") == 0);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void set(const char *name, const char *value) {
        char variable[96];

        (void)snprintf(variable, sizeof(variable), PREFIX "%s", name);
        if (value != NULL)
                setenv(variable, value, 1);
        else
                unsetenv(variable);
        if (strcmp(name, "FAIL") == 0)
                has_rules = false;
}

static void read_control(const char *path) {
        char  line[MAX_SETTING];
        FILE *file = fopen(path, "re");

        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
                char *equals = strchr(line, '=');

                line[strcspn(line, "\n")] = '\0';
                if (equals == NULL)
                        continue;
                *equals = '\0';
                set(line, equals + 1);
        }
        if (file != NULL)
                (void)fclose(file);
}

static void look_at_control(void) {
        const char *path = fake_setting("CONTROL");
        struct stat s;

        if (path == NULL || stat(path, &s) != 0)
                return;
        if (s.st_ino == control_file && s.st_size == control_bytes &&
            s.st_mtim.tv_sec == control_time.tv_sec && s.st_mtim.tv_nsec == control_time.tv_nsec)
                return;
        control_file = s.st_ino;
        control_bytes = s.st_size;
        control_time = s.st_mtim;
        read_control(path);
}

cu_result fake_failure(const char *function) {
        cu_result result = CU_SUCCESS;

        look_at_control();
        if (!has_rules)
                read_rules();
        for (size_t i = 0; i < n_rules; i++) {
                struct rule *r = &rules[i];

                if (!is_named(function, r->function))
                        continue;
                r->n_calls++;
                if (r->n_calls >= r->first && r->n_calls <= r->last && result == CU_SUCCESS)
                        result = r->code;
        }
        return result;
}

void fake_cuda_set(const char *name, const char *value) {
        pthread_mutex_lock(&fake.lock);
        set(name, value);
        if (strcmp(name, "SEED") == 0)
                random_state = 0;
        pthread_mutex_unlock(&fake.lock);
}

/* xorshift64*: any good sequence does, and it is the same for a seed. */
uint64_t fake_random(uint64_t below) {
        if (random_state == 0)
                random_state = fake_setting_number("SEED", 1) * 0x9E3779B97F4A7C15u + 1;
        random_state ^= random_state >> 12;
        random_state ^= random_state << 25;
        random_state ^= random_state >> 27;
        return below == 0 ? 0 : (random_state * 0x2545F4914F6CDD1Du >> 11) % below;
}
