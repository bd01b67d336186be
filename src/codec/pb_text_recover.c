/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_text_recover.h"

#include "codec/pb_text_reader.h"
#include "codec/pb_text_skip.h"

#include <string.h>

#define ARENA_MAX_BYTES ((size_t)16 << 20)

/* One mistake that is being corrected. */
struct mistake {
        struct pb_recovery          *rec;
        const struct pb_text_reader *r;
        const struct pb_text_frame  *top; /* the innermost message */
        struct pb_balance            balance;
        struct error                *err; /* owned: the error to report */
        bool                         is_quiet;
        bool                         is_corrected;
};

void pb_recovery_init(struct pb_recovery *rec, void (*on_error)(void *owner, struct error *err),
                      void               *owner) {
        *rec = (struct pb_recovery){ .on_error = on_error, .owner = owner };
        arena_init(&rec->arena, NULL, 0, ARENA_MAX_BYTES);
        pb_doubts_init(&rec->doubts, &rec->arena);
}

void pb_recovery_done(struct pb_recovery *rec) {
        arena_done(&rec->arena);
}

struct pb_patches pb_recovery_patches(const struct pb_recovery *rec) {
        return (struct pb_patches){ rec->patches, rec->n_patches };
}

/* ---- patches --------------------------------------------------------------------------------- */

/* Drops the patches within the range, which have no effect any more. */
static void drop_within(struct pb_recovery *rec, const char *from, const char *to) {
        size_t n = 0;

        for (size_t i = 0; i < rec->n_patches; i++) {
                const struct pb_patch *p = &rec->patches[i];

                if (p->from < from || p->from >= to || (p->from == from && p->to == from))
                        rec->patches[n++] = *p;
        }
        rec->n_patches = n;
}

static void put_patch(struct mistake *m, const char *from, const char *to, const char *text) {
        struct pb_recovery *rec = m->rec;
        size_t              at;

        drop_within(rec, from, to);
        if (rec->patches == NULL)
                rec->patches = arena_try_alloc(&rec->arena,
                                               PB_RECOVERY_MAX_PATCHES * sizeof(*rec->patches));
        if (rec->patches == NULL || text == NULL || rec->n_patches == PB_RECOVERY_MAX_PATCHES)
                return;
        at = rec->n_patches++;
        for (; at > 0 && rec->patches[at - 1].from > from; at--)
                rec->patches[at] = rec->patches[at - 1];
        rec->patches[at] = (struct pb_patch){ from, to, text };
        m->is_corrected = true;
}

static void insert(struct mistake *m, const char *at, const char *text) {
        put_patch(m, at, at, text);
}

/* Replaces the text from one token up to another. */
static void replace(struct mistake *m, const struct pb_lexer *from, const struct pb_lexer *to,
                    const char *text) {
        put_patch(m, from->token.from, to->token.from, text);
}

static void replace_token(struct mistake *m, const char *text) {
        struct pb_lexer l = m->r->lexer;

        pb_skip_token(&l);
        replace(m, &m->r->lexer, &l, text);
}

static void replace_sign(struct mistake *m, const char *sign, const char *text) {
        put_patch(m, sign, sign + 1, text);
}

/* ---- doubts ---------------------------------------------------------------------------------- */

static void put_path(const struct pb_text_reader *r, unsigned depth, struct strbuf *path) {
        for (unsigned i = 0; i < depth; i++) {
                const struct pb_text_frame *f = &r->frames[i];

                pb_path_put(path, f->field->name);
                if (pb_field_is_repeated(f->field))
                        strbuf_printf(path, "[%zu]", pb_value_count(f->message, f->field));
        }
}

/* Adds a doubt about a field of the message at `depth`; NULL: of an unknown name. */
static void doubt(struct mistake *m, unsigned depth, const ProtobufCFieldDescriptor *field,
                  enum pb_doubt_kind kind) {
        AUTO_STRBUF path = { 0 };

        strbuf_init(&path, 0);
        put_path(m->r, depth, &path);
        if (field != NULL)
                pb_path_put(&path, field->name);
        /* In a list of messages, only the next element is in doubt. */
        if (field != NULL && kind == PB_DOUBT_VALUE && pb_field_kind(field) == PB_MESSAGE &&
            pb_field_is_repeated(field) && field == m->r->frames[depth].field)
                strbuf_printf(&path, "[%zu]", pb_value_count(m->r->frames[depth].message, field));
        if (path.overflowed) /* a path that is cut would be another one */
                m->rec->doubts.is_full = true;
        else
                pb_doubts_put(&m->rec->doubts, strbuf_str(&path), kind);
}

static void doubt_value(struct mistake *m) {
        if (m->top->field != NULL)
                doubt(m, m->r->depth, m->top->field, PB_DOUBT_VALUE);
}

/* Adds a doubt about the field that a misspelled name was meant for. */
static void doubt_unknown(struct mistake *m, struct str name) {
        const ProtobufCMessageDescriptor *type = m->top->message->descriptor;
        const char                       *nearest = pb_field_suggest(type, name);

        if (nearest != NULL)
                doubt(m, m->r->depth, pb_field_find(type, str_of(nearest)), PB_DOUBT_MISSING);
        else
                doubt(m, m->r->depth, NULL, PB_DOUBT_UNNAMED);
        for (unsigned i = 0; i < m->r->depth; i++) {
                const ProtobufCFieldDescriptor *field =
                        pb_field_find(m->r->frames[i].message->descriptor, name);

                if (field != NULL)
                        doubt(m, i, field, PB_DOUBT_MISSING);
        }
}

/* ---- brackets -------------------------------------------------------------------------------- */

/* Closing brackets of all messages and lists above the message at `depth`; with `and_list` also of
 * its list. */
static const char *closers(struct mistake *m, unsigned depth, bool and_list) {
        AUTO_STRBUF text = { 0 };

        strbuf_init(&text, 0);
        for (unsigned i = m->r->depth;; i--) {
                const struct pb_text_frame *f = &m->r->frames[i];

                if (f->list != NULL && (i > depth || and_list))
                        strbuf_putc(&text, ']');
                if (i == depth)
                        break;
                strbuf_putc(&text, f->close);
        }
        return text.overflowed ? NULL : arena_try_str(&m->rec->arena, strbuf_str(&text));
}

static bool is_known(const struct pb_text_frame *f, struct str name) {
        return pb_field_find(f->message->descriptor, name) != NULL;
}

static bool is_missing(const struct mistake *m, char close) {
        return pb_balance_of(&m->balance, close) > 0;
}

/* Finds the enclosing message that has the field at the token, when brackets of the inner ones are
 * missing. */
static bool find_outer(const struct mistake *m, unsigned *ret) {
        const struct pb_token *t = &m->r->lexer.token;
        bool is_guess = !t->is_first || m->top->is_flat; /* indentation is no evidence */
        bool is_short = is_missing(m, m->top->close);

        if ((is_guess && !is_short) || (m->r->stop == PB_STOP_TWICE && !is_short))
                return false;
        for (unsigned i = m->r->depth; i-- > 0;) {
                if (!is_guess && t->place.column > m->r->frames[i + 1].indent)
                        return false;
                if (is_known(&m->r->frames[i], t->text)) {
                        *ret = i;
                        return true;
                }
        }
        return false;
}

/* Error about an unknown field without the suggested name, which would be misleading. */
static struct error *without_suggestion(const struct mistake *m) {
        const struct pb_token *t = &m->r->lexer.token;

        return pb_lexer_locate(&m->r->lexer, t->place,
                               error_new(ERR_INVALID_ARG, "message '%s' has no field named '%.*s'",
                                         pb_type_name(m->top->message->descriptor),
                                         STR_ARG(t->text)));
}

static void close_inner(struct mistake *m, unsigned depth) {
        const struct pb_text_frame *owner = m->top - 1;
        struct error               *longer;

        if (m->r->stop == PB_STOP_UNKNOWN) {
                error_free(m->err);
                m->err = without_suggestion(m);
        }
        longer =
                error_new(ERR_INVALID_ARG, "%s; a '%c' to end field '%s' of line %u may be missing",
                          m->err->message, m->top->close, owner->field->name, owner->place.line);
        error_free(m->err);
        m->err = longer;
        insert(m, m->r->lexer.token.from, closers(m, depth, true));
}

/* Reopens the message that just ended, if it has the field: its bracket is superfluous. */
static bool reopen(struct mistake *m) {
        const struct pb_text_reader *r = m->r;
        const struct pb_text_frame  *closed = &r->frames[r->depth + 1];
        const struct pb_token       *t = &r->lexer.token;

        if (r->closed_depth != r->depth + 1 || !is_known(closed, t->text) || !t->is_first ||
            t->place.column <= closed->indent || pb_balance_of(&m->balance, closed->close) >= 0)
                return false;
        replace_sign(m, r->closed_at, "");
        return true;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static const char *default_value(const ProtobufCFieldDescriptor *field) {
        switch (pb_field_kind(field)) {
        case PB_MESSAGE: return "{}";
        case PB_STRING:
        case PB_BYTES: return "\"\"";
        case PB_BOOL: return "false";
        case PB_ENUM: return ((const ProtobufCEnumDescriptor *)field->descriptor)->values[0].name;
        default: return "0";
        }
}

static bool may_be_open(const struct mistake *m) {
        return m->balance.curly > 0 || m->balance.square > 0 || m->balance.angle > 0;
}

static void skip_junk(const struct mistake *m, struct pb_lexer *l, unsigned line, bool is_list) {
        pb_skip_junk(l, line, is_list, may_be_open(m));
}

/* Removes the field at the token and its value. */
static void take_out_field(struct mistake *m) {
        struct pb_lexer l = m->r->name;
        unsigned        line = l.token.place.line;
        bool            has_value;

        pb_skip_token(&l);
        has_value = pb_lexer_is_sign(&l, ':') || pb_is_opener(&l);
        if (pb_lexer_is_sign(&l, ':'))
                pb_skip_token(&l);
        if (has_value && !(l.token.is_first && pb_begins_field(l))) {
                pb_skip_value(&l, may_be_open(m));
                if (pb_lexer_is_sign(&l, ',') || pb_lexer_is_sign(&l, ';'))
                        pb_skip_token(&l);
        } else {
                skip_junk(m, &l, line, false);
        }
        replace(m, &m->r->name, &l, "");
}

static void on_unknown(struct mistake *m) {
        unsigned outer;

        if (find_outer(m, &outer)) {
                close_inner(m, outer);
                return;
        }
        if (reopen(m))
                return;
        doubt_unknown(m, m->r->lexer.token.text);
        take_out_field(m);
}

static void on_twice(struct mistake *m) {
        const ProtobufCMessageDescriptor *type = m->top->message->descriptor;
        const ProtobufCFieldDescriptor   *field = pb_field_find(type, m->r->lexer.token.text);
        unsigned                          outer;

        if (find_outer(m, &outer)) {
                close_inner(m, outer);
                return;
        }
        doubt(m, m->r->depth, field, PB_DOUBT_VALUE);
        for (unsigned i = 0; i < type->n_fields && pb_field_is_oneof(field); i++)
                if (pb_field_is_oneof(&type->fields[i]) && &type->fields[i] != field &&
                    type->fields[i].quantifier_offset == field->quantifier_offset)
                        doubt(m, m->r->depth, &type->fields[i], PB_DOUBT_VALUE);
        take_out_field(m);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Replaces the text from `value` on by a default. */
static void replace_value(struct mistake *m, const struct pb_lexer *value, const char *text) {
        struct pb_lexer l = *value;
        bool            is_list = m->top->list != NULL;
        unsigned        line;

        doubt_value(m);
        if (!(l.token.is_first && pb_begins_field(l))) {
                pb_skip_value(&l, may_be_open(m));
                line = value->token.place.line;
                skip_junk(m, &l, line, is_list);
        }
        replace(m, value, &l, text);
}

static void on_colon(struct mistake *m) {
        const struct pb_lexer          *l = &m->r->lexer;
        const ProtobufCFieldDescriptor *field = m->top->field;
        bool                            is_near = l->token.place.line == m->top->place.line;

        if (pb_lexer_is_sign(l, '=')) {
                replace_token(m, ":");
        } else if (is_near && (l->token.kind == PB_TOKEN_NUMBER ||
                               l->token.kind == PB_TOKEN_STRING || pb_lexer_is_sign(l, '-') ||
                               (pb_lexer_is_sign(l, '[') && pb_field_is_repeated(field)) ||
                               (l->token.kind == PB_TOKEN_WORD && !pb_begins_field(*l)))) {
                insert(m, l->token.from, ":");
        } else {
                const char *value = arena_printf(&m->rec->arena, ":%s", default_value(field));

                if (is_near && !pb_begins_field(*l)) {
                        replace_value(m, l, value);
                } else {
                        doubt_value(m);
                        insert(m, l->token.from, value);
                }
        }
}

/* Handles `[ { }, ]`, and `[ 1, 2,` at the end of a line. */
static bool end_list(struct mistake *m) {
        const struct pb_lexer *l = &m->r->value;
        bool                   is_end = pb_lexer_is_sign(l, ']');

        if (m->top->list == NULL ||
            (!is_end && l->token.kind != PB_TOKEN_END && !pb_begins_field(*l)))
                return false;
        if (m->r->comma != NULL)
                replace_sign(m, m->r->comma, is_end ? "" : "]");
        else if (!is_end)
                insert(m, l->token.from, "]");
        return m->is_corrected;
}

static void on_value(struct mistake *m) {
        if (!end_list(m))
                replace_value(m, &m->r->value, default_value(m->top->field));
}

/* Handles a message without its '{'. */
static bool open_message(struct mistake *m) {
        const struct pb_lexer          *at = &m->r->lexer;
        const ProtobufCFieldDescriptor *inner =
                pb_begins_field(*at)
                        ? pb_field_find(pb_field_message(m->top->field), at->token.text)
                        : NULL;
        struct pb_lexer l = *at;

        if (inner == NULL)
                return false;
        if (m->balance.curly < 0) {
                insert(m, at->token.from, "{");
                return true;
        }
        if (m->top->list == NULL)
                return false;
        while (l.token.kind != PB_TOKEN_END && !pb_is_closer(&l))
                if (pb_is_opener(&l))
                        pb_skip_brackets(&l, may_be_open(m));
                else
                        pb_skip_token(&l);
        if (!pb_lexer_is_sign(&l, ']'))
                return false;
        insert(m, at->token.from, "{");
        insert(m, l.token.from, "}");
        return true;
}

static void on_open(struct mistake *m) {
        if (open_message(m) || end_list(m))
                return;
        replace_value(m, &m->r->value, "{}");
}

static void on_no_list(struct mistake *m) {
        replace_value(m, &m->r->lexer, default_value(m->top->field));
}

static void on_depth(struct mistake *m) {
        doubt_value(m);
        take_out_field(m);
}

/* ---- lists and ends -------------------------------------------------------------------------- */

static void on_comma(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;
        struct pb_lexer        next = *l;

        pb_skip_token(&next);
        if (l->token.kind == PB_TOKEN_END) {
                insert(m, l->token.from, closers(m, 0, true));
        } else if (pb_is_closer(l)) {
                if (m->top->close != *l->token.text.ptr ||
                    pb_balance_of(&m->balance, m->top->close) < 0)
                        replace_token(m, "]");
                else
                        insert(m, l->token.from, "]");
        } else if (pb_begins_field(*l)) {
                if (!reopen(m))
                        insert(m, l->token.from, "]");
        } else if (l->token.kind != PB_TOKEN_SIGN || pb_is_opener(l) || pb_lexer_is_sign(l, '-')) {
                /* One error for `[ 1 2 3 ]`. */
                m->is_quiet = m->is_quiet || m->rec->quiet_list == m->top->list;
                m->rec->quiet_list = m->top->list;
                insert(m, l->token.from, ",");
        } else if (next.token.kind == PB_TOKEN_END || pb_is_closer(&next) ||
                   pb_lexer_is_sign(&next, ',')) {
                replace_token(m, "");
        } else {
                replace_token(m, ",");
        }
}

/* Handles a bracket that does not end the message. */
static void on_closer(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;
        char                   found = *l->token.text.ptr;
        char                   own[2] = { m->top->close, '\0' };
        unsigned               outer = m->r->depth;
        struct pb_lexer        next = *l;
        bool                   is_typo;

        if (m->r->depth == 0) {
                replace_token(m, "");
                return;
        }
        /* `[ { ] ]` */
        pb_skip_token(&next);
        is_typo = found == ']' && (m->top - 1)->list != NULL && pb_lexer_is_sign(&next, ']') &&
                  m->balance.square <= 0;
        while (outer-- > 0)
                if (found == ']' ? m->r->frames[outer].list != NULL
                                 : m->r->frames[outer].close == found)
                        break;
        if (outer != (unsigned)-1 && pb_balance_of(&m->balance, found) >= 0 && !is_typo)
                insert(m, l->token.from, closers(m, outer, false));
        else if (is_missing(m, m->top->close) || is_typo)
                replace_token(m, arena_try_str(&m->rec->arena, str_of(own)));
        else
                replace_token(m, "");
}

/* Removes text that is not a field name: `1, 2` after a value, `// text`, `"name": "m"`. */
static void take_out_junk(struct mistake *m) {
        const struct pb_lexer *at = &m->r->lexer;
        struct pb_lexer        l = *at;
        unsigned               line = l.token.place.line;

        if (pb_lexer_is_sign(&l, '/')) {
                /* A comment in another language's syntax. */
                while (l.token.kind != PB_TOKEN_END && l.token.place.line == line)
                        pb_skip_token(&l);
                replace(m, at, &l, "");
                return;
        }
        doubt_value(m);
        if (l.token.kind == PB_TOKEN_STRING) {
                struct pb_lexer next = l;

                pb_skip_token(&next);
                if (pb_lexer_is_sign(&next, ':')) {
                        doubt(m, m->r->depth, NULL, PB_DOUBT_UNNAMED);
                        pb_skip_token(&next);
                        pb_skip_value(&next, may_be_open(m));
                        l = next;
                }
        }
        do {
                skip_junk(m, &l, line, false);
                line = l.token.place.line;
        } while (l.token.kind == PB_TOKEN_NUMBER ||
                 (l.token.kind == PB_TOKEN_SIGN && !pb_is_closer(&l)));
        replace(m, at, &l, "");
}

static void on_end(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;

        if (l->token.kind == PB_TOKEN_END)
                insert(m, l->token.from, closers(m, 0, true));
        else if (pb_is_closer(l))
                on_closer(m);
        else if (pb_is_opener(l) && m->r->depth > 0 && (m->top - 1)->list != NULL &&
                 is_missing(m, m->top->close))
                insert(m, l->token.from, m->top->close == '}' ? "}," : ">,");
        else
                take_out_junk(m);
}

/* Ends the string at the end of its line, before any brackets there, which keep their meaning. */
static void on_broken_string(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;
        const char            *from = l->token.from, *end;

        end = memchr(from, '\n', (size_t)(l->end - from));
        if (end == NULL)
                end = l->end;
        while (end > from + 1 && strchr(" \t\r,;]}>", end[-1]) != NULL && end[-1] != '\0')
                end--;
        if (m->top->message != NULL) {
                doubt_value(m);
                /* The string may contain fields of the line. */
                if (memchr(from, ':', (size_t)(end - from)) != NULL)
                        doubt(m, m->r->depth, NULL, PB_DOUBT_UNNAMED);
        }
        m->is_quiet = false;
        m->rec->quiet_string = from;
        put_patch(m, from, end, "\"\"");
}

/* Changes the empty string that replaced an unterminated one, where it is not a valid value. */
static void change_string(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;
        struct pb_patch       *patch;
        bool                   is_value = m->r->stop == PB_STOP_VALUE || m->r->stop == PB_STOP_OPEN;

        if (l->token.kind != PB_TOKEN_STRING)
                return;
        patch = &m->rec->patches[l->patch - m->rec->patches];
        patch->text = is_value ? default_value(m->top->field) : "";
        m->is_quiet = m->is_corrected = true;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool is_on_line_of(const char *a, const char *b) {
        if (a == NULL || b == NULL)
                return false;
        return memchr(a < b ? a : b, '\n', (size_t)(a < b ? b - a : a - b)) == NULL;
}

static void correct(struct mistake *m) {
        const struct pb_lexer *l = &m->r->lexer;

        /* A patch is wrong itself: missing errors are better than false ones. */
        if (l->token.is_patched) {
                change_string(m);
                return;
        }
        if (l->is_broken) {
                on_broken_string(m);
                return;
        }
        m->is_quiet =
                is_on_line_of(m->rec->quiet_string, l->token.from) || pb_has_broken_string(*l);
        switch (m->r->stop) {
        case PB_STOP_UNKNOWN: on_unknown(m); break;
        case PB_STOP_TWICE: on_twice(m); break;
        case PB_STOP_COLON: on_colon(m); break;
        case PB_STOP_NO_LIST: on_no_list(m); break;
        case PB_STOP_OPEN: on_open(m); break;
        case PB_STOP_DEPTH: on_depth(m); break;
        case PB_STOP_VALUE: on_value(m); break;
        case PB_STOP_COMMA: on_comma(m); break;
        case PB_STOP_END: on_end(m); break;
        case PB_STOP_OTHER: break;
        }
}

/* Indentation shows where the outermost field ends: brackets elsewhere do not affect its own. */
static struct pb_region region_of(const struct pb_text_reader *r) {
        struct pb_region region = { r->frames[0].name, r->lexer.token.from,
                                    r->frames[0].place.column };
        unsigned         depth = MAX(r->depth, r->closed_depth);

        for (unsigned i = 1; i <= depth; i++)
                if (r->frames[i].is_flat)
                        return (struct pb_region){ NULL, NULL, 0 };
        return region;
}

/* Corrects the mistake of `err`, which it takes; false when the text cannot be read further. */
static bool recover(struct pb_recovery *rec, const struct pb_text_reader *r, struct str text,
                    struct error *err) {
        struct pb_region region = region_of(r);
        struct mistake   m = { .rec = rec, .r = r, .top = &r->frames[r->depth], .err = err };

        m.balance = pb_balance_count(text, pb_recovery_patches(rec), &region);
        correct(&m);
        if (m.is_quiet) {
                error_free(m.err);
        } else {
                rec->n_errors++;
                rec->on_error(rec->owner, m.err);
        }
        return m.is_corrected && rec->n_errors < PB_RECOVERY_MAX_ERRORS;
}

struct error *pb_text_read_all(struct pb_recovery *rec, const ProtobufCMessageDescriptor *type,
                               struct str text, const char *file_for_errors, struct arena *arena,
                               ProtobufCMessage **ret) {
        size_t n_read = 0;

        *ret = NULL;
        for (size_t attempt = 0;; attempt++) {
                struct pb_text_reader r;
                struct error         *err;

                arena_reset(arena);
                err = pb_text_reader_run(&r, type, text, file_for_errors, pb_recovery_patches(rec),
                                         arena, ret);
                if (err == NULL)
                        break;
                if (err->code != ERR_INVALID_ARG)
                        return err;
                n_read += text.len;
                if (!recover(rec, &r, text, err) || n_read > PB_RECOVERY_MAX_READ_BYTES ||
                    attempt == PB_RECOVERY_MAX_PATCHES) {
                        rec->is_cut = true;
                        return NULL;
                }
        }
        pb_doubts_spread(&rec->doubts, *ret);
        rec->is_cut = rec->doubts.is_full;
        return NULL;
}
