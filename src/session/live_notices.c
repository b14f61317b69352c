/* live_notices.c - a ring of the latest. */
#include "session/live_notices.h"

#include <stdio.h>
#include <string.h>

#define OTHER "(other)"

const struct live_notice *live_notices_at(const struct live_notices *all, uint32_t i)
{
	return &all->of[(all->first + i) % LIVE_NOTICES];
}

/* The last place is that of all others. */
static struct live_notice_count *count_of(struct live_notices *all, const char *name)
{
	for (uint32_t i = 0; i < all->counts_len; i++)
		if (!strcmp(all->counts[i].name, name))
			return &all->counts[i];
	if (all->counts_len == LIVE_NOTICES_NAMES)
		return &all->counts[LIVE_NOTICES_NAMES - 1];
	struct live_notice_count *ret = &all->counts[all->counts_len++];
	snprintf(ret->name, sizeof(ret->name), "%s",
		 all->counts_len == LIVE_NOTICES_NAMES ? OTHER : name);
	return ret;
}

void live_notices_add(struct live_notices *all, uint64_t time_ns, const char *entity,
		      const char *name, const char *text)
{
	struct live_notice *to = &all->of[(all->first + all->len) % LIVE_NOTICES];
	if (all->len == LIVE_NOTICES)
		all->first = (all->first + 1) % LIVE_NOTICES;
	else
		all->len++;
	to->time_ns = time_ns;
	snprintf(to->entity, sizeof(to->entity), "%s", entity);
	snprintf(to->name, sizeof(to->name), "%s", name);
	snprintf(to->text, sizeof(to->text), "%s", text);
	count_of(all, to->name)->n++;
}
