/* drain.c - what the kernel side tells: records, task events, open calls, losses,
 * histograms; and what was learned from these. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "probe/tracer_impl.h"

/* ---- control: forks, execs, exits, loaded libraries ---- */

/* What a process has mapped, or has no more. One that execs a dynamic program tells more soon. */
static void follow_files(struct tracer *t, const struct rec_task *task)
{
	pid_t pid = (pid_t)task->tgid;
	switch (task->kind) {
	case REC_MAPS:
		if (task->sequence)
			scan_held(t, pid, task->sequence);
		else
			scan_soon(t, pid);
		break;
	case REC_EXEC:
		scan_forget(t, pid);
		if (task->known != TASK_KNOWN_DYNAMIC)
			scan_held(t, pid, 0);
		break;
	case REC_STALE:
		scan_asked(t, pid);
		break;
	case REC_FORK:
		scan_forked(t, (pid_t)task->parent_tgid, pid);
		break;
	case REC_EXIT:
		scan_forget(t, pid);
		break;
	}
}

static int on_control(void *ctx, void *data, size_t len)
{
	struct tracer *t = ctx;
	const struct rec_task *task = data;
	if (len >= sizeof(struct rec_xid) && task->kind == REC_XID) {
		if (t->opts.events.on_xid)
			t->opts.events.on_xid(t->opts.events.ctx, data);
		return 0;
	}
	if (len >= sizeof(struct rec_socket) && task->kind == REC_SOCKET) {
		if (t->opts.events.on_socket && !t->calibrating)
			t->opts.events.on_socket(t->opts.events.ctx, data);
		return 0;
	}
	if (len >= sizeof(struct rec_rules) && task->kind == REC_RULES) {
		if (t->unwinder)
			unwinder_want(t->unwinder, data);
		return 0;
	}
	if (len < sizeof(*task))
		return 0;
	bool listening = !t->calibrating; /* else found when the targets are scanned */
	pid_t pid = (pid_t)task->tgid;
	if (t->unwinder && (task->kind == REC_EXIT || task->kind == REC_EXEC))
		unwinder_forget(t->unwinder, pid);
	if (listening)
		follow_files(t, task);
	else if (task->kind == REC_MAPS && task->sequence)
		tracer_answer_maps(t, task->sequence);
	bool is_task = task->kind != REC_MAPS && task->kind != REC_STALE;
	if (t->opts.events.on_task && is_task && listening)
		t->opts.events.on_task(t->opts.events.ctx, task);
	return 0;
}

int tracer_control_open(struct tracer *t, struct err *e)
{
	struct epoll_event readable = {.events = EPOLLIN};
	t->control = ring_buffer__new(bpf_map__fd(t->bpf->maps.control), on_control, t, NULL);
	if (!t->control ||
	    epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, ring_buffer__epoll_fd(t->control), &readable))
		return err_set(e, ENOMEM, "cannot map the ring of forks and execs");
	return 0;
}

int tracer_control_fd(const struct tracer *t)
{
	return t->epoll_fd;
}

int tracer_control(struct tracer *t)
{
	int n = ring_buffer__consume(t->control);
	if (n > 0)
		scans_look_again(t->scans);
	scans_go_on(t);
	return n;
}

/* ---- records ---- */

int tracer_set_drain(struct tracer *t, tracer_record_fn on_record, void *ctx, struct err *e)
{
	ring_buffer__free(t->rings);
	t->rings = NULL;
	for (size_t i = 0; i < t->ring_fds.len; i++) {
		int rc = 0;
		if (!t->rings)
			t->rings = ring_buffer__new(t->ring_fds.data[i], on_record, ctx, NULL);
		else
			rc = ring_buffer__add(t->rings, t->ring_fds.data[i], on_record, ctx);
		if (!t->rings || rc)
			return err_set(e, ENOMEM, "cannot map the ring buffers");
	}
	return 0;
}

int tracer_drain(struct tracer *t)
{
	return ring_buffer__consume(t->rings);
}

/* ---- open calls and waits ---- */

int drain_iterator(struct bpf_program *prog, const struct bpf_iter_attach_opts *opts,
		   size_t row_bytes, void (*visit)(void *ctx, const void *row), void *ctx,
		   struct err *e)
{
	struct bpf_link *link = bpf_program__attach_iter(prog, opts);
	if (!link)
		return err_set(e, errno, "cannot list %s: %s", bpf_program__name(prog),
			       strerror(errno));
	int fd = bpf_iter_create(bpf_link__fd(link));
	if (fd < 0) {
		int code = errno;
		bpf_link__destroy(link);
		return err_set(e, code, "cannot list %s: %s", bpf_program__name(prog),
			       strerror(code));
	}
	char rows[8192];
	size_t have = 0;
	ssize_t n;
	while ((n = read(fd, rows + have, sizeof(rows) - have)) > 0) {
		size_t done = 0;
		have += (size_t)n;
		for (; have - done >= row_bytes; done += row_bytes)
			visit(ctx, rows + done);
		have -= done;
		memmove(rows, rows + done, have);
	}
	close(fd);
	bpf_link__destroy(link);
	return 0;
}

struct call_visit {
	void (*visit)(void *ctx, const struct rec_call *c);
	void *ctx;
};

static void visit_call(void *ctx, const void *row)
{
	struct call_visit *v = ctx;
	struct rec_call call;
	memcpy(&call, row, sizeof(call));
	v->visit(v->ctx, &call);
}

int tracer_open_calls(struct tracer *t, void (*visit)(void *ctx, const struct rec_call *c),
		      void *ctx, struct err *e)
{
	struct call_visit v = {visit, ctx};
	return drain_iterator(t->bpf->progs.open_calls, NULL, sizeof(struct rec_call), visit_call,
			      &v, e);
}

struct wait_visit {
	void (*visit)(void *ctx, const struct rec_sample *s);
	void *ctx;
};

static void visit_wait(void *ctx, const void *row)
{
	struct wait_visit *v = ctx;
	struct rec_sample sample;
	memcpy(&sample, row, sizeof(sample));
	v->visit(v->ctx, &sample);
}

int tracer_open_waits(struct tracer *t, void (*visit)(void *ctx, const struct rec_sample *s),
		      void *ctx, struct err *e)
{
	struct wait_visit v = {visit, ctx};
	if (!t->opts.waits)
		return 0;
	return drain_iterator(t->bpf->progs.open_waits, NULL, sizeof(struct rec_sample), visit_wait,
			      &v, e);
}

static void ignore_row(void *ctx, const void *row)
{
	(void)ctx, (void)row;
}

int run_iterator(struct bpf_program *prog, struct err *e)
{
	return drain_iterator(prog, NULL, 1, ignore_row, NULL, e);
}

int tracer_end_waits(struct tracer *t, struct err *e)
{
	int rc = t->opts.counts_waits ? run_iterator(t->bpf->progs.open_wait_sums, e) : 0;
	if (!rc && t->opts.counts_stalls)
		rc = run_iterator(t->bpf->progs.open_stall_sums, e);
	return rc;
}

/* ---- what is counted for each CPU ---- */

/* All n values of an array, of size bytes for each CPU: in one system call where Linux can (5.13
 * on). What cannot be read is 0. */
static void read_array(int fd, uint32_t n, void *ret, size_t size)
{
	uint32_t next = 0, count = n;
	uint32_t *keys = xcalloc(n, sizeof(*keys));
	int rc = bpf_map_lookup_batch(fd, NULL, &next, keys, ret, &count, NULL);
	free(keys);
	if ((!rc || rc == -ENOENT) && count == n)
		return;
	memset(ret, 0, n * size);
	for (uint32_t key = 0; key < n; key++)
		bpf_map_lookup_elem(fd, &key, (char *)ret + key * size);
}

/* ---- losses ---- */

void tracer_losses(struct tracer *t,
		   void (*visit)(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count),
		   void *ctx)
{
	size_t cpus = (size_t)libbpf_num_possible_cpus();
	uint64_t *counts = xcalloc(LOSS_COUNT * cpus, sizeof(*counts));
	read_array(bpf_map__fd(t->bpf->maps.losses), LOSS_COUNT, counts, cpus * sizeof(*counts));
	for (size_t i = 0; i < LOSS_COUNT * cpus; i++) {
		if (counts[i])
			visit(ctx, (enum loss_cause)(i / cpus), (uint32_t)(i % cpus), counts[i]);
	}
	free(counts);
}

/* ---- what our programs took ---- */

static void add_spending(struct tracer_spending *ret, const struct spending *of_cpus, size_t cpus)
{
	uint64_t timed = 0, timed_ns = 0;
	for (size_t cpu = 0; cpu < cpus; cpu++) {
		ret->runs += of_cpus[cpu].runs;
		timed += of_cpus[cpu].timed;
		timed_ns += of_cpus[cpu].timed_ns;
	}
	if (timed)
		ret->ns = (double)timed_ns / (double)timed * (double)ret->runs;
}

void tracer_spendings(const struct tracer *t, struct tracer_spending ret[SPENT_KINDS])
{
	size_t cpus = (size_t)libbpf_num_possible_cpus();
	struct spending *of_cpus = xcalloc(SPENT_KINDS * cpus, sizeof(*of_cpus));
	memset(ret, 0, SPENT_KINDS * sizeof(*ret));
	read_array(bpf_map__fd(t->bpf->maps.spendings), SPENT_KINDS, of_cpus,
		   cpus * sizeof(*of_cpus));
	for (uint32_t kind = 0; kind < SPENT_KINDS; kind++)
		add_spending(&ret[kind], of_cpus + kind * cpus, cpus);
	free(of_cpus);
}

/* ---- histograms ---- */

void tracer_histograms(struct tracer *t,
		       void (*visit)(void *ctx, const struct hist_key *key,
				     const struct hist_value *value),
		       void *ctx)
{
	int fd = bpf_map__fd(t->bpf->maps.hists);
	struct hist_key key, *previous = NULL;
	struct hist_value value;
	while (!bpf_map_get_next_key(fd, previous, &key)) {
		if (!bpf_map_lookup_elem(fd, &key, &value))
			visit(ctx, &key, &value);
		previous = &key;
	}
}

void tracer_set_threshold(struct tracer *t, uint32_t probe, uint64_t ns)
{
	bpf_map_update_elem(bpf_map__fd(t->bpf->maps.thresholds_ns), &probe, &ns, BPF_ANY);
}
