/* call_ring_hists.c - what threads counted, in layers that are not recorded in full: reads their
 * histograms, and believes no figure that the others do not allow. */
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/call_rings_impl.h"

#define LEAST_CALL_NS 8 /* that a call takes which is told: no thread can have made more */
#define HISTS_AT_ONCE (CHUNK_BYTES / sizeof(struct call_hist))

static off_t hist_offset(uint32_t i, uint32_t k)
{
	return (off_t)(CALL_HISTS_BEGIN + (uint64_t)i * CALL_HISTS_BYTES + 2 * CALL_HISTS_INDEX +
		       (uint64_t)k * sizeof(struct call_hist));
}

/* How many calls its thread would have to have made. */
static uint64_t calls_of(const struct hist_value *v)
{
	uint64_t sum = 0;
	for (int i = 0; i < HIST_BUCKETS; i++)
		sum += v->buckets[i];
	return sum > v->count ? sum : v->count;
}

/* The thread may be amid a call, and its process may write what it likes: no figure says more than
 * the others allow. What is claimed of time passes by, as a call of a function that sleeps does. */
static struct hist_value as_is_possible(const struct hist_value *in, uint64_t elapsed_ns)
{
	struct hist_value v = *in;
	if (v.errors > v.count)
		v.errors = v.count;
	if (v.nested > v.count)
		v.nested = v.count;
	if (v.max_ns > elapsed_ns)
		v.max_ns = elapsed_ns;
	if (v.total_ns / v.count > elapsed_ns)
		v.total_ns = v.count * v.max_ns;
	return v;
}

/* Adds n that lie in the chunk. calls: how many more the slot may have. */
static bool add_hists(struct call_rings *r, const struct ring_file *f, uint32_t n, bool ended,
		      uint64_t elapsed_ns, uint64_t *calls)
{
	for (uint32_t k = 0; k < n; k++) {
		struct call_hist in;
		memcpy(&in, r->chunk + k * sizeof(in), sizeof(in));
		uint64_t made = calls_of(&in.value);
		if (in.probe >= MAX_PROBES || made > *calls)
			return false;
		*calls -= made;
		const struct hist_key key = {.tgid = f->pid, .probe = in.probe, .name = in.name};
		const struct hist_value v =
			in.value.count ? as_is_possible(&in.value, elapsed_ns) : in.value;
		if (v.count)
			call_hists_add(&r->hists, &key, &v, ended);
	}
	return true;
}

/* False where no slot from here on was ever used. */
static bool hists_of_slot(struct call_rings *r, struct ring_file *f, uint32_t i, bool ended)
{
	union {
		struct call_slot s;
		uint8_t head[SLOT_HEAD];
	} u;
	uint64_t elapsed_ns = r->now.ns - r->opened_ns + PAIR_EVERY_NS;
	uint64_t calls = elapsed_ns / LEAST_CALL_NS;
	if (pread(f->fd, u.head, SLOT_HEAD, slot_offset(i)) != SLOT_HEAD)
		return false;
	if (!u.s.tid)
		return u.s.state != CALL_SLOT_FREE;
	uint32_t most = u.s.hists < CALL_HISTS_MOST ? u.s.hists : CALL_HISTS_MOST;
	for (uint32_t k = 0, n; k < most; k += n) {
		n = most - k < HISTS_AT_ONCE ? most - k : HISTS_AT_ONCE;
		size_t bytes = n * sizeof(struct call_hist);
		if (pread(f->fd, r->chunk, bytes, hist_offset(i, k)) == (ssize_t)bytes &&
		    add_hists(r, f, n, ended, elapsed_ns, &calls))
			continue;
		f->bad_records += !(f->bad_hists >> i & 1);
		f->bad_hists |= 1ULL << i;
		break;
	}
	return true;
}

void ring_file_histograms(struct call_rings *r, struct ring_file *f, bool ended)
{
	for (uint32_t i = 0; f->known && i < CALL_THREADS_MOST && hists_of_slot(r, f, i, ended);
	     i++)
		;
}

void call_rings_histograms(struct call_rings *r,
			   void (*visit)(void *ctx, const struct hist_key *key,
					 const struct hist_value *value),
			   void *ctx)
{
	call_hists_renew(&r->hists);
	for (size_t i = 0; i < r->files.len; i++)
		ring_file_histograms(r, &r->files.data[i], false);
	call_hists_visit(&r->hists, visit, ctx);
}
