/* torch_ops.c - registers the callbacks, runs the thread that empties what they write, and takes
 * both away. The callbacks are in op_threads.c, names in op_names.c, the way into the ring in
 * op_rows.c.
 *
 * Each thread that runs operators has a block of its own (op_impl.h): the operators that it has
 * open, a ring of rows that it alone writes and our thread alone reads, and what it knows of names.
 * Beyond GPU_RING_MAX_OPERATORS names, and MOST_OPEN operators in each other, operators are counted
 * as lost. A thread's block is freed by our thread when the thread has ended and its rows are read.
 *
 * eacgm says which names it wants none of, by bits in the ring's header: those open and end
 * without a row. Rows are in ticks of ticks.h; our thread makes nanoseconds of them.
 *
 * After a fork the child has the callbacks, and nobody reads its blocks: it goes without. */
#include "torch_ops.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "driver_calls.h"
#include "op_impl.h"

#define LOOK_NS	 100000000L
#define EMPTY_NS 10000000L
#define GRACE_NS 200000000L
#define STOP_MS	 2000
#define JOIN_S	 2

struct op_state ops = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .end_lock = PTHREAD_MUTEX_INITIALIZER, .off = true};

static void register_callbacks(void)
{
	static const torch_start_fn starts[] = {op_start, op_start_node};
	for (int i = 0; i < 2; i++) {
		struct torch_callback callback = {.start = starts[i], .probability = 1};
		callback.end = i == TORCH_SCOPE_FUNCTION ? op_end : NULL;
		callback.scopes[i] = 1;
		ops.handles[i] = ops.abi.add_global(callback);
	}
}

static bool begin(void)
{
	if (pthread_key_create(&ops.key, op_end_thread))
		return false;
	ops.has_key = true;
	ticks_choose();
	op_rows_take_pair();
	pthread_atfork(NULL, NULL, op_go_without);
	__atomic_store_n(&ops.off, false, __ATOMIC_RELEASE);
	ops.launches = ops.cupti && launches_start(ops.cupti, op_take_launch);
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
		op_rows_empty();
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
	op_names_free();
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
		op_rows_empty();
		op_rows_empty(); /* and that they are all */
		return true;
	}
	for (int i = 0; i < 2; i++)
		ops.abi.remove(ops.handles[i]);
	bool left = wait_for_all();
	__atomic_store_n(&ops.off, true, __ATOMIC_RELAXED);
	op_rows_empty();
	op_rows_empty();
	if (!left)
		return false;
	pthread_key_delete(ops.key);
	ops.has_key = false;
	free_all();
	dlclose(ops.abi.library);
	return true;
}
