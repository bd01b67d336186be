/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text.h"

#include "codec/pb_text_reader.h"
#include "codec/pb_text_scalar.h"

static struct error *read_fields(struct pb_text_reader *r, struct pb_build *b);

static struct pb_text_frame *top(struct pb_text_reader *r) {
        return &r->frames[r->depth];
}

/* Records the kind of mistake; the caller creates the error. */
static struct error *stop(struct pb_text_reader *r, enum pb_text_stop what, struct error *err) {
        r->stop = what;
        return err;
}

static struct error *unknown_field(struct pb_text_reader            *r,
                                   const ProtobufCMessageDescriptor *type) {
        struct str  name = r->lexer.token.text;
        const char *nearest = pb_field_suggest(type, name);

        return stop(r, PB_STOP_UNKNOWN,
                    pb_lexer_locate(&r->lexer, r->lexer.token.place,
                                    error_new(ERR_INVALID_ARG,
                                              "message '%s' has no field named '%.*s'%s%s%s",
                                              pb_type_name(type), STR_ARG(name),
                                              nearest ? "; did you mean '" : "",
                                              nearest ? nearest : "", nearest ? "'?" : "")));
}

static struct error *read_message(struct pb_text_reader *r, union pb_value *ret) {
        const ProtobufCFieldDescriptor *field = top(r)->field;
        struct pb_place                 place = top(r)->place;
        unsigned                        indent = r->lexer.indent;
        struct pb_build                 b;
        bool                            has_brace, has_angle = false;

        TRY(pb_lexer_accept(&r->lexer, '{', &has_brace));
        if (!has_brace)
                TRY(pb_lexer_accept(&r->lexer, '<', &has_angle));
        if (!has_brace && !has_angle)
                return stop(r, PB_STOP_OPEN,
                            pb_lexer_expected(&r->lexer, "'{' after field '%s'", field->name));
        if (r->depth == PB_TEXT_MAX_DEPTH)
                return stop(r, PB_STOP_DEPTH,
                            pb_lexer_locate(&r->lexer, place,
                                            error_new(ERR_INVALID_ARG,
                                                      "messages are nested deeper than %d",
                                                      PB_TEXT_MAX_DEPTH)));
        TRY(pb_build_start(&b, pb_field_message(field), r->arena));
        r->frames[++r->depth] = (struct pb_text_frame){ .message = b.message,
                                                        .close = has_brace ? '}' : '>',
                                                        .indent = indent };
        TRY(read_fields(r, &b));
        r->closed_depth = r->lexer.token.is_patched ? 0 : r->depth;
        r->depth--;
        r->closed_at = r->lexer.token.from;
        ret->message = b.message;
        return pb_lexer_next(&r->lexer); /* the closing bracket, which read_fields() did not consume */
}

static struct error *read_value(struct pb_text_reader *r, struct pb_build *b) {
        const ProtobufCFieldDescriptor *field = top(r)->field;
        union pb_value                  value = { .u64 = 0 };

        r->value = r->lexer;
        if (pb_field_kind(field) == PB_MESSAGE) {
                TRY(read_message(r, &value));
        } else {
                struct error *err =
                        pb_text_scalar_read(&r->lexer, field, r->arena, &r->scratch, &value);

                if (err)
                        return stop(r, PB_STOP_VALUE, err);
        }
        return pb_build_put(b, field, value);
}

/* After the '['. */
static struct error *read_list(struct pb_text_reader *r, struct pb_build *b) {
        bool is_end, has_comma;

        TRY(pb_lexer_accept(&r->lexer, ']', &is_end));
        while (!is_end) {
                const char *comma;

                TRY(read_value(r, b));
                TRY(pb_lexer_accept(&r->lexer, ']', &is_end));
                if (is_end)
                        break;
                comma = r->lexer.token.from;
                TRY(pb_lexer_accept(&r->lexer, ',', &has_comma));
                if (!has_comma)
                        return stop(r, PB_STOP_COMMA,
                                    pb_lexer_expected(&r->lexer,
                                                      "',' or ']' in the list of field '%s'",
                                                      top(r)->field->name));
                r->comma = comma;
        }
        return NULL;
}

static struct error *read_repeated(struct pb_text_reader *r, struct pb_build *b) {
        top(r)->list = r->lexer.token.from;
        TRY(pb_lexer_next(&r->lexer));
        r->value = r->lexer;
        TRY(read_list(r, b));
        top(r)->list = NULL;
        return NULL;
}

/* Reads the field's name; the field becomes the current one. */
static struct error *begin_field(struct pb_text_reader *r, struct pb_build *b) {
        struct pb_text_frame           *f = top(r);
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field =
                pb_field_find(b->message->descriptor, l->token.text);
        struct error *err;

        r->name = *l;
        if (!field)
                return unknown_field(r, b->message->descriptor);
        err = pb_build_claim(b, field);
        if (err)
                return stop(r, PB_STOP_TWICE, pb_lexer_locate(l, l->token.place, err));
        f->field = field;
        f->place = l->token.place;
        f->name = l->token.from;
        f->is_flat = f->is_flat || (l->token.is_first && f->place.column <= f->indent);
        r->comma = NULL;
        r->closed_depth = 0;
        return pb_lexer_next(l);
}

static struct error *read_field(struct pb_text_reader *r, struct pb_build *b) {
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field;
        bool                            has_colon, has_separator;

        TRY(begin_field(r, b));
        field = top(r)->field;
        TRY(pb_lexer_accept(l, ':', &has_colon));
        if (!has_colon && pb_field_kind(field) != PB_MESSAGE)
                return stop(r, PB_STOP_COLON,
                            pb_lexer_expected(l, "':' after field '%s'", field->name));
        if (!pb_lexer_is_sign(l, '['))
                TRY(read_value(r, b));
        else if (pb_field_is_repeated(field))
                TRY(read_repeated(r, b));
        else
                return stop(r, PB_STOP_NO_LIST,
                            pb_lexer_locate(l, l->token.place,
                                            error_new(ERR_INVALID_ARG,
                                                      "field '%s' is not repeated and takes no "
                                                      "list",
                                                      field->name)));

        TRY(pb_lexer_accept(l, ',', &has_separator));
        return has_separator ? NULL : pb_lexer_accept(l, ';', &has_separator);
}

static struct error *no_field_name(struct pb_text_reader *r) {
        const struct pb_text_frame *owner = top(r) - 1;

        if (r->depth == 0)
                return stop(r, PB_STOP_END, pb_lexer_expected(&r->lexer, "a field name"));
        return stop(r, PB_STOP_END,
                    pb_lexer_expected(&r->lexer,
                                      "a field name or '%c' to end field '%s' of line %u",
                                      top(r)->close, owner->field->name, owner->place.line));
}

/* Reads up to the bracket that ends the message, which stays the next token, or to the end of the
 * text. */
static struct error *read_fields(struct pb_text_reader *r, struct pb_build *b) {
        const struct pb_lexer *l = &r->lexer;

        while (l->token.kind == PB_TOKEN_WORD)
                TRY(read_field(r, b));
        if (r->depth == 0 ? l->token.kind != PB_TOKEN_END : !pb_lexer_is_sign(l, top(r)->close))
                return no_field_name(r);
        return pb_build_finish(b);
}

static struct error *read_text(struct pb_text_reader *r, const ProtobufCMessageDescriptor *type,
                               ProtobufCMessage **ret) {
        struct pb_build b;

        TRY(pb_build_start(&b, type, r->arena));
        r->frames[0] = (struct pb_text_frame){ .message = b.message };
        TRY(read_fields(r, &b));
        *ret = b.message;
        return NULL;
}

struct error *pb_text_reader_run(struct pb_text_reader *r, const ProtobufCMessageDescriptor *type,
                                 struct str text, const char *file_for_errors,
                                 struct pb_patches patches, struct arena *arena,
                                 ProtobufCMessage **ret) {
        struct error *err;

        r->arena = arena;
        r->depth = r->closed_depth = 0;
        r->comma = NULL;
        r->stop = PB_STOP_OTHER;
        r->frames[0] = (struct pb_text_frame){ .message = NULL };
        /* No value is longer than its spelling in the text. */
        strbuf_init(&r->scratch, text.len + 1);
        err = pb_lexer_start_patched(&r->lexer, text, file_for_errors, patches);
        if (!err)
                err = read_text(r, type, ret);
        strbuf_done(&r->scratch);
        return err;
}

struct error *pb_text_read(const ProtobufCMessageDescriptor *type, struct str text,
                           const char *file_for_errors, struct arena *arena,
                           ProtobufCMessage **ret) {
        struct pb_text_reader r;

        return pb_text_reader_run(&r, type, text, file_for_errors, (struct pb_patches){ NULL, 0 },
                                  arena, ret);
}
