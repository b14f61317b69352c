/* incident_slices.c - a diagnosis as slices of a timeline. Words are those of 'eacgm diagnose'. */
#include "export/incident_slices.h"

#include <math.h>

#include "analyze/gpu_gaps.h"
#include "base/human.h"
#include "base/kernel_name.h"
#include "incident/cause_words.h"
#include "incident/diagnosis.h"
#include "incident/diagnosis_words.h"

enum {
	PARTS_SHOWN = 5,
	PIECES_MOST = 100000,
	LEAST_NS = 20000, /* of a piece */
	LOOKED_BACK = 64, /* spans that began before a piece, and may still run in it */
};

#define SMALL_SHARE 0.02 /* of the excess: parts below it are left out */

/* ---- incidents ---- */

/* Ends a text; the caller's. */
static char *text_of(struct buf *b)
{
	buf_byte(b, 0);
	return (char *)b->data;
}

static void put_text(struct anomaly_slice *s, const char *name, const char *text)
{
	if (text && text[0])
		anomaly_slice_arg(s, name, text, 0);
}

static void put_parts(struct anomaly_slice *s, const struct rec_tables *t, const struct blame *b)
{
	double excess = b->whole_ns - b->usual_ns;
	for (size_t i = 0; i < b->parts.len && i < PARTS_SHOWN; i++) {
		const struct blame_part *p = &b->parts.data[i];
		if (p->ns <= SMALL_SHARE * excess)
			break;
		struct buf words = {0};
		char name[32], ns[HUMAN_BYTES];
		snprintf(name, sizeof(name), "blame %zu", i + 1);
		buf_printf(&words, "%s, %.0f %%: ", human_ns(ns, (uint64_t)fmax(p->ns, 0)),
			   100 * p->ns / excess);
		blame_owner_words(&words, t, &p->owner);
		put_text(s, name, text_of(&words));
		buf_free(&words);
	}
}

static void put_cause(struct anomaly_slice *s, const struct rec_tables *t,
		      const struct diagnosed *in)
{
	const struct cause_found *c = &in->cause;
	put_text(s, "cause", cause_id(c->cause));
	anomaly_slice_arg(s, "confidence", NULL, c->confidence);
	if (c->runner_up != CAUSE_UNKNOWN) {
		char *text = xasprintf("%s, for %s", cause_title(c->runner_up), c->against);
		put_text(s, "less likely", text);
		free(text);
	}
	put_parts(s, t, &in->evidence.blame);
	anomaly_slice_arg(s, "unexplained_ns", NULL, in->evidence.blame.unexplained_ns);
	for (size_t i = 0; i < c->evidence_len; i++) {
		char name[32];
		snprintf(name, sizeof(name), "evidence %zu", i + 1);
		put_text(s, name, c->evidence[i]);
	}
	put_text(s, "do", cause_found_advice(c));
}

static void put_incident(struct incident_slices *ret, const struct rec_tables *t,
			 const struct diagnosed *in, size_t number)
{
	struct anomaly_slice *s = vec_push(&ret->incidents.rows);
	struct buf words = {0};
	diagnosed_words(&words, t, in);
	*s = (struct anomaly_slice){.start_ns = in->onset_ns,
				    .end_ns = in->end_ns,
				    .layer = xstrdup("incidents"),
				    .name = text_of(&words)};
	anomaly_slice_arg(s, "incident", NULL, (double)number);
	anomaly_slice_arg(s, "pid", NULL, in->pid);
	anomaly_slice_arg(s, "cost_ns", NULL, in->cost_ns);
	if (in->blamed)
		put_cause(s, t, in);
	if (in->path.left_out)
		anomaly_slice_arg(s, "path_left_out_ns", NULL, (double)in->path.left_out_ns);
}

/* ---- paths ---- */

struct path_making {
	struct incident_slices *ret;
	const struct rec_tables *t;
	const struct timeline *timeline;
	demangle_fn *demangle;
};

static uint32_t add_text(struct incident_slices *ret, struct buf *b)
{
	uint32_t number = strtab_add(&ret->texts, (const char *)b->data, b->len);
	buf_free(b);
	return number;
}

/* The first span of a process that does not begin before a time; spans are in that order. */
static size_t first_span(const struct timeline *t, uint32_t pid, uint64_t ns)
{
	size_t low = 0, n = t->spans.len;
	while (low < n) {
		size_t middle = low + (n - low) / 2;
		const struct timeline_span *s = &t->spans.data[middle];
		uint32_t of = timeline_kind_of(t, s)->pid;
		if (of > pid || (of == pid && s->start_ns >= ns))
			n = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The kernel that ran longest within a piece. */
static uint32_t kernel_of(const struct path_making *m, uint32_t pid, const struct blame_piece *p)
{
	const struct timeline *t = m->timeline;
	size_t i = first_span(t, pid, p->from_ns);
	uint64_t most = 0;
	uint32_t name = 0;
	for (i = i > LOOKED_BACK ? i - LOOKED_BACK : 0; i < t->spans.len; i++) {
		const struct timeline_span *s = &t->spans.data[i];
		const struct timeline_kind *kind = timeline_kind_of(t, s);
		if (kind->pid > pid || (kind->pid == pid && s->start_ns >= p->to_ns))
			break;
		uint64_t from_ns = s->start_ns > p->from_ns ? s->start_ns : p->from_ns;
		uint64_t to_ns = s->end_ns < p->to_ns ? s->end_ns : p->to_ns;
		if (kind->pid != pid || kind->work != WORK_KERNEL || to_ns <= from_ns ||
		    to_ns - from_ns <= most ||
		    timeline_is_collective(t, s) != (p->owner.kind == BLAME_RANKS))
			continue;
		most = to_ns - from_ns;
		name = kind->name;
	}
	return name;
}

static uint32_t kernel_text(const struct path_making *m, uint32_t name)
{
	const char *raw = strtab_get(&m->t->strings, name, NULL);
	char *readable = m->demangle ? m->demangle(raw, 0) : NULL;
	char text[KERNEL_NAME_BYTES];
	kernel_name_short(text, sizeof(text), readable ? readable : raw);
	free(readable);
	return strtab_add_z(&m->ret->texts, text);
}

static void put_path(const struct path_making *m, const struct diagnosed *in, size_t number)
{
	for (size_t i = 0; i < in->path.pieces.len; i++) {
		const struct blame_piece *p = &in->path.pieces.data[i];
		struct buf words = {0};
		blame_owner_words(&words, m->t, &p->owner);
		struct path_slice s = {.start_ns = p->from_ns,
				       .end_ns = p->to_ns,
				       .pid = in->pid,
				       .incident = (uint32_t)number,
				       .owner = add_text(m->ret, &words)};
		if (p->owner.kind == BLAME_GPU_WORKS || p->owner.kind == BLAME_RANKS) {
			uint32_t pid = m->t->threads.data[p->owner.thread].pid;
			uint32_t name = kernel_of(m, pid, p);
			s.kernel = name ? kernel_text(m, name) : 0;
		}
		*vec_push(&m->ret->path) = s;
	}
	m->ret->left_out += in->path.left_out;
	m->ret->left_out_ns += in->path.left_out_ns;
}

static int by_process_and_start(const void *a, const void *b)
{
	const struct path_slice *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void incident_slices_make(struct incident_slices *ret, const struct diagnosis *d,
			  const struct rec_tables *t, const struct timeline *timeline,
			  demangle_fn *demangle)
{
	const struct path_making m = {ret, t, timeline, demangle};
	for (size_t i = 0; i < d->incidents.len; i++) {
		put_incident(ret, t, &d->incidents.data[i], i + 1);
		put_path(&m, &d->incidents.data[i], i + 1);
	}
	if (ret->path.len)
		qsort(ret->path.data, ret->path.len, sizeof(*ret->path.data), by_process_and_start);
}

void incident_slices_free(struct incident_slices *s)
{
	anomaly_slices_free(&s->incidents);
	vec_free(&s->path);
	strtab_free(&s->texts);
}

/* ---- all of it ---- */

void judged_slices_make(struct judged_slices *ret, const struct row_source *s,
			const struct anomaly_list *list, demangle_fn *demangle)
{
	struct timeline timeline;
	struct steps steps;
	struct diagnosis d;
	anomaly_slices_make(&ret->anomalies, list);
	if (!list->rows.len)
		return;
	timeline_make(&timeline, s, &(struct timeline_options){.demangle = demangle});
	steps_make(&steps, s, NULL);
	diagnosis_make(&d, s, &timeline, &steps, list,
		       &(struct diagnosis_options){.besides = true,
						   .path_most = PIECES_MOST,
						   .path_least_ns = LEAST_NS});
	incident_slices_make(&ret->incidents, &d, s->tables, &timeline, demangle);
	diagnosis_free(&d);
	steps_free(&steps);
	timeline_free(&timeline);
}

void judged_slices_free(struct judged_slices *s)
{
	anomaly_slices_free(&s->anomalies);
	incident_slices_free(&s->incidents);
}
