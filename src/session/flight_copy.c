/* flight_copy.c - takes the rows of a span out of the window. A string, a thread, a function or a
 * stack comes along when the first row refers to it: what a file does not need is not in it.
 *
 * Of what has a beginning and an end a row is taken that overlaps the span, of what is a moment one
 * that is in it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "session/flight_impl.h"

#define REFS_MOST      32	  /* fields of a row that refer to others */
#define COPY_RAW_BYTES (1u << 20) /* more rows are compressed: there may be ten times as many */

/* The same for all times of a session. Not those that sum up what it did so far: they would be
 * taken for the file's. */
static const char *const metas[] = {
	"host",	  "kernel",  "cpu",	"cpus",		  "boot_id",	   "version", "mode",
	"target", "command", "program", "own_executable", "attach_method", "waits",   "sample_hz"};

struct refs {
	const struct row_field *of[REFS_MOST];
	size_t len;
};

struct copying {
	const struct rec_tables *from;
	struct row_window *rows;
	struct rec_tables *to;
	const struct flight_span *span;
	uint32_t *strings;	      /* the copy's by the window's; 0: it has none yet */
	uint32_t *numbers[ROW_KINDS]; /* likewise, and 1 */
	VEC(uint32_t) path;	      /* room for a stack's numbers */
};

union any_row {
#define X(number, NAME, stem, members) struct m_##stem of_##stem;
	ROW_TABLES(X)
	ROW_BULKS(X)
#undef X
};

static void convert(struct copying *c, const struct refs *refs, void *row);

/* ---- what a row refers to ---- */

static void find_refs(struct refs *ret, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	ret->len = 0;
	for (size_t i = 0; i < k->nfields && ret->len < REFS_MOST; i++) {
		uint8_t means = k->fields[i].means;
		if (means != MEANS_NUMBER && means != MEANS_TIME && means != MEANS_PID)
			ret->of[ret->len++] = &k->fields[i];
	}
}

static uint32_t string_of(struct copying *c, uint64_t number)
{
	size_t len;
	if (!number || number >= strtab_len(&c->from->strings))
		return 0;
	if (!c->strings[number]) {
		const char *text = strtab_get(&c->from->strings, (uint32_t)number, &len);
		c->strings[number] = text ? strtab_add(&c->to->strings, text, len) : 0;
	}
	return c->strings[number];
}

/* Of what is not there UINT32_MAX: the writer knows what to make of it. */
static uint32_t number_of(struct copying *c, enum row_kind kind, uint64_t number)
{
	const struct row_kind_info *k = row_kind_info(kind);
	const struct row_vec *rows = rec_rows(c->from, k);
	struct row_vec *to = rec_table(c->to, k);
	struct refs refs;
	union any_row row;
	if (number >= rows->len)
		return UINT32_MAX;
	if (c->numbers[kind][number])
		return c->numbers[kind][number] - 1;
	memcpy(&row, rows->data + number * k->row_bytes, k->row_bytes);
	find_refs(&refs, kind);
	convert(c, &refs, &row);
	memcpy(row_vec_add(to, k->row_bytes, 1), &row, k->row_bytes);
	c->numbers[kind][number] = (uint32_t)to->len;
	return (uint32_t)to->len - 1;
}

/* Its callers come before it. */
static uint32_t stack_of(struct copying *c, uint64_t number)
{
	uint32_t at = number < c->from->stacks.len ? (uint32_t)number : 0;
	c->path.len = 0;
	while (at && !c->numbers[ROW_STACK][at]) {
		*vec_push(&c->path) = at;
		uint32_t parent = c->from->stacks.data[at].parent;
		at = parent < at ? parent : 0;
	}
	uint32_t ret = at ? c->numbers[ROW_STACK][at] - 1 : 0;
	while (c->path.len) {
		at = c->path.data[--c->path.len];
		uint32_t frame = number_of(c, ROW_FRAME, c->from->stacks.data[at].frame);
		*vec_push(&c->to->stacks) = (struct m_stack){.parent = ret, .frame = frame};
		ret = (uint32_t)c->to->stacks.len - 1;
		c->numbers[ROW_STACK][at] = ret + 1;
	}
	return ret;
}

static uint64_t copied(struct copying *c, enum field_meaning means, uint64_t value)
{
	switch (means) {
	case MEANS_STRING:
	case MEANS_ENTITY:
		return string_of(c, value);
	case MEANS_THREAD:
		return number_of(c, ROW_THREAD, value);
	case MEANS_PROBE:
		return number_of(c, ROW_PROBE, value);
	case MEANS_FRAME:
		return number_of(c, ROW_FRAME, value);
	case MEANS_METRIC:
		return number_of(c, ROW_METRIC, value);
	case MEANS_STACK:
		return stack_of(c, value);
	default:
		return value; /* of values: see copy_call */
	}
}

static void convert(struct copying *c, const struct refs *refs, void *row)
{
	for (size_t f = 0; f < refs->len; f++)
		for (size_t i = 0; i < refs->of[f]->count; i++)
			row_set_value(
				refs->of[f], row, i,
				copied(c, refs->of[f]->means, row_value(refs->of[f], row, i)));
}

/* ---- rows of bulk ---- */

static uint64_t argument_of(struct copying *c, uint8_t type, uint64_t value)
{
	if (type == ARG_TYPE_STRING)
		return value < strtab_len(&c->from->strings) ? string_of(c, value) : UINT64_MAX;
	if (type == ARG_TYPE_CODE)
		return value < c->from->codes.len ? number_of(c, ROW_CODE, value) : UINT64_MAX;
	return value;
}

static void copy_call(struct copying *c, struct m_call *call)
{
	if (call->probe < c->from->probes.len) {
		const struct m_probe *p = &c->from->probes.data[call->probe];
		for (unsigned k = 0; k < call->nargs && k < p->nargs && k < MODEL_MAX_ARGS; k++)
			call->args[k] = argument_of(c, p->arg_types[k], call->args[k]);
	}
	call->probe = number_of(c, ROW_PROBE, call->probe);
	call->thread = number_of(c, ROW_THREAD, call->thread);
	call->stack = stack_of(c, call->stack);
	row_window_add(c->rows, ROW_CALL, call, 1);
}

static uint64_t time_at(const void *row, size_t offset)
{
	uint64_t ns;
	memcpy(&ns, (const uint8_t *)row + offset, sizeof(ns));
	return ns;
}

static bool overlaps(const struct copying *c, uint64_t first_ns, uint64_t last_ns)
{
	return first_ns <= c->span->until_ns && last_ns >= c->span->from_ns;
}

static void copy_calls(struct copying *c, const struct row_block *b)
{
	struct m_call *calls = b->rows;
	for (size_t i = 0; i < b->len; i++)
		if (overlaps(c, calls[i].start_ns, calls[i].start_ns + calls[i].dur_ns))
			copy_call(c, &calls[i]);
}

static void copy_series(struct copying *c, enum row_kind kind, const struct row_block *b)
{
	const struct row_kind_info *k = row_kind_info(kind);
	struct refs refs;
	find_refs(&refs, kind);
	for (size_t i = 0; i < b->len; i++) {
		uint8_t *row = (uint8_t *)b->rows + i * k->row_bytes;
		if (!overlaps(c, time_at(row, k->first_ns), time_at(row, k->last_ns)))
			continue;
		convert(c, &refs, row);
		row_window_add(c->rows, kind, row, 1);
	}
}

static void copy_bulk(struct copying *c, const struct row_source *s, enum row_kind kind)
{
	struct row_block b = {0};
	for (size_t i = 0; i < s->blocks(s->ctx, kind); i++) {
		if (s->read(s->ctx, kind, i, &b, NULL))
			continue;
		if (kind == ROW_CALL)
			copy_calls(c, &b);
		else
			copy_series(c, kind, &b);
	}
	row_block_free(&b);
}

/* ---- rows that are few ---- */

static void add_row(struct copying *c, enum row_kind kind, const void *row)
{
	const struct row_kind_info *k = row_kind_info(kind);
	union any_row copy;
	struct refs refs;
	memcpy(&copy, row, k->row_bytes);
	find_refs(&refs, kind);
	convert(c, &refs, &copy);
	memcpy(row_vec_add(rec_table(c->to, k), k->row_bytes, 1), &copy, k->row_bytes);
}

/* What began before the file counts as joined then, as where a recording attaches. */
static void copy_processes(struct copying *c)
{
	for (size_t i = 0; i < c->from->processes.len; i++) {
		struct m_process row = c->from->processes.data[i];
		if (!overlaps(c, row.start_ns, row.end_ns ? row.end_ns : UINT64_MAX))
			continue;
		if (row.end_ns > c->span->until_ns)
			row.end_ns = 0;
		if (row.start_ns < c->span->from_ns) {
			row.start_ns = c->span->from_ns;
			row.joined = true;
			row.cpu_ns = 0;
		}
		add_row(c, ROW_PROCESS, &row);
	}
}

static void copy_listed(struct copying *c)
{
	const struct rec_tables *t = c->from;
	copy_processes(c);
	for (size_t i = 0; i < t->gpus.len; i++)
		add_row(c, ROW_GPU, &t->gpus.data[i]);
	for (size_t i = 0; i < t->comms.len; i++) {
		const struct m_comm *row = &t->comms.data[i];
		if (overlaps(c, row->start_ns, row->end_ns ? row->end_ns : UINT64_MAX))
			add_row(c, ROW_COMM, row);
	}
	for (size_t i = 0; i < t->events.len; i++)
		if (overlaps(c, t->events.data[i].time_ns, t->events.data[i].time_ns))
			add_row(c, ROW_EVENT, &t->events.data[i]);
}

/* Of types that an argument has: their names came with the probes. */
static void copy_enums(struct copying *c)
{
	for (size_t i = 0; i < c->from->enums.len; i++) {
		const struct m_enum *row = &c->from->enums.data[i];
		if (row->type < strtab_len(&c->from->strings) && c->strings[row->type])
			add_row(c, ROW_ENUM, row);
	}
}

/* When a row that is kept was; of what is not over UINT64_MAX its end. */
static void times_of(enum row_kind kind, const void *row, uint64_t *ret_first, uint64_t *ret_last)
{
	const struct m_window *window = row;
	const struct m_anomaly *anomaly = row;
	const struct m_incident *incident = row;
	*ret_first = 0; /* a note says how all that follows is to be read */
	*ret_last = UINT64_MAX;
	if (kind == ROW_WINDOW) {
		*ret_first = window->start_ns;
		*ret_last = window->end_ns ? window->end_ns : UINT64_MAX;
	} else if (kind == ROW_ANOMALY) {
		*ret_first = anomaly->start_ns;
		*ret_last = anomaly->ended ? anomaly->end_ns : UINT64_MAX;
	} else if (kind == ROW_INCIDENT) {
		*ret_first = incident->onset_ns;
		*ret_last = incident->ended ? incident->end_ns : UINT64_MAX;
	}
}

static void copy_kept(struct copying *c, const struct flight_kept *kept, enum row_kind kind)
{
	const struct row_kind_info *k = row_kind_info(kind);
	for (size_t i = 0; i < kept->rows[kind].len; i++) {
		const uint8_t *row = kept->rows[kind].data + i * k->row_bytes;
		uint64_t first_ns, last_ns;
		times_of(kind, row, &first_ns, &last_ns);
		if (overlaps(c, first_ns, last_ns))
			add_row(c, kind, row);
	}
}

/* Where periods with all probes on are told, what lies between them had not. So the ends of the
 * file have one of no length, and what reaches beyond the first or the last of them is seen to. */
static void copy_windows(struct copying *c, const struct flight_kept *kept)
{
	uint64_t from_ns = c->span->from_ns, until_ns = c->span->until_ns;
	if (!kept->rows[ROW_WINDOW].len)
		return;
	add_row(c, ROW_WINDOW, &(struct m_window){.start_ns = from_ns, .end_ns = from_ns});
	copy_kept(c, kept, ROW_WINDOW);
	add_row(c, ROW_WINDOW, &(struct m_window){.start_ns = until_ns, .end_ns = until_ns});
}

/* The share of the file's time for which a probe was on: of the time between what was told last
 * before it and what was told last. first: zeros, where nothing was. */
static void copy_coverage(struct copying *c, const struct m_coverage *first,
			  const struct m_coverage *last)
{
	struct m_coverage row = *last;
	double on = (double)last->on_ns - (double)first->on_ns;
	double off = (double)last->off_ns - (double)first->off_ns;
	double ns = (double)(c->span->until_ns - c->span->from_ns);
	if (on + off <= 0) { /* a short file: none was told in its time */
		on = (double)last->on_ns;
		off = (double)last->off_ns;
	}
	if (off <= 0)
		return;
	row.on_ns = (uint64_t)(ns * on / (on + off));
	row.off_ns = (uint64_t)(ns * off / (on + off));
	row.changes -= first->changes;
	add_row(c, ROW_COVERAGE, &row);
}

static void copy_coverages(struct copying *c, const struct flight_kept *kept)
{
	size_t n = c->from->probes.len;
	struct m_coverage *first = xcalloc(n + 1, sizeof(*first));
	struct m_coverage *last = xcalloc(n + 1, sizeof(*last));
	for (size_t i = 0; i < kept->coverages.len; i++) {
		const struct flight_coverage *k = &kept->coverages.data[i];
		if (k->row.probe >= n)
			continue;
		last[k->row.probe] = k->row;
		if (k->time_ns <= c->span->from_ns)
			first[k->row.probe] = k->row;
	}
	for (size_t i = 0; i < n; i++)
		if (last[i].off_ns)
			copy_coverage(c, &first[i], &last[i]);
	free(first);
	free(last);
}

/* Those that were noticed since the file's time began: the rows of a cause replace one another. */
static void copy_losses(struct copying *c, const struct flight_kept *kept)
{
	struct map64 sums = {0};
	uint64_t cause, count;
	size_t at = 0;
	for (size_t i = 0; i < kept->losses.len; i++) {
		const struct flight_loss *l = &kept->losses.data[i];
		if (l->time_ns < c->span->from_ns)
			continue;
		count = 0;
		map64_get(&sums, l->cause, &count);
		map64_set(&sums, l->cause, count + l->count);
	}
	while (map64_next(&sums, &at, &cause, &count)) {
		uint32_t name = cause == FLIGHT_OVERRUN ? strtab_add_z(&c->to->strings, "live_full")
							: string_of(c, cause);
		*vec_push(&c->to->losses) = (struct m_loss){.cause = name, .count = count};
	}
	map64_free(&sums);
}

/* ---- what the file says of itself ---- */

static void add_meta(struct copying *c, const char *key, const char *value)
{
	*vec_push(&c->to->metas) = (struct m_meta){strtab_add_z(&c->to->strings, key),
						   strtab_add_z(&c->to->strings, value)};
}

static void add_number(struct copying *c, const char *key, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, value);
	add_meta(c, key, text);
}

static void add_metas(struct copying *c, const struct flight_freeze *freeze)
{
	uint64_t offset_ns = realtime_offset_ns();
	for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++) {
		const char *value = rec_meta(c->from, metas[i]);
		if (value)
			add_meta(c, metas[i], value);
	}
	add_number(c, "start_realtime_ns", offset_ns + c->span->since_ns);
	add_number(c, "start_monotonic_ns", c->span->since_ns);
	add_number(c, "realtime_offset_ns", offset_ns);
	add_number(c, "end_monotonic_ns", c->span->until_ns);
	add_meta(c, "frozen_why", freeze->marks[0].why);
	add_number(c, "frozen_at_ns", freeze->marks[0].time_ns);
	add_number(c, "frozen_from_ns", c->span->whole_ns);
	add_number(c, "frozen_triggers", freeze->triggers);
	if (freeze->id) {
		char id[32];
		snprintf(id, sizeof(id), FLIGHT_ID, freeze->id);
		add_meta(c, "frozen_id", id);
	}
}

static void add_marks(struct copying *c, const struct flight_freeze *freeze)
{
	for (size_t i = 0; i < freeze->nmarks; i++)
		*vec_push(&c->to->events) = (struct m_event){
			.time_ns = freeze->marks[i].time_ns,
			.entity = strtab_add_z(&c->to->strings, "eacgm"),
			.name = strtab_add_z(&c->to->strings, "freeze"),
			.text = strtab_add_z(&c->to->strings, freeze->marks[i].why)};
}

struct row_window *flight_copy(const struct row_source *rows, const struct flight_kept *kept,
			       const struct flight_span *span, const struct flight_freeze *freeze)
{
	struct row_window *ret = row_window_new(SIZE_MAX);
	row_window_pack(ret, COPY_RAW_BYTES, UINT64_MAX);
	struct copying c = {
		.from = rows->tables,
		.rows = ret,
		.to = row_window_tables(ret),
		.span = span,
		.strings = xcalloc(strtab_len(&rows->tables->strings) + 1, sizeof(*c.strings))};
	strtab_add(&c.to->strings, "", 0);
	vec_push(&c.to->stacks); /* no stack */
#define X(number, NAME, stem, members)                                                             \
	c.numbers[ROW_##NAME] = xcalloc(rows->tables->members.len + 1, sizeof(uint32_t));
	ROW_NUMBERED(X)
#undef X
#define X(number, NAME, stem, members) copy_bulk(&c, rows, ROW_##NAME);
	ROW_BULKS(X)
#undef X
	copy_listed(&c);
	copy_enums(&c);
	copy_kept(&c, kept, ROW_NOTE);
	copy_windows(&c, kept);
	copy_coverages(&c, kept);
	copy_kept(&c, kept, ROW_ANOMALY);
	copy_kept(&c, kept, ROW_INCIDENT);
	copy_losses(&c, kept);
	add_metas(&c, freeze);
	add_marks(&c, freeze);
	free(c.strings);
	for (size_t kind = 0; kind < ROW_KINDS; kind++)
		free(c.numbers[kind]);
	vec_free(&c.path);
	return ret;
}
