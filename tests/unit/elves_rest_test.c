/* elves_rest_test.c - files that names are looked up in and that nobody asks for: nobody has them
 * open, they are opened again when they are asked for, and what is of no use is forgotten. The
 * files are of a process that has ended: the host's of that name is looked into.
 *
 * links: pipeline recording symbolize parser base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/pipeline_impl.h"
#include "pipeline/readers.h"
#include "pipeline/stacks.h"

#define ENDED	    0x7ffffff0U /* above all process numbers */
#define MINUTE_NS   60000000000ULL
#define MAPPED_SIZE (64 << 20) /* small ones are copied by who reads them */
#define MANY	    1024

static struct parser_service readers;
static char folder[] = "/tmp/elves_rest_test.XXXXXX";

static int start_readers(void **state)
{
	static struct namer_files files;
	static struct parser_op list[PIPELINE_OPS];
	struct err e;
	(void)state;
	pipeline_parser_ops(&files, list);
	assert_non_null(mkdtemp(folder));
	return parser_host_start(&readers.host, &(struct parser_ops){list, PIPELINE_OPS}, &e);
}

static int stop_readers(void **state)
{
	(void)state;
	parser_host_stop(readers.host);
	return rmdir(folder);
}

static struct pipeline *begin(bool forgets)
{
	struct rec_writer *w;
	struct err e = {""};
	if (rec_writer_open(&w, NULL, &(struct rec_writer_options){0}, &e))
		fail_msg("%s", e.msg);
	struct pipeline *p = pipeline_new(w, "/proc", &readers);
	if (forgets)
		pipeline_forget_ended(p);
	return p;
}

static void end(struct pipeline *p)
{
	struct err e;
	assert_int_equal(pipeline_close(p, &e), 0);
}

/* A copy of this program, with zeros behind it. */
static void make_copy(const char *path)
{
	char bytes[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
	ssize_t n;
	assert_true(from >= 0 && to >= 0);
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(to, bytes, (size_t)n), n);
	assert_int_equal(ftruncate(to, MAPPED_SIZE), 0);
	close(from);
	close(to);
}

static struct proc_map mapping_of(char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return (struct proc_map){.start = 0x1000,
				 .end = 0x2000,
				 .device = st.st_dev,
				 .inode = st.st_ino,
				 .executable = true,
				 .path = path};
}

/* By this process or one that reads for it. */
static size_t have_it_open(const char *path)
{
	glob_t found;
	char to[4096];
	size_t n = 0;
	assert_int_equal(glob("/proc/self/fd/*", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		ssize_t len = readlink(found.gl_pathv[i], to, sizeof(to) - 1);
		to[len > 0 ? len : 0] = 0;
		n += !strcmp(to, path);
	}
	globfree(&found);
	if (glob("/proc/[0-9]*/maps", 0, NULL, &found))
		return n;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *maps = fopen(found.gl_pathv[i], "re");
		while (maps && fgets(to, sizeof(to), maps))
			n += strstr(to, path) != NULL;
		if (maps)
			fclose(maps);
	}
	globfree(&found);
	return n;
}

static void keep(void *ctx, size_t i, const char *text)
{
	(void)i;
	snprintf(ctx, 64, "%s", text);
}

static uint64_t address_of_main(void)
{
	struct elf_file *self;
	struct elf_symbol s;
	struct err e;
	assert_int_equal(elf_file_open(&self, "/proc/self/exe", &e), 0);
	assert_true(elf_file_find(self, "main", &s));
	elf_file_close(self);
	return s.address;
}

static int name_main(struct pipeline *p, size_t elf, char ret[64])
{
	const uint64_t address = address_of_main() + 1;
	ret[0] = 0;
	elf_wake(p, &p->elves.data[elf - 1]);
	return namer_names(p, &p->elves.data[elf - 1].file, NAMER_FUNCTIONS, &address, 1, keep,
			   ret);
}

static void pass(struct pipeline *p, uint64_t later_ns)
{
	p->forgot_ns += later_ns;
	elves_rest(p, 512);
}

static void a_file_that_nobody_asks_for_rests(void **state)
{
	char path[64], name[64];
	snprintf(path, sizeof(path), "%s/program", folder);
	make_copy(path);
	const struct proc_map m = mapping_of(path);
	struct pipeline *p = begin(true);
	(void)state;
	size_t elf = pipeline_elf_index(p, ENDED, &m);
	assert_int_not_equal(elf, 0);
	pass(p, MINUTE_NS / 2);
	assert_int_equal(name_main(p, elf, name), 0);
	assert_string_equal(name, "main");
	assert_true(have_it_open(path) >= 2); /* here, and by who reads it */
	for (int turn = 0; turn < 2; turn++) {
		pass(p, MINUTE_NS + 1);
		assert_true(namer_rests(&p->elves.data[elf - 1].file));
		assert_int_equal(have_it_open(path), 0);
		assert_int_equal(pipeline_elf_index(p, ENDED, &m), elf); /* its facts are there */
		assert_int_equal(have_it_open(path), 0);
		assert_int_equal(name_main(p, elf, name), 0);
		assert_string_equal(name, "main");
	}
	/* another process that has it mapped */
	pass(p, MINUTE_NS + 1);
	assert_int_equal(pipeline_elf_index(p, ENDED + 1, &m), elf);
	assert_false(namer_rests(&p->elves.data[elf - 1].file));
	/* it is written anew: its names would be others */
	pass(p, MINUTE_NS + 1);
	make_copy(path);
	assert_int_equal(name_main(p, elf, name), -ENOENT);
	assert_true(namer_rests(&p->elves.data[elf - 1].file));
	end(p);
	unlink(path);
}

static void a_recording_keeps_files(void **state)
{
	char paths[3][64], name[64];
	size_t elves[3];
	struct pipeline *p = begin(false);
	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(paths[i], sizeof(paths[i]), "%s/program%d", folder, i);
		make_copy(paths[i]);
		const struct proc_map m = mapping_of(paths[i]);
		elves[i] = pipeline_elf_index(p, ENDED, &m);
	}
	pass(p, 10 * MINUTE_NS);
	for (int i = 0; i < 3; i++)
		assert_false(namer_rests(&p->elves.data[elves[i] - 1].file));
	elves_rest(p, 2); /* there are too many */
	assert_true(namer_rests(&p->elves.data[elves[0] - 1].file));
	assert_true(namer_rests(&p->elves.data[elves[1] - 1].file));
	assert_false(namer_rests(&p->elves.data[elves[2] - 1].file));
	assert_int_equal(name_main(p, elves[0], name), 0);
	assert_string_equal(name, "main");
	end(p);
	for (int i = 0; i < 3; i++)
		unlink(paths[i]);
}

/* Files that are no programs: each is known, so as not to be looked into again. */
static void ask_for_many(struct pipeline *p, uint64_t first_inode)
{
	char path[64];
	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "%s/%llu", folder, (unsigned long long)i);
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		close(fd);
		struct proc_map m = mapping_of(path);
		m.device = first_inode; /* stands for another file system */
		pipeline_elf_index(p, ENDED, &m);
	}
	for (uint64_t i = 0; i < MANY; i++) {
		snprintf(path, sizeof(path), "%s/%llu", folder, (unsigned long long)i);
		unlink(path);
	}
}

/* A program of which one place is in a stack. */
static size_t add_program(struct pipeline *p, char *path, uint32_t table, bool has_place)
{
	make_copy(path);
	pipeline_take_table(p, &(struct message){.table = table,
						 .map = mapping_of(path),
						 .a = path,
						 .b = "",
						 .fd = open(path, O_RDONLY | O_CLOEXEC)});
	size_t elf = pipeline_table_elf(p, ENDED, table);
	assert_int_not_equal(elf, 0);
	if (has_place)
		frames_of_file(p, ENDED, FILE_FRAME(table, 64));
	p->tables.data[table].elf = 0; /* as when its number is another's */
	return elf;
}

static void what_is_of_no_use_is_forgotten(void **state)
{
	char used[64], useless[64], name[64];
	struct pipeline *p = begin(true);
	(void)state;
	snprintf(used, sizeof(used), "%s/used", folder);
	snprintf(useless, sizeof(useless), "%s/useless", folder);
	size_t stays = add_program(p, used, 0, true), goes = add_program(p, useless, 1, false);
	ask_for_many(p, 77);
	pass(p, MINUTE_NS + 1);
	assert_int_equal(p->free_elves.len, MANY + 1);
	assert_int_equal(p->elves.data[goes - 1].identity.inode, 0);
	assert_true(p->elves.data[stays - 1].is_open);
	assert_int_equal(name_main(p, stays, name), 0);
	assert_string_equal(name, "main");
	assert_int_equal(have_it_open(useless), 0);
	end(p);
	unlink(used);
	unlink(useless);
	p = begin(true);
	for (uint64_t turn = 1; turn <= 3; turn++) {
		ask_for_many(p, turn);
		assert_int_equal(p->elves.len, MANY);
		pass(p, MINUTE_NS + 1);
		assert_int_equal(p->free_elves.len, MANY);
	}
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_nobody_asks_for_rests),
		cmocka_unit_test(a_recording_keeps_files),
		cmocka_unit_test(what_is_of_no_use_is_forgotten),
	};
	return cmocka_run_group_tests(tests, start_readers, stop_readers);
}
