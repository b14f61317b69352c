/* options.c - parses a command line by the command's option table. */
#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"

static const struct opt_def help_option = {'h', "help", NULL, "Show this help and end.", NULL, 0};

static const struct opt_def *option_by_letter(const struct command *cmd, char letter)
{
	for (const struct opt_def *o = cmd->options; o && o->name; o++)
		if (o->letter == letter)
			return o;
	return letter == 'h' ? &help_option : NULL;
}

static const struct opt_def *option_by_name(const struct command *cmd, const char *name, size_t len)
{
	for (const struct opt_def *o = cmd->options; o && o->name; o++)
		if (strlen(o->name) == len && !memcmp(o->name, name, len))
			return o;
	return len == 4 && !memcmp(name, "help", 4) ? &help_option : NULL;
}

/* Optimal string alignment distance; words longer than 31 characters never match. */
static unsigned edit_distance(const char *a, const char *b)
{
	unsigned d[32][32];
	size_t n = strlen(a), m = strlen(b);
	if (n > 31 || m > 31)
		return 99;
	for (size_t i = 0; i <= n; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= m; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		for (size_t j = 1; j <= m; j++) {
			unsigned best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			if (d[i - 1][j] + 1 < best)
				best = d[i - 1][j] + 1;
			if (d[i][j - 1] + 1 < best)
				best = d[i][j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    d[i - 2][j - 2] + 1 < best)
				best = d[i - 2][j - 2] + 1;
			d[i][j] = best;
		}
	}
	return d[n][m];
}

bool name_is_among(const char *name, const char *const *names, size_t n)
{
	size_t i = 0;
	while (i < n && strcmp(names[i], name) != 0)
		i++;
	return i < n;
}

const char *closest_name(const char *word, const char *const *names, size_t n)
{
	const char *best = NULL;
	unsigned best_distance = 99;
	size_t len = strlen(word);
	for (size_t i = 0; i < n; i++) {
		unsigned distance = edit_distance(word, names[i]);
		/* A word that is the beginning of a name is as good as one mistake. */
		if (len >= 3 && !strncmp(word, names[i], len))
			distance = 1;
		if (distance < best_distance) {
			best_distance = distance;
			best = names[i];
		}
	}
	unsigned allowed = len <= 3 ? 1 : len <= 6 ? 2 : 3;
	return best_distance <= allowed ? best : NULL;
}

static int unknown_option(const struct command *cmd, const char *arg, size_t len, struct err *e)
{
	VEC(const char *) names = {0};
	for (const struct opt_def *o = cmd->options; o && o->name; o++)
		*vec_push(&names) = o->name;
	*vec_push(&names) = "help";
	char word[64] = "";
	if (len > 2 && arg[1] == '-')
		snprintf(word, sizeof(word), "%.*s", (int)(len - 2), arg + 2);
	const char *meant = word[0] ? closest_name(word, names.data, names.len) : NULL;
	vec_free(&names);
	if (meant)
		return err_set(e, EINVAL, "unknown option '%.*s', did you mean '--%s'?", (int)len,
			       arg, meant);
	return err_set(e, EINVAL, "unknown option '%.*s'", (int)len, arg);
}

static bool choice_allowed(const char *choices, const char *value)
{
	size_t len = strlen(value);
	for (const char *p = choices; *p;) {
		size_t n = strcspn(p, "|");
		if (n == len && !memcmp(p, value, n))
			return true;
		p += n + (p[n] == '|');
	}
	return false;
}

/* Adds an option that was found; shown is how the user wrote it. */
static int add_option(struct args *a, const struct opt_def *o, const char *value, const char *shown,
		      struct err *e)
{
	for (size_t i = 0; !(o->flags & OPT_REPEAT) && i < a->options.len; i++)
		if (a->options.data[i].def == o)
			return err_set(e, EINVAL, "option '%s' is given twice", shown);
	if (o->value && o->choices && !(o->flags & OPT_LIST) && value &&
	    !choice_allowed(o->choices, value))
		return err_set(e, EINVAL, "option '%s' takes one of %s, not '%s'", shown,
			       o->choices, value);
	typeof(a->options.data) entry = vec_push(&a->options);
	entry->def = o;
	entry->value = value ? value : "";
	return 0;
}

/* --name, --name=VALUE, --name VALUE; *i moves on when the next word is used. */
static int parse_long(struct args *a, int argc, char **argv, int *i, struct err *e)
{
	char *arg = argv[*i];
	size_t len = strcspn(arg, "=");
	const struct opt_def *o = option_by_name(a->command, arg + 2, len - 2);
	if (!o)
		return unknown_option(a->command, arg, len, e);
	if (o == &help_option)
		return 1;
	char shown[64];
	snprintf(shown, sizeof(shown), "--%s", o->name);
	const char *value = arg[len] == '=' ? arg + len + 1 : NULL;
	if (!o->value && value)
		return err_set(e, EINVAL, "option '%s' takes no value", shown);
	if (o->value && !value && !(o->flags & OPT_OPTIONAL_VALUE)) {
		if (*i + 1 >= argc)
			return err_set(e, EINVAL, "option '%s' needs a value: %s", shown, o->value);
		value = argv[++*i];
	}
	return add_option(a, o, value, shown, e);
}

/* -x, -xVALUE, -x VALUE, -xyz for several flags. */
static int parse_letters(struct args *a, int argc, char **argv, int *i, struct err *e)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		char shown[3] = {'-', *p, 0};
		const struct opt_def *o = option_by_letter(a->command, *p);
		if (!o)
			return unknown_option(a->command, shown, 2, e);
		if (o == &help_option)
			return 1;
		if (!o->value || (o->flags & OPT_OPTIONAL_VALUE)) {
			int rc = add_option(a, o, NULL, shown, e);
			if (rc)
				return rc;
			continue;
		}
		const char *value = p[1] ? p + 1 : NULL;
		if (!value && *i + 1 >= argc)
			return err_set(e, EINVAL, "option '%s' needs a value: %s", shown, o->value);
		if (!value)
			value = argv[++*i];
		return add_option(a, o, value, shown, e);
	}
	return 0;
}

static int check_words(const struct args *a, struct err *e)
{
	const struct command *cmd = a->command;
	if ((int)a->words.len < cmd->min_args)
		return err_set(e, EINVAL, "too few arguments: usage is 'eacgm %s %s'", cmd->name,
			       cmd->synopsis);
	if (cmd->max_args < 0 || (int)a->words.len <= cmd->max_args)
		return 0;
	const char *word = a->words.data[cmd->max_args];
	if (cmd->takes_rest)
		return err_set(e, EINVAL, "unexpected argument '%s': a command comes after '--'",
			       word);
	return err_set(e, EINVAL, "unexpected argument '%s'", word);
}

int args_parse(struct args *a, const struct command *cmd, int argc, char **argv, struct err *e)
{
	*a = (struct args){.command = cmd};
	for (int i = 0; i < argc; i++) {
		int rc = 0;
		if (!strcmp(argv[i], "--")) {
			if (!cmd->takes_rest) {
				while (++i < argc)
					*vec_push(&a->words) = argv[i];
				break;
			}
			a->rest = argv + i + 1;
			a->rest_len = (size_t)(argc - i - 1);
			if (!a->rest_len)
				return err_set(e, EINVAL, "no command after '--'");
			break;
		}
		if (argv[i][0] == '-' && argv[i][1] == '-')
			rc = parse_long(a, argc, argv, &i, e);
		else if (argv[i][0] == '-' && argv[i][1])
			rc = parse_letters(a, argc, argv, &i, e);
		else
			*vec_push(&a->words) = argv[i];
		if (rc)
			return rc;
	}
	return check_words(a, e);
}

void args_free(struct args *a)
{
	vec_free(&a->options);
	vec_free(&a->words);
}

static const struct opt_def *known_option(const struct args *a, const char *name)
{
	const struct opt_def *o = option_by_name(a->command, name, strlen(name));
	if (!o) {
		fprintf(stderr, "eacgm: the table of '%s' has no option '%s'\n", a->command->name,
			name);
		abort();
	}
	return o;
}

size_t args_count(const struct args *a, const char *name)
{
	const struct opt_def *o = known_option(a, name);
	size_t n = 0;
	for (size_t i = 0; i < a->options.len; i++)
		n += a->options.data[i].def == o;
	return n;
}

const char *args_nth(const struct args *a, const char *name, size_t nth)
{
	const struct opt_def *o = known_option(a, name);
	for (size_t i = 0; i < a->options.len; i++)
		if (a->options.data[i].def == o && !nth--)
			return a->options.data[i].value;
	return NULL;
}

const char *args_get(const struct args *a, const char *name)
{
	size_t n = args_count(a, name);
	return n ? args_nth(a, name, n - 1) : NULL;
}

bool args_has(const struct args *a, const char *name)
{
	return args_count(a, name) > 0;
}

bool args_same(const struct args *a, const struct args *b, const char *name)
{
	size_t n = args_count(a, name);
	if (n != args_count(b, name))
		return false;
	for (size_t i = 0; i < n; i++)
		if (strcmp(args_nth(a, name, i), args_nth(b, name, i)) != 0)
			return false;
	return true;
}

const char *args_first(const struct args *a, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (args_has(a, names[i]))
			return names[i];
	return NULL;
}

int args_u64(const struct args *a, const char *name, uint64_t min, uint64_t max, uint64_t *ret,
	     struct err *e)
{
	const char *text = args_get(a, name);
	if (!text)
		return 0;
	errno = 0;
	char *end = NULL;
	/* strtoull takes "-1" and " 1"; a number here begins with a digit. */
	unsigned long long v = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
	if (!end || *end || errno || v < min || v > max)
		return err_set(e, EINVAL, "option '--%s' takes a number of %llu to %llu, not '%s'",
			       name, (unsigned long long)min, (unsigned long long)max, text);
	*ret = v;
	return 0;
}

int args_real(const struct args *a, const char *name, double min, double max, double *ret,
	      struct err *e)
{
	const char *text = args_get(a, name);
	char *end = NULL;
	if (!text)
		return 0;
	/* strtod takes "nan", "inf", " 1" and "0x1": a number here is written in digits. */
	double v = strspn(text, "0123456789+-.eE") == strlen(text) ? strtod(text, &end) : 0;
	if (!end || end == text || *end || !(v >= min && v <= max))
		return err_set(e, EINVAL, "option '--%s' takes a number of %g to %g, not '%s'",
			       name, min, max, text);
	*ret = v;
	return 0;
}

bool time_of_text(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"", 1e9},	 {"ns", 1},   {"us", 1e3},  {"ms", 1e6},
		     {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
	/* As for args_real; what remains is the unit. */
	char *end = NULL;
	double v = text[0] == '.' || (text[0] >= '0' && text[0] <= '9') ? strtod(text, &end) : 0;
	if (!end || end == text || strspn(text, "0123456789+-.eE") < (size_t)(end - text))
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name) != 0 ||
		    !(v * units[i].ns <= (double)TIME_TEXT_MOST_NS))
			continue;
		*ret_ns = (uint64_t)(v * units[i].ns + 0.5);
		return true;
	}
	return false;
}

int args_time(const struct args *a, const char *name, uint64_t min_ns, uint64_t max_ns,
	      uint64_t *ret_ns, struct err *e)
{
	const char *text = args_get(a, name);
	uint64_t ns;
	if (!text)
		return 0;
	if (!time_of_text(text, &ns) || ns < min_ns || ns > max_ns)
		return err_set(e, EINVAL,
			       "option '--%s' takes a time of %g to %g s, as 1.5, 20ms or 3m, not "
			       "'%s'",
			       name, (double)min_ns / 1e9, (double)max_ns / 1e9, text);
	*ret_ns = ns;
	return 0;
}

int usage_error(const struct command *cmd, const char *fmt, ...)
{
	va_list ap;
	char text[1024];
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_printf(stderr, "eacgm %s: %s (see 'eacgm %s --help')\n", cmd->name, text, cmd->name);
	return EXIT_USAGE;
}

int command_failed(const struct command *cmd, const struct err *e)
{
	text_printf(stderr, "eacgm %s: %s\n", cmd->name, e->msg);
	return 1;
}
