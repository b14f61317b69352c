/* call_timer.c - the functions, and the child that calls them. */
#include "probe/call_timer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "symbolize/elf_file.h"

#define ROUNDS	    40
#define ROUND_CALLS 50
#define WARM_CALLS  200
#define QUICK_PART  0.2 /* of the rounds: the figure is that of the slowest among so many */

/* ---- the functions ---- */

__asm__(".text\n"
	".type timed_plain,@function\ntimed_plain:\npush %rbx\npop %rbx\nret\n"
	".type timed_entry,@function\ntimed_entry:\npush %rbx\npop %rbx\nret\n"
	".type timed_stepped,@function\ntimed_stepped:\nlea (%rdi),%rax\nret\n"
	".type timed_span,@function\ntimed_span:\npush %rbx\npop %rbx\nret\n");

/* Where the functions are in this executable. */
struct page {
	int fd;
	off_t offset;
};

typedef void timed_fn(const struct page *here);
timed_fn timed_plain, timed_entry, timed_stepped, timed_span;

static void map_page(const struct page *here)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, here->fd, here->offset);
	if (p != MAP_FAILED)
		munmap(p, size);
}

static timed_fn *const functions[TIMED_FUNCTIONS] = {timed_plain, timed_entry, timed_stepped,
						     timed_span, map_page};

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

bool timed_function_offset(enum timed_function f, uint64_t *ret)
{
	struct elf_file *self;
	if (elf_file_open(&self, "/proc/self/exe", NULL))
		return false;
	uint64_t address = (uint64_t)((const char *)(uintptr_t)functions[f] - __ehdr_start);
	bool found = elf_file_offset(self, address, ret);
	elf_file_close(self);
	return found;
}

/* ---- the child ---- */

static void stay_on_this_cpu(void)
{
	cpu_set_t one;
	int cpu = sched_getcpu();
	CPU_ZERO(&one);
	if (cpu >= 0 && cpu < CPU_SETSIZE)
		CPU_SET((size_t)cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static double time_calls(timed_fn *call, const struct page *here)
{
	double ns[ROUNDS];
	for (int i = 0; i < WARM_CALLS; i++)
		call(here);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start_ns = thread_cpu_ns();
		for (int i = 0; i < ROUND_CALLS; i++)
			call(here);
		ns[round] = (double)(thread_cpu_ns() - start_ns) / ROUND_CALLS;
	}
	stats_sort(ns, ROUNDS);
	return stats_quantile_sorted(ns, ROUNDS, QUICK_PART);
}

static void child_main(int go, int result)
{
	unsigned char which;
	uint64_t offset = 0;
	timed_function_offset(TIMED_SPAN, &offset);
	const struct page here = {
		.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
		.offset = (off_t)(offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1)),
	};
	stay_on_this_cpu();
	while (read(go, &which, 1) == 1 && which < TIMED_FUNCTIONS) {
		double ns = time_calls(functions[which], &here);
		if (write(result, &ns, sizeof(ns)) != sizeof(ns))
			break;
	}
	_exit(0);
}

int call_timer_start(struct call_timer *ret, struct err *e)
{
	int go[2], result[2];
	if (pipe2(go, O_CLOEXEC))
		return err_set(e, errno, "no pipe: %s", strerror(errno));
	if (pipe2(result, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return err_set(e, errno, "no pipe: %s", strerror(errno));
	}
	pid_t pid = fork();
	if (!pid) {
		close(go[1]);
		close(result[0]);
		child_main(go[0], result[1]);
	}
	close(go[0]);
	close(result[1]);
	*ret = (struct call_timer){.pid = pid, .go = go[1], .result = result[0]};
	if (pid > 0)
		return 0;
	call_timer_stop(ret);
	return err_set(e, EAGAIN, "no process to measure with");
}

double call_timer_run(struct call_timer *c, enum timed_function f)
{
	unsigned char which = (unsigned char)f;
	double ns = -1;
	if (write(c->go, &which, 1) != 1 || read(c->result, &ns, sizeof(ns)) != sizeof(ns))
		return -1;
	return ns;
}

void call_timer_stop(struct call_timer *c)
{
	close(c->go);
	close(c->result);
	if (c->pid > 0)
		waitpid(c->pid, NULL, 0);
}
