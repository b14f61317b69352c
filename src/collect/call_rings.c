/* call_rings.c - the reading side of wire/call_ring.h. Files are read by pread(2), not mapped:
 * their process can cut them short at any time. Of a ring that makes no sense all that is in it is
 * skipped, and counted once. */
#include "collect/call_rings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "collect/call_hists.h"
#include "collect/call_settings.h"
#include "collect/gpu_folder.h"
#include "collect/gpu_tids.h"
#include "wire/hist.h"
#include "wire/ticks.h"

#define MAX_FILES      4096
#define MAX_OF_PROCESS 512 /* and its children, in a folder of its own */
#define CHUNK_BYTES    (1u << 18)
#define PAIR_EVERY_NS  1000000000ULL
#define LOOK_EVERY_NS  20000000ULL /* for new files: a ring lasts longer */
#define MAX_TID	       (1u << 22)  /* PID_MAX_LIMIT of Linux */
#define PYTHON_TOLD    (CALL_NESTED | CALL_UNWOUND | CALL_OPEN)
#define FILES_EVER     (1u << 31)
#define LEAST_CALL_NS  8 /* that a call takes which is told: no thread can have made more */
#define HISTS_AT_ONCE  (CHUNK_BYTES / sizeof(struct call_hist))
#define FLAGS_TOLD                                                                                 \
	(CALL_NESTED | CALL_UNWOUND | CALL_ARG_FAULT | CALL_ARG_CUT | CALL_ERROR | CALL_NAMED)

/* What is before a slot's open calls. */
#define SLOT_HEAD offsetof(struct call_slot, open)

struct ring_file {
	int fd;
	int folder_fd;
	uint32_t pid;
	char name[32];
	unsigned program; /* of the process: each that it executes has a file of its own */
	bool known;	  /* its header was read and holds */
	bool counted;
	uint32_t stack_shift; /* that it was told */
	uint64_t no_slot;
	uint32_t serial; /* of all files that there were */
	uint32_t python; /* enum call_python */
	uint32_t python_yields, python_late;
	struct gpu_tids tids;
	uint64_t tails[CALL_THREADS_MOST];
	struct call_slot_counts {
		uint64_t full, deep, elsewhere, unmatched, no_return, timed, timed_ticks, kept,
			uncounted;
	} counts[CALL_THREADS_MOST];
	uint64_t bad_records;
	uint64_t bad_hists; /* a bit for each slot whose histograms make no sense */
};

/* A folder with files. */
struct source {
	int fd;
	uid_t owner;
	pid_t pid, inner_pid; /* of whom it was made for, here and as it sees itself; 0: of many */
	bool dropped;
	int settings_fd;
	uint32_t files; /* that were opened */
};

struct call_rings {
	struct call_rings_events events;
	struct gpu_folder folder;
	VEC(struct source) sources;
	VEC(struct ring_file) files;
	struct call_settings *settings; /* as in all sources */
	uint64_t rate_ns;		/* when the rate was told last */
	struct call_hists hists;
	uint64_t opened_ns;
	struct call_rings_stats past; /* of files that have gone; calls of all */
	struct ticks_pair before, now;
	uint64_t looked_ns; /* for new files */
	uint64_t upto_ns;   /* what ended before was written before the last look */
	uint8_t *chunk;
	bool stopped;
	uint32_t stack_shift;
	uint32_t serial;
	struct map64 pids;     /* of all files that there were */
	struct map64 children; /* of processes with a folder, and theirs -> whose folder it is */
	struct map64 programs; /* folder and pid -> 1 + the newest file's program */
};

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

static void close_file(struct ring_file *f)
{
	close(f->fd);
	gpu_tids_free(&f->tids);
}

static off_t slot_offset(uint32_t i)
{
	return (off_t)(CALL_HEADER_BYTES + (uint64_t)i * CALL_SLOT_BYTES);
}

/* A process that goes on keeps the file mapped: its memory is given back. */
static void empty_file(const struct ring_file *f)
{
	/* not what is before the ring: a thread that is just leaving may write there, and would be
	 * ended where there is no memory for that any more */
	for (uint32_t i = 0; i < CALL_THREADS_MOST; i++)
		(void)!fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 slot_offset(i) + CALL_SLOT_HEADER,
				 (off_t)(CALL_SLOT_BYTES - CALL_SLOT_HEADER));
}

void call_rings_close(struct call_rings *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->files.len; i++) {
		empty_file(&r->files.data[i]);
		close_file(&r->files.data[i]);
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

/* ---- files ---- */

/* "PID", or "PID.N" of a later program of the same process. */
static bool pid_from_name(const char *name, uint32_t *ret)
{
	char *end;
	unsigned long pid = strtoul(name, &end, 10);
	*ret = (uint32_t)pid;
	size_t tail = strspn(*end == '.' ? end + 1 : end, "0123456789");
	return name[0] >= '1' && name[0] <= '9' && (!*end || (*end == '.' && !end[1 + tail])) &&
	       pid <= INT_MAX && strlen(name) < sizeof(((struct ring_file *)0)->name);
}

static bool is_known(const struct call_rings *r, const struct source *from, const char *name)
{
	for (size_t i = 0; i < r->files.len; i++)
		if (r->files.data[i].folder_fd == from->fd && !strcmp(r->files.data[i].name, name))
			return true;
	return false;
}

/* Whose a file is, by the number that its process has for itself. False: it cannot be told. */
static bool host_pid(const struct call_rings *r, const struct source *from, uint32_t *pid)
{
	uint64_t ancestor;
	if (!from->pid)
		return true;
	if (*pid != (uint32_t)from->inner_pid) /* a process may call files after others */
		return from->pid == from->inner_pid && map64_get(&r->children, *pid, &ancestor) &&
		       ancestor == (uint64_t)from->pid;
	*pid = (uint32_t)from->pid;
	return true;
}

/* Its owner may have linked a file of somebody else to here: rings are written to. */
static bool is_its_own(const struct source *from, int fd)
{
	struct stat st;
	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == from->owner &&
	       st.st_nlink == 1;
}

static uint64_t program_key(int folder_fd, uint32_t pid)
{
	return (uint64_t)folder_fd << 32 | pid;
}

static void add_file(struct call_rings *r, const struct source *from, const char *name,
		     uint32_t pid)
{
	int fd = openat(from->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!is_its_own(from, fd)) {
		close(fd);
		return;
	}
	struct ring_file *f = vec_push(&r->files);
	f->fd = fd;
	f->folder_fd = from->fd;
	f->pid = pid;
	f->serial = r->serial++ % FILES_EVER;
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->program = strchr(name, '.') ? (unsigned)strtoul(strchr(name, '.') + 1, NULL, 10) : 0;
	gpu_tids_open(&f->tids, (pid_t)pid);
	r->past.processes++;
	map64_set(&r->pids, pid, 1);
	uint64_t newest = 0, key = program_key(from->fd, pid);
	map64_get(&r->programs, key, &newest);
	if (f->program + 1ULL > newest)
		map64_set(&r->programs, key, f->program + 1ULL);
}

static void find_files(struct call_rings *r, struct source *from)
{
	uint32_t pid;
	int fd = openat(from->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	uint32_t most = from->pid ? MAX_OF_PROCESS : UINT32_MAX;
	for (const struct dirent *entry;
	     (entry = readdir(dir)) && r->files.len < MAX_FILES && from->files < most;) {
		if (!pid_from_name(entry->d_name, &pid) || is_known(r, from, entry->d_name) ||
		    !host_pid(r, from, &pid))
			continue;
		from->files++;
		add_file(r, from, entry->d_name, pid);
	}
	closedir(dir);
}

static bool read_file_header(struct ring_file *f)
{
	struct call_header h;
	if (pread(f->fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != CALL_MAGIC)
		return false;
	f->known = true;
	f->counted = h.counted != 0;
	f->no_slot = h.no_slot;
	f->python = h.python;
	f->python_yields = h.python_yields;
	f->python_late = h.python_late;
	return true;
}

/* ---- records ---- */

static uint64_t to_ns(const struct call_rings *r, const struct ring_file *f, uint64_t ticks)
{
	return f->counted ? ticks_to_ns(&r->before, &r->now, ticks) : ticks;
}

static uint64_t code_id(const struct ring_file *f, uint32_t code)
{
	return CALL_CODE_BIT | (uint64_t)f->serial << 32 | code;
}

static bool take_code(const struct call_rings *r, const struct ring_file *f, const uint8_t *p)
{
	struct call_code in;
	memcpy(&in, p, sizeof(in));
	if (!in.code || in.marked || in.name_bytes > CALL_CODE_NAME ||
	    in.file_bytes > CALL_CODE_FILE || in.name_bytes + in.file_bytes > 8u * in.nargs)
		return false;
	const char *text = (const char *)p + sizeof(in);
	r->events.on_code(r->events.ctx, code_id(f, in.code),
			  &(struct call_text){text, strnlen(text, in.name_bytes)},
			  &(struct call_text){text + in.name_bytes,
					      strnlen(text + in.name_bytes, in.file_bytes)},
			  in.line);
	return true;
}

static bool take_python(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			const uint8_t *p)
{
	struct call_record in;
	uint64_t code;
	memcpy(&in, p, sizeof(in));
	if (in.nargs != 1 || in.marked || in.end < in.start || in.flags & ~PYTHON_TOLD)
		return false;
	memcpy(&code, p + sizeof(in), sizeof(code));
	if (!code || code > UINT32_MAX)
		return false;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = in.flags,
		.depth = in.depth,
		.nargs = 1,
		.probe = CALL_PYTHON,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = to_ns(r, f, in.start),
		.args = {code_id(f, (uint32_t)code)},
	};
	uint64_t end_ns = to_ns(r, f, in.end);
	call.dur_ns = end_ns > call.start_ns ? end_ns - call.start_ns : 0;
	r->events.on_call(r->events.ctx, &call, 0);
	r->past.calls++;
	r->past.python_calls++;
	return true;
}

static bool take_call(struct call_rings *r, const struct ring_file *f, uint32_t tid,
		      const uint8_t *p)
{
	struct call_record in;
	memcpy(&in, p, sizeof(in));
	uint64_t mark = 0;
	if (in.probe >= MAX_PROBES || in.nargs > MAX_ARGS || in.end < in.start ||
	    in.flags & ~FLAGS_TOLD || in.marked > 1)
		return false;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = in.flags,
		.depth = in.depth,
		.nargs = in.nargs,
		.probe = in.probe,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = to_ns(r, f, in.start),
	};
	uint64_t end_ns = to_ns(r, f, in.end);
	call.dur_ns = end_ns > call.start_ns ? end_ns - call.start_ns : 0;
	memcpy(call.args, p + sizeof(in), 8u * in.nargs);
	if (in.marked)
		memcpy(&mark, p + sizeof(in) + 8u * in.nargs, sizeof(mark));
	r->events.on_call(r->events.ctx, &call, (uint32_t)mark);
	r->past.calls++;
	return true;
}

static bool take_record(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			const uint8_t *p)
{
	uint32_t probe;
	memcpy(&probe, p, sizeof(probe));
	if (probe == CALL_CODE)
		return take_code(r, f, p);
	return probe == CALL_PYTHON ? take_python(r, f, tid, p) : take_call(r, f, tid, p);
}

/* How many bytes the record at p has, of `left` that are there; 0: not all of it is. */
static size_t record_bytes(const uint8_t *p, size_t left)
{
	struct call_record in;
	if (left < sizeof(in))
		return 0;
	memcpy(&in, p, sizeof(in));
	size_t bytes = sizeof(in) + 8u * in.nargs + (in.marked ? 8 : 0);
	return bytes <= left ? bytes : 0;
}

/* The ring's n bytes from position `at` on; a record's rest may lie at its beginning. */
static bool read_ring(const struct call_rings *r, const struct ring_file *f, uint32_t i,
		      uint64_t at, size_t n)
{
	uint64_t from = at & (CALL_RING_BYTES - 1);
	size_t first = n < CALL_RING_BYTES - from ? n : CALL_RING_BYTES - from;
	off_t ring = slot_offset(i) + CALL_SLOT_HEADER;
	return pread(f->fd, r->chunk, first, ring + (off_t)from) == (ssize_t)first &&
	       (first == n ||
		pread(f->fd, r->chunk + first, n - first, ring) == (ssize_t)(n - first));
}

static bool drain_some(struct call_rings *r, struct ring_file *f, uint32_t i, uint32_t tid,
		       uint64_t head)
{
	uint64_t left = head - f->tails[i];
	size_t n = left < CHUNK_BYTES ? left : CHUNK_BYTES, done = 0, bytes;
	if (!read_ring(r, f, i, f->tails[i], n))
		return false;
	while ((bytes = record_bytes(r->chunk + done, n - done))) {
		if (!take_record(r, f, tid, r->chunk + done))
			return false;
		done += bytes;
	}
	f->tails[i] += done;
	return done > 0;
}

static void free_slot(const struct ring_file *f, uint32_t i)
{
	uint32_t state = CALL_SLOT_FREE;
	pwrite(f->fd, &state, sizeof(state), slot_offset(i));
}

/* False where no slot from here on was ever used. */
static bool drain_slot(struct call_rings *r, struct ring_file *f, uint32_t i)
{
	union {
		struct call_slot s;
		uint8_t head[SLOT_HEAD];
	} u;
	if (pread(f->fd, u.head, SLOT_HEAD, slot_offset(i)) != SLOT_HEAD)
		return false;
	if (!u.s.tid) /* nobody's yet, or of one who is just coming */
		return u.s.state != CALL_SLOT_FREE;
	f->counts[i] = (struct call_slot_counts){.full = u.s.full,
						 .deep = u.s.deep,
						 .elsewhere = u.s.elsewhere,
						 .unmatched = u.s.unmatched,
						 .no_return = u.s.no_return,
						 .timed = u.s.timed,
						 .timed_ticks = u.s.timed_ticks,
						 .kept = u.s.kept,
						 .uncounted = u.s.uncounted};
	uint32_t tid = u.s.tid <= MAX_TID ? gpu_tids_host(&f->tids, u.s.tid) : 0;
	uint64_t was = f->tails[i];
	bool holds = u.s.head == was ||
		     (u.s.head >= was && u.s.head - was <= CALL_RING_BYTES && u.s.head % 8 == 0);
	while (holds && f->tails[i] < u.s.head)
		holds = drain_some(r, f, i, tid, u.s.head);
	if (!holds) {
		f->bad_records++;
		f->tails[i] = u.s.head;
	}
	if (f->tails[i] != was)
		pwrite(f->fd, &f->tails[i], sizeof(f->tails[i]),
		       slot_offset(i) + (off_t)offsetof(struct call_slot, tail));
	if (u.s.state == CALL_SLOT_LEFT)
		free_slot(f, i);
	return true;
}

static void drain_file(struct call_rings *r, struct ring_file *f)
{
	f->tids.looked = false;
	if (!read_file_header(f))
		return;
	for (uint32_t i = 0; i < CALL_THREADS_MOST && drain_slot(r, f, i); i++)
		;
}

/* ---- histograms ---- */

static off_t hist_offset(uint32_t i, uint32_t k)
{
	return (off_t)(CALL_HISTS_BEGIN + (uint64_t)i * CALL_HISTS_BYTES + 2 * CALL_HISTS_INDEX +
		       (uint64_t)k * sizeof(struct call_hist));
}

/* How many calls its thread would have to have made. */
static uint64_t calls_of(const struct hist_value *v)
{
	uint64_t sum = 0;
	for (int i = 0; i < HIST_BUCKETS; i++)
		sum += v->buckets[i];
	return sum > v->count ? sum : v->count;
}

/* The thread may be amid a call, and its process may write what it likes: no figure says more than
 * the others allow. What is claimed of time passes by, as a call of a function that sleeps does. */
static struct hist_value as_is_possible(const struct hist_value *in, uint64_t elapsed_ns)
{
	struct hist_value v = *in;
	if (v.errors > v.count)
		v.errors = v.count;
	if (v.nested > v.count)
		v.nested = v.count;
	if (v.max_ns > elapsed_ns)
		v.max_ns = elapsed_ns;
	if (v.total_ns / v.count > elapsed_ns)
		v.total_ns = v.count * v.max_ns;
	return v;
}

/* Adds n that lie in the chunk. calls: how many more the slot may have. */
static bool add_hists(struct call_rings *r, const struct ring_file *f, uint32_t n, bool ended,
		      uint64_t elapsed_ns, uint64_t *calls)
{
	for (uint32_t k = 0; k < n; k++) {
		struct call_hist in;
		memcpy(&in, r->chunk + k * sizeof(in), sizeof(in));
		uint64_t made = calls_of(&in.value);
		if (in.probe >= MAX_PROBES || made > *calls)
			return false;
		*calls -= made;
		const struct hist_key key = {.tgid = f->pid, .probe = in.probe, .name = in.name};
		const struct hist_value v =
			in.value.count ? as_is_possible(&in.value, elapsed_ns) : in.value;
		if (v.count)
			call_hists_add(&r->hists, &key, &v, ended);
	}
	return true;
}

/* False where no slot from here on was ever used. */
static bool hists_of_slot(struct call_rings *r, struct ring_file *f, uint32_t i, bool ended)
{
	union {
		struct call_slot s;
		uint8_t head[SLOT_HEAD];
	} u;
	uint64_t elapsed_ns = r->now.ns - r->opened_ns + PAIR_EVERY_NS;
	uint64_t calls = elapsed_ns / LEAST_CALL_NS;
	if (pread(f->fd, u.head, SLOT_HEAD, slot_offset(i)) != SLOT_HEAD)
		return false;
	if (!u.s.tid)
		return u.s.state != CALL_SLOT_FREE;
	uint32_t most = u.s.hists < CALL_HISTS_MOST ? u.s.hists : CALL_HISTS_MOST;
	for (uint32_t k = 0, n; k < most; k += n) {
		n = most - k < HISTS_AT_ONCE ? most - k : HISTS_AT_ONCE;
		size_t bytes = n * sizeof(struct call_hist);
		if (pread(f->fd, r->chunk, bytes, hist_offset(i, k)) == (ssize_t)bytes &&
		    add_hists(r, f, n, ended, elapsed_ns, &calls))
			continue;
		f->bad_records += !(f->bad_hists >> i & 1);
		f->bad_hists |= 1ULL << i;
		break;
	}
	return true;
}

static void hists_of_file(struct call_rings *r, struct ring_file *f, bool ended)
{
	for (uint32_t i = 0; f->known && i < CALL_THREADS_MOST && hists_of_slot(r, f, i, ended);
	     i++)
		;
}

void call_rings_histograms(struct call_rings *r,
			   void (*visit)(void *ctx, const struct hist_key *key,
					 const struct hist_value *value),
			   void *ctx)
{
	call_hists_renew(&r->hists);
	for (size_t i = 0; i < r->files.len; i++)
		hists_of_file(r, &r->files.data[i], false);
	call_hists_visit(&r->hists, visit, ctx);
}

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

/* A call that has left with its process; whether it is told too. */
static bool count_left(struct call_rings *r, const struct rec_call *c, uint8_t keep)
{
	uint8_t mode = keep & (uint8_t)~CALL_KEEP_ALWAYS;
	struct hist_key key = {.tgid = c->tgid, .probe = c->probe};
	struct hist_value one = {.count = 1,
				 .errors = !!(c->flags & CALL_ERROR),
				 .nested = !!(c->flags & CALL_NESTED),
				 .total_ns = c->dur_ns,
				 .max_ns = c->dur_ns};
	if (mode == MODE_TRACE)
		return true;
	if (c->flags & CALL_NAMED)
		key.name = c->args[0];
	one.buckets[hist_bucket(c->dur_ns) & (HIST_BUCKETS - 1)] = 1;
	call_hists_add(&r->hists, &key, &one, true);
	return keep & CALL_KEEP_ALWAYS ||
	       (mode == MODE_TAIL && c->dur_ns >= r->settings->thresholds_ns[c->probe]);
}

/* ---- open calls ---- */

static void open_call(struct call_rings *r, const struct ring_file *f, uint32_t tid, uint32_t depth,
		      const struct call_open *o, uint8_t flags)
{
	uint64_t now_ns = r->now.ns, start_ns = to_ns(r, f, o->start);
	if (o->probe >= MAX_PROBES || o->nargs > MAX_ARGS || start_ns > now_ns)
		return;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = (uint8_t)((o->flags & FLAGS_TOLD) | flags),
		.depth = (uint8_t)depth,
		.nargs = o->nargs,
		.probe = o->probe,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = start_ns,
		.dur_ns = now_ns - start_ns,
	};
	memcpy(call.args, o->args, sizeof(call.args));
	if (!(flags & CALL_UNWOUND) || count_left(r, &call, o->keep))
		r->events.on_call(r->events.ctx, &call, o->mark);
}

static void open_python(struct call_rings *r, const struct ring_file *f, uint32_t tid,
			uint32_t depth, const struct call_python_open *o, uint8_t flags)
{
	uint64_t now_ns = r->now.ns, start_ns = to_ns(r, f, o->start);
	if (!o->code || start_ns > now_ns)
		return;
	struct rec_call call = {
		.kind = REC_CALL,
		.flags = (uint8_t)(flags | (depth ? CALL_NESTED : 0)),
		.depth = depth < UINT8_MAX ? (uint8_t)depth : UINT8_MAX,
		.nargs = 1,
		.probe = CALL_PYTHON,
		.tgid = f->pid,
		.tid = tid,
		.start_ns = start_ns,
		.dur_ns = now_ns - start_ns,
		.args = {code_id(f, o->code)},
	};
	r->events.on_call(r->events.ctx, &call, 0);
}

/* flags: what these calls have besides. False where no slot from here on was ever used. */
static bool open_calls_of(struct call_rings *r, struct ring_file *f, uint32_t i, uint8_t flags)
{
	struct call_slot s;
	if (pread(f->fd, &s, sizeof(s), slot_offset(i)) != sizeof(s))
		return false;
	if (!s.tid)
		return s.state != CALL_SLOT_FREE;
	uint32_t tid = s.tid <= MAX_TID ? gpu_tids_host(&f->tids, s.tid) : 0;
	for (uint32_t k = 0; s.state == CALL_SLOT_USED && k < s.depth && k < MAX_OPEN_CALLS; k++)
		open_call(r, f, tid, k, &s.open[k], flags);
	for (uint32_t k = 0;
	     s.state == CALL_SLOT_USED && k < s.python_depth && k < CALL_PYTHON_OPEN; k++)
		open_python(r, f, tid, k, &s.python[k], flags);
	return true;
}

/* ---- processes that end ---- */

static bool has_died(const struct call_rings *r, const struct ring_file *f)
{
	uint64_t newest = 0;
	map64_get(&r->programs, program_key(f->folder_fd, f->pid), &newest);
	if (newest > f->program + 1ULL)
		return true; /* it executes another one */
	return kill((pid_t)f->pid, 0) && errno == ESRCH;
}

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

static void stop_file(const struct ring_file *f)
{
	uint32_t stop = 1;
	if (f->known)
		pwrite(f->fd, &stop, sizeof(stop), offsetof(struct call_header, stop));
}

/* What was open when the process ended, or executed another program, has left by now. */
static void tell_left(struct call_rings *r, struct ring_file *f)
{
	for (uint32_t k = 0;
	     f->known && k < CALL_THREADS_MOST && open_calls_of(r, f, k, CALL_UNWOUND); k++)
		;
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
	hists_of_file(r, f, true);
	tell_left(r, f);
	add_counts(&r->past, f);
	unlinkat(f->folder_fd, f->name, 0);
	close_file(f);
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
			hists_of_file(r, &r->files.data[k], true);
			empty_file(&r->files.data[k]);
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
		for (size_t i = 0; i < r->sources.len; i++)
			find_files(r, &r->sources.data[i]);
		r->looked_ns = r->now.ns;
	}
	uint64_t began_ns = r->now.ns;
	for (size_t i = r->files.len; i-- > 0;) {
		struct ring_file *f = &r->files.data[i];
		bool died = looks && has_died(r, f); /* before it is emptied for the last time */
		drain_file(r, f);
		tell_stack_shift(r, f);
		if (r->stopped)
			stop_file(f);
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
		stop_file(&r->files.data[i]);
}

void call_rings_open_calls(struct call_rings *r)
{
	take_pair(r);
	for (size_t i = 0; i < r->files.len; i++)
		for (uint32_t k = 0; r->files.data[i].known && k < CALL_THREADS_MOST &&
				     open_calls_of(r, &r->files.data[i], k, CALL_OPEN);
		     k++)
			;
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
