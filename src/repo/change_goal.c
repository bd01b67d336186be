/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/change_goal.h"

#include <stddef.h>
#include <string.h>

bool change_goal_supersedes(const struct change_goal *later, const struct change_goal *running) {
        if (running->is_unload)
                return false;
        if (later->is_unload || later->files == CHANGE_FILES_UNKNOWN ||
            later->files != running->files)
                return true;
        /* A load without a configuration of its own is content with what was loaded from these files. */
        return later->config_json != NULL &&
               (running->config_json == NULL ||
                strcmp(later->config_json, running->config_json) != 0);
}
