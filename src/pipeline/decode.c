/* decode.c - raw records to rows. A pass collects the calls of all rings; only then are
 * their names looked up, since a name may lie in another CPU's ring than its first use. */
#include <string.h>

#include "pipeline/pipeline_impl.h"
#include "pipeline/stacks.h"

#define CALL_HEADER_BYTES 32
#define ROOM_FEW	  1024 /* calls: room for so many always stays */
#define ROOM_PASSES	  2048 /* some ten seconds */

static void take_call(struct pipeline *p, const void *record, size_t len)
{
	const struct rec_call *in = record;
	if (len < CALL_HEADER_BYTES || in->nargs > MAX_ARGS ||
	    len < CALL_HEADER_BYTES + 8u * in->nargs) {
		p->bad_records++;
		return;
	}
	vec_reserve(&p->pass, 1);
	struct rec_call_stack *out = &p->pass.data[p->pass.len++];
	memcpy(&out->call, in, CALL_HEADER_BYTES + 8u * in->nargs);
	out->stack = len >= sizeof(*out) ? ((const struct rec_call_stack *)record)->stack : 0;
}

void pipeline_record(struct pipeline *p, const void *record, size_t len)
{
	uint8_t kind = len ? *(const uint8_t *)record : 0;
	if (kind == REC_CALL)
		take_call(p, record, len);
	else if (kind == REC_STRING && len >= sizeof(struct rec_string))
		pipeline_add_string(p, record);
	else if (kind == REC_UNREAD && len >= sizeof(struct rec_unread))
		pipeline_read_string(p, record);
	else if (kind == REC_PYCODE && len >= sizeof(struct rec_pycode))
		pipeline_add_code(p, record);
	else if (kind == REC_TEXT && len >= sizeof(struct rec_text))
		pipeline_add_text(p, record);
	else if (kind == REC_STACK && len >= sizeof(struct rec_stack))
		stacks_add(p, record);
	else if (kind == REC_MARK && len >= sizeof(struct rec_mark))
		shim_ops_mark(p, record);
	else if (kind == REC_TOLD_TEXT && len >= sizeof(struct rec_told_text))
		shim_ops_text(p, record);
	else if (kind == REC_SAMPLE && len >= sizeof(struct rec_sample))
		stacks_add_sample(p, record);
	else if (kind == REC_WAIT && len >= sizeof(struct rec_wait))
		waits_add(p, record);
	else if (kind == REC_WAIT_SUMS && len >= sizeof(struct rec_wait_sums))
		waits_add_sums(p, record);
	else if (kind == REC_STALL && len >= sizeof(struct rec_stall))
		stalls_add(p, record);
	else if (kind == REC_STALL_SUMS && len >= sizeof(struct rec_stall_sums))
		stalls_add_sums(p, record);
	else
		p->bad_records++;
}

/* Turns raw arguments into the recording's; false when a name has not come yet. With
 * force, an unknown name becomes the empty string and is counted. */
static bool resolve_args(struct pipeline *p, const struct known_probe *probe,
			 const struct rec_call *in, struct m_call *out, bool force)
{
	for (int i = 0; i < in->nargs; i++) {
		uint64_t v = in->args[i];
		bool known = true;
		switch (probe->arg_raw[i]) {
		case RAW_STRING:
			known = i == 0 && probe->prefix ? pipeline_prefixed_string(p, probe->prefix,
										   v, &out->args[i])
							: pipeline_string(p, v, &out->args[i]);
			break;
		case RAW_TEXT:
			known = pipeline_text(p, v, &out->args[i]);
			break;
		case RAW_CODE:
			known = pipeline_code(p, v, &out->args[i]);
			break;
		case RAW_KERNEL:
			known = kernels_find(p, in->tgid, v, in->start_ns,
					     force ? KERNEL_MADE_UP : KERNEL_KNOWN, &out->args[i]);
			break;
		case RAW_VTABLE:
			known = pipeline_vtable(p, in->tgid, v, force, &out->args[i]);
			break;
		default:
			out->args[i] = v;
		}
		if (known)
			continue;
		if (!force)
			return false;
		out->args[i] = 0;
		if (probe->arg_raw[i] == RAW_CODE)
			pipeline_code(p, 0, &out->args[i]);
		out->flags |= CALL_ARG_FAULT;
		p->unresolved++;
	}
	return true;
}

static uint64_t factor(const struct pipeline *p, const struct known_probe *probe, int i,
		       const struct m_call *c)
{
	const struct pipeline_factor *f = &probe->factors[i];
	uint64_t bytes, v = f->arg >= 0 ? c->args[f->arg] : f->value;
	if (!probe->factor_enum[i])
		return v;
	return map64_get(&p->enum_bytes, pipeline_enum_key(probe->factor_enum[i], v), &bytes)
		       ? bytes
		       : 0;
}

static void add_bytes(const struct pipeline *p, const struct known_probe *probe, struct m_call *c)
{
	if (c->nargs != probe->nargs || c->nargs >= MODEL_MAX_ARGS)
		return;
	uint64_t bytes = 1;
	for (int i = 0; i < probe->nfactors; i++)
		if (__builtin_mul_overflow(bytes, factor(p, probe, i, c), &bytes)) {
			bytes = 0; /* garbage: nothing is that large */
			c->flags |= CALL_ARG_FAULT;
		}
	unsigned at = c->nargs++;
	if (probe->has_return) {
		c->args[at] = c->args[at - 1];
		at--;
	}
	c->args[at] = bytes;
}

static void use_comm(struct pipeline *p, const struct known_probe *probe, const struct rec_call *in,
		     const struct m_call *out)
{
	if (probe->role != ROLE_COMM_USE || probe->arg_of[0] >= in->nargs)
		return;
	const struct m_comm *comm =
		comms_use(p, in->tgid, in->args[probe->arg_of[0]], in->start_ns);
	uint64_t bytes = 0;
	if (out->nargs > probe->nargs)
		bytes = out->args[probe->nargs - (probe->has_return ? 1 : 0)];
	watch_collective(p, probe, in, bytes, comm);
}

void pipeline_take_open_collective(struct pipeline *p, const struct rec_call *in)
{
	if (in->probe >= p->probes.len || in->nargs > MAX_ARGS)
		return;
	const struct known_probe *probe = &p->probes.data[in->probe];
	struct m_call call = {.nargs = probe->nargs};
	if (!probe->known || probe->role != ROLE_COMM_USE)
		return;
	memcpy(call.args, in->args, in->nargs * sizeof(in->args[0]));
	if (probe->nfactors)
		add_bytes(p, probe, &call);
	use_comm(p, probe, in, &call);
}

static void forget_texts(struct pipeline *p, const struct known_probe *probe,
			 const struct rec_call *in)
{
	for (int i = 0; i < in->nargs && i < probe->nargs; i++)
		if (probe->arg_raw[i] == RAW_TEXT)
			pipeline_forget_text(p, in->args[i]);
}

static bool convert(struct pipeline *p, const struct rec_call_stack *record, bool force)
{
	const struct rec_call *in = &record->call;
	uint32_t stack = 0;
	if (in->probe >= p->probes.len || !p->probes.data[in->probe].known) {
		p->unknown_probes++;
		return true;
	}
	struct known_probe *probe = &p->probes.data[in->probe];
	probe->called = true;
	if (pipeline_leaves_out(p, in->tgid, in->start_ns))
		return true;
	if (probe->by_callback && shim_ops_tells(p, in))
		return true;
	if (record->stack && !stacks_find(p, record->stack, &stack)) {
		if (!force)
			return false;
		p->stackless++;
	}
	p->chance_stacks += stack && probe->by_chance;
	vec_reserve(&p->ready, 1);
	struct m_call *out = &p->ready.data[p->ready.len];
	*out = (struct m_call){
		.start_ns = in->start_ns,
		.dur_ns = in->dur_ns,
		.probe = probe->row,
		.flags = in->flags & (uint8_t)~CALL_NAMED,
		.depth = in->depth,
		.nargs = in->nargs < probe->nargs ? in->nargs : probe->nargs,
		.stack = stack,
	};
	if (probe->plain)
		memcpy(out->args, in->args, out->nargs * sizeof(out->args[0]));
	else if (!resolve_args(p, probe, in, out, force))
		return false;
	if (probe->nfactors)
		add_bytes(p, probe, out);
	use_comm(p, probe, in, out);
	if (probe->has_text)
		forget_texts(p, probe, in);
	pipeline_made_call(p, in->tgid);
	out->thread = pipeline_thread_of(p, in->tgid, in->tid);
	shim_ops_thread(p, in->tgid, out->thread);
	p->ready.len++;
	return true;
}

/* What calls say of names holds for all calls of the pass; rings are not in order of time.
 * A call whose own text has not come is asked again in the next pass. */
static int compare_end(const void *a, const void *b)
{
	const struct rec_call *x = a, *y = b;
	uint64_t x_ns = x->start_ns + x->dur_ns, y_ns = y->start_ns + y->dur_ns;
	return x_ns < y_ns ? -1 : x_ns > y_ns;
}

static void observe(struct pipeline *p)
{
	size_t late = p->unobserved.len, left = 0;
	for (size_t i = 0; i < late; i++) { /* their second time, and last */
		const struct rec_call *c = &p->unobserved.data[i];
		pipeline_observe(p, &p->probes.data[c->probe], c);
	}
	p->unobserved.len = 0;
	for (size_t i = 0; i < p->pass.len; i++) {
		const struct rec_call *c = &p->pass.data[i].call;
		if (c->probe < p->probes.len && p->probes.data[c->probe].names)
			*vec_push(&p->unobserved) = *c;
	}
	struct rec_call *fresh = p->unobserved.data;
	if (p->unobserved.len)
		qsort(fresh, p->unobserved.len, sizeof(*fresh), compare_end);
	for (size_t i = 0; i < p->unobserved.len; i++)
		if (!pipeline_observe(p, &p->probes.data[fresh[i].probe], &fresh[i]))
			fresh[left++] = fresh[i];
	p->unobserved.len = left;
}

/* What many calls at once took, after a pause, and no pass of late has needed. */
static void give_back_room(struct pipeline *p)
{
	size_t most = p->most_in_pass > ROOM_FEW ? p->most_in_pass : ROOM_FEW;
	if (++p->passes % ROOM_PASSES)
		return;
	if (p->pass.cap / 4 > most && !p->pass.len)
		vec_free(&p->pass);
	if (p->ready.cap / 4 > most)
		vec_free(&p->ready);
	if (p->waiting.cap / 4 > most && !p->waiting.len)
		vec_free(&p->waiting);
	p->most_in_pass = 0;
}

void pipeline_pass_end(struct pipeline *p)
{
	shim_ops_take_told(p);
	if (p->pass.len + p->waiting.len > p->most_in_pass)
		p->most_in_pass = p->pass.len + p->waiting.len;
	pipeline_take_messages(p); /* probes are defined before they are attached */
	p->ready.len = 0;
	stacks_pass(p);
	if (p->observes)
		observe(p);
	for (size_t i = 0; i < p->waiting.len; i++)
		convert(p, &p->waiting.data[i], true);
	p->waiting.len = 0;
	for (size_t i = 0; i < p->pass.len; i++) {
		if (!convert(p, &p->pass.data[i], false))
			*vec_push(&p->waiting) = p->pass.data[i];
	}
	p->pass.len = 0;
	p->calls += p->ready.len;
	shim_ops_put_calls(p, p->ready.data, p->ready.len);
	stacks_pass_samples(p, false);
	shim_calls_pass(p, false);
	shim_ops_pass(p, false);
	watch_check(p);
	forget_pass(p);
	give_back_room(p);
}

static uint64_t sum_key(const struct m_hist *row)
{
	uint64_t parts[] = {(uint64_t)row->pid << 32 | row->probe, row->name};
	return hash_bytes(parts, sizeof(parts));
}

/* Several keys may have one name: handles of the same kernel. */
static void add_to_sums(struct pipeline *p, const struct m_hist *row)
{
	uint64_t i;
	if (!map64_get(&p->hist_sums, sum_key(row), &i)) {
		map64_set(&p->hist_sums, sum_key(row), p->sums.len);
		*vec_push(&p->sums) = *row;
		return;
	}
	struct m_hist *sum = &p->sums.data[i];
	sum->count += row->count;
	sum->errors += row->errors;
	sum->nested += row->nested;
	sum->total_ns += row->total_ns;
	if (row->max_ns > sum->max_ns)
		sum->max_ns = row->max_ns;
	for (int k = 0; k < HIST_BUCKETS; k++)
		sum->buckets[k] += row->buckets[k];
}

void pipeline_histogram(struct pipeline *p, const struct hist_key *key,
			const struct hist_value *value, bool last)
{
	if (key->probe >= p->probes.len || !p->probes.data[key->probe].known)
		return;
	struct known_probe *probe = &p->probes.data[key->probe];
	probe->called |= value->count > 0;
	struct m_hist row = {
		.pid = key->tgid,
		.probe = probe->row,
		.count = value->count,
		.errors = value->errors,
		.nested = value->nested,
		.total_ns = value->total_ns,
		.max_ns = value->max_ns,
	};
	if (key->name && probe->nargs) {
		struct rec_call call = {
			.nargs = 1, .tgid = key->tgid, .args = {key->name}, .start_ns = UINT64_MAX};
		struct m_call named = {0};
		bool known = probe->arg_raw[0] == RAW_KERNEL
				     ? kernels_find(p, key->tgid, key->name, UINT64_MAX,
						    last ? KERNEL_MADE_UP : KERNEL_IN_MEMORY,
						    &named.args[0])
				     : resolve_args(p, probe, &call, &named, false);
		if (!known) {
			p->unnamed_histograms++; /* its name comes with the next pass */
			return;
		}
		row.name = named.args[0];
	}
	_Static_assert(sizeof(row.buckets) == sizeof(value->buckets), "same layout");
	memcpy(row.buckets, value->buckets, sizeof(row.buckets));
	add_to_sums(p, &row);
}

void pipeline_put_histograms(struct pipeline *p)
{
	for (size_t i = 0; i < p->sums.len; i++) {
		const struct m_hist *row = &p->sums.data[i];
		uint64_t written, key = sum_key(row);
		if (map64_get(&p->hist_counts, key, &written) && written == row->count)
			continue; /* as it was: need not be written again */
		emit_hist(p, row);
		map64_set(&p->hist_counts, key, row->count);
	}
	p->sums.len = 0;
	map64_free(&p->hist_sums);
}
