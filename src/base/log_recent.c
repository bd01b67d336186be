/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log_recent.h"

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

static atomic_bool is_kept; /* read before each line; the lock guards the rest */

static struct mutex            recent_lock = { .rank = LOCK_LOG };
static struct log_recent_line *ring; /* owned; line n is at n % LOG_RECENT_LINES */
static uint64_t                last_number;

void log_recent_keep(bool keep) {
        MUTEX_GUARD(&recent_lock);
        if (keep && ring == NULL)
                ring = mem_zalloc(LOG_RECENT_LINES * sizeof(ring[0]));
        atomic_store(&is_kept, keep);
}

static void copy_text(char *to, size_t max, struct str from) {
        size_t len = MIN(from.len, max);

        memcpy(to, from.ptr, len);
        to[len] = '\0';
}

void log_recent_add(enum log_level level, const char *file, int line, struct str message) {
        const char             *slash = strrchr(file, '/');
        struct log_recent_line *at;

        if (level != LOG_WARN && level != LOG_ERROR)
                return;
        if (!atomic_load_explicit(&is_kept, memory_order_relaxed))
                return;
        MUTEX_GUARD(&recent_lock);
        at = &ring[++last_number % LOG_RECENT_LINES];
        at->number = last_number;
        at->wall_ms = clock_wall_ns() / NS_PER_MS;
        at->level = level;
        at->line = line;
        copy_text(at->file, sizeof(at->file) - 1, str_of(slash != NULL ? slash + 1 : file));
        copy_text(at->text, sizeof(at->text) - 1, message);
}

bool log_recent_next(uint64_t after, struct log_recent_line *ret) {
        uint64_t oldest;

        MUTEX_GUARD(&recent_lock);
        if (after >= last_number)
                return false;
        oldest = last_number > LOG_RECENT_LINES ? last_number - LOG_RECENT_LINES + 1 : 1;
        *ret = ring[MAX(after + 1, oldest) % LOG_RECENT_LINES];
        return true;
}
