/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/environments.h"

#include <stdlib.h>
#include <string.h>

#include "kit/scratch.h"

struct environments {
        int unused;
};

TRITONSERVER_Error *environments_new(struct environments **ret) {
        *ret = kit_alloc_array(1, sizeof(**ret));
        return *ret != NULL ? NULL : kit_error_no_memory(sizeof(**ret), "environments");
}

void environments_free(struct environments *environments) {
        free(environments);
}

TRITONSERVER_Error *environments_open(struct environments *environments, const char *path,
                                      char **ret_directory) {
        (void)environments;
        *ret_directory = strdup(path);
        return *ret_directory != NULL ? NULL : kit_error_no_memory(strlen(path), "a path");
}
