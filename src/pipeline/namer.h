/* namer.h - names in files, from processes without rights that read them (src/parser). Internal to
 * src/pipeline.
 *
 * Files of one owner are read by one process: one that a file has taken over lies about files of
 * its own owner at most. A file over which it dies or falls silent has no names from then on, and a
 * note says so; an owner of several such files has none in any file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "pipeline/pipeline.h"
#include "symbolize/cpython_frames.h"
#include "symbolize/elf_file.h"
#include "symbolize/nccl_layout.h"

#define NAMER_BATCH 1024 /* places in one question */

/* A file that can be asked about. */
struct named_file {
	uint32_t handle;     /* 0: it cannot be */
	int fd;		     /* -1: the vDSO, or it rests */
	uint32_t vdso_bytes; /* of the vDSO */
	uid_t owner;
	uint64_t size_bytes, written_ns; /* as it was when it was opened */
	char *path;			 /* for notes */
};

struct namer_facts {
	struct elf_segments segments;
	char build_id[129];
	uint8_t has_symtab;
	uint8_t has_py_lines;
	uint32_t py_version; /* of the interpreter in it, 0 = none */
	struct py_lines_layout py_lines;
	struct nccl_layout nccl; /* zeros where it is not NCCL */
};

struct namer *namer_new(const struct parser_service *readers);
void namer_free(struct namer *n);

/* Takes the descriptor over, whatever comes of it. -1 with vdso_bytes: the vDSO. */
int namer_open(struct pipeline *p, int fd, uint32_t vdso_bytes, const char *path,
	       struct named_file *ret, struct namer_facts *ret_facts, struct err *e);
void namer_close(struct named_file *f);
/* Files that cannot be asked about for a while: nobody has them open until they are woken. Those
 * that rest, the vDSO and closed ones stay as they are. */
void namer_rest(struct pipeline *p, struct named_file *const *files, size_t n);
bool namer_is_open(const struct named_file *f); /* of this host's files, and awake */
bool namer_rests(const struct named_file *f);
/* By a descriptor of the file in the same state, which is taken over; closed where it does not
 * rest. */
void namer_wake(struct named_file *f, int fd);

enum namer_form { NAMER_FUNCTIONS, NAMER_CLASSES /* of vtables */ };

/* Calls name for each address at most NAMER_BATCH that has one. -ESTALE: the file was written to,
 * and has none. */
int namer_names(struct pipeline *p, struct named_file *f, enum namer_form form,
		const uint64_t *addresses, size_t n,
		void (*name)(void *ctx, size_t i, const char *text), void *ctx);

/* Of code that a process of that user made, from what it wrote for perf (jit_names.h); addresses in
 * rising order. */
int namer_jit_names(struct pipeline *p, uid_t user, int fd, const uint64_t *addresses, size_t n,
		    void (*name)(void *ctx, size_t i, const char *text), void *ctx);

/* What a process calls a kernel, readable; malloc'ed. As it is where that does not come about. */
char *namer_demangle(struct pipeline *p, uint32_t tgid, const char *symbol);

/* ---- between namer.c and namer_worker.c ---- */

/* PIPELINE_OPS of them */
enum namer_op { NAMER_OPEN, NAMER_NAMES, NAMER_DEMANGLE, NAMER_JIT, NAMER_REST };

/* Of NAMER_REST: handles alone, and no answer. Of others: then the path (NAMER_OPEN), or addresses
 * (NAMER_NAMES); the answer is the facts, or names that each end with a zero. */
struct namer_question {
	uint32_t handle;
	uint32_t vdso_bytes;
	uint8_t written; /* since it was opened: what there is now is not what was mapped */
	uint8_t form;
	uint8_t unused[6];
};
