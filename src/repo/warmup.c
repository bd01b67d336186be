/* SPDX-License-Identifier: BSD-3-Clause */
#include "repo/warmup.h"

#include "base/buf.h"
#include "base/byte_budget.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/data_type.h"
#include "config/shape.h"
#include "infer/executor.h"
#include "infer/implicit_state.h"
#include "infer/inner_request.h"
#include "infer/model.h"
#include "infer/request.h"
#include "infer/response.h"
#include "infer/response_allocator.h"

#include <string.h>
#include <unistd.h>

/* ---- the bytes of an input ------------------------------------------------------------------- */

#define MAX_WARMUP_BYTES ((int64_t)1 << 31)
#define STRING_LENGTH_BYTES 4

/* Returns the size of the tensor. Strings are empty, so only their lengths count. */
static struct error *input_size(const Inference__ModelWarmup__Input *input, const char *name,
                                size_t *ret) {
        enum data_type type = (enum data_type)input->data_type;
        int64_t        n = shape_element_count(input->dims, input->n_dims);
        int64_t        size = (int64_t)data_type_size(type);

        if (type == DATA_TYPE_BYTES)
                size = STRING_LENGTH_BYTES;
        if (n == SHAPE_VARIABLE)
                return error_new(ERR_INVALID_ARG,
                                 "warmup setting expects all variable-size dimensions are "
                                 "specified for input '%s'",
                                 name);
        if (n < 0 || (size > 0 && n > MAX_WARMUP_BYTES / size))
                return error_new(ERR_INVALID_ARG,
                                 "warmup setting has dimensions out of range for input '%s': its "
                                 "tensor may have at most %lld bytes",
                                 name, (long long)MAX_WARMUP_BYTES);
        *ret = (size_t)(n * size);
        return NULL;
}

/* Any fixed pattern of small positive numbers is fine, as long as it is not all zeros. */
static void fill_random(char *bytes, size_t n) {
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

        for (size_t i = 0; i < n; i += sizeof(state)) {
                uint64_t small;

                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                small = state & UINT64_C(0x3f3f3f3f3f3f3f3f);
                memcpy(bytes + i, &small, MIN(n - i, sizeof(small)));
        }
}

/* Charges what is held in addition to `b->n_charged`. */
static struct error *charge(struct byte_budget *budget, struct warmup_bytes *b, size_t n_bytes,
                            const char *name) {
        if (budget == NULL || n_bytes <= b->n_charged)
                return NULL;
        if (!byte_budget_take(budget, n_bytes - b->n_charged))
                return error_new(ERR_UNAVAILABLE,
                                 BYTE_BUDGET_USED_UP " for warmup input '%s' of %zu bytes", name,
                                 n_bytes);
        b->n_charged = n_bytes;
        return NULL;
}

void warmup_bytes_done(struct warmup_bytes *b, struct byte_budget *budget) {
        if (budget != NULL)
                byte_budget_give(budget, b->n_charged);
        free(b->bytes);
        *b = (struct warmup_bytes){ 0 };
}

static struct error *read_file(const char *file, const char *model_directory, size_t expected,
                               struct warmup_bytes *ret) {
        AUTO_CHARS    directory = path_join(model_directory, "warmup");
        AUTO_STRBUF   content = { .max = (size_t)MAX_WARMUP_BYTES };
        int           fd;
        struct error *err;

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
                                const char *model_directory, struct byte_budget *budget,
                                struct warmup_bytes *ret) {
        size_t n;

        *ret = (struct warmup_bytes){ 0 };
        TRY(input_size(input, name, &n));
        TRY(charge(budget, ret, n, name));
        if (input->input_data_type_case ==
            INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE) {
                TRY(read_file(input->input_data_file, model_directory, n, ret));
                return charge(budget, ret, ret->n, name); /* the file may be longer */
        }
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

/* ---- samples --------------------------------------------------------------------------------- */

/* Memory for outputs, charged to the budget. */
struct output_memory {
        struct response_allocator base;
        struct byte_budget       *budget; /* borrowed; NULL: no limit */
};

/* One sample while it runs. */
struct warmup {
        struct output_memory          outputs;
        const struct warmup_options  *options; /* borrowed */
        struct model                 *model;
        const char                   *directory;
        const char                   *instance; /* borrowed; its name, for the log */
        const Inference__ModelWarmup *sample;
        struct warmup_bytes          *bytes;    /* owned; one per input */
        struct inner_request        **requests; /* owned */
        struct mutex                  lock;     /* rank LOCK_LEAF; guards the two below */
        struct cond                   ended;
        uint32_t                      n_running;
        struct error                 *error; /* owned; the first failure */
};

/* Has the type allocator_alloc_fn. */
static struct error *allocate_output(struct response_allocator *allocator, const char *tensor,
                                     size_t byte_size, enum memory_type type, int64_t id,
                                     void *userp, void **buffer, void **buffer_userp,
                                     enum memory_type *actual_type, int64_t *actual_id) {
        struct byte_budget *budget = CONTAINER_OF(allocator, struct output_memory, base)->budget;
        struct buf         *b;

        (void)type;
        (void)id;
        (void)userp;
        *actual_type = MEMORY_CPU;
        *actual_id = 0;
        *buffer = *buffer_userp = NULL;
        if (byte_size == 0)
                return NULL;
        if (budget != NULL && !byte_budget_take(budget, byte_size))
                return error_new(ERR_UNAVAILABLE,
                                 BYTE_BUDGET_USED_UP " for output '%s' of %zu bytes", tensor,
                                 byte_size);
        b = buf_new(NULL, byte_size);
        if (b == NULL) {
                if (budget != NULL)
                        byte_budget_give(budget, byte_size);
                return error_new(ERR_UNAVAILABLE, "out of memory for output '%s'", tensor);
        }
        b->len = byte_size;
        *buffer = b->bytes;
        *buffer_userp = b;
        return NULL;
}

/* Has the type allocator_release_fn. */
static struct error *release_output(struct response_allocator *allocator, void *buffer,
                                    void *buffer_userp, size_t byte_size, enum memory_type type,
                                    int64_t id) {
        struct byte_budget *budget = CONTAINER_OF(allocator, struct output_memory, base)->budget;

        if (buffer_userp != NULL && budget != NULL)
                byte_budget_give(budget, byte_size);
        return inner_output_release(allocator, buffer, buffer_userp, byte_size, type, id);
}

static void keep_error(struct warmup *w, const struct error *why) {
        MUTEX_GUARD(&w->lock);
        if (w->error == NULL)
                w->error = error_copy(why);
}

static void on_response(struct inner_request *r, struct response *response, uint32_t flags) {
        (void)flags;
        /* A decoupled model may fail before its final response. */
        if (response != NULL && response->error != NULL)
                keep_error(r->owner, response->error);
        response_free(response);
}

static void on_warmup_end(struct inner_request *r) {
        struct warmup *w = r->owner;

        MUTEX_GUARD(&w->lock);
        w->n_running--;
        cond_signal(&w->ended);
}

static struct error *add_input(struct warmup *w, struct request *req, size_t index) {
        const Inference__ModelWarmup__Input *input = w->sample->inputs[index]->value;
        const char                          *name = w->sample->inputs[index]->key;
        bool                                 is_batched = w->model->io->max_batch_size > 0;
        int64_t                             *dims = mem_alloc((input->n_dims + 1) * sizeof(*dims));
        struct buffer_attributes             attributes = { .byte_size = w->bytes[index].n };
        struct error                        *err;

        if (is_batched)
                dims[0] = 1;
        if (input->n_dims > 0)
                memcpy(dims + (is_batched ? 1 : 0), input->dims, input->n_dims * sizeof(*dims));
        err = request_add_input(req, name, (enum data_type)input->data_type, dims,
                                input->n_dims + (is_batched ? 1 : 0));
        free(dims);
        TRY(err);
        return request_append_bytes(req, name, w->bytes[index].bytes, &attributes, NULL);
}

/* True for an input that the server adds to requests of sequences. A sample may contain it, because
 * a sample belongs to no sequence. */
static bool is_added(const struct warmup *w, const char *name) {
        return model_config_is_added_input(w->model->config, name);
}

static struct error *add_inputs(struct warmup *w, struct request *req, bool are_added) {
        for (size_t i = 0; i < w->sample->n_inputs; i++)
                if (is_added(w, w->sample->inputs[i]->key) == are_added)
                        TRY(add_input(w, req, i));
        return NULL;
}

static struct error *no_memory(void) {
        return error_new(ERR_UNAVAILABLE, "out of memory for a warmup request");
}

/* Adds the initial states that the sample does not contain. Their new values are dropped. */
static struct error *add_states(const struct warmup *w, const struct executor *executor,
                                struct request *req) {
        struct implicit_states *states;

        if (w->model->states == NULL)
                return NULL;
        states = implicit_states_new(w->model->states, STATES_OF_SAMPLE);
        if (states == NULL)
                return no_memory();
        TRY_OR(implicit_states_bring(states, w->model, executor->gpu),
               implicit_states_free(states));
        implicit_states_attach(states, req);
        return NULL;
}

static void free_request(struct inner_request *r) {
        if (r != NULL && r->request->has_states)
                implicit_states_free(r->request->states);
        inner_request_free(r);
}

static struct error *make_request(struct warmup *w, const struct executor *executor,
                                  struct inner_request **ret) {
        static const struct inner_request_ops ops = { .on_response = on_response,
                                                      .on_end = on_warmup_end };
        struct inner_request                 *r = inner_request_new(w->model, &ops, w);

        if (r == NULL)
                return no_memory();
        *ret = r;
        r->request->allocator = &w->outputs.base;
        TRY(add_inputs(w, r->request, false));
        TRY(inner_request_prepare(r));
        TRY(add_inputs(w, r->request, true)); /* not inputs of the model, so nothing checks them */
        return add_states(w, executor, r->request);
}

/* Runs the n requests as one batch. */
static struct error *execute_warmup(struct warmup *w, struct executor *executor,
                                    struct request **batch, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                inner_request_begin(w->requests[i]);
                batch[i] = w->requests[i]->request;
        }
        w->n_running = n;
        executor->ops->execute(executor, batch, n);
        MUTEX_GUARD(&w->lock);
        while (w->n_running > 0)
                cond_wait(&w->ended, &w->lock);
        return STEAL(w->error);
}

/* Makes all requests of the sample and runs them as one batch. */
static struct error *run_batch(struct warmup *w, struct executor *executor) {
        uint32_t         n = w->sample->batch_size;
        uint32_t         n_made = 0;
        struct request **batch = try_alloc((size_t)n * sizeof(struct request *));
        struct error    *err = NULL;

        w->requests = try_zalloc((size_t)n * sizeof(struct inner_request *));
        if (batch == NULL || w->requests == NULL)
                err = error_new(ERR_UNAVAILABLE, "out of memory for %u warmup requests", n);
        while (n_made < n && err == NULL)
                err = make_request(w, executor, &w->requests[n_made++]);
        if (err == NULL)
                err = execute_warmup(w, executor, batch, n);
        for (uint32_t i = 0; i < n_made; i++)
                free_request(w->requests[i]);
        free(STEAL(w->requests));
        free(batch);
        return err;
}

/* About what a request holds beside its tensors. */
#define REQUEST_BYTES ((size_t)2 << 10)

static struct error *run_once(struct warmup *w, struct executor *executor) {
        struct byte_budget *budget = w->options->budget;
        size_t              n_bytes = w->sample->batch_size * REQUEST_BYTES;
        struct error       *err;

        if (budget != NULL && !byte_budget_take(budget, n_bytes))
                return error_new(ERR_UNAVAILABLE, BYTE_BUDGET_USED_UP " for %u warmup requests",
                                 w->sample->batch_size);
        err = run_batch(w, executor);
        if (budget != NULL)
                byte_budget_give(budget, n_bytes);
        return err;
}

/* Adds the name of the sample. Takes `why`, which may be NULL. The text ends like that of the
 * reference server. */
static struct error *name_sample(const struct warmup *w, struct error *why) {
        struct error *err;

        if (why == NULL)
                return NULL;
        err = error_new(why->code, "failed to run warmup sample '%s': %s; ", w->sample->name,
                        why->message);
        error_free(why);
        return err;
}

static struct error *check_ends(const struct warmup_options *options) {
        if (options->is_stopping != NULL &&
            atomic_load_explicit(options->is_stopping, memory_order_relaxed))
                return error_new_text(ERR_UNAVAILABLE, "Server exiting");
        if (options->n_superseding != NULL &&
            atomic_load_explicit(options->n_superseding, memory_order_relaxed) > 0)
                return error_new_text(ERR_UNAVAILABLE, "another change of the model was requested");
        return NULL;
}

/* One input may have 2 GiB, for which a stop does not wait each time. */
static struct error *read_inputs(struct warmup *w) {
        w->bytes = mem_zalloc((w->sample->n_inputs + 1) * sizeof(*w->bytes));
        for (size_t i = 0; i < w->sample->n_inputs; i++) {
                TRY(name_sample(w, check_ends(w->options)));
                TRY(warmup_input_read(w->sample->inputs[i]->value, w->sample->inputs[i]->key,
                                      w->directory, w->options->budget, &w->bytes[i]));
        }
        return NULL;
}

/* The texts of the beginning and of a failure are those of the reference server. */
static void log_begin(const struct warmup *w, uint32_t iteration) {
        log_verbose(1, "model '%s' instance %s is running warmup sample '%s' for iteration %u",
                    w->model->name, w->instance, w->sample->name, iteration);
}

static void log_end(const struct warmup *w, bool is_failure) {
        log_verbose(1, "model '%s' instance %s %s warmup sample '%s'", w->model->name, w->instance,
                    is_failure ? "failed to run" : "has run", w->sample->name);
}

static struct error *iterate(struct warmup *w, struct executor *executor, uint32_t iteration) {
        TRY(check_ends(w->options));
        log_begin(w, iteration);
        return run_once(w, executor);
}

static struct error *run_sample(struct warmup *w, struct executor *executor) {
        uint32_t      n = MAX(w->sample->count, 1); /* once when it is not given, as in the
                                                     * reference server */
        struct error *err = read_inputs(w);

        for (uint32_t i = 1; i <= n && err == NULL; i++)
                err = name_sample(w, iterate(w, executor, i));
        log_end(w, err != NULL);
        for (size_t i = 0; i < w->sample->n_inputs; i++)
                warmup_bytes_done(&w->bytes[i], w->options->budget);
        free(w->bytes);
        return err;
}

/* As in the reference server, a batch beyond max_batch_size runs too, but not on members. */
bool warmup_fits(const Inference__ModelWarmup *sample, const struct executor *executor) {
        return !executor->is_member || (sample->batch_size >= executor->min_rows &&
                                        sample->batch_size <= executor->max_rows);
}

struct error *warmup_run(struct model *model, const char *model_directory, const char *instance,
                         struct executor *executor, const struct warmup_options *options) {
        const Inference__ModelConfig *pb = model->config->pb;
        struct error                 *err = NULL;

        for (size_t i = 0; i < pb->n_model_warmup && err == NULL; i++) {
                struct warmup w = { .model = model,
                                    .directory = model_directory,
                                    .instance = instance,
                                    .sample = pb->model_warmup[i],
                                    .options = options,
                                    .outputs = { .base = { .alloc = allocate_output,
                                                           .release = release_output },
                                                 .budget = options->budget } };

                if (w.sample->batch_size == 0 || !warmup_fits(w.sample, executor))
                        continue;
                mutex_init(&w.lock, LOCK_LEAF);
                cond_init(&w.ended);
                err = run_sample(&w, executor);
                cond_done(&w.ended);
                mutex_done(&w.lock);
        }
        return err;
}
