/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_place.h"

#include "codec/pb_field.h"

/* One part of the path, "name" or "name[index]". */
struct part {
        struct str name;
        bool       has_index;
        uint64_t   index;
};

struct place_reader {
        struct pb_lexer                   lexer;
        const ProtobufCMessageDescriptor *type; /* type of the message that is being read */
        struct part                       part; /* the part to find in it */
        uint64_t                          n_seen;
        struct pb_place                   found; /* place of the last part that was found */
        bool                              is_found;
};

static bool next_part(struct str *path, struct part *ret) {
        struct str head, index, rest = str_split(*path, '.', &head);

        if (head.len == 0)
                return false;
        *ret = (struct part){ .name = head, .has_index = head.ptr[head.len - 1] == ']' };
        if (ret->has_index) {
                index = str_split(head, '[', &ret->name);
                index.len--;
                if (!str_to_u64(index, &ret->index))
                        return false;
        }
        *path = rest;
        return true;
}

static bool is_open(const struct pb_lexer *l) {
        return pb_lexer_is_sign(l, '{') || pb_lexer_is_sign(l, '<');
}

/* Skips one value: a scalar, a message or a list. */
static struct error *skip_value(struct pb_lexer *l) {
        size_t depth = 0;
        bool   has_sign;

        TRY(pb_lexer_accept(l, '-', &has_sign));
        do {
                bool is_string = l->token.kind == PB_TOKEN_STRING;

                if (is_open(l) || pb_lexer_is_sign(l, '['))
                        depth++;
                else if (pb_lexer_is_sign(l, '}') || pb_lexer_is_sign(l, '>') ||
                         pb_lexer_is_sign(l, ']'))
                        depth -= depth > 0;
                if (l->token.kind == PB_TOKEN_END)
                        return NULL;
                TRY(pb_lexer_next(l));
                while (is_string && depth == 0 && l->token.kind == PB_TOKEN_STRING)
                        TRY(pb_lexer_next(l));
        } while (depth > 0);
        return NULL;
}

/* One value of the wanted field: checks whether it has the wanted index. */
static struct error *read_candidate(struct place_reader *r, struct pb_place place) {
        if (r->n_seen++ != r->part.index)
                return skip_value(&r->lexer);
        r->found = place;
        r->is_found = true;
        return NULL;
}

static struct error *read_list(struct place_reader *r) {
        struct pb_lexer *l = &r->lexer;
        bool             has_comma;

        while (!r->is_found && !pb_lexer_is_sign(l, ']') && l->token.kind != PB_TOKEN_END) {
                TRY(read_candidate(r, l->token.place));
                if (!r->is_found)
                        TRY(pb_lexer_accept(l, ',', &has_comma));
        }
        return r->is_found ? NULL : pb_lexer_next(l);
}

static struct error *read_field(struct place_reader *r) {
        struct pb_lexer *l = &r->lexer;
        struct pb_place  place = l->token.place;
        bool             is_wanted = str_equal(l->token.text, r->part.name), is_list, has_mark;

        TRY(pb_lexer_next(l));
        TRY(pb_lexer_accept(l, ':', &has_mark));
        if (!is_wanted) {
                TRY(skip_value(l));
        } else if (!r->part.has_index) {
                TRY(read_candidate(r, place));
        } else {
                TRY(pb_lexer_accept(l, '[', &is_list));
                TRY(is_list ? read_list(r) : read_candidate(r, place));
        }
        if (r->is_found)
                return NULL;
        TRY(pb_lexer_accept(l, ',', &has_mark));
        return has_mark ? NULL : pb_lexer_accept(l, ';', &has_mark);
}

/* Searches the open message. If the part was found, the lexer is at its value afterwards. */
static struct error *find_part(struct place_reader *r) {
        r->n_seen = 0;
        r->is_found = false;
        while (!r->is_found && r->lexer.token.kind == PB_TOKEN_WORD)
                TRY(read_field(r));
        return NULL;
}

static struct error *find_path(struct place_reader *r, struct str text, struct pb_patches patches,
                               struct str path, bool *ret_any) {
        TRY(pb_lexer_start_patched(&r->lexer, text, NULL, patches));
        while (next_part(&path, &r->part)) {
                const ProtobufCFieldDescriptor *field = pb_field_find(r->type, r->part.name);

                TRY(find_part(r));
                if (!r->is_found)
                        return NULL;
                *ret_any = true;
                if (field == NULL || pb_field_kind(field) != PB_MESSAGE || !is_open(&r->lexer))
                        return NULL;
                r->type = pb_field_message(field);
                TRY(pb_lexer_next(&r->lexer));
        }
        return NULL;
}

bool pb_text_find_place(const ProtobufCMessageDescriptor *type, struct str text,
                        struct pb_patches patches, const char *path, struct pb_place *ret) {
        struct place_reader r = { .type = type };
        bool                any = false;
        AUTO_ERROR          err = find_path(&r, text, patches, str_of(path), &any);

        if (any)
                *ret = r.found;
        return any;
}
