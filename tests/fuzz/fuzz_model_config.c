/* SPDX-License-Identifier: BSD-3-Clause */
/* A configuration from any text, through everything that a load does with it: fill, normalise,
 * check, compile, print; through the readers of its parameters and of the files that it names; and, of an ensemble,
 * against models of its steps. What is printed must read back and print the same. And from any text with
 * mistakes, as `neso check` reads it.
 */
#include "base/byte_budget.h"
#include "codec/pb_text_review.h"
#include "config/batch_members.h"
#include "config/batching_config.h"
#include "config/chain_line.h"
#include "config/config_check.h"
#include "config/config_complete.h"
#include "config/config_fill.h"
#include "config/config_normalize.h"
#include "config/config_notes.h"
#include "config/config_review.h"
#include "config/ensemble_models.h"
#include "config/labels.h"
#include "config/model_io.h"
#include "config/openai_parameters.h"
#include "config/state_specs.h"
#include "config/version_policy.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_STATE_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* True when there was none; takes err. */
static bool is_fine(struct error *err) {
        bool is_none = err == NULL;

        error_free(err);
        return is_none;
}

static void print(const struct model_config *c, struct strbuf *json) {
        strbuf_init(json, 0);
        if (!is_fine(model_config_print_json(c, MODEL_CONFIG_VERSION, json)))
                abort();
}

static void check_round_trip(const struct model_config *c) {
        struct model_config *back = NULL;
        struct strbuf        first;
        struct strbuf        second;

        print(c, &first);
        if (!is_fine(model_config_read_json(strbuf_str(&first), &back)))
                abort();
        print(back, &second);
        if (!str_equal(strbuf_str(&first), strbuf_str(&second)))
                abort();
        strbuf_done(&first);
        strbuf_done(&second);
        model_config_free(back);
}

static bool is_loadable(struct model_config *c) {
        static const struct config_place_entry entries[] = { { "model.bin", false } };
        const struct config_place              place = { "model.identity", entries, 1 };
        const struct config_devices            devices = { .n_gpus = 0 };

        return is_fine(model_config_fill(c, &place)) && is_fine(model_config_normalize(c)) &&
               is_fine(model_config_check(c)) &&
               is_fine(model_config_normalize_groups(c, &devices)) &&
               is_fine(model_config_check_groups(c, &devices)) &&
               is_fine(model_config_check_io(c)) && is_fine(model_config_check_states(c)) &&
               is_fine(model_config_check_warmup(c));
}

/* ---- files ------------------------------------------------------------------------------------ */

static char folder[64]; /* of a model: labels, initial_state/eight */

static char *path_of(const char *name) {
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static void remove_folder(void) {
        unlink(path_of("labels"));
        unlink(path_of("initial_state/eight"));
        rmdir(path_of("initial_state"));
        rmdir(folder);
}

static void put_file(const char *name, const char *text) {
        FILE *file = fopen(path_of(name), "w");

        if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0)
                abort();
}

static void make_folder(void) {
        snprintf(folder, sizeof(folder), "%s/neso_fuzz_XXXXXX", P_tmpdir);
        if (mkdtemp(folder) == NULL || mkdir(path_of("initial_state"), 0700) != 0)
                abort();
        atexit(remove_folder);
        put_file("labels", "a\n\nb\n");
        put_file("initial_state/eight", "12345678");
}

static void read_files(const struct model_config *c) {
        struct labels      *labels = NULL;
        struct state_specs *states = NULL;
        struct byte_budget  budget;

        byte_budget_init(&budget, MAX_STATE_BYTES);
        if (is_fine(labels_read(c, folder, &labels)))
                for (size_t i = 0; i < c->pb->n_output; i++)
                        if (labels_count(labels, c->pb->output[i]->name) > 3)
                                abort();
        labels_free(labels);
        if (is_fine(state_specs_new(c, folder, &budget, &states)))
                state_specs_free(states);
}

/* ---- ensembles -------------------------------------------------------------------------------- */

static const char step_config[] = "backend: 'b' max_batch_size: 2 "
                                  "model_transaction_policy { decoupled: true } "
                                  "input { name: 'I' data_type: TYPE_INT8 dims: -1 } "
                                  "output { name: 'O' data_type: TYPE_INT8 dims: -1 }";

/* The models of the steps are, in turn, not known, the fixed one, and the ensemble itself. */
static void check_steps(const struct ensemble_graph *g, const struct model_config *c,
                        const struct model_config *fixed) {
        struct ensemble_step_model *models = calloc(g->n_steps, sizeof(*models));
        uint32_t                   *streams = calloc(g->n_tensors, sizeof(*streams)), n = 0;

        if (models == NULL || streams == NULL)
                abort();
        for (uint32_t i = 0; i < g->n_steps; i++)
                models[i] = (struct ensemble_step_model){
                        .pb = i % 3 == 0   ? fixed->pb
                              : i % 3 == 1 ? NULL
                                           : c->pb,
                        .may_be_completed = i % 4 == 0,
                        .is_decoupled = i % 5 == 0,
                };
        (void)is_fine(ensemble_models_check(g, models));
        if (is_fine(ensemble_models_streams(g, models, streams, &n)) && n > g->n_steps)
                abort();
        free(models);
        free(streams);
}

static void check_ensemble(const struct model_config *c) {
        struct ensemble_graph *g = NULL;
        struct model_config   *fixed = NULL;

        if (!model_config_is_ensemble(c) || !is_fine(ensemble_graph_new(c->pb, &g)))
                return;
        if (!is_fine(model_config_read_text(str_of(step_config), "step", &fixed)))
                abort();
        if (is_fine(ensemble_graph_check(g)) && g->n_steps > 0 && g->n_tensors > 0)
                check_steps(g, c, fixed);
        model_config_free(fixed);
        ensemble_graph_free(g);
}

/* ---- the rest of a load ------------------------------------------------------------------------- */

static void pick_versions(const struct model_config *c) {
        struct version_scan s;
        struct version_pick pick;

        version_scan_init(&s);
        version_scan_add(&s, STR_LIT("1"));
        version_scan_add(&s, STR_LIT("12"));
        if (is_fine(version_policy_pick(c, &s, &pick))) {
                if (pick.n_versions == 0 || pick.n_versions > 2)
                        abort();
                version_pick_done(&pick);
        }
        version_scan_done(&s);
}

/* What a checked configuration is compiled to. */
static void compile(const struct model_config *c) {
        struct model_io_set   *io = NULL;
        struct batching_config policy;

        if (is_fine(model_io_set_new(c, &io)) && io->n_required_inputs > io->n_inputs)
                abort();
        model_io_set_free(io);
        if (is_fine(batching_config_init(&policy, c))) {
                if (batching_config_largest_preferred(&policy) > policy.max_batch_size)
                        abort();
                batching_config_done(&policy);
        }
        pick_versions(c);
}

static void check_members(const struct model_config *c) {
        struct batch_members m;

        if (!is_fine(batch_members_read(c, &m)))
                return;
        if (m.n_items != c->pb->n_instance_group)
                abort();
        for (size_t i = 0; i < m.n_items; i++)
                if (m.items[i].min_rows == 0 || m.items[i].min_rows > m.items[i].max_rows)
                        abort();
        batch_members_done(&m);
}

static void check_chain(const struct model_config *c) {
        struct chain_line line;

        if (!is_fine(chain_line_read(c, &line)))
                return;
        if ((line.kind == CHAIN_NONE) != (line.n_stages == 0))
                abort();
        for (size_t i = 0; i < line.n_stages; i++)
                if (line.stages[i].name[0] == '\0' || line.stages[i].version < -1)
                        abort();
        chain_line_done(&line);
}

static void ignore_note(void *owner, enum note_verdict verdict, const char *field,
                        const char *text) {
        (void)owner;
        if (note_verdict_name(verdict) == NULL || field == NULL || text == NULL)
                abort();
}

/* Texts within the text. */
static void check_parameters(const struct model_config *c) {
        check_members(c);
        check_chain(c);
        (void)is_fine(openai_parameters_check(c));
        config_notes_each(c, &(struct config_notes_place){ .directory = "/nowhere" }, ignore_note,
                          NULL);
}

static void drop_error(void *owner, struct error *err) {
        (void)owner;
        error_free(err);
}

/* What is right of a text with mistakes is a configuration like any other. */
static void check_reviewed(struct str text) {
        struct model_config  *c = NULL;
        struct pb_text_review review;

        pb_text_review_init(&review, drop_error, NULL);
        if (is_fine(model_config_read_all(&review, text, &c)) && c != NULL) {
                check_round_trip(c);
                (void)is_loadable(c);
                (void)is_fine(model_config_review_names(c));
                (void)is_fine(model_config_review_warmup(c));
                (void)is_fine(model_config_assume_complete(c));
                for (size_t i = 0; i < c->pb->n_input; i++)
                        (void)is_fine(model_config_check_input(c, i));
        }
        model_config_free(c);
        pb_text_review_done(&review);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len) {
        struct model_config *c = NULL;
        struct model_config *copy = NULL;

        if (folder[0] == '\0')
                make_folder();
        check_reviewed(str_range((const char *)bytes, len));
        if (!is_fine(model_config_read_text(str_range((const char *)bytes, len), "fuzz", &c)))
                return 0;
        check_round_trip(c);
        if (!is_fine(model_config_copy(c, &copy)))
                abort();
        if (is_loadable(c)) {
                check_round_trip(c);
                compile(c);
                check_parameters(c);
                read_files(c);
                check_ensemble(c);
                (void)is_fine(model_config_complete(c, copy));
                check_round_trip(c);
        }
        model_config_free(copy);
        model_config_free(c);
        return 0;
}
