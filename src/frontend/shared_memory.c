/* SPDX-License-Identifier: BSD-3-Clause */
#include "frontend/shared_memory.h"

struct error *shared_memory_find(const char *kind, struct str region) {
        if (region.len == 0)
                return NULL;
        return error_new(ERR_NOT_FOUND, "Unable to find %s shared memory region: '%.*s'", kind,
                         STR_ARG(region));
}

struct error *shared_memory_refuse_change(bool allow_client_shm) {
        return error_new_text(ERR_UNSUPPORTED,
                              allow_client_shm
                                      ? "shared memory is not supported yet"
                                      : "Client shared memory is disabled. Start the server with "
                                        "'--allow-client-shm=true' to enable.");
}

static struct error *refuse_region(const char *region) {
        return region ? error_new(ERR_NOT_FOUND, "Unable to find shared memory region: '%s'",
                                  region)
                      : NULL;
}

struct error *shared_memory_check_request(const struct infer_request *q) {
        for (uint32_t i = 0; i < q->n_inputs; i++)
                TRY(refuse_region(q->inputs[i].shared_memory.region));
        for (uint32_t i = 0; i < q->n_outputs; i++)
                TRY(refuse_region(q->outputs[i].shared_memory.region));
        return NULL;
}
