/* terminal.c - width, colour and progress of a terminal. */
#include "cli/terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_out.h"

static unsigned long columns_of_terminal(FILE *f)
{
	struct winsize ws;
	return isatty(fileno(f)) && !ioctl(fileno(f), TIOCGWINSZ, &ws) ? ws.ws_col : 0;
}

/* 0 unknown. What goes through a pager is read on the terminal that the sentences go to. */
static unsigned long columns_of(FILE *f)
{
	const char *columns = getenv("COLUMNS");
	if (isatty(fileno(f)))
		return columns_of_terminal(f);
	return columns ? strtoul(columns, NULL, 10) : columns_of_terminal(stderr);
}

unsigned terminal_width(FILE *f)
{
	unsigned long columns = columns_of(f);
	if (!columns)
		return 140;
	return columns < 60 ? 60 : columns > 200 ? 200 : (unsigned)columns;
}

bool terminal_colour(FILE *f)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	return isatty(fileno(f)) && !(no_color && *no_color) && !(term && !strcmp(term, "dumb"));
}

void progress_begin(struct progress *p, const char *what)
{
	*p = (struct progress){.what = what, .started_ns = monotonic_ns()};
	p->silent = !isatty(STDERR_FILENO);
}

void progress_step(struct progress *p, uint64_t done, uint64_t total)
{
	if (p->silent || !total)
		return;
	uint64_t now = monotonic_ns();
	if (now - p->started_ns < 1000000000ULL || now - p->shown_ns < 100000000ULL)
		return;
	p->shown_ns = now;
	fprintf(stderr, "\r%s: %3u %%", p->what, (unsigned)(100.0 * (double)done / (double)total));
}

void progress_end(struct progress *p)
{
	if (p->shown_ns)
		fprintf(stderr, "\r\033[K");
}

int terminal_json(json_t *o, size_t flags, struct err *e)
{
	int bad = json_out_file(o, stdout, JSON_INDENT(2) | flags);
	json_decref(o);
	putchar('\n');
	return bad ? err_set(e, EIO, "cannot write to the standard output") : 0;
}
