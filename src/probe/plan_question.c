/* plan_question.c - all that a plan asks of a file, as bytes: two plans whose bytes are the same
 * are told the same of the same file. Numbers of probes and layouts made so far are no part of it:
 * an answer has its own (file_facts.c). */
#include "probe/plan.h"

static void add_number(struct buf *b, uint64_t v)
{
	buf_add(b, &v, sizeof(v));
}

/* With its length, so that no two lists of texts look the same. */
static void add_text(struct buf *b, const char *text)
{
	add_number(b, text ? strlen(text) : UINT64_MAX);
	buf_add(b, text, text ? strlen(text) : 0);
}

static void add_list(struct buf *b, const struct cat_list *l)
{
	add_number(b, l->len);
	for (size_t i = 0; i < l->len; i++)
		add_text(b, l->data[i]);
}

static void add_arg(struct buf *b, const struct cat_arg *a)
{
	const struct arg_desc *f = &a->fetch;
	const uint64_t numbers[] = {
		a->arg_type,
		a->is_vtable,
		a->is_kernel,
		a->of_tensor,
		a->is_name,
		f->source,
		f->index,
		f->fetch,
		f->size,
		f->is_signed,
		f->nderef,
		f->at_return,
		f->layout,
		(uint64_t)f->deref[0],
		(uint64_t)f->deref[1],
		(uint64_t)f->deref[2],
	};
	add_text(b, a->name);
	add_text(b, a->enum_type);
	buf_add(b, numbers, sizeof(numbers));
}

/* All but what is for people: about, verified, origin. */
static void add_entry(struct buf *b, const struct cat_entry *en)
{
	const uint64_t numbers[] = {
		en->layer,	    en->usdt,
		en->naming,	    en->instant,
		en->python,	    en->nargs,
		en->has_return,	    en->error,
		en->has_except,	    (uint64_t)en->error_except,
		en->cost,	    en->stack_every,
		en->off_by_default, en->expected,
		en->variadic,
	};
	buf_add(b, numbers, sizeof(numbers));
	add_text(b, en->id);
	add_text(b, en->unless);
	add_text(b, en->name);
	add_text(b, en->role);
	add_list(b, &en->libraries);
	add_list(b, &en->symbols);
	add_list(b, &en->exclude);
	add_list(b, &en->end_symbols);
	for (int i = 0; i < CAT_FACTORS; i++)
		add_text(b, en->factors[i]);
	for (int i = 0; i < en->nargs; i++)
		add_arg(b, &en->args[i]);
}

/* A field that is new belongs above, or an answer to another question is believed. */
_Static_assert(sizeof(struct cat_entry) == 704, "struct cat_entry has changed");
_Static_assert(sizeof(struct cat_arg) == 56, "struct cat_arg has changed");
_Static_assert(sizeof(struct plan) == 72, "struct plan has changed");

void plan_question(const struct plan *p, const struct library_names *names, const char *path,
		   struct buf *ret)
{
	add_text(ret, path);
	add_number(ret, p->frequent);
	add_number(ret, p->all_entries);
	add_number(ret, p->stacks);
	add_number(ret, p->allocators);
	add_number(ret, p->callers);
	add_number(ret, p->inside);
	if (!library_names_match(names, path))
		return;
	for (size_t i = 0; i < p->catalog->entries.len; i++) {
		const struct cat_entry *en = &p->catalog->entries.data[i];
		if (!plan_entry_wants(p, en, path))
			continue;
		add_number(ret, i); /* answers name it so */
		add_entry(ret, en);
	}
}
