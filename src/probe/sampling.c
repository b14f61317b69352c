/* sampling.c - a software clock on each CPU that is online (perf_event_open(2)); hardware
 * counters are not needed, so that it works in virtual machines. */
#include "probe/sampling.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TICKS_MAX_HZ 1000

uint32_t sampling_ticks(uint32_t hz)
{
	return hz * 4 <= TICKS_MAX_HZ ? 4 : hz * 2 <= TICKS_MAX_HZ ? 2 : 1;
}

static int open_clock(int cpu, uint32_t hz)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_freq = hz,
		.freq = 1,
	};
	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static int start_clocks(struct tracer *t, struct err *e)
{
	int cpus = libbpf_num_possible_cpus(), code = 0;
	uint32_t hz = t->opts.sample_hz * sampling_ticks(t->opts.sample_hz);
	for (int cpu = 0; cpu < cpus; cpu++) {
		int fd = open_clock(cpu, hz);
		if (fd < 0) {
			code = errno; /* a CPU that is offline, mostly */
			continue;
		}
		struct bpf_link *link =
			bpf_program__attach_perf_event(t->bpf->progs.on_cpu_clock, fd);
		if (!link) {
			code = errno;
			close(fd);
			continue;
		}
		*vec_push(&t->clock_links) = link;
	}
	if (t->clock_links.len)
		return 0;
	return err_set(e, code, "cannot sample the CPUs' clocks: %s", strerror(code));
}

static int start_waits(struct tracer *t, struct err *e)
{
	struct bpf_program *progs[] = {t->bpf->progs.on_switch, t->bpf->progs.on_waking};
	for (size_t i = 0; i < 2; i++) {
		struct bpf_link *link = bpf_program__attach(progs[i]);
		if (!link)
			return err_set(e, errno, "cannot follow the scheduler: %s",
				       strerror(errno));
		*vec_push(&t->clock_links) = link;
	}
	if (!t->opts.counts_waits)
		return 0;
	const struct place signals = {"signal_generate", t->bpf->progs.on_signal};
	return attach_places(t, &signals, 1, e);
}

int sampling_start(struct tracer *t, struct err *e)
{
	int rc = t->opts.sample_hz ? start_clocks(t, e) : 0;
	if (!rc && (t->opts.waits || t->opts.counts_waits))
		rc = start_waits(t, e);
	if (!rc && t->opts.counts_waits)
		rc = run_iterator(t->bpf->progs.find_waits, e);
	if (!rc)
		rc = stalls_start(t, e);
	if (!rc)
		rc = disk_io_start(t, e);
	return rc;
}

void sampling_stop(struct tracer *t)
{
	for (size_t i = 0; i < t->clock_links.len; i++)
		bpf_link__destroy(t->clock_links.data[i]);
	vec_free(&t->clock_links);
}
