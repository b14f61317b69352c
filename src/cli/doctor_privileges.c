/* doctor_privileges.c - from the tables that the processes themselves go by. */
#include "cli/doctor_privileges.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"
#include "session/command_user.h"
#include "base/human.h"
#include "session/privileges.h"
#include "session/session.h"
#include "parser/parser.h"
#include "probe/tracer.h"

static json_t *capabilities_of(const struct sandbox *s)
{
	json_t *list = json_array();
	char name[SANDBOX_NAME_BYTES];
	for (size_t i = 0; i < s->capabilities_len; i++)
		json_array_append_new(
			list, json_pack("{s:s s:s}", "name",
					sandbox_capability_name(name, s->capabilities[i].number),
					"reason", s->capabilities[i].reason));
	return list;
}

static json_t *row(const char *process, const char *user, const char *why,
		   const struct sandbox *sandbox)
{
	char calls[64] = "all";
	if (sandbox && sandbox->rule == SANDBOX_ONLY)
		snprintf(calls, sizeof(calls), "%zu alone", sandbox->calls_len);
	else if (sandbox && sandbox->rule == SANDBOX_ALL_BUT)
		snprintf(calls, sizeof(calls), "all but %zu", sandbox->calls_len);
	json_t *made = json_pack("{s:s s:s s:s s:s}", "process", process, "user", user, "why", why,
				 "system_calls", calls);
	json_object_set_new(made, "capabilities", sandbox ? capabilities_of(sandbox) : json_null());
	return made;
}

static json_t *command_row(void)
{
	struct command_user user;
	struct err e;
	if (command_user_find(&user, NULL, &e))
		return row("command", "none", e.msg, NULL);
	char *name = text_clean(user.changes ? user.name : geteuid() ? "you" : "root");
	json_t *made = row("command", name,
			   user.changes ? "called eacgm through sudo, doas or pkexec; record -u "
					  "names another user"
					: "no other user called eacgm; record -u names another",
			   NULL);
	free(name);
	command_user_free(&user);
	return made;
}

/* Of a command, where nobody tells otherwise. */
static bool asks_inside(void)
{
	char *command[] = {NULL};
	return session_asks_inside(
		&(struct session_options){.command = command, .probes = PROBES_AUTO});
}

json_t *doctor_privileges(void)
{
	struct privileges tracer;
	privileges_choose(&tracer, asks_inside(), ATTACH_AUTO);
	json_t *rows = json_array();
	json_array_append_new(rows, command_row());
	json_array_append_new(
		rows,
		row("tracer", "root", "attaches probes and writes the recording", &tracer.sandbox));
	json_array_append_new(rows, row("guard", "root",
					"lets C++ exceptions pass traced functions, also when the "
					"tracer was killed",
					tracer_guard_sandbox()));
	json_array_append_new(rows, row("parsers", "root", "makes the processes that read files",
					parser_host_sandbox()));
	json_array_append_new(rows, row("parser", geteuid() ? "you" : "nobody",
					"reads ELF files, unwind rules and symbols, for one asker",
					parser_worker_sandbox()));
	return rows;
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

void doctor_privileges_print(const json_t *rows)
{
	size_t i, k;
	json_t *r, *c;
	puts("\nWhat runs as what while eacgm records:");
	json_array_foreach (rows, i, r) {
		const json_t *capabilities = json_object_get(r, "capabilities");
		printf("  %-8s user %s: %s\n", text_of(r, "process"), text_of(r, "user"),
		       text_of(r, "why"));
		if (!json_is_array(capabilities))
			continue;
		printf("  %-8s system calls: %s; capabilities:%s\n", "", text_of(r, "system_calls"),
		       json_array_size(capabilities) ? "" : " none");
		json_array_foreach (capabilities, k, c) {
			printf("  %-8s   %-20s %s\n", "", text_of(c, "name"), text_of(c, "reason"));
		}
	}
}
