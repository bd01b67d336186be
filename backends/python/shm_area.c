/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/shm_area.h"

#include <sys/resource.h>

/* A new segment has at least this part of the area's size. With the second one an area of 16 GiB in small
 * blocks has 200 segments. */
#define SHARE 4
#define TIGHT_SHARE 32

static bool has_limit(void) {
        struct rlimit limit;

        return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

void shm_area_init(struct shm_area *area, struct shm_map *map, const struct shm_area_options *o) {
        struct shm_header *h = shm_map_at(map, 0);

        area->map = map;
        area->records = o->is_server ? h->server_segments : h->stub_segments;
        area->first_bytes = o->first_bytes;
        area->growth_bytes = o->growth_bytes;
        area->refusals = o->is_server ? &h->n_server_refused : &h->n_stub_refused;
        area->n_refused = 0;
        area->is_tight = has_limit();
        shm_heap_init(&area->heap,
                      &(struct shm_heap_options){
                              .begin = o->is_server ? SHM_SERVER_AREA : SHM_STUB_AREA,
                              .fd = map->fd,
                              .file = map->file,
                              .max_bytes = o->max_bytes,
                              .committed = o->is_server ? &h->server_committed : &h->stub_committed,
                              .committed_by_other =
                                      o->is_server ? &h->stub_committed : &h->server_committed });
}

void shm_area_done(struct shm_area *area) {
        shm_heap_done(&area->heap);
}

static enum shm_segment_state state_of(const struct shm_area *area, uint32_t i) {
        return (enum shm_segment_state)atomic_load(&area->records[i].state);
}

static uint64_t place_of(const struct shm_area *area, uint32_t i) {
        return area->heap.begin + (uint64_t)area->heap.segments[i].first * SHM_UNIT;
}

/* Closes the segments that the other side has refused. */
static void notice_refusals(struct shm_area *area) {
        uint32_t n = atomic_load_explicit(area->refusals, memory_order_acquire);

        if (n == area->n_refused)
                return;
        area->n_refused = n;
        area->is_tight = true;
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++)
                if (area->heap.segments[i].state == SEGMENT_OPEN &&
                    state_of(area, i) == SHM_SEGMENT_REFUSED)
                        shm_heap_close(&area->heap, i);
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Forgets the segments that the other side has unmapped, too. */
static void forget_gone(struct shm_area *area) {
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++)
                if (area->heap.segments[i].state == SEGMENT_GONE &&
                    state_of(area, i) == SHM_SEGMENT_EMPTY)
                        shm_heap_forget(&area->heap, i);
}

static uint32_t usual_units(const struct shm_area *area, uint32_t needed) {
        uint32_t total = area->heap.n_segment_units;
        uint32_t n = shm_heap_units(total == 0 ? area->first_bytes : area->growth_bytes);
        uint32_t share = total / (area->is_tight ? TIGHT_SHARE : SHARE);

        if (n < share)
                n = share;
        return n > needed ? n : needed;
}

static uint32_t add_segment(struct shm_area *area, uint32_t n_units) {
        uint32_t                   i = shm_heap_add(&area->heap, n_units);
        struct shm_segment_record *record;

        if (i == SHM_NO_INDEX)
                return SHM_NO_INDEX;
        if (!shm_map_has_file(area->map) ||
            !shm_map_add(area->map, place_of(area, i), (uint64_t)n_units * SHM_UNIT)) {
                (void)shm_heap_drop(&area->heap, i);
                shm_heap_forget(&area->heap, i);
                return SHM_NO_INDEX;
        }
        record = &area->records[i];
        record->granule =
                (uint32_t)(area->heap.segments[i].first * (uint64_t)SHM_UNIT / SHM_GRANULE);
        record->n_units = n_units;
        atomic_store_explicit(&record->state, SHM_SEGMENT_OFFERED, memory_order_release);
        return i;
}

static uint32_t grow_area(struct shm_area *area, uint32_t needed) {
        uint32_t n = usual_units(area, needed), i;

        forget_gone(area);
        i = add_segment(area, n);
        return i == SHM_NO_INDEX && n > needed ? add_segment(area, needed) : i;
}

uint32_t shm_area_alloc(struct shm_area *area, uint64_t n_bytes, uint32_t *ret_segment) {
        uint32_t block;

        *ret_segment = SHM_NO_INDEX;
        notice_refusals(area);
        block = shm_heap_alloc(&area->heap, n_bytes);
        if (block != 0 || shm_heap_has_room(&area->heap, n_bytes) ||
            !shm_heap_may_commit(&area->heap, (uint64_t)shm_heap_units(n_bytes) * SHM_UNIT))
                return block;
        *ret_segment = grow_area(area, shm_heap_units(n_bytes));
        return *ret_segment != SHM_NO_INDEX ? shm_heap_alloc(&area->heap, n_bytes) : 0;
}

/* ---- shrinking ------------------------------------------------------------------------------- */

unsigned shm_area_shrink(struct shm_area *area) {
        unsigned n = 0;

        notice_refusals(area);
        shm_heap_trim(&area->heap);
        for (uint32_t i = 0; i < SHM_SEGMENTS; i++) {
                enum segment_state state = area->heap.segments[i].state;

                if (state != SEGMENT_CLOSED && (state != SEGMENT_OPEN || i == 0))
                        continue;
                if (!shm_heap_drop(&area->heap, i))
                        continue;
                shm_map_remove(area->map, place_of(area, i));
                atomic_store(&area->records[i].state, SHM_SEGMENT_REMOVED);
                n++;
        }
        return n;
}
