/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/members.h"

#include "onnxruntime/onnx_config_check.h"
#include "triton/core/neso.h"

#include <stdlib.h>
#include <string.h>

/* Other servers do not have it; there, each instance runs the model's file. */
#pragma weak NESO_ModelInstanceMember

static struct member *find(const struct members *members, const char *file) {
        for (size_t i = 0; i < members->n_items; i++)
                if (strcmp(members->items[i]->file, file) == 0)
                        return members->items[i];
        return NULL;
}

static void member_close(struct member *m) {
        run_plan_done(&m->plan);
        session_close(&m->session);
        free(m->file);
        free(m);
}

static TRITONSERVER_Error *open_file(const struct ort *ort, const struct kit_model *model,
                                     struct member *m) {
        KIT_TRY(session_open_member(ort, model, m->file, &m->session));
        KIT_TRY(onnx_config_check(model, &m->session));
        return run_plan_init(&m->plan, model, &m->session);
}

/* Takes `file`. */
static TRITONSERVER_Error *add_member(const struct ort *ort, const struct kit_model *model,
                                      char *file, struct members *members) {
        struct member **items =
                realloc(members->items, (members->n_items + 1) * sizeof(*members->items));
        struct member      *m = kit_alloc_array(1, sizeof(*m));
        TRITONSERVER_Error *err;

        if (items != NULL)
                members->items = items;
        if (items == NULL || m == NULL) {
                free(m);
                free(file);
                return kit_error_no_memory(sizeof(*m), "a member");
        }
        m->file = file;
        err = open_file(ort, model, m);
        if (err != NULL)
                member_close(m);
        else
                members->items[members->n_items++] = m;
        return err;
}

/* Opens one entry "<group>:<file>"; the server has checked the list. */
static TRITONSERVER_Error *read_entry(const struct ort *ort, const struct kit_model *model,
                                      const char *entry, size_t len, struct members *members) {
        const char *colon = memchr(entry, ':', len);
        char       *file;

        if (colon == NULL)
                return NULL;
        len -= (size_t)(colon + 1 - entry);
        for (entry = colon + 1; len > 0 && (*entry == ' ' || *entry == '\t'); len--)
                entry++;
        while (len > 0 && (entry[len - 1] == ' ' || entry[len - 1] == '\t'))
                len--;
        file = strndup(entry, len);
        if (file == NULL)
                return kit_error_no_memory(len, "the name of a file");
        if (find(members, file) == NULL)
                return add_member(ort, model, file, members);
        free(file);
        return NULL;
}

TRITONSERVER_Error *members_open(const struct ort *ort, const struct kit_model *model,
                                 struct members *ret) {
        const char *list = kit_model_parameter(model, "member_files");

        *ret = (struct members){ 0 };
        while (list != NULL && *list != '\0') {
                size_t              len = strcspn(list, ",");
                TRITONSERVER_Error *err = read_entry(ort, model, list, len, ret);

                if (err != NULL)
                        return err;
                list += len + (list[len] == ',');
        }
        return NULL;
}

void members_close(struct members *members) {
        for (size_t i = 0; i < members->n_items; i++)
                member_close(members->items[i]);
        free(members->items);
        *members = (struct members){ 0 };
}

bool members_need_main(const struct members *members, const struct kit_model *model) {
        TRITONSERVER_Error *err;
        char               *path = NULL;

        if (members->n_items == 0)
                return true;
        err = session_find_file(model, NULL, &path);
        free(path);
        if (err == NULL)
                return true;
        TRITONSERVER_ErrorDelete(err);
        return false;
}

TRITONSERVER_Error *members_find(const struct members        *members,
                                 TRITONBACKEND_ModelInstance *instance,
                                 const struct run_plan      **ret) {
        const char    *group, *file = NULL;
        uint32_t       index;
        struct member *m;

        *ret = NULL;
        if (members->n_items == 0 || NESO_ModelInstanceMember == NULL)
                return NULL;
        KIT_TRY(NESO_ModelInstanceMember(instance, &group, &index, &file));
        m = file != NULL ? find(members, file) : NULL;
        if (m != NULL)
                *ret = &m->plan;
        return NULL;
}
