/* notify_test.c - what a service's manager is told, and what happens where there is none.
 * links: cli base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/notify.h"

static char name[64];

static int manager(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(name, sizeof(name), "@eacgm-notify-%d", (int)getpid());
	memcpy(a.sun_path, name, strlen(name));
	a.sun_path[0] = 0;
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void told(int fd, const char *what)
{
	char text[256] = "";
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
	assert_string_equal(n > 0 ? text : "", what);
}

static void states(void **state)
{
	(void)state;
	struct notify n;
	int fd = manager();
	unsetenv("WATCHDOG_USEC");
	notify_open(&n);
	notify_state(&n, "READY=1", "attached");
	told(fd, "READY=1\nSTATUS=attached");
	notify_state(&n, "STOPPING=1", "");
	told(fd, "STOPPING=1");
	notify_alive(&n, 1000000000000);
	told(fd, ""); /* nobody asked */
	close(fd);
	notify_state(&n, "READY=1", ""); /* nobody is there */
	notify_close(&n);
}

static void watchdog(void **state)
{
	(void)state;
	struct notify n;
	char pid[16];
	int fd = manager();
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_USEC", "10000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	notify_open(&n);
	notify_alive(&n, 100000000000);
	told(fd, "WATCHDOG=1");
	notify_alive(&n, 104999999999);
	told(fd, "");
	notify_alive(&n, 105000000000); /* half of the time that there is */
	told(fd, "WATCHDOG=1");
	notify_close(&n);
	setenv("WATCHDOG_PID", "1", 1); /* another's */
	notify_open(&n);
	notify_alive(&n, 100000000000);
	told(fd, "");
	notify_close(&n);
	close(fd);
	unsetenv("WATCHDOG_PID");
}

static void nobody(void **state)
{
	(void)state;
	static const char *const names[] = {"", "@", "/", "x", "/no/such", "vsock:2:1"};
	struct notify n;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv("NOTIFY_SOCKET", names[i], 1);
		notify_open(&n);
		assert_int_equal(n.fd, -1);
		notify_state(&n, "READY=1", "x");
		notify_close(&n);
	}
	unsetenv("NOTIFY_SOCKET");
	notify_open(&n);
	assert_int_equal(n.fd, -1);
	notify_close(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(states), cmocka_unit_test(watchdog),
					   cmocka_unit_test(nobody)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
