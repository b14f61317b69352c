/* op_threads.c - what PyTorch and CUPTI call in the job's threads: operators that begin and end,
 * nodes, launches. A thread writes into a block of its own and waits for nobody; it puts nothing
 * into the ring (op_rows.c). */
#include <stdlib.h>
#include <unistd.h>

#include "op_impl.h"

static __thread struct thread *own;

static inline struct name *name_of(struct thread *t, const char *text)
{
	size_t i = ((uintptr_t)text >> 3 ^ (uintptr_t)text >> 12) % BY_ADDRESS;
	struct name *n = t->by_address[i].name;
	if (__builtin_expect(n && t->by_address[i].text == text && !strcmp(n->text, text), 1))
		return n;
	n = op_name_look_up(t, text);
	t->by_address[i].text = text;
	t->by_address[i].name = n;
	return n;
}

static struct thread *make_thread(void)
{
	struct thread *t = NULL;
	if (posix_memalign((void **)&t, 64, sizeof(*t)))
		return NULL;
	memset(t, 0, offsetof(struct thread, rows));
	t->tid = (uint32_t)gettid();
	pthread_setspecific(ops.key, t);
	pthread_mutex_lock(&ops.lock);
	t->next = ops.threads;
	ops.threads = t;
	pthread_mutex_unlock(&ops.lock);
	own = t;
	return t;
}

static __attribute__((noinline)) struct thread *new_thread(void)
{
	__atomic_fetch_add(&ops.making, 1, __ATOMIC_ACQUIRE);
	struct thread *t = make_thread();
	__atomic_fetch_sub(&ops.making, 1, __ATOMIC_RELEASE);
	return t;
}

void op_end_thread(void *thread)
{
	own = NULL;
	__atomic_store_n(&((struct thread *)thread)->gone, true, __ATOMIC_RELEASE);
}

static inline void set_depth(struct thread *t, unsigned depth)
{
	__atomic_store_n(&t->depth, depth, __ATOMIC_RELAXED);
}

static inline void lose_one(struct thread *t)
{
	__atomic_store_n(&t->lost, t->lost + 1, __ATOMIC_RELAXED);
}

void **op_start(void **ret, const struct torch_record *record)
{
	*ret = NULL;
	struct thread *t = own;
	if (__builtin_expect(__atomic_load_n(&ops.off, __ATOMIC_RELAXED), 0))
		return ret;
	if (__builtin_expect(!t, 0) && !(t = new_thread()))
		return ret;
	unsigned depth = t->depth;
	set_depth(t, depth + 1);
	if (__builtin_expect(depth >= MOST_OPEN, 0)) {
		lose_one(t);
		return ret;
	}
	struct open_row *o = &t->open[depth];
	o->record = record;
	o->name = name_of(t, ops.abi.name(record));
	o->sequence = -1;
	o->start = 0;
	if (__builtin_expect(!o->name, 0))
		lose_one(t);
	else if (!__atomic_load_n(&o->name->unwanted, __ATOMIC_RELAXED))
		o->start = ticks_now();
	return ret;
}

/* The node that is evaluated is the innermost that is open: its function begins. */
void **op_start_node(void **ret, const struct torch_record *record)
{
	const struct thread *t = own;
	*ret = NULL;
	if (!t || !t->depth || t->depth > MOST_OPEN)
		return ret;
	struct open_row *o = (struct open_row *)&t->open[t->depth - 1];
	if (o->name && o->name->kind == GPU_RING_NODE)
		memcpy(&o->sequence, (const char *)record + ops.abi.sequence_offset,
		       sizeof(o->sequence));
	return ret;
}

static inline void add_row(struct thread *t, const struct open_row *o, unsigned depth)
{
	uint64_t head = t->head;
	if (__builtin_expect(head - t->seen_tail >= ROWS, 0)) {
		t->seen_tail = __atomic_load_n(&t->tail, __ATOMIC_ACQUIRE);
		if (head - t->seen_tail >= ROWS) {
			lose_one(t);
			return;
		}
	}
	t->rows[head % ROWS] = (struct row){.start = o->start,
					    .end = ticks_now(),
					    .sequence = o->sequence,
					    .name = (uint16_t)o->name->number,
					    .depth = (uint8_t)depth};
	__atomic_store_n(&t->head, head + 1, __ATOMIC_RELEASE);
}

static void add_launch(struct thread *t, struct launch *l)
{
	uint64_t head = t->launches_head;
	if (head - __atomic_load_n(&t->launches_tail, __ATOMIC_ACQUIRE) >= LAUNCHES) {
		lose_one(t);
		return;
	}
	l->depth = t->depth < UINT8_MAX ? (uint8_t)t->depth : UINT8_MAX;
	t->launches[head % LAUNCHES] = *l;
	__atomic_store_n(&t->launches_head, head + 1, __ATOMIC_RELEASE);
}

/* Of CUPTI's subscription, in the thread that launches. */
void op_take_launch(struct launch *l)
{
	struct thread *t = own;
	if (__atomic_load_n(&ops.off, __ATOMIC_RELAXED) || (!t && !(t = new_thread())))
		return;
	__atomic_store_n(&t->in_launch, true, __ATOMIC_RELAXED);
	add_launch(t, l);
	__atomic_store_n(&t->in_launch, false, __ATOMIC_RELEASE);
}

/* Where it is among the open ones; those above it have ended elsewhere. UINT_MAX: nowhere. */
static __attribute__((noinline)) unsigned find_open(const struct thread *t,
						    const struct torch_record *record)
{
	unsigned top = t->depth < MOST_OPEN ? t->depth : MOST_OPEN;
	while (top-- > 0)
		if (t->open[top].record == record)
			return top;
	return ~0u;
}

void op_end(const struct torch_record *record, void *context)
{
	struct thread *t = own;
	(void)context;
	if (__builtin_expect(!t || !t->depth, 0))
		return; /* it began before we came, or in another thread */
	unsigned depth = t->depth - 1;
	if (__builtin_expect(depth >= MOST_OPEN, 0)) {
		set_depth(t, depth);
		return;
	}
	if (__builtin_expect(t->open[depth].record != record, 0)) {
		depth = find_open(t, record);
		if (depth == ~0u)
			return;
	}
	if (t->open[depth].start)
		add_row(t, &t->open[depth], depth);
	set_depth(t, depth); /* last: who waits for us looks at it */
}

void op_go_without(void)
{
	__atomic_store_n(&ops.off, true, __ATOMIC_RELAXED);
	own = NULL;
}
