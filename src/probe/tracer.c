/* tracer.c - loads the BPF object, sets targets, tears down.
 * Files are in scan.c, what goes on and off meanwhile in switching.c, rings and maps that are read
 * in drain.c. */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "parser/parser.h"
#include "probe/definers.h"
#include "probe/inside_write.h"
#include "probe/load_programs.h"
#include "probe/refusal.h"
#include "probe/sampling.h"
#include "probe/tracer_impl.h"
#include "probe/unwind_facts.h"

#define BPF_UPROBE_MULTI      48
#define BPF_UPROBE_SESSION    57
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCU /* PROC_PID_INIT_INO, include/linux/proc_ns.h */
#define FIRST_SEGMENTS	      8
#define WAIT_MIN_NS	      20000  /* shorter waits are put together */
#define WAIT_ROW_NS	      200000 /* shorter ones are only counted */
#define STALL_ROW_NS	      50000  /* likewise */
#define SWEEP_NS	      1000000000ULL

/* ---- loading ---- */

static void set_role(struct bpf_program *p, bool load, int attach_type)
{
	bpf_program__set_autoload(p, load);
	if (load && attach_type)
		bpf_program__set_expected_attach_type(p, (enum bpf_attach_type)attach_type);
}

static void choose_programs(struct tracer *t, bool can_hold)
{
	struct eacgm_bpf *b = t->bpf;
	bool session = t->method == ATTACH_SESSION;
	bool inside = t->opts.inside || t->opts.loads_inside;
	int multi = t->method == ATTACH_SINGLE ? 0 : BPF_UPROBE_MULTI;
	set_role(b->progs.span_session, session, BPF_UPROBE_SESSION);
	set_role(b->progs.empty_session, session && t->opts.with_empty, BPF_UPROBE_SESSION);
	set_role(b->progs.span_enter, !session, multi);
	set_role(b->progs.span_leave, !session, multi);
	set_role(b->progs.moment, true, multi);
	set_role(b->progs.inside_stack, inside && t->opts.stacks, multi);
	set_role(b->progs.inside_text, inside, multi);
	set_role(b->progs.pair_begin, true, multi);
	set_role(b->progs.pair_end, true, multi);
	set_role(b->progs.unwind_begins, can_hold, multi);
	set_role(b->progs.unwind_ends, can_hold, multi);
	set_role(b->progs.maps_changed, can_hold, multi);
	set_role(b->progs.driver_entered, can_hold, multi);
	set_role(b->progs.graph_called, can_hold, multi);
	set_role(b->progs.name_kernel_address, can_hold, 0); /* 5.14; these kernels are newer */
	set_role(b->progs.keep_yield_target, b->rodata->yields_on_guard, 0);
	set_role(b->progs.on_cpu_clock, t->opts.sample_hz, 0);
	set_role(b->progs.on_switch, t->opts.waits || t->opts.counts_waits, 0);
	set_role(b->progs.on_waking, t->opts.waits || t->opts.counts_waits, 0);
	set_role(b->progs.on_signal, t->opts.counts_waits, 0);
	set_role(b->progs.find_waits, t->opts.counts_waits, 0);
	set_role(b->progs.open_wait_sums, t->opts.counts_waits, 0);
	set_role(b->progs.open_waits, t->opts.waits, 0);
	sockets_choose(t);
	stalls_choose(t);
	disk_io_choose(t);
	shedding_choose(t);
	if (t->opts.stacks_seen)
		bpf_map__set_max_entries(b->maps.stacks_seen, t->opts.stacks_seen);
}

static bool takes_stacks(const struct tracer *t)
{
	return t->opts.stacks || t->opts.sample_hz || t->opts.waits;
}

#define PLACES_BYTES (8u << 20) /* of all CPUs, that are possible */
#define PLACE_BYTES  96		/* struct found_place of bpf/stack_tables.h, rounded up */
#define PLACES_LEAST 6		/* bits of their number */

/* Each CPU remembers places in code, all CPUs together no more than that many bytes. */
static void choose_places(struct tracer *t)
{
	struct eacgm_bpf *b = t->bpf;
	uint32_t bits = takes_stacks(t) ? b->rodata->places_bits : 0;
	int cpus = libbpf_num_possible_cpus();
	while (bits > PLACES_LEAST &&
	       (uint64_t)PLACE_BYTES * (uint64_t)(cpus > 0 ? cpus : 1) << bits > PLACES_BYTES)
		bits--;
	b->rodata->places_bits = bits;
	bpf_map__set_max_entries(b->maps.places_found, 1u << bits);
}

static void set_configuration(struct tracer *t)
{
	struct eacgm_bpf *b = t->bpf;
	b->rodata->target_all = t->opts.all;
	b->rodata->target_cgroup = t->opts.cgroup_id;
	b->rodata->target_cgroup_level = t->opts.cgroup_level;
	b->rodata->own_tgid = (uint32_t)getpid();
	b->rodata->patience = t->opts.patience ? t->opts.patience : 1;
	b->rodata->wakes_reader = t->opts.wakes_reader;
	b->rodata->stacks_of_jobs = t->opts.jobs_alone && takes_stacks(t);
	b->rodata->tells_inside = t->opts.inside != NULL;
	b->rodata->leaves_layers = t->opts.leaves_out;
	t->opened_ns = monotonic_ns();
	b->rodata->granted_most_ns = holds_granted_ns(t);
	b->rodata->takes_stacks = t->opts.stacks;
	choose_places(t);
	b->rodata->stops_at_samples = t->opts.stops_at_samples;
	b->rodata->sample_period_ns = t->opts.sample_hz ? 1000000000ULL / t->opts.sample_hz : 0;
	b->rodata->ticks_a_sample = sampling_ticks(t->opts.sample_hz);
	b->rodata->wait_min_ns = WAIT_MIN_NS;
	b->rodata->wait_row_ns = WAIT_ROW_NS;
	b->rodata->profiles_waits = t->opts.waits;
	b->rodata->counts_waits = t->opts.counts_waits;
	b->rodata->counts_stalls = t->opts.counts_stalls;
	b->rodata->stall_row_ns = STALL_ROW_NS;
	for (int i = 0; i < LAYERS_MAX; i++)
		b->bss->mode_of_layer[i] = t->opts.mode[i];
}

/* Keeps libbpf's own messages away from the user: the last one goes into an error, and which
 * program the verifier refused. */
static _Thread_local char last_libbpf_message[256];
static _Thread_local struct refusal last_refusal;
static int keep_message(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char *message = NULL; /* a verifier's log is long */
	if (level != LIBBPF_WARN || vasprintf(&message, fmt, ap) < 0)
		return 0;
	snprintf(last_libbpf_message, sizeof(last_libbpf_message), "%s", message);
	refusal_read(&last_refusal, message);
	free(message);
	return 0;
}

const struct refusal *tracer_refusal(void)
{
	return last_refusal.program[0] ? &last_refusal : NULL;
}

/* Where the kernel is waited for, and nobody needs it before programs run. */
static void *prepare_maps(void *ctx)
{
	struct tracer *t = ctx;
	t->rings_failed = rings_make(t, &t->rings_error);
	unwind_pool_init(&t->pool, bpf_map__fd(t->bpf->maps.unwind_pool));
	t->pool.spares = t->opts.jobs_alone;
	if (takes_stacks(t))
		unwind_pool_reserve(&t->pool, t->pool.spares ? 1 : FIRST_SEGMENTS);
	return NULL;
}

static void unload(struct tracer *t)
{
	rings_close(t);
	unwind_pool_free(&t->pool);
	eacgm_bpf__destroy(t->bpf);
	t->bpf = NULL;
}

/* at_once: quickly; else it is known why a program was refused. */
static int try_load(struct tracer *t, bool can_hold, bool walks_mappings, bool at_once)
{
	const struct beside_programs beside = {prepare_maps, t};
	last_refusal = (struct refusal){0};
	last_libbpf_message[0] = 0;
	DECLARE_LIBBPF_OPTS(bpf_object_open_opts, open_opts, .btf_custom_path = t->opts.btf_path);
	t->bpf = eacgm_bpf__open_opts(&open_opts);
	if (!t->bpf)
		return -errno;
	t->bpf->rodata->walks_mappings = walks_mappings;
	t->bpf->rodata->yields_on_guard =
		can_hold && walks_mappings && !yield_target_prepare(t->bpf->maps.yield_target);
	choose_programs(t, can_hold);
	set_configuration(t);
	xid_prepare(t);
	int rc = load_programs(t->bpf->skeleton, at_once, &beside);
	refusal_settle(&last_refusal, rc);
	if (rc) {
		unload(t);
		return rc;
	}
	t->can_hold = can_hold;
	return 0;
}

static int explain_load_failure(int rc, const char *btf_path, struct err *e)
{
	char *newline = strchr(last_libbpf_message, '\n');
	if (newline)
		*newline = 0;
	if (tracer_refusal())
		return err_set(e, -rc,
			       "the kernel's verifier refuses the BPF program %s: %s; see 'eacgm "
			       "doctor'",
			       last_refusal.program, last_refusal.reason);
	if (rc == -EPERM || rc == -EACCES)
		return err_set(e, EPERM,
			       "loading BPF programs was refused: run as root (CAP_BPF, "
			       "CAP_PERFMON and CAP_SYS_ADMIN)");
	if (btf_path)
		return err_set(e, -rc,
			       "cannot load BPF programs with the type information (BTF) of %s: %s",
			       btf_path, strerror(-rc));
	if (rc == -ESRCH || rc == -ENOENT || rc == -EINVAL)
		return err_set(e, -rc, "cannot load BPF programs (%s); see 'eacgm doctor'",
			       last_libbpf_message[0] ? last_libbpf_message : strerror(-rc));
	return err_set(e, -rc, "cannot load BPF programs: %s; see 'eacgm doctor'", strerror(-rc));
}

/* Not since its kind is none that may sleep (kernel/bpf/verifier.c, check_attach_btf_id). */
static bool refused_for_itself(void)
{
	return tracer_refusal() && !strstr(last_refusal.reason, "can be sleepable");
}

static int choose_method(struct tracer *t, struct err *e)
{
	t->method = t->opts.method;
	if (t->method != ATTACH_AUTO)
		return attach_try_method(t->method, e);
	t->method = attach_try_methods(e);
	return t->method == ATTACH_AUTO ? -ENOTSUP : 0;
}

static int load(struct tracer *t, struct err *e)
{
	last_refusal = (struct refusal){0};
	libbpf_set_print(keep_message);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	if (geteuid() != 0)
		return err_set(e, EPERM, "tracing needs root: run with sudo");
	struct stat ns;
	if (!stat("/proc/self/ns/pid", &ns) && ns.st_ino != INITIAL_PID_NAMESPACE)
		return err_set(
			e, ENOTSUP,
			"eacgm runs in a PID namespace of its own, where it cannot tell the "
			"kernel's process ids: run it on the host, or in a container with the "
			"host's (--pid=host)");
	const char *btf = t->opts.btf_path ? t->opts.btf_path : "/sys/kernel/btf/vmlinux";
	if (access(btf, R_OK))
		return err_set(e, ENOENT,
			       "no kernel type information at %s: a kernel built with "
			       "CONFIG_DEBUG_INFO_BTF=y is needed",
			       btf);
	int rc = choose_method(t, e);
	if (rc)
		return rc;
	rc = try_load(t, true, true, true);
	if (rc && rc != -EPERM) /* before Linux 6.7; the verifier's refusal is EACCES */
		rc = try_load(t, true, false, true);
	if (!rc)
		return 0;
	bool others_load = !try_load(t, false, false, true);
	if (others_load && t->opts.without_guard)
		return 0;
	if (others_load)
		unload(t);
	rc = try_load(t, true, false, false);
	if (rc && others_load && !refused_for_itself())
		return err_set(
			e, ENOTSUP,
			"this kernel (before 6.0?) has no sleepable uprobes, so C++ exceptions "
			"could not pass traced functions and would end the job; --without-guard "
			"traces all the same");
	return rc ? explain_load_failure(rc, t->opts.btf_path, e) : 0;
}

/* ---- what is attached at once ---- */

static int attach_tasks(struct tracer *t, struct err *e)
{
	struct bpf_program *progs[] = {t->bpf->progs.on_fork, t->bpf->progs.on_exec,
				       t->bpf->progs.on_exit};
	for (size_t i = 0; i < 3; i++) {
		t->task_links[i] = bpf_program__attach(progs[i]);
		if (!t->task_links[i])
			return err_set(e, errno, "cannot follow forks and execs: %s",
				       strerror(errno));
	}
	return 0;
}

static int start_unwinder(struct tracer *t, struct err *e)
{
	struct eacgm_bpf *b = t->bpf;
	struct unwinder_maps maps = {
		.pool = &t->pool,
		.tables = bpf_map__fd(b->maps.unwind_tables),
		.processes = bpf_map__fd(b->maps.unwind_processes),
		.blocks = bpf_map__fd(b->maps.unwind_blocks),
		.py_frames = bpf_map__fd(b->maps.py_frames),
		.py_layouts = bpf_map__fd(b->maps.py_layouts),
		.inodes = bpf_map__fd(b->maps.unwind_inodes),
	};
	struct unwinder_listener listener = {.table = t->opts.events.on_table,
					     .ctx = t->opts.events.ctx};
	int rc = unwinder_start(&t->unwinder, &maps, &listener, t->parser_host, t->opts.jobs_alone,
				e);
	struct epoll_event readable = {.events = EPOLLIN};
	if (!rc)
		epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, unwinder_fd(t->unwinder), &readable);
	return rc;
}

int tracer_start_sampling(struct tracer *t, struct err *e)
{
	return sampling_start(t, e);
}

void tracer_set_stack_shift(struct tracer *t, unsigned shift)
{
	t->bpf->bss->stack_shift = shift;
}

bool tracer_stacks_settle(struct tracer *t, unsigned timeout_ms)
{
	return !t->unwinder || unwinder_settle(t->unwinder, 0, timeout_ms);
}

static int prog_fd(const struct bpf_program *p)
{
	return bpf_program__fd(p);
}

static void ask_plan(struct plan *p, const struct tracer_options *opts)
{
	p->catalog = opts->catalog;
	p->layers = opts->layers;
	p->frequent = opts->frequent;
	p->all_entries = opts->all_entries;
	p->stacks = opts->stacks;
	p->allocators = opts->allocators;
	p->callers = opts->callers;
	p->inside = opts->inside;
}

int tracer_start_readers(struct parser_host **ret, const struct tracer_options *opts, struct err *e)
{
	struct plan asked = {0};
	const struct parser_op own[PARSE_OPS] = {
		[PARSE_FACTS] = {file_facts_answer, &asked},
		[PARSE_UNWIND_FACTS] = {unwind_facts_answer, NULL},
		[PARSE_UNWIND_TABLE] = {unwind_table_answer, NULL},
		[PARSE_DEFINERS] = {definers_answer, NULL},
	};
	const struct parser_ops *others = &opts->others;
	struct parser_op *list = xcalloc(PARSE_OPS + others->n, sizeof(*list));
	ask_plan(&asked, opts);
	memcpy(list, own, sizeof(own));
	for (size_t i = 0; i < others->n; i++)
		list[PARSE_OPS + i] = others->list[i];
	int rc = parser_host_start(ret, &(struct parser_ops){list, PARSE_OPS + others->n}, e);
	free(list);
	return rc;
}

/* Where the caller has none for it, before there is anything that they must not have: BPF's
 * descriptors, other threads. */
static int take_readers(struct tracer *t, struct err *e)
{
	int rc = 0;
	if (t->epoll_fd < 0)
		return err_set(e, EMFILE, "no descriptor is left");
	t->parser_host = t->opts.readers;
	if (!t->parser_host)
		rc = tracer_start_readers(&t->parser_host, &t->opts, e);
	if (rc)
		return rc;
	t->reading = reading_new(t->parser_host, t->opts.catalog);
	t->scans = scans_new(t->epoll_fd);
	return 0;
}

int tracer_open(struct tracer **ret, const struct tracer_options *opts, struct err *e)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* kernels before 5.11 count maps against it */
	struct rlimit files;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max; /* one link per site needs many descriptors */
		setrlimit(RLIMIT_NOFILE, &files);
	}
	struct tracer *t = xcalloc(1, sizeof(*t));
	pthread_mutex_init(&t->guard_lock, NULL);
	t->opts = *opts;
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	t->rings_epoll = t->rest_end = -1;
	t->disk_reader = disk_reader_new();
	ask_plan(&t->plan, opts);
	int rc = take_readers(t, e);
	if (!rc)
		rc = load(t, e);
	if (!rc) {
		struct eacgm_bpf *b = t->bpf;
		t->programs = (struct attach_programs){
			.span_session = prog_fd(b->progs.span_session),
			.span_enter = prog_fd(b->progs.span_enter),
			.span_leave = prog_fd(b->progs.span_leave),
			.moment = prog_fd(b->progs.moment),
			.pair_begin = prog_fd(b->progs.pair_begin),
			.pair_end = prog_fd(b->progs.pair_end),
		};
		rc = t->rings_failed;
		if (rc)
			*e = t->rings_error;
	}
	if (!rc && opts->inside)
		rc = insider_open(&t->insider, opts->inside, t->opts.mode, e);
	if (!rc && opts->inside)
		rc = insider_take_texts(t->insider, t->method, prog_fd(t->bpf->progs.inside_text),
					e);
	if (!rc && opts->inside && opts->stacks)
		rc = insider_take_stacks(t->insider, t->method, prog_fd(t->bpf->progs.inside_stack),
					 e);
	if (!rc)
		rc = shedding_open(t, e);
	if (!rc && t->can_hold)
		rc = tracer_guard_start(t, e);
	if (!rc)
		rc = heart_start(t, e);
	if (!rc)
		rc = tracer_control_open(t, e);
	if (!rc)
		scans_run_early();
	if (!rc)
		rc = attach_tasks(t, e);
	if (!rc && takes_stacks(t))
		rc = start_unwinder(t, e);
	if (rc) {
		tracer_close(t);
		return rc;
	}
	*ret = t;
	return 0;
}

struct parser_service tracer_others(const struct tracer *t)
{
	return (struct parser_service){.host = t->parser_host, .first_op = PARSE_OPS};
}

/* ---- targets, modes, switching ---- */

int tracer_add_pid(struct tracer *t, pid_t pid, struct err *e)
{
	uint32_t key = (uint32_t)pid;
	uint8_t yes = TARGET_IS_TRACED;
	if (bpf_map_update_elem(bpf_map__fd(t->bpf->maps.targets), &key, &yes, BPF_ANY))
		return err_set(e, errno, "cannot trace process %d: %s", pid, strerror(errno));
	return 0;
}

void tracer_forget_pid(struct tracer *t, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	bpf_map_delete_elem(bpf_map__fd(t->bpf->maps.targets), &key);
	bpf_map_delete_elem(bpf_map__fd(t->bpf->maps.excluded), &key);
	bpf_map_delete_elem(bpf_map__fd(t->bpf->maps.callers), &key);
}

/* Entries of processes whose ends no program saw. True where one was freed. */
static bool free_ended(int fd)
{
	uint32_t key, next;
	bool more = !bpf_map_get_next_key(fd, NULL, &next), freed = false;
	while (more) {
		key = next;
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (kill((pid_t)key, 0) && errno == ESRCH)
			freed |= !bpf_map_delete_elem(fd, &key);
	}
	return freed;
}

static int put_exclusion(struct tracer *t, uint32_t key, uint64_t bits)
{
	int fd = bpf_map__fd(t->bpf->maps.excluded);
	int rc = bits ? bpf_map_update_elem(fd, &key, &bits, BPF_ANY)
		      : bpf_map_delete_elem(fd, &key);
	uint64_t now_ns = monotonic_ns();
	if (rc == -ENOENT) /* it has executed another program, or ended: a program deleted it */
		return 0;
	if (rc != -E2BIG || (t->swept_ns && now_ns - t->swept_ns < SWEEP_NS))
		return rc;
	t->swept_ns = now_ns;
	return free_ended(fd) ? bpf_map_update_elem(fd, &key, &bits, BPF_ANY) : rc;
}

int tracer_exclude(struct tracer *t, pid_t pid, uint64_t bits, uint64_t of, struct err *e)
{
	uint32_t key = (uint32_t)pid;
	uint64_t was = 0, is;
	bpf_map_lookup_elem(bpf_map__fd(t->bpf->maps.excluded), &key, &was);
	is = (was & ~of) | bits;
	int rc = is == was ? 0 : put_exclusion(t, key, is);
	if (rc == -E2BIG)
		return err_set(e, E2BIG,
			       "the table of such processes, which has room for %u, is full",
			       bpf_map__max_entries(t->bpf->maps.excluded));
	if (rc)
		return err_set(e, -rc, "the table of such processes: %s", strerror(-rc));
	if (is == was)
		return 0;
	__atomic_add_fetch(&t->bpf->bss->exclusions, 1, __ATOMIC_SEQ_CST);
	return 1;
}

int tracer_leave_out(struct tracer *t, pid_t pid, uint32_t layers, struct err *e)
{
	uint32_t key = (uint32_t)pid;
	int rc = tracer_exclude(t, pid, layers, EXCLUDED_LAYERS, e);
	if (layers == EXCLUDED_LAYERS) /* calls of before need no stacks of it any more */
		bpf_map_delete_elem(bpf_map__fd(t->bpf->maps.callers), &key);
	return rc < 0 ? rc : 0;
}

static void set_flag(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

void tracer_freeze(struct tracer *t)
{
	set_flag(&t->bpf->bss->frozen, true);
	set_flag(&t->bpf->bss->closing, true);
	if (t->insider)
		insider_tell(t);
}

bool tracer_kernel_symbol(struct tracer *t, uint64_t address, char *ret, size_t size)
{
	DECLARE_LIBBPF_OPTS(bpf_test_run_opts, run);
	int fd = bpf_program__fd(t->bpf->progs.name_kernel_address);
	t->bpf->bss->kernel_address = address;
	if (fd < 0 || bpf_prog_test_run_opts(fd, &run) || (int)run.retval < 0)
		return false;
	snprintf(ret, size, "%.*s", (int)sizeof(t->bpf->bss->kernel_symbol),
		 t->bpf->bss->kernel_symbol);
	return true;
}

void tracer_stats(const struct tracer *t, struct tracer_stats *ret)
{
	struct reading_stats reading;
	reading_stats(t->reading, &reading);
	*ret = (struct tracer_stats){
		.method = t->method,
		.can_hold = t->can_hold,
		.files = t->files.list.len,
		.attach_ns = t->attach_ns,
		.plan_ns = t->plan_ns,
	};
	if (t->unwinder)
		unwinder_stats(t->unwinder, &ret->unwinder);
	ret->sites_before = t->places_before;
	ret->files_read = reading.read + ret->unwinder.facts_read;
	ret->files_cached = reading.cached + ret->unwinder.facts_cached;
	ret->scans = t->scans_begun;
	ret->places_mapped = t->places_mapped;
	ret->files_expected = t->files_expected;
	ret->excluded = t->excluded_any;
	struct insider_stats inside;
	insider_stats(t->insider, &inside);
	ret->places_inside = inside.places;
	ret->inside_processes = inside.processes;
	ret->inside_ns = inside.ns;
	for (size_t i = 0; i < t->files.list.len; i++) {
		const struct probed_file *f = t->files.list.data[i];
		ret->files -= f->expected;
		for (size_t g = 0; !f->expected && g < f->groups.len; g++) {
			const struct site_group *sg = &f->groups.data[g];
			ret->sites += sg->sites.len;
			for (size_t s = 0; s < sg->sites.len; s++)
				ret->sites_stepped += sg->sites.data[s].cost == INSN_STEPPED;
		}
	}
}

void tracer_inside_processes(const struct tracer *t, void (*visit)(void *ctx, pid_t pid), void *ctx)
{
	if (t->insider)
		insider_processes(t->insider, visit, ctx);
}

void tracer_linger(struct tracer *t)
{
	t->linger = true;
}

void tracer_detach(struct tracer *t)
{
	if (t->method != ATTACH_SESSION)
		return;	      /* as in tracer_close */
	tracer_guard_stop(t); /* first: its shares of links would go one after another */
	files_detach(&t->files);
}

void tracer_close(struct tracer *t)
{
	if (!t)
		return;
	if (t->bpf) {
		tracer_freeze(t);
		if (t->control)
			tracer_control(t); /* whoever is held now: detaching would wait for it */
		switching_wait(t);
	}
	sampling_stop(t);
	heart_stop(t);
	unwinder_stop(t->unwinder);
	if (t->method != ATTACH_SESSION)
		t->linger = true; /* other processes that map our files have return probes too */
	expected_keep(t);
	expected_free(t->expected);
	scans_free(t->scans, &t->files);
	reading_free(t->reading);
	targets_free(&t->targets);
	disk_reader_free(t->disk_reader);
	files_free(&t->files);
	unused_free(t);
	insider_close(t->insider);
	tracer_guard_stop(t);
	if (t->xid_link)
		tracer_unwatch_xid(t);
	sockets_unwatch(t);
	for (size_t i = 0; i < 3; i++)
		bpf_link__destroy(t->task_links[i]);
	ring_buffer__free(t->rings);
	ring_buffer__free(t->control);
	shedding_close(t);
	unload(t);
	plan_free(&t->plan);
	if (t->parser_host != t->opts.readers)
		parser_host_stop(t->parser_host);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t);
}
