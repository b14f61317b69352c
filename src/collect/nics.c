/* nics.c - bytes, drops and errors of network interfaces (/proc/net/dev), segments that TCP sent
 * again (/proc/net/snmp), connections that it dropped since nobody accepted them
 * (/proc/net/netstat), and what the kernel dropped or put off while it took packets in
 * (/proc/net/softnet_stat). Of the network namespace that eACGM is in; where the first watched
 * process has another one, of its interfaces as well, "eth0 of pid 42", and of what was dropped
 * there, as "pid 42". Interfaces that moved nothing since the start are left out. Connections are
 * sockets.c's affair. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "collect/growth.h"
#include "collect/kept_file.h"
#include "collect/registry.h"

#define LINES_MOST	512 /* of a namespace that are looked at */
#define INTERFACES_MOST 64  /* of a namespace that are told of */
#define NAME_BYTES	64  /* of the kernel at most 16 */
#define LABEL_BYTES	(NAME_BYTES + 32)
#define NAMESPACE_EVERY 5 /* reads */

/* Columns of /proc/net/dev. */
enum {
	RX_BYTES,
	RX_PACKETS,
	RX_ERRORS,
	RX_DROPS,
	TX_BYTES = 8,
	TX_PACKETS,
	TX_ERRORS,
	TX_DROPS,
	COLUMNS
};

struct interface {
	char name[NAME_BYTES];
	bool works; /* moved anything since the first look */
	uint64_t last[COLUMNS];
	uint64_t read; /* the number of the read */
};

/* A network namespace: its interfaces, and what was dropped where its processes listen. */
struct namespace
{
	struct kept_file dev, netstat;
	pid_t pid; /* of a watched process; 0: eACGM's own */
	VEC(struct interface) known;
	size_t working;
	uint64_t reads, dev_ns, netstat_ns;
	struct growth listen_overflows, listen_drops;
};

struct nics {
	const struct collect_env *env;
	const struct collect_sink *sink;
	struct namespace own, jobs;
	struct kept_file snmp, softnet;
	struct growth retransmits, drops, squeezed;
	VEC(pid_t) pids; /* that are watched, in the order in which they came */
	uint64_t reads, last_ns, snmp_ns, softnet_ns;
};

static void free_namespace(struct namespace *n)
{
	kept_file_free(&n->dev);
	kept_file_free(&n->netstat);
	vec_free(&n->known);
	*n = (struct namespace){0};
}

static void nics_close(void *state)
{
	struct nics *s = state;
	free_namespace(&s->own);
	free_namespace(&s->jobs);
	kept_file_free(&s->snmp);
	kept_file_free(&s->softnet);
	vec_free(&s->pids);
	free(s);
}

static int nics_open(void **ret_state, const struct collect_env *env,
		     const struct collect_sink *sink, struct err *e)
{
	(void)e;
	struct nics *s = xcalloc(1, sizeof(*s));
	s->env = env;
	s->sink = sink;
	kept_file_set(&s->own.dev, env->proc_root, "net/dev");
	kept_file_set(&s->own.netstat, env->proc_root, "net/netstat");
	kept_file_set(&s->snmp, env->proc_root, "net/snmp");
	kept_file_set(&s->softnet, env->proc_root, "net/softnet_stat");
	if (!kept_file_read(&s->own.dev)) {
		nics_close(s);
		return -EOPNOTSUPP;
	}
	*ret_state = s;
	return 0;
}

static void nics_add_pid(void *state, pid_t pid, bool is_new)
{
	struct nics *s = state;
	(void)is_new;
	*vec_push(&s->pids) = pid;
}

static void nics_del_pid(void *state, pid_t pid)
{
	struct nics *s = state;
	size_t left = 0;
	for (size_t i = 0; i < s->pids.len; i++)
		if (s->pids.data[i] != pid)
			s->pids.data[left++] = s->pids.data[i];
	s->pids.len = left;
}

/* ---- the namespace of the job ---- */

/* False: it is not known. */
static bool namespace_of(const struct nics *s, const char *who, char *ret, size_t size)
{
	char *path = xasprintf("%s/%s/ns/net", s->env->proc_root, who);
	ssize_t n = readlink(path, ret, size - 1);
	free(path);
	ret[n > 0 ? n : 0] = 0;
	return n > 0;
}

static void choose_namespace(struct nics *s)
{
	char who[32], name[64], own[64], its[64];
	pid_t first = s->pids.len ? s->pids.data[0] : 0;
	snprintf(who, sizeof(who), "%d", first);
	if (!first || !namespace_of(s, "self", own, sizeof(own)) ||
	    !namespace_of(s, who, its, sizeof(its)) || !strcmp(own, its)) {
		free_namespace(&s->jobs);
		return;
	}
	if (s->jobs.pid == first)
		return;
	free_namespace(&s->jobs);
	s->jobs.pid = first;
	snprintf(name, sizeof(name), "%d/net/dev", first);
	kept_file_set(&s->jobs.dev, s->env->proc_root, name);
	snprintf(name, sizeof(name), "%d/net/netstat", first);
	kept_file_set(&s->jobs.netstat, s->env->proc_root, name);
}

/* ---- interfaces ---- */

/* hint: where it stands if nothing came or went. NULL: there are too many. */
static struct interface *interface_of(struct namespace *n, const char *name, size_t hint)
{
	if (hint < n->known.len && !strcmp(n->known.data[hint].name, name))
		return &n->known.data[hint];
	for (size_t i = 0; i < n->known.len; i++)
		if (!strcmp(n->known.data[i].name, name))
			return &n->known.data[i];
	if (n->known.len >= LINES_MOST)
		return NULL;
	struct interface *f = vec_push(&n->known);
	snprintf(f->name, sizeof(f->name), "%s", name);
	return f;
}

static void tell(const struct nics *s, const struct namespace *n, const struct interface *f,
		 const uint64_t by[COLUMNS], uint64_t now_ns, uint64_t passed_ns)
{
	char label[LABEL_BYTES];
	struct entity of = ENTITY_NAMED(ENTITY_INTERFACE, f->name);
	if (n->pid) {
		snprintf(label, sizeof(label), "%s of pid %d", f->name, n->pid);
		of.label = label;
	}
	sink_counter(s->sink, now_ns, &of, "received_bytes_per_s",
		     growth_per_s(by[RX_BYTES], passed_ns));
	sink_counter(s->sink, now_ns, &of, "sent_bytes_per_s",
		     growth_per_s(by[TX_BYTES], passed_ns));
	sink_counter(s->sink, now_ns, &of, "drops_per_s",
		     growth_per_s(by[RX_DROPS] + by[TX_DROPS], passed_ns));
	sink_counter(s->sink, now_ns, &of, "errors_per_s",
		     growth_per_s(by[RX_ERRORS] + by[TX_ERRORS], passed_ns));
}

/* What shrank wrapped, or the interface is another by this name. */
static void take(const struct nics *s, struct namespace *n, struct interface *f,
		 const uint64_t now[COLUMNS], uint64_t now_ns, uint64_t passed_ns)
{
	uint64_t by[COLUMNS];
	bool ok = f->read && f->read + 1 == n->reads, moved = false;
	for (int i = 0; i < COLUMNS; i++) {
		by[i] = now[i] - f->last[i];
		ok = ok && now[i] >= f->last[i];
		moved |= by[i] != 0;
	}
	memcpy(f->last, now, sizeof(f->last));
	f->read = n->reads;
	if (ok && moved && !f->works && n->working < INTERFACES_MOST) {
		f->works = true;
		n->working++;
	}
	if (ok && f->works)
		tell(s, n, f, by, now_ns, passed_ns);
}

/* "  eth0: 12 3 ...", of old kernels "  eth0:12 3 ...": false where it is not such a line. */
static bool parse(const char *line, char name[NAME_BYTES], uint64_t ret[COLUMNS])
{
	line += strspn(line, " ");
	size_t n = strcspn(line, ": \t\n");
	if (!n || n >= NAME_BYTES || line[n] != ':')
		return false;
	memcpy(name, line, n);
	name[n] = 0;
	line += n + 1;
	for (int i = 0; i < COLUMNS; i++)
		if (!text_number(&line, &ret[i]))
			return false;
	return true;
}

/* Names of interfaces that come and go, as containers' do, would else take all places. */
static void forget_gone(struct namespace *n)
{
	size_t left = 0;
	for (size_t i = 0; i < n->known.len; i++) {
		if (n->known.data[i].read == n->reads)
			n->known.data[left++] = n->known.data[i];
		else
			n->working -= n->known.data[i].works;
	}
	n->known.len = left;
}

static void read_interfaces(const struct nics *s, struct namespace *n, uint64_t now_ns)
{
	uint64_t now[COLUMNS];
	char name[NAME_BYTES];
	size_t lines = 0;
	if (!n->dev.path || !kept_file_read(&n->dev))
		return;
	uint64_t read_ns = kept_file_time(s->env, now_ns), passed_ns = read_ns - n->dev_ns;
	n->dev_ns = read_ns;
	n->reads++;
	for (const char *line = n->dev.text; *line && lines < LINES_MOST;
	     line = text_next_line(line)) {
		if (!parse(line, name, now)) /* the two of the head */
			continue;
		struct interface *f = interface_of(n, name, lines++);
		if (f)
			take(s, n, f, now, now_ns, passed_ns);
	}
	forget_gone(n);
}

/* ---- of the host ---- */

static void tell_rate_of(const struct nics *s, uint64_t now_ns, const struct entity *of,
			 const char *name, struct growth *g, uint64_t now, uint64_t passed_ns)
{
	uint64_t by;
	if (growth_take(g, now, &by))
		sink_counter(s->sink, now_ns, of, name, growth_per_s(by, passed_ns));
}

static void tell_rate(const struct nics *s, uint64_t now_ns, const char *name, struct growth *g,
		      uint64_t now, uint64_t passed_ns)
{
	tell_rate_of(s, now_ns, &ENTITY_NAMED(ENTITY_HOST, ""), name, g, now, passed_ns);
}

/* The first line of the text that begins with head; NULL: none does. */
static const char *line_of(const char *text, const char *head)
{
	while (*text && strncmp(text, head, strlen(head)) != 0)
		text = text_next_line(text);
	return *text ? text : NULL;
}

/* Two lines begin with the same word, as "Tcp:": of names, and of numbers, of which one may be
 * below 0. */
static bool number_named(const char *text, const char *head, const char *name, uint64_t *ret)
{
	const char *names = line_of(text, head);
	if (!names)
		return false;
	const char *numbers = text_next_line(names);
	if (strncmp(numbers, head, strlen(head)) != 0)
		return false;
	for (;;) {
		size_t n = strcspn(names, " \n"), m = strcspn(numbers, " \n");
		if (n == strlen(name) && !strncmp(names, name, n))
			return text_number(&numbers, ret);
		if (names[n] != ' ' || numbers[m] != ' ')
			return false;
		names += n + 1;
		numbers += m + 1;
	}
}

static void read_snmp(struct nics *s, uint64_t now_ns)
{
	uint64_t now;
	bool ok =
		kept_file_read(&s->snmp) && number_named(s->snmp.text, "Tcp:", "RetransSegs", &now);
	uint64_t read_ns = kept_file_time(s->env, now_ns), passed_ns = read_ns - s->snmp_ns;
	s->snmp_ns = read_ns;
	if (ok)
		tell_rate(s, now_ns, "tcp_retransmits_per_s", &s->retransmits, now, passed_ns);
	else
		growth_forget(&s->retransmits);
}

/* Connections that were dropped since the queue of those to be accepted was full, and all that
 * were dropped where somebody listens, these among them. */
static void read_netstat(const struct nics *s, struct namespace *n, uint64_t now_ns)
{
	uint64_t overflows, drops;
	if (!n->netstat.path)
		return;
	bool ok = kept_file_read(&n->netstat) &&
		  number_named(n->netstat.text, "TcpExt:", "ListenOverflows", &overflows) &&
		  number_named(n->netstat.text, "TcpExt:", "ListenDrops", &drops);
	uint64_t read_ns = kept_file_time(s->env, now_ns), passed_ns = read_ns - n->netstat_ns;
	n->netstat_ns = read_ns;
	if (!ok) {
		growth_forget(&n->listen_overflows);
		growth_forget(&n->listen_drops);
		return;
	}
	struct entity host = ENTITY_NAMED(ENTITY_HOST, ""), process = ENTITY_OF_PID(n->pid);
	const struct entity *of = n->pid ? &process : &host;
	tell_rate_of(s, now_ns, of, "tcp_listen_overflows_per_s", &n->listen_overflows, overflows,
		     passed_ns);
	tell_rate_of(s, now_ns, of, "tcp_listen_drops_per_s", &n->listen_drops, drops, passed_ns);
}

/* A number of eight hexadecimal digits and a space. */
static bool hex_number(const char **at, uint64_t *ret)
{
	size_t n = strspn(*at, "0123456789abcdef");
	if (n != 8 || (*at)[n] != ' ')
		return false;
	*ret = strtoull(*at, NULL, 16);
	*at += n + 1;
	return true;
}

/* The second and the third number of each CPU's line: packets dropped, and times that it stopped
 * with packets left. They have 32 bits: one that wraps outweighs what the others grew by. */
static bool sum_softnet(const char *text, uint64_t *ret_drops, uint64_t *ret_squeezed)
{
	uint64_t packets, drops, squeezed;
	*ret_drops = *ret_squeezed = 0;
	for (const char *line = text; *line; line = text_next_line(line)) {
		const char *at = line;
		if (!hex_number(&at, &packets) || !hex_number(&at, &drops) ||
		    !hex_number(&at, &squeezed))
			return false;
		*ret_drops += drops;
		*ret_squeezed += squeezed;
	}
	return *text != 0;
}

static void read_softnet(struct nics *s, uint64_t now_ns)
{
	uint64_t drops, squeezed;
	bool ok = kept_file_read(&s->softnet) && sum_softnet(s->softnet.text, &drops, &squeezed);
	uint64_t read_ns = kept_file_time(s->env, now_ns), passed_ns = read_ns - s->softnet_ns;
	s->softnet_ns = read_ns;
	if (!ok) {
		growth_forget(&s->drops);
		growth_forget(&s->squeezed);
		return;
	}
	tell_rate(s, now_ns, "softnet_drops_per_s", &s->drops, drops, passed_ns);
	tell_rate(s, now_ns, "softnet_squeezed_per_s", &s->squeezed, squeezed, passed_ns);
}

static void nics_read(void *state, uint64_t now_ns)
{
	struct nics *s = state;
	uint64_t passed_ns;
	if (!growth_passed(&s->last_ns, now_ns, &passed_ns))
		return;
	if (s->reads++ % NAMESPACE_EVERY == 0 || (s->pids.len && s->jobs.pid != s->pids.data[0]))
		choose_namespace(s);
	read_interfaces(s, &s->own, now_ns);
	read_interfaces(s, &s->jobs, now_ns);
	read_netstat(s, &s->own, now_ns);
	read_netstat(s, &s->jobs, now_ns);
	read_snmp(s, now_ns);
	read_softnet(s, now_ns);
}

const struct collector collector_nics = {
	.name = "interfaces",
	.period_ns = 1000000000,
	.open = nics_open,
	.add_pid = nics_add_pid,
	.del_pid = nics_del_pid,
	.read = nics_read,
	.close = nics_close,
};
