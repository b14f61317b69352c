/* exceptions.cc - throws C++ exceptions through traced functions, N times each way.
 *
 *   exceptions N          all ways below, in order
 *   exceptions uncaught   one exception that nobody catches: ends by std::terminate
 *   exceptions noexcept   one that meets noexcept: the same
 *
 * Every trace_* function is to be traced. Prints "FUNCTION CALLS" for each, then
 * "sum S": S is made from every step taken, so a step lost or doubled changes it. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#define TRACED extern "C" __attribute__((noinline, visibility("default")))

namespace
{
struct failure : std::runtime_error {
	explicit failure(int n) : std::runtime_error("failure " + std::to_string(n)), number(n)
	{
	}
	int number;
};

thread_local uint64_t sum = 1;
thread_local long counts[8];
const char *const names[8] = {"trace_throw", "trace_pass",    "trace_catch", "trace_rethrow",
			      "trace_clean", "trace_cleanup", "trace_plain", "trace_filter"};
enum { THROW, PASS, CATCH, RETHROW, CLEAN, CLEANUP, PLAIN, FILTER };

void step(uint64_t what)
{
	sum = sum * 1000003 + what;
}
} // namespace

TRACED int trace_plain(int n)
{
	counts[PLAIN]++;
	step(1);
	return n + 1;
}

TRACED int trace_throw(int n)
{
	counts[THROW]++;
	step(2);
	if (n >= 0)
		throw failure(n);
	return n;
}

/* Frames between the throw and the catch, nested. */
TRACED int trace_pass(int n, int frames)
{
	counts[PASS]++;
	int got = frames > 1 ? trace_pass(n, frames - 1) : trace_throw(n);
	step(3);
	return got + 1;
}

TRACED int trace_catch(int n, int frames)
{
	counts[CATCH]++;
	try {
		return trace_pass(n, frames);
	} catch (const failure &f) {
		step(4 + static_cast<uint64_t>(f.number));
		return trace_plain(f.number);
	}
}

TRACED int trace_rethrow(int n)
{
	counts[RETHROW]++;
	try {
		trace_pass(n, 2);
	} catch (const failure &) {
		trace_plain(n);
		step(5);
		throw;
	}
	return 0;
}

TRACED void trace_cleanup(int n)
{
	counts[CLEANUP]++;
	/* A destructor that itself throws and catches while an exception is on its way. */
	if (n % 3 == 0)
		trace_catch(n, 2);
	step(6);
}

namespace
{
struct cleaner {
	int n;
	~cleaner()
	{
		trace_cleanup(n);
	}
};
} // namespace

TRACED int trace_clean(int n)
{
	counts[CLEAN]++;
	cleaner a{n};
	cleaner b{n + 1};
	return trace_rethrow(n) + trace_plain(n);
}

/* Catches by type: the first handlers do not fit. */
TRACED int trace_filter(int n)
{
	counts[FILTER]++;
	try {
		trace_clean(n);
	} catch (const std::logic_error &) {
		step(7);
	} catch (const std::string &) {
		step(8);
	} catch (const std::exception &e) {
		step(9 + strlen(e.what()));
	}
	return trace_plain(n);
}

namespace
{
void one_round(int n)
{
	trace_catch(n, 1);
	trace_catch(n, 5);
	trace_catch(-1 - n, 3); /* no exception */
	trace_filter(n);
	try {
		trace_clean(n);
	} catch (...) {
		step(10);
	}
	trace_plain(n);
}

/* Thrown in one thread, rethrown and caught in another. */
void across_threads(int n)
{
	std::exception_ptr pointer;
	uint64_t their_sum = 0;
	long their_counts[8];
	std::thread([&] {
		try {
			trace_pass(n, 3);
		} catch (...) {
			pointer = std::current_exception();
		}
		their_sum = sum;
		memcpy(their_counts, counts, sizeof(counts));
	}).join();
	for (int i = 0; i < 8; i++)
		counts[i] += their_counts[i];
	step(their_sum);
	try {
		std::rethrow_exception(pointer);
	} catch (const failure &f) {
		step(static_cast<uint64_t>(trace_plain(f.number)));
	}
}

void on_terminate()
{
	puts("terminate");
	fflush(stdout);
	abort();
}

void rounds_at_once(int n)
{
	const int threads = 3;
	std::vector<std::thread> all;
	uint64_t sums[threads];
	long parts[threads][8];
	for (int t = 0; t < threads; t++)
		all.emplace_back([&, t] {
			for (int i = 0; i < n; i++)
				one_round(i * 3 + t);
			sums[t] = sum;
			memcpy(parts[t], counts, sizeof(counts));
		});
	for (int t = 0; t < threads; t++) {
		all[static_cast<size_t>(t)].join();
		step(sums[t]);
		for (int i = 0; i < 8; i++)
			counts[i] += parts[t][i];
	}
}

// NOLINTNEXTLINE(bugprone-exception-escape): what is tested
void ignore_all(int n) noexcept
{
	trace_pass(n, 2);
}
} // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): what is tested
int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	std::set_terminate(on_terminate);
	if (!strcmp(argv[1], "uncaught"))
		trace_pass(1, 3);
	if (!strcmp(argv[1], "noexcept"))
		ignore_all(1);
	int n = atoi(argv[1]);
	for (int i = 0; i < n; i++)
		one_round(i);
	rounds_at_once(n / 4);
	for (int i = 0; i < n / 10; i++)
		across_threads(i);
	for (int i = 0; i < 8; i++)
		printf("%s %ld\n", names[i], counts[i]);
	printf("sum %016llx\n", static_cast<unsigned long long>(sum));
	return 0;
}
