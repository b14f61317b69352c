/* job_rules.c - what a rule is asked about is read once for a process and all rules. */
#include "session/job_rules.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "symbolize/proc_program.h"

#define CGROUPS_BYTES 16384 /* a line for each hierarchy of cgroups(7) */
#define STATUS_BYTES  4096

void job_rules_init(struct job_rules *r)
{
	*r = (struct job_rules){.len = 0};
	pthread_mutex_init(&r->lock, NULL);
}

void job_rules_free(struct job_rules *r)
{
	map64_free(&r->rule_of);
	map64_free(&r->against);
	pthread_mutex_destroy(&r->lock);
}

/* ---- a process ---- */

/* malloc'ed; "" where it is gone. */
static char *read_text(const char *root, pid_t pid, const char *name, size_t most)
{
	char path[256], *ret = xcalloc(1, most + 1);
	size_t len = 0;
	ssize_t n = 0;
	snprintf(path, sizeof(path), "%s/%d/%s", root, pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && len < most && (n = read(fd, ret + len, most - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* The effective one, of "Uid: REAL EFFECTIVE SAVED FILES". */
static uid_t user_of(const char *status)
{
	static const char key[] = "\nUid:";
	const char *line = strstr(status, key);
	unsigned user;
	return line && sscanf(line + sizeof(key) - 1, "%*u %u", &user) == 1 ? (uid_t)user
									    : (uid_t)-1;
}

void job_facts_read(struct job_facts *ret, const char *root, pid_t pid)
{
	char *status = read_text(root, pid, "status", STATUS_BYTES);
	*ret = (struct job_facts){.command = proc_command_line(root, pid),
				  .cgroups = read_text(root, pid, "cgroup", CGROUPS_BYTES),
				  .user = user_of(status)};
	free(status);
}

void job_facts_free(struct job_facts *f)
{
	free(f->command);
	free(f->cgroups);
}

/* ---- rules ---- */

/* One of the paths of lines "NUMBER:CONTROLLERS:PATH". */
static bool is_in_cgroup(const char *glob, const char *text)
{
	char *copy = xstrdup(text), *save = NULL;
	bool found = false;
	for (char *line = strtok_r(copy, "\n", &save); line && !found;
	     line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':');
		char *path = controllers ? strchr(controllers + 1, ':') : NULL;
		found = path && !fnmatch(glob, path + 1, 0);
	}
	free(copy);
	return found;
}

static bool fits(const struct job_rule *r, const struct job_facts *f)
{
	return (!r->command[0] || !fnmatch(r->command, f->command, 0)) &&
	       (!r->cgroup[0] || is_in_cgroup(r->cgroup, f->cgroups)) &&
	       (!r->by_user || r->user == f->user);
}

size_t job_rules_match(const struct job_rules *r, const struct job_facts *f)
{
	for (size_t i = 0; i < r->len; i++)
		if (fits(&r->list[i], f))
			return i + 1;
	return 0;
}

/* ---- who is under them ---- */

static void put(struct job_rules *r, pid_t pid, size_t rule)
{
	uint64_t before = 0;
	if (map64_get(&r->rule_of, (uint64_t)pid, &before))
		r->under[before - 1]--;
	if (rule) {
		map64_set(&r->rule_of, (uint64_t)pid, rule);
		r->under[rule - 1]++;
	} else {
		map64_del(&r->rule_of, (uint64_t)pid);
	}
}

void job_rules_put(struct job_rules *r, pid_t pid, size_t rule)
{
	pthread_mutex_lock(&r->lock);
	put(r, pid, rule);
	map64_del(&r->against, (uint64_t)pid);
	pthread_mutex_unlock(&r->lock);
}

size_t job_rules_of(struct job_rules *r, pid_t pid)
{
	uint64_t rule = 0;
	pthread_mutex_lock(&r->lock);
	map64_get(&r->rule_of, (uint64_t)pid, &rule);
	pthread_mutex_unlock(&r->lock);
	return (size_t)rule;
}

size_t job_rules_count(struct job_rules *r, size_t rule)
{
	pthread_mutex_lock(&r->lock);
	size_t n = r->under[rule - 1];
	pthread_mutex_unlock(&r->lock);
	return n;
}

size_t job_rules_meant(struct job_rules *r, pid_t pid)
{
	uint64_t rule = 0;
	pthread_mutex_lock(&r->lock);
	if (!map64_get(&r->rule_of, (uint64_t)pid, &rule))
		map64_get(&r->against, (uint64_t)pid, &rule);
	pthread_mutex_unlock(&r->lock);
	return (size_t)rule;
}

uint64_t job_rules_failed(struct job_rules *r, pid_t pid, size_t rule)
{
	uint64_t before;
	pthread_mutex_lock(&r->lock);
	put(r, pid, 0);
	uint64_t n = map64_get(&r->against, (uint64_t)pid, &before) ? 0 : ++r->failures;
	map64_set(&r->against, (uint64_t)pid, rule);
	pthread_mutex_unlock(&r->lock);
	return n;
}

uint64_t job_rules_failures(struct job_rules *r)
{
	pthread_mutex_lock(&r->lock);
	uint64_t n = r->failures;
	pthread_mutex_unlock(&r->lock);
	return n;
}
