/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of the stand-in: tables of ranges, places of the arena, and the bytes behind them. */
#include "fake_private.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- tables ---------------------------------------------------------------------------------- */

/* The number of rows whose address is at most `address`. */
static size_t count_up_to(const struct fake_table *t, uintptr_t address) {
        size_t low = 0, high = t->n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (t->rows[middle]->address <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

void fake_table_add(struct fake_table *t, struct fake_range *r) {
        size_t at = count_up_to(t, r->address);

        if (t->n == t->capacity) {
                t->capacity = t->capacity * 2 + 64;
                t->rows = realloc(t->rows, t->capacity * sizeof(struct fake_range *));
                if (t->rows == NULL)
                        abort();
        }
        memmove(t->rows + at + 1, t->rows + at, (t->n - at) * sizeof(struct fake_range *));
        t->rows[at] = r;
        t->n++;
}

void fake_table_remove(struct fake_table *t, struct fake_range *r) {
        size_t at = count_up_to(t, r->address) - 1;

        t->n--;
        memmove(t->rows + at, t->rows + at + 1, (t->n - at) * sizeof(struct fake_range *));
}

struct fake_range *fake_table_find(const struct fake_table *t, uintptr_t address) {
        size_t             n = count_up_to(t, address);
        struct fake_range *r = n > 0 ? t->rows[n - 1] : NULL;

        return r != NULL && address - r->address < r->bytes ? r : NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_aligned_fit(size_t *at, size_t span, size_t alignment) {
        *at = (*at + alignment - 1) / alignment * alignment;
        return *at <= FAKE_ARENA_BYTES && span <= FAKE_ARENA_BYTES - *at;
}

/* From the beginning of the arena again, past what is live. */
static bool find_gap(size_t *at, size_t span, size_t alignment) {
        *at = 0;
        for (size_t i = 0; i < fake.places.n; i++) {
                const struct fake_range *r = fake.places.rows[i];
                size_t                   begin = r->address - (uintptr_t)fake.arena;

                if (is_aligned_fit(at, span, alignment) && *at + span <= begin)
                        return true;
                if (begin + r->span > *at)
                        *at = begin + r->span;
        }
        return is_aligned_fit(at, span, alignment);
}

static size_t page_up(size_t bytes) {
        return (bytes + FAKE_PAGE - 1) / FAKE_PAGE * FAKE_PAGE;
}

struct fake_range *fake_place_new(enum fake_kind kind, int device, size_t bytes, size_t alignment) {
        size_t             span, at = fake.next;
        struct fake_range *r;

        if (bytes > FAKE_ARENA_BYTES / 2)
                return NULL;
        span = page_up(bytes) + FAKE_PAGE;
        if (fake.has_wrapped || !is_aligned_fit(&at, span, alignment)) {
                fake.has_wrapped = true;
                if (!find_gap(&at, span, alignment))
                        return NULL;
        }
        fake.next = at + span;
        fake.high = fake.next > fake.high ? fake.next : fake.high;
        r = calloc(1, sizeof(*r));
        if (r == NULL)
                abort();
        *r = (struct fake_range){ .kind = kind,
                                  .address = (uintptr_t)fake.arena + at,
                                  .bytes = bytes,
                                  .span = span,
                                  .device = device };
        fake_table_add(&fake.places, r);
        return r;
}

void fake_place_free(struct fake_range *r) {
        fake_table_remove(&fake.places, r);
        free(r);
}

bool fake_is_in_arena(uintptr_t address) {
        return address - (uintptr_t)fake.arena < FAKE_ARENA_BYTES;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void *fake_shadow(uintptr_t address) {
        return fake.shadow + (address - (uintptr_t)fake.arena);
}

bool fake_shadow_map(uintptr_t address, size_t bytes, int file, off_t offset) {
        return mmap(fake_shadow(address), page_up(bytes), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, offset) != MAP_FAILED;
}

void fake_shadow_unmap(uintptr_t address, size_t bytes) {
        if (mmap(fake_shadow(address), page_up(bytes), PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
                abort();
}

void fake_file_release(const struct fake_range *r) {
        (void)fallocate(fake.devices[r->device].file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(r->address - (uintptr_t)fake.arena), (off_t)page_up(r->bytes));
}
