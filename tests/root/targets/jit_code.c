/* jit_code.c - makes code while it runs, and tells perf of it, as runtimes do.
 *
 *   jit_code map MS    /tmp/perf-PID.map from the beginning, removed at the end
 *   jit_code late MS   the same, written at the end, and left there
 *   jit_code link MS   a link there leads to the map: nothing is read through it
 *   jit_code dump MS   jit-PID.dump in the working folder
 *
 * The code has a frame pointer and no unwind rules; it calls back into the program. Prints its
 * process id. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sum;

__attribute__((noinline)) static void called_by_made(void)
{
	for (unsigned long i = 0; i < 20000; i++)
		sum += i;
}

/* push %rbp; mov %rsp,%rbp; mov $200000,%ecx; 1: dec %ecx; jnz 1b; movabs $F,%rax; call *%rax;
 * pop %rbp; ret */
static void (*make(size_t *ret_len))(void)
{
	uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x0d, 0x03, 0x00,
			  0xff, 0xc9, 0x75, 0xfc, 0x48, 0xb8, 0,    0,	  0,
			  0,	0,    0,    0,	  0,	0xff, 0xd0, 0x5d, 0xc3};
	void (*back)(void) = called_by_made;
	void (*made)(void);
	uint8_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(98);
	memcpy(code + 15, &back, sizeof(back));
	memcpy(at, code, sizeof(code));
	memcpy(&made, &at, sizeof(made));
	*ret_len = sizeof(code);
	return made;
}

static void write_map(const char *path, void (*made)(void), size_t len)
{
	FILE *f = fopen(path, "w");
	if (!f)
		exit(97);
	fprintf(f, "%lx %zx LazyCompile:*hot_made /srv/made.js:3:4\n", (unsigned long)made, len);
	fclose(f);
}

static void write_dump(void (*made)(void), size_t len)
{
	static const char name[] = "int Made.hot(int)";
	struct {
		uint32_t magic, version, total_size, machine, pad, pid;
		uint64_t time, flags;
		uint32_t id, size;
		uint64_t record_time;
		uint32_t record_pid, tid;
		uint64_t vma, address, code_size, index;
	} d = {.magic = 0x4a695444,
	       .version = 1,
	       .total_size = 40,
	       .machine = 62,
	       .pid = (uint32_t)getpid(),
	       .size = (uint32_t)(56 + sizeof(name) + len),
	       .address = (uint64_t)made,
	       .code_size = len};
	char path[64];
	snprintf(path, sizeof(path), "jit-%d.dump", getpid());
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, &d, sizeof(d)) != sizeof(d) ||
	    write(fd, name, sizeof(name)) != sizeof(name) ||
	    write(fd, (void *)made, len) != (ssize_t)len ||
	    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		exit(96);
	close(fd);
}

__attribute__((noinline)) static void run_made(void (*made)(void), long ms)
{
	struct timespec now = {0};
	while (now.tv_sec * 1000L + now.tv_nsec / 1000000L < ms) {
		made();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "map";
	char path[64], real[80];
	size_t len;
	void (*made)(void) = make(&len);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	snprintf(real, sizeof(real), "%s.real", path);
	printf("%d\n", getpid());
	fflush(stdout);
	if (!strcmp(how, "dump"))
		write_dump(made, len);
	if (!strcmp(how, "map"))
		write_map(path, made, len);
	if (!strcmp(how, "link")) {
		write_map(real, made, len);
		if (symlink(real, path))
			return 95;
	}
	run_made(made, argc > 2 ? atol(argv[2]) : 300);
	if (!strcmp(how, "late"))
		write_map(path, made, len);
	if (!strcmp(how, "map") || !strcmp(how, "link"))
		unlink(path);
	unlink(real);
	return 0;
}
