/* call_rings.c - the reading side of wire/call_ring.h: folders, what all processes are told, and
 * the round over their files. What is in these is read by call_ring_files.c, call_ring_records.c,
 * call_ring_hists.c and call_ring_open.c. */
#include "collect/call_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/call_rings_impl.h"

#define LOOK_EVERY_NS 20000000ULL /* for new files: a ring lasts longer */

int call_rings_open(struct call_rings **ret, const char *parent, uid_t uid, gid_t gid,
		    const struct call_rings_events *events, struct err *e)
{
	struct call_rings *r = xcalloc(1, sizeof(*r));
	gpu_folder_clean_up(parent);
	int rc = gpu_folder_open(&r->folder, parent, e);
	if (rc) {
		free(r);
		return rc;
	}
	r->settings = xcalloc(1, sizeof(*r->settings));
	call_settings_begin(r->settings);
	int settings_fd = call_settings_make(r->settings, r->folder.fd, e);
	if (settings_fd < 0) {
		gpu_folder_close(&r->folder);
		free(r->settings);
		free(r);
		return settings_fd;
	}
	if (uid != geteuid() &&
	    (fchown(r->folder.lock_fd, uid, gid) || fchown(r->folder.fd, uid, gid))) {
		rc = err_set(e, errno, "cannot give %s to user %u: %s", r->folder.path, uid,
			     strerror(errno));
		call_settings_close(settings_fd);
		gpu_folder_close(&r->folder);
		free(r->settings);
		free(r);
		return rc;
	}
	r->events = *events;
	*vec_push(&r->sources) =
		(struct source){.fd = r->folder.fd, .owner = uid, .settings_fd = settings_fd};
	r->chunk = xcalloc(1, CHUNK_BYTES + CALL_CODE_MOST);
	r->before = r->now = ticks_pair_read(true);
	r->opened_ns = r->now.ns;
	*ret = r;
	return 0;
}

const char *call_rings_folder(const struct call_rings *r)
{
	return r->folder.path;
}

int call_rings_add(struct call_rings *r, int folder_fd, uid_t uid, pid_t pid, pid_t inner_pid,
		   struct err *e)
{
	int settings_fd, fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return err_set(e, errno, "no descriptor is left");
	settings_fd = call_settings_make_as(r->settings, fd, uid, e);
	if (settings_fd < 0) {
		close(fd);
		return settings_fd;
	}
	*vec_push(&r->sources) = (struct source){fd, uid, pid, inner_pid, false, settings_fd, 0};
	return 0;
}

void call_rings_forked(struct call_rings *r, pid_t parent, pid_t child)
{
	uint64_t ancestor = 0;
	map64_get(&r->children, (uint64_t)parent, &ancestor);
	for (size_t i = 0; i < r->sources.len; i++)
		if (r->sources.data[i].pid == parent)
			ancestor = (uint64_t)parent;
	if (ancestor)
		map64_set(&r->children, (uint64_t)child, ancestor);
	else
		map64_del(&r->children, (uint64_t)child); /* the number was another's */
}

void call_rings_drop(struct call_rings *r, pid_t pid)
{
	for (size_t i = 0; i < r->sources.len; i++)
		r->sources.data[i].dropped |= r->sources.data[i].pid == pid;
}

void call_rings_close(struct call_rings *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->files.len; i++) {
		ring_file_empty(&r->files.data[i]);
		ring_file_close(&r->files.data[i]);
	}
	vec_free(&r->files);
	for (size_t i = 0; i < r->sources.len; i++) {
		call_settings_close(r->sources.data[i].settings_fd);
		if (i) /* the first is the folder's */
			close(r->sources.data[i].fd);
	}
	vec_free(&r->sources);
	free(r->settings);
	gpu_folder_close(&r->folder);
	call_hists_free(&r->hists);
	map64_free(&r->pids);
	map64_free(&r->programs);
	map64_free(&r->children);
	free(r->chunk);
	free(r);
}

/* ---- settings ---- */

/* A word of the settings, to all. */
static void put_setting(const struct call_rings *r, const void *word, size_t size)
{
	size_t offset = (size_t)((const char *)word - (const char *)r->settings);
	for (size_t i = 0; i < r->sources.len; i++)
		call_settings_put(r->sources.data[i].settings_fd, r->settings, offset, size);
}

void call_rings_set_threshold(struct call_rings *r, uint32_t probe, uint64_t ns)
{
	__u64 *at = &r->settings->thresholds_ns[probe & (MAX_PROBES - 1)];
	*at = ns;
	put_setting(r, at, sizeof(*at));
}

/* Again and again: the line from ticks to time becomes longer. */
static void tell_rate(struct call_rings *r)
{
	uint64_t rate = call_settings_rate(&r->before, &r->now);
	if (!rate || r->now.ns - r->before.ns < PAIR_EVERY_NS / 2 ||
	    r->now.ns - r->rate_ns < PAIR_EVERY_NS / 2)
		return;
	r->rate_ns = r->now.ns;
	r->settings->rate = rate;
	put_setting(r, &r->settings->rate, sizeof(r->settings->rate));
}

void call_rings_set_rests(struct call_rings *r, bool rests)
{
	r->settings->rests = rests;
	put_setting(r, &r->settings->rests, sizeof(r->settings->rests));
}

/* ---- the round ---- */

static void add_counts(struct call_rings_stats *sum, const struct ring_file *f)
{
	for (size_t i = 0; i < CALL_THREADS_MOST; i++) {
		sum->full += f->counts[i].full;
		sum->deep += f->counts[i].deep;
		sum->elsewhere += f->counts[i].elsewhere;
		sum->unmatched += f->counts[i].unmatched;
		sum->no_return += f->counts[i].no_return;
		sum->timed += f->counts[i].timed;
		sum->timed_ticks += f->counts[i].timed_ticks;
		sum->kept += f->counts[i].kept;
		sum->uncounted += f->counts[i].uncounted;
	}
	sum->slotless += f->no_slot;
	sum->bad_records += f->bad_records;
	sum->python_processes += f->python == CALL_PYTHON_TOLD;
	sum->python_failed += f->python == CALL_PYTHON_FAILED;
	sum->python_yields += f->python_yields;
	sum->python_late += f->python_late;
}

static void tell_stack_shift(const struct call_rings *r, struct ring_file *f)
{
	if (!f->known || f->stack_shift == r->stack_shift)
		return;
	f->stack_shift = r->stack_shift;
	pwrite(f->fd, &f->stack_shift, sizeof(f->stack_shift),
	       offsetof(struct call_header, stack_shift));
}

/* The line from ticks to time goes through now and a moment that lies a second back or more. */
static void take_pair(struct call_rings *r)
{
	struct ticks_pair pair = ticks_pair_read(true);
	if (pair.ns - r->before.ns > 2 * PAIR_EVERY_NS && r->now.ns - r->before.ns > PAIR_EVERY_NS)
		r->before = r->now;
	r->now = pair;
	tell_rate(r);
}

static void forget(struct call_rings *r, size_t i)
{
	struct ring_file *f = &r->files.data[i];
	take_pair(r); /* what it had open may have begun since */
	ring_file_histograms(r, f, true);
	ring_file_tell_left(r, f);
	add_counts(&r->past, f);
	unlinkat(f->folder_fd, f->name, 0);
	ring_file_close(f);
	*f = r->files.data[--r->files.len];
}

/* After a drain: what came since is not told. */
static void forget_dropped(struct call_rings *r)
{
	for (size_t i = r->sources.len; i-- > 0;) {
		const struct source from = r->sources.data[i];
		if (!from.dropped)
			continue;
		for (size_t k = r->files.len; k-- > 0;) {
			if (r->files.data[k].folder_fd != from.fd)
				continue;
			ring_file_histograms(r, &r->files.data[k], true);
			ring_file_empty(&r->files.data[k]);
			forget(r, k);
		}
		call_settings_close(from.settings_fd);
		close(from.fd);
		r->sources.data[i] = r->sources.data[--r->sources.len];
	}
}

size_t call_rings_drain(struct call_rings *r)
{
	uint64_t before = r->past.calls;
	take_pair(r);
	bool looks = r->now.ns - r->looked_ns > LOOK_EVERY_NS;
	if (looks) {
		r->looks++;
		for (size_t i = 0; i < r->sources.len; i++)
			ring_files_find(r, &r->sources.data[i]);
		r->looked_ns = r->now.ns;
	}
	uint64_t began_ns = r->now.ns;
	for (size_t i = r->files.len; i-- > 0;) {
		struct ring_file *f = &r->files.data[i];
		bool died = looks &&
			    ring_file_has_died(r, f); /* before it is emptied for the last time */
		ring_file_drain(r, f);
		tell_stack_shift(r, f);
		if (r->stopped)
			ring_file_stop(f);
		if (died)
			forget(r, i);
	}
	forget_dropped(r);
	/* after all: a process may have several */
	for (size_t i = 0; i < r->files.len && r->upto_ns; i++)
		if (r->files.data[i].known)
			r->events.on_upto(r->events.ctx, r->files.data[i].pid, r->upto_ns);
	r->upto_ns = began_ns;
	return r->past.calls - before;
}

void call_rings_set_stack_shift(struct call_rings *r, unsigned shift)
{
	r->stack_shift = shift;
}

void call_rings_stop(struct call_rings *r)
{
	r->stopped = true;
	r->looked_ns = 0; /* once more, whenever that was */
	for (size_t i = 0; i < r->files.len; i++)
		ring_file_stop(&r->files.data[i]);
}

void call_rings_open_calls(struct call_rings *r)
{
	take_pair(r);
	for (size_t i = 0; i < r->files.len; i++)
		ring_file_tell_open(r, &r->files.data[i]);
}

bool call_rings_knew(const struct call_rings *r, pid_t pid)
{
	uint64_t known;
	return map64_get(&r->pids, (uint64_t)pid, &known);
}

double call_rings_cost_ns(const struct call_rings *r, const struct call_rings_stats *st)
{
	double rate = r->now.ticks > r->before.ticks
			      ? (double)(r->now.ns - r->before.ns) /
					(double)(r->now.ticks - r->before.ticks)
			      : 0;
	return st->timed ? (double)st->timed_ticks / (double)st->timed * rate : 0;
}

void call_rings_stats(const struct call_rings *r, struct call_rings_stats *ret)
{
	*ret = r->past;
	ret->counted = r->hists.counted;
	ret->uncounted += r->hists.full;
	for (size_t i = 0; i < r->files.len; i++)
		add_counts(ret, &r->files.data[i]);
}
