/* flops_peak.c - NVIDIA's figures, without sparsity, with accumulation in float32.
 *
 * A data sheet that gives figures "with sparsity" alone counts twice what is done. Where tensor
 * cores do float64, theirs is the peak. */
#include "analyze/flops_peak.h"

#include <ctype.h>
#include <string.h>

#define T 1e12

struct device {
	const char *words; /* as they stand in the name */
	double f64, f32, tf32, f16, f8, i8;
};

/* The first that fits: what is more special stands above. */
static const struct device devices[] = {
	/* HGX B200 and GB200 NVL72 data sheets, a GPU's share */
	{"GB200", 40 * T, 80 * T, 1250 * T, 2500 * T, 5000 * T, 5000 * T},
	{"B200", 37 * T, 75 * T, 1125 * T, 2250 * T, 4500 * T, 4500 * T},
	/* H200 data sheet: SXM and NVL */
	{"H200 NVL", 60 * T, 60 * T, 417.5 * T, 835.5 * T, 1670.5 * T, 1670.5 * T},
	{"H200", 66.9 * T, 66.9 * T, 494.7 * T, 989.4 * T, 1978.9 * T, 1978.9 * T},
	/* GH200 data sheet */
	{"GH200", 66.9 * T, 66.9 * T, 494.7 * T, 989.4 * T, 1978.9 * T, 1978.9 * T},
	/* H100 data sheet and Hopper architecture white paper: PCIe, NVL, SXM */
	{"H100 PCIe", 51.2 * T, 51.2 * T, 378 * T, 756 * T, 1513 * T, 1513 * T},
	{"H100 NVL", 60 * T, 60 * T, 417.5 * T, 835.5 * T, 1670.5 * T, 1670.5 * T},
	{"H100", 66.9 * T, 66.9 * T, 494.7 * T, 989.4 * T, 1978.9 * T, 1978.9 * T},
	/* A100 and A30 data sheets; the A800 differs in NVLink alone */
	{"A100", 19.5 * T, 19.5 * T, 156 * T, 312 * T, 0, 624 * T},
	{"A800", 19.5 * T, 19.5 * T, 156 * T, 312 * T, 0, 624 * T},
	{"A30", 10.3 * T, 10.3 * T, 82 * T, 165 * T, 0, 330 * T},
	/* A40, A10 and RTX A6000 data sheets, Ampere GA102 white paper */
	{"A40", 0.58 * T, 37.4 * T, 74.8 * T, 149.7 * T, 0, 299.3 * T},
	{"A10", 0.49 * T, 31.2 * T, 62.5 * T, 125 * T, 0, 250 * T},
	{"RTX A6000", 0.6 * T, 38.7 * T, 77.4 * T, 154.8 * T, 0, 309.7 * T},
	{"RTX 3090", 0.56 * T, 35.6 * T, 35.6 * T, 71.2 * T, 0, 284.7 * T},
	/* L40S, L40, L4 and RTX 6000 Ada data sheets, Ada white paper */
	{"L40S", 1.4 * T, 91.6 * T, 183 * T, 362 * T, 733 * T, 733 * T},
	{"L40", 1.4 * T, 90.5 * T, 90.5 * T, 181 * T, 362 * T, 362 * T},
	{"L4", 0.47 * T, 30.3 * T, 60 * T, 121 * T, 242.5 * T, 242.5 * T},
	{"RTX 6000 Ada", 1.4 * T, 91.1 * T, 182.1 * T, 364.2 * T, 728.5 * T, 728.5 * T},
	{"RTX 4090", 1.3 * T, 82.6 * T, 82.6 * T, 165.2 * T, 330.3 * T, 660.6 * T},
	/* V100 data sheet: SXM2 and PCIe; T4 data sheet */
	{"V100-PCIE", 7 * T, 14 * T, 0, 112 * T, 0, 0},
	{"V100", 7.8 * T, 15.7 * T, 0, 125 * T, 0, 0},
	{"T4", 0.25 * T, 8.1 * T, 0, 65 * T, 0, 130 * T},
};

/* The words stand in the text, and nothing goes on before or behind them. */
static bool has_words(const char *text, const char *words)
{
	size_t n = strlen(words);
	for (const char *p = strstr(text, words); p; p = strstr(p + 1, words))
		if ((p == text || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n]))
			return true;
	return false;
}

double flops_peak(const char *name, enum flops_format format)
{
	const struct device *d = NULL;
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]) && !d; i++)
		if (has_words(name, devices[i].words))
			d = &devices[i];
	if (!d || has_words(name, "MIG"))
		return 0;
	switch (format) {
	case FORMAT_F64:
		return d->f64;
	case FORMAT_F32:
		return d->f32;
	case FORMAT_TF32:
		return d->tf32;
	case FORMAT_F8:
		return d->f8;
	case FORMAT_I8:
		return d->i8;
	default: /* float16; also where it is not known: what is nearly always used */
		return d->f16;
	}
}
