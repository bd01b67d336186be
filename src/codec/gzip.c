/* SPDX-License-Identifier: BSD-3-Clause */
/* Compression and decompression of bodies; the only file that uses zlib. */
#include "codec/gzip.h"

#define ZLIB_CONST /* next_in points to const */
#include "base/byte_budget.h"
#include "base/mem.h"

#include <string.h>
#include <zlib.h>

/* Added to the window bits: selects the header of inflateInit2() and deflateInit2(). */
#define WINDOW_ZLIB 15
#define WINDOW_GZIP (15 + 16)
#define WINDOW_DETECT (15 + 32)

#define GZIP_FIRST_BYTE 0x1f        /* RFC 1952, ID1; no zlib stream starts with it */
#define MAX_STEP (1u << 30)         /* zlib's counters have 32 bits */
#define MOVE_STEP ((size_t)4 << 20) /* for less, returning pages costs more than it saves */
#define FIRST_OUTPUT_BYTES ((size_t)4096)

const char *gzip_status_text(enum gzip_status status) {
        static const char *const texts[] = {
                [GZIP_OK] = "no error",
                [GZIP_TOO_LARGE] = "the decompressed size exceeds the maximum",
                [GZIP_CORRUPT] = "the compressed text is damaged, or neither gzip nor zlib",
                [GZIP_TRUNCATED] = "the compressed text is incomplete",
                [GZIP_TRAILING] = "the compressed text is followed by something else",
                [GZIP_NO_MEMORY] = "out of memory",
                [GZIP_OVER_BUDGET] = BYTE_BUDGET_USED_UP,
        };

        return texts[status];
}

/* zlib's memory comes from try_alloc(), so that tests can cause its failure. */
static voidpf alloc_for_zlib(voidpf opaque, uInt n, uInt size) {
        size_t bytes;

        (void)opaque;
        return size_mul(n, size, &bytes) ? try_alloc(bytes) : NULL;
}

static void free_for_zlib(voidpf opaque, voidpf memory) {
        (void)opaque;
        free(memory);
}

static void init_memory(z_stream *z) {
        *z = (z_stream){ .zalloc = alloc_for_zlib, .zfree = free_for_zlib };
}

/* Free memory for output. */
struct room {
        char  *at;
        size_t left;
};

enum reader_position {
        AT_START,  /* no byte was read */
        IN_MEMBER, /* within a member, up to its checksum */
        AT_END,    /* after a member, or after the only stream */
};

struct gzip_reader {
        z_stream             z;
        size_t               max_bytes;
        size_t               n_written;
        enum reader_position position;
        bool                 is_gzip;
        enum gzip_status     status; /* the first failure, which is kept */
};

struct gzip_reader *gzip_reader_new(size_t max_bytes) {
        struct gzip_reader *r = try_zalloc(sizeof(*r));

        if (r == NULL)
                return NULL;
        init_memory(&r->z);
        r->max_bytes = max_bytes;
        if (inflateInit2(&r->z, WINDOW_DETECT) != Z_OK) {
                free(r);
                return NULL;
        }
        return r;
}

void gzip_reader_free(struct gzip_reader *r) {
        if (r == NULL)
                return;
        inflateEnd(&r->z);
        free(r);
}

static enum gzip_status status_of(int zlib_result) {
        switch (zlib_result) {
        case Z_OK:
        case Z_STREAM_END:
        case Z_BUF_ERROR: /* no progress without more input, or more room */ return GZIP_OK;
        case Z_MEM_ERROR: return GZIP_NO_MEMORY;
        default: /* Z_DATA_ERROR; a preset dictionary (Z_NEED_DICT) is not valid in an HTTP body */
                return GZIP_CORRUPT;
        }
}

/* Begins a member at its first byte. */
static enum gzip_status enter_member(struct gzip_reader *r, struct str in) {
        bool is_gzip = (unsigned char)in.ptr[0] == GZIP_FIRST_BYTE;

        if (r->position == AT_END) {
                if (!r->is_gzip || !is_gzip)
                        return GZIP_TRAILING;
                if (inflateReset2(&r->z, WINDOW_GZIP) != Z_OK)
                        return GZIP_NO_MEMORY;
        }
        r->is_gzip = is_gzip;
        r->position = IN_MEMBER;
        return GZIP_OK;
}

/* One call of inflate() within a member. *ret_progress: bytes were read or written. */
static enum gzip_status inflate_step(struct gzip_reader *r, struct str *in, struct room *room,
                                     bool *ret_progress) {
        char   beyond; /* one byte is offered beyond the maximum, to detect longer output */
        size_t left = r->max_bytes - r->n_written;
        size_t n_in = MIN(in->len, MAX_STEP), n_out = MIN(MIN(room->left, left), MAX_STEP);
        int    result;

        r->z.next_in = (const Bytef *)in->ptr;
        r->z.avail_in = (uInt)n_in;
        r->z.next_out = (Bytef *)(left > 0 ? room->at : &beyond);
        r->z.avail_out = left > 0 ? (uInt)n_out : 1;
        result = inflate(&r->z, Z_NO_FLUSH);

        if (left == 0 && r->z.avail_out == 0)
                return GZIP_TOO_LARGE;
        n_in -= r->z.avail_in;
        n_out = left > 0 ? n_out - r->z.avail_out : 0;
        if (n_in > 0)
                *in = str_range(in->ptr + n_in, in->len - n_in);
        room->at += n_out;
        room->left -= n_out;
        r->n_written += n_out;
        *ret_progress = n_in > 0 || n_out > 0;
        if (result == Z_STREAM_END)
                r->position = AT_END;
        return status_of(result);
}

/* Reads members one after the other, until the room is full or the input ends. */
static enum gzip_status read_members(struct gzip_reader *r, struct str *in, struct room *room) {
        enum gzip_status status = GZIP_OK;
        bool             has_progress = true;

        while (status == GZIP_OK && room->left > 0 && has_progress) {
                if (r->position != IN_MEMBER) {
                        if (in->len == 0)
                                break;
                        status = enter_member(r, *in);
                        if (status != GZIP_OK)
                                break;
                }
                status = inflate_step(r, in, room, &has_progress);
        }
        return status;
}

enum gzip_status gzip_reader_read(struct gzip_reader *r, struct str *in, char *out,
                                  size_t out_bytes, size_t *ret_written) {
        struct room room = { out, out_bytes };

        if (r->status == GZIP_OK)
                r->status = read_members(r, in, &room);
        *ret_written = out_bytes - room.left;
        return r->status;
}

enum gzip_status gzip_reader_end(const struct gzip_reader *r) {
        if (r->status != GZIP_OK)
                return r->status;
        return r->position == AT_END ? GZIP_OK : GZIP_TRUNCATED;
}

/* Output of a whole body: `buf` is replaced by one of twice its size when it is full. */
struct target {
        struct buf      *buf;  /* owned */
        struct buf_pool *pool; /* borrowed */
        size_t           max_bytes;
        size_t           first_bytes; /* size of the first buffer */
        size_t           len;
};

/* Moves the output, and returns the pages of the old buffer on the way: a large body uses the
 * memory of one copy, whatever the pool keeps. */
static void move_bytes(struct buf *to, struct buf *from, size_t n) {
        size_t at = 0;

        for (; n - at > MOVE_STEP; at += MOVE_STEP) {
                memcpy(to->bytes + at, from->bytes + at, MOVE_STEP);
                mem_discard_pages(from->bytes + at, MOVE_STEP);
        }
        memcpy(to->bytes + at, from->bytes + at, n - at);
        if (at > 0)
                mem_discard_pages(from->bytes + at, n - at);
}

static enum gzip_status grow_buf(struct target *t) {
        size_t      cap = t->buf == NULL ? t->first_bytes : t->buf->cap;
        struct buf *larger;

        if (t->buf != NULL && !size_mul(cap, 2, &cap))
                return GZIP_NO_MEMORY;
        larger = buf_new(t->pool, MAX(cap, 1u));
        if (larger == NULL)
                return byte_budget_fits(buf_pool_budget(t->pool), cap) ? GZIP_NO_MEMORY
                                                                       : GZIP_OVER_BUDGET;
        if (t->buf != NULL)
                move_bytes(larger, t->buf, t->len);
        buf_unref(t->buf);
        t->buf = larger;
        return GZIP_OK;
}

/* Finds free room after the output, at least one byte. */
static enum gzip_status target_room(struct target *t, struct room *ret_room) {
        enum gzip_status status = GZIP_OK;

        if (t->len == t->max_bytes)
                return GZIP_TOO_LARGE;
        if (t->buf == NULL || t->buf->cap == t->len)
                status = grow_buf(t);
        if (status == GZIP_OK)
                *ret_room = (struct room){ t->buf->bytes + t->len, t->buf->cap - t->len };
        return status;
}

/* Keeps the output on success, frees it otherwise. */
static enum gzip_status target_finish(struct target *t, enum gzip_status status) {
        if (status == GZIP_OK && t->buf == NULL) /* no output, as for max_bytes 0 */
                status = grow_buf(t);
        if (status == GZIP_OK)
                t->buf->len = t->len;
        else
                buf_unref(t->buf);
        return status;
}

static enum gzip_status inflate_into(struct gzip_reader *r, struct str in, struct target *t) {
        enum gzip_status status;
        size_t           n_written;
        char             nothing;

        do {
                struct room room;

                status = target_room(t, &room);
                if (status == GZIP_TOO_LARGE) /* only an error if there is more output: the reader
                                               * checks */
                        room = (struct room){ &nothing, 1 };
                else if (status != GZIP_OK)
                        return status;
                status = gzip_reader_read(r, &in, room.at, room.left, &n_written);
                t->len += n_written;
                if (n_written < room.left)
                        break;
        } while (status == GZIP_OK);
        return status == GZIP_OK ? gzip_reader_end(r) : status;
}

enum gzip_status gzip_inflate_buf(struct str in, size_t max_bytes, struct buf_pool *pool,
                                  struct buf **ret_buf) {
        struct target       t = { .pool = pool, .max_bytes = max_bytes };
        struct gzip_reader *r = gzip_reader_new(max_bytes);
        enum gzip_status    status = GZIP_NO_MEMORY;

        if (!size_mul(in.len, 4, &t.first_bytes)) /* text and JSON shrink to about a quarter */
                t.first_bytes = SIZE_MAX;
        t.first_bytes = MIN(MAX(t.first_bytes, FIRST_OUTPUT_BYTES), MAX(max_bytes, 1u));
        if (r != NULL)
                status = inflate_into(r, in, &t);
        gzip_reader_free(r);
        status = target_finish(&t, status);
        if (status == GZIP_OK)
                *ret_buf = t.buf;
        return status;
}

/* Compresses one part; `flush` is Z_FINISH for the last. */
static enum gzip_status deflate_part(z_stream *z, struct str part, int flush, struct target *t) {
        int result = Z_OK;

        do {
                struct room      room;
                enum gzip_status status = target_room(t, &room);
                size_t           n_in = MIN(part.len, MAX_STEP), n_out;

                if (status != GZIP_OK)
                        return status;
                n_out = MIN(room.left, MAX_STEP);
                z->next_in = (const Bytef *)part.ptr;
                z->avail_in = (uInt)n_in;
                z->next_out = (Bytef *)room.at;
                z->avail_out = (uInt)n_out;
                result = deflate(z, flush);
                if (status_of(result) != GZIP_OK)
                        return status_of(result);
                n_in -= z->avail_in;
                part = str_skip(part, n_in);
                t->len += n_out - z->avail_out;
        } while (part.len > 0 || (flush == Z_FINISH && result != Z_STREAM_END));
        return GZIP_OK;
}

static enum gzip_status deflate_parts(z_stream *z, const struct iovec *parts, size_t n_parts,
                                      struct target *t) {
        for (size_t i = 0; i < n_parts; i++) {
                struct str       part = str_range(parts[i].iov_base, parts[i].iov_len);
                enum gzip_status status =
                        part.len > 0 ? deflate_part(z, part, Z_NO_FLUSH, t) : GZIP_OK;

                if (status != GZIP_OK)
                        return status;
        }
        return deflate_part(z, STR_LIT(""), Z_FINISH, t);
}

static enum gzip_status deflate_whole(enum gzip_format format, const struct iovec *parts,
                                      size_t n_parts, struct target *t) {
        int              window = format == GZIP_FORMAT_GZIP ? WINDOW_GZIP : WINDOW_ZLIB;
        size_t           total = 0;
        enum gzip_status status;
        z_stream         z;

        for (size_t i = 0; i < n_parts; i++) {
                if (!size_add(total, parts[i].iov_len, &total))
                        return target_finish(t, GZIP_TOO_LARGE);
        }
        init_memory(&z);
        /* The fastest level: it has most of the gain on JSON and tensors, at a third of the time of
         * the default level, and the client waits. 8 is zlib's default memory level. */
        if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
                return target_finish(t, GZIP_NO_MEMORY);
        t->first_bytes = MAX(deflateBound(&z, total), FIRST_OUTPUT_BYTES);
        status = deflate_parts(&z, parts, n_parts, t);
        deflateEnd(&z);
        return target_finish(t, status);
}

enum gzip_status gzip_deflate_buf(enum gzip_format format, const struct iovec *parts,
                                  size_t n_parts, struct buf_pool *pool, struct buf **ret_buf) {
        struct target    t = { .pool = pool, .max_bytes = SIZE_MAX };
        enum gzip_status status = deflate_whole(format, parts, n_parts, &t);

        if (status == GZIP_OK)
                *ret_buf = t.buf;
        return status;
}
