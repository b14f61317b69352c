/* agent_options.c - reads them, each by itself: agent_config.c checks one at a time. */
#include "cli/agent_options.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "cli/agent_rules.h"
#include "cli/alarm_options.h"
#include "cli/push_pairs.h"
#include "pods/pod_sources.h"
#include "serve/http_url.h"
#include "serve/process_labels.h"
#include "session/session.h"

#define PORT		 9477
#define BUDGET		 0.01
#define OWN_BUDGET	 0.005
#define FREEZE_MB	 16
#define FREEZE_BEFORE_NS 10000000000ULL
#define FREEZE_AFTER_NS	 5000000000ULL
#define FREEZE_MOST_NS	 600000000000ULL
#define FREEZE_APART_NS	 30000000000ULL
#define FREEZE_FILES	 20
#define FREEZE_BYTES	 (1ULL << 30)
#define FREEZE_LEAST	 1000000ULL
#define FREEZE_MOST	 100000000000000ULL
#define OTLP_LEAST_NS	 1000000000ULL
#define OTLP_MOST_NS	 3600000000000ULL
#define OTLP_TIMEOUT_NS	 10000000000ULL
#define PROFILE_NS	 10000000000ULL
#define PROFILE_LEAST_NS 1000000000ULL
#define PROFILE_MOST_NS	 60000000000ULL
#define STORE_DAYS	 7
#define STORE_DAYS_MOST	 3650
#define STORE_BYTES	 (1ULL << 30)
#define STORE_LEAST	 4194304ULL
#define DAY_S		 86400

static bool is_address(const char *address, bool *ret_loopback)
{
	struct in_addr v4;
	struct in6_addr v6;
	*ret_loopback = false;
	if (inet_pton(AF_INET, address, &v4) == 1) {
		*ret_loopback = ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
		return true;
	}
	if (inet_pton(AF_INET6, address, &v6) != 1)
		return false;
	*ret_loopback = IN6_IS_ADDR_LOOPBACK(&v6);
	return true;
}

int agent_address_read(struct agent_address *ret, const struct args *a, const char *option,
		       struct err *e)
{
	const char *text = args_get(a, option);
	const char *colon = text ? strrchr(text, ':') : NULL;
	strcpy(ret->address, "127.0.0.1");
	ret->port = PORT;
	if (!text)
		return 0;
	char *end = NULL;
	unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
	bool bracket = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
	size_t len = colon ? (size_t)(colon - text) - 2 * bracket : 0;
	if (!colon || end == colon + 1 || *end || port > 65535 || !len ||
	    len >= sizeof(ret->address))
		return err_set(e, EINVAL, "--%s: '%s' is no ADDRESS:PORT", option, text);
	memcpy(ret->address, text + bracket, len);
	ret->address[len] = 0;
	ret->port = (uint16_t)port;
	bool loopback;
	if (!is_address(ret->address, &loopback))
		return err_set(e, EINVAL, "--%s: '%s' is no address, as 127.0.0.1 or [::1]", option,
			       ret->address);
	return 0;
}

bool agent_address_is_loopback(const struct agent_address *a)
{
	bool ret;
	return is_address(a->address, &ret) && ret;
}

static int read_listen(struct agent_options *o, const struct args *a, struct err *e)
{
	return agent_address_read(&o->where, a, "listen", e);
}

int agent_options_check_listen(const struct agent_options *o, struct err *e)
{
	bool tls = o->where.cert_file && o->where.key_file;
	if (!o->where.cert_file != !o->where.key_file)
		return err_set(e, EINVAL,
			       "--tls-cert and --tls-key are given together, or neither");
	if (agent_address_is_loopback(&o->where))
		return 0;
	if (tls && o->where.token_file)
		return 0;
	return err_set(e, EINVAL,
		       "--listen: '%s' is no loopback address (127.0.0.1, [::1]): that wants "
		       "--tls-cert, --tls-key and --token-file",
		       o->where.address);
}

static int read_files_of_listener(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->where.cert_file = args_get(a, "tls-cert");
	o->where.key_file = args_get(a, "tls-key");
	o->where.token_file = args_get(a, "token-file");
	return 0;
}

/* A share, of a percentage. */
static int read_share(const char *option, const char *text, double *ret, struct err *e)
{
	char *end = NULL;
	double percent = strtod(text, &end);
	if (end == text || (*end && strcmp(end, "%")) || !(percent >= 0.1 && percent <= 100))
		return err_set(e, EINVAL, "--%s: '%s' is not a percentage from 0.1 to 100", option,
			       text);
	*ret = percent / 100;
	return 0;
}

static int read_budget(struct agent_options *o, const struct args *a, struct err *e)
{
	const char *text = args_get(a, "budget");
	o->budget = args_has(a, "detect") ? 0 : BUDGET;
	return text ? read_share("budget", text, &o->budget, e) : 0;
}

/* After the jobs' budget: where that is all there is, every call is wanted. */
static int read_own_budget(struct agent_options *o, const struct args *a, struct err *e)
{
	const char *text = args_get(a, "own-budget");
	o->own_budget = o->budget > 0 && o->budget < 1 ? OWN_BUDGET : 0;
	return text ? read_share("own-budget", text, &o->own_budget, e) : 0;
}

static int read_duration(struct agent_options *o, const struct args *a, struct err *e)
{
	return args_time(a, "duration", 100000000, DURATION_MOST_NS, &o->duration_ns, e);
}

static int read_alarms(struct agent_options *o, const struct args *a, struct err *e)
{
	return alarm_limits_of(a, &o->judged.alarms_per_hour, &o->judged.least_effect, e);
}

static int read_folder(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->frozen.folder = args_get(a, "freeze");
	o->frozen.least_apart_ns = FREEZE_APART_NS;
	return 0;
}

static int read_before(struct agent_options *o, const struct args *a, struct err *e)
{
	o->frozen.before_ns = FREEZE_BEFORE_NS;
	return args_time(a, "freeze-before", 0, FREEZE_MOST_NS, &o->frozen.before_ns, e);
}

static int read_after(struct agent_options *o, const struct args *a, struct err *e)
{
	o->frozen.after_ns = FREEZE_AFTER_NS;
	return args_time(a, "freeze-after", 0, FREEZE_MOST_NS, &o->frozen.after_ns, e);
}

static int read_memory(struct agent_options *o, const struct args *a, struct err *e)
{
	uint64_t megabytes = FREEZE_MB;
	int rc = args_u64(a, "freeze-memory", 1, 1024, &megabytes, e);
	o->frozen.window_bytes = megabytes << 20;
	return rc;
}

static int read_files(struct agent_options *o, const struct args *a, struct err *e)
{
	uint64_t files = FREEZE_FILES;
	int rc = args_u64(a, "freeze-files", 1, 100000, &files, e);
	o->frozen.most_files = (uint32_t)files;
	return rc;
}

static int read_bytes(struct agent_options *o, const struct args *a, struct err *e)
{
	o->frozen.most_bytes = FREEZE_BYTES;
	return args_u64(a, "freeze-bytes", FREEZE_LEAST, FREEZE_MOST, &o->frozen.most_bytes, e);
}

static int read_age(struct agent_options *o, const struct args *a, struct err *e)
{
	return args_time(a, "freeze-age", 60000000000ULL, TIME_TEXT_MOST_NS, &o->frozen.most_age_ns,
			 e);
}

static int read_peers(struct agent_options *o, const struct args *a, struct err *e)
{
	struct http_url url;
	size_t n = args_count(a, "peer");
	int rc = n > AGENT_PEERS ? err_set(e, EINVAL, "more than %d", AGENT_PEERS) : 0;
	for (size_t i = 0; i < n && !rc; i++) {
		o->peers.urls[o->peers.len++] = args_nth(a, "peer", i);
		rc = http_url_parse(&url, args_nth(a, "peer", i), e);
	}
	return rc ? err_wrap(e, rc, "--peer") : 0;
}

static int read_files_of_peers(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->peers.ca_file = args_get(a, "peer-ca");
	o->peers.token_file = args_get(a, "peer-token-file");
	return 0;
}

static bool may_be_told_token(const char *text)
{
	struct http_url url;
	struct err e;
	bool loopback = false;
	if (http_url_parse(&url, text, &e))
		return false;
	return url.tls || !strcmp(url.host, "localhost") ||
	       (is_address(url.host, &loopback) && loopback);
}

int agent_options_check_peers(const struct agent_options *o, struct err *e)
{
	if (o->peers.len && !o->frozen.folder)
		return err_set(e, EINVAL,
			       "--peer: nothing is frozen that it could be told of: give --freeze "
			       "FOLDER");
	for (size_t i = 0; i < o->peers.len; i++) {
		const char *url = o->peers.urls[i];
		if (name_is_among(url, o->peers.urls, i))
			return err_set(e, EINVAL, "--peer: '%s' is given twice", url);
		if (o->peers.token_file && !may_be_told_token(url))
			return err_set(e, EINVAL,
				       "--peer: '%s' would be told the token of --peer-token-file "
				       "in clear: give https://",
				       url);
	}
	return 0;
}

static int read_otlp(struct agent_options *o, const struct args *a, struct err *e)
{
	struct http_url url;
	o->pushed.to.url = args_get(a, "otlp");
	o->pushed.to.headers = a;
	o->pushed.to.timeout_ns = OTLP_TIMEOUT_NS;
	int rc = o->pushed.to.url ? http_url_parse(&url, o->pushed.to.url, e) : 0;
	return rc ? err_wrap(e, rc, "--otlp") : 0;
}

static int read_otlp_interval(struct agent_options *o, const struct args *a, struct err *e)
{
	return args_time(a, "otlp-interval", OTLP_LEAST_NS, OTLP_MOST_NS, &o->pushed.to.interval_ns,
			 e);
}

static int check_headers(const struct args *a, const char *option, struct err *e)
{
	struct pairs p = {.len = 0};
	int rc = pairs_add_headers(&p, a, option, e);
	pairs_free(&p);
	return rc;
}

static int read_otlp_headers(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)o;
	return check_headers(a, "otlp-header", e);
}

static int read_otlp_ca(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->pushed.to.ca_file = args_get(a, "otlp-ca");
	return 0;
}

static int read_otlp_profiles(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->pushed.profiles = args_has(a, "otlp-profiles");
	return 0;
}

int agent_options_check_profiles(const struct agent_options *o, struct err *e)
{
	if (!o->pushed.profiles || o->pushed.to.url)
		return 0;
	return err_set(e, EINVAL, "--otlp-profiles: nobody to push them to: give --otlp URL");
}

bool agent_options_profiles(const struct agent_options *o)
{
	bool ret = o->pushed.profiles;
	for (size_t i = 0; i < PROFILE_SERVERS; i++)
		ret |= o->profiled.servers[i].url != NULL;
	return ret;
}

/* Options of a server that takes profiles: --pprof-push, --parca-push. */
static int read_server(struct agent_options *o, const struct args *a, enum profile_server which,
		       const char *option, struct err *e)
{
	struct http_url url;
	struct push_wanted *w = &o->profiled.servers[which];
	w->url = args_get(a, option);
	w->headers = a;
	int rc = w->url ? http_url_parse(&url, w->url, e) : 0;
	return rc ? err_wrap(e, rc, "--%s", option) : 0;
}

static int read_pprof(struct agent_options *o, const struct args *a, struct err *e)
{
	return read_server(o, a, PROFILE_PYROSCOPE, "pprof-push", e);
}

static int read_pprof_headers(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)o;
	return check_headers(a, "pprof-header", e);
}

static int read_parca(struct agent_options *o, const struct args *a, struct err *e)
{
	return read_server(o, a, PROFILE_PARCA, "parca-push", e);
}

static int read_parca_headers(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)o;
	return check_headers(a, "parca-header", e);
}

static int read_server_cas(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->profiled.servers[PROFILE_PYROSCOPE].ca_file = args_get(a, "pprof-ca");
	o->profiled.servers[PROFILE_PARCA].ca_file = args_get(a, "parca-ca");
	return 0;
}

static int read_profile_interval(struct agent_options *o, const struct args *a, struct err *e)
{
	o->profiled.interval_ns = PROFILE_NS;
	return args_time(a, "profile-interval", PROFILE_LEAST_NS, PROFILE_MOST_NS,
			 &o->profiled.interval_ns, e);
}

static int read_store(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->stored.path = args_get(a, "store");
	return 0;
}

static int read_keep(struct agent_options *o, const struct args *a, struct err *e)
{
	uint64_t days = STORE_DAYS;
	int rc = args_u64(a, "store-keep", 1, STORE_DAYS_MOST, &days, e);
	o->stored.keep_s = days * DAY_S;
	return rc;
}

static int read_store_bytes(struct agent_options *o, const struct args *a, struct err *e)
{
	o->stored.most_bytes = STORE_BYTES;
	return args_u64(a, "store-bytes", STORE_LEAST, FREEZE_MOST, &o->stored.most_bytes, e);
}

/* "off": it is not asked; not told: where it usually is. */
static const char *socket_of(const struct args *a, const char *option, const char *usual,
			     bool *ret_usual)
{
	const char *text = args_get(a, option);
	*ret_usual = !text;
	return !text ? usual : strcmp(text, "off") != 0 ? text : NULL;
}

static int check_socket(const char *path, const char *option, struct err *e)
{
	return !path || path[0] == '/'
		       ? 0
		       : err_set(e, EINVAL, "--%s: '%s' is neither an absolute path nor 'off'",
				 option, path);
}

static int read_kubelet(struct agent_options *o, const struct args *a, struct err *e)
{
	o->owners.kubelet =
		socket_of(a, "kubelet-socket", POD_KUBELET_SOCKET, &o->owners.kubelet_usual);
	return check_socket(o->owners.kubelet, "kubelet-socket", e);
}

static int read_runtime(struct agent_options *o, const struct args *a, struct err *e)
{
	o->owners.runtime =
		socket_of(a, "runtime-socket", POD_RUNTIME_SOCKET, &o->owners.runtime_usual);
	return check_socket(o->owners.runtime, "runtime-socket", e);
}

static int read_hpc(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)e;
	o->owners.hpc_folder = args_get(a, "hpc-job-mapping-dir");
	return 0;
}

/* As Prometheus has names of labels, and most have those of variables of an environment. */
static bool is_name(const char *text, size_t len)
{
	bool ret = len > 0 && len < LABEL_NAME_BYTES && !isdigit((unsigned char)*text);
	for (size_t i = 0; i < len; i++)
		ret &= text[i] == '_' ||
		       (isalnum((unsigned char)text[i]) && (unsigned char)text[i] < 128);
	return ret;
}

/* text: the option's. Takes the name alone, in lower case where it is a variable's. */
static int add_label(struct agent_options *o, const char *option, const char *text, size_t len,
		     bool lower, struct err *e)
{
	struct chosen_label *l = &o->labels.list[o->labels.len];
	if (o->labels.len == CHOSEN_LABELS)
		return err_set(e, EINVAL, "--%s: '%.80s' is one of more than %d labels", option,
			       text, CHOSEN_LABELS);
	if (!is_name(text, len))
		return err_set(e, EINVAL,
			       "--%s: '%.80s' does not begin with the name of a label: at most %d "
			       "letters, digits and '_', no digit first",
			       option, text, LABEL_NAME_BYTES - 1);
	for (size_t i = 0; i < len; i++)
		l->name[i] = lower ? (char)tolower((unsigned char)text[i]) : text[i];
	l->name[len] = 0;
	if (!strncmp(l->name, "__", 2) || process_label_is_taken(l->name))
		return err_set(e, EINVAL, "--%s: '%.80s': the label '%s' has a meaning already",
			       option, text, l->name);
	o->labels.len++;
	return 0;
}

static int read_label(struct agent_options *o, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	if (!equals || !equals[1])
		return err_set(e, EINVAL, "--label: '%.80s' is no NAME=VALUE", text);
	if (strlen(equals + 1) >= CHOSEN_BYTES)
		return err_set(e, EINVAL, "--label: the value of '%.80s' is longer than %d bytes",
			       text, CHOSEN_BYTES - 1);
	int rc = add_label(o, "label", text, (size_t)(equals - text), false, e);
	if (!rc)
		o->labels.list[o->labels.len - 1].value = equals + 1;
	return rc;
}

static int read_labels(struct agent_options *o, const struct args *a, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < args_count(a, "label") && !rc; i++)
		rc = read_label(o, args_nth(a, "label", i), e);
	return rc;
}

/* "WANDB_PROJECT", or "project=WANDB_PROJECT". */
static int read_label_of(struct agent_options *o, const char *text, struct err *e)
{
	const char *equals = strchr(text, '=');
	const char *variable = equals ? equals + 1 : text;
	if (equals && !is_name(variable, strlen(variable)))
		return err_set(e, EINVAL,
			       "--label-env: '%.80s' does not end with the name of a variable: at "
			       "most %d letters, digits and '_', no digit first",
			       text, LABEL_NAME_BYTES - 1);
	int rc = add_label(o, "label-env", text, equals ? (size_t)(equals - text) : strlen(text),
			   !equals, e);
	if (!rc)
		o->labels.list[o->labels.len - 1].variable = variable;
	return rc;
}

static int read_labels_of(struct agent_options *o, const struct args *a, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < args_count(a, "label-env") && !rc; i++)
		rc = read_label_of(o, args_nth(a, "label-env", i), e);
	return rc;
}

int agent_options_check_labels(const struct agent_options *o, struct err *e)
{
	for (size_t i = 0; i < o->labels.len; i++)
		for (size_t k = 0; k < i; k++)
			if (!strcmp(o->labels.list[i].name, o->labels.list[k].name))
				return err_set(e, EINVAL, "--%s: the label '%s' is given twice",
					       o->labels.list[i].value ? "label" : "label-env",
					       o->labels.list[i].name);
	return 0;
}

/* The session's own are read when layers are known. */
static int check_rules(struct agent_options *o, const struct args *a, struct err *e)
{
	(void)o;
	return agent_rules_check(a, e);
}

static const struct {
	const char *name;
	int (*read)(struct agent_options *o, const struct args *a, struct err *e);
} readers[] = {
	{"listen", read_listen},
	{"tls-cert", read_files_of_listener},
	{"tls-key", read_files_of_listener},
	{"token-file", read_files_of_listener},
	{"budget", read_budget},
	{"own-budget", read_own_budget},
	{"duration", read_duration},
	{"alarms-per-hour", read_alarms},
	{"least-effect", read_alarms},
	{"freeze", read_folder},
	{"freeze-before", read_before},
	{"freeze-after", read_after},
	{"freeze-memory", read_memory},
	{"freeze-files", read_files},
	{"freeze-bytes", read_bytes},
	{"freeze-age", read_age},
	{"peer", read_peers},
	{"peer-ca", read_files_of_peers},
	{"peer-token-file", read_files_of_peers},
	{"otlp", read_otlp},
	{"otlp-interval", read_otlp_interval},
	{"otlp-header", read_otlp_headers},
	{"otlp-ca", read_otlp_ca},
	{"otlp-profiles", read_otlp_profiles},
	{"pprof-push", read_pprof},
	{"pprof-header", read_pprof_headers},
	{"pprof-ca", read_server_cas},
	{"parca-push", read_parca},
	{"parca-header", read_parca_headers},
	{"parca-ca", read_server_cas},
	{"profile-interval", read_profile_interval},
	{"store", read_store},
	{"store-keep", read_keep},
	{"store-bytes", read_store_bytes},
	{"kubelet-socket", read_kubelet},
	{"runtime-socket", read_runtime},
	{"hpc-job-mapping-dir", read_hpc},
	{"label", read_labels},
	{"label-env", read_labels_of},
	{"rule", check_rules},
};
#define READERS (sizeof(readers) / sizeof(readers[0]))

int agent_options_check(const struct args *a, const char *name, struct err *e)
{
	struct agent_options o = {0};
	for (size_t i = 0; i < READERS; i++)
		if (!strcmp(readers[i].name, name))
			return readers[i].read(&o, a, e);
	return 0;
}

int agent_options_read(struct agent_options *ret, const struct args *a, struct err *e)
{
	*ret = (struct agent_options){.detects = args_has(a, "detect"),
				      .dcgm = !args_has(a, "no-dcgm")};
	if (args_has(a, "pid") + args_has(a, "cgroup") + args_has(a, "all") > 1)
		return err_set(e, EINVAL, "give one target: -p PID, --cgroup PATH or --all");
	int rc = 0;
	for (size_t i = 0; i < READERS && !rc; i++)
		rc = readers[i].read(ret, a, e);
	return rc;
}
