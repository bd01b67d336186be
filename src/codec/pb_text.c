/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text.h"

#include "base/strbuf.h"
#include "codec/pb_build.h"
#include "codec/pb_text_lexer.h"
#include "codec/pb_text_review.h"
#include "codec/pb_text_scalar.h"

/* An open message. */
struct frame {
        const ProtobufCMessage *message;
        char                    close;      /* '}' or '>'; '\0' for the outermost */
        unsigned                line;       /* where it was opened */
        unsigned                indent;     /* of that line */
        bool                    is_assumed; /* its opening bracket was missing */
        bool                    is_flat;    /* a field of it is indented no further than `indent` */

        /* The current field, or the last one. */
        const ProtobufCFieldDescriptor *field; /* NULL: none yet */
        struct pb_place                 place; /* of its name */
        unsigned list_line;                    /* of the '[' of its open list; 0: none is open */
        bool     lacks_comma;                  /* a missing comma of that list was reported */
};

struct reader {
        struct pb_lexer        lexer;
        struct arena          *arena;   /* borrowed */
        struct pb_text_review *review;  /* borrowed; NULL: the first mistake ends the reading */
        struct strbuf          scratch; /* for strings, before they are copied to the arena */
        unsigned               depth;   /* open messages, without the outermost */
        struct frame           frames[PB_TEXT_MAX_DEPTH + 1];

        /* Reading with a review only: */
        const char *reported;      /* token of the last mistake, about which no other is reported */
        bool        is_name_wrong; /* the mistake is the field's name, which is the next token */
        bool        has_no_end;    /* the message that just ended lacks its bracket */
        unsigned    n_surplus; /* brackets that may come later, of flat messages without an end */
};

static struct error *read_fields(struct reader *r, struct pb_build *b);

static struct frame *top(struct reader *r) {
        return &r->frames[r->depth];
}

/* ---- places and doubts of a review ------------------------------------------------------------ */

/* Appends the path of the message at `depth`. */
static void put_path(const struct reader *r, unsigned depth, struct strbuf *path) {
        for (unsigned i = 0; i < depth; i++) {
                const struct frame *f = &r->frames[i];

                pb_path_put(path, f->field->name);
                if (pb_field_is_repeated(f->field))
                        strbuf_printf(path, "[%zu]", pb_value_count(f->message, f->field));
        }
}

/* Records the place of the current field's name. */
static void record_name(const struct reader *r, const struct frame *f) {
        AUTO_STRBUF path = { 0 };

        if (r->review == NULL ||
            (pb_field_is_repeated(f->field) && pb_value_count(f->message, f->field) > 0))
                return;
        put_path(r, r->depth, &path);
        pb_path_put(&path, f->field->name);
        if (!path.overflowed)
                pb_text_review_place(r->review, strbuf_str(&path), f->place);
}

/* Records the place of the next value of a repeated field. */
static void record_value(const struct reader *r, const struct frame *f) {
        AUTO_STRBUF path = { 0 };

        if (r->review == NULL || !pb_field_is_repeated(f->field))
                return;
        put_path(r, r->depth + 1, &path);
        if (!path.overflowed)
                pb_text_review_place(r->review, strbuf_str(&path),
                                     f->list_line > 0 ? r->lexer.token.place : f->place);
}

/* Adds a doubt about a field of the innermost message; NULL: of an unknown name. Of a list of messages
 * only the next one is doubtful. */
static void doubt(struct reader *r, const ProtobufCFieldDescriptor *field,
                  enum pb_doubt_kind kind) {
        const ProtobufCMessage *message = top(r)->message;
        AUTO_STRBUF             path = { 0 };

        put_path(r, r->depth, &path);
        if (field != NULL)
                pb_path_put(&path, field->name);
        if (field != NULL && kind == PB_DOUBT_VALUE && pb_field_is_repeated(field) &&
            pb_field_kind(field) == PB_MESSAGE)
                strbuf_printf(&path, "[%zu]", pb_value_count(message, field));
        if (path.overflowed) /* a path that is cut would be another one */
                r->review->doubts.is_full = true;
        else
                pb_doubts_put(&r->review->doubts, strbuf_str(&path), kind);
}

static void doubt_name(struct reader *r) {
        const ProtobufCMessageDescriptor *type = top(r)->message->descriptor;
        struct str                        name = r->lexer.token.text;
        const ProtobufCFieldDescriptor   *field = pb_field_find(type, name); /* given twice */
        const char                       *nearest = pb_field_suggest(type, name);

        if (field != NULL)
                doubt(r, field, PB_DOUBT_VALUE);
        else if (nearest != NULL)
                doubt(r, pb_field_find(type, str_of(nearest)), PB_DOUBT_MISSING);
        else
                doubt(r, NULL, PB_DOUBT_UNNAMED);
}

/* ---- continuing after a mistake --------------------------------------------------------------- */

/* A word with a ':' or a bracket after it. */
static bool begins_field(struct pb_lexer l) {
        if (l.token.kind != PB_TOKEN_WORD)
                return false;
        pb_lexer_skip(&l);
        return pb_lexer_is_sign(&l, ':') || pb_lexer_is_opener(&l);
}

static bool is_known(const struct frame *f, const struct pb_lexer *l) {
        return l->token.kind == PB_TOKEN_WORD &&
               pb_field_find(f->message->descriptor, l->token.text) != NULL;
}

/* True when the next token is a field of an enclosing message and, by its indentation, stands there. */
static bool belongs_outside(const struct reader *r) {
        const struct pb_lexer *l = &r->lexer;

        if (r->depth == 0 || !l->token.is_first || is_known(&r->frames[r->depth], l) ||
            l->token.place.column > r->frames[r->depth].indent)
                return false;
        for (unsigned i = 0; i < r->depth; i++)
                if (is_known(&r->frames[i], l))
                        return true;
        return false;
}

static void report_mistake(struct reader *r, struct error *err) {
        if (r->reported == r->lexer.token.from)
                error_free(err);
        else
                pb_text_review_report(r->review, err);
        r->reported = r->lexer.token.from;
}

/* Reports a mistake after which the reading can continue as if it were not there. */
static struct error *pass_over(struct reader *r, struct error *err) {
        if (r->review == NULL)
                return err;
        report_mistake(r, err);
        r->reported = NULL; /* the token may also be wrong for what it is taken as */
        return NULL;
}

/* Skips a bracket and everything up to the one that closes it. When that one is missing: up to a field
 * of the innermost message which is indented no further than the line of the bracket. */
static void skip_brackets(const struct reader *r, struct pb_lexer *l) {
        unsigned indent = l->indent;
        size_t   depth = 0;

        do {
                if (l->token.kind == PB_TOKEN_END ||
                    (l->token.is_first && l->token.place.column <= indent && begins_field(*l) &&
                     is_known(&r->frames[r->depth], l)))
                        return;
                if (pb_lexer_is_opener(l))
                        depth++;
                else if (pb_lexer_is_closer(l))
                        depth--;
                pb_lexer_skip(l);
        } while (depth > 0);
}

static void skip_value(const struct reader *r, struct pb_lexer *l) {
        bool is_string;

        if (pb_lexer_is_sign(l, '-'))
                pb_lexer_skip(l);
        if (pb_lexer_is_opener(l)) {
                skip_brackets(r, l);
                return;
        }
        do {
                is_string = l->token.kind == PB_TOKEN_STRING;
                if (l->token.is_first || pb_lexer_is_closer(l))
                        return;
                pb_lexer_skip(l);
        } while (is_string && l->token.kind == PB_TOKEN_STRING);
}

/* Skips a field whose name is wrong. */
static void skip_field(const struct reader *r, struct pb_lexer *l) {
        pb_lexer_skip(l);
        if (pb_lexer_is_sign(l, ':'))
                pb_lexer_skip(l);
        skip_value(r, l);
        if (pb_lexer_is_sign(l, ',') || pb_lexer_is_sign(l, ';'))
                pb_lexer_skip(l);
}

/* True for a bracket that ends the open list: its own, or another one on the line where it was opened,
 * unless the message was opened there as well. */
static bool ends_list(const struct frame *f, const struct pb_lexer *l) {
        return pb_lexer_is_sign(l, ']') ||
               (pb_lexer_is_closer(l) && l->token.place.line == f->list_line &&
                f->line != f->list_line);
}

/* Likewise for the open message. After a mistake, another bracket on its line will do. */
static bool ends_message(const struct frame *f, const struct pb_lexer *l, bool was_wrong) {
        if (f->close == '\0')
                return false;
        return pb_lexer_is_sign(l, f->close) ||
               (was_wrong && pb_lexer_is_closer(l) && l->token.place.line == f->line);
}

/* Skips to the next field of the innermost message, or to a bracket that may end it. */
static void skip_rest(struct reader *r) {
        struct pb_lexer *l = &r->lexer;
        struct frame    *f = top(r);

        while (l->token.kind != PB_TOKEN_END) {
                if (l->token.kind == PB_TOKEN_WORD &&
                    (l->token.is_first || (is_known(f, l) && begins_field(*l))))
                        return;
                if (pb_lexer_is_opener(l)) {
                        skip_brackets(r, l);
                } else if (f->list_line > 0 && ends_list(f, l)) {
                        pb_lexer_skip(l);
                        return;
                } else if (pb_lexer_is_closer(l) && r->depth > 0) {
                        return;
                } else {
                        pb_lexer_skip(l);
                }
        }
}

/* Reports the mistake and continues after it. Returns `err` when the reading must end. */
static struct error *recover(struct reader *r, struct error *err) {
        struct pb_lexer *l = &r->lexer;
        struct frame    *f = top(r);

        if (r->review == NULL || err->code != ERR_INVALID_ARG)
                return err;
        if (r->is_name_wrong)
                doubt_name(r);
        else if (f->field != NULL)
                doubt(r, f->field, PB_DOUBT_VALUE);
        if (l->is_broken)
                doubt(r, NULL, PB_DOUBT_UNNAMED); /* the string may contain fields of the line */
        report_mistake(r, err);
        if (l->is_broken)
                pb_lexer_skip(l);
        else if (r->is_name_wrong)
                skip_field(r, l);
        else if (!pb_lexer_is_closer(l) && !pb_lexer_is_opener(l) &&
                 !(l->token.is_first && begins_field(*l)))
                pb_lexer_skip(l);
        r->is_name_wrong = false;
        if (!(begins_field(*l) && f->list_line == 0))
                skip_rest(r);
        f->list_line = 0;
        if (l->token.kind == PB_TOKEN_WORD)
                r->reported = NULL; /* as a field it may have a mistake of its own */
        return NULL;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static struct error *wrong_name(struct reader *r, struct error *err) {
        r->is_name_wrong = true;
        return pb_lexer_locate(&r->lexer, r->lexer.token.place, err);
}

static struct error *unknown_field(const struct reader *r) {
        const ProtobufCMessageDescriptor *type = r->frames[r->depth].message->descriptor;
        struct str                        name = r->lexer.token.text;

        return error_suggest(error_new(ERR_INVALID_ARG, "message '%s' has no field named '%.*s'",
                                       pb_type_name(type), STR_ARG(name)),
                             "", pb_field_suggest(type, name));
}

static struct error *missing_bracket(const struct reader *r) {
        const struct frame *f = &r->frames[r->depth], *owner = f - 1;

        return pb_lexer_locate(&r->lexer, r->lexer.token.place,
                               error_new(ERR_INVALID_ARG,
                                         "message '%s' has no field named '%.*s'; a '%c' to end "
                                         "field '%s' of line %u may be missing",
                                         pb_type_name(f->message->descriptor),
                                         STR_ARG(r->lexer.token.text), f->close, owner->field->name,
                                         owner->place.line));
}

/* Reads the opening bracket. Without one, a field that the message has may follow all the same. */
static struct error *read_opener(struct reader *r, struct frame *ret) {
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field = top(r)->field;
        struct error                   *err;

        *ret = (struct frame){ .close = pb_lexer_is_sign(l, '<') ? '>' : '}',
                               .line = l->token.place.line,
                               .indent = l->indent };
        if (pb_lexer_is_sign(l, '{') || pb_lexer_is_sign(l, '<'))
                return pb_lexer_next(l);
        err = pb_lexer_expected(l, "'{' after field '%s'", field->name);
        if (!begins_field(*l) || pb_field_find(pb_field_message(field), l->token.text) == NULL)
                return err;
        ret->is_assumed = true;
        ret->line = top(r)->place.line;
        ret->indent = top(r)->place.column;
        return pass_over(r, err);
}

static struct error *open_message(struct reader *r, struct pb_build *b) {
        struct frame opened;

        if (r->depth == PB_TEXT_MAX_DEPTH)
                return pb_lexer_locate(&r->lexer, top(r)->place,
                                       error_new(ERR_INVALID_ARG,
                                                 "messages are nested deeper than %d",
                                                 PB_TEXT_MAX_DEPTH));
        TRY(read_opener(r, &opened));
        TRY(pb_build_start(b, pb_field_message(top(r)->field), r->arena));
        opened.message = b->message;
        r->frames[++r->depth] = opened;
        return NULL;
}

static struct error *read_message(struct reader *r, union pb_value *ret) {
        struct pb_build b;

        TRY(open_message(r, &b));
        TRY(read_fields(r, &b));
        r->depth--;
        ret->message = b.message;
        return r->has_no_end ? NULL : pb_lexer_next(&r->lexer); /* the bracket */
}

static struct error *read_value(struct reader *r, struct pb_build *b) {
        const ProtobufCFieldDescriptor *field = top(r)->field;
        union pb_value                  value = { .u64 = 0 };

        record_value(r, top(r));
        r->has_no_end = false;
        if (pb_field_kind(field) == PB_MESSAGE)
                TRY(read_message(r, &value));
        else
                TRY(pb_text_scalar_read(&r->lexer, field, r->arena, &r->scratch, &value));
        return pb_build_put(b, field, value);
}

/* Moves to the ',' or the end of the list after a wrong value. A message is replaced by an empty one, so
 * that the others keep their indices. */
static struct error *skip_element(struct reader *r, struct pb_build *b, struct error *err) {
        struct pb_lexer *l = &r->lexer;
        struct frame    *f = top(r);
        union pb_value   empty = { .u64 = 0 };

        if (r->review == NULL || err->code != ERR_INVALID_ARG || l->is_broken ||
            l->token.kind == PB_TOKEN_END || pb_lexer_is_closer(l) || begins_field(*l))
                return err;
        doubt(r, f->field, PB_DOUBT_VALUE);
        report_mistake(r, err);
        do
                skip_value(r, l);
        while (!pb_lexer_is_sign(l, ',') && !l->token.is_first && !pb_lexer_is_closer(l) &&
               l->token.kind != PB_TOKEN_END);
        if (pb_field_kind(f->field) != PB_MESSAGE)
                return NULL;
        TRY(pb_message_new(pb_field_message(f->field), r->arena, &empty.message));
        return pb_build_put(b, f->field, empty);
}

static struct error *read_element(struct reader *r, struct pb_build *b) {
        struct error *err = read_value(r, b);

        return err != NULL ? skip_element(r, b, err) : NULL;
}

/* Reads the ',' after an element. Without one the next element may follow all the same. */
static struct error *read_comma(struct reader *r) {
        struct pb_lexer *l = &r->lexer;
        struct frame    *f = top(r);
        struct error    *err;
        bool             has_comma;

        TRY(pb_lexer_accept(l, ',', &has_comma));
        if (has_comma)
                return NULL;
        err = pb_lexer_expected(l, "',' or ']' in the list of field '%s'", f->field->name);
        if (r->review == NULL || l->token.is_first || l->token.kind == PB_TOKEN_SIGN)
                return err;
        if (f->lacks_comma)
                error_free(err);
        else
                report_mistake(r, err);
        f->lacks_comma = true;
        return NULL;
}

static struct error *read_list(struct reader *r, struct pb_build *b) {
        struct pb_lexer *l = &r->lexer;
        bool             is_end;

        top(r)->list_line = l->token.place.line;
        top(r)->lacks_comma = false;
        TRY(pb_lexer_next(l)); /* the '[' */
        TRY(pb_lexer_accept(l, ']', &is_end));
        while (!is_end) {
                TRY(read_element(r, b));
                TRY(pb_lexer_accept(l, ']', &is_end));
                if (!is_end && r->has_no_end && !pb_lexer_is_sign(l, ','))
                        break; /* the list ends with its message */
                if (!is_end)
                        TRY(read_comma(r));
        }
        top(r)->list_line = 0;
        return NULL;
}

/* Reads the field's name; the field becomes the current one. */
static struct error *begin_field(struct reader *r, struct pb_build *b) {
        struct frame                   *f = top(r);
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field =
                pb_field_find(b->message->descriptor, l->token.text);
        struct error *err;

        if (field == NULL)
                return wrong_name(r, unknown_field(r));
        err = pb_build_claim(b, field);
        if (err != NULL)
                return wrong_name(r, err);
        f->field = field;
        f->place = l->token.place;
        f->is_flat = f->is_flat || (l->token.is_first && f->place.column <= f->indent);
        record_name(r, f);
        return pb_lexer_next(l);
}

static struct error *read_colon(struct reader *r) {
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field = top(r)->field;
        struct error                   *err;
        bool                            has_colon, has_sign;

        TRY(pb_lexer_accept(l, ':', &has_colon));
        if (has_colon || pb_field_kind(field) == PB_MESSAGE)
                return NULL;
        err = pb_lexer_expected(l, "':' after field '%s'", field->name);
        if (l->token.is_first || pb_lexer_is_opener(l) || pb_lexer_is_closer(l))
                return err;
        TRY(pass_over(r, err));
        return pb_lexer_accept(l, '=', &has_sign);
}

static struct error *read_field(struct reader *r, struct pb_build *b) {
        struct pb_lexer                *l = &r->lexer;
        const ProtobufCFieldDescriptor *field;
        bool                            has_separator;

        TRY(begin_field(r, b));
        field = top(r)->field;
        TRY(read_colon(r));
        if (!pb_lexer_is_sign(l, '['))
                TRY(read_value(r, b));
        else if (pb_field_is_repeated(field))
                TRY(read_list(r, b));
        else
                return pb_lexer_locate(l, l->token.place,
                                       error_new(ERR_INVALID_ARG,
                                                 "field '%s' is not repeated and takes no list",
                                                 field->name));

        TRY(pb_lexer_accept(l, ',', &has_separator));
        return has_separator ? NULL : pb_lexer_accept(l, ';', &has_separator);
}

static struct error *no_field_name(struct reader *r) {
        const struct frame *owner = top(r) - 1;

        if (r->depth == 0)
                return pb_lexer_expected(&r->lexer, "a field name");
        return pb_lexer_expected(&r->lexer, "a field name or '%c' to end field '%s' of line %u",
                                 top(r)->close, owner->field->name, owner->place.line);
}

/* Decides whether the innermost message ends at the next token though its own bracket is missing, which
 * is reported if it is the first sign of a mistake. */
static bool ends_without_bracket(struct reader *r, bool was_wrong) {
        const struct pb_lexer *l = &r->lexer;
        const struct frame    *f = top(r);
        bool                   is_excused = f->is_assumed || f->line == l->broken_line;

        if (belongs_outside(r)) {
                doubt(r, NULL, PB_DOUBT_UNNAMED);
                if (!is_excused)
                        report_mistake(r, missing_bracket(r));
                r->reported = NULL;
                r->n_surplus += f->is_flat;
                return true;
        }
        return r->depth > 0 && (was_wrong || is_excused) &&
               (l->token.kind == PB_TOKEN_END || pb_lexer_is_closer(l));
}

/* Skips a bracket that is left over because a message was taken to end earlier. */
static bool skip_surplus_bracket(struct reader *r) {
        if (r->depth > 0 || r->n_surplus == 0 || !pb_lexer_is_closer(&r->lexer))
                return false;
        r->n_surplus--;
        pb_lexer_skip(&r->lexer);
        return true;
}

/* Reads up to the bracket that ends the message, which stays the next token, or to the end of the
 * text. */
static struct error *read_fields(struct reader *r, struct pb_build *b) {
        const struct pb_lexer *l = &r->lexer;
        bool                   was_wrong = false;

        while (l->token.kind != PB_TOKEN_END || r->depth > 0) {
                struct error *err;

                r->has_no_end = false;
                if (ends_message(top(r), l, was_wrong))
                        break;
                r->has_no_end = r->review != NULL && ends_without_bracket(r, was_wrong);
                if (r->has_no_end)
                        break;
                if (r->review != NULL && skip_surplus_bracket(r))
                        continue;
                err = l->token.kind == PB_TOKEN_WORD ? read_field(r, b) : no_field_name(r);
                if (err == NULL)
                        continue;
                TRY(recover(r, err));
                was_wrong = true;
        }
        return pb_build_finish(b);
}

static struct error *read_text(struct reader *r, const ProtobufCMessageDescriptor *type,
                               ProtobufCMessage **ret) {
        struct pb_build b;

        TRY(pb_build_start(&b, type, r->arena));
        r->frames[0] = (struct frame){ .message = b.message };
        TRY(read_fields(r, &b));
        *ret = b.message;
        return NULL;
}

static struct error *review_message(struct pb_text_review            *rv,
                                    const ProtobufCMessageDescriptor *type, struct str text,
                                    const char *file_for_errors, struct arena *arena,
                                    ProtobufCMessage **ret) {
        struct reader r = { .arena = arena, .review = rv };
        struct error *err;

        /* No value is longer than its spelling in the text. */
        strbuf_init(&r.scratch, text.len + 1);
        err = pb_lexer_start(&r.lexer, text, file_for_errors);
        if (err != NULL && rv != NULL) {
                report_mistake(&r, err);
                pb_lexer_skip(&r.lexer);
                err = NULL;
        }
        if (err == NULL)
                err = read_text(&r, type, ret);
        strbuf_done(&r.scratch);
        return err;
}

struct error *pb_text_read(const ProtobufCMessageDescriptor *type, struct str text,
                           const char *file_for_errors, struct arena *arena,
                           ProtobufCMessage **ret) {
        return review_message(NULL, type, text, file_for_errors, arena, ret);
}

struct error *pb_text_read_all(struct pb_text_review *rv, const ProtobufCMessageDescriptor *type,
                               struct str text, const char *file_for_errors, struct arena *arena,
                               ProtobufCMessage **ret) {
        TRY(review_message(rv, type, text, file_for_errors, arena, ret));
        pb_doubts_spread(&rv->doubts, *ret);
        rv->is_cut = rv->is_cut || rv->doubts.is_full;
        return NULL;
}
