/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_message.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>

void store_request_add(struct store_request *r, const char *name, const char *value) {
        r->headers = mem_realloc(r->headers, (r->n_headers + 1) * sizeof(*r->headers));
        r->headers[r->n_headers] = (struct store_header){ mem_strdup(name), mem_strdup(value) };
        str_lower(r->headers[r->n_headers++].name);
}

void store_request_set(struct store_request *r, const char *name, const char *value) {
        for (size_t i = 0; i < r->n_headers; i++) {
                if (strcasecmp(r->headers[i].name, name) != 0)
                        continue;
                free(r->headers[i].value);
                r->headers[i].value = mem_strdup(value);
                return;
        }
        store_request_add(r, name, value);
}

/* A header may hold a key. */
static void free_headers(struct store_header *headers, size_t n) {
        for (size_t i = 0; i < n; i++) {
                explicit_bzero(headers[i].value, strlen(headers[i].value));
                free(headers[i].name);
                free(headers[i].value);
        }
        free(headers);
}

void store_request_done(struct store_request *r) {
        if (r->url.len > 0)
                explicit_bzero(r->url.ptr, r->url.len);
        strbuf_done(&r->url);
        free_headers(r->headers, r->n_headers);
        *r = (struct store_request){ 0 };
}

const char *store_header_find(const struct store_header *headers, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(headers[i].name, name) == 0)
                        return headers[i].value;
        return NULL;
}

const char *store_answer_header(const struct store_answer *a, const char *name) {
        const char *value = store_header_find(a->headers, a->n_headers, name);

        return value != NULL ? value : "";
}

static int compare_headers(const void *a, const void *b) {
        const struct store_header *left = a, *right = b;

        return strcmp(left->name, right->name);
}

void store_request_sort_headers(struct store_request *r) {
        qsort(r->headers, r->n_headers, sizeof(*r->headers), compare_headers);
}

void store_answer_add(struct store_answer *a, struct str name, struct str value) {
        a->headers = mem_realloc(a->headers, (a->n_headers + 1) * sizeof(*a->headers));
        a->headers[a->n_headers] = (struct store_header){ mem_strndup(name.ptr, name.len),
                                                          mem_strndup(value.ptr, value.len) };
        str_lower(a->headers[a->n_headers++].name);
}

void store_answer_clear_headers(struct store_answer *a) {
        free_headers(a->headers, a->n_headers);
        a->headers = NULL;
        a->n_headers = 0;
}

void store_answer_done(struct store_answer *a) {
        store_answer_clear_headers(a);
        if (a->body.len > 0)
                explicit_bzero(a->body.ptr, a->body.len); /* it may hold a token */
        strbuf_done(&a->body);
        *a = (struct store_answer){ 0 };
}
