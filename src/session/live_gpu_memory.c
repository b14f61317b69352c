/* live_gpu_memory.c - a ledger for each process, of calls in the order of time, and NVML's answers
 * among them: what is told of an answer is what the ledger had at its moment.
 *
 * NVML answers for each GPU by itself, all at one time: they are one reading, and judged together.
 * A ledger that holds more than it says is wrong: a free was not seen. For a moment that may be
 * since the two are not read at once, and what was told before stays. Where it lasts the ledger
 * begins anew, and all that there was is nobody's. The same is done where a budget left out calls
 * that free. Managed memory is not in it, for it may lie on the host; nor is what was made there.
 */
#include "session/live_gpu_memory.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "base/entity.h"
#include "session/live_names.h"
#include "session/live_series.h"
#include "symbolize/proc_maps.h"
#include "wire/event.h"

#define PROCESSES	1024
#define ITEMS_MOST	(1 << 16) /* that wait; more are taken as they came */
#define PLACES		32	  /* in code, of a process: of more the oldest goes */
#define NOWHERE		8	  /* addresses in no code, likewise */
#define MAPS_READS	32	  /* at once; one more a second */
#define GPUS_OF_PROCESS 64
#define FREEING		8 /* functions that a process frees by */
#define WRONG_MOST	3 /* readings in a row that a ledger holds more than they say */
#define GONE_PERIODS	3 /* without an answer: the process has left the GPU */
#define SECOND		1000000000ULL
#define OTHER		GPU_MEMORY_OWNERS
#define ON_DEVICE	1 /* CU_MEM_LOCATION_TYPE_DEVICE */

/* By the roles of docs/catalog.md. */
static const struct role {
	const char *name;
	uint8_t what; /* enum gpu_memory_what */
	bool at_start;
	const char *args[3];
} roles[] = {
	{"alloc", MEMORY_ALLOC, false, {"pointer", "bytes"}},
	{"alloc_caller", MEMORY_ALLOC_CALLER, false, {"pointer"}},
	{"free", MEMORY_FREE, true, {"pointer"}},
	{"vmm_create", MEMORY_CREATE, false, {"handle", "bytes", "location"}},
	{"vmm_map", MEMORY_MAP, false, {"address", "bytes", "handle"}},
	{"vmm_unmap", MEMORY_UNMAP, true, {"address", "bytes"}},
	{"vmm_release", MEMORY_RELEASE, true, {"handle"}},
};
#define ROLES (sizeof(roles) / sizeof(roles[0]))

struct gpu_memory_probe {
	bool known, at_start;
	uint8_t what; /* enum gpu_memory_what */
	int8_t args[3], caller_arg;
	uint64_t off_ns; /* by a budget, so far */
};

struct place {
	uint64_t start, end;
	uint8_t owner;
};

struct answer {
	uint64_t bytes, time_ns;
	uint64_t period_ns; /* since the one before; 0: there was none */
	uint32_t gpu;
	int32_t instance;
};

/* Of a process: what it holds, and whose. */
struct gpu_memory_books {
	struct gpu_memory_ledger ledger;
	char owners[GPU_MEMORY_OWNERS][GPU_MEMORY_NAME_BYTES];
	bool has[GPU_MEMORY_OWNERS + 1]; /* it had memory when NVML told */
	size_t owners_len;
	struct place places[PLACES]; /* the next goes to place_next, as below */
	size_t places_len, place_next;
	uint64_t nowhere[NOWHERE];
	size_t nowhere_len, nowhere_next;
	uint32_t reads; /* of its mappings, that are not given back yet */
	uint64_t reads_ns;
	struct answer answers[GPUS_OF_PROCESS];
	size_t answers_len;
	uint64_t reading_ns;	   /* of answers that are not judged; 0: all are */
	uint32_t freeing[FREEING]; /* probes */
	size_t freeing_len;
	unsigned wrong;	   /* readings in a row */
	uint64_t wrong_ns; /* the last of them: its answers may come in two batches */
};

/* ---- processes ---- */

static struct live_gpu_memory_process *process_of(struct live_gpu_memory *m, uint32_t pid)
{
	uint64_t at;
	if (map64_get(&m->process_of, pid, &at))
		return &m->processes.data[at];
	if (m->processes.len >= PROCESSES) {
		m->no_process++;
		return NULL;
	}
	map64_set(&m->process_of, pid, m->processes.len);
	struct live_gpu_memory_process *p = vec_push(&m->processes);
	p->pid = pid;
	p->books = xcalloc(1, sizeof(*p->books));
	p->books->ledger.room = &m->room;
	return p;
}

static void process_free(struct live_gpu_memory_process *p)
{
	gpu_memory_ledger_empty(&p->books->ledger);
	free(p->books);
	vec_free(&p->rows);
}

/* ---- owners ---- */

/* What auditwheel put behind a name: "-" and eight hexadecimal digits. */
static size_t without_hash(const char *name, size_t n)
{
	if (n < 10 || name[n - 9] != '-')
		return n;
	for (size_t i = n - 8; i < n; i++)
		if (!isxdigit((unsigned char)name[i]))
			return n;
	return n - 9;
}

void live_gpu_memory_owner(char ret[static GPU_MEMORY_NAME_BYTES], const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t n = *name == '[' ? 0 : without_hash(name, strcspn(name, ".")); /* "[uprobes]" */
	if (n >= GPU_MEMORY_NAME_BYTES)
		n = GPU_MEMORY_NAME_BYTES - 1;
	for (size_t i = 0; i < n; i++)
		ret[i] = name[i] > ' ' && name[i] < 0x7f ? name[i] : '?';
	ret[n] = 0;
	if (!n)
		snprintf(ret, GPU_MEMORY_NAME_BYTES, "%s", GPU_MEMORY_OTHER);
}

static uint8_t owner_named(struct gpu_memory_books *b, const char *path)
{
	char name[GPU_MEMORY_NAME_BYTES];
	live_gpu_memory_owner(name, path);
	size_t i = 0;
	while (i < b->owners_len && strcmp(b->owners[i], name))
		i++;
	if (i == GPU_MEMORY_OWNERS || !strcmp(name, GPU_MEMORY_OTHER))
		return OTHER;
	if (i == b->owners_len)
		memcpy(b->owners[b->owners_len++], name, sizeof(name));
	return (uint8_t)i;
}

/* Where the next of a list of most goes, in a ring. */
static size_t next_place(size_t *len, size_t *next, size_t most)
{
	size_t at = *next;
	*next = (at + 1) % most;
	*len += *len < most;
	return at;
}

/* A process that calls from everywhere is not looked at each time. */
static bool may_read(struct gpu_memory_books *b, uint64_t now_ns)
{
	uint64_t back = now_ns > b->reads_ns ? (now_ns - b->reads_ns) / SECOND : 0;
	if (back) {
		b->reads -= back < b->reads ? (uint32_t)back : b->reads;
		b->reads_ns = now_ns;
	}
	if (b->reads == MAPS_READS)
		return false;
	b->reads++;
	return true;
}

static bool is_nowhere(const struct gpu_memory_books *b, uint64_t address)
{
	for (size_t i = 0; i < b->nowhere_len; i++)
		if (b->nowhere[i] == address)
			return true;
	return false;
}

/* Where a process calls the driver from are few places: its mappings are read for each that is in
 * none of those that are known. */
static uint8_t owner_at(const struct live_gpu_memory *m, struct live_gpu_memory_process *p,
			uint64_t address, uint64_t now_ns)
{
	struct gpu_memory_books *b = p->books;
	proc_maps_t maps = {0};
	struct err e;
	uint8_t owner = OTHER;
	for (size_t i = 0; i < b->places_len; i++)
		if (address >= b->places[i].start && address < b->places[i].end)
			return b->places[i].owner;
	if (!address || is_nowhere(b, address) || !may_read(b, now_ns) ||
	    proc_code_read(m->proc_root ? m->proc_root : "/proc", (pid_t)p->pid, &maps, &e))
		return OTHER;
	const struct proc_map *map = proc_map_at(&maps, address);
	if (map) {
		owner = owner_named(b, map->path);
		b->places[next_place(&b->places_len, &b->place_next, PLACES)] =
			(struct place){map->start, map->end, owner};
	} else {
		b->nowhere[next_place(&b->nowhere_len, &b->nowhere_next, NOWHERE)] = address;
	}
	proc_maps_free(&maps);
	return owner;
}

static void forget_places(struct gpu_memory_books *b)
{
	b->places_len = b->place_next = 0;
	b->nowhere_len = b->nowhere_next = 0;
}

static struct gpu_memory_books *books_of(const struct live_gpu_memory *m, uint32_t pid)
{
	uint64_t at;
	return map64_get(&m->process_of, pid, &at) ? m->processes.data[at].books : NULL;
}

/* A process is told anew when it has become another program, among others; a mapping may be where
 * another was. Places are looked up again then. */
static void forget_changed(struct live_gpu_memory *m, const struct feed_batch *batch)
{
	for (size_t i = 0; i < batch->processes.len; i++) {
		struct gpu_memory_books *b = books_of(m, batch->processes.data[i].pid);
		if (b)
			forget_places(b);
	}
	for (size_t i = 0; i < batch->maps.len; i++) {
		const struct m_map *map = &batch->maps.data[i];
		struct gpu_memory_books *b = books_of(m, map->pid);
		for (size_t k = 0; b && k < b->places_len; k++)
			if (map->start < b->places[k].end && b->places[k].start < map->end)
				b->places[k].end = b->places[k].start;
	}
}

/* ---- NVML's answers ---- */

static void keep_answer(struct gpu_memory_books *b, const struct gpu_memory_item *i)
{
	uint32_t gpu = (uint32_t)i->v[1];
	int32_t instance = (int32_t)i->v[2];
	size_t at = 0;
	b->reading_ns = i->time_ns;
	while (at < b->answers_len &&
	       (b->answers[at].gpu != gpu || b->answers[at].instance != instance))
		at++;
	if (at == GPUS_OF_PROCESS)
		return;
	struct answer *a = &b->answers[at];
	if (at == b->answers_len) {
		*a = (struct answer){.gpu = gpu, .instance = instance};
		b->answers_len++;
	} else if (i->time_ns > a->time_ns) {
		a->period_ns = i->time_ns - a->time_ns;
	}
	a->bytes = i->v[0];
	a->time_ns = i->time_ns;
}

/* Each GPU is asked once a second, or more seldom where that costs much: how often is known by the
 * answers. Those of GPUs that were asked since, and had none, are void. */
static void drop_answers_gone(struct gpu_memory_books *b)
{
	uint64_t period_ns = 0, old_ns = SERIES_OLD_NS;
	size_t kept = 0;
	for (size_t i = 0; i < b->answers_len; i++)
		if (b->answers[i].period_ns > period_ns)
			period_ns = b->answers[i].period_ns;
	if (period_ns && period_ns < SERIES_OLD_NS / GONE_PERIODS)
		old_ns = GONE_PERIODS * (period_ns > SECOND ? period_ns : SECOND);
	for (size_t i = 0; i < b->answers_len; i++)
		if (b->answers[i].time_ns + old_ns >= b->reading_ns)
			b->answers[kept++] = b->answers[i];
	b->answers_len = kept;
}

static void add_row(struct live_gpu_memory_process *p, const char *owner, uint64_t bytes)
{
	struct live_gpu_memory_row *r = vec_push(&p->rows);
	snprintf(r->owner, sizeof(r->owner), "%s", owner);
	r->bytes = bytes;
}

static void tell(struct live_gpu_memory_process *p, uint64_t not_seen, uint64_t time_ns)
{
	struct gpu_memory_books *b = p->books;
	p->rows.len = 0;
	for (size_t i = 0; i <= GPU_MEMORY_OWNERS; i++)
		b->has[i] |= b->ledger.bytes[i] != 0;
	for (size_t i = 0; i < b->owners_len; i++)
		if (b->has[i])
			add_row(p, b->owners[i], b->ledger.bytes[i]);
	if (b->has[OTHER])
		add_row(p, GPU_MEMORY_OTHER, b->ledger.bytes[OTHER]);
	add_row(p, GPU_MEMORY_NOT_SEEN, not_seen);
	p->told = true;
	p->told_ns = time_ns;
	p->on_several = b->answers_len != 1;
	p->gpu = b->answers[0].gpu;
	p->instance = b->answers[0].instance;
}

/* By all answers of a reading, against what the ledger has at its time. */
static void judge(struct live_gpu_memory_process *p)
{
	struct gpu_memory_books *b = p->books;
	uint64_t all = 0, seen = 0, time_ns = b->reading_ns;
	if (!time_ns)
		return;
	drop_answers_gone(b);
	b->reading_ns = 0;
	for (size_t k = 0; k < b->answers_len; k++)
		all += b->answers[k].bytes;
	for (size_t k = 0; k <= GPU_MEMORY_OWNERS; k++)
		seen += b->ledger.bytes[k];
	if (seen > all) {
		b->wrong += b->wrong_ns != time_ns || !b->wrong;
		b->wrong_ns = time_ns;
		if (b->wrong < WRONG_MOST)
			return;
		gpu_memory_ledger_empty(&b->ledger);
		seen = 0;
	}
	b->wrong = 0;
	tell(p, all - seen, time_ns);
}

/* ---- in the order of time ---- */

static void take_item(struct live_gpu_memory *m, const struct live_series *s,
		      const struct gpu_memory_item *i)
{
	uint64_t at;
	const struct live_process *of = live_series_process(s, i->pid);
	if (!of || of->end_ns || !map64_get(&m->process_of, i->pid, &at))
		return;
	struct live_gpu_memory_process *p = &m->processes.data[at];
	if (p->books->reading_ns != i->time_ns)
		judge(p);
	if (i->what == MEMORY_ANSWER)
		keep_answer(p->books, i);
	else
		gpu_memory_ledger_take(&p->books->ledger, i);
}

static void take_items(struct live_gpu_memory *m, const struct live_series *s, uint64_t upto_ns)
{
	size_t n = 0;
	if (!m->items.len)
		return;
	qsort(m->items.data, m->items.len, sizeof(*m->items.data), gpu_memory_items_compare);
	bool all = m->items.len > ITEMS_MOST;
	for (; n < m->items.len && (all || m->items.data[n].time_ns < upto_ns); n++)
		take_item(m, s, &m->items.data[n]);
	for (size_t i = 0; i < m->processes.len; i++)
		judge(&m->processes.data[i]);
	m->items.len -= n;
	memmove(m->items.data, m->items.data + n, m->items.len * sizeof(*m->items.data));
}

/* ---- rows ---- */

static int8_t arg_named(const struct session_view *v, const struct m_probe *row, const char *name)
{
	for (int8_t i = 0; name && i < row->nargs && i < MODEL_MAX_ARGS; i++)
		if (!strcmp(live_string(v, row->arg_names[i]), name))
			return i;
	return -1;
}

/* NULL: nothing is known of it yet. */
static struct gpu_memory_probe *probe_of(struct live_gpu_memory *m, const struct session_view *v,
					 uint32_t number)
{
	while (m->probes.len <= number)
		*vec_push(&m->probes) = (struct gpu_memory_probe){0};
	struct gpu_memory_probe *p = &m->probes.data[number];
	const struct m_probe *row = p->known ? NULL : v->names->probe(v->names->ctx, number);
	if (p->known || !row)
		return p->known ? p : NULL;
	p->known = true;
	for (size_t i = 0; i < ROLES; i++) {
		if (strcmp(live_string(v, row->role), roles[i].name))
			continue;
		p->what = roles[i].what;
		p->at_start = roles[i].at_start;
		for (int k = 0; k < 3; k++)
			p->args[k] = arg_named(v, row, roles[i].args[k]);
		p->caller_arg = arg_named(v, row, "caller");
	}
	return p;
}

static uint64_t arg_of(const struct m_call *c, int8_t arg)
{
	return arg >= 0 && arg < c->nargs ? c->args[arg] : 0;
}

static void know_freeing(struct gpu_memory_books *b, uint32_t probe)
{
	size_t i = 0;
	while (i < b->freeing_len && b->freeing[i] != probe)
		i++;
	if (i == b->freeing_len && i < FREEING)
		b->freeing[b->freeing_len++] = probe;
}

/* What was made elsewhere has no place on a device. */
static bool is_on_device(const struct gpu_memory_probe *p, const struct m_call *c)
{
	return p->what != MEMORY_CREATE || p->args[2] < 0 || arg_of(c, p->args[2]) == ON_DEVICE;
}

static void take_call(struct live_gpu_memory *m, const struct session_view *v,
		      const struct live_series *s, const struct m_call *c)
{
	const struct gpu_memory_probe *p = probe_of(m, v, c->probe);
	if (!p || p->what == MEMORY_NOTHING || c->flags & CALL_ERROR ||
	    (c->flags & CALL_OPEN && !p->at_start) || !arg_of(c, p->args[0]) || !is_on_device(p, c))
		return;
	const struct m_thread *thread = v->names->thread(v->names->ctx, c->thread);
	if (!thread || !live_series_process(s, thread->pid))
		return;
	struct live_gpu_memory_process *of = process_of(m, thread->pid);
	if (!of)
		return;
	struct gpu_memory_item *i = vec_push(&m->items);
	*i = (struct gpu_memory_item){.time_ns = c->start_ns + (p->at_start ? 0 : c->dur_ns),
				      .start_ns = c->start_ns,
				      .pid = thread->pid,
				      .what = p->what};
	for (int k = 0; k < 3; k++)
		i->v[k] = arg_of(c, p->args[k]);
	if (p->what == MEMORY_ALLOC || p->what == MEMORY_ALLOC_CALLER || p->what == MEMORY_CREATE)
		i->owner = owner_at(m, of, arg_of(c, p->caller_arg), i->time_ns);
	else if (p->at_start)
		know_freeing(of->books, c->probe);
}

static void take_counter(struct live_gpu_memory *m, const struct session_view *v,
			 const struct live_series *s, const struct m_counter *c)
{
	const struct m_metric *row = v->names->metric(v->names->ctx, c->metric);
	if (!row || row->kind != ENTITY_GPU || !row->pid ||
	    strcmp(live_string(v, row->name), "memory_used_bytes") || c->value < 0 ||
	    !live_series_process(s, row->pid) || !process_of(m, row->pid))
		return;
	*vec_push(&m->items) = (struct gpu_memory_item){
		.time_ns = c->time_ns,
		.pid = row->pid,
		.what = MEMORY_ANSWER,
		.v = {(uint64_t)c->value, row->gpu, (uint64_t)(int64_t)row->instance}};
}

static void begin_anew(struct gpu_memory_books *b)
{
	gpu_memory_ledger_empty(&b->ledger);
	b->wrong = 0;
}

static void empty_those_that_free_by(struct live_gpu_memory *m, uint32_t probe)
{
	for (size_t i = 0; i < m->processes.len; i++) {
		struct gpu_memory_books *b = m->processes.data[i].books;
		for (size_t k = 0; k < b->freeing_len; k++)
			if (b->freeing[k] == probe)
				begin_anew(b);
	}
}

static void take_coverages(struct live_gpu_memory *m, const struct session_view *v)
{
	for (size_t i = 0; i < v->batch->coverages.len; i++) {
		const struct m_coverage *row = &v->batch->coverages.data[i];
		struct gpu_memory_probe *p = probe_of(m, v, row->probe);
		if (!p || !p->at_start || row->off_ns == p->off_ns)
			continue;
		p->off_ns = row->off_ns;
		empty_those_that_free_by(m, row->probe);
	}
}

/* ---- all of it ---- */

void live_gpu_memory_batch(struct live_gpu_memory *m, const struct session_view *v,
			   const struct live_series *s)
{
	forget_changed(m, v->batch);
	for (size_t i = 0; i < v->batch->calls.len; i++)
		take_call(m, v, s, &v->batch->calls.data[i]);
	for (size_t i = 0; i < v->batch->counters.len; i++)
		take_counter(m, v, s, &v->batch->counters.data[i]);
	take_items(m, s, v->upto_ns);
	take_coverages(m, v);
	if (v->batch->processes.len)
		live_gpu_memory_forget(m, s);
}

void live_gpu_memory_forget(struct live_gpu_memory *m, const struct live_series *s)
{
	size_t kept = 0;
	for (size_t i = 0; i < m->processes.len; i++) {
		const struct live_process *of = live_series_process(s, m->processes.data[i].pid);
		if (of && !of->end_ns)
			m->processes.data[kept++] = m->processes.data[i];
		else
			process_free(&m->processes.data[i]);
	}
	if (kept == m->processes.len)
		return;
	m->processes.len = kept;
	map64_free(&m->process_of);
	for (size_t i = 0; i < kept; i++)
		map64_set(&m->process_of, m->processes.data[i].pid, i);
}

void live_gpu_memory_free(struct live_gpu_memory *m)
{
	for (size_t i = 0; i < m->processes.len; i++)
		process_free(&m->processes.data[i]);
	vec_free(&m->processes);
	vec_free(&m->items);
	vec_free(&m->probes);
	map64_free(&m->process_of);
}

uint64_t live_gpu_memory_left_out(const struct live_gpu_memory *m)
{
	return m->room.left_out + m->no_process;
}
