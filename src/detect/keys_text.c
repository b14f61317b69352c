/* keys_text.c - the texts of keys, which are the same in every recording. keys.h has examples. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/collectives.h"
#include "base/kernel_name.h"
#include "detect/keys_impl.h"

#define HASH_CHARACTERS 9 /* "~" and eight digits */

/* Control characters would end lines, and a tab stands between two texts: see USUAL_PAIR. */
static void plain(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ')
			*s = ' ';
}

void key_text_add(struct key_text *t, const char *s)
{
	size_t n = strlen(s), room = sizeof(t->s) - 1 - t->len;
	char *to = t->s + t->len;
	if (n <= room) {
		memcpy(to, s, n + 1);
		t->len += n;
	} else if (room >= HASH_CHARACTERS) {
		size_t keep = room - HASH_CHARACTERS;
		while (keep && ((unsigned char)s[keep] & 0xc0) == 0x80)
			keep--; /* not within a character */
		memcpy(to, s, keep);
		snprintf(to + keep, HASH_CHARACTERS + 1, "~%08x", (uint32_t)hash_bytes(s, n));
		t->len += keep + HASH_CHARACTERS;
	}
	plain(to);
}

void key_text_printf(struct key_text *t, const char *fmt, ...)
{
	char piece[64];
	va_list args;
	va_start(args, fmt);
	vsnprintf(piece, sizeof(piece), fmt, args);
	va_end(args);
	key_text_add(t, piece);
}

/* ---- calls ---- */

static void add_kernel(struct key_text *t, const char *name)
{
	char brief[KERNEL_NAME_BYTES];
	if (!kernel_name_known(name)) {
		key_text_add(t, "?"); /* a stand-in holds an address */
		return;
	}
	if (name[0] == '_' && name[1] == 'Z') {
		struct key_text cut = {.len = KEY_TEXT_BYTES - 1 - KERNEL_NAME_BYTES};
		key_text_add(&cut, name); /* long ones differ at their ends */
		key_text_add(t, cut.s + (KEY_TEXT_BYTES - 1 - KERNEL_NAME_BYTES));
		return;
	}
	kernel_name_short(brief, sizeof(brief), name);
	key_text_add(t, brief);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static void add_code(struct key_text *t, const struct detect_names *names, uint64_t number)
{
	const struct m_code *c =
		number <= UINT32_MAX ? names->code(names->ctx, (uint32_t)number) : NULL;
	if (!c) {
		key_text_add(t, "?");
		return;
	}
	uint32_t file = c->file, line = c->line;
	key_text_add(t, names->string(names->ctx, c->name));
	const char *path = last_part(names->string(names->ctx, file));
	if (!*path)
		return;
	key_text_add(t, " (");
	key_text_add(t, path);
	key_text_printf(t, ":%u)", line);
}

static const char *string_of(const struct detect_names *names, uint64_t number)
{
	return number <= UINT32_MAX ? names->string(names->ctx, (uint32_t)number) : "";
}

static void add_name(struct key_text *t, const struct detect_names *names,
		     const struct key_plan *plan, const struct m_call *c)
{
	const struct m_probe *p = names->probe(names->ctx, c->probe);
	uint32_t own = p ? p->name : 0;
	bool named = plan->name_arg >= 0 && plan->name_arg < c->nargs;
	uint64_t value = named ? c->args[plan->name_arg] : 0;
	const char *text =
		named && plan->name_type == ARG_TYPE_STRING ? string_of(names, value) : "";
	if (named && plan->name_type == ARG_TYPE_CODE) {
		add_code(t, names, value);
	} else if (!*text) {
		key_text_add(t, names->string(names->ctx, own));
	} else if (plan->layer == DETECT_CUDA) {
		char kernel[KERNEL_NAME_BYTES * 4];
		snprintf(kernel, sizeof(kernel), "%s", text);
		key_text_add(t, names->string(names->ctx, own));
		key_text_add(t, " ");
		add_kernel(t, kernel);
	} else {
		key_text_add(t, text);
	}
}

/* The highest three bits. */
static uint64_t rounded(uint64_t size)
{
	if (size < 8)
		return size;
	unsigned low = 63 - (unsigned)__builtin_clzll(size) - 2;
	return size >> low << low;
}

static void add_shape(struct key_text *t, uint64_t shape)
{
	int dims = shape_dims(shape);
	key_text_add(t, dims < 0 ? "[?" : "[");
	for (int i = 0; i < dims; i++)
		key_text_printf(t, i ? ",%llu" : "%llu",
				(unsigned long long)rounded(shape_size(shape, i)));
	key_text_add(t, "]");
}

static void add_copy_kind(struct key_text *t, uint64_t kind)
{
	/* cudaMemcpyKind of driver_types.h */
	static const char *const names[] = {" HtoH", " HtoD", " DtoH", " DtoD", " default"};
	key_text_add(t, kind < sizeof(names) / sizeof(names[0]) ? names[kind] : " other");
}

static void add_part(struct key_text *t, const struct detect_names *names,
		     const struct key_part *part, uint64_t value, bool first_shape)
{
	if (part->how == PART_BYTES) {
		key_text_printf(t, " 2^%u", size_power(value));
	} else if (part->how == PART_SHAPE) {
		if (first_shape)
			key_text_add(t, " ");
		add_shape(t, value);
	} else if (part->how == PART_COPY_KIND) {
		add_copy_kind(t, value);
	} else if (part->how == PART_STRING) {
		key_text_add(t, " ");
		key_text_add(t, string_of(names, value));
	}
}

/* What belongs to the name comes before sizes: directions, then bytes. */
void key_text_call(struct key_text *t, const struct detect_names *names,
		   const struct key_plan *plan, const struct m_call *c, int32_t ranks,
		   enum detect_keys_depth depth)
{
	bool first_shape = true;
	add_name(t, names, plan, c);
	for (int sizes = 0; sizes < (depth == KEYS_WHOLE ? 2 : 1); sizes++) {
		for (uint8_t i = 0; i < plan->parts_len; i++) {
			const struct key_part *p = &plan->parts[i];
			bool is_size = p->how == PART_BYTES || p->how == PART_SHAPE;
			if (p->how == PART_GRID || p->arg >= c->nargs || is_size != !!sizes)
				continue;
			add_part(t, names, p, c->args[p->arg], first_shape);
			first_shape &= p->how != PART_SHAPE;
		}
	}
	if (ranks && depth == KEYS_WHOLE)
		key_text_printf(t, " of %d", ranks);
}

void key_text_shapes(struct key_text *t, const struct key_shapes *shapes)
{
	for (uint32_t i = 0; i < shapes->n; i++) {
		key_text_add(t, i ? "" : " ");
		add_shape(t, shapes->shape[i]);
	}
}

/* ---- spans of the GPU ---- */

/* CUpti_ActivityMemcpyKind of cupti_activity.h. */
static const char *direction(uint8_t kind)
{
	static const char *const names[] = {"other", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					    "AtoD",  "DtoA", "DtoD", "HtoH", "PtoP"};
	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : names[0];
}

static const char *host_memory(const struct m_gpu_span *s)
{
	if (s->source_kind == MEMORY_PAGEABLE || s->destination_kind == MEMORY_PAGEABLE)
		return " pageable";
	if (s->source_kind == MEMORY_PINNED || s->destination_kind == MEMORY_PINNED)
		return " pinned";
	return "";
}

static void add_span_kernel(struct key_text *t, const struct detect_names *names,
			    const struct m_gpu_span *s, uint64_t bytes, bool sizes)
{
	key_text_add(t, "kernel ");
	add_kernel(t, names->string(names->ctx, s->name));
	if (sizes && bytes)
		key_text_printf(t, " 2^%u", size_power(bytes));
	else if (sizes)
		key_text_printf(t, " 2^%u blocks", size_power(grid_blocks(s->grid)));
}

void key_text_gpu_span(struct key_text *t, const struct detect_names *names,
		       const struct m_gpu_span *s, uint64_t bytes, enum detect_keys_depth depth)
{
	bool sizes = depth == KEYS_WHOLE;
	switch (s->work) {
	case WORK_KERNEL:
		add_span_kernel(t, names, s, bytes, sizes);
		return;
	case WORK_COPY:
		key_text_add(t, "copy ");
		key_text_add(t, direction(s->copy_kind));
		key_text_add(t, host_memory(s));
		break;
	case WORK_SET:
		key_text_add(t, "set");
		break;
	default:
		key_text_add(t, "graph");
		return;
	}
	if (sizes)
		key_text_printf(t, " 2^%u", size_power(s->bytes));
}

/* ---- back ---- */

/* Up to the last " 2^", where only a number and words come after it. */
static size_t before_power(const char *text)
{
	size_t len = strlen(text);
	const char *at = NULL;
	for (const char *s = strstr(text, " 2^"); s; s = strstr(s + 1, " 2^"))
		at = s;
	if (!at || at[3] < '0' || at[3] > '9')
		return len;
	const char *rest = at + 3 + strspn(at + 3, "0123456789");
	bool whole = !*rest || !strcmp(rest, " blocks") || !strncmp(rest, " of ", 4);
	return whole ? (size_t)(at - text) : len;
}

size_t key_name_len(enum detect_layer layer, const char *text)
{
	const char *cut = NULL;
	if (layer == DETECT_TORCH)
		cut = strstr(text, " [");
	else if (layer == DETECT_PYTHON)
		for (const char *s = strstr(text, " ("); s; s = strstr(s + 1, " ("))
			cut = s;
	return cut ? (size_t)(cut - text) : before_power(text);
}

bool key_text_is_device(const char *text)
{
	return !strncmp(text, "kernel ", 7) || !strncmp(text, "copy ", 5) || !strcmp(text, "set") ||
	       !strncmp(text, "set ", 4) || !strcmp(text, "graph");
}

bool key_text_saves(enum detect_layer layer, const char *text)
{
	static const struct {
		const char *file, *function;
	} those[] = {{" (serialization.py:", "save"},
		     {" (state_dict_saver.py:", "save"},
		     {" (torch.py:", "save_file"}};
	if (layer == DETECT_TORCH)
		return !strcmp(text, "torch.save");
	for (size_t i = 0; layer == DETECT_PYTHON && i < sizeof(those) / sizeof(those[0]); i++) {
		const char *file = strstr(text, those[i].file);
		const char *function = strstr(text, those[i].function);
		if (file && function && function < file)
			return true;
	}
	return false;
}
