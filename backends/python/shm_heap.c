/* SPDX-License-Identifier: BSD-3-Clause */
#include "python/shm_heap.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCKS_OF_UNIT (SHM_UNIT / SHM_BLOCK)
#define MAX_SMALL (SHM_UNIT / 4)
#define MAP_WORDS (BLOCKS_OF_UNIT / 64)
#define UNITS_OF_GRANULE (SHM_GRANULE / SHM_UNIT)
#define AREA_UNITS (SHM_AREA_BYTES / SHM_UNIT)

enum unit_kind {
        UNIT_NONE, /* no segment has it */
        UNIT_FREE,
        UNIT_SMALL,
        UNIT_RUN,
        UNIT_BODY,
        UNIT_HELD, /* free, in a closed segment */
};

struct shm_unit {
        uint8_t  kind;
        uint8_t  size_class; /* UNIT_SMALL */
        bool     is_committed;
        bool     is_partial; /* in the list of units with free blocks of its size */
        bool     is_first;   /* of its segment */
        bool     is_closed;  /* its segment is */
        uint32_t n;          /* units of the run, in its first and (free runs) last unit */
        uint32_t next, prev; /* in a bin, or in the list of a size */
        uint16_t n_free;     /* UNIT_SMALL: number of free blocks */
        uint64_t free_map[MAP_WORDS];
};

static struct shm_unit *unit(const struct shm_heap *heap, uint32_t i) {
        return &heap->units[i];
}

/* ---- free runs ------------------------------------------------------------------------------- */

static unsigned bin_of(uint32_t n) {
        return 31u - (unsigned)__builtin_clz(n);
}

static void bin_insert(struct shm_heap *heap, uint32_t first, uint32_t n) {
        uint32_t        *bin = &heap->bins[bin_of(n)];
        struct shm_unit *u = unit(heap, first);

        u->kind = UNIT_FREE;
        u->n = n;
        u->next = *bin;
        u->prev = SHM_NO_INDEX;
        unit(heap, first + n - 1)->kind = UNIT_FREE;
        unit(heap, first + n - 1)->n = n;
        if (*bin != SHM_NO_INDEX)
                unit(heap, *bin)->prev = first;
        *bin = first;
}

static void list_remove(struct shm_heap *heap, uint32_t *list, uint32_t i) {
        struct shm_unit *u = unit(heap, i);

        if (u->prev != SHM_NO_INDEX)
                unit(heap, u->prev)->next = u->next;
        else
                *list = u->next;
        if (u->next != SHM_NO_INDEX)
                unit(heap, u->next)->prev = u->prev;
}

static void bin_remove(struct shm_heap *heap, uint32_t first) {
        list_remove(heap, &heap->bins[bin_of(unit(heap, first)->n)], first);
}

static void hold_run(struct shm_heap *heap, uint32_t first, uint32_t n) {
        for (uint32_t i = first; i < first + n; i++)
                unit(heap, i)->kind = UNIT_HELD;
}

/* Runs of two segments are neighbours in the file only. */
static bool joins_next(const struct shm_heap *heap, uint32_t i) {
        return i < heap->n_units && unit(heap, i)->kind == UNIT_FREE && !unit(heap, i)->is_first;
}

static void free_run(struct shm_heap *heap, uint32_t first, uint32_t n) {
        if (unit(heap, first)->is_closed) {
                hold_run(heap, first, n);
                return;
        }
        unit(heap, first)->kind = UNIT_FREE;
        if (joins_next(heap, first + n)) {
                uint32_t after = first + n;

                n += unit(heap, after)->n;
                bin_remove(heap, after);
        }
        if (!unit(heap, first)->is_first && unit(heap, first - 1)->kind == UNIT_FREE) {
                uint32_t before = unit(heap, first - 1)->n;

                bin_remove(heap, first - before);
                first -= before;
                n += before;
        }
        bin_insert(heap, first, n);
}

/* Returns the first free run of at least n units, by size; SHM_NO_INDEX when there is none. */
static uint32_t find_run(const struct shm_heap *heap, uint32_t n) {
        for (unsigned bin = bin_of(n); bin < SHM_HEAP_BINS; bin++)
                for (uint32_t i = heap->bins[bin]; i != SHM_NO_INDEX; i = unit(heap, i)->next)
                        if (unit(heap, i)->n >= n)
                                return i;
        return SHM_NO_INDEX;
}

/* ---- committing ------------------------------------------------------------------------------ */

bool shm_heap_may_commit(const struct shm_heap *heap, uint64_t n_bytes) {
        uint64_t all = atomic_load(heap->committed) + atomic_load(heap->committed_by_other);

        return heap->max_bytes == 0 ||
               (n_bytes <= heap->max_bytes && all <= heap->max_bytes - n_bytes);
}

/* A model may close the descriptor of the memfd and open a file of its own with its number. */
static bool has_file(const struct shm_heap *heap) {
        struct stat st;

        return fstat(heap->fd, &st) == 0 && (uint64_t)st.st_ino == heap->file;
}

static bool allocate_in_file(const struct shm_heap *heap, int mode, uint32_t first, uint32_t n) {
        return has_file(heap) && fallocate(heap->fd, mode | FALLOC_FL_KEEP_SIZE,
                                           (off_t)(heap->begin + (uint64_t)first * SHM_UNIT),
                                           (off_t)((uint64_t)n * SHM_UNIT)) == 0;
}

static bool commit_range(struct shm_heap *heap, uint32_t first, uint32_t n) {
        uint64_t n_bytes = (uint64_t)n * SHM_UNIT;

        if (!shm_heap_may_commit(heap, n_bytes))
                return false;
        if (heap->fd >= 0 && !allocate_in_file(heap, 0, first, n))
                return false;
        for (uint32_t i = first; i < first + n; i++)
                unit(heap, i)->is_committed = true;
        atomic_fetch_add(heap->committed, n_bytes);
        return true;
}

static bool commit(struct shm_heap *heap, uint32_t first, uint32_t n) {
        for (uint32_t i = first; i < first + n;) {
                uint32_t end = i;

                while (end < first + n && !unit(heap, end)->is_committed)
                        end++;
                if (end > i && !commit_range(heap, i, end - i))
                        return false;
                i = end > i ? end : i + 1;
        }
        return true;
}

static uint32_t alloc_run(struct shm_heap *heap, uint32_t n) {
        uint32_t first = find_run(heap, n), n_found;

        if (first == SHM_NO_INDEX)
                return SHM_NO_INDEX;
        bin_remove(heap, first);
        n_found = unit(heap, first)->n;
        if (!commit(heap, first, n)) {
                free_run(heap, first, n_found);
                return SHM_NO_INDEX;
        }
        if (n_found > n)
                bin_insert(heap, first + n, n_found - n);
        for (uint32_t i = first; i < first + n; i++)
                unit(heap, i)->kind = UNIT_BODY;
        unit(heap, first)->kind = UNIT_RUN;
        unit(heap, first)->n = n;
        return first;
}

/* ---- small blocks ---------------------------------------------------------------------------- */

static unsigned class_of(uint64_t n_bytes) {
        unsigned size_class = 0;

        while (((uint64_t)SHM_BLOCK << size_class) < n_bytes)
                size_class++;
        return size_class;
}

static void partial_insert(struct shm_heap *heap, uint32_t i) {
        struct shm_unit *u = unit(heap, i);
        uint32_t        *list = &heap->partial[u->size_class];

        u->is_partial = true;
        u->next = *list;
        u->prev = SHM_NO_INDEX;
        if (*list != SHM_NO_INDEX)
                unit(heap, *list)->prev = i;
        *list = i;
}

static bool add_unit(struct shm_heap *heap, unsigned size_class) {
        uint32_t         i = alloc_run(heap, 1);
        struct shm_unit *u;

        if (i == SHM_NO_INDEX)
                return false;
        u = unit(heap, i);
        u->kind = UNIT_SMALL;
        u->size_class = (uint8_t)size_class;
        u->n_free = (uint16_t)(BLOCKS_OF_UNIT >> size_class);
        memset(u->free_map, 0, sizeof(u->free_map));
        for (unsigned b = 0; b < u->n_free; b++)
                u->free_map[b / 64] |= UINT64_C(1) << (b % 64);
        partial_insert(heap, i);
        return true;
}

static uint32_t number(const struct shm_heap *heap, uint32_t i) {
        return (uint32_t)((heap->begin + (uint64_t)i * SHM_UNIT) / SHM_BLOCK);
}

static uint32_t alloc_small(struct shm_heap *heap, unsigned size_class) {
        uint32_t        *list = &heap->partial[size_class], i;
        struct shm_unit *u;
        unsigned         word = 0, bit;

        if (*list == SHM_NO_INDEX && !add_unit(heap, size_class))
                return 0;
        i = *list;
        u = unit(heap, i);
        while (u->free_map[word] == 0)
                word++;
        bit = (unsigned)__builtin_ctzll(u->free_map[word]);
        u->free_map[word] &= ~(UINT64_C(1) << bit);
        if (--u->n_free == 0) {
                list_remove(heap, list, i);
                u->is_partial = false;
        }
        heap->allocated_bytes += (uint64_t)SHM_BLOCK << size_class;
        return number(heap, i) + ((word * 64 + bit) << size_class);
}

static bool is_empty(const struct shm_unit *u) {
        return u->n_free == BLOCKS_OF_UNIT >> u->size_class;
}

static void free_empty(struct shm_heap *heap, uint32_t i) {
        list_remove(heap, &heap->partial[unit(heap, i)->size_class], i);
        unit(heap, i)->is_partial = false;
        free_run(heap, i, 1);
}

static void free_small(struct shm_heap *heap, uint32_t i, unsigned b) {
        struct shm_unit *u = unit(heap, i);
        uint32_t        *list = &heap->partial[u->size_class];

        u->free_map[b / 64] |= UINT64_C(1) << (b % 64);
        u->n_free++;
        heap->allocated_bytes -= (uint64_t)SHM_BLOCK << u->size_class;
        if (u->is_closed) {
                if (is_empty(u))
                        hold_run(heap, i, 1);
                return;
        }
        if (!u->is_partial)
                partial_insert(heap, i);
        /* One empty unit is kept for the next block of that size. */
        if (is_empty(u) && (*list != i || u->next != SHM_NO_INDEX))
                free_empty(heap, i);
}

/* ---- what users call ------------------------------------------------------------------------- */

void shm_heap_init(struct shm_heap *heap, const struct shm_heap_options *options) {
        *heap = (struct shm_heap){ .begin = options->begin,
                                   .fd = options->fd,
                                   .file = options->file,
                                   .max_bytes = options->max_bytes,
                                   .committed = options->committed,
                                   .committed_by_other = options->committed_by_other };
        memset(heap->bins, 0xff, sizeof(heap->bins));
        memset(heap->partial, 0xff, sizeof(heap->partial));
}

void shm_heap_done(struct shm_heap *heap) {
        free(heap->units);
        heap->units = NULL;
        heap->n_units = heap->capacity = 0;
}

uint32_t shm_heap_units(uint64_t n_bytes) {
        uint64_t n = n_bytes / SHM_UNIT + (n_bytes % SHM_UNIT != 0);

        if (n > AREA_UNITS)
                return AREA_UNITS + 1; /* no area has room */
        return n > 0 ? (uint32_t)n : 1;
}

bool shm_heap_has_room(const struct shm_heap *heap, uint64_t n_bytes) {
        if (n_bytes <= MAX_SMALL && heap->partial[class_of(n_bytes)] != SHM_NO_INDEX)
                return true;
        return find_run(heap, shm_heap_units(n_bytes)) != SHM_NO_INDEX;
}

uint32_t shm_heap_alloc(struct shm_heap *heap, uint64_t n_bytes) {
        uint32_t n_units = shm_heap_units(n_bytes), first;

        if (n_bytes <= MAX_SMALL)
                return alloc_small(heap, class_of(n_bytes));
        first = alloc_run(heap, n_units);
        if (first == SHM_NO_INDEX)
                return 0;
        heap->allocated_bytes += (uint64_t)n_units * SHM_UNIT;
        return number(heap, first);
}

/* Returns the unit of an allocated block; NULL when there is no such block. *ret_index is the index
 * of a small block. */
static struct shm_unit *find_block(const struct shm_heap *heap, uint32_t block,
                                   unsigned *ret_index) {
        uint64_t         offset = (uint64_t)block * SHM_BLOCK, i;
        struct shm_unit *u;
        unsigned         at;

        if (offset < heap->begin)
                return NULL;
        i = (offset - heap->begin) / SHM_UNIT;
        at = (unsigned)((offset - heap->begin) % SHM_UNIT / SHM_BLOCK);
        if (i >= heap->n_units)
                return NULL;
        u = unit(heap, (uint32_t)i);
        if (u->kind == UNIT_RUN)
                return at == 0 ? u : NULL;
        if (u->kind != UNIT_SMALL || (at & ((1u << u->size_class) - 1)) != 0)
                return NULL;
        at >>= u->size_class;
        *ret_index = at;
        return (u->free_map[at / 64] >> (at % 64) & 1) == 0 ? u : NULL;
}

uint64_t shm_heap_size(const struct shm_heap *heap, uint32_t block) {
        unsigned               index;
        const struct shm_unit *u = find_block(heap, block, &index);

        if (u == NULL)
                return 0;
        return u->kind == UNIT_RUN ? (uint64_t)u->n * SHM_UNIT
                                   : (uint64_t)SHM_BLOCK << u->size_class;
}

bool shm_heap_free(struct shm_heap *heap, uint32_t block) {
        unsigned         index = 0;
        struct shm_unit *u = find_block(heap, block, &index);
        uint32_t         i;

        if (u == NULL)
                return false;
        i = (uint32_t)(u - heap->units);
        if (u->kind == UNIT_SMALL) {
                free_small(heap, i, index);
        } else {
                heap->allocated_bytes -= (uint64_t)u->n * SHM_UNIT;
                free_run(heap, i, u->n);
        }
        return true;
}

uint64_t shm_heap_idle_bytes(const struct shm_heap *heap) {
        uint64_t committed = atomic_load(heap->committed);

        return committed > heap->allocated_bytes ? committed - heap->allocated_bytes : 0;
}

static void uncommit(struct shm_heap *heap, uint32_t first, uint32_t n) {
        uint32_t n_committed = 0;

        for (uint32_t i = first; i < first + n; i++) {
                n_committed += unit(heap, i)->is_committed;
                unit(heap, i)->is_committed = false;
        }
        if (n_committed == 0)
                return;
        if (heap->fd >= 0)
                (void)allocate_in_file(heap, FALLOC_FL_PUNCH_HOLE, first, n);
        atomic_fetch_sub(heap->committed, (uint64_t)n_committed * SHM_UNIT);
}

static void free_empty_units(struct shm_heap *heap) {
        for (unsigned size_class = 0; size_class < SHM_HEAP_SIZES; size_class++)
                for (uint32_t i = heap->partial[size_class]; i != SHM_NO_INDEX;) {
                        uint32_t next = unit(heap, i)->next;

                        if (is_empty(unit(heap, i)))
                                free_empty(heap, i);
                        i = next;
                }
}

void shm_heap_trim(struct shm_heap *heap) {
        free_empty_units(heap);
        for (unsigned bin = 0; bin < SHM_HEAP_BINS; bin++)
                for (uint32_t i = heap->bins[bin]; i != SHM_NO_INDEX; i = unit(heap, i)->next)
                        uncommit(heap, i, unit(heap, i)->n);
}

/* ---- segments -------------------------------------------------------------------------------- */

static uint32_t end_in_file(const struct shm_segment *s) {
        return s->first +
               (uint32_t)((s->n + UNITS_OF_GRANULE - 1) / UNITS_OF_GRANULE * UNITS_OF_GRANULE);
}

/* Returns the first unit of the first gap of the file that has room for n units. */
static uint32_t find_gap(const struct shm_heap *heap, uint32_t n) {
        uint32_t first = 0;

        for (uint32_t i = 0; i < SHM_SEGMENTS; i++) {
                const struct shm_segment *s = &heap->segments[i];

                if (s->state == SEGMENT_NONE || s->first >= first + n || end_in_file(s) <= first)
                        continue;
                first = end_in_file(s);
                i = UINT32_MAX; /* begins again with the first segment */
        }
        return n <= AREA_UNITS && first <= AREA_UNITS - n ? first : SHM_NO_INDEX;
}

/* Makes records for the units before `end`. */
static bool cover(struct shm_heap *heap, uint32_t end) {
        uint64_t         capacity = heap->capacity;
        struct shm_unit *units;

        while (capacity < end)
                capacity = capacity == 0 ? 64 : capacity * 2;
        if (capacity > heap->capacity) {
                units = realloc(heap->units, capacity * sizeof(*units));
                if (units == NULL)
                        return false;
                heap->units = units;
                heap->capacity = (uint32_t)capacity;
        }
        if (end > heap->n_units) {
                memset(&heap->units[heap->n_units], 0,
                       (end - heap->n_units) * sizeof(*heap->units));
                heap->n_units = end;
        }
        return true;
}

uint32_t shm_heap_add(struct shm_heap *heap, uint32_t n) {
        uint32_t first = find_gap(heap, n), i = 0;

        while (i < SHM_SEGMENTS && heap->segments[i].state != SEGMENT_NONE)
                i++;
        if (i == SHM_SEGMENTS || first == SHM_NO_INDEX || !cover(heap, first + n))
                return SHM_NO_INDEX;
        heap->segments[i] = (struct shm_segment){ SEGMENT_OPEN, first, n };
        heap->n_segment_units += n;
        unit(heap, first)->is_first = true;
        bin_insert(heap, first, n);
        return i;
}

/* Holds what begins at unit i, when it is free. Returns its number of units. */
static uint32_t hold_units(struct shm_heap *heap, uint32_t i) {
        struct shm_unit *u = unit(heap, i);
        uint32_t         n = u->kind == UNIT_SMALL ? 1 : u->n;

        if (u->kind == UNIT_FREE) {
                bin_remove(heap, i);
                hold_run(heap, i, n);
        } else if (u->kind == UNIT_SMALL && u->is_partial) {
                list_remove(heap, &heap->partial[u->size_class], i);
                u->is_partial = false;
                if (is_empty(u))
                        hold_run(heap, i, 1);
        }
        return n;
}

void shm_heap_close(struct shm_heap *heap, uint32_t segment) {
        struct shm_segment *s = &heap->segments[segment];

        for (uint32_t i = s->first; i < s->first + s->n;)
                i += hold_units(heap, i);
        for (uint32_t i = s->first; i < s->first + s->n; i++)
                unit(heap, i)->is_closed = true;
        s->state = SEGMENT_CLOSED;
}

static bool has_blocks(const struct shm_heap *heap, const struct shm_segment *s) {
        if (s->state == SEGMENT_OPEN)
                return unit(heap, s->first)->kind != UNIT_FREE || unit(heap, s->first)->n != s->n;
        for (uint32_t i = s->first; i < s->first + s->n; i++)
                if (unit(heap, i)->kind != UNIT_HELD)
                        return true;
        return false;
}

bool shm_heap_drop(struct shm_heap *heap, uint32_t segment) {
        struct shm_segment *s = &heap->segments[segment];

        if (has_blocks(heap, s))
                return false;
        if (s->state == SEGMENT_OPEN)
                bin_remove(heap, s->first);
        uncommit(heap, s->first, s->n);
        memset(unit(heap, s->first), 0, s->n * sizeof(*heap->units));
        heap->n_segment_units -= s->n;
        s->state = SEGMENT_GONE;
        return true;
}

void shm_heap_forget(struct shm_heap *heap, uint32_t segment) {
        heap->segments[segment].state = SEGMENT_NONE;
}
