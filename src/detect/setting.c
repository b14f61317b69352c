/* setting.c - facts as pairs of texts: collected and compared. */
#include "detect/setting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define ID_SHOWN 12 /* digits of a build ID, as git shows of its own */

void setting_free(struct setting *s)
{
	for (size_t i = 0; i < s->facts.len; i++) {
		free(s->facts.data[i].name);
		free(s->facts.data[i].value);
	}
	vec_free(&s->facts);
}

/* ---- collecting ---- */

void setting_add(struct setting *s, const char *name, const char *value)
{
	if (!value || !*value || s->facts.len >= SETTING_FACTS_MOST)
		return;
	for (size_t i = 0; i < s->facts.len; i++)
		if (!strcmp(s->facts.data[i].name, name) && !strcmp(s->facts.data[i].value, value))
			return;
	struct buf clean = {0};
	utf8_append(&clean, value, strnlen(value, SETTING_VALUE_BYTES));
	*vec_push(&s->facts) = (struct setting_fact){
		xstrdup(name), xasprintf("%.*s", (int)clean.len, (const char *)clean.data)};
	buf_free(&clean);
}

/* Libraries that the time of a job's calls is spent in, by how their files' names begin. */
static const struct {
	const char *begins, *name;
} libraries[] = {
	{"libtorch_cpu.", "PyTorch"},
	{"libtorch_cuda.", "PyTorch for CUDA"},
	{"libcuda.", "CUDA driver"},
	{"libcudart", "CUDA runtime"},
	{"libcublas.", "cuBLAS"},
	{"libcudnn", "cuDNN"},
	{"libnccl", "NCCL"},
	{"libblas.", "BLAS"},
	{"libopenblas", "OpenBLAS"},
	{"libmkl_core", "MKL"},
	{"libpython", "Python"},
	{"python", "Python"},
	{"libjax", "JAX"},
	{"xla_extension", "XLA"},
	{"libonnxruntime", "ONNX"},
};

/* "openblas-pthread/libblas.so.3": whatever the file system above is like. */
static const char *last_two(const char *path)
{
	const char *at = strrchr(path, '/');
	while (at && at > path && at[-1] != '/')
		at--;
	return at ? at : path;
}

void setting_add_file(struct setting *s, const char *path, const char *build_id)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
	char value[SETTING_VALUE_BYTES];
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
		if (strncmp(file, libraries[i].begins, strlen(libraries[i].begins)) != 0)
			continue;
		bool known = build_id && *build_id;
		snprintf(value, sizeof(value), "%s%s%.*s%s", last_two(path), known ? " (" : "",
			 ID_SHOWN, known ? build_id : "", known ? ")" : "");
		setting_add(s, libraries[i].name, value);
		return;
	}
}

/* ---- comparing ---- */

/* Where one of them knows no build ID the file's name has to do. */
static bool is_same(const char *x, const char *y)
{
	const char *ix = strstr(x, " ("), *iy = strstr(y, " (");
	size_t lx = ix && !iy ? (size_t)(ix - x) : strlen(x);
	size_t ly = iy && !ix ? (size_t)(iy - y) : strlen(y);
	return lx == ly && !memcmp(x, y, lx);
}

/* A value of that name, the same as value; NULL: the first of that name at all. */
static const char *find(const struct setting *s, const char *name, const char *value)
{
	for (size_t i = 0; i < s->facts.len; i++)
		if (!strcmp(s->facts.data[i].name, name) &&
		    (!value || is_same(s->facts.data[i].value, value)))
			return s->facts.data[i].value;
	return NULL;
}

char *setting_difference(const struct setting *learned, const struct setting *now)
{
	struct buf text = {0};
	for (size_t i = 0; i < now->facts.len; i++) {
		const struct setting_fact *f = &now->facts.data[i];
		const char *before = find(learned, f->name, NULL);
		if (!before || find(learned, f->name, f->value))
			continue;
		buf_printf(&text, "%s%s is %s, not %s", text.len ? "; " : "", f->name, f->value,
			   before);
	}
	if (text.len)
		buf_byte(&text, 0);
	return (char *)text.data;
}
