/* unwind_facts.c - both ends of the unwinder's questions about a file. */
#include "probe/unwind_facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "symbolize/cpython.h"
#include "symbolize/cpython_frames.h"
#include "symbolize/unwind_cache.h"

/* ---- in the worker ---- */

static bool find_layouts(const struct elf_file *elf, const char *path,
			 const struct elf_symbol *runtime, struct py_frames *frames,
			 struct py_layout *layout)
{
	struct err e;
	uint32_t version;
	if (cpython_version(elf, path, &version, &e))
		return false;
	/* the interpreter's own account, where it gives one (3.13) */
	for (size_t len = 2048; len >= 512; len /= 2) {
		const void *image = elf_file_bytes(elf, runtime->address, len);
		if (image && !cpython_frames_from_offsets(image, len, frames, &e) &&
		    !cpython_layout_from_offsets(image, len, layout, &e))
			return true;
	}
	return !cpython_frames(version, frames, &e) && !cpython_layout(version, layout, &e);
}

static void find_python(const struct elf_file *elf, const char *path, struct unwind_facts *f)
{
	struct elf_symbol runtime;
	if (!cpython_present(elf) || !elf_file_find(elf, "_PyRuntime", &runtime) ||
	    !find_layouts(elf, path, &runtime, &f->frames, &f->layout))
		return;
	f->runtime = runtime.address;
	f->is_python = cpython_eval_ranges(elf, f->eval, PY_EVAL_RANGES) > 0;
}

void unwind_facts_of(const struct elf_file *elf, const char *path, struct unwind_facts *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->segments = *elf_file_segments(elf);
	snprintf(ret->build_id, sizeof(ret->build_id), "%s", elf_file_build_id(elf));
	ret->sum = unwind_cache_sum(elf);
	find_python(elf, path, ret);
}

int unwind_facts_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			struct err *e)
{
	const char *path = (const char *)question; /* a zero follows */
	struct unwind_facts facts;
	struct elf_file *elf;
	(void)ctx, (void)len;
	int rc = elf_file_open_fd(&elf, fd, path, 0, e);
	if (rc)
		return rc;
	unwind_facts_of(elf, path, &facts);
	buf_add(ret, &facts, sizeof(facts));
	elf_file_close(elf);
	return 0;
}

int unwind_table_answer(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			struct err *e)
{
	struct unwind_table table = {0};
	struct elf_file *elf;
	(void)ctx, (void)len;
	int rc = elf_file_open_fd(&elf, fd, (const char *)question, 0, e);
	if (rc)
		return rc;
	rc = unwind_table_build(elf, &table, NULL, e);
	if (!rc && elf_file_changed(elf))
		rc = err_set(e, ESTALE, "it was written to meanwhile");
	else if (!rc)
		buf_add(ret, table.words, table.len * sizeof(*table.words));
	unwind_table_free(&table);
	elf_file_close(elf);
	return rc;
}

/* ---- in the tracer ---- */

#define NO_SENSE "what was read of it makes no sense"

int unwind_facts_take(struct unwind_facts *ret, const struct buf *answer, struct err *e)
{
	struct unwind_facts f;
	if (answer->len != sizeof(f))
		return err_set(e, EPROTO, NO_SENSE);
	memcpy(&f, answer->data, sizeof(f));
	if (f.segments.n > ELF_MAX_SEGMENTS || !memchr(f.build_id, 0, sizeof(f.build_id)))
		return err_set(e, EPROTO, NO_SENSE);
	uint8_t is_python;
	memcpy(&is_python, &f.is_python, sizeof(is_python)); /* a stranger's bool may be any byte */
	f.is_python = is_python != 0;
	*ret = f;
	return 0;
}

int unwind_table_take(struct unwind_table *ret, const struct buf *answer, struct err *e)
{
	struct unwind_table t = {.len = answer->len / sizeof(*t.words)};
	if (!t.len || answer->len % sizeof(*t.words))
		return err_set(e, EPROTO, NO_SENSE);
	t.words = xrealloc(NULL, t.len, sizeof(*t.words));
	memcpy(t.words, answer->data, answer->len);
	if (unwind_table_check(t.words, t.len, NULL) < 0) {
		unwind_table_free(&t);
		return err_set(e, EPROTO, NO_SENSE);
	}
	*ret = t;
	return 0;
}
