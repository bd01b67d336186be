/* SPDX-License-Identifier: BSD-3-Clause */
/* `neso ctl graph` prints the steps of an ensemble, or the stages of a chain, and the tensors that
 * go from one to the next, as tables or for Graphviz.
 */
#include "cli/ctl_private.h"
#include "cli/text_table.h"
#include "codec/json_find.h"

/* A tensor that goes from one step to another; step 0 is the client. */
struct edge {
        unsigned   from, to;
        struct str from_tensor,
                to_tensor; /* ptr NULL for chains: the server reports only the models of a chain */
        struct edge *next;
};

struct step {
        unsigned     number;                /* from 1 */
        struct str   model, version, ready; /* ready: ptr NULL when the server did not report it */
        struct step *next;
};

/* A step that writes or reads a tensor. */
struct end {
        struct str  tensor; /* name in the ensemble */
        struct str  name;   /* name in the step's model */
        unsigned    step;
        struct end *next;
};

struct graph {
        const char  *kind;
        struct str   name;
        struct step *steps, **steps_end;
        struct edge *edges, **edges_end;
        struct end  *writers, *readers, **readers_end;
};

static void add_edge(struct ctl *c, struct graph *g, const struct edge *edge) {
        struct edge *e = ARENA_NEW(&c->arena, struct edge);

        *e = *edge;
        *g->edges_end = e;
        g->edges_end = &e->next;
}

static struct step *add_step(struct ctl *c, struct graph *g) {
        struct step *s = ARENA_NEW(&c->arena, struct step);

        s->number =
                g->steps != NULL ? CONTAINER_OF(g->steps_end, struct step, next)->number + 1 : 1;
        s->version = STR_LIT("latest");
        *g->steps_end = s;
        g->steps_end = &s->next;
        return s;
}

/* ---- ensembles ------------------------------------------------------------------------------- */

static void add_writer(struct ctl *c, struct graph *g, const struct end *end) {
        struct end *w = ARENA_NEW(&c->arena, struct end);

        *w = *end;
        w->next = g->writers;
        g->writers = w;
}

static void add_reader(struct ctl *c, struct graph *g, const struct end *end) {
        struct end *r = ARENA_NEW(&c->arena, struct end);

        *r = *end;
        *g->readers_end = r;
        g->readers_end = &r->next;
}

/* {"<name in the model>": "<name in the ensemble>"} */
static void read_map(struct ctl *c, struct str json, struct graph *g, unsigned step,
                     void (*add)(struct ctl *, struct graph *, const struct end *)) {
        struct json_reader r = json_reader_of(json);
        struct str         key;

        if (json_peek(&r) != JSON_OBJECT)
                return;
        for (json_enter_object(&r); json_next_key(&r, &c->arena, &key);) {
                struct end e = { .name = key, .step = step };

                e.tensor = json_read_string(&r, &c->arena);
                add(c, g, &e);
        }
}

static void read_step(struct ctl *c, struct str json, struct graph *g) {
        struct step       *s = add_step(c, g);
        struct str         version = json_find(json, "model_version");
        struct json_reader r;

        s->model = json_find_text(json, "model_name", &c->arena);
        json_reader_init(&r, version);
        if (version.ptr != NULL && !json_read_number(&r).is_negative)
                s->version = version;
        read_map(c, json_find(json, "input_map"), g, s->number, add_reader);
        read_map(c, json_find(json, "output_map"), g, s->number, add_writer);
}

/* The client writes the ensemble's own inputs and reads its outputs. */
static void read_tensors(struct ctl *c, struct str json, struct graph *g,
                         void (*add)(struct ctl *, struct graph *, const struct end *)) {
        JSON_FOR_EACH(json, tensor) {
                struct end e = { .name = json_find_text(tensor, "name", &c->arena) };

                e.tensor = e.name;
                add(c, g, &e);
        }
}

static void connect_ends(struct ctl *c, struct graph *g) {
        for (const struct end *r = g->readers; r != NULL; r = r->next)
                for (const struct end *w = g->writers; w != NULL; w = w->next)
                        if (str_equal(r->tensor, w->tensor))
                                add_edge(c, g,
                                         &(struct edge){ .from = w->step,
                                                         .to = r->step,
                                                         .from_tensor = w->name,
                                                         .to_tensor = r->name });
}

static void read_ensemble(struct ctl *c, struct graph *g, struct str config) {
        read_tensors(c, json_find(config, "input"), g, add_writer);
        JSON_FOR_EACH(json_find(config, "ensemble_scheduling.step"), step)
                read_step(c, step, g);
        read_tensors(c, json_find(config, "output"), g, add_reader);
        connect_ends(c, g);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static void read_stage(struct ctl *c, struct str json, struct graph *g) {
        struct step *s = add_step(c, g);

        s->model = json_find_text(json, "name", &c->arena);
        s->version = json_find_text(json, "version", &c->arena);
        if (s->version.len == 0)
                s->version = STR_LIT("-");
        if (json_find(json, "ready").ptr != NULL)
                s->ready = json_find_flag(json, "ready") ? STR_LIT("yes") : STR_LIT("no");
        add_edge(c, g, &(struct edge){ .from = s->number - 1, .to = s->number });
}

static void read_chain(struct ctl *c, struct graph *g, struct str chain) {
        JSON_FOR_EACH(json_find(chain, "stages"), stage)
                read_stage(c, stage, g);
        if (g->steps != NULL)
                add_edge(c, g,
                         &(struct edge){
                                 .from = CONTAINER_OF(g->steps_end, struct step, next)->number });
}

/* ---- as text --------------------------------------------------------------------------------- */

static const struct step *find_step(const struct graph *g, unsigned number) {
        const struct step *s = g->steps;

        while (s != NULL && s->number != number)
                s = s->next;
        return s;
}

static void put_end(struct ctl *c, struct text_table *t, const struct graph *g, unsigned number,
                    struct str tensor) {
        const struct step *s = find_step(g, number);
        const char        *dot = tensor.ptr != NULL ? "." : "";

        if (s == NULL)
                text_table_put(t, str_of(arena_printf(&c->arena, "client%s%.*s", dot,
                                                      STR_ARG(tensor))));
        else
                text_table_put(t, str_of(arena_printf(&c->arena, "%u:%.*s%s%.*s", number,
                                                      STR_ARG(s->model), dot, STR_ARG(tensor))));
}

static const struct text_column step_columns[] = {
        { "STEP", TEXT_LEFT },
        { "MODEL", TEXT_LEFT },
        { "VERSION", TEXT_LEFT },
        { "READY", TEXT_LEFT },
};
static const struct text_column edge_columns[] = {
        { "FROM", TEXT_LEFT },
        { "TO", TEXT_LEFT },
};

static void print_text(struct ctl *c, const struct graph *g) {
        AUTO_TEXT_TABLE t, edges;

        strbuf_printf(&c->out, "%s %.*s\n\n", g->kind, STR_ARG(g->name));
        text_table_init(&t, step_columns, ARRAY_LEN(step_columns));
        for (const struct step *s = g->steps; s != NULL; s = s->next) {
                text_table_put(&t, str_of(arena_printf(&c->arena, "%u", s->number)));
                text_table_put(&t, s->model);
                text_table_put(&t, s->version);
                text_table_put(&t, s->ready); /* text_table_print() leaves out an empty column */
        }
        text_table_print(&t, &c->out);
        strbuf_putc(&c->out, '\n');
        text_table_init(&edges, edge_columns, ARRAY_LEN(edge_columns));
        for (const struct edge *e = g->edges; e != NULL; e = e->next) {
                put_end(c, &edges, g, e->from, e->from_tensor);
                put_end(c, &edges, g, e->to, e->to_tensor);
        }
        text_table_print(&edges, &c->out);
}

/* ---- for Graphviz ---------------------------------------------------------------------------- */

/* Puts a string of Graphviz's language, with quotes and backslashes escaped. */
static void put_quoted(struct strbuf *out, struct str text) {
        strbuf_putc(out, '"');
        for (size_t i = 0; i < text.len; i++) {
                if (text.ptr[i] == '"' || text.ptr[i] == '\\')
                        strbuf_putc(out, '\\');
                strbuf_putc(out, text.ptr[i]);
        }
        strbuf_putc(out, '"');
}

/* Puts the name of a node. The client is two nodes, so that the picture goes from left to right. */
static void put_node(struct strbuf *out, unsigned number, const char *client) {
        if (number == 0)
                strbuf_puts(out, client);
        else
                strbuf_printf(out, "step%u", number);
}

static void print_dot(struct ctl *c, const struct graph *g) {
        struct strbuf *out = &c->out;

        strbuf_puts(out, "digraph ");
        put_quoted(out, g->name);
        strbuf_puts(out, " {\n  rankdir=LR;\n  node [shape=box];\n"
                         "  request [shape=ellipse];\n  response [shape=ellipse];\n");
        for (const struct step *s = g->steps; s != NULL; s = s->next) {
                strbuf_printf(out, "  step%u [label=", s->number);
                put_quoted(out, s->model);
                strbuf_puts(out, str_is(s->ready, "no") ? ", style=dashed];\n" : "];\n");
        }
        for (const struct edge *e = g->edges; e != NULL; e = e->next) {
                strbuf_puts(out, "  ");
                put_node(out, e->from, "request");
                strbuf_puts(out, " -> ");
                put_node(out, e->to, "response");
                if (e->from_tensor.ptr != NULL) {
                        struct str label = e->from_tensor;

                        if (!str_equal(e->from_tensor, e->to_tensor))
                                label = str_of(arena_printf(&c->arena, "%.*s : %.*s",
                                                            STR_ARG(e->from_tensor),
                                                            STR_ARG(e->to_tensor)));
                        strbuf_puts(out, " [label=");
                        put_quoted(out, label);
                        strbuf_putc(out, ']');
                }
                strbuf_puts(out, ";\n");
        }
        strbuf_puts(out, "}\n");
}

/* ---- the command ----------------------------------------------------------------------------- */

struct error *ctl_graph(struct ctl *c) {
        struct graph g = { .kind = "ensemble", .name = str_of(c->model) };
        struct str   body;

        g.steps_end = &g.steps;
        g.edges_end = &g.edges;
        g.readers_end = &g.readers;
        TRY(ctl_get(c, ctl_model_path(c, "/config"), &body));
        TRY(ctl_check_answer(c, body, JSON_OBJECT));
        if (json_find(body, "ensemble_scheduling").ptr != NULL) {
                read_ensemble(c, &g, body);
        } else {
                g.kind = "chain";
                TRY(ctl_get(c, ctl_model_path(c, "/chain"), &body));
                TRY(ctl_check_answer(c, body, JSON_OBJECT));
                read_chain(c, &g, body);
        }
        if (c->is_json)
                ctl_put_answer(c, body);
        else if (c->is_dot)
                print_dot(c, &g);
        else
                print_text(c, &g);
        return NULL;
}
