/* catalog_impl.h - what the files that make up the catalog share; not for others. */
#pragma once

#include "probe/catalog.h"

#define CATALOG_MAX_BYTES   (1024 * 1024)
#define CATALOG_MAX_ENTRIES 4096
#define CATALOG_MAX_ENUMS   8192	/* named values */
#define CATALOG_MAX_LIST    256		/* patterns of one list */
#define CATALOG_MAX_TEXT    2048	/* bytes of one string */
#define CATALOG_BUILTIN	    "built-in:" /* before the name of such a file */
#define CATALOG_MAX_STARS   8		/* '*' of one glob: matching is exponential in them */

/* A built-in file, embedded by catalog/embed.py. */
struct catalog_builtin {
	const char *name; /* "torch.yaml" */
	const unsigned char *text;
	size_t len;
};
extern const struct catalog_builtin catalog_builtins[];
extern const size_t catalog_builtins_len;

/* Parses '(u64 handle, size bytes) -> int' into an entry's arguments, in place of those it had.
 * *ret_pos is the position of what is wrong, from 0. */
int cat_signature_parse(struct cat_entry *entry, const char *sig, size_t *ret_pos, struct err *e);

/* True when an argument of the type can name a call. */
bool cat_arg_can_name(const struct cat_arg *arg);

/* Checks one pattern: a glob on library files, on symbols, on USDT "provider:name". */
int cat_check_library(const char *glob, struct err *e);
int cat_check_symbol(const char *glob, struct err *e);
int cat_check_usdt(const char *glob, struct err *e);

/* Checks what concerns several keys of an entry; *ret_key is the key to blame. */
int cat_check_entry(const struct cat_entry *entry, const char **ret_key, struct err *e);

/* True when the text holds no control character. */
bool cat_text_clean(const char *s, size_t len);

/* Adds a word to a list for a sentence, as far as there is room. */
void cat_add_word(char *words, size_t size, const char *word);

/* Adds a copy of n bytes of s. */
void cat_list_add(struct cat_list *l, const char *s, size_t n);
void cat_entry_free(struct cat_entry *entry);
void cat_args_free(struct cat_entry *entry); /* frees what the arguments own */

/* How much a catalog holds; what came after a mark can be taken out again. */
struct cat_mark {
	size_t entries;
	size_t enums;
	size_t layers;
};
struct cat_mark cat_mark(const struct catalog *c);
void cat_truncate(struct catalog *c, struct cat_mark mark);
