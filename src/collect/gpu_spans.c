/* gpu_spans.c - the reading side of wire/gpu_ring.h.
 *
 * A ring is read by pread(2), not mapped: its process can cut the file short at any time. Of a
 * ring that makes no sense all that is in it is skipped, and counted once. */
#include "collect/gpu_spans.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/gpu_folder.h"
#include "collect/gpu_tids.h"

#define CHUNK_BYTES (1u << 18)
#define MAX_RINGS   4096
#define MAX_NAMES   (1u << 18)	 /* of a ring */
#define MAX_NAMED   (256u << 20) /* bytes of all names: far more than all kernels' */
#define MAX_TID	    (1u << 22)	 /* PID_MAX_LIMIT of Linux */

struct gpu_ring {
	int fd;
	uint32_t pid;
	bool known;	/* its header was read and holds */
	bool told;	/* its state */
	bool told_why;	/* there are no operators */
	uint32_t tells; /* bits of enum gpu_ring_tells, as passed on */
	uint64_t bytes;
	uint64_t tail;
	struct gpu_ring_header last; /* as last read */
	uint64_t bad_records;
	struct gpu_tids tids;
	VEC(uint32_t) names;	/* by number - 1: what on_name returned */
	VEC(uint32_t) op_names; /* by number: what on_op_name returned */
	uint32_t ops_named;	/* how often that was called */
};

struct gpu_spans {
	struct gpu_spans_events events;
	struct gpu_folder folder;
	VEC(struct gpu_ring) rings;
	uint64_t named;		     /* bytes */
	struct gpu_spans_stats past; /* of rings that have gone, and spans of all */
	uint8_t *chunk;
	uint32_t pause;
	uid_t owner; /* of the folder and all rings in it */
};

int gpu_spans_open(struct gpu_spans **ret, const char *parent,
		   const struct gpu_spans_events *events, struct err *e)
{
	struct gpu_spans *s = xcalloc(1, sizeof(*s));
	s->events = *events;
	gpu_folder_clean_up(parent);
	int rc = gpu_folder_open(&s->folder, parent, e);
	if (rc) {
		free(s);
		return rc;
	}
	s->chunk = xcalloc(1, CHUNK_BYTES);
	s->owner = geteuid();
	*ret = s;
	return 0;
}

int gpu_spans_give(struct gpu_spans *s, uid_t uid, gid_t gid, struct err *e)
{
	/* shims look whether the session holds its lock: inject/presence.c */
	if (fchown(s->folder.lock_fd, uid, gid) || fchown(s->folder.fd, uid, gid))
		return err_set(e, errno, "cannot give %s to user %u: %s", s->folder.path, uid,
			       strerror(errno));
	s->owner = uid;
	return 0;
}

const char *gpu_spans_folder(const struct gpu_spans *s)
{
	return s->folder.path;
}

void gpu_spans_close(struct gpu_spans *s)
{
	for (size_t i = 0; i < s->rings.len; i++) {
		close(s->rings.data[i].fd);
		vec_free(&s->rings.data[i].names);
		vec_free(&s->rings.data[i].op_names);
		gpu_tids_free(&s->rings.data[i].tids);
	}
	vec_free(&s->rings);
	gpu_folder_close(&s->folder);
	free(s->chunk);
	free(s);
}

/* ---- rings ---- */

/* The process writes its header without us: what was read twice alike was not torn. */
static bool read_header(const struct gpu_ring *r, struct gpu_ring_header *ret)
{
	struct gpu_ring_header again;
	for (int i = 0; i < 4; i++) {
		if (pread(r->fd, ret, sizeof(*ret), 0) != sizeof(*ret) ||
		    pread(r->fd, &again, sizeof(again), 0) != sizeof(again))
			return false;
		if (ret->head == again.head && ret->magic == again.magic)
			return true;
	}
	return false;
}

static bool pid_from_name(const char *name, uint32_t *ret)
{
	char *end;
	unsigned long pid = strtoul(name, &end, 10);
	*ret = (uint32_t)pid;
	return name[0] >= '1' && name[0] <= '9' && !*end && pid <= INT_MAX;
}

static bool is_known(const struct gpu_spans *s, uint32_t pid)
{
	for (size_t i = 0; i < s->rings.len; i++)
		if (s->rings.data[i].pid == pid)
			return true;
	return false;
}

static void add_ring(struct gpu_spans *s, uint32_t pid, int fd)
{
	struct gpu_ring *r = vec_push(&s->rings);
	r->fd = fd;
	r->pid = pid;
	gpu_tids_open(&r->tids, (pid_t)pid);
}

static void find_rings(struct gpu_spans *s)
{
	struct stat st;
	uint32_t pid;
	int fd = openat(s->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(dir)) && s->rings.len < MAX_RINGS;) {
		if (!pid_from_name(entry->d_name, &pid) || is_known(s, pid))
			continue;
		int ring_fd =
			openat(fd, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (ring_fd < 0)
			continue;
		/* its owner may have linked a file of somebody else to here: rings are written to
		 */
		if (fstat(ring_fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != s->owner ||
		    st.st_nlink != 1) {
			close(ring_fd);
			continue;
		}
		add_ring(s, pid, ring_fd);
		s->past.rings++;
	}
	closedir(dir);
}

static bool sizes_hold(uint64_t bytes)
{
	return bytes >= GPU_RING_MIN_BYTES && bytes <= GPU_RING_MAX_BYTES && !(bytes & (bytes - 1));
}

/* The rest of a ring is skipped. */
static void skip_bad(struct gpu_ring *r)
{
	r->bad_records++;
	r->tail = r->last.head;
}

static bool take_name(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_name name;
	if (bytes < sizeof(name))
		return false;
	memcpy(&name, p, sizeof(name));
	if (name.number != r->names.len + 1 || name.len > GPU_RING_NAME_BYTES ||
	    name.len > bytes - sizeof(name) || r->names.len >= MAX_NAMES ||
	    s->named + name.len > MAX_NAMED)
		return false;
	s->named += name.len;
	*vec_push(&r->names) =
		s->events.on_name(s->events.ctx, (const char *)p + sizeof(name), name.len);
	return true;
}

static bool take_span(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_span span;
	if (bytes != sizeof(span))
		return false;
	memcpy(&span, p, sizeof(span));
	if (span.end_ns < span.start_ns || span.work > GPU_RING_GRAPH || span.name > r->names.len)
		return false;
	s->past.spans++;
	s->events.on_span(s->events.ctx, r->pid, &span,
			  span.name ? r->names.data[span.name - 1] : 0);
	return true;
}

static bool take_call(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_call call;
	if (bytes != sizeof(call))
		return false;
	memcpy(&call, p, sizeof(call));
	if (call.end_ns < call.start_ns)
		return false;
	s->past.calls++;
	call.tid = gpu_tids_host(&r->tids, call.tid);
	s->events.on_call(s->events.ctx, r->pid, &call);
	return true;
}

/* The process is to say nothing more of an operator. */
static void refuse_op(const struct gpu_ring *r, uint32_t number)
{
	size_t at = offsetof(struct gpu_ring_header, unwanted) + number / 8;
	uint8_t byte = 0;
	if (pread(r->fd, &byte, 1, (off_t)at) == 1) {
		byte |= (uint8_t)(1u << number % 8);
		pwrite(r->fd, &byte, 1, (off_t)at);
	}
}

static bool take_op_name(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_op_name name;
	if (bytes < sizeof(name))
		return false;
	memcpy(&name, p, sizeof(name));
	if (name.number >= GPU_RING_MAX_OPERATORS || r->ops_named >= GPU_RING_MAX_OPERATORS ||
	    name.kind > GPU_RING_NODE || name.len > GPU_RING_NAME_BYTES ||
	    name.len > bytes - sizeof(name) || s->named + name.len > MAX_NAMED)
		return false;
	s->named += name.len;
	r->ops_named++;
	while (r->op_names.len <= name.number)
		vec_push(&r->op_names);
	uint32_t number = s->events.on_op_name(s->events.ctx, name.kind,
					       (const char *)p + sizeof(name), name.len);
	r->op_names.data[name.number] = number;
	if (!number)
		refuse_op(r, name.number);
	return true;
}

static bool take_op(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_op op;
	if (bytes != sizeof(op))
		return false;
	memcpy(&op, p, sizeof(op));
	if (op.end_ns < op.start_ns || op.tid > MAX_TID || op.name >= r->op_names.len)
		return false;
	if (!r->op_names.data[op.name])
		return true;
	s->past.ops++;
	op.tid = gpu_tids_host(&r->tids, op.tid);
	s->events.on_op(s->events.ctx, r->pid, &op, r->op_names.data[op.name]);
	return true;
}

static bool take_launch(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t bytes)
{
	struct gpu_ring_launch launch;
	if (bytes != sizeof(launch))
		return false;
	memcpy(&launch, p, sizeof(launch));
	if (launch.end_ns < launch.start_ns || launch.tid > MAX_TID)
		return false;
	s->past.ops++;
	launch.tid = gpu_tids_host(&r->tids, launch.tid);
	s->events.on_launch(s->events.ctx, r->pid, &launch);
	return true;
}

static bool take_ops_upto(struct gpu_spans *s, const struct gpu_ring *r, const uint8_t *p,
			  size_t bytes)
{
	struct gpu_ring_ops_upto upto;
	if (bytes != sizeof(upto))
		return false;
	memcpy(&upto, p, sizeof(upto));
	s->events.on_ops_upto(s->events.ctx, r->pid, upto.ns);
	return true;
}

static bool take_by_kind(struct gpu_spans *s, struct gpu_ring *r, uint32_t kind, const uint8_t *p,
			 size_t bytes)
{
	switch (kind) {
	case GPU_RING_NAME:
		return take_name(s, r, p, bytes);
	case GPU_RING_SPAN:
		return take_span(s, r, p, bytes);
	case GPU_RING_CALL:
		return take_call(s, r, p, bytes);
	case GPU_RING_OP_NAME:
		return take_op_name(s, r, p, bytes);
	case GPU_RING_OP:
		return take_op(s, r, p, bytes);
	case GPU_RING_LAUNCH:
		return take_launch(s, r, p, bytes);
	case GPU_RING_OPS_UPTO:
		return take_ops_upto(s, r, p, bytes);
	default:
		return false;
	}
}

/* The bytes of the record at p, which has `left` bytes; 0 for one that makes no sense, left + 1
 * for one that goes on behind them. */
static size_t take_record(struct gpu_spans *s, struct gpu_ring *r, const uint8_t *p, size_t left)
{
	struct gpu_ring_record record;
	if (left < sizeof(record))
		return left + 1;
	memcpy(&record, p, sizeof(record));
	if (record.bytes < sizeof(record) || record.bytes % 8)
		return 0;
	if (record.kind == GPU_RING_PAD)
		return record.bytes;
	if (record.bytes > left)
		return left + 1;
	return take_by_kind(s, r, record.kind, p, record.bytes) ? record.bytes : 0;
}

/* Reads on from the tail; false when that led nowhere. */
static bool read_some(struct gpu_spans *s, struct gpu_ring *r)
{
	uint64_t at = r->tail & (r->bytes - 1);
	uint64_t to_end = r->bytes - at, n = r->last.head - r->tail;
	size_t done = 0;
	n = n < to_end ? n : to_end;
	n = n < CHUNK_BYTES ? n : CHUNK_BYTES;
	if (pread(r->fd, s->chunk, n, (off_t)(GPU_RING_HEADER_BYTES + at)) != (ssize_t)n)
		return false;
	while (done < n) {
		size_t bytes = take_record(s, r, s->chunk + done, n - done);
		if (!bytes || (bytes > n - done && done + bytes > to_end))
			return false;
		if (bytes > n - done) {
			r->tail += done;
			return done > 0; /* a record has room in a chunk */
		}
		done += bytes;
	}
	r->tail += done;
	return true;
}

static void drain_ring(struct gpu_spans *s, struct gpu_ring *r)
{
	struct gpu_ring_header h;
	uint64_t before = r->tail;
	if (!read_header(r, &h) || h.magic != GPU_RING_MAGIC)
		return;
	if (!r->known && !sizes_hold(h.bytes)) {
		r->bad_records += !r->bad_records;
		return;
	}
	if (!r->known)
		r->bytes = h.bytes;
	r->known = true;
	r->last = h;
	r->tids.looked = false;
	if (h.tells & ~r->tells)
		s->events.on_tells(s->events.ctx, r->pid, h.tells);
	r->tells |= h.tells;
	r->last.head = h.head & ~(uint64_t)7; /* an odd one never comes to an end */
	if (r->last.head < r->tail || r->last.head - r->tail > r->bytes)
		skip_bad(r);
	while (r->tail != r->last.head)
		if (!read_some(s, r))
			skip_bad(r);
	if (r->tail != before)
		pwrite(r->fd, &r->tail, sizeof(r->tail), offsetof(struct gpu_ring_header, tail));
}

static void note(struct gpu_spans *s, const struct gpu_ring *r, const char *text)
{
	s->events.on_note(s->events.ctx, r->pid, text);
}

/* PyTorch's operators are not told: the probes go on. */
static void tell_why(struct gpu_spans *s, struct gpu_ring *r)
{
	char text[sizeof(r->last.why) + 64];
	if (r->told_why || !r->last.why[0])
		return;
	r->told_why = true;
	snprintf(text, sizeof(text), "PyTorch itself tells no operators: %.*s",
		 (int)sizeof(r->last.why) - 1, r->last.why);
	note(s, r, text);
}

/* What the process says when its part is over: why there was nothing, or what stays behind. */
static void tell_end(struct gpu_spans *s, struct gpu_ring *r)
{
	char text[sizeof(r->last.text)];
	if (r->told || (r->last.state != GPU_RING_FAILED && r->last.state != GPU_RING_ENDED))
		return;
	r->told = true;
	snprintf(text, sizeof(text), "%.*s", (int)sizeof(r->last.text) - 1, r->last.text);
	if (text[0])
		note(s, r, text);
}

/* ---- processes that end ---- */

static bool has_died(const struct gpu_ring *r)
{
	return kill((pid_t)r->pid, 0) && errno == ESRCH;
}

static void add_losses(struct gpu_spans_stats *sum, const struct gpu_ring *r)
{
	sum->ring_full += r->last.full;
	sum->calls_full += r->last.full_calls;
	sum->ops_lost += r->last.lost_ops;
	sum->dropped += r->last.dropped;
	sum->untimed += r->last.untimed;
	sum->bad_records += r->bad_records;
}

static void forget(struct gpu_spans *s, size_t i)
{
	struct gpu_ring *r = &s->rings.data[i];
	char name[16];
	if (r->known && (r->last.state == GPU_RING_ON || r->last.state == GPU_RING_STARTING))
		note(s, r,
		     "ended without handing over what the GPU did last: what CUPTI held of the "
		     "last moments is not in the recording");
	if (!r->known)
		note(s, r, "ended before its ring was ready");
	add_losses(&s->past, r);
	snprintf(name, sizeof(name), "%u", r->pid);
	unlinkat(s->folder.fd, name, 0);
	close(r->fd);
	vec_free(&r->names);
	vec_free(&r->op_names);
	gpu_tids_free(&r->tids);
	*r = s->rings.data[--s->rings.len];
}

static void tell_pause(const struct gpu_spans *s, const struct gpu_ring *r)
{
	if (r->known && r->last.pause != s->pause)
		pwrite(r->fd, &s->pause, sizeof(s->pause), offsetof(struct gpu_ring_header, pause));
}

void gpu_spans_drain(struct gpu_spans *s)
{
	find_rings(s);
	for (size_t i = s->rings.len; i-- > 0;) {
		struct gpu_ring *r = &s->rings.data[i];
		bool died = has_died(r); /* before the last look */
		drain_ring(s, r);
		tell_pause(s, r);
		tell_end(s, r);
		tell_why(s, r);
		if (died)
			forget(s, i);
	}
}

int gpu_spans_adopt(struct gpu_spans *s, pid_t pid, int ring_fd, struct err *e)
{
	int fd = fcntl(ring_fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return err_set(e, errno, "no descriptor is left: %s", strerror(errno));
	add_ring(s, (uint32_t)pid, fd);
	return 0;
}

void gpu_spans_drop(struct gpu_spans *s, pid_t pid)
{
	for (size_t i = s->rings.len; i-- > 0;) {
		struct gpu_ring *r = &s->rings.data[i];
		if (r->pid != (uint32_t)pid || r->known)
			continue;
		close(r->fd);
		*r = s->rings.data[--s->rings.len];
	}
}

void gpu_spans_pause(struct gpu_spans *s, bool pause)
{
	s->pause = pause;
}

static void stop_ring(const struct gpu_ring *r)
{
	uint32_t stop = 1;
	pwrite(r->fd, &stop, sizeof(stop), offsetof(struct gpu_ring_header, stop));
}

void gpu_spans_stop(struct gpu_spans *s)
{
	for (size_t i = 0; i < s->rings.len; i++)
		stop_ring(&s->rings.data[i]);
}

void gpu_spans_stop_process(struct gpu_spans *s, pid_t pid)
{
	for (size_t i = 0; i < s->rings.len; i++)
		if (s->rings.data[i].pid == (uint32_t)pid)
			stop_ring(&s->rings.data[i]);
}

unsigned gpu_spans_state(const struct gpu_spans *s, pid_t pid)
{
	for (size_t i = 0; i < s->rings.len; i++)
		if (s->rings.data[i].pid == (uint32_t)pid)
			return s->rings.data[i].last.state;
	return GPU_RING_ENDED;
}

size_t gpu_spans_active(const struct gpu_spans *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->rings.len; i++) {
		const struct gpu_ring *r = &s->rings.data[i];
		n += r->last.state == GPU_RING_STARTING || r->last.state == GPU_RING_ON;
	}
	return n;
}

void gpu_spans_stats(const struct gpu_spans *s, struct gpu_spans_stats *ret)
{
	*ret = s->past;
	for (size_t i = 0; i < s->rings.len; i++)
		add_losses(ret, &s->rings.data[i]);
}
