/* work_series.c - work over peaks. Which GPUs are a process's is what NVML tells: those on which it
 * has memory. */
#include "serve/work_series.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/flops_peak.h"
#include "base/entity.h"
#include "base/map64.h"

#define LEN(x) (sizeof(x) / sizeof((x)[0]))

static const char *const formats[FLOPS_FORMATS] = FLOPS_FORMAT_NAMES;

/* A GPU without tensor cores for float32 does TF32's work as float32. */
static double peak_of(const char *name, int format)
{
	double peak = flops_peak(name, (enum flops_format)format);
	return format == FORMAT_TF32 && peak <= 0 ? flops_peak(name, FORMAT_F32) : peak;
}

static const struct live_gpu_id *gpu_of(const struct live_series *s, uint32_t index)
{
	for (size_t i = 0; i < s->gpus.len; i++)
		if (s->gpus.data[i].index == index && s->gpus.data[i].parent < 0)
			return &s->gpus.data[i];
	return NULL;
}

struct peaks {
	double of[FLOPS_FORMATS]; /* of its GPUs together */
	bool unknown;
};

struct work_peaks {
	VEC(struct peaks) rows;
	struct map64 row_of; /* by process */
};

static bool is_memory(const struct live_series *s, const struct live_metric *m)
{
	return m->there && m->kind == ENTITY_GPU && m->pid &&
	       m->time_ns + SERIES_OLD_NS >= s->now_ns && !strcmp(m->name, "memory_used_bytes");
}

static struct peaks *row_of(struct work_peaks *p, uint32_t pid)
{
	uint64_t at;
	if (map64_get(&p->row_of, pid, &at))
		return &p->rows.data[at];
	map64_set(&p->row_of, pid, p->rows.len);
	return vec_push(&p->rows);
}

struct work_peaks *work_peaks_new(const struct live_series *s)
{
	struct work_peaks *ret = xcalloc(1, sizeof(*ret));
	for (size_t i = 0; i < s->metrics.len; i++) {
		const struct live_metric *m = &s->metrics.data[i];
		if (!is_memory(s, m))
			continue;
		struct peaks *row = row_of(ret, m->pid);
		const struct live_gpu_id *g = gpu_of(s, m->gpu);
		row->unknown |= !g || m->instance >= 0 || peak_of(g->name, FORMAT_F16) <= 0;
		for (int f = 0; f < FLOPS_FORMATS && !row->unknown; f++)
			row->of[f] += peak_of(g->name, f);
	}
	return ret;
}

void work_peaks_free(struct work_peaks *p)
{
	vec_free(&p->rows);
	map64_free(&p->row_of);
	free(p);
}

double work_series_mfu(const struct live_series *s, const struct work_peaks *peaks, uint32_t pid)
{
	double speed[FLOPS_FORMATS], ret = 0;
	uint64_t at;
	if (!map64_get(&peaks->row_of, pid, &at) || peaks->rows.data[at].unknown ||
	    !live_work_speed(&s->work, pid, s->now_ns, speed))
		return NAN;
	for (int f = 0; f < FLOPS_FORMATS; f++) {
		double peak = peaks->rows.data[at].of[f];
		if (speed[f] > 0 && peak <= 0)
			return NAN;
		ret += speed[f] > 0 ? speed[f] / peak : 0;
	}
	return ret <= 1 ? ret : NAN;
}

double work_series_speed(const struct live_series *s, uint32_t pid)
{
	double speed[FLOPS_FORMATS], ret = 0;
	if (!live_work_speed(&s->work, pid, s->now_ns, speed))
		return NAN;
	for (int f = 0; f < FLOPS_FORMATS; f++)
		ret += speed[f];
	return ret;
}

/* ---- families ---- */

static void sample_of(const struct series_sink *x, const struct live_series *s, uint32_t pid,
		      const char *key, const char *of, double value)
{
	char text[16];
	const struct live_process *p = live_series_process(s, pid);
	snprintf(text, sizeof(text), "%u", pid);
	const struct label labels[] = {{"pid", text}, {"comm", p ? p->comm : NULL}, {key, of}};
	series_sample(x, labels, key ? 3 : 2, value);
}

static void write_operations(const struct series_sink *x, const struct live_series *s)
{
	series_family(
		x, "eacgm_flops_total", FAMILY_COUNTER,
		"Floating-point operations of the calls that were seen, by what they multiply.");
	for (size_t i = 0; i < s->work.flops.len; i++)
		for (int f = 0; f < FLOPS_FORMATS; f++)
			if (s->work.flops.data[i].model[f] > 0)
				sample_of(x, s, s->work.flops.data[i].pid, "format", formats[f],
					  s->work.flops.data[i].model[f]);
	series_family(x, "eacgm_flops_unknown_calls_total", FAMILY_COUNTER,
		      "Calls that are not counted, for a shape is not known.");
	for (size_t i = 0; i < s->work.flops.len; i++)
		if (s->work.flops.data[i].unknown)
			sample_of(x, s, s->work.flops.data[i].pid, NULL, NULL,
				  (double)s->work.flops.data[i].unknown);
}

static void write_utilisation(const struct series_sink *x, const struct live_series *s)
{
	series_family(
		x, "eacgm_mfu_ratio", FAMILY_GAUGE,
		"Model FLOPs utilisation of its GPUs over the last ten seconds, or a minute.");
	struct work_peaks *peaks = work_peaks_new(s);
	for (size_t i = 0; i < s->work.flops.len; i++) {
		uint32_t pid = s->work.flops.data[i].pid;
		const struct live_process *p = live_series_process(s, pid);
		double mfu = p && !p->end_ns ? work_series_mfu(s, peaks, pid) : NAN;
		if (!isnan(mfu))
			sample_of(x, s, pid, NULL, NULL, mfu);
	}
	work_peaks_free(peaks);
}

static void write_kernels(const struct series_sink *x, const struct live_series *s)
{
	series_family(x, "eacgm_kernel_launches_total", FAMILY_COUNTER,
		      "Launches that were seen, by kernel.");
	for (size_t i = 0; i < s->work.kernels.len; i++)
		sample_of(x, s, s->work.kernels.data[i].pid, "kernel", s->work.kernels.data[i].name,
			  (double)s->work.kernels.data[i].launches);
}

static void write_peaks(const struct series_sink *x, const struct live_series *s)
{
	series_family(x, "eacgm_gpu_peak_flops", FAMILY_GAUGE,
		      "Operations a second that a GPU does at most, by its data sheet.");
	for (size_t i = 0; i < s->gpus.len; i++) {
		const struct live_gpu_id *g = &s->gpus.data[i];
		char gpu[16];
		snprintf(gpu, sizeof(gpu), "%u", g->index);
		for (int f = FORMAT_F64; f < FLOPS_FORMATS && g->parent < 0 && !g->gone; f++) {
			const struct label labels[] = {
				{"gpu", gpu}, {"uuid", g->uuid}, {"format", formats[f]}};
			double peak = flops_peak(g->name, (enum flops_format)f);
			if (peak > 0)
				series_sample(x, labels, LEN(labels), peak);
		}
	}
}

void work_series_write(const struct series_sink *x, const struct live_series *s)
{
	write_operations(x, s);
	write_utilisation(x, s);
	write_kernels(x, s);
	write_peaks(x, s);
}
