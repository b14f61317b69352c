/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * args.h - fetches a call's arguments as its probe_desc says, when it begins and when it returns:
 * plain values by args_value.h, what spans several slots (dimensions, ids) or is counted by
 * args_wide.h. */
#pragma once

#include "args_value.h"
#include "args_wide.h"

/* Arguments that are known when the call begins; pointers that are to be followed at
 * return are kept as they are. */
__noinline int fetch_at_entry(struct raw_args *raw, const struct probe_desc *d, struct open_call *c)
{
	if (!raw || !d || !c)
		return 0;
	for (int i = 0; i < MAX_ARGS; i++) {
		if (i >= d->nargs)
			break;
		const struct arg_desc *a = &d->args[i];
		if (a->source == ARG_RETURN) {
			c->args[i] = 0;
			continue;
		}
		__u64 v = raw_at(raw, position_of(a));
		if (a->fetch >= FETCH_TEXT)
			v = fetch_wide(raw, a, v, c);
		else if (!a->at_return)
			v = fetch_value(a, v, &c->flags);
		c->args[i] = v;
	}
	return 0;
}

__noinline int fetch_at_return(__u64 returned, const struct probe_desc *d, struct open_call *c)
{
	if (!d || !c)
		return 0;
	for (int i = 0; i < MAX_ARGS; i++) {
		if (i >= d->nargs)
			break;
		const struct arg_desc *a = &d->args[i];
		if (a->source == ARG_RETURN) {
			__u64 v = fetch_value(a, returned, &c->flags);
			c->args[i] = v;
			if (((d->error_rule == ERROR_NONZERO && v) ||
			     (d->error_rule == ERROR_NEGATIVE && (__s64)v < 0) ||
			     (d->error_rule == ERROR_NULL && !v)) &&
			    !(d->has_except && (__s64)v == d->error_except))
				c->flags |= CALL_ERROR;
		} else if (a->fetch == FETCH_TEXT && c->args[i] & TEXT_LATER) {
			c->args[i] = fetch_text(a, c->args[i] & ~TEXT_LATER, c, true);
		} else if (a->at_return && a->fetch == FETCH_SHAPE) {
			c->args[i] = fetch_shape(a, c->args[i], &c->flags);
		} else if (a->at_return && a->fetch < FETCH_TEXT) {
			c->args[i] = fetch_value(a, c->args[i], &c->flags);
		}
	}
	if (d->begins && !(c->flags & CALL_ERROR))
		begin_counts(c->args[(d->begins - 1) & (MAX_ARGS - 1)]);
	return 0;
}
