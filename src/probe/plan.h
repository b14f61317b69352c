/* plan.h - which places of one ELF file the catalog asks to probe, and what each is called.
 *
 * Reads files only: touches neither processes nor BPF, so that `eacgm probes` and tests
 * can run it without root. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "probe/catalog.h"
#include "probe/inside.h"
#include "symbolize/elf_file.h"
#include "symbolize/insn.h"
#include "wire/event.h"

/* Who else can tell a call. */
enum callback {
	CALLBACK_NONE,
	CALLBACK_TORCH, /* PyTorch: operators, nodes of backward passes */
	CALLBACK_CUPTI, /* CUPTI's callbacks: launches */
};

/* One traced function: what the recording calls a probe. */
struct probe_info {
	uint32_t id; /* dense; index of the BPF probe_desc */
	const struct cat_entry *entry;
	char *name;    /* "aten::linear" */
	char *symbol;  /* as in the file; "provider:name" for USDT */
	char *library; /* path as the process sees it */
	struct probe_desc desc;
	uint8_t arg_order[MAX_ARGS]; /* entry->args index of each recorded argument */
	int8_t name_arg;	     /* recorded argument that names the call, or -1 */
	enum callback by_callback;   /* who can tell these calls too: see mark_callbacks */
};

/* One place to attach at. */
struct site {
	uint64_t offset;    /* file offset */
	uint64_t semaphore; /* file offset of the USDT semaphore, 0 = none */
	uint64_t cookie;
	uint32_t probe; /* probe_info id */
	enum layer layer;
	enum site_action action;
	enum insn_cost cost;
	struct inside inside; /* where the plan asks for it */
};

/* What became of one catalog entry in one file. */
struct entry_result {
	const struct cat_entry *entry;
	uint32_t sites;
	uint32_t by_cost[4]; /* indexed by enum insn_cost */
	uint32_t refused;    /* matched, but cannot be probed */
	bool not_needed;     /* another entry does its job (`unless`) */
	bool off;	     /* not asked for */
	uint32_t inside;     /* sites that a probe inside the process can have */
	char outside[80];    /* why the first of the others cannot; "" = all can */
	char reason[160];    /* why sites is 0 or something was refused; "" when all is well */
};

struct file_plan {
	VEC(struct site) sites;
	VEC(struct entry_result) results; /* one for each entry whose library matches */
};

/* Probe numbers and Python layouts, shared by all files of one tracing session. */
struct plan {
	const struct catalog *catalog;
	uint32_t layers;  /* bit per enum layer: which to plan */
	bool frequent;	  /* also those of high cost */
	bool all_entries; /* also those that are off by default */
	bool stacks;	  /* calls have their stacks taken, as the entries say */
	bool allocators;  /* also entries of allocators above the driver's (role torch_*) */
	bool callers; /* who asks for device memory is told, in every mode (role alloc_caller) */
	bool inside;  /* places are looked at for probes inside the process too */
	VEC(struct probe_info) probes;
	VEC(struct py_layout) layouts;
};

/* True when an entry that is asked for, or off, is about files of this name. */
bool plan_entry_wants(const struct plan *p, const struct cat_entry *en, const char *path);
/* True when an entry wants something of a file of this name. */
bool plan_wants(const struct plan *p, const char *path);
/* The names of libraries that a catalog asks for, each once: a catalog has hundreds of entries for
 * a few names, and a process hundreds of files that none of them is about. Texts are the catalog's.
 */
struct library_names {
	VEC(const char *) globs;
};
void library_names_add(struct library_names *names, const struct catalog *c);
bool library_names_match(const struct library_names *names, const char *path);
void library_names_free(struct library_names *names);

/* Adds the bytes of all that plan_file depends on but for the file itself. names: of the plan's
 * catalog. */
void plan_question(const struct plan *p, const struct library_names *names, const char *path,
		   struct buf *ret);

/* Plans the file; path is what the process sees and is matched and shown. New probes
 * are appended to p->probes. Fails only when MAX_PROBES is reached. */
int plan_file(struct plan *p, const struct elf_file *f, const char *path, struct file_plan *ret,
	      struct err *e);
void file_plan_free(struct file_plan *fp);
/* What a place of a probe hands to the programs. */
uint64_t plan_cookie(const struct probe_info *info, enum site_action action, enum insn_cost cost);
void plan_free(struct plan *p);
