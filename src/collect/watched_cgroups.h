/* watched_cgroups.h - the cgroups that watched processes are in: which there are, and where their
 * files lie. Versions 1 and 2, also side by side. What the files say is the collectors' affair. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buffer.h"

struct watched_cgroups {
	const char *proc_root;
	VEC(struct watched_member {
		pid_t pid;
		char *text;  /* of its /proc/PID/cgroup; NULL: it could not be read yet */
		bool looked; /* it was tried */
	})
	members;
	size_t unlooked;   /* members that were not tried */
	size_t next;	   /* to be read again */
	uint64_t texts;	   /* so many times the texts have changed */
	uint64_t texts_at; /* as of the last update */
};

void watched_cgroups_add(struct watched_cgroups *w, pid_t pid);
void watched_cgroups_del(struct watched_cgroups *w, pid_t pid);
/* Looks where new processes are, and where a few others are by now, all of them in turn. True: the
 * places have changed. */
bool watched_cgroups_update(struct watched_cgroups *w);
/* Of each place one text, as /proc/PID/cgroup has it; how many. They last until the next update. */
size_t watched_cgroups_texts(const struct watched_cgroups *w, const char **ret, size_t most);
void watched_cgroups_free(struct watched_cgroups *w);

#define CGROUPS_MOST 16 /* that are told of at a time: their files are kept open */

/* A folder of the file system of cgroups. */
struct cgroup_place {
	char folder[PATH_MAX];
	size_t group; /* where the group's own path begins in it: "/job", "" of the root */
	bool is_v1;
};

/* Where a controller ("cpu", "memory"; NULL: version 2 whatever it has) has the group that such a
 * text names: of version 1 where the text names it there, else of version 2. The nearest above it
 * where the group itself is not there, as in a container. groups: "/sys/fs/cgroup". */
bool cgroup_place_find(struct cgroup_place *ret, const char *groups, const char *text,
		       const char *controller);
/* The group above it; false: it is the root. */
bool cgroup_place_up(struct cgroup_place *p);
/* Whether it is that of all processes of the host, and not merely the uppermost that a container
 * sees. */
bool cgroup_place_is_all(const struct cgroup_place *p);
/* "/job", "/" */
const char *cgroup_place_name(const struct cgroup_place *p);
