/* python_monitor.c - from 3.12 on: sys.monitoring, with callbacks in C (PEP 669). All threads of
 * the interpreter have it. Where a function is not to be told, its places are switched off. */
#include "python_calls.h"
#include "python_codes.h"
#include "python_frame.h"
#include "python_ways.h"

#define TOOL "eacgm"

static PyObject *monitoring, *disable;

static PyObject *give(PyObject *o)
{
	python.hold(o);
	return o;
}

/* What to answer where nothing is to be told of this place any more. */
static PyObject *never_again(bool local)
{
	return give(local ? disable : python.none);
}

static PyObject *told(PyObject *const *args, ssize_t n, bool enters, bool local)
{
	if (n < 1 || python_at_work)
		return give(python.none);
	struct call_thread *t = python_thread(enters);
	if (python_has_stopped())
		return never_again(local);
	uint32_t code = t ? python_code_number(t, args[0]) : PYTHON_CODE_LOST;
	if (code == PYTHON_CODE_SKIPPED)
		return never_again(local);
	if (code != PYTHON_CODE_LOST && enters)
		python_enter(t, code, python_frame_now());
	else if (code != PYTHON_CODE_LOST)
		python_leave(t, code, python_frame_now());
	return give(python.none);
}

static PyObject *on_enter(PyObject *self, PyObject *const *args, ssize_t n)
{
	(void)self;
	return told(args, n, true, true);
}

static PyObject *on_throw(PyObject *self, PyObject *const *args, ssize_t n)
{
	(void)self;
	return told(args, n, true, false);
}

static PyObject *on_leave(PyObject *self, PyObject *const *args, ssize_t n)
{
	(void)self;
	return told(args, n, false, true);
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, ssize_t n)
{
	(void)self;
	return told(args, n, false, false);
}

/* PY_THROW and PY_UNWIND cannot be switched off for a place. */
static struct monitored {
	const char *event;
	struct python_method method;
} monitored[] = {
	{"PY_START", {"enter", on_enter, PYTHON_FASTCALL, NULL}},
	{"PY_RESUME", {"resume", on_enter, PYTHON_FASTCALL, NULL}},
	{"PY_THROW", {"throw", on_throw, PYTHON_FASTCALL, NULL}},
	{"PY_RETURN", {"leave", on_leave, PYTHON_FASTCALL, NULL}},
	{"PY_YIELD", {"yield", on_leave, PYTHON_FASTCALL, NULL}},
	{"PY_UNWIND", {"unwind", on_unwind, PYTHON_FASTCALL, NULL}},
};

/* 3 and 4 are nobody's by name. */
static int take_tool(void)
{
	static const int ids[] = {4, 3};
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		if (python_done(python.call_method(monitoring, "use_tool_id", "is", ids[i], TOOL)))
			return ids[i];
	return -1;
}

static bool listen_to(int tool, PyObject *events, struct monitored *m, long *sum)
{
	PyObject *event = python.attribute(events, m->event);
	PyObject *function = python.new_function(&m->method, NULL, NULL);
	bool ok = event && function &&
		  python_done(python.call_method(monitoring, "register_callback", "iOO", tool,
						 event, function));
	if (ok)
		*sum |= python.to_long(event);
	if (event)
		python.drop(event);
	if (function)
		python.drop(function);
	python.error_clear();
	return ok;
}

bool python_begin_monitoring(void)
{
	long sum = 0;
	monitoring = python.sys_object("monitoring");
	if (!monitoring)
		return false;
	python.hold(monitoring);
	python_frame_begin();
	disable = python.attribute(monitoring, "DISABLE");
	PyObject *events = python.attribute(monitoring, "events");
	int tool = disable && events ? take_tool() : -1;
	bool ok = tool >= 0;
	for (size_t i = 0; i < sizeof(monitored) / sizeof(*monitored) && ok; i++)
		ok = listen_to(tool, events, &monitored[i], &sum);
	ok = ok && python_done(python.call_method(monitoring, "set_events", "ii", tool, (int)sum));
	if (events)
		python.drop(events);
	python.error_clear();
	return ok;
}
