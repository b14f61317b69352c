/* learn_layer.c - which rows make which mixture. */
#include "detect/learn_layer.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "detect/judge.h"

static uint64_t process_of(uint32_t recording, uint32_t pid)
{
	return (uint64_t)recording << 32 | pid;
}

void learn_role(struct map64 *own, uint32_t recording, uint32_t pid, bool leads)
{
	uint64_t more = 0; /* a signed count */
	map64_get(own, process_of(recording, pid), &more);
	map64_set(own, process_of(recording, pid), more + (leads ? 1 : UINT64_MAX));
}

static bool is_helper(const struct map64 *own, const struct feature_row *row)
{
	uint64_t more = 0;
	map64_get(own, process_of(row->recording, row->pid), &more);
	return (int64_t)more <= 0;
}

size_t learn_helpers_last(struct feature_row *rows, size_t n, const struct map64 *own)
{
	struct feature_row *helpers = xcalloc(n + 1, sizeof(*helpers));
	size_t len = 0, last = 0;
	for (size_t i = 0; i < n; i++)
		if (is_helper(own, &rows[i]))
			helpers[last++] = rows[i];
		else
			rows[len++] = rows[i];
	if (last)
		memcpy(rows + len, helpers, last * sizeof(*helpers));
	free(helpers);
	return len;
}

/* Both roles, or neither. */
static bool learn_roles(struct model *m, enum detect_layer layer, const struct feature_row *rows,
			size_t n, const struct map64 *own, const struct learn_mixture_options *o)
{
	struct err few;
	struct feature_row *sorted = xcalloc(n + 1, sizeof(*sorted));
	if (n)
		memcpy(sorted, rows, n * sizeof(*sorted));
	size_t len = learn_helpers_last(sorted, n, own);
	bool learned = !learn_mixture(&m->layers[layer], layer, sorted, len, o, &few);
	if (learned && learn_mixture(&m->helpers, layer, sorted + len, n - len, o, &few)) {
		learn_mixture_free(&m->layers[layer]);
		learned = false;
	}
	free(sorted);
	return learned;
}

int learn_layer(struct model *m, enum detect_layer layer, const struct feature_row *rows, size_t n,
		const struct map64 *own, const struct learn_mixture_options *o, struct err *e)
{
	if (layer == DETECT_HOST && learn_roles(m, layer, rows, n, own, o))
		return 0;
	return learn_mixture(&m->layers[layer], layer, rows, n, o, e);
}

static uint64_t window_of(uint32_t recording, uint32_t pid, uint64_t start_ns)
{
	return hash_u64(start_ns) ^ hash_u64(process_of(recording, pid));
}

void learn_counters_p(struct paced *windows, size_t n, const struct model *m,
		      const struct feature_row *rows, size_t len)
{
	const struct model_mixture *mixture = &m->layers[DETECT_HOST];
	struct map64 at = {0};
	for (size_t i = 0; i < len; i++)
		map64_set(&at, window_of(rows[i].recording, rows[i].pid, rows[i].start_ns), i);
	for (size_t i = 0; i < n && mixture->columns; i++) {
		struct paced *w = &windows[i];
		struct judgement j;
		uint64_t k;
		if (!map64_get(&at, window_of(w->recording, w->pid, w->start_ns), &k))
			continue;
		judge_row(&j, m, mixture, false, &rows[k]);
		w->counters_p = isfinite(j.p) ? fmax(j.p, DBL_MIN) : 0;
	}
	map64_free(&at);
}
