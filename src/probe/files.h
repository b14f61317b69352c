/* files.h - the mapped files of one tracing session: each inode is opened, read and probed once,
 * whoever maps it, and given back when nobody has mapped it for long. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map64.h"
#include "probe/attach.h"
#include "probe/file_facts.h"
#include "probe/plan.h"
#include "symbolize/proc_maps.h"

/* The sites of one layer in one file, those of calls that others can tell apart: what
 * is switched on and off together. */
struct site_group {
	enum layer layer;
	enum callback by_callback;
	bool inside;	/* processes have them in their own code: nothing is attached, */
	bool outside;	/* but where one that is traced has not */
	bool moments;	/* apart from the others where there is a budget: shedding.c */
	bool in_bursts; /* likewise: attached while bursts are on */
	VEC(struct site) sites;
	struct attach_links links;
	bool attached;
};

/* In this order; a file that cannot be used ends as FILE_REFUSED. */
enum file_state {
	FILE_NEW,
	FILE_ASKED,  /* it waits to be read, or is being read */
	FILE_READ,   /* its facts are there */
	FILE_HOOKED, /* exceptions can be prepared for, its linker tells */
	FILE_PROBED,
	FILE_REFUSED,
};

struct probed_file {
	uint64_t device; /* as in /proc/PID/maps */
	uint64_t inode;
	char *path; /* as the process that first mapped it sees it */
	int fd;	    /* kept open, so that the inode is not reused; -1 = could not be opened */
	uid_t owner;
	uint32_t number; /* from 1, below 2^31: as an owner of links in the guard */
	enum file_state state;
	struct file_facts facts; /* from FILE_READ on */
	bool unreadable;	 /* what is in it is not known: it may hide an unwinder */
	bool unguarded;		 /* has an unwinder that could not be hooked */
	bool known;		 /* in known_files of bpf/state.h */
	bool expected;		 /* nobody who is traced has mapped it yet (expected.h) */
	char reason[160];	 /* why it was refused */
	VEC(struct site_group) groups;
	uint64_t outside_ns; /* when a process that cannot tell its calls had it mapped last */
	size_t places;	     /* that are probed; from FILE_PROBED on */
	struct attach_links hooks; /* exception guard, dynamic linker */
	VEC(uint64_t) keys;	   /* under which it is found */
	uint32_t users;		   /* processes that have it mapped, and scans */
	uint64_t unused;	   /* when it had its last user, in the order of such events, */
	uint64_t unused_ns;	   /* and by CLOCK_MONOTONIC */
};

struct files {
	VEC(struct probed_file *) list;
	struct map64 by_inode; /* hash of device and inode -> struct probed_file * */
	size_t unused;	       /* how many have no users */
	uint64_t events;
	uint32_t added;
	struct closing *closing; /* since files_detach */
};

struct probed_file *files_find(const struct files *fs, uint64_t device, uint64_t inode);
struct probed_file *files_add(struct files *fs, uint64_t device, uint64_t inode, const char *path);
/* Makes another device and inode number name a known file. */
void files_alias(struct files *fs, uint64_t device, uint64_t inode, struct probed_file *f);

/* Whether something of the catalog is in the file: whoever maps it can make traced calls, told by
 * the kernel or inside of it. False until the file was read. */
bool files_has_probes(const struct probed_file *f);

void files_use(struct files *fs, struct probed_file *f);
void files_unuse(struct files *fs, struct probed_file *f);
/* The end of a use that is none of a process: it does not count for when it was used last. */
void files_unpin(struct files *fs, struct probed_file *f);

/* The file that nobody has used for longest, where there are too many of those; else NULL. Files
 * that exceptions are prepared in stay. */
struct probed_file *files_surplus(const struct files *fs);
/* Whether nobody has used it since before that time, nor waits for it. */
bool files_is_unused(const struct probed_file *f, uint64_t before_ns);
/* Whether no entry of the catalog is looked for in it, nor an unwinder or linker is. */
bool files_is_plain(const struct probed_file *f);
/* Forgets a file. Its links must have been taken. */
void files_remove(struct files *fs, struct probed_file *f);

/* Begins to take off what is attached now, all at once: no process that is traced lives. */
void files_detach(struct files *fs);
/* Takes everything off, spans before hooks, and frees. */
void files_free(struct files *fs);
