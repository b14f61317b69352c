/* manual.c - renders option tables as help texts, man pages and bash completion.
 *
 * Holds no text about any command: that is in the commands' own tables. */
#include "cli/manual.h"

#include <string.h>

/* ---- plain text ---- */

/* Words of text, wrapped; the cursor is at column, further lines begin at indent. */
static void wrap(FILE *out, const char *text, unsigned column, unsigned indent, unsigned width)
{
	bool first = true;
	while (*text) {
		size_t n = strcspn(text, " ");
		if (!first && column + 1 + n > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (!first) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, n, out);
		column += (unsigned)n;
		first = false;
		text += n;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

/* "-o, --output FILE" */
static void option_label(char *ret, size_t size, const struct opt_def *o)
{
	char letter[8] = "    ";
	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	if (!o->value)
		snprintf(ret, size, "%s--%s", letter, o->name);
	else if (o->flags & OPT_OPTIONAL_VALUE)
		snprintf(ret, size, "%s--%s[=%s]", letter, o->name, o->value);
	else
		snprintf(ret, size, "%s--%s %s", letter, o->name, o->value);
}

static const struct opt_def help_row = {'h', "help", NULL, "Show this help and end.", NULL, 0};

static void help_option(FILE *out, const struct opt_def *o, unsigned width)
{
	enum { COLUMN = 30 };
	char label[128];
	option_label(label, sizeof(label), o);
	int n = fprintf(out, "  %s", label);
	if (n > COLUMN - 2)
		fprintf(out, "\n%*s", COLUMN, "");
	else
		fprintf(out, "%*s", COLUMN - n, "");
	wrap(out, o->help, COLUMN, COLUMN, width);
}

void help_command(FILE *out, const struct command *cmd, unsigned width)
{
	fprintf(out, "eacgm %s - %s\n\nUsage: ", cmd->name, cmd->summary);
	unsigned column = (unsigned)fprintf(out, "eacgm %s ", cmd->name) + 7;
	wrap(out, cmd->synopsis, column, column, width);
	for (const char *const *p = cmd->description; p && *p; p++) {
		fputc('\n', out);
		wrap(out, *p, 0, 0, width);
	}
	fputs("\nOptions:\n", out);
	for (const struct opt_def *o = cmd->options; o && o->name; o++)
		help_option(out, o, width);
	help_option(out, &help_row, width);
	if (!cmd->examples || !cmd->examples->line)
		return;
	fputs("\nExamples:\n", out);
	for (const struct cmd_example *x = cmd->examples; x->line; x++) {
		fprintf(out, "  %s\n      ", x->line);
		wrap(out, x->what, 6, 6, width);
	}
}

void help_program(FILE *out, const struct program *p, unsigned width)
{
	fprintf(out, "eacgm - %s\n\nUsage: eacgm COMMAND [ARGUMENT...]\n", p->summary);
	for (const char *const *d = p->description; d && *d; d++) {
		fputc('\n', out);
		wrap(out, *d, 0, 0, width);
	}
	fputs("\nCommands:\n", out);
	for (size_t i = 0; i < p->commands_len; i++) {
		fprintf(out, "  %-10s ", p->commands[i]->name);
		wrap(out, p->commands[i]->summary, 13, 13, width);
	}
	fputs("\n'eacgm COMMAND --help' describes a command, 'eacgm --version' tells the "
	      "version.\n",
	      out);
}

/* ---- man pages ---- */

/* Text with the characters that troff takes for its own: backslash, the hyphen that must
 * stay ASCII, and dot or quote at the beginning of a line. */
static void troff(FILE *out, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", out);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '-')
			fputs("\\-", out);
		else
			fputc(*text, out);
	}
}

static void man_head(FILE *out, const char *page, const struct program *p, const char *summary)
{
	fputs(".TH ", out);
	for (const char *c = page; *c; c++)
		fputc(*c >= 'a' && *c <= 'z' ? *c - 32 : *c, out);
	fprintf(out, " 1 \"\" \"eacgm %s\" \"User Commands\"\n.SH NAME\n", p->version);
	troff(out, page);
	fputs(" \\- ", out);
	troff(out, summary);
	fputc('\n', out);
}

static void man_paragraphs(FILE *out, const char *const *paragraphs)
{
	fputs(".SH DESCRIPTION\n", out);
	for (const char *const *p = paragraphs; p && *p; p++) {
		fputs(p == paragraphs ? "" : ".PP\n", out);
		troff(out, *p);
		fputc('\n', out);
	}
}

static void man_option(FILE *out, const struct opt_def *o)
{
	fputs(".TP\n", out);
	if (o->letter)
		fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", out);
	troff(out, o->name);
	fputs("\\fR", out);
	if (o->value) {
		fputs(o->flags & OPT_OPTIONAL_VALUE ? "[=\\fI" : " \\fI", out);
		troff(out, o->value);
		fputs(o->flags & OPT_OPTIONAL_VALUE ? "\\fR]" : "\\fR", out);
	}
	fputc('\n', out);
	troff(out, o->help);
	fputc('\n', out);
}

void man_command(FILE *out, const struct command *cmd, const struct program *p)
{
	char page[64];
	snprintf(page, sizeof(page), "eacgm-%s", cmd->name);
	man_head(out, page, p, cmd->summary);
	fprintf(out, ".SH SYNOPSIS\n\\fBeacgm %s\\fR ", cmd->name);
	troff(out, cmd->synopsis);
	fputc('\n', out);
	man_paragraphs(out, cmd->description);
	fputs(".SH OPTIONS\n", out);
	for (const struct opt_def *o = cmd->options; o && o->name; o++)
		man_option(out, o);
	man_option(out, &help_row);
	fputs(".SH EXIT STATUS\n0 on success, 2 for a wrong command line, 1 for any other "
	      "failure.\n",
	      out);
	if (cmd->takes_rest)
		fputs("With a command after \\-\\-: the exit status of that command.\n", out);
	if (cmd->examples && cmd->examples->line)
		fputs(".SH EXAMPLES\n", out);
	for (const struct cmd_example *x = cmd->examples; x && x->line; x++) {
		fputs(".TP\n\\fB", out);
		troff(out, x->line);
		fputs("\\fR\n", out);
		troff(out, x->what);
		fputc('\n', out);
	}
	fputs(".SH SEE ALSO\n.BR eacgm (1)\n", out);
}

void man_program(FILE *out, const struct program *p)
{
	man_head(out, "eacgm", p, p->summary);
	fputs(".SH SYNOPSIS\n\\fBeacgm\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n", out);
	man_paragraphs(out, p->description);
	fputs(".SH COMMANDS\n", out);
	for (size_t i = 0; i < p->commands_len; i++) {
		fprintf(out, ".TP\n.BR eacgm\\-%s (1)\n", p->commands[i]->name);
		troff(out, p->commands[i]->summary);
		fputc('\n', out);
	}
	fputs(".SH EXIT STATUS\n0 on success, 2 for a wrong command line, 1 for any other "
	      "failure.\n",
	      out);
}

/* ---- completion ---- */

static void completion_values(FILE *out, const struct command *cmd)
{
	for (const struct opt_def *o = cmd->options; o && o->name; o++) {
		if (!o->value || (o->flags & OPT_OPTIONAL_VALUE))
			continue;
		fprintf(out, "\t%s:--%s", cmd->name, o->name);
		if (o->letter)
			fprintf(out, "|%s:-%c", cmd->name, o->letter);
		fputs(") ", out);
		if (o->choices) {
			bool list = o->flags & OPT_LIST;
			fputs(list ? "COMPREPLY=($(compgen -P \"$first\" -W '"
				   : "COMPREPLY=($(compgen -W '",
			      out);
			for (const char *c = o->choices; *c; c++)
				fputc(*c == '|' ? ' ' : *c, out);
			fputs(list ? "' -- \"${cur##*,}\"));" : "' -- \"$cur\"));", out);
		} else if (o->flags & OPT_FILE) {
			fputs("COMPREPLY=($(compgen -f -- \"$cur\"));", out);
		}
		fputs(" return ;;\n", out);
	}
}

void completion_bash(FILE *out, const struct program *p)
{
	fputs("# bash completion for eacgm; made from its option tables\n_eacgm()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal command=${COMP_WORDS[1]} first=${cur%\"${cur##*,}\"} i\n"
	      "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	      "\t\t[[ ${COMP_WORDS[i]} == -- ]] && { COMPREPLY=($(compgen -c -f -- \"$cur\")); "
	      "return; }\n\tdone\n"
	      "\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W 'help",
	      out);
	for (size_t i = 0; i < p->commands_len; i++)
		fprintf(out, " %s", p->commands[i]->name);
	fputs(" --help --version' -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tcase $command:$prev in\n",
	      out);
	for (size_t i = 0; i < p->commands_len; i++)
		completion_values(out, p->commands[i]);
	fputs("\tesac\n\tif [[ $cur != -* ]]; then\n"
	      "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n\t\treturn\n\tfi\n"
	      "\tcase $command in\n",
	      out);
	for (size_t i = 0; i < p->commands_len; i++) {
		fprintf(out, "\t%s) COMPREPLY=($(compgen -W '--help", p->commands[i]->name);
		for (const struct opt_def *o = p->commands[i]->options; o && o->name; o++)
			fprintf(out, " --%s", o->name);
		fputs("' -- \"$cur\")) ;;\n", out);
	}
	fputs("\tesac\n}\ncomplete -o filenames -F _eacgm eacgm\n", out);
}
