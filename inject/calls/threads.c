/* threads.c - the process's file and the threads' slots in it (wire/call_ring.h). Called once a
 * thread, at the entry of a function of the job's, maybe in a handler of a signal: nothing here
 * allocates from the heap, waits for a lock that such a handler could have interrupted, or may be
 * cancelled. A thread that finds no slot is given the one struct that records nothing, and does not
 * ask again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../presence.h"
#include "../ticks.h"
#include "calls.h"
#include "stack.h"
#include "texts.h"
#include "threads.h"

#define THREADS_MOST  4096 /* that are alive and have called what is probed */
#define MAKING_TRIES  1000000
#define PROGRAMS_MOST 64 /* that a process executes, one after another */
#define POPULATE      23 /* MADV_POPULATE_WRITE of Linux 5.14: asm-generic/mman-common.h */

enum file_state { FILE_NONE, FILE_MAKING, FILE_READY, FILE_FAILED };

static struct {
	uint32_t state; /* enum file_state */
	pid_t pid;	/* whose file it is */
	pthread_key_t key;
	bool prepared; /* key and fork handler are there */
	pthread_mutex_t lock;
	uint32_t reserved;		/* slots that have blocks; atomic */
	char folder[CALL_FOLDER_BYTES]; /* of the eacgm that came; "": the environment has it */
	char path[CALL_FOLDER_BYTES + 32];
	struct call_thread *threads; /* THREADS_MOST */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct call_header *eacgm_call_header __attribute__((visibility("default")));
uint32_t calls_generation;
/* Of this process alone, and of what it forks from then on: eacgm_call_header's `stop` is shared.
 */
volatile uint32_t eacgm_call_go __attribute__((visibility("default"))) = 1;
static struct call_header stopped = {.stop = 1};
static struct call_thread nobody = {.header = &stopped};

static struct call_slot *slot_at(uint32_t i)
{
	return (struct call_slot *)((char *)eacgm_call_header + CALL_HEADER_BYTES +
				    (size_t)i * CALL_SLOT_BYTES);
}

/* Of the key, when a thread ends. What it calls in destructors of other keys is not recorded: a
 * slot that it took now would be nobody's for ever. */
static void end_thread(void *thread)
{
	struct call_thread *t = thread;
	calls_own = &nobody;
	calls_asked = __atomic_load_n(&calls_generation, __ATOMIC_RELAXED);
	if (!t->slot) /* a forked child's */
		return;
	if (!__atomic_load_n(&t->header->stop,
			     __ATOMIC_ACQUIRE)) { /* else its memory may be gone */
		calls_drop_all(t);
		python_drop_all(t);
		__atomic_store_n(&t->slot->state, CALL_SLOT_LEFT, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&t->used, false, __ATOMIC_RELEASE);
}

/* In a forked child: it has one thread, and a file of its own as soon as that calls something. Its
 * parent's memory is no more there, but who was amid writing to it, and forked in a handler, goes
 * on doing so. The parent's header stays: calls are counted in it as long as there is no own. */
static void begin_child(void)
{
	calls_own = NULL;
	if (eacgm_call_header)
		(void)!mmap((char *)eacgm_call_header + CALL_HEADER_BYTES,
			    CALL_FILE_BYTES - CALL_HEADER_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	process.reserved = 0;
	pthread_mutex_init(&process.lock, NULL);
	if (process.threads)
		memset(process.threads, 0,
		       THREADS_MOST * sizeof(*process.threads) + CALLS_TEXTS_BYTES);
	process.pid = 0;
	python_begin_child();
	__atomic_store_n(&process.state, FILE_NONE, __ATOMIC_RELEASE);
}

/* ---- the file ---- */

/* Zeros for children: also for those of which nobody tells us (clone(2), _Fork(3)). */
static bool make_threads(void)
{
	size_t bytes = THREADS_MOST * sizeof(*process.threads) + CALLS_TEXTS_BYTES;
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return false;
	if (madvise(map, bytes, MADV_WIPEONFORK)) {
		munmap(map, bytes);
		return false;
	}
	process.threads = map;
	calls_texts = (uint64_t *)(process.threads + THREADS_MOST);
	return true;
}

static bool prepare(void)
{
	if (process.prepared)
		return true;
	if (!make_threads() || pthread_key_create(&process.key, end_thread))
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

/* A larger file than the process may write ends it (SIGXFSZ). */
static bool may_be_so_large(void)
{
	struct rlimit limit;
	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= CALL_FILE_BYTES;
}

static int create_file(const char *folder)
{
	int n = snprintf(process.path, sizeof(process.path), "%s/%d", folder, getpid());
	int fd = -1;
	if (n < 0 || (size_t)n + 8 >= sizeof(process.path))
		return -1;
	/* exec(2) keeps the number: the program before may have left a file, which is to be read */
	for (int again = 0; fd < 0 && again < PROGRAMS_MOST; again++) {
		if (again)
			snprintf(process.path + n, sizeof(process.path) - (size_t)n, ".%d", again);
		fd = open(process.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* One for the process, and for its children. renews: it is another session's from now on, at the
 * same address, for others may be reading it. */
static bool have_settings(const char *folder, bool renews)
{
	char path[CALL_FOLDER_BYTES + 32];
	int n = snprintf(path, sizeof(path), "%s/" CALL_SETTINGS, folder);
	if ((calls_settings && !renews) || n < 0 || (size_t)n >= sizeof(path))
		return calls_settings && !renews;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	uint64_t magic = 0;
	struct stat st;
	void *map = MAP_FAILED;
	if (!fstat(fd, &st) && st.st_size >= (off_t)sizeof(struct call_settings) &&
	    pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == CALL_SETTINGS_MAGIC)
		map = mmap((void *)(uintptr_t)calls_settings, sizeof(struct call_settings),
			   PROT_READ, MAP_SHARED | (calls_settings ? MAP_FIXED : 0), fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return false;
	calls_settings = map;
	return true;
}

/* stops: nothing is to be recorded yet; another session has come. */
static bool make_file(bool stops)
{
	const char *folder = process.folder[0] ? process.folder : getenv(CALL_RINGS_ENV);
	if (!folder || !may_be_so_large() || !prepare() ||
	    !presence_set(folder, (int)strlen(folder)) || !have_settings(folder, stops))
		return false;
	int fd = create_file(folder);
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
	struct call_header *h = map, *before = eacgm_call_header;
	process.pid = getpid();
	h->pid = (uint32_t)process.pid;
	h->counted = ticks_are_counted;
	h->stop = stops;
	__atomic_store_n(&h->magic, CALL_MAGIC, __ATOMIC_RELEASE);
	__atomic_store_n(&eacgm_call_header, h, __ATOMIC_SEQ_CST);
	if (before && before->pid != h->pid) /* the parent's; of one of ours threads know still */
		munmap(before, CALL_HEADER_BYTES);
	return true;
}

/* One thread makes it; others wait for that. */
static bool may_make(uint32_t from)
{
	return __atomic_compare_exchange_n(&process.state, &from, FILE_MAKING, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void set_made(bool made)
{
	__atomic_store_n(&process.state, made ? FILE_READY : FILE_FAILED, __ATOMIC_RELEASE);
}

static bool have_file(void)
{
	if (__atomic_load_n(&process.state, __ATOMIC_ACQUIRE) == FILE_READY &&
	    process.pid != getpid())
		begin_child();
	if (may_make(FILE_NONE))
		set_made(make_file(!eacgm_call_go));
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

static void begin_slot(struct call_slot *slot)
{
	uint64_t head = slot->head, tail = slot->tail;
	slot->depth = slot->python_depth = slot->nparked = 0;
	memset(slot->layer_open, 0, sizeof(slot->layer_open));
	slot->head = (head > tail ? head : tail) & ~7ULL;
	__atomic_store_n(&slot->tid, (uint32_t)gettid(), __ATOMIC_RELEASE);
}

static uint16_t *hists_of(const struct call_slot *slot)
{
	size_t i = ((size_t)((const char *)slot - (const char *)eacgm_call_header) -
		    CALL_HEADER_BYTES) /
		   CALL_SLOT_BYTES;
	return (uint16_t *)((char *)eacgm_call_header + CALL_HISTS_BEGIN + i * CALL_HISTS_BYTES);
}

static struct call_thread *begin(void)
{
	uint64_t low, high;
	if (!have_file() || !stack_find(&low, &high))
		return NULL;
	struct call_thread *t = claim_thread();
	struct call_slot *slot = t ? claim_slot() : NULL;
	if (!slot) {
		if (t)
			__atomic_store_n(&t->used, false, __ATOMIC_RELEASE);
		return NULL;
	}
	begin_slot(slot);
	*t = (struct call_thread){.slot = slot,
				  .header = eacgm_call_header,
				  .ring = (uint64_t *)((char *)slot + CALL_SLOT_HEADER),
				  .hists = hists_of(slot),
				  .stack_low = low,
				  .stack_high = high,
				  .random = ticks_now() << 16 | slot->tid | 1,
				  .generation = calls_generation,
				  .used = true};
	if (pthread_setspecific(process.key, t)) {
		end_thread(t);
		return NULL;
	}
	return t;
}

/* Each call reads its function's site. They are of one page, where Linux gives pages of 2 MiB to
 * who asks: else a call of PyTorch, which uses more pages than the processor remembers, waits for
 * the page of its site to be looked up. */
__attribute__((constructor)) static void ask_for_one_page(void)
{
	madvise(eacgm_call_sites, sizeof(eacgm_call_sites), MADV_HUGEPAGE);
}

/* What it had of an eacgm that has gone is nobody's any more. */
static void leave_former(void)
{
	struct call_thread *t = calls_own;
	if (t && t != &nobody && t->header)
		__atomic_store_n(&t->used, false, __ATOMIC_RELEASE);
}

void threads_begin(void *ret)
{
	leave_former();
	calls_asked = __atomic_load_n(&calls_generation, __ATOMIC_ACQUIRE);
	struct call_thread *t = begin();
	*(struct call_thread **)ret = t ? t : &nobody;
}

/* What was told before is told again: this eacgm has not heard it. */
static void forget_texts(void)
{
	if (process.threads)
		memset(calls_texts, 0, CALLS_TEXTS_BYTES);
}

#define FORMER_MOST 64

static bool is_used(const struct call_header *h)
{
	for (size_t i = 0; process.threads && i < THREADS_MOST; i++)
		if (__atomic_load_n(&process.threads[i].used, __ATOMIC_ACQUIRE) &&
		    process.threads[i].header == h)
			return true;
	return false;
}

/* Files of sessions before the last: a thread that has made no call since keeps its own. */
static void unmap_former(void)
{
	static struct call_header *former[FORMER_MOST];
	struct call_header *last = eacgm_call_header;
	if (last &&
	    last->pid != (uint32_t)getpid()) /* a forked child has its parent's first page */
		last = NULL;
	for (size_t i = 0; i < FORMER_MOST; i++)
		if (former[i] == last)
			last = NULL;
	for (size_t i = 0; i < FORMER_MOST; i++) {
		if (former[i] && former[i] != eacgm_call_header && !is_used(former[i])) {
			munmap(former[i], CALL_FILE_BYTES);
			former[i] = NULL;
		}
		if (!former[i]) {
			former[i] = last;
			last = NULL;
		}
	}
}

/* The memory of a session that has ended, maybe by kill(2), long ago. */
static void give_back(void)
{
	if (!eacgm_call_header)
		return;
	__atomic_store_n(&eacgm_call_header->stop, 1, __ATOMIC_SEQ_CST);
	(void)!madvise((char *)eacgm_call_header + CALL_HEADER_BYTES,
		       CALL_FILE_BYTES - CALL_HEADER_BYTES, MADV_REMOVE);
}

void threads_attach(const char *folder)
{
	if (process.pid && process.pid != getpid())
		begin_child();
	if (!may_make(FILE_NONE) && !may_make(FILE_READY) && !may_make(FILE_FAILED))
		return; /* a thread makes it just now, for the session that began the process */
	eacgm_call_go = 0;
	unmap_former();
	give_back();
	snprintf(process.folder, sizeof(process.folder), "%s", folder);
	pthread_mutex_lock(&process.lock);
	process.reserved = 0;
	pthread_mutex_unlock(&process.lock);
	forget_texts();
	bool made = make_file(true);
	__atomic_fetch_add(&calls_generation, made, __ATOMIC_ACQ_REL);
	set_made(made);
}

void threads_look(void *thread)
{
	struct call_thread *t = thread;
	if (presence_has_ended())
		__atomic_store_n(&t->header->stop, 1, __ATOMIC_RELAXED);
}

/* By the mapping: the process may not be able to open the file any more. Not every page of the file
 * is there to be written to otherwise: a full file system would end the job (SIGBUS). */
void threads_more_hists(void *what)
{
	struct more_hists *m = what;
	struct call_thread *t = m->thread;
	size_t index = CALL_HISTS_INDEX * sizeof(*t->hists);
	size_t from = m->first ? index + m->first * sizeof(struct call_hist) : 0;
	size_t to = index + (m->first + m->n) * sizeof(struct call_hist);
	from &= ~(size_t)4095;
	t->hists_full = madvise((char *)t->hists + from, to - from, POPULATE) != 0;
	m->done = !t->hists_full;
	if (m->done)
		t->hists_room = m->first + m->n;
}
