/* agent_config_test.c - the file of an agent: each key, every complaint with its place, and what a
 * command line leaves of it.
 * links: cli base */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/agent_config.h"
#include "cli/agent_options.h"
#include "cli/agent_reload.h"
#include "cli/agent_rules.h"

extern const struct command cmd_agent;

static void parse_ok(struct agent_config *c, const char *text)
{
	struct err e = {""};
	if (agent_config_parse(c, &cmd_agent, text, strlen(text), "a.yaml", &e))
		fail_msg("%s", e.msg);
}

static void fails(const char *text, const char *says)
{
	struct agent_config c;
	struct err e = {""};
	assert_true(agent_config_parse(&c, &cmd_agent, text, strlen(text), "a.yaml", &e) < 0);
	assert_string_equal(e.msg, says);
	assert_int_equal(c.values.len, 0);
}

/* The options of a file beside a command line of so many words. */
static void read_both(struct agent_options *ret, struct args *merged, struct agent_config *c,
		      const char *text, int argc, char **argv)
{
	struct args given;
	struct err e = {""};
	parse_ok(c, text);
	assert_int_equal(args_parse(&given, &cmd_agent, argc, argv, &e), 0);
	agent_config_merge(merged, &given, c);
	args_free(&given);
	if (agent_options_read(ret, merged, &e))
		fail_msg("%s", e.msg);
}

static const char whole[] = "listen: \"[::1]:9999\"\n"
			    "tls:\n"
			    "  cert: /etc/eacgm/cert.pem\n"
			    "  key: /etc/eacgm/key.pem\n"
			    "token_file: /etc/eacgm/token\n"
			    "target:\n"
			    "  pid: [12, 13]\n"
			    "layers: [cuda, nccl]\n"
			    "probes: [\"libfoo.so:foo_*\", \"libfoo.so:bar\"]\n"
			    "catalogs: /etc/eacgm/more.yaml\n"
			    "everything: true\n"
			    "rules:\n"
			    "  - match:\n"
			    "      command: python3 *serve*\n"
			    "      cgroup: /kubepods/*\n"
			    "      user: 1000\n"
			    "    trace: false\n"
			    "  - match: {command: \"*train*\"}\n"
			    "    layers: [cuda, nccl]\n"
			    "detect: true\n"
			    "alarms_per_hour: 0.5\n"
			    "least_effect: 20\n"
			    "freeze:\n"
			    "  folder: /var/lib/eacgm\n"
			    "  before: 20s\n"
			    "  after: 1500ms\n"
			    "  memory_mb: 32\n"
			    "  files: 7\n"
			    "  max_bytes: 2000000\n"
			    "  max_age: 72h\n"
			    "peers:\n"
			    "  urls: [https://node2:9477, \"https://[fd00::3]:9477\"]\n"
			    "  ca: /etc/eacgm/peers.pem\n"
			    "  token_file: /etc/eacgm/peers-token\n"
			    "otlp:\n"
			    "  url: https://collector.example/otlp\n"
			    "  interval: 30s\n"
			    "  headers: [\"Authorization=Bearer a=b\", X-Scope-OrgID=7]\n"
			    "  ca: /etc/eacgm/ca.pem\n"
			    "  profiles: true\n"
			    "pprof:\n"
			    "  url: http://pyroscope:4040\n"
			    "  headers: X-Scope-OrgID=8\n"
			    "  ca: /etc/eacgm/other.pem\n"
			    "parca:\n"
			    "  url: https://parca:7070\n"
			    "  headers: X-Tenant=9\n"
			    "  ca: /etc/eacgm/third.pem\n"
			    "profile_interval: 20s\n"
			    "store:\n"
			    "  file: /var/lib/eacgm/agent.db\n"
			    "  keep_days: 3\n"
			    "  max_bytes: 5000000\n"
			    "kubernetes:\n"
			    "  kubelet_socket: off\n"
			    "  runtime_socket: /run/k3s/containerd/containerd.sock\n"
			    "hpc_job_mapping_dir: /run/slurm-gpus\n"
			    "labels: {team: vision, cluster: \"a=b c\"}\n"
			    "label_env: [WANDB_PROJECT, queue=SLURM_JOB_PARTITION]\n"
			    "dcgm: false\n"
			    "duration: 1h\n";

static void every_key(void **state)
{
	(void)state;
	struct agent_config c;
	struct agent_options o = {0};
	const struct push_wanted *servers = o.profiled.servers;
	struct args a;
	read_both(&o, &a, &c, whole, 0, NULL);
	assert_string_equal(o.where.address, "::1");
	assert_int_equal(o.where.port, 9999);
	assert_string_equal(o.where.cert_file, "/etc/eacgm/cert.pem");
	assert_string_equal(o.where.key_file, "/etc/eacgm/key.pem");
	assert_string_equal(o.where.token_file, "/etc/eacgm/token");
	assert_true(o.detects && !o.dcgm && o.budget == 0 && o.own_budget == 0);
	assert_int_equal(o.duration_ns, 3600000000000ULL);
	assert_true(o.judged.alarms_per_hour == 0.5 && o.judged.least_effect == 0.2);
	assert_string_equal(o.frozen.folder, "/var/lib/eacgm");
	assert_int_equal(o.frozen.before_ns, 20000000000ULL);
	assert_int_equal(o.frozen.after_ns, 1500000000ULL);
	assert_int_equal(o.frozen.window_bytes, 32 << 20);
	assert_int_equal(o.frozen.most_files, 7);
	assert_int_equal(o.frozen.most_bytes, 2000000);
	assert_int_equal(o.frozen.most_age_ns, 72 * 3600000000000ULL);
	assert_int_equal(o.peers.len, 2);
	assert_string_equal(o.peers.urls[1], "https://[fd00::3]:9477");
	assert_string_equal(o.peers.ca_file, "/etc/eacgm/peers.pem");
	assert_string_equal(o.peers.token_file, "/etc/eacgm/peers-token");
	assert_null(o.owners.kubelet);
	assert_string_equal(o.owners.runtime, "/run/k3s/containerd/containerd.sock");
	assert_true(!o.owners.kubelet_usual && !o.owners.runtime_usual);
	assert_string_equal(o.owners.hpc_folder, "/run/slurm-gpus");
	assert_int_equal(o.labels.len, 4);
	assert_string_equal(o.labels.list[0].name, "team");
	assert_string_equal(o.labels.list[0].value, "vision");
	assert_string_equal(o.labels.list[1].value, "a=b c");
	assert_string_equal(o.labels.list[2].name, "wandb_project");
	assert_string_equal(o.labels.list[2].variable, "WANDB_PROJECT");
	assert_null(o.labels.list[2].value);
	assert_string_equal(o.labels.list[3].name, "queue");
	assert_string_equal(o.labels.list[3].variable, "SLURM_JOB_PARTITION");
	assert_string_equal(o.pushed.to.url, "https://collector.example/otlp");
	assert_int_equal(o.pushed.to.interval_ns, 30000000000ULL);
	assert_string_equal(o.pushed.to.ca_file, "/etc/eacgm/ca.pem");
	assert_int_equal(args_count(&a, "otlp-header"), 2);
	assert_true(o.pushed.profiles && agent_options_profiles(&o));
	assert_string_equal(servers[PROFILE_PYROSCOPE].url, "http://pyroscope:4040");
	assert_string_equal(args_get(&a, "pprof-header"), "X-Scope-OrgID=8");
	assert_string_equal(servers[PROFILE_PYROSCOPE].ca_file, "/etc/eacgm/other.pem");
	assert_string_equal(servers[PROFILE_PARCA].url, "https://parca:7070");
	assert_string_equal(args_get(&a, "parca-header"), "X-Tenant=9");
	assert_string_equal(servers[PROFILE_PARCA].ca_file, "/etc/eacgm/third.pem");
	assert_int_equal(o.profiled.interval_ns, 20000000000ULL);
	assert_string_equal(args_nth(&a, "otlp-header", 0), "Authorization=Bearer a=b");
	assert_string_equal(o.stored.path, "/var/lib/eacgm/agent.db");
	assert_int_equal(o.stored.keep_s, 3 * 86400);
	assert_int_equal(o.stored.most_bytes, 5000000);
	assert_int_equal(args_count(&a, "pid"), 2);
	assert_string_equal(args_nth(&a, "pid", 1), "13");
	assert_string_equal(args_get(&a, "layers"), "cuda,nccl");
	assert_int_equal(args_count(&a, "probe"), 2);
	assert_string_equal(args_get(&a, "catalog"), "/etc/eacgm/more.yaml");
	assert_true(args_has(&a, "everything"));
	assert_int_equal(args_count(&a, "rule"), 2);
	assert_string_equal(args_nth(&a, "rule", 0),
			    "command=python3 *serve*;cgroup=/kubepods/*;user=1000;trace=false");
	assert_string_equal(args_nth(&a, "rule", 1), "command=*train*;layers=cuda,nccl");
	args_free(&a);
	agent_config_free(&c);
}

static void nothing_told(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "# nothing\n", "---\n", "{}", "dcgm: true\n"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct agent_config c;
		struct agent_options o;
		struct args a;
		read_both(&o, &a, &c, texts[i], 0, NULL);
		assert_string_equal(o.where.address, "127.0.0.1");
		assert_true(o.where.port == 9477 && o.budget == 0.01 && o.dcgm && !o.detects);
		assert_true(o.own_budget == 0.005);
		assert_null(o.frozen.folder);
		assert_int_equal(o.peers.len, 0);
		assert_null(o.pushed.to.url);
		assert_false(agent_options_profiles(&o));
		assert_true(o.owners.kubelet_usual && o.owners.runtime_usual);
		assert_string_equal(o.owners.kubelet,
				    "/var/lib/kubelet/pod-resources/kubelet.sock");
		assert_null(o.owners.hpc_folder);
		args_free(&a);
		agent_config_free(&c);
	}
}

/* Beside a detector there is none where no budget is told, nor is there where all calls are wanted.
 */
static void the_own_budget(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		double budget, own_budget;
	} cases[] = {
		{"detect: true\n", 0, 0},
		{"detect: true\nbudget: 2%\n", 0.02, 0.005},
		{"detect: true\nown_budget: 2%\n", 0, 0.02},
		{"budget: 100%\n", 1, 0},
		{"budget: 100%\nown_budget: 0.7\n", 1, 0.007},
		{"own_budget: 100%\n", 0.01, 1},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agent_config c;
		struct agent_options o;
		struct args a;
		read_both(&o, &a, &c, cases[i].text, 0, NULL);
		assert_true(o.budget == cases[i].budget);
		assert_true(fabs(o.own_budget - cases[i].own_budget) < 1e-9);
		args_free(&a);
		agent_config_free(&c);
	}
}

static void the_command_line_wins(void **state)
{
	(void)state;
	char *words[] = {"--listen", "127.0.0.1:1", "--budget", "2%",	  "--all",
			 "--layers", "torch",	    "--freeze", "/tmp/x", "--probe=libx.so:y"};
	struct agent_config c;
	struct agent_options o;
	struct args a;
	read_both(&o, &a, &c, whole, 10, words);
	assert_int_equal(o.where.port, 1);
	assert_true(o.budget == 0.02 && o.detects);
	assert_true(args_has(&a, "all") && !args_has(&a, "pid"));
	assert_string_equal(args_get(&a, "layers"), "torch");
	assert_int_equal(args_count(&a, "probe"), 1);
	assert_string_equal(o.frozen.folder, "/tmp/x");
	assert_int_equal(o.frozen.most_files, 7); /* not told there */
	args_free(&a);
	agent_config_free(&c);
}

static void targets(void **state)
{
	(void)state;
	static const char *const texts[] = {"target: all", "target: {all: true}"};
	for (size_t i = 0; i < 2; i++) {
		struct agent_config c;
		parse_ok(&c, texts[i]);
		assert_int_equal(c.values.len, 1);
		assert_string_equal(c.values.data[0].def->name, "all");
		agent_config_free(&c);
	}
	fails("target: some\n", "a.yaml:1:9: target: expected 'all', or one of the keys pid and "
				"cgroup");
	fails("target:\n  pid: 1\n  cgroup: /x\n",
	      "a.yaml:3:11: target.cgroup: cannot stand beside target.pid in line 2");
}

static void keys(void **state)
{
	(void)state;
	fails("listn: x\n", "a.yaml:1:1: listn: unknown key, did you mean 'listen'?");
	fails("freeze:\n  colour: x\n",
	      "a.yaml:2:3: freeze.colour: unknown key (known: folder, before, after, memory_mb, "
	      "files, max_bytes, max_age)");
	fails("folder: x\n", "a.yaml:1:1: folder: unknown key (known: listen, tls, token_file, "
			     "target, layers, probes, "
			     "catalogs, everything, rules, budget, own_budget, detect, "
			     "alarms_per_hour, least_effect, "
			     "freeze, peers, otlp, pprof, parca, profile_interval, store, "
			     "kubernetes, "
			     "hpc_job_mapping_dir, labels, label_env, dcgm, duration)");
	fails("freeze.folder: x\n",
	      "a.yaml:1:1: freeze.folder: unknown key (known: listen, tls, token_file, target, "
	      "layers, probes, catalogs, everything, rules, budget, own_budget, detect, "
	      "alarms_per_hour, least_effect, freeze, peers, otlp, pprof, parca, profile_interval, "
	      "store, "
	      "kubernetes, hpc_job_mapping_dir, labels, label_env, "
	      "dcgm, duration)");
	fails("budget: 1%\nlayers: all\nbudget: 2%\n",
	      "a.yaml:3:1: budget: given twice (first in line 1)");
}

static void values(void **state)
{
	(void)state;
	fails("own_budget: 0.01\n",
	      "a.yaml:1:13: own_budget: '0.01' is not a percentage from 0.1 to 100");
	fails("budget: much\n", "a.yaml:1:9: budget: 'much' is not a percentage from 0.1 to 100");
	fails("listen: localhost:1\n",
	      "a.yaml:1:9: listen: 'localhost' is no address, as 127.0.0.1 or [::1]");
	fails("listen: 127.x.example:1\n",
	      "a.yaml:1:9: listen: '127.x.example' is no address, as 127.0.0.1 or [::1]");
	fails("freeze:\n  memory_mb: 0\n",
	      "a.yaml:2:14: freeze.memory_mb: takes a number of 1 to 1024, not '0'");
	fails("freeze: {before: 2h}", "a.yaml:1:18: freeze.before: takes a time of 0 to 600 s, as "
				      "1.5, 20ms or 3m, not '2h'");
	fails("alarms_per_hour: -1\n",
	      "a.yaml:1:18: alarms_per_hour: takes a number of 1e-06 to 3600, not '-1'");
	fails("otlp:\n  url: collector:4318\n",
	      "a.yaml:2:8: otlp.url: 'collector:4318' is no http://HOST:PORT or "
	      "https://HOST:PORT");
	fails("otlp: {interval: 10ms}\n",
	      "a.yaml:1:18: otlp.interval: takes a time of 1 to 3600 s, "
	      "as 1.5, 20ms or 3m, not '10ms'");
	fails("otlp:\n  headers: [X-A=1, X-B]\n",
	      "a.yaml:2:20: otlp.headers: 'X-B' is no NAME=VALUE");
	fails("otlp:\n  headers: Content-Type=x\n",
	      "a.yaml:2:12: otlp.headers: 'Content-Type' is set by eacgm itself");
	fails("pprof:\n  url: ftp://x\n",
	      "a.yaml:2:8: pprof.url: 'ftp://x' is no http://HOST:PORT or "
	      "https://HOST:PORT");
	fails("peers:\n  urls: [http://x, node2]\n",
	      "a.yaml:2:20: peers.urls: 'node2' is no http://HOST:PORT or https://HOST:PORT");
	fails("otlp: http://x\n", "a.yaml:1:7: otlp: expected keys and values, found text");
	fails("kubernetes: {runtime_socket: cri.sock}\n",
	      "a.yaml:1:30: kubernetes.runtime_socket: 'cri.sock' is neither an absolute path nor "
	      "'off'");
	fails("dcgm: 1\n", "a.yaml:1:7: dcgm: takes true or false, not '1'");
	fails("detect: [true]\n", "a.yaml:1:9: detect: expected a value, found a list");
	fails("listen:\n", "a.yaml:1:8: listen: empty");
	fails("layers: []\n", "a.yaml:1:9: layers: empty list");
	fails("layers: [[cuda]]\n", "a.yaml:1:10: layers: expected a value, found a list");
	fails("freeze: /var\n", "a.yaml:1:9: freeze: expected keys and values, found text");
	fails("probes: {a: b}\n", "a.yaml:1:9: probes: expected a value, found keys and values");
	fails("listen: \"a\\nb\"\n", "a.yaml:1:9: listen: holds a control character");
	fails("listen: \"a\\0b\"\n", "a.yaml:1:9: listen: holds a control character");
}

#define NAME63 "a23456789_123456789_123456789_123456789_123456789_123456789_123"
#define NO_NAME                                                                                    \
	" does not begin with the name of a label: at most 63 letters, digits and '_', no "        \
	"digit first"

static void labels(void **state)
{
	(void)state;
	fails("labels: [team]\n", "a.yaml:1:9: labels: expected names and values, found a list");
	fails("labels: team\n", "a.yaml:1:9: labels: expected names and values, found text");
	fails("labels:\n  team: [a]\n", "a.yaml:2:9: labels: expected a value, found a list");
	fails("labels:\n  team: \"\"\n", "a.yaml:2:9: labels: empty");
	fails("labels: {a=b: c}\n", "a.yaml:1:10: labels: 'a=b' is no name");
	fails("labels: {ok: 1, 1st: x}\n", "a.yaml:1:17: labels: '1st=x'" NO_NAME);
	fails("labels: {a.b: x}\n", "a.yaml:1:10: labels: 'a.b=x'" NO_NAME);
	fails("labels: {" NAME63 "4: x}\n", "a.yaml:1:10: labels: '" NAME63 "4=x'" NO_NAME);
	fails("labels: {rank: 1}\n",
	      "a.yaml:1:10: labels: 'rank=1': the label 'rank' has a meaning already");
	fails("labels: {__name__: x}\n",
	      "a.yaml:1:10: labels: '__name__=x': the label '__name__' has a meaning already");
	fails("labels: {a: " NAME63 "4}\n",
	      "a.yaml:1:10: labels: the value of 'a=" NAME63 "4' is longer than 63 bytes");
	fails("label_env: [A, POD]\n",
	      "a.yaml:1:16: label_env: 'POD': the label 'pod' has a meaning already");
	fails("label_env: [\"a=B C\"]\n",
	      "a.yaml:1:13: label_env: 'a=B C' does not end with the name of a variable: at most "
	      "63 letters, digits and '_', no digit first");
	fails("label_env: \"=B\"\n", "a.yaml:1:12: label_env: '=B'" NO_NAME);
}

/* Of several of them together. */
static void labels_together(void **state)
{
	(void)state;
	struct agent_config c;
	struct agent_options o;
	struct args a;
	struct err e = {""};
	read_both(&o, &a, &c, "labels: {team: x}\nlabel_env: [TEAM]\n", 0, NULL);
	assert_int_equal(agent_options_check_labels(&o, &e), -EINVAL);
	assert_string_equal(e.msg, "--label-env: the label 'team' is given twice");
	args_free(&a);
	agent_config_free(&c);
	struct buf text = {0};
	buf_printf(&text, "label_env: [");
	for (int i = 0; i < CHOSEN_LABELS; i++)
		buf_printf(&text, "%sA%d", i ? ", " : "", i);
	buf_printf(&text, "]\n");
	char *fit = xasprintf("%.*s", (int)text.len, text.data),
	     *more = xasprintf("%slabels: {one: more}\n", fit);
	read_both(&o, &a, &c, fit, 0, NULL);
	assert_int_equal(o.labels.len, CHOSEN_LABELS);
	assert_int_equal(agent_options_check_labels(&o, &e), 0);
	args_free(&a);
	agent_config_free(&c);
	parse_ok(&c, more);
	agent_config_merge(&a, &(struct args){.command = &cmd_agent}, &c);
	assert_int_equal(agent_options_read(&o, &a, &e), -EINVAL);
	assert_string_equal(e.msg, "--label-env: 'A15' is one of more than 16 labels");
	args_free(&a);
	agent_config_free(&c);
	free(fit);
	free(more);
	buf_free(&text);
}

static void where_it_may_listen(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says; /* NULL: it may */
	} cases[] = {
		{"listen: 127.9.9.9:1\n", NULL},
		{"listen: \"[::1]:1\"\ntoken_file: /t\n", NULL},
		{"tls: {cert: /c, key: /k}\n", NULL},
		{"listen: 0.0.0.0:1\ntls: {cert: /c, key: /k}\ntoken_file: /t\n", NULL},
		{"listen: \"[::]:1\"\ntls: {cert: /c, key: /k}\n",
		 "--listen: '::' is no loopback address (127.0.0.1, [::1]): that wants --tls-cert, "
		 "--tls-key and --token-file"},
		{"listen: 10.0.0.1:1\ntoken_file: /t\n",
		 "--listen: '10.0.0.1' is no loopback address (127.0.0.1, [::1]): that wants "
		 "--tls-cert, --tls-key and --token-file"},
		{"tls: {key: /k}\n", "--tls-cert and --tls-key are given together, or neither"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agent_config c;
		struct agent_options o;
		struct args a;
		struct err e = {""};
		read_both(&o, &a, &c, cases[i].text, 0, NULL);
		assert_int_equal(agent_options_check_listen(&o, &e), cases[i].says ? -EINVAL : 0);
		assert_string_equal(e.msg, cases[i].says ? cases[i].says : "");
		args_free(&a);
		agent_config_free(&c);
	}
}

static void whom_it_may_tell(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says; /* NULL: it may */
	} cases[] = {
		{"freeze: {folder: /f}\npeers: {urls: http://node2:9477}\n", NULL},
		{"freeze: {folder: /f}\n"
		 "peers: {urls: [http://127.0.0.1:1, \"http://[::1]:1\", http://localhost:1, "
		 "https://node2], token_file: /t}\n",
		 NULL},
		{"freeze: {folder: /f}\npeers: {urls: [http://127.0.0.1:1, http://node2:9477], "
		 "token_file: /t}\n",
		 "--peer: 'http://node2:9477' would be told the token of --peer-token-file in "
		 "clear: give https://"},
		{"freeze: {folder: /f}\npeers: {urls: [http://a:1, http://b:1, http://a:1]}\n",
		 "--peer: 'http://a:1' is given twice"},
		{"peers: {urls: http://node2:9477}\n",
		 "--peer: nothing is frozen that it could be told of: give --freeze FOLDER"},
		{"peers: {ca: /c, token_file: /t}\n", NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agent_config c;
		struct agent_options o;
		struct args a;
		struct err e = {""};
		read_both(&o, &a, &c, cases[i].text, 0, NULL);
		assert_int_equal(agent_options_check_peers(&o, &e), cases[i].says ? -EINVAL : 0);
		assert_string_equal(e.msg, cases[i].says ? cases[i].says : "");
		args_free(&a);
		agent_config_free(&c);
	}
}

static void files(void **state)
{
	(void)state;
	fails("- a\n", "a.yaml:1:1: expected keys and values, found a list");
	fails("a\n", "a.yaml:1:1: expected keys and values, found text");
	fails("a: &x b\n",
	      "a.yaml:1:1: a: unknown key (known: listen, tls, token_file, target, layers, probes, "
	      "catalogs, everything, rules, budget, own_budget, detect, alarms_per_hour, "
	      "least_effect, "
	      "freeze, peers, otlp, pprof, parca, profile_interval, store, kubernetes, "
	      "hpc_job_mapping_dir, labels, label_env, dcgm, duration)");
	fails("listen: &x b\n", "a.yaml:1:9: anchors (&name) are not supported");
	fails("listen: *x\n", "a.yaml:1:9: aliases (*name) are not supported");
	fails("listen: !!str x\n", "a.yaml:1:9: tags (!name) are not supported");
	fails("dcgm: true\n---\ndcgm: true\n", "a.yaml:2:1: more than one document in the file");
	struct agent_config c;
	struct err e = {""};
	char *large = xcalloc(1, AGENT_CONFIG_BYTES + 1);
	memset(large, '#', AGENT_CONFIG_BYTES + 1);
	assert_int_equal(
		agent_config_parse(&c, &cmd_agent, large, AGENT_CONFIG_BYTES + 1, "a.yaml", &e),
		-EFBIG);
	assert_string_equal(e.msg, "a.yaml: larger than 65536 bytes");
	free(large);
	assert_int_equal(agent_config_load(&c, &cmd_agent, "/no/such.yaml", &e), -ENOENT);
	assert_string_equal(e.msg, "/no/such.yaml: No such file or directory");
	assert_true(agent_config_load(&c, &cmd_agent, "/", &e) < 0);
	assert_string_equal(e.msg, "/: cannot be read");
}

/* The text of a file of the sources, a zero behind it. */
static char *source(const char *name)
{
	const char *root = getenv("EACGM_SOURCE_ROOT");
	char *path = xasprintf("%s/%s", root ? root : ".", name);
	FILE *f = fopen(path, "re");
	char *text = xcalloc(1, 1 << 17);
	if (!f)
		fail_msg("%s: cannot be opened", path);
	assert_true(fread(text, 1, (1 << 17) - 1, f) < (1 << 17) - 1);
	fclose(f);
	free(path);
	return text;
}

static void the_pages_example(void **state)
{
	(void)state;
	struct agent_config c;
	struct err e = {""};
	char *page = source("docs/agent.md"), *shipped = source("deploy/agent.yaml");
	char *text = strstr(page, "# /etc/eacgm/agent.yaml\n"),
	     *end = text ? strstr(text, "```") : 0;
	assert_non_null(end);
	*end = 0;
	if (agent_config_parse(&c, &cmd_agent, text, strlen(text), "docs/agent.md", &e))
		fail_msg("%s", e.msg);
	agent_config_free(&c);
	/* it has every key, but those of another target */
	for (const struct opt_def *o = cmd_agent.options; o->name; o++) {
		char *key = xasprintf("%s:", o->name);
		if (strcmp(o->name, "config") != 0 && strncmp(o->name, "freeze", 6) != 0 &&
		    strncmp(o->name, "otlp-", 5) != 0 && strncmp(o->name, "pprof-", 6) != 0 &&
		    strncmp(o->name, "parca-", 6) != 0 && strncmp(o->name, "store", 5) != 0 &&
		    strncmp(o->name, "peer-", 5) != 0 && strncmp(o->name, "tls-", 4) != 0 &&
		    strcmp(o->name, "no-dcgm") != 0 && strcmp(o->name, "all") != 0) {
			char *at = key;
			while ((at = strchr(at, '-')))
				*at = '_';
			if (!strstr(text, key) && !strstr(text, o->name))
				fail_msg("the example has no %s", key);
		}
		free(key);
	}
	parse_ok(&c, shipped);
	agent_config_free(&c);
	free(page);
	free(shipped);
}

static void blame(void **state)
{
	(void)state;
	struct agent_config c;
	struct args given = {.command = &cmd_agent};
	struct err e = {"there is no layer 'x'"}, other = {"there is no process 7"};
	parse_ok(&c, "layers: [cuda, x]\ntarget: {pid: [6, 7]}\n");
	agent_config_blame(&c, &given, "layers", &e);
	assert_string_equal(e.msg, "a.yaml:1:10: layers: there is no layer 'x'");
	agent_config_blame(&c, &given, "pid", &other);
	assert_string_equal(other.msg, "a.yaml:2:19: target.pid: there is no process 7");
	struct err none = {"what"};
	agent_config_blame(&c, &given, "cgroup", &none);
	assert_string_equal(none.msg, "what");
	agent_config_free(&c);
}

static void fail_rules(const char *text, const char *says)
{
	char *says_all = xasprintf("a.yaml:%s", says);
	fails(text, says_all);
	free(says_all);
}

static void rules(void **state)
{
	(void)state;
	fail_rules("rules: x\n", "1:8: rules: expected a list, found text");
	fail_rules("rules: []\n", "1:8: rules: empty list");
	fail_rules("rules: [x]\n", "1:9: rules: expected keys and values, found text");
	fail_rules("rules:\n  - match: {comand: x}\n    trace: false\n",
		   "2:13: rules.match.comand: unknown key, did you mean 'command'?");
	fail_rules("rules:\n  - mode: stats\n",
		   "2:5: rules.mode: unknown key (known: match, trace, layers)");
	fail_rules("rules:\n  - match: {command: a}\n    trace: false\n"
		   "  - match: {command: b}\n    trace: false\n    trace: true\n",
		   "6:5: rules.trace: given twice (first in line 5)");
	fail_rules("rules: [{match: x, trace: false}]\n",
		   "1:17: rules.match: expected keys and values, found text");
	fail_rules("rules: [{match: {command: [a]}, trace: false}]\n",
		   "1:27: rules.match.command: expected a value, found a list");
	fail_rules("rules: [{match: {command: a;b}, trace: false}]\n",
		   "1:27: rules.match.command: holds a ';': of globs, '?' stands for it");
	fail_rules("rules: [{match: {cgroup: kubepods}, trace: false}]\n",
		   "1:26: rules.match.cgroup: 'kubepods' is no path as in /proc/PID/cgroup: it "
		   "begins with / or *");
	fail_rules("rules: [{match: {user: no-such-user}, trace: false}]\n",
		   "1:24: rules.match.user: there is no user 'no-such-user' on this host");
	fail_rules("rules: [{match: {command: a}, trace: no}]\n",
		   "1:38: rules.trace: takes true or false, not 'no'");
	fail_rules("rules: [{match: {command: a}, layers: []}]\n",
		   "1:39: rules.layers: empty list");
	fail_rules("rules:\n  - trace: false\n",
		   "2:5: rules: 'trace=false': says of no job: give at least one of command, "
		   "cgroup and user");
	fail_rules("rules:\n  - match: {command: a}\n",
		   "2:5: rules: 'command=a': says nothing: give trace or layers");
	fail_rules("rules:\n  - match: {command: a}\n    trace: false\n    layers: cuda\n",
		   "2:5: rules: 'command=a;trace=false;layers=cuda': has layers of what is not "
		   "traced");
}

static void bounds_of_rules(void **state)
{
	(void)state;
	struct agent_config c;
	struct buf text = {0};
	char *fit = xasprintf("rules: [{match: {command: %0127d}, trace: true}]\n", 0),
	     *more = xasprintf("rules: [{match: {command: %0128d}, trace: true}]\n", 0);
	parse_ok(&c, fit);
	agent_config_free(&c);
	fail_rules(more, "1:27: rules.match.command: longer than 127 bytes");
	free(fit);
	free(more);
	buf_printf(&text, "rules:\n");
	for (int i = 0; i < JOB_RULES_MOST; i++)
		buf_printf(&text, "  - {match: {command: a%d}, trace: false}\n", i);
	fit = xasprintf("%.*s", (int)text.len, (const char *)text.data);
	more = xasprintf("%s  - {}\n", fit);
	parse_ok(&c, fit);
	assert_int_equal(c.values.len, JOB_RULES_MOST);
	agent_config_free(&c);
	fail_rules(more, "66:5: rules: more than 64 rules");
	free(more);
	text.len = 0;
	buf_printf(&text, "probes: [");
	for (int i = 0; i < AGENT_CONFIG_VALUES; i++)
		buf_printf(&text, "%sa:b", i ? ", " : "");
	more = xasprintf("%.*s]\nrules:\n  - {match: {command: a}, trace: true}\n", (int)text.len,
			 (const char *)text.data);
	fail_rules(more, "3:5: rules: more than 512 values in the file");
	free(fit);
	free(more);
	buf_free(&text);
}

/* One of the command line, where cuda and nccl are traced. */
static void assert_rule(const char *text, uint32_t left_out, const char *says)
{
	const uint32_t layers = 1u << LAYER_CUDA | 1u << LAYER_NCCL;
	struct catalog none = {0};
	struct args a;
	struct job_rules r;
	struct err e = {""};
	char *words[] = {"--rule", (char *)text};
	assert_int_equal(args_parse(&a, &cmd_agent, 2, words, &e), 0);
	job_rules_init(&r);
	assert_int_equal(agent_rules_read(&r, &a, &none, layers, &e), *says ? -EINVAL : 0);
	assert_string_equal(e.msg, says);
	assert_int_equal(r.len, !*says);
	if (r.len)
		assert_int_equal(r.list[0].left_out, left_out);
	job_rules_free(&r);
	args_free(&a);
}

static void what_a_rule_leaves_out(void **state)
{
	(void)state;
	assert_rule("command=*;layers=cuda,nccl", ~(1u << LAYER_CUDA | 1u << LAYER_NCCL), "");
	assert_rule("command=*;trace=true;layers=nccl", ~(1u << LAYER_NCCL), "");
	assert_rule("user=0;trace=false", JOB_LEFT_ALONE, "");
	assert_rule("cgroup=/a/*;trace=true", 0, "");
	assert_rule("command=*;layers=cudda", 0,
		    "--rule: 'command=*;layers=cudda': there is no layer 'cudda'");
	assert_rule("command=*;layers=mpi", 0,
		    "--rule: 'command=*;layers=mpi': the layer 'mpi' is traced of no job");
	assert_rule("command=*;colour=red", 0,
		    "--rule: 'command=*;colour=red': colour: unknown (known: command, cgroup, "
		    "user, trace, layers)");
	assert_rule("command=a;command=b;trace=false", 0,
		    "--rule: 'command=a;command=b;trace=false': command: given twice");
	assert_rule("all", 0, "--rule: 'all': 'all' is no KEY=VALUE");
}

static void assert_changes(const char *was, const char *now, const char *taken, const char *anew,
			   bool listens)
{
	struct agent_options options;
	struct agent_config configs[2];
	struct args args[2];
	struct agent_changes c;
	char *none[] = {NULL};
	read_both(&options, &args[0], &configs[0], was, 0, none);
	read_both(&options, &args[1], &configs[1], now, 0, none);
	agent_changes_make(&c, &args[0], &args[1], !strcmp(anew, "--catalog"));
	assert_string_equal((const char *)c.taken.data, taken);
	assert_string_equal((const char *)c.anew.data, anew);
	assert_int_equal(c.listens, listens);
	assert_int_equal(agent_changes_any(&c.anew), anew[0] != 0);
	agent_changes_free(&c);
	for (int i = 0; i < 2; i++) {
		args_free(&args[i]);
		agent_config_free(&configs[i]);
	}
}

static void changes(void **unused)
{
	(void)unused;
	assert_changes("budget: 1%\n", "budget: 1%\n", "", "", false);
	assert_changes("budget: 1%\n", "budget: 1%\n", "", "--catalog", false);
	assert_changes("budget: 1%\n", "dcgm: false\n", "--budget, --no-dcgm", "", false);
	assert_changes("budget: 1%\ndetect: true\n", "budget: 2%\ndetect: true\n", "--budget", "",
		       false);
	assert_changes("detect: true\n", "budget: 2%\ndetect: true\n", "", "--budget", false);
	assert_changes("budget: 2%\ndetect: true\n", "detect: true\n", "", "--budget", false);
	assert_changes("budget: 1%\n", "own_budget: 1%\n", "--budget, --own-budget", "", false);
	assert_changes("budget: 1%\ndetect: true\n", "own_budget: 2%\ndetect: true\n",
		       "--budget, --own-budget", "", false);
	assert_changes("detect: true\n", "own_budget: 2%\ndetect: true\n", "", "--own-budget",
		       false);
	assert_changes("token_file: a\n", "token_file: b\n", "--token-file", "", true);
	assert_changes("token_file: a\n", "token_file: a\n", "", "", true);
	assert_changes("token_file: a\n", "layers: [cuda]\n", "--token-file", "--layers", true);
	assert_changes("layers: [cuda]\n", "layers: [cuda, nccl]\n", "", "--layers", false);
	assert_changes("budget: 1%\n", "rules: [{match: {user: 0}, trace: false}]\n", "--budget",
		       "--rule", false);
	assert_changes("labels: {a: b}\n", "labels: {a: c}\nlabel_env: X\n", "",
		       "--label, --label-env", false);
	assert_changes("otlp: {url: \"http://a:1\"}\n",
		       "otlp: {url: \"http://b:1\", headers: [\"a=b\"]}\n", "--otlp, --otlp-header",
		       "", false);
	assert_changes("otlp: {url: \"http://a:1\"}\n", "detect: false\n", "", "--otlp", false);
	assert_changes("store: {file: a, keep_days: 2}\n", "store: {file: b, keep_days: 3}\n",
		       "--store-keep", "--store", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key),
		cmocka_unit_test(nothing_told),
		cmocka_unit_test(the_own_budget),
		cmocka_unit_test(the_command_line_wins),
		cmocka_unit_test(targets),
		cmocka_unit_test(keys),
		cmocka_unit_test(values),
		cmocka_unit_test(labels),
		cmocka_unit_test(labels_together),
		cmocka_unit_test(where_it_may_listen),
		cmocka_unit_test(whom_it_may_tell),
		cmocka_unit_test(rules),
		cmocka_unit_test(bounds_of_rules),
		cmocka_unit_test(what_a_rule_leaves_out),
		cmocka_unit_test(files),
		cmocka_unit_test(blame),
		cmocka_unit_test(the_pages_example),
		cmocka_unit_test(changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
