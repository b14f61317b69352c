/* torch_abi.h - the part of PyTorch's interface that torch_ops.c uses.
 *
 * Signatures and layouts are those of ATen/record_function.h of PyTorch 1.13 to 2.11; the
 * declarations are our own. Symbols are looked up at run time. Names with all their types are in
 * the symbols, so what is not there by the same types is not found; what symbols do not tell,
 * layouts, torch_abi_find tries out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TORCH_SCOPE_FUNCTION, /* at::RecordScope: operators */
	TORCH_SCOPE_BACKWARD, /* nodes of backward passes */
};

struct torch_record; /* at::RecordFunction */

/* std::unique_ptr<ObserverContext> start(const RecordFunction &): the result is returned through
 * a hidden pointer, which is the return value. */
typedef void **(*torch_start_fn)(void **ret, const struct torch_record *record);
typedef void (*torch_end_fn)(const struct torch_record *record, void *context);

/* at::RecordFunctionCallback; what lies behind `probability` are a flag for each scope and three
 * more, all of one byte. The struct is passed in memory: a larger one does no harm. */
struct torch_callback {
	torch_start_fn start;
	torch_end_fn end; /* may be NULL */
	double probability;
	uint8_t scopes[104];
};
_Static_assert(offsetof(struct torch_callback, scopes) == 24, "at::RecordFunctionCallback");

struct torch_abi {
	void *library; /* to be closed at the end */
	uint64_t (*add_global)(struct torch_callback);
	void (*remove)(uint64_t handle);
	const char *(*name)(const struct torch_record *record);
	size_t sequence_offset; /* of a record's sequence number */
};

/* The interface of the PyTorch that the process has loaded. 1: it is there and as expected, 0:
 * no PyTorch is loaded (yet), -1: it is another, and *why says what. Tries it on the calling
 * thread, which must be one of ours. */
int torch_abi_find(struct torch_abi *ret, const char **why);

/* Whether the process has loaded PyTorch. */
bool torch_is_loaded(void);
