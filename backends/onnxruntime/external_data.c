/* SPDX-License-Identifier: BSD-3-Clause */
#include "onnxruntime/external_data.h"

#include "kit/beneath.h"
#include "kit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WINDOW_BYTES 65536

/* What a file holds outside of the window is read again when it is needed: the file is not mapped,
 * because a file that its owner truncates meanwhile would end the server. */
struct window {
        int      fd;
        uint64_t begin; /* offset of the first byte */
        size_t   n;
        uint8_t  bytes[WINDOW_BYTES];
};

struct walk {
        struct window          *window;
        external_data_fn        found;
        external_data_scalar_fn found_scalar;
        void                   *userp;
        uint64_t                at;
        int                     depth;
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static TRITONSERVER_Error *malformed_model(const struct walk *w, const char *why) {
        return kit_error(TRITONSERVER_ERROR_INTERNAL,
                         "onnx runtime error 7: Load model failed:Protobuf parsing failed. (byte "
                         "%" PRIu64 ": %s)",
                         w->at, why);
}

static TRITONSERVER_Error *fill_window(struct walk *w) {
        struct window *window = w->window;
        ssize_t        n;

        do
                n = pread(window->fd, window->bytes, sizeof(window->bytes), (off_t)w->at);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to read the file: %s",
                                 strerror(errno));
        window->begin = w->at;
        window->n = (size_t)n;
        return n > 0 ? NULL : malformed_model(w, "unexpected end of the file");
}

static TRITONSERVER_Error *read_byte(struct walk *w, uint64_t end, uint8_t *ret) {
        const struct window *window = w->window;

        if (w->at >= end)
                return malformed_model(w, "a message ends within a field");
        if (w->at < window->begin || w->at - window->begin >= window->n)
                KIT_TRY(fill_window(w));
        *ret = window->bytes[w->at++ - window->begin];
        return NULL;
}

static TRITONSERVER_Error *read_varint(struct walk *w, uint64_t end, uint64_t *ret) {
        uint64_t value = 0;
        uint8_t  byte;

        for (unsigned shift = 0; shift < 70; shift += 7) {
                KIT_TRY(read_byte(w, end, &byte));
                if (shift == 63 && byte > 1)
                        break;
                value |= (uint64_t)(byte & 0x7f) << shift;
                if (byte < 0x80) {
                        *ret = value;
                        return NULL;
                }
        }
        return malformed_model(w, "a number of more than 64 bits");
}

/* ---- fields ---------------------------------------------------------------------------------- */

enum wire { WIRE_VARINT = 0, WIRE_8_BYTES = 1, WIRE_LENGTH = 2, WIRE_4_BYTES = 5 };

/* A field that has a length: a message, a text or bytes. `number` is 0 for any other field: the
 * runtime, too, ignores a message's field that has another wire type. */
struct field {
        uint32_t number;
        uint64_t begin, end; /* offsets of its content */
};

/* Afterwards walk->at is where the next field begins. */
static TRITONSERVER_Error *read_field(struct walk *w, uint64_t end, struct field *ret) {
        uint64_t tag, n = 0;

        *ret = (struct field){ 0 };
        KIT_TRY(read_varint(w, end, &tag));
        if (tag > UINT32_MAX || tag >> 3 == 0)
                return malformed_model(w, "no field has such a number");
        switch ((enum wire)(tag & 7)) {
        case WIRE_VARINT: return read_varint(w, end, &n);
        case WIRE_8_BYTES: n = 8; break;
        case WIRE_4_BYTES: n = 4; break;
        case WIRE_LENGTH: {
                KIT_TRY(read_varint(w, end, &n));
                *ret = (struct field){ (uint32_t)(tag >> 3), w->at, w->at + n };
                break;
        }
        default: return malformed_model(w, "a group, which ONNX does not have");
        }
        if (n > INT32_MAX || n > end - w->at)
                return malformed_model(w, "a field that is longer than its message");
        w->at += n;
        return NULL;
}

/* Reads the content of a field, cut to size - 1 bytes, and ends it with a NUL. */
static TRITONSERVER_Error *read_text(struct walk *w, const struct field *f, char *to, size_t size) {
        uint64_t back = w->at;
        size_t   n = 0;

        w->at = f->begin;
        while (w->at < f->end && n < size - 1) {
                uint8_t byte;

                KIT_TRY(read_byte(w, f->end, &byte));
                to[n++] = (char)byte;
        }
        to[n] = '\0';
        w->at = back;
        return NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The numbers of fields are those of onnx.proto3. */
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2, TENSOR_NAME = 8, TENSOR_EXTERNAL_DATA = 13 };

static TRITONSERVER_Error *report_location(struct walk *w, const struct field *value,
                                           const char *tensor) {
        char     location[EXTERNAL_DATA_MAX_LOCATION + 1];
        uint64_t len = value->end - value->begin;

        if (len > EXTERNAL_DATA_MAX_LOCATION)
                return kit_error(
                        TRITONSERVER_ERROR_INVALID_ARG,
                        "the location of the external data of initializer '%s' has %" PRIu64
                        " bytes",
                        tensor, len);
        KIT_TRY(read_text(w, value, location, sizeof(location)));
        if (strlen(location) != len)
                return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                                 "the location of the external data of initializer '%s' has a NUL "
                                 "after '%s'",
                                 tensor, location);
        return w->found(w->userp, tensor, location);
}

/* An entry is a pair of texts. When one of them is there twice, the last one counts. */
static TRITONSERVER_Error *walk_entry(struct walk *w, const struct field *entry,
                                      const char *tensor) {
        static const char location[] = "location";
        struct field      key = { 0 }, value = { 0 };
        char              text[sizeof(location) + 1];

        w->at = entry->begin;
        while (w->at < entry->end) {
                struct field f;

                KIT_TRY(read_field(w, entry->end, &f));
                if (f.number == ENTRY_KEY)
                        key = f;
                else if (f.number == ENTRY_VALUE)
                        value = f;
        }
        KIT_TRY(read_text(w, &key, text, sizeof(text)));
        if (key.end - key.begin != strlen(location) || strcmp(text, location) != 0)
                return NULL;
        return report_location(w, &value, tensor);
}

/* Every location counts, whatever `data_location` is: a tensor may be sent in several pieces, which
 * the runtime joins. */
static TRITONSERVER_Error *walk_tensor(struct walk *w, const struct field *tensor) {
        char         name[EXTERNAL_DATA_MAX_NAME];
        struct field f, named = { 0 };
        bool         has_external = false;

        while (w->at < tensor->end) {
                KIT_TRY(read_field(w, tensor->end, &f));
                if (f.number == TENSOR_NAME)
                        named = f;
                has_external = has_external || f.number == TENSOR_EXTERNAL_DATA;
        }
        if (!has_external)
                return NULL;
        KIT_TRY(read_text(w, &named, name, sizeof(name)));
        w->at = tensor->begin;
        while (w->at < tensor->end) {
                uint64_t next;

                KIT_TRY(read_field(w, tensor->end, &f));
                next = w->at;
                if (f.number == TENSOR_EXTERNAL_DATA)
                        KIT_TRY(walk_entry(w, &f, name));
                w->at = next;
        }
        return NULL;
}

/* ---- messages -------------------------------------------------------------------------------- */

enum message { NONE, MODEL, TRAINING, FUNCTION, GRAPH, NODE, ATTRIBUTE, SPARSE_TENSOR, TENSOR };

#define MAX_FIELD 26

/* What the fields of a message are, by their numbers in onnx.proto3. */
static const uint8_t messages[][MAX_FIELD] = {
        [MODEL] = { [7] = GRAPH, [20] = TRAINING, [25] = FUNCTION },
        [TRAINING] = { [1] = GRAPH, [2] = GRAPH },
        [FUNCTION] = { [7] = NODE, [11] = ATTRIBUTE },
        [GRAPH] = { [1] = NODE, [5] = TENSOR, [15] = SPARSE_TENSOR },
        [NODE] = { [5] = ATTRIBUTE },
        [ATTRIBUTE] = { [5] = TENSOR,
                        [6] = GRAPH,
                        [10] = TENSOR,
                        [11] = GRAPH,
                        [22] = SPARSE_TENSOR,
                        [23] = SPARSE_TENSOR },
        [SPARSE_TENSOR] = { [1] = TENSOR, [2] = TENSOR },
};

static TRITONSERVER_Error *walk_message(struct walk *w, enum message kind,
                                        const struct field *message) {
        TRITONSERVER_Error *err = NULL;

        if (w->depth == EXTERNAL_DATA_MAX_DEPTH)
                return malformed_model(w, "too many messages within each other");
        w->at = message->begin;
        if (kind == TENSOR)
                return walk_tensor(w, message);
        w->depth++;
        while (err == NULL && w->at < message->end) {
                struct field f;
                enum message inner;

                err = read_field(w, message->end, &f);
                inner = err == NULL && f.number < MAX_FIELD ? messages[kind][f.number] : NONE;
                if (inner == NONE)
                        continue;
                err = walk_message(w, inner, &f);
        }
        w->depth--;
        return err;
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* The numbers of fields are those of onnx.proto3. */
enum { MODEL_GRAPH = 7, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TENSOR_TYPE_SHAPE = 2 };

/* Finds the last field `number` of a message; ret->number is 0 when there is none. */
static TRITONSERVER_Error *find_field(struct walk *w, const struct field *message, uint32_t number,
                                      struct field *ret) {
        *ret = (struct field){ 0 };
        w->at = message->begin;
        while (w->at < message->end) {
                struct field f;

                KIT_TRY(read_field(w, message->end, &f));
                if (f.number == number)
                        *ret = f;
        }
        return NULL;
}

/* A ValueInfoProto: its name and, in its type, in its tensor, the shape. */
static TRITONSERVER_Error *read_value_info(struct walk *w, const struct field *value) {
        struct field name, type, tensor, shape;
        char         text[EXTERNAL_DATA_MAX_NAME];

        KIT_TRY(find_field(w, value, VALUE_NAME, &name));
        KIT_TRY(find_field(w, value, VALUE_TYPE, &type));
        KIT_TRY(find_field(w, &type, TYPE_TENSOR, &tensor));
        KIT_TRY(find_field(w, &tensor, TENSOR_TYPE_SHAPE, &shape));
        if (shape.number == 0 || shape.begin != shape.end)
                return NULL;
        KIT_TRY(read_text(w, &name, text, sizeof(text)));
        return w->found_scalar(w->userp, text);
}

static TRITONSERVER_Error *walk_values(struct walk *w, const struct field *model) {
        struct field graph;

        KIT_TRY(find_field(w, model, MODEL_GRAPH, &graph));
        w->at = graph.begin;
        while (w->at < graph.end) {
                struct field f;
                uint64_t     next;

                KIT_TRY(read_field(w, graph.end, &f));
                next = w->at;
                if (f.number == GRAPH_INPUT || f.number == GRAPH_OUTPUT)
                        KIT_TRY(read_value_info(w, &f));
                w->at = next;
        }
        return NULL;
}

/* ---- files ----------------------------------------------------------------------------------- */

static TRITONSERVER_Error *walk_model(struct walk *w, const struct field *model) {
        return walk_message(w, MODEL, model);
}

static TRITONSERVER_Error *walk_file(struct walk *w, int fd,
                                     TRITONSERVER_Error *(*walk)(struct walk        *w,
                                                                 const struct field *model)) {
        struct field        all = { .begin = 0 };
        struct stat         status;
        TRITONSERVER_Error *err;

        if (fstat(fd, &status) != 0)
                return kit_error(TRITONSERVER_ERROR_UNAVAILABLE, "unable to read the file: %s",
                                 strerror(errno));
        if (status.st_size > INT32_MAX)
                return malformed_model(w, "the file has more than 2 GiB, the limit of its format");
        all.end = (uint64_t)status.st_size;
        w->window = kit_alloc_array(1, sizeof(*w->window));
        if (w->window == NULL)
                return kit_error_no_memory(sizeof(*w->window), "a window of the model file");
        w->window->fd = fd;
        err = walk(w, &all);
        free(w->window);
        return err;
}

TRITONSERVER_Error *external_data_walk(int fd, external_data_fn found, void *userp) {
        struct walk w = { .found = found, .userp = userp };

        return walk_file(&w, fd, walk_model);
}

TRITONSERVER_Error *external_data_find_scalars(int fd, external_data_scalar_fn found, void *userp) {
        struct walk w = { .found_scalar = found, .userp = userp };

        return walk_file(&w, fd, walk_values);
}

/* ---- locations ------------------------------------------------------------------------------- */

struct place {
        const char *directory;
        const char *folder; /* of the model file below the directory: "", or ends with '/' */
        bool        follows_links_out;
};

static TRITONSERVER_Error *refused_location(const char *tensor, const char *location,
                                            const char *why) {
        return kit_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "the external data of initializer '%s' is at '%s', %s", tensor, location,
                         why);
}

static int open_location(const struct place *place, const char *location) {
        char *path;
        int   fd;

        if (asprintf(&path, "%s%s%s%s", place->follows_links_out ? place->directory : "",
                     place->follows_links_out ? "/" : "", place->folder, location) < 0) {
                errno = ENOMEM;
                return -1;
        }
        fd = place->follows_links_out ? open(path, O_PATH | O_CLOEXEC)
                                      : kit_open_beneath(place->directory, path, O_PATH);
        free(path);
        return fd;
}

static TRITONSERVER_Error *check_location(void *userp, const char *tensor, const char *location) {
        const struct place *place = userp;
        struct stat         status;
        bool                is_regular;
        int                 fd;

        if (!kit_path_stays_within(location))
                return refused_location(
                        tensor, location,
                        "which is not a path within the directory of the model's version");
        /* The runtime takes such a location for an address in its own memory. */
        if (strncmp(location, "*/", 2) == 0)
                return refused_location(tensor, location, "which is not the name of a file");
        fd = open_location(place, location);
        if (fd < 0 && (errno == EXDEV || errno == ELOOP))
                return refused_location(
                        tensor, location,
                        "a symbolic link that leaves the directory of the model's version; "
                        "'--backend-config=onnxruntime,allow-data-links=true' permits it");
        if (fd < 0)
                return refused_location(tensor, location, strerror(errno));
        is_regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
        (void)close(fd);
        return is_regular ? NULL
                          : refused_location(tensor, location, "which is not a regular file");
}

TRITONSERVER_Error *external_data_check(int fd, const char *directory, const char *model_file,
                                        bool follows_links_out) {
        const char         *slash = strrchr(model_file, '/');
        size_t              len = slash != NULL ? (size_t)(slash + 1 - model_file) : 0;
        char               *folder = strndup(model_file, len);
        struct place        place = { directory, folder, follows_links_out };
        TRITONSERVER_Error *err;

        if (folder == NULL)
                return kit_error_no_memory(len, "a path");
        err = external_data_walk(fd, check_location, &place);
        free(folder);
        return err;
}
