/* target_args.c - reads TARGET, --layers, --catalog and --probe. */
#include "cli/target_args.h"

#include <errno.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CATALOG_DIR "/etc/eacgm/catalog.d"

/* A thread's id has a folder in /proc too, but is listed in no process list. */
static bool is_process(pid_t pid)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, pid);
	if (stat(path, &st))
		return true; /* gone, or not to be seen: told later */
	pids_t all = {0};
	bool found = false;
	proc_all("/proc", &all);
	for (size_t i = 0; i < all.len; i++)
		found |= all.data[i] == pid;
	vec_free(&all);
	return found;
}

static int add_pids(struct target *t, const char *list, struct err *e)
{
	for (const char *s = list; *s;) {
		char *end;
		errno = 0;
		long pid = strtol(s, &end, 10);
		if (end == s || (*end && *end != ',') || pid <= 0 || pid > 1 << 22 || errno)
			return err_set(e, EINVAL, "'%s' is not a list of process ids", list);
		if (kill((pid_t)pid, 0) && errno == ESRCH)
			return err_set(e, ESRCH, "there is no process %ld", pid);
		if (!is_process((pid_t)pid))
			return err_set(e, EINVAL, "%ld is a thread: give the id of its process",
				       pid);
		pids_t family = {0};
		proc_descendants("/proc", (pid_t)pid, &family);
		for (size_t i = 0; i < family.len; i++)
			*vec_push(&t->pids) = family.data[i];
		vec_free(&family);
		s = *end ? end + 1 : end;
	}
	if (!t->pids.len)
		return err_set(e, ESRCH, "no process is given by '%s'", list);
	return 0;
}

/* Depth of a path below the cgroup2 mount it lies in; -1 when it lies in none. */
static int cgroup2_level(const char *path)
{
	FILE *f = setmntent("/proc/mounts", "re");
	if (!f)
		return -1;
	int level = -1;
	size_t longest = 0;
	struct mntent *m;
	while ((m = getmntent(f))) {
		size_t n = strlen(m->mnt_dir);
		if (strcmp(m->mnt_type, "cgroup2") || strncmp(path, m->mnt_dir, n) ||
		    (path[n] && path[n] != '/') || n < longest)
			continue;
		longest = n;
		level = 0;
		for (const char *s = path + n; *s; s++)
			level += *s == '/' && s[1] && s[1] != '/';
	}
	endmntent(f);
	return level;
}

static int read_cgroup(struct target *t, const char *path, struct err *e)
{
	struct stat st;
	char real[4096];
	if (!realpath(path, real) || stat(real, &st))
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	t->cgroup = xstrdup(real);
	int rc = proc_cgroup_members(real, &t->pids, e);
	if (rc)
		return rc;
	int level = cgroup2_level(real);
	if (level >= 0) {
		t->cgroup_id = st.st_ino; /* kernfs: the inode number is the id */
		t->cgroup_level = (uint32_t)level;
	}
	return 0;
}

int target_parse(struct target *ret, const struct args *a, struct err *e)
{
	struct target t = {.all = args_has(a, "all")};
	int rc = 0;
	for (size_t i = 0; i < args_count(a, "pid") && !rc; i++)
		rc = add_pids(&t, args_nth(a, "pid", i), e);
	if (!rc && args_has(a, "cgroup"))
		rc = read_cgroup(&t, args_get(a, "cgroup"), e);
	if (rc) {
		target_free(&t);
		return rc;
	}
	*ret = t;
	return 0;
}

void target_free(struct target *t)
{
	vec_free(&t->pids);
	free(t->cgroup);
	t->cgroup = NULL;
}

int catalog_from_args(struct catalog *ret, const struct args *a, struct err *e)
{
	struct catalog c = {0};
	int rc = catalog_load_builtin(&c, e);
	if (!rc)
		rc = catalog_load_dir(&c, CATALOG_DIR, e);
	for (size_t i = 0; i < args_count(a, "catalog") && !rc; i++)
		rc = catalog_load_file(&c, args_nth(a, "catalog", i), e);
	for (size_t i = 0; i < args_count(a, "probe") && !rc; i++)
		rc = catalog_add_spec(&c, args_nth(a, "probe", i), e);
	if (rc) {
		catalog_free(&c);
		return rc;
	}
	*ret = c;
	return 0;
}

bool waits_from_args(const struct args *a)
{
	const char *word = args_get(a, "waits");
	return !word || strcmp(word, "off") != 0;
}

int layers_from_args(uint32_t *ret, const struct catalog *c, const struct args *a, struct err *e)
{
	const char *list = args_get(a, "layers");
	if (!list) {
		*ret = ~0u;
		return 0;
	}
	uint32_t layers = args_count(a, "probe") ? layers_with(LAYER_IS_USERS) : 0;
	char *copy = xstrdup(list), *save = NULL;
	int rc = 0;
	for (char *name = strtok_r(copy, ",", &save); name && !rc;
	     name = strtok_r(NULL, ",", &save)) {
		if (!strcmp(name, LAYER_ALL)) {
			layers = ~0u;
			continue;
		}
		int layer = catalog_layer(c, name);
		if (layer < 0)
			rc = err_set(e, EINVAL, "there is no layer '%s'", name);
		else
			layers |= 1u << layer;
	}
	free(copy);
	if (!rc && !layers)
		rc = err_set(e, EINVAL, "--layers names no layer");
	if (!rc)
		*ret = layers;
	return rc;
}
