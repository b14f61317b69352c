/* evidence.h - what an incident's time has that usual time has not: whose it was (analyze/blame.h),
 * which calls were more or longer, which counters differ. Causes are told by it. No I/O. */
#pragma once

#include "analyze/blame.h"
#include "analyze/steps.h"
#include "events/visitor.h"

/* A probe's calls in a process; usual: scaled to as much work. */
struct call_growth {
	uint32_t probe;
	double n, usual_n;
	double ns, usual_ns;
	/* Of those that are not within one of the same name: how many, and what they took by
	 * themselves (detect/own_time.h). 0: nobody asked for it, since no mean grew much. */
	double outer_n, usual_outer_n;
	double own_ns, usual_own_ns;
};

/* A counter's mean, in the incident's time and in usual time; NaN where it has no value. Of what a
 * process sends and receives, which are totals, by how much they grow a second. */
struct counter_change {
	uint32_t metric;
	double mean, usual;
};

/* What interrupted the process's threads: long ones alone. */
struct stall_growth {
	uint8_t kind;  /* enum stall_kind */
	uint32_t name; /* string: "NET_RX", "nvme0q1" */
	double ns, usual_ns;
};

/* Of NET_RX, as above: the process of this host whose packets it was for. */
struct sender_growth {
	uint32_t comm; /* string */
	uint32_t pid;
	double ns, usual_ns;
};

/* What a process had a disk do. */
struct disk_growth {
	uint32_t disk, comm; /* strings */
	uint32_t pid;
	double bytes, usual_bytes;
};

struct evidence {
	const struct rec_tables *t;
	uint32_t pid, thread; /* the victim: whose stretches these are */
	uint32_t peer;	      /* 0; else the parts of this other rank alone are looked at */
	bool by_steps;	      /* the stretches are steps, of n_slow and usual ones of n_usual */
	size_t n_slow, n_usual;
	uint64_t from_ns, to_ns;
	struct blame blame;
	VEC(struct call_growth) calls;
	VEC(struct counter_change) counters;
	VEC(struct stall_growth) stalls;
	VEC(struct sender_growth) senders;
	VEC(struct disk_growth) disks;
	uint32_t saving_frame;	   /* that writes checkpoints; BLAME_NO_FRAME: none was seen */
	uint32_t collecting_frame; /* in which garbage is collected, likewise */
	double kernels_ns, usual_kernels_ns; /* that the GPU worked for it; of as much work */
	double kernels_n, usual_kernels_n;
	/* That it copied between host and GPU, and how much; of as much work. 0: no timeline. */
	double copied_ns, usual_copied_ns;
	double copied_bytes, usual_copied_bytes;
	/* The mean of calls that hand the GPU work, where they waited for room in its queue. 0:
	 * they did not. */
	double handed_ns, usual_handed_ns;
};

/* Stretches of one thread, in order of time. */
typedef VEC(struct blame_span) blame_spans_t;

/* Usual ones, which many questions may share, and whose they were. */
struct evidence_usual {
	blame_spans_t spans;
	struct blame_usual *blame;
	double long_ns; /* nine of ten of the stretches are no longer */
};

/* What evidence is of: slow stretches, which overlap with no other question's of the process that
 * has the same usual ones. */
struct evidence_question {
	blame_spans_t slow;
	const struct evidence_usual *usual;
	bool by_steps; /* the stretches are steps */

	/* While incidents are cut (incident/diagnosis_cut.c): a piece of one cause, and with the
	 * same number those of causes that came beside it. */
	uint32_t stretch;
	uint8_t beside; /* enum cause; CAUSE_UNKNOWN: the piece itself */
};

/* Answers n questions, reading the source once. each: NULL, or for each question an array of as
 * many as it has slow stretches. */
void evidence_make(struct evidence *ret, struct blame *const *each, const struct row_source *s,
		   const struct timeline *t, const struct blame_world *w,
		   const struct evidence_question *questions, size_t n);
void evidence_free(struct evidence *e);

/* What the excess is, ns. */
static inline double evidence_excess(const struct evidence *e)
{
	return e->blame.whole_ns - e->blame.usual_ns;
}

/* What the job's processes on the victim's host together send, receive or send again a second, by
 * the counter's name
 * ("net_sent_bytes"). */
struct net_rate {
	double now, usual;
};
struct net_rate evidence_net_rate(const struct evidence *e, const char *name);

/* What others than the job had of an interface that it uses, bytes a second beyond usual: where it
 * is most. *ret_name: the interface's, a string, 0: the job uses none that is known. */
double evidence_foreign_net(const struct evidence *e, uint32_t *ret_name);

/* The first event of a name in the stretches' time, or shortly before it; NULL: there is none. Of
 * GPUs' events those of GPUs that the victim may use. */
const struct m_event *evidence_event(const struct evidence *e, const char *name);
/* What goes over the link of a GPU that the victim uses, bytes a second in both directions: of that
 * where it grew most. NaN: it was not recorded. */
struct net_rate evidence_link_rate(const struct evidence *e);
/* Which process of others the use of the victim's GPU is put down to: the one that came to it as
 * the time began, 2 s before or after, or that is there alone; the event that told of it. NULL: it
 * may be one of several. */
const struct m_event *evidence_gpu_rival(const struct evidence *e);
/* Whether it is of the job. */
bool evidence_has_process(const struct evidence *e, uint32_t pid);

/* Whether a counter is of the host that the victim runs on. */
bool evidence_is_its_host(const struct evidence *e, const struct m_metric *m);

/* A counter by its name and what it is of (enum entity_kind): of processes the victim's, of GPUs
 * those that it uses, as far as that was recorded; of its host, and of a cgroup that may be its.
 * The one that differs most where there are several. NULL: there is none. */
const struct counter_change *evidence_counter(const struct evidence *e, unsigned kind,
					      const char *name);
