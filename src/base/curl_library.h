/* SPDX-License-Identifier: BSD-3-Clause */
/* libcurl, loaded with dlopen() on first use. libcurl depends on two dozen libraries; a process that
 * never sends a request to another server does not load them. Only this file includes libcurl's
 * header.
 *
 * Ownership.  Once loaded it stays loaded: libcurl and its libraries leave thread-specific keys
 * behind.
 * Threads.  curl_library_open(): one call at a time. The functions: as documented by libcurl.
 */
#pragma once

#include "base/error.h"

/* libcurl's type-checking macros call curl_easy_setopt() directly, which is not linked. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/* libcurl's functions, with the types of its header. */
struct curl_functions {
        __typeof__(&curl_global_init)    global_init;
        __typeof__(&curl_easy_init)      easy_init;
        __typeof__(&(curl_easy_setopt))  easy_setopt;
        __typeof__(&curl_easy_reset)     easy_reset;
        __typeof__(&curl_easy_perform)   easy_perform;
        __typeof__(&(curl_easy_getinfo)) easy_getinfo;
        __typeof__(&curl_easy_cleanup)   easy_cleanup;
        __typeof__(&curl_easy_strerror)  easy_strerror;
        __typeof__(&curl_slist_append)   slist_append;
        __typeof__(&curl_slist_free_all) slist_free_all;
};

/* Error when libcurl is missing: "<purpose> needs libcurl (libcurl.so.4), which could not be loaded:
 * ...". */
struct error *curl_library_open(const char *purpose, struct curl_functions *ret) NODISCARD;
