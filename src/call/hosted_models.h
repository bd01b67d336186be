/* SPDX-License-Identifier: BSD-3-Clause */
/* The models of a platform that brings each one as a folder of its own and says which to load: the
 * multi-model endpoints of SageMaker. Each model becomes a repository, which is registered with a name
 * for its folder before the load, and removed after the unload.
 *
 *     absent    -> loading    a load begins
 *     loading   -> loaded     the core has loaded it
 *     loading   -> absent     the load has failed
 *     loaded    -> unloading  an unload begins
 *     unloading -> absent     the unload has ended
 *     unloading -> loaded     the core has refused the unload
 *
 * A name is in use in every state but "absent". Only loaded models are listed and found.
 *
 * Ownership.  hosted_models_free(); names and URLs are copied. The core is borrowed.
 * Threads.  Any. A mutex of rank LOCK_SERVER guards the table; it is not held during calls of the core.
 * load and unload block: they run on work threads.
 */
#pragma once

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <stdbool.h>

struct TRITONSERVER_Server;
struct hosted_models;

/* What has become of a load or an unload; an error comes with all but HOSTED_DONE and HOSTED_UNKNOWN. */
enum hosted_outcome {
        HOSTED_DONE,
        HOSTED_IN_USE,    /* the name, or the folder, is that of another model */
        HOSTED_UNKNOWN,   /* no model of that name is loaded */
        HOSTED_NO_MEMORY, /* the load needs more memory than there is */
        HOSTED_FAILED,
};

/* Limits of what a load names; both go into errors and the log. */
#define HOSTED_MAX_NAME 1024
#define HOSTED_MAX_URL 4096 /* that of a path of the kernel */

struct hosted_models *hosted_models_new(struct TRITONSERVER_Server *core);
void                  hosted_models_free(struct hosted_models *h); /* NULL is fine */

/* Loads the model in the folder `url` under that name. The folder has a config.pbtxt, or is one model in
 * another form that the core knows, or has a sub-folder that is a model; the only ensemble among several
 * sub-folders that are models. */
struct error *hosted_models_load(struct hosted_models *h, struct str name, struct str url,
                                 enum hosted_outcome *ret) NODISCARD;
/* Unloads the model, and what was loaded for it alone, and waits for its last request: the caller counts
 * on its memory. */
struct error *hosted_models_unload(struct hosted_models *h, struct str name,
                                   enum hosted_outcome *ret) NODISCARD;

bool hosted_models_has(struct hosted_models *h, struct str name);
/* Prints {"models":[{"modelName":"a","modelUrl":"/opt/ml/models/a/model"}]}, sorted by name. */
void hosted_models_print(struct hosted_models *h, struct strbuf *out);
/* Prints {"modelName":"a","modelUrl":"/opt/ml/models/a/model"}; false when no such model is loaded. */
bool hosted_models_print_one(struct hosted_models *h, struct str name, struct strbuf *out);

/* True for a text about memory that is used up, of the core or of a backend. Backends report that by
 * their texts only. */
bool hosted_models_tells_no_memory(const char *message);
