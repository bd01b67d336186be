/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/server_place.h"

#include "base/mem.h"
#include "infer/fake_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void server_place_begin(struct server_place *p) {
        AUTO_CHARS models = NULL;
        AUTO_CHARS backends = NULL;

        fake_host_reset();
        *p = (struct server_place){ .tree = temp_tree_make(), .options = server_options_new() };
        p->library = fake_library_open(&p->tree, "fake_backend", "backends/fake/libtriton_fake.so");
        temp_tree_folder(&p->tree, "models");
        models = temp_tree_path(&p->tree, "models");
        backends = temp_tree_path(&p->tree, "backends");
        option_texts_add(&p->options->model_repository, models);
        option_text_set(&p->options->backend_directory, backends);
}

void server_place_end(struct server_place *p) {
        if (p->server != NULL) {
                assert_ok(server_stop(p->server), "stop");
                server_free(p->server);
        }
        server_options_free(p->options);
        /* Whatever began has ended. */
        assert_int_equal(fake_host_count(FAKE_FINALIZE), fake_host_count(FAKE_INITIALIZE));
        fake_library_close(&p->library);
        temp_tree_remove(&p->tree);
}

void server_place_add(struct server_place *p, const char *name, const char *config,
                      unsigned n_versions) {
        AUTO_CHARS path = mem_printf("models/%s/config.pbtxt", name);

        temp_tree_write(&p->tree, path, config);
        for (unsigned i = 1; i <= n_versions; i++) {
                AUTO_CHARS folder = mem_printf("models/%s/%u", name, i);

                temp_tree_folder(&p->tree, folder);
        }
}

void server_place_start(struct server_place *p) {
        assert_ok(server_new(p->options, &p->server), "server_new");
}
