/* call_rings_fuzz.c - hostile files of processes that tell calls.
 *
 * The first byte has the slot's state (bits 0-1), whether ticks are the processor's counter (bit
 * 2), whether the file ends where the input does (bit 3), whether the ring begins near its end, so
 * that what is in it goes on at its beginning (bit 4), and whether the next eight bytes are the
 * slot's head (bit 7): else the head is behind what lies in the ring, which is the rest. With bit 5
 * the rest is all of the slot instead, open calls and ring, and with bit 6 all of the file; with
 * both it is the slot's histograms. It is read twice, as from a process that goes on writing.
 *
 * links: base collect symbolize */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/call_rings.h"

#define MAX_TID	   (1u << 22)
#define NEAR_END   64	      /* bytes before the ring's end */
#define INPUT_MOST (4u << 20) /* of a file of 65 MiB */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char parent[] = "/tmp/call_rings_fuzz-XXXXXX";
static uint64_t told_calls, told_open;
static bool opens; /* what is told is open */

static void check(int holds)
{
	if (!holds)
		abort();
}

static void on_call(void *ctx, const struct rec_call *call, uint32_t mark)
{
	(void)ctx;
	(void)mark;
	check(call->kind == REC_CALL && (pid_t)call->tgid == getpid());
	check(call->nargs <= MAX_ARGS && !(call->flags & CALL_INSTANT));
	check(call->probe < MAX_PROBES || call->probe == CALL_PYTHON);
	if (call->probe == CALL_PYTHON)
		check(call->nargs == 1 && call->args[0] >> 63 && (uint32_t)call->args[0]);
	if (opens) {
		check(call->probe == CALL_PYTHON || call->depth < MAX_OPEN_CALLS);
		told_open++;
	} else {
		check(call->tid <= MAX_TID);
		told_calls++;
	}
}

static void on_code(void *ctx, uint64_t id, const struct call_text *name,
		    const struct call_text *file, uint32_t line)
{
	(void)ctx;
	(void)line;
	check(id >> 63 && (uint32_t)id);
	check(name->len <= CALL_CODE_NAME && file->len <= CALL_CODE_FILE);
	for (size_t i = 0; i < name->len; i++)
		check(name->bytes[i]);
	for (size_t i = 0; i < file->len; i++)
		check(file->bytes[i]);
}

static void on_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	(void)ctx;
	check((pid_t)pid == getpid() && ns);
}

static void remove_parent(void)
{
	rmdir(parent);
}

/* In a folder of its own: the parent is searched for what others left. */
static struct call_rings *open_rings(void)
{
	static bool made;
	struct call_rings_events events = {
		.on_call = on_call, .on_code = on_code, .on_upto = on_upto};
	struct call_rings *r;
	struct err e;
	if (!made) {
		check(mkdtemp(parent) != NULL);
		atexit(remove_parent);
	}
	made = true;
	check(call_rings_open(&r, parent, geteuid(), getegid(), &events, &e) == 0);
	return r;
}

static int make_file(const struct call_rings *rings)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%d", call_rings_folder(rings), getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0);
	return fd;
}

static void put(int fd, uint64_t at, const void *data, size_t n)
{
	check(pwrite(fd, data, n, (off_t)at) == (ssize_t)n);
}

static void put_header(int fd, bool counted)
{
	struct call_header h = {.magic = CALL_MAGIC, .pid = (uint32_t)getpid(), .counted = counted};
	put(fd, 0, &h, sizeof(h));
}

static void put_hists(int fd, uint8_t how, const uint8_t *data, size_t n)
{
	struct call_slot s = {.state = how & 3, .tid = (uint32_t)getpid()};
	s.hists = how & 0x80 ? UINT32_MAX : (uint32_t)(n / sizeof(struct call_hist));
	put(fd, CALL_HEADER_BYTES, &s, sizeof(s));
	put(fd, CALL_HISTS_BEGIN + 2 * CALL_HISTS_INDEX, data, n);
}

static void put_head(int fd, uint64_t head)
{
	put(fd, CALL_HEADER_BYTES + offsetof(struct call_slot, head), &head, sizeof(head));
}

static uint64_t told_hists, told_counted;

static void on_hist(void *ctx, const struct hist_key *key, const struct hist_value *v)
{
	(void)ctx;
	check((pid_t)key->tgid == getpid() && key->probe < MAX_PROBES);
	check(v->count && v->errors <= v->count && v->nested <= v->count);
	told_hists++;
	told_counted += v->count;
}

/* However often it is asked. */
static void look_at_hists(struct call_rings *rings)
{
	struct call_rings_stats st;
	for (int i = 0; i < 2; i++) {
		told_hists = told_counted = 0;
		call_rings_histograms(rings, on_hist, NULL);
		call_rings_stats(rings, &st);
		check(told_hists <= CALL_HISTS_MOST && told_counted == st.counted);
	}
}

/* Of what is there, no more is told than records fit into the rings. */
static void look(struct call_rings *rings)
{
	struct call_rings_stats before, after;
	uint64_t told = told_calls;
	call_rings_stats(rings, &before);
	size_t n = call_rings_drain(rings);
	call_rings_stats(rings, &after);
	check(n == told_calls - told && after.calls - before.calls == n);
	check(n <= (uint64_t)CALL_THREADS_MOST * CALL_RING_BYTES / sizeof(struct call_record));
	check(after.bad_records - before.bad_records <= CALL_THREADS_MOST);
	check(after.processes == 1);
	look_at_hists(rings);
	call_rings_stats(rings, &after); /* slots whose histograms make no sense count once more */
	check(after.bad_records - before.bad_records <= 2 * CALL_THREADS_MOST);
	told = told_calls;
	uint64_t open = told_open;
	opens = true;
	call_rings_open_calls(rings);
	opens = false;
	check(told_calls == told);
	check(told_open - open <=
	      (uint64_t)CALL_THREADS_MOST * (MAX_OPEN_CALLS + CALL_PARKED_MOST + CALL_PYTHON_OPEN));
}

/* Where in the ring, and behind all that it held, something can be told anew: a head that is too
 * far is skipped to. */
static uint64_t skip_to(struct call_rings *rings, int fd, uint64_t head)
{
	put_head(fd, head);
	look(rings);
	return head;
}

static void put_ring(int fd, uint64_t at, const uint8_t *data, size_t n)
{
	const uint64_t ring = CALL_HEADER_BYTES + CALL_SLOT_HEADER;
	for (size_t done = 0; done < n;) {
		uint64_t from = (at + done) % CALL_RING_BYTES;
		size_t some = n - done < CALL_RING_BYTES - from ? n - done : CALL_RING_BYTES - from;
		put(fd, ring + from, data + done, some);
		done += some;
	}
}

/* A thread's slot whose ring has the bytes. Returns its head. */
static uint64_t put_slot(struct call_rings *rings, int fd, uint8_t how, const uint8_t *data,
			 size_t n)
{
	struct call_slot s = {.state = how & 3, .tid = (uint32_t)getpid()};
	uint64_t head = 0, start = 0;
	put(fd, CALL_HEADER_BYTES, &s, sizeof(s));
	if (how & 0x10)
		start = skip_to(rings, fd, 3ULL * CALL_RING_BYTES - NEAR_END);
	if (how & 0x80 && n >= sizeof(head)) {
		memcpy(&head, data, sizeof(head));
		data += sizeof(head);
		n -= sizeof(head);
	} else {
		head = start + (n & ~(size_t)7);
	}
	put_ring(fd, start, data, n);
	put(fd, CALL_HEADER_BYTES, &s.state, sizeof(s.state));
	put_head(fd, head);
	return head;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > INPUT_MOST)
		return 0;
	struct call_rings *rings = open_rings();
	int fd = make_file(rings);
	uint64_t head = 0;
	uint8_t how = data[0];
	bool ends = how & 8;
	if (!ends)
		check(!ftruncate(fd, (off_t)CALL_FILE_BYTES));
	put_header(fd, how & 4);
	if ((how & 0x60) == 0x60)
		put_hists(fd, how, data + 1, size - 1);
	else if (how & 0x40)
		put(fd, 0, data + 1, size - 1);
	else if (how & 0x20)
		put(fd, CALL_HEADER_BYTES, data + 1, size - 1);
	else
		head = put_slot(rings, fd, how, data + 1, size - 1);
	look(rings);
	if (!(how & 0x60))
		put_head(fd, head + sizeof(struct call_record));
	look(rings);
	call_rings_stop(rings);
	look(rings);
	close(fd);
	call_rings_close(rings);
	return 0;
}
