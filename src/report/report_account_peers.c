/* report_account_peers.c - other processes and threads in the words of the account: by name and
 * number, for names are shared, and what they are to the job. */
#include <string.h>

#include "report/report_account.h"

static const char *kin_words(const struct report *r, const struct account_peer *p)
{
	if (p->tid)
		return "its thread ";
	switch (p->kin) {
	case KIN_CHILD:
		return "its child process ";
	case KIN_JOB:
		return rec_meta(r->tables, "command") ? "the job's process " : "";
	default:
		return "";
	}
}

/* "its child process yes (42)" */
static void say_peer(struct buf *to, const struct report *r, const struct account_peer *p)
{
	if (!p->tid && p->kin == KIN_SELF)
		buf_printf(to, "its own other threads");
	else if (p->kin == KIN_RECORDER)
		buf_printf(to, "eACGM itself (%u)", p->pid);
	else
		buf_printf(to, "%s%s (%u)", kin_words(r, p), *p->name ? p->name : "a process",
			   p->tid ? p->tid : p->pid);
}

/* "its child process cc1 (42), cc1 (43) and as (44)" */
static void say_names(struct buf *to, const struct report *r, const struct account_peers *p)
{
	uint32_t n = p->count < ACCOUNT_PEERS ? p->count : ACCOUNT_PEERS;
	for (uint32_t i = 0; i < n; i++) {
		buf_printf(to, "%s", !i ? "" : i + 1 < n ? ", " : " and ");
		if (p->top[i].tid)
			buf_printf(to, "%s (%u)", p->top[i].name, p->top[i].tid);
		else
			say_peer(to, r, &p->top[i]);
	}
}

void account_say_peers(struct buf *to, const struct report *r, const struct account_peers *p,
		       uint64_t whole_ns, const char *did)
{
	if (!p->count || p->ns * 5 < whole_ns)
		return;
	buf_printf(to, "; ");
	if (p->top[0].ns * 2 >= p->ns) {
		say_peer(to, r, &p->top[0]);
		if (p->top[0].kin == KIN_STRANGER && rec_meta(r->tables, "command"))
			buf_printf(to, ", which is not of the job,");
		buf_printf(to, " %s for %.0f %% of that", did,
			   account_percent(p->top[0].ns < whole_ns ? p->top[0].ns : whole_ns,
					   whole_ns));
		return;
	}
	buf_printf(to, "%u %s %s for %.0f %% of that, most of all ", p->count,
		   p->top[0].tid ? "of its threads" : "others", did,
		   account_percent(p->ns < whole_ns ? p->ns : whole_ns, whole_ns));
	say_names(to, r, p);
}

static const char *kin_id(enum account_kin kin)
{
	static const char *const ids[] = {[KIN_STRANGER] = "stranger",
					  [KIN_JOB] = "job",
					  [KIN_CHILD] = "child",
					  [KIN_SELF] = "self",
					  [KIN_RECORDER] = "recorder"};
	return ids[kin];
}

json_t *account_peers_json(const struct account_peers *p)
{
	json_t *list = json_array();
	for (uint32_t i = 0; i < p->count && i < ACCOUNT_PEERS; i++) {
		const struct account_peer *peer = &p->top[i];
		json_array_append_new(
			list, json_pack("{s:i,s:o,s:o,s:s,s:o}", "pid", (int)peer->pid, "tid",
					peer->tid ? report_number_json(peer->tid) : json_null(),
					"name", report_text_json(peer->name), "is",
					kin_id(peer->kin), "ns", report_number_json(peer->ns)));
	}
	return list;
}
