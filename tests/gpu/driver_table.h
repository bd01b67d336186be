/* SPDX-License-Identifier: BSD-3-Clause */
/* All functions of CUDA's driver as a table of pointers, for programs and plug-ins of the tests, which open the
 * library as backends of users do.
 *
 *     struct driver_table cuda;
 *
 *     if (!driver_table_open(&cuda, CUDA_LIBRARY)) ...
 *     cuda.cuInit(0);
 *
 * Ownership.  The library stays open until the process ends. Threads.  Any, after it was opened. */
#pragma once

#include "gpu/cuda_driver_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

struct driver_table {
#define DRIVER_FIELD(name, parameters) cu_result(*name) parameters;
        CUDA_FUNCTIONS(DRIVER_FIELD)
        CUDA_KERNEL_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
        void *library;
};

/* A pointer to a function from dlsym()'s pointer to an object, which ISO C cannot cast. */
static inline bool driver_symbol(void *library, const char *name, void *ret_function) {
        void *symbol = dlsym(library, name);

        memcpy(ret_function, &symbol, sizeof(symbol));
        return symbol != NULL;
}

/* false: there is no such library, or it lacks a function; dlerror() has the text. */
static inline bool driver_table_open(struct driver_table *ret, const char *path) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        bool  is_whole = library != NULL;

#define DRIVER_LOOK_UP(name, parameters)                                                           \
        is_whole = is_whole && driver_symbol(library, #name, &ret->name);
        CUDA_FUNCTIONS(DRIVER_LOOK_UP)
        CUDA_KERNEL_FUNCTIONS(DRIVER_LOOK_UP)
#undef DRIVER_LOOK_UP
        ret->library = library;
        return is_whole;
}
