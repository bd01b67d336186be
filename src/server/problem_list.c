/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/problem_list.h"

#include "base/mem.h"

void problem_list_done(struct problem_list *l) {
        for (size_t i = 0; i < l->n_items; i++) {
                free(l->items[i].file);
                free(l->items[i].field);
                free(l->items[i].message);
        }
        free(l->items);
        *l = (struct problem_list){ 0 };
}

static struct problem *append_problem(struct problem_list *l, const char *file,
                                      const char *message) {
        struct problem *p;

        l->items = mem_realloc(l->items, (l->n_items + 1) * sizeof(*l->items));
        p = &l->items[l->n_items++];
        *p = (struct problem){ .file = mem_strdup(file), .message = mem_strdup(message) };
        return p;
}

/* Reads "<line>:<column>: " at the front of a message; returns the rest, or NULL. */
static const char *read_place(const char *message, struct pb_place *ret) {
        struct str line, column, rest = str_split(str_of(message), ':', &line);
        uint64_t   numbers[2];

        rest = str_split(rest, ':', &column);
        if (rest.ptr == NULL || !str_to_u64(line, &numbers[0]) ||
            !str_to_u64(column, &numbers[1]) || *rest.ptr != ' ')
                return NULL;
        *ret = (struct pb_place){ (unsigned)numbers[0], (unsigned)numbers[1] };
        return rest.ptr + 1;
}

void problem_list_note(struct problem_list *l, const char *file,
                       const struct pb_text_review *review, const char *severity,
                       struct error *err) {
        struct pb_place place = { 0, 0 };
        const char     *message;
        struct problem *p;

        message = read_place(err->message, &place);
        if (message == NULL && err->field != NULL && review != NULL &&
            !pb_text_review_find(review, err->field, &place))
                place = (struct pb_place){ 0, 0 };
        p = append_problem(l, file, message != NULL ? message : err->message);
        p->severity = severity;
        p->line = place.line;
        p->column = place.column;
        p->field = err->field != NULL ? mem_strdup(err->field) : NULL;
        error_free(err);
}

void problem_list_add(struct problem_list *l, const char *file, const struct pb_text_review *review,
                      struct error *err) {
        if (err == NULL)
                return;
        problem_list_note(l, file, review, "error", err);
        l->n_errors++;
}

void problem_list_warn(struct problem_list *l, const char *file, const char *message) {
        append_problem(l, file, message)->severity = "warning";
}

static int compare_numbers(unsigned a, unsigned b) {
        return (a > b) - (a < b);
}

static int by_place(const void *left, const void *right) {
        const struct problem *a = left, *b = right;
        int                   order = compare_numbers(a->line - 1, b->line - 1); /* 0 is last */

        if (order == 0)
                order = compare_numbers(a->column, b->column);
        return order != 0 ? order : strcmp(a->message, b->message);
}

void problem_list_sort(struct problem_list *l) {
        if (l->n_items > 1)
                qsort(l->items, l->n_items, sizeof(*l->items), by_place);
}

static void print_problem(const struct problem *p, struct json_writer *w) {
        json_begin_object(w);
        json_member_string(w, "severity", p->severity);
        json_member_string(w, "file", p->file);
        if (p->line > 0) {
                json_member_u64(w, "line", p->line);
                json_member_u64(w, "column", p->column);
        }
        if (p->field != NULL) {
                json_member_string(w, "field", p->field);
        }
        json_member_string(w, "message", p->message);
        json_end_object(w);
}

void problem_list_print(const struct problem_list *l, struct json_writer *w) {
        json_begin_array(w);
        for (size_t i = 0; i < l->n_items; i++)
                print_problem(&l->items[i], w);
        json_end_array(w);
}
