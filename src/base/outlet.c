/* outlet.c - writes without waiting. A pipe or terminal is opened once more through /proc, so that
 * O_NONBLOCK holds for this program alone. Where that cannot be had, at most PIPE_BUF bytes are
 * written after poll(2) said that there is room: a pipe takes those without waiting (pipe(7)). */
#include "base/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"

static int open_again(int fd)
{
	struct stat st;
	char path[32];
	if (fstat(fd, &st) || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void outlet_open(struct outlet *o, int fd, size_t most_bytes)
{
	int again = open_again(fd);
	*o = (struct outlet){
		.fd = again >= 0 ? again : fd, .own = again >= 0, .most_bytes = most_bytes};
	pthread_mutex_init(&o->lock, NULL);
}

/* Whether there is room within so many milliseconds; an error shows at the write. */
static bool has_room(const struct outlet *o, int timeout_ms)
{
	struct pollfd fd = {.fd = o->fd, .events = POLLOUT};
	return poll(&fd, 1, timeout_ms) > 0;
}

/* Bytes that were taken, 0 for none now, or negative errno. */
static ssize_t write_some(struct outlet *o, int timeout_ms)
{
	size_t len = o->waiting.len - o->done;
	if (!has_room(o, timeout_ms))
		return 0;
	ssize_t n = write(o->fd, o->waiting.data + o->done, len < PIPE_BUF ? len : PIPE_BUF);
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int flush(struct outlet *o, uint64_t most_ns)
{
	uint64_t now_ns, end_ns = most_ns ? monotonic_ns() + most_ns : 0;
	int timeout_ms = 0;
	while (!o->error && o->done < o->waiting.len) {
		ssize_t n = write_some(o, timeout_ms);
		if (n < 0)
			o->error = (int)n;
		o->done += n > 0 ? (size_t)n : 0;
		if (n)
			continue;
		if (!end_ns || (now_ns = monotonic_ns()) >= end_ns)
			return -ETIMEDOUT;
		timeout_ms = (int)((end_ns - now_ns) / 1000000) + 1;
	}
	if (!o->error)
		o->waiting.len = o->done = 0;
	return o->error;
}

/* What was taken makes room for what comes. */
static void drop_done(struct outlet *o)
{
	o->waiting.len -= o->done;
	memmove(o->waiting.data, o->waiting.data + o->done, o->waiting.len);
	o->done = 0;
}

int outlet_put(struct outlet *o, const char *text, size_t len)
{
	pthread_mutex_lock(&o->lock);
	if (!o->error && o->waiting.len - o->done + len > o->most_bytes)
		flush(o, 0);
	if (!o->error && o->waiting.len - o->done + len <= o->most_bytes) {
		if (o->done)
			drop_done(o);
		buf_add(&o->waiting, text, len);
		flush(o, 0);
	} else {
		o->lost++;
	}
	int rc = o->error;
	pthread_mutex_unlock(&o->lock);
	return rc;
}

int outlet_say(struct outlet *o, const char *sentence)
{
	char *clean = text_clean(sentence), *line = xasprintf("eacgm: %s\n", clean);
	int rc = outlet_put(o, line, strlen(line));
	free(line);
	free(clean);
	return rc;
}

int outlet_flush(struct outlet *o, uint64_t most_ns)
{
	pthread_mutex_lock(&o->lock);
	int rc = flush(o, most_ns);
	pthread_mutex_unlock(&o->lock);
	return rc;
}

bool outlet_is_idle(struct outlet *o)
{
	pthread_mutex_lock(&o->lock);
	bool ret = o->error || !o->waiting.len;
	pthread_mutex_unlock(&o->lock);
	return ret;
}

uint64_t outlet_close(struct outlet *o, uint64_t most_ns)
{
	if (flush(o, most_ns))
		for (size_t i = o->done; i < o->waiting.len; i++)
			o->lost += o->waiting.data[i] == '\n';
	if (o->own)
		close(o->fd);
	buf_free(&o->waiting);
	pthread_mutex_destroy(&o->lock);
	return o->lost;
}
