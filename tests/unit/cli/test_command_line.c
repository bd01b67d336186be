/* SPDX-License-Identifier: BSD-3-Clause */
/* Options and words of the small commands. */
#include "suite.h"

#include "cli/command_line.h"

#include <string.h>

#define MAX_WORDS 12

struct values {
        bool                flag;
        char               *word;
        struct option_texts words;
        uint64_t            count;
};

#define ROW(row_kind, row_name, member, row_argument)                                              \
        {                                                                                          \
                .kind = row_kind, .name = row_name, .offset = offsetof(struct values, member),     \
                .argument = row_argument, .help = ""                                               \
        }

static const struct option_row options[] = {
        { .kind = OPTION_COUNT,
          .name = "rows",
          .letter = 'b',
          .argument = "N",
          .help = "",
          .offset = offsetof(struct values, count) },
        { .kind = OPTION_FLAG,
          .name = "all",
          .letter = 'a',
          .help = "",
          .offset = offsetof(struct values, flag) },
        ROW(OPTION_FLAG, "flag", flag, NULL),
        ROW(OPTION_TEXT, "word", word, "WORD"),
        ROW(OPTION_TEXTS, "many", words, "WORD"),
        ROW(OPTION_COUNT, "count", count, "N"),
};

static const struct option_table table = { options, ARRAY_LEN(options) };

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
        { "-b 8 -a word", "1 - 8 | word" },
        { "-b8", "0 - 8 |" },
        { "-b", "-b needs a value: -b N" },
        { "-ab", "unknown option '-ab'; options begin with two dashes" },
        { "-b x", "--rows expects a number, got 'x'" },
};

static void print(const struct values *v, const struct command_line *l, struct strbuf *out) {
        strbuf_printf(out, "%d %s %llu", v->flag, v->word != NULL ? v->word : "-",
                      (unsigned long long)v->count);
        for (size_t i = 0; i < v->words.n_items; i++)
                strbuf_printf(out, " %s", v->words.items[i]);
        strbuf_puts(out, " |");
        for (size_t i = 0; i < l->words.n_items; i++)
                strbuf_printf(out, " %s", l->words.items[i]);
}

static void run_row(const struct row *row, struct strbuf *out) {
        struct values       v;
        struct command_line l = { .options = &table, .values = &v };
        char                copy[200];
        char               *argv[MAX_WORDS + 1] = { copy };
        int                 argc = 1;
        struct error       *err;

        option_table_init(&table, &v, sizeof(v));
        strcpy(copy, row->arguments);
        for (char *w = strtok(copy, " "); w != NULL && argc < MAX_WORDS; w = strtok(NULL, " "))
                argv[argc++] = w;
        err = command_line_read(&l, argc, argv);
        if (err != NULL)
                strbuf_puts(out, err->message);
        else if (l.wants_help)
                strbuf_puts(out, "help");
        else
                print(&v, &l, out);
        error_free(err);
        command_line_done(&l);
        option_table_done(&table, &v);
}

static void test_rows(void **state) {
        (void)state;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                AUTO_STRBUF out = { 0 };

                strbuf_init(&out, 0);
                run_row(&rows[i], &out);
                if (strcmp(strbuf_cstr(&out), rows[i].expected) != 0)
                        fail_msg("'%s': '%s'", rows[i].arguments, strbuf_cstr(&out));
        }
}

static void test_given(void **state) {
        bool                    values[2] = { false, false };
        const struct option_row two[] = {
                { .kind = OPTION_FLAG, .name = "a", .offset = 0 },
                { .kind = OPTION_FLAG, .name = "b", .offset = sizeof(bool) },
        };
        const struct option_table t = { two, 2 };
        struct command_line       l = { .options = &t, .values = values };
        char                      word[] = "--b";
        char                     *argv[] = { word, word };

        (void)state;
        assert_null(command_line_read(&l, 2, argv));
        assert_true(l.given[1] && !l.given[0]);
        assert_true(values[1] && !values[0]);
        command_line_done(&l);
}

static void test_help(void **state) {
        const struct option_row two[] = {
                { .kind = OPTION_TEXT, .name = "word", .argument = "WORD", .help = "one line" },
                { .kind = OPTION_FLAG,
                  .name = "a-rather-long-name-of-an-option",
                  .help = "two\nlines" },
        };
        const struct option_table t = { two, 2 };
        AUTO_STRBUF               out = { 0 };

        (void)state;
        strbuf_init(&out, 0);
        command_line_print_options(&t, &out);
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
