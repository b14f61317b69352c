/* read_tables.c - puts the rows of a recording's tables together.
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

uint32_t reader_string(struct rec_reader *r, const char *s, size_t len)
{
	uint32_t number = (uint32_t)r->t.strings.strings.len;
	(void)vec_push(&r->t.strings.strings);
	string_set(r, number, s, len);
	return number;
}

static uint32_t string_append(struct rec_reader *r, const char *s)
{
	return reader_string(r, s, strlen(s));
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

/* ---- rows with a number, rows with a key ---- */

/* Puts rows at their number; rows in between are gaps. */
static int add_numbered(struct rec_reader *r, uint8_t kind, const uint8_t *rows,
			const uint32_t *numbers, size_t n)
{
	const struct row_kind_info *k = row_kind_info(kind);
	struct row_vec *table = rec_table(&r->t, k);
	struct row_vec *known = (struct row_vec *)&r->known[kind];
	for (size_t i = 0; i < n; i++) {
		size_t number = numbers[i];
		if (number >= table->len + REC_MAX_ROWS)
			return -EBADMSG;
		if (number > table->len && reader_count_rows(r, number - table->len))
			return -EDQUOT;
		if (number >= table->len) {
			row_vec_add(known, 1, number + 1 - table->len);
			row_vec_add(table, k->row_bytes, number + 1 - table->len);
		}
		memcpy(table->data + number * k->row_bytes, rows + i * k->row_bytes, k->row_bytes);
		known->data[number] = 1;
	}
	return 0;
}

struct key_order {
	const uint8_t *rows;
	const struct row_kind_info *kind;
};

static int compare_position(const void *a, const void *b, void *arg)
{
	const struct key_order *o = arg;
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;
	int order = row_compare_keys(o->kind, o->rows + x * o->kind->row_bytes,
				     o->rows + y * o->kind->row_bytes);
	return order ? order : x < y ? -1 : x > y;
}

/* Of the rows of one key keeps the last, in the place of the first. Sorting, not hashing:
 * the keys come from the file, which may be made to collide. Returns how many are left. */
static size_t keep_last(const struct row_kind_info *k, uint8_t *p, size_t n)
{
	struct key_order o = {p, k};
	size_t row_bytes = k->row_bytes;
	uint32_t *order = xrealloc(NULL, n, sizeof(*order));
	uint8_t *keep = xcalloc(n, 1);
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, n, sizeof(*order), compare_position, &o);
	for (size_t from = 0, to; from < n; from = to) {
		uint32_t first = order[from];
		for (to = from + 1; to < n; to++)
			if (row_compare_keys(k, p + first * row_bytes, p + order[to] * row_bytes))
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
static void remove_replaced(struct rec_reader *r, bool now)
{
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		const struct row_kind_info *k = row_kind_info(kind);
		if (!k || k->keeping != ROWS_KEYED)
			continue;
		struct row_vec *table = rec_table(&r->t, k);
		size_t *sorted = &r->sorted[kind];
		if (table->len > *sorted && (now || table->len > 2 * *sorted + 4096))
			*sorted = table->len = keep_last(k, table->data, table->len);
	}
}

/* ---- blocks ---- */

static size_t tables_bytes(struct rec_reader *r)
{
	size_t bytes = r->string_bytes + r->t.strings.strings.len * STRING_COST;
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		const struct row_kind_info *k = row_kind_info(kind);
		if (k && k->keeping != ROWS_BULK)
			bytes += rec_table(&r->t, k)->len * k->row_bytes;
		bytes += r->blocks[kind].len * sizeof(*r->blocks[kind].data);
	}
	return bytes;
}

static int add_rows(struct rec_reader *r, uint8_t type, const void *rows, const uint32_t *numbers,
		    size_t n)
{
	const struct row_kind_info *k = row_kind_info(type);
	if (type == BLOCK_STRINGS)
		return strings_add(r, rows, n);
	if (type == BLOCK_END) {
		r->end = *(const struct end_row *)rows;
		r->t.complete = true;
		return 0;
	}
	if (k->keeping == ROWS_INDEXED)
		return add_numbered(r, type, rows, numbers, n);
	memcpy(row_vec_add(rec_table(&r->t, k), k->row_bytes, n), rows, n * k->row_bytes);
	return 0;
}

static int add_table(struct rec_reader *r, const struct row_kind_info *k,
		     const struct block_header *h, const uint8_t *stored)
{
	if (!h->rows || h->rows > schema_most_rows(k))
		return -EBADMSG;
	remove_replaced(r, false);
	uint64_t most = REC_TABLE_FREE + r->size * REC_TABLE_PER_BYTE;
	r->over = tables_bytes(r) + (size_t)h->rows * k->row_bytes >
		  (most < REC_TABLE_MOST ? most : REC_TABLE_MOST);
	if (r->over)
		return -EDQUOT;
	int rc = block_unpack(h, stored, &r->raw, NULL);
	if (rc)
		return rc;
	void *rows;
	uint32_t *numbers = NULL;
	rc = rows_decode(k, r->raw.data, r->raw.len, h->rows, &rows, &numbers);
	if (rc)
		return rc;
	rc = add_rows(r, h->type, rows, numbers, h->rows);
	free(rows);
	free(numbers);
	return rc;
}

/* Notes where a block of bulk rows is. */
static int add_bulk(struct rec_reader *r, const struct block_ref *ref)
{
	if (!ref->h.rows)
		return -EBADMSG;
	*vec_push(&r->blocks[ref->h.type]) = *ref;
	*rec_bulk_count(&r->t, row_kind_info(ref->h.type)) += ref->h.rows;
	if (ref->h.last_ns > r->t.last_ns)
		r->t.last_ns = ref->h.last_ns;
	return 0;
}

int tables_add(struct rec_reader *r, const struct block_header *h, uint64_t payload_at,
	       const uint8_t *stored)
{
	const struct row_kind_info *k = row_kind_info(h->type);
	if (k && k->keeping == ROWS_BULK)
		return add_bulk(r, &(struct block_ref){payload_at, *h});
	k = schema_of(h->type);
	return k ? add_table(r, k, h, stored) : 0;
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
	check->known = r->known[ROW_PROBE].data[index];
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
		if (!r->known[ROW_CODE].data[i])
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
		if (!r->known[ROW_FRAME].data[i])
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
		(void)vec_push(&r->known[ROW_STACK]);
	}
	t->stacks.data[0] = (struct m_stack){0};
	for (size_t i = 1; i < t->stacks.len; i++) {
		struct m_stack *s = &t->stacks.data[i];
		if (s->parent >= i)
			s->parent = 0;
		depth[i] = (uint16_t)(depth[s->parent] + 1);
		if (!r->known[ROW_STACK].data[i] || depth[i] > MOST_FRAMES) {
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

static void finish_wait_totals(struct rec_reader *r)
{
	size_t left = 0;
	for (size_t i = 0; i < r->t.wait_totals.len; i++) {
		const struct m_wait_total *w = &r->t.wait_totals.data[i];
		if (w->thread >= r->known[ROW_THREAD].len ||
		    !r->known[ROW_THREAD].data[w->thread] || w->reason >= WAIT_REASONS) {
			r->dropped++;
			continue;
		}
		r->t.wait_totals.data[left++] = *w;
	}
	r->t.wait_totals.len = left;
}

static void finish_stall_totals(struct rec_reader *r)
{
	size_t left = 0;
	for (size_t i = 0; i < r->t.stall_totals.len; i++) {
		const struct m_stall_total *s = &r->t.stall_totals.data[i];
		if (s->thread >= r->known[ROW_THREAD].len ||
		    !r->known[ROW_THREAD].data[s->thread] || s->kind >= STALL_KINDS) {
			r->dropped++;
			continue;
		}
		r->t.stall_totals.data[left++] = *s;
	}
	r->t.stall_totals.len = left;
}

/* Of rows that stand for nothing but themselves, threads and metrics. */
static void fix_texts(struct rec_reader *r, const struct row_kind_info *k)
{
	struct row_vec *table = rec_table(&r->t, k);
	for (size_t f = 0; f < k->nfields; f++) {
		const struct row_field *field = &k->fields[f];
		if (field->means != MEANS_STRING && field->means != MEANS_ENTITY)
			continue;
		for (size_t i = 0; i < table->len; i++)
			fix_text(r, (uint32_t *)(table->data + i * k->row_bytes + field->offset));
	}
}

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
	finish_wait_totals(r);
	finish_stall_totals(r);
#define X(number, NAME, stem, members)                                                             \
	if (row_kind_info(number)->keeping != ROWS_INDEXED || (number) == ROW_THREAD ||            \
	    (number) == ROW_METRIC)                                                                \
		fix_texts(r, row_kind_info(number));
	ROW_TABLES(X)
#undef X
	if (r->end.calls_dropped)
		*vec_push(&t->losses) = (struct m_loss){.cause = string_append(r, "not_written"),
							.count = r->end.calls_dropped};
}

void tables_free(struct rec_reader *r)
{
	rec_tables_free(&r->t);
	for (unsigned kind = 0; kind < ROW_KINDS; kind++) {
		vec_free(&r->blocks[kind]);
		vec_free(&r->known[kind]);
	}
	vec_free(&r->checks);
}
