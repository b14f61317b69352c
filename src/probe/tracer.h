/* tracer.h - one tracing session: BPF programs loaded, targets set, files probed.
 *
 * The only user of libbpf. Not thread-safe but for tracer_drain and tracer_rest, which one other
 * thread may call, and tracer_end_rests. Everything found is told through struct tracer_events;
 * nothing is printed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/sandbox.h"
#include "parser/parser.h"
#include "probe/attach.h"
#include "probe/call_costs.h"
#include "probe/catalog.h"
#include "probe/plan.h"
#include "probe/unwinder.h"
#include "symbolize/proc_maps.h"
#include "wire/disk_io.h"
#include "wire/event.h"
#include "wire/fixed_work.h"

struct parser_host;
struct tracer;

/* Called from the control thread (the caller of tracer_control and tracer_scan_*). A
 * probe is told before any call of it can be drained. */
struct tracer_events {
	void (*on_probe)(void *ctx, const struct probe_info *info);
	/* build_ids: one per map, "" where unknown; seen_ns: when they were read, of
	 * CLOCK_REALTIME; the callee may take maps (and empty it) */
	void (*on_maps)(void *ctx, pid_t pid, proc_maps_t *maps, const char *const *build_ids,
			uint64_t seen_ns);
	void (*on_task)(void *ctx, const struct rec_task *task);
	void (*on_note)(void *ctx, const char *subject, const char *reason);
	void (*on_xid)(void *ctx, const struct rec_xid *xid);
	void (*on_socket)(void *ctx, const struct rec_socket *socket); /* closing, or closed */
	/* from a thread of its own, until tracer_close; see struct unwinder_listener */
	void (*on_table)(void *ctx, uint32_t table, const struct proc_map *m, const char *build_id,
			 int fd);
	void *ctx;
};

struct refusal;

struct tracer_options {
	const struct catalog *catalog;
	uint32_t layers;  /* bit per enum layer */
	bool frequent;	  /* also those of high cost */
	bool all_entries; /* also those that are off by default */
	enum trace_mode mode[LAYERS_MAX];
	enum attach_method method; /* ATTACH_AUTO: the best that works */
	bool all;		   /* every process is a target */
	uint64_t cgroup_id;	   /* cgroup v2, 0 = none; level as the kernel counts */
	uint32_t cgroup_level;
	uint32_t ring_bytes;  /* per CPU, 0 = by the number of CPUs */
	bool wakes_reader;    /* tracer_rest ends when a ring is half full */
	const char *btf_path; /* NULL = the running kernel's */
	int hurry_fd;	      /* readable: the beginning waits for no file any more; 0: none */
	uint32_t patience;    /* tasks are held up to so many times as long as usual; 0 = 1 */
	bool starts_targets;  /* none has begun yet: at first, what they bring may take longer */
	bool with_empty;      /* load the empty programs too (bench/) */
	bool loads_inside;    /* those of calls that are told inside of processes too, though
			       * `inside` is NULL (doctor) */
	bool without_guard;   /* go on where exceptions cannot be protected */
	bool allocators;      /* also allocators above the driver's, call by call */
	bool callers;	      /* who asks for device memory is told in every mode */
	bool stacks;	      /* calls of entries with `stack` carry theirs */
	bool jobs_alone;      /* no stacks of processes in which nothing can be probed */
	uint32_t stacks_seen; /* that are not told again; 0 = as many as the programs have room for
			       */
	uint32_t sample_hz;   /* stacks at each tick of the CPU clock, 0 = none */
	bool waits;	      /* stacks where threads stop running */
	bool counts_waits;    /* how long threads wait, and why (wire/waits.h) */
	bool counts_stalls; /* what the kernel takes of CPU time (wire/stalls.h); with counts_waits
			     */
	bool disk_io;	    /* what processes have disks do */
	bool sockets;	    /* TCP connections of targets can be asked for */
	bool stops_at_samples; /* tests/tools: a sampled process gets SIGSTOP there and then */
	bool counts_hits;      /* tracer_loads tells how often each probe is come by */
	bool leaves_out;    /* tracer_leave_out may be called: who maps what is probed is held until
			     * its exec was told, and dealt with */
	const char *inside; /* path of libeacgm_calls.so, which targets have loaded: calls are told
			     * inside of them where that can be (wire/call_ring.h); NULL: by the
			     * kernel alone */
	bool inside_running; /* targets run already: the kernel tells until tracer_inside_attach */
	struct parser_host *readers; /* tracer_start_readers; NULL: the tracer starts its own */
	struct parser_ops others;    /* of tracer_start_readers: what they are asked besides */
	struct tracer_events events;
};

/* Forks the process whose children read files without rights (src/parser), for a tracer of these
 * options. It needs root's rights itself: to be called before they are given up, while the program
 * has one thread. It is to be stopped after tracer_close. */
int tracer_start_readers(struct parser_host **ret, const struct tracer_options *opts,
			 struct err *e);

/* Loads everything; nothing is attached but forks, execs and exits. Fails with a
 * sentence that says what is missing (root, BTF, kernel feature). */
int tracer_open(struct tracer **ret, const struct tracer_options *opts, struct err *e);

/* What the kernel's verifier said of the program for which this thread's last tracer_open failed;
 * NULL: none was refused. */
const struct refusal *tracer_refusal(void);

/* Who answers opts.others, until tracer_close (where opts.readers: until those end). */
struct parser_service tracer_others(const struct tracer *t);

/* From here on Xid errors come through on_xid, where the driver has a tracepoint for them;
 * unwatch hands over those that have happened, and ends it. */
void tracer_watch_xid(struct tracer *t);
void tracer_unwatch_xid(struct tracer *t);
bool tracer_sees_xid(const struct tracer *t);

/* From here on the ends of connections are told, and who opens them (opts.sockets). Without it,
 * or where it fails, tracer_sockets still tells what is open. */
int tracer_watch_sockets(struct tracer *t, struct err *e);

/* The TCP connections that a process has, as they are now (Linux 6.1). */
int tracer_sockets(struct tracer *t, pid_t pid,
		   void (*visit)(void *ctx, const struct rec_socket *s), void *ctx, struct err *e);

/* Makes a process a target (its later children follow by themselves). */
int tracer_add_pid(struct tracer *t, pid_t pid, struct err *e);
/* Of a process that has ended: it may have been made a target, or left out, after its end, which
 * takes both back. Its number may be another process's before long: right then. */
void tracer_forget_pid(struct tracer *t, pid_t pid);

/* From here on nothing is recorded of the process's calls of these layers, a bit for each; with all
 * bits nothing of it is traced; 0: all is again. It holds for children that are forked later, and
 * until the process executes another program. With opts.leaves_out alone. Fails where there is no
 * room for one more such process: all stays as it was. */
int tracer_leave_out(struct tracer *t, pid_t pid, uint32_t layers, struct err *e);

/* Hooks the dynamic linkers of this host: whatever a target executes later is held when
 * it loads libraries, also where a static program starts it. */
void tracer_hook_loaders(struct tracer *t);

/* Hooks the dynamic linker of a file that a process is about to execute, so that what it
 * loads is probed before it runs; without one, probes the file. path: the executable. */
int tracer_prepare_exec(struct tracer *t, const char *path, pid_t pid, struct err *e);
/* Prepares, from now on and while it starts, for the files that the same command mapped the last
 * time (expected.h). */
void tracer_expect(struct tracer *t, const char *path, char *const *command);

/* Finds the files that a process has mapped and probes the new ones. -ESRCH: gone. */
int tracer_scan_pid(struct tracer *t, pid_t pid, struct err *e);

/* opts.hurry_fd is readable. */
bool tracer_hurries(const struct tracer *t);

/* From here on the CPU clock ticks and waits are seen, as the options ask for. */
int tracer_start_sampling(struct tracer *t, struct err *e);

/* Halves so often the chance that a call has of its stack being taken (of entries with
 * stack: 1/N); 0 to 31. */
void tracer_set_stack_shift(struct tracer *t, unsigned shift);

/* Waits until the stacks of all that is known can be walked; false when that takes longer than
 * timeout_ms: they are cut until then. */
bool tracer_stacks_settle(struct tracer *t, unsigned timeout_ms);

/* Readable when forks, execs, exits or loaded libraries wait to be handled. */
int tracer_control_fd(const struct tracer *t);
int tracer_control(struct tracer *t);

/* Passes what is in the rings to on_record, in order per CPU; returns the number. */
typedef int (*tracer_record_fn)(void *ctx, void *record, size_t len);
int tracer_set_drain(struct tracer *t, tracer_record_fn on_record, void *ctx, struct err *e);
int tracer_drain(struct tracer *t);
/* Rests so long; shorter where opts.wakes_reader is set and a ring becomes half full, or for good
 * when another thread says so. */
void tracer_rest(struct tracer *t, uint64_t ns);
void tracer_end_rests(struct tracer *t);
/* That a CPU's ring holds. */
uint32_t tracer_ring_bytes(const struct tracer *t);

/* The calls that are open now, as struct rec_call with CALL_OPEN. */
int tracer_open_calls(struct tracer *t, void (*visit)(void *ctx, const struct rec_call *c),
		      void *ctx, struct err *e);

/* The waits that have not ended (opts.waits), as struct rec_sample up to now. */
int tracer_open_waits(struct tracer *t, void (*visit)(void *ctx, const struct rec_sample *s),
		      void *ctx, struct err *e);

/* What was counted of waits that have not ended (opts.counts_waits), and of stalls, goes into the
 * rings. */
int tracer_end_waits(struct tracer *t, struct err *e);

/* Bursts, and the beginning. Whether calls are recorded is a flag, which holds at once: off, no
 * call is begun or ended any more, and those that are open are visited, as by tracer_open_calls,
 * and void. */
void tracer_calls_off(struct tracer *t, void (*visit)(void *ctx, const struct rec_call *c),
		      void *ctx, struct err *e);
void tracer_calls_on(struct tracer *t);
/* What calls cost goes when their places have no links, which takes tens of milliseconds: that
 * begins here, and is done when places are settled. False: the last change still goes on. What does
 * not work is noted. */
bool tracer_places_off(struct tracer *t);
bool tracer_places_on(struct tracer *t);
bool tracer_places_settled(struct tracer *t);
/* How long putting all places on took, the last time. */
uint64_t tracer_places_on_ns(const struct tracer *t);

/* What is known of each probe's calls (opts.counts_hits), in the order of their numbers. */
struct probe_load {
	uint64_t hits; /* by traced tasks, so far */
	const char *name;
	const char *role; /* "": none */
	enum layer layer;
	bool frequent; /* as the catalog says */
	bool stepped;  /* the kernel single-steps an instruction of it */
	bool returns;  /* the kernel is called at the return too */
	bool fixed;    /* it cannot be taken off by itself */
};
void tracer_loads(struct tracer *t,
		  void (*visit)(void *ctx, uint32_t probe, const struct probe_load *load),
		  void *ctx);

/* Which probes are on in bursts alone, by number: n of them, those behind are always on. While
 * bursts are off. Calls go on being recorded meanwhile, each once. */
int tracer_set_bursts(struct tracer *t, const bool *in_bursts, size_t n, struct err *e);
/* Attaches those, or takes them off: no call of theirs is begun any more, and those that are open
 * have some milliseconds to end. */
int tracer_burst(struct tracer *t, bool on, struct err *e);
/* What that took of this program's processor time so far. */
uint64_t tracer_bursts_cpu_ns(const struct tracer *t);

/* Takes off the probes of calls that PyTorch tells, and of those that CUPTI tells if launches
 * is true, for good. Their calls go on being recorded until they are off, and those that are
 * open then may come later as unwound: the caller leaves them out. */
void tracer_switch_callbacks(struct tracer *t, bool launches);

/* The kernel's name of one of its addresses, as it prints it (see kernel_symbol_parse); false where
 * it cannot be asked (before Linux 6.0). Not from two threads at once. */
bool tracer_kernel_symbol(struct tracer *t, uint64_t address, char *ret, size_t size);

/* Stops recording at once, before anything is detached, and holds no process any more. */
void tracer_freeze(struct tracer *t);

/* How long a call of the probe is from now on to be recorded in the mode `tail`. */
void tracer_set_threshold(struct tracer *t, uint32_t probe, uint64_t ns);

void tracer_losses(struct tracer *t,
		   void (*visit)(void *ctx, enum loss_cause cause, uint32_t cpu, uint64_t count),
		   void *ctx);
/* What each process of the host, traced or not, had disks do since this was called last
 * (opts.disk_io). */
void tracer_disk_io(struct tracer *t, void (*visit)(void *ctx, const struct disk_io *row),
		    void *ctx);

/* How fast CPUs were: of each process what was timed since it was told last, once that is enough
 * (opts.sample_hz). */
void tracer_fixed_work(struct tracer *t,
		       void (*visit)(void *ctx, pid_t pid, const struct fixed_work *w), void *ctx);

void tracer_histograms(struct tracer *t,
		       void (*visit)(void *ctx, const struct hist_key *key,
				     const struct hist_value *value),
		       void *ctx);

struct tracer_stats {
	enum attach_method method;
	bool can_hold; /* C++ exceptions may pass probed frames, and late libraries are held until
			* they are probed */
	uint64_t sites;
	uint64_t sites_before;	/* in files that were given back */
	uint64_t sites_stepped; /* on instructions that the kernel single-steps */
	uint64_t files;
	uint64_t attach_ns; /* sum over all files */
	uint64_t plan_ns;
	uint64_t files_read;	   /* by processes without rights, for probes and for stacks */
	uint64_t files_cached;	   /* that an earlier session had read, likewise */
	uint64_t scans;		   /* how often a process's mappings were read */
	uint64_t places_mapped;	   /* where the kernel put a breakpoint while a process mapped it */
	uint64_t files_expected;   /* probed before they were mapped (expected.h) */
	uint64_t places_inside;	   /* functions that have their probe inside a process, */
	uint64_t inside_processes; /* and of how many; and how long they were held for it */
	uint64_t inside_ns;
	bool excluded;			/* a process was left alone: a note says why */
	struct unwinder_stats unwinder; /* zeros where no stacks are taken */
};
void tracer_stats(const struct tracer *t, struct tracer_stats *ret);

/* How often tasks were held until user space had done something for them, how long in sum, and the
 * processor time that they used up meanwhile. */
struct tracer_holds {
	uint64_t count;
	uint64_t held_ns;
	uint64_t cpu_ns;
};
void tracer_holds(const struct tracer *t, struct tracer_holds *ret);

/* How often our programs ran for traced tasks, and for how long in sum: without what the kernel
 * took to call them, and without holds. */
struct tracer_spending {
	uint64_t runs;
	double ns;
};
void tracer_spendings(const struct tracer *t, struct tracer_spending ret[SPENT_KINDS]);

/* The processor time of the processes that work for this one: the guard, those that read files. */
uint64_t tracer_helpers_cpu_ns(const struct tracer *t);

/* Puts probes inside of a target that runs and has the library loaded, whose file records nothing
 * yet: from then on it tells its calls, and the kernel's probes leave it out. All its threads are
 * held for moments. Where it fails nothing has changed. opts.inside_running. */
struct tracer_inside_stop {
	uint64_t places;     /* functions whose code was changed */
	uint64_t holds;	     /* how often all threads were held, */
	uint64_t longest_ns; /* for how long at most, */
	uint64_t total_ns;   /* and in sum */
};
int tracer_inside_attach(struct tracer *t, pid_t pid, struct tracer_inside_stop *ret,
			 struct err *e);
/* To be called now and then: the kernel's probes go where nobody needs them, and come back. */
void tracer_inside_settle(struct tracer *t);
/* Targets that have such functions, and no probes inside. */
void tracer_inside_waiting(const struct tracer *t, void (*visit)(void *ctx, pid_t pid), void *ctx);
/* Where such a process can be held to be given the library: functions that it calls, of one file,
 * whose callers hold no lock of libc; others with each turn. called: by a probe's id, whether calls
 * of it have come, of the first n; these go before others. False: it has none. */
#define DOOR_PLACES 8
struct tracer_door {
	int fd; /* the caller's to close */
	size_t nplaces;
	uint64_t offset[DOOR_PLACES], address[DOOR_PLACES]; /* in the file, and in the process */
};
struct tracer_called {
	const uint8_t *called;
	size_t n;
};
bool tracer_inside_door(const struct tracer *t, pid_t pid, size_t turn,
			const struct tracer_called *c, struct tracer_door *ret);
/* Whether what a process has mapped there is the same file, byte by byte. */
bool tracer_is_copy(const char *library, pid_t pid, const struct proc_map *m);
/* Takes the probes out of all processes that go on. */
void tracer_inside_leave(struct tracer *t, struct tracer_inside_stop *ret);

/* The processes that had probes written into them (opts.inside). */
void tracer_inside_processes(const struct tracer *t, void (*visit)(void *ctx, pid_t pid),
			     void *ctx);

/* Catalog entries that no file wanted, and per file what each entry found. */
void tracer_results(const struct tracer *t,
		    void (*visit)(void *ctx, const char *path, const struct entry_result *r),
		    void *ctx);

/* The path of another file that a target has mapped and that defines the function, or NULL; valid
 * until the next tracer_control. It has such files read, and waits for that. */
const char *tracer_other_definer(struct tracer *t, const char *symbol, const char *library);

/* What a traced call costs here, measured on a child of ours that calls an empty function; its
 * records are dropped. For a tracer that has no targets yet. Takes some 50 milliseconds;
 * tracer_call_costs takes none where it was measured before. */
int tracer_measure_calls(struct tracer *t, struct call_costs *ret, struct err *e);
int tracer_call_costs(struct tracer *t, struct call_costs *ret, struct err *e);

/* False when the exception guard has died or failed: recording has to end. */
bool tracer_guard_works(const struct tracer *t);

/* What the guard may do: fewer than the tracer. */
const struct sandbox *tracer_guard_sandbox(void);

/* Once a second: files that nobody has had mapped for a minute are closed, and what is attached to
 * them is taken off. all: also those in which something is traced, where the kernel has session
 * links (6.13); tracer_results has what was found in them still. */
void tracer_close_unused(struct tracer *t, bool all);

/* Targets go on running after tracer_close: the exception guard stays for some seconds,
 * for the calls that are under way. */
void tracer_linger(struct tracer *t);

/* Nobody who was traced lives any more, and nobody new will: what is attached goes while other
 * things are finished. After tracer_freeze. */
void tracer_detach(struct tracer *t);

/* Detaches and frees; safe at any moment. */
void tracer_close(struct tracer *t);
