/* inside_impl.h - what the files share that write probes into processes: inside_places.c has what
 * is written, inside_write.c writes it into processes that are held while they map a library, and
 * inside_running.c into those that run. Internal to these. */
#pragma once

#include "probe/inside_write.h"
#include "wire/call_ring.h"

/* A file that a process had mapped when it was not held. */
struct late {
	pid_t pid;
	uint64_t inode;
	char *path;
	const char *why; /* what is said of it if it stays so */
};

struct insider {
	uint64_t sites, islands, entry, used, header, go,
		switches; /* the library's virtual addresses, */
	uint64_t islands_offset;
	uint64_t stack_offset;	      /* of the function where stacks are taken, in the file, */
	uint64_t text_offset;	      /* and where texts are read */
	const enum trace_mode *modes; /* of layers: the tracer's */
	char path[4096];
	struct map64 copies;	   /* hash of a mapped file: it is a copy of the library, or not */
	enum attach_method method; /* of these */
	int stack_program, text_program; /* -1: none */
	struct attach_links links;
	struct insider_stats stats;
	struct map64 told; /* hash of file and process: a note was made */
	struct map64 processes;
	VEC(pid_t) pids;	   /* these: all that there were */
	struct map64 telling;	   /* of those that are there */
	struct map64 outside;	   /* likewise: cannot tell, and the kernel does; of a command */
	struct map64 said_outside; /* inode: a note was made */
	VEC(pid_t) live;	   /* into which something was written, that are there */
	VEC(struct late) late;
};

/* One process. */
struct writing {
	struct insider *in;
	pid_t pid;
	int memory;
	uint64_t bias; /* of the library */
	uint32_t used; /* sites */
};

bool inside_peek(const struct writing *w, uint64_t address, void *ret, size_t len);
bool inside_poke(const struct writing *w, uint64_t address, const void *data, size_t len);

/* The process has mapped what switches stacks: calls that are told inside of it are to survive it.
 * Before that library runs, or before they are told. */
void inside_tell_switches(const struct writing *w);

/* Finds the library among the process's mappings, and how many of its sites are in use. */
bool inside_find_library(struct writing *w, const proc_maps_t *maps);

uint64_t inside_site_at(const struct writing *w, uint32_t i);
uint64_t inside_island_at(const struct writing *w, uint32_t i);

/* Places of which nothing is written yet. */
struct places {
	VEC(struct call_site) sites;
	VEC(uint8_t) islands;
	VEC(uint64_t) jumps; /* where they are written */
};
void places_free(struct places *p);
/* One more, which will be at the first free index. */
void places_add(const struct writing *w, struct places *p, const struct site *site,
		const struct plan *plan, uint64_t function);
/* What a place with this index has. */
struct call_site place_site(const struct writing *w, uint32_t i, const struct site *site,
			    const struct plan *plan, uint64_t function);
void place_island(const struct writing *w, uint32_t i, const struct inside *inside,
		  uint64_t function, uint8_t ret[CALL_ISLAND_BYTES]);
void place_jump(const struct writing *w, uint32_t i, uint64_t address,
		uint8_t ret[CALL_JUMP_BYTES]);
/* Sites and islands, which nobody runs yet. */
int places_write(struct writing *w, const struct places *p);

/* The address of a site's function in a mapping of its file; false: it is not in it. */
bool inside_in_mapping(const struct proc_map *m, const struct site *site, uint64_t *function);
/* As its file has it, but for the breakpoint of a uprobe in what is kept. */
bool inside_is_as_planned(const struct writing *w, const struct inside *inside, uint64_t function);
/* Whether a jump to one of our islands is there, and to which. */
bool inside_has_jump(const struct writing *w, uint64_t address, uint32_t *ret_island);

/* Notes. */
void inside_note(struct tracer *t, pid_t pid, const char *path, const char *why);
/* It tells its calls; something was written into it. */
void inside_add_process(struct insider *in, pid_t pid);
void inside_touched(struct insider *in, pid_t pid);
