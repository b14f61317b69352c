/* report_account_locks.c - what stands out of waits for locks: where, who ended them, and what that
 * did meanwhile. */
#include <string.h>

#include "base/human.h"
#include "report/report_account.h"

static bool is_python(const struct report *r, const struct account_thread *th)
{
	const char *path =
		th->process ? strtab_get(&r->tables->strings, th->process->command, NULL) : "";
	const char *slash = strrchr(path, '/');
	return !strncmp(slash ? slash + 1 : path, "python", 6);
}

/* All threads of Python are called python3: what they run tells them apart. */
static void say_holder(struct buf *to, const struct account_lock *lock)
{
	bool runs = lock->runs.ns &&
		    strcmp(lock->runs.function, lock->holds.ns ? lock->holds.function : "") != 0;
	if (runs || lock->holds.ns)
		buf_printf(to, "; it");
	if (runs)
		buf_printf(to, " runs %s (%s)%s", lock->runs.function, lock->runs.file,
			   lock->holds.ns ? " and" : "");
	if (lock->holds.ns)
		buf_printf(to, " was mostly at %s:%u (%s) meanwhile", lock->holds.file,
			   lock->holds.line, lock->holds.function);
}

/* "running native code (98 %), mostly in dgemm_kernel (libopenblas.so)" */
static void say_did(struct buf *to, const struct account_holder *h, bool with_function)
{
	enum account_owner most = account_largest(h->ns);
	buf_printf(to, "%s (%.0f %%)", account_owner_words(most),
		   account_percent(h->ns[most], h->wall_ns));
	if (!with_function || !h->in.ns || most >= ACCOUNT_RUNS)
		return;
	if (*h->in.function)
		buf_printf(to, ", mostly in %s (%s)", h->in.function, h->in.file);
	else if (*h->in.file)
		buf_printf(to, ", mostly in %s",
			   strcmp(h->in.file, "JIT") ? h->in.file
						     : "code that it made while it ran");
}

/* What the thread did that ended most of the waits; where that waited for locks, who ended those.
 */
static void say_chain(struct buf *to, const struct account_peers *by,
		      const struct account_lock *lock)
{
	const struct account_holder *h = lock->holders;
	uint32_t last = lock->nholders - 1;
	if (!lock->nholders || account_largest(h[last].ns) == ACCOUNT_LOCK)
		return; /* that would tell nothing */
	buf_printf(to, "; meanwhile ");
	if (by->count && by->top[0].tid == h->tid && by->top[0].ns * 2 >= by->ns)
		buf_printf(to, "that");
	else
		buf_printf(to, "%s (%u)", h->name, h->tid);
	for (uint32_t i = 0; i < last; i++)
		buf_printf(to, "%s waited for locks itself until %s (%u) woke it,",
			   i ? " which" : "", h[i + 1].name, h[i + 1].tid);
	buf_printf(to, last ? " which was " : " was ");
	say_did(to, &h[last], !lock->holds.ns);
}

static void say_lines(struct buf *to, const struct report *r, const struct account_thread *th,
		      const struct account_lock *lock)
{
	say_chain(to, &th->peers[ACCOUNT_UNLOCKERS], lock);
	if (th->peers[ACCOUNT_UNLOCKERS].count)
		say_holder(to, lock);
	if (lock->gil_ns * 2 > th->ns[ACCOUNT_LOCK])
		buf_printf(to, "; %.0f %% of it was for Python's GIL",
			   account_percent(lock->gil_ns, th->ns[ACCOUNT_LOCK]));
	if (!lock->has_waits && is_python(r, th))
		buf_printf(to, "; 'record --profile cpu,offcpu' tells the line that waited");
}

uint64_t account_lock_finding(const struct account_state *s, const struct account_thread *th,
			      struct account_finding *ret)
{
	const struct account_lock *lock = &s->account.lock;
	const struct account_peers *by = &th->peers[ACCOUNT_UNLOCKERS];
	struct buf text = {0};
	char time[HUMAN_BYTES];
	if (!account_has(th, ACCOUNT_LOCK, 10))
		return 0;
	ret->at = lock;
	ret->by = by;
	buf_printf(&text, "It waited for a lock or a condition for %.0f %% of %s (%s)",
		   account_percent(th->ns[ACCOUNT_LOCK], th->wall_ns), account_whose(s),
		   human_ns(time, th->ns[ACCOUNT_LOCK]));
	if (lock->waits.ns)
		buf_printf(&text, ", mostly at %s:%u (%s)", lock->waits.file, lock->waits.line,
			   lock->waits.function);
	account_say_peers(&text, s->r, by, th->ns[ACCOUNT_LOCK], "woke it");
	say_lines(&text, s->r, th, lock);
	buf_printf(&text, ".");
	account_finding_put(ret, &text);
	return th->ns[ACCOUNT_LOCK];
}
