/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared parts of the commands of `neso ctl`; only their files include this header.
 *
 * A command returns an error to be printed. The command, or ctl_ask(), has set the exit code for
 * it.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "cli/http_client.h"
#include "codec/json_reader.h"
#include "options/option_row.h"

#include <stdbool.h>
#include <stdint.h>

enum ctl_exit { CTL_DONE = 0, CTL_REFUSED = 1, CTL_USAGE = 2, CTL_UNREACHABLE = 3 };

struct ctl {
        /* from the command line */
        char               *url, *key, *cacert, *cert, *key_file;
        bool                is_insecure;
        uint64_t            timeout_s;
        bool                is_json;
        bool                is_dot; /* graph: print for Graphviz */
        char               *version;
        char               *config_file;
        struct option_texts files;      /* "V/NAME=PATH" */
        struct option_texts inputs;     /* "NAME=JSON", "NAME=@PATH" */
        struct option_texts shapes;     /* "NAME=1,2,3" */
        bool                only_ready; /* index: only models that are ready */
        bool                dependents; /* unload: also the models loaded for it alone */
        bool                is_undone;  /* drain: serve as before */
        uint64_t            wait_s; /* ready: limit of the wait; drain: time to wait afterwards */
        bool                zeros, random;
        uint64_t            seed;
        uint64_t            n_values; /* shown of each output; 0: all */
        const char         *model;    /* NULL: no model was named; borrowed */

        struct http_client_options http;
        struct http_client        *client; /* owned */
        struct arena               arena;
        struct strbuf              out; /* for stdout */
        enum ctl_exit              exit_code;
};

/* --timeout; 0: no limit. */
uint64_t ctl_timeout_ms(const struct ctl *c);

/* Sends a request. Returns the body of an answer with status 200; the text of any other answer is
 * returned as an error. *ret_body is in the arena, NUL-terminated; `ret_header_length` may be NULL. */
struct error *ctl_ask(struct ctl *c, const struct http_question *q, struct str *ret_body,
                      size_t *ret_header_length) NODISCARD;
/* The same for a GET request without a body. */
struct error *ctl_get(struct ctl *c, const char *path, struct str *ret_body) NODISCARD;

/* "/v2/models/<model>[/versions/<version>]<tail>", escaped; in the arena. */
char *ctl_model_path(struct ctl *c, const char *tail);
/* Escapes the characters that would end a part of the path; in the arena. A '%' is not escaped,
 * since servers take names as they are written. */
char *ctl_escape(struct ctl *c, const char *part);

/* Returns the error that the answer is not JSON of this type. */
struct error *ctl_check_answer(struct ctl *c, struct str body, enum json_type type) NODISCARD;

/* Prints the answer unchanged (--json), with a newline. */
void ctl_put_answer(struct ctl *c, struct str body);

/* Asks for `path`. With --json it prints the answer unchanged; otherwise `print` prints it. The answer
 * is an object. */
struct error *ctl_show(struct ctl *c, const char *path,
                       void (*print)(struct ctl *c, struct str body)) NODISCARD;

/* Reads a file named on the command line into the arena. */
struct error *ctl_read_file(struct ctl *c, const char *path, struct str *ret) NODISCARD;

struct error *ctl_index(struct ctl *c);
struct error *ctl_load(struct ctl *c);
struct error *ctl_unload(struct ctl *c);
struct error *ctl_ready(struct ctl *c);
struct error *ctl_drain(struct ctl *c);
struct error *ctl_members(struct ctl *c);
struct error *ctl_sequences(struct ctl *c);
struct error *ctl_stacks(struct ctl *c);
struct error *ctl_stats(struct ctl *c);
struct error *ctl_metadata(struct ctl *c);
struct error *ctl_config(struct ctl *c);
struct error *ctl_gpus(struct ctl *c);
struct error *ctl_graph(struct ctl *c);
struct error *ctl_infer(struct ctl *c);
