/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/aws_files.h"

#include "base/mem.h"

static struct error *open_file(const struct store_environment *e, enum store_variable v,
                               const char *name, struct ini_file *ret) {
        const char *named = store_environment_get(e, v), *home = store_environment_get(e, ENV_HOME);
        AUTO_CHARS  path = NULL;
        struct error *err;

        if (named == NULL && home == NULL)
                return NULL;
        path = named != NULL ? mem_strdup(named) : mem_printf("%s/.aws/%s", home, name);
        err = ini_file_open(path, ret);
        if (err == NULL)
                return NULL;
        if (named == NULL && err->code == ERR_NOT_FOUND) {
                error_free(err);
                return NULL;
        }
        return error_recode(named != NULL ? error_wrap(err, "%s", store_variable_name(v)) : err,
                            ERR_INVALID_ARG);
}

struct error *aws_files_open(const struct store_environment *e, struct aws_files *ret) {
        struct aws_files f = { .credentials = { .path = NULL } };
        struct error    *err;

        err = open_file(e, ENV_AWS_SHARED_CREDENTIALS_FILE, "credentials", &f.credentials);
        if (err == NULL)
                err = open_file(e, ENV_AWS_CONFIG_FILE, "config", &f.config);
        if (err != NULL) {
                aws_files_done(&f);
                return err;
        }
        *ret = f;
        return NULL;
}

void aws_files_done(struct aws_files *f) {
        ini_file_done(&f->credentials);
        ini_file_done(&f->config);
}

static char *config_section(const char *profile) {
        return mem_printf("profile %s", profile);
}

static bool is_default(const char *profile) {
        return strcmp(profile, "default") == 0;
}

bool aws_files_has_profile(const struct aws_files *f, const char *profile) {
        AUTO_CHARS section = config_section(profile);

        return ini_file_has_section(&f->credentials, str_of(profile)) ||
               ini_file_has_section(&f->config, str_of(section)) ||
               (is_default(profile) && ini_file_has_section(&f->config, str_of(profile)));
}

static bool find_in(const struct ini_file *f, const char *section, const char *key,
                    struct aws_value *ret) {
        const struct ini_entry *e = ini_file_find(f, str_of(section), key);

        if (e == NULL || e->value.len == 0)
                return false;
        *ret = (struct aws_value){ .text = e->value, .path = f->path, .line = e->line };
        return true;
}

bool aws_files_find(const struct aws_files *f, const char *profile, const char *key,
                    struct aws_value *ret) {
        AUTO_CHARS section = config_section(profile);

        return find_in(&f->credentials, profile, key, ret) ||
               find_in(&f->config, section, key, ret) ||
               (is_default(profile) && find_in(&f->config, profile, key, ret));
}
