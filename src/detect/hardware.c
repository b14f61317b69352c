/* hardware.c - counters and waits, put into windows of GPUs and processes (hardware_units.c), and
 * rows of them. */
#include "detect/hardware.h"

#include <math.h>
#include <string.h>

#include "detect/hardware_impl.h"

#define WAIT_WINDOWS 16	 /* that one wait may cover */
#define HOLD_WINDOWS 60	 /* that a process may stand still and do the same work still */
#define IDLE_NEAR    0.1 /* of a whole number of threads */
#define CUDA_LEAST   64	 /* calls of CUDA: asking whether there are GPUs takes fewer */
#define ASK_EVERY    64	 /* counters: probes come meanwhile */
/* Bits of NVML's reasons that hold clocks down because of power or heat: software power cap,
 * hardware slowdown, software and hardware thermal slowdown, power brake (nvml.h). */
#define HELD_BY_POWER_OR_HEAT (0x4 | 0x8 | 0x20 | 0x40 | 0x80)

/* What a counter's value is to a feature. */
enum counter_use {
	USE_VALUE,
	USE_TOTAL, /* grows: its rate is the feature */
	USE_HELD,  /* NVML's mask of reasons */
};

static const struct counter_def {
	const char *name;
	const char *feature; /* NULL: of the counter's name */
	enum detect_layer layer;
	enum counter_use use;
} counter_defs[] = {
	{"sm_ratio", NULL, DETECT_HARDWARE, USE_VALUE},
	{"gpm_sm_ratio", NULL, DETECT_HARDWARE, USE_VALUE},
	{"gpm_tensor_ratio", NULL, DETECT_HARDWARE, USE_VALUE},
	{"gpm_dram_ratio", NULL, DETECT_HARDWARE, USE_VALUE},
	{"memory_used_bytes", NULL, DETECT_HARDWARE, USE_VALUE},
	{"other_memory_bytes", NULL, DETECT_HARDWARE, USE_VALUE},
	{"other_sm_ratio", NULL, DETECT_HARDWARE, USE_VALUE},
	{"power_w", NULL, DETECT_HARDWARE, USE_VALUE},
	{"temperature_celsius", NULL, DETECT_HARDWARE, USE_VALUE},
	{"sm_clock_mhz", NULL, DETECT_HARDWARE, USE_VALUE},
	{"clocks_held_reasons", "clocks_held", DETECT_HARDWARE, USE_HELD},
	{"pcie_rx_bytes_per_s", NULL, DETECT_HARDWARE, USE_VALUE},
	{"pcie_tx_bytes_per_s", NULL, DETECT_HARDWARE, USE_VALUE},
	{"nvlink_rx_bytes_per_s", NULL, DETECT_HARDWARE, USE_VALUE},
	{"nvlink_tx_bytes_per_s", NULL, DETECT_HARDWARE, USE_VALUE},
	{"cpu_ratio", NULL, DETECT_HOST, USE_VALUE},
	{"rss_bytes", NULL, DETECT_HOST, USE_VALUE},
	{"preemptions_per_s", NULL, DETECT_HOST, USE_VALUE},
	{"net_sent_bytes", "net_sent_bytes_per_s", DETECT_HOST, USE_TOTAL},
	{"net_received_bytes", "net_received_bytes_per_s", DETECT_HOST, USE_TOTAL},
	{"net_retransmits", "net_retransmits_per_s", DETECT_HOST, USE_TOTAL},
};
#define COUNTERS (sizeof(counter_defs) / sizeof(counter_defs[0]))

/* The features that waits add to; others go to wait_other_ratio. */
static const struct {
	uint8_t reason;
	const char *feature;
} wait_defs[] = {
	{WAIT_PREEMPTED, "preempted_ratio"},  {WAIT_DISK, "wait_disk_ratio"},
	{WAIT_PAGE_FAULT, "wait_disk_ratio"}, {WAIT_NETWORK, "wait_network_ratio"},
	{WAIT_GIL, "wait_gil_ratio"},	      {WAIT_FUTEX, "wait_futex_ratio"},
};

_Static_assert(COUNTERS <= HARDWARE_COUNTERS, "room in struct hardware");

static int8_t find_feature(enum detect_layer layer, const char *name)
{
	uint32_t n;
	const struct feature *f = features_of(layer, &n);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(f[i].name, name))
			return (int8_t)i;
	return -1;
}

struct hardware *hardware_new(const struct hardware_options *o)
{
	struct hardware *h = xcalloc(1, sizeof(*h));
	h->o = *o;
	for (size_t i = 0; i < COUNTERS; i++)
		h->feature_of[i] = find_feature(counter_defs[i].layer,
						counter_defs[i].feature ? counter_defs[i].feature
									: counter_defs[i].name);
	for (size_t i = 0; i < WAIT_REASONS; i++)
		h->wait_feature[i] = find_feature(DETECT_HOST, "wait_other_ratio");
	for (size_t i = 0; i < sizeof(wait_defs) / sizeof(wait_defs[0]); i++)
		h->wait_feature[wait_defs[i].reason] =
			find_feature(DETECT_HOST, wait_defs[i].feature);
	h->calls_feature = find_feature(DETECT_HOST, "calls_per_s");
	return h;
}

void hardware_forget_rows(struct hardware *h)
{
	hardware_forget_units(h);
	map64_free(&h->counter_of);
	h->closed = 0;
}

void hardware_free(struct hardware *h)
{
	hardware_forget_rows(h);
	free(h);
}

/* ---- what comes ---- */

static size_t counter_of(struct hardware *h, const struct detect_names *names, uint32_t metric)
{
	uint64_t i;
	if (map64_get(&h->counter_of, metric, &i))
		return (size_t)i;
	const struct m_metric *m = names->metric(names->ctx, metric);
	const char *name = m ? names->string(names->ctx, m->name) : "";
	for (i = COUNTERS; i > 0 && strcmp(counter_defs[i - 1].name, name) != 0; i--)
		;
	map64_set(&h->counter_of, metric, i);
	return (size_t)i;
}

static uint64_t window_of_time(const struct hardware *h, uint64_t time_ns)
{
	return time_ns / h->o.window_ns;
}

/* Of totals: what was added since the row before, for each second. NaN for the first. */
static double rate(struct unit *u, int8_t feature, const struct m_counter *c)
{
	double before = u->totals[feature];
	uint64_t ns = u->totals_ns[feature];
	bool first = !ns || c->time_ns <= ns || c->value < before;
	u->totals[feature] = c->value;
	u->totals_ns[feature] = c->time_ns;
	return first ? NAN : (c->value - before) / ((double)(c->time_ns - ns) / 1e9);
}

static double value_of(struct unit *u, enum counter_use use, int8_t feature,
		       const struct m_counter *c)
{
	if (use == USE_TOTAL)
		return rate(u, feature, c);
	if (use != USE_HELD)
		return c->value;
	bool held = c->value > 0 && c->value < 4294967296.0 &&
		    ((uint64_t)c->value & HELD_BY_POWER_OR_HEAT);
	return held ? 1 : 0;
}

static bool traces_cuda(const struct detect_names *names)
{
	const struct m_probe *p;
	for (uint32_t i = 0; (p = names->probe(names->ctx, i)); i++)
		if (!strcmp(names->string(names->ctx, p->layer), "cuda"))
			return true;
	return false;
}

void hardware_counter(struct hardware *h, const struct detect_names *names,
		      const struct m_counter *c)
{
	if (!h->cuda_traced && h->counters++ % ASK_EVERY == 0)
		h->cuda_traced = traces_cuda(names);
	struct unit *u = hardware_unit(h, names, c->metric);
	size_t counter = counter_of(h, names, c->metric);
	if (!u || !counter || counter_defs[counter - 1].layer != u->layer || !isfinite(c->value))
		return;
	int8_t feature = h->feature_of[counter - 1];
	if (feature < 0)
		return;
	double value = value_of(u, counter_defs[counter - 1].use, feature, c);
	struct counter_window *w = unit_window(h, u, window_of_time(h, c->time_ns));
	if (!w || isnan(value))
		return;
	w->sums[feature] += value;
	w->counts[feature]++;
}

/* A wait counts for the windows that it lies in, the last WAIT_WINDOWS of them. */
void hardware_sample(struct hardware *h, const struct detect_names *names, const struct m_sample *s)
{
	if (s->kind != SAMPLE_OFFCPU || s->reason >= WAIT_REASONS)
		return;
	const struct m_thread *who = names->thread(names->ctx, s->thread);
	if (!who)
		return;
	struct unit *u = hardware_process(h, who->pid);
	uint64_t start = s->time_ns > s->weight_ns ? s->time_ns - s->weight_ns : 0;
	uint64_t last = window_of_time(h, s->time_ns), first = window_of_time(h, start);
	int8_t feature = h->wait_feature[s->reason];
	u->has_samples = true;
	if (last - first >= WAIT_WINDOWS)
		first = last - WAIT_WINDOWS + 1;
	for (uint64_t n = first; n <= last && feature >= 0; n++) {
		struct counter_window *w = unit_window(h, u, n);
		uint64_t from = n * h->o.window_ns, to = from + h->o.window_ns;
		from = from > start ? from : start;
		to = to < s->time_ns ? to : s->time_ns;
		if (w && to > from)
			w->waits_ns[feature] += (double)(to - from);
	}
}

void hardware_mix(struct hardware *h, uint32_t pid, uint64_t start_ns, const struct work *work)
{
	struct counter_window *w =
		unit_window(h, hardware_process(h, pid), window_of_time(h, start_ns));
	if (!w)
		return;
	w->told = true;
	w->work = *work;
	h->cuda_events += work->cuda_events;
}

/* ---- rows ---- */

static bool is_wait(const struct hardware *h, size_t feature)
{
	for (size_t i = 0; i < WAIT_REASONS; i++)
		if (h->wait_feature[i] == (int8_t)feature)
			return true;
	return false;
}

/* What was last said, as long as it is not too old. */
static double held_value(const struct unit *u, size_t feature, uint64_t end_ns)
{
	uint64_t at = u->held_ns[feature];
	return at && end_ns - at <= HARDWARE_HOLD_NS ? u->held[feature] : NAN;
}

static bool has_values(const struct counter_window *w)
{
	for (size_t i = 0; i < FEATURES_MOST; i++)
		if (w->counts[i])
			return true;
	return false;
}

/* Of a process that was there before the window and is after it; of others it is not known how
 * much of the window they had. */
static double calls_per_s(const struct hardware *h, const struct unit *u,
			  const struct counter_window *w)
{
	const struct counter_window *next = w + 1;
	bool after = next < u->open.data + u->open.len && next->number == w->number + 1 &&
		     has_values(next);
	if (!after || !u->last || u->last + 1 != w->number || !u->told_work.events)
		return NAN;
	return (double)w->work.events / ((double)h->o.window_ns / 1e9);
}

/* Whether the window has anything of its own. */
static bool values_of(const struct hardware *h, struct unit *u, const struct counter_window *w,
		      double values[FEATURES_MOST])
{
	uint64_t end = (w->number + 1) * h->o.window_ns;
	if (!has_values(w))
		return false;
	for (size_t i = 0; i < FEATURES_MOST; i++) {
		bool wait = u->layer == DETECT_HOST && u->has_samples && is_wait(h, i);
		if (wait) {
			values[i] = w->waits_ns[i] / (double)h->o.window_ns;
		} else if (w->counts[i]) {
			values[i] = u->held[i] = w->sums[i] / w->counts[i];
			u->held_ns[i] = end;
		} else {
			values[i] = held_value(u, i, end);
		}
	}
	if (u->layer == DETECT_HOST && h->calls_feature >= 0)
		values[h->calls_feature] = calls_per_s(h, u, w);
	return true;
}

/* What the process does: what was told of the window, or the kind of what was told of the last one
 * before. */
static struct work work_of(const struct unit *u, const struct counter_window *w)
{
	bool holds = u->told_work.events && w->number - u->told_window <= HOLD_WINDOWS;
	if (w->told && w->work.events)
		return w->work;
	struct work ret = {.events = holds ? u->told_work.events : 0};
	ret.regime = w->told ? w->work.regime : holds ? u->told_work.regime : 0;
	return ret;
}

static void note_work(struct unit *u, const struct counter_window *w)
{
	if (!w->told || !w->work.events)
		return;
	u->told_window = w->number;
	u->told_work = w->work;
}

/* A GPU does what its process with the most events does; all processes of which no GPU is known
 * are taken for its own where none is known to be. */
static struct work work_of_gpu(const struct hardware *h, const struct unit *gpu, uint64_t number,
			       uint32_t *ret_pid)
{
	struct work most[2] = {0};
	uint32_t pids[2] = {0};
	for (size_t i = 0; i < h->units.len; i++) {
		const struct unit *u = &h->units.data[i];
		bool own = u->gpu_id == gpu->id;
		const struct counter_window *w = unit_first_with(u, number);
		if (u->layer != DETECT_HOST || (u->gpu_id && !own) || !w)
			continue;
		struct work work = work_of(u, w);
		if (work.events > most[own].events) {
			most[own] = work;
			pids[own] = u->pid;
		}
	}
	*ret_pid = pids[most[1].events > 0];
	return most[most[1].events > 0];
}

/* What threads with nothing to do wait for: a lock, or something that has no feature. */
static bool may_idle(const struct hardware *h, uint32_t feature)
{
	return (int8_t)feature == h->wait_feature[WAIT_FUTEX] ||
	       (int8_t)feature == h->wait_feature[WAIT_OTHER];
}

/* How many threads wait for good says nothing of the job: checkpoints were seen to leave two
 * behind, each of which adds 1 to what is usual. So does one that stands still, but that
 * calls_per_s tells. */
static double without_idle(double value, double usual)
{
	double whole = round(value - usual);
	return fabs(value - usual - whole) <= IDLE_NEAR ? value - whole : value;
}

static double z_of(const struct hardware *h, const struct feature_row *row, uint32_t feature,
		   double value)
{
	struct counter_usual usual;
	counters_usual_get(h->o.usual, row->layer, feature, row->regime, &usual);
	if (!usual.count || isnan(value))
		return NAN;
	if (row->layer == DETECT_HOST && may_idle(h, feature))
		value = without_idle(value, usual.median);
	double z = (value - usual.median) / usual.sigma;
	return z > COUNTER_Z_MOST ? COUNTER_Z_MOST : z < -COUNTER_Z_MOST ? -COUNTER_Z_MOST : z;
}

static void hand_out(struct hardware *h, struct unit *u, const struct counter_window *w)
{
	double values[FEATURES_MOST];
	uint32_t n, gpu_pid = 0;
	bool is_gpu = u->layer == DETECT_HARDWARE;
	struct work work = is_gpu ? work_of_gpu(h, u, w->number, &gpu_pid) : work_of(u, w);
	struct feature_row row = {.start_ns = w->number * h->o.window_ns,
				  .end_ns = (w->number + 1) * h->o.window_ns,
				  .layer = u->layer,
				  .pid = u->pid,
				  .gpu = is_gpu ? u->gpu : -1,
				  .gpu_pid = gpu_pid,
				  .regime = work.regime,
				  .events = work.events,
				  .pace = work.pace,
				  .cpus = work.cpus,
				  .parents_pace = work.parents_pace,
				  .other_work = work.other_work,
				  .resized = work.resized};
	note_work(u, w);
	if (!values_of(h, u, w, values))
		return;
	u->last = w->number;
	features_of(u->layer, &n);
	for (uint32_t i = 0; i < FEATURES_MOST; i++)
		row.x[i] = i < n ? z_of(h, &row, i, values[i]) : NAN;
	if (h->o.learn)
		counters_usual_learn(h->o.usual, u->layer, row.regime, values);
	if (h->o.row)
		h->o.row(h->o.ctx, &row, values);
}

static uint64_t earliest(const struct hardware *h)
{
	uint64_t number = UINT64_MAX;
	for (size_t i = 0; i < h->units.len; i++) {
		const struct counter_window *w = unit_first(&h->units.data[i]);
		if (w && w->number < number)
			number = w->number;
	}
	return number;
}

/* Once it is known where the processes are, other GPUs are other jobs' business: neither learned
 * nor judged. Where none is on any, those that call CUDA have other numbers than the driver lists
 * (a PID namespace), and others have no GPU where CUDA was traced: not one that lists its
 * processes, nor any if CUDA was hardly called. */
static bool is_judged(const struct hardware *h, const struct unit *gpu)
{
	if (h->any_own)
		return gpu->own;
	return h->cuda_events ? h->cuda_events >= CUDA_LEAST : !(gpu->lists && h->cuda_traced);
}

/* GPUs first: their regime is their processes', whose windows must still be there. */
static void hand_out_window(struct hardware *h, uint64_t number, enum detect_layer layer)
{
	for (size_t i = 0; i < h->units.len; i++) {
		struct unit *u = &h->units.data[i];
		const struct counter_window *w = unit_first_with(u, number);
		if (u->layer != layer || !w)
			continue;
		if (layer != DETECT_HARDWARE || is_judged(h, u))
			hand_out(h, u, w);
		unit_drop_first(u);
	}
}

static void hand_out_before(struct hardware *h, uint64_t limit)
{
	uint64_t number;
	while ((number = earliest(h)) < limit) {
		hand_out_window(h, number, DETECT_HARDWARE);
		hand_out_window(h, number, DETECT_HOST);
		h->closed = number + 1;
	}
	if (h->closed < limit && limit != UINT64_MAX)
		h->closed = limit;
	hardware_drop_gone(h);
}

void hardware_upto(struct hardware *h, uint64_t now_ns)
{
	if (h->o.late_ns < now_ns)
		hand_out_before(h, window_of_time(h, now_ns - h->o.late_ns));
}

void hardware_end(struct hardware *h)
{
	hand_out_before(h, UINT64_MAX);
}
