/* SPDX-License-Identifier: BSD-3-Clause */
/* A cache for tests (cache_probe.c), which says what it was asked and fails as it is told. A test
 * opens the same library as the server and looks up `cache_probe`.
 */
#pragma once

#include <stddef.h>

#define PROBE_KEY_BYTES 64
#define PROBE_ENTRIES 64

struct probe_entry {
        char   key[PROBE_KEY_BYTES];
        char  *bytes; /* owned */
        size_t n_bytes;
};

struct cache_probe {
        /* What was asked. */
        char     config[256];
        unsigned n_initialized, n_finalized, n_lookups, n_found, n_inserts;
        char     looked_up[PROBE_KEY_BYTES]; /* the last key */
        char     inserted[PROBE_KEY_BYTES];  /* the same */
        size_t   n_buffers;                  /* of the last insertion */
        void    *base;                       /* as it came */
        char     text[256];                  /* of the last error of a call to the server */

        struct probe_entry entries[PROBE_ENTRIES];
        size_t             n_entries;

        /* How to fail; a code of TRITONSERVER_Error_Code, -1: not at all. */
        int    fail_lookup, fail_insert;
        int    copies;  /* of a look-up: 1 is right */
        int    buffers; /* that a look-up adds: 1 is right */
        size_t cut;     /* bytes that are missing at the end */
        size_t flip;    /* the byte, counted from 1, that is not as it was */
};
