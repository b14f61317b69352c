/* launches.c - launches and the lanes that they are shown on. */
#include "export/launches.h"

#include <inttypes.h>

#include <linux/types.h>

#include "base/kernel_name.h"
#include "base/layer.h"
#include "export/call_view.h"
#include "wire/event.h"

enum { STREAM_LEGACY = 1, STREAM_PER_THREAD = 2 }; /* cuda.h: CU_STREAM_LEGACY, _PER_THREAD */

static void probe_make(struct launch_probe *ret, const struct rec_tables *t,
		       const struct m_probe *p)
{
	const char *role = strtab_get(&t->strings, p->role, NULL);
	unsigned traits = layer_traits_of_name(strtab_get(&t->strings, p->layer, NULL));
	const char *symbol = strtab_get(&t->strings, p->symbol, NULL);
	size_t n = strlen(symbol);
	*ret = (struct launch_probe){.stream_arg = -1};
	if (!strcmp(role, "launch") || !strcmp(role, "graph_launch"))
		ret->kind = LAUNCH_CALL;
	else if (traits & LAYER_HAS_OPERATORS)
		ret->kind = LAUNCH_OPERATOR;
	else if (traits & LAYER_HAS_FUNCTIONS)
		ret->kind = LAUNCH_PYTHON;
	ret->stream_threads = n > 5 && !strcmp(symbol + n - 5, "_ptsz");
	for (int8_t i = 0; i < p->nargs && i < MODEL_MAX_ARGS; i++)
		if (!strcmp(strtab_get(&t->strings, p->arg_names[i], NULL), "stream"))
			ret->stream_arg = i;
}

void launch_probes_make(struct launch_probes *p, const struct rec_tables *t)
{
	*p = (struct launch_probes){.rows = xcalloc(t->probes.len + 1, sizeof(*p->rows))};
	for (size_t i = 0; i < t->probes.len; i++) {
		probe_make(&p->rows[i], t, &t->probes.data[i]);
		p->any |= p->rows[i].kind == LAUNCH_CALL;
	}
}

void launch_probes_free(struct launch_probes *p)
{
	free(p->rows);
}

bool is_launch(const struct launch_probes *p, const struct m_call *c)
{
	return p->any && p->rows[c->probe].kind == LAUNCH_CALL && !(c->flags & CALL_ERROR);
}

void launch_name(char *ret, size_t size, const struct rec_tables *t, const struct m_call *c)
{
	const struct m_code *code;
	kernel_name_short(ret, size, strtab_get(&t->strings, call_name(t, c, &code), NULL));
}

size_t lane_of(struct lanes *l, const struct launch_probes *p, const struct m_call *c,
	       bool *ret_new)
{
	const struct launch_probe *row = &p->rows[c->probe];
	uint64_t stream = 0, at;
	if (row->stream_arg >= 0 && row->stream_arg < c->nargs)
		stream = c->args[row->stream_arg];
	if (!stream && row->stream_threads)
		stream = STREAM_PER_THREAD;
	else if (stream == STREAM_LEGACY)
		stream = 0;
	uint64_t key = hash_u64(stream) ^ c->thread;
	for (; map64_get(&l->index, key, &at); key++) {
		*ret_new = false;
		if (l->rows.data[at].stream == stream && l->rows.data[at].thread == c->thread)
			return at;
	}
	map64_set(&l->index, key, l->rows.len);
	*(struct lane *)vec_push(&l->rows) = (struct lane){c->thread, stream};
	*ret_new = true;
	return l->rows.len - 1;
}

void lanes_free(struct lanes *l)
{
	vec_free(&l->rows);
	map64_free(&l->index);
}

char *lane_label(const struct lane *l)
{
	return xasprintf("stream 0x%" PRIx64 " launches", l->stream);
}
