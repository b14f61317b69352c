/* roles.c - calls that say what something is called: kernels by the driver's naming calls,
 * communicators by their making. The catalog says which calls these are, by `role`. */
#include <string.h>

#include "pipeline/pipeline_impl.h"

/* The arguments that each role needs, by name, in the order of known_probe.arg_of. */
static const struct {
	const char *role;
	enum known_role known;
	const char *args[4];
} role_args[] = {
	{"kernel_name", ROLE_KERNEL_NAME, {"handle", "name"}},
	{"kernel_alias", ROLE_KERNEL_ALIAS, {"function", "kernel"}},
	{"comm_init", ROLE_COMM_INIT, {"comm", "id", "rank", "size"}},
	{"comm_split", ROLE_COMM_SPLIT, {"comm", "color", "child"}},
	{"comm_destroy", ROLE_COMM_DESTROY, {"comm"}},
	{"collective", ROLE_COMM_USE, {"comm"}},
	{"p2p", ROLE_COMM_USE, {"comm"}},
};

static int8_t find_arg(const struct pipeline_probe *probe, const char *name)
{
	for (int8_t i = 0; i < probe->nargs; i++)
		if (!strcmp(probe->arg_names[i], name))
			return i;
	return -1;
}

/* A role without the arguments that it needs is none. */
void pipeline_know_role(struct known_probe *known, const struct pipeline_probe *probe)
{
	known->role = ROLE_OTHER;
	known->sequence_arg = probe->role && !strcmp(probe->role, "collective")
				      ? find_arg(probe, "sequence")
				      : -1;
	for (size_t i = 0; probe->role && i < sizeof(role_args) / sizeof(role_args[0]); i++) {
		if (strcmp(probe->role, role_args[i].role))
			continue;
		known->role = role_args[i].known;
		for (int k = 0; k < 4 && role_args[i].args[k]; k++) {
			known->arg_of[k] = find_arg(probe, role_args[i].args[k]);
			if (known->arg_of[k] < 0)
				known->role = ROLE_OTHER;
		}
	}
}

bool pipeline_observe(struct pipeline *p, const struct known_probe *probe, const struct rec_call *c)
{
	uint64_t arg[4] = {0}, text, end_ns = c->start_ns + c->dur_ns;
	if (c->flags & (CALL_ERROR | CALL_OPEN))
		return true; /* it gave nothing (yet) */
	for (int k = 0; k < 4; k++)
		if (probe->arg_of[k] < c->nargs)
			arg[k] = c->args[probe->arg_of[k]];
	switch (probe->role) {
	case ROLE_KERNEL_NAME:
		if (!arg[1] || !pipeline_text(p, arg[1], &text))
			return false;
		kernels_name(p, c->tgid, arg[0], end_ns, rec_string_get(p->writer, (uint32_t)text));
		break;
	case ROLE_KERNEL_ALIAS:
		kernels_alias(p, c->tgid, arg[0], arg[1], end_ns);
		break;
	case ROLE_COMM_INIT:
		comms_init(p, c->tgid,
			   &(struct comm_init){.handle = arg[0],
					       .hash = arg[1],
					       .rank = (int32_t)arg[2],
					       .size = (int32_t)arg[3]},
			   end_ns);
		break;
	case ROLE_COMM_SPLIT:
		comms_split(p, c->tgid, arg[0], (int32_t)arg[1], arg[2], end_ns);
		break;
	case ROLE_COMM_DESTROY:
		comms_destroy(p, c->tgid, arg[0], end_ns);
		break;
	default:
		break;
	}
	return true;
}
