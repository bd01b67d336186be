/* SPDX-License-Identifier: BSD-3-Clause */
/* libcurl, opened when somebody needs it: it brings two dozen libraries with it, so it is not linked,
 * and who never asks another server anything pays nothing for it. The one file that includes its
 * header.
 *
 * Ownership.  Once open it stays: libcurl and its libraries leave keys of threads behind.
 * Threads.  One after the other; the functions, as libcurl says.
 */
#pragma once

#include "base/error.h"

/* Macros that check the types of curl_easy_setopt() call the linked function: it is not linked. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

/* libcurl's functions, with the types of its header. */
struct curl_functions {
        __typeof__(&curl_global_init)    global_init;
        __typeof__(&curl_easy_init)      easy_init;
        __typeof__(&(curl_easy_setopt))  easy_setopt;
        __typeof__(&curl_easy_perform)   easy_perform;
        __typeof__(&(curl_easy_getinfo)) easy_getinfo;
        __typeof__(&curl_easy_cleanup)   easy_cleanup;
        __typeof__(&curl_easy_strerror)  easy_strerror;
        __typeof__(&curl_slist_append)   slist_append;
        __typeof__(&curl_slist_free_all) slist_free_all;
};

/* "<purpose> needs libcurl (libcurl.so.4), which could not be loaded: ..." when there is none. */
struct error *curl_library_open(const char *purpose, struct curl_functions *ret) NODISCARD;
