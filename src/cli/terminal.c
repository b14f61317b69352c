/* terminal.c - width, colour and progress of a terminal. */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

unsigned terminal_width(FILE *f)
{
	struct winsize ws;
	if (!isatty(fileno(f)) || ioctl(fileno(f), TIOCGWINSZ, &ws) || !ws.ws_col)
		return 140;
	return ws.ws_col < 60 ? 60 : ws.ws_col > 200 ? 200 : ws.ws_col;
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
