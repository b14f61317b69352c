/* kernel_times.c - spans of kernels summed up by name. */
#include "analyze/kernel_times.h"

#include <string.h>

#include "base/map64.h"

/* Names are compared as launches have them: readable. */
static uint64_t name_key(const char *text, char *(*demangle)(const char *name, int params))
{
	char *readable = demangle && text[0] == '_' && text[1] == 'Z' ? demangle(text, 1) : NULL;
	const char *name = readable ? readable : text;
	uint64_t key = hash_bytes(name, strlen(name));
	free(readable);
	return key;
}

static void add(struct kernel_time *k, const struct timeline_span *s)
{
	uint64_t ns = s->end_ns - s->start_ns;
	k->count++;
	k->total_ns += ns;
	k->max_ns = ns > k->max_ns ? ns : k->max_ns;
}

void kernel_times_make(struct kernel_times *ret, const struct timeline *t,
		       const struct gpu_summary *gpu,
		       char *(*demangle)(const char *name, int params))
{
	struct map64 by_name = {0}, by_string = {0}; /* to the place + 1, 0 = none */
	*ret = (struct kernel_times){.rows = xcalloc(gpu->kernels.len + 1, sizeof(*ret->rows))};
	for (size_t i = 0; i < gpu->kernels.len; i++)
		map64_set(&by_name, name_key(gpu->kernels.data[i].name, NULL), i + 1);
	for (size_t i = 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *kind = timeline_kind_of(t, s);
		uint64_t at = 0;
		if (kind->work != WORK_KERNEL)
			continue;
		if (!map64_get(&by_string, kind->name, &at)) {
			const char *text = strtab_get(&t->tables->strings, kind->name, NULL);
			(void)map64_get(&by_name, name_key(text, demangle), &at);
			map64_set(&by_string, kind->name, at);
		}
		add(at ? &ret->rows[at - 1] : &ret->others, s);
	}
	map64_free(&by_name);
	map64_free(&by_string);
}

void kernel_times_free(struct kernel_times *k)
{
	free(k->rows);
}
