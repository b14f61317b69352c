/* scan.c - finds what processes have mapped, and has each file hooked and probed once.
 *
 * A scan is of one process. Its new files are read by others meanwhile (reading.c); when all are,
 * it goes on: hooks first, in all its files, then what the process has is told, then probes. A file
 * is probed when no process is known to have it together with one that is not hooked yet: an
 * exception that passes a probed frame has to be prepared for. Nothing here waits. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/tracer_impl.h"

#define SETTLE_NS 100000000ULL /* a held task, until its stacks can be walked */
#define GRANT_NS  2000000000ULL
#define TICK_NS	  3000000	/* while anything is under way */
#define AGAIN_NS  (2 * TICK_NS) /* after records came: LOOKS_AGAIN_NS of bpf/state.h and more */
#define TOGETHER_NS                                                                                \
	15000000ULL   /* what a process that is not held loads at once is looked at once */
#define SPARE	   20 /* nobody waits: a process's mappings are read for a twentieth of a CPU */
#define LATEST_NS  200000000ULL /* but no later than this */
#define PACE_NS	   150000000ULL /* of our time in a second, for one process's mappings */
#define SCAN_FILES 4096
#define PRESSED_NS 10000000000ULL
#define HIDDEN_UNWINDER                                                                            \
	"its exception unwinder is linked in and stripped of its symbols, so exceptions could "    \
	"not pass traced functions"

struct scan {
	pid_t pid;
	uint64_t sequence;		 /* of the hold; 0 = it is not held */
	uint64_t until_ns;		 /* for its stacks */
	proc_maps_t maps;		 /* of code */
	uint64_t seen_ns;		 /* when these were read; CLOCK_REALTIME_COARSE */
	VEC(struct probed_file *) files; /* used, one for each mapping of a file */
	VEC(size_t) map_of;		 /* their mappings */
	int fresh;			 /* files that were new */
	bool hooked, told, done;
	bool outdated; /* a newer scan of the process has told what it has */
};

/* A process that is to be looked at later. */
struct later {
	pid_t pid;
	uint64_t at_ns;
};

struct scans {
	VEC(struct scan *) list;
	VEC(struct later) later;
	struct map64 spent_ns; /* pid -> in this second, for its mappings and its children's */
	struct map64 payer;    /* pid -> whose child it is, until it executes another program */
	struct map64 cost_ns;  /* pid -> of the last reading of them */
	uint64_t second_ns;
	uint64_t pressed_ns; /* since when; 0 = not */
	bool under_way;	     /* scans_go_on runs */
	bool ticks;
	uint64_t again_until_ns; /* records may come without waking us */
	int timer;
};

struct scans *scans_new(int epoll_fd)
{
	struct scans *s = xcalloc(1, sizeof(*s));
	struct epoll_event readable = {.events = EPOLLIN};
	s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->timer, &readable);
	return s;
}

static void scan_free(struct files *fs, struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		files_unuse(fs, s->files.data[i]);
	vec_free(&s->files);
	vec_free(&s->map_of);
	proc_maps_free(&s->maps);
	free(s);
}

void scans_free(struct scans *ss, struct files *fs)
{
	if (!ss)
		return;
	for (size_t i = 0; i < ss->list.len; i++)
		scan_free(fs, ss->list.data[i]);
	vec_free(&ss->list);
	vec_free(&ss->later);
	map64_free(&ss->spent_ns);
	map64_free(&ss->cost_ns);
	map64_free(&ss->payer);
	close(ss->timer);
	free(ss);
}

/* ---- the files of a process ---- */

/* Whether an open file is the one that was mapped. The process may have mapped another one there
 * since; btrfs alone shows another device number in /proc/PID/maps than stat(2) gives, and nobody
 * else can make one of those. */
static bool is_mapped_file(int fd, const struct stat *st, const struct proc_map *m)
{
	struct statfs fs;
	return st->st_ino == m->inode &&
	       (st->st_dev == m->device ||
		(!fstatfs(fd, &fs) && (uint32_t)fs.f_type == BTRFS_SUPER_MAGIC));
}

/* The registry entry of a file that is found by its own numbers, and by the mapping's as well where
 * those are of the same file. */
static struct probed_file *entry_of(struct tracer *t, int fd, const struct stat *st,
				    const struct proc_map *m)
{
	struct probed_file *f = files_find(&t->files, st->st_dev, st->st_ino);
	char link[32], path[4096];
	if (is_mapped_file(fd, st, m)) {
		if (!f)
			return files_add(&t->files, m->device, m->inode, m->path);
		files_alias(&t->files, m->device, m->inode, f);
	}
	if (f)
		return f;
	/* the mapping's name is of the file that was there before */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = 0;
	proc_cut_deleted(path);
	return files_add(&t->files, st->st_dev, st->st_ino, path);
}

/* The registry entry of a mapping, opened once: what is read is what is attached to, and
 * an inode that is held open is not given to another file. */
static struct probed_file *file_of(struct tracer *t, pid_t pid, const struct proc_map *m)
{
	struct stat st;
	struct probed_file *f = files_find(&t->files, m->device, m->inode);
	if (f && f->fd >= 0)
		return f;
	int fd = proc_map_open("/proc", pid, m, &st);
	if (fd < 0)
		return f ? f : files_add(&t->files, m->device, m->inode, m->path);
	if (!f || !is_mapped_file(fd, &st, m))
		f = entry_of(t, fd, &st, m);
	if (f->fd >= 0) {
		close(fd);
		return f;
	}
	f->fd = fd;
	if (f->state == FILE_REFUSED) /* it could not be opened before */
		f->state = FILE_NEW;
	return f;
}

static void list_files(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < s->maps.len && s->files.len < SCAN_FILES; i++) {
		const struct proc_map *m = &s->maps.data[i];
		if (!m->inode)
			continue;
		struct probed_file *f = file_of(t, s->pid, m);
		files_use(&t->files, f);
		*vec_push(&s->files) = f;
		*vec_push(&s->map_of) = i;
		s->fresh += f->state == FILE_NEW;
		if (f->state == FILE_NEW)
			reading_want(t, f);
	}
}

/* ---- what a process is told of, and told to ---- */

static void tell_maps(struct tracer *t, const struct scan *s)
{
	if (!t->opts.events.on_maps)
		return;
	proc_maps_t copy = {0};
	proc_maps_copy(&copy, &s->maps);
	const char **build_ids = xcalloc(s->maps.len + 1, sizeof(*build_ids));
	for (size_t i = 0; i < s->maps.len; i++)
		build_ids[i] = "";
	for (size_t i = 0; i < s->files.len; i++)
		build_ids[s->map_of.data[i]] = s->files.data[i]->facts.build_id;
	t->opts.events.on_maps(t->opts.events.ctx, s->pid, &copy, build_ids, s->seen_ns);
	proc_maps_free(&copy);
	free(build_ids);
}

/* Libraries that run code on stacks of their own making. The kernel takes a thread's
 * pending return probes for one stack: a switch in between makes a call return to where
 * another was called from. */
static const char *const stack_switchers[] = {"_greenlet*.so*", "libboost_context*.so*",
					      "libboost_coroutine*.so*", "libboost_fiber*.so*"};

/* Takes a process out of tracing for good, and says why. */
static void exclude(struct tracer *t, pid_t pid, const char *file, const char *why)
{
	uint32_t key = (uint32_t)pid;
	uint8_t yes = 1;
	char subject[32], reason[320];
	if (bpf_map_update_elem(bpf_map__fd(t->bpf->maps.excluded), &key, &yes, BPF_NOEXIST))
		return; /* it is out already */
	__atomic_add_fetch(&t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
	snprintf(subject, sizeof(subject), "process %d", pid);
	snprintf(reason, sizeof(reason), "not traced since it loaded %.120s: %s%s", file, why,
		 t->method == ATTACH_SESSION ? "" : "; all probes were taken off");
	tracer_note(t, subject, reason);
	/* other links cannot leave a process out: they reach all that map the file */
	if (t->method != ATTACH_SESSION)
		tracer_switch(t, ~0u, false, NULL, NULL, NULL);
}

static bool switches_stacks(const char *path)
{
	const char *slash = strrchr(path, '/');
	for (size_t k = 0; slash && k < sizeof(stack_switchers) / sizeof(char *); k++)
		if (!fnmatch(stack_switchers[k], slash + 1, 0))
			return true;
	return false;
}

static void exclude_unsafe(struct tracer *t, const struct scan *s)
{
	char exe[4096] = "";
	proc_exe("/proc", s->pid, exe, sizeof(exe));
	for (size_t i = 0; i < s->files.len; i++) {
		const struct probed_file *f = s->files.data[i];
		const struct proc_map *m = &s->maps.data[s->map_of.data[i]];
		if (switches_stacks(m->path))
			exclude(t, s->pid, strrchr(m->path, '/') + 1,
				"it switches stacks, which return probes do not survive");
		if (f->unreadable)
			exclude(t, s->pid, m->path, "what is in it could not be read");
		/* a library's hidden unwinder handles its own exceptions; a program's handles all
		 * that its libraries call back into */
		if (f->facts.hides_unwinder && !strcmp(m->path, exe))
			exclude(t, s->pid, m->path, HIDDEN_UNWINDER);
	}
}

static bool has_stacks(const struct probed_file *f)
{
	for (size_t g = 0; g < f->groups.len; g++)
		for (size_t i = 0; i < f->groups.data[g].sites.len; i++)
			if (f->groups.data[g].sites.data[i].cookie & COOKIE_WITH_STACK)
				return true;
	return false;
}

/* From here on nobody who maps the file is held for it (bpf/mappings.h). Where a process is judged
 * by it, each one is. */
static void tell_known(struct tracer *t, struct probed_file *f)
{
	struct known_file key = known_file_of(f->device, f->inode);
	if (f->known || f->fd < 0 || f->unguarded || f->unreadable || f->facts.hides_unwinder ||
	    switches_stacks(f->path))
		return;
	uint8_t how = has_stacks(f) ? KNOWN_WITH_STACKS : KNOWN_FILE;
	f->known = !bpf_map_update_elem(bpf_map__fd(t->bpf->maps.known_files), &key, &how, BPF_ANY);
}

struct known_file known_file_of(uint64_t device, uint64_t inode)
{
	return (struct known_file){
		.device = (uint64_t)gnu_dev_major(device) << 20 | gnu_dev_minor(device),
		.inode = inode,
	};
}

/* ---- a scan's way ---- */

static bool is_read(const struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->state == FILE_ASKED)
			return false;
	return true;
}

static bool has_file(const struct scan *s, const struct probed_file *f)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i] == f)
			return true;
	return false;
}

static bool may_be_probed(const struct tracer *t, const struct probed_file *f)
{
	for (size_t i = 0; i < t->scans->list.len; i++) {
		const struct scan *s = t->scans->list.data[i];
		if (!s->hooked && has_file(s, f))
			return false;
	}
	return true;
}

/* Where the exception guard could not be attached in one of its files, nothing of it is probed. */
static bool is_guarded(const struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->unguarded)
			return false;
	return true;
}

static void hook_files(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < s->files.len; i++)
		if (s->files.data[i]->state == FILE_READ)
			tracer_hook_file(t, s->files.data[i]);
	s->hooked = true;
}

static void refuse_hidden(struct tracer *t, struct probed_file *f)
{
	f->state = FILE_PROBED;
	if (plan_wants(&t->plan, f->path))
		tracer_note(t, f->path, "not traced: " HIDDEN_UNWINDER);
}

/* False when one has to wait for another process's hooks. */
static bool probe_files(struct tracer *t, struct scan *s)
{
	bool all = true;
	for (size_t i = 0; i < s->files.len; i++) {
		struct probed_file *f = s->files.data[i];
		if (f->state == FILE_HOOKED && f->facts.hides_unwinder)
			refuse_hidden(t, f);
		else if (f->state == FILE_HOOKED &&
			 (!f->facts.plan.sites.len || may_be_probed(t, f)))
			tracer_probe_file(t, f);
		if (f->state == FILE_PROBED || f->state == FILE_REFUSED)
			tell_known(t, f);
		all &= f->state != FILE_HOOKED;
	}
	return all;
}

static bool is_settled(const struct tracer *t, const struct scan *s)
{
	return !s->sequence || !t->unwinder || monotonic_ns() > s->until_ns ||
	       unwinder_settle(t->unwinder, s->pid, 0);
}

static void remember(struct tracer *t, const struct scan *s)
{
	mapped_files_t files = {0};
	for (size_t i = 0; i < s->files.len; i++)
		*vec_push(&files) = s->files.data[i];
	targets_set(&t->targets, &t->files, s->pid, &files);
}

/* Before the first call is seen: names are looked up by them. What an older scan of the process has
 * found, and had to wait for, is not the newest any more. */
static void tell(struct tracer *t, struct scan *s)
{
	for (size_t i = 0; i < t->scans->list.len && t->scans->list.data[i] != s; i++)
		t->scans->list.data[i]->outdated |= t->scans->list.data[i]->pid == s->pid;
	if (!s->outdated) {
		tell_maps(t, s);
		remember(t, s);
		if (t->unwinder)
			unwinder_look(t->unwinder, s->pid, &s->maps);
	}
	s->told = true;
}

static void scan_go_on(struct tracer *t, struct scan *s)
{
	if (!is_read(s))
		return;
	if (!s->hooked)
		hook_files(t, s);
	if (!s->told) {
		exclude_unsafe(t, s);
		tell(t, s);
	}
	if (is_guarded(s) && !probe_files(t, s))
		return;
	s->done = is_settled(t, s);
	if (s->done && s->sequence)
		tracer_answer_maps(t, s->sequence);
}

/* While tasks are held nothing else runs before this, where that is allowed: they use their CPUs
 * until it is done. What is done so is bounded: no file is read here, no mappings. */
static bool run_first(void)
{
	struct sched_param first = {.sched_priority = 1};
	return !sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static void run_as_others(void)
{
	struct sched_param none = {.sched_priority = 0};
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none);
}

static bool holds_any(const struct scans *ss)
{
	for (size_t i = 0; i < ss->list.len; i++)
		if (ss->list.data[i]->sequence && !ss->list.data[i]->done)
			return true;
	return false;
}

void scans_run_early(void)
{
	run_as_others();
	setpriority(PRIO_PROCESS, 0, -20); /* of this thread; its children are as others */
}

/* ---- pace ---- */

/* A process could have others of its program looked at in its place. */
static uint64_t payer_of(const struct scans *ss, pid_t pid)
{
	uint64_t payer = (uint64_t)pid;
	map64_get(&ss->payer, (uint64_t)pid, &payer);
	return payer;
}

static uint64_t spent_on(const struct scans *ss, pid_t pid)
{
	uint64_t ns = 0;
	map64_get(&ss->spent_ns, payer_of(ss, pid), &ns);
	return ns;
}

/* Of this thread: that others run meanwhile is nobody's fault. */
static uint64_t own_cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return timespec_ns(&ts);
}

static void account(struct scans *ss, pid_t pid, uint64_t took_ns)
{
	uint64_t now_ns = monotonic_ns();
	if (now_ns - ss->second_ns > 1000000000ULL) {
		map64_free(&ss->spent_ns);
		ss->second_ns = now_ns;
	}
	map64_set(&ss->spent_ns, payer_of(ss, pid), spent_on(ss, pid) + took_ns);
}

static void look_later(struct scans *ss, pid_t pid, uint64_t at_ns)
{
	for (size_t i = 0; i < ss->later.len; i++)
		if (ss->later.data[i].pid == pid)
			return;
	*vec_push(&ss->later) = (struct later){pid, at_ns};
}

/* ---- begin and end ---- */

static int scan_begin(struct tracer *t, pid_t pid, uint64_t sequence, struct err *e)
{
	uint64_t began_ns = own_cpu_ns();
	struct scan *s = xcalloc(1, sizeof(*s));
	*s = (struct scan){.pid = pid,
			   .sequence = sequence,
			   .until_ns = monotonic_ns() + SETTLE_NS,
			   .seen_ns = realtime_coarse_ns()};
	int rc = proc_code_read("/proc", pid, &s->maps, e);
	if (rc) {
		free(s);
		return rc;
	}
	map64_set(&t->scans->cost_ns, (uint64_t)pid, own_cpu_ns() - began_ns);
	list_files(t, s);
	/* it brought a file, and waits for that; or for what is under way, where nobody makes us
	 * busy */
	if (sequence && (!is_read(s) || !t->scans->pressed_ns))
		tracer_grant(t, sequence, GRANT_NS);
	*vec_push(&t->scans->list) = s;
	account(t->scans, pid, own_cpu_ns() - began_ns);
	return s->fresh;
}

void scans_press(struct tracer *t)
{
	t->scans->pressed_ns = monotonic_ns();
	t->bpf->bss->pressed = true;
}

static void end_press(struct tracer *t)
{
	if (!t->scans->pressed_ns || monotonic_ns() - t->scans->pressed_ns < PRESSED_NS)
		return;
	t->scans->pressed_ns = 0;
	t->bpf->bss->pressed = false;
}

void scan_held(struct tracer *t, pid_t pid, uint64_t sequence)
{
	struct err e;
	if (spent_on(t->scans, pid) > PACE_NS) {
		scans_press(t);
		look_later(t->scans, pid, monotonic_ns() + 1000000000ULL);
		if (sequence)
			tracer_refuse_maps(t, sequence);
	} else if (scan_begin(t, pid, sequence, &e) < 0 && sequence) {
		tracer_answer_maps(t, sequence); /* it has ended */
	}
}

/* How long a process that is not held is left to load more: the dearer a reading, the longer. */
static uint64_t together_ns(const struct scans *ss, pid_t pid)
{
	uint64_t cost_ns = 0;
	map64_get(&ss->cost_ns, (uint64_t)pid, &cost_ns);
	uint64_t ns = cost_ns < LATEST_NS / SPARE ? cost_ns * SPARE : LATEST_NS;
	return ns > TOGETHER_NS ? ns : TOGETHER_NS;
}

void scan_soon(struct tracer *t, pid_t pid)
{
	uint64_t wait_ns =
		spent_on(t->scans, pid) > PACE_NS ? 1000000000ULL : together_ns(t->scans, pid);
	look_later(t->scans, pid, monotonic_ns() + wait_ns);
}

void scan_forked(struct tracer *t, pid_t parent, pid_t child)
{
	uint64_t cost_ns;
	bool told = targets_forked(&t->targets, &t->files, parent, child);
	map64_set(&t->scans->payer, (uint64_t)child, payer_of(t->scans, parent));
	if (map64_get(&t->scans->cost_ns, (uint64_t)parent, &cost_ns))
		map64_set(&t->scans->cost_ns, (uint64_t)child, cost_ns);
	/* what is published was told before: names are found by that */
	if ((t->unwinder && !unwinder_forked(t->unwinder, child)) || !told)
		scan_soon(t, child);
}

void scan_forget(struct tracer *t, pid_t pid)
{
	struct scans *ss = t->scans;
	for (size_t i = ss->later.len; i-- > 0;)
		if (ss->later.data[i].pid == pid)
			ss->later.data[i] = ss->later.data[--ss->later.len];
	for (size_t i = 0; i < ss->list.len; i++)
		ss->list.data[i]->done |= ss->list.data[i]->pid == pid;
	map64_del(&ss->cost_ns, (uint64_t)pid);
	map64_del(&ss->payer, (uint64_t)pid);
	targets_ended(&t->targets, &t->files, pid);
}

static void begin_due(struct tracer *t)
{
	struct scans *ss = t->scans;
	struct err gone;
	uint64_t now_ns = monotonic_ns();
	for (size_t i = ss->later.len; i-- > 0;) {
		struct later l = ss->later.data[i];
		if (now_ns < l.at_ns)
			continue;
		ss->later.data[i] = ss->later.data[--ss->later.len];
		scan_begin(t, l.pid, 0, &gone);
	}
}

static void drop_done(struct tracer *t)
{
	struct scans *ss = t->scans;
	size_t kept = 0;
	for (size_t i = 0; i < ss->list.len; i++) {
		if (ss->list.data[i]->done)
			scan_free(&t->files, ss->list.data[i]);
		else
			ss->list.data[kept++] = ss->list.data[i];
	}
	ss->list.len = kept;
}

static void set_ticks(struct scans *ss, bool on)
{
	struct itimerspec every = {.it_interval.tv_nsec = on ? TICK_NS : 0,
				   .it_value.tv_nsec = on ? TICK_NS : 0};
	uint64_t expirations;
	(void)!read(ss->timer, &expirations, sizeof(expirations));
	if (ss->ticks != on)
		timerfd_settime(ss->timer, 0, &every, NULL);
	ss->ticks = on;
}

void scans_look_again(struct scans *ss)
{
	ss->again_until_ns = monotonic_ns() + AGAIN_NS;
}

void scans_go_on(struct tracer *t)
{
	struct scans *ss = t->scans;
	uint64_t times;
	if (t->unwinder)
		(void)!read(unwinder_fd(t->unwinder), &times, sizeof(times));
	reading_go_on(t);
	if (ss->under_way)
		return; /* a file is being taken off meanwhile: see detach_all */
	ss->under_way = true;
	begin_due(t);
	end_press(t);
	bool first = holds_any(ss) && run_first();
	for (size_t i = 0; i < ss->list.len; i++) /* grows meanwhile */
		if (!ss->list.data[i]->done)
			scan_go_on(t, ss->list.data[i]);
	if (first)
		run_as_others();
	drop_done(t);
	tracer_give_back(t);
	ss->under_way = false;
	set_ticks(ss, ss->list.len || ss->later.len || reading_is_busy(t->reading) ||
			      monotonic_ns() < ss->again_until_ns);
}

/* ---- at the beginning: what is to be there before anything goes on ---- */

/* Until then, held tasks are answered. */
static void wait_until_read(struct tracer *t, const struct probed_file *f)
{
	while (f->state == FILE_ASKED) {
		struct pollfd fd = {.fd = t->epoll_fd, .events = POLLIN};
		poll(&fd, 1, 20);
		tracer_control(t);
	}
}

static bool is_under_way(const struct scans *ss, pid_t pid)
{
	for (size_t i = 0; i < ss->list.len; i++)
		if (ss->list.data[i]->pid == pid && !ss->list.data[i]->done)
			return true;
	return false;
}

int tracer_scan_pid(struct tracer *t, pid_t pid, struct err *e)
{
	int fresh = scan_begin(t, pid, 0, e);
	if (fresh < 0)
		return fresh;
	scans_go_on(t);
	while (is_under_way(t->scans, pid)) {
		struct pollfd fd = {.fd = t->epoll_fd, .events = POLLIN};
		poll(&fd, 1, 20);
		tracer_control(t);
	}
	return fresh;
}

/* A file of this host by its path, read and hooked; NULL when it is none, or cannot be read. */
static struct probed_file *hooked_by_path(struct tracer *t, const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return NULL;
	}
	struct probed_file *f = files_find(&t->files, st.st_dev, st.st_ino);
	if (!f)
		f = files_add(&t->files, st.st_dev, st.st_ino, path);
	if (f->fd < 0)
		f->fd = fd;
	else
		close(fd);
	files_use(&t->files, f); /* for good: it will be run again */
	if (f->state == FILE_NEW)
		reading_want(t, f);
	wait_until_read(t, f);
	if (f->state == FILE_READ)
		tracer_hook_file(t, f);
	return f->state == FILE_REFUSED ? NULL : f;
}

void tracer_hook_loaders(struct tracer *t)
{
	static const char *const loaders[] = {"/lib64/ld-linux-x86-64.so.2",
					      "/lib/ld-musl-x86_64.so.1"};
	char real[4096];
	for (size_t i = 0; i < sizeof(loaders) / sizeof(loaders[0]); i++)
		if (realpath(loaders[i], real)) /* a host may lack either */
			hooked_by_path(t, real);
}

int tracer_prepare_exec(struct tracer *t, const char *path, struct err *e)
{
	char real[4096], linker_path[4096];
	if (!realpath(path, real))
		return err_set(e, errno, "%s: %s", path, strerror(errno));
	struct probed_file *exe = hooked_by_path(t, real);
	if (!exe)
		return 0; /* a script: its interpreter comes by exec */
	const char *interpreter = exe->facts.interpreter;
	struct probed_file *linker = NULL;
	if (interpreter[0] && realpath(interpreter, linker_path))
		linker = hooked_by_path(t, linker_path);
	/* a dynamic executable is probed when the linker holds it, after the exception guard
	 * of its libraries; nobody holds a static one */
	if (exe->unguarded || (linker && t->can_hold) || exe->state != FILE_HOOKED)
		return 0;
	if (exe->facts.hides_unwinder)
		refuse_hidden(t, exe);
	else
		tracer_probe_file(t, exe);
	return 0;
}
