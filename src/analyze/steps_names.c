/* steps_names.c - what the name of an operation tells of its place in a step.
 *
 * Names are PyTorch's (native_functions.yaml; torch/optim/optimizer.py and
 * torch/utils/data/dataloader.py name their ranges). What is not known here is an ordinary
 * operation: steps are found by repetition all the same. */
#include <stdbool.h>
#include <string.h>

#include "analyze/steps_impl.h"

struct named_class {
	const char *name;
	uint32_t class;
};

/* In byte order of names. */
static const struct named_class operators[] = {
	{"_has_compatible_shallow_copy_type", CLASS_NEUTRAL | CLASS_SETUP},
	{"_local_scalar_dense", CLASS_READ | CLASS_NEUTRAL | CLASS_SETUP},
	{"_native_multi_head_attention", CLASS_MODEL},
	{"_transformer_encoder_layer_fwd", CLASS_MODEL},
	{"add", CLASS_NEUTRAL},
	{"add_", CLASS_UPDATE | CLASS_SETUP},
	{"addcdiv_", CLASS_UPDATE},
	{"addcmul_", CLASS_UPDATE},
	{"addmm", CLASS_MODEL},
	{"any", CLASS_NEUTRAL},
	{"arange", CLASS_SETUP},
	{"argmax", CLASS_CHOICE},
	{"baddbmm", CLASS_MODEL},
	{"batch_norm", CLASS_MODEL},
	{"bilinear", CLASS_MODEL},
	{"bmm", CLASS_MODEL},
	{"cat", CLASS_NEUTRAL},
	{"clamp", CLASS_NEUTRAL},
	{"clamp_", CLASS_UPDATE | CLASS_SETUP},
	{"clone", CLASS_NEUTRAL | CLASS_SETUP | CLASS_COPY},
	{"conv1d", CLASS_MODEL},
	{"conv2d", CLASS_MODEL},
	{"conv3d", CLASS_MODEL},
	{"conv_transpose1d", CLASS_MODEL},
	{"conv_transpose2d", CLASS_MODEL},
	{"conv_transpose3d", CLASS_MODEL},
	{"convolution", CLASS_MODEL},
	{"copy_", CLASS_NEUTRAL | CLASS_COPY | CLASS_SETUP},
	{"detach", CLASS_NEUTRAL | CLASS_SETUP},
	{"detach_", CLASS_NEUTRAL | CLASS_SETUP},
	{"div", CLASS_NEUTRAL},
	{"div_", CLASS_UPDATE | CLASS_SETUP},
	{"einsum", CLASS_MODEL},
	{"embedding", CLASS_MODEL},
	{"embedding_bag", CLASS_MODEL},
	{"empty", CLASS_NEUTRAL | CLASS_SETUP},
	{"empty_like", CLASS_NEUTRAL | CLASS_SETUP},
	{"eq", CLASS_NEUTRAL},
	{"erfinv_", CLASS_SETUP},
	{"exp", CLASS_NEUTRAL},
	{"eye", CLASS_SETUP},
	{"fill_", CLASS_NEUTRAL | CLASS_SETUP},
	{"full", CLASS_NEUTRAL | CLASS_SETUP},
	{"group_norm", CLASS_MODEL},
	{"gru", CLASS_MODEL},
	{"gru_cell", CLASS_MODEL},
	{"instance_norm", CLASS_MODEL},
	{"is_nonzero", CLASS_READ | CLASS_NEUTRAL},
	{"item", CLASS_READ | CLASS_NEUTRAL | CLASS_SETUP},
	{"layer_norm", CLASS_MODEL},
	{"lerp_", CLASS_UPDATE},
	{"lift_fresh", CLASS_NEUTRAL | CLASS_SETUP},
	{"linalg_vector_norm", CLASS_NEUTRAL},
	{"linear", CLASS_MODEL},
	{"linspace", CLASS_SETUP},
	{"lstm", CLASS_MODEL},
	{"lstm_cell", CLASS_MODEL},
	{"matmul", CLASS_MODEL},
	{"max", CLASS_NEUTRAL},
	{"maximum", CLASS_NEUTRAL},
	{"maximum_", CLASS_UPDATE},
	{"mm", CLASS_MODEL},
	{"mul", CLASS_NEUTRAL},
	{"mul_", CLASS_UPDATE | CLASS_SETUP},
	{"multinomial", CLASS_CHOICE},
	{"native_layer_norm", CLASS_MODEL},
	{"neg", CLASS_NEUTRAL},
	{"norm", CLASS_NEUTRAL},
	{"normal_", CLASS_SETUP},
	{"ones", CLASS_NEUTRAL | CLASS_SETUP},
	{"ones_like", CLASS_NEUTRAL | CLASS_SETUP},
	{"pin_memory", CLASS_COPY | CLASS_SETUP},
	{"pow", CLASS_NEUTRAL},
	{"rand", CLASS_SETUP},
	{"randint", CLASS_SETUP},
	{"randn", CLASS_SETUP},
	{"random_", CLASS_SETUP},
	{"randperm", CLASS_SETUP},
	{"reciprocal", CLASS_NEUTRAL},
	{"resolve_conj", CLASS_NEUTRAL | CLASS_SETUP},
	{"resolve_neg", CLASS_NEUTRAL | CLASS_SETUP},
	{"rms_norm", CLASS_MODEL},
	{"rnn_relu", CLASS_MODEL},
	{"rnn_tanh", CLASS_MODEL},
	{"scaled_dot_product_attention", CLASS_MODEL},
	{"set_", CLASS_SETUP},
	{"sign", CLASS_NEUTRAL},
	{"sqrt", CLASS_NEUTRAL},
	{"square", CLASS_NEUTRAL},
	{"stack", CLASS_NEUTRAL},
	{"sub", CLASS_NEUTRAL},
	{"sub_", CLASS_UPDATE | CLASS_SETUP},
	{"sum", CLASS_NEUTRAL},
	{"to", CLASS_NEUTRAL | CLASS_COPY | CLASS_SETUP},
	{"tril", CLASS_SETUP},
	{"triu", CLASS_SETUP},
	{"uniform_", CLASS_SETUP},
	{"where", CLASS_NEUTRAL},
	{"zero_", CLASS_UPDATE | CLASS_SETUP | CLASS_RESET},
	{"zeros", CLASS_NEUTRAL | CLASS_SETUP},
	{"zeros_like", CLASS_NEUTRAL | CLASS_SETUP},
};

static bool starts_with(const char *s, const char *head)
{
	return !strncmp(s, head, strlen(head));
}

static bool ends_in_place(const char *name)
{
	size_t n = strlen(name);
	return n && name[n - 1] == '_';
}

static int compare_names(const void *key, const void *row)
{
	return strcmp(key, ((const struct named_class *)row)->name);
}

uint32_t steps_class_of_operator(const char *name)
{
	const char *colons = strstr(name, "::");
	const char *plain = colons ? colons + 2 : name;
	if (!strcmp(plain, "_foreach_zero_"))
		return CLASS_UPDATE | CLASS_RESET;
	if (starts_with(plain, "_foreach_"))
		return ends_in_place(plain) ? CLASS_UPDATE : CLASS_NEUTRAL;
	if (starts_with(plain, "_fused_ada") || starts_with(plain, "_fused_sgd"))
		return CLASS_UPDATE;
	if (starts_with(plain, "_amp_"))
		return CLASS_NEUTRAL;
	const struct named_class *row =
		bsearch(plain, operators, sizeof(operators) / sizeof(operators[0]),
			sizeof(operators[0]), compare_names);
	return row ? row->class : 0;
}

uint32_t steps_class_of_range(const char *name)
{
	if (starts_with(name, "Optimizer.step#"))
		return CLASS_OPTIMIZER;
	if (starts_with(name, "Optimizer.zero_grad#"))
		return CLASS_ZERO_GRAD | CLASS_RESET;
	if (starts_with(name, "enumerate(DataLoader)#"))
		return CLASS_LOADER;
	if (!strcmp(name, "DistributedDataParallel.forward") ||
	    !strcmp(name, "FullyShardedDataParallel.forward"))
		return CLASS_FORWARD;
	return 0;
}

uint32_t steps_class_of_kernel(const char *name)
{
	static const char *const updates[] = {"multi_tensor_apply", "FusedAdam", "FusedSgd",
					      "fused_adam", "adam_kernel"};
	for (size_t i = 0; i < sizeof(updates) / sizeof(updates[0]); i++)
		if (strstr(name, updates[i]))
			return CLASS_LAUNCH | CLASS_UPDATE;
	if (starts_with(name, "nccl"))
		return CLASS_LAUNCH | CLASS_COLLECTIVE;
	return CLASS_LAUNCH;
}
