/* agent_frozen.c - words for what became of triggers. Decides nothing: session/flight_recent.c. */
#include "cli/agent_frozen.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/agent.h"
#include "cli/agent_notes.h"

#define UTC_BYTES 32

static const char joined[] = "freeze_joined", held_off[] = "freeze_held_off";

bool agent_frozen_is_no_file(const char *name)
{
	return !strcmp(name, joined) || !strcmp(name, held_off);
}

static void say(struct agent *a, const char *name, uint64_t time_ns, const char *text)
{
	agent_say(a, text);
	agent_note(a, &(struct agent_note){
			      .time_ns = time_ns, .entity = "eacgm", .name = name, .text = text});
}

void agent_frozen_written(void *ctx, const char *path, const char *why, const struct err *failed)
{
	struct agent *a = ctx;
	char *text = failed ? xasprintf("cannot freeze (%s): %s", why, failed->msg)
			    : xasprintf("froze %s: %s", path, why);
	agent_say(a, text);
	agent_note(a, &(struct agent_note){.time_ns = monotonic_ns(),
					   .entity = "eacgm",
					   .name = failed ? "freeze_failed" : "freeze",
					   .text = failed ? failed->msg : path});
	free(text);
}

void agent_frozen_joined(void *ctx, const char *path, uint64_t time_ns, const char *why)
{
	char *text = xasprintf("%s also has %s", path, why);
	say(ctx, joined, time_ns, text);
	free(text);
}

/* Of a moment of CLOCK_MONOTONIC, rounded up: from then on is not too early. */
static void print_utc(char ret[static UTC_BYTES], uint64_t time_ns)
{
	time_t seconds = (time_t)((time_ns + realtime_offset_ns() + 999999999) / 1000000000);
	struct tm tm;
	gmtime_r(&seconds, &tm);
	strftime(ret, UTC_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm);
}

static void print_hold(struct buf *ret, const struct flight_verdict *v)
{
	char utc[UTC_BYTES];
	bool after = v->time_ns >= v->near_ns;
	uint64_t apart_ns = after ? v->time_ns - v->near_ns : v->near_ns - v->time_ns;
	switch (v->hold) {
	case FLIGHT_HOLD_SAME:
		buf_printf(ret, "%s is of the same, %.1f s %s it",
			   v->file[0] ? v->file : "another that is not written",
			   (double)apart_ns / 1e9, after ? "before" : "after");
		break;
	case FLIGHT_HOLD_MANY:
		buf_printf(ret, "as many files as may stay are as young");
		break;
	case FLIGHT_HOLD_ROOM:
		buf_printf(ret, "too many files are still to be written");
		return;
	}
	print_utc(utc, v->next_ns);
	buf_printf(ret, "; what begins at %s or later can be", utc);
}

void agent_frozen_sentence(struct buf *ret, const struct flight_verdict *v)
{
	switch (v->taken) {
	case FLIGHT_OWN:
		buf_printf(ret, "will be written");
		break;
	case FLIGHT_JOINS:
		buf_printf(ret, "belongs to a file that will be written");
		break;
	case FLIGHT_LATE:
		buf_printf(ret, "%s has it", v->file[0] ? v->file : "a file that is being written");
		break;
	case FLIGHT_HELD_OFF:
		buf_printf(ret, "held off: ");
		print_hold(ret, v);
		break;
	}
}

void agent_frozen_taken(struct agent *a, const char *why, const struct flight_verdict *v)
{
	struct buf text = {0};
	if (v->taken == FLIGHT_OWN || v->taken == FLIGHT_JOINS)
		return;
	if (v->taken == FLIGHT_LATE) {
		if (v->file[0])
			buf_printf(&text, "%s/%s", flight_folder(a->flight), v->file);
		else
			buf_printf(&text, "the file that is being written");
		buf_printf(&text, " also has %s", why);
	} else {
		buf_printf(&text, "not frozen: %s: ", why);
		agent_frozen_sentence(&text, v);
	}
	buf_byte(&text, 0);
	say(a, v->taken == FLIGHT_LATE ? joined : held_off, v->time_ns, (const char *)text.data);
	buf_free(&text);
}
