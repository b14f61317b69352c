/* evidence.c - reads calls, counters and GPU work of slow and of usual stretches: once for all
 * incidents. What of the host is the victim's is told by evidence_host.c. */
#include <math.h>
#include <stdlib.h>

#include "incident/evidence_impl.h"

/* ---- which stretch a time is in ---- */

size_t evidence_place_after(const struct track *k, uint64_t ns)
{
	size_t low = 0, n = k->places.len;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		if (k->places.data[middle].to_ns > ns)
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct sums *evidence_sums_at(struct gathering *g, const struct track *k, uint64_t ns)
{
	size_t i = evidence_place_after(k, ns);
	bool in = i < k->places.len && k->places.data[i].from_ns <= ns;
	return in ? &g->sums.data[k->places.data[i].sums] : NULL;
}

struct call_sum *evidence_sum_at(call_sums_t *sums, struct numbering *n, uint32_t row)
{
	if (!n->of[row])
		n->of[row] = ++n->len;
	while (sums->len < n->of[row])
		*vec_push(sums) = (struct call_sum){0};
	return &sums->data[n->of[row] - 1];
}

struct call_sum evidence_sum_of(const call_sums_t *sums, const struct numbering *n, uint32_t row)
{
	uint32_t number = n->of[row];
	return number && number <= sums->len ? sums->data[number - 1] : (struct call_sum){0};
}

static uint32_t sums_new(struct gathering *g)
{
	*vec_push(&g->sums) = (struct sums){0};
	return (uint32_t)(g->sums.len - 1);
}

static void add_places(struct gathering *g, struct track *k, uint32_t sums,
		       const blame_spans_t *spans)
{
	for (size_t i = 0; i < spans->len; i++) {
		const struct blame_span *s = &spans->data[i];
		*vec_push(&k->places) = (struct place){s->from_ns, s->to_ns, sums};
		g->sums.data[sums].length_ns += (double)(s->to_ns - s->from_ns);
	}
}

static uint32_t track_of(struct gathering *g, const struct evidence_question *q)
{
	uint32_t pid = g->t->threads.data[q->slow.data[0].thread].pid;
	for (size_t i = 0; i < g->tracks.len; i++)
		if (g->tracks.data[i].pid == pid && g->tracks.data[i].usual == q->usual)
			return (uint32_t)i;
	uint32_t sums = sums_new(g);
	struct track *k = vec_push(&g->tracks);
	*k = (struct track){.pid = pid, .usual = q->usual, .usual_sums = sums};
	add_places(g, k, sums, &q->usual->spans);
	return (uint32_t)(g->tracks.len - 1);
}

static int by_start(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

/* ---- answers ---- */

/* The host's part; usual sums have what there is of the same. */
static void answer_host(struct evidence *ret, const struct sums *slow, const struct sums *usual,
			double scale)
{
	for (size_t i = 0; i < slow->stalls.len; i++) {
		struct stall_growth at = slow->stalls.data[i];
		for (size_t k = 0; k < usual->stalls.len; k++)
			if (usual->stalls.data[k].kind == at.kind &&
			    usual->stalls.data[k].name == at.name)
				at.usual_ns = scale * usual->stalls.data[k].ns;
		*vec_push(&ret->stalls) = at;
	}
	for (size_t i = 0; i < slow->senders.len; i++) {
		struct sender_growth at = slow->senders.data[i];
		for (size_t k = 0; k < usual->senders.len; k++)
			if (usual->senders.data[k].pid == at.pid)
				at.usual_ns = scale * usual->senders.data[k].ns;
		*vec_push(&ret->senders) = at;
	}
	for (size_t i = 0; i < slow->disks.len; i++) {
		struct disk_growth at = slow->disks.data[i];
		for (size_t k = 0; k < usual->disks.len; k++)
			if (usual->disks.data[k].disk == at.disk &&
			    usual->disks.data[k].pid == at.pid)
				at.usual_bytes = scale * usual->disks.data[k].bytes;
		*vec_push(&ret->disks) = at;
	}
}

static void answer(struct evidence *ret, const struct gathering *g, const struct sums *slow,
		   const struct sums *usual)
{
	double scale = usual->length_ns > 0 ? ret->blame.usual_ns / usual->length_ns : 0;
	for (uint32_t i = 0; i < g->t->probes.len; i++) {
		const struct call_sum is = evidence_sum_of(&slow->calls, &g->probes, i);
		const struct call_sum was = evidence_sum_of(&usual->calls, &g->probes, i);
		if (is.n > 0 || was.n > 0)
			*vec_push(&ret->calls) = (struct call_growth){.probe = i,
								      .n = is.n,
								      .usual_n = scale * was.n,
								      .ns = is.ns,
								      .usual_ns = scale * was.ns};
	}
	for (uint32_t i = 0; i < g->t->metrics.len; i++) {
		const struct call_sum is = evidence_sum_of(&slow->counters, &g->metrics, i);
		const struct call_sum was = evidence_sum_of(&usual->counters, &g->metrics, i);
		if (is.n > 0 || was.n > 0)
			*vec_push(&ret->counters) =
				(struct counter_change){.metric = i,
							.mean = is.n > 0 ? is.ns / is.n : NAN,
							.usual = was.n > 0 ? was.ns / was.n : NAN};
	}
	answer_host(ret, slow, usual,
		    usual->length_ns > 0 ? ret->blame.whole_ns / usual->length_ns : 0);
	ret->kernels_n = slow->kernels.n;
	ret->kernels_ns = slow->kernels.ns;
	ret->usual_kernels_n = scale * usual->kernels.n;
	ret->usual_kernels_ns = scale * usual->kernels.ns;
	ret->copied_ns = slow->copied_ns;
	ret->copied_bytes = slow->copied_bytes;
	ret->usual_copied_ns = scale * usual->copied_ns;
	ret->usual_copied_bytes = scale * usual->copied_bytes;
}

static void begin(struct evidence *ret, const struct evidence_question *q,
		  const struct row_source *s)
{
	*ret = (struct evidence){.t = s->tables,
				 .thread = q->slow.data[0].thread,
				 .by_steps = q->by_steps,
				 .n_slow = q->slow.len,
				 .n_usual = q->usual->spans.len,
				 .from_ns = q->slow.data[0].from_ns,
				 .to_ns = q->slow.data[q->slow.len - 1].to_ns};
	ret->pid = s->tables->threads.data[ret->thread].pid;
}

static void forget(struct gathering *g)
{
	for (size_t i = 0; i < g->tracks.len; i++)
		vec_free(&g->tracks.data[i].places);
	for (size_t i = 0; i < g->sums.len; i++) {
		vec_free(&g->sums.data[i].calls);
		vec_free(&g->sums.data[i].counters);
		vec_free(&g->sums.data[i].stalls);
		vec_free(&g->sums.data[i].senders);
		vec_free(&g->sums.data[i].disks);
	}
	vec_free(&g->tracks);
	vec_free(&g->sums);
	free(g->probes.of);
	free(g->metrics.of);
	free(g->asked);
}

void evidence_make(struct evidence *ret, struct blame *const *each, const struct row_source *s,
		   const struct timeline *t, const struct blame_world *w,
		   const struct evidence_question *questions, size_t n)
{
	struct gathering g = {
		.t = s->tables,
		.probes.of = xcalloc(s->tables->probes.len + 1, sizeof(uint32_t)),
		.metrics.of = xcalloc(s->tables->metrics.len + 1, sizeof(uint32_t)),
	};
	uint32_t *track = xcalloc(n + 1, sizeof(*track)), *sums = xcalloc(n + 1, sizeof(*sums));
	for (size_t i = 0; i < n; i++) {
		begin(&ret[i], &questions[i], s);
		track[i] = track_of(&g, &questions[i]);
		sums[i] = sums_new(&g);
		add_places(&g, &g.tracks.data[track[i]], sums[i], &questions[i].slow);
	}
	for (size_t i = 0; i < g.tracks.len; i++)
		if (g.tracks.data[i].places.len)
			qsort(g.tracks.data[i].places.data, g.tracks.data[i].places.len,
			      sizeof(struct place), by_start);
	g.asked = xcalloc(s->tables->threads.len + 1, sizeof(*g.asked));
	for (size_t i = 0; i < s->tables->threads.len; i++)
		for (size_t k = 0; k < g.tracks.len; k++)
			g.asked[i] |= s->tables->threads.data[i].pid == g.tracks.data[k].pid;
	evidence_add_rows(&g, s, t);
	for (size_t i = 0; i < n; i++) {
		const struct evidence_question *q = &questions[i];
		blame_make(&ret[i].blame, each ? each[i] : NULL, w, q->slow.data, q->slow.len,
			   q->usual->blame);
		ret[i].saving_frame = blame_saving_frame(w, q->slow.data, q->slow.len);
		ret[i].collecting_frame = blame_collecting_frame(w, q->slow.data, q->slow.len);
		answer(&ret[i], &g, &g.sums.data[sums[i]],
		       &g.sums.data[g.tracks.data[track[i]].usual_sums]);
	}
	evidence_add_own(ret, track, sums, n, &g, s);
	for (size_t i = 0; i < n; i++)
		evidence_full_queue(&ret[i], each ? each[i] : NULL,
				    each ? questions[i].slow.len : 0);
	forget(&g);
	free(track);
	free(sums);
}

void evidence_free(struct evidence *e)
{
	blame_free(&e->blame);
	vec_free(&e->calls);
	vec_free(&e->counters);
	vec_free(&e->stalls);
	vec_free(&e->senders);
	vec_free(&e->disks);
}
