/* SPDX-License-Identifier: BSD-3-Clause */
/* Definitions for all shims of the C API: the public names of core types, and argument checks.
 *
 * A public object *is* the core's object under another name: TRITONSERVER_Error is struct error, and so
 * on. DEFINE_API_TYPE() defines the two conversions for a type; types that many shims need are defined
 * here, the others in the file that uses them. A shim checks its arguments, calls the core and
 * converts; it holds no logic.
 *
 * API_TRY() and API_NEEDS() are TRY() for functions that return a public error. API_GETTER() and
 * API_SETTER() define whole shims.
 */
#pragma once

#include "base/compiler.h"
#include "base/error.h"
#include "infer/buffer_attributes.h"
#include "infer/message.h"
#include "infer/parameter.h"
#include "infer/response_allocator.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>

/* <core_type>_to_api() and <core_type>_from_api(): the same pointer under its other name. */
#define DEFINE_API_TYPE(public_type, core_type)                                                    \
        UNUSED static inline struct public_type *core_type##_to_api(struct core_type *object) {    \
                return (struct public_type *)object;                                               \
        }                                                                                          \
        UNUSED static inline struct core_type *core_type##_from_api(struct public_type *object) {  \
                return (struct core_type *)object;                                                 \
        }

DEFINE_API_TYPE(TRITONSERVER_Error, error)
DEFINE_API_TYPE(TRITONSERVER_Message, message)
DEFINE_API_TYPE(TRITONSERVER_Parameter, parameter)
DEFINE_API_TYPE(TRITONSERVER_BufferAttributes, buffer_attributes)
DEFINE_API_TYPE(TRITONSERVER_ResponseAllocator, response_allocator)

/* A cast through this type converts between function types without a warning. */
typedef void (*any_fn)(void);

/* INVALID_ARG "<function>: argument '<name>' must not be NULL". */
struct error *api_null_argument(const char *function, const char *name) COLD;

/* INVALID_ARG "<function>: <value> is no valid <what>". */
struct error *api_bad_value(const char *function, const char *what, long long value) COLD;

struct model_config;
/* Gives the configuration as a message of JSON. */
struct TRITONSERVER_Error *api_print_config(const struct model_config *config, uint32_t version,
                                            struct TRITONSERVER_Message **ret);

/* Returns from the shim with the error of `expression`, if there is one. */
#define API_TRY(expression)                                                                        \
        do {                                                                                       \
                struct error *api_err_ = (expression);                                             \
                if (api_err_ != NULL)                                                              \
                        return error_to_api(api_err_);                                             \
        } while (0)

/* Returns from the shim with INVALID_ARG, which names the first of one to six required pointers that is
 * NULL. */
#define API_NEEDS(...)                                                                             \
        API_NEEDS_CHOOSE(__VA_ARGS__, API_NEEDS_6, API_NEEDS_5, API_NEEDS_4, API_NEEDS_3,          \
                         API_NEEDS_2, API_NEEDS_1, )                                               \
        (__VA_ARGS__)
#define API_NEEDS_CHOOSE(a, b, c, d, e, f, chosen, ...) chosen
#define API_NEEDS_1(argument)                                                                      \
        do {                                                                                       \
                if ((argument) == NULL)                                                            \
                        return error_to_api(api_null_argument(__func__, #argument));               \
        } while (0)
/* clang-format off */
#define API_NEEDS_2(argument, ...) API_NEEDS_1(argument); API_NEEDS_1(__VA_ARGS__)
#define API_NEEDS_3(argument, ...) API_NEEDS_1(argument); API_NEEDS_2(__VA_ARGS__)
#define API_NEEDS_4(argument, ...) API_NEEDS_1(argument); API_NEEDS_3(__VA_ARGS__)
#define API_NEEDS_5(argument, ...) API_NEEDS_1(argument); API_NEEDS_4(__VA_ARGS__)
#define API_NEEDS_6(argument, ...) API_NEEDS_1(argument); API_NEEDS_5(__VA_ARGS__)
/* clang-format on */

/* Defines the shim `name`, which gives a property of an object: *value becomes `expression`, which may
 * use `object`. */
#define API_GETTER(name, object_type, object, value_type, value, expression)                       \
        struct TRITONSERVER_Error *name(object_type *object, value_type *value) {                  \
                API_NEEDS(object, value);                                                          \
                *value = (expression);                                                             \
                return NULL;                                                                       \
        }

/* Defines the shim `name`, which sets `field`, a place in `object`, to a value. */
#define API_SETTER(name, object_type, object, value_type, value, field)                            \
        struct TRITONSERVER_Error *name(object_type *object, value_type value) {                   \
                API_NEEDS(object);                                                                 \
                (field) = value;                                                                   \
                return NULL;                                                                       \
        }
