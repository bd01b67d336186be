/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl stacks` prints the call stacks of the threads of a model's processes.
 */
#include "cli/ctl_private.h"
#include "cli/text_table.h"

struct process {
        struct str stacks;
        uint64_t   pid, executing_ms;
        bool       is_cut;
};

static struct process read_process(struct ctl *c, struct json_reader *r) {
        struct process p = { .stacks = STR_LIT("") };
        struct str     key;

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "pid"))
                        p.pid = ctl_read_count(r);
                else if (str_is(key, "executing_ms"))
                        p.executing_ms = ctl_read_count(r);
                else if (str_is(key, "cut") && json_peek(r) == JSON_BOOL)
                        p.is_cut = json_read_bool(r);
                else if (str_is(key, "stacks"))
                        p.stacks = json_read_string(r, &c->arena);
                else
                        json_skip(r);
        }
        return p;
}

/* Puts a text that a model's process wrote, without control characters, which must not reach a
 * terminal. */
static void put_text(struct strbuf *out, struct str text) {
        for (size_t i = 0; i < text.len; i++) {
                unsigned char b = (unsigned char)text.ptr[i];

                strbuf_putc(out, b == '\n' || (b >= ' ' && b != 0x7f) ? text.ptr[i] : '?');
        }
        if (text.len > 0 && text.ptr[text.len - 1] != '\n')
                strbuf_putc(out, '\n');
}

static void put_process(struct ctl *c, const struct process *p) {
        strbuf_printf(&c->out, "process %llu, ", (unsigned long long)p->pid);
        if (p->executing_ms > 0) {
                strbuf_printf(&c->out, "executing for ");
                duration_print((double)p->executing_ms * 1e6, &c->out);
                strbuf_putc(&c->out, '\n');
        } else {
                strbuf_printf(&c->out, "not executing\n");
        }
        put_text(&c->out, p->stacks);
        if (p->is_cut)
                strbuf_printf(&c->out, "... (cut)\n");
}

static void read_instance(struct ctl *c, struct json_reader *r) {
        struct str     name = STR_LIT(""), error = { NULL, 0 }, key;
        struct process p = { .pid = 0 };

        for (json_enter_object(r); json_next_key(r, &c->arena, &key);) {
                if (str_is(key, "name"))
                        name = json_read_string(r, &c->arena);
                else if (str_is(key, "error"))
                        error = json_read_string(r, &c->arena);
                else if (str_is(key, "process"))
                        p = read_process(c, r);
                else
                        json_skip(r);
        }
        strbuf_printf(&c->out, "%s== %.*s: ", c->out.len > 0 ? "\n" : "", STR_ARG(name));
        if (error.ptr != NULL)
                put_text(&c->out, error);
        else
                put_process(c, &p);
}

static void print_instances(struct ctl *c, struct json_reader *r) {
        for (json_enter_array(r); json_next_element(r);)
                read_instance(c, r);
}

struct error *ctl_stacks(struct ctl *c) {
        return ctl_print_member(c, ctl_model_path(c, "/stacks"), "instances", print_instances);
}
