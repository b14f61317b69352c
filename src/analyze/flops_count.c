/* flops_count.c - formulas over shapes. Exact up to 2^53 operations a call. */
#include "analyze/flops_count.h"

#include <string.h>

static const char *const kind_roles[FLOPS_KINDS] = FLOPS_KIND_NAMES;

static const char *const arg_names[FLOPS_ARGS] = {
	[FLOPS_ARG_A] = "a",
	[FLOPS_ARG_B] = "b",
	[FLOPS_ARG_INPUT] = "input",
	[FLOPS_ARG_WEIGHT] = "weight",
	[FLOPS_ARG_RESULT] = "result",
	[FLOPS_ARG_TRANSPOSED] = "transposed",
	[FLOPS_ARG_GRAD_OUTPUT] = "grad_output",
	[FLOPS_ARG_GRAD_INPUT] = "grad_input",
	[FLOPS_ARG_GRAD_WEIGHT] = "grad_weight",
	[FLOPS_ARG_QUERY] = "query",
	[FLOPS_ARG_KEY] = "key",
	[FLOPS_ARG_VALUE] = "value",
	[FLOPS_ARG_IS_CAUSAL] = "is_causal",
	[FLOPS_ARG_DTYPE] = "dtype",
	[FLOPS_ARG_A_TYPE] = "a_type",
	[FLOPS_ARG_M] = "m",
	[FLOPS_ARG_N] = "n",
	[FLOPS_ARG_K] = "k",
	[FLOPS_ARG_BATCH] = "batch",
};

/* ---- probes ---- */

/* cublasSgemm, cublasDgemmBatched, cublasHgemm, cublasCgemm, cublasZgemm: the letter before
 * "gemm" is BLAS's for the type. */
static void read_letter(struct flops_probe *p, const char *symbol)
{
	const char *gemm = strstr(symbol, "gemm");
	switch (gemm && gemm > symbol ? gemm[-1] : 0) {
	case 'C':
	case 'S':
		p->format = FORMAT_F32;
		break;
	case 'Z':
	case 'D':
		p->format = FORMAT_F64;
		break;
	case 'H':
		p->format = FORMAT_F16;
		break;
	default:
		return;
	}
	p->is_complex = gemm[-1] == 'C' || gemm[-1] == 'Z';
}

void flops_probe_make(struct flops_probe *ret, const char *(*string)(void *ctx, uint32_t number),
		      void *ctx, const struct m_probe *p)
{
	const char *role = string(ctx, p->role);
	*ret = (struct flops_probe){0};
	memset(ret->arg, -1, sizeof(ret->arg));
	for (int i = FLOPS_NONE + 1; i < FLOPS_KINDS; i++)
		if (!strcmp(role, kind_roles[i]))
			ret->kind = (uint8_t)i;
	if (!ret->kind)
		return;
	for (int i = 0; i < p->nargs && i < MODEL_MAX_ARGS; i++)
		for (int k = 0; k < FLOPS_ARGS; k++)
			if (!strcmp(string(ctx, p->arg_names[i]), arg_names[k]))
				ret->arg[k] = (int8_t)i;
	if (ret->kind == FLOPS_GEMM)
		read_letter(ret, string(ctx, p->symbol));
}

/* Of cuDNN and cuBLAS ("tf32f32", "s1688gemm"), CUTLASS ("tensorop") and cuBLAS for Hopper
 * ("nvjet"). */
bool flops_kernel_is_tensor(const char *name)
{
	return strstr(name, "tf32") || strstr(name, "1688") || strstr(name, "tensorop") ||
	       strstr(name, "nvjet");
}

/* ---- arguments ---- */

struct call {
	const struct flops_probe *p;
	const struct m_call *c;
};

static uint64_t value(const struct call *c, enum flops_arg arg, uint64_t absent)
{
	int8_t at = c->p->arg[arg];
	return at >= 0 && at < c->c->nargs ? c->c->args[at] : absent;
}

static uint64_t shape(const struct call *c, enum flops_arg arg)
{
	return value(c, arg, SHAPE_UNKNOWN);
}

/* The product of a shape's sizes from a dimension on, 1 where there are none. */
static double elements_from(uint64_t s, int dim)
{
	double n = 1;
	for (int i = dim; i < shape_dims(s); i++)
		n *= (double)shape_size(s, i);
	return n;
}

static double elements(uint64_t s)
{
	return elements_from(s, 0);
}

/* ---- formats ---- */

/* c10/core/ScalarType.h */
static uint8_t format_of_scalar(uint64_t scalar, bool *ret_complex)
{
	*ret_complex = scalar >= 8 && scalar <= 10;
	switch (scalar) {
	case 0:
	case 1:
		return FORMAT_I8;
	case 5:
	case 8:
	case 15:
		return FORMAT_F16;
	case 6:
	case 9:
		return FORMAT_F32;
	case 7:
	case 10:
		return FORMAT_F64;
	case 23:
	case 24:
	case 25:
	case 26:
		return FORMAT_F8;
	default:
		return FORMAT_UNKNOWN;
	}
}

/* cudaDataType_t of library_types.h */
static uint8_t format_of_cuda(uint64_t type, bool *ret_complex)
{
	*ret_complex = type >= 4 && type <= 7;
	switch (type) {
	case 0:
	case 4:
		return FORMAT_F32;
	case 1:
	case 5:
		return FORMAT_F64;
	case 2:
	case 6:
	case 14:
		return FORMAT_F16;
	case 3:
	case 7:
	case 8:
		return FORMAT_I8;
	case 28:
	case 29:
		return FORMAT_F8;
	default:
		return FORMAT_UNKNOWN;
	}
}

static uint8_t format_of(const struct call *c, bool *ret_complex)
{
	uint64_t none = UINT64_MAX;
	*ret_complex = c->p->is_complex;
	uint64_t type = value(c, FLOPS_ARG_A_TYPE, none);
	if (type != none)
		return format_of_cuda(type, ret_complex);
	if (c->p->format)
		return c->p->format;
	return format_of_scalar(value(c, FLOPS_ARG_DTYPE, none), ret_complex);
}

/* ---- formulas; each returns false where a shape is missing ---- */

/* The elements of a are batch x m x k; b's last dimension is n, and a vector has none. */
static bool count_matmul(const struct call *c, double *ret)
{
	uint64_t a = shape(c, FLOPS_ARG_A), b = shape(c, FLOPS_ARG_B);
	int dims = shape_dims(b);
	if (shape_dims(a) < 1 || dims < 1)
		return false;
	*ret = 2 * elements(a) * (dims > 1 ? (double)shape_size(b, dims - 1) : 1);
	return true;
}

/* A weight is [outputs, inputs / groups, ...], of transposed ones [inputs, outputs / groups, ...]:
 * each element of the result (transposed: of the input) meets all but the first of its sizes. */
static bool count_convolution(const struct call *c, double *ret)
{
	bool transposed = value(c, FLOPS_ARG_TRANSPOSED, 0) != 0;
	uint64_t weight = shape(c, FLOPS_ARG_WEIGHT);
	uint64_t met = shape(c, transposed ? FLOPS_ARG_INPUT : FLOPS_ARG_RESULT);
	if (shape_dims(weight) < 3 || shape_dims(met) < 1)
		return false;
	*ret = 2 * elements(met) * elements_from(weight, 1);
	return true;
}

/* A weight's first size is the result's channels, of a transposed convolution the input's. Where
 * both are the same the greater of the two is the result of a transposed one. */
static bool is_transposed(uint64_t grad_output, uint64_t input, uint64_t weight)
{
	uint64_t first = shape_size(weight, 0);
	uint64_t outputs = shape_size(grad_output, 1), inputs = shape_size(input, 1);
	if (outputs == inputs)
		return elements(grad_output) > elements(input);
	return first == inputs;
}

/* A gradient that was not asked for is an undefined tensor, of another shape than what it is the
 * gradient of. */
static bool count_convolution_backward(const struct call *c, double *ret)
{
	uint64_t grad_output = shape(c, FLOPS_ARG_GRAD_OUTPUT), input = shape(c, FLOPS_ARG_INPUT);
	uint64_t weight = shape(c, FLOPS_ARG_WEIGHT);
	if (shape_dims(weight) < 3 || shape_dims(grad_output) < 3 || shape_dims(input) < 3)
		return false;
	bool transposed = is_transposed(grad_output, input, weight);
	int products = (shape(c, FLOPS_ARG_GRAD_INPUT) == input) +
		       (shape(c, FLOPS_ARG_GRAD_WEIGHT) == weight);
	*ret = products * 2 * elements(transposed ? input : grad_output) * elements_from(weight, 1);
	return true;
}

/* query [.., Sq, D], key [.., Sk, D], value [.., Sk, Dv]; with fewer heads of keys than of queries
 * each of them serves several (grouped queries). */
static bool count_attention(const struct call *c, double *ret)
{
	uint64_t query = shape(c, FLOPS_ARG_QUERY), key = shape(c, FLOPS_ARG_KEY);
	uint64_t values = shape(c, FLOPS_ARG_VALUE);
	int dims = shape_dims(query);
	if (dims != 4 || shape_dims(key) != dims || shape_dims(values) != dims)
		return false;
	double keys = (double)shape_size(key, 2), depth = (double)shape_size(query, 3);
	*ret = 2 * elements(query) * keys;
	if (depth > 0)
		*ret += *ret / depth * (double)shape_size(values, 3);
	return true;
}

static bool count_gemm(const struct call *c, double *ret)
{
	double m = (double)(int64_t)value(c, FLOPS_ARG_M, 0);
	double n = (double)(int64_t)value(c, FLOPS_ARG_N, 0);
	double k = (double)(int64_t)value(c, FLOPS_ARG_K, 0);
	double batch = (double)(int64_t)value(c, FLOPS_ARG_BATCH, 1);
	if (m < 0 || n < 0 || k < 0 || batch < 0)
		return false;
	*ret = 2 * m * n * k * batch;
	return true;
}

static bool count_kind(const struct call *c, double *ret)
{
	switch (c->p->kind) {
	case FLOPS_MATMUL:
		return count_matmul(c, ret);
	case FLOPS_CONVOLUTION:
		return count_convolution(c, ret);
	case FLOPS_CONVOLUTION_BACKWARD:
		return count_convolution_backward(c, ret);
	case FLOPS_GEMM:
		return count_gemm(c, ret);
	default:
		return count_attention(c, ret);
	}
}

void flops_count(struct flops_work *ret, const struct flops_probe *p, const struct m_call *c)
{
	struct call call = {p, c};
	bool is_complex;
	double n = 0;
	*ret = (struct flops_work){.format = format_of(&call, &is_complex)};
	ret->known = count_kind(&call, &n);
	if (!ret->known)
		return;
	if (is_complex)
		n *= 4; /* four products and as many additions */
	bool backward = p->kind == FLOPS_ATTENTION_BACKWARD;
	ret->model = backward ? 2 * n : n;
	ret->hardware = backward ? 2.5 * n : n;
	if (value(&call, FLOPS_ARG_IS_CAUSAL, 0))
		ret->masked = ret->model / 2;
}
