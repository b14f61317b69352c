/* profile_sample.h - a small recording with stacks, the same content every time.
 *
 * For tests of whatever reads profiles. Times are PROFILE_T0 + what is said here. What is in
 * it: one process, 700 python3, threads "main" and "pt_autograd_0", from 0 to 10 s, 100 Hz.
 *
 * Stacks (root first; Python frames in /job/train.py):
 *   ADDMM     _start > Py_RunMain(interpreter) > main@50 > eval(interpreter) > train@20 >
 *             call(interpreter) > at::_ops::addmm::call > sgemm (no name: libblas)
 *   LOADER    the same to main@50 > eval > load@33 > call > read > do_syscall_64 (kernel)
 *   BACKWARD  clone3 > at::_ops::mm::call
 *   CUT       cut no_rules > at::_ops::mm::call
 *   LAUNCH    as ADDMM to at::_ops::addmm::call > cuLaunchKernel
 *   ALLOC     as ADDMM to train@20 > call > cuMemAlloc_v2
 * Samples of 10 ms: 600 ADDMM, 300 LOADER on main; 90 BACKWARD, 9 CUT, 1 without a stack on
 *   pt_autograd_0. Waits on main: 20 of 50 ms for the GIL in ADDMM, woken by pt_autograd_0; 5
 *   of 100 ms for the disk in LOADER.
 * Launches: 640 of sgemm_128x128, each 64th with stack LAUNCH; spans of 1 ms each, and a copy of
 *   3 ms that nobody launched.
 * Memory: 1 MiB at 0x1000 from ALLOC, freed; then 3 MiB at 0x2000 from ALLOC, kept; 64 KiB
 *   pinned without a stack. */
#pragma once

#include "base/error.h"

#define PROFILE_T0 1000000000000ULL

/* Writes it to path, replacing what was there. 0, or negative errno with the sentence. */
int profile_sample_write(const char *path, struct err *e);
