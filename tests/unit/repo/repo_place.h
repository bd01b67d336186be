/* SPDX-License-Identifier: BSD-3-Clause */
/* All that a repository needs of a server, around a folder "models" (and "more"), a fake
 * backend in "backends", and agents, where a test puts some, in "agents".
 *
 * Ownership.  repo_place_end() frees everything.
 */
#pragma once

#include "backend/fake_host.h"
#include "backend/temp_tree.h"
#include "base/event_source.h"
#include "repo/repo.h"

#include <stddef.h>

struct repo_place {
        struct temp_tree        tree;
        struct fake_library     library;
        struct metric_registry *metrics;
        struct repo_environment env;
        struct repo            *repo;
        struct event_source     ready;
        bool                    is_followed; /* these three before repo_place_open() */
        bool                    has_namespaces;
        unsigned                n_load_retries;
};

/* Inputs and outputs as probe_add_row() has them. */
#define REPO_PLACE_CONFIG                                                                          \
        "backend: 'fake' max_batch_size: 4 "                                                       \
        "input [{ name: 'IN' data_type: TYPE_INT32 dims: [ 2 ] }] "                                \
        "output [{ name: 'OUT' data_type: TYPE_INT32 dims: [ 2 ] }] "

void repo_place_begin(struct repo_place *p);
void repo_place_end(struct repo_place *p);

/* models/<name>/config.pbtxt with this text after REPO_PLACE_CONFIG, and a directory per version;
 * n_versions 0: none. */
void repo_place_add_model(struct repo_place *p, const char *name, const char *config,
                          const int64_t *versions, size_t n_versions);
/* A model with version 1 alone. */
void repo_place_add(struct repo_place *p, const char *name, const char *config);

/* The repository of these folders of the tree. */
void repo_place_open(struct repo_place *p, const char *const *folders, size_t n_folders);
/* The text of the index, "name:version:STATE:reason\n" for each line, the name with "<folder>::"
 * before it where there are namespaces; owned by the caller. */
char *repo_place_index(struct repo_place *p);
/* Waits until it is this. */
void repo_place_await_index(struct repo_place *p, const char *expected);
/* Everything unloaded and reaped; the repository freed. */
void repo_place_close(struct repo_place *p);
