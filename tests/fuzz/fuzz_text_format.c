/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as config.pbtxt. What is read is printed as JSON; that JSON must be readable, and give
 * the same JSON again. The same bytes are read to their end, mistakes or not.
 */
#include "base/strbuf.h"
#include "codec/pb_json.h"
#include "codec/pb_text.h"
#include "codec/pb_text_review.h"
#include "model_config.pb-c.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define TYPE (&inference__model_config__descriptor)

static void stop(const char *what, struct error *err, const struct strbuf *json) {
        fprintf(stderr, "%s: %s\n%s\n", what, err != NULL ? err->message : "", strbuf_cstr(json));
        abort();
}

static void check_round_trip(const ProtobufCMessage *message, struct arena *arena) {
        ProtobufCMessage *again = NULL;
        AUTO_STRBUF       first;
        AUTO_STRBUF       second;
        struct error     *err;

        strbuf_init(&first, 0);
        strbuf_init(&second, 0);
        pb_json_print(message, NULL, &first);
        err = pb_json_read(TYPE, strbuf_str(&first), arena, &again);
        if (err != NULL)
                stop("printed JSON cannot be read", err, &first);
        pb_json_print(again, NULL, &second);
        if (!str_equal(strbuf_str(&first), strbuf_str(&second)))
                stop("JSON changed", NULL, &first);
}

/* Also in texts that cannot be read: what is found lies within. */
static void find_places(struct str text, const struct pb_text_review *review) {
        static const char *const paths[] = { "name", "input[0].dims[1]", "output[1].reshape.shape",
                                             "instance_group[0].kind", "parameters[2].value" };
        struct pb_place          place = { 1, 1 };

        for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
                if (pb_text_review_find(review, paths[i], &place) &&
                    (place.line == 0 || place.line > text.len + 1 || place.column == 0 ||
                     place.column > text.len + 1))
                        stop("a place outside of the text", NULL, &(struct strbuf){ .ptr = NULL });
}

static void on_error(void *owner, struct error *err) {
        size_t *n_errors = owner;

        ++*n_errors;
        if (!str_is_utf8(str_of(err->message)))
                stop("report is not UTF-8", err, &(struct strbuf){ .ptr = NULL });
        error_free(err);
}

/* A text is right for one reader when it is for the other. */
static void read_all(struct str text, bool is_right) {
        size_t                n_errors = 0;
        struct pb_text_review review;
        struct arena          arena;
        ProtobufCMessage     *message = NULL;
        struct error         *err;

        arena_init(&arena, NULL, 0, 64u << 20);
        pb_text_review_init(&review, on_error, &n_errors);
        err = pb_text_read_all(&review, TYPE, text, "config.pbtxt", &arena, &message);
        if (n_errors > PB_REVIEW_MAX_ERRORS || n_errors != review.n_errors ||
            review.n_places > PB_REVIEW_MAX_PLACES ||
            (err == NULL && (n_errors == 0) != is_right) || (err == NULL && message == NULL))
                stop("review", err, &(struct strbuf){ .ptr = NULL });
        if (message != NULL)
                check_round_trip(message, &arena);
        find_places(text, &review);
        (void)pb_doubts_touch(&review.doubts, STR_LIT("input[0].dims[0]"));
        error_free(err);
        pb_text_review_done(&review);
        arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        struct str        text = str_range((const char *)bytes, size);
        struct arena      arena;
        ProtobufCMessage *message = NULL;
        struct error     *err;

        arena_init(&arena, NULL, 0, 64u << 20);
        err = pb_text_read(TYPE, text, "config.pbtxt", &arena, &message);
        if (err != NULL && !str_is_utf8(str_of(err->message)))
                stop("error is not UTF-8", err, &(struct strbuf){ .ptr = NULL });
        if (err == NULL)
                check_round_trip(message, &arena);
        read_all(text, err == NULL);
        error_free(err);
        arena_done(&arena);
        return 0;
}
