/* catalog_check.c - what a catalog entry may hold, however it was written.
 *
 * Patterns and the rules that concern several keys. Does not look at any library: that a
 * pattern matches nothing is for the plan to say. */
#include <errno.h>
#include <stdio.h>

#include "probe/catalog_impl.h"

bool cat_text_clean(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return false;
	return true;
}

void cat_add_word(char *words, size_t size, const char *word)
{
	size_t len = strlen(words);
	snprintf(words + len, size - len, "%s%s", len ? " " : "", word);
}

/* The place after a '[...]' that begins at p, or NULL when it does not end. */
static const char *bracket_end(const char *p)
{
	p++;
	if (*p == '!' || *p == '^')
		p++;
	if (*p == ']')
		p++;
	while (*p && *p != ']')
		p++;
	return *p ? p + 1 : NULL;
}

static int check_glob(const char *glob, struct err *e)
{
	int stars = 0;
	if (!*glob)
		return err_set(e, EINVAL, "empty pattern");
	for (const char *p = glob; *p;) {
		if ((unsigned char)*p <= ' ')
			return err_set(e, EINVAL, "pattern '%.60s' holds a space", glob);
		if (*p == '\\' && !p[1])
			return err_set(e, EINVAL, "pattern '%.60s' ends in a backslash", glob);
		if (*p == '*' && ++stars > CATALOG_MAX_STARS)
			return err_set(e, EINVAL, "pattern '%.60s' has more than %d '*'", glob,
				       CATALOG_MAX_STARS);
		if (*p == '[') {
			const char *end = bracket_end(p);
			if (!end)
				return err_set(e, EINVAL, "pattern '%.60s': '[' without ']'", glob);
			p = end;
			continue;
		}
		p += *p == '\\' ? 2 : 1;
	}
	return 0;
}

int cat_check_library(const char *glob, struct err *e)
{
	int rc = check_glob(glob, e);
	if (rc)
		return rc;
	if (glob[0] != '/' && strchr(glob, '/'))
		return err_set(e, EINVAL,
			       "pattern '%.60s': a file name has no '/', a path begins with it",
			       glob);
	return 0;
}

int cat_check_symbol(const char *glob, struct err *e)
{
	int rc = check_glob(glob, e);
	if (rc)
		return rc;
	if (strstr(glob, "::"))
		return err_set(e, EINVAL,
			       "symbol '%.60s': C++ names are given mangled, as `nm -D` shows them "
			       "(_ZN3foo3barE*)",
			       glob);
	size_t bad = strcspn(glob, ":()<>,/");
	if (glob[bad])
		return err_set(e, EINVAL, "symbol '%.60s' holds '%c'", glob, glob[bad]);
	return 0;
}

int cat_check_usdt(const char *glob, struct err *e)
{
	int rc = check_glob(glob, e);
	if (rc)
		return rc;
	const char *colon = strchr(glob, ':');
	if (!colon || colon == glob || !colon[1] || strchr(colon + 1, ':'))
		return err_set(e, EINVAL, "USDT probe '%.60s' is not of the form provider:name",
			       glob);
	return 0;
}

static int check_args(const struct cat_entry *entry, const char **ret_key, struct err *e)
{
	*ret_key = "signature";
	/* The compiler chose where they lie: any register, any memory operand. */
	if (entry->usdt && (entry->nargs || entry->has_return))
		return err_set(e, EINVAL, "arguments of USDT probes cannot be read yet");
	for (unsigned i = 0; i < entry->nargs; i++) {
		const struct cat_arg *a = &entry->args[i];
		bool py = a->fetch.fetch == FETCH_PYCODE || a->fetch.fetch == FETCH_PYSTRING;
		if (py && !entry->python)
			return err_set(e, EINVAL,
				       "%s: pystr and pycode are known in a Python interpreter "
				       "only (python: true)",
				       a->name);
		if (a->fetch.at_return && entry->instant)
			return err_set(e, EINVAL, "%s: an instant does not wait for the return",
				       a->name);
	}
	return 0;
}

int cat_check_entry(const struct cat_entry *entry, const char **ret_key, struct err *e)
{
	*ret_key = entry->usdt ? "usdt" : "symbols";
	if (entry->symbols.len == 0)
		return err_set(e, EINVAL, "one of symbols and usdt is needed");
	*ret_key = "libraries";
	if (entry->libraries.len == 0)
		return err_set(e, EINVAL, "missing, here and at the top of the file");
	*ret_key = "usdt_end";
	if (entry->end_symbols.len && !entry->usdt)
		return err_set(e, EINVAL, "needs usdt");
	*ret_key = "instant";
	if (entry->end_symbols.len && entry->instant)
		return err_set(e, EINVAL, "a pair of USDT probes is a span");
	return check_args(entry, ret_key, e);
}
