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
#include "base/layer.h"
#include "wire/event.h"

/* How an argument's value is stored and shown. The numbers are those of enum arg_type in
 * events/rows.h, which this folder may not include; signature_test.c compares them. */
enum cat_arg_type {
	CAT_TYPE_U64,
	CAT_TYPE_I64,
	CAT_TYPE_PTR,
	CAT_TYPE_BYTES,
	CAT_TYPE_BOOL,
	CAT_TYPE_STRING,
	CAT_TYPE_CODE,
	CAT_TYPE_DIM3,
	CAT_TYPE_SHAPE,
};

/* What an argument is, as the user wrote it. */
struct cat_arg {
	char *name;	       /* "size", "return" for the return value */
	uint8_t arg_type;      /* enum cat_arg_type */
	struct arg_desc fetch; /* how BPF gets it (layout is filled in by the plan) */
	bool is_vtable;	       /* value is a C++ object: the class name by its vtable's symbol */
	bool is_kernel;	       /* value is a CUDA kernel's handle: its name is shown */
	bool of_tensor;	       /* a field of PyTorch's TensorImpl: the plan knows its offset */
	char *enum_type;       /* enumeration that names its values, "CUresult"; or NULL */
	bool is_name;	       /* names the call: written 'name:type' or with key `named_by` */
};

/* How a return value tells an error. */
enum cat_error_rule { CAT_ERROR_NONE, CAT_ERROR_NONZERO, CAT_ERROR_NEGATIVE, CAT_ERROR_NULL };

/* How calls are named. */
enum cat_naming {
	CAT_NAME_LITERAL,  /* `name:` as given; {symbol} stands for the symbol's name, {name} for
			    * the argument that names the call */
	CAT_NAME_SYMBOL,   /* the symbol, demangled, without parameters */
	CAT_NAME_TORCH_OP, /* at::_ops::<op>::call -> aten::<op without overload> */
};

/* Owned strings; works with the vec_* macros. */
struct cat_list {
	char **data;
	size_t len;
	size_t cap;
};

enum cat_cost { CAT_COST_LOW, CAT_COST_MEDIUM, CAT_COST_HIGH };

/* Factors of "bytes": names of arguments, or numbers. */
#define CAT_FACTORS 3

struct cat_entry {
	enum layer layer;	     /* from LAYER_NAMED on: its name is the catalog's */
	char *id;		     /* unique in the catalog: "torch.operators" */
	struct cat_list libraries;   /* globs on the file name; one with a leading / on the path */
	struct cat_list symbols;     /* globs on the (mangled) symbol; for USDT "provider:name" */
	struct cat_list exclude;     /* globs that take symbols out again */
	bool usdt;		     /* symbols are USDT probes; those have no arguments here */
	struct cat_list end_symbols; /* USDT pair: symbols begin, these end; else empty */
	char *unless;		     /* id of an earlier entry: use this one only in a library where
				      * that found nothing; one passed over for its own `unless`
				      * counts as found */
	enum cat_naming naming;
	char *name;    /* for CAT_NAME_LITERAL */
	bool instant;  /* entry only, no duration */
	bool python;   /* only in a file that defines a CPython interpreter; needed
			* for arguments that need a py_layout */
	uint8_t nargs; /* the return value included and last */
	bool has_return;
	bool variadic; /* it takes more arguments than these */
	enum cat_error_rule error;
	bool has_except; /* error_except is no error */
	int32_t error_except;
	char *role;		    /* what the call is to the analyses, "launch"; or NULL */
	char *factors[CAT_FACTORS]; /* "bytes" is the product of these; NULL = no more */
	struct cat_arg args[MAX_ARGS];
	enum cat_cost cost;
	uint32_t stack_every; /* one call in so many, by chance, has its stack taken; 0 = none */
	bool off_by_default;
	bool expected;		  /* its absence from a matching library is worth a note */
	struct cat_list verified; /* versions, for people */
	char *about;		  /* one sentence */
	char *origin;		  /* "built-in:torch.yaml", "--probe", a file's path */
};

/* A named value of an enumeration. */
struct cat_enum {
	char *type; /* "ncclDataType_t" */
	char *name; /* "ncclFloat16" */
	int64_t value;
	uint32_t bytes; /* size of what the value stands for, 0 = none */
};

struct catalog {
	VEC(struct cat_entry) entries;
	VEC(struct cat_enum) enums;
	struct cat_list layers; /* that no table but a file names: from LAYER_NAMED on */
	uint64_t files_sum;	/* a hash of the content of files */
};

/* Adds the entries of YAML text. origin names it in errors: "FILE:LINE:COLUMN: key: what".
 * On error nothing is added. Input is bounded: 1 MiB, 4,096 entries. */
int catalog_parse(struct catalog *c, const char *text, size_t len, const char *origin,
		  struct err *e);

/* Adds a file, or every *.yaml and *.yml of a folder in order of name (absent folder: 0).
 * On error nothing is added. */
int catalog_load_file(struct catalog *c, const char *path, struct err *e);
int catalog_load_dir(struct catalog *c, const char *path, struct err *e);

/* Adds the built-in catalog. */
int catalog_load_builtin(struct catalog *c, struct err *e);

/* Adds one entry from 'LIB:SYMBOL(ARGS) -> TYPE' (--probe); layer "user". */
int catalog_add_spec(struct catalog *c, const char *spec, struct err *e);

/* The number of a layer that --layers may name, one of the table or of a file; -ENOENT. */
int catalog_layer(const struct catalog *c, const char *name);
const char *catalog_layer_name(const struct catalog *c, enum layer layer);

/* True of what the user describes, in a layer of his own: what of it was not found is told. */
bool cat_entry_is_users(const struct cat_entry *entry);

/* The entry of an id, or NULL. Valid until the catalog changes. */
const struct cat_entry *catalog_find(const struct catalog *c, const char *id);

/* Takes the entry of an id out, where there is one. */
void catalog_leave_out(struct catalog *c, const char *id);

void catalog_free(struct catalog *c);
