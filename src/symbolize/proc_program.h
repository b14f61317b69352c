/* proc_program.h - what a process runs, in the words of its command line (base/program_name.h). */
#pragma once

#include <sys/types.h>

/* Of an interpreter "train.py", "python3 -m pytest"; of a worker of Python's multiprocessing, whose
 * own command line names no script, its parent's: "train.py, spawn worker", "train.py, forkserver
 * worker". NULL: nothing that is named. malloc'ed; root is "/proc" but for tests. */
char *proc_script(const char *root, pid_t pid);
#define PROC_FORKSERVER ", forkserver" /* so ends that of one whose children are workers */

/* The words of its command line, a space between each two, of 4,095 bytes at most; of a worker of
 * Python's multiprocessing its parent's. "" where it is gone. malloc'ed; root as above. */
char *proc_command_line(const char *root, pid_t pid);

/* Its script, or else what it calls itself; "" where it is gone. malloc'ed. */
char *proc_program(const char *root, pid_t pid);
