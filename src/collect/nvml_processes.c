/* nvml_processes.c - which processes use a GPU, how much of its memory and of its time.
 *
 * Watched processes get rows of their own ("gpu 0 pid 12"). All others are one sum, since what
 * matters of them is how much they take from the job. Only processes with a compute context are
 * listed: graphics and the clients of an MPS server are not. Process ids are those of the
 * process-id namespace in which eACGM runs. */
#include <stdio.h>
#include <time.h>

#include "collect/nvml_impl.h"

/* Above that the driver's sample is known to be garbage. */
#define MAX_PERCENT 100

static bool is_watched(const struct nvml *c, uint32_t pid)
{
	for (size_t i = 0; i < c->pids.len; i++)
		if ((uint32_t)c->pids.data[i] == pid)
			return true;
	return false;
}

static void tell_pid(struct nvml *c, const struct device *d, uint32_t pid, const char *name,
		     double value)
{
	struct entity of = entity_of(d, pid);
	sink_counter(c->sink, c->now_ns, &of, name, value);
}

/* Fills c->processes; grows it once where the driver has more. */
static int list_processes(struct nvml *c, const struct device *d, uint32_t *ret_n)
{
	int rc = NVML_UNKNOWN;
	vec_reserve(&c->processes, 32);
	for (int i = 0; i < 2; i++) {
		*ret_n = (uint32_t)c->processes.cap;
		if (c->lib.DeviceGetComputeRunningProcesses_v3)
			rc = c->lib.DeviceGetComputeRunningProcesses_v3(d->handle, ret_n,
									c->processes.data);
		else
			rc = ASK(c, DeviceGetComputeRunningProcesses_v2, d->handle, ret_n,
				 c->processes.data);
		if (rc != NVML_INSUFFICIENT_SIZE)
			break;
		vec_reserve(&c->processes, *ret_n + 16);
	}
	return rc;
}

int ask_processes(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t n;
	double other_bytes = 0;
	VEC(uint32_t) others = {0};
	if (d->info.has_mig) /* its instances are asked */
		return NVML_NOT_SUPPORTED;
	int rc = list_processes(c, d, &n);
	if (rc != NVML_OK)
		return rc;
	d->on_gpu.len = 0;
	for (uint32_t i = 0; i < n; i++) {
		const struct nvml_process *p = &c->processes.data[i];
		bool known = p->used_bytes != NVML_NOT_AVAILABLE;
		if (is_watched(c, p->pid)) {
			*vec_push(&d->on_gpu) = p->pid;
			if (known)
				tell_pid(c, d, p->pid, "memory_used_bytes", (double)p->used_bytes);
		} else {
			*vec_push(&others) = p->pid;
			other_bytes += known ? (double)p->used_bytes : 0;
		}
	}
	d->no_process = !n;
	tell(c, d, "processes", n);
	tell(c, d, "other_processes", (double)others.len);
	tell(c, d, "other_memory_bytes", other_bytes);
	tell_others(c, d, others.data, others.len);
	vec_free(&others);
	return NVML_OK;
}

/* Fills c->samples with those since the last look; *ret_n 0 when there are none. */
static int list_samples(struct nvml *c, struct device *d, uint32_t *ret_n)
{
	int rc = NVML_UNKNOWN;
	vec_reserve(&c->samples, 128);
	for (int i = 0; i < 2; i++) {
		*ret_n = (uint32_t)c->samples.cap;
		rc = ASK(c, DeviceGetProcessUtilization, d->handle, c->samples.data, ret_n,
			 d->samples_seen_us);
		if (rc != NVML_INSUFFICIENT_SIZE)
			break;
		vec_reserve(&c->samples, (size_t)*ret_n + c->samples.cap);
	}
	if (rc == NVML_NOT_FOUND) {
		*ret_n = 0;
		rc = NVML_OK;
	}
	return rc;
}

struct share {
	double n, sm, memory, encoder, decoder; /* samples, and their sums in percent */
};

static void add_sample(struct share *s, const struct nvml_process_sample *v)
{
	s->n++;
	s->sm += v->sm;
	s->memory += v->memory;
	s->encoder += v->encoder;
	s->decoder += v->decoder;
}

static bool is_sound(const struct device *d, const struct nvml_process_sample *v)
{
	return v->time_us > d->samples_seen_us && v->sm <= MAX_PERCENT &&
	       v->memory <= MAX_PERCENT && v->encoder <= MAX_PERCENT && v->decoder <= MAX_PERCENT;
}

static struct share share_of(const struct nvml *c, const struct device *d, uint32_t n, uint32_t pid)
{
	struct share s = {0};
	for (uint32_t i = 0; i < n; i++)
		if (c->samples.data[i].pid == pid && is_sound(d, &c->samples.data[i]))
			add_sample(&s, &c->samples.data[i]);
	return s;
}

/* Each process' mean, so that one with more samples than another does not count for more. */
static double others_sm(const struct nvml *c, const struct device *d, uint32_t n)
{
	double sum = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t pid = c->samples.data[i].pid;
		bool counted = is_watched(c, pid);
		for (uint32_t k = 0; k < i && !counted; k++)
			counted = c->samples.data[k].pid == pid;
		if (counted)
			continue;
		struct share s = share_of(c, d, n, pid);
		if (s.n > 0)
			sum += s.sm / s.n / 100;
	}
	return sum;
}

int ask_process_utilization(struct nvml *c, struct device *d, uint64_t now_ns)
{
	(void)now_ns;
	uint32_t n;
	if (!d->samples_seen_us) {
		struct timespec t;
		clock_gettime(CLOCK_REALTIME, &t);
		d->samples_seen_us =
			(uint64_t)(t.tv_sec - 1) * 1000000 + (uint64_t)t.tv_nsec / 1000;
	}
	if (d->no_process) { /* finding out that nobody did anything takes milliseconds */
		tell(c, d, "other_sm_ratio", 0);
		return NVML_OK;
	}
	int rc = list_samples(c, d, &n);
	if (rc != NVML_OK)
		return rc;
	/* a process that is on the GPU without a sample did nothing */
	for (size_t i = 0; i < d->on_gpu.len; i++) {
		struct share s = share_of(c, d, n, d->on_gpu.data[i]);
		double whole = s.n > 0 ? s.n * 100 : 1;
		tell_pid(c, d, d->on_gpu.data[i], "sm_ratio", s.sm / whole);
		tell_pid(c, d, d->on_gpu.data[i], "memory_ratio", s.memory / whole);
		tell_pid(c, d, d->on_gpu.data[i], "encoder_ratio", s.encoder / whole);
		tell_pid(c, d, d->on_gpu.data[i], "decoder_ratio", s.decoder / whole);
	}
	tell(c, d, "other_sm_ratio", others_sm(c, d, n));
	for (uint32_t i = 0; i < n; i++)
		if (c->samples.data[i].time_us > d->samples_seen_us)
			d->samples_seen_us = c->samples.data[i].time_us;
	return NVML_OK;
}
