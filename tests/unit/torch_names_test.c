/* torch_names_test.c - operators' names from schema strings, by the rule, and against torch.
 *
 * links: base symbolize */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "elf_builder.h"
#include "symbolize/torch_names.h"

static const char rodata[] = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor\0"
			     "aten::linear(Tensor input, Tensor weight) -> Tensor\0"
			     "linear_backward(Tensor self) -> (Tensor, Tensor)\0"
			     "__and__.Scalar(Tensor self, Scalar other) -> Tensor\0"
			     "sum.dim_IntList(Tensor self, int[1]? dim) -> Tensor\0"
			     "max.names_dim(Tensor self, Dimname dim) -> (Tensor, Tensor)\0"
			     "mean(Tensor self) -> Tensor\0"
			     "special_erf.out(Tensor self, Tensor(a!) out) -> Tensor(a!)\0"
			     "prim::only.this(Tensor self) -> Tensor\0"
			     "sub(sparse, dense) is not supported. Use add(dense, sparse).\0"
			     ".oops(Tensor self) -> Tensor\0"
			     "cut.off(Tensor self) -> Ten";

static struct torch_names *load_sample(void)
{
	struct torch_names *n;
	struct elf_builder b;
	struct elf_file *f;
	struct err e;

	elf_builder_init(&b);
	/* without the last NUL: the last string does not end in the section */
	elf_builder_section(&b, ".rodata", SHT_PROGBITS, rodata, sizeof(rodata) - 1, 0);
	elf_builder_finish(&b, ET_DYN);
	assert_int_equal(elf_file_open_memory(&f, b.file.data, b.file.len, &e), 0);
	n = torch_names_load(f);
	elf_file_close(f);
	elf_builder_free(&b);
	return n; /* holds nothing of the file */
}

static void assert_operator(const struct torch_names *n, const char *joined, const char *expected)
{
	char *symbol = xasprintf("_ZN2at4_ops%zu%s4callERKNS_6TensorE", strlen(joined), joined);
	char *name = torch_operator_name(n, symbol);

	assert_non_null(name);
	assert_string_equal(name, expected);
	free(name);
	free(symbol);
}

static void test_sample(void **state)
{
	struct torch_names *n = load_sample();

	(void)state;
	assert_operator(n, "add_Tensor", "aten::add");
	assert_operator(n, "linear", "aten::linear");
	assert_operator(n, "linear_backward", "aten::linear_backward");
	assert_operator(n, "__and___Scalar", "aten::__and__");
	assert_operator(n, "sum_dim_IntList", "aten::sum");
	assert_operator(n, "max_names_dim", "aten::max");
	/* no string of their own: a known name and a known overload */
	assert_operator(n, "mean_names_dim", "aten::mean");
	assert_operator(n, "mean_off_by", "aten::mean_off_by");
	/* nothing known: the overload as it is usually written */
	assert_operator(n, "erf_out", "aten::erf");
	assert_operator(n, "lerp_Scalar_out", "aten::lerp");
	assert_operator(n, "native_layer_norm", "aten::native_layer_norm");
	assert_operator(n, "sub", "aten::sub");
	torch_names_free(n);
}

static void test_other_symbols(void **state)
{
	static const char *const symbols[] = {
		"_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetE",
		"_ZN2at4_ops4nameE",
		"_ZN2at4_ops99add4callE",
		"_ZN2at4_ops99999999999999999999add4callE",
		"_ZN2at4_ops0",
		"_ZN2at4_ops",
		"_ZN2at6native3addE",
		"",
	};
	struct torch_names *n = load_sample();

	(void)state;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
		assert_null(torch_operator_name(n, symbols[i]));
	torch_names_free(n);
}

/* torch's own list: "add_Tensor aten::add", one line for each schema. */
static const char list_schemas[] =
	"/usr/bin/python3 -c \""
	"import torch\n"
	"for s in torch._C._jit_get_all_schemas():\n"
	"    n = s.name.split('::')\n"
	"    if n[0] == 'aten':\n"
	"        print(n[1] + ('_' + s.overload_name if s.overload_name else ''), s.name)\n"
	"\" 2>/dev/null";

struct comparison {
	struct torch_names *names;
	struct buf schemas;
	int operators;
	int unknown;
	int wrong;
};

static int compare_operator(const struct elf_symbol *sym, void *ctx)
{
	struct comparison *c = ctx;
	char *name = torch_operator_name(c->names, sym->name);
	char *joined, *line;
	int len = 0, at = 0;

	if (!name)
		return 0;
	assert_int_equal(sscanf(sym->name, "_ZN2at4_ops%d%n", &len, &at), 1);
	joined = xasprintf("\n%.*s ", len, sym->name + at);
	line = strstr((char *)c->schemas.data, joined);
	c->operators++;
	if (!line) {
		c->unknown++;
	} else {
		const char *truth = line + strlen(joined);

		if (strncmp(truth, name, strlen(name)) != 0 || truth[strlen(name)] != '\n') {
			print_error("%s named %s\n", sym->name, name);
			c->wrong++;
		}
	}
	free(joined);
	free(name);
	return 0;
}

static void test_against_torch(void **state)
{
	static const char library[] = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so";
	struct comparison c = {0};
	struct elf_file *f;
	char block[4096];
	struct err e;
	FILE *p;
	size_t n;

	(void)state;
	if (elf_file_open(&f, library, &e) < 0 &&
	    elf_file_open(&f, "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13", &e) < 0) {
		print_message("skipped: %s (Debian: python3-torch)\n", e.msg);
		skip();
	}
	p = popen(list_schemas, "r");
	assert_non_null(p);
	buf_byte(&c.schemas, '\n');
	while ((n = fread(block, 1, sizeof(block), p)) > 0)
		buf_add(&c.schemas, block, n);
	buf_byte(&c.schemas, 0);
	if (pclose(p) != 0) {
		elf_file_close(f);
		buf_free(&c.schemas);
		print_message("skipped: /usr/bin/python3 cannot import torch\n");
		skip();
	}
	c.names = torch_names_load(f);
	elf_file_symbols(f, compare_operator, &c);
	print_message("%d operators\n", c.operators);
	assert_true(c.operators > 2000);
	assert_int_equal(c.unknown, 0);
	assert_int_equal(c.wrong, 0);
	torch_names_free(c.names);
	elf_file_close(f);
	buf_free(&c.schemas);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sample),
		cmocka_unit_test(test_other_symbols),
		cmocka_unit_test(test_against_torch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
