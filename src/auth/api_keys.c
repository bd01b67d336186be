/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth/api_keys.h"

#include "base/file.h"
#include "base/lock.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <sys/stat.h>

struct api_keys {
        char                       *path;    /* owned */
        struct api_key_set *_Atomic current; /* in `sets` */
        struct mutex                lock;    /* rank LOCK_LEAF; guards `sets` */
        struct api_key_set         *sets;    /* owned; all snapshots */
};

static struct error *read_file(const char *path, struct api_key_file *ret) {
        AUTO_STRBUF   text = { 0 };
        struct error *err = file_read(path, API_KEY_FILE_MAX_BYTES, &text);

        if (err == NULL)
                err = api_key_file_read(strbuf_str(&text), path, ret);
        return err;
}

/* Returns an empty snapshot. It reuses one that is neither in force nor held. */
static struct api_key_set *take_set_locked(struct api_keys *k) {
        const struct api_key_set *current = atomic_load(&k->current);
        struct api_key_set       *idle = NULL;

        for (struct api_key_set *s = k->sets; s != NULL; s = s->next) {
                if (s == current || atomic_load(&s->n_holders) > 0)
                        continue;
                api_key_file_done(&s->file);
                idle = s;
        }
        if (idle == NULL) {
                idle = mem_zalloc(sizeof(*idle));
                idle->next = k->sets;
                k->sets = idle;
        }
        return idle;
}

static void publish(struct api_keys *k, struct api_key_file file) {
        struct api_key_set *set;
        MUTEX_GUARD(&k->lock);

        set = take_set_locked(k);
        set->file = file;
        atomic_store(&k->current, set);
}

struct error *api_keys_open(const char *path, struct api_keys **ret) {
        struct api_key_file file;
        struct api_keys    *k;

        TRY(read_file(path, &file));
        k = mem_zalloc(sizeof(*k));
        k->path = mem_strdup(path);
        mutex_init(&k->lock, LOCK_LEAF);
        publish(k, file);
        *ret = k;
        return NULL;
}

void api_keys_free(struct api_keys *k) {
        if (k == NULL)
                return;
        while (k->sets != NULL) {
                struct api_key_set *set = k->sets;

                k->sets = set->next;
                api_key_file_done(&set->file);
                free(set);
        }
        mutex_done(&k->lock);
        free(k->path);
        free(k);
}

struct error *api_keys_reload(struct api_keys *k) {
        struct api_key_file file;

        TRY(read_file(k->path, &file));
        publish(k, file);
        return NULL;
}

bool api_keys_are_writable_by_others(const struct api_keys *k) {
        struct stat native;

        return stat(k->path, &native) == 0 && (native.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

const char *api_keys_path(const struct api_keys *k) {
        return k->path;
}

size_t api_keys_count(struct api_keys *k) {
        struct api_key_set *set = api_keys_hold(k);
        size_t              n = set->file.n_keys;

        api_keys_release(set);
        return n;
}

struct api_key_set *api_keys_hold(struct api_keys *k) {
        for (;;) {
                struct api_key_set *set = atomic_load(&k->current);

                atomic_fetch_add(&set->n_holders, 1);
                /* Still in force after the increment, so a later reading sees the counter and does
                 * not empty it. */
                if (set == atomic_load(&k->current))
                        return set;
                atomic_fetch_sub(&set->n_holders, 1);
        }
}

void api_keys_release(struct api_key_set *set) {
        if (set != NULL)
                atomic_fetch_sub(&set->n_holders, 1);
}

const struct api_key_set *api_keys_current(const struct api_keys *k) {
        return atomic_load(&k->current);
}
