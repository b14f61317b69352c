/* advice_places.c - time by line of the job's own code, and the function that has most of it. */
#include <stdlib.h>
#include <string.h>

#include "analyze/advice_impl.h"

void place_add(struct place_sums *p, uint32_t frame, double ns)
{
	uint64_t sum = 0;
	if (frame == BLAME_NO_FRAME || ns < 1)
		return;
	map64_get(&p->of, frame, &sum);
	map64_set(&p->of, frame, sum + (uint64_t)ns);
}

void place_free(struct place_sums *p)
{
	map64_free(&p->of);
}

/* "decode" of "decode.<locals>.<listcomp>" */
static size_t name_length(const char *name)
{
	const char *within = strstr(name, ".<locals>.");
	return within ? (size_t)(within - name) : strlen(name);
}

static uint64_t function_of(const struct rec_tables *t, uint32_t frame)
{
	const struct m_frame *f = &t->frames.data[frame];
	const char *name = strtab_get(&t->strings, f->name, NULL);
	return hash_u64(hash_bytes(name, name_length(name)) ^ f->file);
}

struct advice_place place_at(const struct rec_tables *t, uint32_t frame)
{
	const struct m_frame *f = &t->frames.data[frame];
	return (struct advice_place){.function = strtab_get(&t->strings, f->name, NULL),
				     .file = strtab_get(&t->strings, f->file, NULL),
				     .line = f->line};
}

struct advice_place place_most(const struct place_sums *p, const struct rec_tables *t)
{
	struct map64 functions = {0};
	struct advice_place ret = {0};
	uint64_t frame, ns, most = 0, most_of = 0, line_ns = 0, line = 0;
	for (size_t at = 0; map64_next(&p->of, &at, &frame, &ns);) {
		uint64_t sum = 0, of = function_of(t, (uint32_t)frame);
		map64_get(&functions, of, &sum);
		map64_set(&functions, of, sum + ns);
		if (sum + ns > most || (sum + ns == most && of < most_of)) {
			most = sum + ns;
			most_of = of;
		}
	}
	for (size_t at = 0; map64_next(&p->of, &at, &frame, &ns);)
		if (function_of(t, (uint32_t)frame) == most_of &&
		    (ns > line_ns || (ns == line_ns && frame < line))) {
			line_ns = ns;
			line = frame;
			ret = place_at(t, (uint32_t)frame);
		}
	ret.ns = (double)most;
	map64_free(&functions);
	return ret;
}
