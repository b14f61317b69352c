/* unwind_throws.cc - throws and catches C++ exceptions all the time, through frames with and
 * without clean-ups, until it is ended. For unwinders to be compared on. */
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

static volatile long sink;

struct clean_up {
	std::string text;
	explicit clean_up(int n) : text(static_cast<size_t>(n), 'x')
	{
	}
	~clean_up()
	{
		sink = sink + static_cast<long>(text.size());
	}
};

__attribute__((noinline)) static int fails(int depth)
{
	clean_up c(depth % 40);
	if (!depth)
		throw std::runtime_error("at the bottom");
	if (depth % 5 == 2) {
		try {
			return fails(depth - 1) + 1;
		} catch (const std::logic_error &) {
			return 0;
		}
	}
	if (depth % 7 == 3) {
		try {
			return fails(depth - 1);
		} catch (const std::exception &e) {
			sink = sink + e.what()[0];
			throw;
		}
	}
	std::function<int(int)> f = [&](int n) {
		return fails(n) + static_cast<int>(c.text.size());
	};
	return f(depth - 1);
}

int main()
{
	for (;;) {
		for (int depth = 0; depth < 25; depth++) {
			try {
				sink = sink + fails(depth);
			} catch (const std::exception &e) {
				std::vector<int> v(static_cast<size_t>(depth + 1), depth);
				sink = sink + v.back() + e.what()[1];
			}
		}
	}
}
