/* kept_file.c - see kept_file.h. What is read is the kernel's, but bounded all the same: /proc/stat
 * has a number for each interrupt, and in a container it may be anybody's file. */
#include "collect/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "collect/collector.h"

#define ROOM_LEAST 4096u

void kept_file_set(struct kept_file *f, const char *folder, const char *name)
{
	f->path = xasprintf("%s/%s", folder, name);
}

static void close_file(struct kept_file *f)
{
	if (f->fd)
		close(f->fd - 1);
	f->fd = 0;
}

/* Until the end of the file, or until there is no room for more. */
static ssize_t read_all(struct kept_file *f)
{
	size_t len = 0;
	for (;;) {
		if (len + 1 >= f->room && f->room < KEPT_FILE_MOST) {
			f->room = f->room ? f->room * 2 : ROOM_LEAST;
			f->text = xrealloc(f->text, f->room, 1);
		}
		if (len + 1 >= f->room)
			break;
		ssize_t n = pread(f->fd - 1, f->text + len, f->room - 1 - len, (off_t)len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

bool kept_file_read(struct kept_file *f)
{
	if (!f->fd)
		f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) + 1;
	if (!f->fd)
		return false;
	ssize_t len = read_all(f);
	if (len <= 0) {
		close_file(f);
		return false;
	}
	while ((size_t)len + 1 >= KEPT_FILE_MOST && len > 0 && f->text[len - 1] != '\n')
		len--;
	f->text[len] = 0;
	return len > 0;
}

void kept_file_free(struct kept_file *f)
{
	close_file(f);
	free(f->text);
	free(f->path);
	*f = (struct kept_file){0};
}

uint64_t kept_file_time(const struct collect_env *env, uint64_t told_ns)
{
	return strcmp(env->proc_root, "/proc") != 0 ? told_ns : monotonic_ns();
}

/* ---- text ---- */

const char *text_next_line(const char *line)
{
	const char *end = strchr(line, '\n');
	return end ? end + 1 : line + strlen(line);
}

const char *text_after_key(const char *line, const char *key)
{
	size_t n = strlen(key);
	if (strncmp(line, key, n) != 0)
		return NULL;
	line += n + (line[n] == ':');
	return *line == ' ' || *line == '\t' ? line : NULL;
}

bool text_number(const char **at, uint64_t *ret)
{
	const char *c = *at;
	uint64_t n = 0;
	c += strspn(c, " \t");
	if (*c < '0' || *c > '9')
		return false;
	for (; *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*c - '0'), &n))
			return false;
	*at = c;
	*ret = n;
	return true;
}

bool text_number_of(const char *text, const char *key, uint64_t *ret)
{
	for (const char *line = text; *line; line = text_next_line(line)) {
		const char *at = text_after_key(line, key);
		if (at)
			return text_number(&at, ret);
	}
	return false;
}
