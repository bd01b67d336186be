/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of sequence_batching: controls and strategies. Implicit state has its own file.
 */
#include <stddef.h>

#include "base/map.h"
#include "config/config_check_parts.h"
#include "config/config_edit.h"

#define KIND_CORRID INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_CORRID

/* The order in which mistakes are looked for. */
static const Inference__ModelSequenceBatching__Control__Kind kinds[] = {
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_START,
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_END,
        INFERENCE__MODEL_SEQUENCE_BATCHING__CONTROL__KIND__CONTROL_SEQUENCE_READY,
        KIND_CORRID,
};

static const char *kind_name(Inference__ModelSequenceBatching__Control__Kind kind) {
        return check_enum_name(&inference__model_sequence_batching__control__kind__descriptor,
                               (int)kind);
}

static struct error *check_tensor_names(const Inference__ModelConfig           *pb,
                                        const Inference__ModelSequenceBatching *sequence) {
        struct map    seen;
        struct error *err = NULL;

        map_init(&seen);
        for (size_t i = 0; i < sequence->n_control_input && err == NULL; i++) {
                char *name = sequence->control_input[i]->name;

                if (!config_text_is_set(name))
                        err = error_at(
                                error_new(
                                        ERR_INVALID_ARG,
                                        "sequence batching control tensor must have a name for %s",
                                        pb->name),
                                "control_input[%zu]", i);
                else if (map_set(&seen, str_of(name), name) != NULL)
                        err = error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching control tensor '%s' is specified for "
                                          "multiple control kinds for %s",
                                          name, pb->name),
                                "control_input[%zu].name", i);
        }
        map_done(&seen);
        return err;
}

static struct error *check_pair(const Inference__ModelConfig *pb, const char *field, size_t n,
                                const char *kind) {
        if (n == 0 || n == 2)
                return NULL;
        return error_at(
                error_new(
                        ERR_INVALID_ARG,
                        "sequence batching control '%s' must have exactly 2 entries for %s for %s",
                        field, kind, pb->name),
                "%s", field);
}

/* START, END and READY: one pair of values for false and true. */
static struct error *check_boolean(const Inference__ModelConfig                    *pb,
                                   const Inference__ModelSequenceBatching__Control *control) {
        const char *kind = kind_name(control->kind);
        int         n_given = (control->n_int32_false_true > 0) + (control->n_fp32_false_true > 0) +
                      (control->n_bool_false_true > 0);

        if (n_given == 0)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching must specify either 'int32_false_true', "
                                 "'fp32_false_true' or 'bool_false_true' for %s for %s",
                                 kind, pb->name);
        if (n_given > 1)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching specifies more than one from "
                                 "'int32_false_true', 'fp32_false_true' and 'bool_false_true' for "
                                 "%s for %s",
                                 kind, pb->name);
        TRY(check_pair(pb, "int32_false_true", control->n_int32_false_true, kind));
        TRY(check_pair(pb, "fp32_false_true", control->n_fp32_false_true, kind));
        return check_pair(pb, "bool_false_true", control->n_bool_false_true, kind);
}

static struct error *check_corrid(const Inference__ModelConfig                    *pb,
                                  const Inference__ModelSequenceBatching__Control *control) {
        if (control->n_int32_false_true > 0 || control->n_fp32_false_true > 0 ||
            control->n_bool_false_true > 0)
                return error_new(ERR_INVALID_ARG,
                                 "sequence batching must not specify either 'int32_false_true', "
                                 "'fp32_false_true' or 'bool_false_true' for "
                                 "CONTROL_SEQUENCE_CORRID for %s",
                                 pb->name);
        switch (control->data_type) {
        case INFERENCE__DATA_TYPE__TYPE_UINT64:
        case INFERENCE__DATA_TYPE__TYPE_INT64:
        case INFERENCE__DATA_TYPE__TYPE_UINT32:
        case INFERENCE__DATA_TYPE__TYPE_INT32:
        case INFERENCE__DATA_TYPE__TYPE_STRING: return NULL;
        default:
                return error_at(
                        error_new(
                                ERR_INVALID_ARG,
                                "unexpected data type for control CONTROL_SEQUENCE_CORRID for %s. "
                                "Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, "
                                "TYPE_INT32 and TYPE_STRING",
                                pb->name),
                        "data_type");
        }
}

static struct error *check_kind(const Inference__ModelConfig                         *pb,
                                const Inference__ModelSequenceBatching__ControlInput *input,
                                Inference__ModelSequenceBatching__Control__Kind kind, bool *seen) {
        for (size_t i = 0; i < input->n_control; i++) {
                const Inference__ModelSequenceBatching__Control *control = input->control[i];

                if (control->kind != kind)
                        continue;
                if (*seen)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching specifies multiple %s tensors for %s",
                                          kind_name(kind), pb->name),
                                "control[%zu].kind", i);
                *seen = true;
                TRY(error_at(kind == KIND_CORRID ? check_corrid(pb, control)
                                                 : check_boolean(pb, control),
                             "control[%zu]", i));
        }
        return NULL;
}

static struct error *check_oldest(const Inference__ModelConfig                           *pb,
                                  const Inference__ModelSequenceBatching__StrategyOldest *oldest) {
        for (size_t i = 0; i < oldest->n_preferred_batch_size; i++) {
                if (oldest->preferred_batch_size[i] <= 0)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching preferred batch size must be positive "
                                          "for %s",
                                          pb->name),
                                "oldest.preferred_batch_size[%zu]", i);
                if (oldest->preferred_batch_size[i] > pb->max_batch_size)
                        return error_at(
                                error_new(ERR_INVALID_ARG,
                                          "sequence batching preferred batch size must be <= max "
                                          "batch size for %s",
                                          pb->name),
                                "oldest.preferred_batch_size[%zu]", i);
        }
        return NULL;
}

static struct error *check_direct(const Inference__ModelConfig                           *pb,
                                  const Inference__ModelSequenceBatching__StrategyDirect *direct) {
        float utilization = direct->minimum_slot_utilization;

        /* 0 means "do not wait"; written so that NaN fails. */
        if (!(utilization >= 0.0F && utilization <= 1.0F))
                return error_at(
                        error_new(ERR_INVALID_ARG,
                                  "sequence batching minimum slot utilization must be in range "
                                  "(0.0, 1.0] for %s",
                                  pb->name),
                        "direct.minimum_slot_utilization");
        return NULL;
}

struct error *check_sequence_batching(const Inference__ModelConfig *pb) {
        const Inference__ModelSequenceBatching *sequence = pb->sequence_batching;

        TRY(check_tensor_names(pb, sequence));
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
                bool seen = false;

                for (size_t i = 0; i < sequence->n_control_input; i++)
                        TRY(error_at(check_kind(pb, sequence->control_input[i], kinds[k], &seen),
                                     "control_input[%zu]", i));
        }
        switch (sequence->strategy_choice_case) {
        case INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_OLDEST:
                return check_oldest(pb, sequence->oldest);
        case INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_DIRECT:
                return check_direct(pb, sequence->direct);
        default: return NULL;
        }
}
