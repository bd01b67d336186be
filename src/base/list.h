/* SPDX-License-Identifier: BSD-3-Clause */
/* An intrusive doubly linked list: a node lives inside the element.
 *
 * Ownership.  The list owns nothing. A node is in at most one list; list_remove() leaves it
 * unlinked (list_is_linked() false), as does list_node_init().
 */
#pragma once

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

struct list_node {
        struct list_node *prev;
        struct list_node *next; /* NULL when the node is in no list */
};

struct list {
        struct list_node head; /* a ring: head.next is the first element */
};

static inline void list_init(struct list *l) {
        l->head.prev = l->head.next = &l->head;
}

static inline void list_node_init(struct list_node *n) {
        n->prev = n->next = NULL;
}

static inline bool list_is_linked(const struct list_node *n) {
        return n->next != NULL;
}

static inline bool list_is_empty(const struct list *l) {
        return l->head.next == &l->head;
}

static inline void list_insert_before(struct list_node *position, struct list_node *n) {
        n->prev = position->prev;
        n->next = position;
        position->prev->next = n;
        position->prev = n;
}

static inline void list_append(struct list *l, struct list_node *n) {
        list_insert_before(&l->head, n);
}

static inline void list_prepend(struct list *l, struct list_node *n) {
        list_insert_before(l->head.next, n);
}

static inline void list_remove(struct list_node *n) {
        n->prev->next = n->next;
        n->next->prev = n->prev;
        list_node_init(n);
}

static inline struct list_node *list_first(struct list *l) {
        return list_is_empty(l) ? NULL : l->head.next;
}

/* The node after n, NULL at the end. */
static inline struct list_node *list_next(struct list *l, struct list_node *n) {
        return n->next == &l->head ? NULL : n->next;
}

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

/* Walks all elements; the current one may be removed (and freed) in the body. */
#define LIST_FOR_EACH(l, node)                                                                     \
        for (struct list_node *node = (l)->head.next, *node##_next_ = node->next;                  \
             node != &(l)->head; node = node##_next_, node##_next_ = node->next)
