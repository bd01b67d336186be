/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/open_files.h"

#include "base/compiler.h"
#include "shm/shm_guard.h"

#include <sys/resource.h>

/* For models, backends and the files that they open, loops, listening sockets, and scrapers of
 * metrics. */
#define RESERVE 2048

uint64_t open_files_needed(const struct cli_options *o) {
        uint64_t n = RESERVE;

        if (o->allow_http)
                n += (uint64_t)o->http_max_connections;
        if (o->openai_port >= 0)
                n += (uint64_t)o->http_max_connections;
        if (o->allow_sagemaker)
                n += (uint64_t)o->http_max_connections;
        if (o->allow_vertex_ai)
                n += (uint64_t)o->http_max_connections;
        if (o->allow_grpc)
                n += (uint64_t)o->grpc_max_connections;
        if (o->allow_client_shm)
                n += SHM_GUARD_MAX;
        return n;
}

uint64_t open_files_raise(uint64_t wanted) {
        struct rlimit limit;
        rlim_t        before;

        if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
                return UINT64_MAX; /* the limit is unknown, so no warning is logged */
        before = limit.rlim_cur;
        if (before >= wanted)
                return before;
        limit.rlim_cur = MIN((rlim_t)wanted, limit.rlim_max);
        return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}
