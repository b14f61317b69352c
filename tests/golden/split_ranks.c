/* split_ranks.c - copies the collectives of a rank, with another clock's times. */
#include "split_ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct split {
	const struct rec_reader *r;
	const struct rec_tables *t;
	struct rec_writer *w;
	const struct split_clock *clock;
	uint32_t pid;
	uint32_t *threads, *probes; /* number in the output + 1, 0 = not there yet */
};

uint64_t split_shown(const struct split_clock *c, uint64_t time_ns)
{
	if (!time_ns)
		return 0;
	return time_ns + (uint64_t)c->shift_ns + (uint64_t)llround((double)time_ns * c->drift);
}

static const char *text_of(const struct split *s, uint32_t string)
{
	return strtab_get(&s->t->strings, string, NULL);
}

static uint32_t string(const struct split *s, uint32_t number)
{
	return rec_string_z(s->w, text_of(s, number));
}

static bool wanted(const struct split *s, uint32_t pid)
{
	return !s->pid || s->pid == pid;
}

static void put_metas(const struct split *s)
{
	const char *keys[] = {"host", "kernel", "boot_id", "start_monotonic_ns",
			      "end_monotonic_ns"};
	char text[32];
	uint64_t start = 0, realtime = 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *value = rec_meta(s->t, keys[i]);
		if (i == 0 && s->clock->host)
			value = s->clock->host;
		if (i == 2 && s->clock->boot)
			value = s->clock->boot;
		if (i >= 3 && value) {
			start = i == 3 ? strtoull(value, NULL, 10) : start;
			snprintf(text, sizeof(text), "%llu",
				 (unsigned long long)split_shown(s->clock,
								 strtoull(value, NULL, 10)));
			value = text;
		}
		if (value)
			rec_put_meta(s->w, keys[i], value);
	}
	if (rec_meta(s->t, "start_realtime_ns"))
		realtime = strtoull(rec_meta(s->t, "start_realtime_ns"), NULL, 10);
	snprintf(text, sizeof(text), "%lld",
		 (long long)(realtime - split_shown(s->clock, start)) +
			 (long long)s->clock->realtime_error_ns);
	rec_put_meta(s->w, "realtime_offset_ns", text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)realtime);
	rec_put_meta(s->w, "start_realtime_ns", text);
}

static void put_tables(const struct split *s)
{
	for (size_t i = 0; i < s->t->comms.len; i++) {
		struct m_comm row = s->t->comms.data[i];
		row.start_ns = split_shown(s->clock, row.start_ns);
		row.end_ns = split_shown(s->clock, row.end_ns);
		if (wanted(s, row.pid))
			rec_put_comm(s->w, &row);
	}
	for (size_t i = 0; i < s->t->processes.len; i++) {
		struct m_process row = s->t->processes.data[i];
		row.comm = string(s, row.comm);
		row.command = string(s, row.command);
		row.start_ns = split_shown(s->clock, row.start_ns);
		row.end_ns = split_shown(s->clock, row.end_ns);
		for (size_t k = 0; k < s->t->comms.len; k++)
			if (s->t->comms.data[k].pid == row.pid && wanted(s, row.pid)) {
				rec_put_process(s->w, &row);
				break;
			}
	}
}

static uint32_t probe_of(struct split *s, uint32_t number)
{
	if (s->probes[number])
		return s->probes[number] - 1;
	struct m_probe p = s->t->probes.data[number];
	p.layer = string(s, p.layer);
	p.name = string(s, p.name);
	p.library = string(s, p.library);
	p.symbol = string(s, p.symbol);
	p.role = string(s, p.role);
	for (size_t k = 0; k < MODEL_MAX_ARGS; k++) {
		p.arg_names[k] = string(s, p.arg_names[k]);
		p.arg_enums[k] = string(s, p.arg_enums[k]);
	}
	s->probes[number] = rec_add_probe(s->w, &p) + 1;
	return s->probes[number] - 1;
}

static uint32_t thread_of(struct split *s, uint32_t number)
{
	if (s->threads[number])
		return s->threads[number] - 1;
	struct m_thread t = s->t->threads.data[number];
	t.comm = string(s, t.comm);
	s->threads[number] = rec_add_thread(s->w, &t) + 1;
	return s->threads[number] - 1;
}

/* Calls of NCCL with a role, and launches of its kernels. */
static bool keeps(const struct split *s, const struct m_call *c)
{
	const struct m_probe *p = &s->t->probes.data[c->probe];
	const char *role = text_of(s, p->role);
	if (!wanted(s, s->t->threads.data[c->thread].pid) || !*role)
		return false;
	if (strcmp(role, "launch"))
		return !strcmp(text_of(s, p->layer), "nccl");
	for (unsigned k = 0; k < c->nargs; k++)
		if (p->arg_types[k] == ARG_TYPE_STRING &&
		    strstr(text_of(s, (uint32_t)c->args[k]), "nccl"))
			return true;
	return false;
}

static void put_call(struct split *s, struct m_call c)
{
	const struct m_probe *p = &s->t->probes.data[c.probe];
	uint64_t end = split_shown(s->clock, c.start_ns + c.dur_ns);
	for (unsigned k = 0; k < c.nargs; k++)
		if (p->arg_types[k] == ARG_TYPE_STRING)
			c.args[k] = string(s, (uint32_t)c.args[k]);
	c.start_ns = split_shown(s->clock, c.start_ns);
	c.dur_ns = end - c.start_ns;
	c.stack = 0;
	c.probe = probe_of(s, c.probe);
	c.thread = thread_of(s, c.thread);
	rec_put_calls(s->w, &c, 1);
}

static void put_span(struct split *s, struct m_gpu_span row)
{
	if (!wanted(s, row.pid) || !strstr(text_of(s, row.name), "nccl"))
		return;
	row.name = string(s, row.name);
	row.start_ns = split_shown(s->clock, row.start_ns);
	row.end_ns = split_shown(s->clock, row.end_ns);
	row.called_ns = split_shown(s->clock, row.called_ns);
	rec_put_gpu_span(s->w, &row);
}

static void put_rows(struct split *s)
{
	struct m_calls calls = {0};
	struct m_gpu_spans spans = {0};
	for (size_t b = 0; b < rec_call_blocks(s->r); b++)
		if (!rec_read_calls(s->r, b, &calls, NULL))
			for (size_t i = 0; i < calls.len; i++)
				if (keeps(s, &calls.rows[i]))
					put_call(s, calls.rows[i]);
	for (size_t b = 0; b < rec_gpu_span_blocks(s->r); b++)
		if (!rec_read_gpu_spans(s->r, b, &spans, NULL))
			for (size_t i = 0; i < spans.len; i++)
				put_span(s, spans.rows[i]);
	m_calls_free(&calls);
	m_gpu_spans_free(&spans);
}

int split_ranks(const char *from, const char *to, uint32_t pid, const struct split_clock *c,
		struct err *e)
{
	struct rec_reader *r = NULL;
	struct split s = {.clock = c, .pid = pid};
	int rc = rec_open(&r, from, e);
	if (rc)
		return rc;
	s.r = r;
	s.t = rec_tables(r);
	rc = rec_writer_open(&s.w, to, &(struct rec_writer_options){.zstd_level = 19}, e);
	if (!rc) {
		s.threads = xcalloc(s.t->threads.len + 1, sizeof(*s.threads));
		s.probes = xcalloc(s.t->probes.len + 1, sizeof(*s.probes));
		put_metas(&s);
		put_tables(&s);
		put_rows(&s);
		free(s.threads);
		free(s.probes);
		rc = rec_writer_close(s.w, false, e);
	}
	rec_close(r);
	return rc;
}
