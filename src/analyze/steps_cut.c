/* steps_cut.c - from one operation in each step to where steps begin and end.
 *
 * From anchor to anchor lies a segment: the end of one step and the beginning of the next. The
 * usual segment is the one that is met most often; where in it steps end, its cut, is asked of
 * several witnesses:
 *  - what comes before the first anchor ends with the beginning of a step, and what comes after
 *    the last anchor begins with the end of one;
 *  - of a segment into which something was inserted (an evaluation), the usual one's beginning
 *    and end are left, and the cut is between them;
 *  - an optimizer's operations end a step, and so does the read of a value.
 * Each gives a range of cuts; the cut that most agree to wins, near what names say. */
#include "analyze/steps_impl.h"

struct cutter {
	const struct steps_text *t;
	const size_t *anchors;
	size_t n;
	bool training;
	size_t usual_at; /* anchor that the usual segment begins with */
	size_t len;	 /* of the usual segment */
	size_t cut;	 /* of its operations are of the step that ends: 1 to len */
	int *votes;	 /* by cut, as differences */
};

/* ---- the usual segment ---- */

static size_t segment_len(const struct cutter *c, size_t k)
{
	return c->anchors[k + 1] - c->anchors[k];
}

static uint64_t segment_hash(const struct cutter *c, size_t k)
{
	uint64_t h = 1;
	for (size_t i = c->anchors[k]; i < c->anchors[k + 1]; i++)
		h = hash_u64(h * 31 + c->t->ops[i].symbol);
	return h;
}

static int compare_sizes(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	return x < y ? -1 : x > y;
}

static size_t median_segment(const struct cutter *c)
{
	size_t *lens = xcalloc(c->n, sizeof(*lens)), ret = 0;
	for (size_t k = 0; k + 1 < c->n; k++)
		lens[k] = segment_len(c, k);
	qsort(lens, c->n - 1, sizeof(*lens), compare_sizes);
	size_t median = lens[(c->n - 1) / 2];
	free(lens);
	for (size_t k = 0; k + 1 < c->n; k++)
		if (segment_len(c, k) == median)
			ret = k;
	return ret;
}

static void find_usual(struct cutter *c)
{
	struct map64 counts = {0};
	uint64_t most = 0;
	for (size_t k = 0; k + 1 < c->n; k++) {
		uint64_t key = segment_hash(c, k), n = 0;
		map64_get(&counts, key, &n);
		map64_set(&counts, key, ++n);
		if (n > most) {
			most = n;
			c->usual_at = k;
		}
	}
	map64_free(&counts);
	if (most < 2)
		c->usual_at = median_segment(c);
	c->len = segment_len(c, c->usual_at);
}

static uint32_t usual_symbol(const struct cutter *c, size_t i)
{
	return c->t->ops[c->anchors[c->usual_at] + i].symbol;
}

/* How many operations of [begin, end) are as the usual segment begins. */
static size_t same_at_begin(const struct cutter *c, size_t begin, size_t end)
{
	size_t n = 0;
	while (n < c->len && begin + n < end && c->t->ops[begin + n].symbol == usual_symbol(c, n))
		n++;
	return n;
}

static size_t same_at_end(const struct cutter *c, size_t begin, size_t end)
{
	size_t n = 0;
	while (n < c->len && begin + n < end &&
	       c->t->ops[end - 1 - n].symbol == usual_symbol(c, c->len - 1 - n))
		n++;
	return n;
}

/* ---- witnesses ---- */

static void vote(struct cutter *c, size_t low, size_t high, int weight)
{
	if (low < 1)
		low = 1;
	if (high > c->len)
		high = c->len;
	if (low > high)
		return;
	c->votes[low] += weight;
	c->votes[high + 1] -= weight;
}

/* Values for a log, with the arithmetic for them, and waits. */
static bool only_reads(const struct steps_text *t, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		uint32_t class = steps_class(t, i);
		if (!(class & (CLASS_READ | CLASS_NEUTRAL)) ||
		    (class & CLASS_COPY && !(class & CLASS_TO_HOST)))
			return false;
	}
	return true;
}

/* What was inserted into a segment is long enough to stand for itself, and does some work. */
static bool is_of_its_own(const struct cutter *c, size_t begin, size_t end)
{
	const uint32_t idle = CLASS_READ | CLASS_NEUTRAL | CLASS_SETUP | CLASS_COLLECTIVE;
	for (size_t i = begin; i < end && (end - begin) * 4 >= c->len; i++)
		if (!(steps_class(c->t, i) & idle))
			return true;
	return false;
}

/* A few operations may come in the midst of a step; what is much longer lies between two. */
static void ask_insertions(struct cutter *c)
{
	enum { MOST = 4 };
	for (size_t k = 0, asked = 0; k + 1 < c->n && asked < MOST; k++) {
		size_t begin = c->anchors[k], end = c->anchors[k + 1];
		size_t head = same_at_begin(c, begin, end), tail = same_at_end(c, begin, end);
		if (end - begin <= c->len || head + tail < c->len || !head || !tail)
			continue;
		size_t inserted = end - begin - c->len;
		size_t from = begin + (c->len - tail);
		if (!is_of_its_own(c, from, from + inserted))
			continue;
		vote(c, c->len - tail, head, 1);
		asked++;
	}
}

/* Where a text ends without the tensors that are made at its end: they are for what follows. A
 * value that is read behind the last operation of another kind is still of the text. */
static size_t without_setup(const struct steps_text *t, size_t begin, size_t end)
{
	size_t ret = end;
	while (ret > begin && steps_class(t, ret - 1) & CLASS_SETUP &&
	       !(steps_class(t, ret - 1) & (CLASS_UPDATE | CLASS_COPY)))
		ret--;
	while (ret < end && steps_class(t, ret) & CLASS_READ)
		ret++;
	return ret;
}

/* least: operations that end a step by their names. */
static void ask_ends(struct cutter *c, size_t least)
{

	size_t first = c->anchors[0], last = c->anchors[c->n - 1];
	size_t tail = same_at_end(c, 0, first), head = same_at_begin(c, last, c->t->len);
	/* What is as usual up to the recording's very beginning or end was cut by that. A recording
	 * that came into the midst of a step begins within an operation: what that calls is there
	 * without it, and says nothing of where steps begin. */
	if (tail < first && !(c->t->joined && first - tail < c->len))
		vote(c, c->len - tail, c->len, 2);
	else if (c->t->began)
		vote(c, c->len - first, c->len - first, 3);
	if (last + head == c->t->len && !c->t->ended)
		return;
	/* A loop over batches asks for one more than there are. */
	if (head && steps_class(c->t, last + head - 1) & CLASS_LOADER)
		head--;
	/* It may begin with tensors that are made. */
	if (c->training && head > least)
		head = without_setup(c->t, last + least, last + head) - last;
	vote(c, 1, head, 3);
	vote(c, head, head, 1);
}

/* The pauses between operations, summed over segments that are as usual: [i] before operation i. */
static uint64_t *sum_pauses(const struct cutter *c)
{
	uint64_t *sums = xcalloc(c->len + 1, sizeof(*sums));
	for (size_t k = 0, seen = 0; k + 1 < c->n && seen < 64; k++) {
		size_t begin = c->anchors[k];
		if (segment_len(c, k) != c->len ||
		    same_at_begin(c, begin, c->anchors[k + 1]) < c->len)
			continue;
		seen++;
		for (size_t i = 1; i <= c->len; i++) {
			uint64_t end = steps_op_end(&c->t->ops[begin + i - 1]);
			uint64_t next = c->t->ops[begin + i].start_ns;
			sums[i] += next > end ? next - end : 0;
		}
	}
	return sums;
}

/* Changes parameters: resetting gradients alone does not. */
static bool is_hard_update(uint32_t class)
{
	return class & (CLASS_UPDATE | CLASS_OPTIMIZER) && !(class & CLASS_RESET);
}

/* Of the cuts behind an operation of the class the one with the longest pause; class 0: of all. 0:
 * there is none. */
static size_t longest_pause(const struct cutter *c, const uint64_t *pauses, uint32_t class)
{
	size_t ret = 0;
	for (size_t i = 1; i <= c->len; i++) {
		uint32_t before = steps_class(c->t, c->anchors[c->usual_at] + i - 1);
		if ((!class || before & class) && (!ret || pauses[i] > pauses[ret]))
			ret = i;
	}
	return ret;
}

/* Steps without an update end before the next batch is asked for; or when a value was handed to
 * the host, or a token chosen; else likely where the host pauses longest. */
static size_t ask_names_of_inference(struct cutter *c)
{
	size_t begin = c->anchors[c->usual_at], cut = 0;
	for (size_t i = 0; i < c->len && !cut; i++)
		if (steps_class(c->t, begin + i) & CLASS_LOADER)
			cut = i ? i : c->len;
	uint64_t *pauses = sum_pauses(c);
	if (!cut)
		cut = longest_pause(c, pauses, CLASS_READ);
	if (!cut)
		cut = longest_pause(c, pauses, CLASS_CHOICE);
	if (cut)
		vote(c, cut, cut, 1);
	else
		cut = longest_pause(c, pauses, 0);
	free(pauses);
	return cut;
}

/* Gradients are reset behind the update that they were for, or in front of the next forward pass:
 * the latter where the host pauses before, for the next batch. n: operations that end the step by
 * their names; the smaller number is what remains without the reset. */
static size_t without_reset(const struct cutter *c, size_t n)
{
	size_t begin = c->anchors[c->usual_at], ret = n, model = n;
	while (ret > 1 &&
	       steps_class(c->t, begin + ret - 1) & (CLASS_RESET | CLASS_NEUTRAL | CLASS_READ) &&
	       !is_hard_update(steps_class(c->t, begin + ret - 1)))
		ret--;
	while (model < c->len && !(steps_class(c->t, begin + model) & CLASS_MODEL))
		model++;
	uint64_t *pauses = sum_pauses(c), inside = 0, all = 0;
	for (size_t i = ret; i <= model && i <= c->len; i++) {
		inside += i < n ? pauses[i] : 0;
		all += pauses[i];
	}
	free(pauses);
	return inside * 4 > all ? ret : n;
}

/* An optimizer's operations end a step. */
static size_t ask_names_of_training(struct cutter *c)
{
	size_t begin = c->anchors[c->usual_at], most;
	size_t n = steps_update_run(c->t, begin, begin + c->len, &most);
	n = without_reset(c, n);
	if (n > 1)
		vote(c, n, most, 3);
	return n;
}

static void find_cut(struct cutter *c)
{
	c->votes = xcalloc(c->len + 2, sizeof(*c->votes));
	size_t near = c->training ? ask_names_of_training(c) : ask_names_of_inference(c);
	ask_ends(c, near);
	ask_insertions(c);
	int sum = 0, most = -1;
	for (size_t i = 1; i <= c->len; i++) {
		sum += c->votes[i];
		size_t far = i > near ? i - near : near - i;
		size_t best = c->cut > near ? c->cut - near : near - c->cut;
		if (sum > most || (sum == most && far < best)) {
			most = sum;
			c->cut = i;
		}
	}
	free(c->votes);
}

/* ---- cuts ---- */

/* Of a segment in which the usual one is not found whole: the operations around the cut, nearest
 * to where it is usually; else by names; else as far as usual. */
static size_t cut_of_other(const struct cutter *c, size_t begin, size_t end)
{
	size_t best = 0, most, len = end - begin;
	for (size_t i = 1; i < len && c->cut < c->len; i++) {
		if (c->t->ops[begin + i - 1].symbol != usual_symbol(c, c->cut - 1) ||
		    c->t->ops[begin + i].symbol != usual_symbol(c, c->cut))
			continue;
		size_t far = i > c->cut ? i - c->cut : c->cut - i;
		size_t far_best = best > c->cut ? best - c->cut : c->cut - best;
		if (!best || far < far_best)
			best = i;
	}
	if (best)
		return begin + best;
	if (c->training && (best = steps_update_run(c->t, begin, end, &most)) > 1)
		return begin + best;
	return begin + (c->cut < len ? c->cut : len);
}

/* Where the host pauses longest: before one of the operations begin to end, both included. */
static size_t longest_pause_in(const struct steps_text *t, size_t begin, size_t end)
{
	size_t ret = begin;
	uint64_t longest = 0;
	for (size_t i = begin; i <= end && i < t->len; i++) {
		uint64_t before = steps_op_end(&t->ops[i - 1]), at = t->ops[i].start_ns;
		if (at > before && at - before > longest) {
			longest = at - before;
			ret = i;
		}
	}
	return ret;
}

/* Of a segment that ends as usual from `tail` on, but begins otherwise, as that of the first
 * update: what the usual step ends with, from its last update on, is looked for before `tail`. */
static size_t end_of_update(const struct cutter *c, size_t begin, size_t tail)
{
	size_t from = c->cut, n;
	while (from && !(steps_class(c->t, c->anchors[c->usual_at] + from - 1) & CLASS_UPDATE))
		from--;
	if (!from || !c->training)
		return tail;
	from--;
	for (size_t end = tail; end >= begin + c->cut - from; end--) {
		for (n = 0; n < c->cut - from; n++)
			if (c->t->ops[end - 1 - n].symbol != usual_symbol(c, c->cut - 1 - n))
				break;
		if (n == c->cut - from)
			return end;
	}
	return tail;
}

static bool is_work(const struct cutter *c, size_t op)
{
	return !(steps_class(c->t, op) & (CLASS_SETUP | CLASS_LOADER));
}

/* Where the next step begins in a segment that something was inserted into, by the work of the
 * usual one's beginning: tensors that are moved for it may be for more batches than one, or none.
 * `end` where that is not there. */
static size_t begin_of_work(const struct cutter *c, size_t begin, size_t end)
{
	size_t usual = c->anchors[c->usual_at], at = end, k = c->len;
	while (k > c->cut) {
		if (!is_work(c, usual + k - 1)) {
			k--;
			continue;
		}
		while (at > begin && !is_work(c, at - 1))
			at--;
		if (at == begin || c->t->ops[at - 1].symbol != usual_symbol(c, k - 1))
			return end;
		at--;
		k--;
	}
	return at;
}

/* Where the step of anchor k ends and where the next one begins. True when all is as usual but
 * for what lies between the two. */
static bool cut_segment(const struct cutter *c, size_t k, size_t *ret_end, size_t *ret_begin)
{
	size_t begin = c->anchors[k], end = c->anchors[k + 1], rest = c->len - c->cut;
	bool head = same_at_begin(c, begin, end) >= c->cut;
	bool tail = same_at_end(c, begin, end) >= rest;
	size_t from_head = begin + c->cut, from_tail = end - (tail ? rest : 0);
	if (head && tail && from_head <= from_tail) {
		*ret_end = *ret_begin = from_head;
		if (from_head < from_tail && is_of_its_own(c, from_head, from_tail))
			*ret_begin = without_setup(c->t, from_head, from_tail);
		else if (from_head < from_tail && only_reads(c->t, from_head, from_tail))
			*ret_end = *ret_begin = longest_pause_in(c->t, from_head, from_tail);
		return true;
	}
	size_t work = head && !tail ? begin_of_work(c, from_head, end) : end;
	if (work < end && is_of_its_own(c, from_head, work)) {
		*ret_end = from_head;
		*ret_begin = without_setup(c->t, from_head, work);
		return true;
	}
	if (head)
		*ret_end = from_head;
	else if (tail && from_tail > begin)
		*ret_end = end_of_update(c, begin, from_tail);
	else
		*ret_end = cut_of_other(c, begin, end);
	*ret_begin = *ret_end;
	return false;
}

/* Where as many of the usual step's first operations are before the first anchor, nearest to where
 * they are expected; SIZE_MAX: they are not there. */
static size_t find_beginning(const struct cutter *c, size_t expected, size_t enough)
{
	size_t first = c->anchors[0], best = SIZE_MAX;
	for (size_t i = 0; i + enough <= first; i++) {
		size_t n = 0;
		while (n < enough && c->t->ops[i + n].symbol == usual_symbol(c, c->cut + n))
			n++;
		size_t far = i > expected ? i - expected : expected - i;
		size_t far_best = best > expected ? best - expected : expected - best;
		if (n == enough && (best == SIZE_MAX || far < far_best))
			best = i;
	}
	return best;
}

/* Where the first step begins: before the first anchor is what the job did to get ready, or, where
 * the recording began within a step, only a part of it: then SIZE_MAX. The first step's operations
 * may differ from later steps'; but where the recording joined them, what differs is operations
 * that had begun before they were probed. */
static size_t begin_of_first(const struct cutter *c)
{
	size_t first = c->anchors[0], rest = c->len - c->cut;
	size_t tail = same_at_end(c, 0, first);
	size_t expected = first > rest ? first - rest : 0;
	if (tail >= rest)
		return expected;
	if (c->t->joined || (tail == first && !c->t->began))
		return SIZE_MAX;
	for (size_t enough = 4; enough; enough /= 2) {
		size_t found = enough <= rest ? find_beginning(c, expected, enough) : SIZE_MAX;
		if (found != SIZE_MAX)
			return found;
	}
	return c->training ? expected : SIZE_MAX;
}

static void add_cut(struct steps_cuts *ret, size_t begin, size_t end)
{
	struct steps_cut *row = vec_push(&ret->rows);
	row->begin = begin;
	row->end = end;
}

void steps_cut(struct steps_cuts *ret, const struct steps_text *t, const size_t *anchors,
	       size_t anchors_len, bool training)
{
	struct cutter c = {.t = t, .anchors = anchors, .n = anchors_len, .training = training};
	*ret = (struct steps_cuts){0};
	if (anchors_len < 3)
		return;
	find_usual(&c);
	find_cut(&c);
	size_t begin = begin_of_first(&c), last = anchors[c.n - 1];
	bool first_whole = begin != SIZE_MAX;
	ret->partial_first = !first_whole;
	for (size_t k = 0; k + 1 < c.n; k++) {
		size_t end, next;
		ret->usual += cut_segment(&c, k, &end, &next);
		if (k || first_whole)
			add_cut(ret, begin, end);
		begin = next;
	}
	size_t end = last + c.cut;
	bool last_whole = same_at_begin(&c, last, t->len) >= c.cut;
	if (!last_whole && t->ended)
		end = cut_of_other(&c, last, t->len);
	/* Values that are read at the loop's end are of its last step; a mere wait is not. */
	while (end < t->len && !(steps_class(t, end) & CLASS_WAIT) &&
	       steps_class(t, end) & CLASS_READ)
		end++;
	if (last_whole || t->ended)
		add_cut(ret, begin, end);
	ret->partial_last = !t->ended && (!last_whole || end < t->len);
	ret->usual++;
	ret->usual_len = c.len;
}

void steps_cuts_free(struct steps_cuts *c)
{
	vec_free(&c->rows);
}
