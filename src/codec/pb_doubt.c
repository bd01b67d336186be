/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/pb_doubt.h"

#include "codec/pb_field.h"

void pb_doubts_init(struct pb_doubts *d, struct arena *arena) {
        *d = (struct pb_doubts){ .arena = arena };
}

void pb_doubts_put(struct pb_doubts *d, struct str path, enum pb_doubt_kind kind) {
        const char *kept;

        if (d->items == NULL)
                d->items = arena_try_alloc(d->arena, PB_DOUBTS_MAX * sizeof(*d->items));
        kept = arena_try_str(d->arena, path.len > 0 ? path : STR_LIT(""));
        d->is_full = d->is_full || d->items == NULL || d->n == PB_DOUBTS_MAX || kept == NULL;
        if (!d->is_full)
                d->items[d->n++] = (struct pb_doubt){ kept, kind };
}

void pb_path_put(struct strbuf *path, const char *name) {
        if (path->len > 0)
                strbuf_putc(path, '.');
        strbuf_puts(path, name);
}

/* Whether the field is certainly set: a field without presence that has its default may be absent. */
static bool has_field(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        union pb_value value;

        if (pb_value_count(message, field) == 0)
                return false;
        if (pb_field_is_repeated(field) || pb_field_kind(field) == PB_MESSAGE)
                return true;
        value = pb_value_get(message, field, 0);
        switch (pb_field_kind(field)) {
        case PB_STRING: return value.text != NULL && *value.text != '\0';
        case PB_BYTES: return value.bytes.len > 0;
        case PB_REAL: return value.real != 0.0;
        case PB_BOOL: return value.truth;
        default: return value.u64 != 0;
        }
}

/* Finds the message of a path; NULL when it does not exist. */
static const ProtobufCMessage *find_message(const ProtobufCMessage *message, struct str path) {
        struct str step, name;

        while (path.len > 0) {
                const ProtobufCFieldDescriptor *field;
                uint64_t                        index = 0;
                struct str                      rest = str_split(path, '.', &step), number;

                number = str_split(step, '[', &name);
                if (number.len > 0 && !str_to_u64(str_range(number.ptr, number.len - 1), &index))
                        return NULL;
                field = pb_field_find(message->descriptor, name);
                if (field == NULL || pb_field_kind(field) != PB_MESSAGE ||
                    index >= pb_value_count(message, field))
                        return NULL;
                message = pb_value_get(message, field, index).message;
                path = rest;
        }
        return message;
}

/* A field of an unknown name may be any field that the message lacks. */
void pb_doubts_spread(struct pb_doubts *d, const ProtobufCMessage *message) {
        size_t n = d->n;

        for (size_t i = 0; i < n; i++) {
                const char             *at = d->items[i].path;
                const ProtobufCMessage *found;

                if (d->items[i].kind != PB_DOUBT_UNNAMED)
                        continue;
                found = find_message(message, str_of(at));
                for (unsigned k = 0; found != NULL && k < found->descriptor->n_fields; k++) {
                        const ProtobufCFieldDescriptor *field = &found->descriptor->fields[k];
                        AUTO_STRBUF                     path = { 0 };

                        if (has_field(found, field))
                                continue;
                        strbuf_puts(&path, at);
                        pb_path_put(&path, field->name);
                        if (path.overflowed)
                                d->is_full = true;
                        else
                                pb_doubts_put(d, strbuf_str(&path), PB_DOUBT_MISSING);
                }
        }
}

/* True when `path` is `outer` or a field within it; *ret_end: the character after `outer`, or '\0'. */
static bool is_within(struct str path, struct str outer, char *ret_end) {
        if (!str_starts(path, outer))
                return false;
        *ret_end = path.len > outer.len ? path.ptr[outer.len] : '\0';
        return outer.len == 0 || *ret_end == '\0' || *ret_end == '.' || *ret_end == '[';
}

static bool touches(const struct pb_doubt *d, struct str path) {
        struct str own = str_of(d->path);
        char       end;

        if (is_within(own, path, &end))
                return true;
        if (d->kind == PB_DOUBT_UNNAMED || !is_within(path, own, &end))
                return false;
        return d->kind == PB_DOUBT_VALUE || end != '[';
}

bool pb_doubts_touch(const struct pb_doubts *d, struct str path) {
        if (d->is_full)
                return true;
        for (size_t i = 0; i < d->n; i++)
                if (touches(&d->items[i], path))
                        return true;
        return false;
}
