/* otlp_profiles.c - each row of a table is packed and interned as bytes: rows that are the same
 * have one number, and number 0 is the row of no bytes, the empty one that a table begins with. The
 * tables are written when there are no more profiles.
 *
 * Addresses are not known here: locations have functions and lines alone. */
#include "serve/otlp_profiles.h"

#include <string.h>
#include <sys/random.h>

#include "base/utf8.h"
#include "otlp_profiles.pb-c.h"
#include "serve/otlp_message.h"

#define ID_BYTES 16

/* Numbers of ProfilesDictionary's fields. */
enum table {
	MAPPINGS = 1,
	LOCATIONS = 2,
	FUNCTIONS = 3,
	LINKS = 4,
	STRINGS = 5,
	ATTRIBUTES = 6,
	STACKS = 7,
	TABLES,
};

struct otlp_profiles {
	const struct otlp_about *about;
	struct strtab tables[TABLES]; /* packed rows; strings are as they are */
	size_t table_bytes;
	struct buf profiles; /* ExportProfilesServiceRequest's field 1, concatenated */
	struct buf scratch;
	struct otlp_arena arena; /* of one profile */
};

/* The samples of a profile: a stack has one. */
struct samples {
	VEC(int32_t) stacks; /* as they came */
	struct map64 sums;   /* of their weights */
};

struct otlp_profiles *otlp_profiles_new(const struct otlp_about *about)
{
	struct otlp_profiles *m = xcalloc(1, sizeof(*m));
	m->about = about;
	return m;
}

/* ---- tables ---- */

static int32_t intern(struct otlp_profiles *m, enum table which, const void *data, size_t n)
{
	struct strtab *t = &m->tables[which];
	size_t before = strtab_len(t);
	if (!n)
		return 0;
	uint32_t ret = strtab_add(t, data, n);
	if (strtab_len(t) > before)
		m->table_bytes += n;
	return (int32_t)ret;
}

static int32_t row(struct otlp_profiles *m, enum table which, const ProtobufCMessage *message)
{
	m->scratch.len = 0;
	otlp_pack(&m->scratch, message);
	return intern(m, which, m->scratch.data, m->scratch.len);
}

static int32_t string(struct otlp_profiles *m, const char *text, size_t n)
{
	m->scratch.len = 0;
	utf8_append_clean(&m->scratch, text, n, '?');
	return intern(m, STRINGS, m->scratch.data, m->scratch.len);
}

static int32_t string_z(struct otlp_profiles *m, const char *text)
{
	return string(m, text, strlen(text));
}

static int32_t string_of(struct otlp_profiles *m, const struct calltree *t, uint32_t number)
{
	size_t n;
	const char *text = strtab_get(&t->strings, number, &n);
	return string(m, text, n);
}

static int32_t attribute_of(struct otlp_profiles *m, const char *key, const char *text)
{
	Opentelemetry__Proto__Profiles__V1development__KeyValueAndUnit a =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__KEY_VALUE_AND_UNIT__INIT;
	a.key_strindex = string_z(m, key);
	a.value = otlp_text_value(&m->arena, text);
	return row(m, ATTRIBUTES, &a.base);
}

/* ---- frames ---- */

/* Of a library's string. */
static int32_t mapping_of(struct otlp_profiles *m, const struct calltree *t, uint32_t library)
{
	Opentelemetry__Proto__Profiles__V1development__Mapping mapping =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__MAPPING__INIT;
	uint64_t build_id = 0;
	int32_t attribute;
	if (!library)
		return 0;
	mapping.filename_strindex = string_of(m, t, library);
	if (map64_get(&t->build_of, library, &build_id) && build_id) {
		size_t n;
		attribute = attribute_of(m, "process.executable.build_id.gnu",
					 strtab_get(&t->strings, (uint32_t)build_id, &n));
		mapping.attribute_indices = &attribute;
		mapping.n_attribute_indices = 1;
	}
	return row(m, MAPPINGS, &mapping.base);
}

static int32_t function_of(struct otlp_profiles *m, const struct calltree *t,
			   const struct calltree_frame *f)
{
	Opentelemetry__Proto__Profiles__V1development__Function function =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__FUNCTION__INIT;
	function.name_strindex = f->name ? string_of(m, t, f->name) : string_z(m, "[unknown]");
	function.filename_strindex = string_of(m, t, f->file);
	return row(m, FUNCTIONS, &function.base);
}

/* As the semantic conventions call them (profile.frame.type); NULL: there is no such kind. */
static const char *type_of(const struct calltree_frame *f)
{
	static const char *const types[CALLTREE_KINDS] = {[CALLTREE_NATIVE] = "native",
							  [CALLTREE_PYTHON] = "cpython",
							  [CALLTREE_KERNEL] = "kernel"};
	return f->kind < CALLTREE_KINDS ? types[f->kind] : NULL;
}

static int32_t location_of(struct otlp_profiles *m, const struct calltree *t, uint32_t frame)
{
	const struct calltree_frame *f = &t->frames.data[frame];
	Opentelemetry__Proto__Profiles__V1development__Location location =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LOCATION__INIT;
	Opentelemetry__Proto__Profiles__V1development__Line line =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LINE__INIT;
	Opentelemetry__Proto__Profiles__V1development__Line *lines = &line;
	const char *type = type_of(f);
	int32_t attribute;
	line.function_index = function_of(m, t, f);
	line.line = f->line;
	location.mapping_index = mapping_of(m, t, f->library);
	location.lines = &lines;
	location.n_lines = 1;
	if (type) {
		attribute = attribute_of(m, "profile.frame.type", type);
		location.attribute_indices = &attribute;
		location.n_attribute_indices = 1;
	}
	return row(m, LOCATIONS, &location.base);
}

/* ---- samples ---- */

static void add_sample(struct samples *s, int32_t stack, int64_t value)
{
	uint64_t sum = 0;
	if (!map64_get(&s->sums, (uint64_t)stack, &sum))
		*vec_push(&s->stacks) = stack;
	map64_set(&s->sums, (uint64_t)stack, sum + (uint64_t)value);
}

/* locations: of frames; indices: scratch. */
static int32_t stack_of(struct otlp_profiles *m, const struct calltree *t, uint32_t node,
			const int32_t *locations, struct buf *indices)
{
	Opentelemetry__Proto__Profiles__V1development__Stack stack =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__STACK__INIT;
	indices->len = 0;
	for (uint32_t i = node; i; i = t->nodes.data[i].parent)
		buf_add(indices, &locations[t->nodes.data[i].frame], sizeof(*locations));
	stack.location_indices = (int32_t *)(void *)indices->data;
	stack.n_location_indices = indices->len / sizeof(*locations);
	return row(m, STACKS, &stack.base);
}

static void take_samples(struct otlp_profiles *m, struct samples *ret, const struct calltree *t)
{
	int32_t *locations = otlp_arena_get(&m->arena, (t->frames.len + 1) * sizeof(*locations));
	struct buf indices = {0};
	for (uint32_t i = 1; i < t->nodes.len; i++) /* a frame that is in no stack has no row */
		locations[t->nodes.data[i].frame] = location_of(m, t, t->nodes.data[i].frame);
	for (uint32_t i = 0; i < t->nodes.len; i++)
		if (t->nodes.data[i].self[0])
			add_sample(ret, stack_of(m, t, i, locations, &indices),
				   t->nodes.data[i].self[0]);
	buf_free(&indices);
}

/* ---- profiles ---- */

typedef Opentelemetry__Proto__Profiles__V1development__ValueType value_type_t;
typedef Opentelemetry__Proto__Profiles__V1development__Sample sample_t;
typedef Opentelemetry__Proto__Profiles__V1development__Profile profile_t;

static void put_about(struct otlp_profiles *m, profile_t *p, const struct calltree *t)
{
	value_type_t *type = otlp_arena_get(&m->arena, sizeof(*type));
	value_type_t *period = otlp_arena_get(&m->arena, sizeof(*period));
	uint8_t *id = otlp_arena_get(&m->arena, ID_BYTES);
	opentelemetry__proto__profiles__v1development__value_type__init(type);
	opentelemetry__proto__profiles__v1development__value_type__init(period);
	type->type_strindex = period->type_strindex = string_z(m, t->type);
	type->unit_strindex = string_z(m, !strcmp(t->unit, "ns") ? "nanoseconds" : t->unit);
	p->sample_type = type;
	p->time_unix_nano = t->start_realtime_ns;
	p->duration_nano = t->duration_ns;
	if (t->period_ns) {
		period->unit_strindex = string_z(m, "nanoseconds");
		p->period_type = period;
		p->period = (int64_t)t->period_ns;
	}
	if (getrandom(id, ID_BYTES, 0) != ID_BYTES)
		return;
	p->profile_id.data = id;
	p->profile_id.len = ID_BYTES;
}

static void put_samples(struct otlp_profiles *m, profile_t *p, const struct samples *s)
{
	size_t n = s->stacks.len;
	sample_t *rows = otlp_arena_get(&m->arena, (n + 1) * sizeof(*rows));
	int64_t *sums = otlp_arena_get(&m->arena, (n + 1) * sizeof(*sums));
	p->samples = otlp_arena_get(&m->arena, (n + 1) * sizeof(*p->samples));
	for (size_t i = 0; i < n; i++) {
		uint64_t sum = 0;
		(void)map64_get(&s->sums, (uint64_t)s->stacks.data[i], &sum);
		sums[i] = (int64_t)sum;
		opentelemetry__proto__profiles__v1development__sample__init(&rows[i]);
		rows[i].stack_index = s->stacks.data[i];
		rows[i].values = &sums[i];
		rows[i].n_values = 1;
		p->samples[i] = &rows[i];
	}
	p->n_samples = n;
}

void otlp_profiles_add(struct otlp_profiles *m, const struct calltree *t,
		       const struct live_process *of)
{
	Opentelemetry__Proto__Profiles__V1development__ScopeProfiles scope =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__SCOPE_PROFILES__INIT;
	profile_t p = OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__PROFILE__INIT, *profiles = &p;
	struct samples s = {0};
	struct buf rows = {0};
	take_samples(m, &s, t);
	put_about(m, &p, t);
	put_samples(m, &p, &s);
	scope.profiles = &profiles;
	scope.n_profiles = 1;
	otlp_pack(&rows, &scope.base);
	otlp_put_question_of(&m->profiles, m->about, of, &rows);
	buf_free(&rows);
	map64_free(&s.sums);
	vec_free(&s.stacks);
	otlp_arena_empty(&m->arena);
}

/* ---- the message ---- */

size_t otlp_profiles_bytes(const struct otlp_profiles *m)
{
	return m->profiles.len + m->table_bytes;
}

/* For who expects numbers of that length everywhere, as the schema wants. */
static void put_no_link(struct otlp_profiles *m, struct buf *ret)
{
	static uint8_t zeros[16];
	Opentelemetry__Proto__Profiles__V1development__Link link =
		OPENTELEMETRY__PROTO__PROFILES__V1DEVELOPMENT__LINK__INIT;
	link.trace_id = (ProtobufCBinaryData){.len = 16, .data = zeros};
	link.span_id = (ProtobufCBinaryData){.len = 8, .data = zeros};
	m->scratch.len = 0;
	otlp_pack(&m->scratch, &link.base);
	otlp_put_field(ret, LINKS, &m->scratch);
}

static void put_tables(struct otlp_profiles *m, struct buf *ret)
{
	put_no_link(m, ret);
	for (enum table which = MAPPINGS; which < TABLES; which++)
		for (uint32_t i = 0; which != LINKS && i < strtab_len(&m->tables[which]); i++) {
			size_t n;
			const char *text = strtab_get(&m->tables[which], i, &n);
			m->scratch.len = 0;
			buf_add(&m->scratch, text, n);
			otlp_put_field(ret, which, &m->scratch);
		}
}

void otlp_profiles_end(struct otlp_profiles *m, struct buf *ret)
{
	struct buf dictionary = {0};
	if (m->profiles.len) {
		put_tables(m, &dictionary);
		buf_add(ret, m->profiles.data, m->profiles.len);
		otlp_put_field(ret, 2, &dictionary);
	}
	for (enum table which = MAPPINGS; which < TABLES; which++)
		strtab_free(&m->tables[which]);
	buf_free(&dictionary);
	buf_free(&m->profiles);
	buf_free(&m->scratch);
	otlp_arena_free(&m->arena);
	free(m);
}
