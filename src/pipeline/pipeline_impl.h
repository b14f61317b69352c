/* pipeline_impl.h - the pipeline's insides, shared by the files that implement it. */
#pragma once

#include <pthread.h>

#include "base/map64.h"
#include "base/strtab.h"
#include "pipeline/namer.h"
#include "pipeline/pipeline.h"
#include "pipeline/listeners.h"

/* What the recording thread has to be told: one of the pipeline_define_* calls. */
struct message {
	struct message *next;
	enum {
		MSG_PROBE,
		MSG_MAPS,
		MSG_TASK,
		MSG_PROCESS,
		MSG_USED,
		MSG_ALONE,
		MSG_NOTE,
		MSG_META,
		MSG_COUNTER,
		MSG_FIXED_WORK,
		MSG_WINDOW,
		MSG_OPEN_CALL,
		MSG_OPEN_WAIT,
		MSG_OPEN_COLLECTIVE,
		MSG_ENUM,
		MSG_GPU,
		MSG_EVENT,
		MSG_CONNECTION,
		MSG_ROW,
		MSG_TABLE,
	} kind;
	struct pipeline_probe probe; /* its strings are owned */
	struct rec_task task;
	struct rec_call call;
	struct rec_sample sample;
	pid_t pid;
	bool alone;
	proc_maps_t maps;
	char **build_ids;
	struct proc_map map; /* its path is a */
	uint32_t table;
	int fd;
	char *a, *b, *c, *d;
	struct m_gpu gpu;
	struct m_connection connection;
	enum row_kind row_kind;
	void *row; /* its strings: those of texts */
	char **texts;
	size_t ntexts;
	struct entity entity; /* its label is a */
	uint64_t start_ns, end_ns;
	double value;
};

struct known_tid {
	uint32_t tid;
	bool missed; /* /proc did not list it */
};

/* A mapping when it was met first. */
struct first_seen {
	uint64_t time_ns;  /* CLOCK_REALTIME */
	uint64_t build_id; /* hash; of "" where none was told */
};

/* What a process has mapped. Forked children share their parent's. */
struct known_maps {
	uint32_t refs;
	proc_maps_t list;
	struct first_seen *seen; /* one each */
};

/* What the waits of a process's threads come to, those that have ended too. */
struct wait_counts {
	uint64_t migrations, uninterruptible_ns;
};

struct known_process {
	struct m_process row;
	uint32_t executable;	 /* string: its path, where row.command is a link to it; else 0 */
	bool nameless;		 /* it had ended when it was met: what it was called is not known */
	bool job;		 /* it made a call that is traced; where jobs alone are told */
	bool alone;		 /* it is to be no job: pipeline_leave_alone */
	uint64_t alone_ns;	 /* since then */
	bool told;		 /* its row was written: number and start are the key */
	bool forkserver;	 /* of Python: its children are workers */
	struct known_maps *maps; /* newest; NULL = none */
	uint32_t generation;	 /* raised by exec */
	uint64_t exec_ns;	 /* the last exec, 0 = none seen */
	uint64_t cpu_before_ns;	 /* CPU time from before it was known */
	struct wait_counts counts, counts_told; /* waits.c */
	uint64_t counts_told_ns;
	struct map64 sent; /* hashes of the mappings that are in the recording */
	VEC(struct known_tid) tids;
	size_t tids_next; /* so many: those that have ended are looked for */
};

struct ended_process {
	uint32_t process; /* of the list */
	uint32_t generation;
	uint64_t forget_ns;
};

/* What a file that a process has mapped is called: its executable as the process was. */
uint32_t pipeline_library_name(struct pipeline *p, const struct known_process *process,
			       const char *path);

/* Calls whose meaning the pipeline itself needs: they name kernels and communicators. */
enum known_role {
	ROLE_OTHER,
	ROLE_KERNEL_NAME,
	ROLE_KERNEL_ALIAS,
	ROLE_COMM_INIT,
	ROLE_COMM_SPLIT,
	ROLE_COMM_DESTROY,
	ROLE_COMM_USE, /* collective, p2p */
};

struct known_probe {
	bool known;
	enum known_role role;
	int8_t arg_of[4]; /* where the role's arguments are; see role_args in roles.c */
	uint8_t nfactors; /* of "bytes" */
	struct pipeline_factor factors[MAX_FACTORS];
	uint32_t factor_enum[MAX_FACTORS]; /* string: enumeration of the factor, 0 = a number */
	bool has_return;
	bool has_text;	     /* an argument is RAW_TEXT */
	bool by_chance;	     /* one call in so many has its stack */
	bool names;	     /* its calls are observed: pipeline_observe */
	bool by_callback;    /* its calls are told by others too: shim_ops_tells */
	uint32_t row;	     /* probe number in the recording */
	uint32_t name;	     /* string */
	int8_t sequence_arg; /* of collectives, -1 = none: not watched */
	uint8_t nargs;
	uint8_t arg_raw[MAX_ARGS];
	bool called;  /* or counted in a histogram */
	bool plain;   /* no argument needs resolving */
	char *prefix; /* stands before the name that args[0] gives; NULL for none */
};

struct known_code {
	uint64_t id;	/* of REC_PYCODE */
	uint32_t index; /* of the code */
	uint32_t tgid;	/* 0: none in particular */
	uint64_t asked; /* number of the question that asked for it last */
};

/* Which file it is, and in which state: its owner may write it anew. */
struct elf_identity {
	uint64_t device, inode; /* as the mapping says; 0 = the vDSO */
	uint64_t size;
	uint64_t changed_ns; /* ctime */
	uint64_t written_ns; /* mtime */
};

struct open_elf {
	struct elf_identity identity;
	bool is_open;		  /* its facts are known; false: could not be opened */
	uint64_t asked;		  /* number of the question that asked for it last, */
	uint64_t asked_ns;	  /* the pass of forget.c before that, */
	uint32_t asked_by;	  /* of what process, */
	struct proc_map asked_at; /* and of what mapping; without its path */
	uint64_t woken_ns;	  /* as asked_ns, when it was tried to be opened again last, */
	uint32_t woken_by;	  /* for that process */
	struct named_file file;
	struct namer_facts facts;
	bool debug_tried;
	struct named_file debug; /* the file's stripped symbols */
};

/* A file that the unwinder gave a number. */
struct table_file {
	struct proc_map map;	      /* of one of its processes; its path is owned */
	struct elf_identity identity; /* as it was then */
	uint64_t build_id;	      /* hash, of "" where it has none */
	int fd;			      /* until its names are asked for; -1 = none */
	uint64_t told_ns;	      /* as asked_ns */
	uint32_t elf;		      /* index in elves + 1, once it was opened */
};

struct listening {
	struct event_listener who;
	uint32_t strings; /* so many it has been told */
};

struct pipeline {
	struct rec_writer *writer;
	bool recording_ended;
	VEC(struct listening) listeners;
	char *proc_root;

	pthread_mutex_t lock; /* guards inbox */
	struct message *inbox;
	struct message **inbox_tail;

	VEC(struct known_probe) probes; /* by record's probe id */
	struct map64 threads;		/* tgid << 32 | tid -> name << 32 | thread index */
	struct map64 processes;		/* tgid -> index in process_list */
	VEC(struct known_process) process_list;
	VEC(uint32_t) free_processes;	 /* of the list */
	VEC(struct ended_process) ended; /* that are to be forgotten */
	bool leaves_alone;		 /* some process was to be no job */
	bool jobs_alone;		 /* are told: pipeline_tell_jobs_alone */
	bool forgets;			 /* all of them: nothing is kept */
	bool keeps_texts;		 /* though it forgets */
	uint64_t forgot_ns;
	struct map64 strings;  /* REC_STRING id -> recording string + 1 */
	struct map64 unread;   /* hash of process and page: no strings are read there */
	struct map64 texts[2]; /* REC_TEXT id -> recording string; the second: older ones */
	struct map64 codes;    /* hash of name, file and line -> code index */
	VEC(struct known_code) code_ids;
	struct map64 code_at;	 /* REC_PYCODE id -> place in code_ids */
	uint64_t code_questions; /* for code_ids */
	struct map64 vtables;	 /* hash of pid and address -> string */
	struct map64 enum_bytes; /* hash of type and value -> bytes */
	struct kernels *kernels;
	struct comms *comms;
	struct metrics *metrics;
	struct rivals *rivals;
	struct shim_calls *shim_calls;
	struct shim_ops *shim_ops;
	struct watch *watch;	  /* NULL: collectives are not watched */
	struct map64 hist_counts; /* hash of a histogram's row -> count as last written */
	struct map64 waits_told;  /* thread -> until when its sums were told */
	struct map64 stalls_told; /* likewise */
	struct map64 hist_sums;	  /* of this flush: hash of a row -> index in sums */
	VEC(struct m_hist) sums;
	VEC(struct open_elf) elves;
	VEC(uint32_t) free_elves; /* of them, where nothing is kept */
	uint64_t elves_looked_ns; /* after those that nobody asks for */
	uint64_t elf_questions;
	struct map64 elf_of;	  /* hash of the identity -> index */
	struct map64 elf_of_file; /* hash of device and inode -> index of the newest state */
	struct map64 elf_of_map;  /* hash of process and mapping -> index + 1, 0 = none */
	VEC(struct table_file) tables;
	struct namer *namer;
	struct pipeline_servers servers;
	struct pipeline_kernel kernel;
	struct stacks *stacks;
	struct frames *frames;
	struct kernel_frames *kernel_frames;
	struct jit *jit;
	VEC(struct m_code) code_rows; /* by code index */

	VEC(struct rec_call_stack) pass;    /* calls of this pass, as they came */
	VEC(struct rec_call_stack) waiting; /* whose names had not come yet */
	VEC(struct rec_call) unobserved;
	bool observes; /* there are probes whose calls name something */
	VEC(struct m_call) ready;
	size_t most_in_pass; /* calls, since room was given back last */
	uint64_t passes;
	uint64_t calls;
	uint64_t samples;
	uint64_t gpu_spans;
	uint64_t bad_records;
	uint64_t unresolved;
	uint64_t unnamed_histograms; /* of this flush */
	uint64_t unresolved_told;
	uint64_t unknown_probes;
	uint64_t codes_over;		     /* code objects past CODE_ROWS_MOST */
	uint64_t chance_stacks;		     /* calls that by chance have theirs */
	uint64_t lost_calls, lost_looked_ns; /* as told last */
	struct map64 lost_of;		     /* hash of cause and CPU -> count */
	uint64_t lost;			     /* their sum */
	uint64_t stackless;		     /* calls whose stack never came */
};

void pipeline_take_messages(struct pipeline *p);
void pipeline_put_histograms(struct pipeline *p);

/* listeners.c: rows go into the recording, and to who listens. */
void emit_row(struct pipeline *p, enum row_kind kind, const void *row);
uint32_t emit_new_row(struct pipeline *p, enum row_kind kind, const void *row);
void emit_changed_row(struct pipeline *p, enum row_kind kind, uint32_t number, const void *row);
void emit_meta(struct pipeline *p, const char *key, const char *value);
void emit_calls(struct pipeline *p, const struct m_call *rows, size_t n);
void emit_row_gone(struct pipeline *p, enum row_kind kind, uint32_t number);

/* The same with the types of rows: emit_counter, emit_new_thread. */
#define X(number, NAME, stem, members)                                                             \
	static inline void emit_##stem(struct pipeline *p, const struct m_##stem *row)             \
	{                                                                                          \
		emit_row(p, ROW_##NAME, row);                                                      \
	}
ROW_LISTED(X)
ROW_SERIES(X)
#undef X
#define X(number, NAME, stem, members)                                                             \
	static inline uint32_t emit_new_##stem(struct pipeline *p, const struct m_##stem *row)     \
	{                                                                                          \
		return emit_new_row(p, ROW_##NAME, row);                                           \
	}
ROW_NUMBERED(X)
#undef X

/* metrics.c: the number of a metric that has a counter at a time. */
struct metrics *metrics_new(void);
void metrics_free(struct metrics *ms);
uint32_t pipeline_metric(struct pipeline *p, const struct entity *of, const char *name,
			 uint64_t time_ns);
/* A row of it. */
void pipeline_put_counter(struct pipeline *p, uint64_t time_ns, const struct entity *of,
			  const char *name, double value);

/* rivals.c: of who had a thread's CPU the cgroup, and the leader of its process group. What is not
 * known stays 0; the first process of all leads nobody. */
struct rivals *rivals_new(void);
void rivals_free(struct rivals *r);
void rivals_name(struct pipeline *p, const struct rec_wait *r, struct m_wait *row);

/* forget.c: what ended processes and threads had. later: from now on it has ended; parts: its
 * mappings and threads; replaced: all of it, where nothing is kept. */
void forget_thread_later(struct pipeline *p, struct known_process *k, uint32_t tid);
void forget_later(struct pipeline *p, uint32_t process);
void forget_parts(struct pipeline *p, struct known_process *k);
void forget_replaced(struct pipeline *p, uint32_t process);
void forget_pass(struct pipeline *p);
/* Where there are more than `most`, of Python's code objects the half that was asked for last
 * stays. */
void codes_forget(struct pipeline *p, size_t most);
/* Those of processes, by their ids, stay no longer. */
void codes_forget_of(struct pipeline *p, const struct map64 *gone);
void codes_tell_losses(struct pipeline *p);
/* The smallest of the `most` largest numbers, which all differ; sorts them. */
uint64_t forget_since(uint64_t *numbers, size_t n, size_t most);

/* The string of a row that only a recording's readers look at: 0 where there will be none. */
uint32_t pipeline_kept_string(struct pipeline *p, const char *s);
/* Names: false when the id's record has not come yet. */
bool pipeline_string(const struct pipeline *p, uint64_t id, uint64_t *ret);
bool pipeline_text(const struct pipeline *p, uint64_t id, uint64_t *ret);
/* A text belongs to one call, which has it now. */
void pipeline_forget_text(struct pipeline *p, uint64_t id);
bool pipeline_code(struct pipeline *p, uint64_t id, uint64_t *ret);
/* The class of an object, by its vtable; force: made up where it is not found. */
bool pipeline_vtable(struct pipeline *p, uint32_t tgid, uint64_t address, bool force,
		     uint64_t *ret);
/* Likewise, with a prefix before it. */
bool pipeline_prefixed_string(struct pipeline *p, const char *prefix, uint64_t id, uint64_t *ret);
void pipeline_add_string(struct pipeline *p, const struct rec_string *r);
/* Reads the string from its process where it lies in a mapped file; else it stays unknown. */
void pipeline_read_string(struct pipeline *p, const struct rec_unread *r);
void pipeline_add_text(struct pipeline *p, const struct rec_text *r);
void pipeline_add_code(struct pipeline *p, const struct rec_pycode *r);

uint64_t pipeline_enum_key(uint32_t type, uint64_t value);

/* Tells processes apart whose numbers are the same, and what a process was before exec. */
uint64_t pipeline_process_key(struct pipeline *p, uint32_t tgid);
/* Reads memory of a process; false when it is gone or the address is not mapped. */
bool pipeline_read_memory(uint32_t tgid, uint64_t address, void *ret, size_t len);
/* The newest map of a process whose file name begins so; NULL when there is none. */
const struct proc_map *pipeline_map_named(struct pipeline *p, uint32_t tgid, const char *prefix);
struct open_elf *pipeline_elf(struct pipeline *p, uint32_t tgid, const struct proc_map *m);
/* Its number in elves + 1, 0 when it cannot be opened. Files of one path may be several: in
 * other mount namespaces, and one after the other. */
size_t pipeline_elf_index(struct pipeline *p, uint32_t tgid, const struct proc_map *m);
/* The same of a file by its table; 0 where that has not been told. */
const struct table_file *pipeline_table(const struct pipeline *p, uint32_t table);
size_t pipeline_table_elf(struct pipeline *p, uint32_t tgid, uint32_t table);
void pipeline_take_table(struct pipeline *p, const struct message *m);
void pipeline_free_tables(struct pipeline *p);
/* Opens a file again that rests, by the mapping that it was asked for last; it stays as it is where
 * that shows another one by now. */
void elf_wake(struct pipeline *p, struct open_elf *elf);
/* elves_rest.c: where more files than `most` are open, the half rests that was asked for longest
 * ago: places in them have their names before, where they are kept. Where nothing is, so do those
 * that nobody has asked for in a minute, and what no place is in is forgotten. */
void elves_rest(struct pipeline *p, size_t most);
const struct m_code *pipeline_code_row(const struct pipeline *p, uint32_t code);

/* roles.c: what calls say of names. */
void pipeline_know_role(struct known_probe *known, const struct pipeline_probe *probe);
/* Takes note of a call that names something; false when its text has not come yet. */
bool pipeline_observe(struct pipeline *p, const struct known_probe *probe,
		      const struct rec_call *call);

/* kernels.c: names of CUDA kernels. */
struct kernels *kernels_new(void);
void kernels_free(struct kernels *k);
/* Where there are more than so many, half of them stay: those that were asked for last. */
void kernels_forget(struct kernels *k, size_t most);
/* time_ns: when the naming call ended. */
void kernels_name(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns,
		  const char *symbol);
void kernels_alias(struct pipeline *p, uint32_t tgid, uint64_t function, uint64_t kernel,
		   uint64_t time_ns);
enum kernel_effort {
	KERNEL_KNOWN,
	KERNEL_IN_MEMORY, /* looked for in the process's memory too */
	KERNEL_MADE_UP,	  /* "kernel 0x..." where that fails as well */
};
/* The recording's string for a handle as of time_ns; false when none is known. */
bool kernels_find(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns,
		  enum kernel_effort effort, uint64_t *ret);

/* comms.c: communicators. time_ns: when the call that tells of it ended. */
struct comms *comms_new(void);
void comms_free(struct comms *c);
void comms_forget(struct comms *c, size_t most); /* as kernels_forget */
struct comm_init {
	uint64_t handle;
	uint64_t hash;
	int32_t rank, size;
};
void comms_init(struct pipeline *p, uint32_t tgid, const struct comm_init *init, uint64_t time_ns);
void comms_split(struct pipeline *p, uint32_t tgid, uint64_t parent, int32_t color, uint64_t handle,
		 uint64_t time_ns);
/* Returns the communicator; valid until the next is made. */
const struct m_comm *comms_use(struct pipeline *p, uint32_t tgid, uint64_t handle,
			       uint64_t time_ns);
/* What a process has mapped is known, or known anew. */
void comms_take_maps(struct pipeline *p, uint32_t tgid);
void comms_destroy(struct pipeline *p, uint32_t tgid, uint64_t handle, uint64_t time_ns);

/* shim_calls.c: spans of GPUs wait for the calls that started them; `all`: no longer. */
struct shim_calls *shim_calls_new(void);
void shim_calls_free(struct shim_calls *s);
void shim_calls_pass(struct pipeline *p, bool all);

/* watch.c: who enters which collective, where that is asked for. */
void watch_comm(struct pipeline *p, const struct m_comm *comm);
void watch_process_ended(struct pipeline *p, uint32_t tgid);
void watch_collective(struct pipeline *p, const struct known_probe *probe,
		      const struct rec_call *in, uint64_t bytes, const struct m_comm *comm);
void watch_check(struct pipeline *p);
void watch_free(struct pipeline *p);

/* waits.c: what the programs counted of waits. */
void waits_add(struct pipeline *p, const struct rec_wait *r);
void waits_add_sums(struct pipeline *p, const struct rec_wait_sums *r);

/* stalls.c: what the kernel took of threads' time on CPUs. */
void stalls_add(struct pipeline *p, const struct rec_stall *r);
void stalls_add_sums(struct pipeline *p, const struct rec_stall_sums *r);

/* decode.c: a collective that has not returned, for the watch alone. */
void pipeline_take_open_collective(struct pipeline *p, const struct rec_call *in);

/* shim_ops.c: operators that PyTorch told, and calls of their threads in order of end. */
struct shim_ops *shim_ops_new(void);
void shim_ops_free(struct shim_ops *s);
/* A probe whose calls others tell too. id: that of records; number: the recording's. */
void shim_ops_know(struct pipeline *p, uint32_t id, uint32_t number, const struct m_probe *probe,
		   const char *symbol);
/* A call of the thread has come. */
void shim_ops_thread(struct pipeline *p, uint32_t pid, uint32_t thread);
void shim_ops_layer(struct pipeline *p, uint32_t number, uint32_t layer);
/* The stack of a call that is told inside; and those calls, once the pass's stacks have come. */
void shim_ops_mark(struct pipeline *p, const struct rec_mark *mark);
void shim_ops_text(struct pipeline *p, const struct rec_told_text *text);
void shim_ops_take_told(struct pipeline *p);
void shim_ops_put_calls(struct pipeline *p, const struct m_call *rows, size_t n);
/* Whether a call of such a probe is not the probe's to tell: it ended when others told. */
bool shim_ops_tells(const struct pipeline *p, const struct rec_call *call);
/* Calls whose time has come go into the recording; all: whatever there is. */
void shim_ops_pass(struct pipeline *p, bool all);
/* At the end: how many processes had no operators since the probes went. */
void shim_ops_tell_silent(struct pipeline *p);

/* Processes and threads, made on first sight. */
struct known_process *pipeline_process_of(struct pipeline *p, uint32_t tgid);
/* Whether what its threads did is told. */
bool pipeline_is_told(struct pipeline *p, uint32_t tgid);
/* The same of one that may have ended: nothing is made of it. */
bool pipeline_is_job(struct pipeline *p, uint32_t tgid);
/* Whether a call that began then is for nobody: its process is left alone. */
bool pipeline_leaves_out(const struct pipeline *p, uint32_t tgid, uint64_t start_ns);
/* Before the rows of a call. */
void pipeline_made_call(struct pipeline *p, uint32_t tgid);
uint32_t pipeline_thread_of(struct pipeline *p, uint32_t tgid, uint32_t tid);
/* The same; name: what it is called should it have ended. */
uint32_t pipeline_thread_named(struct pipeline *p, uint32_t tgid, uint32_t tid, const char *name);
/* A target from the start, unless it has ended by now. */
void pipeline_take_process(struct pipeline *p, pid_t pid);
void pipeline_take_task(struct pipeline *p, const struct rec_task *task);
void pipeline_take_alone(struct pipeline *p, uint32_t tgid, bool alone, uint64_t since_ns);
void pipeline_take_used(struct pipeline *p, uint32_t tgid, uint64_t cpu_ns);
/* seen_ns: when they were read, see struct first_seen. */
void pipeline_take_maps(struct pipeline *p, pid_t pid, proc_maps_t *maps, char **build_ids,
			uint64_t seen_ns);
/* What it has mapped; valid until the process has other mappings, or is forgotten. */
const proc_maps_t *pipeline_maps_of(const struct known_process *k);
void known_maps_unref(struct known_maps *m);
/* Of a mapping of the process, or NULL. */
const struct first_seen *pipeline_first_seen(struct pipeline *p, uint32_t tgid,
					     const struct proc_map *m);
