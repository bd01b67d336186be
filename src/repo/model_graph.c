/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/model_graph.h"

#include "base/map.h"
#include "base/mem.h"

struct edges {
        struct node **nodes; /* owned array */
        size_t        n;
};

enum direction { NEEDS, USERS, N_DIRECTIONS };

struct node {
        char        *name;
        struct edges edges[N_DIRECTIONS]; /* the users of a node need it */
        bool         is_set;
};

struct model_graph {
        struct map nodes; /* name -> struct node, owned */
};

struct model_graph *model_graph_new(void) {
        struct model_graph *g = mem_zalloc(sizeof(*g));

        map_init(&g->nodes);
        return g;
}

static void free_node(struct node *n) {
        free(n->edges[NEEDS].nodes);
        free(n->edges[USERS].nodes);
        free(n->name);
        free(n);
}

void model_graph_free(struct model_graph *g) {
        if (g == NULL)
                return;
        MAP_FOR_EACH(&g->nodes, e)
                free_node(e->value);
        map_done(&g->nodes);
        free(g);
}

static struct node *find_or_add(struct model_graph *g, const char *name) {
        struct node *n = map_find(&g->nodes, str_of(name));

        if (n == NULL) {
                n = mem_zalloc(sizeof(*n));
                n->name = mem_strdup(name);
                map_set(&g->nodes, str_of(name), n);
        }
        return n;
}

static void forget_if_unused(struct model_graph *g, struct node *n) {
        if (n->is_set || n->edges[USERS].n > 0)
                return;
        map_remove(&g->nodes, str_of(n->name));
        free_node(n);
}

/* Returns the index of the edge; edges->n when there is none. */
static size_t find_edge(const struct edges *edges, const struct node *n) {
        size_t at = 0;

        while (at < edges->n && edges->nodes[at] != n)
                at++;
        return at;
}

static void add_edge(struct edges *edges, struct node *n) {
        edges->nodes = mem_grow(edges->nodes, edges->n, sizeof(struct node *));
        edges->nodes[edges->n++] = n;
}

static void drop_needs(struct model_graph *g, struct node *n) {
        struct edges needs = n->edges[NEEDS];

        n->edges[NEEDS] = (struct edges){ 0 };
        for (size_t i = 0; i < needs.n; i++) {
                struct edges *users = &needs.nodes[i]->edges[USERS];

                users->nodes[find_edge(users, n)] = users->nodes[users->n - 1];
                users->n--;
                if (needs.nodes[i] != n)
                        forget_if_unused(g, needs.nodes[i]);
        }
        free(needs.nodes);
}

void model_graph_set(struct model_graph *g, const char *model, const char *const *needs,
                     size_t n_needs) {
        struct node *n = find_or_add(g, model);

        n->is_set = true;
        drop_needs(g, n);
        for (size_t i = 0; i < n_needs; i++) {
                struct node *other = find_or_add(g, needs[i]);

                if (find_edge(&n->edges[NEEDS], other) < n->edges[NEEDS].n)
                        continue;
                add_edge(&n->edges[NEEDS], other);
                add_edge(&other->edges[USERS], n);
        }
}

void model_graph_remove(struct model_graph *g, const char *model) {
        struct node *n = map_find(&g->nodes, str_of(model));

        if (n == NULL)
                return;
        n->is_set = false;
        drop_needs(g, n);
        forget_if_unused(g, n);
}

/* ---- walks ----------------------------------------------------------------------------------- */

void model_order_done(struct model_order *o) {
        free(o->names);
        *o = (struct model_order){ 0 };
}

/* A depth-first walk without recursion: a graph may be as deep as the number of models. */
struct frame {
        const struct node *node;
        size_t             next; /* index in its edges */
};

struct walk {
        enum direction      direction;
        struct map          seen; /* name -> a mark: on the path, or done */
        struct frame       *path; /* owned; room for each node once */
        size_t              depth;
        struct model_order *order; /* borrowed; nodes in the order in which their edges are done */
        const struct node  *again; /* the first node of a cycle; NULL: none was found */
};

static char on_path_mark, done_mark;

/* Index in the path of the node that the last node of the path needs again. */
static size_t find_first(const struct walk *w, const struct node *again) {
        size_t first = 0;

        while (w->path[first].node != again)
                first++;
        return first;
}

static void enter(struct walk *w, const struct node *n) {
        map_set(&w->seen, str_of(n->name), &on_path_mark);
        w->path[w->depth++] = (struct frame){ n, 0 };
}

/* False at a cycle in the direction of needs. In the direction of users a cycle is ignored. */
static bool walk_from(struct walk *w, const struct node *start) {
        if (map_find(&w->seen, str_of(start->name)) != NULL)
                return true;
        enter(w, start);
        while (w->depth > 0) {
                struct frame       *top = &w->path[w->depth - 1];
                const struct edges *edges = &top->node->edges[w->direction];

                if (top->next < edges->n) {
                        const struct node *n = edges->nodes[top->next++];
                        const void        *mark = map_find(&w->seen, str_of(n->name));

                        if (mark == &on_path_mark && w->direction == NEEDS) {
                                w->again = n;
                                return false;
                        }
                        if (mark == NULL)
                                enter(w, n);
                        continue;
                }
                map_set(&w->seen, str_of(top->node->name), &done_mark);
                w->order->names[w->order->n++] = top->node->name;
                w->depth--;
        }
        return true;
}

static void walk_init(struct walk *w, const struct model_graph *g, enum direction direction,
                      size_t n_more, struct model_order *order) {
        size_t room = map_size(&g->nodes) + n_more + 1;

        *w = (struct walk){ .direction = direction, .order = order };
        map_init(&w->seen);
        w->path = mem_alloc(room * sizeof(*w->path));
        *order = (struct model_order){ .names = mem_alloc(room * sizeof(const char *)) };
}

static void walk_done(struct walk *w) {
        map_done(&w->seen);
        free(w->path);
}

bool model_graph_order(const struct model_graph *g, const char *const *models, size_t n,
                       struct model_order *ret) {
        struct walk w;
        bool        has_order = true;

        walk_init(&w, g, NEEDS, n, ret);
        for (size_t i = 0; i < n && has_order; i++) {
                const struct node *node = map_find(&g->nodes, str_of(models[i]));

                if (node != NULL)
                        has_order = walk_from(&w, node);
                else if (map_set(&w.seen, str_of(models[i]), &done_mark) == NULL)
                        ret->names[ret->n++] = models[i];
        }
        walk_done(&w);
        if (!has_order)
                model_order_done(ret);
        return has_order;
}

void model_graph_find_cycle(const struct model_graph *g, const char *model,
                            struct model_order *ret) {
        const struct node *n = map_find(&g->nodes, str_of(model));
        struct walk        w;

        walk_init(&w, g, NEEDS, 0, ret);
        if (n != NULL)
                (void)walk_from(&w, n);
        ret->n = 0;
        for (size_t i = w.again != NULL ? find_first(&w, w.again) : w.depth; i < w.depth; i++)
                ret->names[ret->n++] = w.path[i].node->name;
        walk_done(&w);
}

char *model_order_print_cycle(const struct model_order *cycle) {
        char *text = mem_strdup(cycle->names[0]);

        for (size_t i = 1; i <= cycle->n; i++) {
                char *longer = mem_printf("%s -> %s", text, cycle->names[i % cycle->n]);

                free(text);
                text = longer;
        }
        return text;
}

struct error *model_order_circular_chain(const char *model, const struct model_order *cycle) {
        AUTO_CHARS text = model_order_print_cycle(cycle);

        return error_new(ERR_INVALID_ARG, "chain of model '%s' is circular: %s", model, text);
}

void model_graph_dependents(const struct model_graph *g, const char *model,
                            struct model_order *ret) {
        const struct node *n = map_find(&g->nodes, str_of(model));
        struct walk        w;

        walk_init(&w, g, USERS, 0, ret);
        if (n != NULL) {
                (void)walk_from(&w, n); /* a cycle does not end it in this direction */
                ret->n--;               /* the model itself, the last one */
        }
        walk_done(&w);
}
