/* SPDX-License-Identifier: BSD-3-Clause */
/* The only place where GNU extensions of the C dialect are spelled out.
 *
 * AUTO(type) declares a variable that is released when its scope ends; the release function is
 * declared beside each type with DEFINE_CLEANUP(). steal() hands a value out of such a variable.
 */
#pragma once

#include <stddef.h>

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NODISCARD __attribute__((warn_unused_result))
#define UNUSED __attribute__((unused))
#define NORETURN __attribute__((noreturn))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((cold, noinline))
/* Compiles a function for processors with these features; callers check for them first. */
#define TARGET(features) __attribute__((target(features)))
/* Runs when the library is closed, or the process ends. */
#define DESTRUCTOR __attribute__((destructor))
/* Under ASan or TSan, which detect a use after free only if the memory was really freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#define IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define IS_SANITIZED 0
#endif
/* Unit in which processors fetch memory, in bytes. Data that is used together lies in one line, and
 * data that different threads write lies in different ones. */
#define CACHE_LINE_BYTES 64
/* For a thread-local variable: its address is fixed when the library is loaded, so that a signal
 * handler can read it. For small variables only: the space for them is limited. */
#define TLS_EARLY __attribute__((tls_model("initial-exec")))

/* Runs `fn(&variable)` when the variable leaves its scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Declares `name`, a cleanup function for variables of `type` that calls `call(*variable)`. */
#define DEFINE_CLEANUP(name, type, call)                                                           \
        static inline void name(type *variable) {                                                  \
                call(*variable);                                                                   \
        }

/* Value of a pointer variable, which becomes NULL: ownership leaves the variable. */
#define STEAL(pointer)                                                                             \
        __extension__({                                                                            \
                __typeof__(pointer) stolen_ = (pointer);                                           \
                (pointer) = NULL;                                                                  \
                stolen_;                                                                           \
        })

/* The struct of `type` whose member `member` is at `pointer`. */
#define CONTAINER_OF(pointer, type, member)                                                        \
        ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Holds the whole product of two 64-bit words. */
__extension__ typedef unsigned __int128 uint128;

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
