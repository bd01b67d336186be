/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_shm_decode.h"

#include "http/http_infer_reading.h"

enum member { MEMBER_KEY, MEMBER_OFFSET, MEMBER_BYTE_SIZE, N_MEMBERS };

struct scan {
        bool          is_seen[N_MEMBERS];
        struct error *faults[N_MEMBERS]; /* each NULL or to be freed */
};

static enum member find_member(struct str key) {
        if (STR_IS(key, "key"))
                return MEMBER_KEY;
        if (STR_IS(key, "offset"))
                return MEMBER_OFFSET;
        return STR_IS(key, "byte_size") ? MEMBER_BYTE_SIZE : N_MEMBERS;
}

static struct error *read_member(struct http_infer_reading *d, enum member m,
                                 struct shm_place *place) {
        switch (m) {
        case MEMBER_KEY: return http_infer_read_text(d, "key", &place->key);
        case MEMBER_OFFSET: return http_infer_read_u64(d, "offset", &place->offset);
        case MEMBER_BYTE_SIZE: return http_infer_read_u64(d, "byte_size", &place->byte_size);
        case N_MEMBERS: break;
        }
        return NULL;
}

static void read_document(struct http_infer_reading *d, struct scan *s, struct shm_place *place) {
        struct str key;

        if (!json_try_enter(&d->json, JSON_OBJECT)) {
                json_skip(&d->json);
                json_read_end(&d->json);
                return;
        }
        while (json_next_key(&d->json, d->source->arena, &key)) {
                enum member m = find_member(key);

                if (m == N_MEMBERS || s->is_seen[m]) {
                        json_skip(&d->json);
                        continue;
                }
                s->is_seen[m] = true;
                s->faults[m] = read_member(d, m, place);
        }
        json_read_end(&d->json);
}

static struct error *missing(const char *member) {
        return error_new(ERR_INVALID_ARG, "Shared memory register request has no '%s' field",
                         member);
}

/* The fault to tell moves out of the scan. */
static struct error *finish(const struct http_infer_reading *d, struct scan *s) {
        if (json_failed(&d->json))
                return json_syntax_error(&d->json);
        if (!s->is_seen[MEMBER_KEY])
                return missing("key");
        if (s->faults[MEMBER_KEY])
                return STEAL(s->faults[MEMBER_KEY]);
        if (s->faults[MEMBER_OFFSET])
                return STEAL(s->faults[MEMBER_OFFSET]);
        if (!s->is_seen[MEMBER_BYTE_SIZE])
                return missing("byte_size");
        return STEAL(s->faults[MEMBER_BYTE_SIZE]);
}

struct error *http_shm_decode(struct str body, struct arena *arena, struct shm_place *ret) {
        struct http_infer_source  source = { .body = body, .json_bytes = body.len, .arena = arena };
        struct http_infer_reading d = { .source = &source };
        struct scan               s = { 0 };
        struct shm_place          place = { 0 };
        struct error             *err;

        json_reader_init(&d.json, body);
        read_document(&d, &s, &place);
        err = finish(&d, &s);
        for (size_t i = 0; i < N_MEMBERS; i++)
                error_free(s.faults[i]);
        if (err)
                return err;
        ret->key = place.key;
        ret->offset = place.offset;
        ret->byte_size = place.byte_size;
        return NULL;
}
