/* perfetto_tracks.c - processes and threads in Perfetto's trace format, in the order in which
 * viewers show them: the root's descriptor says that they go by rank, which begins at 1, since
 * those without one have rank 0. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "export/perfetto_impl.h"

static void put_track(const struct track_writer *w, Eacgm__TrackDescriptor *d, uint64_t uuid,
		      int32_t rank)
{
	Eacgm__TracePacket p = EACGM__TRACE_PACKET__INIT;
	d->has_uuid = 1;
	d->uuid = uuid;
	d->has_sibling_order_rank = rank != 0;
	d->sibling_order_rank = rank;
	p.track_descriptor = d;
	w->put(w->ctx, &p);
}

static char *clean(const struct track_writer *w, uint32_t string)
{
	struct buf text = {0};
	size_t len;
	const char *s = strtab_get(&w->t->strings, string, &len);
	utf8_append_clean(&text, s, len, '?');
	return (char *)text.data;
}

static void put_root(const struct track_writer *w)
{
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	d.has_process_ordering = d.has_thread_ordering = 1;
	d.process_ordering = EACGM__TRACK_DESCRIPTOR__PROCESS_ORDERING__PROCESS_ORDERING_EXPLICIT;
	d.thread_ordering = EACGM__TRACK_DESCRIPTOR__THREAD_ORDERING__THREAD_ORDERING_EXPLICIT;
	put_track(w, &d, 0, 0);
}

static void put_process(const struct track_writer *w, uint32_t process, int32_t rank)
{
	const struct m_process *row = &w->t->processes.data[process];
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	Eacgm__ProcessDescriptor of = EACGM__PROCESS_DESCRIPTOR__INIT;
	char *command = clean(w, row->command);
	of.has_pid = 1;
	of.pid = (int32_t)row->pid;
	of.process_name = clean(w, row->comm);
	of.cmdline = &command;
	of.n_cmdline = row->command != 0;
	d.process = &of;
	put_track(w, &d, w->process_track + row->pid, rank);
	free(of.process_name);
	free(command);
}

static void put_thread(const struct track_writer *w, uint32_t thread, int32_t rank)
{
	const struct m_thread *row = &w->t->threads.data[thread];
	Eacgm__TrackDescriptor d = EACGM__TRACK_DESCRIPTOR__INIT;
	Eacgm__ThreadDescriptor of = EACGM__THREAD_DESCRIPTOR__INIT;
	of.has_pid = of.has_tid = 1;
	of.pid = (int32_t)row->pid;
	of.tid = row->tid;
	of.thread_name = clean(w, row->comm);
	d.has_parent_uuid = 1;
	d.parent_uuid = w->process_track + row->pid;
	d.thread = &of;
	put_track(w, &d, w->thread_track + thread, rank);
	free(of.thread_name);
}

void perfetto_tracks(const struct track_writer *w, const struct track_order *order)
{
	put_root(w);
	for (size_t i = 0; i < order->nprocesses; i++)
		put_process(w, order->processes[i], (int32_t)i + 1);
	for (size_t i = 0; i < order->nthreads; i++)
		put_thread(w, order->threads[i], (int32_t)i + 1);
}
