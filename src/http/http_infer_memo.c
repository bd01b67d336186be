/* SPDX-License-Identifier: BSD-3-Clause */
#include "http/http_infer_memo.h"

#include "base/compiler.h"
#include "base/mem.h"

#include <string.h>

/* One of few inputs and outputs, with its text, needs no other block. */
#define KEPT_BYTES 2048
#define KEPT_MORE_BYTES ((size_t)16 << 10)

/* Many more than texts are kept: others that come once each push them out. */
#define N_MISSED 64

struct http_infer_kept {
        uint32_t             n_refs;
        const char          *json;    /* in arena; its length is in the slot */
        struct infer_request request; /* in arena, but that the bytes of inputs are of a body */
        struct arena         arena;
        _Alignas(ARENA_ALIGNMENT) char memory[KEPT_BYTES];
};

struct slot {
        size_t                  json_bytes; /* 0 = empty */
        size_t                  body_bytes;
        struct http_infer_kept *kept; /* ref */
};

struct http_infer_memo {
        struct slot slots[HTTP_INFER_MEMO_SIZE];
        uint32_t    latest;           /* found or kept last */
        uint32_t    oldest;           /* the next to be replaced */
        uint64_t    missed[N_MISSED]; /* marks of texts that came once */
};

struct http_infer_memo *http_infer_memo_new(void) {
        return mem_zalloc(sizeof(struct http_infer_memo));
}

void http_infer_memo_free(struct http_infer_memo *m) {
        if (!m)
                return;
        for (size_t i = 0; i < HTTP_INFER_MEMO_SIZE; i++)
                http_infer_kept_unref(m->slots[i].kept);
        free(m);
}

void http_infer_kept_unref(struct http_infer_kept *k) {
        if (!k || --k->n_refs > 0)
                return;
        arena_done(&k->arena);
        free(k);
}

/* ---- a request that is found ---- */

static struct http_infer_kept *find(struct http_infer_memo *m, const struct http_infer_source *s) {
        for (uint32_t n = 0, at = m->latest; n < HTTP_INFER_MEMO_SIZE; n++) {
                const struct slot *slot = &m->slots[at];

                if (slot->json_bytes == s->json_bytes && slot->body_bytes == s->body.len &&
                    memcmp(slot->kept->json, s->body.ptr, s->json_bytes) == 0) {
                        m->latest = at;
                        return slot->kept;
                }
                at = (at + 1) % HTTP_INFER_MEMO_SIZE;
        }
        return NULL;
}

static struct error *copy_inputs(const struct http_infer_kept *k, const struct http_infer_source *s,
                                 struct infer_request *q) {
        uint32_t            n = k->request.n_inputs;
        const char         *at = s->body.ptr + s->json_bytes;
        struct infer_input *inputs = arena_try_alloc(s->arena, n * sizeof(*inputs));

        if (!inputs)
                return infer_no_memory();
        for (uint32_t i = 0; i < n; i++) {
                inputs[i] = k->request.inputs[i];
                inputs[i].bytes.ptr = at;
                at += inputs[i].bytes.len;
        }
        q->inputs = inputs;
        q->n_inputs = n;
        return NULL;
}

static struct error *copy_parameters(const struct http_infer_kept   *k,
                                     const struct http_infer_source *s, struct infer_request *q) {
        struct infer_parameter *copy;

        for (uint32_t i = 0; i < k->request.n_parameters; i++) {
                TRY(infer_request_add_parameter(q, s->arena, &copy));
                *copy = k->request.parameters[i];
        }
        return NULL;
}

static struct error *give(struct http_infer_kept *k, const struct http_infer_source *s,
                          struct infer_request *ret, struct http_infer_kept **ret_kept) {
        *ret = k->request;
        ret->inputs = NULL;
        ret->parameters = NULL;
        ret->n_inputs = ret->n_parameters = 0;
        TRY(copy_inputs(k, s, ret));
        TRY(copy_parameters(k, s, ret));
        k->n_refs++;
        *ret_kept = k;
        return NULL;
}

/* ---- a request to be kept ---- */

/* The inputs are the bytes behind the JSON, each in its turn. */
static bool can_keep(const struct http_infer_source *s, const struct infer_request *q) {
        const char *at = s->body.ptr + s->json_bytes;

        for (uint32_t i = 0; i < q->n_inputs; i++) {
                const struct infer_input *in = &q->inputs[i];

                if (in->bytes.ptr != at || in->converted || in->shared_memory.region)
                        return false;
                at += in->bytes.len;
        }
        return at == s->body.ptr + s->body.len;
}

static uint64_t mix(uint64_t mark, uint64_t word) {
        /* 2^64 / the golden ratio: an odd number with bits all over */
        mark = (mark ^ word) * 0x9E3779B97F4A7C15;
        return mark ^ mark >> 32;
}

/* A number that other texts hardly ever have. If they do, one is kept too early. */
static uint64_t mark_of(const struct http_infer_source *s) {
        const char *at = s->body.ptr;
        uint64_t    mark = s->body.len, word;
        size_t      left = s->json_bytes;

        for (; left >= sizeof(word); left -= sizeof(word), at += sizeof(word)) {
                memcpy(&word, at, sizeof(word));
                mark = mix(mark, word);
        }
        word = 0;
        memcpy(&word, at, left);
        return mix(mark, word);
}

static bool comes_again(struct http_infer_memo *m, const struct http_infer_source *s) {
        uint64_t  mark = mark_of(s);
        uint64_t *missed = &m->missed[mark % N_MISSED];
        bool      is_known = *missed == mark;

        *missed = mark;
        return is_known;
}

/* NULL when its memory does not do. */
static struct http_infer_kept *make_kept(const struct http_infer_source *s) {
        struct http_infer_source source = *s;
        struct http_infer_kept  *k = try_alloc(sizeof(*k));
        struct error            *err;

        if (!k)
                return NULL;
        k->n_refs = 1;
        arena_init(&k->arena, k->memory, sizeof(k->memory), KEPT_MORE_BYTES);
        source.arena = &k->arena;
        k->json = arena_try_str(&k->arena, str_range(s->body.ptr, s->json_bytes));
        err = http_infer_decode(&source, &k->request);
        if (!err && k->json)
                return k;
        error_free(err);
        http_infer_kept_unref(k);
        return NULL;
}

static void keep(struct http_infer_memo *m, const struct http_infer_source *s) {
        struct http_infer_kept *k = make_kept(s);

        if (!k)
                return;
        if (m->oldest == m->latest)
                m->oldest = (m->oldest + 1) % HTTP_INFER_MEMO_SIZE;
        http_infer_kept_unref(m->slots[m->oldest].kept);
        m->slots[m->oldest] = (struct slot){ s->json_bytes, s->body.len, k };
        m->latest = m->oldest;
        m->oldest = (m->oldest + 1) % HTTP_INFER_MEMO_SIZE;
}

struct error *http_infer_memo_decode(struct http_infer_memo         *m,
                                     const struct http_infer_source *source,
                                     struct infer_request *ret, struct http_infer_kept **ret_kept) {
        /* Neither raw nor JSON alone. */
        bool has_both = source->json_bytes > 0 && source->json_bytes < source->body.len;
        struct http_infer_kept *k;

        *ret_kept = NULL;
        if (!m)
                return http_infer_decode(source, ret);
        k = has_both ? find(m, source) : NULL;
        if (k)
                return give(k, source, ret, ret_kept);
        TRY(http_infer_decode(source, ret));
        if (has_both && source->json_bytes <= HTTP_INFER_MEMO_TEXT_BYTES && can_keep(source, ret) &&
            comes_again(m, source))
                keep(m, source);
        return NULL;
}
