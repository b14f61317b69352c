/* cpython_frames_test.c - frames of CPython: offsets against the installed headers and made-up
 * images, and the stacks of every thread of every interpreter installed here, walked from
 * outside as the BPF programs do and compared with what the interpreter says of itself.
 *
 * links: base symbolize */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <cmocka.h>

#include "interpreters.h"
#include "symbolize/cpython.h"
#include "symbolize/cpython_frames.h"
#include "symbolize/proc_maps.h"

/* ---- stacks of live interpreters ---- */

/* Each thread runs its work until it is warm (calls are specialised), then once more with
 * `hot` set, where wait() blocks. The main thread then prints "T ident" and "F name line" for
 * each frame, "E", and blocks in read() on the same line. */
static const char script[] = SAY_VERSION
	"import functools, threading, time\n"
	"local = threading.local()\n"
	"never = threading.Lock()\n"
	"never.acquire()\n"
	"def wait(*args):\n"
	"    if getattr(local, 'hot', False):\n"
	"        never.acquire()\n"
	"    return 1\n"
	"def second(a, b): return wait(a, b)\n"
	"def nested():\n"
	"    return second(\n"
	"        1,\n"
	"        second(\n"
	"            2,\n"
	"            wait(3),\n"
	"        ),\n"
	"    )\n"
	"def multi_line():\n"
	"    return (\n"
	"        1 +\n"
	"        second(\n"
	"            2,\n"
	"            3,\n"
	"        )\n"
	"        + 4\n"
	"    )\n"
	"def generator():\n"
	"    yield 0\n"
	"    yield (\n"
	"        wait())\n"
	"def loop():\n"
	"    for _ in generator():\n"
	"        pass\n"
	"def delegating():\n"
	"    yield from generator()\n"
	"def delegated(): return list(delegating())\n"
	"def expression(): return sum(x +\n"
	"    wait() for x in range(3))\n"
	"def comprehension(): return [wait()\n"
	"    for _ in range(2)]\n"
	"def dictionary(): return {k:\n"
	"    [wait() for v in range(2)] for k in range(2)}\n"
	"def callback():\n"
	"    return sorted([2, 1],\n"
	"        key=lambda v: wait(v))\n"
	"def partial(): return functools.partial(second, 1)(2)\n"
	"def mapped(): return list(map(lambda v: wait(v), [1]))\n"
	"class Object:\n"
	"    def __init__(self):\n"
	"        self.x = wait()\n"
	"    def __call__(self): return wait()\n"
	"    def __getattr__(self, name): return wait(name)\n"
	"    def __add__(self, other): return wait(other)\n"
	"    def __enter__(self): return self\n"
	"    def __exit__(self, *args):\n"
	"        wait()\n"
	"    @property\n"
	"    def attribute(self): return wait()\n"
	"class Quiet(Object):\n"
	"    def __init__(self): pass\n"
	"quiet = Quiet()\n"
	"def constructed(): return Object()\n"
	"def called(): return quiet()\n"
	"def attribute(): return quiet.missing\n"
	"def prop(): return quiet.attribute\n"
	"def added(): return quiet + 1\n"
	"def with_statement():\n"
	"    with quiet:\n"
	"        x = 1\n"
	"def class_body():\n"
	"    class Inner:\n"
	"        x = wait()\n"
	"    return Inner\n"
	"def recursive(n=60): return wait() if n == 0 else recursive(n - 1)\n"
	"def spread(): return second(*(1, 2), **{})\n"
	"def failing():\n"
	"    try:\n"
	"        raise ValueError\n"
	"    except ValueError:\n"
	"        return wait()\n"
	"    finally:\n"
	"        pass\n"
	"async def awaited():\n"
	"    return wait()\n"
	"async def coroutine():\n"
	"    return await awaited()\n"
	"def asynchronous():\n"
	"    try:\n"
	"        coroutine().send(None)\n"
	"    except StopIteration:\n"
	"        pass\n"
	"code = compile('\\n\\n\\nwait()', 'elsewhere', 'exec')\n"
	"def executed(): exec(code)\n"
	"def run(work):\n"
	"    for _ in range(60):\n"
	"        work()\n"
	"    local.hot = True\n"
	"    work()\n"
	"works = [nested, multi_line, loop, delegated, expression, comprehension, dictionary,\n"
	"    callback, partial, mapped, constructed, called, attribute, prop, added,\n"
	"    with_statement, class_body, recursive, spread, failing, asynchronous, executed]\n"
	"threads = [threading.Thread(target=run, args=(w,), daemon=True) for w in works]\n"
	"for t in threads: t.start()\n"
	"def blocked(frame):\n"
	"    code = wait.__code__\n"
	"    return frame.f_code is code and frame.f_lineno == code.co_firstlineno + 2\n"
	"while not all(blocked(sys._current_frames()[t.ident]) for t in threads):\n"
	"    time.sleep(0.01)\n"
	"def stack(ident, frame):\n"
	"    text = 'T %d\\n' % ident\n"
	"    while frame:\n"
	"        c = frame.f_code\n"
	"        text += 'F %s %d\\n' % (getattr(c, 'co_qualname', c.co_name), frame.f_lineno)\n"
	"        frame = frame.f_back\n"
	"    return text\n"
	"def report(frame):\n"
	"    frames = sys._current_frames()\n"
	"    text = stack(threading.get_ident(), frame)\n"
	"    return text + ''.join(stack(t.ident, frames[t.ident]) for t in threads) + 'E\\n'\n"
	"def finish(out, read):\n"
	"    out.write(report(sys._getframe())); out.flush(); read()\n"
	"finish(sys.stdout, sys.stdin.read)\n";

struct target {
	pid_t pid;
	uint32_t version;
	uint64_t runtime;
	struct py_layout layout;
	struct py_frames frames;
	struct py_lines_layout lines;
};

static void peek_bytes(const struct target *t, uint64_t address, void *ret, size_t len)
{
	struct iovec local = {ret, len}, remote = {(void *)address, len};

	assert_int_equal(process_vm_readv(t->pid, &local, 1, &remote, 1, 0), len);
}

static uint64_t peek(const struct target *t, uint64_t address, size_t size)
{
	uint64_t v = 0;

	peek_bytes(t, address, &v, size);
	return v;
}

/* The mapping that holds an interpreter; where its _PyRuntime is in the process. */
static struct elf_file *find_interpreter(struct target *t, const struct proc_map *m)
{
	struct elf_symbol runtime;
	struct elf_file *f;
	uint64_t bias;
	int fd, rc;
	struct err e;

	if (!m->executable || !m->inode)
		return NULL;
	fd = proc_map_open("/proc", t->pid, m, NULL);
	rc = fd < 0 ? fd : elf_file_open_fd(&f, fd, m->path, 0, &e);
	if (fd >= 0)
		close(fd);
	if (rc < 0)
		return NULL;
	if (cpython_present(f)) {
		assert_true(elf_file_find(f, "_PyRuntime", &runtime));
		assert_true(elf_segments_bias(elf_file_segments(f), m->start, m->end,
					      m->file_offset, &bias));
		t->runtime = runtime.address + bias;
		return f;
	}
	elf_file_close(f);
	return NULL;
}

/* Those of a free-threaded build are known from itself alone. */
static void check_own_offsets(const struct elf_file *f, struct target *t)
{
	struct py_lines_layout lines;
	struct elf_symbol runtime;
	struct py_frames told;
	const uint64_t *image;
	struct err e;

	assert_true(elf_file_find(f, "_PyRuntime", &runtime));
	image = elf_file_bytes(f, runtime.address, 1024);
	assert_non_null(image);
	assert_int_equal(cpython_frames_from_offsets(image, 1024, &told, &e), 0);
	if (image[2]) {
		assert_int_equal(cpython_layout_from_offsets(image, 1024, &t->layout, &e), 0);
		assert_int_equal(cpython_lines_layout_from_offsets(image, 1024, &t->lines, &e), 0);
		t->frames = told;
	}
	assert_memory_equal(&told, &t->frames, sizeof(told));
	assert_int_equal(cpython_lines_layout_from_offsets(image, 1024, &lines, &e), 0);
	assert_memory_equal(&lines, &t->lines, sizeof(lines));
}

static void open_target(struct target *ret, const struct interpreter *i)
{
	proc_maps_t maps = {0};
	struct elf_file *f = NULL;
	uint64_t ranges[4][2];
	struct err e;

	*ret = (struct target){.pid = i->pid, .version = i->version};
	assert_int_equal(proc_maps_read("/proc", i->pid, &maps, &e), 0);
	for (size_t m = 0; m < maps.len && !f; m++)
		f = find_interpreter(ret, &maps.data[m]);
	assert_non_null(f);
	assert_int_equal(cpython_layout(i->version, &ret->layout, &e), 0);
	assert_int_equal(cpython_frames(i->version, &ret->frames, &e), 0);
	assert_int_equal(cpython_lines_layout(i->version, &ret->lines, &e), 0);
	if (i->version >= 0x030d0000)
		check_own_offsets(f, ret);
	assert_true(cpython_eval_ranges(f, ranges, 4) > 0);
	elf_file_close(f);
	proc_maps_free(&maps);
}

/* The thread of the interpreters whose pthread_self() it is. */
static uint64_t find_thread(const struct target *t, uint64_t pthread)
{
	const struct py_frames *p = &t->frames;
	uint64_t interpreter = peek(t, t->runtime + p->interpreters_head, 8);

	for (; interpreter; interpreter = peek(t, interpreter + p->interpreter_next, 8)) {
		uint64_t thread = peek(t, interpreter + p->interpreter_threads, 8);

		for (; thread; thread = peek(t, thread + p->thread_next, 8)) {
			if (peek(t, thread + p->thread_pthread, 8) == pthread)
				return thread;
		}
	}
	return 0;
}

static uint64_t top_frame(const struct target *t, uint64_t thread)
{
	uint64_t frame = peek(t, thread + t->frames.thread_frame, 8);

	return t->frames.thread_indirect ? peek(t, frame + t->frames.indirect_frame, 8) : frame;
}

/* Bytes from the first instruction to the one that the frame runs or has run last. */
static uint32_t instruction_offset(const struct target *t, uint64_t frame, uint64_t code)
{
	const struct py_frames *p = &t->frames;
	uint64_t at = frame + p->frame_instruction;
	int64_t offset;

	if (p->instruction == PY_INSTR_POINTER)
		offset = peek(t, at, 8) - (code + p->code_instructions);
	else if (p->instruction == PY_LASTI_UNITS)
		offset = 2 * (int64_t)(int32_t)peek(t, at, 4);
	else
		offset = (int32_t)peek(t, at, 4);
	return offset < 0 ? 0 : offset;
}

static void read_ascii(const struct target *t, uint64_t str, char ret[128])
{
	uint64_t len = peek(t, str + t->layout.str_length, 8);

	assert_true(len < 128);
	peek_bytes(t, str + t->layout.str_ascii_data, ret, len);
	ret[len] = '\0';
}

static uint32_t line_of(const struct target *t, uint64_t frame, uint64_t code)
{
	uint64_t bytes = peek(t, code + t->lines.code_lines, 8);
	size_t len = peek(t, bytes + t->lines.bytes_size, 8);
	uint8_t *table = malloc(len + 1);
	uint32_t line;

	assert_non_null(table);
	peek_bytes(t, bytes + t->lines.bytes_data, table, len);
	line = cpython_line_at(t->version, table, len,
			       peek(t, code + t->layout.code_firstlineno, 4),
			       instruction_offset(t, frame, code));
	free(table);
	return line;
}

static bool is_shim(const struct target *t, uint64_t frame)
{
	return t->frames.boundary == PY_ENTRY_SHIM &&
	       peek(t, frame + t->frames.frame_boundary, 1) >= t->frames.shim_owner;
}

/* The next frame that holds Python code, and whether it was the last of its run. */
static uint64_t next_frame(const struct target *t, uint64_t frame, bool *ret_last)
{
	uint64_t next = peek(t, frame + t->frames.frame_previous, 8);

	*ret_last = t->frames.boundary == PY_ENTRY_ALWAYS ||
		    (t->frames.boundary == PY_ENTRY_FLAG &&
		     peek(t, frame + t->frames.frame_boundary, 1));
	while (next && is_shim(t, next)) {
		*ret_last = true;
		next = peek(t, next + t->frames.frame_previous, 8);
	}
	return next;
}

static uint64_t code_of(const struct target *t, uint64_t frame)
{
	uint64_t code = peek(t, frame + t->frames.frame_code, 8);

	return t->frames.code_tagged ? code & ~7ull : code;
}

static uint64_t skip_init_cleanup(const struct target *t, uint64_t frame)
{
	uint64_t code = code_of(t, frame);
	uint32_t first_line = peek(t, code + t->layout.code_firstlineno, 4);
	char name[128], file[128];

	read_ascii(t, peek(t, code + t->layout.code_name, 8), name);
	read_ascii(t, peek(t, code + t->layout.code_filename, 8), file);
	return cpython_is_init_cleanup(name, file, first_line)
		       ? peek(t, frame + t->frames.frame_previous, 8)
		       : frame;
}

static void describe_frame(const struct target *t, uint64_t frame, char *ret, size_t size)
{
	uint16_t name_at = t->layout.code_qualname ? t->layout.code_qualname : t->layout.code_name;
	uint64_t code = code_of(t, frame);
	char name[128];

	read_ascii(t, peek(t, code + name_at, 8), name);
	snprintf(ret, size, "F %s %u\n", name, line_of(t, frame, code));
}

/* wait() is always called by Python code and the lambdas by C; the bottom frame begins a run. */
static void check_boundary(const struct target *t, const char *line, bool last, bool bottom)
{
	if (bottom || strstr(line, "<lambda>"))
		assert_true(last);
	else if (strncmp(line, "F wait ", 7) == 0)
		assert_int_equal(last, t->version < 0x030b0000);
}

struct counts {
	int threads, runs, frames;
};

/* Compares a thread's stack with the "F" lines, and leaves the first line that is none. */
static void check_thread(const struct target *t, FILE *out, uint64_t pthread, char line[256],
			 struct counts *c)
{
	uint64_t thread = find_thread(t, pthread), frame;

	assert_int_not_equal(thread, 0);
	frame = top_frame(t, thread);
	while (fgets(line, 256, out) && line[0] == 'F') {
		char found[256] = "no frame";
		bool last = false;

		if (frame) {
			frame = skip_init_cleanup(t, frame);
			describe_frame(t, frame, found, sizeof(found));
			frame = next_frame(t, frame, &last);
		}
		assert_string_equal(found, line);
		check_boundary(t, line, last, frame == 0);
		c->frames++;
		c->runs += last;
	}
	assert_int_equal(frame, 0);
	c->threads++;
}

static void check_stacks(struct interpreter *i)
{
	struct counts c = {0};
	struct target t;
	char line[256];

	open_target(&t, i);
	assert_non_null(fgets(line, sizeof(line), i->out));
	while (line[0] == 'T')
		check_thread(&t, i->out, strtoull(line + 2, NULL, 10), line, &c);
	assert_string_equal(line, "E\n");
	print_message("%s: %d frames in %d runs of %d threads\n", i->path, c.frames, c.runs,
		      c.threads);
	assert_int_equal(c.threads, 23);
}

static void test_stacks(void **state)
{
	(void)state;
	if (!interpreters_each(script, check_stacks)) {
		print_message("skipped: no Python of 3.8 to 3.14 is installed\n");
		skip();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
