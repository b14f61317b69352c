/* flame_formats_test.c - call trees in every format: hostile names, nothing, deep, wide, two runs
 * compared. Readers that are not eacgm's look at the files in tests/golden/flame_test.py.
 * links: golden export recording base */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <zlib.h>

#include "base/utf8.h"
#include "export/flame.h"
#include "export/flame_order.h"
#include "export/flame_svg_impl.h"
#include "golden/flame_trees.h"

static char *written(const char *tree, const char *format, size_t *ret_len)
{
	struct calltree t;
	struct err e = {0};
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);
	flame_tree_make(&t, tree);
	assert_int_equal(flame_format(format)->write(out, &t, &e), 0);
	assert_int_equal(fclose(out), 0);
	calltree_free(&t);
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

/* ---- all ---- */

static void formats_have_names(void **state)
{
	(void)state;
	const char *const names[] = {"svg", "folded", "pprof", "speedscope"};
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(flame_format(names[i])->name, names[i]);
	assert_null(flame_format("html"));
}

static void same_tree_same_bytes(void **state)
{
	(void)state;
	const char *const names[] = {"svg", "folded", "pprof", "speedscope"};
	for (size_t i = 0; i < 4; i++) {
		size_t a_len, b_len;
		char *a = written("training", names[i], &a_len);
		char *b = written("training", names[i], &b_len);
		assert_int_equal(a_len, b_len);
		assert_memory_equal(a, b, a_len);
		free(a);
		free(b);
	}
}

static void no_root_is_refused(void **state)
{
	(void)state;
	struct calltree t = {.unit = "ns", .type = "cpu"};
	const char *const names[] = {"svg", "pprof", "speedscope"};
	for (size_t i = 0; i < 3; i++) {
		struct err e = {0};
		assert_true(flame_format(names[i])->write(stderr, &t, &e) < 0);
		assert_string_equal(e.msg, "the call tree has no root");
	}
}

/* ---- rows of the SVG ---- */

static void order_is_by_name(void **state)
{
	(void)state;
	struct calltree t;
	flame_tree_make(&t, "training");
	uint32_t *order = flame_preorder(&t);
	uint8_t *seen = xcalloc(t.nodes.len, 1);
	const char *before = "";
	for (size_t i = 0; i < t.nodes.len; i++) {
		const struct calltree_node *n = &t.nodes.data[order[i]];
		assert_false(seen[order[i]]);
		assert_true(order[i] == 0 || seen[n->parent]);
		seen[order[i]] = 1;
		const char *name = strtab_get(&t.strings, t.frames.data[n->frame].name, NULL);
		if (order[i] && n->parent == 0) {
			assert_true(strcmp(before, name) < 0);
			before = name;
		}
	}
	free(seen);
	free(order);
	calltree_free(&t);
}

/* What is left out of a tree is less than a step per node, and is in its parents. */
static void narrow_frames_are_merged(void **state)
{
	(void)state;
	struct calltree t;
	struct svg_rows r = {0};
	flame_tree_make(&t, "wide");
	svg_rows_make(&r, &t, 12000, 250000);
	assert_int_equal(r.rows.len, 1 + 10 + 1);
	assert_int_equal(r.rows.data[0].total[0], 10 * 1000000 + 99990 * 10);
	const struct svg_row *last = &r.rows.data[11];
	assert_int_equal(last->frame, SVG_SMALLER);
	assert_int_equal(last->merged, 99990);
	assert_int_equal(last->total[0], 99990 * 10);
	svg_rows_free(&r);
	calltree_free(&t);
}

static void rows_are_limited(void **state)
{
	(void)state;
	struct calltree t;
	struct svg_rows r = {0};
	size_t single = 0;
	flame_tree_make(&t, "large");
	svg_rows_make(&r, &t, 1000000000, 5000);
	for (size_t i = 0; i < r.rows.len; i++)
		single += r.rows.data[i].frame != SVG_SMALLER;
	assert_in_range(single, 1000, 5000);
	svg_rows_free(&r);
	calltree_free(&t);
}

static void what_only_the_base_has_is_drawn(void **state)
{
	(void)state;
	size_t len;
	char *svg = written("differential", "svg", &len);
	assert_non_null(strstr(svg, "only_in_base"));
	assert_non_null(strstr(svg, "class=\"grew l5\""));
	free(svg);
}

/* ---- SVG ---- */

static void svg_escapes_names(void **state)
{
	(void)state;
	size_t len;
	char *svg = written("hostile", "svg", &len);
	assert_int_equal(strlen(svg), len);
	assert_true(utf8_valid(svg, len));
	assert_int_equal(count(svg, "<script"), 1);
	assert_int_equal(count(svg, "]]>"), 2); /* of the style and of the script */
	for (size_t i = 0; i < len; i++)
		assert_true((unsigned char)svg[i] >= ' ' || svg[i] == '\n' || svg[i] == '\t');
	assert_null(strstr(svg, "\xef\xbf\xbe"));
	free(svg);
}

static void svg_needs_nothing_else(void **state)
{
	(void)state;
	size_t len;
	char *svg = written("training", "svg", &len);
	assert_int_equal(count(svg, "http"), 3); /* the names of SVG, twice, and of XHTML */
	assert_null(strstr(svg, "@import"));
	assert_null(strstr(svg, "url("));
	free(svg);
}

static void svg_sizes(void **state)
{
	(void)state;
	for (const char *const *name = flame_tree_names; *name; name++) {
		size_t len;
		char *svg = written(*name, "svg", &len);
		assert_true(len < 5 << 20);
		assert_non_null(strstr(svg, "</svg>"));
		free(svg);
	}
}

static void svg_subtitles(void **state)
{
	(void)state;
	const char *const lines[][2] = {
		{"training", "cpu: total 60.0 s, recorded over 60.0 s, 99 samples/s"},
		{"differential", "cpu: total 61.0 s, base 58.0 s, "},
		{"bytes", "gpu_inuse: total 3.50 GiB"},
		{"one", "cpu: total 5,"},
		{"empty", "offcpu: total 0 ns,"},
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		size_t len;
		char *svg = written(lines[i][0], "svg", &len);
		assert_non_null(strstr(svg, lines[i][1]));
		free(svg);
	}
}

/* ---- speedscope ---- */

static json_t *speedscope(const char *tree)
{
	size_t len;
	json_error_t e;
	char *text = written(tree, "speedscope", &len);
	json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
	assert_non_null(v);
	free(text);
	return v;
}

static json_t *profile_of(json_t *file, size_t i)
{
	return json_array_get(json_object_get(file, "profiles"), i);
}

static json_int_t sum_of(const json_t *list)
{
	json_int_t sum = 0;
	for (size_t i = 0; i < json_array_size(list); i++)
		sum += json_integer_value(json_array_get(list, i));
	return sum;
}

static void speedscope_sums(void **state)
{
	(void)state;
	json_t *file = speedscope("training"), *p = profile_of(file, 0);
	assert_int_equal(sum_of(json_object_get(p, "weights")), TRAINING_TOTAL_NS);
	assert_int_equal(json_integer_value(json_object_get(p, "endValue")), TRAINING_TOTAL_NS);
	assert_string_equal(json_string_value(json_object_get(p, "unit")), "nanoseconds");
	assert_int_equal(json_array_size(json_object_get(p, "samples")), 10);
	json_decref(file);
	file = speedscope("differential");
	assert_int_equal(json_array_size(json_object_get(file, "profiles")), 2);
	assert_int_equal(sum_of(json_object_get(profile_of(file, 0), "weights")), 61000000000);
	assert_int_equal(sum_of(json_object_get(profile_of(file, 1), "weights")), 58000000000);
	json_decref(file);
}

static void speedscope_stacks_are_as_deep_as_it_reads(void **state)
{
	(void)state;
	json_t *file = speedscope("deep");
	json_t *stack = json_array_get(json_object_get(profile_of(file, 0), "samples"), 0);
	json_t *frames = json_object_get(json_object_get(file, "shared"), "frames");
	assert_int_equal(json_array_size(stack), 2001);
	json_t *middle =
		json_array_get(frames, (size_t)json_integer_value(json_array_get(stack, 1000)));
	assert_string_equal(json_string_value(json_object_get(middle, "name")),
			    "[frames left out]");
	json_decref(file);
}

/* ---- pprof ---- */

static void pprof_is_gzip(void **state)
{
	(void)state;
	for (const char *const *name = flame_tree_names; *name; name++) {
		size_t len;
		uint8_t chunk[4096];
		char *file = written(*name, "pprof", &len);
		z_stream z = {.next_in = (uint8_t *)file, .avail_in = (uInt)len};
		int rc = inflateInit2(&z, MAX_WBITS + 16);
		while (rc == Z_OK) {
			z.next_out = chunk;
			z.avail_out = sizeof(chunk);
			rc = inflate(&z, Z_NO_FLUSH);
		}
		assert_int_equal(rc, Z_STREAM_END);
		assert_int_equal(z.avail_in, 0);
		inflateEnd(&z);
		free(file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_have_names),
		cmocka_unit_test(same_tree_same_bytes),
		cmocka_unit_test(no_root_is_refused),
		cmocka_unit_test(order_is_by_name),
		cmocka_unit_test(narrow_frames_are_merged),
		cmocka_unit_test(rows_are_limited),
		cmocka_unit_test(what_only_the_base_has_is_drawn),
		cmocka_unit_test(svg_escapes_names),
		cmocka_unit_test(svg_needs_nothing_else),
		cmocka_unit_test(svg_sizes),
		cmocka_unit_test(svg_subtitles),
		cmocka_unit_test(speedscope_sums),
		cmocka_unit_test(speedscope_stacks_are_as_deep_as_it_reads),
		cmocka_unit_test(pprof_is_gzip),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
