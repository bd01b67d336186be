/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/labels.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/ref.h"
#include "base/strbuf.h"
#include "config/config_edit.h"

#include <string.h>
#include <unistd.h>

/* The largest public class lists (22 000 names) have less than 1 MiB. */
#define LABEL_FILE_MAX_BYTES ((size_t)16 << 20)

struct label_set {
        char        *output; /* owned */
        char        *text;   /* owned: the file, lines ended with NUL */
        const char **lines;  /* owned; borrowed from text */
        size_t       n_lines;
};

struct labels {
        struct ref        ref;
        struct label_set *sets; /* owned */
        size_t            n_sets;
};

static struct error *split_lines(struct label_set *set, size_t len) {
        size_t n = 0;
        char  *end = set->text + len;

        for (const char *at = set->text;
             at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
                n++;
        if (len > 0 && end[-1] != '\n')
                n++; /* the last line has no newline of its own */
        set->lines = try_alloc(MAX(n, 1) * sizeof(*set->lines));
        if (set->lines == NULL)
                return config_out_of_memory();
        for (char *line = set->text; line < end;) {
                char *stop = memchr(line, '\n', (size_t)(end - line));

                if (stop == NULL)
                        stop = end;
                set->lines[set->n_lines++] = line;
                *stop = '\0';
                if (stop > line && stop[-1] == '\r')
                        stop[-1] = '\0';
                line = stop + 1;
        }
        return NULL;
}

static struct error *open_labels(const struct model_config *c, const Inference__ModelOutput *output,
                                 const char *model_directory, int *ret_fd) {
        struct error *err = file_open_beneath(model_directory, output->label_filename, ret_fd);

        if (err == NULL)
                return NULL;
        if (err->code == ERR_INVALID_ARG) {
                error_free(err);
                return error_new(ERR_INVALID_ARG,
                                 "label file path '%s' for output '%s' in model '%s' is outside "
                                 "model directory",
                                 output->label_filename, output->name, c->pb->name);
        }
        return err;
}

static struct error *read_set(const struct model_config *c, const Inference__ModelOutput *output,
                              const char *model_directory, struct label_set *set) {
        AUTO_STRBUF   text = { .max = LABEL_FILE_MAX_BYTES };
        struct error *err;
        size_t        len;
        int           fd;

        TRY(open_labels(c, output, model_directory, &fd));
        err = file_read_fd(fd, output->label_filename, LABEL_FILE_MAX_BYTES, &text);
        close(fd);
        TRY(err);
        len = text.len;
        set->output = mem_strdup(output->name);
        set->text = strbuf_take(&text);
        return split_lines(set, len);
}

static struct error *read_sets(const struct model_config *c, const char *model_directory,
                               struct labels *l) {
        l->sets = try_zalloc(MAX(c->pb->n_output, 1) * sizeof(*l->sets));
        if (l->sets == NULL)
                return config_out_of_memory();
        for (size_t i = 0; i < c->pb->n_output; i++)
                if (config_text_is_set(c->pb->output[i]->label_filename))
                        TRY(error_at(read_set(c, c->pb->output[i], model_directory,
                                              &l->sets[l->n_sets++]),
                                     "output[%zu].label_filename", i));
        return NULL;
}

struct error *labels_read(const struct model_config *c, const char *model_directory,
                          struct labels **ret) {
        struct labels *l = mem_zalloc(sizeof(*l));

        ref_init(&l->ref);
        TRY_OR(read_sets(c, model_directory, l), labels_free(l));
        *ret = l;
        return NULL;
}

void labels_ref(struct labels *l) {
        ref_get(&l->ref);
}

void labels_free(struct labels *l) {
        if (l == NULL || !ref_put(&l->ref))
                return;
        for (size_t i = 0; i < l->n_sets; i++) {
                free(l->sets[i].output);
                free(l->sets[i].text);
                free(l->sets[i].lines);
        }
        free(l->sets);
        free(l);
}

static const struct label_set *find_set(const struct labels *l, const char *output) {
        for (size_t i = 0; i < l->n_sets; i++)
                if (strcmp(l->sets[i].output, output) == 0)
                        return &l->sets[i];
        return NULL;
}

const char *labels_find(const struct labels *l, const char *output, size_t class_index) {
        const struct label_set *set = find_set(l, output);

        return set != NULL && class_index < set->n_lines ? set->lines[class_index] : NULL;
}

size_t labels_count(const struct labels *l, const char *output) {
        const struct label_set *set = find_set(l, output);

        return set != NULL ? set->n_lines : 0;
}
