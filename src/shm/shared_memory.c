/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/shared_memory.h"

#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "shm/shm_guard.h"

#include <stdlib.h>
#include <string.h>

struct shared_memory {
        struct cuda_regions cuda;
        struct mutex        lock;    /* rank LOCK_LEAF; guards what follows */
        struct map          by_name; /* struct shm_region, ref */
};

struct error *shared_memory_new(struct gpus *gpus, struct shared_memory **ret) {
        struct shared_memory *m;

        TRY(shm_guard_start());
        m = mem_zalloc(sizeof(*m));
        cuda_regions_init(&m->cuda, gpus);
        mutex_init(&m->lock, LOCK_LEAF);
        map_init(&m->by_name);
        *ret = m;
        return NULL;
}

void shared_memory_limit_gpus(struct shared_memory *m, double part) {
        m->cuda.limit = part;
}

struct error *shared_memory_check_change(const struct shared_memory *m) {
        if (m != NULL)
                return NULL;
        return error_new_text(ERR_UNSUPPORTED,
                              "Client shared memory is disabled. Start the server with "
                              "'--allow-client-shm=true' to enable.");
}

/* No region has a longer name, and no error message repeats one. */
static struct error *check_length(struct str name) {
        if (name.len <= SHARED_MEMORY_MAX_NAME)
                return NULL;
        return error_new(ERR_INVALID_ARG,
                         "name of a shared memory region has %zu bytes, at most %d are allowed",
                         name.len, SHARED_MEMORY_MAX_NAME);
}

bool shared_memory_has_gpus(const struct shared_memory *m) {
        return m != NULL && m->cuda.gpus != NULL;
}

struct error *shared_memory_check_gpus(const struct shared_memory *m, const char *name) {
        if (shared_memory_has_gpus(m))
                return NULL;
        TRY(check_length(str_of(name)));
        return error_new(ERR_INVALID_ARG,
                         "failed to register CUDA shared memory region: '%s', GPUs not supported",
                         name);
}

/* ---- changes ---- */

static struct error *check_name(struct str name) {
        if (name.len > SHARED_MEMORY_MAX_NAME)
                return error_new(ERR_INVALID_ARG,
                                 "cannot register shared memory region: its name has %zu bytes, at "
                                 "most %d are allowed",
                                 name.len, SHARED_MEMORY_MAX_NAME);
        if (!str_is_utf8(name))
                return error_new_text(
                        ERR_INVALID_ARG,
                        "cannot register shared memory region: its name is not UTF-8");
        return NULL;
}

static struct error *refuse_second(const char *name) {
        return error_new(ERR_ALREADY_EXISTS, "shared memory region '%s' already in manager", name);
}

static bool has(struct shared_memory *m, struct str name) {
        MUTEX_GUARD(&m->lock);

        return map_find(&m->by_name, name) != NULL;
}

/* False when another client has registered the name meanwhile. */
static bool insert_region(struct shared_memory *m, struct str name, struct shm_region *r) {
        MUTEX_GUARD(&m->lock);

        if (map_find(&m->by_name, name) != NULL)
                return false;
        map_set(&m->by_name, name, r);
        return true;
}

/* Takes the region. */
static struct error *insert(struct shared_memory *m, const char *name, struct shm_region *r) {
        if (insert_region(m, str_of(name), r))
                return NULL;
        shm_region_unref(r);
        return refuse_second(name);
}

struct error *shared_memory_register(struct shared_memory *m, const struct shm_place *place) {
        struct shm_region *r;

        TRY(check_name(str_of(place->name)));
        TRY(shm_region_check_key(place->name, place->key));
        if (has(m, str_of(place->name)))
                return refuse_second(place->name);
        TRY(shm_region_open(place, &r));
        return insert(m, place->name, r);
}

struct error *shared_memory_register_cuda(struct shared_memory *m, const struct cuda_place *place) {
        struct shm_region *r;

        TRY(check_name(str_of(place->name)));
        if (has(m, str_of(place->name)))
                return refuse_second(place->name);
        TRY(shm_region_open_cuda(&m->cuda, place, &r));
        return insert(m, place->name, r);
}

static struct shm_region *take_out(struct shared_memory *m, enum shared_memory_kind kind,
                                   struct str name) {
        MUTEX_GUARD(&m->lock);
        const struct shm_region *r = map_find(&m->by_name, name);

        return r != NULL && r->kind == kind ? map_remove(&m->by_name, name) : NULL;
}

/* Returns a list. */
static struct shm_region *take_out_all(struct shared_memory *m, enum shared_memory_kind kind) {
        MUTEX_GUARD(&m->lock);
        struct shm_region *first = NULL;

        MAP_FOR_EACH(&m->by_name, e) {
                struct shm_region *r = e->value;

                if (r->kind != kind)
                        continue;
                r->next = first;
                first = r;
                map_remove(&m->by_name, str_of(r->name));
        }
        return first;
}

static void unregister_all(struct shared_memory *m, enum shared_memory_kind kind) {
        struct shm_region *r = take_out_all(m, kind);

        while (r != NULL) {
                struct shm_region *next = r->next;

                shm_region_unref(r);
                r = next;
        }
}

struct error *shared_memory_unregister(struct shared_memory *m, enum shared_memory_kind kind,
                                       struct str name) {
        TRY(shared_memory_check_change(m));
        if (name.len > 0)
                shm_region_unref(take_out(m, kind, name));
        else
                unregister_all(m, kind);
        return NULL;
}

void shared_memory_free(struct shared_memory *m) {
        if (m == NULL)
                return;
        unregister_all(m, SHARED_MEMORY_SYSTEM);
        unregister_all(m, SHARED_MEMORY_CUDA);
        cuda_regions_done(&m->cuda);
        map_done(&m->by_name);
        mutex_done(&m->lock);
        free(m);
        shm_guard_stop();
}

/* ---- queries ---- */

static struct shm_region *take_ref(struct shared_memory *m, struct str name) {
        MUTEX_GUARD(&m->lock);
        struct shm_region *r = map_find(&m->by_name, name);

        return r != NULL ? shm_region_ref(r) : NULL;
}

struct error *shared_memory_take(struct shared_memory *m, const char *name,
                                 struct shm_region **ret) {
        struct shm_region *r;

        TRY(check_length(str_of(name)));
        r = m != NULL ? take_ref(m, str_of(name)) : NULL;
        if (r == NULL)
                return error_new(ERR_NOT_FOUND, "Unable to find shared memory region: '%s'", name);
        *ret = r;
        return NULL;
}

bool shared_memory_has_cuda(struct shared_memory *m, const char *name) {
        const struct shm_region *r;

        if (!shared_memory_has_gpus(m))
                return false;
        MUTEX_GUARD(&m->lock);
        r = map_find(&m->by_name, str_of(name));
        return r != NULL && r->kind == SHARED_MEMORY_CUDA;
}

static struct error *no_memory(void) {
        static struct error full =
                ERROR_STATIC(ERR_UNAVAILABLE, "out of memory for the list of regions");

        return &full;
}

static struct error *describe_region(const struct shm_region *r, struct arena *arena,
                                     struct shared_memory_entry *ret) {
        bool is_cuda = r->kind == SHARED_MEMORY_CUDA;

        *ret = (struct shared_memory_entry){
                .name = arena_try_str(arena, str_of(r->name)),
                .byte_size = r->byte_size,
                .key = is_cuda ? "" : arena_try_str(arena, str_of(r->key)),
                .offset = r->offset,
                .device = (uint64_t)r->cuda.device,
        };
        return ret->name != NULL && ret->key != NULL ? NULL : no_memory();
}

static int compare_names(const void *left, const void *right) {
        const struct shared_memory_entry *a = left, *b = right;

        return strcmp(a->name, b->name);
}

/* Copies the texts, so that no region is held while the answer is written. */
static struct error *list_all_locked(struct shared_memory *m, enum shared_memory_kind kind,
                                     struct arena *arena, struct shared_memory_entry **ret,
                                     size_t *ret_n) {
        size_t n = 0;

        *ret = arena_try_alloc(arena, MAX(map_size(&m->by_name), 1) * sizeof(**ret));
        if (*ret == NULL)
                return no_memory();
        MAP_FOR_EACH(&m->by_name, e) {
                const struct shm_region *r = e->value;

                if (r->kind == kind)
                        TRY(describe_region(r, arena, &(*ret)[n++]));
        }
        *ret_n = n;
        return NULL;
}

static struct error *list_all(struct shared_memory *m, enum shared_memory_kind kind,
                              struct arena *arena, struct shared_memory_entry **ret,
                              size_t *ret_n) {
        MUTEX_GUARD(&m->lock);

        return list_all_locked(m, kind, arena, ret, ret_n);
}

static struct error *list_one(struct shm_region *r, struct arena *arena,
                              struct shared_memory_entry **ret) {
        *ret = arena_try_alloc(arena, sizeof(**ret));
        return *ret != NULL ? describe_region(r, arena, *ret) : no_memory();
}

static struct error *not_found(enum shared_memory_kind kind, struct str name) {
        return error_new(ERR_NOT_FOUND, "Unable to find %s shared memory region: '%.*s'",
                         kind == SHARED_MEMORY_CUDA ? "cuda" : "system", STR_ARG(name));
}

static struct error *wrong_kind(const struct shm_region *r) {
        bool is_cuda = r->kind == SHARED_MEMORY_CUDA;

        return error_new(
                ERR_NOT_FOUND,
                "The region named '%s' is registered as %s shared memory, not %s shared memory",
                r->name, is_cuda ? "CUDA" : "system", is_cuda ? "system" : "CUDA");
}

static struct error *find_one(struct shared_memory *m, enum shared_memory_kind kind,
                              struct str name, struct arena *arena,
                              struct shared_memory_entry **ret) {
        struct shm_region *r = take_ref(m, name);
        struct error      *err;

        if (r == NULL)
                return not_found(kind, name);
        err = r->kind == kind ? list_one(r, arena, ret) : wrong_kind(r);
        shm_region_unref_later(r);
        return err;
}

struct error *shared_memory_list(struct shared_memory *m, enum shared_memory_kind kind,
                                 struct str name, struct arena *arena,
                                 struct shared_memory_entry **ret, size_t *ret_n) {
        *ret = NULL;
        *ret_n = 0;
        if (name.len > 0) {
                TRY(check_length(name));
                TRY(m != NULL ? find_one(m, kind, name, arena, ret) : not_found(kind, name));
                *ret_n = 1;
                return NULL;
        }
        if (m == NULL)
                return NULL;
        TRY(list_all(m, kind, arena, ret, ret_n));
        qsort(*ret, *ret_n, sizeof(**ret), compare_names);
        return NULL;
}
