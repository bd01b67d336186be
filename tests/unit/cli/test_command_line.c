/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and words of the small commands. */
#include "cli/command_line.h"

#include "suite.h"

#include <string.h>

#define MAX_WORDS 12

struct values {
        bool             flag;
        const char      *word;
        struct cli_texts words;
        uint64_t         count;
};

static const struct row {
        const char *arguments; /* separated by blanks */
        const char *expected;  /* "flag word words... | words" or the error */
} rows[] = {
        { "", "0 - 0 |" },
        { "a b", "0 - 0 | a b" },
        { "--flag a --word=x --count 7", "1 x 7 | a" },
        { "--word x --many=1 --many 2 b", "0 x 0 1 2 | b" },
        { "--word=--flag", "0 --flag 0 |" },
        { "--word= a", "0  0 | a" },
        { "-- --flag -x", "0 - 0 | --flag -x" },
        { "-", "0 - 0 | -" },
        { "--many=a=b", "0 - 0 a=b |" },
        { "--help --nonsense", "help" },
        { "a -h", "help" },
        { "--flog", "unknown option '--flog'; did you mean '--flag'?" },
        { "--nonsense=3", "unknown option '--nonsense'" },
        { "--flag=1", "--flag takes no value" },
        { "--word", "--word needs a value: --word=WORD" },
        { "--word --flag", "--word needs a value: --word=WORD" },
        { "--word=a --word=b", "--word is given twice" },
        { "--count=x", "--count expects a number, got 'x'" },
        { "--count=-1", "--count expects a number, got '-1'" },
        { "-v", "unknown option '-v'; options begin with two dashes" },
};

static void print(const struct values *v, const struct command_line *l, struct strbuf *out) {
        strbuf_printf(out, "%d %s %llu", v->flag, v->word ? v->word : "-",
                      (unsigned long long)v->count);
        for (size_t i = 0; i < v->words.n_items; i++)
                strbuf_printf(out, " %s", v->words.items[i]);
        strbuf_puts(out, " |");
        for (size_t i = 0; i < l->words.n_items; i++)
                strbuf_printf(out, " %s", l->words.items[i]);
}

static void run_row(const struct row *row, struct strbuf *out) {
        struct values               v = { .flag = false };
        const struct command_option options[] = {
                { "flag", COMMAND_FLAG, &v.flag, NULL, 0, "a flag" },
                { "word", COMMAND_WORD, &v.word, "WORD", 0, "a word" },
                { "many", COMMAND_WORDS, &v.words, "WORD", 0, "words" },
                { "count", COMMAND_COUNT, &v.count, "N", 0, "a number" },
        };
        struct command_line l = { .options = options, .n_options = ARRAY_LEN(options) };
        char                copy[200];
        char               *argv[MAX_WORDS + 1] = { copy };
        int                 argc = 1;
        struct error       *err;

        strcpy(copy, row->arguments);
        for (char *w = strtok(copy, " "); w && argc < MAX_WORDS; w = strtok(NULL, " "))
                argv[argc++] = w;
        err = command_line_read(&l, argc, argv);
        if (err)
                strbuf_puts(out, err->message);
        else if (l.wants_help)
                strbuf_puts(out, "help");
        else
                print(&v, &l, out);
        error_free(err);
        command_line_done(&l);
}

static void test_rows(void **state UNUSED) {
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                strbuf_init(&out, 0);
                run_row(&rows[i], &out);
                if (strcmp(strbuf_cstr(&out), rows[i].expected) != 0)
                        fail_msg("'%s': '%s'", rows[i].arguments, strbuf_cstr(&out));
        }
}

static void test_given(void **state UNUSED) {
        bool                        a = false, b = false;
        const struct command_option options[] = {
                { "a", COMMAND_FLAG, &a, NULL, 0, "" },
                { "b", COMMAND_FLAG, &b, NULL, 0, "" },
        };
        struct command_line l = { .options = options, .n_options = 2 };
        char                word[] = "--b";
        char               *argv[] = { word, word };

        assert_null(command_line_read(&l, 2, argv));
        assert_int_equal(l.given, 2);
        assert_true(b && !a);
        command_line_done(&l);
}

static void test_help(void **state UNUSED) {
        const struct command_option options[] = {
                { "word", COMMAND_WORD, NULL, "WORD", 0, "one line" },
                { "a-rather-long-name-of-an-option", COMMAND_FLAG, NULL, NULL, 0, "two\nlines" },
        };
        struct command_line l = { .options = options, .n_options = 2 };
        AUTO_STRBUF         out = { 0 };

        strbuf_init(&out, 0);
        command_line_print_options(&l, &out);
        assert_string_equal(strbuf_cstr(&out), "  --word=WORD               one line\n"
                                               "  --a-rather-long-name-of-an-option two\n"
                                               "                            lines\n");
}

SUITE(command_line) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_given),
                cmocka_unit_test(test_help),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
