/* flame_fuzz.c - call trees of hostile recordings.
 *
 * What the input looks like is in recording_input.h. Every kind is made, with all that tells
 * frames apart; a tree's parents come before their children, and its numbers are in range.
 *
 * links: base recording analyze */
#include "analyze/flame.h"
#include "analyze/profile.h"
#include "recording_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tree(const struct calltree *t)
{
	check(t->nodes.len > 0 && t->title && t->unit && t->type);
	for (size_t i = 1; i < t->nodes.len; i++) {
		check(t->nodes.data[i].parent < i);
		check(t->nodes.data[i].frame < t->frames.len);
		check(t->nodes.data[i].self[0] >= 0);
	}
	for (size_t i = 0; i < t->frames.len; i++)
		check(t->frames.data[i].kind < CALLTREE_KINDS &&
		      t->frames.data[i].name < strtab_len(&t->strings));
}

static void check_kinds(const struct rec_reader *r)
{
	for (int kind = 0; kind < FLAME_KINDS; kind++)
		for (int other = 0; other < 2; other++) {
			struct flame_options o = {
				.kind = (enum flame_kind)kind,
				.lines = other,
				.threads = other,
				.native = other,
				.wakers = other,
				.level = other ? FLAME_DRIVER : FLAME_AUTO,
				.at = other ? FLAME_AT_PEAK : FLAME_AT_END,
				.visit.threads = 1,
			};
			struct calltree t;
			struct err e = {0};
			int rc = other ? flame_make_diff(&t, rec_source(r), "a", rec_source(r), "b",
							 true, &o, &e)
				       : flame_make(&t, rec_source(r), &o, &e);
			if (rc) {
				check(e.msg[0] != 0);
				continue;
			}
			check_tree(&t);
			calltree_free(&t);
		}
}

static void check_flames(const char *path)
{
	struct rec_reader *r;
	struct profile p;
	if (rec_open(&r, path, NULL))
		return;
	check_kinds(r);
	profile_make(&p, rec_source(r), &(struct profile_options){0});
	for (size_t i = 0; i < p.functions.len; i++)
		check(p.functions.data[i].name != NULL);
	profile_free(&p);
	rec_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	with_recording(data, size, check_flames);
	return 0;
}
