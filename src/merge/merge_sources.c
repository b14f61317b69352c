/* merge_sources.c - what is known of the sources before rows are read: that they may be merged,
 * whose clock each has, and which process numbers are taken. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "merge/merge_impl.h"

#define SAME_BOOT_NS 1000000000LL /* no host boots again within a second */

/* ---- opening ---- */

static bool number_from(const char *text, int64_t *ret)
{
	if (!text || !*text)
		return false;
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (*end || errno || v < 0 || v >= 1LL << 62)
		return false;
	*ret = v;
	return true;
}

static void find_realtime(struct merge_input *in)
{
	int64_t realtime, monotonic;
	in->realtime_known = number_from(rec_meta(in->t, "realtime_offset_ns"), &in->realtime_ns);
	if (in->realtime_known || !number_from(rec_meta(in->t, "start_realtime_ns"), &realtime) ||
	    !number_from(rec_meta(in->t, "start_monotonic_ns"), &monotonic))
		return;
	in->realtime_ns = realtime - monotonic;
	in->realtime_known = realtime > monotonic;
}

/* Before boots were recorded: a boot is at the same time. */
static bool same_boot(const struct merge_input *a, const struct merge_input *b)
{
	const char *x = rec_meta(a->t, "boot_id"), *y = rec_meta(b->t, "boot_id");
	if (x && y)
		return !strcmp(x, y);
	return !strcmp(a->host, b->host) && a->realtime_known && b->realtime_known &&
	       llabs(a->realtime_ns - b->realtime_ns) < SAME_BOOT_NS;
}

static void find_clock(struct merge *m, struct merge_input *in)
{
	for (size_t i = 0; i + 1 < m->inputs.len; i++)
		if (same_boot(&m->inputs.data[i], in)) {
			in->clock = m->inputs.data[i].clock;
			return;
		}
	in->clock = (uint32_t)m->clocks.len;
	(void)vec_push(&m->clocks);
	char *label = xstrdup(in->host);
	for (size_t i = 0; i < m->labels.len; i++) {
		if (strcmp(m->labels.data[i], label))
			continue;
		free(label); /* hosts of one name, as containers often have */
		label = xasprintf("%s#%u", in->host, in->clock);
		i = (size_t)-1;
	}
	*vec_push(&m->labels) = label;
}

static int open_input(struct merge *m, const char *path, struct err *e)
{
	for (size_t i = 0; i < m->inputs.len; i++)
		if (files_same(m->inputs.data[i].path, path))
			return err_set(e, EINVAL, "'%s' is given twice", path);
	struct rec_reader *reader = NULL;
	int rc = rec_open(&reader, path, e);
	if (rc)
		return rc;
	struct merge_input *in = vec_push(&m->inputs);
	const char *host = rec_meta(rec_tables(reader), "host");
	*in = (struct merge_input){.path = path,
				   .reader = reader,
				   .t = rec_tables(reader),
				   .host = host && *host ? host : "unknown"};
	if (in->t->sources.len)
		return err_set(e, EINVAL,
			       "'%s' is merged already: merge the recordings that it was made of",
			       path);
	find_realtime(in);
	find_clock(m, in);
	for (unsigned kind = 0; kind < ROW_KINDS; kind++)
		m->blocks += rec_blocks(reader, kind);
	return 0;
}

int merge_inputs_open(struct merge *m, const char *const *paths, size_t n, const char *output,
		      struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = open_input(m, paths[i], e);
	for (size_t i = 0; i < n && !rc; i++)
		if (files_same(paths[i], output))
			rc = err_set(e, EINVAL, "'%s' would be written over: choose another name",
				     output);
	return rc;
}

void merge_inputs_close(struct merge *m)
{
	for (size_t i = 0; i < m->inputs.len; i++) {
		struct merge_input *in = &m->inputs.data[i];
		rec_close(in->reader);
		free(in->strings);
		for (unsigned kind = 0; kind < ROW_KINDS; kind++)
			free(in->numbers[kind]);
	}
	for (size_t i = 0; i < m->labels.len; i++)
		free(m->labels.data[i]);
	for (size_t i = 0; i < m->clocks.len; i++)
		clock_map_free(&m->clocks.data[i].map);
	vec_free(&m->inputs);
	vec_free(&m->labels);
	vec_free(&m->clocks);
}

/* ---- processes ---- */

typedef VEC(uint32_t) pids_t;

/* All pids and tids of a source that its tables name. */
static void list_pids(const struct rec_tables *t, pids_t *ret)
{
	for (size_t i = 0; i < t->processes.len; i++)
		*vec_push(ret) = t->processes.data[i].pid;
	for (size_t i = 0; i < t->threads.len; i++) {
		*vec_push(ret) = t->threads.data[i].pid;
		*vec_push(ret) = t->threads.data[i].tid;
	}
	for (size_t i = 0; i < t->comms.len; i++)
		*vec_push(ret) = t->comms.data[i].pid;
	for (size_t i = 0; i < t->connections.len; i++)
		*vec_push(ret) = t->connections.data[i].pid;
}

static bool is_free(const struct map64 *taken, const pids_t *pids, uint64_t shift)
{
	uint64_t by;
	for (size_t i = 0; i < pids->len; i++)
		if (pids->data[i] && (pids->data[i] + shift > UINT32_MAX ||
				      map64_get(taken, pids->data[i] + shift, &by)))
			return false;
	return true;
}

int merge_choose_pids(struct merge *m, struct err *e)
{
	struct map64 taken = {0};
	pids_t pids = {0};
	int rc = 0;
	for (size_t i = 0; i < m->inputs.len && !rc; i++) {
		struct merge_input *in = &m->inputs.data[i];
		uint64_t shift = 0;
		pids.len = 0;
		list_pids(in->t, &pids);
		while (shift <= UINT32_MAX && !is_free(&taken, &pids, shift))
			shift += MERGE_PID_STEP;
		if (shift > UINT32_MAX) {
			rc = err_set(e, EINVAL,
				     "there are no process numbers left for those of '%s'",
				     in->path);
			break;
		}
		in->pid_shift = (uint32_t)shift;
		for (size_t k = 0; k < pids.len; k++)
			if (pids.data[k])
				map64_set(&taken, pids.data[k] + shift, i);
	}
	map64_free(&taken);
	vec_free(&pids);
	return rc;
}

/* ---- clocks ---- */

static void collect_calls(const struct merge *m, uint32_t source, rank_calls_t *calls)
{
	const struct merge_input *in = &m->inputs.data[source];
	struct timeline timeline;
	struct collectives collectives;
	timeline_make(&timeline, rec_source(in->reader),
		      &(struct timeline_options){.demangle = m->options->demangle});
	collectives_make(&collectives, &timeline, 0);
	for (size_t i = 0; i < collectives.rows.len; i++) {
		const struct collective *c = &collectives.rows.data[i];
		if (c->failed || c->timing == COLLECTIVE_CAPTURED)
			continue;
		struct rank_call *call = vec_push(calls);
		*call = rank_call_from(c, &timeline, (uint32_t)i);
		call->source = source;
		call->clock = in->clock;
	}
	collectives_free(&collectives);
	timeline_free(&timeline);
}

/* What CLOCK_REALTIME says: good to about a millisecond where hosts keep it by NTP. */
static void first_estimates(struct merge *m)
{
	const struct merge_input *reference = &m->inputs.data[0];
	m->clocks.data[0].aligned = true;
	for (size_t i = 1; i < m->inputs.len; i++) {
		const struct merge_input *in = &m->inputs.data[i];
		struct clock_map *map = &m->clocks.data[in->clock].map;
		if (!in->clock || map->knots.len || map->error_ns)
			continue;
		bool known = in->realtime_known && reference->realtime_known;
		clock_map_constant(map, known ? in->realtime_ns - reference->realtime_ns : 0,
				   CLOCK_ERROR_UNKNOWN);
	}
}

/* Calls are matched with times that are comparable as far as the first estimates are good. */
void merge_align(struct merge *m)
{
	rank_calls_t calls = {0};
	first_estimates(m);
	if (m->clocks.len < 2)
		return;
	for (size_t i = 0; i < m->inputs.len && merge_go_on(m); i++)
		collect_calls(m, (uint32_t)i, &calls);
	struct rank_matching matching;
	struct rank_call *shifted = xcalloc(calls.len + 1, sizeof(*shifted));
	for (size_t i = 0; i < calls.len; i++) {
		const struct clock_map *map = &m->clocks.data[calls.data[i].clock].map;
		shifted[i] = calls.data[i];
		shifted[i].host_ns = clock_map_time(map, calls.data[i].host_ns);
		shifted[i].start_ns = clock_map_time(map, calls.data[i].start_ns);
		shifted[i].end_ns = clock_map_time(map, calls.data[i].end_ns);
	}
	rank_matching_make(&matching, shifted, calls.len);
	matching.calls = calls.data; /* as recorded */
	clock_align(m->clocks.data, m->clocks.len, &matching);
	rank_matching_free(&matching);
	free(shifted);
	vec_free(&calls);
}
