/* rank_sample.c - simulates a job of several ranks. */
#include "counters.h"
#include "rank_sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <linux/types.h>

#include "gpu_sample.h"
#include "wire/event.h"

#define US     1000ULL
#define MS     1000000ULL
#define STREAM 0x70
#define BYTES  4194304ULL

/* The same numbers every time: splitmix64 of what is asked. */
static uint64_t chance(uint64_t of)
{
	of = (of + 1) * 0x9e3779b97f4a7c15ULL;
	of = (of ^ of >> 30) * 0xbf58476d1ce4e5b9ULL;
	of = (of ^ of >> 27) * 0x94d049bb133111ebULL;
	return of ^ of >> 31;
}

static uint64_t jitter(const struct rank_sample *s, unsigned step, unsigned rank, unsigned what)
{
	return s->jitter_ns ? chance((uint64_t)step << 16 | rank << 8 | what) % s->jitter_ns : 0;
}

uint64_t rank_sample_shown(const struct rank_sample_clock *c, uint64_t true_ns)
{
	int64_t since = (int64_t)true_ns - c->zero_ns;
	return (uint64_t)(since + llround((double)since * c->drift));
}

uint32_t rank_sample_pid(const struct rank_sample *s, unsigned rank)
{
	return 100 + (s->per_host ? rank % s->per_host : rank);
}

static uint64_t lateness(const struct rank_sample *s, unsigned step, unsigned rank)
{
	bool is_late = rank == s->late_rank && (!s->late_every || step % s->late_every == 0);
	return is_late ? s->late_ns : 0;
}

/* When a rank enqueues a step's collective. Steps vary in length, on all ranks alike. */
static uint64_t enqueued(const struct rank_sample *s, unsigned step, unsigned rank)
{
	return RANK_SAMPLE_T0 + step * s->step_ns + chance(step) % (s->step_ns / 4) +
	       jitter(s, step, rank, 0) + lateness(s, step, rank);
}

static uint64_t begun(const struct rank_sample *s, unsigned step, unsigned rank)
{
	return enqueued(s, step, rank) + 10 * US + jitter(s, step, rank, 1);
}

static uint64_t ended(const struct rank_sample *s, unsigned step, unsigned rank)
{
	uint64_t last = 0;
	for (unsigned r = 0; r < s->ranks; r++)
		last = begun(s, step, r) > last ? begun(s, step, r) : last;
	return last + s->transfer_ns + jitter(s, step, rank, 2);
}

static void put_metas(struct rec_writer *w, const struct rank_sample *s, unsigned rank)
{
	const struct rank_sample_clock *c = &s->clocks[rank];
	char text[64];
	uint64_t end = RANK_SAMPLE_T0 + s->steps * s->step_ns + s->tail_ns - s->cut_ns[rank];
	rec_put_meta(w, "host", c->host);
	if (c->boot)
		rec_put_meta(w, "boot_id", c->boot);
	snprintf(text, sizeof(text), "%" PRId64, c->zero_ns + c->realtime_error_ns);
	rec_put_meta(w, "realtime_offset_ns", text);
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)rank_sample_shown(c, RANK_SAMPLE_T0 - MS));
	rec_put_meta(w, "start_monotonic_ns", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)rank_sample_shown(c, end));
	rec_put_meta(w, "end_monotonic_ns", text);
}

static void put_process(struct rec_writer *w, const struct rank_sample *s, unsigned rank)
{
	uint32_t pid = rank_sample_pid(s, rank), comm = rec_string_z(w, "python3");
	const struct rank_sample_clock *c = &s->clocks[rank];
	rec_put_process(w,
			&(struct m_process){.pid = pid,
					    .comm = comm,
					    .start_ns = rank_sample_shown(c, RANK_SAMPLE_T0 - MS),
					    .rank = -1});
	rec_add_thread(w, &(struct m_thread){pid, pid, comm});
	rec_put_comm(w, &(struct m_comm){.pid = pid,
					 .rank = (int32_t)rank,
					 .size = (int32_t)s->ranks,
					 .device = (int32_t)(rank % 2),
					 .handle = 0x5500 + rank,
					 .hash = s->no_hash ? 0 : 0xabcdef01,
					 .start_ns = rank_sample_shown(c, RANK_SAMPLE_T0 - MS)});
}

static void put_call(struct rec_writer *w, uint32_t thread, enum gpu_sample_probe probe,
		     const struct rank_sample_clock *c, uint64_t start, uint64_t dur, uint8_t depth,
		     const uint64_t *args)
{
	uint64_t from = rank_sample_shown(c, start);
	gpu_sample_call_full(w, thread, probe, from, rank_sample_shown(c, start + dur) - from, args,
			     depth, 0, 0);
}

/* One collective of one rank: the launch inside of the call, and the kernel. */
static void put_step(struct rec_writer *w, const struct rank_sample *s, unsigned rank,
		     uint32_t thread, unsigned step, uint64_t kernel)
{
	const struct rank_sample_clock *c = &s->clocks[rank];
	uint64_t at = enqueued(s, step, rank);
	/* two sizes in turn and now and then a third, as layers have */
	uint64_t bytes = BYTES << (step % 2) << (step % 7 == 3);
	if (s->other_bytes && rank == s->other_rank && step == s->other_step)
		bytes = s->other_bytes;
	bool lost = rank == s->lost_rank && step + s->lost >= s->steps;
	if (!lost)
		put_call(w, thread, GS_LAUNCH, c, at + 2 * US, 3 * US, 1,
			 (const uint64_t[8]){kernel, dim3_pack(24, 1, 1), dim3_pack(512, 1, 1),
					     STREAM});
	if (!lost)
		put_call(w, thread, GS_ALL_REDUCE, c, at, 8 * US, 0,
			 (const uint64_t[8]){bytes, bytes / 4, 7, 0, 0x5500 + rank, STREAM,
					     step - s->missed[rank]});
	if (s->no_spans || step < s->spans_from || (s->missing && step + s->missing >= s->steps))
		return; /* what does not end has no span */
	rec_put_gpu_span(
		w, &(struct m_gpu_span){.start_ns = rank_sample_shown(c, begun(s, step, rank)),
					.end_ns = rank_sample_shown(c, ended(s, step, rank)),
					.pid = rank_sample_pid(s, rank),
					.device = (int32_t)(rank % 2),
					.stream = 7,
					.correlation = 10 + step,
					.name = (uint32_t)kernel,
					.grid = dim3_pack(24, 1, 1),
					.block = dim3_pack(512, 1, 1)});
}

/* What the threads did at the end: waiting in one function, or sleeping in another. */
static void put_samples(struct rec_writer *w, const struct rank_sample *s, unsigned rank,
			uint32_t thread)
{
	bool sleeps = s->missing && rank == s->missing_rank;
	struct m_frame main = {.kind = FRAME_PYTHON,
			       .name = rec_string_z(w, "main"),
			       .file = rec_string_z(w, "/job/train.py"),
			       .line = 10};
	struct m_frame leaf = {.kind = FRAME_PYTHON,
			       .name = rec_string_z(w, sleeps ? "load_batch" : "all_reduce"),
			       .file = rec_string_z(w, "/job/train.py"),
			       .line = sleeps ? 20 : 30};
	uint32_t root = rec_add_stack(w, &(struct m_stack){0, rec_add_frame(w, &main)});
	uint32_t stack = rec_add_stack(w, &(struct m_stack){root, rec_add_frame(w, &leaf)});
	rec_put_sample(w, &(struct m_sample){
				  .time_ns = rank_sample_shown(
					  &s->clocks[rank], RANK_SAMPLE_T0 + s->steps * s->step_ns),
				  .weight_ns = 10 * MS,
				  .thread = thread,
				  .stack = stack,
				  .waker_tid = rank_sample_pid(s, rank)});
	char entity[64];
	snprintf(entity, sizeof(entity), "GPU-%s-%u", s->clocks[rank].host, rank % 2);
	rec_put_gpu(w, &(struct m_gpu){.index = rank % 2,
				       .parent = -1,
				       .uuid = rec_string_z(w, entity),
				       .name = rec_string_z(w, "NVIDIA H200")});
	snprintf(entity, sizeof(entity), "gpu %u pid %u", rank % 2, rank_sample_pid(s, rank));
	put_counter_of(w, rank_sample_shown(&s->clocks[rank], RANK_SAMPLE_T0), entity,
		       "memory_used_bytes", 1e9 * (rank + 1));
}

int rank_sample_write(const char *path, const struct rank_sample *s, unsigned ranks, struct err *e)
{
	struct rec_writer *w = NULL;
	int rc = rec_writer_open(&w, path, NULL, e);
	if (rc)
		return rc;
	gpu_sample_probes(w);
	uint32_t thread = 0;
	uint64_t kernel = rec_string_z(w, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
	for (unsigned rank = 0; rank < s->ranks; rank++) {
		if (!(ranks >> rank & 1))
			continue;
		if (!thread)
			put_metas(w, s, rank);
		put_process(w, s, rank);
		unsigned steps =
			s->missing && rank == s->missing_rank ? s->steps - s->missing : s->steps;
		for (unsigned step = s->missed[rank]; step < steps; step++)
			if (step * s->step_ns + s->cut_ns[rank] <
			    s->steps * s->step_ns + s->tail_ns)
				put_step(w, s, rank, thread, step, kernel);
		put_samples(w, s, rank, thread);
		thread++;
	}
	return rec_writer_close(w, false, e);
}
