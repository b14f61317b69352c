/* changes.c - stretches of other work, and which of them are news. */
#include "incident/changes.h"

#include <stdio.h>

static const char *const words[] = {
	[CHANGE_SAVES] = "a checkpoint is saved",
	[CHANGE_SIZES] = "calls have sizes that were not learned: another batch, or other lengths",
	[CHANGE_WORK] = "another phase than was learned, or another job in the process",
};

void changes_free(struct changes *all)
{
	vec_free(&all->now);
	vec_free(&all->list);
}

static struct changing *place(struct changes *all, uint32_t pid)
{
	for (size_t i = 0; i < all->now.len; i++)
		if (all->now.data[i].pid == pid)
			return &all->now.data[i];
	struct changing *c = vec_push(&all->now);
	c->pid = pid;
	return c;
}

static struct change *known(struct changes *all, const struct changing *c)
{
	for (size_t i = 0; i < all->list.len; i++) {
		struct change *of = &all->list.data[i];
		if (of->pid == c->pid && of->kind == c->kind && of->regime == c->regime)
			return of;
	}
	return NULL;
}

static void count(struct changes *all, struct changing *c, uint64_t end_ns)
{
	struct change *of = known(all, c);
	bool is_new = !of;
	if (is_new) {
		of = vec_push(&all->list);
		*of = (struct change){.pid = c->pid,
				      .kind = c->kind,
				      .regime = c->regime,
				      .start_ns = c->start_ns};
		snprintf(of->what, sizeof(of->what), "%s", words[c->kind]);
	}
	if (!c->counted && of->times < CHANGE_SPANS)
		of->spans[of->times].start_ns = c->start_ns;
	of->times += !c->counted;
	if (of->times <= CHANGE_SPANS)
		of->spans[of->times - 1].end_ns = end_ns;
	of->windows += c->counted ? 1 : c->windows;
	of->last_ns = end_ns;
	c->counted = true;
	if (is_new && all->tell)
		all->tell(all->ctx, of);
}

static void begin(struct changing *c, enum change_kind kind, uint32_t regime, uint64_t start_ns)
{
	*c = (struct changing){.pid = c->pid, .kind = kind, .regime = regime, .start_ns = start_ns};
}

void changes_window(struct changes *all, uint32_t pid, uint64_t start_ns, uint64_t end_ns,
		    enum change_kind kind, uint32_t regime)
{
	struct changing *c = place(all, pid);
	if (kind == CHANGE_NONE) {
		if (++c->quiet >= CHANGE_APART)
			begin(c, CHANGE_NONE, 0, 0);
		return;
	}
	/* What begins with sizes may turn out to be work of another kind. */
	bool goes_on = c->kind == kind || (c->kind == CHANGE_WORK && kind == CHANGE_SIZES);
	if (!goes_on)
		begin(c, kind, kind == CHANGE_WORK ? regime : 0,
		      c->kind && !c->counted ? c->start_ns : start_ns);
	c->quiet = 0;
	c->windows++;
	if (c->windows >= CHANGE_WINDOWS || kind == CHANGE_SAVES)
		count(all, c, end_ns);
}

const char *change_line(char ret[static CHANGE_LINE_BYTES], const struct change *c)
{
	snprintf(ret, CHANGE_LINE_BYTES, "other work, pid %u: %s (by itself no anomaly)", c->pid,
		 c->what);
	return ret;
}

void changes_forget(struct changes *all, uint32_t pid)
{
	for (size_t i = 0; i < all->now.len; i++)
		if (all->now.data[i].pid == pid)
			all->now.data[i--] = all->now.data[--all->now.len];
	for (size_t i = 0; i < all->list.len; i++)
		if (all->list.data[i].pid == pid)
			all->list.data[i--] = all->list.data[--all->list.len];
}
