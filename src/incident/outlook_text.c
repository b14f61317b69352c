/* outlook_text.c - early warnings in words: the same for report, record and watch. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "incident/outlook.h"

#define TIME_BYTES 48

static const char *const names[OUTLOOK_KINDS] = {"runs-out", "fills",	"heats",
						 "errors",   "resends", "leak"};

const char *outlook_kind_name(enum outlook_kind kind)
{
	return kind < OUTLOOK_KINDS ? names[kind] : "";
}

/* Nobody needs seconds of hours. */
static const char *time_text(char ret[static TIME_BYTES], double s)
{
	if (s < 99.5)
		snprintf(ret, TIME_BYTES, "%.0f s", s);
	else if (s < 99.5 * 60)
		snprintf(ret, TIME_BYTES, "%.0f min", s / 60);
	else
		snprintf(ret, TIME_BYTES, "%.1f h", s / 3600);
	return ret;
}

static const char *bytes_text(char ret[static HUMAN_BYTES], double v)
{
	return human_bytes(ret, v > 0 && v < 1e19 ? (uint64_t)v : 0);
}

static void memory(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w)
{
	char left[TIME_BYTES], seen[TIME_BYTES], value[HUMAN_BYTES], limit[HUMAN_BYTES],
		by[HUMAN_BYTES], more[HUMAN_BYTES], who[96] = "";
	const char *of = w->of.kind == ENTITY_GPU ? "device memory" : "memory";
	time_text(left, w->left_s);
	time_text(seen, (double)(w->now_ns - w->since_ns) / 1e9);
	bytes_text(value, w->value);
	bytes_text(limit, w->limit);
	bytes_text(by, w->per_s);
	if (w->by_pid)
		snprintf(who, sizeof(who), "; pid %u takes %s more a second", w->by_pid,
			 bytes_text(more, w->by_per_s));
	if (isnan(w->limit))
		snprintf(ret, OUTLOOK_WHAT_BYTES,
			 "%s runs out in %s: %s are left, %s fewer each second for %s%s", of, left,
			 value, by, seen, who);
	else
		snprintf(ret, OUTLOOK_WHAT_BYTES,
			 "%s runs out in %s: %s of %s are used, %s more each second for %s%s", of,
			 left, value, limit, by, seen, who);
}

static void leak(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w)
{
	char seen[TIME_BYTES], from[HUMAN_BYTES], value[HUMAN_BYTES], by[HUMAN_BYTES];
	bool minutes = w->per_s < 1e5;
	snprintf(ret, OUTLOOK_WHAT_BYTES,
		 "its %s grows steadily by %s a %s for %s, from %s to %s: a leak, if it goes on",
		 w->of.kind == ENTITY_GPU ? "device memory" : "memory",
		 bytes_text(by, w->per_s * (minutes ? 60 : 1)), minutes ? "minute" : "second",
		 time_text(seen, (double)(w->now_ns - w->since_ns) / 1e9),
		 bytes_text(from, w->from), bytes_text(value, w->value));
}

static void resends(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w)
{
	char share[64] = "", seen[TIME_BYTES];
	if (!isnan(w->share))
		snprintf(share, sizeof(share), ", %.2g %% of what it sends", w->share * 100);
	snprintf(ret, OUTLOOK_WHAT_BYTES, "TCP sends %.3g segments a second again for %s%s",
		 w->per_s, time_text(seen, (double)(w->now_ns - w->since_ns) / 1e9), share);
}

static void errors(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w)
{
	const char *what = !strcmp(w->name, "remapped_rows") ? "rows of memory were replaced"
			   : !strcmp(w->name, "ecc_uncorrected_errors")
				   ? "memory errors that could not be corrected"
				   : "memory errors, which were corrected";
	snprintf(ret, OUTLOOK_WHAT_BYTES, "new: %.0f %s (%.0f before)", w->value, what, w->from);
}

const char *outlook_what(char ret[static OUTLOOK_WHAT_BYTES], const struct outlook_warning *w)
{
	char left[TIME_BYTES], value[HUMAN_BYTES], by[HUMAN_BYTES];
	switch (w->kind) {
	case OUTLOOK_RUNS_OUT:
		memory(ret, w);
		break;
	case OUTLOOK_FILLS:
		snprintf(ret, OUTLOOK_WHAT_BYTES, "full in %s: %s are left, %s fewer each second",
			 time_text(left, w->left_s), bytes_text(value, w->value),
			 bytes_text(by, w->per_s));
		break;
	case OUTLOOK_HEATS:
		snprintf(ret, OUTLOOK_WHAT_BYTES,
			 "slows down for heat in %s: %.0f °C, %.2g °C more each minute, the limit "
			 "is %.0f °C",
			 time_text(left, w->left_s), w->value, w->per_s * 60, w->limit);
		break;
	case OUTLOOK_ERRORS:
		errors(ret, w);
		break;
	case OUTLOOK_RESENDS:
		resends(ret, w);
		break;
	case OUTLOOK_LEAK:
	case OUTLOOK_KINDS:
		leak(ret, w);
		break;
	}
	return ret;
}

const char *outlook_line(char ret[static OUTLOOK_LINE_BYTES], const struct outlook_warning *w)
{
	char what[OUTLOOK_WHAT_BYTES], who[128];
	entity_text(who, sizeof(who), &w->of);
	outlook_what(what, w);
	if (w->ended)
		snprintf(ret, OUTLOOK_LINE_BYTES, "early warning, %s: is over (%s)", who,
			 outlook_kind_name(w->kind));
	else
		snprintf(ret, OUTLOOK_LINE_BYTES, "early warning, %s: %s", who, what);
	return ret;
}
