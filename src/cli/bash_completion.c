/* SPDX-License-Identifier: BSD-3-Clause */
/* The completion of bash: the names of commands and options, and the words of options that take a few
 * (command_page.h). The script needs nothing but bash.
 */
#include "cli/command_page.h"

#include <ctype.h>
#include <string.h>

/* Puts the names, for a `case` of the script: an option that takes a value ends with "=". */
static void put_option_names(struct strbuf *out, const struct option_table *t, unsigned takes) {
        for (size_t i = 0; i < t->n_rows; i++) {
                const struct option_row *row = &t->rows[i];
                const char              *end = row->kind == OPTION_FLAG ? "" : "=";

                if (row->missing != NULL || (row->used_by != 0 && (row->used_by & takes) == 0))
                        continue;
                strbuf_printf(out, " --%s%s", row->name, end);
                if (row->old_name != NULL)
                        strbuf_printf(out, " --%s%s", row->old_name, end);
        }
}

/* "serve) printf '%s\n' --help ...;;" */
static void put_options(struct strbuf *out, const struct command_page *page) {
        if (page->n_words == 0) {
                strbuf_printf(out, "    %s) printf '%%s\\n'", page->name);
                put_option_names(out, page->options, 0);
                strbuf_puts(out, ";;\n");
        }
        for (size_t i = 0; i < page->n_words; i++) {
                strbuf_printf(out, "    '%s %s') printf '%%s\\n'", page->name, page->words[i].name);
                put_option_names(out, page->options, page->words[i].takes);
                strbuf_puts(out, ";;\n");
        }
}

static bool is_path(const char *argument) {
        return strcmp(argument, "<path>") == 0 || strcmp(argument, "FILE") == 0 ||
               strcmp(argument, "DIRECTORY") == 0;
}

/* True for "<none|poll|explicit>": nothing but words and bars. */
static bool is_choice(const char *argument) {
        bool has_bar = false;

        if (*argument++ != '<')
                return false;
        for (; isalnum((unsigned char)*argument) || strchr("_|", *argument); argument++) {
                if (*argument == '\0')
                        return false;
                has_bar = has_bar || *argument == '|';
        }
        return has_bar && *argument == '>';
}

/* Puts the words of "<none|poll|explicit>" with blanks before them. */
static void put_choice(struct strbuf *out, const char *argument) {
        for (; *argument != '>'; argument++)
                strbuf_putc(out, *argument == '<' || *argument == '|' ? ' ' : *argument);
}

/* "'serve --log-format') compgen -W 'default ISO8601 json' -- "$2";;" */
static void put_values(struct strbuf *out, const char *command, const char *name,
                       const struct option_row *row) {
        const char *argument = option_argument(row);

        if (row->missing != NULL ||
            (row->kind != OPTION_BOOL && !is_path(argument) && !is_choice(argument)))
                return;
        strbuf_printf(out, "    '%s --%s') compgen ", command, name);
        if (is_path(argument)) {
                strbuf_puts(out, "-f");
        } else {
                strbuf_puts(out, "-W '");
                if (row->kind == OPTION_BOOL)
                        strbuf_puts(out, " true false");
                else
                        put_choice(out, argument);
                strbuf_puts(out, " '");
        }
        strbuf_puts(out, " -- \"$2\";;\n");
}

static void put_all_values(struct strbuf *out, const struct command_page *page) {
        for (size_t i = 0; i < page->options->n_rows; i++) {
                const struct option_row *row = &page->options->rows[i];

                put_values(out, page->name, row->name, row);
                if (row->old_name != NULL)
                        put_values(out, page->name, row->old_name, row);
        }
}

static const char head[] = "# Completion of bash, made by `neso completion`; do not edit.\n\n";

static const char tail[] =
        "# The option before an equal sign, which is a word of its own for bash, or a blank.\n"
        "__neso_option() {\n"
        "    local last=${COMP_WORDS[COMP_CWORD-1]} names\n"
        "    names=$(__neso_options \"$1\")$'\\n'\n"
        "    if [[ ${COMP_WORDS[COMP_CWORD]} == = ]]; then\n"
        "        echo \"$last\"\n"
        "    elif [[ $last == = ]]; then\n"
        "        echo \"${COMP_WORDS[COMP_CWORD-2]}\"\n"
        "    elif [[ $last == --* && $names == *\"$last=\"$'\\n'* ]]; then\n"
        "        echo \"$last\"\n"
        "    fi\n"
        "}\n"
        "\n"
        "_neso() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option\n"
        "    local name=${COMP_WORDS[0]##*/} names\n"
        "    COMPREPLY=()\n"
        "    [[ $word != = ]] || word=\n"
        "    if [[ $name == tritonserver || $command == --* ]]; then\n"
        "        command=serve\n"
        "    elif ((COMP_CWORD == 1)); then\n"
        "        command=neso\n"
        "    elif [[ $command == ctl ]] && ((COMP_CWORD > 2)); then\n"
        "        command=\"ctl ${COMP_WORDS[2]}\"\n"
        "    fi\n"
        "    option=$(__neso_option \"$command\")\n"
        "    if [[ -n $option ]]; then\n"
        "        mapfile -t COMPREPLY < <(__neso_values \"${command%% *} $option\" \"$word\")\n"
        "        [[ ! -e ${COMPREPLY[0]} ]] || compopt -o filenames 2>/dev/null\n"
        "    elif [[ $word == -* ]]; then\n"
        "        names=$(__neso_options \"$command\")\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$names\" -- \"$word\")\n"
        "        [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] ||\n"
        "            compopt -o nospace 2>/dev/null\n"
        "    else\n"
        "        mapfile -t COMPREPLY < <(__neso_words \"$command\" \"$word\")\n"
        "    fi\n"
        "}\n"
        "\n"
        "complete -F _neso neso tritonserver\n";

/* Words that are no options: the commands, those of `neso ctl`, the directory of `neso check`. */
static void put_words(struct strbuf *out, const struct command_pages *pages) {
        strbuf_puts(out, "__neso_words() {\n    case $1 in\n    neso) compgen -W '");
        for (size_t i = 0; i < pages->n_items; i++)
                strbuf_printf(out, " %s", pages->items[i]->name);
        strbuf_puts(out, " help ' -- \"$2\";;\n    check) compgen -d -- \"$2\";;\n");
        for (size_t i = 0; i < pages->n_items; i++) {
                const struct command_page *page = pages->items[i];

                if (page->n_words == 0)
                        continue;
                strbuf_printf(out, "    %s) compgen -W '", page->name);
                for (size_t k = 0; k < page->n_words; k++)
                        strbuf_printf(out, " %s", page->words[k].name);
                strbuf_puts(out, " ' -- \"$2\";;\n");
        }
        strbuf_puts(out, "    esac\n}\n\n");
}

static void put_case(struct strbuf *out, const char *name, const struct command_pages *pages,
                     void (*put)(struct strbuf *out, const struct command_page *page)) {
        strbuf_printf(out, "%s() {\n    case $1 in\n", name);
        for (size_t i = 0; i < pages->n_items; i++)
                if (pages->items[i]->options != NULL)
                        put(out, pages->items[i]);
        strbuf_puts(out, "    esac\n}\n\n");
}

void command_pages_print_completion(const struct command_pages *pages, struct strbuf *out) {
        strbuf_puts(out, head);
        put_words(out, pages);
        put_case(out, "__neso_options", pages, put_options);
        put_case(out, "__neso_values", pages, put_all_values);
        strbuf_puts(out, tail);
}
