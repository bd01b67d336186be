/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/labels.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/ref.h"
#include "base/strbuf.h"
#include "config/config_edit.h"

#include <string.h>
#include <unistd.h>

/* Of all files of a model together. The largest public class lists (22 000 names) have less than 1 MiB. */
#define LABEL_FILE_MAX_BYTES ((size_t)16 << 20)

struct label_file {
        const char  *name;  /* borrowed: the configuration; only while the files are read */
        char        *text;  /* owned: the file, lines ended with NUL */
        const char **lines; /* owned; borrowed from text */
        size_t       n_lines;
};

struct label_set {
        char  *output; /* owned */
        size_t file;   /* index: outputs with the same file share it */
};

struct labels {
        struct ref         ref;
        struct label_set  *sets; /* owned */
        size_t             n_sets;
        struct label_file *files; /* owned */
        size_t             n_files;
        size_t             n_bytes; /* of the texts */
};

static struct error *split_lines(struct label_file *file, size_t len) {
        size_t n = 0;
        char  *end = file->text + len;

        for (const char *at = file->text;
             at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
                n++;
        if (len > 0 && end[-1] != '\n')
                n++; /* the last line has no newline of its own */
        file->lines = try_alloc(MAX(n, 1) * sizeof(*file->lines));
        if (file->lines == NULL)
                return config_out_of_memory();
        for (char *line = file->text; line < end;) {
                char *stop = memchr(line, '\n', (size_t)(end - line));

                if (stop == NULL)
                        stop = end;
                file->lines[file->n_lines++] = line;
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

static struct error *read_lines(const struct model_config *c, const Inference__ModelOutput *output,
                                const char *model_directory, struct labels *l) {
        struct label_file *file = &l->files[l->n_files++];
        AUTO_STRBUF        text = { .max = LABEL_FILE_MAX_BYTES };
        struct error      *err;
        size_t             len;
        int                fd;

        TRY(open_labels(c, output, model_directory, &fd));
        err = file_read_fd(fd, output->label_filename, LABEL_FILE_MAX_BYTES, &text);
        close(fd);
        TRY(err);
        len = text.len;
        l->n_bytes += len;
        if (l->n_bytes > LABEL_FILE_MAX_BYTES)
                return error_new(ERR_INVALID_ARG,
                                 "the label files of model '%s' have more than %zu bytes together",
                                 c->pb->name, LABEL_FILE_MAX_BYTES);
        file->name = output->label_filename;
        file->text = strbuf_take(&text);
        return split_lines(file, len);
}

static struct error *read_set(const struct model_config *c, const Inference__ModelOutput *output,
                              const char *model_directory, struct labels *l) {
        size_t file = 0;

        while (file < l->n_files && strcmp(l->files[file].name, output->label_filename) != 0)
                file++;
        if (file == l->n_files)
                TRY(read_lines(c, output, model_directory, l));
        l->sets[l->n_sets++] = (struct label_set){ mem_strdup(output->name), file };
        return NULL;
}

static struct error *read_sets(const struct model_config *c, const char *model_directory,
                               struct labels *l) {
        l->sets = try_zalloc(MAX(c->pb->n_output, 1) * sizeof(*l->sets));
        l->files = try_zalloc(MAX(c->pb->n_output, 1) * sizeof(*l->files));
        if (l->sets == NULL || l->files == NULL)
                return config_out_of_memory();
        for (size_t i = 0; i < c->pb->n_output; i++)
                if (config_text_is_set(c->pb->output[i]->label_filename))
                        TRY(error_at(read_set(c, c->pb->output[i], model_directory, l),
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
        for (size_t i = 0; i < l->n_sets; i++)
                free(l->sets[i].output);
        for (size_t i = 0; i < l->n_files; i++) {
                free(l->files[i].text);
                free(l->files[i].lines);
        }
        free(l->sets);
        free(l->files);
        free(l);
}

static const struct label_file *find_file(const struct labels *l, const char *output) {
        for (size_t i = 0; i < l->n_sets; i++)
                if (strcmp(l->sets[i].output, output) == 0)
                        return &l->files[l->sets[i].file];
        return NULL;
}

const char *labels_find(const struct labels *l, const char *output, size_t class_index) {
        const struct label_file *file = find_file(l, output);

        return file != NULL && class_index < file->n_lines ? file->lines[class_index] : NULL;
}

size_t labels_count(const struct labels *l, const char *output) {
        const struct label_file *file = find_file(l, output);

        return file != NULL ? file->n_lines : 0;
}

size_t labels_bytes(const struct labels *l) {
        size_t n = l->n_bytes;

        for (size_t i = 0; i < l->n_files; i++)
                n += l->files[i].n_lines * sizeof(*l->files[i].lines);
        return n;
}
