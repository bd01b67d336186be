/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/complete.h"

#include "python/answer.h"
#include "python/python_session.h"
#include "python/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct completion {
        struct session     *session;
        bool                is_done;
        char               *config; /* owned */
        TRITONSERVER_Error *err;    /* owned */
};

static void on_started(struct completion *c, const struct answer_source *source) {
        struct shm_answer answer;
        char             *text;

        if (c->is_done || !answer_copy(source, 0, &answer, sizeof(answer)))
                return;
        text = answer_copy_text(source, answer.text);
        c->is_done = true;
        if (text == NULL) { /* the stub answers once, so a wait for another text has no end */
                c->err = kit_error_no_memory(answer.text.len, "a completed configuration");
                return;
        }
        if (answer.kind == SHM_ANSWER_OK) {
                c->config = text;
                return;
        }
        c->err = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
        free(text);
}

static void handle(struct completion *c, const struct shm_message *message) {
        struct session      *s = c->session;
        struct answer_source source = { &s->region, message->block, message->n_bytes, NULL };

        if (message->kind == SHM_HELLO) {
                s->is_known = true;
                return;
        }
        if (message->kind == SHM_SHRINK) {
                region_follow(&s->region);
                return;
        }
        if (region_find_stub_block(&s->region, message->block, message->n_bytes) == NULL) {
                region_break(&s->region);
                return;
        }
        if (message->kind == SHM_CALL) {
                reply_refuse(
                        s, message->block,
                        "not available in auto_complete_config()"); /* the stub keeps the block of a
                                                                     * call */
                return;
        }
        if (message->kind == SHM_STARTED)
                on_started(c, &source);
        else if (message->kind == SHM_LOG)
                answer_write_log(&source);
        session_return(s, message->block);
}

/* Handles messages until the stub has answered or ended. */
static void follow_stub(struct completion *c, uint64_t timeout_ns) {
        struct session    *s = c->session;
        struct shm_header *h = s->region.header;
        uint64_t           deadline_ns = shm_clock_ns() + timeout_ns;

        for (;;) {
                bool               is_over = session_is_over(s);
                struct shm_message message;
                uint64_t           now_ns;

                while (!atomic_load(&s->region.is_broken) && session_next(s, &message)) {
                        handle(c, &message);
                        region_count_handled(&s->region);
                }
                if (is_over || c->is_done)
                        return;
                now_ns = shm_clock_ns();
                if (!s->is_known && now_ns >= deadline_ns)
                        return;
                session_sleep(s, &h->receiver_sleep, SHM_ASLEEP,
                              s->is_known ? SHM_FOREVER : deadline_ns - now_ns, NULL);
        }
}

static TRITONSERVER_Error *stub_failure(struct completion *c, const struct model *model) {
        char text[1024], end[64];

        if (stub_process_read_text(&c->session->process, text, sizeof(text)) > 0)
                return kit_error(TRITONSERVER_ERROR_INTERNAL, "%s", text);
        stub_process_print_end(&c->session->process, end, sizeof(end));
        return kit_error(TRITONSERVER_ERROR_INTERNAL, "Stub process '%s' is not healthy.: %s",
                         model->kit.name, end);
}

static TRITONSERVER_Error *finish_completion(struct completion *c, struct model *model) {
        TRITONSERVER_Error *err = c->err;

        if (!c->is_done)
                err = stub_failure(c, model);
        else if (err == NULL && c->config[0] != '\0')
                return kit_model_set_config(&model->kit, c->config);
        if (err != NULL)
                kit_log(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__,
                        "Failed to initialize Python stub for auto-complete: %s",
                        TRITONSERVER_ErrorMessage(err));
        return err;
}

/* True when a line of the text begins so. */
static bool has_line_of(const char *text, const char *begin) {
        size_t n = strlen(begin);

        while (strncmp(text, begin, n) != 0) {
                text = strchr(text, '\n');
                if (text == NULL)
                        return false;
                text++;
        }
        return true;
}

/* True for a plain class in a file that does not mention auto_complete_config, and so has no such
 * function. Starting an interpreter to find that out would double the load time of most models. */
static bool has_nothing_to_say(const char *file) {
        char  *text = NULL;
        size_t n_bytes = 0;
        FILE  *in = fopen(file, "re");
        bool   has_nothing;

        if (in == NULL)
                return false;
        if (getdelim(&text, &n_bytes, '\0', in) < 0) {
                free(text);
                (void)fclose(in);
                return false;
        }
        has_nothing = feof(in) != 0 && has_line_of(text, "class TritonPythonModel:") &&
                      strstr(text, "auto_complete_config") == NULL;
        free(text);
        (void)fclose(in);
        return has_nothing;
}

TRITONSERVER_Error *complete_config(struct model *model) {
        struct completion   c = { 0 };
        TRITONSERVER_Error *err;

        if (has_nothing_to_say(model->file))
                return NULL;
        KIT_TRY(session_start(&(struct session_options){ .model = model,
                                                         .name = model->kit.name,
                                                         .kind = "CPU",
                                                         .mode = SESSION_COMPLETE },
                              &c.session));
        follow_stub(&c, model->backend->settings.timeout_ns);
        session_end(c.session);
        err = finish_completion(&c, model);
        session_unref(c.session);
        free(c.config);
        return err != NULL ? err : model_read_again(model);
}
