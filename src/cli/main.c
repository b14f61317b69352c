/* main.c - the table of commands, and what eacgm says without one.
 *
 * Each command is a cmd_*.c that exports one struct command. */
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/process_title.h"
#include "cli/manual.h"
#include "cli/options.h"
#include "cli/terminal.h"

#ifndef EACGM_VERSION
#define EACGM_VERSION "unknown"
#endif

extern const struct command cmd_doctor;
extern const struct command cmd_probes;
extern const struct command cmd_record;
extern const struct command cmd_report;
extern const struct command cmd_export;
extern const struct command cmd_query;
extern const struct command cmd_flame;
extern const struct command cmd_merge;
extern const struct command cmd_watch;
extern const struct command cmd_learn;
extern const struct command cmd_detect;
extern const struct command cmd_diagnose;
extern const struct command cmd_agent;
extern const struct command cmd_mcp;

static const struct command *const commands[] = {
	&cmd_doctor, &cmd_probes, &cmd_record, &cmd_report, &cmd_export,   &cmd_query, &cmd_flame,
	&cmd_merge,  &cmd_watch,  &cmd_learn,  &cmd_detect, &cmd_diagnose, &cmd_agent, &cmd_mcp,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char *const description[] = {
	"eACGM shows where an AI job's time goes without touching the job's code. It traces CUDA, "
	"NCCL, PyTorch operators, Python functions and any function of any library with eBPF, "
	"keeps every call in a recording, and says what was not normal, also while the job runs.",
	"Recording needs root. Everything that reads a recording runs as any user, on any "
	"machine.",
	NULL,
};

static const struct program program = {
	.summary = "trace AI jobs with eBPF",
	.description = description,
	.commands = commands,
	.commands_len = COMMANDS,
	.version = EACGM_VERSION,
};

static const struct command *command_by_name(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *names[COMMANDS];
	for (size_t i = 0; i < COMMANDS; i++)
		names[i] = commands[i]->name;
	const char *meant = closest_name(name, names, COMMANDS);
	const char *what = name[0] == '-' ? "option" : "command";
	if (meant)
		text_printf(stderr,
			    "eacgm: unknown %s '%s', did you mean '%s'? (see 'eacgm --help')\n",
			    what, name, meant);
	else
		text_printf(stderr, "eacgm: unknown %s '%s' (see 'eacgm --help')\n", what, name);
	return EXIT_USAGE;
}

/* Output that could not be written (a full disk under a redirection) is a failure. */
static int end_output(int status)
{
	if (fflush(stdout) || ferror(stdout)) {
		fputs("eacgm: cannot write to the standard output\n", stderr);
		return status ? status : 1;
	}
	return status;
}

static int show_help(const char *name)
{
	if (!name) {
		help_program(stdout, &program, terminal_width(stdout));
		return end_output(0);
	}
	const struct command *cmd = command_by_name(name);
	if (!cmd)
		return unknown_command(name);
	help_command(stdout, cmd, terminal_width(stdout));
	return end_output(0);
}

/* For the build: --man [CMD], --completion bash. */
static int make_page(int argc, char **argv)
{
	if (!strcmp(argv[0], "--completion")) {
		if (argc != 2 || strcmp(argv[1], "bash")) {
			fputs("eacgm: --completion knows 'bash' only\n", stderr);
			return EXIT_USAGE;
		}
		completion_bash(stdout, &program);
		return end_output(0);
	}
	if (argc < 2 || !strcmp(argv[1], "eacgm")) {
		man_program(stdout, &program);
		return end_output(0);
	}
	const struct command *cmd = command_by_name(argv[1]);
	if (!cmd)
		return unknown_command(argv[1]);
	man_command(stdout, cmd, &program);
	return end_output(0);
}

static int run_command(const struct command *cmd, int argc, char **argv)
{
	struct args args;
	struct err e = {0};
	int rc = args_parse(&args, cmd, argc, argv, &e);
	if (rc == 1)
		rc = show_help(cmd->name);
	else if (rc < 0)
		rc = usage_error(cmd, "%s", e.msg);
	else
		rc = end_output(cmd->run(&args));
	args_free(&args);
	return rc;
}

int main(int argc, char **argv)
{
	process_title_begin(argc, argv);
	if (argc < 2) {
		help_program(stderr, &program, terminal_width(stderr));
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts("eacgm " EACGM_VERSION);
		return end_output(0);
	}
	if (!strcmp(word, "--help") || !strcmp(word, "-h"))
		return show_help(NULL);
	if (!strcmp(word, "help"))
		return show_help(argc > 2 ? argv[2] : NULL);
	if (!strcmp(word, "--man") || !strcmp(word, "--completion"))
		return make_page(argc - 1, argv + 1);
	const struct command *cmd = command_by_name(word);
	return cmd ? run_command(cmd, argc - 2, argv + 2) : unknown_command(word);
}
