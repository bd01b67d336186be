/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/settings.h"

#include "kit/errors.h"
#include "kit/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Decimal digits only, more than 0. */
static bool read_bytes(const char *text, size_t len, size_t *ret) {
        size_t value = 0;

        for (size_t i = 0; i < len; i++)
                if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (size_t)(text[i] - '0'), &value))
                        return false;
        *ret = value;
        return value > 0;
}

static TRITONSERVER_Error *read_size(const struct kit_json_value *value, size_t *ret) {
        const char *text = "";
        size_t      len = 0;

        if (value->type == KIT_JSON_STRING) {
                text = value->text;
                len = strlen(text);
        } else if (value->type == KIT_JSON_NUMBER) {
                text = value->text; /* not terminated */
                len = value->end - value->begin;
        }
        if (read_bytes(text, len, ret))
                return NULL;
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "'size' of the local cache must be a number of bytes greater than 0, got "
                         "'%.*s'",
                         (int)(len < 100 ? len : 100), text);
}

static TRITONSERVER_Error *read_all(const struct kit_json_value *root, struct settings *ret) {
        bool has_size = false;

        if (root->type != KIT_JSON_OBJECT)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the configuration of the local cache is not a JSON object");
        for (const struct kit_json_value *v = root->first; v != NULL; v = v->next) {
                if (strcmp(v->key, "size") != 0)
                        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                         "unknown setting '%s' of the local cache; there is only "
                                         "'size'",
                                         v->key);
                KIT_TRY(read_size(v, &ret->size));
                has_size = true;
        }
        if (!has_size)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the local cache needs the setting 'size', in bytes");
        return NULL;
}

TRITONSERVER_Error *settings_read(const char *config, struct settings *ret) {
        struct kit_json    *doc;
        TRITONSERVER_Error *err;

        KIT_TRY(kit_json_read(config, strlen(config), "the configuration of the local cache",
                              &doc));
        err = read_all(kit_json_root(doc), ret);
        kit_json_free(doc);
        return err;
}
