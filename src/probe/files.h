/* files.h - the mapped files of one tracing session: each inode is opened, planned and
 * probed once, whoever maps it. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map64.h"
#include "probe/attach.h"
#include "probe/plan.h"
#include "symbolize/proc_maps.h"

/* The sites of one layer in one file, those of calls that others can tell apart: what
 * is switched on and off together. */
struct site_group {
	enum layer layer;
	enum callback by_callback;
	VEC(struct site) sites;
	struct attach_links links;
	bool attached;
};

struct probed_file {
	uint64_t device;
	uint64_t inode;
	char *path; /* as the process that first mapped it sees it */
	int fd;	    /* kept open, so that the inode is not reused; -1 = could not be opened */
	char build_id[65];
	VEC(struct site_group) groups;
	VEC(struct entry_result) results;
	struct attach_links hooks; /* exception guard, dynamic linker */
	bool hooked;
	bool hides_unwinder; /* throws C++ exceptions with an unwinder that nobody can find */
	bool unguarded;	     /* has an unwinder that could not be hooked */
	bool planned;
};

struct files {
	VEC(struct probed_file *) list;
	struct map64 by_inode; /* hash of device and inode -> index + 1 */
};

struct probed_file *files_find(const struct files *fs, uint64_t device, uint64_t inode);
struct probed_file *files_add(struct files *fs, uint64_t device, uint64_t inode, const char *path);
/* Makes another device and inode number name a known file. */
void files_alias(struct files *fs, uint64_t device, uint64_t inode, const struct probed_file *f);
void files_free(struct files *fs);
