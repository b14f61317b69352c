/* merge_tables.c - the tables of a source, with the output's numbers. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyze/process_index.h"
#include "merge/merge_impl.h"

/* ---- rows that are kept once ---- */

bool row_set_find(struct row_set *s, const void *row, uint32_t **ret)
{
	uint64_t place, hash = hash_bytes(row, s->row_bytes);
	for (; map64_get(&s->by_hash, hash, &place); hash++)
		if (!memcmp(s->rows.data + place * s->row_bytes, row, s->row_bytes)) {
			*ret = &s->numbers.data[place];
			return true;
		}
	map64_set(&s->by_hash, hash, s->numbers.len);
	buf_add(&s->rows, row, s->row_bytes);
	*ret = vec_push(&s->numbers);
	return false;
}

void row_set_free(struct row_set *s)
{
	map64_free(&s->by_hash);
	buf_free(&s->rows);
	vec_free(&s->numbers);
}

/* ---- dictionaries ---- */

static void put_strings(struct merge *m, struct merge_input *in)
{
	size_t n = strtab_len(&in->t->strings);
	in->strings = xcalloc(n + 1, sizeof(*in->strings));
	for (uint32_t i = 1; i < n; i++) {
		size_t len;
		const char *s = strtab_get(&in->t->strings, i, &len);
		in->strings[i] = rec_string(m->w, s, len);
	}
}

static void put_probes(struct merge *m, struct merge_input *in)
{
	in->probes = xcalloc(in->t->probes.len + 1, sizeof(*in->probes));
	for (size_t i = 0; i < in->t->probes.len; i++) {
		struct m_probe p = in->t->probes.data[i];
		p.layer = merge_string(in, p.layer);
		p.name = merge_string(in, p.name);
		p.library = merge_string(in, p.library);
		p.symbol = merge_string(in, p.symbol);
		p.role = merge_string(in, p.role);
		for (size_t k = 0; k < MODEL_MAX_ARGS; k++) {
			p.arg_names[k] = merge_string(in, p.arg_names[k]);
			p.arg_enums[k] = merge_string(in, p.arg_enums[k]);
		}
		uint32_t *number;
		if (!row_set_find(&m->probes, &p, &number))
			*number = rec_add_probe(m->w, &p);
		in->probes[i] = *number;
	}
}

static void put_threads(struct merge *m, struct merge_input *in)
{
	in->threads = xcalloc(in->t->threads.len + 1, sizeof(*in->threads));
	for (size_t i = 0; i < in->t->threads.len; i++) {
		struct m_thread row = in->t->threads.data[i];
		row.pid = merge_pid(in, row.pid);
		row.tid = merge_pid(in, row.tid);
		row.comm = merge_string(in, row.comm);
		in->threads[i] = rec_add_thread(m->w, &row);
	}
}

static void put_codes(struct merge *m, struct merge_input *in)
{
	in->codes = xcalloc(in->t->codes.len + 1, sizeof(*in->codes));
	for (size_t i = 0; i < in->t->codes.len; i++) {
		struct m_code row = in->t->codes.data[i];
		row.name = merge_string(in, row.name);
		row.file = merge_string(in, row.file);
		uint32_t *number;
		if (!row_set_find(&m->codes, &row, &number))
			*number = rec_add_code(m->w, &row);
		in->codes[i] = *number;
	}
}

static void put_frames(struct merge *m, struct merge_input *in)
{
	in->frames = xcalloc(in->t->frames.len + 1, sizeof(*in->frames));
	for (size_t i = 0; i < in->t->frames.len; i++) {
		const struct m_frame *from = &in->t->frames.data[i];
		struct m_frame row;
		memset(&row, 0, sizeof(row)); /* what lies between its fields too */
		row.kind = from->kind;
		row.in_python = from->in_python;
		row.name = merge_string(in, from->name);
		row.file = merge_string(in, from->file);
		row.line = from->line;
		row.library = merge_string(in, from->library);
		row.build_id = merge_string(in, from->build_id);
		row.address = from->address;
		uint32_t *number;
		if (!row_set_find(&m->frames, &row, &number))
			*number = rec_add_frame(m->w, &row);
		in->frames[i] = *number;
	}
}

/* A parent comes before its children. */
static void put_stacks(struct merge *m, struct merge_input *in)
{
	in->stacks = xcalloc(in->t->stacks.len + 1, sizeof(*in->stacks));
	for (size_t i = 1; i < in->t->stacks.len; i++) {
		const struct m_stack *from = &in->t->stacks.data[i];
		struct m_stack row = {in->stacks[from->parent], in->frames[from->frame]};
		uint32_t *number;
		if (!row_set_find(&m->stacks, &row, &number))
			*number = rec_add_stack(m->w, &row);
		in->stacks[i] = *number;
	}
}

static void put_enums(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->enums.len; i++) {
		struct m_enum row = in->t->enums.data[i];
		row.type = merge_string(in, row.type);
		row.name = merge_string(in, row.name);
		uint32_t *number;
		if (!row_set_find(&m->enums, &row, &number))
			rec_put_enum(m->w, &row);
	}
}

/* ---- processes and what they have ---- */

static void put_processes(struct merge *m, const struct merge_input *in, uint32_t source)
{
	struct process_index index;
	process_index_make(&index, in->t);
	for (size_t i = 0; i < in->t->processes.len; i++) {
		struct m_process row = in->t->processes.data[i];
		row.rank = process_index_rank(&index, row.pid);
		row.pid = merge_pid(in, row.pid);
		row.parent_pid = merge_pid(in, row.parent_pid);
		row.comm = merge_string(in, row.comm);
		row.command = merge_string(in, row.command);
		row.start_ns = merge_time(m, in, row.start_ns);
		row.end_ns = merge_time(m, in, row.end_ns);
		row.source = source;
		rec_put_process(m->w, &row);
	}
	process_index_free(&index);
}

static void put_maps(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->maps.len; i++) {
		struct m_map row = in->t->maps.data[i];
		row.pid = merge_pid(in, row.pid);
		row.path = merge_string(in, row.path);
		row.build_id = merge_string(in, row.build_id);
		row.time_ns = merge_time(m, in, row.time_ns);
		rec_put_map(m->w, &row);
	}
}

static void put_comms(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->comms.len; i++) {
		struct m_comm row = in->t->comms.data[i];
		row.pid = merge_pid(in, row.pid);
		row.start_ns = merge_time(m, in, row.start_ns);
		row.end_ns = merge_time(m, in, row.end_ns);
		rec_put_comm(m->w, &row);
	}
}

static void put_connections(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->connections.len; i++) {
		struct m_connection row = in->t->connections.data[i];
		row.pid = merge_pid(in, row.pid);
		row.source = merge_string(in, row.source);
		row.destination = merge_string(in, row.destination);
		row.opener = merge_string(in, row.opener);
		row.first_ns = merge_time(m, in, row.first_ns);
		row.last_ns = merge_time(m, in, row.last_ns);
		row.closed_ns = merge_time(m, in, row.closed_ns);
		rec_put_connection(m->w, &row);
	}
}

static void put_hists(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->hists.len; i++) {
		struct m_hist row = in->t->hists.data[i];
		const struct m_probe *p = &in->t->probes.data[row.probe];
		uint8_t type = p->name_arg < 0 ? ARG_TYPE_U64 : p->arg_types[(size_t)p->name_arg];
		if (type == ARG_TYPE_STRING)
			row.name = merge_string(in, (uint32_t)row.name);
		else if (type == ARG_TYPE_CODE)
			row.name = row.name < in->t->codes.len ? in->codes[row.name] : UINT64_MAX;
		row.pid = merge_pid(in, row.pid);
		row.probe = in->probes[row.probe];
		rec_put_hist(m->w, &row);
	}
}

/* ---- the host's ---- */

static bool is_of_host(const char *entity)
{
	return !strncmp(entity, "gpu ", 4) || !strcmp(entity, "eacgm");
}

/* "gpu 0 pid 12" -> "node7 gpu 0 pid 10000012". */
uint32_t merge_entity(struct merge *m, const struct merge_input *in, uint32_t number)
{
	const char *name = strtab_get(&in->t->strings, number, NULL);
	const char *of_process = !strncmp(name, "pid ", 4) ? name : strstr(name, " pid ");
	bool prefixed = m->clocks.len > 1 && is_of_host(name);
	if (!prefixed && (!of_process || !in->pid_shift))
		return merge_string(in, number);
	struct buf b = {0};
	if (prefixed)
		buf_printf(&b, "%s ", m->labels.data[in->clock]);
	unsigned long pid = 0;
	int end = 0;
	if (of_process && sscanf(of_process, "%*[ pid]%lu%n", &pid, &end) == 1 && end) {
		buf_add(&b, name, (size_t)(of_process - name));
		buf_printf(&b, "%spid %u%s", of_process == name ? "" : " ",
			   merge_pid(in, (uint32_t)pid), of_process + end);
	} else {
		buf_add(&b, name, strlen(name));
	}
	uint32_t ret = rec_string(m->w, (const char *)b.data, b.len);
	buf_free(&b);
	return ret;
}

static void put_gpus(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->gpus.len; i++) {
		struct m_gpu row = in->t->gpus.data[i];
		row.uuid = merge_string(in, row.uuid);
		row.name = merge_string(in, row.name);
		row.bus_id = merge_string(in, row.bus_id);
		row.driver = merge_string(in, row.driver);
		row.seen_ns = merge_time(m, in, row.seen_ns);
		row.gone_ns = merge_time(m, in, row.gone_ns);
		if (m->clocks.len > 1)
			row.host = rec_string_z(m->w, m->labels.data[in->clock]);
		rec_put_gpu(m->w, &row);
	}
}

static void put_remarks(struct merge *m, const struct merge_input *in)
{
	const struct rec_tables *t = in->t;
	for (size_t i = 0; i < t->notes.len; i++)
		rec_put_note(m->w, &(struct m_note){
					   .subject = merge_entity(m, in, t->notes.data[i].subject),
					   .reason = merge_string(in, t->notes.data[i].reason),
					   .time_ns = merge_time(m, in, t->notes.data[i].time_ns)});
	for (size_t i = 0; i < t->events.len; i++)
		rec_put_event(m->w, &(struct m_event){
					    .time_ns = merge_time(m, in, t->events.data[i].time_ns),
					    .entity = merge_entity(m, in, t->events.data[i].entity),
					    .name = merge_string(in, t->events.data[i].name),
					    .text = merge_string(in, t->events.data[i].text)});
	for (size_t i = 0; i < t->windows.len; i++)
		rec_put_window(m->w,
			       &(struct m_window){
				       .start_ns = merge_time(m, in, t->windows.data[i].start_ns),
				       .end_ns = merge_time(m, in, t->windows.data[i].end_ns),
				       .layer = merge_string(in, t->windows.data[i].layer)});
}

/* Later rows of a cause and CPU replace earlier ones, so what is put is the sum so far. */
static void put_losses(struct merge *m, const struct merge_input *in)
{
	for (size_t i = 0; i < in->t->losses.len; i++) {
		struct m_loss row = in->t->losses.data[i];
		row.cause = merge_string(in, row.cause);
		uint64_t k, key = (uint64_t)row.cause << 32 | row.cpu;
		if (!map64_get(&m->loss_of, key, &k)) {
			map64_set(&m->loss_of, key, k = m->losses.len);
			*vec_push(&m->losses) = (struct m_loss){row.cause, row.cpu, 0};
		}
		m->losses.data[k].count += row.count;
		rec_put_loss(m->w, &m->losses.data[k]);
	}
}

void merge_put_tables(struct merge *m, uint32_t source)
{
	struct merge_input *in = &m->inputs.data[source];
	put_strings(m, in);
	put_probes(m, in);
	put_threads(m, in);
	put_codes(m, in);
	put_frames(m, in);
	put_stacks(m, in);
	put_enums(m, in);
	put_processes(m, in, source);
	put_maps(m, in);
	put_comms(m, in);
	put_connections(m, in);
	put_hists(m, in);
	put_gpus(m, in);
	put_remarks(m, in);
	put_losses(m, in);
}

/* ---- metas ---- */

static const char *const sums[] = {
	"job_cpu_ns",  "collector_cpu_ns", "start_cpu_ns", "displacing_cpu_ns",
	"held_cpu_ns", "held_ns",	   "holds",	   "probe_hits",
	"attach_sites"};
static const char *const times[] = {"start_monotonic_ns", "end_monotonic_ns", "start_realtime_ns"};

static bool one_of(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i]))
			return true;
	return false;
}

static uint64_t number_of(const struct rec_tables *t, const char *key)
{
	const char *text = rec_meta(t, key);
	return text && isdigit((unsigned char)*text) ? strtoull(text, NULL, 10) : 0;
}

static void put_number(struct merge *m, const char *key, uint64_t value)
{
	char text[32];
	snprintf(text, sizeof(text), "%" PRIu64, value);
	rec_put_meta(m->w, key, text);
}

/* What a source counts of a sum; of one of before that has no such number, what a report of it
 * takes for it. */
static uint64_t part_of(const struct rec_tables *t, const char *key)
{
	if (!rec_meta(t, key) && !strcmp(key, "held_cpu_ns"))
		return number_of(t, "held_ns");
	if (rec_meta(t, key) || strcmp(key, "displacing_cpu_ns") != 0)
		return number_of(t, key);
	uint64_t all = number_of(t, "collector_cpu_ns"), start = number_of(t, "start_cpu_ns");
	return all > start ? all - start : 0;
}

static void put_sums(struct merge *m)
{
	for (size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); k++) {
		uint64_t sum = 0;
		bool known = false;
		for (size_t i = 0; i < m->inputs.len; i++) {
			sum += part_of(m->inputs.data[i].t, sums[k]);
			known |= rec_meta(m->inputs.data[i].t, sums[k]) != NULL;
		}
		if (known)
			put_number(m, sums[k], sum);
	}
}

/* A source that was not closed ends with its last row. */
static void put_times(struct merge *m)
{
	uint64_t first = UINT64_MAX, last = 0;
	char key[64];
	for (size_t i = 0; i < m->inputs.len; i++) {
		const struct merge_input *in = &m->inputs.data[i];
		uint64_t start = number_of(in->t, "start_monotonic_ns");
		uint64_t end = number_of(in->t, "end_monotonic_ns");
		start = merge_time(m, in, start);
		end = merge_time(m, in, end ? end : in->t->last_ns);
		snprintf(key, sizeof(key), "source_%zu_start_monotonic_ns", i);
		put_number(m, key, start);
		snprintf(key, sizeof(key), "source_%zu_end_monotonic_ns", i);
		put_number(m, key, end);
		first = start && start < first ? start : first;
		last = end > last ? end : last;
	}
	if (first == UINT64_MAX)
		return;
	put_number(m, "start_monotonic_ns", first);
	put_number(m, "end_monotonic_ns", last);
	if (m->inputs.data[0].realtime_known)
		put_number(m, "start_realtime_ns", first + (uint64_t)m->inputs.data[0].realtime_ns);
}

static void put_source_metas(struct merge *m, uint32_t source)
{
	const struct merge_input *in = &m->inputs.data[source];
	const struct rec_tables *reference = m->inputs.data[0].t;
	for (size_t i = 0; i < in->t->metas.len; i++) {
		const char *key = strtab_get(&in->t->strings, in->t->metas.data[i].key, NULL);
		const char *value = strtab_get(&in->t->strings, in->t->metas.data[i].value, NULL);
		const char *there = rec_meta(reference, key);
		if (one_of(key, times, sizeof(times) / sizeof(times[0])))
			continue;
		if (!source && !one_of(key, sums, sizeof(sums) / sizeof(sums[0])))
			rec_put_meta(m->w, key, value);
		if (!source || (there && !strcmp(there, value)))
			continue;
		char *own = xasprintf("source_%u_%s", source, key);
		rec_put_meta(m->w, own, value);
		free(own);
	}
}

void merge_put_metas(struct merge *m)
{
	for (uint32_t i = 0; i < m->inputs.len; i++)
		put_source_metas(m, i);
	put_sums(m);
	put_times(m);
}
