/* gpu_ledger.c - the ledger of memory: device memory by process and device, pinned memory by
 * process.
 *
 * An allocation counts from the end of its call, a free from its start. The device of an
 * allocation is that of the thread's current context, as far as the calls that made it
 * current were seen; else the only device that is known in the process; else it is unknown.
 * Memory made with the driver's virtual memory calls lives until its handle is released and
 * no mapping of it is left. */
#include "analyze/gpu_ledger.h"

#include "base/map64.h"

#define DEVICE_UNKNOWN (-1)
#define DEVICE_SEVERAL (-2)
#define NO_BLOCK       UINT32_MAX

struct block {
	uint64_t address; /* or handle */
	uint64_t bytes;
	uint64_t from_ns;
	int32_t device;
	uint32_t source; /* string: the function */
	uint32_t thread;
	uint32_t stack;
	uint32_t mappings;
	uint32_t before, after; /* the live ones of its account, in order of allocation */
	bool live, pinned, virtual, released;
};

struct mapping {
	uint64_t address, bytes, from_ns;
	uint32_t block; /* NO_BLOCK: of memory that was not seen being made */
	int32_t device;
};

struct owner {
	uint32_t pid;
	int32_t device; /* the only one known, or one of DEVICE_* */
	struct map64 contexts;
	struct map64 device_blocks, pinned_blocks, handles; /* -> index into blocks */
	struct map64 mapped;				    /* address -> index into mappings */
	VEC(struct block) blocks;
	VEC(uint32_t) free_blocks; /* numbers that can be used again */
	VEC(struct mapping) mappings;
	VEC(uint32_t) free_mappings;
};

/* What a function holds now in an account, and held when the account was at its peak. The latter is
 * taken down when what it holds changes for the first time after a peak: there may be as many peaks
 * as allocations, and as many functions. */
struct holding {
	uint32_t account, source;
	uint64_t count; /* allocations */
	uint64_t live_bytes;
	uint64_t peak_bytes;
	uint64_t peak; /* the number of the peak that peak_bytes is of */
};
struct account {
	bool pinned;
	uint32_t first, last; /* of its live blocks */
	uint32_t holdings;    /* how many it has */
	struct gpu_memory sums;
	size_t peak_step; /* the kept call after which it was at its peak */
	uint64_t peaks;	  /* how many there were, each higher than the one before */
};

struct current {
	uint64_t context;
	int32_t device; /* where the device itself was chosen, else DEVICE_UNKNOWN */
};
struct context_stack {
	VEC(struct current) contexts;
};

struct ledger {
	const struct rec_tables *t;
	struct map64 by_pid; /* -> owners */
	VEC(struct owner) owners;
	VEC(struct account) accounts;
	struct map64 account_of;
	VEC(struct holding) holdings; /* of all accounts, in order of their first allocations */
	struct map64 holding_of;      /* account and function's name -> index into holdings */
	struct context_stack *stacks; /* by thread */
	struct gpu_ledger *ret;
	bool ranges_wanted;
	size_t step;	   /* number of the kept call that is taken */
	gpu_live_t *leaks; /* where what processes left behind is put, or NULL */
};

static struct owner *owner_of(struct ledger *l, uint32_t pid)
{
	uint64_t at;
	if (!map64_get(&l->by_pid, pid, &at)) {
		at = l->owners.len;
		map64_set(&l->by_pid, pid, at);
		struct owner *o = vec_push(&l->owners);
		o->pid = pid;
		o->device = DEVICE_UNKNOWN;
	}
	return &l->owners.data[at];
}

static void know_device(struct ledger *l, uint32_t pid, int32_t device)
{
	struct owner *o = owner_of(l, pid);
	if (o->device == DEVICE_UNKNOWN)
		o->device = device;
	else if (o->device != device)
		o->device = DEVICE_SEVERAL;
}

static void know_devices(struct ledger *l, const gpu_kept_t *kept)
{
	for (size_t i = 0; i < kept->len; i++) {
		const struct gpu_kept *k = &kept->data[i];
		bool chosen = k->role == GPU_DEVICE_CURRENT;
		if (chosen || k->role == GPU_CONTEXT_RETAIN)
			know_device(l, l->t->threads.data[k->thread].pid, (int32_t)k->v[!chosen]);
	}
	for (size_t i = 0; i < l->t->comms.len; i++)
		if (l->t->comms.data[i].device >= 0)
			know_device(l, l->t->comms.data[i].pid, l->t->comms.data[i].device);
}

/* ---- sums ---- */

static uint64_t account_key(uint32_t pid, int32_t device, bool pinned)
{
	return (uint64_t)pid << 32 | (uint32_t)(pinned ? INT32_MIN : device);
}

static struct account *account_of(struct ledger *l, uint32_t pid, int32_t device, bool pinned)
{
	uint64_t at, key = account_key(pid, device, pinned);
	if (!map64_get(&l->account_of, key, &at)) {
		at = l->accounts.len;
		map64_set(&l->account_of, key, at);
		struct account *a = vec_push(&l->accounts);
		a->pinned = pinned;
		a->first = a->last = NO_BLOCK;
		a->sums.pid = pid;
		a->sums.device = device;
	}
	return &l->accounts.data[at];
}

static struct holding *holding_of(struct ledger *l, struct account *a, uint32_t source)
{
	uint32_t account = (uint32_t)(a - l->accounts.data);
	uint64_t at, key = (uint64_t)account << 32 | source;
	if (map64_get(&l->holding_of, key, &at))
		return &l->holdings.data[at];
	map64_set(&l->holding_of, key, l->holdings.len);
	a->holdings++;
	struct holding *h = vec_push(&l->holdings);
	h->account = account;
	h->source = source;
	return h;
}

/* What it held at the account's latest peak; to be asked before that changes. */
static uint64_t held_at_peak(const struct account *a, struct holding *h)
{
	if (h->peak != a->peaks) {
		h->peak = a->peaks;
		h->peak_bytes = h->live_bytes;
	}
	return h->peak_bytes;
}

static struct holding *holding_change(struct ledger *l, struct account *a, uint32_t source,
				      uint64_t more_bytes)
{
	struct holding *h = holding_of(l, a, source);
	(void)held_at_peak(a, h);
	h->live_bytes += more_bytes;
	return h;
}

static void link_last(struct account *a, struct block *blocks, uint32_t at)
{
	blocks[at].before = a->last;
	blocks[at].after = NO_BLOCK;
	*(a->last == NO_BLOCK ? &a->first : &blocks[a->last].after) = at;
	a->last = at;
}

static void unlink_block(struct account *a, struct block *blocks, uint32_t at)
{
	const struct block *b = &blocks[at];
	*(b->before == NO_BLOCK ? &a->first : &blocks[b->before].after) = b->after;
	*(b->after == NO_BLOCK ? &a->last : &blocks[b->after].before) = b->before;
}

static void account_add(struct ledger *l, struct owner *o, uint32_t at)
{
	const struct block *b = &o->blocks.data[at];
	struct account *a = account_of(l, o->pid, b->device, b->pinned);
	link_last(a, o->blocks.data, at);
	holding_change(l, a, b->source, b->bytes)->count++;
	a->sums.allocs++;
	a->sums.live_bytes += b->bytes;
	if (a->sums.live_bytes <= a->sums.peak_bytes)
		return;
	a->sums.peak_bytes = a->sums.live_bytes;
	a->sums.peak_ns = b->from_ns;
	a->peak_step = l->step;
	a->peaks++;
}

enum ending { FREED, LEAKED, UNMATCHED };

static void block_range(struct ledger *l, uint32_t pid, const struct block *b, uint64_t to_ns)
{
	if (l->ranges_wanted && !b->virtual)
		*vec_push(&l->ret->ranges) = (struct gpu_range){
			.start = b->address,
			.end = b->address + b->bytes,
			.from_ns = b->from_ns,
			.to_ns = to_ns,
			.pid = pid,
			.device = b->device,
			.pinned = b->pinned,
		};
}

static struct map64 *index_of(struct owner *o, bool pinned, bool virtual)
{
	if (pinned)
		return &o->pinned_blocks;
	return virtual ? &o->handles : &o->device_blocks;
}

static void live_add(gpu_live_t *to, uint32_t pid, const struct block *b)
{
	*vec_push(to) = (struct gpu_live){pid, b->device, b->thread, b->stack, b->bytes, b->pinned};
}

static void block_end(struct ledger *l, struct owner *o, size_t at, uint64_t time_ns,
		      enum ending how)
{
	struct block *b = &o->blocks.data[at];
	struct account *a = account_of(l, o->pid, b->device, b->pinned);
	b->live = false;
	unlink_block(a, o->blocks.data, (uint32_t)at);
	if (how == LEAKED && l->leaks)
		live_add(l->leaks, o->pid, b);
	holding_change(l, a, b->source, -b->bytes);
	a->sums.live_bytes -= b->bytes;
	a->sums.frees += how == FREED;
	a->sums.unmatched_allocs += how == UNMATCHED;
	if (how == LEAKED) {
		a->sums.leaked_count++;
		a->sums.leaked_bytes += b->bytes;
	}
	block_range(l, o->pid, b, time_ns);
	struct map64 *index = index_of(o, b->pinned, b->virtual);
	uint64_t named;
	if (map64_get(index, b->address, &named) && named == at)
		map64_del(index, b->address);
	*vec_push(&o->free_blocks) = (uint32_t)at;
}

static struct block *block_begin(struct owner *o, struct map64 *index, uint64_t address)
{
	size_t at = o->blocks.len;
	if (o->free_blocks.len)
		at = o->free_blocks.data[--o->free_blocks.len];
	else
		(void)vec_push(&o->blocks);
	map64_set(index, address, at);
	return &o->blocks.data[at];
}

/* ---- contexts ---- */

static void take_context(struct ledger *l, const struct gpu_kept *k)
{
	struct context_stack *s = &l->stacks[k->thread];
	switch (k->role) {
	case GPU_CONTEXT_POP:
		if (s->contexts.len)
			s->contexts.len--;
		break;
	case GPU_CONTEXT_CURRENT: /* takes the place of the topmost */
		if (s->contexts.len)
			s->contexts.len--;
		if (k->v[0])
			*vec_push(&s->contexts) = (struct current){k->v[0], DEVICE_UNKNOWN};
		break;
	case GPU_DEVICE_CURRENT:
		if (s->contexts.len)
			s->contexts.len--;
		*vec_push(&s->contexts) = (struct current){0, (int32_t)k->v[0]};
		break;
	default:
		*vec_push(&s->contexts) = (struct current){k->v[0], DEVICE_UNKNOWN};
	}
}

static int32_t current_device(const struct ledger *l, const struct owner *o, uint32_t thread)
{
	const struct context_stack *s = &l->stacks[thread];
	uint64_t device;
	if (s->contexts.len) {
		const struct current *top = &s->contexts.data[s->contexts.len - 1];
		if (top->device >= 0)
			return top->device;
		if (map64_get(&o->contexts, top->context, &device))
			return (int32_t)device;
	}
	return o->device >= 0 ? o->device : DEVICE_UNKNOWN;
}

/* ---- allocations ---- */

static void take_alloc(struct ledger *l, struct owner *o, const struct gpu_kept *k)
{
	bool pinned = k->role == GPU_HOST_ALLOC, virtual = k->role == GPU_VMM_CREATE;
	struct map64 *index = index_of(o, pinned, virtual);
	uint64_t at;
	if (!k->v[0])
		return; /* what it gave could not be read */
	if (map64_get(index, k->v[0], &at)) {
		if (o->blocks.data[at].mappings) /* only its release was not seen */
			o->blocks.data[at].released = true;
		else
			block_end(l, o, at, k->time_ns, UNMATCHED);
	}
	struct block *b = block_begin(o, index, k->v[0]);
	*b = (struct block){
		.address = k->v[0],
		.bytes = k->v[1],
		.from_ns = k->time_ns,
		.device = k->device >= 0 ? k->device
			  : virtual	 ? (int32_t)k->v[2]
			  : pinned	 ? DEVICE_UNKNOWN
					 : current_device(l, o, k->thread),
		.source = l->t->probes.data[k->probe].name,
		.thread = k->thread,
		.stack = k->stack,
		.live = true,
		.pinned = pinned,
		.virtual = virtual,
	};
	account_add(l, o, (uint32_t)(b - o->blocks.data));
}

static void take_free(struct ledger *l, struct owner *o, const struct gpu_kept *k)
{
	bool pinned = k->role == GPU_HOST_FREE;
	uint64_t at;
	if (!k->v[0])
		return; /* frees nothing */
	if (map64_get(pinned ? &o->pinned_blocks : &o->device_blocks, k->v[0], &at)) {
		block_end(l, o, at, k->time_ns, FREED);
		return;
	}
	int32_t device = pinned ? DEVICE_UNKNOWN : current_device(l, o, k->thread);
	account_of(l, o->pid, device, pinned)->sums.unmatched_frees++;
}

/* ---- virtual memory ---- */

static void end_unused(struct ledger *l, struct owner *o, size_t at, uint64_t time_ns)
{
	const struct block *b = &o->blocks.data[at];
	if (b->live && b->released && !b->mappings)
		block_end(l, o, at, time_ns, FREED);
}

static void mapping_range(struct ledger *l, uint32_t pid, const struct mapping *m, uint64_t to_ns)
{
	if (l->ranges_wanted)
		*vec_push(&l->ret->ranges) = (struct gpu_range){
			.start = m->address,
			.end = m->address + m->bytes,
			.from_ns = m->from_ns,
			.to_ns = to_ns,
			.pid = pid,
			.device = m->device,
		};
}

static void mapping_end(struct ledger *l, struct owner *o, size_t at, uint64_t time_ns)
{
	struct mapping m = o->mappings.data[at];
	map64_del(&o->mapped, m.address);
	*vec_push(&o->free_mappings) = (uint32_t)at;
	mapping_range(l, o->pid, &m, time_ns);
	if (m.block == NO_BLOCK)
		return;
	o->blocks.data[m.block].mappings--;
	end_unused(l, o, m.block, time_ns);
}

static void take_map(struct ledger *l, struct owner *o, const struct gpu_kept *k)
{
	uint64_t at, block = NO_BLOCK;
	if (map64_get(&o->mapped, k->v[0], &at))
		mapping_end(l, o, at, k->time_ns); /* unmapping it was not seen */
	if (map64_get(&o->handles, k->v[2], &block))
		o->blocks.data[block].mappings++;
	at = o->mappings.len;
	if (o->free_mappings.len)
		at = o->free_mappings.data[--o->free_mappings.len];
	else
		(void)vec_push(&o->mappings);
	map64_set(&o->mapped, k->v[0], at);
	o->mappings.data[at] = (struct mapping){
		.address = k->v[0],
		.bytes = k->v[1],
		.from_ns = k->time_ns,
		.block = (uint32_t)block,
		.device = block == NO_BLOCK ? DEVICE_UNKNOWN : o->blocks.data[block].device,
	};
}

/* One call may unmap several mappings that lie side by side. */
static void take_unmap(struct ledger *l, struct owner *o, const struct gpu_kept *k)
{
	uint64_t address = k->v[0], left = k->v[1], at;
	while (map64_get(&o->mapped, address, &at)) {
		uint64_t bytes = o->mappings.data[at].bytes;
		mapping_end(l, o, at, k->time_ns);
		if (!bytes || bytes >= left)
			return;
		address += bytes;
		left -= bytes;
	}
}

/* The handle is void from now on, and may come again for other memory. */
static void take_release(struct ledger *l, struct owner *o, const struct gpu_kept *k)
{
	uint64_t at;
	if (!map64_get(&o->handles, k->v[0], &at)) {
		int32_t device = current_device(l, o, k->thread);
		account_of(l, o->pid, device, false)->sums.unmatched_frees++;
		return;
	}
	map64_del(&o->handles, k->v[0]);
	o->blocks.data[at].released = true;
	end_unused(l, o, at, k->time_ns);
}

/* ---- all of it ---- */

/* Ranges of the mappings that are there. */
static void mapped_ranges(struct ledger *l, const struct owner *o, uint64_t to_ns)
{
	uint64_t at;
	for (size_t i = 0; i < o->mappings.len; i++)
		if (map64_get(&o->mapped, o->mappings.data[i].address, &at) && at == i)
			mapping_range(l, o->pid, &o->mappings.data[i], to_ns);
}

static void end_all(struct ledger *l, struct owner *o, uint64_t time_ns)
{
	for (size_t i = 0; i < o->blocks.len; i++)
		if (o->blocks.data[i].live)
			block_end(l, o, i, time_ns, LEAKED);
	mapped_ranges(l, o, time_ns);
	map64_free(&o->contexts);
	map64_free(&o->mapped);
	map64_free(&o->handles);
	o->mappings.len = o->free_mappings.len = 0;
	o->blocks.len = o->free_blocks.len = 0;
}

static void take(struct ledger *l, const struct gpu_kept *k)
{
	if (k->role == GPU_PROCESS_END) {
		end_all(l, owner_of(l, k->thread), k->time_ns);
		return;
	}
	struct owner *o = owner_of(l, l->t->threads.data[k->thread].pid);
	switch (k->role) {
	case GPU_ALLOC:
	case GPU_HOST_ALLOC:
	case GPU_VMM_CREATE:
		take_alloc(l, o, k);
		break;
	case GPU_FREE:
	case GPU_HOST_FREE:
		take_free(l, o, k);
		break;
	case GPU_VMM_MAP:
		take_map(l, o, k);
		break;
	case GPU_VMM_UNMAP:
		take_unmap(l, o, k);
		break;
	case GPU_VMM_RELEASE:
		take_release(l, o, k);
		break;
	case GPU_CONTEXT_RETAIN:
		map64_set(&o->contexts, k->v[0], k->v[1]);
		break;
	case GPU_CONTEXT_CURRENT:
	case GPU_CONTEXT_PUSH:
	case GPU_CONTEXT_POP:
	case GPU_DEVICE_CURRENT:
		take_context(l, k);
		break;
	default: /* graphs */
		break;
	}
}

static void live_ranges(struct ledger *l, struct owner *o)
{
	for (size_t i = 0; i < o->blocks.len; i++)
		if (o->blocks.data[i].live)
			block_range(l, o->pid, &o->blocks.data[i], UINT64_MAX);
	mapped_ranges(l, o, UINT64_MAX);
}

static int compare_memory(const void *a, const void *b)
{
	const struct gpu_memory *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static void ledger_free(struct ledger *l)
{
	for (size_t i = 0; i < l->owners.len; i++) {
		struct owner *o = &l->owners.data[i];
		map64_free(&o->contexts);
		map64_free(&o->device_blocks);
		map64_free(&o->pinned_blocks);
		map64_free(&o->handles);
		map64_free(&o->mapped);
		vec_free(&o->blocks);
		vec_free(&o->free_blocks);
		vec_free(&o->mappings);
		vec_free(&o->free_mappings);
	}
	for (size_t i = 0; i < l->t->threads.len; i++)
		vec_free(&l->stacks[i].contexts);
	free(l->stacks);
	vec_free(&l->owners);
	vec_free(&l->accounts);
	vec_free(&l->holdings);
	map64_free(&l->holding_of);
	map64_free(&l->by_pid);
	map64_free(&l->account_of);
}

static void ledger_init(struct ledger *l, const struct rec_tables *t, const gpu_kept_t *kept)
{
	*l = (struct ledger){.t = t};
	l->stacks = xcalloc(t->threads.len + 1, sizeof(*l->stacks));
	know_devices(l, kept);
}

/* ---- what is allocated at a moment ---- */

static void live_blocks(const struct owner *o, gpu_live_t *to)
{
	for (size_t i = 0; i < o->blocks.len; i++)
		if (o->blocks.data[i].live)
			live_add(to, o->pid, &o->blocks.data[i]);
}

/* Of the account that has the same owner and device as one of another ledger. */
static void live_of_account(const struct ledger *l, const struct account *as, gpu_live_t *to)
{
	uint64_t at, owner;
	if (!map64_get(&l->account_of, account_key(as->sums.pid, as->sums.device, as->pinned),
		       &at) ||
	    !map64_get(&l->by_pid, as->sums.pid, &owner))
		return;
	const struct owner *o = &l->owners.data[owner];
	for (uint32_t i = l->accounts.data[at].first; i != NO_BLOCK; i = o->blocks.data[i].after)
		live_add(to, o->pid, &o->blocks.data[i]);
}

static int compare_peaks(const void *a, const void *b)
{
	const struct account *x = a, *y = b;
	return x->peak_step < y->peak_step ? -1 : x->peak_step > y->peak_step;
}

/* The first time through tells when each account was at its peak; the second, what then was. */
static void live_at_peaks(gpu_live_t *ret, const struct rec_tables *t, const gpu_kept_t *kept)
{
	struct ledger first, second;
	struct gpu_ledger unused = {0};
	ledger_init(&first, t, kept);
	ledger_init(&second, t, kept);
	first.ret = second.ret = &unused;
	for (first.step = 0; first.step < kept->len; first.step++)
		take(&first, &kept->data[first.step]);
	if (first.accounts.len)
		qsort(first.accounts.data, first.accounts.len, sizeof(*first.accounts.data),
		      compare_peaks);
	for (size_t i = 0, a = 0; a < first.accounts.len && i < kept->len; i++) {
		take(&second, &kept->data[i]);
		while (a < first.accounts.len && first.accounts.data[a].peak_step == i)
			live_of_account(&second, &first.accounts.data[a++], ret);
	}
	ledger_free(&first);
	ledger_free(&second);
}

void gpu_ledger_live(gpu_live_t *ret, const struct rec_tables *t, const gpu_kept_t *kept,
		     enum gpu_moment at, uint64_t time_ns)
{
	struct ledger l;
	struct gpu_ledger unused = {0};
	if (at == GPU_AT_PEAK) {
		live_at_peaks(ret, t, kept);
		return;
	}
	ledger_init(&l, t, kept);
	l.ret = &unused;
	l.leaks = at == GPU_AT_END ? ret : NULL;
	for (size_t i = 0; i < kept->len; i++)
		if (at == GPU_AT_END || kept->data[i].time_ns <= time_ns)
			take(&l, &kept->data[i]);
	for (size_t i = 0; i < l.owners.len; i++)
		live_blocks(&l.owners.data[i], ret);
	ledger_free(&l);
}

/* ---- the sums of all of it ---- */

static void make_sources(struct ledger *l)
{
	for (size_t i = 0; i < l->accounts.len; i++) {
		struct account *a = &l->accounts.data[i];
		a->sums.sources.cap = a->holdings; /* mostly one, where there are many accounts */
		a->sums.sources.data = xrealloc(NULL, a->holdings, sizeof(*a->sums.sources.data));
	}
	for (size_t i = 0; i < l->holdings.len; i++) {
		struct holding *h = &l->holdings.data[i];
		struct account *a = &l->accounts.data[h->account];
		*(struct gpu_source *)vec_push(&a->sums.sources) = (struct gpu_source){
			.function = strtab_get(&l->t->strings, h->source, NULL),
			.bytes = held_at_peak(a, h),
			.count = h->count,
		};
	}
}

void gpu_ledger_make(struct gpu_ledger *ret, const struct rec_tables *t, const gpu_kept_t *kept,
		     bool ranges_wanted)
{
	struct ledger l;
	ledger_init(&l, t, kept);
	l.ret = ret;
	l.ranges_wanted = ranges_wanted;
	*ret = (struct gpu_ledger){0};
	for (; l.step < kept->len; l.step++)
		take(&l, &kept->data[l.step]);
	for (size_t i = 0; i < l.owners.len; i++)
		live_ranges(&l, &l.owners.data[i]);
	make_sources(&l);
	for (size_t i = 0; i < l.accounts.len; i++) {
		const struct account *a = &l.accounts.data[i];
		if (a->pinned)
			*vec_push(&ret->pinned) = a->sums;
		else
			*vec_push(&ret->memory) = a->sums;
	}
	if (ret->memory.len)
		qsort(ret->memory.data, ret->memory.len, sizeof(*ret->memory.data), compare_memory);
	if (ret->pinned.len)
		qsort(ret->pinned.data, ret->pinned.len, sizeof(*ret->pinned.data), compare_memory);
	ledger_free(&l);
}
