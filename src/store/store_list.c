/* SPDX-License-Identifier: BSD-3-Clause */
#include "store/store_list.h"

#include "base/mem.h"

#define FIRST_ENTRIES 64

void store_list_init(struct store_list *l, const char *prefix) {
        *l = (struct store_list){
                .max_entries = STORE_LIST_MAX_ENTRIES,
                .prefix = prefix[0] != '\0' ? mem_printf("%s/", prefix) : mem_strdup(""),
        };
        arena_init(&l->arena, NULL, 0, STORE_LIST_MAX_BYTES);
}

void store_list_done(struct store_list *l) {
        arena_done(&l->arena);
        free(l->entries);
        free(l->prefix);
        error_free(l->refusal);
        *l = (struct store_list){ .entries = NULL };
}

static bool has_control(struct str text) {
        for (size_t i = 0; i < text.len; i++)
                if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
                        return true;
        return false;
}

/* Returns what is wrong with a name as a path, or NULL. */
static const char *find_fault(struct str name) {
        struct str rest = name;

        if (has_control(name))
                return "has a control character";
        if (!str_is_utf8(name))
                return "is not UTF-8";
        if (name.ptr[0] == '/')
                return "is an absolute path";
        if (name.ptr[name.len - 1] == '/')
                rest.len--;
        STR_FOR_EACH(rest, '/', part) {
                if (part.len == 0)
                        return "has an empty component";
                if (str_is(part, ".") || str_is(part, ".."))
                        return "has a component '.' or '..'";
        }
        return NULL;
}

/* Control characters and bytes that are not ASCII become '?': the text goes into logs. */
static char *print_name(struct str name) {
        char *text = mem_strndup(name.ptr, MIN(name.len, (size_t)256));

        for (char *at = text; *at != '\0'; at++)
                if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
                        *at = '?';
        return text;
}

static void refuse_object(struct store_list *l, struct str key, const char *part,
                          const char *fault) {
        AUTO_CHARS name = print_name(key);

        l->n_refused++;
        if (l->refusal == NULL)
                l->refusal = error_new(ERR_INVALID_ARG, "the %s of the object '%s' %s", part, name,
                                       fault);
}

static struct error *make_room(struct store_list *l) {
        size_t              n = l->n_allocated > 0 ? 2 * l->n_allocated : FIRST_ENTRIES;
        struct store_entry *entries;

        if (l->n_entries < l->n_allocated)
                return NULL;
        if (l->n_entries >= l->max_entries)
                return error_new(ERR_UNAVAILABLE, "more than %zu objects", l->max_entries);
        n = MIN(n, l->max_entries);
        entries = try_realloc(l->entries, n * sizeof(*entries));
        if (entries == NULL)
                return error_new_text(ERR_UNAVAILABLE, "no memory for a listing");
        l->entries = entries;
        l->n_allocated = n;
        return NULL;
}

static struct error *no_room(const struct store_list *l) {
        if (l->arena.lacked_memory)
                return error_new_text(ERR_UNAVAILABLE, "no memory for a listing");
        return error_new(ERR_UNAVAILABLE, "more than %zu bytes of names", arena_max(&l->arena));
}

/* The name becomes the entry's, without the slash of a directory. */
static struct error *append_entry(struct store_list *l, struct str name,
                                  const struct store_object *o) {
        struct store_entry e = { .size = o->size,
                                 .has_md5 = o->md5 != NULL,
                                 .has_sha256 = o->sha256 != NULL };

        TRY(make_room(l));
        e.is_directory = name.ptr[name.len - 1] == '/';
        if (e.is_directory)
                name.len--;
        if (e.has_md5)
                memcpy(e.md5, o->md5, sizeof(e.md5));
        if (e.has_sha256)
                memcpy(e.sha256, o->sha256, sizeof(e.sha256));
        e.name = arena_try_str(&l->arena, name);
        e.etag = e.name != NULL ? arena_try_str(&l->arena, o->etag) : NULL;
        if (e.etag == NULL)
                return no_room(l);
        l->entries[l->n_entries++] = e;
        return NULL;
}

struct error *store_list_add(struct store_list *l, const struct store_object *o) {
        struct str  prefix = str_of(l->prefix), name;
        const char *fault;

        if (!str_starts(o->key, prefix)) {
                refuse_object(l, o->key, "name", "does not begin with the prefix of the listing");
                return NULL;
        }
        name = str_skip(o->key, prefix.len);
        if (name.len == 0)
                return NULL;
        fault = find_fault(name);
        if (fault != NULL)
                refuse_object(l, o->key, "name", fault);
        else if (has_control(o->etag)) /* it becomes the value of a header */
                refuse_object(l, o->key, "ETag", "has a control character");
        else
                return append_entry(l, name, o);
        return NULL;
}

static int compare_entries(const void *a, const void *b) {
        const struct store_entry *left = a, *right = b;

        return strcmp(left->name, right->name);
}

/* Returns the first entry at or after the name. */
static size_t find_place(const struct store_list *l, const char *name) {
        size_t low = 0, high = l->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(l->entries[middle].name, name) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* True for "a" without bytes when there is something below "a/". */
static bool is_parent(const struct store_list *l, const struct store_entry *e) {
        AUTO_CHARS folder = NULL;
        size_t     at;

        if (e->size > 0 || e->is_directory)
                return false;
        folder = mem_printf("%s/", e->name);
        at = find_place(l, folder);
        return at < l->n_entries && str_starts(str_of(l->entries[at].name), str_of(folder));
}

/* Keeps the entries in their order. */
static void drop_marked(struct store_list *l) {
        size_t n = 0;

        for (size_t i = 0; i < l->n_entries; i++)
                if (!l->entries[i].is_dropped)
                        l->entries[n++] = l->entries[i];
        l->n_entries = n;
}

/* Stores list in this order; index files may not. */
static bool is_sorted(const struct store_list *l) {
        for (size_t i = 1; i < l->n_entries; i++)
                if (compare_entries(&l->entries[i - 1], &l->entries[i]) > 0)
                        return false;
        return true;
}

void store_list_sort(struct store_list *l) {
        if (l->n_entries == 0)
                return;
        if (!is_sorted(l))
                qsort(l->entries, l->n_entries, sizeof(*l->entries), compare_entries);
        for (size_t i = 1; i < l->n_entries; i++)
                l->entries[i].is_dropped = strcmp(l->entries[i - 1].name, l->entries[i].name) == 0;
        drop_marked(l);
        for (size_t i = 0; i < l->n_entries; i++)
                l->entries[i].is_dropped = is_parent(l, &l->entries[i]);
        drop_marked(l);
}
