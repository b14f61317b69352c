/* program_name.c - the script of an interpreter's command line. */
#include "base/program_name.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/files.h"

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
	return matches(names, path_file_name(path));
}

static bool is_script(const char *path)
{
	static const char *const names[] = {"*.py", "*.js", "*.mjs", "*.rb",
					    "*.pl", "*.R",  "*.sh",  NULL};
	return matches(names, path);
}

/* Nothing that a shell would have quoted: a text of a program is no name. */
static bool is_word(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s <= ' ' || *s == 127)
			return false;
	return true;
}

/* Letters of options: after those of text comes, or is attached, a program's own text; those that
 * take_next have the next word, unless something is attached. */
struct options {
	const char *text, *take_next;
	bool known; /* all others stand alone */
};

static struct options options_of(const char *interpreter)
{
	static const char *const shells[] = {"bash", "sh", "dash", "zsh", NULL};
	if (!strncmp(interpreter, "py", 2))
		return (struct options){"c", "WX", true};
	if (matches(shells, interpreter))
		return (struct options){"cs", "oO", true};
	return (struct options){"eEnpr", "", false};
}

static char *module_of(const char *interpreter, const char *module)
{
	return module && is_word(module) ? xasprintf("%s -m %s", interpreter, module) : NULL;
}

/* What a file of that name runs is the package that it is of: "torch._inductor.compile_worker", as
 * far as its path says so. */
static char *package_of(const char *interpreter, const char *path)
{
	const char *file = path_file_name(path), *packages = strstr(path, "-packages/");
	char *name = xstrdup(packages ? packages + strlen("-packages/") : path), *slash;
	if (strlen(name) <= strlen(file)) { /* a file among the packages, of none */
		free(name);
		return xstrdup(file);
	}
	name[strlen(name) - strlen(file) - 1] = 0;
	if (!packages && (slash = strrchr(name, '/')))
		memmove(name, slash + 1, strlen(slash));
	for (char *c = name; *c; c++)
		*c = *c == '/' ? '.' : *c;
	char *ret = module_of(interpreter, name);
	free(name);
	return ret;
}

static char *name_of(const char *interpreter, const char *path)
{
	const char *file = path_file_name(path);
	if (!strcmp(file, "__main__.py") && file > path + 1 && !strncmp(interpreter, "py", 2))
		return package_of(interpreter, path);
	return xstrdup(file);
}

/* What an interpreter runs: its script, or -m and a module; NULL: nothing that is named. *ret_text:
 * the letter of the option whose text it runs; 0 = none. */
static char *script_of(const char *path, char *const *args, char *ret_text)
{
	const char *interpreter = path_file_name(path);
	bool python = !strncmp(interpreter, "py", 2), sure = true;
	struct options o = options_of(interpreter);
	for (*ret_text = 0; *args; args++) {
		const char *letters = *args + 1, *at;
		if (**args != '-') /* behind what may have taken it, only what looks like one */
			return is_word(*args) && (sure || is_script(*args))
				       ? name_of(interpreter, *args)
				       : NULL;
		if (!*letters || !strcmp(letters, "-"))
			return NULL;
		if (*letters == '-') {
			sure = false;
		} else if (python && (at = strpbrk(letters, "cmWX")) && *at == 'm') {
			return module_of(interpreter, at[1] ? at + 1 : args[1]);
		} else if ((at = strpbrk(letters, o.text))) {
			*ret_text = *at;
			return NULL;
		} else if ((at = strpbrk(letters, o.take_next)) && !at[1] && args[1]) {
			args++;
		} else {
			sure = sure && o.known;
		}
	}
	return NULL;
}

char *program_name_of(char *const *argv)
{
	for (char *const *arg = argv; *arg; arg++) {
		char text = 0, *script = NULL;
		if (program_is_interpreter(*arg))
			script = script_of(*arg, arg + 1, &text);
		if (text)
			return xasprintf("%s -%c", path_file_name(*arg), text);
		if (script)
			return script;
	}
	for (char *const *arg = argv + 1; *argv && *arg; arg++)
		if (fnmatch("*.py", *arg, 0) == 0) /* torchrun, deepspeed */
			return xstrdup(path_file_name(*arg));
	return xstrdup(*argv ? path_file_name(*argv) : "");
}

char *program_script_of(char *const *argv)
{
	char text;
	return *argv && program_is_interpreter(*argv) ? script_of(*argv, argv + 1, &text) : NULL;
}

const char *program_worker_of(char *const *argv)
{
	static const struct {
		const char *text, *what;
	} workers[] = {
		{"from multiprocessing.spawn import ", "spawn worker"},
		{"from multiprocessing.forkserver import ", "forkserver"},
		{"from multiprocessing.resource_tracker import ", "resource tracker"},
	};
	char text = 0, *script = NULL;
	if (*argv && !strncmp(path_file_name(*argv), "py", 2) && program_is_interpreter(*argv))
		script = script_of(*argv, argv + 1, &text);
	free(script);
	if (script || text != 'c')
		return NULL;
	while (*argv && strcmp(*argv, "-c") != 0)
		argv++;
	for (size_t i = 0; *argv && argv[1] && i < sizeof(workers) / sizeof(workers[0]); i++)
		if (!strncmp(argv[1], workers[i].text, strlen(workers[i].text)))
			return workers[i].what;
	return NULL;
}
