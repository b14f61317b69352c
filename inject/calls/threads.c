/* threads.c - the process's file and the threads' slots in it (wire/call_ring.h). Called once a
 * thread, at the entry of a function of the job's: it may allocate, and leaves errno. A thread that
 * finds no slot is given the one struct that records nothing, and does not ask again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../presence.h"
#include "../ticks.h"
#include "calls.h"

#define THREADS_MOST  4096	   /* that are alive and have called what is probed */
#define LOOK_TICKS    (1ULL << 31) /* a second or so */
#define MAKING_TRIES  1000000
#define PROGRAMS_MOST 64

enum file_state { FILE_NONE, FILE_MAKING, FILE_READY, FILE_FAILED };

static struct {
	uint32_t state; /* enum file_state */
	struct call_header *header;
	pthread_key_t key;
	bool prepared; /* key and fork handler are there */
	pthread_mutex_t lock;
	uint32_t reserved; /* slots that have blocks; atomic */
	char path[512];
	struct call_thread threads[THREADS_MOST];
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct call_header stopped = {.stop = 1};
static struct call_thread nobody = {.header = &stopped};

static struct call_slot *slot_at(uint32_t i)
{
	return (struct call_slot *)((char *)process.header + CALL_HEADER_BYTES +
				    (size_t)i * CALL_SLOT_BYTES);
}

/* Of the key, when a thread ends. */
static void end_thread(void *thread)
{
	struct call_thread *t = thread;
	calls_own = NULL;
	__atomic_store_n(&t->slot->state, CALL_SLOT_LEFT, __ATOMIC_RELEASE);
	__atomic_store_n(&t->used, false, __ATOMIC_RELEASE);
}

/* In a forked child: it has one thread, and a file of its own as soon as that calls something. */
static void begin_child(void)
{
	calls_own = NULL;
	if (process.header)
		munmap(process.header, CALL_FILE_BYTES);
	process.header = NULL;
	process.reserved = 0;
	pthread_mutex_init(&process.lock, NULL);
	for (size_t i = 0; i < THREADS_MOST; i++)
		process.threads[i].used = false;
	__atomic_store_n(&process.state, FILE_NONE, __ATOMIC_RELEASE);
}

/* ---- the file ---- */

static bool prepare(void)
{
	if (process.prepared)
		return true;
	if (pthread_key_create(&process.key, end_thread))
		return false;
	ticks_choose();
	process.prepared = !pthread_atfork(NULL, NULL, begin_child);
	return process.prepared;
}

static bool reserve(off_t at, off_t bytes)
{
	int fd = open(process.path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	int rc = posix_fallocate(fd, at, bytes);
	close(fd);
	return !rc;
}

static bool make_file(void)
{
	const char *folder = getenv(CALL_RINGS_ENV);
	if (!folder || !prepare() || !presence_set(folder, (int)strlen(folder)))
		return false;
	int n = snprintf(process.path, sizeof(process.path), "%s/%d", folder, getpid());
	if (n < 0 || (size_t)n + 8 >= sizeof(process.path))
		return false;
	/* exec(2) keeps the number: the program before may have left a file, which is to be read */
	int fd = -1;
	for (int again = 0; fd < 0 && again < PROGRAMS_MOST; again++) {
		if (again)
			snprintf(process.path + n, sizeof(process.path) - (size_t)n, ".%d", again);
		fd = open(process.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != EEXIST)
			return false;
	}
	if (fd < 0)
		return false;
	void *map = MAP_FAILED;
	if (!ftruncate(fd, (off_t)CALL_FILE_BYTES) && !posix_fallocate(fd, 0, CALL_HEADER_BYTES))
		map = mmap(NULL, CALL_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		unlink(process.path);
		return false;
	}
	process.header = map;
	process.header->pid = (uint32_t)getpid();
	process.header->counted = ticks_are_counted;
	__atomic_store_n(&process.header->magic, CALL_MAGIC, __ATOMIC_RELEASE);
	return true;
}

/* One thread makes it; others wait for that. */
static bool have_file(void)
{
	uint32_t none = FILE_NONE;
	if (__atomic_compare_exchange_n(&process.state, &none, FILE_MAKING, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		__atomic_store_n(&process.state, make_file() ? FILE_READY : FILE_FAILED,
				 __ATOMIC_RELEASE);
	for (int i = 0; i < MAKING_TRIES; i++) {
		uint32_t state = __atomic_load_n(&process.state, __ATOMIC_ACQUIRE);
		if (state != FILE_MAKING)
			return state == FILE_READY;
		sched_yield();
	}
	return false;
}

/* ---- a thread ---- */

static struct call_slot *claim(uint32_t i)
{
	uint32_t was = CALL_SLOT_FREE;
	struct call_slot *s = slot_at(i);
	return __atomic_compare_exchange_n(&s->state, &was, CALL_SLOT_USED, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED)
		       ? s
		       : NULL;
}

/* One that was left and read, or one more. */
static struct call_slot *claim_slot(void)
{
	struct call_slot *s = NULL;
	pthread_mutex_lock(&process.lock);
	for (uint32_t i = 0; i < process.reserved && !s; i++)
		s = claim(i);
	off_t at = (off_t)(CALL_HEADER_BYTES + (size_t)process.reserved * CALL_SLOT_BYTES);
	if (!s && process.reserved < CALL_THREADS_MOST && reserve(at, CALL_SLOT_BYTES))
		s = claim(process.reserved++);
	pthread_mutex_unlock(&process.lock);
	return s;
}

static struct call_thread *claim_thread(void)
{
	for (size_t i = 0; i < THREADS_MOST; i++) {
		bool was = false;
		if (__atomic_compare_exchange_n(&process.threads[i].used, &was, true, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &process.threads[i];
	}
	return NULL;
}

/* Where the thread's stack is; it is unknown to who has made one of its own (and called us on it).
 */
static bool find_stack(struct call_thread *t)
{
	pthread_attr_t attributes;
	void *low = NULL;
	size_t bytes = 0;
	if (pthread_getattr_np(pthread_self(), &attributes))
		return false;
	int rc = pthread_attr_getstack(&attributes, &low, &bytes);
	pthread_attr_destroy(&attributes);
	t->stack_low = (uint64_t)(uintptr_t)low;
	t->stack_high = t->stack_low + bytes;
	return !rc;
}

static struct call_thread *begin(void)
{
	if (!have_file())
		return NULL;
	struct call_thread *t = claim_thread();
	struct call_slot *slot = t ? claim_slot() : NULL;
	if (!slot) {
		__atomic_fetch_add(&process.header->no_slot, 1, __ATOMIC_RELAXED);
		if (t)
			__atomic_store_n(&t->used, false, __ATOMIC_RELEASE);
		return NULL;
	}
	uint64_t head = slot->head, tail = slot->tail;
	memset(&slot->depth, 0, sizeof(*slot) - offsetof(struct call_slot, depth));
	slot->head = head > tail ? head : tail;
	slot->tid = (uint32_t)gettid();
	t->slot = slot;
	t->ring = (uint64_t *)((char *)slot + CALL_SLOT_HEADER);
	t->header = process.header;
	t->busy = 0;
	t->random = ticks_now() << 16 | slot->tid | 1;
	if (!find_stack(t) || pthread_setspecific(process.key, t)) {
		end_thread(t);
		return NULL;
	}
	calls_own = t;
	return t;
}

struct call_thread *calls_begin_thread(void)
{
	static __thread bool beginning __attribute__((tls_model("initial-exec")));
	if (beginning) /* a handler of a signal, amid this */
		return NULL;
	int error = errno;
	beginning = true;
	struct call_thread *t = begin();
	if (!t)
		calls_own = &nobody;
	beginning = false;
	errno = error;
	return t;
}

void calls_look_for_eacgm(struct call_thread *t, uint64_t now)
{
	static uint64_t looked;
	uint64_t before = __atomic_load_n(&looked, __ATOMIC_RELAXED);
	if (now - before < LOOK_TICKS ||
	    !__atomic_compare_exchange_n(&looked, &before, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return;
	int error = errno;
	if (presence_has_ended())
		__atomic_store_n(&t->header->stop, 1, __ATOMIC_RELAXED);
	errno = error;
}
