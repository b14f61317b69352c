/* session_python.c - calls of Python functions that the interpreters of the command's processes
 * tell (inject/calls/python.c). What brings them here is session_inside.c's; they are in the
 * recording as if a probe had told them, whose argument is the function's code. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "session/session_impl.h"

#define SUBJECT "python calls"

int python_check(const struct session_options *o, struct err *e)
{
	if (!o->command)
		return err_set(e, ENOTSUP, "they are for commands that eacgm starts");
	if (o->burst_on_ns)
		return err_set(e, ENOTSUP, "they tell every call: no --burst");
	return o->mode[LAYER_PYTHON] == MODE_TRACE
		       ? 0
		       : err_set(e, ENOTSUP, "they tell every call: no --mode of this layer");
}

void python_prepare(const struct session *s, char **environment)
{
	const struct session_options *o = s->opts;
	*environment++ = xstrdup(CALL_PYTHON_ENV "=1");
	if (o->python_only)
		*environment++ = xasprintf(CALL_PYTHON_ONLY_ENV "=%s", o->python_only);
	if (o->python_skip)
		*environment++ = xasprintf(CALL_PYTHON_SKIP_ENV "=%s", o->python_skip);
}

void python_begin(struct session *s)
{
	const struct pipeline_probe probe = {
		.id = CALL_PYTHON,
		.layer = layer_name(LAYER_PYTHON),
		.name = (char *)"call",
		.library = "python",
		.symbol = "",
		.kind = SITE_SPAN,
		.nargs = 1,
		.name_arg = 0,
		.arg_names = {"frame"},
		.arg_types = {ARG_TYPE_CODE},
		.arg_raw = {RAW_CODE},
	};
	pipeline_define_probe(s->pipeline, &probe);
}

void python_code(struct session *s, uint64_t id, const struct call_text *name,
		 const struct call_text *file, uint32_t line)
{
	const struct told_code code = {.id = id,
				       .name = name->bytes,
				       .file = file->bytes,
				       .name_len = name->len,
				       .file_len = file->len,
				       .line = line};
	pipeline_told_code(s->pipeline, &code);
}

static void note(struct session *s, uint64_t n, const char *one, const char *more, const char *text)
{
	if (!n)
		return;
	char *whole = xasprintf("%lu %s %s", (unsigned long)n, n > 1 ? more : one, text);
	pipeline_note(s->pipeline, SUBJECT, whole);
	free(whole);
}

void python_metas(struct session *s, const struct call_rings_stats *st)
{
	pipeline_meta(s->pipeline, "python_calls", "%lu", (unsigned long)st->python_calls);
	pipeline_meta(s->pipeline, "python_processes", "%lu", (unsigned long)st->python_processes);
	note(s, st->python_failed, "process has", "processes have",
	     "a Python whose calls cannot be told: its tools for sys.monitoring are all taken, or "
	     "it is no CPython from 3.8 on");
	note(s, st->python_yields, "time", "times",
	     "a profiler of the job's own was set or taken off: it has the place of ours up to "
	     "Python 3.11, and calls meanwhile are not recorded");
	note(s, st->python_late, "thread", "threads",
	     "that C code made: Python up to 3.11 tells of one only after its first calls, which "
	     "are not recorded");
	if (!st->python_processes && !st->python_failed)
		pipeline_note(s->pipeline, SUBJECT,
			      "none came: no process ran a Python from 3.8 on, or Python came by "
			      "dlopen(3), or the process may make no file in /dev/shm");
}
