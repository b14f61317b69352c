/* refusal.c - libbpf prints the verifier's log of a program that was refused as one message
 * (libbpf.c, bpf_object_load_prog): "libbpf: prog 'NAME': -- BEGIN PROG LOAD LOG --", the log's
 * lines, "-- END PROG LOAD LOG --". The log's last line is its statistics ("processed N insns"),
 * the one before the reason. */
#include "probe/refusal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BEGIN	   "': -- BEGIN PROG LOAD LOG --\n"
#define END	   "-- END PROG LOAD LOG --"
#define STATISTICS "processed "
#define LINES_MOST 15

/* The beginning of the line that ends before end, which is behind a line's end. */
static const char *line_before(const char *begin, const char *end)
{
	const char *at = end - 1;
	while (at > begin && at[-1] != '\n')
		at--;
	return at;
}

static void copy(char *ret, size_t size, const char *begin, const char *end)
{
	snprintf(ret, size, "%.*s", (int)(end - begin), begin);
}

bool refusal_read(struct refusal *ret, const char *message)
{
	const char *name = strstr(message, "prog '");
	const char *log = name ? strstr(name, BEGIN) : NULL;
	if (!log)
		return false;
	name += strlen("prog '");
	copy(ret->program, sizeof(ret->program), name, log);
	log += strlen(BEGIN);
	const char *end = strstr(log, END);
	if (!end)
		end = log + strlen(log);
	while (end > log && end[-1] != '\n') /* a line without its end was cut */
		end--;
	ret->reason[0] = 0;
	const char *first = end;
	for (int i = 0; i < LINES_MOST && first > log; i++) {
		const char *line = line_before(log, first);
		if ((size_t)(end - line) >= sizeof(ret->lines))
			break;
		if (!ret->reason[0] && strncmp(line, STATISTICS, strlen(STATISTICS)) != 0)
			copy(ret->reason, sizeof(ret->reason), line, first - 1);
		first = line;
	}
	copy(ret->lines, sizeof(ret->lines), first, end);
	return true;
}

void refusal_settle(struct refusal *r, int rc)
{
	if (!rc || rc == -ENOMEM)
		*r = (struct refusal){0};
}
