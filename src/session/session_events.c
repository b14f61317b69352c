/* session_events.c - hands on what the tracer tells: probes, maps, processes, notes. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "session/session_impl.h"

static uint8_t raw_kind(const struct cat_arg *arg)
{
	if (arg->is_vtable)
		return RAW_VTABLE;
	if (arg->is_kernel)
		return RAW_KERNEL;
	switch (arg->fetch.fetch) {
	case FETCH_CSTRING:
	case FETCH_PYSTRING:
	case FETCH_CXXSTRING:
		return RAW_STRING;
	case FETCH_TEXT:
		return RAW_TEXT;
	case FETCH_PYCODE:
		return RAW_CODE;
	default:
		return RAW_PLAIN;
	}
}

/* The names of an enumeration go into the recording when a probe first has need of them. */
static void define_enum(struct session *s, const char *type)
{
	for (size_t i = 0; i < s->enums.len; i++)
		if (!strcmp(s->enums.data[i], type))
			return;
	*vec_push(&s->enums) = type;
	const struct catalog *c = s->opts->catalog;
	for (size_t i = 0; i < c->enums.len; i++) {
		const struct cat_enum *v = &c->enums.data[i];
		if (!strcmp(v->type, type))
			pipeline_define_enum(s->pipeline, type, v->value, v->name, v->bytes);
	}
}

/* The recorded argument of a name, -1 when there is none. */
static int8_t recorded_arg(const struct probe_info *info, const char *name)
{
	for (int8_t i = 0; name && i < info->desc.nargs; i++)
		if (!strcmp(info->entry->args[info->arg_order[i]].name, name))
			return i;
	return -1;
}

static void on_probe(void *ctx, const struct probe_info *info)
{
	struct session *s = ctx;
	const struct cat_entry *entry = info->entry;
	if (!s->pipeline)
		return;
	struct pipeline_probe probe = {
		.id = info->id,
		.layer = catalog_layer_name(s->opts->catalog, entry->layer),
		.name = info->name,
		.by_callback = info->by_callback,
		.library = info->library,
		.symbol = info->symbol,
		.kind = entry->instant || (entry->usdt && !entry->end_symbols.len) ? SITE_INSTANT
										   : SITE_SPAN,
		.nargs = info->desc.nargs,
		.has_return = entry->has_return,
		.name_arg = info->name_arg,
		.role = entry->role,
		.stack_every = s->opts->stacks ? entry->stack_every : 0,
	};
	for (int i = 0; i < CAT_FACTORS && entry->factors[i]; i++)
		probe.factors[probe.nfactors++] = (struct pipeline_factor){
			.arg = recorded_arg(info, entry->factors[i]),
			.value = (uint32_t)strtoul(entry->factors[i], NULL, 10),
		};
	for (int i = 0; i < probe.nargs; i++) {
		const struct cat_arg *arg = &entry->args[info->arg_order[i]];
		probe.arg_names[i] = arg->name ? arg->name : "";
		probe.arg_types[i] = arg->is_vtable ? ARG_TYPE_STRING : arg->arg_type;
		probe.arg_raw[i] = raw_kind(arg);
		probe.arg_enums[i] = arg->enum_type;
		if (arg->enum_type)
			define_enum(s, arg->enum_type);
	}
	pipeline_define_probe(s->pipeline, &probe);
	hang_watch_probe(s, info);
	silence_probe(s, info);
	jobs_probe(s, info->library);
}

static void on_maps(void *ctx, pid_t pid, proc_maps_t *maps, const char *const *build_ids,
		    uint64_t seen_ns)
{
	struct session *s = ctx;
	if (!s->pipeline)
		return;
	attacher_saw(s, pid, maps);
	jobs_maps(s, pid);
	char **copies = xcalloc(maps->len, sizeof(*copies));
	for (size_t i = 0; i < maps->len; i++)
		copies[i] = xstrdup(build_ids[i]);
	pipeline_define_maps(s->pipeline, pid, maps, copies, seen_ns);
}

static void on_task(void *ctx, const struct rec_task *task)
{
	struct session *s = ctx;
	if (!s->pipeline)
		return;
	if (task->kind == REC_FORK)
		calls_forked(s, (pid_t)task->parent_tgid, (pid_t)task->tgid);
	if (task->kind == REC_EXIT)
		session_unwatch_pid(s, (pid_t)task->tgid);
	else
		session_watch_pid(s, (pid_t)task->tgid, task->kind == REC_FORK);
	if (task->kind == REC_FORK)
		rules_forked(s, (pid_t)task->parent_tgid, (pid_t)task->tgid);
	else if (task->kind == REC_EXEC)
		rules_met(s, (pid_t)task->tgid, task->time_ns);
	pipeline_task(s->pipeline, task);
}

static void on_note(void *ctx, const char *subject, const char *reason)
{
	struct session *s = ctx;
	if (!s->pipeline)
		return;
	pipeline_note(s->pipeline, subject, reason);
}

static void on_xid(void *ctx, const struct rec_xid *xid)
{
	struct session *s = ctx;
	if (s->pipeline)
		collectors_take_record(s->collectors, xid);
}

static void on_socket(void *ctx, const struct rec_socket *socket)
{
	struct session *s = ctx;
	if (s->pipeline)
		collectors_take_record(s->collectors, socket);
}

static void on_table(void *ctx, uint32_t table, const struct proc_map *m, const char *build_id,
		     int fd)
{
	struct session *s = ctx;
	pthread_mutex_lock(&s->tables_lock);
	if (s->pipeline)
		pipeline_define_table(s->pipeline, table, m, build_id, fd);
	else if (fd >= 0)
		close(fd);
	pthread_mutex_unlock(&s->tables_lock);
}

struct tracer_events session_events(struct session *s)
{
	return (struct tracer_events){
		.on_probe = on_probe,
		.on_maps = on_maps,
		.on_task = on_task,
		.on_note = on_note,
		.on_xid = on_xid,
		.on_socket = on_socket,
		.on_table = on_table,
		.ctx = s,
	};
}
