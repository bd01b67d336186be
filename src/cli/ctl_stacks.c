/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl stacks` prints the call stacks of the threads of a model's processes.
 */
#include "cli/ctl_private.h"
#include "cli/text_table.h"
#include "codec/json_find.h"

/* Puts a text that a model's process wrote, and a line end. */
static void put_text(struct strbuf *out, struct str text) {
        strbuf_put(out, text.ptr, text.len);
        if (text.len > 0 && text.ptr[text.len - 1] != '\n')
                strbuf_putc(out, '\n');
}

static void put_process(struct ctl *c, struct str process) {
        uint64_t executing_ms = json_find_count(process, "executing_ms");

        strbuf_printf(&c->out, "process %llu, ",
                      (unsigned long long)json_find_count(process, "pid"));
        if (executing_ms > 0) {
                strbuf_puts(&c->out, "executing for ");
                duration_print((double)executing_ms * 1e6, &c->out);
                strbuf_putc(&c->out, '\n');
        } else {
                strbuf_puts(&c->out, "not executing\n");
        }
        put_text(&c->out, json_find_text(process, "stacks", &c->arena));
        if (json_find_flag(process, "cut"))
                strbuf_puts(&c->out, "... (cut)\n");
}

static void print_instances(struct ctl *c, struct str body) {
        JSON_FOR_EACH(json_find(body, "instances"), instance) {
                struct str name = json_find_text(instance, "name", &c->arena);

                strbuf_printf(&c->out, "%s== %.*s: ", c->out.len > 0 ? "\n" : "", STR_ARG(name));
                if (json_find(instance, "error").ptr != NULL)
                        put_text(&c->out, json_find_text(instance, "error", &c->arena));
                else
                        put_process(c, json_find(instance, "process"));
        }
}

struct error *ctl_stacks(struct ctl *c) {
        return ctl_show(c, ctl_model_path(c, "/stacks"), print_instances);
}
