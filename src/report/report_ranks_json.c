/* report_ranks_json.c - the ranks of a job as JSON; docs/merge.md names the keys. */
#include "report/report_ranks.h"

#include <inttypes.h>
#include <stdio.h>

static json_t *rank_json(int32_t rank)
{
	return rank < 0 ? json_null() : json_integer(rank);
}

static json_t *text_of(const struct ranks *r, uint32_t string)
{
	return report_text_json(strtab_get(&r->tables->strings, string, NULL));
}

static json_t *hash_json(uint64_t hash)
{
	char text[32];
	if (!hash)
		return json_null();
	snprintf(text, sizeof(text), "0x%" PRIx64, hash);
	return json_string(text);
}

static void sources_json(struct json_stream *out, const struct ranks *r)
{
	json_stream_array(out, "sources");
	for (size_t i = 0; i < r->tables->sources.len; i++) {
		const struct m_source *s = &r->tables->sources.data[i];
		json_t *o = json_object();
		json_object_set_new(o, "file", text_of(r, s->path));
		json_object_set_new(o, "host", text_of(r, s->host));
		json_object_set_new(o, "shift_ns", json_integer(s->shift_ns));
		json_object_set_new(o, "drift_ratio", json_real(s->drift_ratio));
		json_object_set_new(o, "error_ns",
				    s->error_ns == UINT64_MAX ? json_null()
							      : report_number_json(s->error_ns));
		json_object_set_new(o, "by", text_of(r, s->how));
		json_object_set_new(o, "pid_shift", report_number_json(s->pid_shift));
		json_stream_put(out, NULL, o);
	}
	json_stream_close(out);
}

static json_t *member_json(const struct ranks *r, uint32_t member)
{
	const struct rank_member *m = &r->matching.members.data[member];
	const struct ranks_member *s = &r->members.data[member];
	json_t *o = json_object();
	json_object_set_new(o, "rank", rank_json(m->rank));
	json_object_set_new(o, "pid", report_number_json(m->pid));
	json_object_set_new(o, "job_rank", rank_json(process_index_rank(&r->processes, m->pid)));
	if (*ranks_host(r, m))
		json_object_set_new(o, "host", report_text_json(ranks_host(r, m)));
	json_object_set_new(o, "collectives", report_number_json(m->calls));
	json_object_set_new(o, "compared", report_number_json(s->compared));
	json_object_set_new(o, "last", report_number_json(s->last));
	json_object_set_new(o, "late", report_number_json(s->late));
	json_object_set_new(o, "late_ns", report_number_json(s->late_ns));
	json_object_set_new(o, "p50_late_ns", report_number_json(s->p50_late_ns));
	json_object_set_new(o, "max_late_ns", report_number_json(s->max_late_ns));
	json_object_set_new(o, "waited_for_ns", report_number_json(s->waited_for_ns));
	json_object_set_new(o, "wait_ns", report_number_json(s->wait_ns));
	return o;
}

static void comm_json(struct json_stream *out, const struct ranks *r, uint32_t group)
{
	const struct rank_group *g = &r->matching.groups.data[group];
	const struct ranks_comm *c = &r->comms.data[group];
	json_t *straggler = json_null();
	if (c->straggler != RANKS_NONE)
		straggler = rank_json(r->matching.members.data[c->straggler].rank);
	json_stream_object(out, NULL);
	json_stream_put(out, "hash", hash_json(g->hash));
	json_stream_put(out, "size", g->size ? json_integer(g->size) : json_null());
	json_stream_put(out, "compared", report_number_json(c->compared));
	json_stream_put(out, "compared_on_device", report_number_json(c->on_device));
	json_stream_put(out, "with_late_rank", report_number_json(c->late));
	json_stream_put(out, "late_ns", report_number_json(c->late_ns));
	json_stream_put(out, "wait_ns", report_number_json(c->wait_ns));
	json_stream_put(out, "wait_ratio",
			c->rank_ns ? json_real((double)c->device_wait_ns / (double)c->rank_ns)
				   : json_null());
	json_stream_put(out, "transfer_ns",
			c->on_device ? report_number_json(c->transfer_ns) : json_null());
	json_stream_put(out, "mismatches", report_number_json(c->mismatches));
	json_stream_put(out, "clocks_aligned", json_boolean(!c->clocks_unknown));
	json_stream_put(out, "straggler", straggler);
	json_stream_array(out, "ranks");
	for (uint32_t i = 0; i < g->members; i++)
		json_stream_put(out, NULL, member_json(r, g->first_member + i));
	json_stream_close(out);
	json_stream_close(out);
}

/* One rank's call of a collective. */
static json_t *call_json(const struct ranks *r, uint32_t call)
{
	const struct rank_call *c = &r->calls.data[call];
	const struct collective *row = &r->collectives->rows.data[c->row];
	json_t *o = json_object();
	json_object_set_new(o, "rank", rank_json(c->rank));
	json_object_set_new(o, "pid", report_number_json(c->pid));
	json_object_set_new(o, "function", report_text_json(ranks_function(r, row->probe)));
	json_object_set_new(o, "bytes", report_number_json(c->bytes));
	json_object_set_new(o, "datatype",
			    c->datatype < 0 ? json_null() : json_integer(c->datatype));
	json_object_set_new(o, "root",
			    c->root == COLLECTIVE_NO_PEER ? json_null() : json_integer(c->root));
	json_object_set_new(o, "start_ns", report_number_json(c->host_ns));
	return o;
}

static json_t *mismatch_json(const struct ranks *r, const struct ranks_mismatch *m)
{
	static const char *const names[] = {"function", "bytes", "datatype", "root"};
	const struct rank_match *match = &r->matching.matches.data[m->match];
	json_t *o = json_object(), *what = json_array(), *calls = json_array();
	for (unsigned bit = 0; bit < 4; bit++)
		if (m->what >> bit & 1)
			json_array_append_new(what, json_string(names[bit]));
	for (uint32_t i = 0; i < match->calls; i++)
		json_array_append_new(calls,
				      call_json(r, r->matching.matched.data[match->first + i]));
	json_object_set_new(o, "communicator",
			    hash_json(r->matching.groups.data[match->group].hash));
	json_object_set_new(o, "sequence", json_integer(match->sequence));
	json_object_set_new(o, "differ_in", what);
	json_object_set_new(o, "calls", calls);
	return o;
}

#define STACK_TEXT_BYTES  (1u << 20)  /* of one stack: past these its outer frames are left out */
#define STACKS_TEXT_BYTES (64u << 20) /* of all: past these they are empty */

static size_t frame_bytes(const struct rec_tables *t, const struct m_frame *f)
{
	size_t name, file;
	strtab_get(&t->strings, f->name ? f->name : f->library, &name);
	strtab_get(&t->strings, f->file, &file);
	return name + file + 32;
}

/* Innermost frame first. left: bytes that stacks may still have. */
static json_t *stack_json(const struct ranks *r, uint32_t stack, size_t *left)
{
	const struct rec_tables *t = r->tables;
	json_t *list = json_array();
	size_t own = *left < STACK_TEXT_BYTES ? *left : STACK_TEXT_BYTES;
	for (; stack; stack = t->stacks.data[stack].parent) {
		const struct m_frame *f = &t->frames.data[t->stacks.data[stack].frame];
		size_t bytes = frame_bytes(t, f);
		if (bytes > own)
			break;
		own -= bytes;
		*left -= bytes;
		json_array_append_new(list,
				      json_pack("{s:o,s:o,s:i}", "name",
						text_of(r, f->name ? f->name : f->library), "file",
						text_of(r, f->file), "line", (int)f->line));
	}
	return list;
}

static json_t *hung_json(const struct ranks *r, const struct ranks_hung *h, size_t *left)
{
	const struct rank_member *m = &r->matching.members.data[h->member];
	json_t *o = json_object();
	json_object_set_new(o, "rank", rank_json(m->rank));
	json_object_set_new(o, "pid", report_number_json(m->pid));
	json_object_set_new(o, "entered", json_boolean(h->call != RANKS_NONE));
	json_object_set_new(o, "process_ended",
			    json_boolean(r->members.data[h->member].ended_ns != 0));
	json_object_set_new(o, "call", h->call == RANKS_NONE ? json_null() : call_json(r, h->call));
	json_object_set_new(o, "open_call", report_text_json(ranks_function(r, h->probe)));
	json_object_set_new(o, "stack", stack_json(r, h->stack, left));
	json_object_set_new(o, "stack_ns",
			    h->stack ? report_number_json(h->stack_ns) : json_null());
	return o;
}

static void hang_json(struct json_stream *out, const struct ranks *r, const struct ranks_hang *h,
		      size_t *left)
{
	json_stream_object(out, NULL);
	json_stream_put(out, "communicator", hash_json(r->matching.groups.data[h->group].hash));
	json_stream_put(out, "sequence", json_integer(h->sequence));
	json_stream_put(out, "quiet_ns", report_number_json(h->quiet_ns));
	json_stream_put(out, "entered", report_number_json(h->entered));
	json_stream_put(out, "missing", report_number_json(h->missing));
	json_stream_array(out, "ranks");
	for (size_t i = 0; i < h->ranks.len; i++)
		json_stream_put(out, NULL, hung_json(r, &h->ranks.data[i], left));
	json_stream_close(out);
	json_stream_close(out);
}

void ranks_json(struct json_stream *out, const struct report *report, const void *state)
{
	const struct ranks *r = &((const struct ranks_state *)state)->ranks;
	(void)report;
	json_stream_object(out, "ranks");
	sources_json(out, r);
	json_stream_array(out, "communicators");
	for (uint32_t g = 0; g < r->matching.groups.len; g++)
		if (ranks_group_shown(r, g))
			comm_json(out, r, g);
	json_stream_close(out);
	if (r->matching.not_compared)
		json_stream_put(out, "communicators_not_compared",
				report_number_json(r->matching.not_compared));
	json_stream_put(out, "mismatches_total", report_number_json(r->mismatches_total));
	json_stream_array(out, "mismatches");
	for (size_t i = 0; i < r->mismatches.len; i++)
		json_stream_put(out, NULL, mismatch_json(r, &r->mismatches.data[i]));
	json_stream_close(out);
	size_t left = STACKS_TEXT_BYTES;
	json_stream_array(out, "hangs");
	for (size_t i = 0; i < r->hangs.len; i++)
		hang_json(out, r, &r->hangs.data[i], &left);
	json_stream_close(out);
	json_stream_close(out);
}
