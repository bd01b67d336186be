/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection of HTTP/2 to the gRPC port of the whole server: nghttp2's session, the calls, the methods of
 * the service and the core.
 *
 * After a first byte for the size of the pieces and the time of the client's end, the input is a list of steps, which become frames: a byte
 * says what, the next ones the rest. So a few
 * changed bytes make another call, not a connection that ends at its first frame. fuzz_http2.c has the
 * frames of which nothing is right.
 *
 *     0 m f           HEADERS of the next stream, method m of the table, f: flags below
 *     1 s f n n ...   DATA of stream s: a message of n bytes with gRPC's five bytes before it
 *     2 s f n n ...   DATA of stream s without them
 *     3 s c           RST_STREAM with code c
 *     4 s n n         WINDOW_UPDATE
 *     5 i v v         SETTINGS: one of the six
 *     6 t f s n ...   a frame of that type, flags, stream and payload
 *
 * What must hold: what comes back is frames, and the connection ends after the client has closed its side.
 */
#include "base/compiler.h"
#include "base/error.h"
#include "grpc/rpc_table.h"
#include "shm/shared_memory.h"
#include "whole_server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_STEPS 256
#define MAX_ANSWER_BYTES ((size_t)64 << 20)
#define FRAME_HEAD_BYTES 9
#define REGION                                                                                     \
        "/neso_fuzz_region" /* a fixed name: seeds have it; other programs may use it meanwhile */
#define REGION_BYTES 4096

enum { FRAME_DATA, FRAME_HEADERS, FRAME_RST_STREAM = 3, FRAME_SETTINGS, FRAME_WINDOW_UPDATE = 8 };
enum { FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };
/* Of step 0. */
enum {
        ENDS = 1,
        WITH_TIMEOUT = 2,
        WITH_GZIP = 4,
        WITH_ACCEPT = 8,
        WRONG_TYPE = 16,
        WRONG_PATH = 32
};

struct reader {
        const uint8_t *at;
        size_t         left;
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static unsigned next_byte(struct reader *r) {
        if (r->left == 0)
                return 0;
        r->left--;
        return *r->at++;
}

static unsigned next_word(struct reader *r) {
        unsigned high = next_byte(r);

        return high << 8 | next_byte(r);
}

static struct str next_bytes(struct reader *r, size_t n) {
        struct str s = str_range((const char *)r->at, MIN(n, r->left));

        r->at += s.len;
        r->left -= s.len;
        return s;
}

static void put_number(struct strbuf *out, uint64_t number, unsigned n_bytes) {
        while (n_bytes-- > 0)
                strbuf_putc(out, (char)(number >> 8 * n_bytes));
}

static void put_frame(struct strbuf *out, unsigned type, unsigned flags, uint32_t stream,
                      struct str payload) {
        put_number(out, payload.len, 3);
        put_number(out, type, 1);
        put_number(out, flags, 1);
        put_number(out, stream, 4);
        strbuf_put(out, payload.ptr, payload.len);
}

/* HPACK: a literal that is not indexed, without Huffman's code. */
static void put_field(struct strbuf *out, const char *name, const char *value) {
        put_number(out, 0, 1);
        put_number(out, strlen(name) & 0x7f, 1);
        strbuf_puts(out, name);
        if (strlen(value) < 0x7f) {
                put_number(out, strlen(value), 1);
        } else {
                put_number(out, 0x7f, 1);
                put_number(out, (strlen(value) - 0x7f) & 0x7f, 1);
        }
        strbuf_puts(out, value);
}

static void put_headers(struct strbuf *out, struct reader *r, uint32_t stream) {
        struct grpc_method_table methods = rpc_table();
        const char              *path = methods.rows[next_byte(r) % methods.n_rows].path;
        unsigned                 how = next_byte(r);
        AUTO_STRBUF              block;

        strbuf_init(&block, 0);
        put_field(&block, ":method", "POST");
        put_field(&block, ":scheme", "http");
        put_field(&block, ":path", how & WRONG_PATH ? "/inference.GRPCInferenceService/No" : path);
        put_field(&block, ":authority", "fuzz");
        put_field(&block, "te", "trailers");
        put_field(&block, "content-type", how & WRONG_TYPE ? "text/plain" : "application/grpc");
        if (how & WITH_TIMEOUT)
                put_field(&block, "grpc-timeout", "20m");
        if (how & WITH_GZIP)
                put_field(&block, "grpc-encoding", "gzip");
        if (how & WITH_ACCEPT)
                put_field(&block, "grpc-accept-encoding", "gzip");
        put_frame(out, FRAME_HEADERS, FLAG_END_HEADERS | (how & ENDS ? FLAG_END_STREAM : 0), stream,
                  strbuf_str(&block));
}

static uint32_t next_stream(struct reader *r) {
        return 1 + 2 * (next_byte(r) % 16);
}

static void put_data(struct strbuf *out, struct reader *r, bool is_message) {
        uint32_t    stream = next_stream(r);
        unsigned    flags = next_byte(r);
        struct str  bytes = next_bytes(r, next_word(r));
        AUTO_STRBUF payload;

        strbuf_init(&payload, 0);
        if (is_message) {
                put_number(&payload, flags >> 1 & 1, 1);
                put_number(&payload, bytes.len, 4);
        }
        strbuf_put(&payload, bytes.ptr, bytes.len);
        put_frame(out, FRAME_DATA, flags & FLAG_END_STREAM, stream, strbuf_str(&payload));
}

static void put_one_number(struct strbuf *out, unsigned type, uint32_t stream, uint32_t number) {
        char bytes[4] = { (char)(number >> 24), (char)(number >> 16), (char)(number >> 8),
                          (char)number };

        put_frame(out, type, 0, stream, str_range(bytes, sizeof(bytes)));
}

static void put_setting(struct strbuf *out, struct reader *r) {
        AUTO_STRBUF payload;

        strbuf_init(&payload, 0);
        put_number(&payload, 1 + next_byte(r) % 6, 2);
        put_number(&payload, next_word(r), 4);
        put_frame(out, FRAME_SETTINGS, 0, 0, strbuf_str(&payload));
}

static void put_any(struct strbuf *out, struct reader *r) {
        unsigned   type = next_byte(r), flags = next_byte(r), stream = next_byte(r);
        struct str payload = next_bytes(r, next_byte(r));

        put_frame(out, type, flags, stream, payload);
}

static void put_all(struct strbuf *out, struct reader *r) {
        uint32_t stream = 1, to;

        for (unsigned i = 0; r->left > 0 && i < MAX_STEPS; i++)
                switch (next_byte(r) % 7) {
                case 0:
                        put_headers(out, r, stream);
                        stream += 2;
                        break;
                case 1: put_data(out, r, true); break;
                case 2: put_data(out, r, false); break;
                case 3:
                        to = next_stream(r);
                        put_one_number(out, FRAME_RST_STREAM, to, next_byte(r));
                        break;
                case 4:
                        to = next_stream(r) - 1;
                        put_one_number(out, FRAME_WINDOW_UPDATE, to > 0 ? to + 1 : 0, next_word(r));
                        break;
                case 5: put_setting(out, r); break;
                default: put_any(out, r);
                }
}

/* A connection that ends while frames are written may end within one. */
static void check_frames(struct str in) {
        while (in.len >= FRAME_HEAD_BYTES) {
                const unsigned char *head = (const unsigned char *)in.ptr;
                size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

                if (head[3] > 9 || (head[5] & 0x80) != 0 || length > 1 << 14)
                        abort();
                if (in.len < FRAME_HEAD_BYTES + length)
                        return;
                in = str_range(in.ptr + FRAME_HEAD_BYTES + length,
                               in.len - FRAME_HEAD_BYTES - length);
        }
}

/* Clients may register it; each input begins without regions. */
static void make_region_once(void) {
        static bool is_made;
        int         fd;

        if (is_made)
                return;
        is_made = true;
        fd = shm_open(REGION, O_RDWR | O_CREAT, 0600);
        if (fd < 0 || ftruncate(fd, REGION_BYTES) != 0)
                abort();
        close(fd);
}

static void forget_regions(struct shared_memory *regions) {
        struct error *err = shared_memory_unregister(regions, SHARED_MEMORY_SYSTEM, STR_LIT(""));

        if (err != NULL)
                abort();
}

/* `how`: as whole_server_talk_http(), in units of 16 bytes. */
static bool talk(uint16_t port, struct str bytes, uint8_t how, struct strbuf *answers) {
        size_t piece = (how & ~WHOLE_CLOSES_AT_ONCE) * (size_t)16;

        return (how & WHOLE_CLOSES_AT_ONCE) != 0
                       ? whole_server_talk(port, bytes, piece, answers)
                       : whole_server_talk_to_end(port, bytes, STR_LIT(""), piece, answers);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
        static const char          preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                               "\0\0\0\4\0\0\0\0\0";
        const struct whole_server *s = whole_server_get(
                &(struct whole_server_options){ .is_full = true, .has_regions = true });
        AUTO_STRBUF   out, answers;
        struct reader r;

        strbuf_init(&out, 0);
        strbuf_init(&answers, MAX_ANSWER_BYTES);
        if (size < 2 || whole_server_is_slow(str_range((const char *)bytes, size)))
                return 0;
        make_region_once();
        forget_regions(s->regions);
        r = (struct reader){ bytes + 1, size - 1 };
        strbuf_put(&out, preface, sizeof(preface) - 1);
        put_all(&out, &r);
        if (talk(s->grpc_port, strbuf_str(&out), bytes[0], &answers) && !answers.overflowed)
                check_frames(strbuf_str(&answers));
        return 0;
}
