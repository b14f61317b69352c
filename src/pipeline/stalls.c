/* stalls.c - what the programs counted of time that the kernel took from threads that had a CPU,
 * and of what processes had disks do, as rows. */
#include <string.h>

#include "pipeline/pipeline_impl.h"

static const char *softirq_name(int32_t number)
{
	static const char *const names[STALL_SOFTIRQS] = STALL_SOFTIRQ_NAMES;
	return number >= 0 && number < STALL_SOFTIRQS ? names[number] : "";
}

static const char *reclaim_name(int32_t number)
{
	static const char *const names[STALL_RECLAIMS] = STALL_RECLAIM_NAMES;
	return number >= 0 && number < STALL_RECLAIMS ? names[number] : "";
}

static const char *vector_name(int32_t number)
{
	static const struct {
		int32_t vector;
		const char *name;
	} vectors[] = STALL_VECTOR_NAMES;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		if (number == -vectors[i].vector)
			return vectors[i].name;
	return "";
}

/* What is called so: by its number, of devices' interrupts by who handles them. */
static uint32_t name_of(struct pipeline *p, uint8_t kind, int32_t number,
			const char handler[STALL_NAME])
{
	char text[STALL_NAME + 1] = "";
	const char *name = "";
	if (kind == STALL_SOFTIRQ)
		name = softirq_name(number);
	else if (kind == STALL_RECLAIM)
		name = reclaim_name(number);
	else if (kind == STALL_INTERRUPT && number < 0)
		name = vector_name(number);
	else if (kind == STALL_INTERRUPT && number == STALL_OTHER_LINES)
		name = "(others)";
	else if (kind == STALL_INTERRUPT)
		name = memcpy(text, handler, STALL_NAME);
	return *name ? rec_string_z(p->writer, name) : 0;
}

void stalls_add(struct pipeline *p, const struct rec_stall *r)
{
	char comm[sizeof(r->comm) + 1] = "", sender[sizeof(r->sender) + 1] = "";
	memcpy(comm, r->comm, sizeof(r->comm));
	memcpy(sender, r->sender, sizeof(r->sender));
	if (r->stall >= STALL_KINDS || r->own_ns > r->duration_ns ||
	    r->start_ns + r->duration_ns < r->start_ns) {
		p->bad_records++;
		return;
	}
	if (!pipeline_is_told(p, r->tgid))
		return;
	emit_stall(p, &(struct m_stall){
			      .start_ns = r->start_ns,
			      .end_ns = r->start_ns + r->duration_ns,
			      .own_ns = r->own_ns,
			      .thread = pipeline_thread_named(p, r->tgid, r->tid, comm),
			      .number = r->number,
			      .name = name_of(p, r->stall, r->number, r->name),
			      .cpu = r->cpu,
			      .kind = r->stall,
			      .sender_pid = r->sender_tgid,
			      .sender = r->sender_tgid ? rec_string_z(p->writer, sender) : 0,
		      });
}

/* Sums come from the ring of the CPU that the thread was on: not in their order. */
static bool is_news(struct pipeline *p, uint32_t thread, uint64_t until_ns)
{
	uint64_t told_ns;
	if (map64_get(&p->stalls_told, thread, &told_ns) && told_ns >= until_ns)
		return false;
	map64_set(&p->stalls_told, thread, until_ns);
	return true;
}

void stalls_add_sums(struct pipeline *p, const struct rec_stall_sums *r)
{
	char comm[sizeof(r->comm) + 1] = "";
	memcpy(comm, r->comm, sizeof(r->comm));
	if (!pipeline_is_told(p, r->tgid))
		return;
	uint32_t thread = pipeline_thread_named(p, r->tgid, r->tid, comm);
	if (!is_news(p, thread, r->until_ns))
		return;
	for (unsigned i = 0; i < STALL_SUMS; i++) {
		const struct stall_sum *s = &r->sums[i];
		if (!s->count)
			continue;
		if (s->stall >= STALL_KINDS) {
			p->bad_records++;
			continue;
		}
		emit_stall_total(p, &(struct m_stall_total){
					    .thread = thread,
					    .kind = s->stall,
					    .number = s->number,
					    .name = name_of(p, s->stall, s->number, s->name),
					    .since_ns = r->since_ns,
					    .until_ns = r->until_ns,
					    .count = s->count,
					    .total_ns = s->own_ns,
					    .longest_ns = s->longest_ns,
					    .left_out = s->left_out,
				    });
	}
}

void pipeline_disk_io(struct pipeline *p, const struct disk_io *d)
{
	const struct disk_sums *s = &d->sums;
	char comm[sizeof(s->comm) + 1] = "", disk[sizeof(s->name) + 1] = "";
	memcpy(comm, s->comm, sizeof(s->comm));
	memcpy(disk, s->name, sizeof(s->name));
	emit_disk_io(p, &(struct m_disk_io){
				.since_ns = d->since_ns,
				.until_ns = d->until_ns,
				.disk = rec_string_z(p->writer, disk),
				.pid = d->of.tgid,
				.comm = rec_string_z(p->writer, comm),
				.reads = s->reads,
				.writes = s->writes,
				.flushes = s->flushes,
				.read_bytes = s->read_bytes,
				.written_bytes = s->written_bytes,
				.read_ns = s->read_ns,
				.write_ns = s->write_ns,
				.flush_ns = s->flush_ns,
				.queued_ns = s->queued_ns,
				.longest_ns = s->longest[0],
			});
}
