/* program_name.h - what people call the program of a command line. */
#pragma once

#include <stdbool.h>

/* "train.py" of "python3 -u /job/train.py --lr 1", also behind mpirun or env; "python3 -m pytest"
 * of that, "python3 -c"; else the file's name. Of other arguments nothing. malloc'ed. */
char *program_name_of(char *const *argv);

/* Of one process: what its interpreter runs, "train.py", "python3 -m pytest"; NULL where the
 * program is no interpreter, or runs nothing that has a name (-c, a shell at a terminal). */
char *program_script_of(char *const *argv);

/* What of Python's multiprocessing runs there, whose command lines are a text of its own: "spawn
 * worker", "forkserver", "resource tracker"; NULL: it is something else. */
const char *program_worker_of(char *const *argv);

/* "/usr/bin/python3.11", "sh" */
bool program_is_interpreter(const char *path);
