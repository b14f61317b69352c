/* taskstats.c - delay accounting of processes: for how long their threads waited for a CPU, for
 * disks, swap, free memory, large pages, copies on write, and for interrupts to pass. Only where
 * the kernel counts that (sysctl kernel.task_delayacct, off as a rule since Linux 5.14), and only
 * for root in the host's own namespaces. Source: the kernel's
 * Documentation/accounting/taskstats.rst. */
#include "collect/taskstats.h"

#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

#define PIDS_MOST    64	  /* that are asked about */
#define ANSWER_BYTES 4096 /* struct taskstats has some 700 */
#define ANSWERS_MOST 8	  /* that are not the one that was asked for */
#define INTERLEAVED  15	  /* the version whose new fields stand between the old ones */

/* Where struct taskstats has them: fields are added at its end. */
static const struct {
	const char *counter;
	uint16_t offset;
} delays[TASK_DELAYS] = {
	[DELAY_CPU] = {"cpu_delay_ratio", 24},
	[DELAY_BLKIO] = {"blkio_delay_ratio", 40},
	[DELAY_SWAPIN] = {"swapin_delay_ratio", 56},
	[DELAY_FREEPAGES] = {"freepages_delay_ratio", 320},
	[DELAY_THRASHING] = {"thrashing_delay_ratio", 336},
	[DELAY_COMPACT] = {"compact_delay_ratio", 360},
	[DELAY_WPCOPY] = {"wpcopy_delay_ratio", 408},
	[DELAY_IRQ] = {"irq_delay_ratio", 424},
};
#if TASKSTATS_VERSION >= 13 && TASKSTATS_VERSION != INTERLEAVED
_Static_assert(offsetof(struct taskstats, cpu_delay_total) == 24 &&
		       offsetof(struct taskstats, freepages_delay_total) == 320 &&
		       offsetof(struct taskstats, compact_delay_total) == 360 &&
		       offsetof(struct taskstats, wpcopy_delay_total) == 408,
	       "as the kernel has them");
#endif

struct asked {
	pid_t pid;
	struct growth grown[TASK_DELAYS];
	uint64_t last_ns;
};

struct task_stats {
	const struct collect_env *env;
	const struct collect_sink *sink;
	VEC(struct asked) pids;
	int fd;
	uint16_t family;
	uint32_t seq;
	uint64_t last_ns;
};

/* ---- answers ---- */

/* The content of the first attribute of a type; NULL: there is none, or it is not whole. */
static const uint8_t *attribute(const uint8_t *at, size_t len, uint16_t type, size_t *ret_len)
{
	while (len >= sizeof(struct nlattr)) {
		struct nlattr a;
		memcpy(&a, at, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > len)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == type) {
			*ret_len = a.nla_len - sizeof(a);
			return at + sizeof(a);
		}
		size_t all = NLA_ALIGN((size_t)a.nla_len);
		if (all > len)
			return NULL;
		at += all;
		len -= all;
	}
	return NULL;
}

/* The attributes of an answer; NULL: it is an error, or not whole. */
static const uint8_t *attributes(const void *message, size_t len, size_t *ret_len)
{
	const size_t head = NLMSG_HDRLEN + GENL_HDRLEN;
	struct nlmsghdr h;
	if (len < head)
		return NULL;
	memcpy(&h, message, sizeof(h));
	if (h.nlmsg_len < head || h.nlmsg_len > len || h.nlmsg_type < NLMSG_MIN_TYPE)
		return NULL;
	*ret_len = h.nlmsg_len - head;
	return (const uint8_t *)message + head;
}

uint16_t taskstats_family(const void *message, size_t len)
{
	uint16_t family = 0;
	size_t n;
	const uint8_t *at = attributes(message, len, &n);
	const uint8_t *id = at ? attribute(at, n, CTRL_ATTR_FAMILY_ID, &n) : NULL;
	if (id && n >= sizeof(family))
		memcpy(&family, id, sizeof(family));
	return family;
}

bool taskstats_delays(const void *message, size_t len, uint32_t pid, struct task_delays *ret)
{
	uint16_t version;
	uint32_t of;
	size_t n, m;
	const uint8_t *at = attributes(message, len, &n);
	const uint8_t *both = at ? attribute(at, n, TASKSTATS_TYPE_AGGR_TGID, &n) : NULL;
	const uint8_t *id = both ? attribute(both, n, TASKSTATS_TYPE_TGID, &m) : NULL;
	if (!id || m < sizeof(of))
		return false;
	memcpy(&of, id, sizeof(of));
	const uint8_t *stats = attribute(both, n, TASKSTATS_TYPE_STATS, &m);
	if (!stats || of != pid || m < sizeof(version))
		return false;
	memcpy(&version, stats, sizeof(version));
	if (version == INTERLEAVED)
		return false;
	*ret = (struct task_delays){0};
	for (unsigned i = 0; i < TASK_DELAYS; i++) {
		if (delays[i].offset + sizeof(ret->ns[i]) > m)
			continue;
		memcpy(&ret->ns[i], stats + delays[i].offset, sizeof(ret->ns[i]));
		ret->known |= 1u << i;
	}
	return ret->known != 0;
}

/* ---- questions ---- */

/* One with one attribute. The kernel has answered when it comes back: its length, below 0 for
 * none. */
static ssize_t ask(struct task_stats *t, uint16_t family, uint8_t command, uint16_t type,
		   const void *value, size_t size, uint8_t answer[ANSWER_BYTES])
{
	struct {
		struct nlmsghdr head;
		struct genlmsghdr genl;
		struct nlattr attr;
		uint8_t value[16];
	} q = {
		.head = {.nlmsg_type = family, .nlmsg_flags = NLM_F_REQUEST, .nlmsg_seq = ++t->seq},
		.genl = {.cmd = command, .version = 1},
		.attr = {.nla_type = type, .nla_len = (uint16_t)(NLA_HDRLEN + size)},
	};
	if (size > sizeof(q.value))
		return -1;
	memcpy(q.value, value, size);
	q.head.nlmsg_len = (uint32_t)(offsetof(__typeof__(q), value) + NLA_ALIGN(size));
	if (send(t->fd, &q, q.head.nlmsg_len, 0) != (ssize_t)q.head.nlmsg_len)
		return -1;
	for (int i = 0; i < ANSWERS_MOST; i++) {
		struct nlmsghdr h;
		ssize_t n = recv(t->fd, answer, ANSWER_BYTES, 0);
		if (n < (ssize_t)sizeof(h))
			return -1;
		memcpy(&h, answer, sizeof(h));
		if (h.nlmsg_seq == t->seq)
			return n;
	}
	return -1;
}

static bool ask_delays(struct task_stats *t, pid_t pid, struct task_delays *ret)
{
	uint8_t answer[ANSWER_BYTES];
	uint32_t of = (uint32_t)pid;
	ssize_t n = ask(t, t->family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_TGID, &of, sizeof(of),
			answer);
	return n > 0 && taskstats_delays(answer, (size_t)n, of, ret);
}

/* Kernels before 5.14 have no such file, and count as a rule. */
static bool is_off(const struct collect_env *env)
{
	struct kept_file f = {0};
	kept_file_set(&f, env->proc_root, "sys/kernel/task_delayacct");
	bool off = kept_file_read(&f) && f.text[0] == '0';
	kept_file_free(&f);
	return off;
}

static bool open_socket(struct task_stats *t)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	uint8_t answer[ANSWER_BYTES];
	struct task_delays own;
	t->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC);
	if (t->fd < 0)
		return false;
	if (!connect(t->fd, (struct sockaddr *)&kernel, sizeof(kernel))) {
		ssize_t n = ask(t, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
				TASKSTATS_GENL_NAME, sizeof(TASKSTATS_GENL_NAME), answer);
		t->family = n > 0 ? taskstats_family(answer, (size_t)n) : 0;
		if (t->family && ask_delays(t, getpid(), &own))
			return true;
	}
	close(t->fd);
	return false;
}

/* ---- the collector ---- */

static int taskstats_open(void **ret_state, const struct collect_env *env,
			  const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct task_stats *t = xcalloc(1, sizeof(*t));
	t->env = env;
	t->sink = sink;
	if (is_off(env) || !open_socket(t)) {
		free(t);
		return -EOPNOTSUPP;
	}
	*ret_state = t;
	return 0;
}

static void taskstats_add_pid(void *state, pid_t pid, bool is_new)
{
	struct task_stats *t = state;
	(void)is_new;
	vec_push(&t->pids)->pid = pid;
}

static void taskstats_del_pid(void *state, pid_t pid)
{
	struct task_stats *t = state;
	size_t left = 0;
	for (size_t i = 0; i < t->pids.len; i++)
		if (t->pids.data[i].pid != pid)
			t->pids.data[left++] = t->pids.data[i];
	t->pids.len = left;
}

/* No more threads wait than there are. */
static double threads_most(void)
{
	struct sysinfo s;
	return sysinfo(&s) ? 1 : (double)s.procs;
}

static void read_one(struct task_stats *t, struct asked *a, double threads, uint64_t now_ns)
{
	struct entity of = ENTITY_OF_PID(a->pid);
	struct task_delays now = {0};
	bool ok = ask_delays(t, a->pid, &now);
	uint64_t read_ns = kept_file_time(t->env, now_ns), by_ns;
	double passed_ns = (double)(read_ns - a->last_ns), ratio;
	a->last_ns = read_ns;
	for (unsigned i = 0; i < TASK_DELAYS; i++) {
		if (!ok || !(now.known & 1u << i))
			growth_forget(&a->grown[i]);
		else if (growth_take(&a->grown[i], now.ns[i], &by_ns) &&
			 growth_ratio(by_ns, passed_ns, threads, &ratio))
			sink_counter(t->sink, now_ns, &of, delays[i].counter, ratio);
	}
}

static void taskstats_read(void *state, uint64_t now_ns)
{
	struct task_stats *t = state;
	uint64_t passed_ns;
	if (!growth_passed(&t->last_ns, now_ns, &passed_ns))
		return;
	double threads = threads_most();
	for (size_t i = 0; i < t->pids.len && i < PIDS_MOST; i++)
		read_one(t, &t->pids.data[i], threads, now_ns);
}

static void taskstats_close(void *state)
{
	struct task_stats *t = state;
	close(t->fd);
	vec_free(&t->pids);
	free(t);
}

const struct collector collector_taskstats = {
	.name = "delays of processes",
	.period_ns = 1000000000,
	.open = taskstats_open,
	.add_pid = taskstats_add_pid,
	.del_pid = taskstats_del_pid,
	.read = taskstats_read,
	.close = taskstats_close,
};
