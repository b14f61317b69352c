/* cause_words.c - titles, advice and evidence in plain sentences. */
#include "incident/cause_words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/entity.h"
#include "base/files.h"
#include "base/human.h"
#include "wire/stalls.h"

#define GREW	    1.05 /* times as much as usual, at least */
#define SAME_NODE   10	 /* the distance of a NUMA node from itself */
#define SMALL_SHARE 0.02 /* of what was lost: calls that took less more are no evidence */

const char *cause_id(enum cause c)
{
	static const char *const ids[CAUSE_COUNT] = {
#define X(NAME, name) #name,
		CAUSES(X)
#undef X
	};
	return c < CAUSE_COUNT ? ids[c] : ids[CAUSE_UNKNOWN];
}

struct cause_text {
	const char *title, *advice;
};

const char *culprit_kind_id(enum culprit_kind kind)
{
	static const char *const kinds[] = {
		[CULPRIT_NONE] = "none",
		[CULPRIT_PROCESS] = "process",
		[CULPRIT_CGROUP] = "cgroup",
		[CULPRIT_LINE] = "line",
		[CULPRIT_GPU] = "gpu",
		[CULPRIT_HOST] = "host",
		[CULPRIT_INTERRUPT] = "interrupt",
		[CULPRIT_DISK] = "disk",
		[CULPRIT_INTERFACE] = "interface",
		[CULPRIT_CALL] = "call",
		[CULPRIT_RANK] = "rank",
	};
	return kinds[kind];
}

void culprit_device_words(struct buf *b, const struct rec_tables *t, const struct culprit *c)
{
	const char *name = strtab_get(&t->strings, c->device, NULL);
	if (c->kind == CULPRIT_INTERFACE)
		buf_printf(b, "%.*s", (int)cause_interface_length(name), name);
	else
		buf_printf(b, "%s", name);
}

static const struct cause_text texts[CAUSE_COUNT] = {
	[CAUSE_UNKNOWN] = {"no cause that is known",
			   "Look at what the time went to, below; 'eacgm detect' has all that was "
			   "not as usual."},
	[CAUSE_CPU_CONTENTION] = {"CPU contention",
				  "Give the job CPUs of its own (taskset, cpusets, fewer jobs on "
				  "the host), or move or end what took them."},
	[CAUSE_CPU_THROTTLE] = {"CPU throttling: the job's CPU quota was used up",
				"Raise or remove the CPU limit of its cgroup or container "
				"(cpu.max), or start fewer threads."},
	[CAUSE_CPU_STOLEN] = {"other virtual machines took the cores",
			      "Ask for dedicated cores, or move the job to another host: nothing "
			      "in this machine can mend it."},
	[CAUSE_CPU_SLOW] =
		{"the CPUs themselves ran slower: shared cores, or a lower clock",
		 "Other machines or programs had the other hyperthreads of its cores, or "
		 "the clock was held down: ask for whole cores, or move the job."},
	[CAUSE_COMPILATION] =
		{"code was compiled while the job waited",
		 "Let it meet all its shapes before it counts (warm up), pad to a few of them, and "
		 "keep what was compiled (TORCHINDUCTOR_CACHE_DIR, jax_compilation_cache_dir)."},
	[CAUSE_INTERRUPTS] = {"interrupts took the job's CPUs",
			      "Move the interrupts (irqbalance, /proc/irq/N/smp_affinity) or the "
			      "job to other CPUs."},
	[CAUSE_MEMORY_RECLAIM] = {"memory was short: pages were taken back and read again",
				  "Raise the memory limit, use less of it, or end what else fills "
				  "the host's memory."},
	[CAUSE_MEM_BANDWIDTH] = {"all code ran more slowly: memory bandwidth, a shared core or a "
				 "lower clock",
				 "See what else ran on the host's cores and memory at that time."},
	[CAUSE_DISK] = {"the disk was slow",
			"See who else uses the disk; keep what is read often in memory or on a "
			"local disk."},
	[CAUSE_DATA_LOADER] = {"slow data loading",
			       "Start more loader workers, or make what they do cheaper; keep data "
			       "on a faster disk."},
	[CAUSE_CHECKPOINT] = {"a checkpoint was written while the job waited",
			      "Write checkpoints less often, or beside the training "
			      "(torch.distributed.checkpoint.async_save)."},
	[CAUSE_PYTHON_GC] = {"Python's garbage collection",
			     "Call gc.freeze() after start-up, collect at chosen times "
			     "(gc.disable(), gc.collect()), or make fewer cyclic objects."},
	[CAUSE_PYTHON_GIL] = {"another thread held Python's interpreter lock",
			      "Move that thread's work to a process of its own, or let it release "
			      "the lock."},
	[CAUSE_LOCK] = {"a lock was held by another thread",
			"See in 'eacgm report' who held it, and make that shorter."},
	[CAUSE_SLOW_CODE] = {"the job's own code became slower",
			     "Look at that line: it ran longer than it usually does."},
	[CAUSE_LAUNCH_BOUND] = {"many more small operations",
				"Put them together: torch.compile, CUDA graphs, or fewer and "
				"larger operations."},
	[CAUSE_EXCESS_SYNC] = {"the job waited for the GPU more often",
			       "Read values (.item(), .cpu(), print of a tensor) less often, or "
			       "after several steps together."},
	[CAUSE_ALLOC_CHURN] = {"memory was taken and given back again and again",
			       "Keep buffers and use them again; do not empty caches within the "
			       "loop; use sizes that repeat."},
	[CAUSE_PCIE] = {"copies between host and GPU took longer",
			"See who else uses the link; pin memory, and copy beside the computation."},
	[CAUSE_GPU_ERROR] =
		{"the GPU reported an error",
		 "See NVIDIA's list of Xid errors and the kernel's log; drain the GPU if "
		 "it comes again."},
	[CAUSE_GPU_CONTENTION] = {"GPU contention",
				  "Give the job a GPU or an instance (MIG) of its own."},
	[CAUSE_GPU_CLOCK] = {"the GPU's clock was held down",
			     "See why in 'eacgm report' (power, temperature), and cool or power "
			     "the GPU, or lift the limit."},
	[CAUSE_GPU_SLOW] = {"the GPU took longer",
			    "Look at the kernels that took longer; if none is new, compare the GPU "
			    "with its neighbours."},
	[CAUSE_NETWORK] =
		{"the network, or who sends, was slow",
		 "See who is at the other end: how far it is, and whether it is late itself."},
	[CAUSE_NET_BANDWIDTH] = {"the network was full, or limited",
				 "See what limits the link (its speed, a quota, a shaper), or send "
				 "less: compress, accumulate gradients."},
	[CAUSE_NET_LOSS] = {"the network lost packets, which were sent again",
			    "Look at the link's errors and drops (cables, switches, queues that "
			    "are too short), also at the other end."},
	[CAUSE_NET_FOREIGN] = {"others used the network beside the job",
			       "Move or limit what else sends on that interface, or give the job a "
			       "network of its own."},
	[CAUSE_HANG] = {"a rank did not come to a collective that others wait in",
			"See what that process does instead: 'eacgm report' has its last stack."},
	[CAUSE_STRAGGLER] = {"other ranks were late, or the network between them slow",
			     "Mend what holds the late rank back. Where none is named, merge the "
			     "ranks' recordings (eacgm merge): the report names the one that came "
			     "last."},
	[CAUSE_STOPPED] = {"the job was stopped",
			   "See why SIGSTOP was sent to it, or a debugger held it."},
	[CAUSE_SLOW_CALL] = {"a call became slower",
			     "Look at what that function is given (shapes, types, layout, threads) "
			     "and at what its library does: it is called as often as usual, and "
			     "each call takes longer."},
	[CAUSE_NUMA] = {"all code ran more slowly, with memory of another NUMA node",
			"Keep the job and its memory on one node: numactl --cpunodebind=N "
			"--membind=N, of a job with a GPU the node that the GPU is on."},
	[CAUSE_OTHER_WORK] = {"other work than usual, perhaps on purpose",
			      "Nothing, if this phase is meant: learn from a recording that has it "
			      "as well."},
};

const char *cause_title(enum cause c)
{
	return texts[c < CAUSE_COUNT ? c : CAUSE_UNKNOWN].title;
}

const char *cause_advice(enum cause c)
{
	return texts[c < CAUSE_COUNT ? c : CAUSE_UNKNOWN].advice;
}

const char *cause_found_advice(const struct cause_found *f)
{
	bool why = f->culprit.kind == CULPRIT_RANK && f->why != CAUSE_UNKNOWN;
	return cause_advice(why ? f->why : f->cause);
}

/* ---- owners ---- */

static const char *text_of(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

void blame_frame_words(struct buf *b, const struct rec_tables *t, uint32_t frame)
{
	if (frame == BLAME_NO_FRAME)
		return;
	const struct m_frame *f = &t->frames.data[frame];
	const char *name = text_of(t, f->name);
	if (f->kind == FRAME_PYTHON)
		buf_printf(b, "%s (%s:%u)", name, path_file_name(text_of(t, f->file)), f->line);
	else
		buf_printf(b, "%s", name[0] ? name : path_file_name(text_of(t, f->library)));
}

static const char *kind_words(uint8_t kind)
{
	static const char *const words[BLAME_KINDS] = {
		[BLAME_RUNS] = "ran",
		[BLAME_SPREAD] = "ran all its code more slowly (no line stands out)",
		[BLAME_COLLECTS] = "collected garbage",
		[BLAME_COMPILES] = "compiled code",
		[BLAME_SAVES] = "wrote a checkpoint",
		[BLAME_FAULTS] = "got pages of memory from the kernel",
		[BLAME_FILLS] = "read files into memory",
		[BLAME_INTERRUPTED] = "was interrupted",
		[BLAME_RECLAIMS] = "had to find free memory first",
		[BLAME_NO_CPU] = "could run, but got no CPU",
		[BLAME_GPU_WORKS] = "waited for the GPU, which worked",
		[BLAME_RANKS] = "waited for the GPU, which waited for other ranks",
		[BLAME_GPU_IDLE] = "waited for the GPU, which had nothing to do yet",
		[BLAME_GPU] = "waited for the GPU",
		[BLAME_LOCK] = "waited for a lock",
		[BLAME_GIL] = "waited for Python's interpreter lock",
		[BLAME_DISK] = "waited for the disk",
		[BLAME_WRITE] = "waited for the disk to write",
		[BLAME_NETWORK] = "waited for the network",
		[BLAME_PIPE] = "waited for a pipe",
		[BLAME_POLL] = "waited for events",
		[BLAME_SLEEP] = "slept",
		[BLAME_CHILD] = "waited for a child process",
		[BLAME_MEMORY] = "waited for pages to be read",
		[BLAME_STOPPED] = "was stopped",
		[BLAME_SIGNAL] = "waited for a signal",
		[BLAME_HELD] = "was held by eacgm",
		[BLAME_OTHER] = "waited for something else",
	};
	return kind < BLAME_KINDS && words[kind] ? words[kind] : "";
}

/* "rank 1 (4242)" */
static void rank_words(struct buf *b, int32_t rank, uint32_t pid, const char *command)
{
	if (rank >= 0)
		buf_printf(b, "rank %d (%u)", rank, pid);
	else
		buf_printf(b, "%s (%u)", command, pid);
}

static void peer_words(struct buf *b, const struct rec_tables *t, uint32_t peer)
{
	const struct m_thread *th = &t->threads.data[peer - 1];
	rank_words(b, blame_rank_of(t, th->pid), th->pid, text_of(t, th->comm));
	buf_printf(b, " ");
}

void blame_owner_words(struct buf *b, const struct rec_tables *t, const struct blame_owner *o)
{
	if (o->peer)
		peer_words(b, t, o->peer);
	static const char *const vias[BLAME_VIAS] = {
		"", "waited for", "waited for Python's lock:", "waited for data of"};
	if (o->via != VIA_ITSELF) {
		const struct m_thread *th =
			o->thread == UINT32_MAX ? NULL : &t->threads.data[o->thread];
		buf_printf(b, "%s ", vias[o->via < BLAME_VIAS ? o->via : 0]);
		if (th)
			buf_printf(b, "%s (%u)%s, which ", text_of(t, th->comm), th->tid,
				   o->pool ? " and threads of its name" : "");
		else
			buf_printf(b, "a thread, which ");
	}
	if (o->kind == BLAME_RIVAL || o->kind == BLAME_SIBLING)
		buf_printf(b, "could run, but %s (%u)%s had the CPU", text_of(t, o->name), o->pid,
			   o->kind == BLAME_SIBLING ? ", of the job itself," : "");
	else
		buf_printf(b, "%s", kind_words(o->kind));
	if (o->kind == BLAME_STOPPED && o->pid)
		buf_printf(b, " by %s (%u)", text_of(t, o->name), o->pid);
	if (o->frame != BLAME_NO_FRAME && o->kind != BLAME_SAVES) {
		buf_printf(b, o->kind == BLAME_RUNS ? " " : " in ");
		blame_frame_words(b, t, o->frame);
	}
}

/* ---- evidence ---- */

static void add_text(struct cause_found *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add_text(struct cause_found *f, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	if (f->evidence_len == CAUSE_TEXTS)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		f->evidence[f->evidence_len++] = text;
}

static void calls_words(struct cause_found *f, const struct evidence *e)
{
	const struct call_growth *top = NULL;
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (e->t->probes.data[c->probe].name_arg >= 0) /* many functions */
			continue;
		if (c->ns - c->usual_ns > (top ? top->ns - top->usual_ns : 0) &&
		    c->n > 1.1 * c->usual_n)
			top = c;
	}
	if (!top || top->ns - top->usual_ns < SMALL_SHARE * evidence_excess(e))
		return;
	char more[HUMAN_BYTES];
	const char *name = text_of(e->t, e->t->probes.data[top->probe].name);
	human_ns(more, (uint64_t)(top->ns - top->usual_ns));
	if (top->usual_n < 1)
		add_text(f, "%.0f calls of %s, of which there are none usually: %s", top->n, name,
			 more);
	else
		add_text(f, "%.3g times as many calls of %s as usual: %s more in them",
			 top->n / top->usual_n, name, more);
}

/* Of the function that is named: its calls, whole. */
static void slower_words(struct cause_found *f, const struct evidence *e)
{
	char now[HUMAN_BYTES], usual[HUMAN_BYTES];
	for (size_t i = 0; i < e->calls.len; i++) {
		const struct call_growth *c = &e->calls.data[i];
		if (e->t->probes.data[c->probe].name != f->culprit.name || c->outer_n < 1 ||
		    c->usual_outer_n <= 0 || !(c->own_ns > c->usual_own_ns))
			continue;
		add_text(f, "a call of %s took %s by itself, usually %s",
			 text_of(e->t, f->culprit.name),
			 human_ns(now, (uint64_t)(c->own_ns / c->outer_n)),
			 human_ns(usual, (uint64_t)(c->usual_own_ns / c->usual_outer_n)));
	}
}

static void change_words(struct cause_found *f, const struct counter_change *c, const char *what,
			 double factor, const char *unit)
{
	if (isnan(c->usual))
		add_text(f, "%s: %.3g%s", what, factor * c->mean, unit);
	else
		add_text(f, "%s: %.3g%s, usually %.3g%s", what, factor * c->mean, unit,
			 factor * c->usual, unit);
}

/* Where it has grown: what is as usual, or less, is no evidence. */
static void counter_words(struct cause_found *f, const struct evidence *e, unsigned kind,
			  const char *name, const char *what, double factor, const char *unit)
{
	const struct counter_change *c = evidence_counter(e, kind, name);
	if (c && (isnan(c->usual) || c->mean > GREW * c->usual))
		change_words(f, c, what, factor, unit);
}

/* Of a counter that goes on as it is: of the stretch, or of those before. */
static double steady(const struct counter_change *c)
{
	return isnan(c->mean) ? c->usual : c->mean;
}

static const struct counter_change *of_gpu(const struct evidence *e, uint32_t gpu, uint32_t pid,
					   const char *name)
{
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind == ENTITY_GPU && m->gpu == gpu && m->pid == pid &&
		    evidence_is_its_host(e, m) && !isnan(steady(c)) &&
		    !strcmp(text_of(e->t, m->name), name))
			return c;
	}
	return NULL;
}

/* Of each GPU that the process is on: where to be bound to, and how far from there it ran. */
static void node_words(struct cause_found *f, const struct evidence *e)
{
	for (size_t i = 0; i < e->counters.len; i++) {
		const struct counter_change *c = &e->counters.data[i];
		const struct m_metric *m = &e->t->metrics.data[c->metric];
		if (m->kind != ENTITY_GPU || m->pid != e->pid || !evidence_is_its_host(e, m) ||
		    strcmp(text_of(e->t, m->name), "numa_distance") != 0 || isnan(steady(c)))
			continue;
		const struct counter_change *node = of_gpu(e, m->gpu, 0, "numa_node");
		if (!node)
			continue;
		add_text(f,
			 "gpu %u is on node %.0f (numactl --cpunodebind=%.0f --membind=%.0f); the "
			 "main thread ran at distance %.3g from it, where %d is the same node",
			 m->gpu, steady(node), steady(node), steady(node), steady(c), SAME_NODE);
		return;
	}
}

static void clock_words(struct cause_found *f, const struct evidence *e)
{
	const struct counter_change *c = evidence_counter(e, ENTITY_GPU, "sm_clock_mhz");
	if (c && (isnan(c->usual) || c->mean < c->usual))
		change_words(f, c, "its clock", 1, " MHz");
}

static void ready_words(struct cause_found *f, const struct evidence *e)
{
	const struct blame *b = &e->blame;
	double whole_ns = 0, usual_ns = 0;
	for (size_t i = 0; i < b->parts.len; i++) {
		const struct blame_part *p = &b->parts.data[i];
		if (p->owner.peer ||
		    (p->owner.kind != BLAME_RIVAL && p->owner.kind != BLAME_SIBLING &&
		     p->owner.kind != BLAME_NO_CPU))
			continue;
		whole_ns += p->whole_ns;
		usual_ns += p->usual_ns;
	}
	if (b->whole_ns > 0 && b->usual_ns > 0)
		add_text(f, "it could run but had no CPU for %.0f %% of its time, usually %.0f %%",
			 fmin(100, 100 * whole_ns / b->whole_ns),
			 fmin(100, 100 * usual_ns / b->usual_ns));
}

/* How busy the host was, where that was more than usual. */
static void busy_words(struct cause_found *f, const struct evidence *e)
{
	const struct counter_change *c = evidence_counter(e, ENTITY_HOST, "cpu_ratio");
	if (c && (isnan(c->usual) || c->mean > c->usual + 0.02))
		counter_words(f, e, ENTITY_HOST, "cpu_ratio", "the host's CPUs were busy for", 100,
			      " %");
}

static int by_stall(const void *a, const void *b)
{
	const struct stall_growth *x = a, *y = b;
	double dx = x->ns - x->usual_ns, dy = y->ns - y->usual_ns;
	return dx > dy ? -1 : dx < dy;
}

static void interrupt_words(struct cause_found *f, const struct evidence *e)
{
	struct stall_growth *sorted = xcalloc(e->stalls.len + 1, sizeof(*sorted));
	for (size_t i = 0; i < e->stalls.len; i++)
		sorted[i] = e->stalls.data[i];
	qsort(sorted, e->stalls.len, sizeof(*sorted), by_stall);
	for (size_t i = 0; i < e->stalls.len; i++) {
		const struct stall_growth *s = &sorted[i];
		char ns[HUMAN_BYTES], usual[HUMAN_BYTES];
		double least = fmax(1e6, SMALL_SHARE * evidence_excess(e));
		if (s->kind <= STALL_SOFTIRQ && s->ns - s->usual_ns > least)
			add_text(f, "%s %s took %s of its threads' time, usually %s",
				 s->kind == STALL_SOFTIRQ ? "softirq" : "interrupt",
				 text_of(e->t, s->name), human_ns(ns, (uint64_t)s->ns),
				 human_ns(usual, (uint64_t)s->usual_ns));
	}
	free(sorted);
}

static int by_disk_growth(const void *a, const void *b)
{
	const struct disk_growth *x = a, *y = b;
	double dx = x->bytes - x->usual_bytes, dy = y->bytes - y->usual_bytes;
	return dx > dy ? -1 : dx < dy;
}

/* A damaged file's values may be any. */
static uint64_t whole_bytes(double bytes)
{
	return bytes > 0 ? (uint64_t)fmin(bytes, 1e18) : 0;
}

static void disk_words(struct cause_found *f, const struct evidence *e)
{
	char bytes[HUMAN_BYTES], usual[HUMAN_BYTES];
	struct disk_growth *sorted = xcalloc(e->disks.len + 1, sizeof(*sorted));
	for (size_t i = 0; i < e->disks.len; i++)
		sorted[i] = e->disks.data[i];
	qsort(sorted, e->disks.len, sizeof(*sorted), by_disk_growth);
	for (size_t i = 0; i < e->disks.len; i++) {
		const struct disk_growth *d = &sorted[i];
		if (d->bytes - d->usual_bytes > 1e6)
			add_text(f, "%s (%u) moved %s on %s, usually %s", text_of(e->t, d->comm),
				 d->pid, human_bytes(bytes, whole_bytes(d->bytes)),
				 text_of(e->t, d->disk),
				 human_bytes(usual, whole_bytes(d->usual_bytes)));
	}
	free(sorted);
}

static void net_words(struct cause_found *f, const struct evidence *e)
{
	struct net_rate sent = evidence_net_rate(e, "net_sent_bytes");
	struct net_rate again = evidence_net_rate(e, "net_retransmits");
	struct net_rate timeouts = evidence_net_rate(e, "net_timeouts");
	char now[HUMAN_BYTES], usual[HUMAN_BYTES];
	uint32_t name;
	double foreign = evidence_foreign_net(e, &name);
	if (f->cause == CAUSE_NET_FOREIGN)
		add_text(f, "others moved %s a second more than usual on %.*s",
			 human_bytes(now, whole_bytes(foreign)),
			 (int)cause_interface_length(text_of(e->t, name)), text_of(e->t, name));
	if (sent.now > 0 || sent.usual > 0)
		add_text(f, "the job sent %s a second, usually %s",
			 human_bytes(now, whole_bytes(sent.now)),
			 human_bytes(usual, whole_bytes(sent.usual)));
	counter_words(f, e, ENTITY_PROCESS, "net_round_trip_ns", "round trips of its packets", 1e-6,
		      " ms");
	if (again.now > 0 || again.usual > 0)
		add_text(f, "it sent %.3g segments a second again, usually %.3g", again.now,
			 again.usual);
	if (timeouts.now > 0)
		add_text(f, "%.3g timeouts of retransmission a second, usually %.3g", timeouts.now,
			 timeouts.usual);
}

static void event_words(struct cause_found *f, const struct evidence *e, const char *name)
{
	const struct m_event *row = evidence_event(e, name);
	if (row)
		add_text(f, "%s: %s", text_of(e->t, row->entity), text_of(e->t, row->text));
}

/* What else than the blame itself speaks for it. */
static void evidence_words(struct cause_found *f, const struct evidence *e)
{
	switch (f->cause) {
	case CAUSE_CPU_THROTTLE:
		counter_words(f, e, ENTITY_CGROUP, "throttled_ratio",
			      "CPUs that its quota held back at a time", 1, "");
		break;
	case CAUSE_CPU_CONTENTION:
		ready_words(f, e);
		busy_words(f, e);
		break;
	case CAUSE_CPU_STOLEN:
		counter_words(f, e, ENTITY_HOST, "cpu_steal_ratio", "time stolen by the hypervisor",
			      100, " %");
		break;
	case CAUSE_CPU_SLOW:
		counter_words(f, e, ENTITY_PROCESS, "fixed_work_ns",
			      "the same instructions took on its CPUs", 1, " ns");
		break;
	case CAUSE_GPU_CLOCK:
		clock_words(f, e);
		break;
	case CAUSE_GPU_CONTENTION:
		counter_words(f, e, ENTITY_GPU, "other_processes", "other processes on the GPU", 1,
			      "");
		break;
	case CAUSE_GPU_ERROR:
		event_words(f, e, "xid");
		event_words(f, e, "ecc_double_bit");
		event_words(f, e, "poison_fatal");
		event_words(f, e, "gpu_unavailable");
		break;
	case CAUSE_HANG:
		event_words(f, e, "collective_hang");
		break;
	case CAUSE_LAUNCH_BOUND:
	case CAUSE_EXCESS_SYNC:
	case CAUSE_ALLOC_CHURN:
	case CAUSE_SLOW_CODE:
	case CAUSE_CHECKPOINT:
		calls_words(f, e);
		break;
	case CAUSE_PCIE:
		counter_words(f, e, ENTITY_GPU, "pcie_rx_bytes_per_s", "its link brought the GPU",
			      1e-9, " GB/s");
		counter_words(f, e, ENTITY_GPU, "pcie_tx_bytes_per_s", "its link took from the GPU",
			      1e-9, " GB/s");
		calls_words(f, e);
		if (e->copied_ns > 0 && e->usual_copied_ns > 0)
			add_text(f, "its copies went at %.3g GB/s, usually %.3g GB/s",
				 e->copied_bytes / e->copied_ns,
				 e->usual_copied_bytes / e->usual_copied_ns);
		break;
	case CAUSE_SLOW_CALL:
		slower_words(f, e);
		break;
	case CAUSE_INTERRUPTS:
		interrupt_words(f, e);
		counter_words(f, e, ENTITY_HOST, "cpu_softirq_ratio",
			      "the host's CPUs were in softirqs for", 100, " %");
		break;
	case CAUSE_DISK:
		disk_words(f, e);
		break;
	case CAUSE_NETWORK:
	case CAUSE_NET_BANDWIDTH:
	case CAUSE_NET_LOSS:
	case CAUSE_NET_FOREIGN:
		net_words(f, e);
		break;
	case CAUSE_NUMA:
		node_words(f, e);
		counter_words(f, e, ENTITY_HOST, "numa_other_pages_per_s",
			      "pages taken from another node than asked from", 1, " a second");
		counter_words(f, e, ENTITY_HOST, "numa_hint_faults_per_s",
			      "faults to know which node uses a page", 1, " a second");
		counter_words(f, e, ENTITY_HOST, "numa_migrated_pages_per_s",
			      "pages moved between nodes", 1, " a second");
		break;
	case CAUSE_MEM_BANDWIDTH:
		busy_words(f, e);
		counter_words(f, e, ENTITY_HOST, "cpu_steal_ratio", "time stolen by the hypervisor",
			      100, " %");
		break;
	case CAUSE_MEMORY_RECLAIM:
		counter_words(f, e, ENTITY_PROCESS, "major_faults_per_s",
			      "faults that read from a disk", 1, " a second");
		break;
	default:
		break;
	}
	if (e->handed_ns > 0 && f->cause >= CAUSE_PCIE && f->cause <= CAUSE_GPU_SLOW)
		add_text(f,
			 "calls that hand it work took %.3g us in the mean, usually %.3g: its "
			 "queue was full",
			 e->handed_ns / 1e3, e->usual_handed_ns / 1e3);
	if (e->usual_kernels_n >= 1 && e->kernels_n >= 1 && f->cause >= CAUSE_PCIE &&
	    f->cause <= CAUSE_GPU_SLOW)
		add_text(f, "a kernel took %.3g us on average, usually %.3g us",
			 e->kernels_ns / e->kernels_n / 1e3,
			 e->usual_kernels_ns / e->usual_kernels_n / 1e3);
}

void cause_words(struct cause_found *f, const struct evidence *e)
{
	evidence_words(f, e);
	if (f->runner_up != CAUSE_UNKNOWN) {
		char ns[HUMAN_BYTES];
		human_ns(ns, (uint64_t)f->runner_up_ns);
		f->against =
			xasprintf(f->runner_up_ns < f->explained_ns
					  ? "it explains less, %s"
					  : "it explains %s, but is there beside anything else",
				  ns);
	}
}

void cause_words_withdrawn(struct cause_found *f, double found_ns, double lost_ns)
{
	char found[HUMAN_BYTES], lost[HUMAN_BYTES];
	human_ns(found, (uint64_t)found_ns);
	human_ns(lost, (uint64_t)lost_ns);
	add_text(f,
		 "%s slower than it was learned, but %s slower than just before: where its work "
		 "has changed, learn it again",
		 lost, found);
	if (f->runner_up != CAUSE_UNKNOWN)
		f->against = xasprintf("it explains %s of %s", found, lost);
}

/* ---- culprits ---- */

size_t cause_interface_length(const char *label)
{
	const char *of = strstr(label, " of pid ");
	return of ? (size_t)(of - label) : strlen(label);
}

const char *culprit_cgroup(const struct rec_tables *t, const struct culprit *c)
{
	bool by_metric = c->kind == CULPRIT_CGROUP && c->metric != UINT32_MAX;
	return strtab_get(&t->strings, by_metric ? t->metrics.data[c->metric].label : c->cgroup,
			  NULL);
}

/* " by stress (4242)" */
static void culprit_words(struct buf *b, const struct rec_tables *t, const struct culprit *c)
{
	const char *name = strtab_get(&t->strings, c->name, NULL);
	switch (c->kind) {
	case CULPRIT_PROCESS:
		if (*name)
			buf_printf(b, " by %s%s (%u)", c->leads ? "processes of " : "", name,
				   c->pid);
		else
			buf_printf(b, " by process %u", c->pid);
		break;
	case CULPRIT_LINE:
		buf_printf(b, " in ");
		blame_frame_words(b, t, c->frame);
		break;
	case CULPRIT_CALL:
		buf_printf(b, ": %s", name);
		if (c->frame != BLAME_NO_FRAME) {
			buf_printf(b, ", at ");
			blame_frame_words(b, t, c->frame);
		}
		break;
	case CULPRIT_CGROUP:
		if (*culprit_cgroup(t, c))
			buf_printf(b, "%s cgroup %s",
				   c->metric != UINT32_MAX ? ":" : " by processes of",
				   culprit_cgroup(t, c));
		break;
	case CULPRIT_GPU:
		if (c->metric != UINT32_MAX)
			buf_printf(b, ": GPU %u", t->metrics.data[c->metric].gpu);
		break;
	case CULPRIT_INTERFACE:
		buf_printf(b, ": %.*s", (int)cause_interface_length(text_of(t, c->device)),
			   text_of(t, c->device));
		break;
	case CULPRIT_INTERRUPT:
		buf_printf(b, ": %s", strtab_get(&t->strings, c->device, NULL));
		if (c->pid)
			buf_printf(b, ", packets of %s (%u)", name, c->pid);
		break;
	case CULPRIT_DISK:
		buf_printf(b, ": %s", strtab_get(&t->strings, c->device, NULL));
		if (c->pid)
			buf_printf(b, ", used by %s (%u)", name, c->pid);
		break;
	default:
		break;
	}
}

void cause_headline(struct buf *b, const struct rec_tables *t, const struct cause_found *f)
{
	const struct culprit *c = &f->culprit;
	if (c->kind == CULPRIT_RANK) {
		buf_printf(b, f->cause == CAUSE_HANG ? "hang: " : "straggler: ");
		rank_words(b, c->rank, c->pid, text_of(t, c->name));
		if (f->why == CAUSE_UNKNOWN)
			return;
		buf_printf(b, ", %s", cause_title(f->why));
		culprit_words(b, t, &f->why_culprit);
		return;
	}
	buf_printf(b, "%s", cause_title(f->cause));
	culprit_words(b, t, &f->culprit);
}
