/* report_account_cpu.c - the CPUs in the account: who used them, and who had them while the main
 * thread could run. */
#include <inttypes.h>

#include "base/human.h"
#include "report/report_account.h"

#define USERS_NAMED    4
#define THREADS_LEAST  20 /* one part in so many of the main thread's time */
#define RUNNABLE_LEAST 20 /* likewise */
#define USER_LEAST     50 /* one part in so many of a CPU */
#define PEERS_TELL     5 /* one part in so many of the time: else that of the waits that have rows */
#define SHORT_NS       50000

/* "python3 × 2", "pt_autograd_0 (42)" */
static void say_user(struct buf *to, const struct account_user *u)
{
	char count[HUMAN_BYTES];
	buf_printf(to, "%s", *u->name ? u->name : "without a name");
	if (u->count == 1)
		buf_printf(to, " (%u)", u->id);
	else if (!u->busy || u->busy == u->count)
		buf_printf(to, " × %s", human_count(count, u->count));
	else
		buf_printf(to, u->busy == 1 ? " (%u) of %s" : " × %u of %s",
			   u->busy == 1 ? u->id : u->busy, human_count(count, u->count));
}

void account_say_threads(const struct page *p, const struct account_state *s)
{
	uint64_t least_ns = account_main(&s->account)->wall_ns / THREADS_LEAST;
	struct buf line = {0};
	char run[HUMAN_BYTES];
	for (size_t i = 0; i < s->users.threads.len && i < USERS_NAMED; i++) {
		const struct account_user *u = &s->users.threads.data[i];
		if (u->run_ns < least_ns || !u->run_ns)
			break;
		buf_printf(&line, "%s", i ? ", " : "its other threads: ");
		say_user(&line, u);
		buf_printf(&line, ": %s%s", human_ns(run, u->run_ns), i ? "" : " on the CPU");
	}
	if (line.len) {
		buf_byte(&line, 0);
		page_wrapped(p, 0, 4, "%s", (char *)line.data);
	}
	buf_free(&line);
}

static double cpus_of(const struct account_state *s, uint64_t run_ns)
{
	return s->r->duration_ns ? (double)run_ns / (double)s->r->duration_ns : 0;
}

void account_say_cpus(const struct page *p, const struct account_state *s)
{
	const struct account_thread *th = account_subject(&s->account);
	uint64_t cpus = report_number(s->r->tables, "cpus");
	bool all = account_is_whole_host(s->r);
	struct buf line = {0};
	if (!cpus || s->r->tables->sources.len > 1 || /* older recordings: more than there were */
	    cpus_of(s, s->users.run_ns) > (double)cpus ||
	    (!all && th->ns[ACCOUNT_RUNNABLE] * RUNNABLE_LEAST < th->wall_ns))
		return;
	if (all)
		buf_printf(&line, "%" PRIu64 " CPUs: %.2f busy on average", cpus,
			   cpus_of(s, s->users.run_ns));
	else
		buf_printf(&line, "%" PRIu64 " CPUs: what was recorded used %.2f on average", cpus,
			   cpus_of(s, s->users.run_ns));
	for (size_t i = 0; i < s->users.programs.len && i < USERS_NAMED; i++) {
		const struct account_user *u = &s->users.programs.data[i];
		if (cpus_of(s, u->run_ns) * USER_LEAST < 1)
			break;
		buf_printf(&line, "%s", i ? ", " : ": ");
		say_user(&line, u);
		buf_printf(&line, " %.2f", cpus_of(s, u->run_ns));
	}
	buf_byte(&line, 0);
	page_wrapped(p, 0, 4, "%s", (char *)line.data);
	buf_free(&line);
}

static json_t *list_json(const struct account_user *users, size_t n)
{
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:o,s:o,s:o,s:o}", "name",
						      report_text_json(users[i].name), "count",
						      report_number_json(users[i].count), "id",
						      report_number_json(users[i].id), "running_ns",
						      report_number_json(users[i].run_ns)));
	return list;
}

json_t *account_users_json(const struct account_state *s)
{
	return json_pack("{s:o,s:o}", "programs",
			 list_json(s->users.programs.data, s->users.programs.len), "other_threads",
			 list_json(s->users.threads.data, s->users.threads.len));
}

/* "; it may use 1 of 16 CPUs", "; its cgroup may use 0.5 CPUs at once": why there are so few. */
static void say_limits(struct buf *to, const struct report *r, const struct account_thread *th)
{
	uint64_t all = report_number(r->tables, "cpus");
	double limit = account_cpu_limit(th);
	if (th->cpus && th->cpus < all)
		buf_printf(to, "; it may use %u of %" PRIu64 " CPUs", th->cpus, all);
	if (limit > 0 && (!all || limit < (double)all))
		buf_printf(to, "; its cgroup may use %.3g CPU%s at once", limit,
			   limit <= 1 ? "" : "s");
}

/* Most waits for a CPU may be too short for a row: those that have one are told of as such. */
static void say_rivals(struct buf *to, const struct account_state *s,
		       const struct account_thread *th)
{
	const struct account_peers *by = &th->peers[ACCOUNT_RIVALS];
	uint64_t all_ns = th->ns[ACCOUNT_RUNNABLE];
	char time[HUMAN_BYTES], count[HUMAN_BYTES];
	if (by->ns * PEERS_TELL >= all_ns) {
		account_say_peers(to, s->r, by, all_ns, "had it");
		return;
	}
	if (!s->account.has_loop && th->waits && all_ns / th->waits < SHORT_NS)
		buf_printf(to, "; that is %s after each of its %s waits, about what waking takes",
			   human_ns(time, all_ns / th->waits), human_count(count, th->waits));
	if (!by->count)
		return;
	buf_printf(to, "; %s of it were in waits of 0.2 ms and longer", human_ns(time, by->ns));
	account_say_peers(to, s->r, by, by->ns, "had it");
}

uint64_t account_no_cpu_finding(const struct account_state *s, const struct account_thread *th,
				struct account_finding *ret)
{
	struct buf text = {0};
	char time[HUMAN_BYTES];
	if (!account_has(th, ACCOUNT_RUNNABLE, 10))
		return 0;
	ret->by = &th->peers[ACCOUNT_RIVALS];
	buf_printf(&text, "It was ready to run, but had no CPU for %.0f %% of %s (%s)",
		   account_percent(th->ns[ACCOUNT_RUNNABLE], th->wall_ns), account_whose(s),
		   human_ns(time, th->ns[ACCOUNT_RUNNABLE]));
	say_rivals(&text, s, th);
	say_limits(&text, s->r, th);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_RUNNABLE];
}
