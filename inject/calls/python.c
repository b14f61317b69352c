/* python.c - has the interpreter tell every call of a Python function (record --python calls), by
 * its own interface: sys.monitoring from 3.12 on, a profile function before.
 *
 * Nothing is called, and no thread is there, until the interpreter is at work: it tells an audit
 * hook (PEP 578), which may be set before it is initialized, of its first import, and is asked for
 * the rest then. What follows is told amid the job's own work, by a thread that has the
 * interpreter's lock; nothing here waits, prints, or leaves an error behind.
 *
 * Not told: other interpreters than the process's first one; one that is initialized again; one
 * that comes by dlopen(3) when the process runs already. Up to 3.11 one profile function has room
 * in a thread: where the job sets one, ours goes. */
#include <stdlib.h>
#include <string.h>

#include "python_api.h"
#include "python_calls.h"
#include "python_codes.h"
#include "python_hook.h"
#include "python_ways.h"

__thread bool python_at_work;

static const char *only_globs, *skip_globs;
static enum call_python state;
static bool is_profiling;

static bool begin_telling(void)
{
	if (!python_api_version() || !python_codes_begin(only_globs, skip_globs))
		return false;
	is_profiling = python.minor < 12;
	return is_profiling ? python_begin_profiling() : python_begin_monitoring();
}

static void begin(void)
{
	state = CALL_PYTHON_FAILED; /* once */
	if (!python_thread(false))
		return;
	python_at_work = true;
	bool ok = begin_telling();
	python_at_work = false;
	state = ok ? CALL_PYTHON_TOLD : CALL_PYTHON_FAILED;
	python_tell_state(state);
}

static int on_audit(const char *event, PyObject *args, void *ctx)
{
	(void)args;
	(void)ctx;
	if (!strcmp(event, PYTHON_LAST_EVENT))
		python_hook_goes();
	if (python_at_work || state == CALL_PYTHON_FAILED)
		return 0;
	if (state == CALL_PYTHON_NONE) {
		if (python.is_initialized() && python.interpreter() == python.main_interpreter())
			begin();
	} else if (is_profiling) {
		python_profiling_hears(event);
	}
	return 0;
}

/* A job may write over its environment. */
static const char *keep(const char *text)
{
	return text ? strdup(text) : NULL;
}

__attribute__((constructor)) static void find_interpreter(void)
{
	const char *asked = getenv(CALL_PYTHON_ENV);
	if (!asked || !*asked || !python_api_find())
		return;
	only_globs = keep(getenv(CALL_PYTHON_ONLY_ENV));
	skip_globs = keep(getenv(CALL_PYTHON_SKIP_ENV));
	python_hook_add(on_audit);
}
