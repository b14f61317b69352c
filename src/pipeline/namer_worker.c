/* namer_worker.c - answers about files and names, in a process without rights. Files stay open for
 * the next question, those that were asked about last, and small ones as copies: what was mapped is
 * named, though the file may have been written anew. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "pipeline/namer.h"
#include "pipeline/readers.h"
#include "symbolize/cpython.h"
#include "symbolize/demangle.h"
#include "symbolize/file_map.h"
#include "symbolize/jit_names.h"

#define COPY_BYTES (4u << 20) /* larger files are mapped: see elf_file_changed */
#define KEPT_BYTES (2ULL << 30)
#define COPIES_BYTES                                                                               \
	(8u << 20) /* of memory; a process of PyTorch maps four times as much in small files */
#define NAME_BYTES 16384 /* more is cut */
#define JIT_BYTES  (256u << 20)

/* ---- files ---- */

static void close_file(struct namer_files *fs, size_t i)
{
	fs->bytes -= fs->list.data[i].bytes;
	fs->copied_bytes -= fs->list.data[i].copied ? fs->list.data[i].bytes : 0;
	elf_file_close(fs->list.data[i].elf);
	fs->list.data[i] = fs->list.data[--fs->list.len];
}

static void close_oldest(struct namer_files *fs, bool copied)
{
	size_t oldest = SIZE_MAX;
	for (size_t i = 0; i < fs->list.len; i++)
		if ((fs->list.data[i].copied || !copied) &&
		    (oldest == SIZE_MAX || fs->list.data[i].asked < fs->list.data[oldest].asked))
			oldest = i;
	if (oldest != SIZE_MAX)
		close_file(fs, oldest);
}

/* One that was closed comes with its next question again, unless it was written to since. */
static void make_room(struct namer_files *fs, uint64_t bytes)
{
	while (fs->list.len && fs->bytes + bytes > KEPT_BYTES)
		close_oldest(fs, false);
	while (bytes <= COPY_BYTES && fs->copied_bytes && fs->copied_bytes + bytes > COPIES_BYTES)
		close_oldest(fs, true);
}

static int open_elf(struct elf_file **ret, int fd, const struct namer_question *q, struct err *e)
{
	if (fd >= 0)
		return elf_file_open_fd(ret, fd, "it", COPY_BYTES, e);
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR); /* the same in all */
	if (!image)
		return err_set(e, ENOENT, "there is none");
	return elf_file_open_memory(ret, image, q->vdso_bytes, e);
}

static int file_of(struct namer_files *fs, int fd, const struct namer_question *q,
		   struct elf_file **ret, struct err *e)
{
	struct stat st = {0};
	for (size_t i = 0; i < fs->list.len; i++) {
		if (fs->list.data[i].handle != q->handle)
			continue;
		fs->list.data[i].asked = ++fs->questions;
		*ret = fs->list.data[i].elf;
		return elf_file_changed(*ret) ? err_set(e, ESTALE, "it was written to") : 0;
	}
	if (q->written)
		return err_set(e, ESTALE, "it was written to");
	if (fd >= 0)
		fstat(fd, &st);
	make_room(fs, (uint64_t)st.st_size);
	int rc = open_elf(ret, fd, q, e);
	if (rc)
		return rc;
	vec_push(&fs->list);
	size_t last = fs->list.len - 1;
	fs->list.data[last].handle = q->handle;
	fs->list.data[last].elf = *ret;
	fs->list.data[last].bytes = (uint64_t)st.st_size;
	fs->list.data[last].copied = st.st_size <= COPY_BYTES;
	fs->list.data[last].asked = ++fs->questions;
	fs->bytes += (uint64_t)st.st_size;
	fs->copied_bytes += st.st_size <= COPY_BYTES ? (uint64_t)st.st_size : 0;
	return 0;
}

static int take_question(struct namer_question *ret, const uint8_t *question, size_t len,
			 struct err *e)
{
	if (len < sizeof(*ret))
		return err_set(e, EINVAL, "no question");
	memcpy(ret, question, sizeof(*ret));
	return 0;
}

/* ---- facts ---- */

static void find_python(const struct elf_file *f, const char *path, struct namer_facts *ret)
{
	struct err e;
	if (!cpython_present(f) || cpython_version(f, path, &ret->py_version, &e))
		ret->py_version = 0;
	ret->has_py_lines =
		ret->py_version && !cpython_lines_layout_of(f, ret->py_version, &ret->py_lines, &e);
}

static int answer_open(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		       struct err *e)
{
	struct namer_question q = {0};
	struct namer_facts facts = {0};
	struct elf_file *f;
	int rc = take_question(&q, question, len, e);
	if (!rc)
		rc = file_of(ctx, fd, &q, &f, e);
	if (rc)
		return rc;
	const char *path = (const char *)question + sizeof(q); /* a zero follows */
	const char *slash = strrchr(path, '/');
	facts.segments = *elf_file_segments(f);
	snprintf(facts.build_id, sizeof(facts.build_id), "%s", elf_file_build_id(f));
	facts.has_symtab = elf_file_has_symtab(f);
	find_python(f, path, &facts);
	if (slash && !strncmp(slash + 1, "libnccl", 7))
		nccl_layout_find(f, &facts.nccl);
	elf_file_rest(f);
	buf_add(ret, &facts, sizeof(facts));
	return 0;
}

/* ---- names ---- */

static char *name_at(struct elf_file *f, uint64_t address, uint8_t form)
{
	struct elf_symbol symbol;
	if (!elf_file_symbol_at(f, address, &symbol))
		return NULL;
	if (form == NAMER_CLASSES)
		return demangle_vtable(symbol.name);
	/* .symtab keeps versions: "__libc_start_main@@GLIBC_2.34" */
	char *plain = xasprintf("%.*s", (int)strcspn(symbol.name, "@"), symbol.name);
	char *name = demangle(plain, 0);
	free(plain);
	return name;
}

static int answer_names(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			struct err *e)
{
	struct namer_question q = {0};
	struct elf_file *f;
	int rc = take_question(&q, question, len, e);
	if (!rc)
		rc = file_of(ctx, fd, &q, &f, e);
	for (size_t at = sizeof(q); !rc && at + 8 <= len; at += 8) {
		uint64_t address;
		memcpy(&address, question + at, sizeof(address));
		char *name = name_at(f, address, q.form);
		if (name)
			buf_add(ret, name, strnlen(name, NAME_BYTES));
		buf_byte(ret, 0);
		free(name);
	}
	if (!rc)
		elf_file_rest(f);
	return rc;
}

struct texts {
	struct buf *ret;
	size_t n; /* that are there */
};

static void add_text(void *ctx, size_t i, const char *text)
{
	struct texts *t = ctx;
	for (; t->n < i; t->n++)
		buf_byte(t->ret, 0);
	buf_add(t->ret, text, strlen(text) + 1);
	t->n++;
}

static int answer_jit(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		      struct err *e)
{
	struct file_map file;
	struct texts texts = {.ret = ret};
	size_t n = len / sizeof(uint64_t);
	(void)ctx;
	int rc = fd < 0 ? err_set(e, EINVAL, "no file")
			: file_map_open_fd(&file, fd, "it", COPY_BYTES, e);
	if (rc)
		return rc;
	uint64_t *addresses = xcalloc(n + 1, sizeof(*addresses));
	memcpy(addresses, question, n * sizeof(*addresses));
	jit_names_find(file.data, file.len < JIT_BYTES ? file.len : JIT_BYTES, addresses, n,
		       add_text, &texts);
	for (; texts.n < n; texts.n++)
		buf_byte(ret, 0);
	free(addresses);
	file_map_close(&file);
	return 0;
}

static int answer_demangle(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			   struct err *e)
{
	(void)ctx, (void)fd, (void)len, (void)e;
	char *name = demangle((const char *)question, 1);
	buf_add(ret, name, strnlen(name, NAME_BYTES));
	buf_byte(ret, 0);
	free(name);
	return 0;
}

static bool is_among(uint32_t handle, const uint8_t *handles, size_t len)
{
	for (size_t at = 0; at + sizeof(handle) <= len; at += sizeof(handle))
		if (!memcmp(&handle, handles + at, sizeof(handle)))
			return true;
	return false;
}

static int answer_rest(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
		       struct err *e)
{
	struct namer_files *fs = ctx;
	(void)fd, (void)ret, (void)e;
	for (size_t i = fs->list.len; i-- > 0;)
		if (is_among(fs->list.data[i].handle, question, len))
			close_file(fs, i);
	return 0;
}

void pipeline_parser_ops(struct namer_files *files, struct parser_op ret[PIPELINE_OPS])
{
	ret[NAMER_OPEN] = (struct parser_op){answer_open, files};
	ret[NAMER_NAMES] = (struct parser_op){answer_names, files};
	ret[NAMER_DEMANGLE] = (struct parser_op){answer_demangle, NULL};
	ret[NAMER_JIT] = (struct parser_op){answer_jit, NULL};
	ret[NAMER_REST] = (struct parser_op){answer_rest, files};
}
