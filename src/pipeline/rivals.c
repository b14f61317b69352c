/* rivals.c - whose programs are that had a thread's CPU: their cgroup by its number, the leader of
 * their process group by its own. Many of them live for moments only, so what is found of one is
 * kept for the others of that number. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "symbolize/proc_cgroup.h"
#include "symbolize/proc_maps.h"

#define GROUPS_ROOT "/sys/fs/cgroup"
#define KNOWN_MOST  4096	  /* beyond it all are asked for anew */
#define AGAIN_NS    20000000ULL	  /* where no process of it lived */
#define UNSURE_NS   1000000000ULL /* where it is not sure that the path is of that number */
#define LEADER_NS   1000000000ULL /* a leader may be another one, or run another program */
#define FIRST_PID   1		  /* of all processes: who has no other parent is its child */
#define PATH_BYTES  1024

/* A cgroup's path, or what a leader calls itself. */
struct known_name {
	char *text; /* NULL: it is not known */
	uint64_t asked_ns;
	bool sure; /* of a path: it is asked for no more */
};

struct rivals {
	struct map64 group_at, leader_at; /* -> place in names */
	VEC(struct known_name) names;
};

struct rivals *rivals_new(void)
{
	return xcalloc(1, sizeof(struct rivals));
}

static void forget(struct rivals *r)
{
	for (size_t i = 0; i < r->names.len; i++)
		free(r->names.data[i].text);
	vec_free(&r->names);
	map64_free(&r->group_at);
	map64_free(&r->leader_at);
}

void rivals_free(struct rivals *r)
{
	forget(r);
	free(r);
}

static struct known_name *name_of(struct rivals *r, struct map64 *by, uint64_t key)
{
	uint64_t at;
	if (!map64_get(by, key, &at)) {
		at = r->names.len;
		vec_push(&r->names);
		map64_set(by, key, at);
	}
	return &r->names.data[at];
}

/* Of the rival, if it is still there; else of its leader, where that is sure to be in that cgroup.
 */
static enum proc_cgroup_found find_path(const struct pipeline *p, const struct rec_wait *r,
					char path[PATH_BYTES])
{
	const struct proc_cgroup_number of = {r->rival_cgroup, r->rival_v1};
	char of_leader[PATH_BYTES];
	enum proc_cgroup_found found = proc_cgroup_path(path, PATH_BYTES, p->proc_root, GROUPS_ROOT,
							(pid_t)r->rival_tgid, &of);
	if (found == PROC_CGROUP_IS || r->rival_leader <= FIRST_PID ||
	    proc_cgroup_path(of_leader, PATH_BYTES, p->proc_root, GROUPS_ROOT,
			     (pid_t)r->rival_leader, &of) != PROC_CGROUP_IS)
		return found;
	memcpy(path, of_leader, sizeof(of_leader));
	return PROC_CGROUP_IS;
}

/* A path that no file system shows may be that of another cgroup, which the process was moved into,
 * or of another process with its number: it is told until one is found that is sure, and is asked
 * for again. */
static uint32_t cgroup_of(struct pipeline *p, const struct rec_wait *r, uint64_t now_ns)
{
	char path[PATH_BYTES];
	uint64_t key = r->rival_cgroup << 1 | r->rival_v1;
	struct known_name *n = name_of(p->rivals, &p->rivals->group_at, key);
	if (!n->sure && now_ns >= n->asked_ns + (n->text ? UNSURE_NS : AGAIN_NS)) {
		enum proc_cgroup_found found = find_path(p, r, path);
		n->asked_ns = now_ns;
		if (found != PROC_CGROUP_NOT) {
			free(n->text);
			n->text = xstrdup(path);
			n->sure = found == PROC_CGROUP_IS;
		}
	}
	return n->text ? rec_string_z(p->writer, n->text) : 0;
}

static uint32_t leader_of(struct pipeline *p, const struct rec_wait *r, uint64_t now_ns)
{
	char comm[16];
	struct known_name *n = name_of(p->rivals, &p->rivals->leader_at, r->rival_leader);
	if (now_ns >= n->asked_ns + LEADER_NS) {
		pid_t pid = (pid_t)r->rival_leader;
		free(n->text);
		n->asked_ns = now_ns;
		n->text = proc_comm(p->proc_root, pid, pid, comm) ? NULL : xstrdup(comm);
	}
	return n->text ? rec_string_z(p->writer, n->text) : 0;
}

void rivals_name(struct pipeline *p, const struct rec_wait *r, struct m_wait *row)
{
	uint64_t now_ns = monotonic_ns();
	if (!r->rival_tgid)
		return;
	if (p->rivals->names.len > KNOWN_MOST)
		forget(p->rivals);
	if (r->rival_cgroup)
		row->rival_cgroup = cgroup_of(p, r, now_ns);
	if (r->rival_leader > FIRST_PID)
		row->rival_leader = leader_of(p, r, now_ns);
	row->rival_leader_pid = row->rival_leader ? r->rival_leader : 0;
}
