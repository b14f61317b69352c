/* xid.c - Xid errors as the driver tells the kernel of them, with their time and the driver's
 * sentence. What the numbers mean is not its affair. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "collect/gpu_places.h"
#include "collect/registry.h"

struct xid {
	const struct collect_env *env;
	const struct collect_sink *sink;
};

static int xid_open(void **ret_state, const struct collect_env *env,
		    const struct collect_sink *sink, struct err *e)
{
	int rc = env->watch ? env->watch(env->kernel, REC_XID, e) : -EOPNOTSUPP;
	if (rc)
		return rc;
	gpu_places_set_xid_by_kernel(env->gpu_places); /* NVML need not tell them */
	struct xid *x = xcalloc(1, sizeof(*x));
	*x = (struct xid){env, sink};
	*ret_state = x;
	return 0;
}

static void xid_take_record(void *state, const void *record)
{
	const struct xid *x = state;
	const struct rec_xid *r = record;
	char text[320], label[48], bus[sizeof(r->bus) + 1] = "";
	memcpy(bus, r->bus, sizeof(r->bus));
	snprintf(label, sizeof(label), "gpu at %s", bus);
	struct entity of = ENTITY_NAMED(ENTITY_OTHER, label);
	uint32_t index;
	if (gpu_places_find(x->env->gpu_places, bus, &index))
		of = ENTITY_OF_GPU(index, -1, 0);
	snprintf(text, sizeof(text), "%u: %.*s", r->code, (int)sizeof(r->text), r->text);
	sink_event(x->sink, r->time_ns, &of, "xid", text);
}

static void xid_close(void *state)
{
	free(state);
}

const struct collector collector_xid = {
	.name = "xid",
	.layers = LAYER_HAS_GPUS,
	.record = REC_XID,
	.open = xid_open,
	.take_record = xid_take_record,
	.close = xid_close,
};
