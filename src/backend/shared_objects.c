/* SPDX-License-Identifier: BSD-3-Clause */
#include "backend/shared_objects.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct shared_object {
        char                 *key;    /* owned */
        void                 *object; /* owned */
        shared_destroy_fn     destroy;
        struct shared_object *next;
};

struct shared_group {
        char                 *name; /* owned */
        uint32_t              n_instances;
        struct shared_object *objects; /* owned: the last one first */
        struct shared_group  *next;
};

void shared_objects_init(struct shared_objects *s) {
        *s = (struct shared_objects){ .groups = NULL };
        mutex_init(&s->lock, LOCK_LEAF);
}

void shared_objects_done(struct shared_objects *s) {
        assert(s->groups == NULL);
        mutex_done(&s->lock);
}

struct shared_group *shared_objects_join(struct shared_objects *s, const char *name) {
        struct shared_group *group;

        MUTEX_GUARD(&s->lock);
        for (group = s->groups; group != NULL && strcmp(group->name, name) != 0;)
                group = group->next;
        if (group == NULL) {
                group = mem_zalloc(sizeof(*group));
                group->name = mem_strdup(name);
                group->next = s->groups;
                s->groups = group;
        }
        group->n_instances++;
        return group;
}

static void unlink_locked(struct shared_objects *s, const struct shared_group *group) {
        struct shared_group **at = &s->groups;

        while (*at != group)
                at = &(*at)->next;
        *at = group->next;
}

static void free_group(struct shared_group *group) {
        for (struct shared_object *o = group->objects, *next; o != NULL; o = next) {
                next = o->next;
                if (o->destroy != NULL)
                        o->destroy(o->object);
                free(o->key);
                free(o);
        }
        free(group->name);
        free(group);
}

void shared_objects_leave(struct shared_objects *s, struct shared_group *group) {
        bool is_last;

        mutex_lock(&s->lock);
        is_last = --group->n_instances == 0;
        if (is_last)
                unlink_locked(s, group);
        mutex_unlock(&s->lock);
        if (is_last)
                free_group(group);
}

static struct shared_object *find_locked(const struct shared_group *group, const char *key) {
        struct shared_object *o = group->objects;

        while (o != NULL && strcmp(o->key, key) != 0)
                o = o->next;
        return o;
}

void *shared_objects_find(struct shared_objects *s, const struct shared_group *group,
                          const char *key) {
        const struct shared_object *o;

        MUTEX_GUARD(&s->lock);
        o = find_locked(group, key);
        return o != NULL ? o->object : NULL;
}

struct error *shared_objects_add(struct shared_objects *s, struct shared_group *group,
                                 const char *key, void *object, shared_destroy_fn destroy) {
        struct shared_object *o;

        MUTEX_GUARD(&s->lock);
        if (find_locked(group, key) != NULL)
                return error_new(ERR_ALREADY_EXISTS,
                                 "instance group '%s' has a shared object '%s' already",
                                 group->name, key);
        o = mem_alloc(sizeof(*o));
        *o = (struct shared_object){
                .key = mem_strdup(key), .object = object, .destroy = destroy, .next = group->objects
        };
        group->objects = o;
        return NULL;
}
