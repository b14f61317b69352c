/* nics_test.c - what network interfaces and the kernel's network moved and dropped, from files of
 * the test's making.
 *
 * links: base collect symbolize */
#include "fake_host.h"

#define COLLECTOR collector_nics
#define HEAD                                                                                       \
	"Inter-|   Receive                                                |  Transmit\n"           \
	" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs " \
	"drop fifo colls carrier compressed\n"

static void interfaces_that_work(void **state)
{
	(void)state;
	assert_null(fake_open(&COLLECTOR));
	put("net/dev", HEAD "    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
			    "  eth0:1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("");
	put("net/dev", HEAD "    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
			    "  eth1: 7 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"
			    "  eth0:3000 12 2 4 0 0 0 0 2500 25 8 6 0 0 0 0\n");
	COLLECTOR.read(c, 3 * S);
	expect("interface eth0 received_bytes_per_s 1000\ninterface eth0 sent_bytes_per_s 250\n"
	       "interface eth0 drops_per_s 5\ninterface eth0 errors_per_s 5\n");
	COLLECTOR.read(c, 3 * S + 1 * MS);
	expect("");
	put("net/dev", HEAD "  eth0:30 12 2 4 0 0 0 0 2500 25 8 6 0 0 0 0\n"); /* another one */
	COLLECTOR.read(c, 4 * S);
	expect("");
	put("net/dev", HEAD "  eth0:30 12 2 4 0 0 0 0 2500 25 8 6 0 0 0 0\n"
			    "    lo: 5 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n");
	COLLECTOR.read(c, 5 * S); /* lo was away */
	expect("interface eth0 received_bytes_per_s 0\ninterface eth0 sent_bytes_per_s 0\n"
	       "interface eth0 drops_per_s 0\ninterface eth0 errors_per_s 0\n");
	COLLECTOR.close(c);
}

static void link_to(const char *name, const char *target)
{
	char path[256];
	fake_path(path, name);
	unlink(path);
	assert_int_equal(symlink(target, path), 0);
}

static void another_namespace_of_the_job(void **state)
{
	(void)state;
	put("net/dev", HEAD "  eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("7/net/dev", HEAD "  eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("8/net/dev", HEAD "  eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	link_to("self/ns/net", "net:[1]");
	link_to("7/ns/net", "net:[2]");
	link_to("8/ns/net", "net:[1]");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.add_pid(c, 8, true);
	COLLECTOR.read(c, 1 * S);
	put("net/dev", HEAD "  eth0: 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("7/net/dev", HEAD "  eth0: 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put("8/net/dev", HEAD "  eth0: 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	COLLECTOR.read(c, 2 * S);
	expect("interface eth0 received_bytes_per_s 1\ninterface eth0 sent_bytes_per_s 0\n"
	       "interface eth0 drops_per_s 0\ninterface eth0 errors_per_s 0\n"
	       "interface eth0 of pid 7 received_bytes_per_s 9\n"
	       "interface eth0 of pid 7 sent_bytes_per_s 0\n"
	       "interface eth0 of pid 7 drops_per_s 0\ninterface eth0 of pid 7 errors_per_s 0\n");
	COLLECTOR.del_pid(c, 7); /* the other is where we are */
	COLLECTOR.read(c, 3 * S);
	assert_null(strstr(told, "of pid"));
	COLLECTOR.del_pid(c, 8);
	COLLECTOR.read(c, 4 * S);
	assert_null(strstr(told, "of pid"));
	COLLECTOR.close(c);
}

static void of_the_host(void **state)
{
	(void)state;
	put("net/dev", HEAD);
	put("net/snmp", "Ip: Forwarding\nIp: 2\n"
			"Tcp: RtoAlgorithm MaxConn InSegs RetransSegs InErrs\nTcp: 1 -1 5 26 7\n"
			"Udp: RetransSegs\nUdp: 3\n");
	put("net/softnet_stat", "00005af6 0000000a 00000001 0\n00005af6 00000001 000000ff 0\n");
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	expect("");
	put("net/snmp", "Tcp: MaxConn RetransSegs\nTcp: -1 30\n");
	put("net/softnet_stat", "00005af6 0000000b 00000001 0\n00005af6 00000002 00000103 0\n");
	COLLECTOR.read(c, 3 * S);
	expect("host tcp_retransmits_per_s 2\nhost softnet_drops_per_s 1\n"
	       "host softnet_squeezed_per_s 2\n");
	put("net/snmp", "Tcp: MaxConn RetransSegs\nTcp: -1 3\n");
	/* one wraps while the other grows */
	put("net/softnet_stat", "00005af6 00000000 00000001 0\n00005af6 00000009 00000103 0\n");
	COLLECTOR.read(c, 4 * S);
	expect("host softnet_squeezed_per_s 0\n");
	COLLECTOR.close(c);
}

static void put_netstat(const char *name, const char *overflows, unsigned drops)
{
	put(name,
	    "MPTcpExt: ListenOverflows ListenDrops\nMPTcpExt: 70 71\n"
	    "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits\nTcpExt: 1 %s %u 9\n"
	    "IpExt: ListenOverflows ListenDrops\nIpExt: 5 6\n",
	    overflows, drops);
}

/* Of the namespace that eACGM is in, and of the job's. */
static void connections_that_nobody_accepts(void **state)
{
	(void)state;
	put("net/dev", HEAD);
	put("7/net/dev", HEAD);
	link_to("self/ns/net", "net:[1]");
	link_to("7/ns/net", "net:[2]");
	put_netstat("net/netstat", "18446744073709551610", 5);
	put_netstat("7/net/netstat", "0", 0);
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.read(c, 1 * S);
	put_netstat("net/netstat", "18446744073709551614", 15);
	COLLECTOR.read(c, 3 * S);
	expect("host tcp_listen_overflows_per_s 2\nhost tcp_listen_drops_per_s 5\n");
	put_netstat("net/netstat", "3", 17); /* one wraps */
	COLLECTOR.read(c, 4 * S);
	expect("host tcp_listen_drops_per_s 2\n");
	put_netstat("net/netstat", "x", 90); /* one is no number: neither is known */
	COLLECTOR.read(c, 5 * S);
	put_netstat("net/netstat", "10", 90);
	COLLECTOR.read(c, 6 * S);
	put("net/netstat", "%s", "");
	COLLECTOR.add_pid(c, 7, true);
	COLLECTOR.read(c, 7 * S);
	expect("");
	put_netstat("7/net/netstat", "8", 12);
	COLLECTOR.read(c, 9 * S);
	expect("pid 7 tcp_listen_overflows_per_s 4\npid 7 tcp_listen_drops_per_s 6\n");
	COLLECTOR.del_pid(c, 7);
	for (uint64_t i = 0; i < 5; i++) /* where the job is is looked at less often */
		COLLECTOR.read(c, (10 + i) * S);
	told[0] = 0;
	COLLECTOR.read(c, 20 * S);
	expect("");
	COLLECTOR.close(c);
}

static void netstat_that_may_not_be_read(void **state)
{
	static const char *const secret[] = {"net/netstat"};
	(void)state;
	put("net/dev", HEAD "  eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
	put_netstat("net/netstat", "0", 0);
	forbid(secret, 1);
	be_nobody();
	void *c = fake_open(&COLLECTOR);
	assert_non_null(c);
	COLLECTOR.read(c, 1 * S);
	COLLECTOR.read(c, 2 * S);
	expect("");
	be_oneself();
	COLLECTOR.close(c);
}

#define LONG_NAME "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void odd_text_is_left_out(void **state)
{
	static const char *const odd[] = {
		"\n",
		":\n: \n  :1 2\neth0\neth0:\neth0 : 1 2 3 4 5 6 7 8 9 10 11 12\n",
		"eth0: 1 2 3 4 5 6 7 8 9 10 11\nTcp:",
		"eth0: 1 2 3 4 5 6 7 8 9 10 11 -12\nTcp: RetransSegs",
		"Tcp: RetransSegs\nTcp:\n",
		"Tcp: RetransSegs\nTcp: x\n",
		"Tcp: A RetransSegs\nTcp: 5\n",
		"Tcp: RetransSegs\nUdp: 5\n",
		"eth0: 99999999999999999999 2 3 4 5 6 7 8 9 10 11 12\n",
		"00000001 00000002\n",
		"TcpExt: ListenOverflows ListenDrops\n",
		"TcpExt: ListenOverflows ListenDrops\nTcpExt: 5\n",
		"TcpExt: ListenOverflows\nTcpExt: 5\n",
		"\nTcpExt: ListenDrops ListenOverflows\nIpExt: 5 5\n",
		(LONG_NAME ": 1 2 3 4 5 6 7 8 9 10 11 12\n"),
		"Tcp: RetransSegs\nTcp: 99999999999999999999999\n",
	};
	char path[256];
	(void)state;
	put("net/dev", "\n");
	fake_path(path, "9/ns/net/folder"); /* is no link */
	void *c = fake_open(&COLLECTOR);
	COLLECTOR.add_pid(c, 9, true);
	for (size_t i = 0; i < 2 * sizeof(odd) / sizeof(odd[0]); i++) {
		put("net/dev", "%s", odd[i / 2]);
		put("net/snmp", "%s", odd[i / 2]);
		put("net/softnet_stat", "%s", odd[i / 2]);
		put("net/netstat", "%s", odd[i / 2]);
		COLLECTOR.read(c, (i + 1) * S);
	}
	drop("net/dev");
	COLLECTOR.read(c, 90 * S);
	expect("");
	COLLECTOR.close(c);
}

/* Of very many interfaces some are told. */
static void there_is_a_bound(void **state)
{
	char path[256];
	void *c = NULL;
	(void)state;
	for (unsigned read = 1; read < 4; read++) {
		fake_path(path, "net/dev");
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		for (int i = 0; i < 30000; i++)
			fprintf(f, " veth%d: %u 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", i, read);
		fclose(f);
		if (!c)
			c = fake_open(&COLLECTOR);
		told[0] = 0;
		COLLECTOR.read(c, read * S);
	}
	size_t lines = 0;
	for (const char *at = told; (at = strstr(at, "drops")); at++)
		lines++;
	assert_int_equal(lines, 64);
	COLLECTOR.close(c);
}

/* Each read has other names, which move something in the one after it. */
static void what_went_leaves_its_place(void **state)
{
	char name[32];
	(void)state;
	put("net/dev", HEAD);
	void *c = fake_open(&COLLECTOR);
	for (uint64_t i = 0; i < 1200; i++) {
		snprintf(name, sizeof(name), "veth%04u", (unsigned)i / 2);
		put("net/dev", HEAD "  %s: %u 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", name,
		    (unsigned)i % 2);
		told[0] = 0;
		COLLECTOR.read(c, (i + 1) * S);
	}
	assert_non_null(strstr(told, "interface veth0599 received_bytes_per_s 1"));
	COLLECTOR.close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(interfaces_that_work, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(another_namespace_of_the_job, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(of_the_host, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(connections_that_nobody_accepts, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(netstat_that_may_not_be_read, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(odd_text_is_left_out, fake_host_make,
						fake_host_remove),
		cmocka_unit_test_setup_teardown(there_is_a_bound, fake_host_make, fake_host_remove),
		cmocka_unit_test_setup_teardown(what_went_leaves_its_place, fake_host_make,
						fake_host_remove),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
