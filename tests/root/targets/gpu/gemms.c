/* gemms.c - matrix products through cuBLAS: prints "flop FUNCTION OPERATIONS" for each. One call
 * is invalid, and does nothing. */
#include <stdint.h>
#include <stdio.h>

int cublasSgemm_v2(void *, int, int, int, int, int, void *, void *, int, void *, int, void *,
		   void *, int);
int cublasDgemm_v2_64(void *, int, int, int64_t, int64_t, int64_t, void *, void *, int64_t, void *,
		      int64_t, void *, void *, int64_t);
int cublasGemmEx(void *, int, int, int, int, int, void *, void *, int, int, void *, int, int,
		 void *, void *, int, int, int, int);
int cublasHgemmStridedBatched(void *, int, int, int, int, int, void *, void *, int, int64_t, void *,
			      int, int64_t, void *, void *, int, int64_t, int);
int cublasSgemmBatched(void *, int, int, int, int, int, void *, void *, int, void *, int, void *,
		       void *, int, int);
int cublasGemmBatchedEx(void *, int, int, int, int, int, void *, void *, int, int, void *, int, int,
			void *, void *, int, int, int, int, int);
int cublasGemmStridedBatchedEx(void *, int, int, int, int, int, void *, void *, int, int, int64_t,
			       void *, int, int, int64_t, void *, void *, int, int, int64_t, int,
			       int, int);

enum { F32 = 0, F16 = 2, BF16 = 14, FP8 = 28 }; /* cudaDataType_t */

static void said(const char *function, int rc, uint64_t flop)
{
	if (!rc)
		printf("flop %s %llu\n", function, (unsigned long long)flop);
}

int main(void)
{
	void *z = NULL;
	said("cublasSgemm_v2", cublasSgemm_v2(z, 0, 1, 3, 5, 7, z, z, 3, z, 7, z, z, 3), 210);
	said("cublasSgemm_v2", cublasSgemm_v2(z, 0, 1, -3, 5, 7, z, z, 3, z, 7, z, z, 3), 0);
	said("cublasDgemm_v2_64",
	     cublasDgemm_v2_64(z, 0, 0, 1LL << 33, 3, 5, z, z, 1, z, 1, z, z, 1), 30LL << 33);
	said("cublasGemmEx",
	     cublasGemmEx(z, 1, 0, 11, 13, 17, z, z, BF16, 9, z, BF16, 9, z, z, F32, 9, 68, -1),
	     2 * 11 * 13 * 17);
	said("cublasHgemmStridedBatched",
	     cublasHgemmStridedBatched(z, 0, 0, 2, 3, 4, z, z, 9, 8, z, 9, 8, z, z, 9, 8, 6),
	     2 * 2 * 3 * 4 * 6);
	said("cublasSgemmBatched", cublasSgemmBatched(z, 0, 0, 2, 3, 4, z, z, 9, z, 9, z, z, 9, 7),
	     2 * 2 * 3 * 4 * 7);
	said("cublasGemmBatchedEx",
	     cublasGemmBatchedEx(z, 0, 0, 2, 3, 4, z, z, F16, 9, z, F16, 9, z, z, F16, 9, 5, 68,
				 -1),
	     2 * 2 * 3 * 4 * 5);
	said("cublasGemmStridedBatchedEx",
	     cublasGemmStridedBatchedEx(z, 0, 0, 2, 3, 4, z, z, FP8, 9, 8, z, FP8, 9, 8, z, z, F16,
					9, 8, 9, 68, -1),
	     2 * 2 * 3 * 4 * 9);
	return 0;
}
