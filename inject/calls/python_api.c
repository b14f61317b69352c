/* python_api.c - looks CPython's functions up among what the process had when it was started. */
#include "python_api.h"

#include <dlfcn.h>
#include <stdio.h>

struct python_api python;

static void *find(const char *name)
{
	return name ? dlsym(RTLD_DEFAULT, name) : NULL;
}

bool python_api_find(void)
{
	bool all = true;
#define FIND(result, name, args, symbol)                                                           \
	*(void **)&python.name = find(symbol);                                                     \
	all &= python.name != NULL;
#define FIND_EITHER(result, name, args, symbol, other)                                             \
	*(void **)&python.name = find(symbol);                                                     \
	if (!python.name)                                                                          \
		*(void **)&python.name = find(other);
	if (!find("PySys_AddAuditHook")) /* 3.8; most programs have none of them */
		return false;
	PYTHON_FUNCTIONS(FIND)
	PYTHON_VARYING(FIND_EITHER)
#undef FIND
#undef FIND_EITHER
	python.none = find("_Py_NoneStruct");
	return all && python.none && python.interpreter && python.code_index && python.code_extra &&
	       python.code_set_extra;
}

bool python_api_version(void)
{
	int minor;
	if (!python.minor && sscanf(python.version(), "3.%d", &minor) == 1)
		python.minor = minor;
	return python.minor >= 8;
}
