/* yield_target.c - the map in which the programs of bpf/yield.h keep a task. Such a map is declared
 * by a type tag, which clang 14 leaves out of the type information of a struct in a struct, so the
 * type information is written here. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <unistd.h>

#include "probe/tracer_impl.h"

struct map_types {
	struct btf *btf;
	int key, value;
};

/* struct yield_target { struct task_struct __kptr *task; }, which the kernel looks for by names
 * (kernel/bpf/btf.c, btf_find_kptr). */
static int describe(struct map_types *ret)
{
	struct btf *btf = ret->btf = btf__new_empty();
	if (!btf)
		return -ENOMEM;
	ret->key = btf__add_int(btf, "unsigned int", 4, 0);
	int task = btf__add_struct(btf, "task_struct", 4);
	int tagged = btf__add_type_tag(btf, "kptr", task);
	int pointer = btf__add_ptr(btf, tagged);
	ret->value = btf__add_struct(btf, "yield_target", sizeof(uint64_t));
	bool whole = ret->key > 0 && task > 0 && tagged > 0 && pointer > 0 && ret->value > 0 &&
		     !btf__add_field(btf, "task", pointer, 0, 0);
	return whole ? btf__load_into_kernel(btf) : -ENOMEM;
}

int yield_target_prepare(struct bpf_map *map)
{
	struct map_types types = {0};
	int rc = describe(&types);
	DECLARE_LIBBPF_OPTS(bpf_map_create_opts, opts, .btf_fd = (uint32_t)btf__fd(types.btf),
			    .btf_key_type_id = (uint32_t)types.key,
			    .btf_value_type_id = (uint32_t)types.value);
	int fd = rc ? rc
		    : bpf_map_create(BPF_MAP_TYPE_ARRAY, "yield_target", sizeof(uint32_t),
				     sizeof(uint64_t), 1, &opts);
	btf__free(types.btf);
	if (fd < 0)
		return fd;
	rc = bpf_map__reuse_fd(map, fd);
	close(fd);
	return rc;
}

static void no_rows(void *ctx, const void *row)
{
	(void)ctx;
	(void)row;
}

void yield_target_set(struct tracer *t, pid_t pid, const void *readable)
{
	union bpf_iter_link_info which = {.task.pid = (__u32)pid};
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &which,
			    .link_info_len = sizeof(which));
	struct err ignored;
	t->bpf->bss->yield_address = (uint64_t)(uintptr_t)readable;
	if (t->bpf->rodata->yields_on_guard)
		drain_iterator(t->bpf->progs.keep_yield_target, &opts, 1, no_rows, NULL, &ignored);
}
