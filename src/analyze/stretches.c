/* stretches.c - stretches of time in order, joined where they touch. */
#include "analyze/stretches.h"

#include <stdlib.h>

static int compare_stretches(const void *a, const void *b)
{
	const struct keyed_stretch *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void stretches_end(struct stretches *s)
{
	size_t left = 0;
	if (s->all.len)
		qsort(s->all.data, s->all.len, sizeof(*s->all.data), compare_stretches);
	for (size_t i = 0; i < s->all.len; i++) {
		struct keyed_stretch at = s->all.data[i];
		if (at.end_ns < at.start_ns) /* of a damaged file */
			continue;
		struct keyed_stretch *last = left ? &s->all.data[left - 1] : NULL;
		uint64_t place = (uint64_t)left << 32;
		if (last && last->key == at.key && at.start_ns <= last->end_ns) {
			last->end_ns = at.end_ns > last->end_ns ? at.end_ns : last->end_ns;
			continue;
		}
		map64_get(&s->of, at.key, &place);
		map64_set(&s->of, at.key, place + 1);
		s->all.data[left++] = at;
	}
	s->all.len = left;
}

void stretches_free(struct stretches *s)
{
	vec_free(&s->all);
	map64_free(&s->of);
}

/* The first that ends after a time. */
static size_t first_after(const struct keyed_stretch *s, size_t n, uint64_t ns)
{
	size_t low = 0;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (s[middle].end_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Those of a key from the first that ends after a time; *end is behind the last. */
static const struct keyed_stretch *stretches_from(const struct stretches *of, uint32_t key,
						  uint64_t ns, const struct keyed_stretch **end)
{
	uint64_t place;
	if (!map64_get(&of->of, key, &place))
		return *end = NULL;
	const struct keyed_stretch *s = of->all.data + (place >> 32);
	size_t n = (uint32_t)place;
	*end = s + n;
	return s + first_after(s, n, ns);
}

void stretches_subtract(struct stretches *s, const struct stretches *what)
{
	struct stretches left = {0};
	for (size_t i = 0; i < s->all.len; i++) {
		struct keyed_stretch at = s->all.data[i];
		const struct keyed_stretch *end,
			*w = stretches_from(what, at.key, at.start_ns, &end);
		for (; w < end && w->start_ns < at.end_ns; w++) {
			if (w->start_ns > at.start_ns)
				*vec_push(&left.all) =
					(struct keyed_stretch){at.key, at.start_ns, w->start_ns};
			at.start_ns = w->end_ns;
		}
		if (at.end_ns > at.start_ns)
			*vec_push(&left.all) = at;
	}
	stretches_end(&left);
	stretches_free(s);
	*s = left;
}

uint64_t stretches_within(const struct stretches *of, uint32_t key, uint64_t from_ns,
			  uint64_t to_ns)
{
	const struct keyed_stretch *end, *s = stretches_from(of, key, from_ns, &end);
	uint64_t ns = 0;
	for (; s < end && s->start_ns < to_ns; s++)
		ns += (s->end_ns < to_ns ? s->end_ns : to_ns) -
		      (s->start_ns > from_ns ? s->start_ns : from_ns);
	return ns;
}

uint64_t stretches_begin(const struct stretches *of, uint32_t key, uint64_t ns)
{
	const struct keyed_stretch *end, *s = stretches_from(of, key, ns, &end);
	return s < end && s->start_ns <= ns ? s->start_ns : 0;
}

void stretches_cut(struct stretches *to, uint32_t to_key, const struct stretches *of, uint32_t key,
		   uint64_t from_ns, uint64_t to_ns)
{
	const struct keyed_stretch *end, *s = stretches_from(of, key, from_ns, &end);
	for (; s < end && s->start_ns < to_ns; s++)
		*vec_push(&to->all) = (struct keyed_stretch){
			.key = to_key,
			.start_ns = s->start_ns > from_ns ? s->start_ns : from_ns,
			.end_ns = s->end_ns < to_ns ? s->end_ns : to_ns};
}
