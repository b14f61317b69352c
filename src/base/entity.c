/* entity.c - entities to text and back. A text counts as one only where it is what entity_print
 * makes of it, so that nothing changes by being read and written again. */
#include "base/entity.h"

#include <stdio.h>
#include <string.h>

static const char *const prefixes[ENTITY_KINDS] = {
	[ENTITY_PROCESS] = "pid ",   [ENTITY_GPU] = "gpu ",
	[ENTITY_HOST] = "host",	     [ENTITY_INTERFACE] = "interface ",
	[ENTITY_CGROUP] = "cgroup ", [ENTITY_EACGM] = "eacgm",
	[ENTITY_DISK] = "disk ",     [ENTITY_FILESYSTEM] = "file system ",
};

void entity_print(struct buf *b, const struct entity *e)
{
	if (e->host_len)
		buf_printf(b, "%.*s ", (int)e->host_len, e->host);
	if (e->kind < ENTITY_KINDS && prefixes[e->kind])
		buf_printf(b, "%s", prefixes[e->kind]);
	if (e->kind == ENTITY_PROCESS)
		buf_printf(b, "%u", e->pid);
	else if (e->kind == ENTITY_GPU)
		buf_printf(b, "%u", e->gpu);
	else
		buf_printf(b, "%s", e->label);
	if (e->kind == ENTITY_GPU && e->instance >= 0)
		buf_printf(b, " mig %d", e->instance);
	if (e->kind == ENTITY_GPU && e->pid)
		buf_printf(b, " pid %u", e->pid);
}

void entity_text(char *ret, size_t size, const struct entity *e)
{
	struct buf b = {0};
	entity_print(&b, e);
	snprintf(ret, size, "%.*s", (int)b.len, (const char *)b.data);
	buf_free(&b);
}

#define NUMBERS_MOST 64 /* characters of a text that holds numbers */

static bool prints_as(const struct entity *e, const char *text)
{
	struct buf b = {0};
	entity_print(&b, e);
	bool same = b.len == strlen(text) && !memcmp(b.data, text, b.len);
	buf_free(&b);
	return same;
}

static bool parse_here(struct entity *ret, const char *text)
{
	for (unsigned kind = ENTITY_OTHER + 1; kind < ENTITY_KINDS; kind++) {
		struct entity e = ENTITY_NAMED(kind, "");
		size_t n = strlen(prefixes[kind]);
		bool labelled = kind == ENTITY_INTERFACE || kind == ENTITY_CGROUP ||
				kind == ENTITY_DISK || kind == ENTITY_FILESYSTEM;
		if (strncmp(text, prefixes[kind], n) != 0 ||
		    (!labelled && strnlen(text, NUMBERS_MOST) == NUMBERS_MOST))
			continue;
		if (labelled)
			e.label = text + n;
		else if (kind == ENTITY_PROCESS)
			sscanf(text, "pid %u", &e.pid);
		else if (kind == ENTITY_GPU && sscanf(text, "gpu %u pid %u", &e.gpu, &e.pid) < 2)
			sscanf(text, "gpu %u mig %d pid %u", &e.gpu, &e.instance, &e.pid);
		if (!prints_as(&e, text))
			continue;
		*ret = e;
		return true;
	}
	return false;
}

void entity_parse(struct entity *ret, const char *text)
{
	const char *at = text;
	bool found = parse_here(ret, text);
	while (!found && (at = strchr(at, ' ')))
		found = parse_here(ret, ++at) && entity_is_of_host(ret) && at > text + 1;
	if (!found)
		*ret = ENTITY_NAMED(ENTITY_OTHER, text);
	else if (at != text)
		ret->host = text, ret->host_len = (size_t)(at - text) - 1;
}

bool entity_is_of_host(const struct entity *e)
{
	if (e->kind == ENTITY_OTHER)
		return !strncmp(e->label, "gpu ", 4); /* "gpu at 0000:00:06", "gpu timeline" */
	return e->kind != ENTITY_PROCESS;
}
