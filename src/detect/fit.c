/* fit.c - counts of windows that are quicker, slower or other work than a model says. */
#include "detect/fit.h"

#include "base/stats.h"

static enum fit_verdict verdict_of(const struct fit_window *w)
{
	if (w->unknown + w->resized >= FIT_OTHER)
		return w->unknown >= w->resized ? FIT_OTHER_CALLS : FIT_OTHER_SIZES;
	if (w->other_mix)
		return FIT_OTHER_CALLS;
	if (w->pace >= FIT_APART)
		return FIT_QUICKER;
	return w->pace <= 1 / FIT_APART ? FIT_SLOWER : FIT_FITS;
}

/* The last but so many. */
static const struct fit_window *window_back(const struct fit *f, uint32_t back)
{
	return &f->kept[(f->at + FIT_LATER - 1 - back) % FIT_LATER];
}

/* What so large a share of n windows says; FIT_UNKNOWN: nothing. */
static enum fit_verdict agreed(const struct fit *f, uint32_t n, double share)
{
	uint32_t counts[FIT_OTHER_CALLS + 1] = {0};
	for (uint32_t i = 0; i < n; i++)
		counts[verdict_of(window_back(f, i))]++;
	for (int v = FIT_FITS; v <= FIT_OTHER_CALLS; v++)
		if (n && counts[v] >= share * n)
			return (enum fit_verdict)v;
	return FIT_UNKNOWN;
}

/* Of a process that is new. Where half of the windows are as learned, or slow among them, it is
 * that job; where they are neither, the next windows tell. */
static enum fit_verdict first_verdict(const struct fit *f)
{
	uint32_t fitting = 0;
	enum fit_verdict nearly = agreed(f, FIT_WINDOWS, FIT_NEARLY);
	if (nearly != FIT_UNKNOWN)
		return nearly;
	for (uint32_t i = 0; i < FIT_WINDOWS; i++) {
		enum fit_verdict v = verdict_of(window_back(f, i));
		fitting += v == FIT_FITS || v == FIT_SLOWER;
	}
	return fitting * 2 > FIT_WINDOWS ? FIT_FITS : FIT_UNKNOWN;
}

/* Of one that fitted: slow work is a fault. */
static enum fit_verdict later_verdict(const struct fit *f)
{
	enum fit_verdict nearly = agreed(f, FIT_LATER, FIT_NEARLY);
	return nearly == FIT_UNKNOWN || nearly == FIT_SLOWER ? FIT_FITS : nearly;
}

void fit_add(struct fit *f, const struct fit_window *w)
{
	bool other = w->unknown + w->resized >= FIT_OTHER || w->other_mix;
	if (f->verdict > FIT_FITS || (!(w->pace > 0) && !other))
		return;
	f->kept[f->at] = *w;
	/* What fitted may do something else for long: an evaluation. */
	f->kept[f->at].other_mix &= f->verdict == FIT_UNKNOWN;
	f->at = (f->at + 1) % FIT_LATER;
	f->len += f->len < FIT_LATER;
	f->looked_at = f->verdict == FIT_UNKNOWN ? FIT_WINDOWS : FIT_LATER;
	if (f->len < f->looked_at)
		return;
	f->verdict = f->verdict == FIT_UNKNOWN ? first_verdict(f) : later_verdict(f);
}

void fit_accept(struct fit *f)
{
	f->verdict = FIT_FITS;
}

enum fit_verdict fit_leaning(const struct fit *f)
{
	if (f->verdict != FIT_UNKNOWN)
		return f->verdict;
	enum fit_verdict most = agreed(f, f->len < FIT_WINDOWS ? f->len : FIT_WINDOWS, 0.5);
	return most == FIT_UNKNOWN ? FIT_FITS : most;
}

void fit_evidence(const struct fit *f, struct fit_evidence *ret)
{
	double paces[FIT_LATER], shares[FIT_LATER];
	uint32_t n = f->looked_at < f->len ? f->looked_at : f->len;
	*ret = (struct fit_evidence){0};
	for (uint32_t i = 0; i < n; i++) {
		const struct fit_window *w = window_back(f, i);
		paces[i] = w->pace;
		shares[i] = w->unknown + w->resized;
		ret->since_ns = w->start_ns;
	}
	if (!n)
		return;
	ret->pace = stats_median(paces, n);
	ret->share = stats_median(shares, n);
}
