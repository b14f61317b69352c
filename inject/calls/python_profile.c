/* python_profile.c - up to 3.11: a profile function in C, which each thread has to be given. Where
 * the job sets one, ours goes, and comes back when that has gone. */
#include <stdlib.h>
#include <string.h>

#include "python_calls.h"
#include "python_codes.h"
#include "python_ways.h"

static __thread int unsure; /* so often it is asked whether the thread has a profiler */

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
	python_at_work = true;
	python.set_profile(function, NULL);
	python_at_work = false;
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
		python_enter(t, code, (uint64_t)(uintptr_t)frame);
	else
		python_leave(t, code, (uint64_t)(uintptr_t)frame);
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

bool python_begin_profiling(void)
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
	python_done(now);
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

void python_profiling_hears(const char *event)
{
	if (python_has_stopped() || python.interpreter() != interpreter)
		return;
	if (!strcmp(event, "sys.setprofile")) {
		yield_to_job();
	} else if (!strcmp(event, PYTHON_LAST_EVENT)) {
		count_last();
	} else if (unsure > 0) {
		unsure--;
		look_again(NULL);
	}
}
