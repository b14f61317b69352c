/* modules.c - reads the program headers of mapped libraries from the process's memory, and their
 * symbols from their files. Nothing of either is trusted further than that the process's own
 * loader believed it. */
#include "remote/modules.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PAGE	     4096ULL
#define MAX_SEGMENTS 32

bool modules_peek(const struct modules *m, uint64_t address, void *ret, size_t len)
{
	return pread(m->memory, ret, len, (off_t)address) == (ssize_t)len;
}

bool modules_poke(const struct modules *m, uint64_t address, const void *data, size_t len)
{
	return pwrite(m->memory, data, len, (off_t)address) == (ssize_t)len;
}

static uint64_t page_end(uint64_t address)
{
	return (address + PAGE - 1) & ~(PAGE - 1);
}

static bool is_mapped(const struct modules *m, const struct tail *t, bool executable)
{
	for (size_t i = 0; i < m->maps.len; i++) {
		const struct proc_map *map = &m->maps.data[i];
		if (map->start <= t->start && t->end <= map->end)
			return map->executable == executable;
	}
	return false;
}

/* ---- segments ---- */

/* The loader makes what is relocated read-only, up to a page. */
static bool is_read_only(const Elf64_Phdr *ph, size_t n, const Elf64_Phdr *data)
{
	for (size_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_GNU_RELRO && page_end(ph[i].p_vaddr + ph[i].p_memsz) >=
							    page_end(data->p_vaddr + data->p_memsz))
			return true;
	return false;
}

static void find_tails(struct module *module, const struct modules *m, const Elf64_Phdr *ph,
		       size_t n)
{
	const Elf64_Phdr *code = NULL, *data = NULL;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_X)
			code = &ph[i];
		if (ph[i].p_type == PT_LOAD && ph[i].p_flags & PF_W)
			data = &ph[i];
	}
	/* where code is followed by zeros in memory, the loader made room for something */
	if (code && code->p_filesz == code->p_memsz && !(code->p_flags & PF_W)) {
		module->code.start = (module->bias + code->p_vaddr + code->p_memsz + 15) & ~15ULL;
		module->code.end = page_end(module->code.start);
		if (!is_mapped(m, &module->code, true))
			module->code = (struct tail){0};
	}
	if (data && !(data->p_flags & PF_X) && !is_read_only(ph, n, data)) {
		module->data.start = (module->bias + data->p_vaddr + data->p_memsz + 63) & ~63ULL;
		module->data.end = page_end(module->data.start);
		if (!is_mapped(m, &module->data, false))
			module->data = (struct tail){0};
	}
}

static bool read_segments(struct module *module, const struct modules *m)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph[MAX_SEGMENTS];
	uint64_t start = module->first->start;
	if (!modules_peek(m, start, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_machine != EM_X86_64 ||
	    eh.e_type != ET_DYN || eh.e_phentsize != sizeof(ph[0]) || eh.e_phnum > MAX_SEGMENTS ||
	    !modules_peek(m, start + eh.e_phoff, ph, eh.e_phnum * sizeof(ph[0])))
		return false;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		module->bias = start - (ph[i].p_vaddr & ~(PAGE - 1));
		find_tails(module, m, ph, eh.e_phnum);
		return true;
	}
	return false;
}

int modules_read(struct modules *ret, pid_t pid, struct err *e)
{
	struct modules m = {.pid = pid, .memory = -1};
	char path[64];
	int rc = proc_maps_read("/proc", pid, &m.maps, e);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	m.memory = open(path, O_RDWR | O_CLOEXEC);
	if (m.memory < 0) {
		rc = err_set(e, errno, "the memory of process %d may not be written: %s", pid,
			     strerror(errno));
		modules_free(&m);
		return rc;
	}
	for (size_t i = 0; i < m.maps.len; i++) {
		const struct proc_map *map = &m.maps.data[i];
		const char *slash = strrchr(map->path, '/');
		struct module module = {.path = map->path, .first = map};
		if (!map->inode || map->file_offset || !slash || !strstr(slash, ".so"))
			continue;
		module.name = slash + 1;
		if (read_segments(&module, &m))
			*vec_push(&m.list) = module;
	}
	*ret = m;
	return 0;
}

void modules_free(struct modules *m)
{
	if (m->memory >= 0)
		close(m->memory);
	proc_maps_free(&m->maps);
	vec_free(&m->list);
}

/* ---- functions ---- */

bool module_is(const struct module *m, const char *name)
{
	size_t stem = strcspn(name, ".");
	if (!strncmp(m->name, name, strlen(name)))
		return true;
	return !strncmp(m->name, name, stem) && m->name[stem] == '-' && m->name[stem + 1] >= '0' &&
	       m->name[stem + 1] <= '9';
}

/* The file of a module; *ret_fd is the caller's to close. */
static int open_module(const struct modules *m, const struct module *module, struct elf_file **ret,
		       int *ret_fd, struct err *e)
{
	int fd = proc_map_open("/proc", m->pid, module->first, NULL);
	if (fd < 0)
		return err_set(e, -fd, "%s: cannot be opened: %s", module->path, strerror(-fd));
	int rc = elf_file_open_fd(ret, fd, module->path, 0, e);
	if (rc)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

static uint64_t function_in(const struct modules *m, const struct module *module, const char *name)
{
	struct elf_file *f;
	int fd;
	struct elf_symbol symbol;
	struct err e;
	uint64_t address = 0;
	if (open_module(m, module, &f, &fd, &e))
		return 0;
	if (elf_file_find(f, name, &symbol) && symbol.is_function)
		address = module->bias + symbol.address;
	elf_file_close(f);
	close(fd);
	return address;
}

uint64_t modules_function(const struct modules *m, const char *const *libraries, size_t n,
			  const char *name)
{
	for (size_t l = 0; l < n; l++)
		for (size_t i = 0; i < m->list.len; i++) {
			if (!module_is(&m->list.data[i], libraries[l]))
				continue;
			uint64_t address = function_in(m, &m->list.data[i], name);
			if (address)
				return address;
		}
	return 0;
}

static int places_in(const struct modules *m, const struct module *module, const char *const *names,
		     size_t n, struct remote_place *ret, int *file, struct err *e)
{
	struct elf_file *f;
	struct elf_symbol symbol;
	int found = 0;
	int rc = *file < 0 ? open_module(m, module, &f, file, e)
			   : elf_file_open_fd(&f, *file, module->path, 0, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (elf_file_find(f, names[i], &symbol) && symbol.is_function && symbol.file_offset)
			ret[found++] = (struct remote_place){module->bias + symbol.address,
							     symbol.file_offset};
	elf_file_close(f);
	return found;
}

int remote_find(pid_t pid, const char *library, const char *const *names, size_t n,
		struct remote_place *ret, int *file, struct err *e)
{
	struct modules m;
	int rc = modules_read(&m, pid, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < m.list.len && !rc; i++)
		if (module_is(&m.list.data[i], library))
			rc = places_in(&m, &m.list.data[i], names, n, ret, file, e);
	modules_free(&m);
	return rc;
}

/* ---- objects ---- */

static int words_in(const struct modules *m, const struct module *module, const char *const *names,
		    size_t n, uint64_t *ret, struct err *e)
{
	struct elf_file *f;
	struct elf_symbol symbol;
	int found = 0, fd;
	int rc = open_module(m, module, &f, &fd, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (elf_file_find(f, names[i], &symbol) && !symbol.is_function &&
		    modules_peek(m, module->bias + symbol.address, &ret[found], sizeof(*ret)))
			found++;
	elf_file_close(f);
	close(fd);
	return found;
}

int remote_read(pid_t pid, const char *library, const char *const *names, size_t n, uint64_t *ret,
		struct err *e)
{
	struct modules m;
	int rc = modules_read(&m, pid, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < m.list.len && !rc; i++)
		if (module_is(&m.list.data[i], library))
			rc = words_in(&m, &m.list.data[i], names, n, ret, e);
	modules_free(&m);
	return rc;
}
