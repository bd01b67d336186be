/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of backends: finds a model's backend library and opens each library once.
 *
 * Search order: the model's version directory, the model's directory, the backend directory. Source:
 * model configuration, backend library lookup.
 *
 * Ownership.  The registry keeps a reference to each open backend until it is freed, so that a backend
 * stays open when its last model is reloaded.
 * Threads.  Any. A caller that needs a library that another thread is opening waits for it; other
 * libraries are opened meanwhile. No lock is held across the plug-in's Initialize.
 */
#pragma once

#include "backend/backend.h"
#include "base/settings.h"

struct backend_registry;
struct gpus;

struct backend_registry_options {
        const char           *directory; /* copied */
        bool                  auto_complete;
        struct gpus          *gpus; /* borrowed; NULL: there are none */
        double                min_compute_capability;
        const struct setting *settings; /* of --backend-config, copied; group "": all backends */
        size_t                n_settings;
};

struct backend_registry *backend_registry_new(const struct backend_registry_options *options);
void                     backend_registry_free(struct backend_registry *r);

/* The location of a model and the backend that it needs. */
struct backend_wanted {
        const char *backend; /* "onnxruntime" */
        const char *runtime; /* file name of the library, "" = libtriton_<backend>.so */
        const char *model;
        const char *model_directory;
        int64_t     version;
        bool        is_sent; /* the directory was uploaded, or the library's name was sent: no
                              * library is taken from the directory */
};

/* Returns a new reference. */
struct error *backend_registry_get(struct backend_registry *r, const struct backend_wanted *wanted,
                                   struct backend **ret) NODISCARD;

/* Returns the path of the library that would be opened; the caller owns it. Opens nothing. */
struct error *backend_registry_find(const struct backend_registry *r,
                                    const struct backend_wanted *wanted, char **ret_path) NODISCARD;

/* Calls `each` for every open backend, for tables in the log. */
void backend_registry_each(struct backend_registry *r,
                           void (*each)(const struct backend *b, void *userp), void *userp);
