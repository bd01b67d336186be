/* SPDX-License-Identifier: BSD-3-Clause */
#include "suite.h"

#include "config/config_fill.h"
#include "config_rows.h"

#include <stdio.h>

#define NO_BACKEND(model)                                                                          \
        "Invalid model name: Could not determine backend for model '" model                        \
        "' with no backend in model configuration. Expected model name of the form "               \
        "'model.<backend_name>'."

/* `files` are in the version directory; a name that ends in '/' is a directory. */
static const struct fill_row {
        const char *directory;
        const char *text;
        const char *files;
        const char *message; /* NULL: no error, and then: */
        const char *platform, *backend, *filename;
} rows[] = {
        /* tensorflow */
        { "m", "", "model.savedmodel/", NULL, "tensorflow_savedmodel", "tensorflow",
          "model.savedmodel" },
        { "m", "", "model.graphdef", NULL, "tensorflow_graphdef", "tensorflow", "model.graphdef" },
        { "m", "", "model.savedmodel", NO_BACKEND("m"), NULL, NULL, NULL },
        { "m", "", "model.graphdef/", NO_BACKEND("m"), NULL, NULL, NULL },
        { "m", "platform: 'tensorflow_savedmodel'", "", NULL, "tensorflow_savedmodel", "tensorflow",
          "model.savedmodel" },
        { "m", "platform: 'tensorflow_graphdef' default_model_filename: 'x.pb'", "", NULL,
          "tensorflow_graphdef", "tensorflow", "x.pb" },
        { "m", "backend: 'tensorflow' default_model_filename: 'model.graphdef'", "", NULL,
          "tensorflow_graphdef", "tensorflow", "model.graphdef" },
        { "m", "backend: 'tensorflow'", "model.savedmodel/", NULL, "tensorflow_savedmodel",
          "tensorflow", "model.savedmodel" },
        { "m", "backend: 'tensorflow'", "", NULL, "", "tensorflow", "" },
        /* tensorrt */
        { "m", "", "model.plan", NULL, "tensorrt_plan", "tensorrt", "model.plan" },
        { "m", "", "model.plan/", NO_BACKEND("m"), NULL, NULL, NULL },
        { "m", "platform: 'tensorrt_plan'", "", NULL, "tensorrt_plan", "tensorrt", "model.plan" },
        { "m", "backend: 'tensorrt'", "", NULL, "tensorrt_plan", "tensorrt", "model.plan" },
        { "m", "default_model_filename: 'model.plan'", "", NULL, "tensorrt_plan", "tensorrt",
          "model.plan" },
        /* onnxruntime: a file, or a directory with the weights beside it */
        { "m", "", "model.onnx", NULL, "onnxruntime_onnx", "onnxruntime", "model.onnx" },
        { "m", "", "README model.onnx/", NULL, "onnxruntime_onnx", "onnxruntime", "model.onnx" },
        { "m", "platform: 'onnxruntime_onnx'", "", NULL, "onnxruntime_onnx", "onnxruntime",
          "model.onnx" },
        { "m", "backend: 'onnxruntime'", "", NULL, "onnxruntime_onnx", "onnxruntime",
          "model.onnx" },
        { "m", "backend: 'onnxruntime' default_model_filename: 'other.onnx'", "model.onnx", NULL,
          "onnxruntime_onnx", "onnxruntime", "other.onnx" },
        { "m", "default_model_filename: 'model.onnx'", "", NULL, "onnxruntime_onnx", "onnxruntime",
          "model.onnx" },
        { "m", "backend: 'onnxruntime'", "model.plan", NULL, "onnxruntime_onnx", "onnxruntime",
          "model.onnx" },
        /* openvino goes without a platform */
        { "m", "", "model.bin model.xml", NULL, "", "openvino", "model.xml" },
        { "m", "backend: 'openvino'", "", NULL, "", "openvino", "model.xml" },
        { "m", "default_model_filename: 'model.xml'", "", NULL, "", "openvino", "model.xml" },
        /* pytorch */
        { "m", "", "model.pt", NULL, "pytorch_libtorch", "pytorch", "model.pt" },
        { "m", "", "model.pt2", NULL, "torch_aoti", "pytorch", "model.pt2" },
        { "m", "", "model.pt/", NO_BACKEND("m"), NULL, NULL, NULL },
        { "m", "platform: 'pytorch_libtorch'", "", NULL, "pytorch_libtorch", "pytorch",
          "model.pt" },
        { "m", "platform: 'libtorch'", "", NULL, "libtorch", "pytorch", "model.pt" },
        { "m", "platform: 'torch_aoti'", "", NULL, "torch_aoti", "pytorch", "model.pt2" },
        { "m", "backend: 'pytorch'", "", NULL, "pytorch_libtorch", "pytorch", "model.pt" },
        { "m", "backend: 'pytorch'", "model.pt2", NULL, "torch_aoti", "pytorch", "model.pt2" },
        { "m", "backend: 'pytorch' runtime: 'model.py'", "model.py", NULL, "pytorch_libtorch",
          "pytorch", "" },
        /* python */
        { "m", "", "model.py", NULL, "", "python", "model.py" },
        { "m", "backend: 'python'", "", NULL, "", "python", "model.py" },
        { "m", "backend: 'python' default_model_filename: 'x.py'", "", NULL, "", "python", "x.py" },
        { "m", "default_model_filename: 'model.py'", "", NULL, "", "python", "model.py" },
        /* several files: the first rule wins */
        { "m", "", "model.py model.onnx", NULL, "onnxruntime_onnx", "onnxruntime", "model.onnx" },
        { "m", "", "model.onnx model.plan", NULL, "tensorrt_plan", "tensorrt", "model.plan" },
        /* a backend of the user's own */
        { "model.identity", "", "", NULL, "", "identity", "model.identity" },
        { "a.b.c", "", "x.y", NULL, "", "b.c", "model.b.c" },
        { "m", "", "", NO_BACKEND("m"), NULL, NULL, NULL },
        { "m", "", "model.bin", NO_BACKEND("m"), NULL, NULL, NULL },
        /* nothing to tell, and nothing is changed */
        { "m", "backend: 'identity'", "model.onnx", NULL, "", "identity", "" },
        { "m", "backend: 'identity' default_model_filename: 'model.onnx'", "model.onnx", NULL, "",
          "identity", "model.onnx" },
        { "m", "platform: 'ensemble'", "", NULL, "ensemble", "", "" },
        { "m", "platform: 'chain'", "model.onnx", NULL, "chain", "", "" },
        { "m", "default_model_filename: 'a.bin'", "model.onnx", NULL, "", "", "a.bin" },
        { "a.b", "platform: 'unheard_of'", "model.onnx", NULL, "unheard_of", "", "" },
};

#define MAX_FILES 4

static void assert_filled(const struct model_config *c, const struct fill_row *row) {
        char text[200];

        snprintf(text, sizeof(text), "%s with %s", row->text, row->files);
        assert_text(c->pb->platform, row->platform, text);
        assert_text(c->pb->backend, row->backend, text);
        assert_text(c->pb->default_model_filename, row->filename, text);
}

static void run_fill_row(const struct fill_row *row) {
        struct config_place_entry entries[MAX_FILES];
        char                      names[MAX_FILES][32];
        struct config_place       place = { row->directory, entries, 0 };
        struct str                rest = str_of(row->files);
        struct model_config      *c = config_of(row->text);

        while (rest.ptr != NULL && rest.len > 0) {
                struct str name;
                size_t     at = place.n_entries++;

                rest = str_split(rest, ' ', &name);
                assert_true(at < MAX_FILES && name.len < sizeof(names[at]));
                entries[at].is_directory = str_ends(name, STR_LIT("/"));
                name.len -= entries[at].is_directory;
                memcpy(names[at], name.ptr, name.len);
                names[at][name.len] = '\0';
                entries[at].name = names[at];
        }
        assert_outcome(model_config_fill(c, &place), ERR_INVALID_ARG, row->message, row->text);
        assert_string_equal(c->pb->name, row->directory);
        if (row->message == NULL) {
                assert_filled(c, row);
                /* It runs at each load, and finds nothing more to do. */
                assert_null(model_config_fill(c, &place));
                assert_filled(c, row);
        }
        model_config_free(c);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                run_fill_row(&rows[i]);
}

static void test_name_is_kept(void **state) {
        struct model_config *c = config_of("name: 'given' backend: 'b'");
        struct config_place  place = { .model_name = "directory" };

        (void)state;
        assert_null(model_config_fill(c, &place));
        assert_string_equal(c->pb->name, "given");
        model_config_free(c);
}

/* A full arena is an error of the configuration. */
static void test_full(void **state) {
        struct model_config *c = config_of("");
        struct config_place  place = { .model_name = "model.identity" };

        (void)state;
        while (arena_try_alloc(&c->arena, 16) != NULL)
                arena_set_max(&c->arena, c->arena.used_bytes);
        assert_outcome(model_config_fill(c, &place), ERR_INVALID_ARG,
                       "model configuration is too large", "");
        model_config_free(c);
}

SUITE(config_fill) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_name_is_kept),
                cmocka_unit_test(test_full),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
