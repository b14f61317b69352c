/* learn_layer.c - which rows make which mixture. */
#include "detect/learn_layer.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/map64.h"

static uint64_t process_of(const struct feature_row *row)
{
	return (uint64_t)row->recording << 32 | row->pid;
}

/* One window may be told by its parent's pace, or have none: most of a process's say what it is. */
static void count_own(struct map64 *own, const struct feature_row *row)
{
	uint64_t more = 0;
	map64_get(own, process_of(row), &more);
	if (row->pace > 0)
		map64_set(own, process_of(row), more + (row->parents_pace ? UINT64_MAX : 1));
}

static bool is_helper(const struct map64 *own, const struct feature_row *row)
{
	uint64_t more = 0;
	map64_get(own, process_of(row), &more);
	return (int64_t)more <= 0;
}

size_t learn_helpers_last(struct feature_row *rows, size_t n)
{
	struct map64 own = {0};
	struct feature_row *helpers = xcalloc(n + 1, sizeof(*helpers));
	size_t len = 0, last = 0;
	for (size_t i = 0; i < n; i++)
		count_own(&own, &rows[i]);
	for (size_t i = 0; i < n; i++)
		if (is_helper(&own, &rows[i]))
			helpers[last++] = rows[i];
		else
			rows[len++] = rows[i];
	if (last)
		memcpy(rows + len, helpers, last * sizeof(*helpers));
	map64_free(&own);
	free(helpers);
	return len;
}

int learn_layer(struct model *m, enum detect_layer layer, struct feature_row *rows, size_t n,
		const struct learn_mixture_options *o, struct err *e)
{
	struct err few;
	if (layer == DETECT_HOST) {
		size_t own = learn_helpers_last(rows, n);
		if (own >= LEARN_LEAST_ROWS && own < n &&
		    !learn_mixture(&m->helpers, layer, rows + own, n - own, o, &few))
			n = own;
	}
	return learn_mixture(&m->layers[layer], layer, rows, n, o, e);
}
