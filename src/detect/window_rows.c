/* window_rows.c - hands windows out when nothing of them comes any more: a row for each layer, with
 * the work of the window and how fast it was done. What is in them is windows.c's concern. */
#include "detect/windows_impl.h"

#include <math.h>

#define ANCESTORS_MOST 8 /* that are asked for: a loop of parents ends */

/* *ret_other_mix: the model has no such mix of functions. */
static uint32_t regime_of(struct windows *w, struct process *p, const struct window *done,
			  bool *ret_other_mix)
{
	float shares[REGIME_PLACES];
	*ret_other_mix = false;
	if (!w->o.regimes)
		return 0;
	regime_mix_window(&p->mix, &done->mix);
	if (!regime_mix_shares(&p->mix, shares))
		return 0;
	*ret_other_mix = w->o.clock && !regimes_know_functions(w->o.regimes, shares);
	return regimes_of(w->o.regimes, shares, w->o.new_regimes);
}

/* The sums that tell how fast: of the layer that the model says, else of the one with most detail
 * that has any. Functions of Python lie within each other, and their times with them. */
static const struct clock_sums *clock_of(const struct windows *w, const struct window *done)
{
	static const enum detect_layer order[] = {DETECT_TORCH, DETECT_CUDA, DETECT_NCCL};
	if (w->o.clock && w->o.clock->layer < DETECT_LAYERS) {
		const struct window_layer *l = done->layers[w->o.clock->layer];
		return l ? &l->clock : NULL;
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (done->layers[order[i]] && done->layers[order[i]]->clock.ns > 0)
			return &done->layers[order[i]]->clock;
	for (size_t l = DETECT_NAMED; l < DETECT_LAYERS; l++)
		if (done->layers[l] && done->layers[l]->clock.ns > 0)
			return &done->layers[l]->clock;
	return NULL;
}

static double cpu_work_of(const struct windows *w, const struct feature_row *row)
{
	return cpu_speed_work_ns(&w->cpus, row->pid, row->start_ns, row->end_ns);
}

static void work_of(const struct windows *w, struct process *p, const struct window *done,
		    struct feature_row *row)
{
	const struct clock_sums *sums = clock_of(w, done);
	struct clock_reading r = {0};
	if (sums)
		clock_read(&r, w->o.clock, sums, w->o.window_ns);
	/* The last window of a process has less of its work than there is time. */
	bool by_window = w->o.clock && (w->o.clock->wall || w->o.clock->counted > 0);
	bool in_part = by_window && !first_window(p);
	row->cpus = cpu_speed_part(w->o.clock, cpu_work_of(w, row));
	row->pace = in_part ? 0 : r.speed * exp(row->cpus);
	row->other_work = r.is_other;
	row->unknown_share = r.unknown;
	row->resized_share = r.resized;
	row->other_mix &= !r.agrees;
	for (size_t l = 0; l < DETECT_LAYERS && !row->resized; l++)
		row->resized =
			done->layers[l] && clock_resized(&done->layers[l]->clock, w->o.window_ns);
	p->leads += r.agrees;
}

/* Its nearest ancestor that calls: between them may stand one that only forks. */
static struct process *parent_of(struct windows *w, const struct process *p)
{
	uint32_t pid = windows_parent_of(w, p->pid);
	uint64_t i;
	for (int k = 0; pid && k < ANCESTORS_MOST; k++, pid = windows_parent_of(w, pid))
		if (map64_get(&w->process_of, pid, &i))
			return pid != p->pid ? &w->processes.data[i] : NULL;
	return NULL;
}

/* Loaders of data, and whatever else works for a process, do as much as that asks for: how fast is
 * how fast it is. It was handed out before. Not so a process that does the model's work itself. */
static void take_parents_pace(struct windows *w, struct process *p, struct feature_row *row)
{
	const struct process *parent = parent_of(w, p);
	uint64_t number = window_number(row->start_ns, w->o.window_ns);
	p->windows++;
	if (p->leads * 2 > p->windows || !parent || parent->last != number || !(parent->pace > 0))
		return;
	row->pace = parent->pace;
	row->cpus = parent->cpus;
	row->parents_pace = true;
}

/* A window in which nothing of a layer ended has no row of it; but for the one that tells how fast,
 * where others go on. */
static void hand_out_layer(struct windows *w, struct window *done, uint64_t events,
			   struct feature_row *row)
{
	struct window_detail detail;
	struct window_key keys[WINDOWS_KEYS];
	const struct window_layer *l = done->layers[row->layer];
	bool tells = l && events && row->pace > 0 && !row->parents_pace &&
		     &l->clock == clock_of(w, done);
	if (!l || (!l->events && !tells) || !w->o.row)
		return;
	window_features(l, row);
	window_explain(l, &detail, keys);
	w->o.row(w->o.ctx, row, &detail);
}

static void hand_out_clock(struct windows *w, const struct process *p, const struct window *done,
			   const struct feature_row *row)
{
	const struct window_layer *l = done->layers[row->layer];
	if (!w->o.clocked || !l || row->layer == DETECT_PYTHON)
		return;
	const struct process *parent = parent_of(w, p);
	w->o.clocked(w->o.ctx, &(struct clock_window){.pid = row->pid,
						      .parent = parent ? parent->pid : 0,
						      .start_ns = row->start_ns,
						      .layer = row->layer,
						      .work_ns = cpu_work_of(w, row),
						      .sums = l->clock});
}

static uint64_t events_of(const struct window *w, enum detect_layer layer)
{
	return w->layers[layer] ? w->layers[layer]->events : 0;
}

static void hand_out(struct windows *w, struct process *p)
{
	struct window *done = first_window(p);
	uint64_t start = done->number * w->o.window_ns;
	drop_first(p);
	if (windows_is_left_out(w, start)) {
		window_free(done);
		return;
	}
	struct feature_row row = {
		.start_ns = start, .end_ns = start + w->o.window_ns, .pid = p->pid, .gpu = -1};
	row.regime = regime_of(w, p, done, &row.other_mix);
	work_of(w, p, done, &row); /* of the regime that this one may be */
	p->pace = row.pace;
	p->cpus = row.cpus;
	take_parents_pace(w, p, &row);
	uint64_t events = 0;
	p->last = done->number;
	for (int l = 0; l < DETECT_LAYERS; l++)
		events += events_of(done, (enum detect_layer)l);
	for (int l = 0; l < DETECT_LAYERS; l++) {
		row.layer = (enum detect_layer)l;
		hand_out_layer(w, done, events, &row);
		hand_out_clock(w, p, done, &row);
	}
	if (w->o.mix)
		w->o.mix(w->o.ctx, p->pid, start,
			 &(struct work){row.regime, events, events_of(done, DETECT_CUDA), row.pace,
					row.cpus, row.parents_pace, row.other_work, row.resized});
	window_free(done);
}

/* The earliest open window's number; UINT64_MAX: there is none. */
static uint64_t earliest(const struct windows *w)
{
	uint64_t number = UINT64_MAX;
	for (size_t i = 0; i < w->processes.len; i++) {
		const struct window *first = first_window(&w->processes.data[i]);
		if (first && first->number < number)
			number = first->number;
	}
	return number;
}

static bool has_window(const struct process *p, uint64_t number)
{
	const struct window *first = p ? first_window(p) : NULL;
	return first && first->number == number;
}

static void hand_out_before(struct windows *w, uint64_t limit)
{
	uint64_t number;
	while ((number = earliest(w)) < limit) {
		w->closed = number + 1;
		for (size_t i = 0; i < w->processes.len; i++) {
			struct process *p = &w->processes.data[i];
			struct process *parent = has_window(p, number) ? parent_of(w, p) : NULL;
			if (has_window(parent, number))
				hand_out(w, parent);
			if (has_window(p, number))
				hand_out(w, p);
		}
	}
	if (w->closed < limit && limit != UINT64_MAX)
		w->closed = limit;
	if (w->any_gone)
		windows_drop_processes(w, false);
}

void windows_upto(struct windows *w, uint64_t now_ns)
{
	if (w->o.late_ns < now_ns)
		hand_out_before(w, window_number(now_ns - w->o.late_ns, w->o.window_ns));
}

void windows_end(struct windows *w)
{
	hand_out_before(w, UINT64_MAX);
}
