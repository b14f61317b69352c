/* stalls.c - attaches to what tells of interrupts, softirqs, whose packets those deliver, and
 * memory that threads have to free or move. What a kernel does not have is left out. */
#include <errno.h>
#include <string.h>

#include "probe/tracer_impl.h"

int attach_places(struct tracer *t, const struct place *places, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct bpf_link *link =
			bpf_program__attach_raw_tracepoint(places[i].program, places[i].tracepoint);
		if (link)
			*vec_push(&t->clock_links) = link;
		else if (errno != ENOENT)
			return err_set(e, errno, "cannot follow the kernel's %s: %s",
				       places[i].tracepoint, strerror(errno));
	}
	return 0;
}

void stalls_choose(struct tracer *t)
{
	struct bpf_program *const programs[] = {
		t->bpf->progs.on_irq_begin,	   t->bpf->progs.on_irq_end,
		t->bpf->progs.on_vector_begin,	   t->bpf->progs.on_vector_end,
		t->bpf->progs.on_softirq_begin,	   t->bpf->progs.on_softirq_end,
		t->bpf->progs.on_reclaim_begin,	   t->bpf->progs.on_cgroup_reclaim_begin,
		t->bpf->progs.on_compaction_begin, t->bpf->progs.on_memory_end,
		t->bpf->progs.open_stall_sums,	   t->bpf->progs.on_packet_sent,
		t->bpf->progs.on_packet_delivered,
	};
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		bpf_program__set_autoload(programs[i], t->opts.counts_stalls);
	bpf_map__set_autocreate(t->bpf->maps.sent_packets, t->opts.counts_stalls);
}

/* Ends before beginnings: an end without its beginning is nothing. */
int stalls_start(struct tracer *t, struct err *e)
{
	if (!t->opts.counts_stalls)
		return 0;
	const struct place places[] = {
		{"irq_handler_exit", t->bpf->progs.on_irq_end},
		{"local_timer_exit", t->bpf->progs.on_vector_end},
		{"irq_work_exit", t->bpf->progs.on_vector_end},
		{"thermal_apic_exit", t->bpf->progs.on_vector_end},
		{"call_function_single_exit", t->bpf->progs.on_vector_end},
		{"call_function_exit", t->bpf->progs.on_vector_end},
		{"reschedule_exit", t->bpf->progs.on_vector_end},
		{"softirq_exit", t->bpf->progs.on_softirq_end},
		{"mm_vmscan_direct_reclaim_end", t->bpf->progs.on_memory_end},
		{"mm_vmscan_memcg_reclaim_end", t->bpf->progs.on_memory_end},
		{"mm_compaction_end", t->bpf->progs.on_memory_end},
		{"irq_handler_entry", t->bpf->progs.on_irq_begin},
		{"local_timer_entry", t->bpf->progs.on_vector_begin},
		{"irq_work_entry", t->bpf->progs.on_vector_begin},
		{"thermal_apic_entry", t->bpf->progs.on_vector_begin},
		{"call_function_single_entry", t->bpf->progs.on_vector_begin},
		{"call_function_entry", t->bpf->progs.on_vector_begin},
		{"reschedule_entry", t->bpf->progs.on_vector_begin},
		{"softirq_entry", t->bpf->progs.on_softirq_begin},
		{"mm_vmscan_direct_reclaim_begin", t->bpf->progs.on_reclaim_begin},
		{"mm_vmscan_memcg_reclaim_begin", t->bpf->progs.on_cgroup_reclaim_begin},
		{"mm_compaction_begin", t->bpf->progs.on_compaction_begin},
		{"netif_receive_skb", t->bpf->progs.on_packet_delivered},
		{"netif_rx", t->bpf->progs.on_packet_sent},
	};
	return attach_places(t, places, sizeof(places) / sizeof(*places), e);
}
