/* steps_anchor.c - where in a text of operations each step of training has its update.
 *
 * The anchor is PyTorch's own mark of an optimizer's step, where it is recorded. Else it is the
 * backward pass that an update follows: of backward passes whose gradients are accumulated only
 * the last. What an update is, is told by its operations (in-place arithmetic); where the names
 * say nothing (plain kernels), by comparing what follows the backward passes. */
#include <stdlib.h>

#include "analyze/steps_impl.h"

#define APART_TIMES	 3  /* the usual distance of two updates: no farther is as usual */
#define UPDATED_LEAST	 3  /* updates on end from which their distance is known */
#define ACCUMULATED_MOST 64 /* passes for an update; more are rare */
#define FAR_TIMES	 20 /* an update is this part of what is rare, at least */

static uint64_t text_hash(const struct steps_text *t, size_t begin, size_t end)
{
	uint64_t h = end - begin;
	for (size_t i = begin; i < end; i++)
		h = hash_u64(h * 31 + t->ops[i].symbol);
	return h;
}

/* ---- marks ---- */

/* Optimizers that step one after another belong to one step: the first counts. */
static void anchors_of_marks(const struct steps_text *t, steps_positions_t *ret)
{
	bool backward_between = true, any_backward = false;
	for (size_t i = 0; i < t->len; i++)
		any_backward |= (steps_class(t, i) & CLASS_BACKWARD) != 0;
	for (size_t i = 0; i < t->len; i++) {
		uint32_t class = steps_class(t, i);
		backward_between |= (class & CLASS_BACKWARD) != 0;
		if (!(class & CLASS_OPTIMIZER))
			continue;
		if (backward_between || !any_backward)
			*vec_push(ret) = i;
		backward_between = false;
	}
}

/* ---- backward passes ---- */

/* Operations that update, between two backward passes. */
static uint32_t updates_in(const struct steps_text *t, size_t begin, size_t end)
{
	uint32_t n = 0;
	for (size_t i = begin; i < end; i++)
		n += (steps_class(t, i) & CLASS_UPDATE) != 0;
	return n;
}

/* Of the texts that follow backward passes one is the frequent end of another: what precedes the
 * end in the longer one is an update. False when there is no such pair. */
static bool keep_longer(const struct steps_text *t, const steps_positions_t *all,
			steps_positions_t *ret)
{
	struct map64 counts = {0}; /* hash of a text -> how often */
	size_t shortest = SIZE_MAX, short_at = 0, longer = 0;
	for (size_t k = 0; k + 1 < all->len; k++) {
		uint64_t key = text_hash(t, all->data[k] + 1, all->data[k + 1]), n = 0;
		map64_get(&counts, key, &n);
		map64_set(&counts, key, n + 1);
	}
	for (size_t k = 0; k + 1 < all->len; k++) {
		size_t len = all->data[k + 1] - all->data[k] - 1;
		uint64_t n = 0;
		map64_get(&counts, text_hash(t, all->data[k] + 1, all->data[k + 1]), &n);
		if (n * 4 >= all->len && len && len < shortest) {
			shortest = len;
			short_at = k;
		}
	}
	map64_free(&counts);
	if (shortest == SIZE_MAX)
		return false;
	uint64_t end = text_hash(t, all->data[short_at] + 1, all->data[short_at + 1]);
	for (size_t k = 0; k < all->len; k++) {
		size_t next = k + 1 < all->len ? all->data[k + 1] : t->len;
		size_t len = next - all->data[k] - 1;
		bool same = len == shortest && text_hash(t, next - shortest, next) == end;
		if (!same)
			*vec_push(ret) = all->data[k];
		longer += k + 1 < all->len && len > shortest &&
			  text_hash(t, next - shortest, next) == end;
	}
	return longer >= 2 && ret->len * 5 <= all->len * 4;
}

/* Of backward passes: how many updates follow each, and how many make one. */
struct updated {
	const steps_positions_t *all;
	const uint32_t *updates;
	uint32_t least;
};

static bool is_updated(const struct updated *u, size_t k)
{
	return u->updates[k] >= u->least;
}

static int by_size(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	return x < y ? -1 : x > y;
}

/* How far apart, in passes, most of those are that are updated; 0: they are not all over the text
 * alike, but few, or in a stretch in which more is done in place than elsewhere. */
static size_t usual_distance(const struct updated *u)
{
	VEC(size_t) apart = {0};
	size_t last = 0, within = 0;
	for (size_t k = 0; k < u->all->len; k++)
		if (is_updated(u, k)) {
			*vec_push(&apart) = k + 1 - last;
			last = k + 1;
		}
	*vec_push(&apart) = u->all->len - last;
	qsort(apart.data, apart.len, sizeof(*apart.data), by_size);
	size_t median = apart.data[(apart.len - 1) / 2];
	for (size_t i = 0; i < apart.len; i++)
		if (apart.data[i] <= APART_TIMES * median)
			within += apart.data[i];
	bool all_over = apart.len > UPDATED_LEAST && within * 2 > u->all->len;
	vec_free(&apart);
	return all_over ? median : 0;
}

/* Whether so many passes are updated that each of them makes a step. The others are the first,
 * whose update may be another, or ones that were left out. */
static bool most_are_updated(const struct updated *u)
{
	size_t without = 0;
	for (size_t k = 0; k + 1 < u->all->len; k++)
		without += !is_updated(u, k);
	return without * 3 < u->all->len;
}

static size_t updated_passes(const struct updated *u)
{
	size_t n = 0;
	for (size_t k = 0; k < u->all->len; k++)
		n += is_updated(u, k);
	return n;
}

/* Where gradients are accumulated hardly ever two passes in a row are updated. */
static bool are_in_a_row(const struct updated *u)
{
	size_t in_a_row = 0;
	for (size_t k = 1; k + 1 < u->all->len; k++)
		in_a_row += is_updated(u, k) && is_updated(u, k - 1);
	return in_a_row * 2 >= updated_passes(u);
}

/* Whether they are what little is done in place at all: of few steps, or where the number of
 * batches for an update changes. */
static bool are_all_that_is_done(const struct updated *u, uint32_t below)
{
	size_t n = updated_passes(u);
	return !below && n >= 2 && n * ACCUMULATED_MOST >= u->all->len && !are_in_a_row(u);
}

/* The most updates that follow a pass which is not updated. */
static uint32_t most_below(const struct updated *u)
{
	uint32_t most = 0;
	for (size_t k = 0; k < u->all->len; k++)
		most = !is_updated(u, k) && u->updates[k] > most ? u->updates[k] : most;
	return most;
}

/* How many updates make one, where gradients are accumulated; 0: each pass makes a step. Here and
 * there more is done in place than by any optimizer (an evaluation, statistics): what is less is
 * tried next. Updates that are very far apart are such, too, where others lie between. */
static uint32_t least_of_update(const steps_positions_t *all, const uint32_t *updates,
				uint32_t most)
{
	struct updated u = {.all = all, .updates = updates};
	uint32_t far = 0, below;
	for (; most; most = below) {
		u.least = (most * 2 + 4) / 5;
		below = most_below(&u);
		if (most_are_updated(&u))
			return most * FAR_TIMES >= far ? 0 : far;
		size_t apart = are_in_a_row(&u) ? 0 : usual_distance(&u);
		if ((apart && apart <= ACCUMULATED_MOST) || are_all_that_is_done(&u, below))
			return u.least;
		if (apart && !far)
			far = u.least;
	}
	return far;
}

static void keep_updated(const steps_positions_t *all, const uint32_t *updates, uint32_t most,
			 steps_positions_t *ret)
{
	uint32_t least = least_of_update(all, updates, most);
	for (size_t k = 0; k < all->len; k++)
		if (updates[k] >= least)
			*vec_push(ret) = all->data[k];
}

static void anchors_of_backwards(const struct steps_text *t, steps_positions_t *ret)
{
	steps_positions_t all = {0};
	for (size_t i = 0; i < t->len; i++)
		if (steps_class(t, i) & CLASS_BACKWARD)
			*vec_push(&all) = i;
	uint32_t *updates = xcalloc(all.len + 1, sizeof(*updates)), most = 0;
	for (size_t k = 0; k < all.len; k++) {
		size_t end = k + 1 < all.len ? all.data[k + 1] : t->len;
		updates[k] = updates_in(t, all.data[k], end);
		most = updates[k] > most ? updates[k] : most;
	}
	if (most || !keep_longer(t, &all, ret)) {
		ret->len = 0;
		keep_updated(&all, updates, most, ret);
	}
	free(updates);
	vec_free(&all);
}

/* ---- several optimizers ---- */

#define MOST_OPTIMIZERS 4

/* Of what changes parameters. What stands between and behind may be the next step's: gradients that
 * are reset, tensors that are made of one batch, or of several that arrived at once. */
static uint64_t update_hash(const struct steps_text *t, size_t begin, size_t end)
{
	uint64_t h = 0;
	for (size_t i = begin; i < end; i++)
		if (steps_class(t, i) & (CLASS_UPDATE | CLASS_OPTIMIZER) &&
		    !(steps_class(t, i) & CLASS_RESET))
			h = hash_u64(h * 31 + t->ops[i].symbol + 1);
	return h;
}

/* Where updates of different optimizers take turns (generator and discriminator), a turn is one
 * step. Updates that look the same are each a step. */
static void join_turns(const struct steps_text *t, steps_positions_t *anchors)
{
	uint64_t *hashes = xcalloc(anchors->len + 1, sizeof(*hashes));
	for (size_t k = 0; k < anchors->len; k++) {
		size_t end = k + 1 < anchors->len ? anchors->data[k + 1] : t->len, most;
		size_t n = steps_update_run(t, anchors->data[k], end, &most);
		hashes[k] = update_hash(t, anchors->data[k], anchors->data[k] + n);
	}
	for (size_t turn = 2; turn <= MOST_OPTIMIZERS; turn++) {
		size_t same = 0, differ = 0;
		if (anchors->len < 3 * turn)
			break;
		size_t pairs = anchors->len - turn;
		for (size_t k = 0; k < pairs; k++) {
			same += hashes[k] == hashes[k + turn];
			differ += hashes[k] != hashes[k + 1];
		}
		if (same * 10 < pairs * 8 || differ * 10 < pairs * 8)
			continue;
		size_t kept = 0;
		for (size_t k = turn - 1; k < anchors->len; k += turn)
			anchors->data[kept++] = anchors->data[k];
		anchors->len = kept;
		break;
	}
	free(hashes);
}

size_t steps_update_run(const struct steps_text *t, size_t i, size_t end, size_t *ret_most)
{
	const uint32_t updating = CLASS_UPDATE | CLASS_OPTIMIZER | CLASS_ZERO_GRAD;
	const uint32_t ending = updating | CLASS_COLLECTIVE;
	size_t last = i + 1, at = i + 1;
	for (; at < end && steps_class(t, at) & (ending | CLASS_NEUTRAL); at++)
		if (steps_class(t, at) & ending)
			last = at + 1;
	while (last < at && steps_class(t, last) & CLASS_READ)
		last++;
	if (at < end && steps_class(t, at) & CLASS_LOADER)
		last = at; /* all that is before the next batch */
	*ret_most = at - i;
	return last - i;
}

void steps_anchors_of_training(const struct steps_text *t, steps_positions_t *ret)
{
	anchors_of_marks(t, ret);
	if (!ret->len)
		anchors_of_backwards(t, ret);
	join_turns(t, ret);
}
