/* SPDX-License-Identifier: BSD-3-Clause */
/* What the testing backend does for sequences. */
#include "kit/input.h"
#include "testing/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ID 256

/* False: the request has none. */
static bool read_id(TRITONBACKEND_Request *request, char ret[MAX_ID]) {
        const char         *text = "";
        uint64_t            number = 0;
        TRITONSERVER_Error *err = TRITONBACKEND_RequestCorrelationId(request, &number);

        if (err == NULL) {
                snprintf(ret, MAX_ID, "%llu", (unsigned long long)number);
                return number != 0;
        }
        TRITONSERVER_ErrorDelete(err);
        err = TRITONBACKEND_RequestCorrelationIdString(request, &text);
        if (err != NULL) {
                TRITONSERVER_ErrorDelete(err);
                return false;
        }
        snprintf(ret, MAX_ID, "'%s'", text);
        return true;
}

bool testing_sequence_begins(TRITONBACKEND_Request *request) {
        uint32_t            flags = 0;
        TRITONSERVER_Error *err = TRITONBACKEND_RequestFlags(request, &flags);

        if (err != NULL)
                TRITONSERVER_ErrorDelete(err);
        return (flags & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START) != 0;
}

struct testing_sequence *testing_sequence_of(struct testing_instance *instance,
                                             TRITONBACKEND_Request   *request) {
        struct testing_sequence *s = instance->sequences;
        char                     id[MAX_ID];

        if (!read_id(request, id))
                return NULL;
        while (s != NULL && strcmp(s->id, id) != 0)
                s = s->next;
        if (s == NULL) {
                s = malloc(sizeof(*s) + strlen(id) + 1);
                if (s == NULL)
                        return NULL;
                *s = (struct testing_sequence){ .next = instance->sequences };
                strcpy(s->id, id);
                instance->sequences = s;
        }
        return s;
}

int32_t testing_first_value(TRITONBACKEND_Request *request) {
        struct kit_input input;
        void            *bytes;
        int32_t          value = 0;

        if (!kit_input_find(request, "INPUT0", &input) || input.n_bytes < sizeof(value) ||
            (bytes = malloc(input.n_bytes)) == NULL)
                return 0;
        kit_error_log(kit_input_copy(&input, bytes), "a value cannot be read");
        memcpy(&value, bytes, sizeof(value));
        free(bytes);
        return value;
}

void testing_sequences_free(struct testing_instance *instance) {
        for (struct testing_sequence *s = instance->sequences, *next; s != NULL; s = next) {
                next = s->next;
                free(s);
        }
}
