/* xid.c - attaches to the tracepoint that NVIDIA's kernel module has for Xid errors, where
 * there is one. Does not tell what the codes mean. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "probe/tracer_impl.h"

static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

/* "	field:u32 error_code;	offset:12;	size:4;	signed:0;" */
static void take_field(const char *line, const char *name, uint32_t *ret)
{
	char pattern[64];
	snprintf(pattern, sizeof(pattern), " %s;", name);
	const char *at = strstr(line, pattern);
	const char *offset = at ? strstr(at, "offset:") : NULL;
	unsigned v;
	if (offset && sscanf(offset, "offset:%u", &v) == 1 && v < 4096)
		*ret = v;
}

void xid_prepare(struct tracer *t)
{
	struct {
		uint32_t code, bus, text;
	} at = {0};
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]) && !at.code; i++) {
		char path[128], line[256];
		snprintf(path, sizeof(path), "%s/events/nvidia/nvidia_dev_xid/format", roots[i]);
		FILE *f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			take_field(line, "error_code", &at.code);
			take_field(line, "dev", &at.bus);
			take_field(line, "msg", &at.text);
		}
		if (f)
			fclose(f);
	}
	t->xid_known = at.code && at.bus && at.text;
	bpf_program__set_autoload(t->bpf->progs.on_xid, t->xid_known);
	t->bpf->rodata->xid_code_at = at.code;
	t->bpf->rodata->xid_bus_at = at.bus;
	t->bpf->rodata->xid_text_at = at.text;
}

void tracer_watch_xid(struct tracer *t)
{
	if (t->xid_known)
		t->xid_link = bpf_program__attach_tracepoint(t->bpf->progs.on_xid, "nvidia",
							     "nvidia_dev_xid");
}

void tracer_unwatch_xid(struct tracer *t)
{
	bpf_link__destroy(t->xid_link);
	t->xid_link = NULL;
	tracer_control(t); /* what has been told until now */
	t->opts.events.on_xid = NULL;
}

bool tracer_sees_xid(const struct tracer *t)
{
	return t->xid_link != NULL;
}
