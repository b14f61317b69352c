/* report_account_saving.c - what would help, and how much: remedies in words, savings by
 * analyze/advice.h. Each function's head says what its saving rests on. */
#include <math.h>
#include <string.h>

#include "base/files.h"
#include "base/human.h"
#include "report/report_account.h"

#define SAVING_LEAST 50 /* one part in so many of the loop: less is not worth a line */
#define CODE_LEAST   10 /* likewise, for a function to be named */
#define SAVES_LEAST  20
#define IMPORT_LEAST 20
#define RANKS_LEAST  5 /* ranks that do the same wait for each other, too */
#define IMPORT_NS    100000000

void account_advise(struct account_state *s)
{
	const struct account_thread *main = account_main(&s->account);
	const struct account_loop *l = &s->loop;
	struct advice_loop of = {.main = main, .loop = account_subject(&s->account)};
	if (!main)
		return;
	if (s->account.has_loop && l->process && l->process->pid == main->pid) {
		of.steps = &l->process->steps.data[l->steps->first + l->slow];
		of.count = l->count;
		of.usual_ns = l->steps->median_ns;
		of.until_a_batch = l->steps->kind == STEPS_TRAINING && !l->process->from_launches;
	}
	advice_make(&s->advice, s->r->source, s->r->timeline, &of);
}

uint64_t account_saving_of(const struct account_state *s, const struct account_finding *f)
{
	const struct account_thread *of =
		f->of_run ? account_main(&s->account) : account_subject(&s->account);
	return of ? of->wall_ns : 0;
}

/* What the process's GPUs had nothing to do; UINT64_MAX: it has none. */
static uint64_t gpu_idle_ns(const struct account_state *s)
{
	uint64_t ret = UINT64_MAX;
	for (size_t i = 0; i < s->devices.list.len; i++) {
		const struct account_device *d = &s->devices.list.data[i];
		if (d->pid == account_main(&s->account)->pid && d->idle_ns < ret)
			ret = d->idle_ns;
	}
	return ret;
}

void account_saves(const struct account_state *s, struct account_finding *ret, double ns,
		   bool beside)
{
	double of_ns = (double)account_saving_of(s, ret), most = of_ns;
	if (beside)
		most = fmin(most, (double)gpu_idle_ns(s));
	ns = fmin(ns, most);
	ret->saving_ns = ns * SAVING_LEAST >= of_ns && ns >= 1 ? (uint64_t)ns : 0;
}

/* ---- numbers ---- */

static double in_all(const struct account_state *s, enum blame_kind kind)
{
	return s->advice.parts[ADVICE_LOADING].ns[kind] + s->advice.parts[ADVICE_WORKING].ns[kind];
}

/* How much longer what runs takes since others have its CPU: 1 and more. */
static double crowding(const double ns[static BLAME_KINDS])
{
	double run = ns[BLAME_RUNS] + ns[BLAME_COMPILES] + ns[BLAME_COLLECTS] + ns[BLAME_SAVES];
	double ready = ns[BLAME_NO_CPU] + ns[BLAME_RIVAL] + ns[BLAME_SIBLING];
	return run > 0 ? 1 + ready / run : 1;
}

static double other_threads_ns(const struct account_state *s)
{
	double sum = 0, whole = (double)account_main(&s->account)->wall_ns;
	for (size_t i = 0; i < s->users.threads.len; i++)
		sum += (double)s->users.threads.data[i].run_ns;
	return whole > 0 ? sum * (double)account_subject(&s->account)->wall_ns / whole : 0;
}

static double cpus_of(const struct account_state *s)
{
	const struct account_thread *th = account_subject(&s->account);
	double limit = account_cpu_limit(th);
	double cpus = th->cpus ? th->cpus : (double)report_number(s->r->tables, "cpus");
	return limit > 0 && limit < cpus ? limit : cpus;
}

/* Who had the CPU is known of waits that have rows: the others are taken to be like these. */
static double rivals_of(const struct account_state *s)
{
	const struct account_thread *th = account_subject(&s->account);
	double others = in_all(s, BLAME_RIVAL), own = in_all(s, BLAME_SIBLING);
	double part = others + own > 0 ? others / (others + own) : 0;
	return advice_rivals(cpus_of(s), (double)th->run_ns,
			     part * (double)th->ns[ACCOUNT_RUNNABLE]);
}

/* How long the loop could run, and processes of the job had its CPU. */
static double kept_ns(const struct account_state *s)
{
	double own = in_all(s, BLAME_SIBLING);
	double all = own + in_all(s, BLAME_RIVAL) + in_all(s, BLAME_NO_CPU);
	return all > 0 ? own / all * (double)account_subject(&s->account)->ns[ACCOUNT_RUNNABLE] : 0;
}

/* The other threads of the main process work evenly while there is a loop. */
static struct advice_pace pace_of(const struct account_state *s)
{
	const struct advice *a = &s->advice;
	const struct advice_sum *load = &a->parts[ADVICE_LOADING];
	double n = a->steps, wall = a->step_ns * n;
	double own_cpu = (double)account_subject(&s->account)->run_ns + other_threads_ns(s);
	if (a->workers.count) {
		const struct advice_workers *w = &a->workers;
		return (struct advice_pace){.step_ns = a->step_ns,
					    .work_ns = (wall - load->data_wall_ns) / n,
					    .work_cpu_ns = own_cpu / n,
					    .batch_ns = (w->run_ns + w->ready_ns + w->wait_ns) / n,
					    .batch_cpu_ns = w->run_ns / n,
					    .kept_ns = kept_ns(s) / n,
					    .workers = w->count,
					    .cpus = cpus_of(s),
					    .rivals = rivals_of(s)};
	}
	double batch_cpu =
		fmin(load->ns[BLAME_RUNS] + load->ns[BLAME_COMPILES] + load->ns[BLAME_COLLECTS],
		     own_cpu);
	return (struct advice_pace){.step_ns = a->step_ns,
				    .work_ns = (wall - load->wall_ns) / n,
				    .work_cpu_ns = (own_cpu - batch_cpu) / n,
				    .batch_ns = load->wall_ns / n,
				    .batch_cpu_ns = batch_cpu / n,
				    .cpus = cpus_of(s),
				    .rivals = rivals_of(s)};
}

static const char *file_name(const struct advice_place *at)
{
	return path_file_name(at->file);
}

static uint64_t loop_ns(const struct account_state *s)
{
	return account_subject(&s->account)->wall_ns;
}

static bool is_large(const struct account_state *s, double ns, unsigned part)
{
	return ns >= 1 && ns * part >= (double)loop_ns(s);
}

/* ---- loader processes ---- */

/* By the pace of advice.h: as long as work, batches and CPUs let a step be. */
void account_advise_workers(const struct account_state *s, struct account_finding *ret)
{
	if (!s->advice.steps || (!s->advice.workers.count && !s->advice.fetches))
		return;
	struct advice_pace p = pace_of(s);
	uint32_t n = advice_workers_for(&p);
	if (n <= p.workers)
		return;
	account_saves(s, ret, advice_saved_by_workers(&p, n) * s->advice.steps, false);
	snprintf(ret->remedy, REMEDY_BYTES, "num_workers=%u in its DataLoader", n);
}

/* ---- making batches ---- */

/* It takes no time then: of a batch the share that it has of the time in which the loop waited for
 * batches. */
static double saved_of_batch(const struct account_state *s, double ns, bool runs)
{
	struct advice_pace p = pace_of(s);
	double all = s->advice.parts[s->advice.batches].data_wall_ns;
	double less = all > 0 ? p.batch_ns * fmin(1, ns / all) : 0;
	return advice_saved_by_batch(&p, less, runs ? fmin(less, p.batch_cpu_ns) : 0) *
	       s->advice.steps;
}

/* The function of the job's own code that has most of what was run for batches takes no time then.
 */
uint64_t account_making_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret)
{
	const struct advice_sum *load = &s->advice.parts[s->advice.batches];
	const struct advice_place *code = s->advice.code;
	bool child = code[ADVICE_CHILD].ns > code[ADVICE_FETCH].ns;
	const struct advice_place *at = &code[child ? ADVICE_CHILD : ADVICE_FETCH];
	char time[HUMAN_BYTES];
	double ns = at->ns * crowding(child ? load->data_ns : load->ns);
	(void)th;
	if (!at->line || !s->advice.steps || !is_large(s, ns, CODE_LEAST))
		return 0;
	ret->place = *at;
	if (child)
		snprintf(ret->text, FINDING_BYTES,
			 "Of the time in which it waited for its loader processes %.0f %% went "
			 "to %s, most at %s:%u.",
			 account_percent((uint64_t)ns, (uint64_t)load->data_wall_ns), at->function,
			 file_name(at), at->line);
	else
		snprintf(ret->text, FINDING_BYTES,
			 "Its loader, which has no processes, ran %s for %s (%.0f %% of the loop's "
			 "time), most at %s:%u.",
			 at->function, human_ns(time, (uint64_t)ns),
			 account_percent((uint64_t)ns, loop_ns(s)), file_name(at), at->line);
	account_saves(s, ret, child ? saved_of_batch(s, ns, true) : ns, !child);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "make %s:%u faster, or do it once before training and keep the result",
		 file_name(at), at->line);
	return (uint64_t)ns;
}

/* Nothing has to be read from the disk then: the time in which batches waited for that, or the
 * kernel put what was read into memory. */
uint64_t account_reads_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct advice_sum *load = &s->advice.parts[ADVICE_LOADING];
	double data = load->data_ns[BLAME_DISK] + load->data_ns[BLAME_MEMORY];
	double waits = load->ns[BLAME_DISK] + load->ns[BLAME_MEMORY];
	double fills = load->fills_ns[1] * crowding(load->data_ns);
	double all = waits + fills + load->fills_ns[0] * crowding(load->ns);
	char time[HUMAN_BYTES];
	bool child = (data + fills) * 2 > all;
	(void)th;
	if (!is_large(s, waits, CODE_LEAST))
		return 0;
	ret->owner = child ? ACCOUNT_OWNERS : ACCOUNT_DISK;
	snprintf(ret->text, FINDING_BYTES,
		 "Of the time until its steps have their batches %s (%.0f %% of the loop's) were "
		 "those "
		 "reads from the disk%s: what is read was not in memory.",
		 human_ns(time, (uint64_t)all), account_percent((uint64_t)all, loop_ns(s)),
		 child ? ", in its loader processes" : "");
	account_saves(s, ret, child ? saved_of_batch(s, data + fills, false) : all, !child);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "keep the data in memory, or read it ahead of time in loader processes");
	return (uint64_t)all;
}

/* ---- the loop's own code ---- */

/* The function takes no time then. */
uint64_t account_code_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret)
{
	const struct advice_sum *work = &s->advice.parts[ADVICE_WORKING];
	const struct advice_place *at = &s->advice.code[ADVICE_LOOP];
	double ns = at->ns * crowding(work->ns);
	char time[HUMAN_BYTES];
	(void)th;
	if (!at->line || !s->advice.steps || !is_large(s, ns, CODE_LEAST))
		return 0;
	ret->place = *at;
	snprintf(ret->text, FINDING_BYTES,
		 "Its steps ran %s, code of the job's own, for %s (%.0f %% of the loop's time), "
		 "most at "
		 "%s:%u.",
		 at->function, human_ns(time, (uint64_t)ns),
		 account_percent((uint64_t)ns, loop_ns(s)), file_name(at), at->line);
	account_saves(s, ret, ns, true);
	snprintf(ret->remedy, REMEDY_BYTES, "make %s:%u faster, or do it less often", file_name(at),
		 at->line);
	return (uint64_t)ns;
}

/* Steps in which a checkpoint is written take as long as the others then, but for as many saves as
 * are two percent of the time. */
uint64_t account_saves_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct advice_saves *c = &s->advice.saves;
	char time[HUMAN_BYTES], each[HUMAN_BYTES], steps[HUMAN_BYTES], at[FINDING_BYTES / 2] = "";
	uint32_t n = s->advice.steps;
	(void)th;
	if (c->count < 2 || !is_large(s, c->ns, SAVES_LEAST))
		return 0;
	double save_ns = c->ns / c->count;
	double step_ns = ((double)loop_ns(s) - c->ns) / n;
	uint32_t every = advice_save_every(step_ns, save_ns, n);
	uint32_t left = n / every < c->count ? n / every : c->count;
	ret->place = c->at;
	if (c->at.line)
		snprintf(at, sizeof(at), " at %s:%u (%s)", file_name(&c->at), c->at.line,
			 c->at.function);
	snprintf(ret->text, FINDING_BYTES,
		 "It wrote a checkpoint%s in %u of its %s steps, which took %s longer for it each: "
		 "%s "
		 "(%.0f %% of the loop's time) in which it did not train.",
		 at, c->count, human_count(steps, n), human_ns(each, (uint64_t)save_ns),
		 human_ns(time, (uint64_t)c->ns), account_percent((uint64_t)c->ns, loop_ns(s)));
	account_saves(s, ret, save_ns * (c->count - left), false);
	snprintf(
		ret->remedy, REMEDY_BYTES,
		"save every %s steps instead of every %u, or hand a copy to a thread that saves it",
		human_count(steps, every), (n + c->count / 2) / c->count);
	return (uint64_t)c->ns;
}

/* Python's collector does not run then. */
uint64_t account_garbage_finding(const struct account_state *s, const struct account_thread *th,
				 struct account_finding *ret)
{
	double ns = in_all(s, BLAME_COLLECTS) * crowding(s->advice.parts[ADVICE_WORKING].ns);
	char time[HUMAN_BYTES];
	(void)th;
	if (!is_large(s, ns, SAVES_LEAST))
		return 0;
	snprintf(ret->text, FINDING_BYTES,
		 "Python's collector of garbage ran for %s (%.0f %% of %s): it goes through all "
		 "objects that there are.",
		 human_ns(time, (uint64_t)ns), account_percent((uint64_t)ns, loop_ns(s)),
		 account_whose(s));
	account_saves(s, ret, ns, true);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "gc.disable() before the loop, and gc.collect() where a pause does no harm");
	return (uint64_t)ns;
}

/* ---- ranks ---- */

/* All ranks are as fast as this one then. Who is late for want of a CPU has no more to do. */
uint64_t account_ranks_finding(const struct account_state *s, const struct account_thread *th,
			       struct account_finding *ret)
{
	const struct advice_peer *p = &s->advice.peer;
	char time[HUMAN_BYTES], whom[HUMAN_BYTES];
	(void)th;
	if (!s->advice.steps || !is_large(s, p->ns, RANKS_LEAST))
		return 0;
	if (p->rank >= 0)
		snprintf(whom, sizeof(whom), "rank %d (%u)", p->rank, p->pid);
	else
		snprintf(whom, sizeof(whom), "process %u", p->pid);
	snprintf(ret->text, FINDING_BYTES,
		 "It waited for %s for %s longer than that for it (%.0f %% of the loop's time).",
		 whom, human_ns(time, (uint64_t)p->ns),
		 account_percent((uint64_t)p->ns, loop_ns(s)));
	ret->at_most = true;
	account_saves(s, ret, p->ns, true);
	snprintf(ret->remedy, REMEDY_BYTES,
		 "find what %s does longer than the others; give all as much work", whom);
	return (uint64_t)p->ns;
}

/* ---- the start ---- */

/* The import takes no time then. */
uint64_t account_unused_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret)
{
	const struct advice_import *i = &s->advice.import;
	uint64_t run_ns = account_main(&s->account)->wall_ns;
	char time[HUMAN_BYTES];
	(void)th;
	if (!i->at.line || i->at.ns < IMPORT_NS || i->at.ns * IMPORT_LEAST < (double)run_ns)
		return 0;
	ret->place = i->at;
	ret->of_run = true;
	snprintf(ret->text, FINDING_BYTES,
		 "It imported %s at %s:%u for %s (%.0f %% of the run), and no sample has seen it "
		 "used.",
		 i->package, file_name(&i->at), i->at.line, human_ns(time, (uint64_t)i->at.ns),
		 account_percent((uint64_t)i->at.ns, run_ns));
	account_saves(s, ret, i->at.ns, false);
	snprintf(ret->remedy, REMEDY_BYTES, "import %s only where it is used", i->package);
	return (uint64_t)i->at.ns;
}
