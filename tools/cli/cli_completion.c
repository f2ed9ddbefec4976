/* Completions for bash from the tables of options. An option's value is completed
 * where it is one of some words, or a file. */
#include "tools/cli/cli_page.h"

static bool is_shown(const cli_option *o)
{
    return o->help != NULL;
}

/* A word that is no number and has no list is, or begins, the name of a file. */
static bool takes_file(const cli_option *o)
{
    return (o->kind == CLI_WORD || o->kind == CLI_OPTIONAL) && o->words == NULL;
}

static void put_words(const cli_option *o)
{
    for (int i = 0; o->words != NULL && o->words[i] != NULL; i++)
        printf("%s%s", i > 0 ? " " : "", o->words[i]);
}

static void put_names(const cli_command *c)
{
    for (int i = 0; i < c->n_options; i++)
        if (is_shown(&c->options[i]))
            printf("%s ", c->options[i].name);
}

void cli_put_bash(const cli_command *c)
{
    printf("    '%s')\n        case $before in\n", c->name);
    for (int i = 0; i < c->n_options; i++) {
        const cli_option *o = &c->options[i];
        if (!is_shown(o) || o->value == NULL)
            continue;
        printf("        %s) ", o->name);
        if (o->words != NULL) {
            fputs("words='", stdout);
            put_words(o);
            fputs("' ;;\n", stdout);
        } else {
            if (o->kind == CLI_OPTIONAL) { /* or the next option */
                fputs("words='", stdout);
                put_names(c);
                fputs("--help' ", stdout);
            }
            puts(takes_file(o) ? "files=1 ;;" : ";;");
        }
    }
    fputs("        *) words='", stdout);
    put_names(c);
    printf("--help'%s ;;\n        esac\n        ;;\n", c->max_operands > 0 ? " files=1" : "");
}

void cli_begin_completion(const cli_command *commands)
{
    fputs("# bash completion for stepwell: stepwell help --completion bash\n"
          "_stepwell()\n{\n"
          "    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command=${COMP_WORDS[1]} words= files=\n"
          "    [ \"$command\" = bench ] && [ \"$COMP_CWORD\" -gt 2 ] && "
          "command=\"bench ${COMP_WORDS[2]}\"\n"
          "    [ \"$COMP_CWORD\" -eq 1 ] && command=\n"
          "    case $command in\n    '') words='",
          stdout);
    put_names(commands);
    fputs("--help --version' ;;\n", stdout);
}

void cli_end_completion(void)
{
    fputs("    esac\n"
          "    COMPREPLY=()\n"
          "    case $files$now in\n"
          "    1-*) ;;\n"
          "    1*) mapfile -t COMPREPLY < <(compgen -f -- \"$now\"); compopt -o filenames "
          "2>/dev/null; return ;;\n"
          "    esac\n"
          "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$now\")\n"
          "}\ncomplete -F _stepwell stepwell\n",
          stdout);
}
