/* outlet_test.c - lines for a reader who stands still: who writes never waits for him, lines come
 * whole and in order when he reads on, those that found no room are counted, and the end waits no
 * longer than told. Without that a test here does not end.
 *
 * links: cli */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/outlet.h"

#define LINE_BYTES 100
#define MOST_BYTES 50000
#define WAIT_NS	   20000000ULL

static void make_line(char ret[static LINE_BYTES + 1], unsigned number)
{
	snprintf(ret, LINE_BYTES + 1, "%-*u\n", LINE_BYTES - 1, number);
}

/* Lines from first on until one is lost; returns how many were taken. */
static unsigned fill(struct outlet *o, unsigned first)
{
	char line[LINE_BYTES + 1];
	unsigned n = first;
	uint64_t lost = o->lost;
	for (; o->lost == lost; n++) {
		make_line(line, n);
		assert_int_equal(outlet_put(o, line, LINE_BYTES), 0);
	}
	return n - 1 - first;
}

/* Reads whole lines, which are to be those from *next on, while the outlet goes on. */
static void read_lines(struct outlet *o, int fd, unsigned *next, unsigned most)
{
	char line[LINE_BYTES + 1], wanted[LINE_BYTES + 1];
	for (; most; most--, (*next)++) {
		for (size_t len = 0; len < LINE_BYTES;) {
			outlet_flush(o, 0);
			ssize_t n = read(fd, line + len, LINE_BYTES - len);
			assert_true(n > 0);
			len += (size_t)n;
		}
		line[LINE_BYTES] = 0;
		make_line(wanted, *next);
		assert_string_equal(line, wanted);
	}
}

static void stand_still_and_go_on(int fds[2])
{
	struct outlet o;
	unsigned next = 0;
	outlet_open(&o, fds[1], MOST_BYTES);
	unsigned taken = fill(&o, 0);
	assert_true(taken > MOST_BYTES / LINE_BYTES);
	assert_false(outlet_is_idle(&o));
	assert_int_equal(outlet_flush(&o, WAIT_NS), -ETIMEDOUT);
	read_lines(&o, fds[0], &next, taken);
	assert_true(outlet_is_idle(&o));
	char line[LINE_BYTES + 1];
	make_line(line, taken);
	assert_int_equal(outlet_put(&o, line, LINE_BYTES), 0);
	read_lines(&o, fds[0], &next, 1);
	assert_int_equal(outlet_close(&o, WAIT_NS), 1);
	close(fds[0]);
	close(fds[1]);
}

static void test_pipe(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	stand_still_and_go_on(fds);
}

/* Cannot be opened again: what is there is written to only where there is room. */
static void test_socket(void **state)
{
	(void)state;
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	stand_still_and_go_on((int[2]){fds[0], fds[1]});
}

/* What was not taken is counted, the line that was cut too; flags of the pipe stay as they were. */
static void test_end(void **state)
{
	(void)state;
	int fds[2];
	struct outlet o;
	char byte, before = 0;
	unsigned got = 0;
	assert_int_equal(pipe(fds), 0);
	int flags = fcntl(fds[1], F_GETFL);
	outlet_open(&o, fds[1], MOST_BYTES);
	unsigned taken = fill(&o, 0);
	uint64_t lost = outlet_close(&o, WAIT_NS);
	assert_int_equal(fcntl(fds[1], F_GETFL), flags);
	close(fds[1]);
	for (; read(fds[0], &byte, 1) == 1; before = byte)
		got += byte == '\n';
	assert_true(before == '\n' || before == ' ');
	assert_int_equal(got + lost, taken + 1);
	assert_true(lost > 1);
	close(fds[0]);
}

static void test_gone_reader(void **state)
{
	(void)state;
	int fds[2];
	struct outlet o;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	outlet_open(&o, fds[1], MOST_BYTES);
	close(fds[0]);
	assert_int_equal(outlet_put(&o, "x\n", 2), -EPIPE);
	assert_int_equal(outlet_flush(&o, WAIT_NS), -EPIPE);
	assert_int_equal(outlet_close(&o, WAIT_NS), 1);
	close(fds[1]);
}

static void test_file(void **state)
{
	(void)state;
	FILE *f = tmpfile();
	struct outlet o;
	char text[8] = "";
	assert_non_null(f);
	outlet_open(&o, fileno(f), MOST_BYTES);
	assert_int_equal(outlet_put(&o, "one\n", 4), 0);
	assert_int_equal(outlet_put(&o, "two\n", 4), 0);
	assert_true(outlet_is_idle(&o));
	assert_int_equal(outlet_close(&o, 0), 0);
	assert_int_equal(pread(fileno(f), text, sizeof(text), 0), 8);
	assert_memory_equal(text, "one\ntwo\n", 8);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe), cmocka_unit_test(test_socket),
		cmocka_unit_test(test_end),  cmocka_unit_test(test_gone_reader),
		cmocka_unit_test(test_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
