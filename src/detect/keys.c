/* keys.c - numbers of keys.
 *
 * An event's signature (probe, name, sizes as they are, or nearly) is looked up first; only one
 * that was not met makes a text, which has the number. Many signatures lead to one key. Signatures
 * are 64-bit hashes: that two of a hundred thousand fall together has a chance of 3 in 10^10. */
#include "detect/keys.h"

#include <stdio.h>
#include <string.h>

#include "analyze/collectives.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include "detect/keys_impl.h"

#define SIGNATURES_FOR_A_KEY 8 /* of the most: beyond them all are forgotten */
#define PROBES_MOST	     (1u << 20)
#define OPERATOR	     "aten::" /* how PyTorch's own are called */

struct known_key {
	enum detect_layer layer;
	bool device, saves;
	char *text;
	char *name; /* NULL: the text */
	uint32_t function;
};

struct detect_keys {
	uint32_t most;
	enum detect_keys_depth depth;
	VEC(struct known_key) known; /* by number; 0 is none */
	struct map64 by_text;	     /* hash of layer and text -> number */
	VEC(struct key_plan) plans;  /* by probe */
	struct map64 by_signature;   /* -> number, size << 32 */
	struct key_nccl_state *nccl;
	struct key_within *within;
	struct detect_layers layers;
};

struct detect_keys *detect_keys_new(uint32_t most, enum detect_keys_depth depth)
{
	struct detect_keys *k = xcalloc(1, sizeof(*k));
	k->most = most;
	k->depth = depth;
	k->nccl = key_nccl_new();
	k->within = key_within_new();
	vec_push(&k->known);
	return k;
}

void detect_keys_forget_rows(struct detect_keys *k)
{
	vec_free(&k->plans);
	map64_free(&k->by_signature);
	key_nccl_free(k->nccl);
	key_within_free(k->within);
	k->nccl = key_nccl_new();
	k->within = key_within_new();
}

void detect_keys_thread_gone(struct detect_keys *k, uint32_t pid, uint32_t tid)
{
	key_nccl_thread_gone(k->nccl, pid, tid);
}

void detect_keys_free(struct detect_keys *k)
{
	for (size_t i = 0; i < k->known.len; i++) {
		free(k->known.data[i].text);
		free(k->known.data[i].name);
	}
	vec_free(&k->known);
	map64_free(&k->by_text);
	vec_free(&k->plans);
	map64_free(&k->by_signature);
	key_nccl_free(k->nccl);
	key_within_free(k->within);
	free(k);
}

struct detect_layers *detect_keys_layers(struct detect_keys *k)
{
	return &k->layers;
}

/* ---- texts ---- */

static uint64_t text_hash(enum detect_layer layer, const char *text)
{
	return hash_u64(hash_bytes(text, strlen(text)) + (uint64_t)layer);
}

static uint32_t number_of(struct detect_keys *k, enum detect_layer layer, const char *text)
{
	uint64_t hash = text_hash(layer, text), number = k->known.len;
	if (map64_get(&k->by_text, hash, &number))
		return (uint32_t)number;
	map64_set(&k->by_text, hash, number);
	size_t len = key_name_len(layer, text);
	*vec_push(&k->known) =
		(struct known_key){.layer = layer,
				   .device = key_text_is_device(text),
				   .saves = key_text_saves(layer, text),
				   .text = xstrdup(text),
				   .name = text[len] ? xasprintf("%.*s", (int)len, text) : NULL,
				   .function = (uint32_t)hash_bytes(text, len)};
	return (uint32_t)number;
}

/* Where there is no room, only what is known already has a number of its own. */
static bool has_room(const struct detect_keys *k, enum detect_layer layer, const char *text)
{
	uint64_t number;
	return k->known.len <= k->most || map64_get(&k->by_text, text_hash(layer, text), &number);
}

uint32_t detect_keys_text(struct detect_keys *k, enum detect_layer layer, const char *text)
{
	bool calls = detect_layer_traits(layer) & LAYER_BY_CALLS;
	if (!calls || !*text || strlen(text) >= KEY_TEXT_BYTES || strchr(text, '\t'))
		return 0;
	return number_of(k, layer, has_room(k, layer, text) ? text : "(other)");
}

static uint32_t number_of_event(struct detect_keys *k, enum detect_layer layer,
				const struct key_text *t)
{
	if (k->depth == KEYS_LAYERS)
		return number_of(k, layer, "(all)");
	/* As a model's file has it. */
	struct buf clean = {0};
	utf8_append(&clean, t->len ? t->s : "?", t->len ? t->len : 1);
	uint32_t number = detect_keys_text(k, layer, (const char *)clean.data);
	buf_free(&clean);
	return number;
}

uint32_t detect_keys_count(const struct detect_keys *k)
{
	return (uint32_t)k->known.len - 1;
}

void detect_keys_get(const struct detect_keys *k, uint32_t number, struct detect_key *ret)
{
	*ret = (struct detect_key){.layer = DETECT_LAYERS, .text = "", .name = ""};
	if (!number || number >= k->known.len)
		return;
	const struct known_key *key = &k->known.data[number];
	*ret = (struct detect_key){.layer = key->layer,
				   .device = key->device,
				   .saves = key->saves,
				   .function = key->function,
				   .text = key->text,
				   .name = key->name ? key->name : key->text};
}

/* ---- plans ---- */

static void add_part(struct key_plan *plan, int arg, enum key_part_how how)
{
	plan->parts[plan->parts_len++] = (struct key_part){(uint8_t)arg, (uint8_t)how};
}

static void plan_arg(struct key_plan *plan, const struct m_probe *p, int i, const char *name)
{
	uint8_t type = p->arg_types[i];
	if (type == ARG_TYPE_BYTES && !strcmp(name, "bytes")) {
		plan->bytes_arg = (int8_t)i;
		add_part(plan, i, PART_BYTES);
	} else if (type == ARG_TYPE_SHAPE) {
		add_part(plan, i, PART_SHAPE);
		plan->shaped = true;
	} else if (type == ARG_TYPE_DIM3 && !strcmp(name, "grid")) {
		add_part(plan, i, PART_GRID);
	} else if (plan->layer == DETECT_CUDA && type == ARG_TYPE_I64 && !strcmp(name, "kind")) {
		add_part(plan, i, PART_COPY_KIND);
	} else if (plan->layer == DETECT_PYTHON && type == ARG_TYPE_STRING && i != p->name_arg) {
		add_part(plan, i, PART_STRING);
	} else if (plan->layer == DETECT_NCCL && !strcmp(name, "comm")) {
		plan->comm_arg = (int8_t)i;
	}
}

static enum key_nccl nccl_of(const char *role, const char *function)
{
	if (!strcmp(role, "collective") || !strcmp(role, "p2p"))
		return NCCL_COLLECTIVE;
	if (!strcmp(role, "comm_init") || !strcmp(role, "comm_split") ||
	    !strcmp(role, "comm_destroy"))
		return NCCL_COMM_CHANGE;
	if (strcmp(role, "nccl_group") != 0)
		return NCCL_NONE;
	return strstr(function, "Start") ? NCCL_GROUP_START : NCCL_GROUP_END;
}

static void plan_make(struct detect_layers *layers, struct key_plan *plan,
		      const struct detect_names *names, uint32_t number)
{
	const struct m_probe *row = names->probe(names->ctx, number);
	*plan = (struct key_plan){
		.made = row != NULL, .name_arg = -1, .bytes_arg = -1, .comm_arg = -1};
	if (!row)
		return;
	struct m_probe p = *row;
	enum detect_layer layer = detect_layer_add(layers, names->string(names->ctx, p.layer));
	plan->judged = layer != DETECT_LAYERS && detect_layer_traits(layer) & LAYER_BY_CALLS;
	plan->layer = (uint8_t)layer;
	if (p.name_arg >= 0 && p.name_arg < MODEL_MAX_ARGS) {
		plan->name_arg = p.name_arg;
		plan->name_type = p.arg_types[p.name_arg];
	}
	for (int i = 0; i < p.nargs && i < MODEL_MAX_ARGS; i++)
		plan_arg(plan, &p, i, names->string(names->ctx, p.arg_names[i]));
	plan->borrows = !plan->shaped &&
			!strncmp(names->string(names->ctx, p.name), OPERATOR, strlen(OPERATOR));
	if (layer != DETECT_NCCL)
		return;
	char role[32];
	snprintf(role, sizeof(role), "%s", names->string(names->ctx, p.role));
	plan->nccl = (uint8_t)nccl_of(role, names->string(names->ctx, p.name));
}

static const struct key_plan *plan_of(struct detect_keys *k, const struct detect_names *names,
				      uint32_t probe)
{
	if (probe < k->plans.len && k->plans.data[probe].made)
		return &k->plans.data[probe];
	if (probe >= PROBES_MOST)
		return NULL;
	while (k->plans.len <= probe)
		vec_push(&k->plans);
	plan_make(&k->layers, &k->plans.data[probe], names, probe);
	return k->plans.data[probe].made ? &k->plans.data[probe] : NULL;
}

/* ---- signatures ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return hash_u64(hash ^ (value + 0x9e3779b97f4a7c15ULL));
}

static uint64_t part_value(const struct key_part *p, uint64_t value)
{
	if (p->how == PART_BYTES)
		return size_step(value);
	return p->how == PART_GRID ? size_step(grid_blocks(value)) : value;
}

static uint64_t signature(const struct key_plan *plan, const struct m_call *c, int32_t ranks,
			  const struct key_shapes *borrowed)
{
	uint64_t h = mix(c->probe, (uint64_t)ranks);
	if (plan->name_arg >= 0 && plan->name_arg < c->nargs)
		h = mix(h, c->args[plan->name_arg]);
	for (uint8_t i = 0; i < plan->parts_len; i++)
		if (plan->parts[i].arg < c->nargs)
			h = mix(h, part_value(&plan->parts[i], c->args[plan->parts[i].arg]));
	for (uint32_t i = 0; borrowed && i < borrowed->n; i++)
		h = mix(h, borrowed->shape[i]);
	return h;
}

static uint64_t mix_shape(uint64_t hash, uint64_t shape)
{
	for (int d = 0; d < SHAPE_DIMS; d++)
		hash = mix(hash, size_step(shape_size(shape, d)));
	return hash;
}

/* What tells the size, the same in every recording; 0 none. */
static uint32_t size_of(const struct key_plan *plan, const struct m_call *c, uint32_t function,
			const struct key_shapes *borrowed)
{
	uint64_t h = function;
	bool any = borrowed != NULL;
	for (uint32_t i = 0; borrowed && i < borrowed->n; i++)
		h = mix_shape(h, borrowed->shape[i]);
	for (uint8_t i = 0; i < plan->parts_len; i++) {
		const struct key_part *p = &plan->parts[i];
		if (p->arg >= c->nargs || p->how == PART_STRING || p->how == PART_COPY_KIND)
			continue;
		uint64_t value = part_value(p, c->args[p->arg]);
		h = p->how == PART_SHAPE ? mix_shape(h, value) : mix(h, value);
		any = true;
	}
	return any ? (uint32_t)(h >> 32) | 1 : 0;
}

static struct detect_keyed keyed(const struct detect_keys *k, uint64_t packed)
{
	uint32_t number = (uint32_t)packed;
	return (struct detect_keyed){number, k->known.data[number].function,
				     (uint32_t)(packed >> 32)};
}

static struct detect_keyed remember(struct detect_keys *k, uint64_t sign, uint32_t number,
				    uint32_t size)
{
	uint64_t packed = number | (uint64_t)size << 32;
	if (k->by_signature.len > (size_t)k->most * SIGNATURES_FOR_A_KEY)
		map64_free(&k->by_signature);
	map64_set(&k->by_signature, sign, packed);
	return keyed(k, packed);
}

struct detect_keyed detect_keys_call(struct detect_keys *k, const struct detect_names *names,
				     const struct m_call *c)
{
	const struct key_plan *plan = plan_of(k, names, c->probe);
	uint64_t packed;
	int32_t ranks = 0;
	if (!plan || !plan->judged)
		return (struct detect_keyed){0};
	if (plan->layer == DETECT_NCCL) {
		ranks = key_nccl_ranks(k->nccl, names, plan, c);
		if (plan->nccl)
			key_nccl_call(k->nccl, names, plan, c);
	}
	if (plan->shaped)
		key_within_call(k->within, plan, c);
	const struct key_shapes *borrowed = plan->borrows ? key_within_of(k->within, c) : NULL;
	uint64_t sign = signature(plan, c, ranks, borrowed);
	if (map64_get(&k->by_signature, sign, &packed))
		return keyed(k, packed);
	struct key_text t = {0};
	key_text_call(&t, names, plan, c, ranks, k->depth);
	if (borrowed && k->depth == KEYS_WHOLE)
		key_text_shapes(&t, borrowed);
	uint32_t number = number_of_event(k, (enum detect_layer)plan->layer, &t);
	return remember(k, sign, number,
			size_of(plan, c, k->known.data[number].function, borrowed));
}

/* Waits are told by the calls that wait. */
static bool is_work(const struct m_gpu_span *s)
{
	return s->work == WORK_KERNEL || s->work == WORK_COPY || s->work == WORK_SET ||
	       s->work == WORK_GRAPH;
}

struct detect_keyed detect_keys_gpu_span(struct detect_keys *k, const struct detect_names *names,
					 const struct m_gpu_span *s)
{
	uint64_t packed, bytes = 0;
	if (!is_work(s))
		return (struct detect_keyed){0};
	uint64_t sign = mix(UINT64_MAX - s->work, s->name);
	sign = mix(sign, s->work == WORK_KERNEL ? size_power(grid_blocks(s->grid))
						: size_power(s->bytes));
	sign = mix(sign, (uint64_t)s->copy_kind << 16 | (uint64_t)s->source_kind << 8 |
				 s->destination_kind);
	bool known = map64_get(&k->by_signature, sign, &packed);
	if (known && k->known.data[(uint32_t)packed].layer != DETECT_NCCL)
		return keyed(k, packed);
	bool nccl =
		s->work == WORK_KERNEL && collective_is_kernel(names->string(names->ctx, s->name));
	if (nccl) {
		bytes = key_nccl_bytes(k->nccl, s->pid, s->called_tid, s->called_ns);
		if (bytes) { /* then the blocks do not count; else it is known by them */
			sign = mix(mix(UINT64_MAX - WORK_KERNEL, s->name),
				   size_power(bytes) + 1000);
			known = map64_get(&k->by_signature, sign, &packed);
		}
	}
	if (known)
		return keyed(k, packed);
	struct key_text t = {0};
	key_text_gpu_span(&t, names, s, bytes, k->depth);
	return remember(k, sign, number_of_event(k, nccl ? DETECT_NCCL : DETECT_CUDA, &t), 0);
}
