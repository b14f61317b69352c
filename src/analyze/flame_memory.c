/* flame_memory.c - memory by stack: what was allocated, and what is allocated at a moment. */
#include <errno.h>

#include "analyze/flame_impl.h"
#include "analyze/gpu_kept.h"
#include "analyze/gpu_ledger.h"

struct memory {
	struct flame_job *job;
	struct gpu_probes probes;
	bool in_use; /* frees and contexts count too */
};

struct worker {
	gpu_kept_t kept;
	bool torch; /* there are calls of PyTorch's allocator */
};

static bool allocates(uint8_t role)
{
	return role == GPU_ALLOC || role == GPU_VMM_CREATE || role == GPU_HOST_ALLOC ||
	       role == GPU_TORCH_ALLOC;
}

static void take(void *state, void *ctx, const struct m_call *c, uint64_t order)
{
	struct worker *w = state;
	const struct memory *m = ctx;
	const struct gpu_probe *p = &m->probes.rows[c->probe];
	bool torch = p->role == GPU_TORCH_ALLOC || p->role == GPU_TORCH_FREE;
	uint32_t pid = m->job->o->pid;
	struct gpu_kept k;
	if (!torch && (p->role < GPU_ALLOC || p->role >= GPU_PROCESS_END))
		return;
	if ((!m->in_use && !allocates(p->role)) ||
	    (pid && m->job->t->threads.data[c->thread].pid != pid))
		return;
	w->torch |= torch;
	if (gpu_keep(&k, p, c, order))
		*vec_push(&w->kept) = k;
}

/* Of the two ledgers only one is gone through: PyTorch's calls take the driver's roles. */
static bool to_level(struct gpu_kept *k, bool torch)
{
	if (torch && k->role == GPU_TORCH_ALLOC)
		k->role = GPU_ALLOC;
	else if (torch && k->role == GPU_TORCH_FREE)
		k->role = GPU_FREE;
	else if (k->role == GPU_TORCH_ALLOC || k->role == GPU_TORCH_FREE)
		return false;
	else if (torch)
		return k->role > GPU_VMM_RELEASE && k->role != GPU_HOST_ALLOC &&
		       k->role != GPU_HOST_FREE;
	return true;
}

static int choose_level(const struct memory *m, bool has_torch, bool *ret_torch, struct err *e)
{
	const struct flame_options *o = m->job->o;
	*ret_torch = o->kind != FLAME_PINNED &&
		     (o->level == FLAME_TORCH || (o->level == FLAME_AUTO && has_torch));
	if (*ret_torch && !has_torch)
		return err_set(e, ENODATA,
			       "the recording has no calls of PyTorch's caching allocator: "
			       "use '--level driver'");
	return 0;
}

static int gather(struct memory *m, gpu_kept_t *ret, struct err *e)
{
	size_t n;
	bool has_torch = false, torch;
	struct worker *workers = flame_calls(m->job, sizeof(*workers), take, m, &n);
	for (size_t i = 0; i < n; i++)
		has_torch |= workers[i].torch;
	int rc = choose_level(m, has_torch, &torch, e);
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; !rc && k < workers[i].kept.len; k++)
			if (to_level(&workers[i].kept.data[k], torch))
				*vec_push(ret) = workers[i].kept.data[k];
		vec_free(&workers[i].kept);
	}
	free(workers);
	if (m->in_use)
		gpu_kept_process_ends(ret, m->job->t, m->job->o->pid, UINT64_MAX);
	gpu_kept_sort(ret);
	return rc;
}

static uint64_t add_allocated(struct flame_job *job, const gpu_kept_t *kept)
{
	bool pinned = job->o->kind == FLAME_PINNED;
	uint64_t allocations = 0;
	for (size_t i = 0; i < kept->len; i++) {
		const struct gpu_kept *k = &kept->data[i];
		if (!allocates(k->role) || (k->role == GPU_HOST_ALLOC) != pinned || !k->v[0])
			continue;
		allocations++;
		if (flame_in_time(job, k->time_ns))
			flame_add(job, (struct flame_row){
					       .pid = job->t->threads.data[k->thread].pid,
					       .thread = k->thread,
					       .stack = k->stack,
					       .weight = (int64_t)k->v[1],
				       });
	}
	return allocations;
}

static void add_in_use(struct flame_job *job, const gpu_kept_t *kept)
{
	static const enum gpu_moment moments[] = {
		[FLAME_AT_END] = GPU_AT_END,
		[FLAME_AT_PEAK] = GPU_AT_PEAK,
		[FLAME_AT_TIME] = GPU_AT_TIME,
	};
	gpu_live_t live = {0};
	gpu_ledger_live(&live, job->t, kept, moments[job->o->at], job->at_ns);
	for (size_t i = 0; i < live.len; i++)
		if (!live.data[i].pinned)
			flame_add(job, (struct flame_row){
					       .pid = live.data[i].pid,
					       .thread = live.data[i].thread,
					       .stack = live.data[i].stack,
					       .weight = (int64_t)live.data[i].bytes,
				       });
	vec_free(&live);
}

int flame_memory(struct flame_job *job, struct err *e)
{
	struct memory m = {.job = job, .in_use = job->o->kind == FLAME_GPU_INUSE};
	gpu_kept_t kept = {0};
	gpu_probes_make(&m.probes, job->t);
	job->tree->unit = "bytes";
	int rc = gather(&m, &kept, e);
	if (!rc && m.in_use)
		add_in_use(job, &kept);
	else if (!rc && !add_allocated(job, &kept))
		rc = err_set(e, ENODATA,
			     "the recording has no such allocations: record with the layer cuda");
	if (!rc && !job->rows.len)
		rc = err_set(e, ENODATA,
			     m.in_use ? "no GPU memory that was allocated in the "
					"recording is in use then"
				      : "nothing was allocated in what was asked for");
	vec_free(&kept);
	gpu_probes_free(&m.probes);
	return rc;
}
