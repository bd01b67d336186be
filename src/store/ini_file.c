/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/ini_file.h"

#include "base/file.h"
#include "base/mem.h"
#include "store/secret.h"

#define MAX_ENTRIES 65536

struct ini_reader {
        struct ini_file *file; /* borrowed */
        size_t           n_allocated;
        struct str       section; /* ptr NULL before the first */
        bool             has_key; /* an indented line belongs to it */
        unsigned         line;
};

static struct error *line_error(const struct ini_reader *r, const char *what) {
        return error_new(ERR_INVALID_ARG, "%s:%u: %s", r->file->path, r->line, what);
}

static struct error *add(struct ini_reader *r, struct str key, struct str value) {
        struct ini_file  *f = r->file;
        size_t            n = r->n_allocated > 0 ? 2 * r->n_allocated : 32;
        struct ini_entry *entries;

        if (f->n_entries == r->n_allocated) {
                entries = n <= MAX_ENTRIES ? try_realloc(f->entries, n * sizeof(*entries)) : NULL;
                if (entries == NULL)
                        return line_error(r, "no memory for so many lines");
                f->entries = entries;
                r->n_allocated = n;
        }
        f->entries[f->n_entries++] = (struct ini_entry){
                .section = r->section, .key = key, .value = value, .line = r->line
        };
        return NULL;
}

static struct error *read_section(struct ini_reader *r, struct str line) {
        struct str name = str_skip(line, 1), rest;

        rest = str_split(name, ']', &name);
        name = str_trim(name);
        if (rest.ptr == NULL)
                return line_error(r, "a section without ']'");
        rest = str_trim(rest);
        if (rest.len > 0 && rest.ptr[0] != '#' && rest.ptr[0] != ';')
                return line_error(r, "text behind the section");
        if (name.len == 0)
                return line_error(r, "a section without a name");
        r->section = name;
        r->has_key = false;
        return add(r, str_range(NULL, 0), STR_LIT(""));
}

static struct error *read_line(struct ini_reader *r, struct str raw) {
        bool       is_indented = raw.len > 0 && (raw.ptr[0] == ' ' || raw.ptr[0] == '\t');
        struct str line = str_trim(raw), key, value;

        if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';')
                return NULL;
        if (is_indented && r->has_key)
                return NULL;
        if (line.ptr[0] == '[')
                return read_section(r, line);
        value = str_split(line, '=', &key);
        key = str_trim(key);
        if (value.ptr == NULL || key.len == 0)
                return line_error(r, "neither '[section]' nor 'key = value'");
        if (r->section.ptr == NULL)
                return line_error(r, "a value before the first section");
        r->has_key = true;
        return add(r, key, str_trim(value));
}

static struct error *read_lines(struct ini_reader *r) {
        struct str rest = strbuf_str(&r->file->text);

        if (rest.len > 0 && memchr(rest.ptr, '\0', rest.len) != NULL)
                return error_new(ERR_INVALID_ARG, "%s: not a text file", r->file->path);
        if (str_starts(rest, STR_LIT("\xef\xbb\xbf"))) /* as editors on Windows write it */
                rest = str_skip(rest, 3);
        STR_FOR_EACH(rest, '\n', line) {
                if (line.len > 0 && line.ptr[line.len - 1] == '\r')
                        line.len--;
                r->line++;
                TRY(read_line(r, line));
        }
        return NULL;
}

struct error *ini_file_read(const char *path, struct strbuf *text, struct ini_file *ret) {
        struct ini_file   f = { .path = mem_strdup(path), .text = *text };
        struct ini_reader r = { .file = &f };
        struct error     *err;

        strbuf_init(text, text->max);
        err = read_lines(&r);
        if (err != NULL) {
                ini_file_done(&f);
                return err;
        }
        *ret = f;
        return NULL;
}

struct error *ini_file_open(const char *path, struct ini_file *ret) {
        struct strbuf text;

        TRY(file_read(path, INI_MAX_BYTES, &text));
        return ini_file_read(path, &text, ret);
}

void ini_file_done(struct ini_file *f) {
        free(f->path);
        free(f->entries);
        secret_buf_done(&f->text);
        *f = (struct ini_file){ .path = NULL };
}

bool ini_file_has_section(const struct ini_file *f, struct str section) {
        for (size_t i = 0; i < f->n_entries; i++)
                if (f->entries[i].key.ptr == NULL && str_equal(f->entries[i].section, section))
                        return true;
        return false;
}

const struct ini_entry *ini_file_find(const struct ini_file *f, struct str section,
                                      const char *key) {
        for (size_t i = f->n_entries; i > 0; i--) {
                const struct ini_entry *e = &f->entries[i - 1];

                if (e->key.ptr != NULL && str_is(e->key, key) && str_equal(e->section, section))
                        return e;
        }
        return NULL;
}
