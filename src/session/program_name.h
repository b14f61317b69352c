/* program_name.h - what people call the program of a command line. */
#pragma once

/* "train.py" of "python3 -u /job/train.py --lr 1", also behind mpirun or env; "python3 -m pytest"
 * of that, "python3 -c"; else the file's name. Of other arguments nothing. malloc'ed. */
char *program_name_of(char *const *argv);
