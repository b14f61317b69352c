/* agent_freezes.c - a name is held against those that files of the folder have (flight_files_open)
 * before anything is opened. */
#include "cli/agent_freezes.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/agent_answers.h"
#include "cli/agent_frozen.h"
#include "web/web_page.h"

#define FILES_MOST 256 /* that are listed */

static const char below[] = "/freezes/", recording[] = ".eacgm";

/* What is made of a file when it is asked for, by the ending in place of the file's. */
static const struct made {
	const char *ending, *called, *type;
	enum freeze_page_kind kind;
	bool save;
} mades[] = {
	{".html", "page", "text/html; charset=utf-8", FREEZE_PAGE_HTML, false},
	{".perfetto-trace.gz", "Perfetto trace", "application/octet-stream", FREEZE_PAGE_TRACE,
	 true},
};

static json_t *known_ns(uint64_t ns)
{
	return ns ? json_integer((json_int_t)ns) : json_null();
}

static json_t *file_json(const struct flight_found *f)
{
	return json_pack("{s:s, s:I, s:I, s:o, s:o}", "name", f->name, "time_realtime_ns",
			 (json_int_t)f->time_ns, "bytes", (json_int_t)f->bytes, "from_ns",
			 known_ns(f->from_ns), "until_ns", known_ns(f->until_ns));
}

/* What has no file of its own. */
static json_t *told_json(struct agent *a)
{
	json_t *list = json_array();
	pthread_mutex_lock(&a->lock);
	for (uint32_t i = a->notices.len; i; i--) {
		const struct live_notice *n = live_notices_at(&a->notices, i - 1);
		if (agent_frozen_is_no_file(n->name))
			json_array_append_new(list, json_pack("{s:I, s:s, s:s}", "time_ns",
							      (json_int_t)n->time_ns, "name",
							      n->name, "text", n->text));
	}
	pthread_mutex_unlock(&a->lock);
	return list;
}

void agent_get_freezes(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	json_t *list = json_array();
	size_t n = 0;
	(void)q;
	if (a->flight) {
		struct flight_found *found = xcalloc(FILES_MOST, sizeof(*found));
		n = flight_files(a->flight, found, FILES_MOST);
		for (size_t i = 0; i < n; i++)
			json_array_append_new(list, file_json(&found[i]));
		free(found);
	}
	agent_answer_json(ret, json_pack("{s:b, s:I, s:I, s:o, s:o}", "freezes", a->flight != NULL,
					 "now_ns", (json_int_t)monotonic_ns(), "now_realtime_ns",
					 (json_int_t)realtime_ns(), "files", list, "told",
					 told_json(a)));
}

static void say(struct http_answer *ret, int status, const char *sentence)
{
	ret->status = status;
	buf_printf(&ret->body, "%s\n", sentence);
}

/* "freeze-...-1" of "freeze-...-1.html" with an ending; malloc'ed, NULL: it has another. */
static char *name_without(const char *name, const char *ending)
{
	size_t len = strlen(name), end = strlen(ending);
	return len > end && !strcmp(name + len - end, ending)
		       ? xasprintf("%.*s", (int)(len - end), name)
		       : NULL;
}

static void say_wait(struct http_answer *ret, const struct made *m, const char *name)
{
	ret->status = 202;
	ret->type = "text/html; charset=utf-8";
	ret->policy = "default-src 'none'; frame-ancestors 'none'";
	buf_printf(&ret->body,
		   "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
		   "<meta http-equiv=\"refresh\" content=\"1\"><title>eACGM</title></head>"
		   "<body><p>The %s of %s is being made.</p></body></html>\n",
		   m->called, name);
}

/* The name is one of ours: letters, digits, '-' and '.'. */
static void give_made(struct agent *a, const struct made *m, const char *name,
		      struct http_answer *ret)
{
	int fd = -1;
	uint64_t bytes = 0;
	char *path = xasprintf("%s/%s", flight_folder(a->flight), name);
	enum freeze_page_state state = freeze_pages_get(a->pages, m->kind, path, name, &fd, &bytes);
	free(path);
	if (state == FREEZE_PAGE_COMES) {
		say_wait(ret, m, name);
		return;
	}
	if (!bytes) {
		if (fd >= 0)
			close(fd);
		ret->status = 500;
		buf_printf(&ret->body, "cannot make the %s of this recording\n", m->called);
		return;
	}
	ret->from_file = true;
	ret->fd = fd;
	ret->file_bytes = bytes;
	if (state == FREEZE_PAGE_THERE) {
		ret->type = m->type;
		ret->policy = (const char *)a->alone.data;
		ret->save = m->save;
	} else {
		ret->status = 500; /* it says why */
	}
}

/* "freeze-...-1.eacgm" of the name of what is made of it, *ret_made: that, or NULL: it is the file
 * itself that is asked for. malloc'ed. */
static char *file_asked(const char *name, const struct made **ret_made)
{
	*ret_made = NULL;
	for (size_t i = 0; i < sizeof(mades) / sizeof(mades[0]); i++) {
		char *stem = name_without(name, mades[i].ending);
		char *ret = stem ? xasprintf("%s%s", stem, recording) : NULL;
		free(stem);
		if (!ret)
			continue;
		*ret_made = &mades[i];
		return ret;
	}
	return xstrdup(name);
}

void agent_get_freeze(void *ctx, const struct http_question *q, struct http_answer *ret)
{
	struct agent *a = ctx;
	const struct made *made;
	char *file = file_asked(q->path + strlen(below), &made);
	uint64_t bytes;
	int fd = a->flight ? flight_files_open(a->flight, file, &bytes) : -1;
	if (fd < 0) {
		say(ret, 404, "there is no such file");
	} else if (!made) {
		ret->type = "application/octet-stream";
		ret->from_file = true;
		ret->fd = fd;
		ret->file_bytes = bytes;
		ret->save = true;
	} else {
		close(fd);
		if (made->kind != FREEZE_PAGE_HTML || web_page_is_there())
			give_made(a, made, file, ret);
		else
			say(ret, 404, WEB_PAGE_MISSING);
	}
	free(file);
}
