/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/serialized_response.h"

#include "base/mem.h"
#include "config/shape.h"
#include "infer/buffer_copy.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"

#include <string.h>

#define MAGIC 0x6f73656e /* "neso" */
#define FORMAT_VERSION 2

struct kept_head {
        uint32_t magic;
        uint32_t version;
        uint32_t n_outputs;
        uint32_t n_parameters;
};

struct kept_parameter {
        uint32_t type;
        uint32_t name_bytes;
        uint64_t value_bytes;
};

struct kept_output {
        uint32_t type;
        uint32_t n_dims;
        uint32_t place;      /* index among the model's outputs, which gives the name */
        uint32_t name_bytes; /* 0, unless `place` is NO_PLACE */
        uint64_t byte_size;
};

#define NO_PLACE UINT32_MAX

/* True when the bytes are exactly n elements of BYTES, each after its length. */
static bool holds_texts(const char *at, uint64_t left, int64_t n) {
        for (; n > 0; n--) {
                uint32_t len;

                if (left < sizeof(len))
                        return false;
                memcpy(&len, at, sizeof(len));
                if (len > left - sizeof(len))
                        return false;
                at += sizeof(len) + len;
                left -= sizeof(len) + len;
        }
        return left == 0;
}

/* True when the bytes are a tensor of that shape. `bytes` NULL: they are on a device, where texts cannot be read. */
static bool fits_shape(enum data_type type, const int64_t *shape, uint32_t n_dims,
                       const void *bytes, uint64_t n_bytes) {
        int64_t n = shape_element_count(shape, n_dims);

        if (type != DATA_TYPE_BYTES)
                return n_bytes <= INT64_MAX &&
                       shape_byte_size(type, shape, n_dims) == (int64_t)n_bytes;
        return n >= 0 && (bytes == NULL || holds_texts(bytes, n_bytes, n));
}

/* ---- measuring and writing ------------------------------------------------------------------- */

/* The place where the next part is written. With `to` NULL the parts are only measured. */
struct writer {
        char         *to;
        size_t        at;
        bool          has_overflowed;
        struct error *error; /* owned: of an output on a device */
};

/* Returns where n bytes go; NULL when they are only measured. */
static char *reserve_bytes(struct writer *w, size_t n) {
        size_t padded;
        char  *to = w->to != NULL ? w->to + w->at : NULL;

        if (!size_add(n, 7, &padded) || !size_add(w->at, padded & ~(size_t)7, &padded)) {
                w->has_overflowed = true;
                return NULL;
        }
        /* Padding is zeroed: old contents of the memory must not reach the cache. */
        if (to != NULL)
                memset(to + n, 0, padded - w->at - n);
        w->at = padded;
        return to;
}

static void put_bytes(struct writer *w, const void *bytes, size_t n) {
        char *to = reserve_bytes(w, n);

        if (to != NULL && n > 0)
                memcpy(to, bytes, n);
}

/* Texts on a device can be read only when they have been copied. */
static struct error *copy_tensor(const struct response_output *o, char *to) {
        TRY(buffer_read(o->response->source.model->gpus, &o->attributes, o->base, to,
                        o->byte_size));
        if (!buffer_is_on_device(&o->attributes) ||
            fits_shape(o->type, o->shape, o->n_dims, to, o->byte_size))
                return NULL;
        return error_new(ERR_INTERNAL, "the bytes of output '%s' are no tensor of its shape",
                         o->name);
}

/* The bytes of an output on a device are copied to the host here. */
static void put_tensor(struct writer *w, const struct response_output *o) {
        char *to = reserve_bytes(w, o->byte_size);

        if (to != NULL && w->error == NULL)
                w->error = copy_tensor(o, to);
}

static size_t value_bytes(const struct parameter *p) {
        switch (p->type) {
        case PARAMETER_STRING: return strlen(p->string) + 1;
        case PARAMETER_INT: return sizeof(p->integer);
        case PARAMETER_BOOL: return sizeof(p->boolean);
        case PARAMETER_DOUBLE: return sizeof(p->real);
        case PARAMETER_BYTES: break;
        }
        return 0;
}

static void put_parameter(struct writer *w, const struct parameter *p) {
        struct kept_parameter head = { .type = p->type,
                                       .name_bytes = (uint32_t)strlen(p->name) + 1,
                                       .value_bytes = value_bytes(p) };

        put_bytes(w, &head, sizeof(head));
        put_bytes(w, p->name, head.name_bytes);
        put_bytes(w, parameter_value(p), head.value_bytes);
}

static void put_output(struct writer *w, const struct response_output *o) {
        const struct model_io_set *io = o->response->source.model->io;
        const struct model_io     *known = model_io_find_output(io, str_of(o->name), 0);
        struct kept_output         head = {
                        .type = o->type, .n_dims = o->n_dims, .place = NO_PLACE, .byte_size = o->byte_size
        };

        if (known != NULL)
                head.place = (uint32_t)(known - io->outputs);
        else
                head.name_bytes = (uint32_t)strlen(o->name) + 1;
        put_bytes(w, &head, sizeof(head));
        put_bytes(w, o->shape, o->n_dims * sizeof(*o->shape));
        put_bytes(w, o->name, head.name_bytes);
        put_tensor(w, o);
}

static void put_response(struct writer *w, const struct response *r) {
        struct kept_head head = { .magic = MAGIC,
                                  .version = FORMAT_VERSION,
                                  .n_outputs = r->n_outputs,
                                  .n_parameters = r->parameters.n };

        put_bytes(w, &head, sizeof(head));
        for (const struct parameter *p = r->parameters.first; p != NULL; p = p->next)
                put_parameter(w, p);
        for (const struct response_output *o = r->first_output; o != NULL; o = o->next)
                put_output(w, o);
}

static bool may_keep(const struct response_output *o) {
        bool        is_on_device = buffer_is_on_device(&o->attributes);
        const void *bytes = o->base != NULL ? o->base : "";

        if (is_on_device)
                bytes = NULL;
        return o->has_buffer && (o->base != NULL || o->byte_size == 0) &&
               (!is_on_device || o->response->source.model->gpus != NULL) &&
               fits_shape(o->type, o->shape, o->n_dims, bytes, o->byte_size);
}

bool serialized_response_measure(const struct response *r, size_t *ret) {
        struct writer w = { 0 };

        if (r->error != NULL)
                return false;
        for (const struct parameter *p = r->parameters.first; p != NULL; p = p->next)
                if (p->type == PARAMETER_BYTES)
                        return false; /* buffers belong to the creator of the response */
        for (const struct response_output *o = r->first_output; o != NULL; o = o->next)
                if (!may_keep(o))
                        return false;
        put_response(&w, r);
        *ret = w.at;
        return !w.has_overflowed;
}

struct error *serialized_response_write(const struct response *r, void *to) {
        struct writer w = { .to = to };

        put_response(&w, r);
        return w.error;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
        const char *at;
        size_t      left;
};

static struct error *bad_bytes(void) {
        return error_new(ERR_INTERNAL, "the cache gave bytes that are no response");
}

/* Returns the next n bytes, and skips to a multiple of 8; NULL when fewer are left. */
static inline const void *take_bytes(struct reader *in, uint64_t n) {
        const char *taken = in->at;
        size_t      padded = ((size_t)n + 7) & ~(size_t)7;

        if (n > in->left || padded > in->left)
                return NULL;
        in->at += padded;
        in->left -= padded;
        return taken;
}

static bool take_head(struct reader *in, void *ret, size_t n) {
        const void *head = take_bytes(in, n);

        if (head == NULL)
                return false;
        memcpy(ret, head, n); /* the cache need not have aligned it */
        return true;
}

/* Returns a text with its NUL. */
static const char *take_text(struct reader *in, uint64_t n_bytes) {
        const char *text = take_bytes(in, n_bytes);

        if (text == NULL || n_bytes == 0 || memchr(text, '\0', n_bytes) != text + n_bytes - 1)
                return NULL;
        return text;
}

static bool set_value(struct parameter *p, const void *value, uint64_t n_bytes) {
        switch (p->type) {
        case PARAMETER_STRING:
                p->string = value;
                return n_bytes > 0 && memchr(value, '\0', n_bytes) != NULL;
        case PARAMETER_INT:
                if (n_bytes == sizeof(p->integer))
                        memcpy(&p->integer, value, sizeof(p->integer));
                return n_bytes == sizeof(p->integer);
        case PARAMETER_BOOL:
                if (n_bytes == sizeof(p->boolean))
                        p->boolean = *(const unsigned char *)value != 0;
                return n_bytes == sizeof(p->boolean);
        case PARAMETER_DOUBLE:
                if (n_bytes == sizeof(p->real))
                        memcpy(&p->real, value, sizeof(p->real));
                return n_bytes == sizeof(p->real);
        case PARAMETER_BYTES: break;
        }
        return false;
}

static struct error *read_parameter(struct reader *in, struct response *r) {
        struct kept_parameter head;
        struct parameter      p = { 0 };
        const void           *value;

        if (!take_head(in, &head, sizeof(head)))
                return bad_bytes();
        p.type = (enum parameter_type)head.type;
        p.name = take_text(in, head.name_bytes);
        value = p.name != NULL ? take_bytes(in, head.value_bytes) : NULL;
        if (value == NULL || !set_value(&p, value, head.value_bytes))
                return bad_bytes();
        return response_add_parameter(r, &p);
}

static bool is_wanted(const struct request *req, const char *name) {
        if (req->n_output_names == req->model->io->n_outputs)
                return true;
        for (uint32_t i = 0; i < req->n_output_names; i++)
                if (strcmp(req->output_names[i], name) == 0)
                        return true;
        return false;
}

/* Adds an output; `bytes` need not be aligned. */
static struct error *add_output(struct response *r, const char *name,
                                const struct kept_output *head, const int64_t *dims,
                                const void *bytes) {
        enum memory_type        type;
        int64_t                *shape;
        struct response_output *o;
        void                   *to;

        /* The model's name outlives the response; a name within the bytes may not. */
        if (head->place == NO_PLACE) {
                name = arena_try_str(&r->arena, str_of(name));
                if (name == NULL)
                        return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        }
        TRY(response_add_client_output(r, name, (enum data_type)head->type, head->n_dims, &o,
                                       &shape));
        memcpy(shape, dims, head->n_dims * sizeof(*shape));
        TRY(response_output_host_buffer(o, head->byte_size, &type, &to));
        if (type == MEMORY_GPU)
                return error_new(ERR_UNSUPPORTED, "output '%s' is not in CPU memory", name);
        if (head->byte_size > 0)
                memcpy(to, bytes, head->byte_size);
        return NULL;
}

/* Returns the output's name; NULL when the bytes are malformed. */
static const char *take_name(struct reader *in, const struct model_io_set *io,
                             const struct kept_output *head) {
        if (head->place == NO_PLACE)
                return take_text(in, head->name_bytes);
        return head->place < io->n_outputs && head->name_bytes == 0 ? io->outputs[head->place].name
                                                                    : NULL;
}

static struct error *read_output(struct reader *in, const struct request *req, struct response *r) {
        struct kept_output head;
        int64_t            dims[REQUEST_MAX_DIMS];
        const void        *bytes;
        const char        *name;

        if (!take_head(in, &head, sizeof(head)) || head.n_dims > REQUEST_MAX_DIMS ||
            !data_type_is_valid((enum data_type)head.type) ||
            !take_head(in, dims, head.n_dims * sizeof(*dims)))
                return bad_bytes();
        name = take_name(in, req->model->io, &head);
        bytes = name != NULL ? take_bytes(in, head.byte_size) : NULL;
        if (bytes == NULL ||
            !fits_shape((enum data_type)head.type, dims, head.n_dims, bytes, head.byte_size))
                return bad_bytes();
        if (!is_wanted(req, name))
                return NULL;
        return add_output(r, name, &head, dims, bytes);
}

static struct error *read_all(struct reader *in, const struct request *req, struct response *r) {
        struct kept_head head;

        if (!take_head(in, &head, sizeof(head)) || head.magic != MAGIC ||
            head.version != FORMAT_VERSION)
                return bad_bytes();
        for (uint32_t i = 0; i < head.n_parameters; i++)
                TRY(read_parameter(in, r));
        for (uint32_t i = 0; i < head.n_outputs; i++)
                TRY(read_output(in, req, r));
        if (req->n_output_names < req->model->io->n_outputs && r->n_outputs < req->n_output_names)
                return error_new(ERR_NOT_FOUND, "the kept response lacks an output");
        return NULL;
}

struct error *serialized_response_read(const void *bytes, size_t n_bytes, const struct request *req,
                                       struct response **ret) {
        struct reader    in = { bytes, n_bytes };
        struct response *r;

        TRY(response_new(req, &r));
        TRY_OR(read_all(&in, req, r), response_free(r));
        *ret = r;
        return NULL;
}
