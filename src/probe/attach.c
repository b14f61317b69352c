/* attach.c - raw BPF_LINK_CREATE for uprobe_multi and sessions, perf events for the rest.
 *
 * The multi link's part of union bpf_attr is written out here because the headers of
 * Debian 12 are older than it (include/uapi/linux/bpf.h, kernel 6.6: uprobe_multi;
 * 6.13: BPF_TRACE_UPROBE_SESSION). */
#include "probe/attach.h"

#include "symbolize/elf_file.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TYPE_UPROBE_MULTI   48
#define TYPE_UPROBE_SESSION 57
#define MULTI_RETURN	    1

struct link_create_multi {
	uint32_t prog_fd;
	uint32_t target_fd;
	uint32_t attach_type;
	uint32_t flags;
	uint64_t path;
	uint64_t offsets;
	uint64_t ref_ctr_offsets;
	uint64_t cookies;
	uint32_t cnt;
	uint32_t multi_flags;
	uint32_t pid;
	uint32_t pad;
};

const char *attach_method_name(enum attach_method m)
{
	static const char *const names[] = {"auto", "session", "multi", "single"};
	return names[m];
}

static int multi_link(int prog_fd, uint32_t type, uint32_t multi_flags, const char *path,
		      const uint64_t *offsets, const uint64_t *semaphores, const uint64_t *cookies,
		      size_t n)
{
	struct link_create_multi attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = (uintptr_t)semaphores,
		.cookies = (uintptr_t)cookies,
		.cnt = (uint32_t)n,
		.multi_flags = multi_flags,
	};
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	return fd < 0 ? -errno : fd;
}

static int read_number(const char *path, const char *format, uint32_t *ret)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	int n = fscanf(f, format, ret);
	fclose(f);
	return n == 1 ? 0 : -EINVAL;
}

/* A perf event on one offset with a BPF link on it (Documentation of perf_event_open(2);
 * the format of the uprobe PMU is in /sys/bus/event_source/devices/uprobe/format). */
static int single_link(int prog_fd, const char *path, uint64_t offset, uint64_t semaphore,
		       uint64_t cookie, bool at_return)
{
	uint32_t type = 0, return_bit = 0;
	int rc = read_number("/sys/bus/event_source/devices/uprobe/type", "%u", &type);
	if (!rc && at_return)
		rc = read_number("/sys/bus/event_source/devices/uprobe/format/retprobe",
				 "config:%u", &return_bit);
	if (rc)
		return rc;
	struct perf_event_attr pe = {
		.size = sizeof(pe),
		.type = type,
		.config = (at_return ? 1ULL << return_bit : 0) | semaphore << 32,
		.uprobe_path = (uintptr_t)path,
		.probe_offset = offset,
	};
	int event = (int)syscall(SYS_perf_event_open, &pe, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)prog_fd;
	attr.link_create.target_fd = (uint32_t)event;
	attr.link_create.attach_type = BPF_PERF_EVENT;
	attr.link_create.perf_event.bpf_cookie = cookie;
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	rc = fd < 0 ? -errno : fd;
	if (fd >= 0 && ioctl(event, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		rc = -errno;
		close(fd);
	}
	close(event); /* the link holds it */
	return rc;
}

int attach_hooks(struct attach_links *ret, enum attach_method method, int prog_fd, const char *path,
		 const struct hook_site *sites, size_t n, struct err *e)
{
	uint64_t offsets[8], cookies[8];
	int fd = -EINVAL;
	for (size_t i = 0; i < n && n <= 8; i++) {
		offsets[i] = sites[i].offset;
		cookies[i] = sites[i].cookie;
	}
	if (method != ATTACH_SINGLE && n <= 8) {
		fd = multi_link(prog_fd, TYPE_UPROBE_MULTI, 0, path, offsets, NULL, cookies, n);
		if (fd >= 0)
			*vec_push(&ret->fds) = fd;
	}
	for (size_t i = 0; method == ATTACH_SINGLE && i < n; i++) {
		fd = single_link(prog_fd, path, sites[i].offset, 0, sites[i].cookie, false);
		if (fd < 0)
			break;
		*vec_push(&ret->fds) = fd;
	}
	return fd < 0 ? err_set(e, -fd, "cannot hook it: %s", strerror(-fd)) : 0;
}

/* ---- which method works ---- */

static __attribute__((noinline, used)) void try_target(void)
{
	__asm__ volatile("nop");
}

/* The load address of this executable; the linker defines it. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* Asks for a place in what is no regular file: a kernel that knows such links says so last of all
 * (EBADF; kernel/trace/bpf_trace.c, bpf_uprobe_multi_link_attach). A true link would cost two grace
 * periods of RCU, some 50 ms, when it goes. */
static int try_multi(int prog, uint32_t type)
{
	uint64_t offset = 0, cookie = 0;
	int rc = multi_link(prog, type, 0, "/", &offset, NULL, &cookie, 1);
	if (rc >= 0)
		close(rc);
	return rc == -EBADF || rc >= 0 ? 0 : rc;
}

static int try_single(int prog)
{
	struct elf_file *self;
	uint64_t offset = (uint64_t)((const char *)(uintptr_t)try_target - __ehdr_start);
	int rc = elf_file_open(&self, "/proc/self/exe", NULL);
	if (rc)
		return rc;
	elf_file_offset(self, offset, &offset);
	elf_file_close(self);
	rc = single_link(prog, "/proc/self/exe", offset, 0, 0, false);
	if (rc >= 0)
		close(rc);
	return rc < 0 ? rc : 0;
}

static int load_empty(uint32_t type)
{
	struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_KPROBE;
	attr.expected_attach_type = type;
	attr.insns = (uintptr_t)nothing;
	attr.insn_cnt = 2;
	attr.license = (uintptr_t) "GPL";
	int prog = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	return prog < 0 ? -errno : prog;
}

int attach_load_empty(enum attach_method method, bool spans)
{
	if (method == ATTACH_SINGLE)
		return load_empty(0);
	return load_empty(spans && method == ATTACH_SESSION ? TYPE_UPROBE_SESSION
							    : TYPE_UPROBE_MULTI);
}

static int try_link(uint32_t type)
{
	int prog = load_empty(type);
	if (prog < 0)
		return prog;
	int rc = type ? try_multi(prog, type) : try_single(prog);
	close(prog);
	return rc;
}

int attach_try_method(enum attach_method m, struct err *e)
{
	static const uint32_t types[] = {0, TYPE_UPROBE_SESSION, TYPE_UPROBE_MULTI, 0};
	int rc = try_link(types[m]);
	return rc ? err_set(e, -rc, "this kernel cannot attach by %s links: %s",
			    attach_method_name(m), strerror(-rc))
		  : 0;
}

enum attach_method attach_try_methods(struct err *e)
{
	if (!try_link(TYPE_UPROBE_SESSION))
		return ATTACH_SESSION;
	if (!try_link(TYPE_UPROBE_MULTI))
		return ATTACH_MULTI;
	int rc = try_link(0);
	if (!rc)
		return ATTACH_SINGLE;
	err_set(e, -rc, "this kernel cannot attach uprobes: %s", strerror(-rc));
	return ATTACH_AUTO;
}

/* The sites of one program, as the arrays that the kernel takes. */
struct batch {
	VEC(uint64_t) offsets;
	VEC(uint64_t) semaphores;
	VEC(uint64_t) cookies;
};

static void batch_add(struct batch *b, const struct site *s)
{
	*vec_push(&b->offsets) = s->offset;
	*vec_push(&b->semaphores) = s->semaphore;
	*vec_push(&b->cookies) = s->cookie;
}

static void batch_free(struct batch *b)
{
	vec_free(&b->offsets);
	vec_free(&b->semaphores);
	vec_free(&b->cookies);
}

static int batch_multi(struct attach_links *l, const struct batch *b, int prog_fd, uint32_t type,
		       uint32_t flags, const char *path)
{
	if (!b->offsets.len)
		return 0;
	bool any_semaphore = false;
	for (size_t i = 0; i < b->semaphores.len; i++)
		any_semaphore |= b->semaphores.data[i] != 0;
	int fd = multi_link(prog_fd, type, flags, path, b->offsets.data,
			    any_semaphore ? b->semaphores.data : NULL, b->cookies.data,
			    b->offsets.len);
	if (fd < 0)
		return fd;
	*vec_push(&l->fds) = fd;
	return 0;
}

static int batch_single(struct attach_links *l, const struct batch *b, int prog_fd, bool at_return,
			const char *path)
{
	for (size_t i = 0; i < b->offsets.len; i++) {
		int fd = single_link(prog_fd, path, b->offsets.data[i], b->semaphores.data[i],
				     b->cookies.data[i], at_return);
		if (fd < 0)
			return fd;
		*vec_push(&l->fds) = fd;
	}
	return 0;
}

static int attach_spans(struct attach_links *l, enum attach_method method,
			const struct attach_programs *p, const char *path,
			const struct batch *spans)
{
	int rc;
	switch (method) {
	case ATTACH_SESSION:
		return batch_multi(l, spans, p->span_session, TYPE_UPROBE_SESSION, 0, path);
	case ATTACH_MULTI:
		rc = batch_multi(l, spans, p->span_leave, TYPE_UPROBE_MULTI, MULTI_RETURN, path);
		return rc ? rc : batch_multi(l, spans, p->span_enter, TYPE_UPROBE_MULTI, 0, path);
	default:
		rc = batch_single(l, spans, p->span_leave, true, path);
		return rc ? rc : batch_single(l, spans, p->span_enter, false, path);
	}
}

static int attach_moments(struct attach_links *l, enum attach_method method, int program,
			  const char *path, const struct batch *moments)
{
	return method == ATTACH_SINGLE
		       ? batch_single(l, moments, program, false, path)
		       : batch_multi(l, moments, program, TYPE_UPROBE_MULTI, 0, path);
}

/* Returns are attached before entries and detached after them, so that no call is ever
 * seen to begin without a chance to be seen to end. */
static int attach_batches(struct attach_links *l, enum attach_method method,
			  const struct attach_programs *p, const char *path,
			  const struct batch *by_action /* [SITE_END + 1] */)
{
	int rc = attach_spans(l, method, p, path, &by_action[SITE_SPAN]);
	if (!rc)
		rc = attach_moments(l, method, p->moment, path, &by_action[SITE_INSTANT]);
	if (!rc)
		rc = attach_moments(l, method, p->pair_end, path, &by_action[SITE_END]);
	if (!rc)
		rc = attach_moments(l, method, p->pair_begin, path, &by_action[SITE_BEGIN]);
	return rc;
}

int attach_sites(struct attach_links *ret, enum attach_method method,
		 const struct attach_programs *progs, const char *path, const struct site *sites,
		 size_t n, struct err *e)
{
	struct batch by_action[SITE_END + 1] = {0};
	struct attach_links links = {0};
	for (size_t i = 0; i < n; i++)
		batch_add(&by_action[sites[i].action], &sites[i]);
	int rc = attach_batches(&links, method, progs, path, by_action);
	for (size_t i = 0; i <= SITE_END; i++)
		batch_free(&by_action[i]);
	if (rc) {
		attach_detach(&links);
		return err_set(e, -rc, "cannot attach %zu probe%s: %s", n, n == 1 ? "" : "s",
			       strerror(-rc));
	}
	*ret = links;
	return 0;
}

void attach_detach(struct attach_links *l)
{
	for (size_t i = l->fds.len; i-- > 0;)
		close(l->fds.data[i]);
	vec_free(&l->fds);
}
