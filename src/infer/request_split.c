/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/request_split.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "infer/trace.h"

#include <stdatomic.h>
#include <string.h>

struct split_part {
        struct request_split *split;    /* borrowed: the owner of the part */
        struct inner_request *inner;    /* owned */
        struct response      *response; /* owned; NULL: none was sent */
        struct error         *error;    /* owned: the request could not be created */
        uint64_t              first_row;
        uint64_t              n_rows;
        uint64_t              phase_ns[3]; /* inputs, inference, outputs */
        uint64_t              start_ns;    /* start of its execution; 0: not reported */
        struct split_part    *next;
};

/* Start offsets of the rows of a BYTES input, and the end of the last row. */
struct row_table {
        uint64_t         *offsets; /* owned */
        struct row_table *next;
};

struct request_split {
        struct request    *request; /* borrowed: the split is freed with its release */
        uint64_t           n_rows;  /* of the whole request */
        uint64_t           n_taken;
        struct split_part *first, *last; /* owned, in the order of their rows */
        _Atomic uint32_t   n_open; /* number of parts that have not ended, plus 1 while rows wait */
        struct error      *given_up; /* owned; the reason; NULL: not given up */
        enum failure_reason reason;

        struct mutex lock; /* rank LOCK_LEAF; guards the creation of the tables */
        /* Owned: one per BYTES input, in their order; NULL: not created. */
        struct row_table *tables;
        bool              has_tables;
        bool              tables_failed;
};

void request_split_begin(struct request *req) {
        struct request_split *s = mem_zalloc(sizeof(*s));

        s->request = req;
        s->n_rows = req->batch_size;
        atomic_init(&s->n_open, 1);
        mutex_init(&s->lock, LOCK_LEAF);
        req->split = s;
        req->is_split = true;
}

struct split_part *request_split_take(struct request *req, uint64_t n_rows) {
        struct request_split *s = req->split;
        struct split_part    *part = mem_zalloc(sizeof(*part));

        part->split = s;
        part->first_row = s->n_taken;
        part->n_rows = n_rows;
        s->n_taken += n_rows;
        if (s->last != NULL)
                s->last->next = part;
        else
                s->first = part;
        s->last = part;
        /* n_open counts 1 for the rows that wait; the last part inherits that count. */
        if (n_rows < req->batch_size)
                atomic_fetch_add_explicit(&s->n_open, 1, memory_order_relaxed);
        req->batch_size -= n_rows;
        return part;
}

struct request *split_part_request(const struct split_part *part) {
        return part->split->request;
}

static void split_free(struct request_split *s) {
        for (struct split_part *part = s->first, *next; part != NULL; part = next) {
                next = part->next;
                response_free(part->response);
                inner_request_free(part->inner);
                error_free(part->error);
                free(part);
        }
        for (struct row_table *t = s->tables, *next; t != NULL; t = next) {
                next = t->next;
                free(t->offsets);
                free(t);
        }
        error_free(s->given_up);
        mutex_done(&s->lock);
        free(s);
}

static struct error *out_of_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a part of a request");
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const struct error *find_error(const struct request_split *s, enum failure_reason *ret) {
        *ret = s->reason;
        if (s->given_up != NULL)
                return s->given_up;
        *ret = FAILURE_BACKEND;
        for (const struct split_part *part = s->first; part != NULL; part = part->next) {
                if (part->error != NULL)
                        return part->error;
                if (part->response != NULL && part->response->error != NULL)
                        return part->response->error;
        }
        return NULL;
}

static struct error *bad_output(const struct request_split *s, const char *name,
                                const struct split_part *part, const char *what) {
        return request_error(s->request, ERR_INTERNAL,
                             "output '%s' of rows %llu to %llu, which were run apart, has %s", name,
                             (unsigned long long)part->first_row,
                             (unsigned long long)(part->first_row + part->n_rows - 1), what);
}

/* Checks that an output of another part can be appended to that of the first part. */
static struct error *check_output(const struct request_split *s, const struct split_part *part,
                                  const struct response_output *first,
                                  const struct response_output *o) {
        if (o == NULL)
                return bad_output(s, first->name, part, "no bytes");
        if (o->type != first->type || o->n_dims != first->n_dims || o->n_dims == 0)
                return bad_output(s, first->name, part, "another type or rank than the others");
        if (o->shape[0] != (int64_t)part->n_rows)
                return bad_output(s, first->name, part, "another number of rows");
        for (uint32_t i = 1; i < o->n_dims; i++)
                if (o->shape[i] != first->shape[i])
                        return bad_output(s, first->name, part, "another shape than the others");
        return NULL;
}

static struct error *check_outputs(const struct request_split   *s,
                                   const struct response_output *first, uint64_t *ret_bytes) {
        *ret_bytes = 0;
        for (const struct split_part *part = s->first; part != NULL; part = part->next) {
                const struct response_output *o =
                        part->response != NULL ? response_find_output(part->response, first->name)
                                               : NULL;

                TRY(check_output(s, part, first, o));
                if (__builtin_add_overflow(*ret_bytes, (uint64_t)o->byte_size, ret_bytes))
                        return bad_output(s, first->name, part, "too many bytes");
        }
        return NULL;
}

static void copy_rows(const struct request_split *s, const char *name, uint8_t *to) {
        for (const struct split_part *part = s->first; part != NULL; part = part->next) {
                const struct response_output *o = response_find_output(part->response, name);

                if (o->byte_size > 0)
                        memcpy(to, o->base, o->byte_size);
                to += o->byte_size;
        }
}

static struct error *join_outputs(const struct request_split   *s,
                                  const struct response_output *first, struct response *response) {
        const char             *name = arena_try_str(&response->arena, str_of(first->name));
        enum memory_type        type;
        int64_t                *shape;
        struct response_output *o;
        uint64_t                n_bytes;
        void                   *base;

        TRY(check_outputs(s, first, &n_bytes));
        if (name == NULL)
                return error_new(ERR_UNAVAILABLE, "out of memory for a response");
        TRY(response_add_client_output(response, name, first->type, first->n_dims, &o, &shape));
        memcpy(shape, first->shape, first->n_dims * sizeof(*shape));
        shape[0] = (int64_t)s->n_rows;
        TRY(response_output_host_buffer(o, n_bytes, &type, &base));
        if (type != MEMORY_CPU && type != MEMORY_CPU_PINNED)
                return error_new(ERR_UNSUPPORTED,
                                 "output '%s' of a request that is run in parts "
                                 "must be in the memory of the CPU",
                                 name);
        copy_rows(s, name, base);
        return NULL;
}

static struct error *join_responses(const struct request_split *s, struct response **ret) {
        const struct response *first = s->first->response;
        struct response       *response;

        TRY(response_new(s->request, &response));
        if (first == NULL) {
                *ret = response;
                return NULL;
        }
        for (const struct response_output *o = first->first_output; o != NULL; o = o->next)
                TRY_OR(join_outputs(s, o, response), response_free(response));
        for (const struct parameter *p = first->parameters.first; p != NULL; p = p->next)
                TRY_OR(response_add_parameter(response, p), response_free(response));
        *ret = response;
        return NULL;
}

static void report_trace(const struct request *req, const struct request_times *times) {
        struct trace *t = req->trace;

        trace_report(t, TRACE_COMPUTE_START, times->exec_start_ns);
        trace_report(t, TRACE_COMPUTE_INPUT_END, times->compute_start_ns);
        trace_report(t, TRACE_COMPUTE_OUTPUT_START, times->compute_end_ns);
        trace_report(t, TRACE_COMPUTE_END, times->exec_end_ns);
        trace_mark_latency(t, req->model->stats, times);
}

/* Counts a successful request. Its phases last as long as those of all parts together, as if the parts
 * had run one after the other. */
static void count_success(const struct request_split *s) {
        const struct request *req = s->request;
        struct request_times  t = { .request_start_ns = req->times.request_start_ns,
                                    .queue_start_ns = req->times.queue_start_ns };
        uint64_t              phases[3] = { 0 };

        for (const struct split_part *part = s->first; part != NULL; part = part->next) {
                if (part->start_ns == 0)
                        continue;
                if (t.exec_start_ns == 0 || part->start_ns < t.exec_start_ns)
                        t.exec_start_ns = part->start_ns;
                for (unsigned i = 0; i < ARRAY_LEN(phases); i++)
                        phases[i] += part->phase_ns[i];
        }
        if (t.exec_start_ns == 0)
                return; /* the backend reports no times */
        t.compute_start_ns = t.exec_start_ns + phases[0];
        t.compute_end_ns = t.compute_start_ns + phases[1];
        t.exec_end_ns = t.compute_end_ns + phases[2];
        t.request_end_ns = clock_now_ns();
        if (req->trace != NULL)
                report_trace(req, &t);
        if (req->is_inner && req->sums != NULL)
                compute_sums_add(req->sums, &t);
        model_stats_success(req->model->stats, &t, s->n_rows);
}

static void finish_request(struct request_split *s) {
        struct request     *req = s->request;
        enum failure_reason reason;
        const struct error *why = find_error(s, &reason);
        struct response    *response = NULL;
        struct error       *err = NULL;

        req->batch_size = s->n_rows;
        if (why == NULL)
                why = err = join_responses(s, &response);
        req->split = NULL;
        req->is_split = false;
        if (why != NULL) {
                request_refuse(req, why, reason);
                error_free(err);
        } else {
                count_success(s);
                error_free(response_send(response, RESPONSE_FINAL, NULL));
                request_release(req, REQUEST_RELEASE_ALL);
        }
        split_free(s);
}

/* To be called when a part has ended, and when the waiting rows are given up. */
static void end_part(struct request_split *s) {
        if (atomic_fetch_sub_explicit(&s->n_open, 1, memory_order_acq_rel) == 1)
                finish_request(s);
}

void request_split_give_up(struct request *req, const struct error *why,
                           enum failure_reason reason) {
        struct request_split *s = req->split;

        s->given_up = error_copy(why);
        s->reason = reason;
        end_part(s);
}

/* ---- rows of BYTES --------------------------------------------------------------------------- */

/* A position in the bytes of an input, across its chunks. */
struct reader {
        const struct input_chunk *chunk;
        size_t                    at; /* offset in the chunk */
};

static const struct input_chunk *next_plain(const struct input_chunk *chunk) {
        while (chunk != NULL && chunk->host_policy != NULL)
                chunk = chunk->next;
        return chunk;
}

/* Copies the bytes, or skips them when `to` is NULL. False: there are fewer. */
static bool read_bytes(struct reader *r, uint8_t *to, uint64_t n) {
        while (n > 0) {
                size_t left;

                if (r->chunk == NULL)
                        return false;
                left = MIN((uint64_t)(r->chunk->attributes.byte_size - r->at), n);
                if (to != NULL) {
                        memcpy(to, (const uint8_t *)r->chunk->base + r->at, left);
                        to += left;
                }
                r->at += left;
                n -= left;
                if (r->at == r->chunk->attributes.byte_size)
                        *r = (struct reader){ .chunk = next_plain(r->chunk->next) };
        }
        return true;
}

/* An element is a length in four bytes, little-endian, and that many bytes (KServe v2). */
static bool skip_element(struct reader *r, uint64_t *offset) {
        uint8_t  length[4];
        uint64_t n;

        if (!read_bytes(r, length, sizeof(length)))
                return false;
        n = (uint64_t)length[0] | (uint64_t)length[1] << 8 | (uint64_t)length[2] << 16 |
            (uint64_t)length[3] << 24;
        *offset += sizeof(length) + n;
        return read_bytes(r, NULL, n);
}

static uint64_t elements_per_row(const struct request_input *in) {
        uint64_t n = 1;

        for (uint32_t i = 1; i < in->n_given_dims; i++)
                n *= (uint64_t)in->given_shape[i]; /* checked by request_prepare() */
        return n;
}

static struct error *make_table(const struct request_split *s, const struct request_input *in,
                                struct row_table **ret) {
        uint64_t          n_elements = elements_per_row(in);
        struct reader     r = { .chunk = next_plain(in->first_chunk) };
        struct row_table *t = try_zalloc(sizeof(*t));
        uint64_t          offset = 0;

        *ret = t;
        if (t == NULL)
                return out_of_memory();
        t->offsets = try_alloc((s->n_rows + 1) * sizeof(*t->offsets));
        if (t->offsets == NULL)
                return out_of_memory();
        for (uint64_t row = 0; row < s->n_rows; row++) {
                t->offsets[row] = offset;
                for (uint64_t i = 0; i < n_elements; i++)
                        if (!skip_element(&r, &offset))
                                return request_error(s->request, ERR_INVALID_ARG,
                                                     "input '%s' ends within a string element",
                                                     in->name);
        }
        t->offsets[s->n_rows] = offset;
        return NULL;
}

static bool is_batched(const struct request_input *in) {
        return in->io == NULL || !in->io->is_shape_tensor;
}

static struct error *make_tables_locked(struct request_split *s) {
        struct row_table **end = &s->tables;

        s->has_tables = s->tables_failed = true;
        for (const struct request_input *in = s->request->first_input; in != NULL; in = in->next) {
                if (in->type != DATA_TYPE_BYTES || !is_batched(in))
                        continue;
                TRY(make_table(s, in, end));
                end = &(*end)->next;
        }
        s->tables_failed = false;
        return NULL;
}

static struct error *make_tables(struct request_split *s) {
        MUTEX_GUARD(&s->lock);
        if (!s->has_tables)
                TRY(make_tables_locked(s));
        if (s->tables_failed)
                return error_new(ERR_INTERNAL, "another part of the request could not be made");
        return NULL;
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* Appends the bytes [from, to) of `in`, as chunks borrowed from it. */
static struct error *append_range(struct request *req, const struct request_input *in,
                                  uint64_t from, uint64_t to) {
        uint64_t at = 0;

        for (const struct input_chunk *c = next_plain(in->first_chunk); c != NULL && at < to;
             c = next_plain(c->next)) {
                uint64_t                 end = at + c->attributes.byte_size;
                uint64_t                 begin = MAX(at, from);
                struct buffer_attributes attributes = c->attributes;

                if (end > from) {
                        attributes.byte_size = (size_t)(MIN(end, to) - begin);
                        TRY(request_append_bytes(req, in->name,
                                                 (const uint8_t *)c->base + (begin - at),
                                                 &attributes, NULL));
                }
                at = end;
        }
        return NULL;
}

static struct error *add_input(const struct split_part *part, struct request *req,
                               const struct request_input *in, const struct row_table *table) {
        const struct request_split *s = part->split;
        uint64_t                    last = part->first_row + part->n_rows;
        int64_t                     shape[REQUEST_MAX_DIMS];

        memcpy(shape, in->given_shape, in->n_given_dims * sizeof(*shape));
        if (is_batched(in))
                shape[0] = (int64_t)part->n_rows;
        TRY(request_add_input(req, in->name, in->type, shape, in->n_given_dims));
        if (!is_batched(in))
                return append_range(req, in, 0, in->byte_size);
        if (table != NULL)
                return append_range(req, in, table->offsets[part->first_row], table->offsets[last]);
        return append_range(req, in, in->byte_size / s->n_rows * part->first_row,
                            in->byte_size / s->n_rows * last);
}

static struct error *add_inputs(const struct split_part *part, struct request *req) {
        const struct row_table *table = part->split->tables;

        for (const struct request_input *in = part->split->request->first_input; in != NULL;
             in = in->next) {
                bool has_table = in->type == DATA_TYPE_BYTES && is_batched(in);

                TRY(add_input(part, req, in, has_table ? table : NULL));
                if (has_table)
                        table = table->next;
        }
        return NULL;
}

/* Copies the properties that a backend may ask for. */
static struct error *copy_properties(const struct request *from, struct request *to) {
        TRY(request_set_id(to, from->id));
        to->flags = from->flags;
        to->priority = from->priority;
        to->timeout_us = from->timeout_us;
        if (from->correlation.text != NULL)
                TRY(request_set_correlation_text(to, from->correlation.text));
        else
                to->correlation.number = from->correlation.number;
        for (const struct parameter *p = from->parameters.first; p != NULL; p = p->next)
                TRY(request_add_parameter(to, p));
        for (const struct requested_output *o = from->first_output; o != NULL; o = o->next)
                TRY(request_add_output(to, o->name));
        return NULL;
}

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        struct split_part *part = r->owner;

        (void)flags;
        if (response == NULL)
                return;
        if (part->response == NULL)
                part->response = response;
        else
                response_free(response); /* the backend answered twice */
}

static void on_part_end(struct inner_request *r) {
        struct split_part *part = r->owner;

        end_part(part->split);
}

static struct error *make_request(struct split_part *part) {
        static const struct inner_request_ops ops = { .on_response = on_response,
                                                      .on_end = on_part_end };
        struct request_split                 *s = part->split;
        struct request                       *req;

        part->inner = inner_request_new(s->request->model, &ops, part);
        if (part->inner == NULL)
                return out_of_memory();
        req = part->inner->request;
        req->is_part = true;
        req->outer = s->request; /* the backend sees its cancellation */
        TRY(make_tables(s));
        TRY(copy_properties(s->request, req));
        TRY(add_inputs(part, req));
        TRY(inner_request_prepare(part->inner));
        req->times = s->request->times;
        return NULL;
}

struct request *split_part_make(struct split_part *part) {
        part->error = make_request(part);
        if (part->error != NULL) {
                end_part(part->split);
                return NULL;
        }
        inner_request_begin(part->inner);
        return part->inner->request;
}

void split_part_report(struct request *req, const struct request_times *times) {
        struct inner_request *inner = req->on_release_userp;
        struct split_part    *part = inner->owner;

        part->start_ns = times->exec_start_ns;
        part->phase_ns[0] = times->compute_start_ns - times->exec_start_ns;
        part->phase_ns[1] = times->compute_end_ns - times->compute_start_ns;
        part->phase_ns[2] = times->exec_end_ns - times->compute_end_ns;
}
