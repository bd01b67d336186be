/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth/endpoint.h"

#include "base/mem.h"
#include "base/strbuf.h"

static const char *const group_names[N_ENDPOINT_GROUPS] = {
        [ENDPOINT_HEALTH] = "health",
        [ENDPOINT_METADATA] = "metadata",
        [ENDPOINT_INFERENCE] = "inference",
        [ENDPOINT_SHARED_MEMORY] = "shared-memory",
        [ENDPOINT_MODEL_CONFIG] = "model-config",
        [ENDPOINT_MODEL_REPOSITORY] = "model-repository",
        [ENDPOINT_STATISTICS] = "statistics",
        [ENDPOINT_TRACE] = "trace",
        [ENDPOINT_LOGGING] = "logging",
        [ENDPOINT_METRICS] = "metrics",
};

const char *endpoint_group_name(enum endpoint_group group) {
        if (group == ENDPOINT_PUBLIC)
                return "public";
        return endpoint_group_is_valid(group) ? group_names[group] : "none";
}

bool endpoint_group_is_routable(enum endpoint_group group) {
        return group == ENDPOINT_PUBLIC || endpoint_group_is_valid(group);
}

bool endpoint_group_is_valid(enum endpoint_group group) {
        return group > ENDPOINT_NONE && group < N_ENDPOINT_GROUPS;
}

bool endpoint_group_find(struct str name, enum endpoint_group *ret) {
        for (size_t i = ENDPOINT_NONE + 1; i < N_ENDPOINT_GROUPS; i++) {
                if (str_is(name, group_names[i])) {
                        *ret = (enum endpoint_group)i;
                        return true;
                }
        }
        return false;
}

const char *endpoint_group_suggest(struct str word) {
        return str_suggest(word, group_names + 1, N_ENDPOINT_GROUPS - 1);
}

bool endpoint_group_spans_models(enum endpoint_group group) {
        return group == ENDPOINT_MODEL_REPOSITORY || group == ENDPOINT_STATISTICS ||
               group == ENDPOINT_TRACE || group == ENDPOINT_METRICS;
}

void endpoint_policy_init(struct endpoint_policy *p) {
        *p = (struct endpoint_policy){ 0 };
}

void endpoint_policy_done(struct endpoint_policy *p) {
        for (size_t i = 0; i < N_ENDPOINT_GROUPS; i++) {
                free(p->rules[i].header);
                free(p->rules[i].value);
        }
        endpoint_policy_init(p);
}

/* gRPC, which has a prefix, has no metrics endpoint, so a rule for it would have no effect. */
static bool has_group(enum endpoint_group group, const char *prefix) {
        return group != ENDPOINT_METRICS || prefix[0] == '\0';
}

/* The text begins as that of the reference server, with the blank at its end. */
static struct error *unknown_group(struct str group, const char *kind, const char *prefix) {
        AUTO_STRBUF names = { 0 };

        for (size_t i = ENDPOINT_NONE + 1; i < N_ENDPOINT_GROUPS; i++)
                if (has_group((enum endpoint_group)i, prefix))
                        strbuf_printf(&names, "%s%s", names.len > 0 ? ", " : "", group_names[i]);
        TRY(strbuf_check(&names, "the text of an error"));
        return error_new(ERR_INVALID_ARG, "unknown restricted %s '%.*s' (expects one of %s)", kind,
                         STR_ARG(group), strbuf_cstr(&names));
}

static struct error *add_rule(struct endpoint_policy *p, struct str group, struct str header,
                              struct str value, const char *kind, const char *prefix) {
        enum endpoint_group i;

        if (!endpoint_group_find(group, &i) || !has_group(i, prefix))
                return unknown_group(group, kind, prefix);
        if (p->rules[i].header != NULL)
                return error_new(ERR_INVALID_ARG,
                                 "restricted %s '%.*s' can not be specified in multiple config "
                                 "groups",
                                 kind, STR_ARG(group));
        p->rules[i].header = mem_printf("%s%.*s", prefix, STR_ARG(header));
        p->rules[i].value = mem_strndup(value.ptr, value.len);
        return NULL;
}

struct error *endpoint_policy_add(struct endpoint_policy *p, const char *text, const char *kind,
                                  const char *header_prefix) {
        struct str groups, header;
        struct str rest = str_split(str_of(text), ':', &groups);
        struct str value = rest.ptr != NULL ? str_split(rest, '=', &header) : rest;

        if (value.ptr == NULL || header.len == 0)
                return error_new(ERR_INVALID_ARG,
                                 "restricted %ss must be given as "
                                 "<group>,<group>:<header>=<value>, got '%s'",
                                 kind, text);
        STR_FOR_EACH(groups, ',', group)
                TRY(add_rule(p, group, header, value, kind, header_prefix));
        return NULL;
}

const struct endpoint_rule *endpoint_policy_find(const struct endpoint_policy *p,
                                                 enum endpoint_group           group) {
        if (p == NULL || !endpoint_group_is_valid(group) || p->rules[group].header == NULL)
                return NULL;
        return &p->rules[group];
}

bool endpoint_rule_allows(const struct endpoint_rule *rule, struct str presented) {
        size_t        len = strlen(rule->value);
        unsigned char difference = presented.len != len;

        if (presented.ptr == NULL)
                return false;
        /* Reads every byte of the presented value, so that the time does not depend on the
         * match. */
        for (size_t i = 0; i < presented.len; i++)
                difference |= (unsigned char)(presented.ptr[i] ^ rule->value[len ? i % len : 0]);
        return difference == 0;
}
