/* pipeline.c - the inbox, and opening, flushing and closing. Records are in decode.c,
 * names in names.c, processes in processes.c. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "events/losses.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

struct pipeline *pipeline_new(struct rec_writer *w, const char *proc_root,
			      const struct parser_service *readers)
{
	struct pipeline *p = xcalloc(1, sizeof(*p));
	p->writer = w;
	p->proc_root = xstrdup(proc_root);
	p->inbox_tail = &p->inbox;
	p->namer = namer_new(readers);
	p->forgot_ns = monotonic_ns();
	p->kernels = kernels_new();
	p->comms = comms_new();
	p->rivals = rivals_new();
	p->metrics = metrics_new();
	p->shim_calls = shim_calls_new();
	p->shim_ops = shim_ops_new();
	p->stacks = stacks_new();
	p->frames = frames_new();
	p->kernel_frames = kernel_frames_new();
	p->jit = jit_new();
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void pipeline_ask_servers(struct pipeline *p, const struct pipeline_servers *servers)
{
	p->servers = *servers;
}

void pipeline_ask_kernel(struct pipeline *p, const struct pipeline_kernel *kernel)
{
	p->kernel = *kernel;
}

/* ---- inbox ---- */

static void post(struct pipeline *p, struct message m)
{
	struct message *copy = xcalloc(1, sizeof(*copy));
	*copy = m;
	copy->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->inbox_tail = copy;
	p->inbox_tail = &copy->next;
	pthread_mutex_unlock(&p->lock);
}

void pipeline_define_probe(struct pipeline *p, const struct pipeline_probe *probe)
{
	struct message m = {.kind = MSG_PROBE, .probe = *probe};
	m.probe.layer = xstrdup(probe->layer);
	m.probe.name = xstrdup(probe->name);
	m.probe.library = xstrdup(probe->library);
	m.probe.symbol = xstrdup(probe->symbol);
	m.probe.role = probe->role ? xstrdup(probe->role) : NULL;
	for (int i = 0; i < probe->nargs; i++) {
		m.probe.arg_names[i] = xstrdup(probe->arg_names[i]);
		m.probe.arg_enums[i] = probe->arg_enums[i] ? xstrdup(probe->arg_enums[i]) : NULL;
	}
	post(p, m);
}

void pipeline_define_enum(struct pipeline *p, const char *type, int64_t value, const char *name,
			  uint32_t bytes)
{
	post(p, (struct message){.kind = MSG_ENUM,
				 .a = xstrdup(type),
				 .b = xstrdup(name),
				 .start_ns = (uint64_t)value,
				 .end_ns = bytes});
}

void pipeline_gpu(struct pipeline *p, const struct pipeline_gpu *gpu)
{
	post(p, (struct message){.kind = MSG_GPU,
				 .gpu = gpu->row,
				 .a = xstrdup(gpu->uuid),
				 .b = xstrdup(gpu->name),
				 .c = xstrdup(gpu->bus_id),
				 .d = xstrdup(gpu->driver)});
}

void pipeline_connection(struct pipeline *p, const struct pipeline_connection *connection)
{
	post(p, (struct message){.kind = MSG_CONNECTION,
				 .connection = connection->row,
				 .a = xstrdup(connection->source),
				 .b = xstrdup(connection->destination),
				 .c = xstrdup(connection->opener)});
}

void pipeline_event(struct pipeline *p, uint64_t time_ns, const char *entity, const char *name,
		    const char *text)
{
	post(p, (struct message){.kind = MSG_EVENT,
				 .a = xstrdup(entity),
				 .b = xstrdup(name),
				 .c = xstrdup(text),
				 .start_ns = time_ns});
}

void pipeline_row(struct pipeline *p, enum row_kind kind, const void *row, const char *const *texts,
		  size_t n)
{
	const size_t bytes = row_kind_info(kind)->row_bytes;
	struct message m = {.kind = MSG_ROW, .row_kind = kind, .ntexts = n};
	m.row = memcpy(xcalloc(1, bytes), row, bytes);
	m.texts = xcalloc(n + 1, sizeof(*m.texts));
	for (size_t i = 0; i < n; i++)
		m.texts[i] = xstrdup(texts[i]);
	post(p, m);
}

void pipeline_define_maps(struct pipeline *p, pid_t pid, proc_maps_t *maps, char **build_ids,
			  uint64_t seen_ns)
{
	post(p, (struct message){.kind = MSG_MAPS,
				 .pid = pid,
				 .maps = *maps,
				 .build_ids = build_ids,
				 .start_ns = seen_ns});
	*maps = (proc_maps_t){0};
}

void pipeline_define_table(struct pipeline *p, uint32_t table, const struct proc_map *m,
			   const char *build_id, int fd)
{
	post(p, (struct message){.kind = MSG_TABLE,
				 .table = table,
				 .map = *m,
				 .a = xstrdup(m->path),
				 .b = xstrdup(build_id),
				 .fd = fd});
}

void pipeline_task(struct pipeline *p, const struct rec_task *task)
{
	post(p, (struct message){.kind = MSG_TASK, .task = *task});
}

void pipeline_process(struct pipeline *p, pid_t pid)
{
	post(p, (struct message){.kind = MSG_PROCESS, .pid = pid});
}

void pipeline_process_used(struct pipeline *p, pid_t pid, uint64_t cpu_ns)
{
	post(p,
	     (struct message){.kind = MSG_USED, .task = {.tgid = (uint32_t)pid, .cpu_ns = cpu_ns}});
}

void pipeline_leave_alone(struct pipeline *p, pid_t pid, bool alone, uint64_t since_ns)
{
	post(p,
	     (struct message){.kind = MSG_ALONE, .pid = pid, .alone = alone, .start_ns = since_ns});
}

void pipeline_note(struct pipeline *p, const char *subject, const char *reason)
{
	post(p, (struct message){
			.kind = MSG_NOTE,
			.a = xstrdup(subject),
			.b = xstrdup(reason),
			.start_ns = monotonic_ns(),
		});
}

void pipeline_meta(struct pipeline *p, const char *key, const char *fmt, ...)
{
	char value[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	post(p, (struct message){.kind = MSG_META, .a = xstrdup(key), .b = xstrdup(value)});
}

void pipeline_counter(struct pipeline *p, uint64_t time_ns, const struct entity *of,
		      const char *name, double value)
{
	post(p, (struct message){.kind = MSG_COUNTER,
				 .entity = *of,
				 .a = xstrdup(of->label),
				 .b = xstrdup(name),
				 .start_ns = time_ns,
				 .value = value});
}

void pipeline_fixed_work(struct pipeline *p, uint64_t time_ns, pid_t pid, double ns)
{
	post(p, (struct message){.kind = MSG_FIXED_WORK,
				 .entity = ENTITY_OF_PID(pid),
				 .start_ns = time_ns,
				 .value = ns});
}

void pipeline_window(struct pipeline *p, uint64_t start_ns, uint64_t end_ns)
{
	post(p, (struct message){.kind = MSG_WINDOW, .start_ns = start_ns, .end_ns = end_ns});
}

void pipeline_open_call(struct pipeline *p, const struct rec_call *call)
{
	post(p, (struct message){.kind = MSG_OPEN_CALL, .call = *call});
}

void pipeline_open_collective(struct pipeline *p, const struct rec_call *call)
{
	post(p, (struct message){.kind = MSG_OPEN_COLLECTIVE, .call = *call});
}

void pipeline_open_wait(struct pipeline *p, const struct rec_sample *sample)
{
	post(p, (struct message){.kind = MSG_OPEN_WAIT, .sample = *sample});
}

/* ---- the recording thread takes messages ---- */

/* "import {name}": calls are named "import " and what their first argument says. Cuts the
 * name down to "import" and returns the prefix. */
static char *take_prefix(struct pipeline_probe *in)
{
	char *hole = in->name_arg == 0 ? strstr(in->name, "{name}") : NULL;
	if (!hole)
		return NULL;
	*hole = 0;
	char *prefix = xstrdup(in->name);
	while (hole > in->name && hole[-1] == ' ')
		*--hole = 0;
	return prefix;
}

/* The product of two arguments becomes one of its own, before the return value. */
static void add_bytes(struct pipeline *p, struct m_probe *row)
{
	unsigned at = row->nargs - (row->has_return ? 1u : 0u);
	for (unsigned i = row->nargs; i > at; i--) {
		row->arg_names[i] = row->arg_names[i - 1];
		row->arg_types[i] = row->arg_types[i - 1];
		row->arg_enums[i] = row->arg_enums[i - 1];
	}
	row->arg_names[at] = rec_string_z(p->writer, "bytes");
	row->arg_types[at] = ARG_TYPE_BYTES;
	row->arg_enums[at] = 0;
	row->nargs++;
}

static void take_probe(struct pipeline *p, struct pipeline_probe *in)
{
	char *prefix = take_prefix(in);
	struct m_probe row = {
		.layer = rec_string_z(p->writer, in->layer),
		.name = rec_string_z(p->writer, in->name),
		.library = rec_string_z(p->writer, in->library),
		.symbol = rec_string_z(p->writer, in->symbol),
		.kind = in->kind,
		.nargs = in->nargs,
		.has_return = in->has_return,
		.name_arg = in->name_arg,
		.role = rec_string_z(p->writer, in->role),
		.stack_every = in->stack_every,
	};
	bool multiplies = in->nfactors && in->nargs < MODEL_MAX_ARGS;
	struct known_probe known = {.known = true,
				    .nargs = in->nargs,
				    .plain = !multiplies,
				    .prefix = prefix,
				    .has_return = in->has_return,
				    .by_chance = in->stack_every > 1};
	pipeline_know_role(&known, in);
	known.names = known.role != ROLE_OTHER && known.role != ROLE_COMM_USE;
	p->observes |= known.names;
	for (int i = 0; i < in->nargs; i++) {
		row.arg_names[i] = rec_string_z(p->writer, in->arg_names[i]);
		row.arg_types[i] = in->arg_types[i];
		known.arg_raw[i] = in->arg_raw[i];
		known.plain &= in->arg_raw[i] == RAW_PLAIN;
		known.has_text |= in->arg_raw[i] == RAW_TEXT;
		row.arg_enums[i] = rec_string_z(p->writer, in->arg_enums[i]);
		free((char *)in->arg_names[i]);
		free((char *)in->arg_enums[i]);
	}
	for (int i = 0; i < in->nfactors && multiplies; i++) {
		known.factors[i] = in->factors[i];
		if (in->factors[i].arg >= 0)
			known.factor_enum[i] = row.arg_enums[in->factors[i].arg];
		known.nfactors++;
	}
	if (multiplies)
		add_bytes(p, &row);
	known.row = emit_new_probe(p, &row);
	shim_ops_layer(p, known.row, row.layer);
	known.by_callback = in->by_callback;
	if (in->by_callback)
		shim_ops_know(p, in->id, known.row, &row, in->symbol);
	known.name = row.name;
	while (p->probes.len <= in->id)
		vec_push(&p->probes);
	p->probes.data[in->id] = known;
	free((char *)in->layer);
	free((char *)in->name);
	free((char *)in->library);
	free((char *)in->symbol);
	free((char *)in->role);
}

uint32_t pipeline_kept_string(struct pipeline *p, const char *s)
{
	return p->forgets && !p->keeps_texts ? 0 : rec_string_z(p->writer, s);
}

/* Of connections: they are as many as there are clients. */
static uint32_t kept_address(struct pipeline *p, const char *s)
{
	return p->forgets ? 0 : rec_string_z(p->writer, s);
}

static void take_note(struct pipeline *p, const struct message *m)
{
	struct m_note row = {.subject = pipeline_kept_string(p, m->a),
			     .reason = pipeline_kept_string(p, m->b),
			     .time_ns = m->start_ns};
	emit_note(p, &row);
}

void pipeline_put_counter(struct pipeline *p, uint64_t time_ns, const struct entity *of,
			  const char *name, double value)
{
	struct m_counter row = {time_ns, pipeline_metric(p, of, name, time_ns), value};
	emit_counter(p, &row);
}

static void take_counter(struct pipeline *p, struct message *m)
{
	m->entity.label = m->a;
	pipeline_put_counter(p, m->start_ns, &m->entity, m->b, m->value);
}

/* The programs tell it of every target; of those that are no jobs nobody asks. */
static void take_fixed_work(struct pipeline *p, const struct message *m)
{
	if (pipeline_is_job(p, m->entity.pid))
		pipeline_put_counter(p, m->start_ns, &m->entity, "fixed_work_ns", m->value);
}

uint64_t pipeline_enum_key(uint32_t type, uint64_t value)
{
	return hash_u64(value ^ hash_u64(type));
}

static void take_enum(struct pipeline *p, const struct message *m)
{
	struct m_enum row = {.type = rec_string_z(p->writer, m->a),
			     .name = rec_string_z(p->writer, m->b),
			     .value = (int64_t)m->start_ns};
	emit_enum(p, &row);
	if (m->end_ns)
		map64_set(&p->enum_bytes, pipeline_enum_key(row.type, m->start_ns), m->end_ns);
}

static void take_gpu(struct pipeline *p, struct message *m)
{
	m->gpu.uuid = rec_string_z(p->writer, m->a);
	m->gpu.name = rec_string_z(p->writer, m->b);
	m->gpu.bus_id = rec_string_z(p->writer, m->c);
	m->gpu.driver = rec_string_z(p->writer, m->d);
	emit_gpu(p, &m->gpu);
}

static void take_connection(struct pipeline *p, struct message *m)
{
	m->connection.source = kept_address(p, m->a);
	m->connection.destination = kept_address(p, m->b);
	m->connection.opener = kept_address(p, m->c);
	emit_connection(p, &m->connection);
}

static void take_event(struct pipeline *p, const struct message *m)
{
	struct m_event row = {.time_ns = m->start_ns,
			      .entity = pipeline_kept_string(p, m->a),
			      .name = pipeline_kept_string(p, m->b),
			      .text = pipeline_kept_string(p, m->c)};
	emit_event(p, &row);
}

static void take_row(struct pipeline *p, struct message *m)
{
	const struct row_kind_info *info = row_kind_info(m->row_kind);
	for (size_t f = 0; f < info->nfields; f++) {
		const struct row_field *field = &info->fields[f];
		bool is_text = field->means == MEANS_STRING || field->means == MEANS_ENTITY;
		for (size_t k = 0; is_text && k < field->count; k++) {
			uint64_t text = row_value(field, m->row, k);
			bool known = text && text <= m->ntexts;
			row_set_value(field, m->row, k,
				      known ? pipeline_kept_string(p, m->texts[text - 1]) : 0);
		}
	}
	emit_row(p, m->row_kind, m->row);
	for (size_t i = 0; i < m->ntexts; i++)
		free(m->texts[i]);
	free(m->texts);
	free(m->row);
}

static void take(struct pipeline *p, struct message *m)
{
	struct m_window window = {.start_ns = m->start_ns, .end_ns = m->end_ns};
	switch (m->kind) {
	case MSG_PROBE:
		take_probe(p, &m->probe);
		break;
	case MSG_MAPS:
		pipeline_take_maps(p, m->pid, &m->maps, m->build_ids, m->start_ns);
		break;
	case MSG_TASK:
		pipeline_take_task(p, &m->task);
		break;
	case MSG_PROCESS:
		pipeline_take_process(p, m->pid);
		break;
	case MSG_USED:
		pipeline_take_used(p, m->task.tgid, m->task.cpu_ns);
		break;
	case MSG_ALONE:
		pipeline_take_alone(p, (uint32_t)m->pid, m->alone, m->start_ns);
		break;
	case MSG_NOTE:
		take_note(p, m);
		break;
	case MSG_META:
		emit_meta(p, m->a, m->b);
		break;
	case MSG_COUNTER:
		take_counter(p, m);
		break;
	case MSG_FIXED_WORK:
		take_fixed_work(p, m);
		break;
	case MSG_ENUM:
		take_enum(p, m);
		break;
	case MSG_GPU:
		take_gpu(p, m);
		break;
	case MSG_EVENT:
		take_event(p, m);
		break;
	case MSG_CONNECTION:
		take_connection(p, m);
		break;
	case MSG_ROW:
		take_row(p, m);
		break;
	case MSG_OPEN_CALL:
		pipeline_record(p, &m->call, sizeof(m->call));
		break;
	case MSG_OPEN_COLLECTIVE:
		pipeline_take_open_collective(p, &m->call);
		break;
	case MSG_OPEN_WAIT:
		pipeline_record(p, &m->sample, sizeof(m->sample));
		break;
	case MSG_TABLE:
		pipeline_take_table(p, m);
		break;
	case MSG_WINDOW:
		emit_window(p, &window);
		break;
	}
	free(m->a);
	free(m->b);
	free(m->c);
	free(m->d);
	free(m);
}

void pipeline_take_messages(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	struct message *m = p->inbox;
	p->inbox = NULL;
	p->inbox_tail = &p->inbox;
	pthread_mutex_unlock(&p->lock);
	while (m) {
		struct message *next = m->next;
		take(p, m);
		m = next;
	}
}

/* ---- flushing and closing ---- */

static void put_loss(struct pipeline *p, const char *cause, uint32_t cpu, uint64_t total)
{
	struct m_loss row = {.cause = rec_string_z(p->writer, cause), .cpu = cpu, .count = total};
	emit_loss(p, &row);
}

void pipeline_loss(struct pipeline *p, const char *cause, uint32_t cpu, uint64_t total)
{
	uint64_t before = 0, key = hash_bytes(cause, strlen(cause)) + cpu;
	put_loss(p, cause, cpu, total);
	if (loss_is_kept(cause))
		return;
	map64_get(&p->lost_of, key, &before);
	map64_set(&p->lost_of, key, total);
	p->lost += total - before;
}

static void put_lost_calls(struct pipeline *p, uint64_t time_ns, uint64_t total)
{
	pipeline_put_counter(p, time_ns, &ENTITY_NAMED(ENTITY_EACGM, ""), "lost_calls",
			     (double)total);
}

void pipeline_lost_calls(struct pipeline *p, uint64_t time_ns, uint64_t total)
{
	if (total > p->lost_calls && p->lost_looked_ns) {
		put_lost_calls(p, p->lost_looked_ns, p->lost_calls);
		put_lost_calls(p, time_ns, total);
	}
	p->lost_calls = total;
	p->lost_looked_ns = time_ns;
}

int pipeline_flush(struct pipeline *p, struct err *e)
{
	pipeline_take_messages(p);
	pipeline_put_histograms(p);
	if (p->bad_records)
		pipeline_loss(p, "bad_record", 0, p->bad_records);
	if (p->unknown_probes)
		pipeline_loss(p, "unknown_probe", 0, p->unknown_probes);
	uint64_t unresolved = p->unresolved + p->unnamed_histograms;
	if (unresolved != p->unresolved_told)
		pipeline_loss(p, "name_unresolved", 0, unresolved);
	if (p->stackless)
		pipeline_loss(p, "call_stack", 0, p->stackless);
	frames_tell_losses(p);
	codes_tell_losses(p);
	p->unresolved_told = unresolved;
	p->unnamed_histograms = 0;
	struct rec_writer_stats s;
	rec_writer_stats(p->writer, &s);
	if (s.calls_dropped)
		put_loss(p, "write_error", 0, s.calls_dropped); /* the writer counts them */
	if (s.strings_over)
		pipeline_loss(p, "name_full", 0, s.strings_over);
	return rec_flush(p->writer, e);
}

uint32_t pipeline_probes(const struct pipeline *p)
{
	return (uint32_t)p->probes.len;
}

bool pipeline_was_called(const struct pipeline *p, uint32_t id)
{
	return id < p->probes.len && p->probes.data[id].called;
}

void pipeline_stats(const struct pipeline *p, struct pipeline_stats *ret)
{
	struct rec_writer_stats s;
	rec_writer_stats(p->writer, &s);
	*ret = (struct pipeline_stats){
		.calls = p->calls,
		.samples = p->samples,
		.chance_stacks = p->chance_stacks,
		.gpu_spans = p->gpu_spans,
		.bytes = s.bytes,
		.lost = p->lost + s.calls_dropped + s.samples_dropped + s.gpu_spans_dropped,
		.written = s,
	};
}

int pipeline_end(struct pipeline *p, struct err *e)
{
	struct err ignored;
	if (p->recording_ended)
		return 0;
	p->recording_ended = true;
	pipeline_pass_end(p);
	stacks_pass_samples(p, true);
	shim_calls_pass(p, true);
	shim_ops_pass(p, true);
	frames_name_all(p);
	frames_ask_servers(p);
	int rc = pipeline_flush(p, e);
	int end_rc = rec_writer_end(p->writer, true, rc ? &ignored : e);
	return rc ? rc : end_rc;
}

int pipeline_close(struct pipeline *p, struct err *e)
{
	struct err ignored;
	int rc = pipeline_end(p, e);
	int close_rc = rec_writer_close(p->writer, true, rc ? &ignored : e);
	for (size_t i = 0; i < p->process_list.len; i++) {
		known_maps_unref(p->process_list.data[i].maps);
		map64_free(&p->process_list.data[i].sent);
		vec_free(&p->process_list.data[i].tids);
	}
	for (size_t i = 0; i < p->elves.len; i++) {
		namer_close(&p->elves.data[i].file);
		namer_close(&p->elves.data[i].debug);
	}
	pipeline_free_tables(p);
	namer_free(p->namer);
	vec_free(&p->elves);
	vec_free(&p->free_elves);
	vec_free(&p->listeners);
	map64_free(&p->lost_of);
	map64_free(&p->elf_of);
	map64_free(&p->elf_of_file);
	map64_free(&p->elf_of_map);
	stacks_free(p->stacks);
	frames_free(p->frames);
	kernel_frames_free(p->kernel_frames);
	jit_free(p->jit);
	vec_free(&p->code_rows);
	vec_free(&p->process_list);
	vec_free(&p->free_processes);
	vec_free(&p->ended);
	for (size_t i = 0; i < p->probes.len; i++)
		free(p->probes.data[i].prefix);
	vec_free(&p->probes);
	vec_free(&p->pass);
	vec_free(&p->waiting);
	vec_free(&p->unobserved);
	vec_free(&p->ready);
	map64_free(&p->threads);
	map64_free(&p->processes);
	map64_free(&p->strings);
	map64_free(&p->unread);
	map64_free(&p->hist_counts);
	map64_free(&p->hist_sums);
	map64_free(&p->waits_told);
	map64_free(&p->stalls_told);
	vec_free(&p->sums);
	map64_free(&p->texts[0]);
	map64_free(&p->texts[1]);
	map64_free(&p->codes);
	vec_free(&p->code_ids);
	map64_free(&p->code_at);
	map64_free(&p->vtables);
	map64_free(&p->enum_bytes);
	kernels_free(p->kernels);
	comms_free(p->comms);
	metrics_free(p->metrics);
	rivals_free(p->rivals);
	shim_calls_free(p->shim_calls);
	shim_ops_free(p->shim_ops);
	watch_free(p);
	pthread_mutex_destroy(&p->lock);
	free(p->proc_root);
	free(p);
	return rc ? rc : close_rc;
}
