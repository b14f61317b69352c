/* wait_reasons.c - threads that wait, each for one reason and woken by a thread of its own.
 *
 *   wait_reasons FOLDER
 *
 * FOLDER is on a real disk. Each waiting thread is named after its reason, with a thread "wk-..."
 * that wakes it. At the end a line for each: "REASON WAITED_NS WAITS TID". WAITED_NS is the time
 * that the thread did not run in its waits: the clock's minus its CPU time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TURNS	   40
#define TURN_NS	   20000000L
#define FILE_BYTES (48u << 20)
#define BLOCK	   (1u << 20)

struct waiter {
	const char *name;
	void (*wait)(struct waiter *w);
	void (*wake)(struct waiter *w); /* NULL: nobody has to */
	int fds[2];
	void *block; /* made before: a wait for malloc's lock would be one of another reason */
	pthread_mutex_t lock;
	pthread_cond_t condition;
	int turn;
	uint64_t waited_ns;
	long waits; /* times that it gave its CPU up */
	pid_t tid;
	pthread_t thread, waker;
};

static const char *folder;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- waits with a waker ---- */

static void wait_on_condition(struct waiter *w)
{
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < TURNS; i++)
		while (w->turn <= i)
			pthread_cond_wait(&w->condition, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

static void wake_by_condition(struct waiter *w)
{
	for (int i = 0; i < TURNS; i++) {
		pause_ns(TURN_NS);
		pthread_mutex_lock(&w->lock);
		w->turn++;
		pthread_cond_signal(&w->condition);
		pthread_mutex_unlock(&w->lock);
	}
}

static void wait_for_byte(struct waiter *w)
{
	char c;
	for (int i = 0; i < TURNS; i++)
		if (read(w->fds[0], &c, 1) != 1)
			fail("read");
}

static void wait_in_poll(struct waiter *w)
{
	struct pollfd p = {.fd = w->fds[0], .events = POLLIN};
	char c;
	for (int i = 0; i < TURNS; i++)
		if (poll(&p, 1, -1) != 1 || read(w->fds[0], &c, 1) != 1)
			fail("poll");
}

static void wake_by_byte(struct waiter *w)
{
	for (int i = 0; i < TURNS; i++) {
		pause_ns(TURN_NS);
		if (write(w->fds[1], "x", 1) != 1)
			fail("write");
	}
}

/* Signals of real time are queued: none is lost to a waiter that is late. */
static sigset_t queued_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	return set;
}

static void wait_for_signal(struct waiter *w)
{
	sigset_t set = queued_signal();
	(void)w;
	for (int i = 0; i < TURNS; i++)
		if (sigwaitinfo(&set, NULL) != SIGRTMIN)
			fail("sigwaitinfo");
}

static void wake_by_signal(struct waiter *w)
{
	for (int i = 0; i < TURNS; i++) {
		pause_ns(TURN_NS);
		if (pthread_kill(w->thread, SIGRTMIN))
			fail("pthread_kill");
	}
}

/* ---- waits without ---- */

static void wait_asleep(struct waiter *w)
{
	(void)w;
	for (int i = 0; i < TURNS; i++)
		pause_ns(TURN_NS);
}

static void wait_for_child(struct waiter *w)
{
	(void)w;
	for (int i = 0; i < TURNS / 4; i++) {
		pid_t pid = fork();
		if (!pid) {
			pause_ns(4 * TURN_NS);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			fail("waitpid");
	}
}

static int big_file(const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *block = calloc(1, BLOCK);
	if (fd < 0 || !block)
		fail(path);
	for (unsigned i = 0; i < FILE_BYTES / BLOCK; i++) {
		memset(block, (int)i, BLOCK);
		if (write(fd, block, BLOCK) != BLOCK)
			fail("write");
	}
	free(block);
	unlink(path);
	if (fsync(fd))
		fail("fsync");
	return fd;
}

static void wait_for_disk(struct waiter *w)
{
	int fd = w->fds[0];
	for (unsigned i = 0; i < FILE_BYTES / BLOCK; i++)
		if (pread(fd, w->block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			fail("pread");
	for (int i = 0; i < 10; i++)
		if (pwrite(fd, w->block, 4096, i * 4096) != 4096 || fsync(fd))
			fail("fsync");
}

static void wait_in_faults(struct waiter *w)
{
	volatile const char *m = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, w->fds[0], 0);
	if (m == MAP_FAILED || madvise((void *)m, FILE_BYTES, MADV_RANDOM))
		fail("mmap");
	for (unsigned i = 0; i < FILE_BYTES / 4096; i += 5)
		(void)m[(size_t)i * 4096];
	munmap((void *)m, FILE_BYTES);
}

/* ---- running them ---- */

static void *run_waiter(void *arg)
{
	struct waiter *w = arg;
	pthread_setname_np(pthread_self(), w->name);
	uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	w->wait(w);
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	w->waited_ns = wall - cpu;
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	w->waits = usage.ru_nvcsw;
	w->tid = gettid();
	return NULL;
}

static void *run_waker(void *arg)
{
	struct waiter *w = arg;
	char name[32];
	snprintf(name, sizeof(name), "wk-%s", w->name);
	pthread_setname_np(pthread_self(), name);
	w->wake(w);
	return NULL;
}

static struct waiter waiters[] = {
	{.name = "futex", .wait = wait_on_condition, .wake = wake_by_condition},
	{.name = "pipe", .wait = wait_for_byte, .wake = wake_by_byte},
	{.name = "network", .wait = wait_for_byte, .wake = wake_by_byte},
	{.name = "poll", .wait = wait_in_poll, .wake = wake_by_byte},
	{.name = "sleep", .wait = wait_asleep},
	{.name = "signal", .wait = wait_for_signal, .wake = wake_by_signal},
	{.name = "child", .wait = wait_for_child},
	{.name = "disk", .wait = wait_for_disk},
	{.name = "page_fault", .wait = wait_in_faults},
};
#define WAITERS (sizeof(waiters) / sizeof(waiters[0]))

static void prepare(struct waiter *w)
{
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->condition, NULL);
	if (w->wait == wait_for_disk) {
		w->fds[0] = big_file("disk");
		if (fcntl(w->fds[0], F_SETFL, O_DIRECT) || posix_memalign(&w->block, 4096, BLOCK))
			fail("O_DIRECT");
	} else if (w->wait == wait_in_faults) {
		w->fds[0] = big_file("faults");
		if (posix_fadvise(w->fds[0], 0, 0, POSIX_FADV_DONTNEED))
			fail("posix_fadvise");
	} else if (!strcmp(w->name, "network")) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, w->fds))
			fail("socketpair");
	} else if (w->wake == wake_by_byte && pipe(w->fds)) {
		fail("pipe");
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	folder = argv[1];
	sigset_t set = queued_signal();
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < WAITERS; i++)
		prepare(&waiters[i]);
	for (size_t i = 0; i < WAITERS; i++) {
		struct waiter *w = &waiters[i];
		if (pthread_create(&w->thread, NULL, run_waiter, w) ||
		    (w->wake && pthread_create(&w->waker, NULL, run_waker, w)))
			fail("pthread_create");
	}
	for (size_t i = 0; i < WAITERS; i++) {
		struct waiter *w = &waiters[i];
		pthread_join(w->thread, NULL);
		if (w->wake)
			pthread_join(w->waker, NULL);
		printf("%s %lu %ld %d\n", w->name, (unsigned long)w->waited_ns, w->waits,
		       (int)w->tid);
	}
	return 0;
}
