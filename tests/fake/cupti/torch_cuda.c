/* torch_cuda.c - a libtorch_cuda.so that has PyTorch's counters of pools of memory, and no more:
 * at::cuda::MemPool's uid_ and uuid_, as they are where no pool was made. */
#include <stdint.h>

extern uint64_t next_of_users __asm__("_ZN2at4cuda7MemPool4uid_E");
extern uint64_t next_of_graphs __asm__("_ZN2at4cuda7MemPool5uuid_E");

uint64_t next_of_users = 1;
uint64_t next_of_graphs = 1;
