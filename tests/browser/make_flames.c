/* make_flames.c - writes call trees of the tests into a folder, in every format:
 * make_flames FOLDER [TREE...]. */
#include <stdio.h>

#include "export/flame.h"
#include "golden/flame_trees.h"

static int write_one(const char *folder, const char *name, const struct flame_format *format)
{
	struct calltree t;
	struct err e = {0};
	char *path = xasprintf("%s/%s.%s", folder, name, format->extension);
	FILE *out = fopen(path, "w");
	flame_tree_make(&t, name);
	int rc = out ? format->write(out, &t, &e) : -1;
	if (out && fclose(out))
		rc = -1;
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", path, e.msg);
	calltree_free(&t);
	free(path);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct flame_format *const formats[] = {&flame_svg, &flame_folded,
							     &flame_pprof, &flame_speedscope};
	if (argc < 2) {
		fprintf(stderr, "usage: make_flames FOLDER [TREE...]\n");
		return 2;
	}
	for (int i = 0; argc > 2 ? i + 2 < argc : flame_tree_names[i] != NULL; i++)
		for (size_t k = 0; k < sizeof(formats) / sizeof(formats[0]); k++)
			if (write_one(argv[1], argc > 2 ? argv[i + 2] : flame_tree_names[i],
				      formats[k]))
				return 1;
	return 0;
}
