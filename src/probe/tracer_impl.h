/* tracer_impl.h - the tracer's insides, shared by the files that implement it. */
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <pthread.h>

#include "eacgm.skel.h"
#include "probe/expected.h"
#include "probe/files.h"
#include "probe/reading.h"
#include "probe/targets.h"
#include "probe/tracer.h"
#include "probe/unwind_pool.h"
#include "probe/unwinder.h"

/* shedding.c: what is on in bursts alone. */
struct shedding {
	VEC(bool) in_bursts; /* by probe */
	bool bursts_on;
	uint64_t burst_cpu_ns;	       /* putting them on and off, so far */
	size_t times_left;	       /* how often places were taken off */
	const volatile uint64_t *hits; /* of bpf/hits.h; NULL: nobody counts */
	size_t hits_bytes;
	VEC(struct probe_load) loads; /* by probe; emptied when files come or go */
};

/* switching.c: links that come and go while the session runs. */
struct switching {
	struct change *change; /* under way; NULL: none is */
	uint64_t on_ns;	       /* what putting all places on took the last time; 0 = not yet */
	bool off;	       /* bursts are: what comes now is not attached */
	bool off_for_good;
	uint64_t cpu_ns; /* atomic: of the threads that did it, so far */
};

/* What became of an entry in a file that was given back. */
struct given_back {
	char *path;
	struct entry_result result;
};

struct tracer {
	uint64_t opened_ns;
	struct tracer_options opts;
	struct eacgm_bpf *bpf;
	struct plan plan;
	struct files files;
	VEC(struct given_back) given_back; /* one for each entry of the catalog, at most */
	uint64_t places_before;		   /* that were probed in such files */
	VEC(struct leaving *) leaving;	   /* what is taken off such files now */
	uint64_t looked_ns;		   /* at who has them mapped */
	struct targets targets;
	struct parser_host *parser_host;
	struct reading *reading;
	struct scans *scans;
	struct expected *expected; /* NULL: there is no command */
	int epoll_fd;		   /* of all that tracer_control looks after */
	struct attach_programs programs;
	enum attach_method method;
	bool can_hold; /* sleepable programs: exception guard and loader hook are there */
	pthread_mutex_t guard_lock;
	pid_t guard_pid; /* 0 = none */
	int guard_sock;
	uint32_t guard_drops;	/* numbers of what it was asked for */
	bool guard_late;	/* it did not answer in time once */
	uint64_t guard_cpu_ns;	/* once it has ended */
	bool linger;		/* the guard is to outlive us: targets go on running */
	bool calibrating;	/* task events are our own child's */
	bool excluded_any;	/* a process was left alone for its safety */
	uint64_t swept_ns;	/* when the map `excluded` was full and looked through last */
	uint32_t off_callbacks; /* by tracer_switch_callbacks: bit per enum callback */
	size_t probes_told;	/* of plan.probes, how many went to on_probe */
	size_t layouts_told;	/* of plan.layouts, how many are in the BPF map */
	VEC(int) ring_fds;
	int rings_epoll; /* readable when a ring asks to be emptied, or rest_end is written */
	int rest_end;
	int rings_failed;
	struct err rings_error;
	struct unwind_pool pool;
	struct ring_buffer *rings;
	struct ring_buffer *control;
	struct bpf_link *task_links[3];
	bool xid_known; /* the driver's tracepoint is there */
	struct bpf_link *xid_link;
	struct bpf_link *socket_link;
	struct heart *heart;
	struct disk_reader *disk_reader;
	struct unwinder *unwinder;  /* NULL: no stacks are taken */
	struct insider *insider;    /* NULL: the kernel has all probes */
	uint64_t inside_changed_ns; /* when a process began to tell its calls last */
	bool inside_alone;	    /* nobody needs the kernel's probes of what is told inside */
	VEC(struct bpf_link *) clock_links;
	struct shedding shedding;
	struct switching switching;
	uint64_t attach_ns;
	uint64_t plan_ns;
	uint64_t scans_begun;
	uint64_t places_mapped;	 /* probed, in files that processes mapped */
	uint64_t files_expected; /* probed before somebody mapped them */
};

/* tracer.c: of the process's bits in the map `excluded`, those of `of` become these: 1; 0 where
 * they are already. Fails where the map has no room, also not by entries of processes that have
 * ended. */
int tracer_exclude(struct tracer *t, pid_t pid, uint64_t bits, uint64_t of, struct err *e);

/* probing.c: hooks and probes on a file, by its facts. hook: FILE_READ becomes FILE_HOOKED; probe:
 * FILE_HOOKED becomes FILE_PROBED. What does not work is noted. */
void tracer_hook_file(struct tracer *t, struct probed_file *f);
void tracer_probe_file(struct tracer *t, struct probed_file *f);
/* New probes and layouts go to the programs and the listener. */
void tracer_tell_plan(struct tracer *t);
void tracer_note(struct tracer *t, const char *subject, const char *reason);
/* The path that opens the very file. */
void tracer_file_path(const struct probed_file *f, char ret[32]);

/* unused_files.c: files that nobody has mapped, where those are very many. */
void tracer_give_back(struct tracer *t);
/* Waits until all is taken off. */
void unused_free(struct tracer *t);

/* scan.c: what processes have mapped. held: as soon as can be, and the task that waits with this
 * number (0: none) is answered; soon: together with what follows; asked: likewise, by who walks its
 * stack; forget: it ended, or runs another program. go_on: whatever can be done now. */
struct scans;
struct scans *scans_new(int epoll_fd);
void scans_free(struct scans *ss, struct files *fs);
void scan_held(struct tracer *t, pid_t pid, uint64_t sequence);
void scan_soon(struct tracer *t, pid_t pid);
void scan_asked(struct tracer *t, pid_t pid);
/* A child that has its parent's mappings: it is only looked at where those are not known, or not
 * published although they are wanted. */
void scan_forked(struct tracer *t, pid_t parent, pid_t child);
void scan_forget(struct tracer *t, pid_t pid);
/* Records were found: more may have come that wake nobody. */
void scans_look_again(struct scans *ss);
void scans_go_on(struct tracer *t);
/* The calling thread, which answers held tasks, gets its turn soon on a busy host. */
void scans_run_early(void);
/* A process, or its files, keep this program busy: for some seconds others are held less. */
void scans_press(struct tracer *t);
struct known_file known_file_of(uint64_t device, uint64_t inode);

/* probing.c: whether what is in the group is not to be attached now. */
bool tracer_group_is_off(const struct tracer *t, const struct site_group *g);
/* switching.c: attaches a group; takes links off, or everything for good, while held tasks are
 * answered; waits likewise until no change is under way. */
void tracer_all_off(struct tracer *t);
void switching_wait(struct tracer *t);
int tracer_group_on(struct tracer *t, const struct probed_file *f, struct site_group *g,
		    struct err *e);
void tracer_links_off(struct tracer *t, struct attach_links *links, size_t n);

/* shedding.c: before the object is loaded, and after; which of a file's groups a place is in. */
void shedding_choose(struct tracer *t);
int shedding_open(struct tracer *t, struct err *e);
void shedding_close(struct tracer *t);
bool shedding_has(const struct tracer *t, uint32_t probe);

/* rings.c */
int rings_make(struct tracer *t, struct err *e);
void rings_close(struct tracer *t);

/* drain.c */
int tracer_control_open(struct tracer *t, struct err *e);

/* holds.c: shows that this program runs, until heart_stop. */
int heart_start(struct tracer *t, struct err *e);
void heart_stop(struct tracer *t);

/* The task that waits with this number is waited on for longer: something of its own is worked on.
 */
void tracer_grant(struct tracer *t, uint64_t sequence, uint64_t ns);
uint64_t holds_granted_ns(const struct tracer *t); /* at most */

/* Lets the task go that waits with this sequence number (bpf/hold.h). */
void tracer_answer_maps(struct tracer *t, uint64_t sequence);
/* The same, but nothing was done for it: that is counted. */
void tracer_refuse_maps(struct tracer *t, uint64_t sequence);
void tracer_answer_unwind(struct tracer *t, uint64_t sequence);

int tracer_guard_start(struct tracer *t, struct err *e);
/* Gives the guard a share of a hook's link, which keeps it attached after our end. */
#define GUARD_OWNER_FILE 0x80000000U /* and its number; below are slots of graph_guard.c */
void tracer_guard_keep(struct tracer *t, uint32_t owner, int link_fd);
/* It has none of the owner's any more. */
void tracer_guard_drop(struct tracer *t, uint32_t owner);
void tracer_guard_stop(struct tracer *t);

/* Before the object is loaded; where it fails (before Linux 6.3), held tasks yield by themselves.
 */
int yield_target_prepare(struct bpf_map *map);
/* Held tasks give up their CPU by reading the memory of this process: one with one thread, that
 * maps and unmaps nothing. readable: an address there. See bpf/yield.h. */
void yield_target_set(struct tracer *t, pid_t pid, const void *readable);

/* Reads the rows of an iterator over tasks; opts may be NULL. */
int drain_iterator(struct bpf_program *prog, const struct bpf_iter_attach_opts *opts,
		   size_t row_bytes, void (*visit)(void *ctx, const void *row), void *ctx,
		   struct err *e);

/* The same with one that writes no rows. */
int run_iterator(struct bpf_program *prog, struct err *e);

/* sockets.c: before loading, and at the end. */
void sockets_choose(struct tracer *t);
void sockets_unwatch(struct tracer *t);

/* stalls.c: programs at the kernel's tracepoints, until sampling_stop; those that it does not have
 * are left out. */
struct place {
	const char *tracepoint;
	struct bpf_program *program;
};
int attach_places(struct tracer *t, const struct place *places, size_t n, struct err *e);

/* stalls.c: before loading; and from here on they are seen, where the options ask for them. */
void stalls_choose(struct tracer *t);
int stalls_start(struct tracer *t, struct err *e);

/* disk_io.c: likewise. */
struct disk_reader;
struct disk_reader *disk_reader_new(void);
void disk_reader_free(struct disk_reader *d);
void disk_io_choose(struct tracer *t);
int disk_io_start(struct tracer *t, struct err *e);

/* xid.c: the GPU driver's error messages; before loading. */
void xid_prepare(struct tracer *t);
