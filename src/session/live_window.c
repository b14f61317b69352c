/* live_window.c - copies rows into a window. Threads, stacks, their frames and metrics have numbers
 * of its own, since a session's grow without end; other names have the session's. */
#include "session/live_window.h"

#include <string.h>

#include "base/map64.h"
#include "events/window.h"

#define STACKS_MOST  (1u << 18) /* in the window; beyond any of these it begins anew */
#define FRAMES_MOST  (1u << 17)
#define THREADS_MOST (1u << 14)
#define METRICS_MOST (1u << 15)
#define COMMS_MOST   4096
#define EVENTS_MOST  4096
#define ENDED_MOST   1024 /* processes that have ended, the latest */
#define PRUNE_EACH   4096 /* new processes or communicators */
#define STACK_DEPTH  1024
#define NUMBERS_MOST 4 /* fields of a row of bulk that are numbers of rows */

/* A kind's fields that are numbers of threads, stacks or metrics. */
struct numbers {
	struct number_field {
		uint16_t offset;
		uint8_t means;
	} fields[NUMBERS_MOST];
	size_t len;
};

union any_row {
#define X(number, NAME, stem, members) struct m_##stem of_##stem;
	ROW_BULKS(X)
#undef X
};

struct live_window {
	size_t most_bytes;
	struct row_window *rows;
	/* the session's -> the window's */
	struct map64 thread_of, stack_of, frame_of, metric_of, process_of;
	uint32_t last_thread, last_place; /* of thread_of: rows of one come one after the other; */
	bool has_last;			  /* there is one */
	/* what tells frames and stacks apart -> the window's: a session gives them new numbers */
	struct map64 frame_at, stack_at;
	struct numbers numbers[ROW_KINDS];
	size_t kept;	  /* processes and communicators, after the last pruning */
	uint64_t anew_ns; /* what ended before is gone */
	uint64_t gap_ns;  /* what ended before is not all there */
	size_t raw_bytes; /* more rows than these are packed, */
	uint64_t keep_ns; /* for so long; 0: they are not */
	bool overran;	  /* the batch before left rows out: they ended before this one's pass */
	bool bears_gaps;
};

/* ---- what a row refers to ---- */

static bool is_number(uint8_t means)
{
	return means == MEANS_THREAD || means == MEANS_STACK || means == MEANS_METRIC;
}

static void find_numbers(struct live_window *w, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	struct numbers *n = &w->numbers[kind];
	for (size_t i = 0; i < k->nfields && n->len < NUMBERS_MOST; i++)
		if (is_number(k->fields[i].means))
			n->fields[n->len++] =
				(struct number_field){k->fields[i].offset, k->fields[i].means};
}

/* Native places get their name later; those of no file that is known are told apart by number. */
static uint64_t key_of_frame(uint32_t number, const struct m_frame *f)
{
	bool native = f->kind == FRAME_NATIVE;
	uint64_t parts[] = {f->kind,	f->guessed,	      f->address,
			    f->library, f->build_id,	      f->file,
			    f->line,	native ? 0 : f->name, native && !f->build_id ? number : 0};
	return hash_bytes(parts, sizeof(parts));
}

static uint32_t frame_of(struct live_window *w, uint32_t number, const struct m_frame *row)
{
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t place;
	if (map64_get(&w->frame_of, number, &place))
		return (uint32_t)place;
	uint64_t key = key_of_frame(number, row);
	if (!map64_get(&w->frame_at, key, &place)) {
		place = t->frames.len;
		*vec_push(&t->frames) = *row;
		map64_set(&w->frame_at, key, place);
	}
	map64_set(&w->frame_of, number, place);
	return (uint32_t)place;
}

static uint32_t child_of(struct live_window *w, uint32_t parent, uint32_t frame)
{
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t place, key = (uint64_t)parent << 32 | frame;
	if (map64_get(&w->stack_at, key, &place))
		return (uint32_t)place;
	place = t->stacks.len;
	*vec_push(&t->stacks) = (struct m_stack){.parent = parent, .frame = frame};
	map64_set(&w->stack_at, key, place);
	return (uint32_t)place;
}

/* Those without a name are one stack that is not known. */
static uint32_t stack_of(struct live_window *w, const struct session_view *v, uint32_t number)
{
	const struct detect_names *names = v->names;
	struct {
		uint32_t number, frame;
		const struct m_frame *row;
	} path[STACK_DEPTH];
	uint64_t place = 0;
	size_t n = 0;
	while (number && n < STACK_DEPTH && !map64_get(&w->stack_of, number, &place)) {
		const struct m_stack *s = names->stack ? names->stack(names->ctx, number) : NULL;
		const struct m_frame *f = s ? names->frame(names->ctx, s->frame) : NULL;
		place = 0;
		if (!f || s->parent >= number)
			break;
		path[n].number = number;
		path[n].frame = s->frame;
		path[n++].row = f;
		number = s->parent;
	}
	while (n--) {
		uint32_t frame = frame_of(w, path[n].frame, path[n].row);
		place = child_of(w, (uint32_t)place, frame);
		map64_set(&w->stack_of, path[n].number, place);
	}
	return (uint32_t)place;
}

static bool thread_of(struct live_window *w, const struct session_view *v, uint32_t index,
		      uint32_t *ret)
{
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t place = w->last_place;
	if ((!w->has_last || index != w->last_thread) && !map64_get(&w->thread_of, index, &place)) {
		const struct m_thread *row = v->names->thread(v->names->ctx, index);
		if (!row)
			return false;
		place = t->threads.len;
		*vec_push(&t->threads) = *row;
		map64_set(&w->thread_of, index, place);
	}
	w->last_thread = index;
	w->last_place = *ret = (uint32_t)place;
	w->has_last = true;
	return true;
}

static bool metric_of(struct live_window *w, const struct session_view *v, uint32_t number,
		      uint32_t *ret)
{
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t place;
	if (!map64_get(&w->metric_of, number, &place)) {
		const struct m_metric *row = v->names->metric(v->names->ctx, number);
		if (!row)
			return false;
		place = t->metrics.len;
		*vec_push(&t->metrics) = *row;
		map64_set(&w->metric_of, number, place);
	}
	*ret = (uint32_t)place;
	return true;
}

/* false: what it is of is gone. */
static bool renumber(struct live_window *w, const struct session_view *v, const struct numbers *n,
		     uint8_t *row)
{
	for (size_t i = 0; i < n->len; i++) {
		uint32_t number, to = 0;
		memcpy(&number, row + n->fields[i].offset, sizeof(number));
		bool known = true;
		if (n->fields[i].means == MEANS_STACK)
			to = stack_of(w, v, number);
		else if (n->fields[i].means == MEANS_THREAD)
			known = number == UINT32_MAX || thread_of(w, v, number, &to);
		else
			known = metric_of(w, v, number, &to);
		if (!known)
			return false;
		to = n->fields[i].means == MEANS_THREAD && number == UINT32_MAX ? number : to;
		memcpy(row + n->fields[i].offset, &to, sizeof(to));
	}
	return true;
}

static void take_bulk(struct live_window *w, const struct session_view *v, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = feed_rows(v->batch, kind);
	union any_row row;
	for (size_t i = 0; i < rows->len; i++) {
		memcpy(&row, rows->data + i * k->row_bytes, k->row_bytes);
		if (renumber(w, v, &w->numbers[kind], (uint8_t *)&row))
			row_window_add(w->rows, kind, &row, 1);
	}
}

/* ---- names ---- */

static void take_strings(struct rec_tables *t, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->strings.len; i++) {
		const char *text = (const char *)b->texts.data + b->strings.data[i].at;
		while (t->strings.strings.len <= b->strings.data[i].number)
			vec_push(&t->strings.strings);
		char **to = &t->strings.strings.data[b->strings.data[i].number].s;
		free(*to);
		*to = xstrdup(text);
		t->strings.strings.data[b->strings.data[i].number].len = (uint32_t)strlen(text);
	}
}

static void take_numbered(struct rec_tables *t, const struct feed_batch *b, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = feed_rows(b, kind);
	struct row_vec *to = rec_table(t, k);
	for (size_t i = 0; i < rows->len; i++) {
		size_t number = b->numbers[kind].data[i];
		if (number >= to->len)
			row_vec_add(to, k->row_bytes, number + 1 - to->len);
		memcpy(to->data + number * k->row_bytes, rows->data + i * k->row_bytes,
		       k->row_bytes);
	}
}

/* Of frames that are known here what is new: their names. */
static void take_frames(struct live_window *w, const struct feed_batch *b)
{
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t place;
	for (size_t i = 0; i < b->frames.len; i++)
		if (map64_get(&w->frame_of, b->numbers[ROW_FRAME].data[i], &place))
			t->frames.data[place] = b->frames.data[i];
}

static void take_processes(struct live_window *w, const struct feed_batch *b)
{
	struct rec_tables *t = row_window_tables(w->rows);
	for (size_t i = 0; i < b->processes.len; i++) {
		uint64_t at = t->processes.len;
		if (!map64_get(&w->process_of, b->processes.data[i].pid, &at)) {
			map64_set(&w->process_of, b->processes.data[i].pid, at);
			vec_push(&t->processes);
		}
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there is one at at */
		t->processes.data[at] = b->processes.data[i];
	}
}

/* A meta or a GPU replaces that of its name: there are few, and they are told again and again. */
static void take_metas(struct rec_tables *t, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->metas.len; i++) {
		size_t at = 0;
		while (at < t->metas.len && t->metas.data[at].key != b->metas.data[i].key)
			at++;
		if (at == t->metas.len)
			vec_push(&t->metas);
		t->metas.data[at] = b->metas.data[i];
	}
}

static void take_gpus(struct rec_tables *t, const struct feed_batch *b)
{
	for (size_t i = 0; i < b->gpus.len; i++) {
		size_t at = 0;
		while (at < t->gpus.len && t->gpus.data[at].uuid != b->gpus.data[i].uuid)
			at++;
		if (at == t->gpus.len)
			vec_push(&t->gpus);
		t->gpus.data[at] = b->gpus.data[i];
	}
}

static void take_listed(struct rec_tables *t, const struct feed_batch *b)
{
	static const enum row_kind kinds[] = {ROW_ENUM, ROW_COMM, ROW_EVENT};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const struct row_kind_info *k = row_kind_info(kinds[i]);
		const struct row_vec *rows = feed_rows(b, kinds[i]);
		if (rows->len)
			memcpy(row_vec_add(rec_table(t, k), k->row_bytes, rows->len), rows->data,
			       rows->len * k->row_bytes);
	}
}

/* ---- what is over ---- */

#define DROP(rows, keep)                                                                           \
	do {                                                                                       \
		size_t left = 0;                                                                   \
		for (size_t i = 0; i < (rows).len; i++)                                            \
			if (keep)                                                                  \
				(rows).data[left++] = (rows).data[i];                              \
		(rows).len = left;                                                                 \
	} while (0)

static size_t listed(struct live_window *w)
{
	const struct rec_tables *t = row_window_tables(w->rows);
	return t->processes.len + t->comms.len + t->events.len;
}

static void prune(struct live_window *w)
{
	struct rec_tables *t = row_window_tables(w->rows);
	DROP(t->comms, i + COMMS_MOST >= t->comms.len);
	DROP(t->events, i + EVENTS_MOST >= t->events.len);
	DROP(t->processes, !t->processes.data[i].end_ns || i + ENDED_MOST >= t->processes.len);
	map64_free(&w->process_of);
	for (size_t i = 0; i < t->processes.len; i++)
		map64_set(&w->process_of, t->processes.data[i].pid, i);
	w->kept = listed(w);
}

/* All rows go, and what has numbers of the window's own. */
static void begin_anew(struct live_window *w)
{
	struct row_window *old = w->rows;
	struct rec_tables *from = row_window_tables(old);
	w->rows = row_window_new(w->most_bytes);
	if (w->keep_ns)
		row_window_pack(w->rows, w->raw_bytes, w->keep_ns);
	struct rec_tables *to = row_window_tables(w->rows);
	strtab_free(&to->strings);
	to->strings = from->strings;
	from->strings = (struct strtab){0};
#define MOVE(members)                                                                              \
	do {                                                                                       \
		memcpy(&to->members, &from->members, sizeof(to->members));                         \
		memset(&from->members, 0, sizeof(from->members));                                  \
	} while (0)
	MOVE(probes);
	MOVE(codes);
	MOVE(metas);
	MOVE(enums);
	MOVE(gpus);
	MOVE(comms);
	MOVE(events);
	MOVE(processes);
#undef MOVE
	vec_push(&to->stacks); /* no stack */
	w->has_last = false;
	map64_free(&w->thread_of);
	map64_free(&w->stack_of);
	map64_free(&w->frame_of);
	map64_free(&w->frame_at);
	map64_free(&w->stack_at);
	map64_free(&w->metric_of);
	row_window_free(old);
}

static bool is_full(struct live_window *w)
{
	const struct rec_tables *t = row_window_tables(w->rows);
	return t->stacks.len > STACKS_MOST || t->frames.len > FRAMES_MOST ||
	       t->threads.len > THREADS_MOST || t->metrics.len > METRICS_MOST;
}

/* ---- the window ---- */

struct live_window *live_window_new(size_t most_bytes)
{
	struct live_window *w = xcalloc(1, sizeof(*w));
	w->most_bytes = most_bytes;
	w->rows = row_window_new(most_bytes);
	vec_push(&row_window_tables(w->rows)->stacks); /* no stack */
#define X(number, NAME, stem, members) find_numbers(w, ROW_##NAME);
	ROW_BULKS(X)
#undef X
	return w;
}

void live_window_free(struct live_window *w)
{
	if (!w)
		return;
	row_window_free(w->rows);
	map64_free(&w->thread_of);
	map64_free(&w->stack_of);
	map64_free(&w->frame_of);
	map64_free(&w->frame_at);
	map64_free(&w->stack_at);
	map64_free(&w->metric_of);
	map64_free(&w->process_of);
	free(w);
}

void live_window_begin_anew(struct live_window *w)
{
	w->anew_ns = row_window_tables(w->rows)->last_ns;
	begin_anew(w);
}

/* Numbers that a session has given up. */
static void forget_numbers(struct live_window *w)
{
	if (w->stack_of.len > STACKS_MOST)
		map64_free(&w->stack_of);
	if (w->frame_of.len > FRAMES_MOST)
		map64_free(&w->frame_of);
}

void live_window_take(struct live_window *w, const struct session_view *v)
{
	const struct feed_batch *b = v->batch;
	if (is_full(w))
		live_window_begin_anew(w);
	forget_numbers(w);
	if (w->overran || b->overruns)
		w->gap_ns = b->upto_ns;
	w->overran = b->overruns != 0;
	struct rec_tables *t = row_window_tables(w->rows);
	take_strings(t, b);
	take_numbered(t, b, ROW_PROBE);
	take_numbered(t, b, ROW_CODE);
	take_frames(w, b);
	take_processes(w, b);
	take_metas(t, b);
	take_gpus(t, b);
	take_listed(t, b);
#define X(number, NAME, stem, members) take_bulk(w, v, ROW_##NAME);
	ROW_BULKS(X)
#undef X
	if (b->overruns && !w->bears_gaps) {
		begin_anew(w);
		w->anew_ns = b->upto_ns;
		t = row_window_tables(w->rows);
	}
	if (b->upto_ns > t->last_ns)
		t->last_ns = b->upto_ns;
	if (listed(w) > w->kept + PRUNE_EACH)
		prune(w);
}

/* When the window's first call began. */
static uint64_t begin_of(const struct row_source *s)
{
	struct m_calls calls = {0};
	struct err e = {0};
	uint64_t ret = UINT64_MAX;
	if (source_call_blocks(s) && !source_read_calls(s, 0, &calls, &e))
		for (size_t i = 0; i < calls.len; i++)
			ret = calls.rows[i].start_ns < ret ? calls.rows[i].start_ns : ret;
	m_calls_free(&calls);
	return ret == UINT64_MAX ? 0 : ret;
}

const struct row_source *live_window_rows(struct live_window *w, uint64_t *ret_begin_ns)
{
	const struct row_source *ret = row_window_source(w->rows);
	struct rec_tables *t = row_window_tables(w->rows);
	uint64_t begin_ns = *ret_begin_ns = begin_of(ret);
	for (size_t i = 0; i < t->processes.len; i++) {
		if (t->processes.data[i].start_ns >= begin_ns)
			continue;
		t->processes.data[i].start_ns = begin_ns;
		t->processes.data[i].joined = true;
	}
	return ret;
}

const struct row_source *live_window_as_taken(const struct live_window *w)
{
	return row_window_as_added(w->rows);
}

void live_window_bear_gaps(struct live_window *w)
{
	w->bears_gaps = true;
}

void live_window_pack(struct live_window *w, size_t raw_bytes, uint64_t keep_ns)
{
	w->raw_bytes = raw_bytes;
	w->keep_ns = keep_ns;
	row_window_pack(w->rows, raw_bytes, keep_ns);
}

void live_window_bound(struct live_window *w, size_t most_bytes)
{
	w->most_bytes = most_bytes;
	row_window_bound(w->rows, most_bytes);
}

uint64_t live_window_since_ns(const struct live_window *w)
{
	uint64_t gone_ns = row_window_gone_ns(w->rows);
	return gone_ns > w->anew_ns ? gone_ns : w->anew_ns;
}

uint64_t live_window_whole_ns(const struct live_window *w)
{
	uint64_t since_ns = live_window_since_ns(w);
	return since_ns > w->gap_ns ? since_ns : w->gap_ns;
}
