/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/python_session.h"

#include "kit/scratch.h"
#include "kit/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STUB_SCRIPT "triton_python_backend_stub.py"
/* Interval in messages at which a stub that waits for room in the ring is woken. */
#define ROOM_MESSAGES 16u

static pthread_mutex_t over_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  over_changed;
static pthread_once_t  over_once = PTHREAD_ONCE_INIT;

static void init_over(void) {
        pthread_condattr_t attributes;

        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&over_changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void wake_all(struct session *s) {
        struct shm_header *h = s->region.header;

        atomic_store(&h->receiver_sleep, SHM_AWAKE);
        atomic_store(&h->executor_sleep, SHM_AWAKE);
        /* Also when the stub had cleared a word and died before it made the call. */
        shm_futex_wake(&h->receiver_sleep, INT32_MAX);
        shm_futex_wake(&h->executor_sleep, INT32_MAX);
        shm_futex_wake(&h->ready_answered, INT32_MAX);
        shm_futex_wake(&h->stacks_answered, INT32_MAX);
}

static void on_end(struct stub_process *process) {
        struct session *s = (struct session *)((char *)process - offsetof(struct session, process));

        atomic_store(&s->is_over, true);
        wake_all(s);
        (void)pthread_mutex_lock(&over_lock);
        (void)pthread_cond_broadcast(&over_changed);
        (void)pthread_mutex_unlock(&over_lock);
        session_unref(s);
}

static void add_text(struct kit_text *text, const char *key, const char *value) {
        kit_text_add_json(text, key);
        kit_text_add(text, ":", 1);
        kit_text_add_json(text, value);
        kit_text_add(text, ",", 1);
}

static void add_names(struct kit_text *text, const char *key, const struct kit_tensor *tensors,
                      uint32_t n) {
        kit_text_add_json(text, key);
        kit_text_add(text, ":[", 2);
        for (uint32_t i = 0; i < n; i++) {
                if (i > 0)
                        kit_text_add(text, ",", 1);
                kit_text_add_json(text, tensors[i].name);
        }
        kit_text_add(text, "],", 2);
}

/* Adds the settings of the model's backend, which is this one or a Python program. */
static void add_settings(struct kit_text *text, const struct model *model) {
        const struct kit_json_value *model_config = kit_json_root(model->kit.config);
        const char *backend = kit_json_string(kit_json_find(model_config, "backend"), "python");
        const struct kit_json_value *all =
                kit_json_find(kit_json_root(model->backend->config), "backends");
        const struct kit_json_value *s = all != NULL ? all->first : NULL;

        while (s != NULL && strcmp(s->key, backend) != 0)
                s = s->next;
        kit_text_add(text, "\"backend_config\":{", 18);
        for (s = s != NULL ? s->first : NULL; s != NULL; s = s->next) {
                kit_text_add_json(text, s->key);
                kit_text_add(text, ":", 1);
                kit_text_add_json(text, kit_json_string(s, ""));
                if (s->next != NULL)
                        kit_text_add(text, ",", 1);
        }
        kit_text_add(text, "},", 2);
}

static TRITONSERVER_Error *config_text(const struct model *model, TRITONSERVER_Message **message,
                                       const char **ret, size_t *ret_len) {
        KIT_TRY(TRITONBACKEND_ModelConfig(model->kit.triton, 1, message));
        return TRITONSERVER_MessageSerializeToJson(*message, ret, ret_len);
}

/* Prints the stub's start parameters as JSON. */
static TRITONSERVER_Error *print_start(const struct session_options *o, struct kit_text *text) {
        const struct model   *model = o->model;
        TRITONSERVER_Message *message = NULL;
        const char           *config;
        size_t                len;
        TRITONSERVER_Error   *err = config_text(model, &message, &config, &len);

        if (err != NULL)
                return err;
        kit_text_add(text, "{", 1);
        add_text(text, "mode", o->mode == SESSION_SERVE ? "serve" : "complete");
        add_text(text, "file", model->file);
        add_text(text, "model_directory", model->kit.path);
        add_text(text, "version_directory", model->kit.version_path);
        add_text(text, "library_directory",
                 model->library_directory != NULL ? model->library_directory : "");
        add_text(text, "backend_directory", model->backend->directory);
        add_names(text, "inputs", model->kit.inputs, model->kit.n_inputs);
        add_names(text, "outputs", model->kit.outputs, model->kit.n_outputs);
        kit_text_print(text, "\"is_decoupled\":%s,", model->is_decoupled ? "true" : "false");
        kit_text_print(text, "\"async_concurrency\":%u,", model->async_concurrency);
        add_settings(text, model);
        kit_text_add(text, "\"args\":{", 8);
        kit_text_print(text, "\"model_instance_device_id\":\"%d\",", (int)o->device);
        kit_text_print(text, "\"model_version\":\"%llu\",", (unsigned long long)model->kit.version);
        add_text(text, "model_instance_kind", o->kind);
        add_text(text, "model_instance_name", o->name);
        add_text(text, "model_repository", model->kit.path);
        add_text(text, "model_name", model->kit.name);
        kit_text_add(text, "\"model_config\":", 15);
        kit_text_add_json(text, config);
        kit_text_add(text, "}}", 2);
        (void)TRITONSERVER_MessageDelete(message);
        return NULL;
}

static TRITONSERVER_Error *write_start(struct session *s, const struct session_options *o) {
        struct kit_text     text = { 0 };
        TRITONSERVER_Error *err = print_start(o, &text);
        struct shm_answer  *answer;
        size_t              len = text.len;
        char               *chars = kit_text_take(&text);

        if (err != NULL || chars == NULL) {
                free(chars);
                return err != NULL ? err : kit_error_no_memory(len, "the start of a process");
        }
        s->region.header->start = region_alloc(&s->region, sizeof(*answer) + len);
        if (s->region.header->start == 0) {
                free(chars);
                return kit_error_no_memory(len, "the start of a process");
        }
        answer = region_block(&s->region, s->region.header->start);
        *answer = (struct shm_answer){ .kind = SHM_ANSWER_OK,
                                       .text = { sizeof(*answer), (uint32_t)len } };
        memcpy(answer + 1, chars, len);
        free(chars);
        return NULL;
}

static TRITONSERVER_Error *start_process(struct session *s, const struct session_options *o) {
        char  script[4096];
        char *arguments[] = { o->model->python, script, (char *)(uintptr_t)o->name, NULL };
        int   n = snprintf(script, sizeof(script), "%s/%s", o->model->backend->directory,
                           STUB_SCRIPT);

        if (n < 0 || (size_t)n >= sizeof(script))
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the path of the python backend is too long: %s",
                                 o->model->backend->directory);
        return stub_process_start(&s->process, o->model->backend->reaper,
                                  &(struct stub_process_options){ .program = o->model->python,
                                                                  .arguments = arguments,
                                                                  .environment =
                                                                          o->model->environment,
                                                                  .memory_fd = s->region.fd });
}

TRITONSERVER_Error *session_start(const struct session_options *o, struct session **ret) {
        struct session     *s = kit_alloc_array(1, sizeof(*s));
        TRITONSERVER_Error *err;

        (void)pthread_once(&over_once, init_over);
        if (s == NULL)
                return kit_error_no_memory(sizeof(*s), "a Python process");
        s->name = o->name;
        s->process.on_end = on_end;
        atomic_init(&s->n_users, 2); /* one for the caller, one for on_end() */
        err = region_open(&s->region, &o->model->backend->settings.region);
        if (err == NULL)
                err = write_start(s, o);
        if (err == NULL)
                err = start_process(s, o);
        if (err != NULL) {
                region_close(&s->region);
                free(s);
                return err;
        }
        *ret = s;
        return NULL;
}

void session_ref(struct session *s) {
        atomic_fetch_add(&s->n_users, 1);
}

void session_unref(struct session *s) {
        if (atomic_fetch_sub(&s->n_users, 1) != 1)
                return;
        stub_process_done(&s->process);
        region_close(&s->region);
        free(s);
}

bool session_wait(struct session *s, uint64_t timeout_ns) {
        uint64_t        until = shm_clock_ns() + timeout_ns;
        struct timespec deadline = { .tv_sec = (time_t)(until / 1000000000u),
                                     .tv_nsec = (long)(until % 1000000000u) };
        int             rc = 0;
        bool            is_over;

        (void)pthread_mutex_lock(&over_lock);
        while (!atomic_load(&s->is_over) && rc == 0)
                rc = timeout_ns == SHM_FOREVER
                             ? pthread_cond_wait(&over_changed, &over_lock)
                             : pthread_cond_timedwait(&over_changed, &over_lock, &deadline);
        is_over = atomic_load(&s->is_over);
        (void)pthread_mutex_unlock(&over_lock);
        return is_over;
}

void session_end(struct session *s) {
        if (!atomic_load(&s->is_over))
                stub_process_kill(&s->process);
        (void)session_wait(s, SHM_FOREVER);
}

/* ---- transport ------------------------------------------------------------------------------- */

void session_push(struct session *s, const struct shm_execution *execution) {
        struct shm_header *h = s->region.header;
        uint32_t           tail = s->execution_tail++;

        h->executions[tail % (2 * SHM_MAX_DEPTH)] = *execution;
        region_before_publish(&s->region);
        atomic_store_explicit(&h->execution_tail, tail + 1, memory_order_release);
}

void session_wake_stub(struct session *s) {
        shm_wake(&s->region.header->stub_sleep, SHM_NAPPING);
}

bool session_has_message(const struct session *s) {
        return atomic_load(&s->region.header->message_tail) != s->message_head;
}

static bool next(struct session *s, struct shm_message *ret) {
        struct shm_header *h = s->region.header;
        uint32_t           tail = atomic_load_explicit(&h->message_tail, memory_order_acquire);

        if (tail == s->message_head)
                return false;
        if (tail - s->message_head > SHM_MESSAGES) {
                region_break(&s->region);
                return false;
        }
        region_after_take(&s->region);
        memcpy(ret, &h->messages[s->message_head % SHM_MESSAGES], sizeof(*ret));
        s->message_head++;
        atomic_store_explicit(&h->message_head, s->message_head, memory_order_release);
        /* The fence in shm_wake() costs as much as the rest of this function, so it is not called
         * for each message. */
        if (s->message_head == tail || s->message_head % ROOM_MESSAGES == 0)
                shm_wake(&h->room_sleep, SHM_NAPPING);
        return true;
}

bool session_next(struct session *s, struct shm_message *ret) {
        while (next(s, ret)) {
                if (ret->kind != SHM_GROW)
                        return true;
                region_grow(&s->region, ret->handle);
                region_count_handled(&s->region);
        }
        return false;
}

void session_sleep(struct session *s, _Atomic uint32_t *word, enum shm_sleep depth,
                   uint64_t timeout_ns, const atomic_bool *until) {
        bool is_receiver = word == &s->region.header->receiver_sleep;

        atomic_store(word, (uint32_t)depth);
        atomic_thread_fence(memory_order_seq_cst);
        if (!session_has_message(s) && !session_is_over(s) &&
            !(until != NULL && atomic_load(until)) && !(is_receiver && atomic_load(&s->is_called)))
                (void)shm_futex_wait(word, (uint32_t)depth, timeout_ns);
        atomic_store(word, SHM_AWAKE);
        if (is_receiver)
                atomic_store(&s->is_called, false);
}

void session_call_receiver(struct session *s) {
        atomic_store(&s->is_called, true);
        shm_wake(&s->region.header->receiver_sleep, SHM_NAPPING);
}

void session_return(struct session *s, uint32_t block) {
        region_push(&s->region, &s->region.header->returned, block,
                    region_block(&s->region, block));
}
