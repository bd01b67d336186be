/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched_plugin/plugin_members.h"

#include "base/mem.h"
#include "base/str.h"
#include "infer/executor.h"
#include "sched/instance.h"

#include <string.h>

/* "b4_0" is the first instance of the group "b4". */
static char *group_name(const struct executor *e) {
        AUTO_CHARS  suffix = mem_printf("_%u", e->index);
        const char *name = e->name != NULL ? e->name : "";
        struct str  whole = str_of(name);

        if (e->group_name != NULL)
                return mem_strdup(e->group_name);
        return str_ends(whole, str_of(suffix)) ? mem_strndup(name, whole.len - strlen(suffix))
                                               : mem_strdup(name);
}

static uint32_t add_member(struct plugin_members *m, const struct executor *e) {
        uint32_t at = m->n++;

        m->views = mem_realloc(m->views, m->n * sizeof(*m->views));
        m->states = mem_realloc(m->states, m->n * sizeof(*m->states));
        m->views[at] = (sched_member){ .id = at,
                                       .virtual_index = e->index,
                                       .lo = MAX(e->min_rows, 1u),
                                       .hi = MAX(e->max_rows, 1u),
                                       .name = group_name(e) };
        m->states[at] = (struct plugin_member_state){ .executor = e };
        return at;
}

void plugin_members_init(struct plugin_members *m, struct executor *const *executors,
                         uint32_t n_executors) {
        *m = (struct plugin_members){ 0 };
        for (uint32_t i = 0; i < n_executors; i++)
                if (!executors[i]->is_passive)
                        add_member(m, executors[i]);
}

static void free_name(const sched_member *view) {
        free((char *)(uintptr_t)view->name);
}

void plugin_members_done(struct plugin_members *m) {
        for (uint32_t i = 0; i < m->n; i++)
                free_name(&m->views[i]);
        free(m->views);
        free(m->states);
        *m = (struct plugin_members){ 0 };
}

/* Returns the number of the member that waits for the instance; m->n: none. */
static uint32_t find_expecting(const struct plugin_members *m, const struct instance *in) {
        uint32_t at = 0;

        while (at < m->n && (m->states[at].executor != in->executor || m->states[at].in != NULL))
                at++;
        return at;
}

bool plugin_members_expects(const struct plugin_members *m, const struct instance *in) {
        return find_expecting(m, in) < m->n;
}

uint32_t plugin_members_join(struct plugin_members *m, struct instance *in) {
        uint32_t at = find_expecting(m, in);

        if (at == m->n)
                add_member(m, in->executor);
        m->states[at].in = in;
        in->policy_index = at;
        return at;
}

void plugin_members_remove(struct plugin_members *m, uint32_t at) {
        m->states[at].in->policy_index = UINT32_MAX;
        free_name(&m->views[at]);
        m->n--;
        for (uint32_t i = at; i < m->n; i++) {
                m->views[i] = m->views[i + 1];
                m->views[i].id = i;
                m->states[i] = m->states[i + 1];
                if (m->states[i].in != NULL)
                        m->states[i].in->policy_index = i;
        }
}

bool plugin_members_find(const struct plugin_members *m, const struct instance *in, uint32_t *ret) {
        *ret = in->policy_index;
        return in->policy_index < m->n && m->states[in->policy_index].in == in;
}

bool plugin_members_is_free(const struct plugin_members *m, uint32_t at) {
        if (m->states[at].in == NULL || m->states[at].is_busy)
                return false;
        for (uint32_t i = 0; m->is_exclusive && i < m->n; i++)
                if (m->states[i].is_busy && m->views[i].virtual_index == m->views[at].virtual_index)
                        return false;
        return true;
}

bool plugin_members_are_busy(const struct plugin_members *m) {
        for (uint32_t i = 0; i < m->n; i++)
                if (m->states[i].is_busy)
                        return true;
        return false;
}

bool plugin_members_have_free(const struct plugin_members *m, uint64_t n_rows) {
        for (uint32_t i = 0; i < m->n; i++)
                if (m->views[i].lo <= n_rows && plugin_members_is_free(m, i))
                        return true;
        return false;
}
