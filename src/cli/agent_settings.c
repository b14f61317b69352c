/* agent_settings.c - secrets are in headers alone: tokens and keys are told by the files that they
 * are in, and an address with a user is refused (serve/http_url.h). */
#include "cli/agent_settings.h"

#include <string.h>

#include "base/utf8.h"

#define HIDDEN "(not shown)"

static bool is_header(const char *option)
{
	static const char end[] = "-header";
	size_t len = strlen(option);
	return len >= sizeof(end) - 1 && !strcmp(option + len - (sizeof(end) - 1), end);
}

static json_t *value_json(const struct opt_def *def, const char *value)
{
	struct buf text = {0};
	size_t shown = strlen(value);
	if (is_header(def->name)) {
		const char *sign = strchr(value, '=');
		shown = sign ? (size_t)(sign - value) + 1 : 0;
	}
	utf8_append(&text, value, shown);
	if (is_header(def->name))
		buf_printf(&text, HIDDEN);
	json_t *ret = json_stringn((const char *)text.data, text.len);
	buf_free(&text);
	return ret;
}

static json_t *values_json(const struct args *a, const struct opt_def *def)
{
	json_t *ret = json_array();
	for (size_t i = 0; i < args_count(a, def->name); i++)
		json_array_append_new(ret, value_json(def, args_nth(a, def->name, i)));
	return ret;
}

json_t *agent_settings_json(const struct args *a, const char *file)
{
	json_t *list = json_array();
	for (const struct opt_def *def = a->command->options; def->name; def++)
		json_array_append_new(list, json_pack("{s:s, s:b, s:o, s:s}", "name", def->name,
						      "told", args_has(a, def->name), "values",
						      values_json(a, def), "help", def->help));
	return json_pack("{s:o, s:o}", "file", file ? json_string(file) : json_null(), "options",
			 list);
}
