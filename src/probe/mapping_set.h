/* mapping_set.h - one state of the code that a process has mapped, as it was published to BPF, and
 * the files in it. Used by the unwinder's thread. Internal to src/probe. */
#pragma once

#include "base/buffer.h"
#include "probe/unwind_files.h"
#include "symbolize/proc_maps.h"

/* A mapping, and the file that it was found to be; NULL = none, or it cannot be opened. */
struct mapped_code {
	struct proc_map map; /* without its name */
	struct unwind_file *file;
};

/* Forked children share their parent's. */
struct mapping_set {
	uint32_t owner;
	uint32_t generation;
	uint32_t blocks;
	uint32_t refs;
	uint64_t unused_ns;	      /* since when nobody refers to it */
	VEC(struct mapped_code) maps; /* by address */
};

/* file: its reference is the set's from now on; may be NULL. */
void mapping_set_add(struct mapping_set *s, const struct proc_map *m, struct unwind_file *file);
void mapping_set_free(struct mapping_set *s);

/* Whether it holds these mappings and no others, and found the file of each. */
bool mapping_set_is(const struct mapping_set *s, const proc_maps_t *maps);

/* The file of a mapping that was in the set (NULL = no set), without a new reference; or NULL. */
struct unwind_file *mapping_set_file(const struct mapping_set *s, const struct proc_map *m);

/* The mapping that an address lies in, or NULL. */
const struct mapped_code *mapping_set_at(const struct mapping_set *s, uint64_t address);

/* Whether rules of its files are still to be compiled; from any thread, while the set stays. */
bool mapping_set_pending(const struct mapping_set *s);
