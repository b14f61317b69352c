/* flops_count.h - the floating-point operations of one call, from the shapes of its arguments.
 *
 * A multiplication and an addition are two operations. Formulas (docs/flops.md):
 *
 *   product of [.., m, k] and [.., k, n]    2 m n k for each of the batch
 *   convolution                             2 x elements of the result x weights that each of
 *                                           them takes: the weight's sizes but the first
 *   its backward                            as much for each gradient that was asked for
 *   attention                               2 B H Sq Sk (D + Dv): the whole square also where a
 *                                           causal mask needs half of it (PaLM, appendix B;
 *                                           Megatron-LM; torch.utils.flop_counter)
 *   its backward                            twice that; what runs is 2.5 times that, for the
 *                                           scores are computed again (FlashAttention-2, 4.1)
 *   gemm(m, n, k, batch)                    2 m n k batch
 *
 * What is added to a product (bias, beta C), softmax and activations are not counted. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "events/visitor.h"

enum flops_kind {
	FLOPS_NONE,
	FLOPS_MATMUL,
	FLOPS_CONVOLUTION,
	FLOPS_CONVOLUTION_BACKWARD,
	FLOPS_ATTENTION,
	FLOPS_ATTENTION_BACKWARD,
	FLOPS_GEMM, /* of a library: m, n and k are numbers */
	FLOPS_KINDS,
};
#define FLOPS_KIND_NAMES                                                                           \
	{                                                                                          \
		"", "matmul", "convolution", "convolution_backward", "attention",                  \
			"attention_backward", "gemm"                                               \
	}

/* What numbers a device multiplies, as far as its peak differs. */
enum flops_format {
	FORMAT_UNKNOWN,
	FORMAT_F64,
	FORMAT_F32,
	FORMAT_TF32, /* float32 on tensor cores: kernels tell */
	FORMAT_F16,  /* float16 and bfloat16 */
	FORMAT_F8,
	FORMAT_I8,
	FLOPS_FORMATS,
};
#define FLOPS_FORMAT_NAMES                                                                         \
	{                                                                                          \
		"unknown", "float64", "float32", "tf32", "float16", "float8", "int8"               \
	}

enum flops_arg {
	FLOPS_ARG_A,
	FLOPS_ARG_B,
	FLOPS_ARG_INPUT,
	FLOPS_ARG_WEIGHT,
	FLOPS_ARG_RESULT,
	FLOPS_ARG_TRANSPOSED,
	FLOPS_ARG_GRAD_OUTPUT,
	FLOPS_ARG_GRAD_INPUT,
	FLOPS_ARG_GRAD_WEIGHT,
	FLOPS_ARG_QUERY,
	FLOPS_ARG_KEY,
	FLOPS_ARG_VALUE,
	FLOPS_ARG_IS_CAUSAL,
	FLOPS_ARG_DTYPE,  /* c10::ScalarType */
	FLOPS_ARG_A_TYPE, /* cudaDataType_t */
	FLOPS_ARG_M,
	FLOPS_ARG_N,
	FLOPS_ARG_K,
	FLOPS_ARG_BATCH,
	FLOPS_ARGS,
};

/* What is to be known of a probe. */
struct flops_probe {
	uint8_t kind;	/* enum flops_kind */
	uint8_t format; /* enum flops_format, where the function's name tells it: cublasSgemm */
	bool is_complex;
	int8_t arg[FLOPS_ARGS]; /* places of arguments, -1 */
};

struct flops_work {
	double model;	 /* what the operation is by its definition */
	double hardware; /* what is carried out: recomputed parts too */
	double masked;	 /* of model: half of attention under a causal mask */
	uint8_t format;	 /* enum flops_format */
	bool known;	 /* false: a shape is missing, the others are 0 */
};

/* From the probe's role and the names of its arguments. string: the text of a number in a row,
 * never NULL. */
void flops_probe_make(struct flops_probe *ret, const char *(*string)(void *ctx, uint32_t number),
		      void *ctx, const struct m_probe *p);
/* Whether a kernel multiplies float32 on tensor cores, by its name. */
bool flops_kernel_is_tensor(const char *name);

/* The work of a call of that probe, whose kind is not FLOPS_NONE. */
void flops_count(struct flops_work *ret, const struct flops_probe *p, const struct m_call *c);
