/* series.c - finding, making and forgetting series. */
#include "incident/series.h"

#include <stdlib.h>

#define NS_PER_S 1000000000ULL
#define ACTIVE_S 60 /* a series without a row for so long has none */

static uint64_t series_number(enum detect_layer layer, uint32_t pid, int32_t gpu)
{
	return (uint64_t)layer << 56 | (uint64_t)((uint32_t)gpu & 0xffffff) << 32 | pid;
}

struct series *series_find(const struct series_set *s, const struct feature_row *row)
{
	uint64_t at;
	bool met = map64_get(&s->at, series_number(row->layer, row->pid, row->gpu), &at);
	return met ? s->list.data[at - 1] : NULL;
}

struct series *series_get(struct series_set *s, const struct feature_row *row)
{
	struct series *ret = series_find(s, row);
	if (ret)
		return ret;
	ret = xcalloc(1, sizeof(*ret));
	ret->layer = row->layer;
	ret->pid = row->pid;
	ret->gpu = row->gpu;
	ret->first_ns = row->start_ns;
	*vec_push(&s->list) = ret;
	map64_set(&s->at, series_number(row->layer, row->pid, row->gpu), s->list.len);
	return ret;
}

static void series_free(struct series *s)
{
	shifts_free(&s->shifts);
	free(s);
}

void series_set_free(struct series_set *s)
{
	for (size_t i = 0; i < s->list.len; i++)
		series_free(s->list.data[i]);
	vec_free(&s->list);
	map64_free(&s->at);
}

bool series_has_process(const struct series_set *s, uint32_t pid)
{
	for (size_t i = 0; i < s->list.len; i++)
		if (s->list.data[i]->pid == pid)
			return true;
	return false;
}

uint32_t series_active(const struct series_set *s, enum detect_layer layer, uint64_t now_ns)
{
	uint32_t ret = 0;
	for (size_t i = 0; i < s->list.len; i++) {
		const struct series *x = s->list.data[i];
		ret += x->layer == layer && x->last_ns + ACTIVE_S * NS_PER_S > now_ns;
	}
	return ret;
}

void series_forget(struct series_set *s, uint64_t now_ns, void (*gone)(void *ctx, uint32_t pid),
		   void *ctx)
{
	VEC(uint32_t) pids = {0};
	size_t kept = 0;
	for (size_t i = 0; i < s->list.len; i++) {
		struct series *x = s->list.data[i];
		uint64_t number = series_number(x->layer, x->pid, x->gpu);
		if (x->open || (!x->gone && x->last_ns + SERIES_IDLE_S * NS_PER_S > now_ns)) {
			s->list.data[kept++] = x;
			map64_set(&s->at, number, kept);
			continue;
		}
		map64_del(&s->at, number);
		*vec_push(&pids) = x->pid;
		series_free(x);
	}
	s->list.len = kept;
	for (size_t i = 0; i < pids.len; i++)
		gone(ctx, pids.data[i]);
	vec_free(&pids);
}

void series_recent_push(struct series *s, const struct recent_row *r)
{
	s->recent[s->recent_at] = *r;
	s->recent_at = (s->recent_at + 1) % RECENT_ROWS;
	if (s->recent_len < RECENT_ROWS)
		s->recent_len++;
}

void series_recent_pop(struct series *s)
{
	s->recent_at = (s->recent_at + RECENT_ROWS - 1) % RECENT_ROWS;
	s->recent_len--;
}

const struct recent_row *series_recent(const struct series *s, uint32_t back)
{
	return &s->recent[(s->recent_at + RECENT_ROWS - 1 - back) % RECENT_ROWS];
}
