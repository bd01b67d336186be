/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth/access.h"

#include "auth/api_keys.h"

/* Limit of a model name in an error message. A client may send a name of any length. */
#define MAX_NAME_SHOWN 256

/* ---- refusals ---- */

static enum access_verdict refuse_access(const struct access *a, enum access_verdict verdict,
                                         const char *reason) {
        const struct endpoint_policy *p = a->policy;
        bool                          is_named = verdict == ACCESS_NOT_ALLOWED && a->key != NULL;

        if (p->on_key_refused != NULL)
                p->on_key_refused(p->owner, is_named ? a->key->name : "", reason);
        return verdict;
}

static bool is_anonymous(const struct access *a) {
        return a->key == &a->keys->file.anonymous;
}

/* Requires a key: the rules for requests without a key do not grant this. */
static enum access_verdict refuse_without_key(const struct access *a, struct arena *arena,
                                              const char **ret_text) {
        *ret_text = arena_printf(arena, "an API key that grants '%s' is required",
                                 endpoint_group_name(a->group));
        return refuse_access(a, ACCESS_NO_KEY, "missing");
}

static enum access_verdict refuse_unknown(const struct access *a, const char *text,
                                          const char **ret_text) {
        *ret_text = text;
        return refuse_access(a, ACCESS_NO_KEY, "unknown");
}

/* ---- what the key grants ---- */

static enum access_verdict check_group(const struct access *a, struct arena *arena,
                                       const char **ret_text) {
        if (api_key_grants_group(a->key, a->group))
                return ACCESS_GRANTED;
        if (is_anonymous(a))
                return refuse_without_key(a, arena, ret_text);
        *ret_text = arena_printf(arena, "the API key does not grant '%s'",
                                 endpoint_group_name(a->group));
        return refuse_access(a, ACCESS_NOT_ALLOWED, "group");
}

static enum access_verdict check_model(const struct access *a, struct str model,
                                       struct arena *arena, const char **ret_text) {
        struct str shown = { model.ptr, MIN(model.len, (size_t)MAX_NAME_SHOWN) };

        if (model.len == 0 && !endpoint_group_spans_models(a->group))
                return ACCESS_GRANTED;
        if (api_key_grants_model(a->key, model))
                return ACCESS_GRANTED;
        if (is_anonymous(a))
                return refuse_without_key(a, arena, ret_text);
        if (model.len == 0)
                *ret_text = "the API key does not grant all models, and this is about all of them";
        else
                *ret_text = arena_printf(arena, "the API key does not grant model '%.*s'",
                                         STR_ARG(shown));
        return refuse_access(a, ACCESS_NOT_ALLOWED, "model");
}

/* ---- the key of the request ---- */

static bool is_key_field(struct str name, struct str value, struct str *ret_key) {
        struct str scheme, rest;

        if (str_equal_nocase(name, STR_LIT("x-api-key"))) {
                *ret_key = value;
                return true;
        }
        if (!str_equal_nocase(name, STR_LIT("authorization")))
                return false;
        rest = str_split(value, ' ', &scheme);
        *ret_key = str_trim(rest);
        return str_equal_nocase(scheme, STR_LIT("bearer"));
}

enum presented { PRESENTED_NONE, PRESENTED_ONE, PRESENTED_SEVERAL };

static enum presented find_key(const struct access_question *q, struct str *ret_key) {
        enum presented found = PRESENTED_NONE;

        for (size_t i = 0; i < q->n_fields; i++) {
                struct str name, value, key;

                q->field(q->call, i, &name, &value);
                if (!is_key_field(name, value, &key))
                        continue;
                if (found == PRESENTED_ONE && !str_equal(key, *ret_key))
                        return PRESENTED_SEVERAL;
                *ret_key = key;
                found = PRESENTED_ONE;
        }
        return found;
}

static enum access_verdict identify(const struct access_question *q, struct access *a,
                                    const char **ret_text) {
        unsigned char digest[DIGEST_SHA256_BYTES];
        AUTO_ERROR    err = NULL;
        struct str    key;

        switch (find_key(q, &key)) {
        case PRESENTED_NONE:
                if (a->keys->file.anonymous.name == NULL)
                        return refuse_without_key(a, q->arena, ret_text);
                a->key = &a->keys->file.anonymous;
                return ACCESS_GRANTED;
        case PRESENTED_SEVERAL:
                return refuse_unknown(a, "the request presents several API keys", ret_text);
        case PRESENTED_ONE: break;
        }
        err = digest_of(DIGEST_SHA256, key, digest);
        if (err != NULL)
                return refuse_unknown(a, "the API key cannot be checked now", ret_text);
        a->key = api_key_file_find(&a->keys->file, digest);
        return a->key != NULL ? ACCESS_GRANTED
                              : refuse_unknown(a, "the API key is unknown", ret_text);
}

static COLD enum access_verdict check_key(const struct access_question *q, struct access *a,
                                          const char **ret_text) {
        enum access_verdict verdict;

        a->keys = api_keys_hold(a->policy->keys);
        verdict = identify(q, a, ret_text);
        if (verdict == ACCESS_GRANTED)
                verdict = check_group(a, q->arena, ret_text);
        if (verdict == ACCESS_GRANTED && q->knows_model)
                verdict = check_model(a, q->model, q->arena, ret_text);
        return verdict;
}

/* ---- the header that is tied to the group ---- */

static struct str find_field(const struct access_question *q, struct str wanted) {
        for (size_t i = 0; i < q->n_fields; i++) {
                struct str name, value;

                q->field(q->call, i, &name, &value);
                if (str_equal_nocase(name, wanted))
                        return value;
        }
        return str_range(NULL, 0);
}

enum access_verdict access_check(const struct endpoint_policy *policy,
                                 const struct access_question *q, struct access *a,
                                 const char **ret_text) {
        const struct endpoint_rule *rule = endpoint_policy_find(policy, q->group);

        if (q->group == ENDPOINT_PUBLIC)
                return ACCESS_GRANTED;
        if (!endpoint_group_is_valid(q->group)) {
                *ret_text = "the endpoint is in no group";
                return ACCESS_NOT_ALLOWED;
        }
        if (rule != NULL && !endpoint_rule_allows(rule, find_field(q, str_of(rule->header)))) {
                *ret_text = arena_printf(q->arena, "This %s is restricted, expecting header '%s'",
                                         q->noun, rule->header);
                return ACCESS_NO_HEADER;
        }
        if (policy == NULL || policy->keys == NULL)
                return ACCESS_GRANTED;
        a->policy = policy;
        a->group = q->group;
        return check_key(q, a, ret_text);
}

/* ---- the model of a message, later in the request ---- */

static const struct api_key *find_again(const struct access *a, const struct api_key_set *keys) {
        if (!is_anonymous(a))
                return api_key_file_find(&keys->file, a->key->digest);
        return keys->file.anonymous.name != NULL ? &keys->file.anonymous : NULL;
}

/* The key file was read again since the check: continues the request with the new rules. */
static COLD enum access_verdict recheck_keys(struct access *a, struct arena *arena,
                                             const char **ret_text) {
        struct api_key_set   *keys = api_keys_hold(a->policy->keys);
        const struct api_key *key = find_again(a, keys);

        if (key == NULL) { /* the old snapshot stays, because the log needs the name of the key */
                api_keys_release(keys);
                if (is_anonymous(a))
                        return refuse_without_key(a, arena, ret_text);
                return refuse_unknown(a, "the API key is unknown", ret_text);
        }
        api_keys_release(a->keys);
        a->keys = keys;
        a->key = key;
        return check_group(a, arena, ret_text);
}

enum access_verdict access_check_model(struct access *a, struct str model, struct arena *arena,
                                       const char **ret_text) {
        enum access_verdict verdict = ACCESS_GRANTED;

        if (a->keys == NULL)
                return ACCESS_GRANTED;
        if (a->keys != api_keys_current(a->policy->keys))
                verdict = recheck_keys(a, arena, ret_text);
        if (verdict == ACCESS_GRANTED)
                verdict = check_model(a, model, arena, ret_text);
        return verdict;
}

bool access_is_limited(const struct access *a) {
        return a->key != NULL && !api_key_grants_model(a->key, str_range(NULL, 0));
}

bool access_grants_model(const struct access *a, struct str model) {
        return a->key == NULL || api_key_grants_model(a->key, model);
}

bool access_grants_group(const struct access *a, const struct endpoint_policy *policy,
                         enum endpoint_group group) {
        if (endpoint_policy_find(policy, group) != NULL)
                return false;
        return a->key == NULL || (api_key_grants_group(a->key, group) && !access_is_limited(a));
}

bool access_hides_field(const struct access *a, struct str name) {
        return a->keys != NULL && (str_equal_nocase(name, STR_LIT("x-api-key")) ||
                                   str_equal_nocase(name, STR_LIT("authorization")));
}

struct str access_key_name(const struct access *a) {
        return a->key != NULL ? str_of(a->key->name) : str_range(NULL, 0);
}

void access_release_keys(struct access *a) {
        api_keys_release(STEAL(a->keys));
        a->key = NULL;
}
