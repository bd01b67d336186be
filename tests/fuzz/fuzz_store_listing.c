/* SPDX-License-Identifier: BSD-3-Clause */
/* A page of a listing: of S3's or Azure's XML when it begins with '<', else an index file or Google's JSON.
 * Every name in the list is a path below a folder, whatever the page has, and the entries keep within the
 * page.
 */
#include "base/strbuf.h"
#include "store/list_as.h"
#include "store/list_gs.h"
#include "store/list_s3.h"
#include "store/list_web.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check_name(const char *name, size_t size) {
        struct str rest = str_of(name), part;

        if (rest.len == 0 || rest.len > size || name[0] == '/')
                abort();
        while (rest.ptr != NULL) {
                rest = str_split(rest, '/', &part);
                if (part.len == 0 || str_is(part, ".") || str_is(part, ".."))
                        abort();
        }
        for (; *name != '\0'; name++)
                if ((unsigned char)*name < ' ')
                        abort();
}

static void check_order(const struct store_list *l) {
        for (size_t i = 1; i < l->n_entries; i++)
                if (strcmp(l->entries[i - 1].name, l->entries[i].name) >= 0)
                        abort();
}

static bool contains(struct str page, const char *text) {
        return page.len > 0 && memmem(page.ptr, page.len, text, strlen(text)) != NULL;
}

static struct error *read_page(struct str page, struct store_list *list, struct strbuf *token) {
        if (contains(page, "<ListBucket"))
                return list_s3_read(page, list, token);
        if (page.len > 0 && page.ptr[0] == '<')
                return list_as_read(page, list, token);
        if (contains(page, "\"files\""))
                return list_web_read(page, STR_LIT(""), list);
        return list_gs_read(page, list, token);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
        struct str        page = str_range((const char *)input, size);
        struct store_list list;
        struct strbuf     token;
        struct error     *err;

        store_list_init(&list, size > 0 && input[size - 1] % 2 == 0 ? "m" : "");
        strbuf_init(&token, 1024);
        err = read_page(page, &list, &token);
        if (err != NULL && err->message[0] == '\0')
                abort();
        if ((list.n_refused > 0) != (list.refusal != NULL))
                abort();
        for (size_t i = 0; i < list.n_entries; i++)
                check_name(list.entries[i].name, size);
        store_list_sort(&list);
        check_order(&list);
        error_free(err);
        strbuf_done(&token);
        store_list_done(&list);
        return 0;
}
