/* catalog.h - what can be traced: catalog files and --probe descriptions, parsed.
 *
 * Knows nothing of processes, ELF files or BPF: plan.h turns entries into places.
 * The file format and the description language are specified in docs/catalog.md. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/event.h"

/* What an argument is, as the user wrote it. */
struct cat_arg {
	char *name;             /* "size", "return" for the return value */
	uint8_t arg_type;       /* enum arg_type of recording/model.h: how it is stored and shown */
	struct arg_desc fetch;  /* how BPF gets it (layout is filled in by the plan) */
	bool is_vtable;         /* value is a C++ object: the class name by its vtable's symbol */
	bool is_name;           /* names the call: written 'name:type' or with key `named_by` */
};

/* How a return value tells an error. */
enum cat_error_rule { CAT_ERROR_NONE, CAT_ERROR_NONZERO, CAT_ERROR_NEGATIVE, CAT_ERROR_NULL };

/* How calls are named. */
enum cat_naming {
	CAT_NAME_LITERAL,  /* `name:` as given; {symbol} stands for the symbol's name */
	CAT_NAME_SYMBOL,   /* the symbol, demangled, without parameters */
	CAT_NAME_TORCH_OP, /* at::_ops::<op>::call -> aten::<op without overload> */
};

enum cat_cost { CAT_COST_LOW, CAT_COST_MEDIUM, CAT_COST_HIGH };

struct cat_entry {
	enum layer layer;
	char *id;                   /* unique in the catalog: "torch.operators" */
	VEC(char *) libraries;      /* globs on the file name of the library or executable */
	VEC(char *) symbols;        /* globs on the (mangled) symbol; for USDT "provider:name" */
	VEC(char *) exclude;        /* globs that take symbols out again */
	bool usdt;                  /* symbols are USDT probes */
	VEC(char *) end_symbols;    /* USDT pair: symbols begin, these end; else empty */
	char *unless;               /* id of an entry: use this one only where that found nothing */
	enum cat_naming naming;
	char *name;                 /* for CAT_NAME_LITERAL */
	bool instant;               /* entry only, no duration */
	bool python;                /* library is a Python interpreter: needs a py_layout */
	uint8_t nargs;              /* the return value included and last */
	bool has_return;
	enum cat_error_rule error;
	struct cat_arg args[MAX_ARGS];
	enum cat_cost cost;
	bool off_by_default;
	bool expected;              /* its absence from a matching library is worth a note */
	VEC(char *) verified;       /* versions, for people */
	char *about;                /* one sentence */
	char *origin;               /* "built-in:torch.yaml", "--probe", a file's path */
};

struct catalog {
	VEC(struct cat_entry) entries;
};

/* Adds the entries of YAML text. origin names it in errors: "FILE:LINE:COLUMN: key: what".
 * On error nothing is added. Input is bounded: 1 MiB, 4,096 entries. */
int catalog_parse(struct catalog *c, const char *text, size_t len, const char *origin,
		  struct err *e);

/* Adds a file, or every *.yaml of a folder in order of name (absent folder: 0). */
int catalog_load_file(struct catalog *c, const char *path, struct err *e);
int catalog_load_dir(struct catalog *c, const char *path, struct err *e);

/* Adds the built-in catalog. */
int catalog_load_builtin(struct catalog *c, struct err *e);

/* Adds one entry from 'LIB:SYMBOL(ARGS) -> TYPE' (--probe); layer "user". */
int catalog_add_spec(struct catalog *c, const char *spec, struct err *e);

/* Parses '(u64 handle, size bytes) -> int' into an entry's arguments. */
int catalog_parse_signature(struct cat_entry *entry, const char *sig, struct err *e);

/* The layer of a name; negative when there is none of that name. */
int layer_from_name(const char *name);
const char *layer_name(enum layer l);

void catalog_free(struct catalog *c);
