/* rings.c - the ring buffers that programs write records to: one for each CPU. What is read from
 * them is drain.c's concern. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "probe/inner_maps.h"
#include "probe/tracer_impl.h"

#define RINGS_TOTAL_BYTES (256u << 20)
#define RING_MAX_BYTES	  (16u << 20)
#define RING_MIN_BYTES	  (256u << 10)

static uint32_t ring_size(const struct tracer *t, int cpus)
{
	uint32_t want =
		t->opts.ring_bytes ? t->opts.ring_bytes : RINGS_TOTAL_BYTES / (uint32_t)cpus;
	if (!t->opts.ring_bytes && want > RING_MAX_BYTES)
		want = RING_MAX_BYTES;
	if (want < RING_MIN_BYTES)
		want = RING_MIN_BYTES;
	while (want & (want - 1))
		want &= want - 1;
	return want;
}

uint32_t tracer_ring_bytes(const struct tracer *t)
{
	return ring_size(t, libbpf_num_possible_cpus());
}

/* Edges alone: a ring is readable as long as anything is in it, a wake-up is told once. */
static int watch_rings(struct tracer *t, struct err *e)
{
	struct epoll_event edge = {.events = EPOLLIN | EPOLLET}, level = {.events = EPOLLIN};
	t->rings_epoll = epoll_create1(EPOLL_CLOEXEC);
	t->rest_end = eventfd(0, EFD_CLOEXEC);
	if (t->rings_epoll < 0 || t->rest_end < 0)
		return err_set(e, EMFILE, "no descriptor is left");
	int rc = epoll_ctl(t->rings_epoll, EPOLL_CTL_ADD, t->rest_end, &level);
	for (size_t i = 0; !rc && i < t->ring_fds.len; i++)
		rc = epoll_ctl(t->rings_epoll, EPOLL_CTL_ADD, t->ring_fds.data[i], &edge);
	return rc ? err_set(e, errno, "cannot wait for ring buffers: %s", strerror(errno)) : 0;
}

void tracer_rest(struct tracer *t, uint64_t ns)
{
	struct timespec most = {.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};
	struct pollfd fd = {.fd = t->rings_epoll, .events = POLLIN};
	struct epoll_event told[16];
	/* Now, and not before they were emptied: of a wake-up for what was read since nothing is
	 * left to be told, and who is over the half now wakes once more. */
	__atomic_store_n(&t->bpf->bss->reader_woken, 0, __ATOMIC_SEQ_CST);
	int n = ppoll(&fd, 1, &most, NULL) > 0 ? 16 : 0;
	while (n == 16)
		n = epoll_wait(t->rings_epoll, told, 16, 0);
}

void tracer_end_rests(struct tracer *t)
{
	eventfd_write(t->rest_end, 1);
}

int rings_make(struct tracer *t, struct err *e)
{
	int cpus = libbpf_num_possible_cpus();
	if (cpus < 1 || cpus > (int)bpf_map__max_entries(t->bpf->maps.rings))
		return err_set(e, E2BIG, "cannot trace on %d CPUs", cpus);
	uint32_t bytes = ring_size(t, cpus);
	for (uint32_t cpu = 0; cpu < (uint32_t)cpus; cpu++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, bytes, NULL);
		if (fd < 0)
			return err_set(e, errno, "cannot make a ring buffer of %u bytes: %s", bytes,
				       strerror(errno));
		*vec_push(&t->ring_fds) = fd;
	}
	if (inner_maps_install(bpf_map__fd(t->bpf->maps.rings), 0, t->ring_fds.data,
			       (uint32_t)t->ring_fds.len))
		return err_set(e, errno, "cannot install a ring buffer: %s", strerror(errno));
	return watch_rings(t, e);
}

void rings_close(struct tracer *t)
{
	for (size_t i = 0; i < t->ring_fds.len; i++)
		close(t->ring_fds.data[i]);
	vec_free(&t->ring_fds);
	if (t->rings_epoll >= 0)
		close(t->rings_epoll);
	if (t->rest_end >= 0)
		close(t->rest_end);
	t->rings_epoll = t->rest_end = -1;
}
