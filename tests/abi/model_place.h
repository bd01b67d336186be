/* SPDX-License-Identifier: BSD-3-Clause */
/* A folder in /tmp with the models of a test, which are removed with it. Each function fails the
 * running test when it cannot do its part, and the end also when the server left something there.
 */
#pragma once

struct model_place {
        char     root[64];
        unsigned n_added; /* folders, files, links and pipes */
};

void model_place_open(struct model_place *p);
void model_place_close(struct model_place *p);

/* As the close, whatever else is there by now: models that write files. */
void model_place_close_with_more(struct model_place *p);

/* Paths are relative to the folder. */
void model_place_add_folder(struct model_place *p, const char *path);
void model_place_add_file(struct model_place *p, const char *path, const char *text);
void model_place_add_link(struct model_place *p, const char *path, const char *target);
void model_place_add_fifo(struct model_place *p, const char *path);

/* A model with version 1. With a `library`, that is its backend's, by the name that `runtime` of its
 * configuration has: libtriton_probe.so. */
void model_place_add_model(struct model_place *p, const char *name, const char *config,
                           const char *library);
