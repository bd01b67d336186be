/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a fuzz target without libFuzzer: over each file of the folders named, and over beginnings
 * of each file, because what is cut short finds most of the ends that a decoder forgot.
 *
 * REPLAY_WHOLE in the environment leaves the beginnings out.
 *
 * An input lies in memory of exactly its size, so that a sanitizer sees every byte read too far.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beginnings of one file: all of them for small files. */
#ifndef MAX_CUTS
#define MAX_CUTS 512
#endif

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void run_one(const char *bytes, size_t size) {
        char *exact = malloc(size > 0 ? size : 1);

        if (exact == NULL)
                abort();
        memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput((const uint8_t *)exact, size);
        free(exact);
}

static char *read_file(const char *path, size_t *ret_size) {
        FILE *file = fopen(path, "rb");
        char *bytes = NULL;
        long  size;

        if (file == NULL)
                return NULL;
        if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
                rewind(file);
                bytes = malloc((size_t)size + 1);
                if (bytes != NULL)
                        *ret_size = fread(bytes, 1, (size_t)size, file);
        }
        fclose(file);
        return bytes;
}

static int replay_file(const char *path) {
        size_t size = 0, step;
        char  *bytes = read_file(path, &size);

        if (bytes == NULL) {
                fprintf(stderr, "replay: unable to read '%s'\n", path);
                return -1;
        }
        /* Names the file that a crash is about. */
        fprintf(stderr, "replay: %s (%zu bytes)\n", path, size);
        step = size / MAX_CUTS + 1;
        for (size_t cut = 0; cut < size && getenv("REPLAY_WHOLE") == NULL; cut += step)
                run_one(bytes, cut);
        run_one(bytes, size);
        free(bytes);
        return 0;
}

/* The number of files replayed, -1 after a failure. */
static int replay_folder(const char *folder) {
        DIR           *stream = opendir(folder);
        struct dirent *entry;
        int            n_files = 0;

        while (stream != NULL && n_files >= 0 && (entry = readdir(stream)) != NULL) {
                char *path;

                if (entry->d_name[0] == '.')
                        continue;
                if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
                        abort();
                n_files = replay_file(path) == 0 ? n_files + 1 : -1;
                free(path);
        }
        if (stream != NULL)
                closedir(stream);
        return n_files;
}

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                int n_files = replay_folder(argv[i]);

                if (n_files <= 0) {
                        fprintf(stderr, "replay: no seeds in '%s'\n", argv[i]);
                        return 1;
                }
                fprintf(stderr, "replay: %d files\n", n_files);
        }
        return argc > 1 ? 0 : 1;
}
