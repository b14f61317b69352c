/* watch_terminal.c - ECMA-48 control sequences that every terminal of today knows, termios, keys.
 *
 * No library: ncurses would bring its data base of terminals into a binary that is to run alone. */
#include "cli/watch_terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/outlet.h"
#include "cli/terminal.h"

#define ENTER	   "\033[?1049h\033[?25l" /* second screen, no cursor (xterm's private modes) */
#define LEAVE	   "\033[0m\033[?25h\033[?1049l"
#define HOME	   "\033[H"
#define CLEAR_LINE "\033[K" /* before its text: at the last column it would take a letter */
#define NEXT_LINE  "\r\n\033[K"
#define CLEAR_REST "\r\n\033[J"

#define SCREEN_BYTES (1u << 20)	   /* of one that the terminal has not taken yet */
#define LEAVE_NS     1000000000ULL /* that a terminal which stands still is waited for */

static struct termios before;
static struct outlet screen;
static bool entered, keys_gone, only_ascii;

bool watch_terminal_usable(void)
{
	const char *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* The rest of a screen that was not taken whole is void: LEAVE begins with an escape, which also
 * ends a control sequence that was cut. Only calls what may be called in a handler. */
static void write_leave(void)
{
	const char *p = LEAVE;
	size_t n = strlen(LEAVE);
	uint64_t now_ns, end_ns = monotonic_ns() + LEAVE_NS;
	while (n && (now_ns = monotonic_ns()) < end_ns) {
		struct pollfd fd = {.fd = screen.fd, .events = POLLOUT};
		if (poll(&fd, 1, (int)((end_ns - now_ns) / 1000000) + 1) <= 0)
			continue;
		ssize_t done = write(screen.fd, p, n);
		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return;
		p += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
}

/* Not TCSAFLUSH, which waits until the terminal has taken everything. */
static void set_terminal(const struct termios *t)
{
	tcsetattr(STDIN_FILENO, TCSANOW, t);
	tcflush(STDIN_FILENO, TCIFLUSH);
}

void watch_terminal_leave(void)
{
	if (!entered)
		return;
	entered = false;
	write_leave();
	if (isatty(STDIN_FILENO))
		set_terminal(&before);
}

/* What ends the program at once, without a way back to where the terminal was entered: it is given
 * back (write, tcsetattr: safe in handlers), and then the signal does what it would have done. */
static void give_back(int sig)
{
	int e = errno;
	watch_terminal_leave();
	errno = e;
	raise(sig);
}

static void catch_deadly(void)
{
	static const int deadly[] = {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV};
	struct sigaction sa = {.sa_handler = give_back, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
	for (size_t i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++) {
		struct sigaction old;
		if (!sigaction(deadly[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(deadly[i], &sa, NULL);
	}
}

/* Keys without echo or return; Ctrl-C stays a signal, Ctrl-Z is none: a tracer that is stopped
 * loses what comes. */
void watch_terminal_enter(void)
{
	static bool at_exit;
	setlocale(LC_CTYPE, "");
	only_ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &before)) {
		keys_gone = true;
	} else {
		struct termios raw = before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 1;
		raw.c_cc[VTIME] = 0;
		raw.c_cc[VSUSP] = _POSIX_VDISABLE;
		set_terminal(&raw);
	}
	if (!at_exit) {
		atexit(watch_terminal_leave);
		catch_deadly();
		outlet_open(&screen, STDOUT_FILENO, SCREEN_BYTES);
	}
	at_exit = entered = true;
	outlet_put(&screen, ENTER, strlen(ENTER));
}

void watch_terminal_size(struct watch_size *ret)
{
	struct winsize ws;
	*ret = (struct watch_size){.columns = 80, .rows = 24, .colour = terminal_colour(stdout)};
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) && ws.ws_col && ws.ws_row) {
		ret->columns = ws.ws_col;
		ret->rows = ws.ws_row;
	}
	ret->ascii = only_ascii;
}

void watch_terminal_show(const struct buf *lines, const struct watch_size *size)
{
	struct buf out = {0};
	unsigned row = 1;
	outlet_flush(&screen, 0);
	if (!outlet_is_idle(&screen))
		return;
	buf_add(&out, HOME CLEAR_LINE, strlen(HOME CLEAR_LINE));
	for (size_t i = 0; i < lines->len; i++) {
		if (lines->data[i] != '\n') {
			buf_byte(&out, lines->data[i]);
			continue;
		}
		row++;
		buf_add(&out, NEXT_LINE, strlen(NEXT_LINE));
	}
	if (row < size->rows)
		buf_add(&out, CLEAR_REST, strlen(CLEAR_REST));
	outlet_put(&screen, (const char *)out.data, out.len);
	buf_free(&out);
}

int watch_terminal_key(int timeout_ms)
{
	struct pollfd fd = {.fd = keys_gone ? -1 : STDIN_FILENO, .events = POLLIN};
	unsigned char key;
	if (poll(&fd, 1, timeout_ms) <= 0)
		return 0;
	ssize_t n = read(STDIN_FILENO, &key, 1);
	keys_gone |= n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
	return n == 1 ? key : 0;
}
