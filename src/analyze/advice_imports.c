/* advice_imports.c - the library whose import took longest of those that nothing was seen to use:
 * outside of imports no sample of any thread has a function of its files.
 *
 * What it imports in turn counts as its own, unless that was used: others would import it then. */
#include <stdio.h>
#include <string.h>

#include "analyze/advice_impl.h"
#include "analyze/account_impl.h"
#include "analyze/profile.h"

#define NAME_BYTES sizeof(((struct advice_import *)0)->package)

struct packages {
	const struct rec_tables *t;
	const struct account_thread *main;
	uint32_t *of;	   /* string of a file -> its package + 1; 0 none */
	VEC(char *) names; /* of packages */
	struct map64 by_name;
	uint8_t *importing;    /* by stack: 0 not looked at, 1 no, 2 yes */
	bool *used;	       /* by package */
	struct place_sums *at; /* likewise: where its import took how long */
};

/* "torchvision" of "/usr/lib/python3/dist-packages/torchvision/io/image.py", "" of other files. */
static void package_name(char ret[static NAME_BYTES], const char *file)
{
	static const char *const roots[] = {"/site-packages/", "/dist-packages/", "/lib/python3."};
	const char *at = NULL;
	*ret = 0;
	for (size_t i = 0; !at && i < sizeof(roots) / sizeof(roots[0]); i++) {
		at = strstr(file, roots[i]);
		at = at ? at + strlen(roots[i]) : NULL;
		if (at && i == 2) /* the version comes first */
			at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL;
	}
	size_t n = at ? strcspn(at, "/") : 0;
	if (n > 3 && !strncmp(at + n - 3, ".py", 3))
		n -= 3;
	if (n && n < NAME_BYTES) {
		memcpy(ret, at, n);
		ret[n] = 0;
	}
}

static uint32_t package_of(struct packages *p, uint32_t file)
{
	char name[NAME_BYTES];
	uint64_t at;
	if (p->of[file])
		return p->of[file] - 1;
	package_name(name, strtab_get(&p->t->strings, file, NULL));
	if (!map64_get(&p->by_name, hash_bytes(name, strlen(name)), &at)) {
		at = p->names.len;
		map64_set(&p->by_name, hash_bytes(name, strlen(name)), at);
		*vec_push(&p->names) = xstrdup(name);
	}
	p->of[file] = (uint32_t)at + 1;
	return (uint32_t)at;
}

static const struct m_frame *frame_of(const struct packages *p, uint32_t stack)
{
	return &p->t->frames.data[p->t->stacks.data[stack].frame];
}

static bool has_import(const struct packages *p, uint32_t stack)
{
	for (; stack; stack = p->t->stacks.data[stack].parent) {
		const struct m_frame *f = frame_of(p, stack);
		if (f->kind == FRAME_PYTHON &&
		    !strncmp(strtab_get(&p->t->strings, f->file, NULL), "<frozen importlib", 17))
			return true;
	}
	return false;
}

static bool imports(struct packages *p, uint32_t stack)
{
	if (!p->importing[stack])
		p->importing[stack] = has_import(p, stack) ? 2 : 1;
	return p->importing[stack] == 2;
}

static void find_used(void *ctx, const struct visited_rows *rows)
{
	struct packages *p = ctx;
	const struct m_sample *samples = rows->rows;
	for (size_t i = 0; i < rows->len; i++) {
		uint32_t stack = samples[i].stack;
		if (p->importing[stack] || imports(p, stack)) /* many have the same */
			continue;
		for (; stack; stack = p->t->stacks.data[stack].parent) {
			const struct m_frame *f = frame_of(p, stack);
			uint32_t file = f->kind == FRAME_PYTHON ? f->file : f->library;
			if (f->kind == FRAME_PYTHON || f->kind == FRAME_NATIVE)
				p->used[package_of(p, file)] = true;
		}
	}
}

/* Whose import a line of the job's own waits for, and that line; false: some package of those that
 * are being imported is used, or there is no such line. */
static bool find_line(struct packages *p, uint32_t stack, uint32_t *ret_package,
		      uint32_t *ret_frame)
{
	bool found = false;
	for (; stack; stack = p->t->stacks.data[stack].parent) {
		const struct m_frame *f = frame_of(p, stack);
		const char *file = strtab_get(&p->t->strings, f->file, NULL);
		if (f->kind != FRAME_PYTHON || !strncmp(file, "<frozen ", 8))
			continue;
		if (!profile_is_library(file)) {
			*ret_frame = p->t->stacks.data[stack].frame;
			return found && f->line;
		}
		*ret_package = package_of(p, f->file);
		found = true;
		if (p->used[*ret_package])
			return false;
	}
	return false;
}

static void add_imports(void *ctx, const struct visited_rows *rows)
{
	struct packages *p = ctx;
	const struct m_sample *samples = rows->rows;
	uint32_t package, frame;
	for (size_t i = 0; i < rows->len; i++)
		if (samples[i].kind == SAMPLE_CPU && samples[i].thread == p->main->thread &&
		    imports(p, samples[i].stack) &&
		    find_line(p, samples[i].stack, &package, &frame) && *p->names.data[package])
			place_add(&p->at[package], frame, (double)samples[i].weight_ns);
}

/* Packages are known before samples are read by them. */
static void name_all(struct packages *p)
{
	for (size_t i = 0; i < p->t->frames.len; i++) {
		const struct m_frame *f = &p->t->frames.data[i];
		package_of(p, f->file);
		package_of(p, f->library);
	}
	p->used = xcalloc(p->names.len + 1, sizeof(*p->used));
	p->at = xcalloc(p->names.len + 1, sizeof(*p->at));
}

void advice_find_import(struct advice_import *ret, const struct row_source *s,
			const struct account_thread *main)
{
	struct packages p = {.t = s->tables, .main = main};
	double ready = (double)main->ns[ACCOUNT_RUNNABLE], run = (double)main->run_ns;
	p.of = xcalloc(strtab_len(&s->tables->strings) + 1, sizeof(*p.of));
	p.importing = xcalloc(s->tables->stacks.len + 1, sizeof(*p.importing));
	name_all(&p);
	rows_read(s, ROW_SAMPLE, find_used, &p);
	rows_read(s, ROW_SAMPLE, add_imports, &p);
	for (size_t i = 0; i < p.names.len; i++) {
		struct advice_place at = place_most(&p.at[i], p.t);
		if (at.ns > ret->at.ns) {
			ret->at = at;
			snprintf(ret->package, NAME_BYTES, "%s", p.names.data[i]);
		}
		place_free(&p.at[i]);
		free(p.names.data[i]);
	}
	ret->at.ns *= run > 0 ? 1 + ready / run : 1; /* it had no CPU then as often as else */
	map64_free(&p.by_name);
	vec_free(&p.names);
	free(p.of);
	free(p.importing);
	free(p.used);
	free(p.at);
}
