/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_review.h"

#include "base/mem.h"

#define ARENA_MAX_BYTES ((size_t)16 << 20)

void pb_text_review_init(struct pb_text_review *rv,
                         void (*on_error)(void *owner, struct error *err), void *owner) {
        *rv = (struct pb_text_review){ .on_error = on_error, .owner = owner };
        arena_init(&rv->arena, NULL, 0, ARENA_MAX_BYTES);
        pb_doubts_init(&rv->doubts, &rv->arena);
}

void pb_text_review_done(struct pb_text_review *rv) {
        free(rv->places);
        arena_done(&rv->arena);
}

void pb_text_review_report(struct pb_text_review *rv, struct error *err) {
        if (rv->n_errors == PB_REVIEW_MAX_ERRORS) {
                rv->is_cut = true;
                error_free(err);
                return;
        }
        rv->n_errors++;
        rv->on_error(rv->owner, err);
}

/* The capacity is not stored: the array is full at 64, 128, 256, ... */
static bool has_room(struct pb_text_review *rv) {
        size_t                  n = rv->n_places;
        struct pb_placed_field *larger;

        if (n == PB_REVIEW_MAX_PLACES)
                return false;
        if (n > 0 && (n < 64 || (n & (n - 1)) != 0))
                return true;
        larger = realloc(rv->places, MAX(2 * n, 64) * sizeof(*larger));
        if (larger == NULL)
                return false;
        rv->places = larger;
        return true;
}

void pb_text_review_place(struct pb_text_review *rv, struct str path, struct pb_place place) {
        const char *copy;

        if (!has_room(rv))
                return;
        copy = arena_try_str(&rv->arena, path);
        if (copy != NULL)
                rv->places[rv->n_places++] = (struct pb_placed_field){ copy, place };
}

/* Drops the last part of a path: "a[1].b[0]", "a[1].b", "a[1]", "a", "". */
static struct str parent_path(struct str path) {
        while (path.len > 0 && path.ptr[path.len - 1] != '.' && path.ptr[path.len - 1] != '[')
                path.len--;
        return str_range(path.ptr, path.len > 0 ? path.len - 1 : 0);
}

bool pb_text_review_find(const struct pb_text_review *rv, const char *path, struct pb_place *ret) {
        for (struct str p = str_of(path); p.len > 0; p = parent_path(p))
                for (size_t i = 0; i < rv->n_places; i++)
                        if (str_equal(p, str_of(rv->places[i].path))) {
                                *ret = rv->places[i].place;
                                return true;
                        }
        return false;
}
