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

#define LAST_EVENT "cpython._PySys_ClearAuditHooks"

static const char *only_globs, *skip_globs;
static enum call_python state;
static __thread bool at_work; /* what we call tells of itself too */
static __thread int unsure;   /* so often it is asked whether the thread has a profiler */

/* ---- from 3.12 on: sys.monitoring ---- */

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
	if (n < 1 || at_work)
		return give(python.none);
	struct call_thread *t = python_thread(enters);
	if (python_has_stopped())
		return never_again(local);
	uint32_t code = t ? python_code_number(t, args[0]) : PYTHON_CODE_LOST;
	if (code == PYTHON_CODE_SKIPPED)
		return never_again(local);
	if (code != PYTHON_CODE_LOST && enters)
		python_enter(t, code);
	else if (code != PYTHON_CODE_LOST)
		python_leave(t, code);
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

/* True where it succeeded; what comes back is nobody's. */
static bool done(PyObject *result)
{
	if (result)
		python.drop(result);
	else
		python.error_clear();
	return result != NULL;
}

/* 3 and 4 are nobody's by name. */
static int take_tool(void)
{
	static const int ids[] = {4, 3};
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		if (done(python.call_method(monitoring, "use_tool_id", "is", ids[i], TOOL)))
			return ids[i];
	return -1;
}

static bool listen_to(int tool, PyObject *events, struct monitored *m, long *sum)
{
	PyObject *event = python.attribute(events, m->event);
	PyObject *function = python.new_function(&m->method, NULL, NULL);
	bool ok = event && function &&
		  done(python.call_method(monitoring, "register_callback", "iOO", tool, event,
					  function));
	if (ok)
		*sum |= python.to_long(event);
	if (event)
		python.drop(event);
	if (function)
		python.drop(function);
	python.error_clear();
	return ok;
}

static bool begin_monitoring(void)
{
	long sum = 0;
	monitoring = python.sys_object("monitoring");
	if (!monitoring)
		return false;
	python.hold(monitoring);
	disable = python.attribute(monitoring, "DISABLE");
	PyObject *events = python.attribute(monitoring, "events");
	int tool = disable && events ? take_tool() : -1;
	bool ok = tool >= 0;
	for (size_t i = 0; i < sizeof(monitored) / sizeof(*monitored) && ok; i++)
		ok = listen_to(tool, events, &monitored[i], &sum);
	ok = ok && done(python.call_method(monitoring, "set_events", "ii", tool, (int)sum));
	if (events)
		python.drop(events);
	python.error_clear();
	return ok;
}

/* ---- up to 3.11: a profile function in each thread ---- */

#define UNSURE_TIMES 16

enum { PROFILE_CALL = 0, PROFILE_RETURN = 3, PROFILE_C_RETURN = 6 }; /* PyTrace_* */

#define FRAME_CODE_3_8 32 /* PyFrameObject.f_code: Include/frameobject.h */

struct seen_thread {
	PyThreadState *thread;
	uint64_t number; /* the interpreter's, 0 in 3.8 */
};
static struct seen_thread *seen;
static size_t nseen, seen_room;
static PyInterpreterState *interpreter;
static PyThreadState *newest;
static uint64_t last_number;
static void *start_thread; /* _thread.start_new_thread */

static int on_profile(PyObject *self, PyObject *frame, int what, PyObject *arg);

static uint64_t number_of(PyThreadState *thread)
{
	return python.thread_number ? python.thread_number(thread) : 0;
}

static void set_profile(python_profiler *function)
{
	at_work = true;
	python.set_profile(function, NULL);
	at_work = false;
}

static void profile(PyThreadState *thread)
{
	PyThreadState *own = python.swap_thread(thread);
	set_profile(on_profile);
	python.swap_thread(own);
}

static bool was_seen(PyThreadState *thread, uint64_t number)
{
	for (size_t i = 0; i < nseen; i++)
		if (seen[i].thread == thread && seen[i].number == number)
			return true;
	return false;
}

static bool make_room(size_t n)
{
	if (n <= seen_room)
		return true;
	void *more = realloc(seen, 2 * n * sizeof(*seen));
	if (!more)
		return false;
	seen = more;
	seen_room = 2 * n;
	return true;
}

/* The interpreter numbers its threads. expected: new ones that were met before they ran. */
static void count_late(uint64_t number, uint64_t expected)
{
	if (last_number && number > last_number + expected)
		python_count_late((uint32_t)(number - last_number - expected));
	if (number > last_number)
		last_number = number;
}

/* Those that have ended are forgotten, and the rest has, or has had, our function. anew: the newest
 * is one that has not run yet, whoever was at its address before. */
static void look_at_threads(bool anew)
{
	size_t n = 0, kept = 0;
	newest = python.first_thread(interpreter);
	for (PyThreadState *p = newest; p; p = python.next_thread(p))
		n++;
	if (!make_room(nseen + n))
		return;
	for (PyThreadState *p = newest; p; p = python.next_thread(p)) {
		uint64_t number = number_of(p);
		if (!was_seen(p, number) || (anew && p == newest))
			profile(p);
		seen[nseen + kept++] = (struct seen_thread){p, number};
	}
	count_late(number_of(newest), anew);
	memmove(seen, seen + nseen, kept * sizeof(*seen));
	nseen = kept;
}

/* A thread that is made by C code is met when some thread calls next. */
static inline void look_for_threads(void)
{
	PyThreadState *first = python.first_thread(interpreter);
	if (__builtin_expect(first != newest, 0) ||
	    (python.thread_number && nseen && python.thread_number(first) != seen[0].number))
		look_at_threads(false);
}

/* What is written by who has no reference of its own. */
static PyObject *code_of(PyObject *frame)
{
	if (!python.code_of_frame)
		return *(PyObject **)((char *)frame + FRAME_CODE_3_8);
	PyObject *code = python.code_of_frame(frame);
	if (code)
		python.drop(code); /* the frame has it */
	return code;
}

static void tell(struct call_thread *t, PyObject *frame, int what)
{
	PyObject *object = code_of(frame);
	uint32_t code = object ? python_code_number(t, object) : PYTHON_CODE_SKIPPED;
	if (code == PYTHON_CODE_SKIPPED || code == PYTHON_CODE_LOST)
		return;
	if (what == PROFILE_CALL)
		python_enter(t, code);
	else
		python_leave(t, code);
}

static int on_profile(PyObject *self, PyObject *frame, int what, PyObject *arg)
{
	(void)self;
	if (what != PROFILE_CALL && what != PROFILE_RETURN) {
		/* the lock has not been given away yet */
		if (what == PROFILE_C_RETURN && arg && python.function_of(arg) == start_thread)
			look_at_threads(true);
		return 0;
	}
	struct call_thread *t = python_thread(what == PROFILE_CALL);
	if (python_has_stopped()) {
		set_profile(NULL);
		return 0;
	}
	look_for_threads();
	if (t)
		tell(t, frame, what);
	return 0;
}

static bool begin_profiling(void)
{
	PyObject *module = python.import("_thread");
	PyObject *start = module ? python.attribute(module, "start_new_thread") : NULL;
	if (start)
		start_thread = python.function_of(start);
	if (start)
		python.drop(start);
	if (module)
		python.drop(module);
	python.error_clear();
	interpreter = python.main_interpreter();
	look_at_threads(false);
	return nseen > 0;
}

/* Where somebody has set a profile function in the thread, or taken it off. Ours is not seen. */
static int look_again(void *ctx)
{
	(void)ctx;
	PyObject *get = python.sys_object("getprofile");
	PyObject *now = get ? python.call(get, NULL) : NULL;
	if (now == python.none && !python_has_stopped())
		set_profile(on_profile);
	done(now);
	return 0;
}

/* The job's own profiler is about to come into this thread, or to go. Which of both, the main
 * thread is asked soon after, and others when they are next heard of. */
static void yield_to_job(void)
{
	struct call_thread *t = python_thread(false);
	if (t)
		python_lose_sight(t);
	python_count_yield();
	unsure = UNSURE_TIMES;
	python.later(look_again, NULL);
}

/* The interpreter is about to end: whether C code made threads of which nothing was heard. */
static void count_last(void)
{
	if (!python.thread_number || !python.new_thread || !python.clear_thread ||
	    !python.delete_thread)
		return;
	PyThreadState *one_more = python.new_thread(interpreter);
	if (!one_more)
		return;
	count_late(number_of(one_more), 1);
	python.clear_thread(one_more);
	python.delete_thread(one_more);
}

static void hear_profiled(const char *event)
{
	if (python_has_stopped() || python.interpreter() != interpreter)
		return;
	if (!strcmp(event, "sys.setprofile")) {
		yield_to_job();
	} else if (!strcmp(event, LAST_EVENT)) {
		count_last();
	} else if (unsure > 0) {
		unsure--;
		look_again(NULL);
	}
}

/* ---- the first that is heard of the interpreter ---- */

static bool begin_telling(void)
{
	if (!python_api_version() || !python_codes_begin(only_globs, skip_globs))
		return false;
	if (python.minor >= 12)
		return begin_monitoring();
	return begin_profiling();
}

static void begin(void)
{
	state = CALL_PYTHON_FAILED; /* once */
	if (!python_thread(false))
		return;
	at_work = true;
	bool ok = begin_telling();
	at_work = false;
	state = ok ? CALL_PYTHON_TOLD : CALL_PYTHON_FAILED;
	python_tell_state(state);
}

static int on_audit(const char *event, PyObject *args, void *ctx)
{
	(void)args;
	(void)ctx;
	if (!strcmp(event, LAST_EVENT))
		python_hook_goes();
	if (at_work || state == CALL_PYTHON_FAILED)
		return 0;
	if (state == CALL_PYTHON_NONE) {
		if (python.is_initialized() && python.interpreter() == python.main_interpreter())
			begin();
	} else if (interpreter) {
		hear_profiled(event);
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
