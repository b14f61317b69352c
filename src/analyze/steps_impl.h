/* steps_impl.h - what the files that find steps share. Private to steps*.c. */
#pragma once

#include "analyze/process_index.h"
#include "analyze/steps.h"
#include "base/map64.h"

/* What an operation's name tells of it; several may hold. */
enum steps_class {
	CLASS_BACKWARD = 1, /* the engine runs a backward pass, or another thread's launches do */
	CLASS_UPDATE = 2,   /* changes tensors in place by arithmetic, as optimizers do */
	CLASS_NEUTRAL = 4,  /* may be among an optimizer's operations, says nothing */
	CLASS_READ = 8,	    /* hands a value to the host, or waits for the device */
	CLASS_COPY = 16,    /* copies, nothing else */
	CLASS_COLLECTIVE = 32,
	CLASS_SETUP = 64,      /* makes or fills tensors: what is only of these is no step */
	CLASS_OPTIMIZER = 128, /* mark: a step of an optimizer begins */
	CLASS_ZERO_GRAD = 256, /* mark */
	CLASS_LOADER = 512,    /* mark: the next batch is asked for */
	CLASS_TO_HOST = 1024,  /* a copy from the device */
	CLASS_FORWARD = 4096,  /* mark: of a model that several processes share */
	CLASS_CHOICE = 8192,   /* chooses a token */
	CLASS_WAIT = 16384,    /* waits for the device, hands nothing over */
	CLASS_LAUNCH = 2048,   /* of a kernel or graph */
	CLASS_GRAPH = 32768,   /* of a graph */
	CLASS_MODEL = 65536,   /* has weights: of a model, not of its data */
	CLASS_RESET = 131072,  /* fills with zeros, as gradients are reset */
};

struct steps_symbol {
	char *name;
	uint32_t class;
};

/* One outermost operation. Ends beyond 18 minutes are cut. */
struct steps_op {
	uint64_t start_ns;
	uint64_t dur_ns : 40;
	uint64_t symbol : 24;
};
_Static_assert(sizeof(struct steps_op) == 16, "steps_op has padding");
#define STEPS_MAX_DUR_NS  ((1ULL << 40) - 1)
#define STEPS_MAX_SYMBOLS (1U << 24)

typedef struct steps_ops {
	struct steps_op *data;
	size_t len;
	size_t cap;
} steps_ops_t; /* a VEC */

/* By which of its layers steps lack calls, where the kernel counted more than were recorded. */
enum counted_layer { COUNTED_NONE, COUNTED_TORCH, COUNTED_DEVICE, COUNTED_LAYERS };

struct steps_thread {
	uint32_t pid, tid;
	steps_ops_t torch;  /* outermost operations of PyTorch, marks, collectives beside them */
	steps_ops_t device; /* launches, copies, waits, collectives */
	uint32_t operators; /* of torch: not marks, not collectives */
	uint32_t launches;
	uint32_t backwards;
	uint32_t nodes; /* outermost nodes of autograd: the engine's own threads have them */
	uint64_t counted[COUNTED_LAYERS]; /* recorded calls of probes that were counted as well */
};

/* A long wait of a thread (ROW_WAIT), by whom it ended. */
enum steps_waker {
	WAKER_NONE,   /* a clock, a device, a process that has nothing to do with it */
	WAKER_THREAD, /* another thread of its process */
	WAKER_CHILD,  /* a process that it started, or one that this started */
	WAKER_PARENT,
};
struct steps_wait {
	uint64_t start_ns, end_ns;
	enum steps_waker waker;
};
typedef VEC(struct steps_wait) steps_waits_t;
typedef VEC(struct m_wait) steps_wait_rows_t;

struct steps_input {
	steps_wait_rows_t waits; /* by thread, then start */
	const struct rec_tables *tables;
	VEC(struct steps_symbol) symbols; /* 0 is the backward pass */
	struct map64 symbol_of;		  /* function or role -> symbol */
	struct steps_thread *threads;	  /* as in the thread table */
	struct map64 counted; /* pid -> STEPS_COUNTED_*: not all of its calls are recorded */
};
#define STEPS_COUNTED_TORCH  1
#define STEPS_COUNTED_DEVICE 2
#define SYMBOL_BACKWARD	     0

/* steps_names.c: what the name of an operator, range or kernel tells. */
uint32_t steps_class_of_operator(const char *name);
uint32_t steps_class_of_range(const char *name);
uint32_t steps_class_of_kernel(const char *name);

/* steps_load.c: each thread's operations, in order of start; done is called when they are there. */
struct row_visitor *steps_loader(struct steps_input *ret, const struct row_source *s, uint32_t pid,
				 void (*done)(void *ctx), void *ctx);
void steps_input_free(struct steps_input *in);

/* steps_graphs.c: graphs that took the place of earlier ones have their symbols. */
void steps_graphs_join(const struct steps_input *in, steps_ops_t *ops);

/* A text of operations: what is searched for repetition. */
struct steps_text {
	const struct steps_op *ops;
	size_t len;
	const struct steps_symbol *symbols;
	size_t symbols_len;
	bool joined; /* its thread was at it already when tracing began */
	bool began;  /* a step, if there is one, begins with its first operation, or later */
	bool ended;  /* the thread lived on, or ended by itself, after its last operation */
	const steps_waits_t *waits; /* between operations, by start; NULL: none were recorded */
	bool fed; /* the waits tell that children make its batches: it does not itself */
};

static inline uint32_t steps_class(const struct steps_text *t, size_t i)
{
	return t->symbols[t->ops[i].symbol].class;
}

static inline uint64_t steps_op_end(const struct steps_op *o)
{
	return o->start_ns + o->dur_ns;
}

typedef VEC(size_t) steps_positions_t;

/* steps_wait.c: waits of the text's thread that lie between its operations. */
void steps_waits_make(steps_waits_t *ret, const struct steps_input *in, uint32_t thread,
		      const struct process_index *index, const struct steps_text *t);
/* Whether children make what the text's thread works on: some waits were ended by them. */
bool steps_waits_feed(const steps_waits_t *waits);
/* The first wait that ends behind a time. */
size_t steps_waits_from(const steps_waits_t *waits, uint64_t ns);

/* steps_anchor.c: the operations that begin the end of each step of training: the optimizer's,
 * or the last backward before it. Empty where nothing is trained. */
void steps_anchors_of_training(const struct steps_text *t, steps_positions_t *ret);

/* How many operations from i on are an optimizer's, or come after and end a step as well; with
 * those that may do so: *ret_most. */
size_t steps_update_run(const struct steps_text *t, size_t i, size_t end, size_t *ret_most);

/* steps_period.c: positions of an operation that each repetition has once. Empty where there is
 * no repetition. */
void steps_anchors_of_repetition(const struct steps_text *t, steps_positions_t *ret);

/* steps_cut.c: steps from anchors. */
struct steps_cut {
	size_t begin, end; /* of operations; between two cuts may lie others */
};
typedef VEC(struct steps_cut) steps_cut_rows_t;
struct steps_cuts {
	steps_cut_rows_t rows;
	size_t usual;	  /* of rows: as the usual step */
	size_t usual_len; /* operations of the usual step */
	bool partial_first, partial_last;
};
void steps_cut(struct steps_cuts *ret, const struct steps_text *t, const size_t *anchors,
	       size_t anchors_len, bool training);
void steps_cuts_free(struct steps_cuts *c);

/* steps_batches.c: adds the batches of the operations from begin to end. */
void steps_batches(steps_cut_rows_t *ret, const struct steps_text *t, size_t begin, size_t end);

/* steps_phase.c: times of a step's phases. */
void steps_phases(const struct steps_text *t, const struct steps_cut *cut, enum steps_kind kind,
		  struct steps_step *step);

/* steps_sum.c: a loop's figures and its slow steps; cuts are those of the loop's steps. */
void steps_loop_sum(struct steps_loop *loop, const struct steps_step *steps,
		    const struct steps_text *t, const struct steps_cut *cuts, struct steps *owner);
void steps_phases_sum(struct steps_loop *loop, const struct steps_step *steps);
/* The phase of a slow step that grew most. */
void steps_slow_phase(const struct steps_loop *loop, const struct steps_step *step,
		      struct steps_slow *slow);

/* What is known while steps are found. */
struct steps_finder {
	struct steps *ret;
	struct steps_input in;
	const struct rec_tables *t;
	struct process_index index;
	uint64_t *ends;	  /* of the recordings, by source */
	uint32_t *by_pid; /* threads, those of a process together, in their order */
	/* Of the process in hand. */
	const uint32_t *own; /* of by_pid */
	size_t own_len;
	struct steps_process *process;
	uint64_t *launches; /* starts, in order */
	size_t launches_len;
	uint64_t last_ns; /* when recording ended, or the process */
	bool exited;
	uint64_t joined_ns; /* since when it is traced, where it ran before; or 0 */
};

/* steps_loops.c: adds the loops of a text, and their steps, to the process in hand. Whether there
 * are any. */
bool steps_find_loops(struct steps_finder *f, const struct steps_text *t);
