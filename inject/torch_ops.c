/* torch_ops.c - the callbacks, the buffers of threads, and the thread that empties them.
 *
 * Each thread that runs operators has a block of its own: the operators that it has open, a ring
 * of rows that it alone writes and our thread alone reads, and what it knows of names. A name is
 * looked up by its address, where an operator's stays, and compared, for those of nodes are made
 * each time; only a name that the thread meets for the first time takes a lock, which is held
 * for no longer than it takes to look it up among all. Beyond GPU_RING_MAX_OPERATORS names, and
 * MOST_OPEN operators in each other, operators are counted as lost. A thread's block is freed by
 * our thread when the thread has ended and its rows are read.
 *
 * eacgm says which names it wants none of, by bits in the ring's header: those open and end
 * without a row. Rows are in ticks of ticks.h; our thread makes nanoseconds of them.
 *
 * After a fork the child has the callbacks, and nobody reads its blocks: it goes without. */
#include "torch_ops.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver_calls.h"
#include "launches.h"
#include "ticks.h"
#include "torch_abi.h"

#define MOST_OPEN     128
#define ROWS	      (1u << 14) /* of a thread: 36 ms at 450,000 operators a second */
#define BY_ADDRESS    512
#define BY_TEXT	      4096 /* more than names, so that there is always a free place */
#define LAUNCHES      (1u << 12)
#define LOOK_NS	      100000000L
#define EMPTY_NS      10000000L
#define PAIRS	      256 /* of clocks, one a second: older times are a little off */
#define PAIR_EVERY_NS 1000000000ULL
#define GRACE_NS      200000000L
#define STOP_MS	      2000
#define JOIN_S	      2
#define NODE_PREFIX   "autograd::engine::evaluate_function: "

struct name {
	uint64_t hash;
	uint32_t number;
	bool unwanted; /* atomic; from the ring's header */
	bool told;     /* our thread's: it is in the ring */
	uint8_t kind;  /* enum gpu_ring_operator_kind */
	uint32_t len;
	char text[]; /* as PyTorch gives it */
};

struct open_row {
	const struct torch_record *record;
	struct name *name; /* NULL: there are too many */
	uint64_t start;
	int64_t sequence;
};

struct row {
	uint64_t start, end;
	int64_t sequence;
	uint16_t name;
	uint8_t depth;
	uint8_t pad[5];
};
_Static_assert(sizeof(struct row) == 32, "two in a cache line");

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): a cache line for each side */
struct thread {
	struct thread *next; /* under ops.lock */
	uint32_t tid;
	bool gone; /* atomic: the thread has ended */

	unsigned depth; /* atomic: open operators, also those beyond MOST_OPEN */
	bool in_launch; /* atomic: it is in take_launch */
	struct open_row open[MOST_OPEN];
	struct {
		const char *text;
		struct name *name;
	} by_address[BY_ADDRESS];
	struct name *by_text[BY_TEXT];

	uint64_t lost __attribute__((aligned(64))); /* atomic: rows without room or name */
	uint64_t head;				    /* atomic: rows written */
	uint64_t seen_tail;			    /* tail as the thread last saw it */
	uint64_t tail __attribute__((aligned(64))); /* atomic: rows read */
	uint64_t lost_told;
	uint64_t launches_head; /* atomic, as those of rows */
	uint64_t launches_tail; /* atomic */
	struct row rows[ROWS];
	struct launch launches[LAUNCHES];
};

static struct {
	struct torch_abi abi;
	uint64_t handles[2];
	struct ring *ring;
	pthread_mutex_t *ring_lock;
	const struct cupti *cupti; /* NULL: no launches */
	bool launches;		   /* are told */

	pthread_mutex_t lock; /* guards threads and names; held for moments */
	struct thread *threads;
	struct name *names[GPU_RING_MAX_OPERATORS];
	struct name *by_text[BY_TEXT];
	uint32_t names_len;

	unsigned making; /* atomic: threads in new_thread */
	bool off;	 /* atomic: callbacks do nothing */
	pthread_key_t key;
	bool has_key;

	pthread_mutex_t end_lock;
	pthread_cond_t end_wake;
	bool ending;
	pthread_t emptier;
	bool runs;

	struct ticks_pair pairs[PAIRS], now;
	size_t pairs_len;
	uint64_t read_upto_ns; /* rows that end before are in the ring */
} ops = {.lock = PTHREAD_MUTEX_INITIALIZER, .end_lock = PTHREAD_MUTEX_INITIALIZER, .off = true};

static __thread struct thread *own;

/* ---- names ---- */

static uint64_t hash_text(const char *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ULL;
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * 0x100000001b3ULL;
	return h ^ h >> 32;
}

static bool is_name(const struct name *n, uint64_t hash, const char *text, size_t len)
{
	return n->hash == hash && n->len == len && !memcmp(n->text, text, len);
}

/* The name's place in a table by text, or the free one where it belongs. */
static struct name **place_of(struct name **by_text, uint64_t hash, const char *text, size_t len)
{
	size_t i = hash % BY_TEXT;
	while (by_text[i] && !is_name(by_text[i], hash, text, len))
		i = (i + 1) % BY_TEXT;
	return &by_text[i];
}

/* NULL when there are too many, or no memory. */
static struct name *add_name(uint64_t hash, const char *text, size_t len)
{
	struct name *n = NULL;
	if (ops.names_len < GPU_RING_MAX_OPERATORS && len < GPU_RING_NAME_BYTES)
		n = calloc(1, sizeof(*n) + len + 1);
	if (!n)
		return NULL;
	n->hash = hash;
	n->len = (uint32_t)len;
	n->number = ops.names_len;
	bool is_node = !strncmp(text, NODE_PREFIX, sizeof(NODE_PREFIX) - 1);
	n->kind = is_node ? GPU_RING_NODE : GPU_RING_OPERATOR;
	memcpy(n->text, text, len);
	ops.names[ops.names_len++] = n;
	return n;
}

/* The name that all threads share. */
static struct name *shared_name(uint64_t hash, const char *text, size_t len)
{
	pthread_mutex_lock(&ops.lock);
	struct name **place = place_of(ops.by_text, hash, text, len);
	if (!*place)
		*place = add_name(hash, text, len);
	struct name *found = *place;
	pthread_mutex_unlock(&ops.lock);
	return found;
}

static __attribute__((noinline)) struct name *look_up_name(struct thread *t, const char *text)
{
	size_t len = strlen(text);
	uint64_t hash = hash_text(text, len);
	struct name **place = place_of(t->by_text, hash, text, len);
	if (!*place)
		*place = shared_name(hash, text, len);
	return *place;
}

static inline struct name *name_of(struct thread *t, const char *text)
{
	size_t i = ((uintptr_t)text >> 3 ^ (uintptr_t)text >> 12) % BY_ADDRESS;
	struct name *n = t->by_address[i].name;
	if (__builtin_expect(n && t->by_address[i].text == text && !strcmp(n->text, text), 1))
		return n;
	n = look_up_name(t, text);
	t->by_address[i].text = text;
	t->by_address[i].name = n;
	return n;
}

/* ---- in the job's threads ---- */

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

static void end_thread(void *thread)
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

static void **start_operator(void **ret, const struct torch_record *record)
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
static void **start_node(void **ret, const struct torch_record *record)
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
static void take_launch(struct launch *l)
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

static void end_operator(const struct torch_record *record, void *context)
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

/* ---- in our thread ---- */

/* The rate between the pair before the time and the next, or now, which may be the last pair. */
static uint64_t to_ns(uint64_t ticks)
{
	size_t i = ops.pairs_len;
	if (!ticks_are_counted)
		return ticks;
	if (i > 1 && ops.pairs[i - 1].ticks == ops.now.ticks)
		i--;
	while (i > 1 && ops.pairs[i - 1].ticks > ticks)
		i--;
	const struct ticks_pair *next = i < ops.pairs_len ? &ops.pairs[i] : &ops.now;
	return ticks_to_ns(&ops.pairs[i - 1], next, ticks);
}

static void take_pair(void)
{
	ops.now = ticks_pair_now();
	if (ops.pairs_len && ops.now.ns - ops.pairs[ops.pairs_len - 1].ns < PAIR_EVERY_NS)
		return;
	if (ops.pairs_len == PAIRS)
		memmove(ops.pairs, ops.pairs + 1, --ops.pairs_len * sizeof(ops.pairs[0]));
	ops.pairs[ops.pairs_len++] = ops.now;
}

static bool tell_name(struct name *n)
{
	size_t skipped = n->kind == GPU_RING_NODE ? sizeof(NODE_PREFIX) - 1 : 0;
	n->told = n->told || ring_put_operator_name(ops.ring, n->number, n->kind, n->text + skipped,
						    n->len - skipped);
	return n->told;
}

static void put_row(const struct thread *t, const struct row *row)
{
	struct name *n = ops.names[row->name];
	struct gpu_ring_op op = {.start_ns = to_ns(row->start),
				 .end_ns = to_ns(row->end),
				 .sequence = row->sequence,
				 .tid = t->tid,
				 .name = row->name,
				 .depth = row->depth};
	if (op.end_ns < op.start_ns)
		op.end_ns = op.start_ns;
	if (tell_name(n))
		ring_put_op(ops.ring, &op);
	else
		ring_lost_ops(ops.ring, 1);
}

static void put_launch(const struct thread *t, const struct launch *l)
{
	struct gpu_ring_launch out = {.start_ns = to_ns(l->start),
				      .end_ns = to_ns(l->end),
				      .kernel = l->kernel,
				      .stream = l->stream,
				      .shared_bytes = l->shared_bytes,
				      .tid = t->tid,
				      .correlation = l->correlation,
				      .function = l->function,
				      .depth = l->depth,
				      .result = l->result};
	memcpy(out.grid, l->grid, sizeof(out.grid));
	memcpy(out.block, l->block, sizeof(out.block));
	if (out.end_ns < out.start_ns)
		out.end_ns = out.start_ns;
	ring_put_launch(ops.ring, &out);
}

static void empty_launches(struct thread *t)
{
	uint64_t head = __atomic_load_n(&t->launches_head, __ATOMIC_ACQUIRE);
	for (; t->launches_tail < head;
	     __atomic_store_n(&t->launches_tail, t->launches_tail + 1, __ATOMIC_RELEASE))
		put_launch(t, &t->launches[t->launches_tail % LAUNCHES]);
}

/* The rows that were there when it began. */
static void empty_thread(struct thread *t)
{
	empty_launches(t);
	uint64_t head = __atomic_load_n(&t->head, __ATOMIC_ACQUIRE);
	uint64_t lost = __atomic_load_n(&t->lost, __ATOMIC_RELAXED);
	for (; t->tail < head; __atomic_store_n(&t->tail, t->tail + 1, __ATOMIC_RELEASE))
		put_row(t, &t->rows[t->tail % ROWS]);
	if (lost != t->lost_told)
		ring_lost_ops(ops.ring, lost - t->lost_told);
	t->lost_told = lost;
}

static struct thread *first_thread(void)
{
	pthread_mutex_lock(&ops.lock);
	struct thread *t = ops.threads;
	pthread_mutex_unlock(&ops.lock);
	return t;
}

/* Takes a block out of the list; only new ones come before it meanwhile. */
static void free_thread(struct thread *t)
{
	pthread_mutex_lock(&ops.lock);
	struct thread **at = &ops.threads;
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&ops.lock);
	free(t);
}

static void read_unwanted(void)
{
	pthread_mutex_lock(&ops.lock);
	uint32_t n = ops.names_len;
	pthread_mutex_unlock(&ops.lock);
	for (uint32_t i = 0; i < n; i++)
		__atomic_store_n(&ops.names[i]->unwanted, ring_wants_no(ops.ring, i),
				 __ATOMIC_RELAXED);
}

/* What ends before read_upto_ns was written before the last look: a thread may be stopped
 * between its look at the clock and its row. */
static void empty_all(void)
{
	uint64_t upto_ns = ops.read_upto_ns;
	take_pair();
	pthread_mutex_lock(ops.ring_lock);
	for (struct thread *t = first_thread(), *next; t; t = next) {
		bool gone = __atomic_load_n(&t->gone, __ATOMIC_ACQUIRE);
		next = t->next;
		empty_thread(t);
		if (gone)
			free_thread(t);
	}
	if (upto_ns)
		ring_put_ops_upto(ops.ring, upto_ns);
	pthread_mutex_unlock(ops.ring_lock);
	ops.read_upto_ns = ops.now.ns;
	read_unwanted();
}

static void register_callbacks(void)
{
	static const torch_start_fn starts[] = {start_operator, start_node};
	for (int i = 0; i < 2; i++) {
		struct torch_callback callback = {.start = starts[i], .probability = 1};
		callback.end = i == TORCH_SCOPE_FUNCTION ? end_operator : NULL;
		callback.scopes[i] = 1;
		ops.handles[i] = ops.abi.add_global(callback);
	}
}

static void go_without(void)
{
	__atomic_store_n(&ops.off, true, __ATOMIC_RELAXED);
	own = NULL;
}

static bool begin(void)
{
	if (pthread_key_create(&ops.key, end_thread))
		return false;
	ops.has_key = true;
	ticks_choose();
	take_pair();
	pthread_atfork(NULL, NULL, go_without);
	__atomic_store_n(&ops.off, false, __ATOMIC_RELEASE);
	ops.launches = ops.cupti && launches_start(ops.cupti, take_launch);
	if (ops.launches)
		driver_calls_leave_launches(ops.cupti);
	register_callbacks();
	pthread_mutex_lock(ops.ring_lock);
	ring_set_tells(ops.ring,
		       GPU_RING_TELLS_OPERATORS | (ops.launches ? GPU_RING_TELLS_LAUNCHES : 0u));
	pthread_mutex_unlock(ops.ring_lock);
	return true;
}

/* False when it is to end. */
static bool sleep_for(long ns)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ns;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_nsec -= 1000000000L;
		until.tv_sec++;
	}
	pthread_mutex_lock(&ops.end_lock);
	while (!ops.ending && !pthread_cond_timedwait(&ops.end_wake, &ops.end_lock, &until))
		;
	bool ending = ops.ending;
	pthread_mutex_unlock(&ops.end_lock);
	return !ending;
}

/* CUPTI has one subscriber: nobody else can be while we are, and CUPTI's end wants to be. */
static void leave_launches(void)
{
	if (ops.cupti)
		launches_stop(ops.cupti);
	ops.launches = false;
}

static void *empty_at_intervals(void *arg)
{
	const char *why = NULL;
	int found = 0;
	(void)arg;
	while (!(found = torch_abi_find(&ops.abi, &why)))
		if (!sleep_for(LOOK_NS))
			return NULL;
	if (found < 0) {
		leave_launches();
		pthread_mutex_lock(ops.ring_lock);
		ring_set_why(ops.ring, why);
		pthread_mutex_unlock(ops.ring_lock);
		return NULL;
	}
	if (!begin()) {
		leave_launches();
		return NULL;
	}
	while (sleep_for(EMPTY_NS))
		empty_all();
	return NULL;
}

void torch_ops_start(struct ring *ring, pthread_mutex_t *ring_lock, const struct cupti *cupti)
{
	pthread_condattr_t attributes;
	sigset_t all, old;
	ops.ring = ring;
	ops.ring_lock = ring_lock;
	ops.cupti = cupti;
	ops.ending = false;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&ops.end_wake, &attributes);
	pthread_condattr_destroy(&attributes);
	if (cupti && torch_is_loaded())
		launches_subscribe(cupti);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ops.runs = !pthread_create(&ops.emptier, NULL, empty_at_intervals, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (ops.runs)
		pthread_setname_np(ops.emptier, "eacgm-ops");
	else
		leave_launches();
}

/* ---- the end ---- */

static void sleep_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* Whether no operator is open that PyTorch will tell us the end of, and nobody is in our code. What
 * is not seen here are a function's few instructions before it says so, and after. */
static bool nobody_is_open(void)
{
	bool open = __atomic_load_n(&ops.making, __ATOMIC_ACQUIRE) != 0;
	pthread_mutex_lock(&ops.lock);
	for (const struct thread *t = ops.threads; t; t = t->next)
		open |= (__atomic_load_n(&t->depth, __ATOMIC_RELAXED) ||
			 __atomic_load_n(&t->in_launch, __ATOMIC_ACQUIRE)) &&
			!__atomic_load_n(&t->gone, __ATOMIC_ACQUIRE);
	pthread_mutex_unlock(&ops.lock);
	return !open;
}

/* PyTorch copies the callbacks of an operator when it begins: it calls us at its end although
 * we are removed. A thread may have copied them, and not have come to us yet. */
static bool wait_for_all(void)
{
	sleep_ns(GRACE_NS);
	for (int ms = 0; ms < STOP_MS; ms++) {
		if (nobody_is_open()) {
			sleep_ns(GRACE_NS);
			if (nobody_is_open())
				return true;
		}
		sleep_ns(1000000);
	}
	return false;
}

static void free_all(void)
{
	while (ops.threads) {
		struct thread *next = ops.threads->next;
		free(ops.threads);
		ops.threads = next;
	}
	for (uint32_t i = 0; i < ops.names_len; i++)
		free(ops.names[i]);
	ops.names_len = 0;
	memset(ops.by_text, 0, sizeof(ops.by_text));
}

/* Who ends the process may hold the loader's lock, for which our thread may wait: it is not waited
 * for without end. */
static bool join_emptier(bool goes_on)
{
	struct timespec until;
	if (goes_on)
		return !pthread_join(ops.emptier, NULL);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += JOIN_S;
	return !pthread_timedjoin_np(ops.emptier, NULL, &until);
}

bool torch_ops_stop(bool goes_on)
{
	if (!ops.runs)
		return true;
	pthread_mutex_lock(&ops.end_lock);
	ops.ending = true;
	pthread_cond_broadcast(&ops.end_wake);
	pthread_mutex_unlock(&ops.end_lock);
	if (!join_emptier(goes_on))
		return false;
	ops.runs = false;
	if (goes_on)
		leave_launches();
	if (!ops.has_key)
		return true;
	if (!goes_on) {
		empty_all();
		empty_all(); /* and that they are all */
		return true;
	}
	for (int i = 0; i < 2; i++)
		ops.abi.remove(ops.handles[i]);
	bool left = wait_for_all();
	__atomic_store_n(&ops.off, true, __ATOMIC_RELAXED);
	empty_all();
	empty_all();
	if (!left)
		return false;
	pthread_key_delete(ops.key);
	ops.has_key = false;
	free_all();
	dlclose(ops.abi.library);
	return true;
}
