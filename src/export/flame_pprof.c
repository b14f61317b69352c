/* flame_pprof.c - call trees as a gzipped profile.proto: for `go tool pprof` and Pyroscope.
 *
 * The fields are in profile.proto. A message is the same on the wire when it comes in parts, so
 * each row is packed and compressed as a Profile of its own, and no list of all rows is held.
 * Frames are locations of their number plus one, libraries mappings. Addresses are not known
 * here: mappings say that functions are named already, and readers look for no symbols.
 * There is no system_name: of functions where it is the same as the name, pprof takes what
 * stands in <> and () away, which would make one of Python's <module> and <lambda>.
 * A base that is compared with is written as pprof does itself (-diff_base): its samples are
 * negative and carry the label pprof::base. */
#include <errno.h>
#include <zlib.h>

#include "base/utf8.h"
#include "export/flame.h"
#include "profile.pb-c.h"

typedef EacgmPprof__Profile profile_t;

static const char *const kind_names[CALLTREE_KINDS] = {
	[CALLTREE_NATIVE] = "native", [CALLTREE_PYTHON] = "python",
	[CALLTREE_KERNEL] = "kernel", [CALLTREE_OPERATOR] = "operator",
	[CALLTREE_GPU] = "gpu",	      [CALLTREE_OTHER] = "other",
};

struct writer {
	FILE *out;
	const struct calltree *t;
	z_stream z;
	struct buf packed;
	struct map64 functions; /* name << 32 | file -> number */
	struct map64 mappings;	/* library -> number */
	/* Strings that the tree does not hold follow its own. */
	int64_t strings;
	int64_t kind_label, kinds[CALLTREE_KINDS], base_label, true_label, unknown;
};

/* ---- the stream ---- */

static void deflate_bytes(struct writer *w, uint8_t *data, size_t len, int flush)
{
	uint8_t chunk[16384];
	w->z.next_in = data;
	w->z.avail_in = (uInt)len;
	do {
		w->z.next_out = chunk;
		w->z.avail_out = sizeof(chunk);
		(void)deflate(&w->z, flush); /* fails only where its state is broken */
		fwrite(chunk, 1, sizeof(chunk) - w->z.avail_out, w->out);
	} while (!w->z.avail_out);
}

/* Appends a part of the profile. */
static void put(struct writer *w, const profile_t *p)
{
	size_t len = eacgm_pprof__profile__get_packed_size(p);
	w->packed.len = 0;
	buf_reserve(&w->packed, len + 1);
	eacgm_pprof__profile__pack(p, w->packed.data);
	deflate_bytes(w, w->packed.data, len, Z_NO_FLUSH);
}

/* ---- strings ---- */

static int64_t put_string(struct writer *w, const char *s, size_t len)
{
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	struct buf clean = {0};
	utf8_append_clean(&clean, s, len, '?');
	char *text = (char *)clean.data;
	p.string_table = &text;
	p.n_string_table = 1;
	put(w, &p);
	buf_free(&clean);
	return w->strings++;
}

static int64_t put_text(struct writer *w, const char *s)
{
	return put_string(w, s, strlen(s));
}

/* The tree's strings keep their numbers. */
static void put_strings(struct writer *w)
{
	for (uint32_t i = 0; i < strtab_len(&w->t->strings); i++) {
		size_t len;
		const char *s = strtab_get(&w->t->strings, i, &len);
		put_string(w, s, len);
	}
	w->unknown = put_text(w, "[unknown]");
	w->kind_label = put_text(w, "kind");
	for (int i = 0; i < CALLTREE_KINDS; i++)
		w->kinds[i] = put_text(w, kind_names[i]);
	if (w->t->differential) {
		w->base_label = put_text(w, "pprof::base");
		w->true_label = put_text(w, "true");
	}
}

/* ---- rows ---- */

static const char *unit_name(const char *unit)
{
	return !strcmp(unit, "ns") ? "nanoseconds" : unit;
}

static void put_about(struct writer *w)
{
	const struct calltree *t = w->t;
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	EacgmPprof__ValueType type = EACGM_PPROF__VALUE_TYPE__INIT, period = type;
	EacgmPprof__ValueType *types = &type;
	int64_t title = put_text(w, t->title ? t->title : "");
	type.type = put_text(w, t->type);
	type.unit = put_text(w, unit_name(t->unit));
	p.sample_type = &types;
	p.n_sample_type = 1;
	p.default_sample_type = type.type;
	p.comment = &title;
	p.n_comment = 1;
	p.time_nanos = (int64_t)t->start_realtime_ns;
	p.duration_nanos = (int64_t)t->duration_ns;
	if (t->period_ns) {
		period.type = type.type;
		period.unit = put_text(w, "nanoseconds");
		p.period_type = &period;
		p.period = (int64_t)t->period_ns;
	}
	put(w, &p);
}

/* The number of a library, 0 of none; what is new is written. */
static uint64_t mapping_of(struct writer *w, uint32_t library)
{
	uint64_t number, build_id = 0;
	if (!library)
		return 0;
	if (map64_get(&w->mappings, library, &number))
		return number;
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	EacgmPprof__Mapping mapping = EACGM_PPROF__MAPPING__INIT, *list = &mapping;
	mapping.id = w->mappings.len + 1;
	mapping.filename = library;
	(void)map64_get(&w->t->build_of, library, &build_id);
	mapping.build_id = (int64_t)build_id;
	mapping.has_functions = mapping.has_filenames = mapping.has_line_numbers = 1;
	p.mapping = &list;
	p.n_mapping = 1;
	put(w, &p);
	map64_set(&w->mappings, library, mapping.id);
	return mapping.id;
}

static uint64_t function_of(struct writer *w, uint32_t name, uint32_t file)
{
	uint64_t number, key = (uint64_t)name << 32 | file;
	if (map64_get(&w->functions, key, &number))
		return number;
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	EacgmPprof__Function function = EACGM_PPROF__FUNCTION__INIT, *list = &function;
	function.id = w->functions.len + 1;
	function.name = name ? name : w->unknown;
	function.filename = file;
	p.function = &list;
	p.n_function = 1;
	put(w, &p);
	map64_set(&w->functions, key, function.id);
	return function.id;
}

static void put_location(struct writer *w, uint32_t frame)
{
	const struct calltree_frame *f = &w->t->frames.data[frame];
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	EacgmPprof__Location location = EACGM_PPROF__LOCATION__INIT, *list = &location;
	EacgmPprof__Line line = EACGM_PPROF__LINE__INIT, *lines = &line;
	line.function_id = function_of(w, f->name, f->file);
	line.line = f->line;
	location.id = frame + 1ULL;
	location.mapping_id = mapping_of(w, f->library);
	location.line = &lines;
	location.n_line = 1;
	p.location = &list;
	p.n_location = 1;
	put(w, &p);
}

static unsigned kind_of(const struct calltree *t, const struct calltree_node *node)
{
	unsigned kind = t->frames.data[node->frame].kind;
	return kind < CALLTREE_KINDS ? kind : CALLTREE_OTHER;
}

/* The node's own weight; ids is scratch. */
static void put_sample(struct writer *w, uint32_t node, int which, struct buf *ids)
{
	const struct calltree_node *nodes = w->t->nodes.data;
	int64_t weight = nodes[node].self[which];
	if (!weight)
		return;
	profile_t p = EACGM_PPROF__PROFILE__INIT;
	EacgmPprof__Sample sample = EACGM_PPROF__SAMPLE__INIT, *list = &sample;
	EacgmPprof__Label labels[2] = {EACGM_PPROF__LABEL__INIT, EACGM_PPROF__LABEL__INIT};
	EacgmPprof__Label *label_list[2] = {&labels[0], &labels[1]};
	ids->len = 0;
	for (uint32_t i = node; i; i = nodes[i].parent) {
		uint64_t id = nodes[i].frame + 1ULL;
		buf_add(ids, &id, sizeof(id));
	}
	weight = which ? -weight : weight;
	labels[0].key = w->kind_label;
	labels[0].str = w->kinds[kind_of(w->t, &nodes[node])];
	labels[1].key = w->base_label;
	labels[1].str = w->true_label;
	sample.location_id = (uint64_t *)(void *)ids->data;
	sample.n_location_id = ids->len / sizeof(uint64_t);
	sample.value = &weight;
	sample.n_value = 1;
	sample.label = label_list;
	sample.n_label = which ? 2 : 1;
	p.sample = &list;
	p.n_sample = 1;
	put(w, &p);
}

static void put_samples(struct writer *w)
{
	struct buf ids = {0};
	for (uint32_t i = 0; i < w->t->nodes.len; i++) {
		put_sample(w, i, 0, &ids);
		if (w->t->differential)
			put_sample(w, i, 1, &ids);
	}
	buf_free(&ids);
}

static int pprof_write(FILE *out, const struct calltree *t, struct err *e)
{
	struct writer w = {.out = out, .t = t};
	if (!t->nodes.len)
		return err_set(e, EINVAL, "the call tree has no root");
	/* Window bits plus 16: a gzip header and trailer (zlib.h). */
	if (deflateInit2(&w.z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(e, ENOMEM, "cannot compress: zlib did not start");
	put_strings(&w);
	put_about(&w);
	for (uint32_t i = 0; i < t->frames.len; i++)
		put_location(&w, i);
	put_samples(&w);
	deflate_bytes(&w, NULL, 0, Z_FINISH);
	deflateEnd(&w.z);
	buf_free(&w.packed);
	map64_free(&w.functions);
	map64_free(&w.mappings);
	return 0;
}

const struct flame_format flame_pprof = {
	.name = "pprof",
	.extension = "pb.gz",
	.write = pprof_write,
};
