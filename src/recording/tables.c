/* tables.c - puts the dictionary rows of a recording together.
 *
 * Numbers in the file are not trusted: dictionaries may have gaps where blocks were lost,
 * rows may refer to what is not there, and the sum of all tables is bounded. After
 * tables_finish every string number in the tables is in range. */
#include <errno.h>
#include <stdio.h>

#include "recording/column.h"
#include "recording/reader.h"

#define LOST_TEXT   "(lost)"
#define CUT_TEXT    "(cut)"
#define STRING_COST 48 /* of a string beside its bytes: entry, allocation */

/* ---- strings ---- */

static void string_set(struct rec_reader *r, uint32_t number, const void *p, size_t len)
{
	char *s = xrealloc(NULL, len + 1, 1);
	memcpy(s, p, len);
	s[len] = 0;
	r->t.strings.strings.data[number].s = s;
	r->t.strings.strings.data[number].len = (uint32_t)len;
	r->string_bytes += len;
}

static uint32_t string_append(struct rec_reader *r, const char *s)
{
	uint32_t number = (uint32_t)r->t.strings.strings.len;
	(void)vec_push(&r->t.strings.strings);
	string_set(r, number, s, strlen(s));
	return number;
}

/* Everything about a strings block is checked before anything of it is taken. */
static int strings_check(const struct rec_reader *r, const struct string_row *rows, size_t n,
			 const struct column *bytes)
{
	uint64_t sum = 0;
	uint64_t least = 1;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].number < least || rows[i].len > REC_MAX_STRING_BYTES)
			return -EBADMSG;
		least = (uint64_t)rows[i].number + 1;
		sum += rows[i].len;
	}
	/* The first may leave a gap, of lost strings; none is ever written twice. */
	if (rows[0].number < r->t.strings.strings.len ||
	    least > r->t.strings.strings.len + 2 * (uint64_t)REC_MAX_ROWS)
		return -EBADMSG;
	return sum == (bytes ? bytes->bytes : 0) ? 0 : -EBADMSG;
}

static int strings_add(struct rec_reader *r, const struct string_row *rows, size_t n)
{
	struct columns cols;
	if (columns_parse(r->raw.data, r->raw.len, &cols))
		return -EBADMSG;
	const struct column *bytes = columns_find(&cols, "bytes");
	if (bytes && bytes->encoding != ENC_FIXED)
		return -EBADMSG;
	int rc = strings_check(r, rows, n, bytes);
	if (!rc)
		rc = reader_count_rows(r, rows[n - 1].number - r->t.strings.strings.len);
	if (rc)
		return rc;
	const uint8_t *p = bytes ? bytes->data : (const uint8_t *)"";
	for (size_t i = 0; i < n; i++) {
		while (r->t.strings.strings.len <= rows[i].number)
			(void)vec_push(&r->t.strings.strings);
		string_set(r, rows[i].number, p, rows[i].len);
		p += rows[i].len;
	}
	return 0;
}

/* ---- rows with an index, rows with a key ---- */

/* Puts rows at their index; rows in between are gaps. */
#define ADD_INDEXED(vec, known, items, n)                                                          \
	do {                                                                                       \
		for (size_t i_ = 0; i_ < (n); i_++) {                                              \
			size_t index_ = (items)[i_].index;                                         \
			if (index_ >= (vec)->len + REC_MAX_ROWS)                                   \
				return -EBADMSG;                                                   \
			if (index_ > (vec)->len && reader_count_rows(r, index_ - (vec)->len))      \
				return -EDQUOT;                                                    \
			while ((vec)->len <= index_) {                                             \
				(void)vec_push(vec);                                               \
				(void)vec_push(known);                                             \
			}                                                                          \
			(vec)->data[index_] = (items)[i_].row;                                     \
			(known)->data[index_] = 1;                                                 \
		}                                                                                  \
	} while (0)

#define ADD_ROWS(vec, items, n)                                                                    \
	do {                                                                                       \
		vec_reserve(vec, n);                                                               \
		memcpy((vec)->data + (vec)->len, items, (n) * sizeof(*(vec)->data));               \
		(vec)->len += (n);                                                                 \
	} while (0)

#define COMPARE(x, y)                                                                              \
	do {                                                                                       \
		if ((x) != (y))                                                                    \
			return (x) < (y) ? -1 : 1;                                                 \
	} while (0)

static int compare_process(const void *a, const void *b)
{
	const struct m_process *x = a;
	const struct m_process *y = b;
	COMPARE(x->pid, y->pid);
	COMPARE(x->start_ns, y->start_ns);
	return 0;
}

static int compare_loss(const void *a, const void *b)
{
	const struct m_loss *x = a;
	const struct m_loss *y = b;
	COMPARE(x->cause, y->cause);
	COMPARE(x->cpu, y->cpu);
	return 0;
}

static int compare_hist(const void *a, const void *b)
{
	const struct m_hist *x = a;
	const struct m_hist *y = b;
	COMPARE(x->pid, y->pid);
	COMPARE(x->probe, y->probe);
	COMPARE(x->name, y->name);
	return 0;
}

static int compare_gpu(const void *a, const void *b)
{
	const struct m_gpu *x = a;
	const struct m_gpu *y = b;
	COMPARE(x->uuid, y->uuid);
	return 0;
}

static int compare_comm(const void *a, const void *b)
{
	const struct m_comm *x = a;
	const struct m_comm *y = b;
	COMPARE(x->pid, y->pid);
	COMPARE(x->handle, y->handle);
	COMPARE(x->start_ns, y->start_ns);
	return 0;
}

static int compare_connection(const void *a, const void *b)
{
	const struct m_connection *x = a;
	const struct m_connection *y = b;
	COMPARE(x->pid, y->pid);
	COMPARE(x->source, y->source);
	COMPARE(x->destination, y->destination);
	COMPARE(x->netns, y->netns);
	COMPARE(x->first_ns, y->first_ns);
	return 0;
}

struct key_order {
	const uint8_t *rows;
	size_t row_bytes;
	int (*compare)(const void *, const void *);
};

static int compare_position(const void *a, const void *b, void *arg)
{
	const struct key_order *o = arg;
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;
	int order = o->compare(o->rows + x * o->row_bytes, o->rows + y * o->row_bytes);
	return order ? order : x < y ? -1 : x > y;
}

/* Of the rows of one key keeps the last, in the place of the first. Sorting, not hashing:
 * the keys come from the file, which may be made to collide. Returns how many are left. */
static size_t keep_last(void *rows, size_t n, size_t row_bytes,
			int (*compare)(const void *, const void *))
{
	struct key_order o = {rows, row_bytes, compare};
	uint32_t *order = xrealloc(NULL, n, sizeof(*order));
	uint8_t *keep = xcalloc(n, 1);
	uint8_t *p = rows;
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, n, sizeof(*order), compare_position, &o);
	for (size_t from = 0, to; from < n; from = to) {
		uint32_t first = order[from];
		for (to = from + 1; to < n; to++)
			if (compare(p + first * row_bytes, p + order[to] * row_bytes))
				break;
		uint32_t last = order[to - 1];
		if (last != first)
			memcpy(p + first * row_bytes, p + last * row_bytes, row_bytes);
		keep[first] = 1;
	}
	size_t left = 0;
	for (size_t i = 0; i < n; i++) {
		if (!keep[i])
			continue;
		if (left != i)
			memcpy(p + left * row_bytes, p + i * row_bytes, row_bytes);
		left++;
	}
	free(order);
	free(keep);
	return left;
}

/* Removes replaced rows each time a table has doubled, so that memory follows the number of
 * keys and not the length of the recording. */
#define KEEP_LAST(vec, sorted, compare, now)                                                       \
	do {                                                                                       \
		if ((vec)->len > *(sorted) && ((now) || (vec)->len > 2 * *(sorted) + 4096)) {      \
			(vec)->len =                                                               \
				keep_last((vec)->data, (vec)->len, sizeof(*(vec)->data), compare); \
			*(sorted) = (vec)->len;                                                    \
		}                                                                                  \
	} while (0)

static void remove_replaced(struct rec_reader *r, bool now)
{
	KEEP_LAST(&r->t.processes, &r->processes_sorted, compare_process, now);
	KEEP_LAST(&r->t.losses, &r->losses_sorted, compare_loss, now);
	KEEP_LAST(&r->t.hists, &r->hists_sorted, compare_hist, now);
	KEEP_LAST(&r->t.gpus, &r->gpus_sorted, compare_gpu, now);
	KEEP_LAST(&r->t.comms, &r->comms_sorted, compare_comm, now);
	KEEP_LAST(&r->t.connections, &r->connections_sorted, compare_connection, now);
}

/* ---- blocks ---- */

#define BYTES_OF(vec) ((vec)->len * sizeof(*(vec)->data))

static size_t tables_bytes(const struct rec_reader *r)
{
	const struct rec_tables *t = &r->t;
	return r->string_bytes + t->strings.strings.len * STRING_COST + BYTES_OF(&t->probes) +
	       BYTES_OF(&t->threads) + BYTES_OF(&t->processes) + BYTES_OF(&t->maps) +
	       BYTES_OF(&t->codes) + BYTES_OF(&t->metas) + BYTES_OF(&t->notes) +
	       BYTES_OF(&t->windows) + BYTES_OF(&t->losses) + BYTES_OF(&t->hists) +
	       BYTES_OF(&t->enums) + BYTES_OF(&t->gpus) + BYTES_OF(&t->comms) +
	       BYTES_OF(&t->events) + BYTES_OF(&t->frames) + BYTES_OF(&t->stacks) +
	       BYTES_OF(&t->sources) + BYTES_OF(&t->connections) + BYTES_OF(&r->call_blocks) +
	       BYTES_OF(&r->counter_blocks) + BYTES_OF(&r->sample_blocks) +
	       BYTES_OF(&r->gpu_span_blocks);
}

static int add_rows(struct rec_reader *r, uint8_t type, const void *rows, size_t n)
{
	struct rec_tables *t = &r->t;
	switch (type) {
	case BLOCK_STRINGS:
		return strings_add(r, rows, n);
	case ROW_PROBE:
		ADD_INDEXED(&t->probes, &r->probes_known, (const struct indexed_probe *)rows, n);
		break;
	case ROW_THREAD:
		ADD_INDEXED(&t->threads, &r->threads_known, (const struct indexed_thread *)rows, n);
		break;
	case ROW_CODE:
		ADD_INDEXED(&t->codes, &r->codes_known, (const struct indexed_code *)rows, n);
		break;
	case ROW_FRAME:
		ADD_INDEXED(&t->frames, &r->frames_known, (const struct indexed_frame *)rows, n);
		break;
	case ROW_STACK:
		ADD_INDEXED(&t->stacks, &r->stacks_known, (const struct indexed_stack *)rows, n);
		break;
	case ROW_PROCESS:
		ADD_ROWS(&t->processes, rows, n);
		break;
	case ROW_MAP:
		ADD_ROWS(&t->maps, rows, n);
		break;
	case ROW_META:
		ADD_ROWS(&t->metas, rows, n);
		break;
	case ROW_NOTE:
		ADD_ROWS(&t->notes, rows, n);
		break;
	case ROW_WINDOW:
		ADD_ROWS(&t->windows, rows, n);
		break;
	case ROW_LOSS:
		ADD_ROWS(&t->losses, rows, n);
		break;
	case ROW_HIST:
		ADD_ROWS(&t->hists, rows, n);
		break;
	case ROW_ENUM:
		ADD_ROWS(&t->enums, rows, n);
		break;
	case ROW_GPU:
		ADD_ROWS(&t->gpus, rows, n);
		break;
	case ROW_COMM:
		ADD_ROWS(&t->comms, rows, n);
		break;
	case ROW_EVENT:
		ADD_ROWS(&t->events, rows, n);
		break;
	case ROW_CONNECTION:
		ADD_ROWS(&t->connections, rows, n);
		break;
	case ROW_SOURCE:
		ADD_ROWS(&t->sources, rows, n);
		break;
	case BLOCK_END:
		r->end = *(const struct end_row *)rows;
		t->complete = true;
		break;
	}
	return 0;
}

static int add_table(struct rec_reader *r, const struct table *t, const struct block_header *h,
		     const uint8_t *stored)
{
	if (!h->rows || h->rows > t->max_rows)
		return -EBADMSG;
	remove_replaced(r, false);
	uint64_t most = REC_TABLE_FREE + r->size * REC_TABLE_PER_BYTE;
	r->over = tables_bytes(r) + (size_t)h->rows * t->row_bytes >
		  (most < REC_TABLE_MOST ? most : REC_TABLE_MOST);
	if (r->over)
		return -EDQUOT;
	int rc = block_unpack(h, stored, &r->raw, NULL);
	if (rc)
		return rc;
	void *rows;
	rc = table_decode(t, r->raw.data, r->raw.len, h->rows, &rows);
	if (rc)
		return rc;
	rc = add_rows(r, h->type, rows, h->rows);
	free(rows);
	return rc;
}

/* Notes where a block of a bulk table is. False: it is of another type. */
static bool add_bulk(struct rec_reader *r, const struct block_ref *ref)
{
	switch (ref->h.type) {
	case ROW_CALL:
		*vec_push(&r->call_blocks) = *ref;
		r->t.calls += ref->h.rows;
		return true;
	case ROW_COUNTER:
		*vec_push(&r->counter_blocks) = *ref;
		r->t.counters += ref->h.rows;
		return true;
	case ROW_SAMPLE:
		*vec_push(&r->sample_blocks) = *ref;
		r->t.samples += ref->h.rows;
		return true;
	case ROW_GPU_SPAN:
		*vec_push(&r->gpu_span_blocks) = *ref;
		r->t.gpu_spans += ref->h.rows;
		return true;
	}
	return false;
}

int tables_add(struct rec_reader *r, const struct block_header *h, uint64_t payload_at,
	       const uint8_t *stored)
{
	struct block_ref ref = {payload_at, *h};
	if (add_bulk(r, &ref)) {
		if (h->rows && h->last_ns > r->t.last_ns)
			r->t.last_ns = h->last_ns;
		return h->rows ? 0 : -EBADMSG;
	}
	const struct table *t = table_of(h->type);
	return t ? add_table(r, t, h, stored) : 0;
}

/* ---- finishing ---- */

static uint32_t string_len(const struct rec_reader *r, uint32_t number)
{
	return r->t.strings.strings.data[number].len;
}

static void fix_string(const struct rec_reader *r, uint32_t *number)
{
	if (*number >= r->t.strings.strings.len)
		*number = r->lost_string;
}

/* Of a table's row, which is printed with its text. */
static void fix_text(struct rec_reader *r, uint32_t *number)
{
	fix_string(r, number);
	r->text_bytes += string_len(r, *number);
	if (r->text_bytes <= REC_TEXT_FREE + r->size * REC_TEXT_PER_BYTE)
		return;
	if (!r->cut_string) {
		scan_note_damage(r, r->size,
				 "its rows repeat more text than a recording of its size can hold");
		r->cut_string = string_append(r, CUT_TEXT);
	}
	*number = r->cut_string;
}

static void fill_string_gaps(struct rec_reader *r)
{
	bool gaps = r->lost_blocks;
	size_t n = r->t.strings.strings.len;
	for (size_t i = 1; i < n; i++)
		if (!r->t.strings.strings.data[i].s) {
			string_set(r, (uint32_t)i, LOST_TEXT, strlen(LOST_TEXT));
			gaps = true;
		}
	if (gaps)
		r->lost_string = string_append(r, LOST_TEXT);
}

static void finish_probe(struct rec_reader *r, size_t index)
{
	struct m_probe *p = &r->t.probes.data[index];
	struct probe_check *check = vec_push(&r->checks);
	check->known = r->probes_known.data[index];
	if (!check->known)
		*p = (struct m_probe){
			.layer = r->lost_string, .name = r->lost_string, .name_arg = -1};
	if (p->nargs > MODEL_MAX_ARGS)
		p->nargs = MODEL_MAX_ARGS;
	if (p->name_arg < -1 || p->name_arg >= p->nargs)
		p->name_arg = -1;
	p->has_return = p->has_return && p->nargs;
	fix_string(r, &p->layer);
	fix_string(r, &p->name);
	fix_string(r, &p->library);
	fix_string(r, &p->symbol);
	fix_string(r, &p->role);
	for (unsigned k = 0; k < MODEL_MAX_ARGS; k++) {
		fix_string(r, &p->arg_names[k]);
		fix_string(r, &p->arg_enums[k]);
		if (k >= p->nargs)
			continue;
		if (p->arg_types[k] == ARG_TYPE_STRING)
			check->strings |= (uint8_t)(1u << k);
		else if (p->arg_types[k] == ARG_TYPE_CODE)
			check->codes |= (uint8_t)(1u << k);
	}
	check->text = string_len(r, p->layer) + string_len(r, p->name);
	for (unsigned k = 0; k < p->nargs; k++)
		check->text += string_len(r, p->arg_names[k]);
}

static void finish_codes(struct rec_reader *r)
{
	for (size_t i = 0; i < r->t.codes.len; i++) {
		struct m_code *c = &r->t.codes.data[i];
		if (!r->codes_known.data[i])
			*c = (struct m_code){.name = r->lost_string, .file = r->lost_string};
		fix_string(r, &c->name);
		fix_string(r, &c->file);
	}
	r->lost_code = UINT32_MAX;
	if (r->lost_blocks) {
		r->lost_code = (uint32_t)r->t.codes.len;
		*vec_push(&r->t.codes) =
			(struct m_code){.name = r->lost_string, .file = r->lost_string};
	}
}

static uint32_t lost_frame(struct rec_reader *r, uint8_t kind)
{
	uint32_t name = r->lost_string ? r->lost_string : string_append(r, LOST_TEXT);
	*vec_push(&r->t.frames) = (struct m_frame){.kind = kind, .name = name};
	return (uint32_t)r->t.frames.len - 1;
}

static void finish_frames(struct rec_reader *r)
{
	for (size_t i = 0; i < r->t.frames.len; i++) {
		struct m_frame *f = &r->t.frames.data[i];
		if (!r->frames_known.data[i])
			*f = (struct m_frame){.name = r->lost_string};
		fix_string(r, &f->name);
		fix_string(r, &f->file);
		fix_string(r, &f->library);
		fix_string(r, &f->build_id);
	}
}

/* Twice what recordings have (STACK_FRAMES of wire/unwind.h). Walking up from each row of a longer
 * chain would take the square of its length. */
#define MOST_FRAMES 1024

/* A row that is lost, or whose parent is, or that is too deep, begins with a frame that says so. */
static void finish_stacks(struct rec_reader *r)
{
	struct rec_tables *t = &r->t;
	size_t nframes = t->frames.len;
	uint32_t bad_frame = UINT32_MAX; /* stands for frames that are not there */
	uint32_t bad_row = UINT32_MAX;	 /* for rows that are not there */
	uint16_t *depth = xcalloc(t->stacks.len + 1, sizeof(*depth));
	if (!t->stacks.len) {
		(void)vec_push(&t->stacks);
		(void)vec_push(&r->stacks_known);
	}
	t->stacks.data[0] = (struct m_stack){0};
	for (size_t i = 1; i < t->stacks.len; i++) {
		struct m_stack *s = &t->stacks.data[i];
		if (s->parent >= i)
			s->parent = 0;
		depth[i] = (uint16_t)(depth[s->parent] + 1);
		if (!r->stacks_known.data[i] || depth[i] > MOST_FRAMES) {
			bad_row = bad_row == UINT32_MAX ? lost_frame(r, FRAME_CUT) : bad_row;
			*s = (struct m_stack){.frame = bad_row};
			depth[i] = 1;
			continue;
		}
		if (s->frame >= nframes) {
			bad_frame =
				bad_frame == UINT32_MAX ? lost_frame(r, FRAME_NATIVE) : bad_frame;
			s->frame = bad_frame;
		}
	}
	if (r->lost_blocks) {
		bad_row = bad_row == UINT32_MAX ? lost_frame(r, FRAME_CUT) : bad_row;
		r->lost_stack = (uint32_t)t->stacks.len;
		*vec_push(&t->stacks) = (struct m_stack){.frame = bad_row};
	}
	free(depth);
}

/* The name is a value of the probe's name_arg. False: drop the row. */
static bool fix_hist_name(const struct rec_reader *r, struct m_hist *h)
{
	/* NOLINTNEXTLINE(bugprone-signed-char-misuse): -1 is meant to stay -1 */
	int arg = r->t.probes.data[h->probe].name_arg;
	if (arg < 0)
		return true;
	const struct probe_check *check = &r->checks.data[h->probe];
	if (check->strings >> arg & 1 && h->name >= r->t.strings.strings.len)
		h->name = r->lost_string;
	if (check->codes >> arg & 1 && h->name >= r->t.codes.len)
		h->name = r->lost_code;
	return h->name != UINT32_MAX || !(check->codes >> arg & 1);
}

static void finish_hists(struct rec_reader *r)
{
	size_t left = 0;
	for (size_t i = 0; i < r->t.hists.len; i++) {
		struct m_hist *h = &r->t.hists.data[i];
		if (h->probe >= r->checks.len || !r->checks.data[h->probe].known ||
		    !fix_hist_name(r, h)) {
			r->dropped++;
			continue;
		}
		if (left != i)
			r->t.hists.data[left] = *h;
		left++;
	}
	r->t.hists.len = left;
}

#define FIX_STRINGS(r, vec, member)                                                                \
	do {                                                                                       \
		for (size_t i_ = 0; i_ < (vec)->len; i_++)                                         \
			fix_text(r, &(vec)->data[i_].member);                                      \
	} while (0)

void tables_finish(struct rec_reader *r)
{
	struct rec_tables *t = &r->t;
	remove_replaced(r, true);
	fill_string_gaps(r);
	for (size_t i = 0; i < t->probes.len; i++)
		finish_probe(r, i);
	finish_codes(r);
	finish_frames(r);
	finish_stacks(r);
	finish_hists(r);
	FIX_STRINGS(r, &t->threads, comm);
	FIX_STRINGS(r, &t->processes, comm);
	FIX_STRINGS(r, &t->processes, command);
	FIX_STRINGS(r, &t->maps, path);
	FIX_STRINGS(r, &t->maps, build_id);
	FIX_STRINGS(r, &t->metas, key);
	FIX_STRINGS(r, &t->metas, value);
	FIX_STRINGS(r, &t->notes, subject);
	FIX_STRINGS(r, &t->notes, reason);
	FIX_STRINGS(r, &t->windows, layer);
	FIX_STRINGS(r, &t->losses, cause);
	FIX_STRINGS(r, &t->enums, type);
	FIX_STRINGS(r, &t->enums, name);
	FIX_STRINGS(r, &t->gpus, uuid);
	FIX_STRINGS(r, &t->gpus, name);
	FIX_STRINGS(r, &t->gpus, bus_id);
	FIX_STRINGS(r, &t->gpus, driver);
	FIX_STRINGS(r, &t->gpus, host);
	FIX_STRINGS(r, &t->events, entity);
	FIX_STRINGS(r, &t->events, name);
	FIX_STRINGS(r, &t->events, text);
	FIX_STRINGS(r, &t->connections, source);
	FIX_STRINGS(r, &t->connections, destination);
	FIX_STRINGS(r, &t->connections, opener);
	FIX_STRINGS(r, &t->sources, path);
	FIX_STRINGS(r, &t->sources, host);
	FIX_STRINGS(r, &t->sources, how);
	if (r->end.calls_dropped)
		*vec_push(&t->losses) = (struct m_loss){.cause = string_append(r, "not_written"),
							.count = r->end.calls_dropped};
}

void tables_free(struct rec_reader *r)
{
	struct rec_tables *t = &r->t;
	strtab_free(&t->strings);
	vec_free(&t->probes);
	vec_free(&t->threads);
	vec_free(&t->processes);
	vec_free(&t->maps);
	vec_free(&t->codes);
	vec_free(&t->metas);
	vec_free(&t->notes);
	vec_free(&t->windows);
	vec_free(&t->losses);
	vec_free(&t->hists);
	vec_free(&t->enums);
	vec_free(&t->gpus);
	vec_free(&t->comms);
	vec_free(&t->events);
	vec_free(&t->connections);
	vec_free(&t->sources);
	vec_free(&t->frames);
	vec_free(&t->stacks);
	vec_free(&r->call_blocks);
	vec_free(&r->counter_blocks);
	vec_free(&r->sample_blocks);
	vec_free(&r->gpu_span_blocks);
	vec_free(&r->probes_known);
	vec_free(&r->threads_known);
	vec_free(&r->codes_known);
	vec_free(&r->frames_known);
	vec_free(&r->stacks_known);
	vec_free(&r->checks);
}
