/* namer_test.c - names from files by processes without rights: of a good file, and what a file
 * costs that ends its reader, keeps it busy, or changes meanwhile. A file of the test's own
 * operations stands for one that takes its reader over.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline/pipeline_impl.h"
#include "pipeline/readers.h"

#define OTHER_USER 12345

static parser_fn real_names;
static struct parser_service readers;

/* What an address asks for of a reader that obeys the file. */
enum { DIE = 1, LOOP, NONSENSE };

static int names_or_worse(void *ctx, int fd, const uint8_t *question, size_t len, struct buf *ret,
			  struct err *e)
{
	uint64_t address;
	memcpy(&address, question + sizeof(struct namer_question), sizeof(address));
	if (address == DIE)
		abort();
	for (volatile bool on = address == LOOP; on;)
		;
	if (address != NONSENSE)
		return real_names(ctx, fd, question, len, ret, e);
	buf_add(ret, "more\0texts\0than\0asked", 21);
	return 0;
}

static int start_readers(void **state)
{
	static struct namer_files files;
	static struct parser_op list[PIPELINE_OPS];
	struct err e;
	(void)state;
	pipeline_parser_ops(&files, list);
	real_names = list[NAMER_NAMES].answer;
	list[NAMER_NAMES].answer = names_or_worse;
	return parser_host_start(&readers.host, &(struct parser_ops){list, PIPELINE_OPS}, &e);
}

static int stop_readers(void **state)
{
	(void)state;
	parser_host_stop(readers.host);
	return 0;
}

static struct pipeline *begin(void)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, NULL, &(struct rec_writer_options){0}, &e))
		fail_msg("%s", e.msg);
	return pipeline_new(w, "/proc", &readers);
}

static void end(struct pipeline *p)
{
	struct err e;
	assert_int_equal(pipeline_close(p, &e), 0);
}

/* A copy of this program, which others may own. */
static int copy_of_self(uid_t owner)
{
	char path[] = "/tmp/namer_test.XXXXXX", bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkstemp(path);
	ssize_t n;
	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(to, bytes, (size_t)n), n);
	if (owner && fchown(to, owner, owner))
		skip(); /* needs root */
	unlink(path);
	close(from);
	return to;
}

static struct named_file opened(struct pipeline *p, int fd, struct namer_facts *facts)
{
	struct named_file f;
	struct err e = {""};
	if (namer_open(p, fd, 0, "/a/copy", &f, facts, &e))
		fail_msg("%s", e.msg);
	return f;
}

static void keep(void *ctx, size_t i, const char *text)
{
	snprintf((char *)ctx + 64 * i, 64, "%s", text);
}

static uint64_t address_in_file(const char *name)
{
	struct elf_file *self;
	struct elf_symbol s;
	struct err e;
	assert_int_equal(elf_file_open(&self, "/proc/self/exe", &e), 0);
	assert_true(elf_file_find(self, name, &s));
	elf_file_close(self);
	return s.address;
}

#define SMALL_FILE "/lib64/ld-linux-x86-64.so.2"
#define COPIES	   (8u << 20)

static void ask_to_open(struct namer_files *files, const struct parser_op *open_op, uint32_t handle)
{
	struct namer_question q = {.handle = handle};
	struct buf question = {0}, answer = {0};
	struct err e = {""};
	int fd = open(SMALL_FILE, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	buf_add(&question, &q, sizeof(q));
	buf_add(&question, SMALL_FILE, sizeof(SMALL_FILE));
	if (open_op->answer(files, fd, question.data, question.len, &answer, &e))
		fail_msg("%s", e.msg);
	close(fd);
	buf_free(&question);
	buf_free(&answer);
}

/* Copies of small files are memory: those that were asked for longest ago go, and come again. */
static void copies_take_so_much_memory(void **state)
{
	static struct namer_files files;
	struct parser_op ops[PIPELINE_OPS];
	struct stat st;
	(void)state;
	pipeline_parser_ops(&files, ops);
	assert_int_equal(stat(SMALL_FILE, &st), 0);
	uint32_t fit = COPIES / (uint32_t)st.st_size;
	for (uint32_t i = 1; i <= fit + 5; i++)
		ask_to_open(&files, &ops[NAMER_OPEN], i);
	assert_int_equal(files.list.len, fit);
	assert_true(files.copied_bytes <= COPIES);
	ask_to_open(&files, &ops[NAMER_OPEN], fit + 5); /* is there */
	ask_to_open(&files, &ops[NAMER_OPEN], 1);
	assert_int_equal(files.list.len, fit);
	for (size_t i = 0; i < files.list.len; i++)
		elf_file_close(files.list.data[i].elf);
	vec_free(&files.list);
}

static void a_good_file(void **state)
{
	struct namer_facts facts;
	char names[3][64] = {"", "", ""};
	struct pipeline *p = begin();
	struct named_file f = opened(p, copy_of_self(0), &facts);
	(void)state;
	assert_true(facts.has_symtab);
	assert_true(facts.segments.n > 1);
	assert_int_equal(facts.py_version, 0);
	const uint64_t addresses[] = {address_in_file("main") + 1, 0,
				      address_in_file("pipeline_new") + 1};
	assert_int_equal(namer_names(p, &f, NAMER_FUNCTIONS, addresses, 3, keep, names), 0);
	assert_string_equal(names[0], "main");
	assert_string_equal(names[1], "");
	assert_string_equal(names[2], "pipeline_new");
	namer_close(&f);
	end(p);
}

/* It has no names from then on, and others have theirs. */
static void a_file_that_takes_its_reader_over(void **state)
{
	static const struct {
		uint64_t address;
		int rc;
	} cases[] = {{DIE, -EPIPE}, {LOOP, -EPIPE}, {NONSENSE, -EPROTO}};
	struct namer_facts facts;
	struct pipeline *p = begin();
	const uint64_t main_at = address_in_file("main");
	struct named_file good = opened(p, copy_of_self(0), &facts);
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[64] = "";
		struct named_file bad = opened(p, copy_of_self(0), &facts);
		assert_int_equal(
			namer_names(p, &bad, NAMER_FUNCTIONS, &cases[i].address, 1, keep, name),
			cases[i].rc);
		assert_int_equal(bad.handle, 0);
		assert_int_equal(namer_names(p, &bad, NAMER_FUNCTIONS, &main_at, 1, keep, name),
				 -ENOENT);
		assert_int_equal(namer_names(p, &good, NAMER_FUNCTIONS, &main_at, 1, keep, name),
				 0);
		assert_string_equal(name, "main");
	}
	namer_close(&good);
	end(p);
}

/* After three such files none of that owner is read, and those of others are. */
static void an_owner_of_such_files(void **state)
{
	const uint64_t die = DIE, main_at = address_in_file("main");
	struct namer_facts facts;
	struct named_file f;
	struct err e;
	char name[64] = "";
	struct pipeline *p = begin();
	(void)state;
	for (int i = 0; i < 3; i++) {
		f = opened(p, copy_of_self(OTHER_USER), &facts);
		assert_int_equal(namer_names(p, &f, NAMER_FUNCTIONS, &die, 1, keep, name), -EPIPE);
	}
	assert_int_equal(namer_open(p, copy_of_self(OTHER_USER), 0, "/a/copy", &f, &facts, &e),
			 -EACCES);
	f = opened(p, copy_of_self(0), &facts);
	assert_int_equal(namer_names(p, &f, NAMER_FUNCTIONS, &main_at, 1, keep, name), 0);
	assert_string_equal(name, "main");
	namer_close(&f);
	end(p);
}

/* What was mapped is named where it was small enough to be copied; else there are no names, and
 * none of what is there now. */
static void a_file_that_changes(void **state)
{
	struct namer_facts facts;
	char name[64] = "";
	const uint64_t main_at = address_in_file("main");
	struct pipeline *p = begin();
	int fd = copy_of_self(0);
	struct stat st;
	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	struct named_file f = opened(p, fd, &facts);
	assert_int_equal(ftruncate(fd, 100), 0);
	int rc = namer_names(p, &f, NAMER_FUNCTIONS, &main_at, 1, keep, name);
	assert_int_equal(rc, st.st_size > 4 << 20 ? -ESTALE : 0);
	assert_string_equal(name, rc ? "" : "main");
	struct named_file other = f; /* as a reader sees it that has not read it before */
	other.handle += 1000;
	name[0] = 0;
	assert_int_equal(namer_names(p, &other, NAMER_FUNCTIONS, &main_at, 1, keep, name), -ESTALE);
	assert_string_equal(name, "");
	namer_close(&f);
	end(p);
}

/* This process has it mapped, as a scan says that did not come further yet. */
static struct proc_map tell_mapping(struct pipeline *p, int fd, const char *build_id)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	proc_maps_t maps = {0};
	struct proc_map found = {0};
	struct err e;
	assert_true(code != MAP_FAILED);
	assert_int_equal(proc_code_read("/proc", getpid(), &maps, &e), 0);
	char **build_ids = xcalloc(maps.len, sizeof(*build_ids));
	for (size_t i = 0; i < maps.len; i++) {
		if (maps.data[i].start == (uintptr_t)code)
			found = maps.data[i];
		build_ids[i] = xstrdup(build_id);
	}
	found.path = "/a/copy";
	assert_int_equal(found.start, (uintptr_t)code);
	pipeline_define_maps(p, getpid(), &maps, build_ids, realtime_ns());
	return found;
}

/* The kernel's own time of a change may be that of the last tick. */
static void touch_until_later(int fd, uint64_t than_ns)
{
	const struct timespec later[2] = {{.tv_sec = time(NULL) + 5}, {.tv_sec = time(NULL) + 5}};
	struct stat st;
	do {
		assert_int_equal(futimens(fd, later), 0);
		assert_int_equal(fstat(fd, &st), 0);
	} while (timespec_ns(&st.st_ctim) <= than_ns);
}

/* A file is opened when the first place in it is named: what was written since is not asked. */
static void a_file_that_changed_before_it_was_opened(void **state)
{
	struct namer_facts facts;
	struct pipeline *p = begin();
	uint32_t self = (uint32_t)getpid();
	struct named_file f = opened(p, copy_of_self(0), &facts);
	int as_it_was = copy_of_self(0), written = copy_of_self(0), touched = copy_of_self(0);
	(void)state;
	struct proc_map a = tell_mapping(p, as_it_was, "");
	struct proc_map b = tell_mapping(p, written, "another");
	struct proc_map c = tell_mapping(p, touched, facts.build_id);
	touch_until_later(written, realtime_ns());
	touch_until_later(touched, realtime_ns());
	pipeline_pass_end(p);
	assert_int_not_equal(pipeline_elf_index(p, self, &a), 0);
	assert_int_equal(pipeline_elf_index(p, self, &b), 0);
	assert_int_not_equal(pipeline_elf_index(p, self, &c), 0);
	namer_close(&f);
	end(p);
}

static void without_readers(void **state)
{
	struct rec_writer *w;
	struct err e = {""};
	struct named_file f;
	struct namer_facts facts;
	(void)state;
	assert_int_equal(rec_writer_open(&w, NULL, &(struct rec_writer_options){0}, &e), 0);
	struct pipeline *p = pipeline_new(w, "/proc", NULL);
	assert_int_equal(namer_open(p, copy_of_self(0), 0, "/a/copy", &f, &facts, &e), -EACCES);
	char *name = namer_demangle(p, (uint32_t)getpid(), "_Z3addPfi");
	assert_string_equal(name, "_Z3addPfi");
	free(name);
	end(p);
}

/* As a class's is called. */
uint64_t vtable_here[4] __asm__("_ZTV9LateClass") = {1};

/* On a busy host objects are met before it is told what their process has mapped. */
static void a_class_whose_library_was_not_told(void **state)
{
	struct pipeline *p = begin();
	uint32_t self = (uint32_t)getpid();
	uint64_t name, lost, stack_address = (uint64_t)&name;
	(void)state;
	assert_true(pipeline_vtable(p, self, (uint64_t)&vtable_here[2], false, &name));
	assert_string_equal(rec_string_get(p->writer, (uint32_t)name), "LateClass");
	assert_false(pipeline_vtable(p, self, stack_address, false, &lost)); /* it may come */
	assert_true(pipeline_vtable(p, self, stack_address, true, &lost));
	assert_memory_equal(rec_string_get(p->writer, (uint32_t)lost), "class with vtable 0x", 20);
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_file),
		cmocka_unit_test(copies_take_so_much_memory),
		cmocka_unit_test(a_file_that_takes_its_reader_over),
		cmocka_unit_test(an_owner_of_such_files),
		cmocka_unit_test(a_file_that_changes),
		cmocka_unit_test(a_file_that_changed_before_it_was_opened),
		cmocka_unit_test(without_readers),
		cmocka_unit_test(a_class_whose_library_was_not_told),
	};
	return cmocka_run_group_tests(tests, start_readers, stop_readers);
}
