/* processes.c - processes and threads of the recording, made on first sight, and what
 * they have mapped. */
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/program_name.h"
#include "pipeline/pipeline_impl.h"
#include "symbolize/proc_cgroup.h"
#include "symbolize/proc_labels.h"
#include "symbolize/proc_program.h"

/* What an interpreter runs. Of its arguments nothing else is kept. */
static uint32_t script_of(struct pipeline *p, struct known_process *k)
{
	char *script = proc_script(p->proc_root, (pid_t)k->row.pid);
	size_t len = script ? strlen(script) : 0, end = strlen(PROC_FORKSERVER);
	uint32_t ret = script ? pipeline_kept_string(p, script) : 0;
	k->forkserver = len > end && !strcmp(script + len - end, PROC_FORKSERVER);
	free(script);
	return ret;
}

/* What a forkserver forks may have ended before it can be asked. */
static uint32_t worker_of(struct pipeline *p, uint32_t forkserver)
{
	char *script = xasprintf("%s worker", rec_string_get(p->writer, forkserver));
	uint32_t ret = pipeline_kept_string(p, script);
	free(script);
	return ret;
}

static void set_command(struct pipeline *p, struct known_process *k, const char *exe,
			const char *comm)
{
	char link[4096];
	bool linked = !program_is_interpreter(exe) && /* the version says more */
		      proc_link(p->proc_root, (pid_t)k->row.pid, exe, comm, link, sizeof(link));
	k->row.command = pipeline_kept_string(p, linked ? link : exe);
	k->executable = linked ? pipeline_kept_string(p, exe) : 0;
}

uint32_t pipeline_library_name(struct pipeline *p, const struct known_process *process,
			       const char *path)
{
	uint32_t name = rec_string_z(p->writer, path);
	return process && process->executable && process->executable == name ? process->row.command
									     : name;
}

static void read_identity(struct pipeline *p, struct known_process *k)
{
	char comm[16] = "", exe[4096] = "";
	pid_t parent = 0;
	pid_t pid = (pid_t)k->row.pid;
	if (proc_comm(p->proc_root, pid, pid, comm)) { /* it has ended */
		k->nameless = !k->row.comm;
		if (k->nameless)
			k->row.comm = pipeline_kept_string(p, "(ended)");
		return;
	}
	k->row.comm = pipeline_kept_string(p, comm);
	if (!proc_exe(p->proc_root, pid, exe, sizeof(exe)))
		set_command(p, k, exe, comm);
	k->forkserver = false;
	k->row.script = program_is_interpreter(exe) ? script_of(p, k) : 0;
	k->row.cpu_limit = proc_cpu_limit(p->proc_root, "/sys/fs/cgroup", pid);
	if (!proc_parent(p->proc_root, pid, &parent) && !k->row.parent_pid)
		k->row.parent_pid = (uint32_t)parent;
	struct proc_labels labels;
	proc_labels_read(&labels, p->proc_root, pid, NULL);
	if (labels.rank >= 0)
		k->row.rank = labels.rank;
}

static struct known_process *known(const struct pipeline *p, uint32_t tgid)
{
	uint64_t i;
	return map64_get(&p->processes, tgid, &i) ? &p->process_list.data[i] : NULL;
}

/* Where jobs alone are told, from its first call on. */
static void tell(struct pipeline *p, struct known_process *k)
{
	if (p->jobs_alone && !k->job)
		return;
	k->told = true;
	emit_process(p, &k->row);
}

/* It began earlier than it was met. A row that was told stays: its number and start are the key,
 * and another would be a second process, of which no end is ever told. */
static void began(struct known_process *k, uint64_t ns)
{
	if (!k->told && k->row.start_ns > ns)
		k->row.start_ns = ns;
}

bool pipeline_is_told(struct pipeline *p, uint32_t tgid)
{
	return !p->jobs_alone || pipeline_process_of(p, tgid)->job;
}

bool pipeline_is_job(struct pipeline *p, uint32_t tgid)
{
	const struct known_process *k = known(p, tgid);
	return !p->jobs_alone || (k && k->job);
}

void pipeline_made_call(struct pipeline *p, uint32_t tgid)
{
	struct known_process *k = p->jobs_alone ? pipeline_process_of(p, tgid) : NULL;
	if (!k || k->job || k->alone)
		return;
	k->job = true;
	tell(p, k);
}

bool pipeline_leaves_out(const struct pipeline *p, uint32_t tgid, uint64_t start_ns)
{
	const struct known_process *k = p->leaves_alone ? known(p, tgid) : NULL;
	return k && k->alone && start_ns >= k->alone_ns;
}

static struct known_process *make_known(struct pipeline *p, uint32_t tgid)
{
	uint64_t i = p->process_list.len;
	if (p->free_processes.len)
		i = p->free_processes.data[--p->free_processes.len];
	else /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): room has data */
		vec_push(&p->process_list);
	struct known_process *k = &p->process_list.data[i];
	map64_set(&p->processes, tgid, i);
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): likewise */
	k->row = (struct m_process){.pid = tgid, .rank = -1, .start_ns = monotonic_ns()};
	k->forkserver = k->job = k->alone = k->told = false;
	if (k->generation) /* in the place of one that was forgotten: its names are void */
		k->exec_ns = k->row.start_ns;
	return k;
}

/* Not told yet. */
static struct known_process *meet(struct pipeline *p, uint32_t tgid)
{
	struct known_process *k = make_known(p, tgid);
	k->row.joined = true;
	k->cpu_before_ns = process_cpu_ns((pid_t)tgid);
	read_identity(p, k);
	return k;
}

/* Records of a process may be read after its exit was: it stays known until its number
 * is given to another. */
struct known_process *pipeline_process_of(struct pipeline *p, uint32_t tgid)
{
	struct known_process *k = known(p, tgid);
	if (k)
		return k;
	k = meet(p, tgid);
	tell(p, k);
	return k;
}

void pipeline_take_process(struct pipeline *p, pid_t pid)
{
	char comm[16];
	if (known(p, (uint32_t)pid) || !proc_comm(p->proc_root, pid, pid, comm))
		pipeline_process_of(p, (uint32_t)pid);
}

/* Its row goes on: should it be a job again, it is the same process. */
void pipeline_take_alone(struct pipeline *p, uint32_t tgid, bool alone, uint64_t since_ns)
{
	struct known_process *k = known(p, tgid);
	if (!p->jobs_alone || (!k && !alone))
		return;
	k = k ? k : meet(p, tgid);
	k->alone = alone;
	k->alone_ns = since_ns;
	p->leaves_alone |= alone;
	if (!alone || !k->job)
		return;
	k->job = false;
	struct m_process ended = k->row;
	ended.end_ns = since_ns > k->row.start_ns ? since_ns : monotonic_ns();
	emit_process(p, &ended);
}

uint64_t pipeline_process_key(struct pipeline *p, uint32_t tgid)
{
	struct known_process *k = pipeline_process_of(p, tgid);
	size_t serial = (size_t)(k - p->process_list.data); /* not the pid: pids are reused */
	return hash_u64((uint64_t)serial << 32 | k->generation);
}

bool pipeline_read_memory(uint32_t tgid, uint64_t address, void *ret, size_t len)
{
	struct iovec here = {ret, len}, there = {(void *)address, len};
	return process_vm_readv((pid_t)tgid, &here, 1, &there, 1, 0) == (ssize_t)len;
}

uint32_t pipeline_thread_of(struct pipeline *p, uint32_t tgid, uint32_t tid)
{
	return pipeline_thread_named(p, tgid, tid, "");
}

uint32_t pipeline_thread_named(struct pipeline *p, uint32_t tgid, uint32_t tid, const char *name)
{
	uint64_t key = (uint64_t)tgid << 32 | tid, index;
	if (map64_get(&p->threads, key, &index))
		return (uint32_t)index;
	pipeline_process_of(p, tgid);
	char comm[16] = "";
	struct m_thread row = {.pid = tgid, .tid = tid};
	bool lives = !proc_comm(p->proc_root, (pid_t)tgid, (pid_t)tid, comm);
	row.comm = pipeline_kept_string(p, lives ? comm : name);
	index = emit_new_thread(p, &row);
	map64_set(&p->threads, key, index | (uint64_t)row.comm << 32);
	forget_thread_later(p, pipeline_process_of(p, tgid), tid);
	return (uint32_t)index;
}

const proc_maps_t *pipeline_maps_of(const struct known_process *k)
{
	static const proc_maps_t none;
	return k->maps ? &k->maps->list : &none;
}

void known_maps_unref(struct known_maps *m)
{
	if (!m || --m->refs)
		return;
	proc_maps_free(&m->list);
	free(m->seen);
	free(m);
}

static void set_maps(struct known_process *k, struct known_maps *m)
{
	if (m)
		m->refs++;
	known_maps_unref(k->maps);
	k->maps = m;
}

/* A forked child is its parent's program, and has what that had mapped. One that was met in a
 * record before its fork was told has a row already, which its number and start are the key of. */
static void take_fork(struct pipeline *p, const struct rec_task *task, const char *comm)
{
	bool is_new = !known(p, task->tgid);
	struct known_process *child = is_new && known(p, task->parent_tgid)
					      ? make_known(p, task->tgid)
					      : pipeline_process_of(p, task->tgid);
	const struct known_process *parent = known(p, task->parent_tgid);
	child->row.parent_pid = task->parent_tgid;
	if (is_new || task->time_ns > child->row.start_ns)
		child->row.start_ns = task->time_ns;
	else
		began(child, task->time_ns);
	child->row.joined = false;
	child->cpu_before_ns = 0;
	if (!parent)
		return;
	child->alone = parent->alone;
	child->alone_ns = parent->alone_ns;
	/* Met before, it may have ended while it was asked who it is. */
	if (is_new || child->nameless || !child->row.command) {
		child->nameless = false;
		child->row.comm = pipeline_kept_string(p, comm);
		child->row.command = parent->row.command;
		child->executable = parent->executable;
		child->row.cpu_limit = parent->row.cpu_limit;
		child->row.rank = parent->row.rank;
	}
	if (!child->row.script && child->row.command == parent->row.command)
		child->row.script =
			parent->forkserver ? worker_of(p, parent->row.script) : parent->row.script;
	if (child->maps) /* its own were told before its fork */
		return;
	set_maps(child, parent->maps);
	comms_take_maps(p, task->tgid);
}

/* The thread that runs another program now is another row from then on, if it was met under its
 * name of before. */
static void rename_main_thread(struct pipeline *p, uint32_t tgid, uint32_t comm)
{
	uint64_t key = (uint64_t)tgid << 32 | tgid, known;
	if (map64_get(&p->threads, key, &known) && known >> 32 != comm)
		map64_del(&p->threads, key);
}

static uint64_t used_ns(const struct known_process *k, uint64_t cpu_ns)
{
	return cpu_ns > k->cpu_before_ns ? cpu_ns - k->cpu_before_ns : 0;
}

void pipeline_take_used(struct pipeline *p, uint32_t tgid, uint64_t cpu_ns)
{
	struct known_process *k = known(p, tgid);
	if (!k || k->row.end_ns) /* its end told better */
		return;
	k->row.cpu_ns = used_ns(k, cpu_ns);
	tell(p, k);
}

void pipeline_take_task(struct pipeline *p, const struct rec_task *task)
{
	uint64_t i;
	if (task->kind == REC_FORK && map64_get(&p->processes, task->tgid, &i) &&
	    p->process_list.data[i].row.end_ns) {
		if (p->forgets)
			forget_replaced(p, (uint32_t)i);
		else
			forget_parts(p, &p->process_list.data[i]);
		map64_del(&p->processes, task->tgid);
	}
	char comm[17] = "";
	memcpy(comm, task->comm, sizeof(task->comm));
	if (task->kind == REC_FORK)
		take_fork(p, task, comm);
	/* one that is met by this is told when its start is known */
	struct known_process *k = known(p, task->tgid);
	k = k ? k : meet(p, task->tgid);
	switch (task->kind) {
	case REC_FORK:
		break;
	case REC_EXEC:
		watch_process_ended(p, task->tgid);
		k->generation++; /* what lay where in the old program is void */
		k->exec_ns = task->time_ns;
		/* Met after it began: what it had used by then may be all that it used. */
		if (k->row.joined && k->row.start_ns > task->time_ns)
			k->cpu_before_ns = 0;
		began(k, task->time_ns);
		k->row.joined = false;
		k->row.command = k->row.script = k->executable =
			0; /* not the parent's, should it have ended */
		read_identity(p, k);
		k->nameless = false;
		k->row.comm = pipeline_kept_string(p, comm);
		rename_main_thread(p, task->tgid, k->row.comm);
		break;
	case REC_EXIT:
		watch_process_ended(p, task->tgid);
		began(k, task->time_ns);
		k->row.end_ns = task->time_ns > k->row.start_ns ? task->time_ns : k->row.start_ns;
		k->row.exit_code = task->exit_code;
		k->row.cpu_ns = used_ns(k, task->cpu_ns);
		if (!k->row.comm || k->nameless)
			k->row.comm = pipeline_kept_string(p, comm);
		forget_later(p, (uint32_t)(k - p->process_list.data));
		break;
	default:
		if (!k->told)
			break;
		return;
	}
	tell(p, k);
}

static void put_map(struct pipeline *p, uint32_t pid, const struct proc_map *m,
		    const char *build_id)
{
	struct m_map row = {
		.pid = pid,
		.start = m->start,
		.end = m->end,
		.file_offset = m->file_offset,
		.path = pipeline_kept_string(p, m->path),
		.build_id = pipeline_kept_string(p, build_id),
		.time_ns = monotonic_ns(),
	};
	emit_map(p, &row);
}

/* NULL: it had none such. */
static const struct first_seen *seen_before(const struct known_maps *k, const struct proc_map *m)
{
	const struct proc_map *found = k ? proc_map_at(&k->list, m->start) : NULL;
	return found && proc_map_same(found, m) ? &k->seen[found - k->list.data] : NULL;
}

const struct first_seen *pipeline_first_seen(struct pipeline *p, uint32_t tgid,
					     const struct proc_map *m)
{
	return seen_before(pipeline_process_of(p, tgid)->maps, m);
}

static void send_new_map(struct pipeline *p, struct known_process *k, const struct proc_map *m,
			 const char *build_id)
{
	uint64_t key = hash_u64(m->start) ^ m->inode ^ hash_u64(m->file_offset + m->end), sent;
	if (!m->executable || !m->inode || map64_get(&k->sent, key, &sent))
		return;
	put_map(p, k->row.pid, m, build_id);
	map64_set(&k->sent, key, 1);
}

static struct first_seen seen_first(const struct known_maps *before, const struct proc_map *m,
				    const char *build_id, uint64_t seen_ns)
{
	const struct first_seen *known = seen_before(before, m);
	return known ? *known
		     : (struct first_seen){seen_ns, hash_bytes(build_id, strlen(build_id))};
}

void pipeline_take_maps(struct pipeline *p, pid_t pid, proc_maps_t *maps, char **build_ids,
			uint64_t seen_ns)
{
	struct known_process *k = pipeline_process_of(p, (uint32_t)pid);
	struct known_maps *taken = xcalloc(1, sizeof(*taken));
	taken->seen = xcalloc(maps->len + 1, sizeof(*taken->seen));
	for (size_t i = 0; i < maps->len; i++) {
		const struct proc_map *m = &maps->data[i];
		taken->seen[i] = seen_first(k->maps, m, build_ids[i], seen_ns);
		send_new_map(p, k, m, build_ids[i]);
		free(build_ids[i]);
	}
	free(build_ids);
	taken->list = *maps;
	*maps = (proc_maps_t){0};
	set_maps(k, taken);
	comms_take_maps(p, (uint32_t)pid);
}
