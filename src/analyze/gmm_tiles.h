/* gmm_tiles.h - the kernels of the mixtures, in terms of vectors of some width: included once for
 * each instruction set, by gmm_plain.c, gmm_avx2.c and gmm_avx512.c, which define
 *   TILE_TARGET   the attribute that lets a function use the instruction set, or nothing
 *   TILE_LANES    doubles in a vector
 *   TILE_KERNELS  the name of the table of functions, TILE_NAME its text
 *
 * A tile is 8 vectors of rows, column after column, so that one instruction works on as many rows
 * as a vector has lanes. Everything of a tile stays in the first cache: its columns, the
 * differences to one mean, the log densities (components × tile), the sums.
 *
 * exp and log: range reduction, then a polynomial (its terms are those of the Taylor series);
 * relative error below 4e-16 for exp where the result is not below 1e-300, absolute error below
 * 1e-15 for log of up to 64. exp of less than -700 is 0. */
#include <math.h>

#define TILE_VECTORS 8
#define TILE_ROWS    (TILE_VECTORS * TILE_LANES)

#define FN static inline TILE_TARGET

typedef double vec __attribute__((vector_size(TILE_LANES * 8), may_alias));
typedef int64_t ivec __attribute__((vector_size(TILE_LANES * 8), may_alias));
typedef uint64_t uvec __attribute__((vector_size(TILE_LANES * 8), may_alias));

#define EACH(op) op(0) op(1) op(2) op(3) op(4) op(5) op(6) op(7)

struct tile {
	vec x[GMM_MAX_D][TILE_VECTORS];
	vec diff[GMM_MAX_D][TILE_VECTORS];
	vec live[TILE_VECTORS]; /* 1, and 0 where there is no row */
	size_t rows;
};

/* ---- exp and log ---- */

FN vec vec_exp(vec x)
{
	const double shift = 0x1.8p52; /* adding it rounds to an integer, in the lowest bits */
	ivec big = x >= -700.0;
	x = (vec)((ivec)x & big);
	vec t = x * 1.4426950408889634074 + shift;
	vec n = t - shift;
	vec r = x - n * 0x1.62e42fefa3800p-1; /* ln 2 in two parts, the first with zeros behind */
	r -= n * 0x1.ef35793c76730p-45;
	vec p = r * (1 / 6227020800.0) + 1 / 479001600.0;
	p = p * r + 1 / 39916800.0;
	p = p * r + 1 / 3628800.0;
	p = p * r + 1 / 362880.0;
	p = p * r + 1 / 40320.0;
	p = p * r + 1 / 5040.0;
	p = p * r + 1 / 720.0;
	p = p * r + 1 / 120.0;
	p = p * r + 1 / 24.0;
	p = p * r + 1 / 6.0;
	p = p * r + 0.5;
	p = p * (r * r) + r;
	p = p + 1.0;
	ivec power = (ivec)t << 52; /* 2^n: n goes to the exponent's bits */
	return (vec)((((ivec)p) + power) & big);
}

FN vec vec_log(vec x)
{
	/* x = 2^n × m, m from sqrt(1/2) to sqrt(2); log m = 2 atanh(f), f = (m - 1) / (m + 1) */
	const uint64_t root_half = 0x3fe6a09e667f3bcd;
	uvec n = ((uvec)x - root_half) >> 52;
	vec m = (vec)((uvec)x - (n << 52));
	vec e = (vec)(n + 0x4338000000000000) - 0x1.8p52; /* n as a number */
	vec f = (m - 1.0) / (m + 1.0), g = f * f;
	vec p = g * (1.0 / 21) + 1.0 / 19;
	p = p * g + 1.0 / 17;
	p = p * g + 1.0 / 15;
	p = p * g + 1.0 / 13;
	p = p * g + 1.0 / 11;
	p = p * g + 1.0 / 9;
	p = p * g + 1.0 / 7;
	p = p * g + 1.0 / 5;
	p = p * g + 1.0 / 3;
	f += f;
	return e * 0x1.62e42fefa3800p-1 + (f * (p * g) + (f + e * 0x1.ef35793c76730p-45));
}

FN vec vec_choose(ivec mask, vec a, vec b)
{
	return (vec)(((ivec)a & mask) | ((ivec)b & ~mask));
}

FN double vec_sum(vec a)
{
	double sum = 0;
	for (int i = 0; i < TILE_LANES; i++)
		sum += a[i];
	return sum;
}

/* ---- rows to columns ---- */

/* Fills a tile up with its first row. */
FN void tile_end(struct tile *t, uint32_t d)
{
	double *live = (double *)t->live;
	for (int v = 0; v < TILE_VECTORS; v++)
		t->live[v] = (vec){0} + 1;
	for (size_t i = t->rows; i < TILE_ROWS; i++) {
		live[i] = 0;
		for (uint32_t j = 0; j < d; j++)
			((double *)t->x[j])[i] = t->rows ? ((double *)t->x[j])[0] : 0;
	}
}

/* The next rows of a block, all of them. */
FN void tile_load(struct tile *t, const double *rows, size_t n, uint32_t d)
{
	t->rows = n < TILE_ROWS ? n : TILE_ROWS;
	for (size_t i = 0; i < t->rows; i++)
		for (uint32_t j = 0; j < d; j++)
			((double *)t->x[j])[i] = rows[i * d + j];
	tile_end(t, d);
}

FN bool tile_is_finite(const struct tile *t, uint32_t d)
{
	ivec odd = {0};
	for (uint32_t j = 0; j < d; j++)
		for (int v = 0; v < TILE_VECTORS; v++)
			odd |= ~((t->x[j][v] <= GMM_LARGEST) & (t->x[j][v] >= -GMM_LARGEST));
	int64_t any = 0;
	for (int i = 0; i < TILE_LANES; i++)
		any |= odd[i];
	return !any;
}

/* The next rows of a block that take part; returns where to go on. */
FN size_t tile_pick(struct tile *t, const double *rows, const double *kept, size_t at, size_t n,
		    uint32_t d)
{
	if (!kept) { /* mostly all of them do */
		tile_load(t, rows + at * d, n - at, d);
		if (tile_is_finite(t, d))
			return at + t->rows;
	}
	size_t to = 0;
	for (; at < n && to < TILE_ROWS; at++) {
		const double *row = rows + at * d;
		for (uint32_t j = 0; j < d; j++)
			((double *)t->x[j])[to] = row[j];
		to += gmm_row_is_finite(row, d) && !(kept && isnan(kept[at]));
	}
	t->rows = to;
	tile_end(t, d);
	return at;
}

/* ---- densities ---- */

FN void tile_differences(struct tile *t, const double *mean, uint32_t d)
{
	for (uint32_t j = 0; j < d; j++) {
		double m = mean[j];
#define SUBTRACT(v) t->diff[j][v] = t->x[j][v] - m;
		EACH(SUBTRACT)
#undef SUBTRACT
	}
}

/* Adds |rows i and i + 1 of inverse (x - mean)|² to four vectors of q: two rows and four vectors at
 * a time, so that what is loaded is used twice and sums stay in registers. */
FN void tile_two_rows(vec (*diff)[TILE_VECTORS], const double *inverse, uint32_t i, uint32_t d,
		      int from, vec *q)
{
	static const double none[GMM_MAX_D];
	const double *a = inverse + (size_t)i * d, *b = i + 1 < d ? a + d : none;
	vec y0 = {0}, y1 = {0}, y2 = {0}, y3 = {0}, z0 = {0}, z1 = {0}, z2 = {0}, z3 = {0};
	for (uint32_t j = 0; j <= i; j++) {
		const vec *x = diff[j] + from;
		double u = a[j], v = b[j];
		y0 += x[0] * u;
		y1 += x[1] * u;
		y2 += x[2] * u;
		y3 += x[3] * u;
		z0 += x[0] * v;
		z1 += x[1] * v;
		z2 += x[2] * v;
		z3 += x[3] * v;
	}
	if (i + 1 < d) {
		const vec *x = diff[i + 1] + from;
		double v = b[i + 1];
		z0 += x[0] * v;
		z1 += x[1] * v;
		z2 += x[2] * v;
		z3 += x[3] * v;
	}
	q += from;
	q[0] += y0 * y0 + z0 * z0;
	q[1] += y1 * y1 + z1 * z1;
	q[2] += y2 * y2 + z2 * z2;
	q[3] += y3 * y3 + z3 * z3;
}

/* The same of a diagonal inverse, all of it. */
FN void tile_diagonal(const struct tile *t, const double *mean, const double *inverse, uint32_t d,
		      vec *q)
{
#define ZERO(v) vec q##v = {0};
	EACH(ZERO)
#undef ZERO
	for (uint32_t j = 0; j < d; j++) {
		double m = mean[j], a = inverse[j * (d + 1)];
#define ADD(v)                                                                                     \
	vec y##v = (t->x[j][v] - m) * a;                                                           \
	q##v += y##v * y##v;
		EACH(ADD)
#undef ADD
	}
#define STORE(v) q[v] = q##v;
	EACH(STORE)
#undef STORE
}

/* peak - |inverse (x - mean)|² / 2 of each row. */
FN void tile_component(struct tile *t, const struct gmm_view *w, uint32_t k, vec *ret)
{
	uint32_t d = w->d;
	const double *inverse = w->inverses + (size_t)k * d * d, *mean = w->means + (size_t)k * d;
	vec q[TILE_VECTORS];
	if (w->diagonal) {
		tile_diagonal(t, mean, inverse, d, q);
	} else {
		tile_differences(t, mean, d);
		for (int v = 0; v < TILE_VECTORS; v++)
			q[v] = (vec){0};
		for (uint32_t i = 0; i < d; i += 2) {
			tile_two_rows(t->diff, inverse, i, d, 0, q);
			tile_two_rows(t->diff, inverse, i, d, 4, q);
		}
	}
	double peak = w->peaks[k];
	for (int v = 0; v < TILE_VECTORS; v++)
		ret[v] = peak - q[v] * 0.5;
}

/* Turns the components' log densities into responsibilities; adds up what rows have. */
FN double tile_responsibilities(const struct tile *t, uint32_t components,
				vec (*logs)[TILE_VECTORS])
{
	vec all = {0};
	for (int v = 0; v < TILE_VECTORS; v++) {
		vec most = logs[0][v], sum = {0};
		for (uint32_t k = 1; k < components; k++)
			most = vec_choose(logs[k][v] > most, logs[k][v], most);
		for (uint32_t k = 0; k < components; k++) {
			logs[k][v] = vec_exp(logs[k][v] - most);
			sum += logs[k][v];
		}
		all += (most + vec_log(sum)) * t->live[v];
		vec share = t->live[v] / sum;
		for (uint32_t k = 0; k < components; k++)
			logs[k][v] *= share;
	}
	return vec_sum(all);
}

/* The same with all of a row given to its likeliest component. */
FN double tile_groups(const struct tile *t, uint32_t components, vec (*logs)[TILE_VECTORS])
{
	vec all = {0};
	for (int v = 0; v < TILE_VECTORS; v++) {
		vec most = logs[0][v];
		ivec of = {0};
		for (uint32_t k = 1; k < components; k++) {
			ivec more = logs[k][v] > most;
			most = vec_choose(more, logs[k][v], most);
			of = (more & (int64_t)k) | (of & ~more);
		}
		for (uint32_t k = 0; k < components; k++)
			logs[k][v] = (vec)((of == (int64_t)k) & (ivec)t->live[v]);
		all += most * t->live[v];
	}
	return vec_sum(all);
}

/* ---- sums ---- */

/* Adds r, r diff and r diff diff' to the sums of a component. */
FN void tile_moments(struct tile *t, const struct gmm_view *w, uint32_t k, const vec *r, vec *sums)
{
	uint32_t d = w->d;
	tile_differences(t, w->means + (size_t)k * d, d);
	sums[0] += ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
	vec *first = sums + 1, *second = first + d;
	for (uint32_t i = 0; i < d; i++) {
#define WEIGH(v) vec w##v = t->diff[i][v] * r[v];
		EACH(WEIGH)
#undef WEIGH
		first[i] += ((w0 + w1) + (w2 + w3)) + ((w4 + w5) + (w6 + w7));
		for (uint32_t j = w->diagonal ? i : 0; j <= i; j++) {
			const vec *x = t->diff[j];
			vec a = w0 * x[0], b = w1 * x[1];
			a += w2 * x[2];
			b += w3 * x[3];
			a += w4 * x[4];
			b += w5 * x[5];
			a += w6 * x[6];
			b += w7 * x[7];
			*second++ += a + b;
		}
	}
}

TILE_TARGET static void sum_block(const struct gmm_view *w, bool hard, const double *rows,
				  const double *kept, size_t n, struct gmm_sums *ret, void *scratch)
{
	struct tile t;
	vec(*logs)[TILE_VECTORS] = scratch;
	vec *sums = (vec *)(logs + w->components);
	size_t each = gmm_moments(w->d, w->diagonal), count = each * w->components;
	double log_density = 0;
	memset(sums, 0, count * sizeof(*sums));
	for (size_t at = 0; at < n;) {
		at = tile_pick(&t, rows, kept, at, n, w->d);
		for (uint32_t k = 0; k < w->components; k++)
			tile_component(&t, w, k, logs[k]);
		log_density += hard ? tile_groups(&t, w->components, logs)
				    : tile_responsibilities(&t, w->components, logs);
		for (uint32_t k = 0; k < w->components; k++)
			tile_moments(&t, w, k, logs[k], sums + k * each);
		ret->rows += t.rows;
	}
	ret->log_density += log_density;
	for (size_t i = 0; i < count; i++)
		ret->moments[i] += vec_sum(sums[i]);
}

/* ---- scores ---- */

/* Rows that are not finite, and finite ones so far away that the distance is no number. */
TILE_TARGET static void scores_mend(const double *rows, size_t n, uint32_t d, double *ret,
				    uint8_t *components)
{
	for (size_t i = 0; i < n; i++) {
		bool finite = true;
		for (uint32_t j = 0; j < d; j++)
			finite &= isfinite(rows[i * d + j]) != 0;
		if (!finite)
			ret[i] = NAN;
		else if (isnan(ret[i]))
			ret[i] = -INFINITY;
		if (components && !isfinite(ret[i]))
			components[i] = 0;
	}
}

TILE_TARGET static void score_block(const struct gmm_view *w, enum gmm_score what,
				    const double *rows, size_t n, double *ret, uint8_t *components)
{
	struct tile t;
	vec logs[TILE_VECTORS], most[TILE_VECTORS], sum[TILE_VECTORS];
	ivec of[TILE_VECTORS];
	for (size_t at = 0; at < n; at += TILE_ROWS) {
		vec odd = {0};
		tile_load(&t, rows + at * w->d, n - at, w->d);
		tile_component(&t, w, 0, most);
		for (int v = 0; v < TILE_VECTORS; v++) {
			of[v] = (ivec){0};
			sum[v] = (vec){0} + 1;
		}
		for (uint32_t k = 1; k < w->components; k++) {
			tile_component(&t, w, k, logs);
			for (int v = 0; v < TILE_VECTORS; v++) {
				ivec more = logs[v] > most[v];
				vec top = vec_choose(more, logs[v], most[v]);
				if (what == GMM_MIXTURE) {
					/* the sum is of exp(log - the most so far): one of the
					 * two exponents is 0 */
					vec low = vec_choose(more, most[v], logs[v]);
					vec less = vec_exp(low - top);
					sum[v] = vec_choose(more, sum[v] * less + 1.0,
							    sum[v] + less);
				}
				of[v] = (more & (int64_t)k) | (of[v] & ~more);
				most[v] = top;
			}
		}
		for (int v = 0; v < TILE_VECTORS; v++) {
			if (what == GMM_MIXTURE)
				most[v] += vec_log(sum[v]);
			for (uint32_t j = 0; j < w->d; j++)
				odd += t.x[j][v] * 0.0;
			odd += most[v] * 0.0;
		}
		memcpy(ret + at, most, t.rows * sizeof(*ret));
		if (components)
			for (size_t i = 0; i < t.rows; i++)
				components[at + i] = (uint8_t)((int64_t *)of)[i];
		if (isnan(vec_sum(odd)))
			scores_mend(rows + at * w->d, t.rows, w->d, ret + at,
				    components ? components + at : NULL);
	}
}

TILE_TARGET static void exp_values(double *values, size_t n)
{
	for (size_t i = 0; i + TILE_LANES <= n; i += TILE_LANES) {
		vec v;
		memcpy(&v, values + i, sizeof(v));
		v = vec_exp(v);
		memcpy(values + i, &v, sizeof(v));
	}
}

TILE_TARGET static void log_values(double *values, size_t n)
{
	for (size_t i = 0; i + TILE_LANES <= n; i += TILE_LANES) {
		vec v;
		memcpy(&v, values + i, sizeof(v));
		v = vec_log(v);
		memcpy(values + i, &v, sizeof(v));
	}
}

const struct gmm_kernels TILE_KERNELS = {TILE_NAME, score_block, sum_block, exp_values, log_values};
