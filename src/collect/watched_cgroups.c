/* watched_cgroups.c - see watched_cgroups.h. A process is looked up when it has lived until the
 * next read, and again now and then: it may be moved. */
#include "collect/watched_cgroups.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOKS_MOST  32 /* at new processes, at a time */
#define LOOKS_AGAIN 16 /* at others, some 17 us each: of 40 each within three reads */
#define TEXT_MOST   8192

void watched_cgroups_add(struct watched_cgroups *w, pid_t pid)
{
	vec_push(&w->members)->pid = pid;
	w->unlooked++;
}

static void drop(struct watched_cgroups *w, size_t i)
{
	w->texts += w->members.data[i].text != NULL;
	w->unlooked -= !w->members.data[i].looked;
	free(w->members.data[i].text);
	w->members.data[i] = w->members.data[--w->members.len];
}

void watched_cgroups_del(struct watched_cgroups *w, pid_t pid)
{
	for (size_t i = w->members.len; i-- > 0;)
		if (w->members.data[i].pid == pid)
			drop(w, i);
}

static bool look(struct watched_cgroups *w, struct watched_member *m)
{
	char path[PATH_MAX], text[TEXT_MOST];
	w->unlooked -= !m->looked;
	m->looked = true;
	snprintf(path, sizeof(path), "%s/%d/cgroup", w->proc_root, m->pid);
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[n] = 0;
	if (!n || (m->text && !strcmp(m->text, text)))
		return false;
	free(m->text);
	m->text = xstrdup(text);
	return true;
}

bool watched_cgroups_update(struct watched_cgroups *w)
{
	size_t again = w->members.len < LOOKS_AGAIN ? w->members.len : LOOKS_AGAIN;
	for (size_t i = w->members.len, n = 0; i-- > 0 && w->unlooked && n < LOOKS_MOST;) {
		if (w->members.data[i].looked)
			continue;
		w->texts += look(w, &w->members.data[i]);
		n++;
	}
	for (size_t n = 0; n < again; n++) {
		w->next = w->next + 1 < w->members.len ? w->next + 1 : 0;
		w->texts += look(w, &w->members.data[w->next]);
	}
	bool changed = w->texts != w->texts_at;
	w->texts_at = w->texts;
	return changed;
}

size_t watched_cgroups_texts(const struct watched_cgroups *w, const char **ret, size_t most)
{
	size_t len = 0;
	for (size_t i = 0; i < w->members.len && len < most; i++) {
		const char *text = w->members.data[i].text;
		size_t k = 0;
		while (text && k < len && strcmp(ret[k], text) != 0)
			k++;
		if (text && k == len)
			ret[len++] = text;
	}
	return len;
}

void watched_cgroups_free(struct watched_cgroups *w)
{
	for (size_t i = 0; i < w->members.len; i++)
		free(w->members.data[i].text);
	vec_free(&w->members);
}

/* ---- places ---- */

/* Whether "cpu,cpuacct" names "cpu". */
static bool names(const char *list, const char *controller)
{
	size_t n = strlen(controller);
	while (*list && *list != ':') {
		size_t len = strcspn(list, ",:");
		if (len == n && !strncmp(list, controller, n))
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

/* "4:cpu,cpuacct:/job" of version 1, "0::/job" of version 2: its list and its path. */
static bool line_parts(const char *line, const char **ret_list, const char **ret_path)
{
	const char *end = line + strcspn(line, "\n");
	const char *list = memchr(line, ':', (size_t)(end - line));
	const char *path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
	if (!path || path[1] != '/')
		return false;
	*ret_list = list + 1;
	*ret_path = path + 1;
	return true;
}

static bool set_place(struct cgroup_place *ret, const char *groups, const char *mount, size_t len,
		      const char *path)
{
	int root = snprintf(ret->folder, sizeof(ret->folder), "%s%s%.*s", groups, len ? "/" : "",
			    (int)len, mount);
	if (root < 0 || (size_t)root >= sizeof(ret->folder) || access(ret->folder, F_OK))
		return false;
	ret->group = (size_t)root;
	size_t n = strcspn(path, "\n"), room = sizeof(ret->folder) - ret->group;
	if (n >= room)
		return false;
	memcpy(ret->folder + ret->group, path, n);
	ret->folder[ret->group + n] = 0;
	/* of another container, as seen from within one: not in this mount */
	if (!strncmp(path, "/..", 3) && (n == 3 || path[3] == '/'))
		return false;
	while (n && ret->folder[ret->group] && ret->folder[ret->group + n - 1] == '/')
		ret->folder[ret->group + --n] = 0;
	while (ret->folder[ret->group] && access(ret->folder, F_OK) && cgroup_place_up(ret))
		;
	return true;
}

static bool place_of_line(struct cgroup_place *ret, const char *groups, const char *list,
			  const char *path)
{
	size_t len = strcspn(list, ":");
	ret->is_v1 = len > 0;
	if (len)
		return set_place(ret, groups, list, len, path);
	/* beside version 1 */
	return set_place(ret, groups, "unified", strlen("unified"), path) ||
	       set_place(ret, groups, "", 0, path);
}

bool cgroup_place_find(struct cgroup_place *ret, const char *groups, const char *text,
		       const char *controller)
{
	const char *list, *path, *next, *v2 = NULL;
	for (const char *line = text; *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (!line_parts(line, &list, &path))
			continue;
		if (*list == ':')
			v2 = list;
		else if (controller && names(list, controller))
			return place_of_line(ret, groups, list, path);
	}
	return v2 && place_of_line(ret, groups, v2, v2 + 1);
}

bool cgroup_place_up(struct cgroup_place *p)
{
	char *slash = strrchr(p->folder + p->group, '/');
	if (!slash)
		return false;
	*slash = 0;
	return true;
}

/* Version 2 has that file in all groups but the root. Of version 1 it is not known: a container has
 * its own group mounted as the root there. */
bool cgroup_place_is_all(const struct cgroup_place *p)
{
	char path[PATH_MAX + 32];
	if (p->folder[p->group])
		return false;
	snprintf(path, sizeof(path), "%s/cgroup.events", p->folder);
	return p->is_v1 || access(path, F_OK) != 0;
}

const char *cgroup_place_name(const struct cgroup_place *p)
{
	return p->folder[p->group] ? p->folder + p->group : "/";
}
