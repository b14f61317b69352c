/* targets.h - which files the traced processes have mapped, as they were last looked at: a file is
 * given back when none has it any more. Internal to src/probe. */
#pragma once

#include <sys/types.h>

#include "base/map64.h"
#include "probe/files.h"
#include "symbolize/proc_maps.h"

typedef VEC(struct probed_file *) mapped_files_t;

struct targets {
	struct map64 by_pid; /* -> mapped_files_t * */
};

/* The process has these now; the list is taken. */
void targets_set(struct targets *ts, struct files *fs, pid_t pid, mapped_files_t *files);
/* A child has what its parent had; false where that is not known. */
bool targets_forked(struct targets *ts, struct files *fs, pid_t parent, pid_t child);
bool targets_has(const struct targets *ts, pid_t pid, const struct probed_file *f);
/* Whether one of its files has probes; false where it is not known. */
bool targets_probed(const struct targets *ts, pid_t pid);
bool targets_known(const struct targets *ts, pid_t pid);
/* Those that have ended, though it was not told; the caller's. */
void targets_ended_unseen(const struct targets *ts, pids_t *ret);
void targets_ended(struct targets *ts, struct files *fs, pid_t pid);
void targets_free(struct targets *ts);
