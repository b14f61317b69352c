/* pods_test.c - whose containers and GPUs are: answers of the kubelet and the container runtime,
 * what is wrong with them, servers that do not answer, and the folder of a cluster's jobs.
 *
 * links: pods base */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pods/grpc_call.h"
#include "pods/hpc_jobs.h"
#include "pods/pod_answers.h"

#define ID  "1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a"
#define UID "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"

/* ---- messages by hand ---- */

static void put_varint(struct buf *b, size_t n)
{
	for (; n > 0x7f; n >>= 7)
		buf_byte(b, (uint8_t)(n | 0x80));
	buf_byte(b, (uint8_t)n);
}

static void put(struct buf *b, unsigned number, const void *value, size_t n)
{
	put_varint(b, number << 3 | 2);
	put_varint(b, n);
	buf_add(b, value, n);
}

static void put_text(struct buf *b, unsigned number, const char *text)
{
	put(b, number, text, strlen(text));
}

static void put_inner(struct buf *b, unsigned number, struct buf *inner)
{
	put(b, number, inner->data, inner->len);
	buf_free(inner);
}

static void put_label(struct buf *container, const char *key, const char *value)
{
	struct buf entry = {0};
	put_text(&entry, 1, key);
	put_text(&entry, 2, value);
	put_inner(container, 8, &entry);
}

static void put_container(struct buf *answer, const char *id, const char *pod, const char *space,
			  const char *uid, const char *name)
{
	struct buf c = {0};
	put_text(&c, 1, id);
	put_label(&c, "io.kubernetes.pod.name", pod);
	put_label(&c, "io.kubernetes.pod.namespace", space);
	put_label(&c, "io.kubernetes.pod.uid", uid);
	put_label(&c, "io.kubernetes.container.name", name);
	put_label(&c, "app", "Any thing");
	put_inner(answer, 1, &c);
}

static void put_pod(struct buf *answer, const char *name, const char *resource, const char *device)
{
	struct buf devices = {0}, container = {0}, pod = {0};
	put_text(&devices, 1, resource);
	put_text(&devices, 2, device);
	put_text(&container, 1, "main");
	put_inner(&container, 2, &devices);
	put_text(&pod, 1, name);
	put_text(&pod, 2, "ml");
	put_inner(&pod, 3, &container);
	put_inner(answer, 1, &pod);
}

/* ---- answers ---- */

static void read_containers(struct pod_containers *c, struct buf *answer)
{
	assert_true(pod_containers_read(c, answer->data, answer->len));
	buf_free(answer);
}

static void containers_by_number_and_by_pod(void **unused)
{
	(void)unused;
	struct buf b = {0};
	struct pod_containers c;
	struct pod_names room;
	put_container(&b, ID, "train-0", "ml", UID, "trainer");
	read_containers(&c, &b);
	const struct pod_names *n = pod_containers_find(&c, ID, "", &room);
	assert_string_equal(n->pod, "train-0");
	assert_string_equal(n->pod_namespace, "ml");
	assert_string_equal(n->container, "trainer");
	n = pod_containers_find(&c, "", UID, &room); /* another of its containers */
	assert_string_equal(n->pod, "train-0");
	assert_string_equal(n->container, "");
	assert_null(pod_containers_find(&c, "", "", &room));
	assert_null(pod_containers_find(&c, "2" ID, "1" UID, &room));
	pod_containers_free(&c);
}

/* Names that are none by Kubernetes's rules are not told further, whoever says them. */
static void names_that_are_none(void **unused)
{
	(void)unused;
	char pod[256], space[65];
	struct buf b = {0};
	struct pod_containers c;
	struct pod_names room;
	memset(pod, 'p', sizeof(pod));
	memset(space, 's', sizeof(space));
	pod[254] = pod[255] = space[64] = 0;
	put_container(&b, ID, pod, "ml", UID, "x"); /* too long by one */
	put_container(&b, ID, "evil\"} 1\n", "ml", UID, "x");
	put_container(&b, ID, "Upper", "ml", UID, "x");
	put_container(&b, ID "a", "long-number", "ml", UID, "x");
	put_container(&b, "short", "short-number", "ml", UID, "x");
	read_containers(&c, &b);
	assert_int_equal(c.list.len, 0);
	pod[253] = 0;
	put_container(&b, ID, pod, space, "no uid", "with space");
	read_containers(&c, &b);
	const struct pod_names *n = pod_containers_find(&c, ID, "", &room);
	assert_string_equal(n->pod, pod);
	assert_string_equal(n->pod_namespace, "");
	assert_string_equal(n->container, "");
	assert_null(pod_containers_find(&c, "", "no uid", &room));
	pod_containers_free(&c);
}

static void devices_of_nvidia(void **unused)
{
	(void)unused;
	struct buf b = {0};
	struct pod_devices d;
	put_pod(&b, "first", "nvidia.com/gpu", "GPU-1");
	put_pod(&b, "shares", "nvidia.com/gpu", "GPU-2::3");
	put_pod(&b, "slice", "nvidia.com/mig-1g.5gb", "MIG-3");
	put_pod(&b, "gke", "nvidia.com/gpu", "nvidia0/vgpu1");
	put_pod(&b, "nic", "example.com/nic", "GPU-4");
	put_pod(&b, "evil", "nvidia.com/gpu", "GPU-5\"\n");
	put_pod(&b, "nobody", "nvidia.com/gpu", "::");
	put_pod(&b, "second", "nvidia.com/gpu", "GPU-1");
	assert_true(pod_devices_read(&d, b.data, b.len));
	assert_int_equal(d.list.len, 5);
	assert_string_equal(pod_devices_find(&d, "GPU-1")->pod, "second"); /* the last one */
	assert_string_equal(pod_devices_find(&d, "GPU-2")->pod, "shares");
	assert_string_equal(pod_devices_find(&d, "MIG-3")->container, "main");
	assert_string_equal(pod_devices_find(&d, "nvidia0")->pod_namespace, "ml");
	assert_null(pod_devices_find(&d, "GPU-4"));
	pod_devices_free(&d);
	for (size_t n = 0; n < b.len; n++) { /* cut anywhere */
		uint8_t *cut = malloc(n + 1);
		memcpy(cut, b.data, n);
		if (pod_devices_read(&d, cut, n))
			pod_devices_free(&d);
		free(cut);
	}
	buf_free(&b);
}

static void more_than_there_is_room_for(void **unused)
{
	(void)unused;
	char id[65];
	struct buf b = {0};
	struct pod_containers c;
	struct pod_devices d;
	for (unsigned i = 0; i < POD_CONTAINERS + 10; i++) {
		snprintf(id, sizeof(id), "%064x", i);
		put_container(&b, id, "p", "n", UID, "c");
	}
	read_containers(&c, &b);
	assert_int_equal(c.list.len, POD_CONTAINERS);
	pod_containers_free(&c);
	for (unsigned i = 0; i < POD_DEVICES + 10; i++)
		put_pod(&b, "p", "nvidia.com/gpu", "GPU-1");
	assert_true(pod_devices_read(&d, b.data, b.len));
	assert_int_equal(d.list.len, POD_DEVICES);
	pod_devices_free(&d);
	buf_free(&b);
	for (size_t i = 0; i < (4u << 20); i++) /* few bytes each, and a large tree */
		put_text(&b, 1, "");
	assert_false(pod_devices_read(&d, b.data, b.len));
	assert_false(pod_containers_read(&c, b.data, b.len));
	assert_int_equal(c.list.len + d.list.len, 0);
	buf_free(&b);
}

static void questions(void **unused)
{
	(void)unused;
	struct buf b = {0};
	pod_devices_question(&b);
	assert_int_equal(b.len, 0);
	pod_containers_question(&b); /* filter { state { state: CONTAINER_RUNNING } } */
	assert_int_equal(b.len, 6);
	assert_memory_equal(b.data, "\x0a\x04\x12\x02\x08\x01", 6);
	buf_free(&b);
}

/* ---- servers ---- */

struct server {
	char path[64];
	int fd;
	pthread_t thread;
	void (*does)(int fd);
	bool runs;
};

static void *serve(void *arg)
{
	struct server *s = arg;
	int fd = accept(s->fd, NULL, NULL);
	if (fd >= 0)
		s->does(fd);
	close(fd);
	return NULL;
}

/* does NULL: it does not accept. */
static void server_open(struct server *s, void (*does)(int fd))
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	*s = (struct server){.does = does, .runs = does != NULL};
	snprintf(s->path, sizeof(s->path), "/tmp/eacgm-pods-%d.sock", getpid());
	strcpy(at.sun_path, s->path);
	unlink(s->path);
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->fd >= 0 && !bind(s->fd, (struct sockaddr *)&at, sizeof(at)) &&
		    !listen(s->fd, 1));
	if (does)
		assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_close(struct server *s)
{
	if (s->runs)
		pthread_join(s->thread, NULL);
	close(s->fd);
	unlink(s->path);
}

static int call(const char *path, uint64_t most_ns, int stop_fd, struct err *e)
{
	struct buf answer = {0};
	int status;
	const struct grpc_question q = {.socket = path,
					.method = "/v1.PodResourcesLister/List",
					.most_ns = most_ns,
					.most_bytes = 1000,
					.stop_fd = stop_fd};
	int rc = grpc_call(&answer, &status, &q, e);
	assert_true(rc < 0 && e->msg[0] && status == -1);
	assert_int_equal(answer.len, 0);
	buf_free(&answer);
	return rc;
}

static void wait_for_end(int fd)
{
	char byte[256];
	while (read(fd, byte, sizeof(byte)) > 0)
		;
}

static void junk(int fd)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
	assert_true(send(fd, text, sizeof(text), MSG_NOSIGNAL) > 0);
	wait_for_end(fd);
}

/* A frame of settings (RFC 9113, 6.5), then frames of a kind that nobody knows, as fast as they are
 * taken: they are to be ignored. */
static void frames_without_end(int fd)
{
	static const uint8_t settings[9] = {0, 0, 0, 4}, unknown[9 + 16384] = {0, 0x40, 0, 0x20};
	ssize_t n = send(fd, settings, sizeof(settings), MSG_NOSIGNAL);
	while (n > 0)
		n = send(fd, unknown, sizeof(unknown), MSG_NOSIGNAL);
}

static void servers_that_do_not_answer(void **unused)
{
	(void)unused;
	struct server s;
	struct err e = {""};
	char path[300];
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[299] = 0;
	assert_int_equal(call("/tmp/eacgm-no-such.sock", 1000000000, -1, &e), -ENOENT);
	assert_int_equal(call(path, 1000000000, -1, &e), -ENAMETOOLONG);
	assert_int_equal(call("/tmp", 1000000000, -1, &e), -ECONNREFUSED);

	server_open(&s, NULL);
	uint64_t before_ns = monotonic_ns();
	assert_int_equal(call(s.path, 50000000, -1, &e), -ETIMEDOUT);
	assert_true(monotonic_ns() - before_ns >= 50000000);
	assert_string_equal(e.msg, "no answer within 50 ms");
	server_close(&s);

	server_open(&s, wait_for_end);
	assert_int_equal(call(s.path, 50000000, -1, &e), -ETIMEDOUT);
	server_close(&s);
	server_open(&s, junk);
	assert_int_equal(call(s.path, 60000000000, -1, &e), -EPROTO);
	server_close(&s);
	server_open(&s, frames_without_end);
	assert_int_equal(call(s.path, 60000000000, -1, &e), -EMSGSIZE);
	server_close(&s);
}

static void one_that_is_given_up(void **unused)
{
	(void)unused;
	struct server s;
	struct err e = {""};
	int stop = eventfd(1, EFD_CLOEXEC);
	server_open(&s, NULL);
	assert_int_equal(call(s.path, 3600000000000, stop, &e), -ECANCELED);
	server_close(&s);
	close(stop);
}

/* ---- the folder of a cluster ---- */

static void put_file(const char *folder, const char *name, const char *text, size_t n)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, n, f), n);
	fclose(f);
}

static void remove_file(const char *folder, const char *name)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(unlink(path), 0);
}

static const struct hpc_gpu *gpu_of(const struct hpc_table *t, const char *name)
{
	for (size_t i = 0; i < t->list.len; i++)
		if (!strcmp(t->list.data[i].name, name))
			return &t->list.data[i];
	return NULL;
}

static void jobs_of_gpus(void **unused)
{
	(void)unused;
	char folder[] = "/tmp/eacgm-hpc-XXXXXX", large[5000], pipe[64];
	static const char *const names[] = {"0", "1", "2.10", "3", "4.", "x", "12345678901234567"};
	struct hpc_table t;
	struct err e = {""};
	assert_non_null(mkdtemp(folder));
	assert_int_equal(hpc_jobs_read(&t, "/tmp/eacgm-no-such", &e), -ENOENT);
	assert_string_equal(e.msg, "/tmp/eacgm-no-such: No such file or directory");
	memset(large, 'j', sizeof(large));
	static const char first[] = "whole\n", second[] = "\n127-bytes-at-most\n";
	memcpy(large, first, sizeof(first) - 1);
	memcpy(large + 2000, second, sizeof(second) - 1);
	put_file(folder, names[0], "4711\r\n\n4712\n4711\nb\0c\nlast", 25);
	put_file(folder, names[1], large, sizeof(large)); /* too long, and cut */
	put_file(folder, names[2], "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", 20);
	put_file(folder, names[3], "", 0);
	for (size_t i = 4; i < 7; i++)
		put_file(folder, names[i], "no\n", 3);
	snprintf(pipe, sizeof(pipe), "%s/5", folder);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	assert_int_equal(hpc_jobs_read(&t, folder, &e), 0);
	assert_int_equal(t.list.len, 3);
	const struct hpc_gpu *g = gpu_of(&t, "0");
	assert_int_equal(g->n, 3);
	assert_string_equal(g->jobs[0], "4711");
	assert_string_equal(g->jobs[1], "4712");
	assert_string_equal(g->jobs[2], "last");
	g = gpu_of(&t, "1");
	assert_int_equal(g->n, 2);
	assert_string_equal(g->jobs[1], "127-bytes-at-most");
	g = gpu_of(&t, "2.10");
	assert_int_equal(g->n, HPC_JOBS);
	assert_string_equal(g->jobs[7], "h");
	hpc_table_free(&t);
	for (size_t i = 0; i < 7; i++)
		remove_file(folder, names[i]);
	unlink(pipe);
	rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_by_number_and_by_pod),
		cmocka_unit_test(names_that_are_none),
		cmocka_unit_test(devices_of_nvidia),
		cmocka_unit_test(more_than_there_is_room_for),
		cmocka_unit_test(questions),
		cmocka_unit_test(servers_that_do_not_answer),
		cmocka_unit_test(one_that_is_given_up),
		cmocka_unit_test(jobs_of_gpus),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
