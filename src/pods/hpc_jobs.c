/* hpc_jobs.c - reads the folder, and hands over what it read under a lock. */
#include "pods/hpc_jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

#define PERIOD_S   2
#define END_S	   1
#define FILE_BYTES 4096

struct hpc_jobs {
	char *folder;
	pthread_mutex_t lock; /* of what follows; never held over reading */
	pthread_cond_t wake;
	void (*say)(void *ctx, const char *sentence);
	void *ctx;
	struct hpc_table table;
	bool stop, runs, done;
	bool left; /* the thread is the last that has it */
};

/* ---- files ---- */

/* "0", "2.1": digits, with a point between them at most. */
static bool is_gpu(const char *name)
{
	size_t n = strspn(name, "0123456789");
	if (!n || strlen(name) >= sizeof(((struct hpc_gpu *)0)->name))
		return false;
	if (!name[n])
		return true;
	size_t m = name[n] == '.' ? strspn(name + n + 1, "0123456789") : 0;
	return m && !name[n + 1 + m];
}

static void add_line(struct hpc_gpu *g, const char *line, size_t len)
{
	if (len && line[len - 1] == '\r')
		len--;
	if (!len || len >= HPC_JOB_BYTES || g->n == HPC_JOBS || memchr(line, 0, len))
		return;
	for (size_t i = 0; i < g->n; i++) /* a series would be there twice */
		if (!strncmp(g->jobs[i], line, len) && !g->jobs[i][len])
			return;
	memcpy(g->jobs[g->n], line, len);
	g->jobs[g->n++][len] = 0;
}

/* A pipe or a device by such a name is not waited for. */
static size_t read_text(int folder, const char *name, char ret[static FILE_BYTES])
{
	struct stat st;
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n =
		fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? read(fd, ret, FILE_BYTES) : 0;
	if (fd >= 0)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

static void read_gpu(struct hpc_table *t, int folder, const char *name)
{
	char text[FILE_BYTES];
	size_t n = read_text(folder, name, text), from = 0;
	struct hpc_gpu g = {.n = 0};
	snprintf(g.name, sizeof(g.name), "%s", name);
	for (size_t i = 0; i <= n; i++) {
		bool end = i == n;
		if (end && n == FILE_BYTES) /* cut: not a whole line */
			break;
		if (!end && text[i] != '\n')
			continue;
		add_line(&g, text + from, i - from);
		from = i + 1;
	}
	if (g.n)
		*vec_push(&t->list) = g;
}

int hpc_jobs_read(struct hpc_table *ret, const char *folder, struct err *e)
{
	*ret = (struct hpc_table){.times = 0};
	DIR *d = opendir(folder);
	if (!d)
		return err_set(e, errno, "%s: %s", folder, strerror(errno));
	const struct dirent *entry;
	for (size_t i = 0; i < 16 * HPC_FILES && (entry = readdir(d)); i++)
		if (is_gpu(entry->d_name) && ret->list.len < HPC_FILES)
			read_gpu(ret, dirfd(d), entry->d_name);
	closedir(d);
	return 0;
}

void hpc_table_free(struct hpc_table *t)
{
	vec_free(&t->list);
}

/* ---- the thread ---- */

static void destroy(struct hpc_jobs *h)
{
	hpc_table_free(&h->table);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h->folder);
	free(h);
}

/* With the lock. */
static void keep(struct hpc_jobs *h, struct hpc_table *now)
{
	struct hpc_table was = h->table;
	h->table = *now;
	h->table.times = was.times + 1;
	hpc_table_free(&was);
}

static void say(struct hpc_jobs *h, bool *told, const char *why)
{
	char text[700];
	if (*told == (why != NULL))
		return;
	*told = why != NULL;
	snprintf(text, sizeof(text), why ? "no jobs of GPUs: %s" : "jobs of GPUs again: %s",
		 why ? why : h->folder);
	if (!h->left)
		h->say(h->ctx, text);
}

static void *run(void *arg)
{
	struct hpc_jobs *h = arg;
	bool told = false;
	pthread_mutex_lock(&h->lock);
	while (!h->stop) {
		struct hpc_table now;
		struct err e = {""};
		struct timespec until;
		pthread_mutex_unlock(&h->lock);
		int rc = hpc_jobs_read(&now, h->folder, &e);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += PERIOD_S;
		pthread_mutex_lock(&h->lock);
		say(h, &told, rc ? e.msg : NULL);
		keep(h, &now);
		while (!h->stop && pthread_cond_clockwait(&h->wake, &h->lock, CLOCK_MONOTONIC,
							  &until) != ETIMEDOUT)
			;
	}
	bool left = h->left;
	h->done = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
	if (left)
		destroy(h);
	return NULL;
}

const struct hpc_table *hpc_jobs_hold(struct hpc_jobs *h)
{
	pthread_mutex_lock(&h->lock);
	return &h->table;
}

void hpc_jobs_release(struct hpc_jobs *h)
{
	pthread_mutex_unlock(&h->lock);
}

/* ---- its life ---- */

struct hpc_jobs *hpc_jobs_new(const char *folder, void (*say_to)(void *ctx, const char *sentence),
			      void *ctx)
{
	struct hpc_jobs *h = xcalloc(1, sizeof(*h));
	h->folder = xstrdup(folder);
	h->say = say_to;
	h->ctx = ctx;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->wake, NULL);
	return h;
}

int hpc_jobs_start(struct hpc_jobs *h, struct err *e)
{
	pthread_t thread;
	int rc = thread_start(&thread, run, h, "eacgm-hpc-jobs");
	h->runs = !rc;
	if (!rc)
		pthread_detach(thread);
	return rc ? err_set(e, -rc, "cannot read jobs of GPUs: %s", strerror(-rc)) : 0;
}

void hpc_jobs_free(struct hpc_jobs *h)
{
	struct timespec until;
	if (!h)
		return;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_S;
	pthread_mutex_lock(&h->lock);
	h->stop = true;
	pthread_cond_signal(&h->wake);
	while (h->runs && !h->done &&
	       pthread_cond_clockwait(&h->wake, &h->lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT)
		;
	h->left = h->runs && !h->done;
	bool left = h->left;
	pthread_mutex_unlock(&h->lock);
	if (!left)
		destroy(h);
}
