/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/loads.h"

#include "kit/scratch.h"
#include "kit/stream.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FILES 1024

struct load {
        TRITONSERVER_Server *server;
        struct session      *session; /* ref */
        struct kit_json     *doc;     /* owned */
        struct reply_to      to;
};

struct parameters {
        TRITONSERVER_Parameter *all[MAX_FILES + 1]; /* owned */
        unsigned char          *bytes[MAX_FILES];   /* owned: what they point to */
        size_t                  n, n_bytes;
};

static int digit_of(char c) {
        static const char digits[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c != '\0' ? strchr(digits, c) : NULL;

        return at != NULL ? (int)(at - digits) : -1;
}

/* Base64 (RFC 4648) as Python writes it. NULL when memory is short. */
static unsigned char *decode(const char *text, size_t *ret_bytes) {
        size_t         len = strlen(text), n = 0;
        unsigned char *bytes = malloc(len / 4 * 3 + 3);
        uint32_t       group = 0, n_bits = 0;

        for (size_t i = 0; bytes != NULL && i < len && digit_of(text[i]) >= 0; i++) {
                group = (group << 6 | (uint32_t)digit_of(text[i])) & 0xffffff;
                n_bits += 6;
                if (n_bits >= 8) {
                        n_bits -= 8;
                        bytes[n++] = (unsigned char)(group >> n_bits);
                }
        }
        *ret_bytes = n;
        return bytes;
}

static TRITONSERVER_Error *add_file(struct parameters *p, const struct kit_json_value *file) {
        size_t         n_bytes;
        unsigned char *bytes;

        if (p->n_bytes == MAX_FILES)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG, "a model has up to %d files",
                                 MAX_FILES);
        bytes = decode(kit_json_string(file, ""), &n_bytes);
        if (bytes == NULL)
                return kit_error_no_memory(0, "a file");
        p->bytes[p->n_bytes++] = bytes;
        p->all[p->n++] = TRITONSERVER_ParameterBytesNew(file->key, bytes, n_bytes);
        return NULL;
}

static void parameters_done(struct parameters *p) {
        for (size_t i = 0; i < p->n; i++)
                TRITONSERVER_ParameterDelete(p->all[i]);
        for (size_t i = 0; i < p->n_bytes; i++)
                free(p->bytes[i]);
}

static TRITONSERVER_Error *load_model(const struct load *load, const struct kit_json_value *ask,
                                      const char *model) {
        const char                  *config = kit_json_string(kit_json_find(ask, "config"), "");
        const struct kit_json_value *files = kit_json_find(ask, "files");
        struct parameters           *p = kit_alloc_array(1, sizeof(*p));
        TRITONSERVER_Error          *err = NULL;

        if (p == NULL)
                return kit_error_no_memory(sizeof(*p), "a load");
        if (*config != '\0')
                p->all[p->n++] =
                        TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, config);
        for (const struct kit_json_value *f = files != NULL ? files->first : NULL;
             f != NULL && err == NULL; f = f->next)
                err = add_file(p, f);
        if (err == NULL)
                err = TRITONSERVER_ServerLoadModelWithParameters(
                        load->server, model, (const TRITONSERVER_Parameter **)p->all, p->n);
        parameters_done(p);
        free(p);
        return err;
}

static TRITONSERVER_Error *run(const struct load *load) {
        const struct kit_json_value *ask = kit_json_root(load->doc);
        const char                  *model = kit_json_string(kit_json_find(ask, "model"), "");

        if (strcmp(kit_json_string(kit_json_find(ask, "ask"), ""), "load") == 0)
                return load_model(load, ask, model);
        if (kit_json_bool(kit_json_find(ask, "dependents"), false))
                return TRITONSERVER_ServerUnloadModelAndDependents(load->server, model);
        return TRITONSERVER_ServerUnloadModel(load->server, model);
}

static void run_load(void *userp) {
        struct load        *load = userp;
        TRITONSERVER_Error *err = run(load);

        if (err != NULL)
                reply_error(load->session, &load->to, err);
        else
                reply_text(load->session, &load->to, 0, "", 0);
        kit_json_free(load->doc);
        session_unref(load->session);
        free(load);
}

void loads_start(struct instance *in, struct kit_json *doc, const struct reply_to *to) {
        struct load        *load = kit_alloc_array(1, sizeof(*load));
        struct reply_to     again = *to;
        TRITONSERVER_Error *err;

        if (load == NULL) {
                reply_error(in->session, &again, kit_error_no_memory(sizeof(*load), "a load"));
                kit_json_free(doc);
                return;
        }
        *load = (struct load){ in->model->server, in->session, doc, *to };
        session_ref(load->session);
        err = kit_workers_start(&in->model->backend->workers, run_load, load);
        if (err == NULL)
                return;
        reply_error(in->session, &again, err);
        kit_json_free(doc);
        session_unref(load->session);
        free(load);
}
