/* slice_name.c - words of torch.profiler for calls. */
#include "export/slice_name.h"

#include <ctype.h>
#include <string.h>

#include "base/buffer.h"
#include "base/layer.h"
#include "export/call_view.h"

static const char *text(const struct rec_tables *t, uint32_t string)
{
	return strtab_get(&t->strings, string, NULL);
}

/* Launches are named by their function: the kernel is on its stream. */
struct slice_name slice_name_of(const struct rec_tables *t, const struct m_call *c)
{
	const struct m_probe *p = &t->probes.data[c->probe];
	const struct m_code *code;
	uint32_t name = call_name(t, c, &code);
	if (code)
		return (struct slice_name){SLICE_CODE, (uint32_t)(code - t->codes.data)};
	if (!strcmp(text(t, p->role), "autograd_node"))
		return (struct slice_name){SLICE_NODE, name};
	if (layer_traits_of_name(text(t, p->layer)) & LAYER_HAS_KERNELS)
		name = p->name;
	return (struct slice_name){SLICE_STRING, name};
}

bool slice_shows_arg(const struct rec_tables *t, const struct m_call *c, unsigned arg)
{
	if (call_shows_arg(t, c, arg))
		return true;
	const struct m_probe *p = &t->probes.data[c->probe];
	struct slice_name name = slice_name_of(t, c);
	return name.kind == SLICE_STRING && name.number == p->name && c->args[arg];
}

/* From where on a path says which file it is: behind the folder that modules are looked up in. */
static const char *module_path(const char *path)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *at = strstr(path, folders[i]);
		if (at)
			return at + strlen(folders[i]);
	}
	const char *at = strstr(path, "/lib/python3"), *slash = at ? strchr(at + 5, '/') : NULL;
	slash = slash ? slash : strrchr(path, '/');
	return slash ? slash + 1 : path;
}

char *slice_name_text(const struct rec_tables *t, struct slice_name name)
{
	if (name.kind == SLICE_NODE)
		return xasprintf("autograd::engine::evaluate_function: %s", text(t, name.number));
	if (name.kind == SLICE_STRING)
		return xstrdup(text(t, name.number));
	const struct m_code *code = &t->codes.data[name.number];
	if (!*text(t, code->file))
		return xstrdup(text(t, code->name));
	return xasprintf("%s(%u): %s", module_path(text(t, code->file)), code->line,
			 text(t, code->name));
}

const char *slice_category(const struct rec_tables *t, const struct m_probe *p)
{
	const char *layer = text(t, p->layer), *symbol = text(t, p->symbol);
	unsigned traits = layer_traits_of_name(layer);
	if (traits & LAYER_HAS_OPERATORS)
		return "cpu_op";
	if (traits & LAYER_HAS_FUNCTIONS)
		return "python_function";
	if (!strncmp(symbol, "cuda", 4) && isupper((unsigned char)symbol[4]))
		return "cuda_runtime";
	if (!strncmp(symbol, "cu", 2) && isupper((unsigned char)symbol[2]))
		return "cuda_driver";
	return layer;
}
