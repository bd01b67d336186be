/* SPDX-License-Identifier: BSD-3-Clause */
/* What the commands of `neso ctl` share; nobody else includes this.
 *
 * A command returns an error to be printed; which exit code goes with it, it or ctl_ask() has set.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/cli_options.h"
#include "cli/http_client.h"
#include "cli/tensor_values.h"
#include "codec/json_reader.h"

#include <stdbool.h>
#include <stdint.h>

enum ctl_exit { CTL_DONE = 0, CTL_REFUSED = 1, CTL_USAGE = 2, CTL_UNREACHABLE = 3 };

struct ctl {
        /* of the command line; borrowed */
        struct http_client_options http;
        bool                       is_json;
        bool                       is_dot; /* of a graph */
        const char                *model;  /* NULL: none was named */
        const char                *version;
        const char                *config_file;
        struct cli_texts           files;      /* "V/NAME=PATH" */
        struct cli_texts           inputs;     /* "NAME=JSON", "NAME=@PATH" */
        struct cli_texts           shapes;     /* "NAME=1,2,3" */
        bool                       only_ready; /* of the index */
        bool                       dependents; /* are unloaded, too */
        bool                       zeros, random;
        uint64_t                   seed;
        uint64_t                   n_values; /* of each output that are shown; 0: all */

        struct http_client *client; /* owned */
        struct arena        arena;
        struct strbuf       out; /* for stdout */
        enum ctl_exit       exit_code;
};

/* An answer of the server with a status of 200; else its words as an error. *ret_body is in the
 * arena, NUL-terminated; `ret_header_length` may be NULL. */
struct error *ctl_ask(struct ctl *c, const struct http_question *q, struct str *ret_body,
                      size_t *ret_header_length) NODISCARD;
/* The same for the many questions that have a path only. */
struct error *ctl_get(struct ctl *c, const char *path, struct str *ret_body) NODISCARD;

/* "/v2/models/<model>[/versions/<version>]<tail>", escaped; in the arena. */
char *ctl_model_path(struct ctl *c, const char *tail);
/* Escapes what would not stay one part of the path; in the arena. A '%' stays: servers take names
 * as they are written. */
char *ctl_escape(struct ctl *c, const char *part);

/* An error that says that the answer is not what it should be; `r` may have failed or not. */
struct error *ctl_bad_answer(struct ctl *c, const struct json_reader *r);

/* --json: the answer as it is, with a newline. */
void ctl_put_answer(struct ctl *c, struct str body);

/* Asks for `path`. With --json its answer as it is; else what `print` makes of the answer's member of
 * that name. */
struct error *ctl_print_member(struct ctl *c, const char *path, const char *name,
                               void (*print)(struct ctl *c, struct json_reader *r)) NODISCARD;

/* A number of an answer; 0 when it is something else. */
uint64_t ctl_read_count(struct json_reader *r);

/* A file of the command line, in the arena. */
struct error *ctl_read_file(struct ctl *c, const char *path, struct str *ret) NODISCARD;

struct model_tensor {
        struct str           name;
        struct str           datatype; /* "FP32" */
        struct tensor_shape  shape;    /* with the batch dimension; -1: any size */
        struct model_tensor *next;
};

/* A model's metadata. Texts are in the command's arena, or ranges of the answer there. */
struct model_metadata {
        struct str           name, platform;
        struct str           versions; /* JSON */
        struct model_tensor *inputs, *outputs;
};

/* Asks the server for it. *ret_body: the answer; may be NULL. */
struct error *ctl_metadata_get(struct ctl *c, struct model_metadata *ret, struct str *ret_body)
        NODISCARD;

typedef struct error *(*ctl_run_fn)(struct ctl *c);

struct error *ctl_index(struct ctl *c);
struct error *ctl_load(struct ctl *c);
struct error *ctl_unload(struct ctl *c);
struct error *ctl_ready(struct ctl *c);
struct error *ctl_members(struct ctl *c);
struct error *ctl_sequences(struct ctl *c);
struct error *ctl_stacks(struct ctl *c);
struct error *ctl_stats(struct ctl *c);
struct error *ctl_metadata(struct ctl *c);
struct error *ctl_config(struct ctl *c);
struct error *ctl_graph(struct ctl *c);
struct error *ctl_infer(struct ctl *c);
