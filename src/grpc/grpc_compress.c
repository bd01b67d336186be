/* SPDX-License-Identifier: BSD-3-Clause */
#include "grpc/grpc_compress.h"

#include "base/compiler.h"

static const char *const encoding_names[N_GRPC_ENCODINGS] = {
        [GRPC_ENCODING_IDENTITY] = "identity",
        [GRPC_ENCODING_DEFLATE] = "deflate",
        [GRPC_ENCODING_GZIP] = "gzip",
};

struct str grpc_encoding_name(enum grpc_encoding encoding) {
        return str_of(encoding_names[encoding]);
}

bool grpc_encoding_find(struct str name, enum grpc_encoding *ret) {
        if (name.len == 0) {
                *ret = GRPC_ENCODING_IDENTITY;
                return true;
        }
        for (unsigned i = 0; i < N_GRPC_ENCODINGS; i++)
                if (str_is(name, encoding_names[i])) {
                        *ret = (enum grpc_encoding)i;
                        return true;
                }
        return false;
}

bool grpc_compression_level_find(struct str name, enum grpc_compression_level *ret) {
        static const char *const names[] = { "none", "low", "medium", "high" };

        for (unsigned i = 0; i < ARRAY_LEN(names); i++)
                if (str_equal_nocase(name, str_of(names[i]))) {
                        *ret = (enum grpc_compression_level)i;
                        return true;
                }
        return false;
}

enum grpc_encoding grpc_encoding_choose(enum grpc_compression_level level, struct str accepted) {
        bool has[N_GRPC_ENCODINGS] = { false };

        if (level == GRPC_COMPRESSION_NONE)
                return GRPC_ENCODING_IDENTITY;
        while (accepted.len > 0) {
                enum grpc_encoding encoding;
                struct str         name;

                accepted = str_split(accepted, ',', &name);
                if (grpc_encoding_find(str_trim(name), &encoding))
                        has[encoding] = true;
        }
        if (has[GRPC_ENCODING_GZIP] &&
            (level == GRPC_COMPRESSION_LOW || !has[GRPC_ENCODING_DEFLATE]))
                return GRPC_ENCODING_GZIP;
        return has[GRPC_ENCODING_DEFLATE] ? GRPC_ENCODING_DEFLATE : GRPC_ENCODING_IDENTITY;
}

enum gzip_status grpc_decompress(struct str message, size_t max_bytes, struct buf_pool *pool,
                                 struct buf **ret) {
        return gzip_inflate_buf(message, max_bytes, pool, ret);
}

bool grpc_compress(enum grpc_encoding encoding, const struct iovec *parts, size_t n_parts,
                   struct buf_pool *pool, struct buf **ret) {
        enum gzip_format format =
                encoding == GRPC_ENCODING_GZIP ? GZIP_FORMAT_GZIP : GZIP_FORMAT_ZLIB;
        size_t      plain = 0;
        struct buf *packed;

        if (encoding == GRPC_ENCODING_IDENTITY)
                return false;
        for (size_t i = 0; i < n_parts; i++)
                plain += parts[i].iov_len;
        if (gzip_deflate_buf(format, parts, n_parts, pool, &packed) != GZIP_OK)
                return false;
        if (packed->len >= plain) {
                buf_unref(packed);
                return false;
        }
        *ret = packed;
        return true;
}
