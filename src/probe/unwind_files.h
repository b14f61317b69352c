/* unwind_files.h - the mapped files whose rules the BPF unwinder has, or will have.
 *
 * Used by one thread. Internal to src/probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "probe/unwinder.h"
#include "symbolize/proc_maps.h"
#include "wire/unwind.h"

struct parser_host;
struct unwind_files;
struct unwind_file;

/* What the programs need to know of an interpreter; addresses are those of its file. */
struct unwind_python {
	uint64_t runtime;
	uint64_t eval[PY_EVAL_RANGES][2];
	uint32_t frames; /* numbers of the layouts in the BPF maps */
	uint32_t layout;
};

/* by_page: of tables that are large, rows of a page come once they are asked for. */
struct unwind_files *unwind_files_new(const struct unwinder_maps *maps,
				      const struct unwinder_listener *listener,
				      struct parser_host *host, bool by_page);
void unwind_files_free(struct unwind_files *fs);

/* The file of a mapping, with one more reference; NULL when it cannot be opened. Its rules
 * come with the next unwind_files_load. */
struct unwind_file *unwind_files_get(struct unwind_files *fs, pid_t pid, const struct proc_map *m);
void unwind_file_ref(struct unwind_file *f);
void unwind_file_unref(struct unwind_file *f);

/* Whether its rules are still to be compiled; from any thread that holds a reference. */
bool unwind_file_pending(const struct unwind_file *f);

/* Compiles the rules of one file whose are not there yet; true when there are more. */
bool unwind_files_load(struct unwind_files *fs);

/* The rows of a page of a table, with those beside it, and of an address in a file; they may be
 * there. */
void unwind_files_want(struct unwind_files *fs, uint32_t table, uint32_t page);
void unwind_files_want_at(struct unwind_files *fs, const struct unwind_file *f, uint64_t address);
/* Whether rows found no room within the last second, and none are looked for. */
bool unwind_files_are_full(const struct unwind_files *fs);

/* Takes back the rules of files that no process has mapped for a minute; looks at them no more
 * often than each ten seconds. Their numbers stay, as stacks name them: one that is mapped again
 * gets its rules again. */
void unwind_files_age(struct unwind_files *fs);

/* What the mapping adds to the file's addresses; false when the file has no such place. */
bool unwind_file_bias(struct unwind_file *f, const struct proc_map *m, uint64_t *ret);
uint32_t unwind_file_table(const struct unwind_file *f);
/* NULL when it holds no interpreter that is known here. */
const struct unwind_python *unwind_file_python(const struct unwind_file *f);

void unwind_files_stats(const struct unwind_files *fs, struct unwinder_stats *ret);
