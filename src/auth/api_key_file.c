/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth/api_key_file.h"

#include "base/mem.h"
#include "base/strbuf.h"

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- queries ---- */

const struct api_key *api_key_file_find(const struct api_key_file *f, const unsigned char *digest) {
        size_t found = 0; /* 1 + index */

        for (size_t i = 0; i < f->n_keys; i++) {
                bool is_equal = digest_equal(f->keys[i].digest, digest, DIGEST_SHA256_BYTES);

                found |= (i + 1) & (0 - (size_t)is_equal); /* no two keys have the same digest,
                                                            * so at most one matches */
        }
        return found > 0 ? &f->keys[found - 1] : NULL;
}

bool api_key_grants_group(const struct api_key *key, enum endpoint_group group) {
        return endpoint_group_is_valid(group) && (key->groups >> group & 1) != 0;
}

/* '*' matches any run of characters. After a mismatch the last star matches one more character. */
static bool matches(struct str pattern, struct str name) {
        size_t p = 0, n = 0, star = SIZE_MAX, taken = 0;

        while (n < name.len) {
                if (p < pattern.len && pattern.ptr[p] == '*') {
                        star = p++;
                        taken = n;
                } else if (p < pattern.len && pattern.ptr[p] == name.ptr[n]) {
                        p++;
                        n++;
                } else if (star != SIZE_MAX) {
                        p = star + 1;
                        n = ++taken;
                } else {
                        return false;
                }
        }
        while (p < pattern.len && pattern.ptr[p] == '*')
                p++;
        return p == pattern.len;
}

bool api_key_grants_model(const struct api_key *key, struct str model) {
        if (key->models == NULL)
                return true;
        STR_FOR_EACH(str_of(key->models), ',', pattern)
                if (model.len > 0 && matches(pattern, model))
                        return true;
        return false;
}

/* ---- the reader ---- */

struct key_reader {
        const char          *file;
        struct str           line;
        size_t               at; /* in line */
        uint32_t             number;
        struct api_key_file *keys; /* the keys read so far */
};

/* Adds file, line and column to the message. Takes the error. */
static struct error *fault(const struct key_reader *r, const char *at, struct error *err) {
        return error_prefix(err, "%s:%u:%zu: ", r->file, r->number, (size_t)(at - r->line.ptr) + 1);
}

#define FAULT(r, at, ...) fault((r), (at), error_new(ERR_INVALID_ARG, __VA_ARGS__))

/* The part of a word that an error message repeats. */
static struct str short_word(struct str word) {
        return str_range(word.ptr, MIN(word.len, (size_t)API_KEY_MAX_NAME));
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t' || c == '\r';
}

/* Returns the next field of the line. At the end of the line, or at a comment, the field is
 * empty. */
static struct str take_word(struct key_reader *r) {
        size_t begin;

        while (r->at < r->line.len && is_blank(r->line.ptr[r->at]))
                r->at++;
        begin = r->at;
        if (r->at < r->line.len && r->line.ptr[r->at] == '#')
                return str_range(r->line.ptr + begin, 0);
        while (r->at < r->line.len && !is_blank(r->line.ptr[r->at]))
                r->at++;
        return str_range(r->line.ptr + begin, r->at - begin);
}

static bool is_name(struct str s) {
        for (size_t i = 0; i < s.len; i++) {
                char c = s.ptr[i];

                if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
                    c != '.' && c != '_' && c != '-')
                        return false;
        }
        return s.len > 0 && s.len <= API_KEY_MAX_NAME;
}

static struct error *read_name(struct key_reader *r, struct str word, struct api_key *key) {
        const struct api_key_file *f = r->keys;

        if (!is_name(word))
                return FAULT(r, word.ptr,
                             "the name of a key has 1 to %d letters, digits, '.', '_' or '-', got "
                             "'%.*s'",
                             API_KEY_MAX_NAME, STR_ARG(short_word(word)));
        if (f->anonymous.name != NULL && str_is(word, f->anonymous.name))
                return FAULT(r, word.ptr, "the name '%.*s' is that of line %u", STR_ARG(word),
                             f->anonymous.line);
        for (size_t i = 0; i < f->n_keys; i++)
                if (str_is(word, f->keys[i].name))
                        return FAULT(r, word.ptr, "the name '%.*s' is that of line %u",
                                     STR_ARG(word), f->keys[i].line);
        key->name = mem_strndup(word.ptr, word.len);
        return NULL;
}

static struct error *read_digest(struct key_reader *r, struct str word, struct api_key *key) {
        const struct api_key *same;
        unsigned char         empty[DIGEST_SHA256_BYTES];

        if (word.len == 0)
                return FAULT(r, word.ptr, "the SHA-256 of the key is missing");
        if (!digest_read_hex(word, key->digest, DIGEST_SHA256_BYTES))
                return FAULT(r, word.ptr,
                             "the SHA-256 of a key has %d hexadecimal digits, got %zu characters%s",
                             2 * DIGEST_SHA256_BYTES, word.len,
                             word.len == 2 * DIGEST_SHA256_BYTES ? ", not all of them digits" : "");
        digest_read_hex(STR_LIT(EMPTY_SHA256), empty, DIGEST_SHA256_BYTES);
        if (digest_equal(key->digest, empty, DIGEST_SHA256_BYTES))
                return FAULT(r, word.ptr, "this is the SHA-256 of an empty key");
        same = api_key_file_find(r->keys, key->digest);
        if (same != NULL)
                return FAULT(r, word.ptr, "the digest is that of line %u", same->line);
        return NULL;
}

/* With the group that was meant, or else all of them. */
static struct error *unknown_group(struct key_reader *r, struct str name) {
        AUTO_STRBUF all = { 0 };
        const char *nearest = endpoint_group_suggest(name);

        for (int i = ENDPOINT_HEALTH; nearest == NULL && i < N_ENDPOINT_GROUPS; i++)
                strbuf_printf(&all, "%s, ", endpoint_group_name((enum endpoint_group)i));
        return error_suggest(FAULT(r, name.ptr, "unknown group '%.*s'%s%s%s",
                                   STR_ARG(short_word(name)), nearest == NULL ? "; there are " : "",
                                   strbuf_cstr(&all), nearest == NULL ? "and '*' for all" : ""),
                             "", nearest);
}

static struct error *read_groups(struct key_reader *r, struct str word, struct api_key *key) {
        enum endpoint_group group;

        if (word.len == 0)
                return FAULT(r, word.ptr,
                             "the groups of endpoints are missing; '*' is all of them");
        STR_FOR_EACH(word, ',', name) {
                if (str_is(name, "*")) {
                        key->groups = UINT32_MAX;
                } else if (endpoint_group_find(name, &group)) {
                        key->groups |= UINT32_C(1) << group;
                } else {
                        return unknown_group(r, name);
                }
        }
        return NULL;
}

static struct error *read_models(struct key_reader *r, struct str word, struct api_key *key) {
        if (word.len == 0)
                return NULL;
        STR_FOR_EACH(word, ',', pattern)
                if (pattern.len == 0)
                        return FAULT(r, pattern.ptr, "a pattern of model names is empty");
        for (size_t i = 0; i < word.len; i++)
                if ((unsigned char)word.ptr[i] < ' ' || word.ptr[i] == 0x7f)
                        return FAULT(r, word.ptr + i, "a control character");
        if (!str_is(word, "*"))
                key->models = mem_strndup(word.ptr, word.len);
        return NULL;
}

static struct error *read_key(struct key_reader *r, struct str name, struct api_key *key,
                              bool *ret_is_anonymous) {
        struct str word;

        TRY(read_name(r, name, key));
        word = take_word(r);
        *ret_is_anonymous = str_is(word, "-");
        if (!*ret_is_anonymous)
                TRY(read_digest(r, word, key));
        else if (r->keys->anonymous.name != NULL)
                return FAULT(r, word.ptr, "line %u says already what requests without a key may do",
                             r->keys->anonymous.line);
        TRY(read_groups(r, take_word(r), key));
        TRY(read_models(r, take_word(r), key));
        word = take_word(r);
        if (word.len > 0)
                return FAULT(r, word.ptr, "'%.*s' is one field too many",
                             STR_ARG(short_word(word)));
        return NULL;
}

static void free_key(struct api_key *key) {
        free(key->name);
        free(key->models);
}

static struct error *read_line(struct key_reader *r) {
        struct api_key_file *f = r->keys;
        struct str           name = take_word(r);
        struct api_key       key = { .line = r->number };
        bool                 is_anonymous;

        if (name.len == 0)
                return NULL;
        if (f->n_keys == API_KEY_FILE_MAX_KEYS)
                return FAULT(r, name.ptr, "there are more than %d keys", API_KEY_FILE_MAX_KEYS);
        TRY_OR(read_key(r, name, &key, &is_anonymous), free_key(&key));
        if (is_anonymous) {
                f->anonymous = key;
                return NULL;
        }
        f->keys = mem_realloc(f->keys, (f->n_keys + 1) * sizeof(key));
        f->keys[f->n_keys++] = key;
        return NULL;
}

struct error *api_key_file_read(struct str text, const char *file_for_errors,
                                struct api_key_file *ret) {
        struct api_key_file f = { 0 };
        struct key_reader   r = { .file = file_for_errors, .keys = &f };
        struct error       *err = NULL;

        while (err == NULL && str_next(&text, '\n', &r.line)) {
                r.at = 0;
                r.number++;
                err = read_line(&r);
        }
        /* An empty file would refuse every request. An interrupted writer may leave such a file. */
        if (err == NULL && f.n_keys == 0 && f.anonymous.name == NULL)
                err = error_new(ERR_INVALID_ARG, "%s:%u:1: there is no key in the file",
                                file_for_errors, MAX(r.number, 1u));
        if (err != NULL) {
                api_key_file_done(&f);
                return err;
        }
        *ret = f;
        return NULL;
}

void api_key_file_done(struct api_key_file *f) {
        for (size_t i = 0; i < f->n_keys; i++)
                free_key(&f->keys[i]);
        free(f->keys);
        free_key(&f->anonymous);
        *f = (struct api_key_file){ 0 };
}
