/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text.h"

#include "codec/pb_build.h"
#include "codec/pb_text_lexer.h"
#include "codec/pb_text_scalar.h"

struct text_reader {
        struct pb_lexer lexer;
        struct arena   *arena;   /* borrowed */
        struct strbuf   scratch; /* for strings, before they go to the arena */
        unsigned        depth;   /* messages that are open, without the outermost */
};

/* The field whose value is being read, and where its name stands. */
struct open_field {
        const ProtobufCFieldDescriptor *field; /* borrowed */
        struct pb_place                 place;
};

static struct error *read_fields(struct text_reader *r, struct pb_build *b, char close,
                                 const struct open_field *owner);

static struct error *unknown_field(const struct text_reader         *r,
                                   const ProtobufCMessageDescriptor *type) {
        struct str  name = r->lexer.token.text;
        const char *nearest = pb_field_suggest(type, name);

        return pb_lexer_locate(&r->lexer, r->lexer.token.place,
                               error_new(ERR_INVALID_ARG,
                                         "message '%s' has no field named '%.*s'%s%s%s",
                                         pb_type_name(type), STR_ARG(name),
                                         nearest ? "; did you mean '" : "", nearest ? nearest : "",
                                         nearest ? "'?" : ""));
}

static struct error *read_message(struct text_reader *r, const struct open_field *open,
                                  union pb_value *ret) {
        struct pb_build b;
        bool            has_brace, has_angle = false;

        TRY(pb_lexer_accept(&r->lexer, '{', &has_brace));
        if (!has_brace)
                TRY(pb_lexer_accept(&r->lexer, '<', &has_angle));
        if (!has_brace && !has_angle)
                return pb_lexer_expected(&r->lexer, "'{' after field '%s'", open->field->name);
        if (r->depth == PB_TEXT_MAX_DEPTH)
                return pb_lexer_locate(&r->lexer, open->place,
                                       error_new(ERR_INVALID_ARG,
                                                 "messages are nested deeper than %d",
                                                 PB_TEXT_MAX_DEPTH));
        r->depth++;
        TRY(pb_build_start(&b, pb_field_message(open->field), r->arena));
        TRY(read_fields(r, &b, has_brace ? '}' : '>', open));
        r->depth--;
        ret->message = b.message;
        return pb_lexer_next(&r->lexer); /* the closing bracket, which read_fields() left */
}

static struct error *read_value(struct text_reader *r, struct pb_build *b,
                                const struct open_field *open) {
        union pb_value value = { .u64 = 0 };

        if (pb_field_kind(open->field) == PB_MESSAGE)
                TRY(read_message(r, open, &value));
        else
                TRY(pb_text_scalar_read(&r->lexer, open->field, r->arena, &r->scratch, &value));
        return pb_build_put(b, open->field, value);
}

/* After the '['. */
static struct error *read_list(struct text_reader *r, struct pb_build *b,
                               const struct open_field *open) {
        bool is_end, has_comma;

        TRY(pb_lexer_accept(&r->lexer, ']', &is_end));
        while (!is_end) {
                TRY(read_value(r, b, open));
                TRY(pb_lexer_accept(&r->lexer, ']', &is_end));
                if (is_end)
                        break;
                TRY(pb_lexer_accept(&r->lexer, ',', &has_comma));
                if (!has_comma)
                        return pb_lexer_expected(&r->lexer, "',' or ']' in the list of field '%s'",
                                                 open->field->name);
        }
        return NULL;
}

static struct error *read_field(struct text_reader *r, struct pb_build *b) {
        struct pb_lexer  *l = &r->lexer;
        struct open_field open = { .place = l->token.place };
        struct error     *err;
        bool              has_colon, is_list, has_separator;

        open.field = pb_field_find(b->message->descriptor, l->token.text);
        if (!open.field)
                return unknown_field(r, b->message->descriptor);
        err = pb_build_claim(b, open.field);
        if (err)
                return pb_lexer_locate(l, open.place, err);
        TRY(pb_lexer_next(l));

        TRY(pb_lexer_accept(l, ':', &has_colon));
        if (!has_colon && pb_field_kind(open.field) != PB_MESSAGE)
                return pb_lexer_expected(l, "':' after field '%s'", open.field->name);
        if (pb_lexer_is_sign(l, '[') && !pb_field_is_repeated(open.field))
                return pb_lexer_locate(l, l->token.place,
                                       error_new(ERR_INVALID_ARG,
                                                 "field '%s' is not repeated and takes no list",
                                                 open.field->name));
        TRY(pb_lexer_accept(l, '[', &is_list));
        if (is_list)
                TRY(read_list(r, b, &open));
        else
                TRY(read_value(r, b, &open));

        TRY(pb_lexer_accept(l, ',', &has_separator));
        if (!has_separator)
                TRY(pb_lexer_accept(l, ';', &has_separator));
        return NULL;
}

static struct error *no_field_name(const struct text_reader *r, char close,
                                   const struct open_field *owner) {
        if (close == '\0')
                return pb_lexer_expected(&r->lexer, "a field name");
        return pb_lexer_expected(&r->lexer, "a field name or '%c' to end field '%s' of line %u",
                                 close, owner->field->name, owner->place.line);
}

/* Up to the bracket `close`, which stays the next token; '\0': to the end of the text. `owner` is
 * the field that the message is the value of, NULL for the outermost. */
static struct error *read_fields(struct text_reader *r, struct pb_build *b, char close,
                                 const struct open_field *owner) {
        struct pb_lexer *l = &r->lexer;

        while (l->token.kind == PB_TOKEN_WORD)
                TRY(read_field(r, b));
        if (close == '\0' ? l->token.kind != PB_TOKEN_END : !pb_lexer_is_sign(l, close))
                return no_field_name(r, close, owner);
        return pb_build_finish(b);
}

static struct error *read_text(struct text_reader *r, const ProtobufCMessageDescriptor *type,
                               ProtobufCMessage **ret) {
        struct pb_build b;

        TRY(pb_build_start(&b, type, r->arena));
        TRY(read_fields(r, &b, '\0', NULL));
        *ret = b.message;
        return NULL;
}

struct error *pb_text_read(const ProtobufCMessageDescriptor *type, struct str text,
                           const char *file_for_errors, struct arena *arena,
                           ProtobufCMessage **ret) {
        struct text_reader r = { .arena = arena };
        struct error      *err;

        /* No value is longer than the text that spells it. */
        strbuf_init(&r.scratch, text.len + 1);
        err = pb_lexer_start(&r.lexer, text, file_for_errors);
        if (!err)
                err = read_text(&r, type, ret);
        strbuf_done(&r.scratch);
        return err;
}
