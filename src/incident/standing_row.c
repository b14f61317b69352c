/* standing_row.c - what stands still, in words and as a row of an incident. */
#include <string.h>

#include "base/human.h"
#include "incident/cause_words.h"
#include "incident/standing.h"

static uint32_t take_text(struct incident_texts *t, struct buf *b)
{
	buf_byte(b, 0);
	uint32_t ret = 0;
	if (b->len > 1 && t->len < INCIDENT_TEXTS_MOST) {
		t->of[t->len++] = xstrdup((const char *)b->data);
		ret = (uint32_t)t->len;
	}
	buf_free(b);
	return ret;
}

static uint32_t text(struct incident_texts *t, const char *s)
{
	struct buf b = {0};
	buf_printf(&b, "%s", s);
	return take_text(t, &b);
}

static void name_words(struct buf *b, const struct standing_process *p, const struct rec_tables *t)
{
	if (p->rank >= 0)
		buf_printf(b, "rank %d (%u)", p->rank, p->pid);
	else
		buf_printf(b, "%s (%u)", strtab_get(&t->strings, p->comm, NULL), p->pid);
}

static const char *wait_words(enum wait_reason reason)
{
	static const char *const words[WAIT_REASONS] = {
		[WAIT_FUTEX] = "waits for a lock",
		[WAIT_DISK] = "waits for a disk",
		[WAIT_PAGE_FAULT] = "waits for pages of memory",
		[WAIT_NETWORK] = "waits for the network",
		[WAIT_POLL] = "waits for events",
		[WAIT_PIPE] = "waits for a pipe",
		[WAIT_SLEEP] = "sleeps",
		[WAIT_GPU] = "waits for the GPU",
		[WAIT_STOPPED] = "is stopped",
		[WAIT_SIGNAL] = "waits for a signal",
	};
	return reason < WAIT_REASONS && words[reason] ? words[reason] : "waits";
}

/* "the job stands still: rank 1 (681) sleeps, 3 others wait". */
static void headline(struct buf *b, const struct standing *s, const struct rec_tables *t)
{
	size_t others = s->processes.len - 1;
	bool stopped = s->culprit && s->culprit->reason == WAIT_STOPPED;
	buf_printf(b, "%s: ", stopped ? cause_title(CAUSE_STOPPED) : "the job stands still");
	name_words(b, s->culprit ? s->culprit : s->processes.data[0], t);
	if (!s->culprit && others)
		buf_printf(b, " and %zu other%s make no calls", others, others == 1 ? "" : "s");
	else if (!stopped)
		buf_printf(
			b, " %s",
			wait_words(s->culprit ? s->culprit->reason : s->processes.data[0]->reason));
	if (s->culprit && others)
		buf_printf(b, ", %zu other%s", others, others == 1 ? " waits" : "s wait");
}

static uint32_t evidence(struct incident_texts *texts, const struct standing *s,
			 const struct standing_process *p, const struct rec_tables *t)
{
	struct buf b = {0};
	char quiet[HUMAN_BYTES], usual[HUMAN_BYTES];
	name_words(&b, p, t);
	buf_printf(&b, " %s: no call for %s, its steps take %s", wait_words(p->reason),
		   human_ns(quiet, s->now_ns - p->since_ns), human_ns(usual, p->median_ns));
	return take_text(texts, &b);
}

const struct standing_process *standing_victim(const struct standing *s, uint32_t pid)
{
	const struct standing_process *ret = NULL;
	for (size_t i = 0; i < s->processes.len; i++) {
		const struct standing_process *p = s->processes.data[i];
		if (p != s->culprit && (!ret || p->pid == pid))
			ret = p;
	}
	return ret ? ret : s->culprit;
}

static void put_culprit(struct m_incident *ret, struct incident_texts *texts,
			const struct standing_process *p, const struct rec_tables *t)
{
	ret->culprit_pid = p->pid;
	ret->culprit = text(texts, strtab_get(&t->strings, p->comm, NULL));
	ret->culprit_kind = text(texts, culprit_kind_id(CULPRIT_RANK));
	ret->culprit_rank = (uint32_t)(p->rank + 1);
}

void standing_to_row(struct m_incident *ret, struct incident_texts *ret_texts,
		     const struct standing *s, const struct rec_tables *t, uint32_t victim_pid)
{
	bool stopped = s->culprit && s->culprit->reason == WAIT_STOPPED;
	double cost_ns = (double)(s->now_ns - s->since_ns);
	struct buf what = {0};
	size_t n = 0;
	*ret_texts = (struct incident_texts){0};
	*ret = (struct m_incident){.onset_ns = s->since_ns,
				   .end_ns = s->now_ns,
				   .pid = standing_victim(s, victim_pid)->pid,
				   .confidence = 1,
				   .cost_ns = cost_ns,
				   .unexplained_ns = cost_ns};
	ret->cause = text(ret_texts, cause_id(stopped ? CAUSE_STOPPED : CAUSE_HANG));
	headline(&what, s, t);
	ret->what = take_text(ret_texts, &what);
	if (s->culprit && s->processes.len > 1)
		put_culprit(ret, ret_texts, s->culprit, t);
	if (s->culprit)
		ret->evidence[n++] = evidence(ret_texts, s, s->culprit, t);
	for (size_t i = 0; i < s->processes.len && n < MODEL_INCIDENT_TEXTS; i++)
		if (s->processes.data[i] != s->culprit)
			ret->evidence[n++] = evidence(ret_texts, s, s->processes.data[i], t);
}
