/* setting_json.c - what a run was made on as JSON: an object of lists of values by name. */
#include "detect/setting_json.h"

#include <errno.h>

#define VALUE_MOST (3 * SETTING_VALUE_BYTES) /* U+FFFD takes three */

json_t *setting_json(const struct setting *s)
{
	json_t *o = json_object();
	for (size_t i = 0; i < s->facts.len; i++) {
		const struct setting_fact *f = &s->facts.data[i];
		if (!json_object_get(o, f->name))
			json_object_set_new(o, f->name, json_array());
		json_array_append_new(json_object_get(o, f->name), json_string(f->value));
	}
	return o;
}

static int parse_values(struct setting *ret, const char *name, const json_t *list, struct err *e)
{
	size_t i;
	const json_t *v;
	if (!json_is_array(list))
		return err_set(e, EINVAL, "'%.32s' of 'setting' is no array", name);
	json_array_foreach (list, i, v) {
		if (!json_is_string(v) || json_string_length(v) > VALUE_MOST)
			return err_set(e, EINVAL,
				       "'%.32s' of 'setting' has what is no text of at most %d "
				       "bytes",
				       name, VALUE_MOST);
		setting_add(ret, name, json_string_value(v));
	}
	return 0;
}

int setting_parse(struct setting *ret, const json_t *o, struct err *e)
{
	const char *name;
	json_t *list;
	int rc = 0;
	if (o && !json_is_object(o))
		return err_set(e, EINVAL, "'setting' is no object");
	json_object_foreach ((json_t *)o, name, list) {
		rc = rc ? rc : parse_values(ret, name, list, e);
	}
	return rc;
}
