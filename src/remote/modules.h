/* modules.h - the libraries in a process, as its memory tells. Internal to this folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "remote/remote.h"
#include "symbolize/elf_file.h"
#include "symbolize/proc_maps.h"

/* Bytes behind a segment's end, in its last page. */
struct tail {
	uint64_t start; /* 0: there is none */
	uint64_t end;
};

struct module {
	const char *path; /* of the process; valid as long as maps */
	const char *name; /* behind its last slash */
	const struct proc_map *first;
	uint64_t bias; /* of its virtual addresses */
	struct tail code, data;
};

struct modules {
	pid_t pid;
	int memory; /* /proc/PID/mem */
	proc_maps_t maps;
	VEC(struct module) list;
};

int modules_read(struct modules *ret, pid_t pid, struct err *e);
void modules_free(struct modules *m);

/* Whether a library's file is called so: "libc.so" is libc.so.6 and libc-2.31.so. */
bool module_is(const struct module *m, const char *name);

bool modules_peek(const struct modules *m, uint64_t address, void *ret, size_t len);
bool modules_poke(const struct modules *m, uint64_t address, const void *data, size_t len);

/* The address of a function in the process, 0 when no module of these names has it. */
uint64_t modules_function(const struct modules *m, const char *const *libraries, size_t n,
			  const char *name);
