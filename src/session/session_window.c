/* session_window.c - copies rows into a window, and what they refer to. */
#include "session/session_window.h"

#include "base/layer.h"
#include "base/map64.h"
#include "events/window.h"
#include "wire/event.h"

#define MOST_WAITS 65536
#define RAW_BYTES  (1u << 20) /* of rows that are not compressed */

struct session_window {
	struct row_window *rows; /* NULL before the first */
	uint64_t calls, most_calls, share, waits, begin_ns;
	struct map64 string_of;	   /* the recording's string -> the window's */
	VEC(uint32_t) live_of;	   /* back */
	struct map64 thread_of;	   /* the recording's index -> the window's */
	VEC(uint8_t) probe_wanted; /* by number, which is the recording's */
	VEC(uint32_t) sharer_of;   /* of a thread of the window: place of its process in shares */
	VEC(uint64_t) shares;	   /* calls of each process so far */
	struct map64 sharer;	   /* pid -> that place */
	VEC(struct m_process) processes;
	struct map64 process_of; /* pid -> index */
	VEC(uint8_t) in_bursts;	 /* by probe */
	bool broken;
};

struct session_window *session_window_new(void)
{
	return xcalloc(1, sizeof(struct session_window));
}

void session_window_close(struct session_window *w)
{
	row_window_free(w->rows);
	map64_free(&w->string_of);
	map64_free(&w->thread_of);
	vec_free(&w->live_of);
	vec_free(&w->probe_wanted);
	vec_free(&w->sharer_of);
	vec_free(&w->shares);
	map64_free(&w->sharer);
	w->rows = NULL;
}

void session_window_free(struct session_window *w)
{
	session_window_close(w);
	vec_free(&w->processes);
	map64_free(&w->process_of);
	vec_free(&w->in_bursts);
	free(w);
}

/* ---- probes ---- */

static void see_coverage(struct session_window *w, const struct m_coverage *row)
{
	if (row->probe >= MAX_PROBES)
		return;
	while (w->in_bursts.len <= row->probe)
		*vec_push(&w->in_bursts) = false;
	uint8_t *in_bursts = &w->in_bursts.data[row->probe];
	w->broken |= *in_bursts != (row->in_bursts != 0);
	*in_bursts = row->in_bursts != 0;
}

bool session_window_sees(const struct session_window *w, uint32_t probe)
{
	return probe >= w->in_bursts.len || !w->in_bursts.data[probe];
}

bool session_window_is_partial(const struct session_window *w)
{
	for (uint32_t i = 0; i < w->in_bursts.len; i++)
		if (w->in_bursts.data[i])
			return true;
	return false;
}

bool session_window_is_broken(const struct session_window *w)
{
	return w->broken;
}

/* ---- processes ---- */

void session_window_see(struct session_window *w, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->coverages.len; i++)
		see_coverage(w, &v->batch->coverages.data[i]);
	for (size_t i = 0; i < v->batch->processes.len; i++) {
		const struct m_process *row = &v->batch->processes.data[i];
		uint64_t at = w->processes.len;
		if (!map64_get(&w->process_of, row->pid, &at)) {
			map64_set(&w->process_of, row->pid, at);
			vec_push(&w->processes);
		}
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is one at at */
		w->processes.data[at] = *row;
	}
}

bool session_window_lives(const struct session_window *w, uint32_t pid)
{
	uint64_t at;
	return map64_get(&w->process_of, pid, &at) && !w->processes.data[at].end_ns;
}

static void forget_ended(struct session_window *w)
{
	size_t left = 0;
	map64_free(&w->process_of);
	for (size_t i = 0; i < w->processes.len; i++) {
		if (w->processes.data[i].end_ns)
			continue;
		map64_set(&w->process_of, w->processes.data[i].pid, left);
		w->processes.data[left++] = w->processes.data[i];
	}
	w->processes.len = left;
}

/* ---- into the window ---- */

void session_window_begin(struct session_window *w, uint64_t most_calls, uint64_t share,
			  uint64_t now_ns)
{
	forget_ended(w);
	w->rows = row_window_new(most_calls * sizeof(struct m_call) +
				 MOST_WAITS * sizeof(struct m_wait));
	row_window_pack(w->rows, RAW_BYTES, UINT64_MAX);
	w->calls = w->waits = 0;
	w->broken = false;
	w->most_calls = most_calls;
	w->share = share;
	w->begin_ns = now_ns;
}

static uint32_t string_of(struct session_window *w, const struct session_view *v, uint32_t live)
{
	uint64_t number;
	if (!live)
		return 0;
	if (map64_get(&w->string_of, live, &number))
		return (uint32_t)number;
	number = strtab_add_z(&row_window_tables(w->rows)->strings,
			      v->names->string(v->names->ctx, live));
	map64_set(&w->string_of, live, number);
	while (w->live_of.len <= number)
		vec_push(&w->live_of);
	w->live_of.data[number] = live;
	return (uint32_t)number;
}

static void put_probe(struct session_window *w, const struct session_view *v,
		      const struct m_probe *live)
{
	const char *layer = v->names->string(v->names->ctx, live->layer);
	struct m_probe row = *live;
	row.layer = string_of(w, v, live->layer);
	row.name = string_of(w, v, live->name);
	row.library = string_of(w, v, live->library);
	row.symbol = string_of(w, v, live->symbol);
	row.role = string_of(w, v, live->role);
	for (unsigned i = 0; i < row.nargs && i < MODEL_MAX_ARGS; i++) {
		row.arg_names[i] = string_of(w, v, live->arg_names[i]);
		row.arg_enums[i] = string_of(w, v, live->arg_enums[i]);
	}
	*vec_push(&row_window_tables(w->rows)->probes) = row;
	*vec_push(&w->probe_wanted) = layer_traits_of_name(layer) & LAYER_IS_WORK;
}

static uint32_t sharer_of(struct session_window *w, uint32_t pid)
{
	uint64_t at = w->shares.len;
	if (!map64_get(&w->sharer, pid, &at)) {
		map64_set(&w->sharer, pid, at);
		*vec_push(&w->shares) = 0;
	}
	return (uint32_t)at;
}

static bool thread_of(struct session_window *w, const struct session_view *v, uint32_t live,
		      uint32_t *ret)
{
	uint64_t index;
	if (!map64_get(&w->thread_of, live, &index)) {
		const struct m_thread *t = v->names->thread(v->names->ctx, live);
		if (!t)
			return false;
		struct rec_tables *tables = row_window_tables(w->rows);
		index = tables->threads.len;
		*vec_push(&tables->threads) = (struct m_thread){.pid = t->pid, .tid = t->tid};
		*vec_push(&w->sharer_of) = sharer_of(w, t->pid);
		map64_set(&w->thread_of, live, index);
	}
	*ret = (uint32_t)index;
	return true;
}

static void put_call(struct session_window *w, const struct session_view *v,
		     const struct m_call *live)
{
	const struct m_probe *probe = v->names->probe(v->names->ctx, live->probe);
	struct m_call row = *live;
	if (!thread_of(w, v, live->thread, &row.thread))
		return;
	uint64_t *taken = &w->shares.data[w->sharer_of.data[row.thread]];
	if (*taken == w->share)
		return;
	(*taken)++;
	row.stack = 0;
	for (unsigned i = 0; i < row.nargs && i < MODEL_MAX_ARGS; i++)
		if (probe->arg_types[i] == ARG_TYPE_STRING)
			row.args[i] = string_of(w, v, (uint32_t)row.args[i]);
	row_window_add(w->rows, ROW_CALL, &row, 1);
	w->calls++;
}

static void put_wait(struct session_window *w, const struct session_view *v,
		     const struct m_wait *live)
{
	struct m_wait row = *live;
	if (w->waits == MOST_WAITS || !thread_of(w, v, live->thread, &row.thread))
		return;
	row.rival = row.rival_cgroup = row.rival_leader = 0;
	row_window_add(w->rows, ROW_WAIT, &row, 1);
	w->waits++;
}

bool session_window_take(struct session_window *w, const struct session_view *v)
{
	const struct m_probe *probe;
	while ((probe = v->names->probe(v->names->ctx, (uint32_t)w->probe_wanted.len)))
		put_probe(w, v, probe);
	for (size_t i = 0; i < v->batch->calls.len && w->calls < w->most_calls; i++) {
		const struct m_call *c = &v->batch->calls.data[i];
		if (c->probe < w->probe_wanted.len && w->probe_wanted.data[c->probe] &&
		    session_window_sees(w, c->probe))
			put_call(w, v, c);
	}
	for (size_t i = 0; i < v->batch->waits.len; i++)
		put_wait(w, v, &v->batch->waits.data[i]);
	return w->calls >= w->most_calls;
}

uint64_t session_window_calls(const struct session_window *w)
{
	return w->calls;
}

/* ---- out of it ---- */

/* Without their names. Those that were there before it do already what they do. */
static void put_processes(struct session_window *w)
{
	struct rec_tables *t = row_window_tables(w->rows);
	for (size_t i = 0; i < w->processes.len; i++) {
		struct m_process row = w->processes.data[i];
		bool older = row.start_ns < w->begin_ns;
		row.comm = row.command = row.script = 0;
		row.joined |= older;
		row.start_ns = older ? w->begin_ns : row.start_ns;
		*vec_push(&t->processes) = row;
	}
}

const struct row_source *session_window_rows(struct session_window *w)
{
	put_processes(w);
	return row_window_source(w->rows);
}

uint32_t session_window_string(const struct session_window *w, uint32_t number)
{
	return number < w->live_of.len ? w->live_of.data[number] : 0;
}
