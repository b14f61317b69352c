/* gpu_spans_fuzz.c - hostile rings of the CUPTI shim.
 *
 * The first byte says how long the ring claims to be (bits 0-4: a power of two) and, by bit 7,
 * that the next eight bytes are its head; else the head is behind the last record. The rest is
 * what lies in the ring, whose file is no longer than that. It is read twice, as from a process
 * that goes on writing.
 *
 * links: base collect symbolize */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/gpu_spans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char parent[] = "/tmp/gpu_spans_fuzz-XXXXXX";
static uint64_t told_spans, told_calls, told_ops;
static uint32_t told_names;

static void check(int holds)
{
	if (!holds)
		abort();
}

static uint32_t on_name(void *ctx, const char *text, size_t len)
{
	uint32_t sum = 0;
	(void)ctx;
	check(len <= GPU_RING_NAME_BYTES);
	for (size_t i = 0; i < len; i++) /* every byte can be read */
		sum += (unsigned char)text[i];
	told_names++;
	return 1 + sum % 1000;
}

static void on_span(void *ctx, uint32_t pid, const struct gpu_ring_span *span, uint32_t name)
{
	(void)ctx;
	check((pid_t)pid == getpid() && span->end_ns >= span->start_ns &&
	      span->work <= GPU_RING_GRAPH);
	check(!span->name == !name && span->name <= told_names);
	told_spans++;
}

static void on_tells(void *ctx, uint32_t pid, uint32_t tells)
{
	(void)ctx;
	check((pid_t)pid == getpid() && tells);
}

static void on_call(void *ctx, uint32_t pid, const struct gpu_ring_call *call)
{
	(void)ctx;
	check((pid_t)pid == getpid() && call->end_ns >= call->start_ns);
	told_calls++;
}

/* Some names are wanted, others not. */
static uint32_t on_op_name(void *ctx, uint32_t kind, const char *text, size_t len)
{
	uint32_t sum = 0;
	(void)ctx;
	check(kind <= GPU_RING_NODE && len <= GPU_RING_NAME_BYTES);
	for (size_t i = 0; i < len; i++)
		sum += (unsigned char)text[i];
	return sum % 3;
}

static void on_op(void *ctx, uint32_t pid, const struct gpu_ring_op *op, uint32_t name)
{
	(void)ctx;
	check((pid_t)pid == getpid() && op->end_ns >= op->start_ns && name && name < 3);
	told_ops++;
}

static void on_launch(void *ctx, uint32_t pid, const struct gpu_ring_launch *launch)
{
	(void)ctx;
	check((pid_t)pid == getpid() && launch->end_ns >= launch->start_ns);
	told_ops++;
}

static void on_ops_upto(void *ctx, uint32_t pid, uint64_t ns)
{
	(void)ctx;
	(void)ns;
	check((pid_t)pid == getpid());
}

static void on_note(void *ctx, uint32_t pid, const char *text)
{
	(void)ctx;
	check((pid_t)pid == getpid() && text[0] != '\0' && strlen(text) < 600);
}

static void remove_parent(void)
{
	rmdir(parent);
}

/* In a folder of its own: the parent is searched for what others left. */
static struct gpu_spans *open_spans(void)
{
	static bool made;
	struct gpu_spans_events events = {.on_name = on_name,
					  .on_span = on_span,
					  .on_tells = on_tells,
					  .on_call = on_call,
					  .on_op_name = on_op_name,
					  .on_op = on_op,
					  .on_launch = on_launch,
					  .on_ops_upto = on_ops_upto,
					  .on_note = on_note};
	struct gpu_spans *s;
	struct err e;
	if (!made) {
		check(mkdtemp(parent) != NULL);
		atexit(remove_parent);
	}
	made = true;
	check(gpu_spans_open(&s, parent, &events, &e) == 0);
	return s;
}

static void write_header(int fd, const struct gpu_ring_header *h)
{
	check(pwrite(fd, h, sizeof(*h), 0) == sizeof(*h));
}

static void look(struct gpu_spans *spans)
{
	struct gpu_spans_stats before, after;
	uint64_t told = told_spans, told_of_calls = told_calls, told_of_ops = told_ops;
	gpu_spans_stats(spans, &before);
	gpu_spans_drain(spans);
	gpu_spans_stats(spans, &after);
	check(after.spans - before.spans == told_spans - told);
	check(after.calls - before.calls == told_calls - told_of_calls);
	check(after.ops - before.ops == told_ops - told_of_ops);
	check(after.bad_records >= before.bad_records);
}

static int make_ring(const struct gpu_spans *spans)
{
	char path[PATH_MAX];
	snprintf(path, sizeof(path), "%s/%d", gpu_spans_folder(spans), getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	check(fd >= 0);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpu_ring_header h = {.magic = GPU_RING_MAGIC, .pid = (uint32_t)getpid()};
	size_t used = 1;
	if (size < 1)
		return 0;
	h.bytes = 1ULL << (data[0] & 31);
	if (data[0] & 0x80 && size >= 9) {
		memcpy(&h.head, data + 1, sizeof(h.head));
		used = 9;
	} else {
		h.head = (size - used) & ~(size_t)7;
	}
	h.state = data[0] >> 5 & 3;
	memset(h.text, 'x', sizeof(h.text)); /* and no NUL */
	told_names = 0;
	struct gpu_spans *spans = open_spans();
	int fd = make_ring(spans);
	write_header(fd, &h);
	check(pwrite(fd, data + used, size - used, GPU_RING_HEADER_BYTES) ==
	      (ssize_t)(size - used));
	look(spans);
	h.head += 64;
	write_header(fd, &h);
	look(spans);
	gpu_spans_stop(spans);
	close(fd);
	gpu_spans_close(spans);
	return 0;
}
