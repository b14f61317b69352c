/* python_codes.c - a code object has its number in a place that the interpreter keeps for who asks
 * (PEP 523, co_extra): it goes with the object, whose address another may have later. */
#include "python_codes.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "python_filter.h"

/* What is kept: nothing, this, or the number times two. */
#define SKIPPED ((void *)1)

static ssize_t place = -1;
static const char *only_globs, *skip_globs;

bool python_codes_begin(const char *only, const char *skip)
{
	only_globs = only;
	skip_globs = skip;
	place = python.code_index(NULL);
	return place >= 0;
}

/* A text of the code's, as UTF-8; *keep: what holds it, to be dropped. */
static const char *text_of(PyObject *code, const char *name, PyObject **keep)
{
	ssize_t len;
	*keep = python.attribute(code, name);
	const char *text = *keep ? python.to_utf8(*keep, &len) : NULL;
	if (text || !*keep) {
		python.error_clear();
		return text ? text : "?";
	}
	python.error_clear(); /* bytes of a path that are no UTF-8 */
	PyObject *bytes = python.encode(*keep, "utf-8", "backslashreplace");
	python.drop(*keep);
	*keep = bytes;
	python.error_clear();
	return bytes ? python.bytes_of(bytes) : "?";
}

static uint32_t line_of(PyObject *code)
{
	PyObject *line = python.attribute(code, "co_firstlineno");
	long n = line ? python.to_long(line) : 0;
	if (line)
		python.drop(line);
	python.error_clear();
	return n > 0 && n < INT32_MAX ? (uint32_t)n : 0;
}

static uint32_t tell(struct call_thread *t, PyObject *code)
{
	PyObject *name_object, *file_object;
	const char *file = text_of(code, "co_filename", &file_object);
	const char *name =
		text_of(code, python.minor >= 11 ? "co_qualname" : "co_name", &name_object);
	uint32_t number = PYTHON_CODE_SKIPPED;
	if (python_filter_wants(only_globs, skip_globs, file)) {
		number = python_tell_code(t, name, file, line_of(code));
		if (!number)
			number = PYTHON_CODE_LOST;
	}
	if (name_object)
		python.drop(name_object);
	if (file_object)
		python.drop(file_object);
	return number;
}

/* 0: it is none that this process has told. */
static uint32_t number_of(void *kept)
{
	uint32_t number = (uint32_t)((uintptr_t)kept >> 1);
	return number && python_code_is_told(number) ? number : 0;
}

static void *kept_of(PyObject *code)
{
	void *kept = NULL;
	if (python.code_extra(code, place, &kept))
		python.error_clear();
	return kept;
}

/* Returns the number that the code has from here on. No memory: none, it would be told each time.
 */
static uint32_t keep_first(PyObject *code, uint32_t number)
{
	void *kept = kept_of(code);
	if (kept == SKIPPED)
		return PYTHON_CODE_SKIPPED;
	if (number_of(kept))
		return number_of(kept);
	kept = number == PYTHON_CODE_SKIPPED ? SKIPPED : (void *)((uintptr_t)number << 1);
	if (!python.code_set_extra(code, place, kept))
		return number;
	python.error_clear();
	return PYTHON_CODE_LOST;
}

/* Two threads of a free-threaded interpreter may meet a code at a time, and 3.13 does not guard the
 * place then. Who comes second takes the number of the first, so that a call ends under the one
 * that it began with. A forked child does not wait for a thread of its parent. */
static uint32_t keep(PyObject *code, uint32_t number)
{
	static uint32_t holder;
	uint32_t own = (uint32_t)getpid(), seen = 0;
	while (!__atomic_compare_exchange_n(&holder, &seen, own, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED))
		if (seen == own)
			seen = 0;
		else
			sched_yield(); /* the holder may wait for this CPU */
	number = keep_first(code, number);
	__atomic_store_n(&holder, 0, __ATOMIC_RELEASE);
	return number;
}

/* An error that is on its way is the job's, and stays. */
static uint32_t meet(struct call_thread *t, PyObject *code)
{
	PyObject *type, *value, *trace;
	python.error_fetch(&type, &value, &trace);
	uint32_t number = tell(t, code);
	if (number != PYTHON_CODE_LOST)
		number = keep(code, number);
	python.error_restore(type, value, trace);
	return number;
}

uint32_t python_code_number(struct call_thread *t, PyObject *code)
{
	void *kept = kept_of(code);
	if (kept == SKIPPED)
		return PYTHON_CODE_SKIPPED;
	uint32_t number = number_of(kept);
	return number ? number : meet(t, code);
}
