/* diagnosis_pace.c - whether what the walk found is what the incident was told for.
 *
 * An incident is told where the job is slower than it was learned; the walk compares its steps with
 * those before it. Where the job has become another (other steps, a learned model that is no longer
 * its own), the first may say that half of the time is lost while the second finds steps that take
 * as long as before: a cause of those few milliseconds is no cause of the incident. */
#include <math.h>

#include "incident/diagnosis_impl.h"

/* Of 72 incidents of nine recordings with faults the least was 0.34; one of a job that had been
 * exchanged had 0.006. */
#define LEAST_FOUND 0.2

double diagnosis_lost_share(const struct diagnosed *of)
{
	double length_ns = (double)(of->lost_until_ns - of->onset_ns);
	return of->lost_until_ns > of->onset_ns ? fmin(1, of->cost_ns / length_ns) : 0;
}

static bool is_compared(const struct diagnosed *in)
{
	return in->blamed && !in->beside;
}

/* What the pace lost beyond what was found is unexplained, and it is what was usual before that it
 * is not slower than. */
static void add_unexplained(struct blame *b, double lost_ns)
{
	b->unexplained_ns += lost_ns - (b->whole_ns - b->usual_ns);
	b->usual_ns = b->whole_ns - lost_ns;
}

static void withdraw(struct diagnosed *in, double share, double most_ns)
{
	double lost_ns = fmax(in->cost_ns, fmin(most_ns, share * in->evidence.blame.whole_ns));
	cause_withdraw(&in->cause, in->cost_ns, lost_ns);
	add_unexplained(&in->evidence.blame, lost_ns);
	for (size_t i = 0; i < in->steps.len; i++) {
		struct blame *b = &in->steps.data[i].blame;
		add_unexplained(b, fmax(b->whole_ns - b->usual_ns, share * b->whole_ns));
	}
	in->cost_ns = lost_ns;
}

void diagnosis_compare_pace(struct diagnosed *parts, size_t n, const struct diagnosed *of)
{
	double found_ns = 0, walked_ns = 0, share = diagnosis_lost_share(of);
	if (!of->lost_by_pace || of->aside)
		return;
	for (size_t i = 0; i < n; i++) {
		found_ns += is_compared(&parts[i]) ? parts[i].cost_ns : 0;
		walked_ns += is_compared(&parts[i]) ? parts[i].evidence.blame.whole_ns : 0;
	}
	if (found_ns >= LEAST_FOUND * share * walked_ns)
		return;
	for (size_t i = 0; i < n; i++)
		if (is_compared(&parts[i]))
			withdraw(&parts[i], share, of->cost_ns);
}
