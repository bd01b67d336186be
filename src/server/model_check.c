/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/model_check.h"

#include "backend/backend_registry.h"
#include "backend/batch_strategy.h"
#include "base/file.h"
#include "base/mem.h"
#include "config/batch_members.h"
#include "config/chain_line.h"
#include "config/config_check.h"
#include "config/config_normalize.h"
#include "config/config_notes.h"
#include "config/config_review.h"
#include "config/labels.h"
#include "config/openai_parameters.h"
#include "config/state_specs.h"
#include "repo/agent.h"
#include "repo/model_files.h"
#include "repo/warmup.h"
#include "sched/batch_sizes.h"
#include "sched/sched_options.h"
#include "sched/sched_setup.h"
#include "sched_plugin/plugin_library.h"

#include <stdlib.h>
#include <string.h>

/* Fields that determine the backend of a model. */
#define BACKEND_FIELDS "platform backend runtime default_model_filename"

/* The path of the file, or of the directory when there is no file. */
static const char *place_of(const struct model_check *c) {
        return c->config_path != NULL ? c->config_path : c->directory;
}

/* Adds `err`, which it takes, as a problem; NULL adds nothing. Returns true for NULL. */
static bool add_problem(struct model_check *c, struct error *err) {
        if (err == NULL)
                return true;
        if (c->problems.n_errors < MODEL_CHECK_MAX_ERRORS) {
                problem_list_add(&c->problems, place_of(c), &c->review, err);
                return false;
        }
        error_free(err);
        c->review.is_cut = true;
        return false;
}

static bool is_doubtful(const struct model_check *c, struct str path) {
        return pb_doubts_touch(&c->review.doubts, path);
}

static bool has_doubts(const struct model_check *c) {
        return c->review.n_errors > 0;
}

/* Adds the error of a check of one field that also depends on `others` (paths separated by blanks);
 * returns false if it did. Drops the error and returns true when one of these fields is doubtful. */
static bool report_field(struct model_check *c, const char *others, struct error *err) {
        struct str path, rest = str_of(others);

        if (err == NULL || !has_doubts(c))
                return add_problem(c, err);
        if (is_doubtful(c, err->field != NULL ? str_of(err->field) : STR_LIT(""))) {
                error_free(err);
                return true;
        }
        while (rest.len > 0) {
                rest = str_split(rest, ' ', &path);
                if (!is_doubtful(c, path))
                        continue;
                error_free(err);
                return true;
        }
        return add_problem(c, err);
}

/* As report_field(), for a check that reads the whole message around the field, such as "input[0]": it
 * must not be doubtful either. */
static bool report_with(struct model_check *c, const char *others, struct error *err) {
        struct str whole;

        if (err == NULL || err->field == NULL)
                return report_field(c, others, err);
        str_split(str_of(err->field), '.', &whole);
        if (!is_doubtful(c, whole))
                return report_field(c, others, err);
        error_free(err);
        return true;
}

static bool report_problem(struct model_check *c, struct error *err) {
        return report_with(c, "", err);
}

static void on_mistake(void *owner, struct error *err) {
        add_problem(owner, err);
}

static struct error *read_config(struct model_check *c) {
        AUTO_STRBUF text = { .max = MODEL_CONFIG_TEXT_MAX_BYTES };

        if (c->config_path == NULL && !c->options->auto_complete)
                return error_new(ERR_NOT_FOUND,
                                 "there is no config.pbtxt, and auto-completion is disabled");
        if (c->config_path == NULL) {
                c->config = model_config_new();
                return NULL;
        }
        TRY(file_read(c->config_path, MODEL_CONFIG_TEXT_MAX_BYTES, &text));
        return model_config_read_all(&c->review, strbuf_str(&text), &c->config);
}

/* ---- remarks ---------------------------------------------------------------------------------- */

static void add_note(void *owner, enum note_verdict verdict, const char *field, const char *text) {
        struct model_check *c = owner;

        problem_list_note(&c->notes, place_of(c), &c->review, note_verdict_name(verdict),
                          error_at(error_new_text(ERR_INVALID_ARG, text), "%s", field));
}

/* Adds a remark on the field that `err` is about. */
static void explain_field(struct model_check *c, const struct error *err, const char *text) {
        if (err != NULL && err->field != NULL)
                add_note(c, NOTE_MISSING, err->field, text);
}

static bool is_installed(const struct model_check *c, const char *backend) {
        AUTO_CHARS path = NULL;
        AUTO_ERROR err =
                backend_registry_find(c->options->backends,
                                      &(struct backend_wanted){ .backend = backend,
                                                                .runtime = "",
                                                                .model = c->name,
                                                                .model_directory = c->directory,
                                                                .version = 1 },
                                      &path);

        return err == NULL;
}

/* Puts the names of the installed backends, with commas between them. */
static void put_installed(const struct model_check *c, struct strbuf *out) {
        struct dir_list list;
        const char     *before = "which has ";
        AUTO_ERROR      err = dir_list_read_directories(c->options->backend_directory, &list);

        if (err != NULL) {
                strbuf_puts(out, "no such directory");
                return;
        }
        for (size_t i = 0; i < list.n_names; i++) {
                if (!is_installed(c, list.names[i]))
                        continue;
                strbuf_printf(out, "%s%s", before, list.names[i]);
                before = ", ";
        }
        if (strcmp(before, ", ") != 0)
                strbuf_puts(out, "which has none");
        dir_list_done(&list);
}

static void explain_backend(struct model_check *c, const struct error *err, const char *backend) {
        const char *advice = config_notes_of_backend(backend);
        AUTO_STRBUF text = { 0 };

        strbuf_printf(&text,
                      "needs the compiled backend libtriton_%s.so in --backend-directory=%s (",
                      backend, c->options->backend_directory);
        put_installed(c, &text);
        strbuf_printf(&text, ")%s%s", *advice != '\0' ? "; " : "", advice);
        explain_field(c, err, strbuf_cstr(&text));
}

/* ---- the checks -------------------------------------------------------------------------------- */

/* Adds "Did you mean" with the nearest name in the directory to the message. Takes `err`. */
static struct error *suggest_name(const char *directory, const char *wanted, struct error *err) {
        const char     *nearest;
        struct dir_list list;
        AUTO_ERROR      unread = dir_list_read(directory, &list);

        if (unread != NULL)
                return err;
        nearest = str_suggest(str_of(wanted), (const char *const *)list.names, list.n_names);
        if (nearest != NULL && strcmp(nearest, wanted) != 0)
                err = error_append(err, " Did you mean '%s'?", nearest);
        dir_list_done(&list);
        return err;
}

static struct error *check_backend(struct model_check *c) {
        const Inference__ModelConfig *pb = c->config->pb;
        bool                          is_platform = !config_text_is_set(pb->backend);
        const char                   *field = config_text_is_set(pb->runtime) ? "runtime"
                                              : is_platform                   ? "platform"
                                                                              : "backend";
        const char                   *backend = is_platform ? pb->platform : pb->backend;
        AUTO_CHARS                    path = NULL;
        struct error                 *err;

        err = backend_registry_find(
                c->options->backends,
                &(struct backend_wanted){
                        .backend = backend,
                        .runtime = config_text_is_set(pb->runtime) ? pb->runtime : "",
                        .model = c->name,
                        .model_directory = c->directory,
                        .version = c->versions.n_versions > 0 ? c->versions.versions[0] : 1 },
                &path);
        if (err != NULL && !is_platform)
                err = suggest_name(c->options->backend_directory, pb->backend, err);
        err = error_at(err, "%s", field);
        if (err == NULL)
                add_note(c, NOTE_WORKS, field, path);
        else if (!config_text_is_set(pb->runtime))
                explain_backend(c, err, backend);
        return err;
}

/* Checks that each named agent can be found. An earlier agent may provide the
 * model's files, so the files are not examined for a later one. */
static void check_agents(struct model_check *c) {
        const Inference__ModelRepositoryAgents *agents = c->config->pb->model_repository_agents;

        for (size_t i = 0; agents != NULL && i < agents->n_agents; i++) {
                const char   *name = agents->agents[i]->name;
                AUTO_CHARS    path = NULL;
                struct error *err = agent_registry_find(c->options->agents, name, c->name, &path);

                if (err != NULL)
                        err = suggest_name(c->options->agent_directory, name, err);
                report_problem(c, error_at(err, "model_repository_agents.agents[%zu].name", i));
        }
}

static struct error *find_scheduler(const struct model_check *c) {
        const char *name = model_config_find_parameter(c->config, "scheduler");

        if (name == NULL || sched_is_built_in(name))
                return NULL;
        return model_config_at_parameter(
                c->config, "scheduler",
                plugin_library_check(&(struct plugin_query){
                        .name = name,
                        .model = c->name,
                        .version = c->versions.n_versions > 0 ? c->versions.versions[0] : 1,
                        .directory = c->directory,
                        .server_directory = c->options->scheduler_directory }));
}

static void check_scheduling_libraries(struct model_check *c) {
        /* Agents may move the model to another directory. */
        if (c->config->pb->model_repository_agents != NULL)
                return;
        report_with(c, "dynamic_batching model_repository_agents",
                    batch_strategy_check(c->config, c->directory));
        report_with(c, "model_repository_agents", find_scheduler(c));
}

/* Whether the error is about a group that names GPUs. */
static bool is_gpu_error(const struct model_check *c, const struct error *err) {
        const Inference__ModelConfig *pb = c->config->pb;

        for (size_t i = 0; i < pb->n_instance_group; i++) {
                const Inference__ModelInstanceGroup *group = pb->instance_group[i];
                AUTO_CHARS                           path = mem_printf("instance_group[%zu]", i);

                if ((group->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU ||
                     group->n_gpus > 0) &&
                    err->field != NULL && str_starts(str_of(err->field), str_of(path)))
                        return true;
        }
        return false;
}

/* Without the backend's defaults for instance groups, which only an opened backend reports. */
static struct error *check_groups(struct model_check *c) {
        const struct config_devices devices = {
                .gpus = c->options->gpus,
                .n_gpus = c->options->n_gpus,
                .least_capability = c->options->min_compute_capability,
        };
        struct error *err;

        if (chain_line_is_platform(c->config))
                return NULL;
        TRY(model_config_normalize_groups(c->config, &devices));
        err = model_config_check_groups(c->config, &devices);
        if (err != NULL && devices.n_gpus == 0 && is_gpu_error(c, err))
                explain_field(
                        c, err,
                        "this machine has no GPUs that the server can use: without the kind and "
                        "its GPUs, or with "
                        "KIND_CPU, the model runs on the CPU");
        return err;
}

static struct error *assume_complete(const struct model_check *c, struct model_config **ret) {
        TRY(model_config_copy(c->config, ret));
        if (c->options->auto_complete || is_doubtful(c, STR_LIT("input")) ||
            is_doubtful(c, STR_LIT("output")))
                return model_config_assume_complete(*ret);
        return NULL;
}

/* Problems of `dims` and `data_type` depend on no other field; other checks of a tensor compare
 * fields. */
static void report_tensor(struct model_check *c, struct error *err) {
        if (err != NULL && err->field != NULL &&
            (strstr(err->field, "].dims") != NULL || strstr(err->field, "].data_type") != NULL))
                report_field(c, "", err);
        else
                report_with(c, "max_batch_size platform backend", err);
}

/* Fields that the backend may complete are not reported as missing. */
static void check_io(struct model_check *c) {
        AUTO_MODEL_CONFIG assumed = NULL;

        if (!add_problem(c, assume_complete(c, &assumed)))
                return;
        for (size_t i = 0; i < assumed->pb->n_input; i++)
                report_tensor(c, model_config_check_input(assumed, i));
        for (size_t i = 0; i < assumed->pb->n_output; i++)
                report_tensor(c, model_config_check_output(assumed, i));
        report_with(c, "input output", model_config_check_batch_io(assumed));
}

/* Includes the files of initial_state. */
static struct error *check_states(const struct model_check *c) {
        struct state_specs *specs;

        TRY(model_config_check_states(c->config));
        TRY(state_specs_new(c->config, c->directory, NULL, &specs));
        state_specs_free(specs);
        return NULL;
}

static struct error *check_labels(const struct model_check *c) {
        struct labels *labels;

        TRY(labels_read(c->config, c->directory, &labels));
        labels_free(labels);
        return NULL;
}

/* Checks the files of the samples. Samples of zeros or random data have none. */
static struct error *check_warmup_files(const struct model_check *c) {
        const Inference__ModelConfig *pb = c->config->pb;

        for (size_t i = 0; i < pb->n_model_warmup; i++)
                for (size_t k = 0; k < pb->model_warmup[i]->n_inputs; k++) {
                        const Inference__ModelWarmup__InputsEntry *in =
                                pb->model_warmup[i]->inputs[k];
                        struct warmup_bytes bytes;
                        struct error       *err;

                        if (in->value == NULL ||
                            in->value->input_data_type_case !=
                                    INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE)
                                continue;
                        err = warmup_input_read(in->value, in->key, c->directory, NULL, &bytes);
                        warmup_bytes_done(&bytes, NULL);
                        TRY(error_at(err, "model_warmup[%zu].inputs[%zu].value.input_data_file", i,
                                     k));
                }
        return NULL;
}

static void check_warmup(struct model_check *c) {
        /* The size of a sample's file can be checked only if the sample's shape is right. */
        if (report_problem(c, model_config_check_warmup(c->config)) &&
            report_with(c, "input", model_config_review_warmup(c->config)))
                report_problem(c, check_warmup_files(c));
}

static void pick_versions(struct model_check *c, struct version_scan *scan) {
        report_problem(c, error_at(version_policy_pick(c->config, scan, &c->versions),
                                   "version_policy"));
        for (size_t i = 0; i < scan->n_warnings; i++)
                problem_list_warn(&c->problems, c->directory, scan->warnings[i]);
}

/* Fields of other parts of the configuration that model_config_check_scheduling() reads. */
static const char *scheduling_fields(const struct model_check *c) {
        if (c->config->pb->scheduling_choice_case ==
            INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING)
                return "max_batch_size dynamic_batching.priority_levels "
                       "dynamic_batching.default_priority_level dynamic_batching.preserve_ordering "
                       "dynamic_batching.default_queue_policy "
                       "dynamic_batching.priority_queue_policy";
        return "max_batch_size platform backend input output instance_group optimization "
               "model_warmup sequence_batching ensemble_scheduling";
}

static bool check_rules(struct model_check *c) {
        const struct model_config *config = c->config;

        return report_with(c, BACKEND_FIELDS, model_config_check_platform(config)) &&
               report_problem(c, model_config_check_general(config)) &&
               report_field(c, scheduling_fields(c), model_config_check_scheduling(config)) &&
               report_with(c, "parameters instance_group", model_config_check_chain(config)) &&
               report_with(c, "model_transaction_policy sequence_batching",
                           model_config_check_cache(config)) &&
               report_problem(c, model_config_check_metrics(config));
}

static void check_config(struct model_check *c, struct version_scan *scan) {
        bool is_general = check_rules(c);
        bool has_backend =
                !model_config_is_ensemble(c->config) && !chain_line_is_platform(c->config);

        report_problem(c, model_config_check_name(c->config, c->name));
        pick_versions(c, scan);
        if (is_general && has_backend)
                report_with(c, "max_batch_size " BACKEND_FIELDS,
                            sched_options_check(c->name, c->config));
        if (config_text_is_set(c->config->pb->backend) || (is_general && has_backend))
                report_with(c, BACKEND_FIELDS, check_backend(c));
        check_agents(c);
        check_scheduling_libraries(c);
        report_with(c, BACKEND_FIELDS, check_groups(c));
        check_io(c);
        report_problem(c, model_config_review_names(c->config));
        report_with(c, "input", openai_parameters_check(c->config));
        report_with(c, "instance_group max_batch_size input", check_states(c));
        check_warmup(c);
        report_field(c, "", check_labels(c));
}

/* Reads the text and builds the configuration from it. */
static bool fill_config(struct model_check *c, const char *first_file) {
        if (!add_problem(c, read_config(c)) || c->config == NULL)
                return false;
        if (!report_with(c, BACKEND_FIELDS, model_files_fill(c->config, c->name, first_file)))
                return false;
        config_notes_each(c->config,
                          &(struct config_notes_place){ .directory = c->directory,
                                                        .has_gpus = c->options->n_gpus > 0 },
                          add_note, c);
        return report_problem(c, model_config_normalize(c->config));
}

static void check_directory(struct model_check *c, struct version_scan *scan) {
        AUTO_CHARS first = NULL;

        if (!add_problem(c, model_files_scan(c->directory, scan, &first)))
                return;
        c->config_path = model_files_find_config(c->options->config_name, c->directory);
        if (fill_config(c, first))
                check_config(c, scan);
}

void model_check_run(struct model_check *c) {
        struct version_scan scan;

        pb_text_review_init(&c->review, on_mistake, c);
        version_scan_init(&scan);
        check_directory(c, &scan);
        problem_list_sort(&c->problems);
        problem_list_sort(&c->notes);
        if (c->review.is_cut)
                problem_list_add(&c->problems, place_of(c), NULL,
                                 error_new(ERR_INVALID_ARG,
                                           "there may be more mistakes: the check ended early"));
        version_scan_done(&scan);
}

void model_check_refuse(struct model_check *c, struct error *err) {
        report_problem(c, err);
        problem_list_sort(&c->problems);
}

void model_check_done(struct model_check *c) {
        version_pick_done(&c->versions);
        problem_list_done(&c->problems);
        problem_list_done(&c->notes);
        model_config_free(c->config);
        pb_text_review_done(&c->review);
        free(c->config_path);
}

static struct error *print_config(const struct model_check *c, struct json_writer *w) {
        AUTO_STRBUF json = { .max = MODEL_CONFIG_ARENA_MAX_BYTES };

        TRY(model_config_print_json(c->config, MODEL_CONFIG_VERSION, &json));
        json_member_raw(w, "config", strbuf_str(&json));
        return NULL;
}

/* Limit of rows that the printed plan covers; the plan is for people. */
#define MAX_PRINTED_PLANS 1024

static struct error *make_plan(const struct model_config *config, const struct batch_members *m,
                               struct batch_sizes *ret) {
        struct row_range *ranges = mem_zalloc((m->n_items + 1) * sizeof(*ranges));
        size_t            n = 0;
        struct error     *err = NULL;

        for (size_t i = 0; i < m->n_items; i++)
                if (!config->pb->instance_group[i]->passive)
                        ranges[n++] =
                                (struct row_range){ m->items[i].min_rows, m->items[i].max_rows };
        *ret = (struct batch_sizes){ 0 };
        if (n > 0)
                err = batch_sizes_init(ret, ranges, n, m->may_wait);
        free(ranges);
        return err;
}

/* Prints the plan of a composite model: for 1, 2, ... rows the sizes of the executions. */
static struct error *print_plan(const struct model_check *c, struct json_writer *w) {
        struct batch_members m;
        struct batch_sizes   plan;
        struct error        *err;

        TRY(batch_members_read(c->config, &m));
        err = m.are_given ? make_plan(c->config, &m, &plan) : NULL;
        if (err == NULL && m.are_given) {
                json_member_array(w, "batch_plan");
                for (uint32_t n = 1; n <= MIN(plan.max_rows, (uint32_t)MAX_PRINTED_PLANS); n++) {
                        AUTO_STRBUF text = { 0 };

                        batch_sizes_print(&plan, n, &text);
                        strbuf_spoil(w->out, &text);
                        json_put_str(w, strbuf_str(&text));
                }
                json_end_array(w);
                batch_sizes_done(&plan);
        }
        batch_members_done(&m);
        return err;
}

struct error *model_check_print(const struct model_check *c, struct json_writer *w) {
        json_begin_object(w);
        json_member_string(w, "name", c->name);
        json_member_string(w, "directory", c->directory);
        if (c->config_path != NULL)
                json_member_string(w, "file", c->config_path);
        json_key(w, "problems");
        problem_list_print(&c->problems, w);
        json_key(w, "notes");
        problem_list_print(&c->notes, w);
        if (c->problems.n_errors == 0) {
                json_member_array(w, "versions");
                for (size_t i = 0; i < c->versions.n_versions; i++)
                        json_put_i64(w, c->versions.versions[i]);
                json_end_array(w);
                TRY(print_config(c, w));
                TRY(print_plan(c, w));
        }
        json_end_object(w);
        return NULL;
}

static bool is_same_path(const char *a, const char *b) {
        AUTO_CHARS real_a = NULL;
        AUTO_CHARS real_b = NULL;

        if (strcmp(a, b) == 0)
                return true;
        real_a = realpath(a, NULL);
        real_b = realpath(b, NULL);
        return real_a != NULL && real_b != NULL && strcmp(real_a, real_b) == 0;
}

const char *model_check_repository(const char *repository, const char *namespace) {
        return *namespace != '\0' ? namespace : repository;
}

char *model_check_key(const char *checked, const char *repository, const char *name) {
        return is_same_path(checked, repository) ? mem_strdup(name)
                                                 : mem_printf("%s::%s", repository, name);
}
