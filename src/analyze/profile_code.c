/* profile_code.c - whose code a function is, by its name and file. */
#include <stdio.h>
#include <string.h>

#include "analyze/profile.h"

static bool is_one_of(const char *s, const char *const *list, bool prefix)
{
	for (; *list; list++)
		if (!strncmp(s, *list, strlen(*list)) && (prefix || !s[strlen(*list)]))
			return true;
	return false;
}

static bool starts_native(const char *name)
{
	static const char *const whole[] = {"_start",
					    "start_thread",
					    "clone",
					    "__clone",
					    "__clone3",
					    "clone3",
					    "ret_from_fork",
					    "ret_from_fork_asm",
					    "kthread",
					    "do_syscall_64",
					    "x64_sys_call",
					    "execute_native_thread_routine",
					    PROFILE_INTERPRETER,
					    NULL};
	static const char *const begins[] = {"__libc_start_", "entry_SYSCALL_", "asm_sysvec_",
					     "asm_exc_",      "sysvec_",	NULL};
	return is_one_of(name, whole, false) || is_one_of(name, begins, true);
}

/* What runs modules, threads and processes before the user's code is reached. */
static bool starts_python(const struct profile_function *f)
{
	static const char *const names[] = {"Thread._bootstrap",
					    "Thread._bootstrap_inner",
					    "BaseProcess._bootstrap",
					    "Popen._launch",
					    "_run_code",
					    "_run_module_code",
					    "_run_module_as_main",
					    "run_path",
					    NULL};
	char name[128];
	size_t len = strcspn(f->name, " ");
	snprintf(name, sizeof(name), "%.*s", (int)(len < 100 ? len : 100), f->name);
	return !strncmp(f->file, "<frozen ", 8) || is_one_of(name, names, false);
}

bool profile_is_library(const char *file)
{
	static const char *const parts[] = {"/site-packages/",	  "/dist-packages/", "/lib/python",
					    "/lib64/python",	  "/torchinductor_", "<frozen ",
					    "<__array_function__"};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(file, parts[i]))
			return true;
	return false;
}

/* Of code that a runtime made: "fib (x.js:3)" and "Fib.fib" are somebody's, "Interpreter" is its
 * own. */
static enum profile_code made_code(const char *name)
{
	static const char *const javas[] = {"java.", "javax.", "jdk.", "sun.", "com.sun.", NULL};
	if (is_one_of(name, javas, true))
		return PROFILE_LIBRARY;
	return strchr(name, '.') ? PROFILE_USER : PROFILE_NATIVE;
}

enum profile_code profile_code_of(const struct profile_function *f, bool in_program)
{
	if (f->kind == CALLTREE_PYTHON && starts_python(f))
		return PROFILE_START;
	if (f->kind == CALLTREE_PYTHON)
		return profile_is_library(f->file) ? PROFILE_LIBRARY : PROFILE_USER;
	if (!strcmp(f->library, LIBRARY_OF_MADE_CODE))
		return made_code(f->name);
	if (starts_native(f->name))
		return PROFILE_START;
	if (in_program && f->name[0] != '[') /* of it without a name is no one's */
		return PROFILE_USER;
	return PROFILE_NATIVE;
}
