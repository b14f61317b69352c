/* stacks.h - stacks and samples, from the programs' records to rows. Internal to
 * src/pipeline; the recording thread's.
 *
 * A stack is a list of addresses of one process at one moment; it becomes a leaf of the
 * recording's tree of stacks. Addresses become frames at once, by what the process has
 * mapped; their names are looked up at the end, when the job is no longer disturbed. */
#pragma once

#include "pipeline/pipeline_impl.h"

struct stacks *stacks_new(void);
void stacks_free(struct stacks *s);

/* Records, as they come; they are looked at when the pass ends. */
void stacks_add(struct pipeline *p, const struct rec_stack *r);
void stacks_add_sample(struct pipeline *p, const struct rec_sample *r);

/* Before calls are converted: makes rows of the stacks that came. */
void stacks_pass(struct pipeline *p);
/* After it: samples whose stacks are there; last: those whose are not as well. */
void stacks_pass_samples(struct pipeline *p, bool last);

/* The recording's number of a stack; false when its record has not come. */
bool stacks_find(struct pipeline *p, uint64_t id, uint32_t *ret);

/* ---- frames.c ---- */

/* What is known of a frame that is in the recording. */
struct known_frame {
	struct m_frame row;
	uint64_t key; /* hash of what tells it apart */
	uint32_t elf; /* index in pipeline.elves + 1, 0 = none */
	uint32_t jit; /* jit_process_of, of made code; 0 = none */
	bool named;
	bool is_glue; /* the interpreter's own Python code: not shown */
};

struct frames *frames_new(void);
void frames_free(struct frames *f);
/* The recording's number of a frame; false: a name that it needs has not come (only with
 * !force). */
uint32_t frames_of_address(struct pipeline *p, uint32_t tgid, uint64_t address, bool is_mapped);
/* A place in a file that has a table (FILE_FRAME of wire/unwind.h). */
uint32_t frames_of_file(struct pipeline *p, uint32_t tgid, uint64_t frame);
bool frames_of_python(struct pipeline *p, uint64_t frame, bool force, uint32_t *ret);
/* The version of the interpreter that a process runs, 0 = none is known. */
uint32_t frames_python_version(struct pipeline *p, uint32_t tgid);
/* The kernel's function that starts at an address: one frame. */
uint32_t frames_add_kernel(struct pipeline *p, uint64_t start, const char *name,
			   const char *library);
uint32_t frames_cut(struct pipeline *p, const char *reason);
/* Stands for all that the kernel does for probes. */
uint32_t frames_own(struct pipeline *p);
/* Of a code object, when its name comes: where to find its lines. */
void frames_add_code(struct pipeline *p, const struct rec_pycode *r, uint32_t code);
/* Where there are more code objects than `most`, the half that was asked for last stays. */
void frames_forget_codes(struct pipeline *p, size_t most);
/* Those of processes, by their ids, stay no longer. */
void frames_forget_codes_of(struct pipeline *p, const struct map64 *gone);
/* What was left out for its number or size. */
void frames_tell_losses(struct pipeline *p);
const struct known_frame *frames_get(const struct pipeline *p, uint32_t frame);
/* Where nothing is kept, frames have generations as stacks have: whether the newer one is full; the
 * older one is forgotten, and the newer one is the older one from here on; the number of a frame in
 * the newer one. */
bool frames_are_full(const struct pipeline *p);
void frames_begin_generation(struct pipeline *p);
uint32_t frames_renew(struct pipeline *p, uint32_t frame);
/* The frame's name, looked up now if need be; "" when there is none. */
const char *frames_name(struct pipeline *p, uint32_t frame);
/* Gives it a name, that was found elsewhere. */
void frames_set_name(struct pipeline *p, uint32_t frame, const char *name);
/* Sets 1 for each of pipeline.elves that a frame is in. */
void frames_mark_elves(const struct pipeline *p, uint8_t *used);
/* Names the frames that have no name yet. */
void frames_name_all(struct pipeline *p);
/* The same from servers, of files without symbols: when the job is no longer disturbed. */
void frames_ask_servers(struct pipeline *p);

/* ---- kernel_frames.c ---- */

struct kernel_frames *kernel_frames_new(void);
void kernel_frames_free(struct kernel_frames *k);
/* The recording's number of the frame of an address in the kernel. */
uint32_t frames_of_kernel(struct pipeline *p, uint64_t address);
/* Numbers of frames are others from here on. */
void kernel_frames_forget(struct kernel_frames *k);

/* ---- jit.c ---- */

struct jit *jit_new(void);
void jit_free(struct jit *j);
/* Who made the code of a process, while it lives; 0 = nobody can be asked, or nothing is kept:
 * names of made code are looked for at the end. */
uint32_t jit_process_of(struct pipeline *p, uint32_t tgid);
/* Names frames of its made code; by rising address. */
void jit_name(struct pipeline *p, uint32_t process, const uint32_t *frames, size_t n);

/* ---- own_frames.c ---- */

/* Puts one frame in the place of those of probes at work; frames are the kernel's, leaf first; all:
 * the kernel was entered for one. The number that is left. */
size_t own_frames_fold(struct pipeline *p, bool all, uint32_t *frames, size_t n);
/* Likewise of code inside of the process: one frame where it works, none where it has called the
 * probed function. Returns how many are left. */
size_t own_frames_fold_inside(struct pipeline *p, uint32_t *frames, size_t n);

/* ---- waits.c ---- */

/* Why a thread with this stack (leaf first, none where it was not taken) does not run;
 * without_stack: what the programs tell, where the stack does not. */
enum wait_reason wait_reason_of(struct pipeline *p, const uint32_t *frames, size_t n,
				enum wait_reason without_stack);
