/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/version_policy.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

#define MAX_WARNINGS 100 /* limits the warnings of one directory */

void version_scan_init(struct version_scan *s) {
        *s = (struct version_scan){ 0 };
}

void version_scan_done(struct version_scan *s) {
        for (size_t i = 0; i < s->n_warnings; i++)
                free(s->warnings[i]);
        free(s->warnings);
        free(s->versions);
        version_scan_init(s);
}

/* Takes `text`. */
static void add_warning(struct version_scan *s, char *text) {
        if (s->n_warnings == MAX_WARNINGS) {
                free(text);
                return;
        }
        s->warnings = mem_grow(s->warnings, s->n_warnings, sizeof(*s->warnings));
        s->warnings[s->n_warnings++] = text;
}

/* Index of the version, or the index where it would be inserted. */
static size_t find_place(const struct version_scan *s, int64_t version) {
        size_t low = 0;
        size_t high = s->n_versions;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (s->versions[middle] < version)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static bool has_version(const struct version_scan *s, int64_t version) {
        size_t at = find_place(s, version);

        return at < s->n_versions && s->versions[at] == version;
}

static void add_version(struct version_scan *s, int64_t version) {
        size_t at = find_place(s, version);

        if (has_version(s, version))
                return;
        s->versions = mem_grow(s->versions, s->n_versions, sizeof(*s->versions));
        memmove(s->versions + at + 1, s->versions + at,
                (s->n_versions - at) * sizeof(*s->versions));
        s->versions[at] = version;
        s->n_versions++;
}

static bool has_leading_zero(struct str name) {
        return name.len > 1 && name.ptr[0] == '0';
}

bool version_from_name(struct str directory_name, int64_t *ret) {
        uint64_t number;

        if (has_leading_zero(directory_name) || !str_to_u64(directory_name, &number) ||
            number > INT64_MAX)
                return false;
        *ret = (int64_t)number;
        return true;
}

void version_scan_add(struct version_scan *s, struct str directory_name) {
        int64_t version;

        if (str_is(directory_name, "warmup") || str_is(directory_name, "initial_state") ||
            str_is(directory_name, "configs"))
                return;
        if (version_from_name(directory_name, &version))
                add_version(s, version);
        else if (has_leading_zero(directory_name))
                add_warning(s, mem_printf("ignore version directory '%.*s' which contains leading "
                                          "zeros in its directory name",
                                          STR_ARG(directory_name)));
        else
                add_warning(s, mem_printf("ignore version directory '%.*s' which fails to convert "
                                          "to integral number",
                                          STR_ARG(directory_name)));
}

/* Picks the versions that the policy names, in the order of the scan, so that each occurs once. */
static void pick_specific(const struct model_config *c, struct version_scan *s,
                          struct version_pick *pick) {
        const Inference__ModelVersionPolicy__Specific *specific = c->pb->version_policy->specific;
        struct version_scan                            named;

        version_scan_init(&named);
        for (size_t i = 0; i < specific->n_versions; i++) {
                if (has_version(s, specific->versions[i]))
                        add_version(&named, specific->versions[i]);
                else
                        add_warning(s, mem_printf("version %" PRId64
                                                  " is specified for model '%s', but the version "
                                                  "directory is not present",
                                                  specific->versions[i], c->pb->name));
        }
        pick->versions = STEAL(named.versions);
        pick->n_versions = named.n_versions;
        version_scan_done(&named);
}

static void pick_latest(const struct version_scan *s, size_t n, struct version_pick *pick) {
        pick->n_versions = MIN(n, s->n_versions);
        if (pick->n_versions == 0)
                return;
        pick->versions = mem_alloc(pick->n_versions * sizeof(*pick->versions));
        memcpy(pick->versions, s->versions + (s->n_versions - pick->n_versions),
               pick->n_versions * sizeof(*pick->versions));
}

struct error *version_policy_pick(const struct model_config *c, struct version_scan *s,
                                  struct version_pick *ret) {
        const Inference__ModelVersionPolicy *policy = c->pb->version_policy;
        struct version_pick                  pick = { 0 };

        if (policy == NULL)
                pick_latest(s, 1, &pick);
        else if (policy->policy_choice_case ==
                 INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_SPECIFIC)
                pick_specific(c, s, &pick);
        else if (policy->policy_choice_case ==
                 INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_LATEST)
                pick_latest(s, policy->latest->num_versions, &pick);
        else
                pick_latest(s, s->n_versions, &pick);

        if (pick.n_versions == 0) {
                version_pick_done(&pick);
                if (s->n_versions == 0)
                        add_warning(s, mem_strdup("no directory of a version, such as '1', is in "
                                                  "the model's directory; the files of a version "
                                                  "belong there"));
                return error_new(ERR_INVALID_ARG,
                                 "at least one version must be available under the version policy "
                                 "of model '%s'",
                                 c->pb->name);
        }
        *ret = pick;
        return NULL;
}

bool version_pick_has(const struct version_pick *p, int64_t version) {
        for (size_t i = 0; i < p->n_versions; i++)
                if (p->versions[i] == version)
                        return true;
        return false;
}

void version_pick_done(struct version_pick *p) {
        free(p->versions);
        *p = (struct version_pick){ 0 };
}
