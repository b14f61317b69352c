/* catalog_test.c - catalog files: the built-in ones, what every key means, every complaint.
 *
 * Each tests/golden/catalog/X.yaml is refused with exactly the line in X.error. With
 * EACGM_UPDATE_GOLDEN set the lines are written instead of compared. Finds the source
 * tree by EACGM_SOURCE_ROOT, else in the current folder.
 *
 * links: base probe parser
 * needs: catalog_builtin */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/catalog.h"

static void parse_ok(struct catalog *c, const char *text)
{
	struct err e = {""};
	if (catalog_parse(c, text, strlen(text), "t.yaml", &e))
		fail_msg("%s", e.msg);
}

static void parse_fails(struct catalog *c, const char *text, const char *says)
{
	struct err e = {""};
	size_t before = c->entries.len;
	assert_true(catalog_parse(c, text, strlen(text), "t.yaml", &e) < 0);
	assert_string_equal(e.msg, says);
	assert_int_equal(c->entries.len, before);
}

#define HEAD "catalog: 1\nlibraries: [\"libfoo.so*\"]\nprobes:\n"

static void every_key(void **state)
{
	(void)state;
	struct catalog c = {0};
	parse_ok(&c, "catalog: 1\n"
		     "layer: torch\n"
		     "libraries: [\"libfoo.so*\", /opt/bar]\n"
		     "probes:\n"
		     "  - id: foo.first\n"
		     "    symbols: foo\n"
		     "  - about: >\n      a\n      sentence\n"
		     "    verified: [1.10, \"2\"]\n"
		     "    expected: true\n"
		     "    enabled: false\n"
		     "    cost: high\n"
		     "    unless: foo.first\n"
		     "    name: \"<{symbol}>\"\n"
		     "    named_by: what\n"
		     "    signature: \"(u64 a, str what) -> int!negative\"\n"
		     "    layer: host\n"
		     "    libraries: [\"libbar.so\"]\n"
		     "    exclude: [\"foo_x*\"]\n"
		     "    symbols: [\"foo_*\", \"bar_?\"]\n"
		     "    id: foo.second\n"
		     "  - {id: foo.third, usdt: \"a:b\", usdt_end: [\"a:c\"]}\n"
		     "  - {id: foo.fourth, usdt: \"a:b\"}\n"
		     "  - {id: foo.fifth, symbols: x, instant: true, python: true,\n"
		     "     signature: (pystr a), naming: torch_operator}\n");
	assert_int_equal(c.entries.len, 5);
	const struct cat_entry *en = &c.entries.data[0];
	assert_string_equal(en->id, "foo.first");
	assert_int_equal(en->layer, LAYER_TORCH);
	assert_int_equal(en->libraries.len, 2);
	assert_string_equal(en->libraries.data[1], "/opt/bar");
	assert_int_equal(en->naming, CAT_NAME_SYMBOL);
	assert_int_equal(en->cost, CAT_COST_LOW);
	assert_false(en->off_by_default || en->expected || en->instant || en->python || en->usdt);
	assert_null(en->unless);
	assert_string_equal(en->origin, "t.yaml");

	en = &c.entries.data[1];
	assert_string_equal(en->id, "foo.second");
	assert_string_equal(en->about, "a sentence");
	assert_int_equal(en->verified.len, 2);
	assert_string_equal(en->verified.data[0], "1.10");
	assert_true(en->expected && en->off_by_default);
	assert_int_equal(en->cost, CAT_COST_HIGH);
	assert_string_equal(en->unless, "foo.first");
	assert_int_equal(en->naming, CAT_NAME_LITERAL);
	assert_string_equal(en->name, "<{symbol}>");
	assert_int_equal(en->nargs, 3);
	assert_true(en->has_return && en->args[1].is_name && !en->args[0].is_name);
	assert_int_equal(en->error, CAT_ERROR_NEGATIVE);
	assert_int_equal(en->layer, LAYER_HOST);
	assert_int_equal(en->libraries.len, 1);
	assert_string_equal(en->libraries.data[0], "libbar.so");
	assert_string_equal(en->exclude.data[0], "foo_x*");
	assert_int_equal(en->symbols.len, 2);

	en = &c.entries.data[2];
	assert_true(en->usdt && !en->instant);
	assert_string_equal(en->symbols.data[0], "a:b");
	assert_string_equal(en->end_symbols.data[0], "a:c");
	assert_true(c.entries.data[3].usdt && c.entries.data[3].instant);
	en = &c.entries.data[4];
	assert_true(en->instant && en->python);
	assert_int_equal(en->naming, CAT_NAME_TORCH_OP);
	assert_ptr_equal(catalog_find(&c, "foo.third"), &c.entries.data[2]);
	assert_null(catalog_find(&c, "foo"));
	catalog_free(&c);
}

static void roles_bytes_and_enums(void **state)
{
	(void)state;
	struct catalog c = {0};
	parse_ok(
		&c,
		"catalog: 1\n"
		"layer: cuda\n"
		"libraries: [\"libfoo.so*\"]\n"
		"enums:\n"
		"  result: {0: OK, -1: BAD, 0x10: WORSE}\n"
		"  type_t:\n"
		"    7: [float32, 4]\n"
		"    9: [bfloat16, 2]\n"
		"probes:\n"
		"  - id: foo.copy\n"
		"    symbols: foo_copy\n"
		"    bytes: [width, type, 4]\n"
		"    signature: \"(size width, int:type_t type) -> int:result!nonzero except 16\"\n"
		"    role: copy\n"
		"  - id: foo.sum\n"
		"    symbols: foo_sum\n"
		"    role: collective\n"
		"    signature: (ptr comm, count sequence@arg0)\n"
		"  - id: foo.send\n"
		"    symbols: foo_send\n"
		"    role: p2p\n"
		"    signature: (ptr comm, count sequence@arg0)\n"
		"  - {id: foo.plain, symbols: foo, signature: (count n)}\n");
	assert_int_equal(c.enums.len, 5);
	assert_string_equal(c.enums.data[0].type, "result");
	assert_string_equal(c.enums.data[0].name, "OK");
	assert_int_equal(c.enums.data[1].value, -1);
	assert_int_equal(c.enums.data[2].value, 16);
	assert_int_equal(c.enums.data[2].bytes, 0);
	assert_string_equal(c.enums.data[4].type, "type_t");
	assert_string_equal(c.enums.data[4].name, "bfloat16");
	assert_int_equal(c.enums.data[4].bytes, 2);

	const struct cat_entry *en = catalog_find(&c, "foo.copy");
	assert_string_equal(en->role, "copy");
	assert_string_equal(en->factors[0], "width");
	assert_string_equal(en->factors[1], "type");
	assert_string_equal(en->factors[2], "4");
	assert_string_equal(en->args[1].enum_type, "type_t");
	assert_string_equal(en->args[2].enum_type, "result");
	assert_true(en->has_except && en->error_except == 16);
	/* calls are numbered by role: the two kinds do not count each other */
	int sum = catalog_find(&c, "foo.sum")->args[1].fetch.layout;
	int send = catalog_find(&c, "foo.send")->args[1].fetch.layout;
	assert_true(sum != send && sum && send);
	assert_int_equal(catalog_find(&c, "foo.plain")->args[0].fetch.layout, 0);
	assert_null(catalog_find(&c, "foo.plain")->role);
	/* what a refused file named is not kept */
	parse_fails(&c, "catalog: 1\nenums:\n  more: {0: A}\nprobes: []\n",
		    "t.yaml:4:9: probes: empty list");
	assert_int_equal(c.enums.len, 5);
	catalog_free(&c);
}

static void nothing_is_added_on_error(void **state)
{
	(void)state;
	struct catalog c = {0};
	parse_ok(&c, HEAD "  - {id: a, symbols: a}\n");
	parse_fails(&c, HEAD "  - {id: b, symbols: b}\n  - {id: c}\n",
		    "t.yaml:5:5: probes[1].symbols: one of symbols and usdt is needed");
	parse_fails(&c, HEAD "  - {id: a, symbols: b}\n",
		    "t.yaml:4:10: probes[0].id: 'a' is taken by an entry of t.yaml");
	catalog_free(&c);
}

static void limits(void **state)
{
	(void)state;
	struct catalog c = {0};
	struct err e;
	struct buf b = {0};
	buf_printf(&b, HEAD);
	for (int i = 0; i < 4097; i++)
		buf_printf(&b, " - {id: a%d, symbols: a}\n", i);
	assert_int_equal(catalog_parse(&c, (char *)b.data, b.len, "t.yaml", &e), -EINVAL);
	assert_string_equal(e.msg, "t.yaml:4:2: probes: more than 4096 entries in the catalog");
	b.len = 0;
	buf_printf(&b, HEAD " - {id: a, symbols: [");
	for (int i = 0; i < 257; i++)
		buf_printf(&b, "a,");
	buf_printf(&b, "]}");
	assert_int_equal(catalog_parse(&c, (char *)b.data, b.len, "t.yaml", &e), -EINVAL);
	assert_string_equal(e.msg, "t.yaml:4:21: probes[0].symbols: more than 256 items");
	b.len = 0;
	buf_printf(&b, HEAD " - {id: a, symbols: a, about: %02049d}", 0);
	assert_int_equal(catalog_parse(&c, (char *)b.data, b.len, "t.yaml", &e), -EINVAL);
	assert_string_equal(e.msg, "t.yaml:4:31: probes[0].about: longer than 2048 bytes");
	b.len = 0;
	buf_printf(&b, "#%01048576d", 0);
	assert_int_equal(catalog_parse(&c, (char *)b.data, b.len, "t.yaml", &e), -EFBIG);
	assert_string_equal(e.msg, "t.yaml: larger than 1048576 bytes");
	buf_free(&b);
	catalog_free(&c);
}

static bool has_arg(const struct cat_entry *en, const char *name)
{
	for (unsigned i = 0; i < en->nargs; i++)
		if (!strcmp(en->args[i].name, name))
			return true;
	return !strcmp(name, "bytes") && en->factors[0];
}

/* A role without the arguments that it wants does nothing, and nobody would notice. */
static void builtin_roles(const struct catalog *c)
{
	static const struct {
		const char *role, *args[5];
	} wants[] = {
		{"launch", {"kernel", "grid", "block", "stream"}},
		{"graph_launch", {"graph_exec", "stream"}},
		{"graph_instantiate", {"graph_exec", "graph"}},
		{"graph_exec_destroy", {"graph_exec"}},
		{"graph_child_node", {"graph", "child"}},
		{"capture_begin", {"stream"}},
		{"capture_end", {"stream", "graph"}},
		{"event_record", {"event", "stream"}},
		{"event_wait", {"stream", "event"}},
		{"copy", {"bytes"}},
		{"copy_htod", {"bytes"}},
		{"copy_dtoh", {"bytes"}},
		{"copy_dtod", {"bytes"}},
		{"copy_ptop", {"bytes"}},
		{"set", {"bytes"}},
		{"alloc", {"pointer", "bytes", "caller"}},
		{"alloc_managed", {"pointer", "bytes", "caller"}},
		{"alloc_caller", {"pointer", "caller"}},
		{"free", {"pointer"}},
		{"vmm_create", {"handle", "bytes", "device", "location", "caller"}},
		{"vmm_map", {"address", "bytes", "handle"}},
		{"vmm_unmap", {"address", "bytes"}},
		{"vmm_release", {"handle"}},
		{"host_alloc", {"pointer", "bytes"}},
		{"host_free", {"pointer"}},
		{"host_register", {"pointer", "bytes"}},
		{"host_unregister", {"pointer"}},
		{"kernel_name", {"handle", "name"}},
		{"kernel_alias", {"function", "kernel"}},
		{"collective", {"comm", "bytes", "sequence"}},
		{"p2p", {"comm", "bytes", "sequence", "peer"}},
		{"comm_init", {"comm", "id", "rank", "size"}},
		{"comm_split", {"comm", "color", "child"}},
		{"comm_destroy", {"comm"}},
	};
	for (size_t k = 0; k < sizeof(wants) / sizeof(wants[0]); k++) {
		unsigned entries = 0;
		for (size_t i = 0; i < c->entries.len; i++) {
			const struct cat_entry *en = &c->entries.data[i];
			if (!en->role || strcmp(en->role, wants[k].role))
				continue;
			entries++;
			for (unsigned a = 0; a < 5 && wants[k].args[a]; a++)
				if (!has_arg(en, wants[k].args[a]))
					fail_msg("%s: role %s without %s", en->id, en->role,
						 wants[k].args[a]);
		}
		if (!entries)
			fail_msg("no entry has the role %s", wants[k].role);
	}
}

/* Each enumeration that a signature names is there, and has a value. */
static void builtin_enums(const struct catalog *c)
{
	for (size_t i = 0; i < c->entries.len; i++) {
		const struct cat_entry *en = &c->entries.data[i];
		for (unsigned a = 0; a < en->nargs; a++) {
			const char *type = en->args[a].enum_type;
			size_t k = 0;
			while (type && k < c->enums.len && strcmp(c->enums.data[k].type, type))
				k++;
			if (type && k == c->enums.len)
				fail_msg("%s: no enumeration %s", en->id, type);
		}
	}
}

static void builtin(void **state)
{
	(void)state;
	struct catalog c = {0};
	struct err e = {""};
	if (catalog_load_builtin(&c, &e))
		fail_msg("%s", e.msg);
	const struct cat_entry *en = catalog_find(&c, "torch.operators");
	assert_non_null(en);
	assert_int_equal(en->layer, LAYER_TORCH);
	assert_int_equal(en->naming, CAT_NAME_TORCH_OP);
	assert_string_equal(en->origin, "built-in:torch.yaml");
	assert_false(cat_entry_is_users(en));
	en = catalog_find(&c, "torch.autograd_node");
	assert_int_equal(en->nargs, 2);
	assert_int_equal(en->args[0].fetch.index, 2);
	assert_true(en->args[0].is_vtable && en->args[0].is_name);
	assert_int_equal(en->args[1].fetch.index, 2); /* the node's number */
	assert_false(en->args[1].is_name);
	en = catalog_find(&c, "python.frame");
	assert_true(en->python && en->args[0].is_name);
	assert_int_equal(en->args[0].fetch.index, 1);
	assert_int_equal(en->args[0].arg_type, CAT_TYPE_CODE);
	en = catalog_find(&c, "python.gc");
	assert_true(en->usdt && en->end_symbols.len == 1 && !en->instant);
	assert_string_equal(catalog_find(&c, "python.gc_function")->unless, "python.gc");
	/* functions of C APIs are known by their names */
	for (size_t i = 0; i < c.entries.len; i++)
		assert_true(c.entries.data[i].about || c.entries.data[i].layer == LAYER_MPI ||
			    layer_traits(c.entries.data[i].layer) & LAYER_NEEDS_GPU);
	builtin_roles(&c);
	builtin_enums(&c);
	assert_true(catalog_load_builtin(&c, &e) < 0); /* the ids are taken */
	catalog_free(&c);
}

static void spec_says(const char *spec, const char *says)
{
	struct catalog c = {0};
	struct err e = {""};
	assert_int_equal(catalog_add_spec(&c, spec, &e), -EINVAL);
	assert_string_equal(e.msg, says);
	assert_int_equal(c.entries.len, 0);
	catalog_free(&c);
}

static void specs(void **state)
{
	(void)state;
	struct catalog c = {0};
	struct err e = {""};
	const char *spec = "libfoo.so:foo_*(u64 handle, size bytes) -> int!nonzero";
	assert_int_equal(catalog_add_spec(&c, spec, &e), 0);
	const struct cat_entry *en = &c.entries.data[0];
	assert_int_equal(en->layer, LAYER_USER);
	assert_string_equal(en->libraries.data[0], "libfoo.so");
	assert_string_equal(en->symbols.data[0], "foo_*");
	assert_int_equal(en->nargs, 3);
	assert_int_equal(en->args[1].arg_type, CAT_TYPE_BYTES);
	assert_int_equal(en->error, CAT_ERROR_NONZERO);
	assert_true(en->expected);
	assert_string_equal(en->origin, "--probe");
	assert_true(cat_entry_is_users(en));
	assert_int_equal(catalog_add_spec(&c, spec, &e), -EEXIST);
	assert_int_equal(catalog_add_spec(&c, "/usr/lib/libc.so.6:malloc", &e), 0);
	assert_string_equal(c.entries.data[1].libraries.data[0], "/usr/lib/libc.so.6");
	assert_int_equal(c.entries.data[1].nargs, 0);
	assert_int_equal(catalog_add_spec(&c, "usdt:python3*:python:gc__start", &e), 0);
	assert_true(c.entries.data[2].usdt && c.entries.data[2].instant);
	assert_string_equal(c.entries.data[2].symbols.data[0], "python:gc__start");
	assert_int_equal(catalog_add_spec(&c, "python3*:PyErr_SetObject(_, pystr what)", &e), 0);
	assert_true(c.entries.data[3].python);
	assert_int_equal(catalog_add_spec(&c, "libfoo.so : bar () -> u64", &e), -EINVAL);
	assert_int_equal(catalog_add_spec(&c, "libfoo.so:bar () -> u64", &e), 0);
	assert_string_equal(c.entries.data[4].symbols.data[0], "bar");
	catalog_free(&c);
}

static void bad_specs(void **state)
{
	(void)state;
	spec_says("foo", "--probe 'foo': character 4: expected ':' between library and symbol, as "
			 "in 'libfoo.so:foo_*'");
	spec_says("foo(int a)", "--probe 'foo(int a)': character 4: expected ':' between library "
				"and symbol, as in 'libfoo.so:foo_*'");
	spec_says(":foo", "--probe ':foo': character 1: empty pattern");
	spec_says("libfoo.so:", "--probe 'libfoo.so:': character 11: empty pattern");
	spec_says("libfoo.so:(int a)", "--probe 'libfoo.so:(int a)': character 11: empty pattern");
	spec_says("libfoo.so:foo::bar",
		  "--probe 'libfoo.so:foo::bar': character 11: symbol 'foo::bar': C++ names are "
		  "given mangled, as `nm -D` shows them (_ZN3foo3barE*)");
	spec_says("lib/libfoo.so:foo", "--probe 'lib/libfoo.so:foo': character 1: pattern "
				       "'lib/libfoo.so': a file name has no '/', a path begins "
				       "with it");
	spec_says("libfoo.so:foo[", "--probe 'libfoo.so:foo[': character 11: pattern 'foo[': '[' "
				    "without ']'");
	spec_says("libfoo.so:foo(double x)",
		  "--probe 'libfoo.so:foo(double x)': character 15: 'double' arguments travel in "
		  "SSE registers, which uprobes cannot read; leave it out (it takes no place "
		  "among the others)");
	spec_says("libfoo.so:foo bar", "--probe 'libfoo.so:foo bar': character 15: expected '(' or "
				       "'->', found 'bar'");
	spec_says("usdt:libfoo.so:start",
		  "--probe 'usdt:libfoo.so:start': character 16: USDT probe "
		  "'start' is not of the form provider:name");
	spec_says("usdt:libfoo.so:a:b(int x)",
		  "--probe 'usdt:libfoo.so:a:b(int x)': character 19: arguments of USDT probes "
		  "cannot be read yet");
	spec_says("libfoo.so:foo\n", "--probe: holds a control character");
}

static char *read_file(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return NULL;
	char *text = xcalloc(65536, 1);
	*ret_len = fread(text, 1, 65535, f);
	fclose(f);
	return text;
}

/* Compares, or with EACGM_UPDATE_GOLDEN writes, the line that a file is refused with. */
static void check_golden(const char *dir, const char *name)
{
	struct catalog c = {0};
	struct err e = {""};
	size_t len, len_expected;
	char *path = xasprintf("%s/%s", dir, name);
	char *text = read_file(path, &len);
	char *expected_path = xasprintf("%.*s.error", (int)(strlen(path) - 5), path);
	assert_non_null(text);
	assert_true(catalog_parse(&c, text, len, name, &e) < 0);
	assert_null(strchr(e.msg, '\n'));
	assert_int_equal(c.entries.len, 0);
	char *got = xasprintf("%s\n", e.msg);
	if (getenv("EACGM_UPDATE_GOLDEN")) {
		FILE *f = fopen(expected_path, "we");
		assert_non_null(f);
		fputs(got, f);
		fclose(f);
	}
	char *expected = read_file(expected_path, &len_expected);
	assert_non_null(expected);
	assert_string_equal(got, expected);
	free(got);
	free(expected);
	free(expected_path);
	free(text);
	free(path);
	catalog_free(&c);
}

static void golden_errors(void **state)
{
	(void)state;
	const char *root = getenv("EACGM_SOURCE_ROOT");
	char *dir = xasprintf("%s/tests/golden/catalog", root ? root : ".");
	DIR *d = opendir(dir);
	if (!d)
		fail_msg("%s: set EACGM_SOURCE_ROOT", dir);
	int files = 0;
	for (struct dirent *ent = readdir(d); ent; ent = readdir(d)) {
		size_t n = strlen(ent->d_name);
		if (n < 6 || strcmp(ent->d_name + n - 5, ".yaml"))
			continue;
		check_golden(dir, ent->d_name);
		files++;
	}
	closedir(d);
	free(dir);
	assert_true(files >= 73);
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char *path = xasprintf("%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	free(path);
}

static void folders(void **state)
{
	(void)state;
	static const char *const names[] = {"b.yaml", "a.yml", "c.txt", ".d.yaml"};
	char dir[] = "/tmp/catalog_test.XXXXXX";
	assert_non_null(mkdtemp(dir));
	struct catalog c = {0};
	struct err e = {""};
	assert_int_equal(catalog_load_dir(&c, dir, &e), 0);
	assert_int_equal(catalog_load_dir(&c, "/nonexistent/catalog.d", &e), 0);
	write_file(dir, "b.yaml", HEAD "  - {id: b, symbols: b}\n");
	write_file(dir, "a.yml", HEAD "  - {id: a, symbols: a}\n");
	write_file(dir, "c.txt", "not a catalog");
	write_file(dir, ".d.yaml", "not a catalog");
	char *sub = xasprintf("%s/e.yaml", dir);
	assert_int_equal(mkdir(sub, 0700), 0);
	assert_int_equal(catalog_load_dir(&c, dir, &e), 0);
	assert_int_equal(c.entries.len, 2);
	assert_string_equal(c.entries.data[0].id, "a");
	assert_string_equal(c.entries.data[1].id, "b");
	catalog_free(&c);
	/* a bad file takes back what the good one before it added */
	write_file(dir, "b.yaml", "catalog: 2\n");
	assert_int_equal(catalog_load_dir(&c, dir, &e), -EINVAL);
	assert_non_null(strstr(e.msg, "/b.yaml:1:10: catalog: format '2'"));
	assert_int_equal(c.entries.len, 0);
	assert_int_equal(catalog_load_file(&c, sub, &e), -EISDIR);
	assert_int_equal(catalog_load_file(&c, "/nonexistent.yaml", &e), -ENOENT);
	assert_string_equal(e.msg, "/nonexistent.yaml: No such file or directory");
	for (size_t i = 0; i < 4; i++) {
		char *path = xasprintf("%s/%s", dir, names[i]);
		unlink(path);
		free(path);
	}
	rmdir(sub);
	free(sub);
	rmdir(dir);
	catalog_free(&c);
}

static void layers(void **state)
{
	(void)state;
	struct catalog c = {0};
	assert_int_equal(catalog_layer(&c, "torch"), LAYER_TORCH);
	assert_string_equal(catalog_layer_name(&c, LAYER_TORCH), "torch");
	assert_int_equal(catalog_layer(&c, "mylib"), -ENOENT);
	assert_int_equal(catalog_layer(&c, "step"), -ENOENT); /* nothing calls it */

	/* a file's own, for all its entries and for one */
	parse_ok(&c, "catalog: 1\nlayer: mylib\nlibraries: [\"libfoo.so*\"]\nprobes:\n"
		     "  - {id: a, symbols: a}\n"
		     "  - {id: b, symbols: b, layer: my-other_2}\n"
		     "  - {id: c, symbols: c, layer: mylib}\n");
	assert_int_equal(catalog_layer(&c, "mylib"), LAYER_NAMED);
	assert_int_equal(c.entries.data[0].layer, LAYER_NAMED);
	assert_int_equal(c.entries.data[1].layer, LAYER_NAMED + 1);
	assert_int_equal(c.entries.data[2].layer, LAYER_NAMED);
	assert_string_equal(catalog_layer_name(&c, LAYER_NAMED + 1), "my-other_2");
	assert_true(cat_entry_is_users(&c.entries.data[0]));

	/* a file that is refused names none */
	parse_fails(&c, HEAD "  - {id: d, symbols: d, layer: third}\n  - {id: a, symbols: a}\n",
		    "t.yaml:5:10: probes[1].id: 'a' is taken by an entry of t.yaml");
	assert_int_equal(catalog_layer(&c, "third"), -ENOENT);

	for (unsigned i = 2; LAYER_NAMED + i < LAYERS_MAX; i++) {
		char text[128];
		snprintf(text, sizeof(text), HEAD " - {id: n%u, symbols: a, layer: l%u}\n", i, i);
		parse_ok(&c, text);
	}
	assert_int_equal(catalog_layer(&c, "l2"), LAYER_NAMED + 2);
	parse_fails(&c, HEAD "  - {id: d, symbols: d, layer: more}\n",
		    "t.yaml:4:32: probes[0].layer: more than 32 layers");
	catalog_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key),
		cmocka_unit_test(roles_bytes_and_enums),
		cmocka_unit_test(nothing_is_added_on_error),
		cmocka_unit_test(limits),
		cmocka_unit_test(builtin),
		cmocka_unit_test(specs),
		cmocka_unit_test(bad_specs),
		cmocka_unit_test(folders),
		cmocka_unit_test(layers),
		cmocka_unit_test(golden_errors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
