/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects that the instances of one instance group share: NESO_ModelInstanceSharedGet() and
 * NESO_ModelInstanceSharedSet().
 *
 * The first instance of a group that has loaded an engine, say, deposits it under a key; the others find it
 * there. The objects of a group are destroyed after its last instance has left, the last one first.
 *
 * Ownership.  Embedded in the model of the backend. Objects are the group's.
 * Threads.  Any. Objects are destroyed on the thread of shared_objects_leave(), with no lock held.
 */
#pragma once

#include "base/error.h"
#include "base/lock.h"

#include <stdint.h>

struct shared_group;

typedef void (*shared_destroy_fn)(void *object);

struct shared_objects {
        struct mutex         lock;   /* rank LOCK_LEAF; guards everything below */
        struct shared_group *groups; /* owned: those that have an instance */
};

void shared_objects_init(struct shared_objects *s);
void shared_objects_done(struct shared_objects *s); /* all instances have left */

/* The group of that name; an instance belongs to it until it leaves. */
struct shared_group *shared_objects_join(struct shared_objects *s, const char *name);
void                 shared_objects_leave(struct shared_objects *s, struct shared_group *group);

/* NULL: nothing was deposited under the key. */
void *shared_objects_find(struct shared_objects *s, const struct shared_group *group,
                          const char *key);
/* The group takes the object on success. ALREADY_EXISTS: another instance was first. `destroy` may be
 * NULL. */
struct error *shared_objects_add(struct shared_objects *s, struct shared_group *group,
                                 const char *key, void *object, shared_destroy_fn destroy)
        NODISCARD;
