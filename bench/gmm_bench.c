/* gmm_bench.c - fits a mixture to a file of raw doubles, or scores them, and prints one line of
 * JSON with the parameters and what it took. Run by bench/gmm.py; knows nothing of what it is
 * compared with.
 *
 * usage: gmm_bench fit ROWS N D K full|diagonal|tied [name=value]...
 *        gmm_bench score ROWS N D K full|diagonal|tied [name=value]...
 * names: means (a file of K x D doubles), iterations, tolerance, floor, threads, starts, seed,
 * trim, repeats (score: over how many passes time is taken). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "analyze/gmm.h"
#include "base/buffer.h"

struct input {
	const char *path;
	double *rows, *means;
	size_t n;
	uint32_t d;
	unsigned repeats;
	struct gmm_options o;
};

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Exactly that many doubles of a file; ends the program where they are not there. */
static double *doubles_read(const char *path, size_t count)
{
	double *ret = xcalloc(count + 1, sizeof(*ret));
	FILE *f = fopen(path, "rb");
	if (!f || fread(ret, sizeof(*ret), count, f) != count) {
		fprintf(stderr, "gmm_bench: %s: %s\n", path, f ? "too short" : strerror(errno));
		exit(1);
	}
	fclose(f);
	return ret;
}

static bool setting_take(struct input *in, const char *text)
{
	const char *value = strchr(text, '=');
	size_t len = value ? (size_t)(value++ - text) : 0;
#define IS(name) (value && len == strlen(name) && !strncmp(text, name, len))
	if (IS("means"))
		in->means = doubles_read(value, (size_t)in->o.components * in->d);
	else if (IS("iterations"))
		in->o.iterations = (uint32_t)strtoul(value, NULL, 10);
	else if (IS("tolerance"))
		in->o.tolerance = strtod(value, NULL);
	else if (IS("floor"))
		in->o.covariance_floor = strtod(value, NULL);
	else if (IS("threads"))
		in->o.threads = (uint32_t)strtoul(value, NULL, 10);
	else if (IS("starts"))
		in->o.starts = (uint32_t)strtoul(value, NULL, 10);
	else if (IS("seed"))
		in->o.seed = strtoull(value, NULL, 10);
	else if (IS("trim"))
		in->o.trim_ratio = strtod(value, NULL);
	else if (IS("repeats"))
		in->repeats = (unsigned)strtoul(value, NULL, 10);
	else
		return false;
#undef IS
	return true;
}

static int input_read(struct input *in, int argc, char **argv)
{
	static const char *const kinds[] = GMM_COVARIANCE_NAMES;
	if (argc < 7)
		return -EINVAL;
	in->path = argv[2];
	in->n = strtoull(argv[3], NULL, 10);
	in->d = (uint32_t)strtoul(argv[4], NULL, 10);
	in->o.components = (uint32_t)strtoul(argv[5], NULL, 10);
	in->o.covariance_floor = -1;
	in->repeats = 1;
	while (in->o.covariance < GMM_COVARIANCES && strcmp(argv[6], kinds[in->o.covariance]) != 0)
		in->o.covariance++;
	for (int i = 7; i < argc; i++)
		if (!setting_take(in, argv[i]))
			return -EINVAL;
	in->o.means = in->means;
	in->rows = doubles_read(in->path, in->n * in->d);
	return 0;
}

static json_t *numbers(const double *values, size_t n)
{
	json_t *ret = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(ret, json_real(values[i]));
	return ret;
}

static long peak_bytes(void)
{
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	return use.ru_maxrss * 1024;
}

static void print_fit(const struct gmm *m, double took_s)
{
	size_t k = m->components, d = m->d;
	json_t *j = json_pack("{s:f, s:I, s:I, s:b, s:I, s:f, s:f}", "seconds", took_s,
			      "peak_bytes", (json_int_t)peak_bytes(), "iterations",
			      (json_int_t)m->iterations, "converged", m->converged, "trimmed",
			      (json_int_t)m->trimmed, "log_density", m->log_density, "bic", m->bic);
	json_object_set_new(j, "weights", numbers(m->weights, k));
	json_object_set_new(j, "means", numbers(m->means, k * d));
	json_object_set_new(j, "covariances", numbers(m->covariances, k * d * d));
	json_dumpf(j, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(j);
}

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Both densities of all rows, in time of one thread's CPU. */
static void print_scores(const struct input *in, const struct gmm *m)
{
	double *scores = xcalloc(in->n, sizeof(*scores)), sum = 0;
	uint8_t *components = xcalloc(in->n, 1);
	double began = cpu_seconds();
	for (unsigned i = 0; i < in->repeats; i++)
		gmm_likeliest(m, in->rows, in->n, scores, components);
	double likeliest = cpu_seconds();
	for (unsigned i = 0; i < in->repeats; i++)
		gmm_log_density(m, in->rows, in->n, scores);
	double density = cpu_seconds(), samples = (double)in->n * in->repeats;
	for (size_t i = 0; i < in->n; i++)
		sum += scores[i];
	printf("{\"likeliest_per_s\": %.6g, \"log_density_per_s\": %.6g, \"mean_log_density\": "
	       "%.17g}\n",
	       samples / (likeliest - began), samples / (density - likeliest), sum / (double)in->n);
	free(components);
	free(scores);
}

int main(int argc, char **argv)
{
	struct input in = {0};
	struct err e = {0};
	struct gmm m;
	if (input_read(&in, argc, argv) < 0) {
		fprintf(stderr, "usage: gmm_bench fit|score ROWS N D K full|diagonal|tied "
				"[name=value]...\n");
		return 2;
	}
	double began = seconds();
	if (gmm_fit(&m, in.rows, in.n, in.d, &in.o, &e) < 0) {
		fprintf(stderr, "gmm_bench: %s\n", e.msg);
		return 1;
	}
	if (!strcmp(argv[1], "score"))
		print_scores(&in, &m);
	else
		print_fit(&m, seconds() - began);
	gmm_free(&m);
	free(in.rows);
	free(in.means);
	return 0;
}
