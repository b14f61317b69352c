/* libcublas.c - cuBLAS as tests play it: the functions that multiply, with NVIDIA's parameters.
 * They do nothing; a size below zero is invalid, as there. */
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 7 };

/* Parameters by their type alone: h handle, o operation, p pointer, i int, f type, s stride. */
typedef void *h, *p;
typedef int o, i, f;
typedef int64_t s;

static int check(int64_t m, int64_t n, int64_t k)
{
	return m < 0 || n < 0 || k < 0 ? INVALID_VALUE : SUCCESS;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int cublasSgemm_v2(h c, o ta, o tb, i m, i n, i k, p alpha, p A, i lda, p B, i ldb, p beta, p C,
		   i ldc)
{
	return check(m, n, k);
}

int cublasDgemm_v2_64(h c, o ta, o tb, s m, s n, s k, p alpha, p A, s lda, p B, s ldb, p beta, p C,
		      s ldc)
{
	return check(m, n, k);
}

int cublasGemmEx(h c, o ta, o tb, i m, i n, i k, p alpha, p A, f At, i lda, p B, f Bt, i ldb,
		 p beta, p C, f Ct, i ldc, i compute, i algo)
{
	return check(m, n, k);
}

int cublasHgemmStridedBatched(h c, o ta, o tb, i m, i n, i k, p alpha, p A, i lda, s sa, p B, i ldb,
			      s sb, p beta, p C, i ldc, s sc, i batch)
{
	return check(m, n, k);
}

int cublasSgemmBatched(h c, o ta, o tb, i m, i n, i k, p alpha, p A, i lda, p B, i ldb, p beta, p C,
		       i ldc, i batch)
{
	return check(m, n, k);
}

int cublasGemmBatchedEx(h c, o ta, o tb, i m, i n, i k, p alpha, p A, f At, i lda, p B, f Bt, i ldb,
			p beta, p C, f Ct, i ldc, i batch, i compute, i algo)
{
	return check(m, n, k);
}

int cublasGemmStridedBatchedEx(h c, o ta, o tb, i m, i n, i k, p alpha, p A, f At, i lda, s sa, p B,
			       f Bt, i ldb, s sb, p beta, p C, f Ct, i ldc, s sc, i batch,
			       i compute, i algo)
{
	return check(m, n, k);
}
