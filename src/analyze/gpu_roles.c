/* gpu_roles.c - roles of probes and the places of their arguments. */
#include "analyze/gpu_roles.h"

#include <string.h>

static const struct role_def {
	const char *name;
	uint8_t role;
	uint8_t direction;
	bool at_start;
	const char *kept[GPU_KEPT_ARGS];
} role_defs[] = {
	{"launch", GPU_LAUNCH, 0, false, {0}},
	{"graph_launch", GPU_GRAPH_LAUNCH, 0, false, {0}},
	{"copy_htod", GPU_COPY, GPU_HTOD, false, {0}},
	{"copy_dtoh", GPU_COPY, GPU_DTOH, false, {0}},
	{"copy_dtod", GPU_COPY, GPU_DTOD, false, {0}},
	{"copy_htoh", GPU_COPY, GPU_HTOH, false, {0}},
	{"copy_ptop", GPU_COPY, GPU_PTOP, false, {0}},
	{"copy", GPU_COPY, GPU_UNIFIED, false, {0}},
	{"set", GPU_SET, 0, false, {0}},
	{"sync", GPU_SYNC, 0, false, {0}},
	{"collective", GPU_COLLECTIVE, 0, false, {0}},
	{"p2p", GPU_P2P, 0, false, {0}},
	{"nccl_group", GPU_NCCL_GROUP, 0, false, {0}},
	{"torch_alloc", GPU_TORCH_ALLOC, 0, false, {"address", "bytes", "device"}},
	{"torch_free", GPU_TORCH_FREE, 0, true, {"address"}},
	{"alloc", GPU_ALLOC, 0, false, {"pointer", "bytes"}},
	{"alloc_managed", GPU_ALLOC, 0, false, {"pointer", "bytes"}},
	{"free", GPU_FREE, 0, true, {"pointer"}},
	{"vmm_create", GPU_VMM_CREATE, 0, false, {"handle", "bytes", "device"}},
	{"vmm_map", GPU_VMM_MAP, 0, false, {"address", "bytes", "handle"}},
	{"vmm_unmap", GPU_VMM_UNMAP, 0, true, {"address", "bytes"}},
	{"vmm_release", GPU_VMM_RELEASE, 0, true, {"handle"}},
	{"host_alloc", GPU_HOST_ALLOC, 0, false, {"pointer", "bytes"}},
	{"host_register", GPU_HOST_ALLOC, 0, false, {"pointer", "bytes"}},
	{"host_free", GPU_HOST_FREE, 0, true, {"pointer"}},
	{"host_unregister", GPU_HOST_FREE, 0, true, {"pointer"}},
	{"context_current", GPU_CONTEXT_CURRENT, 0, false, {"context"}},
	{"context_push", GPU_CONTEXT_PUSH, 0, false, {"context"}},
	{"context_pop", GPU_CONTEXT_POP, 0, false, {"context"}},
	{"context_retain", GPU_CONTEXT_RETAIN, 0, false, {"context", "device"}},
	{"device_current", GPU_DEVICE_CURRENT, 0, false, {"device"}},
	{"capture_begin", GPU_CAPTURE_BEGIN, 0, false, {"stream", "graph"}},
	{"capture_end", GPU_CAPTURE_END, 0, true, {"stream", "graph"}},
	{"event_record", GPU_EVENT_RECORD, 0, true, {"event", "stream"}},
	{"event_wait", GPU_EVENT_WAIT, 0, false, {"event", "stream"}},
	{"graph_create", GPU_GRAPH_CREATE, 0, false, {"graph"}},
	{"graph_destroy", GPU_GRAPH_DESTROY, 0, true, {"graph"}},
	{"graph_instantiate", GPU_GRAPH_INSTANTIATE, 0, false, {"graph_exec", "graph"}},
	{"graph_node", GPU_GRAPH_NODE, 0, false, {"graph", "type"}},
	{"graph_kernel_node", GPU_GRAPH_KERNEL_NODE, 0, false, {"graph", "kernel"}},
	{"graph_copy_node", GPU_GRAPH_COPY_NODE, 0, false, {"graph", "bytes"}},
	{"graph_set_node", GPU_GRAPH_SET_NODE, 0, false, {"graph", "bytes"}},
	{"graph_child_node", GPU_GRAPH_CHILD_NODE, 0, false, {"graph", "child"}},
	{"graph_clone", GPU_GRAPH_CLONE, 0, false, {"clone", "graph"}},
	{"graph_exec_destroy", GPU_GRAPH_EXEC_DESTROY, 0, true, {"graph_exec"}},
};

static const char *const arg_names[GPU_ARGS] = {
	[GPU_ARG_KERNEL] = "kernel",
	[GPU_ARG_GRID] = "grid",
	[GPU_ARG_BLOCK] = "block",
	[GPU_ARG_STREAM] = "stream",
	[GPU_ARG_GRAPH_EXEC] = "graph_exec",
	[GPU_ARG_BYTES] = "bytes",
	[GPU_ARG_DESTINATION] = "destination",
	[GPU_ARG_SOURCE] = "source",
	[GPU_ARG_DESTINATION_TYPE] = "destination_type",
	[GPU_ARG_SOURCE_TYPE] = "source_type",
	[GPU_ARG_DATATYPE] = "datatype",
	[GPU_ARG_COMM] = "comm",
	[GPU_ARG_PEER] = "peer",
	[GPU_ARG_ROOT] = "root",
	[GPU_ARG_SEQUENCE] = "sequence",
	[GPU_ARG_RETURN] = "return",
};

static int8_t find_arg(const struct rec_tables *t, const struct m_probe *p, const char *name)
{
	for (int8_t i = 0; name && i < p->nargs && i < MODEL_MAX_ARGS; i++)
		if (!strcmp(strtab_get(&t->strings, p->arg_names[i], NULL), name))
			return i;
	return -1;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && !strcmp(s + n - m, end);
}

static void probe_make(struct gpu_probe *ret, const struct rec_tables *t, const struct m_probe *p)
{
	const char *role = strtab_get(&t->strings, p->role, NULL);
	const char *symbol = strtab_get(&t->strings, p->symbol, NULL);
	*ret = (struct gpu_probe){.stream_threads = ends_with(symbol, "_ptsz")};
	for (int i = 0; i < GPU_ARGS; i++)
		ret->arg[i] = find_arg(t, p, arg_names[i]);
	/* Types that code relies on: a string number is one only in a string argument. */
	int8_t kernel = ret->arg[GPU_ARG_KERNEL], code = ret->arg[GPU_ARG_RETURN];
	if (kernel >= 0 && p->arg_types[kernel] != ARG_TYPE_STRING)
		ret->arg[GPU_ARG_KERNEL] = -1;
	ret->has_code = code >= 0 && p->arg_enums[code];
	for (size_t i = 0; *role && i < sizeof(role_defs) / sizeof(role_defs[0]); i++) {
		if (strcmp(role, role_defs[i].name))
			continue;
		ret->role = role_defs[i].role;
		ret->direction = role_defs[i].direction;
		ret->at_start = role_defs[i].at_start;
		for (int k = 0; k < GPU_KEPT_ARGS; k++)
			ret->kept[k] = find_arg(t, p, role_defs[i].kept[k]);
	}
	if (ret->role == GPU_GRAPH_KERNEL_NODE)
		ret->kept[1] = ret->arg[GPU_ARG_KERNEL];
}

void gpu_probes_make(struct gpu_probes *p, const struct rec_tables *t)
{
	*p = (struct gpu_probes){.rows = xcalloc(t->probes.len + 1, sizeof(*p->rows))};
	for (size_t i = 0; i < t->probes.len; i++) {
		probe_make(&p->rows[i], t, &t->probes.data[i]);
		p->any |= p->rows[i].role != GPU_NO_ROLE || p->rows[i].has_code;
	}
}

void gpu_probes_free(struct gpu_probes *p)
{
	free(p->rows);
}
