/* rejudge.c - learns and judges rows instead of recordings: for trying out the mixture, what a
 * score is worth, sums and anomalies where the recordings are elsewhere. Rows are JSON lines as
 * `eacgm detect --rows` writes them, a file for each recording; lab/detect/rejudge.py makes them
 * of a data set.
 *
 *   usage: rejudge -l ROWS [-l ROWS]... -o FOLDER [OPTION]... ROWS...
 *     -l ROWS     learn from these, as `eacgm learn` does from its second pass on
 *     -m MODEL    judge by this model of `eacgm learn` instead
 *     -o FOLDER   for each ROWS: its rows with what they came to, under its name, and the anomalies
 *                 under its name with .json behind
 *     -s SEED, -k COMPONENTS, -a ALARMS_PER_HOUR, -w cleaning|mixture|cusum|tail (without it)
 *     -r REGIMES  that the model knows; else the highest number that is learned from
 *
 * Prints a line of JSON for each layer that was learned. The features are taken as they are: keys,
 * what is usual for them, gaps and sizes are of the program that made the rows. The events are
 * not there, so what the judge needs them for is taken from the rows' own p: short stretches that
 * were not judged (work with new keys, the end of the recording) are not judged here. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "incident/detector.h"
#include "detect/learn.h"
#include "detect/learn_mixture.h"
#include "detect/model_file.h"
#include "detect/numbers_json.h"
#include "detect/regimes.h"
#include "detect/row_json.h"

#define WINDOW_NS 1000000000ULL
#define WARMUP_NS 5000000000ULL
#define LINE_MOST ((size_t)1 << 20)
#define SHORT_ROWS                                                                                 \
	30 /* work of a new kind, and counters that became usual, take at least so many */

static const char *const layers[] = DETECT_LAYER_NAMES;

struct told_row {
	struct feature_row row;
	double p; /* in the file; then what it came to here */
	double score;
	bool alarmed;
};

typedef VEC(struct told_row) told_rows;

struct options {
	VEC(const char *) learn;
	const char *model, *folder;
	uint64_t seed;
	uint32_t components, regimes;
	double alarms_per_hour;
	unsigned without;
};

/* ---- reading rows ---- */

static int line_read(told_rows *ret, const char *text, size_t len, struct err *e)
{
	json_error_t bad;
	json_t *o = len < LINE_MOST ? json_loadb(text, len, 0, &bad) : NULL;
	struct told_row row = {.score = NAN};
	int rc = o ? row_of_json(&row.row, &row.p, o, e) : err_set(e, EINVAL, "it is not JSON");
	json_decref(o);
	if (!rc)
		*vec_push(ret) = row;
	return rc;
}

static int by_end(const void *a, const void *b)
{
	const struct told_row *x = a, *y = b;
	uint64_t of_x = feature_row_due(&x->row, WINDOW_NS),
		 of_y = feature_row_due(&y->row, WINDOW_NS);
	if (of_x != of_y)
		return of_x < of_y ? -1 : 1;
	return feature_rows_compare(&x->row, &y->row);
}

/* All of a file, in the order in which a detector judges them. */
static int told_rows_read(told_rows *ret, const char *path, struct err *e)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, number = 0;
	int rc = f ? 0 : err_set(e, errno, "'%s': %s", path, strerror(errno));
	for (ssize_t len; !rc && (len = getline(&line, &room, f)) > 0;) {
		struct err why = {0};
		number++;
		if (line_read(ret, line, (size_t)len, &why))
			rc = err_set(e, EINVAL, "'%s', line %zu: %s", path, number, why.msg);
	}
	if (!rc && ferror(f))
		rc = err_set(e, EIO, "cannot read '%s'", path);
	free(line);
	if (f)
		fclose(f);
	if (!rc && ret->len)
		qsort(ret->data, ret->len, sizeof(*ret->data), by_end);
	return rc;
}

/* ---- learning ---- */

static bool is_of_calls(enum detect_layer l)
{
	return l == DETECT_CUDA || l == DETECT_TORCH || l == DETECT_NCCL || l == DETECT_PYTHON;
}

/* Where learning begins: with the first window after the one that the warm-up ends in. The first
 * call of work is not there, but the window that it ended in is. */
static uint64_t begin_of(const told_rows *rows)
{
	uint64_t all = UINT64_MAX, calls = UINT64_MAX, work = UINT64_MAX;
	for (size_t i = 0; i < rows->len; i++) {
		const struct feature_row *r = &rows->data[i].row;
		all = r->start_ns < all ? r->start_ns : all;
		if (is_of_calls(r->layer))
			calls = r->start_ns < calls ? r->start_ns : calls;
		if (is_of_calls(r->layer) && r->layer != DETECT_PYTHON)
			work = r->start_ns < work ? r->start_ns : work;
	}
	uint64_t first = work != UINT64_MAX ? work : calls != UINT64_MAX ? calls : all;
	return first == UINT64_MAX ? 0 : first + WARMUP_NS + WINDOW_NS;
}

typedef VEC(struct feature_row) learn_rows;

static int learn_read(learn_rows ret[DETECT_LAYERS], const char *path, struct err *e)
{
	told_rows rows = {0};
	size_t before[DETECT_LAYERS];
	int rc = told_rows_read(&rows, path, e);
	uint64_t begin = begin_of(&rows);
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		before[l] = ret[l].len;
	for (size_t i = 0; !rc && i < rows.len; i++)
		if (rows.data[i].row.start_ns >= begin)
			*vec_push(&ret[rows.data[i].row.layer]) = rows.data[i].row;
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		if (ret[l].len > before[l])
			feature_rows_sort(ret[l].data + before[l], ret[l].len - before[l]);
	vec_free(&rows);
	return rc;
}

/* Regimes that the model does not know are 0 to `eacgm learn`. */
static uint32_t regimes_settle(learn_rows rows[DETECT_LAYERS], uint32_t known)
{
	uint32_t highest = 0;
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		for (size_t i = 0; i < rows[l].len; i++) {
			uint32_t *regime = &rows[l].data[i].regime;
			if (*regime > (known ? known : REGIMES_MOST))
				*regime = 0;
			highest = *regime > highest ? *regime : highest;
		}
	return known ? known : highest;
}

static void print_layer(enum detect_layer layer, size_t rows, const struct model_mixture *m,
			const char *why)
{
	json_t *o = json_pack("{s:s, s:I}", "layer", layers[layer], "rows", (json_int_t)rows);
	if (why)
		json_object_set_new(o, "left_out", json_string(why));
	else {
		json_object_set_new(o, "components", json_integer(m->gmm.components));
		json_object_set_new(o, "cusum_ratio", real_json(m->cusum_ratio));
		json_object_set_new(o, "tail_shape", real_json(m->tail.shape));
		json_object_set_new(o, "tail_scale", real_json(m->tail.scale));
	}
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static size_t learn_layers(struct model *m, learn_rows rows[DETECT_LAYERS], const struct options *o)
{
	size_t learned = 0;
	for (enum detect_layer l = 0; l < DETECT_LAYERS; l++) {
		struct err why;
		if (!rows[l].len)
			continue;
		int rc = learn_mixture(&m->layers[l], l, rows[l].data, rows[l].len,
				       &(struct learn_mixture_options){.components = o->components,
								       .seed = o->seed,
								       .without = o->without},
				       &why);
		learned += !rc;
		print_layer(l, rows[l].len, &m->layers[l], rc ? why.msg : NULL);
	}
	return learned;
}

static int learn(struct model *m, const struct options *o, struct err *e)
{
	learn_rows rows[DETECT_LAYERS] = {0};
	int rc = 0;
	for (size_t i = 0; i < o->learn.len && !rc; i++)
		rc = learn_read(rows, o->learn.data[i], e);
	m->window_ns = WINDOW_NS;
	m->recordings = (uint32_t)o->learn.len;
	m->without = o->without;
	uint32_t regimes = rc ? 0 : regimes_settle(rows, o->regimes);
	for (uint32_t r = 0; r < regimes; r++)
		*vec_push(&m->regimes) = (struct model_regime){0};
	if (!rc && !learn_layers(m, rows, o))
		rc = err_set(e, EINVAL, "no layer could be learned");
	for (size_t l = 0; l < DETECT_LAYERS; l++)
		vec_free(&rows[l]);
	return rc;
}

/* ---- judging ---- */

struct judging {
	told_rows rows;
	size_t at;
	VEC(struct anomaly) anomalies; /* without calls; names are features' */
};

static void tell(void *ctx, const struct anomaly *a)
{
	struct judging *j = ctx;
	struct anomaly *kept =
		a->id <= j->anomalies.len ? &j->anomalies.data[a->id - 1] : vec_push(&j->anomalies);
	*kept = *a;
}

static void tell_row(void *ctx, const struct feature_row *row, double score, double p, bool alarmed)
{
	struct judging *j = ctx;
	struct told_row *t = &j->rows.data[j->at++];
	t->row.regime = row->regime;
	t->p = p;
	t->score = score;
	t->alarmed = alarmed;
}

static bool is_series(const struct feature_row *a, const struct feature_row *b)
{
	return a->layer == b->layer && a->pid == b->pid && a->gpu == b->gpu;
}

/* Has nothing known of rows that lie in short stretches without a p: they are not judged then.
 * What a detector finds by the rows themselves it has to see: the warm-up, where nothing is lost,
 * and work of a kind that the model does not know. */
static void blank_unjudged(told_rows *rows, uint32_t regimes)
{
	bool *done = xcalloc(rows->len + 1, sizeof(*done));
	for (size_t i = 0; i < rows->len; i++) {
		const struct feature_row *first = &rows->data[i].row;
		size_t stretch[SHORT_ROWS], len = 0;
		for (size_t k = i; k < rows->len && !done[i]; k++) {
			struct told_row *r = &rows->data[k];
			if (!is_series(&r->row, first))
				continue;
			if (!isnan(r->p))
				break;
			done[k] = k != i;
			if (len < SHORT_ROWS)
				stretch[len] = k;
			len++;
		}
		for (size_t k = 0; k < len && len < SHORT_ROWS; k++) {
			struct feature_row *r = &rows->data[stretch[k]].row;
			if (r->regime > regimes && r->layer != DETECT_STEP)
				continue;
			for (size_t f = 0; f < FEATURES_MOST; f++)
				r->x[f] = NAN;
		}
	}
	free(done);
}

static void judge_rows(struct judging *j, const struct model *m, const struct options *o)
{
	struct detector *d =
		detector_new(&(struct detector_options){.model = m,
							.alarms_per_hour = o->alarms_per_hour,
							.whole = true,
							.tell = tell,
							.tell_ctx = j,
							.row = tell_row});
	struct told_row *blanked = xcalloc(j->rows.len + 1, sizeof(*blanked));
	told_rows seen = {.data = blanked, .len = j->rows.len};
	if (j->rows.len)
		memcpy(blanked, j->rows.data, j->rows.len * sizeof(*blanked));
	blank_unjudged(&seen, (uint32_t)m->regimes.len);
	for (size_t i = 0; i < j->rows.len; i++) {
		const struct feature_row *row = &blanked[i].row;
		if (row->parent)
			detector_process(
				d, &(struct m_process){.pid = row->pid, .parent_pid = row->parent});
		detector_row(d, row);
	}
	detector_end(d); /* the rows are told, in the order in which they are here */
	detector_free(d);
	free(blanked);
}

/* ---- writing ---- */

static json_t *anomaly_json(const struct anomaly *a)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:s, s:I}", "id", (json_int_t)a->id, "start_ns",
			      (json_int_t)a->start_ns, "end_ns", (json_int_t)a->end_ns, "told_ns",
			      (json_int_t)a->told_ns, "layer", layers[a->layer], "windows",
			      (json_int_t)a->windows);
	json_object_set_new(o, "pid", a->pid ? json_integer(a->pid) : json_null());
	json_object_set_new(o, "gpu", a->gpu >= 0 ? json_integer(a->gpu) : json_null());
	json_object_set_new(o, "score", real_json(a->score));
	json_object_set_new(o, "p_value", real_json(a->p_value));
	json_object_set_new(o, "why", json_string(a->why));
	return o;
}

static void write_anomalies(FILE *f, const struct judging *j)
{
	json_t *o = json_object(), *list = json_array();
	for (size_t i = 0; i < j->anomalies.len; i++)
		json_array_append_new(list, anomaly_json(&j->anomalies.data[i]));
	json_object_set_new(o, "anomalies", list);
	json_dumpf(o, f, JSON_INDENT(1));
	json_decref(o);
}

static void write_rows(FILE *f, const struct judging *j)
{
	for (size_t i = 0; i < j->rows.len; i++) {
		const struct told_row *t = &j->rows.data[i];
		json_t *o = row_json(&t->row, t->score, t->p, t->alarmed);
		json_dumpf(o, f, JSON_COMPACT);
		fputc('\n', f);
		json_decref(o);
	}
}

static int write_file(const struct options *o, const char *name, const char *end,
		      void (*write)(FILE *f, const struct judging *j), const struct judging *j,
		      struct err *e)
{
	char *path = xasprintf("%s/%s%s", o->folder, name, end);
	FILE *f = fopen(path, "w");
	int rc = f ? 0 : err_set(e, errno, "'%s': %s", path, strerror(errno));
	if (f) {
		write(f, j);
		bool bad = ferror(f);
		if (fclose(f) || bad)
			rc = err_set(e, EIO, "cannot write '%s'", path);
	}
	free(path);
	return rc;
}

static int judge_file(const struct model *m, const struct options *o, const char *path,
		      struct err *e)
{
	struct judging j = {0};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int rc = told_rows_read(&j.rows, path, e);
	if (!rc) {
		judge_rows(&j, m, o);
		rc = write_file(o, name, "", write_rows, &j, e);
	}
	if (!rc)
		rc = write_file(o, name, ".json", write_anomalies, &j, e);
	vec_free(&j.rows);
	vec_free(&j.anomalies);
	return rc;
}

/* ---- the whole ---- */

static bool without_add(unsigned *without, const char *name)
{
	static const struct {
		const char *name;
		unsigned bit;
	} known[] = {{"cleaning", WITHOUT_CLEANING},
		     {"mixture", WITHOUT_MIXTURE},
		     {"cusum", WITHOUT_CUSUM},
		     {"tail", WITHOUT_TAIL}};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(name, known[i].name)) {
			*without |= known[i].bit;
			return true;
		}
	return false;
}

static bool option_take(struct options *o, int option)
{
	switch (option) {
	case 'l':
		*vec_push(&o->learn) = optarg;
		return true;
	case 'm':
		o->model = optarg;
		return true;
	case 'o':
		o->folder = optarg;
		return true;
	case 's':
		o->seed = strtoull(optarg, NULL, 10);
		return true;
	case 'k':
		o->components = (uint32_t)strtoul(optarg, NULL, 10);
		return o->components <= LEARN_MOST_COMPONENTS;
	case 'r':
		o->regimes = (uint32_t)strtoul(optarg, NULL, 10);
		return o->regimes <= REGIMES_MOST;
	case 'a':
		o->alarms_per_hour = strtod(optarg, NULL);
		return o->alarms_per_hour > 0;
	case 'w':
		return without_add(&o->without, optarg);
	default:
		return false;
	}
}

static bool options_take(struct options *o, int argc, char **argv)
{
	for (int c; (c = getopt(argc, argv, "l:m:o:s:k:r:a:w:")) != -1;)
		if (!option_take(o, c))
			return false;
	return o->folder && !o->model != !o->learn.len;
}

int main(int argc, char **argv)
{
	struct options o = {.alarms_per_hour = 1};
	struct err e = {0};
	struct model m;
	if (!options_take(&o, argc, argv)) {
		fprintf(stderr, "usage: rejudge -l ROWS... | -m MODEL -o FOLDER [-s SEED] "
				"[-k COMPONENTS] [-r REGIMES] [-a ALARMS_PER_HOUR] "
				"[-w cleaning|mixture|cusum|tail]... ROWS...\n");
		return 2;
	}
	model_init(&m);
	int rc = o.model ? model_read(&m, o.model, &e) : learn(&m, &o, &e);
	for (int i = optind; i < argc && !rc; i++)
		rc = judge_file(&m, &o, argv[i], &e);
	if (rc)
		fprintf(stderr, "rejudge: %s\n", e.msg);
	model_free(&m);
	vec_free(&o.learn);
	return rc ? 1 : 0;
}
