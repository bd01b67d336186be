/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/warmup_input.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/data_type.h"
#include "config/shape.h"

#include <unistd.h>

#define MAX_WARMUP_BYTES ((int64_t)1 << 31)
#define STRING_LENGTH_BYTES 4

/* Size of the tensor; strings are empty, so only their lengths count. */
static struct error *input_size(const Inference__ModelWarmup__Input *input, const char *name,
                                size_t *ret) {
        enum data_type type = (enum data_type)input->data_type;
        int64_t        n = shape_element_count(input->dims, input->n_dims);
        int64_t        size = (int64_t)data_type_size(type);

        if (type == DATA_TYPE_BYTES)
                size = STRING_LENGTH_BYTES;
        if (n < 0 || (size > 0 && n > MAX_WARMUP_BYTES / size))
                return error_new(ERR_INVALID_ARG,
                                 "warmup setting expects all variable-size dimensions are "
                                 "specified for input '%s'",
                                 name);
        *ret = (size_t)(n * size);
        return NULL;
}

/* Any fixed pattern of small positive numbers will do: a warm-up only must not be all zeros. */
static void fill_random(char *bytes, size_t n) {
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

        for (size_t i = 0; i < n; i++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes[i] = (char)(state & 0x3f);
        }
}

static struct error *read_file(const char *file, const char *model_directory, size_t expected,
                               struct warmup_bytes *ret) {
        AUTO_CHARS    directory = path_join(model_directory, "warmup");
        AUTO_STRBUF   content = { 0 };
        int           fd;
        struct error *err;

        strbuf_init(&content, (size_t)MAX_WARMUP_BYTES);
        TRY(error_wrap(file_open_beneath(directory, file, &fd), "failed to open warmup file '%s'",
                       file));
        err = file_read_fd(fd, file, (size_t)MAX_WARMUP_BYTES, &content);
        close(fd);
        TRY(err);
        if (content.len < expected)
                return error_new(ERR_INVALID_ARG,
                                 "[request id: <id_unknown>] warmup setting expects %zu bytes, but "
                                 "the data provided from %sonly has %zu bytes",
                                 expected, file, content.len);
        ret->n = content.len;
        ret->bytes = strbuf_take(&content);
        return NULL;
}

struct error *warmup_input_read(const Inference__ModelWarmup__Input *input, const char *name,
                                const char *model_directory, struct warmup_bytes *ret) {
        size_t n;

        TRY(input_size(input, name, &n));
        if (input->input_data_type_case ==
            INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE)
                return read_file(input->input_data_file, model_directory, n, ret);
        if (input->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET)
                return error_new(ERR_INVALID_ARG,
                                 "[request id: <id_unknown>] warmup setting expects input '%s' to "
                                 "have input_data_type set",
                                 name);
        ret->bytes = try_zalloc(n + 1);
        if (ret->bytes == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for warmup input '%s'", name);
        ret->n = n;
        if (input->input_data_type_case ==
                    INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA &&
            (enum data_type)input->data_type != DATA_TYPE_BYTES)
                fill_random(ret->bytes, n);
        return NULL;
}
