/* program_name.c - the script of an interpreter's command line. */
#include "base/program_name.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static bool matches(const char *const *patterns, const char *name)
{
	for (; *patterns; patterns++)
		if (!fnmatch(*patterns, name, 0))
			return true;
	return false;
}

bool program_is_interpreter(const char *path)
{
	static const char *const names[] = {"python*", "pypy*", "node", "nodejs", "ruby*", "perl*",
					    "Rscript", "bash",	"sh",	"dash",	  "zsh",   NULL};
	return matches(names, base_name(path));
}

static bool is_script(const char *path)
{
	static const char *const names[] = {"*.py", "*.js", "*.mjs", "*.rb",
					    "*.pl", "*.R",  "*.sh",  NULL};
	return matches(names, path);
}

/* The program is the next argument itself. */
static bool is_text(const char *arg)
{
	return !strcmp(arg, "-c") || !strcmp(arg, "-e");
}

/* What an interpreter runs: its script, or -m and a module, or -c; NULL: nothing that is named. */
static char *script_of(const char *interpreter, char *const *args)
{
	bool python = !strncmp(base_name(interpreter), "py", 2);
	for (; *args; args++) {
		if (is_script(*args) || **args != '-')
			return xstrdup(base_name(*args));
		if (python && !strcmp(*args, "-m") && args[1])
			return xasprintf("%s -m %s", base_name(interpreter), args[1]);
		if (is_text(*args))
			return xasprintf("%s %s", base_name(interpreter), *args);
		if (python && (!strcmp(*args, "-W") || !strcmp(*args, "-X")) && args[1])
			args++;
	}
	return NULL;
}

char *program_name_of(char *const *argv)
{
	for (char *const *arg = argv; *arg; arg++) {
		char *script = program_is_interpreter(*arg) ? script_of(*arg, arg + 1) : NULL;
		if (script)
			return script;
	}
	for (char *const *arg = argv + 1; *argv && *arg; arg++)
		if (fnmatch("*.py", *arg, 0) == 0) /* torchrun, deepspeed */
			return xstrdup(base_name(*arg));
	return xstrdup(*argv ? base_name(*argv) : "");
}

char *program_script_of(char *const *argv)
{
	if (!*argv || !program_is_interpreter(*argv))
		return NULL;
	char *script = script_of(*argv, argv + 1);
	size_t len = script ? strlen(script) : 0;
	if (len > 3 && script[len - 3] == ' ' && is_text(script + len - 2)) {
		free(script);
		return NULL;
	}
	return script;
}
